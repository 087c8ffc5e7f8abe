"""A fetcher goes on with other partitions when metadata changes while one of them waits."""

import errno
from typing import Any, cast

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.fetch import FetchResponse
from log_service.replication.fetcher import (
    PATIENCE_MS,
    STALE_LOGGED_AFTER_MS,
    THROTTLED_PAUSE_MS,
    Fetcher,
)
from log_service.replication.partition import Partition
from log_service.replication.throttles import Throttle, ThrottledSide
from tests.unit.replication.context import NODE, ReplicaContext, batch
from tests.unit.replication.fetching import active, fetcher_of, pair_of, tell


def followed_pair(context: ReplicaContext) -> tuple[Fetcher, Partition, Partition]:
    fetcher, pair = fetcher_of(context), pair_of(context)
    for partition in pair:
        fetcher.add(partition)
    return fetcher, *pair


@pytest.mark.parametrize(
    "code",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH],
    ids=["paused", "stopped"],
)
def test_a_partition_that_is_taken_away_while_it_rests_is_not_resumed(code: ErrorCode) -> None:
    async def story(context: ReplicaContext) -> None:
        fetcher, first, second = followed_pair(context)
        followed = next(each for each in fetcher.followed.values() if each.partition is first)
        fetcher.take_error(followed, code, [])
        fetcher.remove(first)
        with trio.move_on_after(2 * STALE_LOGGED_AFTER_MS / 1_000):
            await fetcher.run()
        assert active(fetcher) == [second]

    tell(story)


def test_an_earlier_life_of_a_partition_takes_no_later_one_along() -> None:
    async def story(context: ReplicaContext) -> None:
        fetcher, first, second = followed_pair(context)
        later = Partition(first.topic_partition, first.topic_id, first.log, node_id=NODE)
        fetcher.add(later)
        fetcher.remove(first)
        assert [each.partition for each in fetcher.followed.values()] == [later, second]

    tell(story)


@pytest.mark.parametrize("is_back", [False, True])
def test_a_partition_that_is_taken_away_while_its_log_is_synced_is_asked_for_only_if_it_is_back(
    *, is_back: bool
) -> None:
    """It may be another leader's by now. Where it is back with more records, those are synced
    before the leader is told of them.
    """

    async def story(context: ReplicaContext) -> None:
        first, _ = pair_of(context, flush_messages="1")
        first.append_as_follower(batch(b"one"))
        fetcher = fetcher_of(context)
        context.files.sync_seconds = (1.0, 1.0)
        fetcher.add(first)
        await trio.sleep(0.5)
        fetcher.remove(first)
        if is_back:
            more = batch(b"two")
            more[:8] = (1).to_bytes(8, "big")
            first.append_as_follower(more)
            fetcher.add(first)
        await trio.sleep(1)
        assert active(fetcher) == []
        await trio.sleep(1)
        assert active(fetcher) == ([first] if is_back else [])

    tell(story)


@pytest.mark.parametrize("is_disk_well", [True, False])
def test_a_leader_is_asked_once_the_log_is_synced_and_not_where_the_disk_fails(
    *, is_disk_well: bool
) -> None:
    async def story(context: ReplicaContext) -> None:
        first, _ = pair_of(context, flush_messages="1")
        first.append_as_follower(batch(b"one"))
        asked_at: list[float] = []
        fetcher, began = (
            fetcher_of(context, find_leader=lambda: asked_at.append(trio.current_time())),
            trio.current_time(),
        )
        context.files.sync_seconds = (1.0, 1.0)
        if not is_disk_well:
            context.files.fail_next("sync")
        fetcher.add(first)
        context.nursery.start_soon(fetcher.run)
        await trio.sleep(1.5)
        assert [each - began for each in asked_at] == ([1.0] if is_disk_well else [])
        fetcher.remove(first)

    tell(story)


def test_a_log_is_synced_first_only_where_the_topic_asks_for_it() -> None:
    async def story(context: ReplicaContext) -> None:
        first, _ = pair_of(context)
        first.append_as_follower(batch(b"one"))
        fetcher, before = fetcher_of(context), context.files.sync_count
        fetcher.add(first)
        await trio.sleep(0.1)
        assert (active(fetcher), context.files.sync_count) == ([first], before)

    tell(story)


def test_a_log_that_knows_no_epochs_is_fetched_from_what_is_safe() -> None:
    """Records behind the safe offset may not be the leader's.

    Without an epoch the leader cannot say where the two parted.
    """

    async def story(context: ReplicaContext) -> None:
        for first in pair_of(context, b"one", b"two"):
            assert first.log is not None
            first.log.leader_epochs.clear_durably()
            fetcher_of(context).add(first)
            assert (first.high_watermark, first.log.log_end_offset) == (0, 0)

    tell(story)


@pytest.mark.parametrize("is_log_there", [False, True])
def test_a_partition_whose_directory_is_offline_is_not_asked_for(
    caplog: pytest.LogCaptureFixture, *, is_log_there: bool
) -> None:
    async def story(context: ReplicaContext) -> None:
        first, _ = pair_of(context)
        fetcher = fetcher_of(context)
        assert first.log is not None
        first.log.home.fail(OSError(errno.EIO, "the disk failed"))
        fetcher.add(
            Partition(
                first.topic_partition,
                first.topic_id,
                first.log if is_log_there else None,
                node_id=NODE,
            )
        )
        assert (len(fetcher), active(fetcher)) == (1, [])
        assert "a-0 is not fetched until its leader changes" in caplog.text

    tell(story)


