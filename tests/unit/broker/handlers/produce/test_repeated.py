"""A request that comes again is recognized without decoding it, and answered as one that was
decoded.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import trio

from log_service.broker.handlers.produce import repeated
from log_service.broker.handlers.produce.repeated import RepeatedProduces
from log_service.broker.node import Node
from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Call, Reply
from log_service.broker.requests.pipeline import Pipeline
from log_service.common.access import ANONYMOUS, Principal
from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch, NodeId, TopicId
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.codec import decode
from log_service.protocol.frames import RequestHeader, encode_request, parse_response_header
from log_service.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from tests.unit.broker.context import RawClient, Story, batch, produce_request, tell, values_of

BY_NAME, BY_ID = 10, 13
EVERY_VERSION = range(9, 14)


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> list[ProduceRequest]:
    """The requests that went the ordinary way."""
    seen: list[ProduceRequest] = []

    def counting(node: Node, call: Call, request: ProduceRequest) -> Reply:
        seen.append(request)
        return REGISTRY[ApiKey.PRODUCE].handler(node, call, request)

    row = replace(REGISTRY[ApiKey.PRODUCE], handler=counting)
    monkeypatch.setattr("log_service.broker.broker.REGISTRY", {**REGISTRY, ApiKey.PRODUCE: row})
    return seen


class Producer:
    """Sends what an idempotent producer sends, to partition 0 of a topic."""

    def __init__(
        self,
        client: RawClient,
        topic_id: TopicId,
        *,
        version: int,
        client_id: str | None = "producer",
        topic: str = "a",
    ) -> None:
        self.client = client
        self.request = produce_request(topic, b"")
        self.topic_id = topic_id
        self.version = version
        self.client_id = client_id
        self.correlation_id = 0

    async def ask_whole(self, request: ProduceRequest) -> ProduceResponse:
        """Send a request as it is."""
        topics = [
            replace(topic, name="", topic_id=self.topic_id) if self.version >= BY_ID else topic
            for topic in request.topic_data
        ]
        self.correlation_id += 1
        header = RequestHeader(ApiKey.PRODUCE, self.version, self.correlation_id, self.client_id)
        frame = b"".join(map(bytes, encode_request(header, replace(request, topic_data=topics))))  # type: ignore[arg-type]
        await self.client.send_bytes(frame)
        return await self.receive()

    async def receive(self) -> ProduceResponse:
        answer = await self.client.receive_frame()
        correlation_id, body = parse_response_header(ApiKey.PRODUCE, self.version, answer)
        assert correlation_id == self.correlation_id
        response, end = decode(ProduceResponse, self.version, answer, body)
        assert end == len(answer)
        return response

    async def ask(self, records: bytes, **wanted: Any) -> PartitionProduceResponse:
        name = self.request.topic_data[0].name
        response = await self.ask_whole(produce_request(name, records, **wanted))
        assert len(response.responses) == 1
        assert response.responses[0].name == ("" if self.version >= BY_ID else name)
        return response.responses[0].partition_responses[0]


async def producer_of(node: Story, *, version: int = BY_NAME, **topic: Any) -> Producer:
    """A producer of topic a, whose requests are known."""
    topic_id = await node.create_topic("a", **topic)
    producer = Producer(node.client, topic_id, version=version)
    assert (await producer.ask(batch(b"first"))).error_code == 0
    return producer


def known(node: Story) -> RepeatedProduces:
    pipeline: Pipeline = node.broker.servers[0].handler  # type: ignore[assignment]
    return pipeline.recognizers[ApiKey.PRODUCE.value]  # type: ignore[return-value]


def answers_agree(answer: PartitionProduceResponse, other: PartitionProduceResponse) -> bool:
    return replace(answer, base_offset=0) == replace(other, base_offset=0)


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_a_request_that_comes_again_takes_the_short_way(
    version: int, ordinary: list[ProduceRequest]
) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node, version=version)
        large = bytes(20_000)
        answers = [await producer.ask(batch(value)) for value in (b"", b"x" * 100, large)]
        assert len(ordinary) == 1
        assert [
            (answer.base_offset, answer.error_code, answer.log_start_offset) for answer in answers
        ] == [(1, 0, 0), (2, 0, 0), (3, 0, 0)]
        assert values_of((await node.fetch("a", 0)).records) == [b"first", b"", b"x" * 100, large]

    tell(story)


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_both_ways_answer_with_the_same_bytes(version: int) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node, version=version, message_timestamp_type="LogAppendTime")
        other = Producer(node.client, producer.topic_id, version=version, client_id="unknown")
        first, second = await producer.ask(batch(b"x")), await other.ask(batch(b"x"))
        assert first.log_append_time_ms > 0
        assert answers_agree(first, second)
        assert second.base_offset == first.base_offset + 1

    tell(story)


def test_requests_of_the_short_way_are_metered(ordinary: list[ProduceRequest]) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node)
        meter = node.broker.servers[0].handler.meters[ApiKey.PRODUCE]  # type: ignore[attr-defined]
        partition = node.broker.replicas.partitions["a", 0]
        for _ in range(3):
            await producer.ask(batch(b"x"))
        assert len(ordinary) == 1
        assert meter.versions[BY_NAME] == meter.at_once.count == 4
        assert (partition.append_count, partition.failed_append_count) == (4, 0)

    tell(story)


def test_a_waiting_fetch_is_answered(ordinary: list[ProduceRequest]) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node)
        found: list[bytes | None] = []

        async def wait() -> None:
            reader = Story(node.world, node.broker, await node.connect())
            found.extend(values_of((await reader.fetch("a", 1, max_wait_ms=10_000)).records))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            await producer.ask(batch(b"second"))
        assert (found, len(ordinary)) == ([b"second"], 1)

    tell(story)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"partition": 1}, id="partition"),
        pytest.param({"acks": 1}, id="acks"),
        pytest.param({"timeout_ms": 5}, id="timeout"),
    ],
)
def test_what_differs_is_learned_by_itself(
    version: int, change: dict[str, int], ordinary: list[ProduceRequest]
) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node, version=version, partitions=2)
        index = change.get("partition", 0)
        start = node.broker.replicas.partitions["a", index].high_watermark
        offsets = [(await producer.ask(batch(b"x"), **change)).base_offset for _ in range(3)]
        assert offsets == [start, start + 1, start + 2]
        assert len(ordinary) == len(known(node)) == 2
        assert (await producer.ask(batch(b"x"))).base_offset == (1 if index else start + 3)
        assert len(ordinary) == 2

    tell(story)


def test_another_topic_client_or_version_is_learned_by_itself(
    ordinary: list[ProduceRequest],
) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node)
        others = [
            Producer(node.client, await node.create_topic("b"), version=BY_NAME, topic="b"),
            Producer(
                node.client, await node.create_topic("a" * 126), version=BY_NAME, topic="a" * 126
            ),
            Producer(node.client, producer.topic_id, version=BY_NAME, client_id=""),
            Producer(node.client, producer.topic_id, version=BY_NAME + 1),
        ]
        for number, other in enumerate(others):
            assert [(await other.ask(batch(b"x"))).error_code for _ in range(2)] == [0, 0]
            assert len(ordinary) == len(known(node)) == number + 2
        assert node.broker.replicas.partitions["b", 0].high_watermark == 2
        assert node.broker.replicas.partitions["a", 0].high_watermark == 5

    tell(story)


@pytest.mark.parametrize(
    "unusual",
    [
        pytest.param(lambda producer: setattr(producer, "client_id", None), id="no client id"),
        pytest.param(
            lambda producer: setattr(producer, "client_id", "c" * 1000),
            id="a client id that is not worth its memory",
        ),
        pytest.param(
            lambda producer: setattr(producer, "version", 8), id="a version that is not flexible"
        ),
    ],
)
def test_what_is_unusual_is_served_and_not_learned(
    unusual: Callable[[Producer], None], ordinary: list[ProduceRequest]
) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node)
        unusual(producer)
        assert [(await producer.ask(batch(b"x"))).base_offset for _ in range(3)] == [1, 2, 3]
        assert (len(ordinary), len(known(node))) == (4, 1)

    tell(story)


@pytest.mark.parametrize("is_in_header", [True, False])
def test_a_request_with_tags_is_served_and_never_learned(
    is_in_header: bool, ordinary: list[ProduceRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tags that no version knows yet do not have the broker learn the request anew each time it
    comes.
    """
    learned: list[Call] = []
    compile_known = repeated.compile_known

    def counting(call: Call, request: ProduceRequest) -> Any:
        learned.append(call)
        return compile_known(call, request)

    monkeypatch.setattr(repeated, "compile_known", counting)
    tags = b"\1\x63\2ab"  # one: number 99, two bytes

    async def story(node: Story) -> None:
        await node.create_topic("a")
        request = produce_request("a", batch(b"x"))
        whole = b"".join(
            map(bytes, encode_request(RequestHeader(ApiKey.PRODUCE, BY_NAME, 1, "me"), request))  # type: ignore[arg-type]
        )[4:]
        tagged = whole[:12] + tags + whole[13:] if is_in_header else whole[:-1] + tags
        for _ in range(3):
            await node.client.send_bytes(len(tagged).to_bytes(4, "big") + tagged)
            await node.client.receive_frame()
        assert (len(ordinary), len(known(node)), len(learned)) == (3, 0, 0)
        assert node.broker.replicas.partitions["a", 0].high_watermark == 3

    tell(story)


