"""Logins on the metrics page: by listener and mechanism, of which clients can make no new ones."""

from pathlib import Path

import trio

from log_service.metrics.failure_counts import MAX_COUNTED_ADDRESSES, FailureCounts
from log_service.protocol.messages.api_versions import ApiVersionsRequest
from tests.helpers.authority import Authority
from tests.helpers.metrics_page import Page, fetch
from tests.unit.broker.configured_brokers import configured
from tests.unit.broker.context import HOST, PORT, RawClient, Story
from tests.unit.broker.logins.login_story import LISTENER, Guest, guest, plain, tell_of_logins

TLS_PORT = 9095
PREFIX = "kafka_server_socket_server_metrics_"


async def page_of(node: Story) -> Page:
    response = await fetch(node.world.client_env().network, HOST, 9404)
    chunks = response.partition("\r\n\r\n")[2]
    lines = [
        line
        for line in chunks.splitlines()
        if line.startswith((f"# TYPE {PREFIX}", f"# HELP {PREFIX}", PREFIX))
    ]
    return Page("\n".join(lines))


def of(page: Page, name: str, mechanism: str = "PLAIN") -> float:
    return page.of(
        f"{PREFIX}{name}", f'listener="GUARDED",networkProcessor="0",mechanism="{mechanism}"'
    )


def test_logins_are_counted_by_listener_and_mechanism() -> None:
    async def story(node: Story) -> None:
        for password in ("alice-secret", "wrong", "wrong"):
            await (await guest(node)).log_in(plain(password=password))
        for mechanism in ("GSSAPI", "mine", "yours"):
            await (await guest(node)).handshake(mechanism)
        page = await page_of(node)
        assert of(page, "successful_authentication_total") == 1
        assert of(page, "failed_authentication_total") == 2
        assert of(page, "failed_authentication_total", "") == 3
        assert of(page, "failed_authentication_total", "SCRAM-SHA-256") == 0
        series = [
            labels for name, labels in page.values if name == f"{PREFIX}failed_authentication_total"
        ]
        assert len(series) == 4, (
            "the mechanisms that are offered, and none: a client makes no series"
        )

    tell_of_logins(story, metrics_listener=f"{HOST}:9404")


def test_failures_are_counted_by_address() -> None:
    async def story(node: Story) -> None:
        for _ in range(2):
            await (await guest(node)).log_in(plain(password="wrong"))
        network = node.world.client_env("stranger").network
        await Guest(await network.connect(HOST, PORT)).log_in(plain("nobody", "wrong"))
        response = await fetch(node.world.client_env().network, HOST, 9404)
        lines = [
            line for line in response.splitlines() if line.startswith("tidelog_failed_logins_total")
        ]
        assert lines == [
            'tidelog_failed_logins_total{listener="GUARDED",mechanism="PLAIN",address="client"} 2',
            'tidelog_failed_logins_total{listener="GUARDED",mechanism="PLAIN",address="stranger"} 1',
        ]

    tell_of_logins(story, metrics_listener=f"{HOST}:9404")


def test_addresses_whose_failures_are_counted_are_bounded_and_no_failure_is_lost() -> None:
    counts = FailureCounts()
    for number in range(MAX_COUNTED_ADDRESSES + 7):
        counts.add("PLAIN", f"10.0.{number // 250}.{number % 250}")
        counts.add("PLAIN", "10.9.9.9")
    found = {address: count for _, address, count in counts.items()}
    assert len(found) == MAX_COUNTED_ADDRESSES + 1
    assert found["10.9.9.9"] == MAX_COUNTED_ADDRESSES + 7, (
        "who fails again and again is not forgotten"
    )
    assert found["other"] == 8
    assert sum(found.values()) == 2 * (MAX_COUNTED_ADDRESSES + 7)


def test_repeated_logins_and_connections_that_outlive_theirs_are_counted() -> None:
    async def story(node: Story) -> None:
        client = await guest(node)
        await client.log_in()
        await trio.sleep(2)
        assert (await client.log_in()).error_code == 0
        await trio.sleep(6)
        await client.send(
            ApiVersionsRequest(client_software_name="story", client_software_version="1"), 4
        )
        assert await client.is_closed()
        page = await page_of(node)
        assert of(page, "successful_authentication_total") == 1
        assert of(page, "successful_reauthentication_total") == 1
        assert of(page, "expired_connections_killed_count") == 1

    tell_of_logins(
        story,
        **{
            "metrics_listener": f"{HOST}:9404",
            f"{LISTENER}.plain.connections.max.reauth.ms": "5000",
        },
    )


def test_handshakes_that_fail_are_counted_with_the_logins_and_by_address(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("node")

    async def story(node: Story) -> None:
        for host in ("stranger", "stranger", "other-stranger"):
            client = RawClient(await node.world.client_env(host).network.connect(HOST, TLS_PORT))
            await client.send(
                ApiVersionsRequest(client_software_name="story", client_software_version="1"), 4
            )
            assert await client.is_closed()
        response = await fetch(node.world.client_env().network, HOST, 9404)
        lines = [
            line for line in response.splitlines() if 'mechanism="TLS"' in line and "_total" in line
        ]
        assert lines == [
            f'{PREFIX}failed_authentication_total{{listener="SSL",networkProcessor="0",mechanism="TLS"}} 3',
            'tidelog_failed_logins_total{listener="SSL",mechanism="TLS",address="stranger"} 2',
            'tidelog_failed_logins_total{listener="SSL",mechanism="TLS",address="other-stranger"} 1',
        ]

    properties = {
        "listeners": f"PLAINTEXT://{HOST}:{PORT},SSL://{HOST}:{TLS_PORT}",
        "metrics.listener": f"{HOST}:9404",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": issued.key_text,
        "ssl.keystore.certificate.chain": issued.chain_text,
    }
    configured(story, properties)