def test_a_leader_that_cannot_be_reached_is_looked_for_after_a_pause_or_when_there_is_something_new() -> (
    None
):
    asked_at: list[float] = []

    def find_leader() -> None:
        asked_at.append(trio.current_time())
        assert len(asked_at) < 100, "without a pause"

    async def story(context: ReplicaContext) -> None:
        first, second = pair_of(context)
        fetcher, began = fetcher_of(context, find_leader=find_leader), trio.current_time()
        fetcher.add(first)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetcher.run)
            await trio.sleep(2.5)
            fetcher.add(second)
            await trio.sleep(1.2)
            nursery.cancel_scope.cancel()
        assert [round(each - began, 1) for each in asked_at] == [0, 1, 2, 2.5, 3.5]

    tell(story)


def test_a_partition_that_comes_while_all_others_rest_is_asked_for_at_once() -> None:
    async def story(context: ReplicaContext) -> None:
        first, second = pair_of(context)
        asked: list[None] = []
        fetcher = fetcher_of(context, find_leader=lambda: asked.append(None))
        fetcher.add(first)
        fetcher.take_error(next(iter(fetcher.followed.values())), ErrorCode.FENCED_LEADER_EPOCH, [])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetcher.run)
            await trio.sleep(1)
            assert asked == []
            fetcher.add(second)
            await trio.sleep(0.1)
            assert asked == [None]
            nursery.cancel_scope.cancel()

    tell(story)


@pytest.mark.parametrize(("metadata_version", "is_in_state"), [(13, False), (14, True), (30, True)])
def test_a_request_names_its_follower_where_its_version_has_room_for_it(
    metadata_version: int, *, is_in_state: bool
) -> None:
    """To a leader that finds no follower named it is a consumer, which gets only what is safe."""

    async def story(context: ReplicaContext) -> None:
        request = fetcher_of(context, metadata_version=metadata_version).next_request()
        state = request.replica_state
        assert request.replica_id == (-1 if is_in_state else NODE)
        assert (None if state is None else (state.replica_id, state.replica_epoch)) == (
            (NODE, 1) if is_in_state else None
        )

    tell(story)


@pytest.mark.parametrize(
    ("code", "is_paused"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True),
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, False),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, False),
    ],
)
def test_a_leader_that_refuses_is_left_alone_for_a_moment_and_one_that_forgot_the_session_is_not(
    code: ErrorCode, *, is_paused: bool
) -> None:
    async def story(context: ReplicaContext) -> None:
        fetcher, _, _ = followed_pair(context)
        await fetcher.take_response(FetchResponse(error_code=code), cast("Any", Receiving()))
        assert (fetcher.resume_ms > context.env.clock.monotonic_ms()) is is_paused
        assert len(fetcher.next_request().topics[0].partitions) == 2, "the next request names all"

    tell(story)


def test_a_throttle_that_is_exceeded_holds_back_what_it_names_and_what_lags() -> None:
    async def story(context: ReplicaContext) -> None:
        throttle = Throttle(ThrottledSide.FOLLOWER, NODE, 0)
        throttle.set_rate("1000")
        throttle.set_topic("a", f"0:{NODE}")
        fetcher, (first, second) = fetcher_of(context, throttle=throttle), pair_of(context)
        for each in (first, second):
            fetcher.add(each)
        throttle.note(100_000, context.env.clock.monotonic_ms())
        fetcher.hold_back_throttled()
        fetcher.resume_paused()
        assert active(fetcher) == [second], "the throttle does not name it"
        await trio.sleep(THROTTLED_PAUSE_MS / 1_000)
        fetcher.resume_paused()
        assert sorted(active(fetcher), key=str) == [first, second]
        for followed in fetcher.followed.values():
            followed.is_lagging = False
        fetcher.hold_back_throttled()
        assert sorted(active(fetcher), key=str) == [first, second], (
            "what keeps records safe is never held back"
        )

    tell(story)


def test_the_lag_is_that_of_the_partition_that_is_furthest_behind() -> None:
    async def story(context: ReplicaContext) -> None:
        fetcher, first, _ = followed_pair(context)
        assert (fetcher_of(context).max_lag, fetcher.max_lag) == (0, 0)
        next(each for each in fetcher.followed.values() if each.partition is first).lag = 7
        assert fetcher.max_lag == 7

    tell(story)


class Receiving:
    """A connection on which a response comes."""

    bytes_received = 0


def test_a_request_is_given_up_once_nothing_of_its_response_comes_any_more() -> None:
    async def story(context: ReplicaContext) -> None:
        fetcher, scope, connection = fetcher_of(context), trio.CancelScope(), Receiving()
        receiving = cast("Any", connection)
        fetcher.in_flight = scope, receiving
        fetcher.ask_again_soon()
        await trio.sleep(PATIENCE_MS / 2_000)
        for _ in range(10):
            connection.bytes_received += 1
            await trio.sleep(PATIENCE_MS / 1_000)
            assert not scope.cancel_called
        await trio.sleep(2 * PATIENCE_MS / 1_000)
        assert scope.cancel_called
        fetcher.in_flight = later, _ = trio.CancelScope(), receiving
        fetcher.ask_again_soon()
        await trio.sleep(1)
        assert later.cancel_called

    tell(story)


def test_a_partition_may_come_just_when_a_response_does() -> None:
    """Then no request is in flight any more that could be given up."""

    async def story(context: ReplicaContext) -> None:
        fetcher, receiving = fetcher_of(context), cast("Any", Receiving())
        fetcher.in_flight = trio.CancelScope(), receiving
        fetcher.ask_again_soon()
        fetcher.in_flight = None
        await trio.sleep(1)
        fetcher.in_flight = later, _ = trio.CancelScope(), receiving
        fetcher.ask_again_soon()
        await trio.sleep(1)
        assert later.cancel_called

    tell(story)
