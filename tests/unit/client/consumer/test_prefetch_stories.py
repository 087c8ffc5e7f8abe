"""A consumer keeps or drops prefetched records as the application goes on.

The application pauses, seeks, gives up, and meets records that it cannot read.
"""

from typing import Any

import pytest
import trio

from log_service.client import (
    Consumer,
    ErrorCode,
    KafkaError,
    LogTruncation,
    RecordDeserializationError,
    TopicPartition,
)
from log_service.client.consumer.records import ConsumerRecord
from log_service.common.errors import ConfigError
from log_service.config.client import ConsumerConfig
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.fetch import PartitionData
from log_service.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.unit.client.scripted_leader import Leader, tell, values

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def test_nothing_of_a_paused_partition_is_returned_and_nothing_is_lost() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.records(0, [b"a", b"b"], partition=0)
        leader.records(0, [b"x", b"y"], partition=1)
        await trio.sleep(5)
        consumer.pause([FIRST])
        assert await values(consumer) == [b"x", b"y"]
        asked = len(leader.asked)
        consumer.resume([FIRST])
        assert await values(consumer) == [b"a", b"b"]
        assert not [
            each for each in leader.asked[:asked] if each.partition == 0 and each.fetch_offset == 0
        ][1:], "kept, not fetched again"

    tell(story, partition_count=2)


def test_paused_partitions_that_hold_the_whole_buffer_make_room_for_the_others() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        consumer.pause([SECOND])
        for base in range(0, 40, 10):
            leader.records(base, [b"v" * 100] * 10)
        await trio.sleep(5)
        consumer.pause([FIRST])
        consumer.resume([SECOND])
        leader.scripts[0].clear()
        leader.records(0, [b"other"], partition=1)
        assert await values(consumer) == [b"other"]
        for base in range(0, 40, 10):
            leader.records(base, [b"v" * 100] * 10)
        consumer.resume([FIRST])
        seen: list[bytes] = []
        while len(seen) < 40:
            seen += await values(consumer)
        assert await consumer.position(FIRST) == 40

    tell(story, partition_count=2, queued_max_bytes=1_000)


def test_what_was_fetched_of_a_partition_that_was_given_up_is_never_returned() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.records(0, [b"a"], partition=0)
        leader.records(0, [b"x"], partition=1)
        await trio.sleep(5)
        consumer.assign([SECOND])
        assert await values(consumer) == [b"x"]
        assert await values(consumer, timeout_ms=100) == []
        leader.records(0, [b"a"], partition=0)
        consumer.assign([FIRST, SECOND])
        assert await values(consumer) == [b"a"], (
            "assigned again, it is read from where the position is found"
        )

    tell(story, partition_count=2)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    ],
)
def test_a_leader_that_sends_errors_is_not_stormed(code: ErrorCode) -> None:
    """Each request gets its response at once, for a minute in which the application does not poll."""

    async def story(leader: Leader, consumer: Consumer) -> None:
        await consumer.seek(FIRST, 7)
        for _ in range(10_000):
            leader.error(code)
        await trio.sleep(60)
        assert len(leader.requests) < 200

    tell(story, auto_offset_reset="none")


def test_partitions_that_are_sought_one_after_another_need_no_reset() -> None:
    """The search for positions ran while the second one was not sought yet, and failed."""

    async def story(leader: Leader, consumer: Consumer) -> None:
        await consumer.seek(FIRST, 0)
        await trio.sleep(5)
        await consumer.seek(SECOND, 0)
        leader.records(0, [b"a"], partition=0)
        leader.records(0, [b"x"], partition=1)
        found = [*await values(consumer), *await values(consumer)]
        assert sorted(found) == [b"a", b"x"]

    tell(story, partition_count=2, auto_offset_reset="none")


def test_a_partition_that_is_not_sought_fails_each_poll() -> None:
    async def story(_leader: Leader, consumer: Consumer) -> None:
        await consumer.seek(FIRST, 0)
        for _ in range(2):
            await trio.sleep(5)
            with pytest.raises(KafkaError, match="t-1 has no offset to read on at"):
                await consumer.poll(timeout_ms=5_000)

    tell(story, partition_count=2, auto_offset_reset="none")


def test_an_error_behind_buffered_records_waits_until_they_were_read() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        await consumer.seek(FIRST, 0)
        leader.records(0, [b"a", b"b"])
        leader.error(ErrorCode.OFFSET_OUT_OF_RANGE)
        await trio.sleep(5)
        assert await values(consumer) == [b"a", b"b"]
        leader.error(ErrorCode.OFFSET_OUT_OF_RANGE)
        with pytest.raises(KafkaError, match="fetch of t-0 at offset 2: OFFSET_OUT_OF_RANGE"):
            await consumer.poll(timeout_ms=5_000)

    tell(story, auto_offset_reset="none")


