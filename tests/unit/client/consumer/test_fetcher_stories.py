"""A consumer that reads what a scripted leader answers: epochs, truncation, errors, positions."""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from log_service.client import Consumer, ErrorCode, KafkaError, TopicPartition
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchPartition, FetchResponse, PartitionData
from log_service.protocol.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from log_service.records.builder import build_batch
from tests.sim import World, sim_run
from tests.unit.client.scripted_broker import TOPIC_ID, ScriptedBroker

PARTITION = TopicPartition("t", 0)

Story = Callable[["Leader", Consumer], Awaitable[None]]


class Leader:
    """Answers fetches of t-0 in order: bytes, an error, or a truncation; nothing new once the script has ended."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.script: deque[PartitionData] = deque()
        self.asked: list[FetchPartition] = []
        self.log_start_offset = 0
        broker.other[ApiKey.FETCH] = self._fetch
        broker.other[ApiKey.LIST_OFFSETS] = self._list_offsets

    def records(self, base_offset: int, count: int, leader_epoch: int) -> None:
        values = [(0, None, b"%d" % offset) for offset in range(base_offset, base_offset + count)]
        records = build_batch(values, base_offset=base_offset, leader_epoch=leader_epoch)
        self.script.append(PartitionData(records=records, high_watermark=base_offset + count))

    def error(self, code: ErrorCode) -> None:
        self.script.append(PartitionData(error_code=code, high_watermark=-1))

    def truncation(self, end_offset: int) -> None:
        self.script.append(PartitionData(diverging_epoch=EpochEndOffset(epoch=1, end_offset=end_offset)))

    async def _fetch(self, request: Any, version: int) -> FetchResponse:
        self.asked.append(request.topics[0].partitions[0])
        if not self.script:
            await trio.sleep(request.max_wait_ms / 1_000)
        answer = self.script.popleft() if self.script else PartitionData(high_watermark=99)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", topic_id=TOPIC_ID, partitions=[answer])])

    async def _list_offsets(self, request: Any, version: int) -> ListOffsetsResponse:
        await trio.lowlevel.checkpoint()
        found = ListOffsetsPartitionResponse(partition_index=0, offset=self.log_start_offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])


def tell(story: Story, **settings: Any) -> None:
    async def main(world: World) -> None:
        broker = ScriptedBroker(world)
        leader = Leader(broker)
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            settings.setdefault("auto_offset_reset", "earliest")
            async with Consumer("broker:9092", env=world.client_env(), **settings) as consumer:
                consumer.assign([PARTITION])
                with trio.fail_after(100):
                    await story(leader, consumer)
            nursery.cancel_scope.cancel()

    sim_run(1, main)


async def offsets(consumer: Consumer) -> list[int]:
    return [record.offset for record in await consumer.poll(timeout_ms=5_000)]


def test_the_epoch_of_the_last_record_is_told_with_the_next_fetch() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.records(0, 3, leader_epoch=2)
        assert await offsets(consumer) == [0, 1, 2]
        await consumer.poll(timeout_ms=1_000)
        assert (leader.asked[0].fetch_offset, leader.asked[0].last_fetched_epoch) == (0, -1)
        assert (leader.asked[-1].fetch_offset, leader.asked[-1].last_fetched_epoch, leader.asked[-1].current_leader_epoch) == (3, 2, 0)

    tell(story)


def test_a_truncated_log_is_read_again_from_where_it_was_cut() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.records(0, 5, leader_epoch=1)
        assert await offsets(consumer) == [0, 1, 2, 3, 4]
        leader.truncation(3)
        leader.records(3, 3, leader_epoch=2)
        assert await offsets(consumer) == [3, 4, 5]

    tell(story)


def test_a_truncated_log_is_told_where_there_is_no_reset() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        await consumer.seek(PARTITION, 0)
        leader.records(0, 5, leader_epoch=1)
        await consumer.poll(timeout_ms=5_000)
        leader.truncation(3)
        with pytest.raises(KafkaError, match="t-0 was truncated to offset 3 after offset 5 had been read"):
            await consumer.poll(timeout_ms=5_000)
        assert await consumer.position(PARTITION) == 5

    tell(story, auto_offset_reset="none")


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_errors_that_pass_are_waited_out(code: ErrorCode) -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.error(code)
        leader.error(code)
        leader.records(0, 2, leader_epoch=0)
        assert await offsets(consumer) == [0, 1]

    tell(story)


def test_errors_that_stay_are_told_and_reading_goes_on_when_they_end() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        leader.records(0, 2, leader_epoch=0)
        with pytest.raises(KafkaError, match="fetch of t-0 at offset 0: TOPIC_AUTHORIZATION_FAILED"):
            await consumer.poll(timeout_ms=5_000)
        assert await offsets(consumer) == [0, 1]

    tell(story)


def test_an_offset_below_the_log_start_goes_to_the_earliest() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        await consumer.seek(PARTITION, 2)
        leader.log_start_offset = 10
        leader.error(ErrorCode.OFFSET_OUT_OF_RANGE)
        leader.records(10, 2, leader_epoch=0)
        assert await offsets(consumer) == [10, 11]

    tell(story)


def test_what_was_fetched_before_a_seek_is_not_handed_out_after_it() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.records(0, 5, leader_epoch=0)
        assert (await consumer.poll(max_records=2, timeout_ms=5_000))[-1].offset == 1
        leader.records(7, 2, leader_epoch=0)
        await consumer.seek(PARTITION, 7)
        assert await offsets(consumer) == [7, 8]

    tell(story)


def test_fetching_ahead_stops_at_its_bound() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        for base in range(0, 1_000, 10):
            leader.records(base, 10, leader_epoch=0)
        await consumer.poll(max_records=1, timeout_ms=5_000)
        await trio.sleep(20)
        assert len(leader.asked) < 20
        seen = 1
        while seen < 1_000:
            seen += len(await consumer.poll(timeout_ms=5_000))

    tell(story, queued_max_bytes=2_000)
