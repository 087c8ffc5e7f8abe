"""The judge of a queue passes a queue as it should be.

It names each broken promise.
"""

import itertools
from collections.abc import Sequence

from log_service.common.types import TopicPartition
from tests.sim.node_history import Entry, History, Send
from tests.sim.queue_checker import check_queue
from tests.sim.queue_clients import DELIVERY_LIMIT, Acknowledged, Delivered, LeaderNamed

WHERE = TopicPartition("safe", 0)


def rules(entries: Sequence[Entry]) -> list[str]:
    times = itertools.count()
    history = History(lambda: float(next(times)))
    for entry in entries:
        history.add(entry)
        if isinstance(entry, Send) or (isinstance(entry, Acknowledged) and entry.is_ok):
            history.end(entry)
        elif isinstance(entry, Acknowledged) and entry.error:
            history.end(entry, Exception(entry.error))
    return [violation.rule for violation in check_queue(history, "safe")]


def sent(offset: int = 0) -> Send:
    return Send(
        producer="p",
        partition=WHERE,
        number=offset,
        value=str(offset),
        timestamp_ms=0,
        offset=offset,
    )


def given(count: int, worker: str = "a", offset: int = 0) -> Delivered:
    return Delivered(worker=worker, partition=WHERE, offset=offset, count=count)


def said(
    kind: str, worker: str = "a", *, count: int = 1, is_ok: bool = True, error: str = ""
) -> Acknowledged:
    return Acknowledged(
        worker=worker, partition=WHERE, offset=0, count=count, kind=kind, is_ok=is_ok, error=error
    )


def test_a_record_that_is_released_and_accepted_by_another_is_as_it_should_be() -> None:
    assert not rules([sent(), given(1), said("release"), given(2, "b"), said("accept", "b")])
    assert not rules(
        [sent(), given(1), said("accept", is_ok=False), given(2, "b"), said("accept", "b")]
    ), "the first was not told"


def test_a_record_that_two_workers_are_done_with_is_named() -> None:
    assert rules([sent(), given(1), said("accept"), given(2, "b"), said("accept", "b")]) == [
        "a record is done with once"
    ]
    assert rules([sent(), given(1), said("reject"), given(2, "b"), said("accept", "b")]) == [
        "a record is done with once"
    ]


def test_a_late_word_on_an_earlier_delivery_is_as_it_should_be_once_all_up_to_there_is_done_with() -> (
    None
):
    story = [sent(), given(1), given(2, "b"), said("accept", "b", count=2), said("accept")]
    assert not rules(story)
    assert rules([sent(), sent(1), *story[1:]]) == ["no record of a queue is lost"], (
        "what comes behind does not matter"
    )
    waiting = Acknowledged(
        worker="b", partition=WHERE, offset=1, count=2, kind="accept", is_ok=True
    )
    late = Acknowledged(worker="a", partition=WHERE, offset=1, count=1, kind="accept", is_ok=True)
    assert rules([sent(), sent(1), given(1), waiting, late, said("accept")]) == [
        "a record is done with once"
    ], "the one before it waits"


def test_a_record_that_no_worker_is_done_with_is_lost() -> None:
    lost = ["no record of a queue is lost"]
    assert rules([sent()]) == lost
    assert rules([sent(), given(1), said("release")]) == lost
    assert (
        rules([sent(), given(1), said("accept", is_ok=False, error="INVALID_RECORD_STATE")]) == lost
    )
    assert not rules([sent(), given(1), said("accept", is_ok=False, error="NETWORK_EXCEPTION")]), (
        "the leader may have taken it"
    )
    assert not rules([sent(), given(DELIVERY_LIMIT), said("release")]), (
        "it was delivered as often as is allowed"
    )


def test_a_delivery_count_that_does_not_grow_or_is_above_the_limit_is_named() -> None:
    grow = ["delivery counts grow"]
    twice = [sent(), given(2), said("release", count=2)]
    assert rules([*twice, given(2), said("accept", count=2)]) == grow
    assert not rules([*twice, given(3), said("accept", count=3)])
    assert not rules([*twice, given(1, "b"), said("accept", "b")]), "a response may be late"
    others = [given(1, "c", offset=1) for _ in range(10)]
    assert rules([*twice, *others, given(2, "b"), said("accept", "b")]) == grow, "and not so late"
    assert not rules([sent(), given(2), given(1), said("accept")]), (
        "what no leader has taken back may come again"
    )
    assert rules([sent(), given(DELIVERY_LIMIT + 1), said("accept")]) == grow


def test_a_leader_that_is_no_node_is_named() -> None:
    assert not rules([LeaderNamed(worker="a", partition=WHERE, leader_id=2)])
    assert rules([LeaderNamed(worker="a", partition=WHERE, leader_id=0)]) == [
        "a leader beside an error is a node"
    ]
