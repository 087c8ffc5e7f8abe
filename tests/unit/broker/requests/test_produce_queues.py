"""A produce request may take longer than a turn of the event loop.

The node goes on beside it, and requests keep their order.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.config.views import LogConfig
from log_service.protocol.messages.api_versions import ApiVersionsRequest
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.records import checks
from log_service.records.batch import HEADER, compute_crc, parse_header
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.rules import MAX_RECORD_ERRORS
from log_service.records.validator import Allowance, validate_in_steps
from tests.unit.broker.context import Story, batch, produce_request, tell
from tests.unit.broker.quota_story import STORY, set_quotas

TIME_MS = 1_700_000_000_000
LARGE_COUNT = 70_000
QUESTION = MetadataRequest(topics=[])


def tiny_records(
    count: int = LARGE_COUNT, *, key: bytes | None = b"k", codec: Codec = Codec.NONE, **header: Any
) -> bytes:
    """One batch of the smallest records: 9 bytes each, 1 once they are compressed."""
    return build_batch(((TIME_MS, key, b"") for _ in range(count)), codec=codec, **header)


def of_partitions(topic: str, records: bytes, partitions: int, *, acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for index in range(partitions)]
    return ProduceRequest(
        acks=acks, timeout_ms=1_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def end_offset(node: Story, topic: str, partition: int = 0) -> int:
    log = node.broker.replicas.partitions[topic, partition].log
    assert log is not None
    return log.log_end_offset


def with_pool_turns(story: Callable[[Story, list[int]], Awaitable[None]]) -> None:
    """Tell a story in which each call of the pool takes 10 ms of virtual time.

    The list has an item for each call so far.
    """

    async def counted(node: Story) -> None:
        calls: list[int] = []
        files: Any = node.broker.env.files
        files.pool_seconds = (0.01, 0.01)
        files.on_operation = lambda operation, _path: (
            calls.append(1) if operation == "pool" else None
        )
        await story(node, calls)

    tell(counted)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize(
    ("key", "code"),
    [(b"k", ErrorCode.NONE), (None, ErrorCode.INVALID_RECORD)],
    ids=["good", "without keys"],
)
def test_another_connection_is_served_while_the_batches_of_a_compacted_topic_are_checked(
    codec: Codec, key: bytes | None, code: ErrorCode
) -> None:
    """2.6 MB of tiny records for compacted topics held a node for a quarter of a minute."""

    async def story(node: Story, calls: list[int]) -> None:
        await node.create_topic("a", partitions=4, cleanup_policy="compact")
        attacker, other = await node.connect(), await node.connect()
        await attacker.send(of_partitions("a", tiny_records(key=key, codec=codec), 4), 9)
        served_at: list[int] = []
        async with trio.open_nursery() as nursery:

            async def ask_on() -> None:
                while True:
                    await other.ask(
                        ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3
                    )
                    served_at.append(len(calls))
                    await trio.sleep(0.01)

            nursery.start_soon(ask_on)
            response = await attacker.receive()
            nursery.cancel_scope.cancel()
        answers = response.responses[0].partition_responses
        assert {ErrorCode.of(answer.error_code) for answer in answers} == {code}
        assert {len(answer.record_errors) for answer in answers} == {
            0 if key else MAX_RECORD_ERRORS
        }
        assert len(calls) >= 4 * LARGE_COUNT // 16_384, "the checks come in pieces"
        assert len(set(served_at)) > len(calls) // 2, "and others are served between them"

    with_pool_turns(story)


def test_what_comes_behind_a_large_batch_on_its_connection_is_appended_behind_it() -> None:
    async def story(node: Story, calls: list[int]) -> None:
        await node.create_topic("a")
        made = await node.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4
        )
        producer = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
        client = await node.connect()
        await client.send(produce_request("a", tiny_records(**producer, base_sequence=0)), 9)
        for number in range(3):
            await client.send(
                produce_request("a", batch(b"v", **producer, base_sequence=LARGE_COUNT + number)), 9
            )
        answers = [(await client.receive()).responses[0].partition_responses[0] for _ in range(4)]
        assert [(answer.error_code, answer.base_offset) for answer in answers] == [
            (0, 0),
            (0, LARGE_COUNT),
            (0, LARGE_COUNT + 1),
            (0, LARGE_COUNT + 2),
        ]
        assert calls

    with_pool_turns(story)


def test_a_request_of_very_many_batches_is_appended_over_several_turns() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", partitions=300)
        response = await node.ask(of_partitions("a", batch(b"v"), 300), 9)
        assert {answer.error_code for answer in response.responses[0].partition_responses} == {0}
        assert [end_offset(node, "a", index) for index in range(300)] == [1] * 300

    tell(story)


@pytest.mark.parametrize(("acks", "appended_count"), [(-1, 0), (1, 0), (0, LARGE_COUNT)])
def test_work_ends_with_its_client_unless_that_waits_for_nothing(
    acks: int, appended_count: int
) -> None:
    async def story(node: Story, calls: list[int]) -> None:
        await node.create_topic("a")
        client = await node.connect()
        await client.send(produce_request("a", tiny_records(), acks=acks), 9)
        await trio.sleep(0.02)
        client.close()
        await trio.sleep(0.03)
        before = len(calls)
        await trio.sleep(1)
        assert end_offset(node, "a") == appended_count
        assert (len(calls) > before) == (acks == 0)

    with_pool_turns(story)


def test_lookups_by_time_end_with_their_client() -> None:
    async def story(node: Story, calls: list[int]) -> None:
        await node.create_topic("a", partitions=20)
        await node.ask(of_partitions("a", tiny_records(500, codec=Codec.GZIP), 20), 9)
        wanted = [
            ListOffsetsPartition(partition_index=index, timestamp=TIME_MS) for index in range(20)
        ]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name="a", partitions=wanted)]
        )
        before = len(calls)
        assert [found.offset for found in (await node.ask(request, 7)).topics[0].partitions] == [
            0
        ] * 20
        assert len(calls) - before >= 20, "others are served between two partitions"
        client = await node.connect()
        await client.send(request, 7)
        await trio.sleep(0.05)
        client.close()
        before = len(calls)
        await trio.sleep(1)
        assert len(calls) - before <= 2

    with_pool_turns(story)


def test_a_transaction_with_a_large_batch_keeps_its_order() -> None:
    async def story(node: Story, calls: list[int]) -> None:
        await node.create_topic("a")
        await node.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]), 6)
        await trio.sleep(5)
        made = await node.ask(
            InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 5
        )
        header = {
            "producer_id": made.producer_id,
            "producer_epoch": made.producer_epoch,
            "is_transactional": True,
        }
        client = await node.connect()
        for content in (
            tiny_records(**header, base_sequence=0),
            batch(b"v", **header, base_sequence=LARGE_COUNT),
        ):
            sending = produce_request("a", content)
            sending.transactional_id = "t"
            await client.send(sending, 12)
        answers = [(await client.receive()).responses[0].partition_responses[0] for _ in range(2)]
        assert [(answer.error_code, answer.base_offset) for answer in answers] == [
            (0, 0),
            (0, LARGE_COUNT),
        ]
        assert calls

    with_pool_turns(story)


def garbled(count: int = LARGE_COUNT) -> bytes:
    """A batch as ``tiny_records`` makes it, whose last record is malformed."""
    changed = bytearray(tiny_records(count))
    changed[-1] ^= 1
    HEADER.pack_into(changed, 0, *parse_header(changed)._replace(crc=compute_crc(changed)))
    return bytes(changed)


@pytest.mark.parametrize(
    ("content", "acks", "is_left"),
    [
        pytest.param(tiny_records(), -1, False, id="acknowledged"),
        pytest.param(tiny_records(), 0, False, id="without a response"),
        pytest.param(garbled(), 0, False, id="failed"),
        pytest.param(tiny_records(), 0, True, id="without a response, and its client has left"),
        pytest.param(tiny_records(), -1, True, id="dropped by its client"),
    ],
)
def test_the_time_of_a_line_is_charged_however_the_request_ends(
    content: bytes, acks: int, *, is_left: bool
) -> None:
    """Only the handler's time was charged, which is over before the first record is checked."""

    async def story(node: Story, calls: list[int]) -> None:
        await node.create_topic("a")
        await set_quotas(node, STORY, request_percentage=0.05)
        client, other = await node.connect(), await node.connect()
        await other.ask(QUESTION, 12)
        await client.send(produce_request("a", content, acks=acks), 9)
        await trio.sleep(0.02)
        if is_left:
            client.close()
        elif acks:
            assert (await client.receive()).throttle_time_ms == 1_000
        await trio.sleep(0.3)
        before = trio.current_time()
        await other.ask(QUESTION, 12)
        assert calls
        assert trio.current_time() - before >= 0.5

    with_pool_turns(story)


