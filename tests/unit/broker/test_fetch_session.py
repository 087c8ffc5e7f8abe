"""A fetch session saves repeated fields in requests and responses (KIP-227).

The tests also tell which session makes room for another.
"""

from random import Random
from uuid import UUID

import pytest

from log_service.broker import fetch_session
from log_service.broker.fetch_session import FetchContext, FetchSessionCache
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.steps import finish
from log_service.config.views import FetchConfig
from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)


def cache(**config: int) -> FetchSessionCache:
    return FetchSessionCache(FetchConfig(**config), Random(1))


def asks(
    *partitions: tuple[str, int],
    session_id: int = 0,
    epoch: int = 0,
    forget: tuple[tuple[str, int], ...] = (),
) -> FetchRequest:
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(topic=topic, partitions=[FetchPartition(partition=index, fetch_offset=5)])
            for topic, index in partitions
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic=topic, partitions=[index]) for topic, index in forget
        ],
    )


def open_session(
    sessions: FetchSessionCache, request: FetchRequest, now_ms: int = 0
) -> FetchContext:
    return finish(sessions.open(request, now_ms, is_by_id=False))


def names(context: FetchContext) -> list[tuple[str, int]]:
    return [(target.topic, target.partition) for target in context.targets]


def test_a_full_request_starts_a_session_and_reads_all() -> None:
    sessions = cache()
    context = open_session(sessions, asks(("a", 0), ("b", 1)))
    assert context.session_id != 0
    assert not context.is_incremental
    assert names(context) == [("a", 0), ("b", 1)]
    assert len(sessions) == 1


def test_a_request_with_the_final_epoch_gets_no_session_and_ends_the_one_it_names() -> None:
    sessions = cache()
    session_id = open_session(sessions, asks(("a", 0))).session_id
    context = open_session(sessions, asks(("a", 0), session_id=session_id, epoch=-1))
    assert context.session_id == 0
    assert len(sessions) == 0


def test_an_incremental_request_reads_everything_the_session_holds() -> None:
    sessions = cache()
    session_id = open_session(sessions, asks(("a", 0), ("b", 0))).session_id
    context = open_session(
        sessions, asks(("c", 0), session_id=session_id, epoch=1, forget=(("a", 0),))
    )
    assert context.is_incremental
    assert names(context) == [("b", 0), ("c", 0)]


def test_an_incremental_request_moves_the_positions_it_names() -> None:
    sessions = cache()
    session_id = open_session(sessions, asks(("a", 0))).session_id
    request = asks(("a", 0), session_id=session_id, epoch=1)
    request.topics[0].partitions[0].fetch_offset = 77
    context = open_session(sessions, request)
    assert [target.fetch_offset for target in context.targets] == [77]