def test_a_broken_record_is_named_after_those_before_it_and_can_be_skipped() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.records(0, [b"1", b"2", b"three", b"4"])
        assert await values(consumer) == [1, 2]
        for _ in range(2):
            with pytest.raises(
                RecordDeserializationError, match="the value of the record at t-0 offset 2"
            ) as caught:
                await consumer.poll(timeout_ms=5_000)
            assert await consumer.position(FIRST) == 2
        assert (caught.value.topic_partition, caught.value.offset, caught.value.origin) == (
            FIRST,
            2,
            "value",
        )
        assert caught.value.record.value == b"three"
        assert isinstance(caught.value.__cause__, ValueError)
        leader.records(3, [b"4", b"5"])
        await consumer.seek(FIRST, caught.value.offset + 1)
        assert await values(consumer) == [4, 5]

    tell(story, value_deserializer=int)


def test_null_is_not_deserialized() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.records(0, [b"1", None, b"3"])  # type: ignore[list-item]
        assert await values(consumer) == [1, None, 3]

    tell(story, value_deserializer=int, key_deserializer=int)


def test_interceptors_see_what_a_poll_returns_and_lose_nothing_when_they_raise() -> None:
    failures: list[Exception] = [ZeroDivisionError()]

    def fail_once(records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        if failures:
            raise failures.pop()
        return records

    def without_b(records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        return [record for record in records if record.value != b"b"]

    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.records(0, [b"a", b"b", b"c"])
        with pytest.raises(ZeroDivisionError):
            await consumer.poll(timeout_ms=5_000)
        assert await consumer.position(FIRST) == 0
        leader.records(0, [b"a", b"b", b"c"])
        assert await values(consumer) == [b"a", b"c"]
        assert await consumer.position(FIRST) == 3

    tell(story, interceptors=[without_b, fail_once])


def test_a_wakeup_ends_the_poll_that_waits_or_the_next_one() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        await consumer.poll(timeout_ms=100)
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consumer.poll, None, 60_000)
            await trio.sleep(1)
            consumer.wakeup()
        consumer.wakeup()
        assert await consumer.poll(timeout_ms=60_000) == []
        assert trio.current_time() - started == pytest.approx(1, abs=0.1)
        leader.records(0, [b"a"])
        assert await values(consumer) == [b"a"]

    tell(story)


# Where to begin


def test_a_reset_by_duration_begins_so_long_ago_or_at_the_end() -> None:
    async def found(leader: Leader, consumer: Consumer) -> None:
        leader.offset_of_time = 40
        assert await consumer.position(FIRST) == 40
        now_ms = leader.broker.world.client_env().clock.wall_ms()
        assert now_ms - 36 * 3_600_000 - 5_000 <= leader.listed[0] <= now_ms - 36 * 3_600_000

    async def nothing_so_young(leader: Leader, consumer: Consumer) -> None:
        assert await consumer.position(FIRST) == 99
        assert leader.listed[-1] == -1

    tell(found, auto_offset_reset="by_duration:P1DT12H")
    tell(nothing_so_young, auto_offset_reset="by_duration:PT0.5S")


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("P2D", 172_800_000),
        ("PT1H1M1.5S", 3_661_500),
        ("pt90m", 5_400_000),
        ("P1DT1S", 86_401_000),
        ("PT0S", 0),
    ],
)
def test_durations_are_read(text: str, expected_ms: int) -> None:
    assert (
        ConsumerConfig.of("a:1", {"auto_offset_reset": f"by_duration:{text}"}).reset_duration_ms
        == expected_ms
    )