def test_the_same_bytes_are_another_request_from_another_listener_or_principal(
    ordinary: list[ProduceRequest],
) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node)
        context = next(iter(node.broker.servers[0].connections)).context
        for number, (listener_name, principal) in enumerate(
            [
                ("PLAINTEXT", Principal("User", "alice")),
                ("INSIDE", Principal("User", "alice")),
                ("PLAINTEXT", ANONYMOUS),
            ]
        ):
            context.listener_name, context.principal = listener_name, principal
            assert [(await producer.ask(batch(b"x"))).error_code for _ in range(2)] == [0, 0]
            assert len(ordinary) == min(number + 2, 3)

    tell(story)


def test_a_topic_name_of_two_length_bytes_is_served_and_not_learned(
    ordinary: list[ProduceRequest],
) -> None:
    async def story(node: Story) -> None:
        producer = Producer(
            node.client, await node.create_topic("a" * 127), version=BY_NAME, topic="a" * 127
        )
        assert [(await producer.ask(batch(b"x"))).base_offset for _ in range(3)] == [0, 1, 2]
        assert (len(ordinary), len(known(node))) == (3, 0)

    tell(story)


def test_several_partitions_and_topics_in_a_request_are_served_and_not_learned(
    ordinary: list[ProduceRequest],
) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node, partitions=2)
        await node.create_topic("b")
        first, second = (
            produce_request("a", batch(b"x"), partition=index).topic_data[0] for index in (0, 1)
        )
        both = replace(first, partition_data=[*first.partition_data, *second.partition_data])
        for topics in ([both], [first, produce_request("b", batch(b"x")).topic_data[0]], []):
            response = await producer.ask_whole(
                replace(produce_request("a", b""), topic_data=topics)
            )
            assert [
                answer.error_code
                for topic in response.responses
                for answer in topic.partition_responses
            ] == [0, 0][: 2 * len(topics)]
        assert (len(ordinary), len(known(node))) == (4, 1)

    tell(story)


