"""Logins on the metrics page: by listener and mechanism, of which clients can make no new ones."""

import trio

from log_service.protocol.messages.api_versions import ApiVersionsRequest
from tests.helpers.metrics_page import Page, fetch
from tests.unit.broker.context import HOST, Story
from tests.unit.broker.login_story import LISTENER, guest, plain, tell_of_logins

PREFIX = "kafka_server_socket_server_metrics_"


async def page_of(node: Story) -> Page:
    response = await fetch(node.world.client_env().network, HOST, 9404)
    chunks = response.partition("\r\n\r\n")[2]
    lines = [line for line in chunks.splitlines() if line.startswith((f"# TYPE {PREFIX}", f"# HELP {PREFIX}", PREFIX))]
    return Page("\n".join(lines))


def of(page: Page, name: str, mechanism: str = "PLAIN") -> float:
    return page.of(f"{PREFIX}{name}", f'listener="GUARDED",networkProcessor="0",mechanism="{mechanism}"')


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
        series = [labels for name, labels in page.values if name == f"{PREFIX}failed_authentication_total"]
        assert len(series) == 4, "the mechanisms that are offered, and none: a client makes no series"

    tell_of_logins(story, metrics_listener=f"{HOST}:9404")


def test_repeated_logins_and_connections_that_outlive_theirs_are_counted() -> None:
    async def story(node: Story) -> None:
        client = await guest(node)
        await client.log_in()
        await trio.sleep(2)
        assert (await client.log_in()).error_code == 0
        await trio.sleep(6)
        await client.send(ApiVersionsRequest(client_software_name="story", client_software_version="1"), 4)
        assert await client.is_closed()
        page = await page_of(node)
        assert of(page, "successful_authentication_total") == 1
        assert of(page, "successful_reauthentication_total") == 1
        assert of(page, "expired_connections_killed_count") == 1

    tell_of_logins(story, **{"metrics_listener": f"{HOST}:9404", f"{LISTENER}.plain.connections.max.reauth.ms": "5000"})
