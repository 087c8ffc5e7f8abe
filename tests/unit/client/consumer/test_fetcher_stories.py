"""A consumer that reads what a scripted leader sends: epochs, truncation, errors, positions."""

import pytest
import trio

from log_service.client import Consumer, ErrorCode, KafkaError, TopicPartition
from tests.unit.client.scripted_leader import Leader, tell

PARTITION = TopicPartition("t", 0)


def batch(leader: Leader, base_offset: int, count: int, leader_epoch: int) -> None:
    """Let the leader respond with records whose values are their offsets."""
    leader.records(
        base_offset,
        [b"%d" % offset for offset in range(base_offset, base_offset + count)],
        leader_epoch=leader_epoch,
    )


async def offsets(consumer: Consumer) -> list[int]:
    return [record.offset for record in await consumer.poll(timeout_ms=5_000)]


def test_the_epoch_of_the_last_record_is_told_with_the_next_fetch() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        batch(leader, 0, 3, leader_epoch=2)
        assert await offsets(consumer) == [0, 1, 2]
        await consumer.poll(timeout_ms=1_000)
        assert (leader.asked[0].fetch_offset, leader.asked[0].last_fetched_epoch) == (0, -1)
        assert (
            leader.asked[-1].fetch_offset,
            leader.asked[-1].last_fetched_epoch,
            leader.asked[-1].current_leader_epoch,
        ) == (3, 2, 0)

    tell(story)


def test_a_truncated_log_is_read_again_from_where_it_was_cut() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        batch(leader, 0, 5, leader_epoch=1)
        assert await offsets(consumer) == [0, 1, 2, 3, 4]
        leader.truncation(3)
        batch(leader, 3, 3, leader_epoch=2)
        assert await offsets(consumer) == [3, 4, 5]

    tell(story)


def test_a_truncated_log_is_told_where_there_is_no_reset() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        await consumer.seek(PARTITION, 0)
        batch(leader, 0, 5, leader_epoch=1)
        await consumer.poll(timeout_ms=5_000)
        leader.truncation(3)
        with pytest.raises(
            KafkaError, match="t-0 was truncated to offset 3 after offset 5 had been read"
        ):
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
        batch(leader, 0, 2, leader_epoch=0)
        assert await offsets(consumer) == [0, 1]

    tell(story)


def test_errors_that_stay_are_told_and_reading_goes_on_when_they_end() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        batch(leader, 0, 2, leader_epoch=0)
        with pytest.raises(
            KafkaError, match="fetch of t-0 at offset 0: TOPIC_AUTHORIZATION_FAILED"
        ):
            await consumer.poll(timeout_ms=5_000)
        assert await offsets(consumer) == [0, 1]

    tell(story)


def test_a_partition_that_fails_again_and_again_keeps_no_other_waiting_however_long_the_application_waits() -> (
    None
):
    """It waits longer than the client does: the error is there again at each of its polls."""

    async def story(leader: Leader, consumer: Consumer) -> None:
        for offset in range(10):
            leader.records(offset, [b"%d" % offset], partition=1)
        for _ in range(100):
            leader.error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        seen: list[int] = []
        error_count = 0
        for _ in range(30):
            try:
                seen += await offsets(consumer)
            except KafkaError:
                error_count += 1
                await trio.sleep(5)
        assert seen == list(range(10))
        assert error_count > 3, "and the application hears of it"

    tell(story, partition_count=2)


def test_records_keep_no_error_waiting() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.records(0, [b"%d" % offset for offset in range(10)], partition=1)
        leader.error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        assert [
            record.offset for record in await consumer.poll(max_records=1, timeout_ms=5_000)
        ] == [0]
        await trio.sleep(1)
        with pytest.raises(
            KafkaError, match="fetch of t-0 at offset 0: TOPIC_AUTHORIZATION_FAILED"
        ):
            await consumer.poll(max_records=1, timeout_ms=5_000)
        assert [
            record.offset for record in await consumer.poll(max_records=1, timeout_ms=5_000)
        ] == [1]

    tell(story, partition_count=2)


def test_an_offset_below_the_log_start_goes_to_the_earliest() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        await consumer.seek(PARTITION, 2)
        leader.log_start_offset = 10
        leader.error(ErrorCode.OFFSET_OUT_OF_RANGE)
        batch(leader, 10, 2, leader_epoch=0)
        assert await offsets(consumer) == [10, 11]

    tell(story)


def test_what_was_fetched_before_a_seek_is_not_handed_out_after_it() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        batch(leader, 0, 5, leader_epoch=0)
        assert (await consumer.poll(max_records=2, timeout_ms=5_000))[-1].offset == 1
        batch(leader, 7, 2, leader_epoch=0)
        await consumer.seek(PARTITION, 7)
        assert await offsets(consumer) == [7, 8]

    tell(story)


def test_fetching_ahead_stops_at_its_bound() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        for base in range(0, 1_000, 10):
            batch(leader, base, 10, leader_epoch=0)
        await consumer.poll(max_records=1, timeout_ms=5_000)
        await trio.sleep(20)
        assert len(leader.asked) < 20
        seen = 1
        while seen < 1_000:
            seen += len(await consumer.poll(timeout_ms=5_000))

    tell(story, queued_max_bytes=2_000)


def test_a_refused_topic_that_was_assigned_by_hand_is_told() -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.broker.refused_topics = {"secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        secret = TopicPartition("secret", 0)
        consumer.assign([secret])
        await consumer.seek(secret, 0)
        with pytest.raises(KafkaError, match=r"'secret'.*TOPIC_AUTHORIZATION_FAILED"):
            await consumer.poll(timeout_ms=60_000)

    tell(story)
