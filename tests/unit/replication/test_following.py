"""A follower makes requests and takes responses.

There are versions, truncation, errors, and the session with its leader.
"""

from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode
from log_service.replication.following import (
    FetchParameters,
    FollowerSession,
    PartitionKey,
    Step,
    by_topic,
    fetch_version,
    first_fetch_offset,
    has_more_than_leader,
    is_beyond_comparison,
    must_restart,
    pause_ms,
    step_after,
    truncation_offset,
)

FIRST, SECOND = (UUID(int=1), 0), (UUID(int=1), 1)


def parameters(offset: int) -> FetchParameters:
    return FetchParameters(
        fetch_offset=offset, last_fetched_epoch=0, leader_epoch=0, log_start_offset=0
    )


@pytest.mark.parametrize(
    ("metadata_version", "version"),
    [
        (7, 13),
        (13, 13),
        (14, 15),
        (18, 15),
        (19, 16),
        (20, 16),
        (21, 17),
        (26, 17),
        (27, 18),
        (30, 18),
    ],
)
def test_brokers_speak_the_version_of_fetch_that_all_of_them_know(
    metadata_version: int, version: int
) -> None:
    """Apache Kafka's brokers go by the same levels.

    A request of a higher version than the level has may not be understood.
    """
    assert fetch_version(metadata_version) == version


# Where logs part (KIP-101, KIP-279)


def test_a_new_follower_begins_at_its_end_or_at_what_is_safe_where_it_knows_no_epochs() -> None:
    assert first_fetch_offset(10, 3, 6) == 10
    assert first_fetch_offset(10, -1, 6) == 6


@pytest.mark.parametrize(
    ("leader_epoch_end", "own_epoch_end", "log_end_offset", "cut_at"),
    [
        ((4, 20), (-1, -1), 30, 20),
        ((4, 40), (-1, -1), 30, 30),
        ((4, 20), (4, 25), 30, 20),
        ((4, 25), (4, 20), 30, 20),
        ((4, 40), (4, 40), 30, 30),
        ((4, 20), (3, 15), 30, 15),
        ((4, 10), (3, 15), 30, 15),
        ((4, 20), (3, 35), 30, 30),
    ],
    ids=[
        "no epoch here",
        "no epoch here, and the leader has more",
        "the same epoch ends there sooner",
        "the same epoch ends here sooner",
        "both go on behind the end of this log",
        "an older epoch here: to its end",
        "an older epoch here, and what the leader's ends at says nothing of it",
        "an older epoch here that this log has less of",
    ],
)
def test_a_log_is_cut_where_it_parted_from_the_leaders(
    leader_epoch_end: tuple[int, int],
    own_epoch_end: tuple[int, int],
    log_end_offset: int,
    cut_at: int,
) -> None:
    assert truncation_offset(leader_epoch_end, own_epoch_end, log_end_offset) == cut_at


def test_an_offset_out_of_range_is_too_far_too_early_or_in_order_again() -> None:
    assert has_more_than_leader(10, 9)
    assert not has_more_than_leader(10, 10)
    assert must_restart(10, 11)
    assert not must_restart(10, 10), "the leader still has the next record"


def test_records_that_all_lie_below_the_leaders_start_are_beyond_comparison_but_for_those_of_its_epoch() -> (
    None
):
    assert is_beyond_comparison((0, 5), 2, 5, 3)
    assert not is_beyond_comparison((0, 6), 2, 5, 3), "one of them can be compared"
    assert not is_beyond_comparison((5, 5), 2, 5, 3), "there are none"
    assert not is_beyond_comparison((0, 5), 3, 5, 3)


# Errors


@pytest.mark.parametrize(
    ("code", "step"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, Step.FIND_OFFSET),
        (ErrorCode.FENCED_LEADER_EPOCH, Step.STOP),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, Step.PAUSE_SHORTLY),
        (ErrorCode.KAFKA_STORAGE_ERROR, Step.PAUSE),
    ],
)
def test_an_error_asks_for_a_step(code: ErrorCode, step: Step) -> None:
    assert step_after(code) is step


def test_a_short_pause_doubles_up_to_the_usual_one() -> None:
    assert [pause_ms(Step.PAUSE_SHORTLY, count, 1_000) for count in (1, 2, 3, 6, 7, 1_000)] == [
        20,
        40,
        80,
        640,
        1_000,
        1_000,
    ]
    assert pause_ms(Step.PAUSE, 1, 1_000) == 1_000


# The session (KIP-227)


@pytest.fixture
def session() -> FollowerSession:
    """The leader has opened session 77 for two partitions."""
    made = FollowerSession()
    first = made.next([(FIRST, parameters(5)), (SECOND, parameters(6))], [])
    assert (first.session_id, first.session_epoch, first.forgotten) == (0, 0, [])
    assert first.named == [(FIRST, parameters(5)), (SECOND, parameters(6))]
    made.accept(77)
    return made


def all_parameters() -> list[tuple[PartitionKey, FetchParameters]]:
    return [(FIRST, parameters(8)), (SECOND, parameters(9))]


def test_a_session_names_what_changed_and_forgets_what_is_gone(session: FollowerSession) -> None:
    assert not session.is_full
    assert session.next([(FIRST, parameters(7)), (SECOND, parameters(6))], [])[1:] == (
        1,
        [(FIRST, parameters(7))],
        [],
    )
    session.accept(77)
    assert session.next([(FIRST, parameters(7))], [SECOND, SECOND])[:] == (77, 2, [], [SECOND])
    session.accept(77)
    assert session.next([(SECOND, parameters(6))], [])[1:] == (3, [(SECOND, parameters(6))], []), (
        "what came back is named again"
    )


def test_a_leader_without_room_for_a_session_is_told_everything_each_time() -> None:
    session = FollowerSession()
    for _ in range(2):
        assert session.is_full
        assert session.next(all_parameters(), [])[:] == (0, 0, all_parameters(), [])
        session.accept(0)


def test_a_session_that_the_leader_closed_is_followed_by_one_that_names_all(
    session: FollowerSession,
) -> None:
    session.accept(0)
    assert session.is_full
    assert session.next([(FIRST, parameters(8))], [SECOND])[:] == (
        0,
        0,
        [(FIRST, parameters(8))],
        [],
    )
    assert set(session.known) == {FIRST}, "what the leader no longer knows is not remembered"


def test_a_failure_ends_the_session_with_the_next_request_which_names_all(
    session: FollowerSession,
) -> None:
    """A session that the leader still has is ended by its id: left there, it takes the place of
    another.
    """
    session.fail()
    assert session.next(all_parameters(), [])[:] == (77, 0, all_parameters(), [])
    session.accept(78)
    assert session.next([], [])[:2] == (78, 1)


def test_a_session_that_the_leader_does_not_know_is_not_named_again(
    session: FollowerSession,
) -> None:
    session.fail(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert session.next(all_parameters(), []).session_id == 77
    session.fail(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert session.next(all_parameters(), []).session_id == 0


def test_a_session_epoch_begins_again_at_1(session: FollowerSession) -> None:
    session._epoch = 2**31 - 1  # so many fetches take years
    session.accept(77)
    assert session.next([], []).session_epoch == 1


def test_partitions_are_told_by_topic() -> None:
    other = UUID(int=2)
    assert by_topic([FIRST, (other, 4), SECOND]) == {FIRST[0]: [0, 1], other: [4]}