@pytest.mark.parametrize(
    ("session_id", "epoch", "code"),
    [
        (12345, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (None, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
def test_a_session_that_is_not_known_or_not_in_step_is_an_error(
    session_id: int | None, epoch: int, code: ErrorCode
) -> None:
    sessions = cache()
    known = open_session(sessions, asks(("a", 0))).session_id
    with pytest.raises(KafkaError) as caught:
        open_session(
            sessions, asks(session_id=known if session_id is None else session_id, epoch=epoch)
        )
    assert caught.value.code is code


def test_a_session_by_name_cannot_be_used_by_id() -> None:
    sessions = cache()
    known = open_session(sessions, asks(("a", 0))).session_id
    with pytest.raises(KafkaError) as caught:
        finish(sessions.open(asks(session_id=known, epoch=1), 0, is_by_id=True))
    assert caught.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_epoch_goes_on_at_one_after_the_largest() -> None:
    sessions = cache()
    context = open_session(sessions, asks(("a", 0)))
    assert context.session is not None
    context.session.epoch = 2**31 - 1
    open_session(sessions, asks(session_id=context.session_id, epoch=2**31 - 1))
    assert context.session.epoch == 1


def test_a_session_that_forgot_everything_is_gone() -> None:
    sessions = cache()
    known = open_session(sessions, asks(("a", 0))).session_id
    context = open_session(sessions, asks(session_id=known, epoch=1, forget=(("a", 0),)))
    assert context.session_id == 0
    assert len(sessions) == 0


def test_partitions_by_id_are_told_apart_by_id() -> None:
    sessions = cache()
    request = FetchRequest(
        session_epoch=0,
        topics=[
            FetchTopic(topic_id=UUID(int=number), partitions=[FetchPartition(partition=0)])
            for number in (1, 2)
        ],
    )
    context = finish(sessions.open(request, 0, is_by_id=True))
    assert [target.topic_id.int for target in context.targets] == [1, 2]


def test_an_answer_names_what_changed_since_the_last_one() -> None:
    context = open_session(cache(), asks(("a", 0)))
    target = context.targets[0]
    assert target.is_changed(0, 0, 10, 0)
    assert not target.is_changed(0, 0, 10, 0)
    assert target.is_changed(0, 100, 10, 0)
    assert target.is_changed(0, 0, 11, 0)
    assert target.is_changed(0, 0, 11, 3)
    assert not target.is_changed(0, 0, 11, 3)


def test_after_an_error_the_first_good_state_is_told() -> None:
    target = open_session(cache(), asks(("a", 0))).targets[0]
    assert target.is_changed(0, 0, 10, 0)
    assert target.is_changed(int(ErrorCode.NOT_LEADER_OR_FOLLOWER), 0, -1, -1)
    assert target.is_changed(int(ErrorCode.NOT_LEADER_OR_FOLLOWER), 0, -1, -1)
    assert target.is_changed(0, 0, 10, 0)


def test_a_partition_that_gave_records_waits_behind_the_others() -> None:
    sessions = cache()
    context = open_session(sessions, asks(("a", 0), ("b", 0)))
    assert context.session is not None
    context.session.move_to_end(context.targets[0])
    assert names(open_session(sessions, asks(session_id=context.session_id, epoch=1))) == [
        ("b", 0),
        ("a", 0),
    ]


def test_without_room_a_consumer_is_served_without_a_session() -> None:
    sessions = cache(max_session_cache_slots=1)
    open_session(sessions, asks(("a", 0)))
    context = open_session(sessions, asks(("b", 0)))
    assert context.session_id == 0
    assert names(context) == [("b", 0)]


def test_a_stale_session_makes_room() -> None:
    sessions = cache(max_session_cache_slots=2, min_session_eviction_ms=1_000)
    old = open_session(sessions, asks(("a", 0)), now_ms=0).session_id
    used = open_session(sessions, asks(("b", 0)), now_ms=0).session_id
    open_session(sessions, asks(session_id=used, epoch=1), now_ms=1_500)
    new = open_session(sessions, asks(("c", 0)), now_ms=1_600).session_id
    assert new != 0
    assert open_session(sessions, asks(session_id=used, epoch=2), now_ms=1_700).session_id == used
    with pytest.raises(KafkaError):
        open_session(sessions, asks(session_id=old, epoch=1), now_ms=1_700)


def test_a_larger_session_pushes_out_a_smaller_one_that_has_been_here_long() -> None:
    sessions = cache(max_session_cache_slots=1, min_session_eviction_ms=1_000)
    small = open_session(sessions, asks(("a", 0)), now_ms=0).session_id
    open_session(sessions, asks(session_id=small, epoch=1), now_ms=1_500)
    assert open_session(sessions, asks(("b", 0)), now_ms=1_600).session_id == 0
    assert open_session(sessions, asks(("b", 0), ("b", 1)), now_ms=1_600).session_id != 0


def test_partitions_of_all_sessions_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "MAX_CACHED_PARTITION_COUNT", 3)
    sessions = cache()
    known = open_session(sessions, asks(("a", 0), ("a", 1))).session_id
    assert open_session(sessions, asks(("b", 0), ("b", 1))).session_id == 0
    with pytest.raises(KafkaError) as caught:
        open_session(sessions, asks(("c", 0), ("c", 1), session_id=known, epoch=1))
    assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0


def test_partitions_are_counted_while_sessions_grow_shrink_and_end() -> None:
    sessions = cache()
    first = open_session(sessions, asks(("a", 0), ("a", 1))).session_id
    second = open_session(sessions, asks(("b", 0))).session_id
    assert sessions.partition_count == 3
    open_session(sessions, asks(("a", 2), session_id=first, epoch=1))
    assert sessions.partition_count == 4
    open_session(sessions, asks(session_id=second, epoch=-1))
    assert sessions.partition_count == 3
    open_session(sessions, asks(("c", 0), session_id=first, epoch=0))
    assert sessions.partition_count == 1