def test_acks_0_is_not_learned_and_not_answered(ordinary: list[ProduceRequest]) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node)
        for _ in range(2):
            await node.client.send(produce_request("a", batch(b"silent"), acks=0), BY_NAME)
            node.client._sent.pop()
        assert (await producer.ask(batch(b"x"))).base_offset == 3
        assert (len(ordinary), len(known(node))) == (3, 1)

    tell(story)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_a_topic_that_is_deleted_and_created_anew_is_another_one(
    version: int, ordinary: list[ProduceRequest]
) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node, version=version)
        name, topic_id = (None, producer.topic_id) if version >= BY_ID else ("a", None)
        wanted = (
            DeleteTopicState(name=name) if topic_id is None else DeleteTopicState(topic_id=topic_id)
        )
        deleted = await node.ask(DeleteTopicsRequest(topics=[wanted], timeout_ms=1_000), 6)
        assert deleted.responses[0].error_code == 0
        unknown = (
            ErrorCode.UNKNOWN_TOPIC_ID if version >= BY_ID else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert (await producer.ask(batch(b"x"))).error_code == unknown

        new_id = await node.create_topic("a")
        answer = await producer.ask(batch(b"anew"))
        assert answer.error_code == (unknown if version >= BY_ID else 0)
        producer.topic_id = new_id
        assert (await producer.ask(batch(b"anew"))).base_offset == (0 if version >= BY_ID else 1)
        seen = len(ordinary)
        assert (await producer.ask(batch(b"again"))).error_code == 0
        assert len(ordinary) == seen
        assert values_of((await node.fetch("a", 0)).records)[-1] == b"again"

    tell(story)


@pytest.mark.parametrize("version", EVERY_VERSION)
@pytest.mark.parametrize(
    ("records", "code"),
    [
        pytest.param(batch(bytes(2_000)), ErrorCode.MESSAGE_TOO_LARGE, id="too large"),
        pytest.param(batch(b"x")[:-1] + b"y", ErrorCode.CORRUPT_MESSAGE, id="damaged"),
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="no bytes"),
        pytest.param(
            batch(b"x", producer_id=5, producer_epoch=0, base_sequence=7),
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            id="sequence",
        ),
        pytest.param(
            batch(b"x", timestamp_ms=5),
            ErrorCode.INVALID_TIMESTAMP,
            id="timestamp, told for each record",
        ),
    ],
)
def test_both_ways_refuse_alike(
    version: int, records: bytes, code: ErrorCode, ordinary: list[ProduceRequest]
) -> None:
    async def story(node: Story) -> None:
        configs = {"max_message_bytes": "1000", "message_timestamp_before_max_ms": "1000000"}
        producer = await producer_of(node, version=version)
        await producer.ask(batch(b"x", producer_id=5, producer_epoch=0, base_sequence=0))
        altered = [
            AlterableConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ]
        await node.ask(
            AlterConfigsRequest(
                resources=[
                    AlterConfigsResource(resource_type=2, resource_name="a", configs=altered)
                ]
            ),
            2,
        )
        partition = node.broker.replicas.partitions["a", 0]
        other = Producer(node.client, producer.topic_id, version=version, client_id="unknown")
        counts = []
        answers = []
        for each in (producer, other):
            before = partition.append_count, partition.failed_append_count
            answers.append(await each.ask(records))
            counts.append(
                (partition.append_count - before[0], partition.failed_append_count - before[1])
            )
        assert len(ordinary) == 2  # the first of all, and the one of the client that is not known
        assert answers[0] == answers[1]
        assert answers[0].error_code == code
        assert counts[0] == counts[1]
        assert partition.high_watermark == 2

    tell(story)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_a_batch_sent_twice_is_stored_once(version: int, ordinary: list[ProduceRequest]) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node, version=version)
        records = batch(b"once", producer_id=5, producer_epoch=0, base_sequence=0)
        assert [(await producer.ask(records)).base_offset for _ in range(3)] == [1, 1, 1]
        assert len(ordinary) == 1
        assert node.broker.replicas.partitions["a", 0].high_watermark == 2

    tell(story)


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_a_partition_that_is_led_elsewhere_says_so(
    version: int, ordinary: list[ProduceRequest]
) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node, version=version)
        partition = node.broker.replicas.partitions["a", 0]
        assert partition.state.registration is not None
        partition.apply(
            partition.state.registration._replace(
                leader=NodeId(7), leader_epoch=LeaderEpoch(3), isr=(NodeId(7),)
            ),
            0,
        )
        answer = await producer.ask(batch(b"x"))
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader is None) == (version < 10)
        assert len(ordinary) == 1

    tell(story)


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_a_log_that_closes_names_leaders_as_by_the_ordinary_way(
    version: int, ordinary: list[ProduceRequest]
) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node, version=version)
        other = Producer(node.client, producer.topic_id, version=version, client_id="unknown")
        log = node.broker.replicas.partitions["a", 0].log
        assert log is not None
        log.is_closed = True
        request = produce_request("a", batch(b"x"))
        answers = [await each.ask_whole(request) for each in (producer, other)]
        log.is_closed = False
        assert len(ordinary) == 2
        assert answers[0] == answers[1]
        assert (
            answers[0].responses[0].partition_responses[0].error_code
            == ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        assert len(answers[0].node_endpoints) == (version >= 10)

    tell(story)


def test_a_partition_that_is_synced_first_from_now_on_waits_for_its_sync(
    ordinary: list[ProduceRequest],
) -> None:
    async def story(node: Story) -> None:
        producer = await producer_of(node)
        configs = [AlterableConfig(name="flush.messages", value="1")]
        await node.ask(
            AlterConfigsRequest(
                resources=[
                    AlterConfigsResource(resource_type=2, resource_name="a", configs=configs)
                ]
            ),
            2,
        )
        assert [(await producer.ask(batch(b"x"))).base_offset for _ in range(2)] == [1, 2]
        log = node.broker.replicas.partitions["a", 0].log
        assert log is not None
        assert log.recovery_point == 3
        assert len(ordinary) == 1

    tell(story)


def test_how_many_are_known_is_bounded(
    ordinary: list[ProduceRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated, "MAX_KNOWN_COUNT", 2)

    async def story(node: Story) -> None:
        producer = await producer_of(node, partitions=5)
        for _ in range(3):
            for index in range(5):
                assert (await producer.ask(batch(b"x"), partition=index)).error_code == 0
                assert len(known(node)) <= 2
        assert [
            node.broker.replicas.partitions["a", index].high_watermark for index in range(5)
        ] == [4, 3, 3, 3, 3]

    tell(story)


async def outcome_of(node: Story, frame: bytes) -> bytes | None:
    """Return the response to a frame of a producer that sends nothing else.

    It is empty without a response, and None if the connection is closed.
    """
    client = await node.connect()
    await client.send_bytes(frame)
    answer: bytes | None = b""
    with trio.move_on_after(1):
        try:
            answer = await client.receive_frame()
        except (EOFError, OSError):
            answer = None
    client.close()
    return answer


def with_one_other_byte(whole: bytes, positions: list[int]) -> Iterator[bytes]:
    for position in positions:
        before = whole[position]
        for value in sorted({0, 1, 2, 0x7F, 0x80, 0xFF, before ^ 1, before ^ 0x80} - {before}):
            yield whole[:position] + bytes([value]) + whole[position + 1 :]


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
@pytest.mark.parametrize("size", [5, 200, 20_000])
def test_a_frame_with_one_other_byte_has_the_same_outcome_both_ways(
    version: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[list[bytes | None]] = []
    records = batch(bytes(size))

    async def story(node: Story) -> None:
        topic_id = await node.create_topic("a", partitions=2)
        request = produce_request("a", records)
        if version >= BY_ID:
            request.topic_data[0].name, request.topic_data[0].topic_id = "", topic_id
        whole = b"".join(
            map(bytes, encode_request(RequestHeader(ApiKey.PRODUCE, version, 1, "me"), request))  # type: ignore[arg-type]
        )
        start = whole.index(records)
        frames = [
            whole,
            whole,
            *with_one_other_byte(
                whole, [*range(4, start + 12), *range(start + len(records), len(whole))]
            ),
        ]
        frames += [
            (length - 4).to_bytes(4) + whole[4:length]
            for length in (start, len(whole) - 3, len(whole) - 1)
        ]
        found = [await outcome_of(node, frame) for frame in (*frames, whole)]
        found += [
            bytes([partition.high_watermark])
            for partition in node.broker.replicas.partitions.values()
        ]
        outcomes.append(found)

    tell(story)
    monkeypatch.setattr(RepeatedProduces, "recall", lambda *_: None)
    tell(story)
    assert outcomes[0] == outcomes[1]
    assert None in outcomes[0]
