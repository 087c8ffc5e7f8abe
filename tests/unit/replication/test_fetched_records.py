"""A follower takes its leader's response partition by partition."""

import errno
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from log_service.replication.fetcher import Fetcher
from log_service.replication.followed_partition import Followed
from log_service.replication.partition import Partition
from log_service.replication.throttles import Throttle, ThrottledSide
from tests.unit.replication.context import NODE, ReplicaContext, batch
from tests.unit.replication.fetching import BACKOFF_MS, active, fetcher_of, pair_of, tell


def told(
    index: int, *values: bytes, base_offset: int = 0, high_watermark: int = 0, **more: Any
) -> PartitionData:
    """Return a leader's response for a partition, with a batch of records."""
    records = batch(*values) if values else None
    if records is not None:
        records[:8] = base_offset.to_bytes(8, "big")
    return PartitionData(
        partition_index=index,
        records=records,
        high_watermark=high_watermark,
        log_start_offset=0,
        **more,
    )


async def take(
    context: ReplicaContext, fetcher: Fetcher, *partitions: PartitionData, asks: bool = True
) -> None:
    """Ask, and take the response, in which a session is begun or goes on."""
    if asks:
        fetcher.next_request()
    topic = FetchableTopicResponse(
        topic_id=context.image.topics.by_name["a"].topic_id, partitions=list(partitions)
    )
    await fetcher.take_response(FetchResponse(session_id=7, responses=[topic]), cast("Any", None))


def named(fetcher: Fetcher) -> tuple[bool, list[int]]:
    """Whether the next request begins a session, and the partitions that it names."""
    request = fetcher.next_request()
    return request.session_epoch == 0, sorted(
        each.partition for topic in request.topics for each in topic.partitions
    )


def ends(*partitions: Partition) -> list[int]:
    return [each.state.log_end_offset for each in partitions]


def play(
    story: Callable[[ReplicaContext, Fetcher, Partition, Partition], Awaitable[None]], **how: Any
) -> None:
    """Run a story of a follower of two partitions."""
    configs = {key: how.pop(key) for key in ("flush_messages",) if key in how}

    async def main(context: ReplicaContext) -> None:
        fetcher, (first, second) = fetcher_of(context, **how), pair_of(context, **configs)
        for each in (first, second):
            fetcher.add(each)
        await story(context, fetcher, first, second)

    tell(main)


def followed_of(fetcher: Fetcher, partition: Partition) -> Followed:
    return next(each for each in fetcher.followed.values() if each.partition is partition)


def test_a_session_names_a_partition_again_when_its_log_has_grown() -> None:
    async def story(
        context: ReplicaContext, fetcher: Fetcher, first: Partition, second: Partition
    ) -> None:
        await take(context, fetcher, told(0, b"one"), told(1))
        assert (ends(first, second), named(fetcher)) == ([1, 0], (False, [0]))
        await take(context, fetcher, asks=False)
        assert named(fetcher) == (False, [])

    play(story)


def test_a_replica_lags_until_it_has_what_its_leader_calls_safe() -> None:
    async def story(
        context: ReplicaContext, fetcher: Fetcher, first: Partition, _second: Partition
    ) -> None:
        followed = followed_of(fetcher, first)
        assert followed.is_lagging
        await take(context, fetcher, told(0, b"0", b"1", high_watermark=10))
        assert (followed.lag, followed.is_lagging, first.high_watermark) == (8, True, 2)
        await take(context, fetcher, told(0, b"2", base_offset=2, high_watermark=3))
        assert (followed.lag, followed.is_lagging, first.high_watermark) == (0, False, 3)
        await take(context, fetcher, told(0, b"3", base_offset=3, high_watermark=3))
        assert (followed.lag, followed.is_lagging, first.high_watermark) == (0, False, 3)

    play(story)


def test_only_what_the_throttle_names_uses_up_its_rate() -> None:
    throttle = Throttle(ThrottledSide.FOLLOWER, NODE, 0)
    throttle.set_rate("1000")
    throttle.set_topic("a", f"1:{NODE}")

    async def story(
        context: ReplicaContext, fetcher: Fetcher, _first: Partition, _second: Partition
    ) -> None:
        for index in (0, 1):
            await take(context, fetcher, told(index, b"x" * 100_000))
            assert throttle.is_exceeded(context.env.clock.monotonic_ms()) is (index == 1)

    play(story, throttle=throttle)


