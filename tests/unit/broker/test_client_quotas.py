"""Quotas of a running broker: what is throttled, for how long, and what a client is told. KIP-13,
KIP-124, KIP-219, KIP-599, KIP-612.
"""

from collections.abc import Mapping
from typing import Any

import pytest
import trio

from log_service.broker.metrics.quotas import MAX_SHOWN_COUNT, quota_families
from log_service.broker.quotas import (
    MAX_MEMBER_PUT_OFF_MS,
    MAX_PUT_OFF_MS,
    AddressRates,
    ClientQuotas,
)
from log_service.broker.requests.call import Call
from log_service.common.errors import ErrorCode
from log_service.config.views import QuotaWindows
from log_service.metrics.exposition import rendered
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.frames import RequestHeader, encode_request
from log_service.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from log_service.protocol.messages.api_versions import ApiVersionsRequest
from log_service.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.messages.fetch import FetchRequest
from log_service.protocol.messages.heartbeat import HeartbeatRequest
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.quota.entities import QuotaKey
from log_service.quota.windows import Meters
from tests.sim import VirtualClock
from tests.unit.broker.context import (
    HOST,
    PORT,
    RawClient,
    Story,
    fetch_request,
    produce_request,
    tell,
    values_of,
)
from tests.unit.broker.quota_story import STORY, large_batch, new_topic, set_quotas, spend
from tests.unit.quota.entities import quotas

ANYBODY: Mapping[str, str | None] = {"user": None}
"""The client of the stories is user ANONYMOUS with the client id "story"."""


async def now_and_pause(node: Story, request: Any, version: int) -> tuple[Any, float]:
    """The response to a request, and for how many milliseconds the next one had to wait."""
    response = await node.client.ask(request, version)
    began = trio.current_time()
    await node.client.ask(MetadataRequest(topics=[]), 12)
    return response, (trio.current_time() - began) * 1_000


def test_a_burst_of_a_producer_is_answered_and_then_paused_for() -> None:
    """A response that is held back instead makes clients time out and try again."""

    async def story(node: Story) -> None:
        await node.create_topic("a")
        await set_quotas(node, STORY, producer_byte_rate=1_000)
        began = trio.current_time()
        response = await node.ask(produce_request("a", large_batch(19_000)), 9)
        assert trio.current_time() - began < 0.1
        assert response.responses[0].partition_responses[0].error_code == 0
        assert 9_000 <= response.throttle_time_ms <= 9_300
        await node.client.ask(MetadataRequest(topics=[]), 12)
        assert (
            response.throttle_time_ms - 1
            <= (trio.current_time() - began) * 1_000
            <= response.throttle_time_ms + 50
        )

    tell(story)


def test_a_producer_below_its_rate_is_not_paused() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await set_quotas(node, STORY, producer_byte_rate=10_000)
        for _ in range(30):
            assert (
                await node.ask(produce_request("a", large_batch(4_000)), 9)
            ).throttle_time_ms == 0
            await trio.sleep(0.5)

    tell(story)


def test_a_produce_without_a_response_pauses_too() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await set_quotas(node, STORY, producer_byte_rate=1_000)
        began = trio.current_time()
        await node.client.send(produce_request("a", large_batch(19_000), acks=0), 9)
        node.client._sent.pop()
        await node.client.ask(MetadataRequest(topics=[]), 12)
        assert 9 <= trio.current_time() - began <= 9.4

    tell(story)