def test_the_turns_of_lookups_by_time_are_charged() -> None:
    async def story(node: Story, calls: list[int]) -> None:
        await node.create_topic("a", partitions=5)
        await set_quotas(node, STORY, request_percentage=0.05)
        wanted = [
            ListOffsetsPartition(partition_index=index, timestamp=TIME_MS) for index in range(5)
        ]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name="a", partitions=wanted)]
        )
        assert (await node.ask(request, 7)).throttle_time_ms == 1_000
        assert calls

    with_pool_turns(story)


def test_no_step_of_a_check_makes_an_object_for_each_record() -> None:
    """Calls of Python functions within one step: what a turn of the loop may take of the
    interpreter.
    """
    checks.checks_at_once()  # imports
    config = LogConfig(
        is_compacted=True, message_timestamp_before_max_ms=1 << 50, max_message_bytes=8 << 20
    )
    steps = validate_in_steps(
        bytearray(tiny_records(400_000, codec=Codec.GZIP)), config, TIME_MS, Allowance()
    )
    counts: list[int] = []
    sys.setprofile(lambda *_: counts.__setitem__(-1, counts[-1] + 1) if counts else None)
    try:
        while True:
            counts.append(0)
            next(steps)
    except StopIteration:
        pass
    finally:
        sys.setprofile(None)
    assert len(counts) > 400_000 // 16_384
    assert max(counts) < 5_000


def test_records_of_an_earlier_leader_epoch_are_not_acknowledged() -> None:
    """A leader does not acknowledge records of an earlier leader epoch.

    Turns lie between an append and the response. This node may have been elected anew
    meanwhile, without the records.
    """

    async def story(node: Story, calls: list[int]) -> None:
        await node.create_topic("a", partitions=2)
        appended = node.broker.replicas.partitions["a", 0]
        producer = await node.connect()
        data = [
            PartitionProduceData(index=0, records=batch(b"x")),
            PartitionProduceData(index=1, records=tiny_records()),
        ]
        request = ProduceRequest(
            acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name="a", partition_data=data)]
        )
        await producer.send(request, 9)
        while not calls:  # noqa: ASYNC110 - the world counts, and tells of nothing
            await trio.sleep(0.001)
        assert end_offset(node, "a") == 1
        appended.state.leader_epoch += 2
        response = await producer.receive()
        codes = [each.error_code for each in response.responses[0].partition_responses]
        assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]

    with_pool_turns(story)