@pytest.mark.parametrize(
    "text",
    [
        "by_duration:",
        "by_duration:P",
        "by_duration:PT",
        "by_duration:1D",
        "by_duration:P1M",
        "by_duration:-P1D",
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(
        ConfigError, match="auto_offset_reset must be one of earliest, latest, none or by_duration"
    ):
        ConsumerConfig.of("a:1", {"auto_offset_reset": text})


def test_a_partition_that_is_not_there_does_not_keep_the_others_from_being_read() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        consumer.assign([FIRST, TopicPartition("later", 0)])
        leader.records(0, [b"a"])
        assert await values(consumer, timeout_ms=20_000) == [b"a"]

    tell(story)


def test_topics_that_are_read_no_more_are_not_asked_for_any_more() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        await consumer.position(FIRST)
        for number in range(5):
            consumer.assign([TopicPartition(f"other-{number}", 0)])
            await consumer.poll(timeout_ms=50)
        consumer.assign([FIRST])
        await consumer.cluster.refresh()
        asked = [request for key, request in leader.broker.requests if key is ApiKey.METADATA][-1]
        assert [topic.name for topic in asked.topics] == ["t"]

    tell(story)


# Truncation


def test_truncation_tells_where_the_logs_still_agree() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        await consumer.seek(FIRST, 0)
        leader.records(0, [b"a", b"b", b"c"], leader_epoch=1)
        await values(consumer)
        leader.truncation(1)
        with pytest.raises(LogTruncation) as caught:
            await consumer.poll(timeout_ms=5_000)
        assert (caught.value.topic_partition, caught.value.offset, caught.value.end_offset) == (
            FIRST,
            3,
            1,
        )

    tell(story, auto_offset_reset="none")


def test_an_older_broker_is_asked_where_the_epoch_ended() -> None:
    """Below Fetch v12 the leader does not compare epochs itself (KIP-320)."""
    asked: list[tuple[int, int]] = []

    async def story(leader: Leader, consumer: Consumer) -> None:
        async def epoch_ends(request: Any, version: int) -> OffsetForLeaderEpochResponse:
            await trio.lowlevel.checkpoint()
            (partition,) = request.topics[0].partitions
            asked.append((partition.leader_epoch, partition.current_leader_epoch))
            end = EpochEndOffset(partition=0, leader_epoch=1, end_offset=2)
            return OffsetForLeaderEpochResponse(
                topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])]
            )

        leader.broker.max_versions = {ApiKey.FETCH: 11}
        leader.broker.leader_epochs = [2]
        leader.broker.other[ApiKey.OFFSET_FOR_LEADER_EPOCH] = epoch_ends
        await consumer.seek(FIRST, 5, leader_epoch=1)
        leader.records(2, [b"c", b"d"], leader_epoch=2)
        assert await values(consumer) == [b"c", b"d"]
        assert asked[0][0] == 1

    tell(story)


def test_a_consumer_that_is_not_open_says_so() -> None:
    closed: list[Consumer] = [Consumer("broker:9092", group_id="g")]

    async def story(leader: Leader, consumer: Consumer) -> None:
        closed.append(consumer)

    async def use(consumer: Consumer) -> None:
        with pytest.raises(KafkaError, match="the consumer is closed"):
            consumer.assign([FIRST])
        for call in (consumer.poll(), consumer.subscribe(["t"]), consumer.commit({FIRST: 1})):
            with pytest.raises(KafkaError, match="the consumer is closed"):
                await call

    tell(story)
    for consumer in closed:
        trio.run(use, consumer)


def test_a_partition_without_a_leader_does_not_keep_the_others_from_being_read() -> None:
    """The consumer cannot ask for the start of a partition without a leader, but it can for the
    others.
    """

    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.broker.leaders = [1, -1]
        leader.records(0, [b"0"])
        leader.records(0, [b"1"], partition=1)
        started = trio.current_time()
        assert await values(consumer) == [b"0"]
        assert trio.current_time() - started < 3
        leader.broker.leaders = [1, 1]
        assert await values(consumer) == [b"1"]

    tell(story, partition_count=2)


@pytest.mark.parametrize(
    "code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_a_loop_that_polls_on_after_an_error_does_not_ask_as_fast_as_the_broker_responds(
    code: ErrorCode,
) -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        for _ in range(1_000):
            leader.error(code)
        end = trio.current_time() + 10
        told_count = 0
        while trio.current_time() < end:
            with pytest.raises(KafkaError, match=code.name):
                await consumer.poll(timeout_ms=1_000)
            told_count += 1
        assert 5 < told_count <= len(leader.requests) < 300

    tell(story)


def test_a_nearer_replica_that_is_not_known_yet_is_asked_about_with_pauses() -> None:
    """KIP-392: the leader sends the consumer to an unknown broker, and sends nothing else."""

    async def story(leader: Leader, consumer: Consumer) -> None:
        for _ in range(10_000):
            leader.scripts[0].append(PartitionData(preferred_read_replica=7, high_watermark=1))
        before_count = leader.broker.count(ApiKey.METADATA)
        await consumer.poll(timeout_ms=10_000)
        assert len(leader.requests) < 300
        assert leader.broker.count(ApiKey.METADATA) > before_count + 1

    tell(story, client_rack="x")


@pytest.mark.parametrize("turns", range(0, 60, 3))
def test_a_seek_holds_however_far_the_search_for_a_start_has_come(turns: int) -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        await consumer.seek(FIRST, 7)
        for _ in range(2):  # a fetch of the end that was found may be on its way
            leader.records(7, [b"7"])
        assert await values(consumer) == [b"7"]

    tell(story, auto_offset_reset="latest")