def test_a_produce_that_is_recognized_is_charged_and_told_by_known_bytes_until_it_has_to_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A recognized produce request costs little under a quota.

    Each response was encoded anew, and each charge added up all samples. A record cost the
    broker twice as much.
    """
    encoded: list[int] = []
    charge = Meters.charge

    def respond(self: Call, response: Any) -> Any:
        encoded.append(response.throttle_time_ms)
        return encode(self, response)

    charged: list[float] = []

    def counted(self: Meters, share: object, amount: float, bound: float, now_ms: int) -> int:
        charged.append(amount)
        return charge(self, share, amount, bound, now_ms)

    async def story(node: Story) -> None:
        await node.create_topic("a")
        await set_quotas(node, STORY, producer_byte_rate=1_000)
        request = produce_request("a", large_batch(2_000))
        await node.ask(request, 9)
        monkeypatch.setattr(Call, "respond", respond)
        monkeypatch.setattr(Meters, "charge", counted)
        told = [(await node.ask(request, 9)) for _ in range(4)]
        assert [each.responses[0].partition_responses[0].base_offset for each in told] == [
            1,
            2,
            3,
            4,
        ]
        assert [bool(each.throttle_time_ms) for each in told] == [False, False, False, True]
        assert len(encoded) == 1, "only the response that tells a pause"
        assert len(charged) == 4
        assert len(set(charged)) == 1

    encode = Call.respond
    tell(story)


@pytest.mark.parametrize("is_session", [False, True])
def test_a_throttled_fetch_is_empty_and_is_not_counted(is_session: bool) -> None:
    """A client that is told to pause and gets its records all the same never comes below its rate."""

    async def story(node: Story) -> None:
        await node.create_topic("a")
        for _ in range(10):
            await node.produce("a", large_batch(9_000))
        await set_quotas(node, STORY, consumer_byte_rate=1_000)

        async def fetched(offset: int, epoch: int = -1, session_id: int = 0) -> Any:
            request = fetch_request("a", offset, partition_max_bytes=9_200)
            request.session_epoch, request.session_id = epoch, session_id
            return await node.client.ask(request, 12)

        first = await fetched(0, 0 if is_session else -1)
        assert (
            first.throttle_time_ms,
            len(values_of(first.responses[0].partitions[0].records)),
        ) == (0, 1)
        assert bool(first.session_id) is is_session
        second = await fetched(1, 1 if is_session else -1, first.session_id)
        assert 7_000 <= second.throttle_time_ms <= 10_000
        assert (second.responses, second.session_id) == ([], first.session_id)
        third = await fetched(1, 2 if is_session else -1, first.session_id)
        # What was not sent was not counted: it would be 16 s.
        assert third.throttle_time_ms <= 8_200
        fourth = await fetched(1, 3 if is_session else -1, first.session_id)
        assert fourth.throttle_time_ms == 0
        assert len(values_of(fourth.responses[0].partitions[0].records)) == 1

    tell(story)


def test_a_session_that_begins_with_a_pause_is_not_begun() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await node.produce("a", large_batch(50_000))
        await set_quotas(node, STORY, consumer_byte_rate=1_000)
        request = fetch_request("a", 0)
        request.session_epoch = 0
        response: Any = await node.client.ask(request, 12)
        assert response.throttle_time_ms > 0
        assert (response.session_id, response.responses) == (0, [])
        assert len(node.broker.rooms.fetch_sessions) == 0

    tell(story)


def test_a_response_to_a_fetch_is_no_larger_than_the_quota_allows_at_once() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        for _ in range(10):
            await node.produce("a", large_batch(9_000))
        await set_quotas(node, STORY, consumer_byte_rate=2_000)
        response = await node.ask(fetch_request("a", 0), 12)
        # The bytes around the records were too many.
        assert (response.throttle_time_ms < 50, response.responses) == (
            True,
            [],
        )
        response = await node.ask(fetch_request("a", 0), 12)
        records = response.responses[0].partitions[0].records
        assert (len(values_of(records)), len(records)) == (2, 20_000)

    tell(story)


def test_a_fetch_that_waits_is_counted_when_there_are_records() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await set_quotas(node, STORY, consumer_byte_rate=1_000)
        await node.client.send(fetch_request("a", 0, max_wait_ms=60_000), 12)
        await trio.sleep(30)
        other = await node.connect()
        await other.ask(produce_request("a", large_batch(40_000)), 9)
        response = await node.client.receive()
        assert response.throttle_time_ms > 0
        assert response.responses == []
        other.close()

    tell(story)


def test_a_follower_is_not_throttled() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await node.produce("a", large_batch(50_000))
        await set_quotas(node, STORY, consumer_byte_rate=1_000, request_percentage=0.000001)
        request: FetchRequest = fetch_request("a", 0)
        request.replica_id = 1
        response = await node.client.ask(request, 12)
        assert response.throttle_time_ms == 0

    tell(story)


def test_quotas_come_go_and_change_while_the_broker_runs() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")

        async def throttle() -> int:
            return int(
                (await node.ask(produce_request("a", large_batch(19_000)), 9)).throttle_time_ms
            )

        assert await throttle() == 0
        await set_quotas(node, ANYBODY, producer_byte_rate=1_000)
        assert await throttle() > 8_000
        await set_quotas(node, {**ANYBODY, **STORY}, producer_byte_rate=1_000_000)
        assert await throttle() == 0
        await set_quotas(node, {**ANYBODY, **STORY}, producer_byte_rate=None)
        await set_quotas(node, ANYBODY, producer_byte_rate=None)
        assert await throttle() == 0
        assert all(server.handler.quotas is None for server in node.broker.servers)  # type: ignore[attr-defined]  # a pipeline

    tell(story)


def test_request_time_pauses_for_a_window_at_most() -> None:
    async def story(node: Story) -> None:
        await set_quotas(node, STORY, request_percentage=1)
        spend(node, 2_000)
        response, waited_ms = await now_and_pause(node, MetadataRequest(topics=[]), 12)
        assert response.throttle_time_ms == 1_000
        assert waited_ms >= 999

    tell(story)


QUESTION = MetadataRequest(topics=[])


async def answered_at(client: RawClient, request: Any = QUESTION, version: int = 12) -> float:
    await client.ask(request, version)
    return trio.current_time()


def test_a_pause_for_request_time_holds_on_every_connection_that_shares_the_quota() -> None:
    """Each connection paused for itself: with a hundred of them a client had a hundred times its
    share.
    """

    async def story(node: Story) -> None:
        others = [await node.connect() for _ in range(2)]
        await set_quotas(node, STORY, request_percentage=1)
        spend(node, 2_000)
        began = await answered_at(node.client)
        late = await node.connect()
        for client in (*others, late):
            await client.send(QUESTION, 12)
        assert (await answered_at(late, ApiVersionsRequest(), 3)) - began >= 1
        ends = []
        for client in others:
            await client.receive()
            ends.append(trio.current_time() - began)
        assert all(end >= 1 for end in ends)
        for client in (*others, late):
            client.close()

    tell(story)


@pytest.mark.parametrize("connection_count", [1, 4, 20])
def test_however_many_connections_share_a_quota_of_request_time_they_get_what_one_gets(
    connection_count: int,
) -> None:
    """Connections that share a quota of request time get as much as one connection.

    A pause is a second at most, so one connection far above the bound gets a response once a
    second.
    """

    async def story(node: Story) -> None:
        await set_quotas(node, STORY, request_percentage=1)
        spend(node, 50)
        answered_count = 0

        async def ask() -> None:
            nonlocal answered_count
            client = await node.connect()
            while True:
                await answered_at(client)
                answered_count += 1

        with trio.move_on_after(100):
            async with trio.open_nursery() as nursery:
                for _ in range(connection_count):
                    nursery.start_soon(ask)
        assert 90 <= answered_count <= 105

    tell(story)


async def longest_wait(node: Story, request: Any, version: int) -> float:
    """Return the longest time that a request waits, in seconds.

    Sixty connections use up the quota that they share.
    """
    await set_quotas(node, STORY, request_percentage=1)
    spend(node, 50)
    waits: list[float] = []

    async def ask_on() -> None:
        client = await node.connect()
        while True:
            await answered_at(client)

    with trio.move_on_after(200):
        async with trio.open_nursery() as nursery:
            for _ in range(60):
                nursery.start_soon(ask_on)
            while True:
                began = trio.current_time()
                waits.append(await answered_at(node.client, request, version) - began)
    assert waits
    return max(waits)


@pytest.mark.parametrize(
    ("request_", "version", "bound_ms"),
    [
        pytest.param(QUESTION, 12, MAX_PUT_OFF_MS, id="any request"),
        pytest.param(
            HeartbeatRequest(group_id="g", member_id="m"),
            4,
            MAX_MEMBER_PUT_OFF_MS,
            id="of a member",
        ),
    ],
)
def test_no_request_waits_for_others_of_its_share_without_a_bound(
    request_: Any, version: int, bound_ms: int
) -> None:
    """A request waits for others of its share only up to a bound.

    Each request that was let through prolonged the pause. Heartbeats came too late, and members
    were removed from their groups.
    """
    window_ms = 1_000  # the pause of the connection itself

    async def story(node: Story) -> None:
        assert await longest_wait(node, request_, version) <= (bound_ms + window_ms) / 1_000 + 0.01

    tell(story)


def test_a_pause_of_others_puts_off_neither_who_does_not_share_it_nor_a_fetch_nor_the_question_for_versions() -> (
    None
):
    async def story(node: Story) -> None:
        await node.create_topic("a")
        others = [await node.connect() for _ in range(3)]
        await set_quotas(node, STORY, request_percentage=1)
        stranger = await node.connect()
        spend(node, 2_000)
        began = await answered_at(node.client)
        assert await answered_at(others[0], ApiVersionsRequest(), 3) - began < 0.1
        assert await answered_at(others[1], fetch_request("a", 0), 12) - began < 0.1
        header = RequestHeader(ApiKey.METADATA, 12, 7, "stranger")
        await stranger.send_bytes(b"".join(map(bytes, encode_request(header, QUESTION))))  # type: ignore[arg-type]  # no slice
        await stranger.receive_frame()
        assert trio.current_time() - began < 0.1
        for client in (*others, stranger):
            client.close()

    tell(story)


def test_partitions_are_charged_when_they_are_created_added_and_deleted() -> None:
    """A created, added or deleted partition costs a token.

    A change of any size passes while there are tokens, and below 0 all wait.
    """

    async def story(node: Story) -> None:
        await node.create_topic("old", 3)
        await set_quotas(node, STORY, controller_mutation_rate=1)
        assert (await node.ask(new_topic("large", 30), 7)).topics[0].error_code == 0
        refused = await node.ask(new_topic("small"), 7)
        assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 18_500 <= refused.throttle_time_ms <= 19_000
        more = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="old", count=4, assignments=None)], timeout_ms=10_000
        )
        assert (await node.ask(more, 3)).results[
            0
        ].error_code == 0  # this request had to wait until the tokens were back
        drop = DeleteTopicsRequest(topics=[DeleteTopicState(name="old")], timeout_ms=10_000)
        refused = await node.ask(drop, 6)
        assert refused.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 900 <= refused.throttle_time_ms <= 1_000
        assert (await node.ask(drop, 6)).responses[0].error_code == 0

    tell(story)


@pytest.mark.parametrize(
    ("request_", "version", "results"),
    [
        (new_topic("b"), 5, "topics"),
        (DeleteTopicsRequest(topic_names=["old"], timeout_ms=10_000), 4, "responses"),
        (
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="old", count=9, assignments=None)],
                timeout_ms=10_000,
            ),
            2,
            "results",
        ),
    ],
    ids=["CreateTopics", "DeleteTopics", "CreatePartitions"],
)
def test_an_older_version_is_done_and_paused_for(request_: Any, version: int, results: str) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("old", 3)
        await set_quotas(node, STORY, controller_mutation_rate=0.5)
        assert (await node.ask(new_topic("large", 8), 7)).topics[0].error_code == 0
        response, waited_ms = await now_and_pause(node, request_, version)
        assert [each.error_code for each in getattr(response, results)] == [0]
        assert response.throttle_time_ms > 1_000
        assert waited_ms >= response.throttle_time_ms - 1

    tell(story)


def test_what_is_refused_for_another_reason_costs_nothing() -> None:
    async def story(node: Story) -> None:
        await set_quotas(node, STORY, controller_mutation_rate=0.1)
        for _ in range(5):
            refused = await node.ask(new_topic("no/name", 100), 7)
            assert refused.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert (await node.ask(new_topic("a"), 7)).topics[0].error_code == 0

    tell(story)


@pytest.mark.parametrize("written", ["192.0.2.7", "::ffff:192.0.2.7", "::FFFF:c000:207"])
def test_an_address_of_ipv4_has_its_quota_however_it_is_written(written: str) -> None:
    """An IPv4 address has one quota, however it is written.

    A listener on all addresses sees clients of IPv4 by their own address. Apache Kafka treats
    all spellings alike.
    """
    rates = AddressRates(QuotaWindows())
    rates.set_quotas(quotas((f"ip={written}", QuotaKey.CONNECTION_CREATION_RATE, 0.1)))
    held = [rates.refusal_delay_ms("192.0.2.7", 0) for _ in range(3)]
    assert held[-1] > 0
    assert rates.refusal_delay_ms("192.0.2.8", 0) == 0


def test_a_quota_of_an_address_counts_in_each_zone() -> None:
    rates = AddressRates(QuotaWindows())
    rates.set_quotas(quotas(("ip=FE80::1", QuotaKey.CONNECTION_CREATION_RATE, 0.1)))
    held = [rates.refusal_delay_ms("fe80::1%eth0", 0) for _ in range(3)]
    assert held[-1] > 0


def test_an_address_that_connects_too_often_is_held_and_closed() -> None:
    async def story(node: Story) -> None:
        await set_quotas(node, {"ip": None}, connection_creation_rate=1)
        served = 0
        for _ in range(20):
            client = await node.connect()
            try:
                with trio.fail_after(5):
                    await client.ask(MetadataRequest(topics=[]), 12)
                served += 1
            except (EOFError, OSError):
                pass
            client.close()
        assert 10 <= served <= 13  # ten seconds' worth at once, and what the waiting gave
        await set_quotas_of_the_first(node, {"ip": None}, connection_creation_rate=None)
        client = await node.connect()
        await client.ask(MetadataRequest(topics=[]), 12)
        client.close()

    tell(story)


async def set_quotas_of_the_first(
    node: Story, entity: Mapping[str, str | None], **values: float | None
) -> None:
    """Set quotas over the connection that there is."""
    entry = RequestEntryData(
        entity=[
            RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
        ],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ],
    )
    assert (await node.ask(AlterClientQuotasRequest(entries=[entry]), 1)).entries[0].error_code == 0


@pytest.mark.parametrize(
    ("properties", "throttle_ms"),
    [
        ({}, 9_000),
        ({"quota.window.num": "3"}, 17_000),
        ({"quota.window.num": "3", "quota.window.size.seconds": "5"}, 9_000),
    ],
    ids=["default", "windows", "window size"],
)
def test_windows_of_quotas(properties: dict[str, Any], throttle_ms: int) -> None:
    """A burst is measured over all windows but one.

    A burst of 19 kB at 1 kB/s pauses for 19 s less those windows.
    """

    async def story(node: Story) -> None:
        await node.create_topic("a")
        await set_quotas(node, STORY, producer_byte_rate=1_000)
        response = await node.ask(produce_request("a", large_batch(19_000)), 9)
        assert throttle_ms <= response.throttle_time_ms <= throttle_ms + 300

    tell(story, **properties)


@pytest.mark.parametrize(
    ("properties", "is_refused"),
    [
        ({}, False),
        ({"controller.quota.window.num": "1"}, True),
        ({"controller.quota.window.num": "1", "controller.quota.window.size.seconds": "11"}, False),
    ],
    ids=["default", "windows", "window size"],
)
def test_windows_of_mutations(properties: dict[str, Any], is_refused: bool) -> None:
    """At a rate of 1, a bucket holds a token for each second of all windows.

    After 5 partitions some are left, or none.
    """

    async def story(node: Story) -> None:
        await set_quotas(node, STORY, controller_mutation_rate=1)
        assert (await node.ask(new_topic("a", 5), 7)).topics[0].error_code == 0
        refused = (await node.ask(new_topic("b"), 7)).topics[
            0
        ].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert refused is is_refused

    tell(story, **properties)


def test_no_quota_leaves_the_pipelines_without_quotas() -> None:
    """A pipeline without quotas does not even look for one."""

    async def story(node: Story) -> None:
        await set_quotas_of_the_first(node, {"ip": None}, connection_creation_rate=1_000)
        await set_quotas_of_the_first(node, {"user": None}, controller_mutation_rate=1_000)
        assert all(server.handler.quotas is None for server in node.broker.servers)  # type: ignore[attr-defined]  # a pipeline

    tell(story)


def test_the_listener_of_the_controller_throttles_too() -> None:
    async def story(node: Story) -> None:
        await set_quotas_of_the_first(node, {"user": None}, controller_mutation_rate=0.1)
        client = await node.connect(9093)
        for name in ("a", "b"):
            assert (await client.ask(new_topic(name), 7)).topics[0].error_code == 0
        assert (await client.ask(new_topic("c"), 7)).topics[
            0
        ].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        client.close()

    listeners = f"PLAINTEXT://{HOST}:{PORT},CONTROLLER://{HOST}:9093"
    kinds = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    tell(
        story,
        listeners=listeners,
        controller_listener_names="CONTROLLER",
        listener_security_protocol_map=kinds,
    )


def test_the_metrics_page_tells_who_was_throttled() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await set_quotas(node, STORY, producer_byte_rate=1_000)
        throttled = await node.ask(produce_request("a", large_batch(19_000)), 9)
        lines = (
            b"".join(
                rendered(quota_families(node.broker._quotas, node.broker.env.clock.monotonic_ms()))
            )
            .decode()
            .splitlines()
        )
        told = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        prefix, client = (
            "kafka_server_clientquotas_",
            '{quota="producer_byte_rate",client="client-id=story"}',
        )
        assert told[f'{prefix}throttled_total{{quota="producer_byte_rate"}}'] == "1"
        assert (
            float(told[f'{prefix}throttle_seconds_total{{quota="producer_byte_rate"}}'])
            == throttled.throttle_time_ms / 1_000
        )
        assert 1_900 <= float(told[f"{prefix}rate{client}"]) <= 1_930
        assert float(told[f"{prefix}limit{client}"]) == 1_000

    tell(story)


def test_of_very_many_clients_few_are_shown() -> None:
    quotas = ClientQuotas(VirtualClock(), QuotaWindows())
    for number in range(3_000):
        quotas.meters[QuotaKey.PRODUCER_BYTE_RATE].charge(f"client-id={number}", 1, 1, 0)
    shown = b"".join(rendered(quota_families(quotas, 0))).decode()
    assert shown.count("kafka_server_clientquotas_rate{") == MAX_SHOWN_COUNT