@pytest.mark.parametrize(
    ("configs", "seconds"),
    [({}, 0), ({"flush_messages": "1"}, 1)],
    ids=["not synced first", "synced first"],
)
def test_records_that_count_once_they_are_synced_are_so_before_the_leader_hears_of_them(
    configs: dict[str, str], seconds: float
) -> None:
    """Both partitions at once. A partition of which nothing came has nothing to sync."""

    async def story(
        context: ReplicaContext, fetcher: Fetcher, _first: Partition, _second: Partition
    ) -> None:
        context.files.sync_seconds = (1.0, 1.0)
        for values, taken_s in (((b"one",), seconds), ((), 0)):
            began = trio.current_time()
            offset = 0 if values else 1
            await take(
                context, fetcher, *(told(index, *values, base_offset=offset) for index in (0, 1))
            )
            assert trio.current_time() - began == pytest.approx(taken_s, abs=0.1)

    play(story, **configs)


def test_a_full_disk_puts_a_replica_off_and_a_failed_one_stops_it() -> None:
    async def story(
        context: ReplicaContext, fetcher: Fetcher, first: Partition, second: Partition
    ) -> None:
        context.files.fail_next("append", error=errno.ENOSPC, containing="a-0")
        await take(context, fetcher, told(0, b"one"), told(1, b"one"))
        assert (ends(first, second), active(fetcher)) == ([0, 1], [second])
        await trio.sleep(BACKOFF_MS / 1_000)
        fetcher.resume_paused()
        await take(context, fetcher, told(0, b"one"))
        assert ends(first, second) == [1, 1]
        context.files.fail_next("append", error=errno.EIO, containing="a-0")
        await take(context, fetcher, told(0, b"two", base_offset=1))
        await trio.sleep(100 * BACKOFF_MS / 1_000)
        fetcher.resume_paused()
        assert first not in active(fetcher)
        assert first.is_offline

    play(story)


def test_records_that_cannot_be_synced_are_not_told_of() -> None:
    async def story(
        context: ReplicaContext, fetcher: Fetcher, first: Partition, _second: Partition
    ) -> None:
        await take(context, fetcher, told(0, b"one"))
        context.files.fail_next("sync", containing="a-0")
        await take(context, fetcher, told(0, b"two", base_offset=1))
        assert first not in active(fetcher)
        assert named(fetcher) == (False, []), "and the leader is told no other offset of it"

    play(story, flush_messages="1")


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
    ],
)
def test_an_error_of_one_partition_holds_up_no_other_and_takes_none_of_its_records(
    code: ErrorCode,
) -> None:
    async def story(
        context: ReplicaContext, fetcher: Fetcher, first: Partition, second: Partition
    ) -> None:
        await take(context, fetcher, told(0, b"one", error_code=code), told(1, b"one"))
        assert (ends(first, second), active(fetcher)) == ([0, 1], [second])
        assert named(fetcher) == (False, [1])

    play(story)


def test_what_was_not_asked_for_in_this_way_is_left_out_and_the_next_request_begins_another_session() -> (
    None
):
    """Within this session the leader would not say it again."""

    async def story(
        context: ReplicaContext, fetcher: Fetcher, first: Partition, second: Partition
    ) -> None:
        fetcher.next_request()
        first.append_as_follower(batch(b"other"))
        await take(context, fetcher, told(0, b"one", high_watermark=1), told(1, b"one"), asks=False)
        assert (ends(first, second), first.high_watermark) == ([1, 1], 0)
        assert named(fetcher) == (True, [0, 1])
        fetcher.remove(second)
        await take(context, fetcher, told(1, b"two", base_offset=1))
        assert ends(second) == [1]
        assert named(fetcher) == (True, [0])

    play(story)


def test_a_response_to_a_request_from_before_a_new_leader_epoch_is_left_out() -> None:
    async def story(
        context: ReplicaContext, fetcher: Fetcher, first: Partition, second: Partition
    ) -> None:
        fetcher.next_request()
        fetcher.add(first)
        await take(context, fetcher, told(0, b"one"), told(1, b"one"), asks=False)
        assert (ends(first, second), named(fetcher)) == ([0, 1], (True, [0, 1]))

    play(story)


def test_a_log_is_cut_where_it_parted_and_takes_no_records_with_that() -> None:
    async def story(
        context: ReplicaContext, fetcher: Fetcher, first: Partition, _second: Partition
    ) -> None:
        await take(context, fetcher, told(0, b"0", b"1"))
        await take(context, fetcher, told(0, b"2", base_offset=2))
        parted = told(
            0,
            b"x",
            base_offset=3,
            high_watermark=4,
            diverging_epoch=EpochEndOffset(epoch=0, end_offset=2),
        )
        await take(context, fetcher, parted)
        assert ends(first) == [2]
        assert named(fetcher) == (True, [0, 1])

    play(story)
