"""Share sessions: epochs, partitions that come and go, and what ends with a connection (KIP-932)."""

from collections.abc import Iterable
from uuid import UUID

import pytest

from log_service.broker.share.session import (
    SessionKey,
    SharedPartition,
    ShareFetchContext,
    ShareSession,
    ShareSessionCache,
)
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.session_epochs import FINAL_EPOCH

KEY = SessionKey(group_id="g", member_id="m")
OTHER = SessionKey(group_id="g", member_id="n")
A, B, C, D = ((UUID(int=number), 0) for number in (1, 2, 3, 4))


def fetch(
    cache: ShareSessionCache,
    epoch: int,
    *added: SharedPartition,
    forgotten: Iterable[SharedPartition] = (),
    key: SessionKey = KEY,
    connection_id: int = 1,
    has_acknowledgements: bool = False,
) -> ShareFetchContext:
    return cache.open_fetch(
        key,
        epoch,
        added=added,
        forgotten=forgotten,
        connection_id=connection_id,
        has_acknowledgements=has_acknowledgements,
    )


def session_of(context: ShareFetchContext) -> ShareSession:
    assert context.session is not None
    return context.session


def refused(
    cache: ShareSessionCache,
    epoch: int,
    *added: SharedPartition,
    key: SessionKey = KEY,
    has_acknowledgements: bool = False,
) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        fetch(cache, epoch, *added, key=key, has_acknowledgements=has_acknowledgements)
    return caught.value.code


def test_a_session_remembers_its_partitions_and_takes_changes() -> None:
    cache = ShareSessionCache(10)
    first = fetch(cache, 0, A, B)
    assert (first.partitions, first.is_first, first.is_final) == ((A, B), True, False)
    second = fetch(cache, 1, C, forgotten=[A])
    assert (second.partitions, second.is_first) == ((B, C), False)
    assert fetch(cache, 2).partitions == (B, C)
    assert cache.partition_count == 2


def test_a_wrong_epoch_is_refused_and_the_session_stays() -> None:
    cache = ShareSessionCache(10)
    fetch(cache, 0, A)
    assert refused(cache, 2, B) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert fetch(cache, 1).partitions == (A,)
    assert refused(cache, 1, B) is ErrorCode.INVALID_SHARE_SESSION_EPOCH


@pytest.mark.parametrize("epoch", [1, FINAL_EPOCH])
def test_there_is_nothing_to_go_on_with_without_a_session(epoch: int) -> None:
    cache = ShareSessionCache(10)
    assert refused(cache, epoch) is ErrorCode.SHARE_SESSION_NOT_FOUND
    with pytest.raises(KafkaError) as caught:
        cache.accept_acknowledgement(KEY, epoch)
    assert caught.value.code is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_session_cannot_begin_with_acknowledgements() -> None:
    cache = ShareSessionCache(10)
    assert refused(cache, 0, A, has_acknowledgements=True) is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError) as caught:
        cache.accept_acknowledgement(KEY, 0)
    assert caught.value.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert len(cache) == 0


def test_acknowledgements_move_the_epoch_too() -> None:
    cache = ShareSessionCache(10)
    fetch(cache, 0, A)
    cache.accept_acknowledgement(KEY, 1)
    with pytest.raises(KafkaError):
        cache.accept_acknowledgement(KEY, 1)
    assert fetch(cache, 2, has_acknowledgements=True).partitions == (A,)


def test_after_the_last_epoch_comes_1() -> None:
    cache = ShareSessionCache(10)
    session = session_of(fetch(cache, 0, A))
    session.epoch = 2**31 - 1
    fetch(cache, 2**31 - 1)
    assert session.epoch == 1


def test_the_final_epoch_fetches_nothing_and_the_session_ends_when_the_request_was_handled() -> (
    None
):
    cache = ShareSessionCache(10)
    fetch(cache, 0, A)
    final = fetch(cache, FINAL_EPOCH)
    assert (final.is_final, final.partitions) == (True, ())
    ended = cache.close(KEY)
    assert ended is not None
    assert ended.partitions == (A,)
    assert cache.close(KEY) is None


def test_a_first_request_replaces_the_session() -> None:
    cache = ShareSessionCache(1)
    fetch(cache, 0, A)
    fetch(cache, 1)
    assert fetch(cache, 0, B, connection_id=2).partitions == (B,)
    assert cache.close_connection(1) == []
    assert [session.partitions for session in cache.close_connection(2)] == [(B,)]


def test_sessions_are_bounded_and_make_no_room_for_another() -> None:
    cache = ShareSessionCache(1)
    fetch(cache, 0, A)
    assert refused(cache, 0, A, key=OTHER) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    cache.close(KEY)
    assert fetch(cache, 0, A, key=OTHER).is_first


def test_the_sessions_of_a_connection_end_with_it() -> None:
    cache = ShareSessionCache(10)
    fetch(cache, 0, A)
    fetch(cache, 0, B, key=OTHER)
    fetch(cache, 0, C, key=SessionKey(group_id="h", member_id="m"), connection_id=2)
    assert [session.key for session in cache.close_connection(1)] == [KEY, OTHER]
    assert cache.close_connection(1) == []
    assert [session.partitions for session in cache.close_all()] == [(C,)]
    assert cache.close_connection(2) == []


def test_a_response_names_what_has_records_or_errors_is_new_or_is_well_again() -> None:
    cache = ShareSessionCache(10)
    session = session_of(fetch(cache, 0, A))
    assert not session.must_name(A, has_records=False, has_error=False)
    assert session.must_name(A, has_records=True, has_error=False)
    fetch(cache, 1, B)
    assert session.must_name(B, has_records=False, has_error=False)
    assert not session.must_name(B, has_records=False, has_error=False)
    assert session.must_name(B, has_records=False, has_error=True)
    assert session.must_name(B, has_records=False, has_error=False)
    assert not session.must_name(C, has_records=True, has_error=False)


def test_partitions_that_gave_records_wait_for_their_next_turn() -> None:
    cache = ShareSessionCache(10)
    session = session_of(fetch(cache, 0, A, B, C))
    session.end_turn(A, [B])
    assert session.partitions == (C, A, B)
    session.end_turn(C, [C, A, B])
    assert session.partitions == (A, B, C)


def test_idle_partitions_do_not_keep_the_busy_ones_in_one_order() -> None:
    session = session_of(fetch(ShareSessionCache(10), 0, A, B, C, D))
    begun = []
    for _ in range(6):
        order = session.partitions
        busy = [partition for partition in order if partition in {C, D}]
        begun.append(busy[0])
        session.end_turn(order[0], busy)
    assert begun == [C, D, C, D, C, D]


def test_each_fetch_begins_with_the_next_partition_whatever_advances_the_epoch() -> None:
    cache = ShareSessionCache(10)
    begun = []
    context = fetch(cache, 0, A, B, C)
    for _ in range(6):
        begun.append(context.partitions[0])
        session_of(context).end_turn(context.partitions[0], ())
        cache.accept_acknowledgement(KEY, session_of(context).epoch)
        context = fetch(cache, session_of(context).epoch)
    assert begun == [A, B, C, A, B, C]


def test_a_partition_that_was_forgotten_has_no_turn() -> None:
    cache = ShareSessionCache(10)
    session = session_of(fetch(cache, 0, A, B))
    fetch(cache, 1, forgotten=[A])
    session.end_turn(A, [A])
    assert session.partitions == (B,)
