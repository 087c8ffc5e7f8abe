"""A plan is carried out in steps that keep every broker's share of copies small."""

from hypothesis import given
from hypothesis import strategies as st

from log_service.cluster_plans.execution import (
    next_moves,
    progress_of,
    throttled_rates,
    throttled_replicas,
)
from log_service.cluster_plans.plan import Move
from log_service.common.types import TopicPartition


def move(
    number: int,
    before: tuple[int, ...],
    after: tuple[int, ...],
    *,
    size: int = 100,
    topic: str = "t",
) -> Move:
    return Move(
        where=TopicPartition(topic, number),
        before=before,
        after=after,
        size_bytes=size,
        source=before[0],
    )


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(5, 8)), max_size=30), st.integers(1, 3))
def test_every_move_starts_once_and_no_broker_copies_more_than_the_limit(
    pairs: list[tuple[int, int]], limit: int
) -> None:
    waiting = [move(number, (here,), (there,)) for number, (here, there) in enumerate(pairs)]
    started: list[Move] = []
    moving: list[Move] = []
    while waiting:
        chosen = next_moves(waiting, moving, limit=limit)
        assert chosen or moving, "nothing is under way and nothing starts"
        moving += chosen
        for broker in range(1, 9):
            assert sum(broker in {*each.before, *each.after} for each in moving) <= limit
        waiting = [each for each in waiting if each not in chosen]
        started += chosen
        moving = moving[1:]
    assert sorted(started, key=lambda each: each.where) == [
        move(number, (a,), (b,)) for number, (a, b) in enumerate(pairs)
    ]


def test_moves_that_copy_nothing_do_not_wait() -> None:
    orders = [move(number, (1, 2), (2, 1)) for number in range(9)]
    assert next_moves(orders, [], limit=1) == orders


def test_only_the_copies_are_throttled() -> None:
    moves = [
        move(0, (1, 2), (2, 3)),
        move(1, (1, 2), (2, 1)),
        move(3, (2,), (2, 4)),
        move(0, (1,), (4,), topic="u"),
    ]
    assert throttled_replicas(moves) == {
        "t": {
            "leader.replication.throttled.replicas": "0:1,0:2,3:2",
            "follower.replication.throttled.replicas": "0:3,3:4",
        },
        "u": {
            "leader.replication.throttled.replicas": "0:1",
            "follower.replication.throttled.replicas": "0:4",
        },
    }
    assert throttled_rates(moves[2:3], 5000) == {
        broker: {
            "leader.replication.throttled.rate": "5000",
            "follower.replication.throttled.rate": "5000",
        }
        for broker in (2, 4)
    }


def test_progress_counts_what_has_arrived() -> None:
    moves = [move(number, (1,), (2,)) for number in range(4)]
    told = progress_of(moves, moves[:1], moves[1:3], {(moves[1], 2): 40, (moves[2], 2): 500})
    assert (told.complete, told.moving, told.waiting, told.total) == (1, 2, 1, 4)
    assert (told.copied_bytes, told.total_bytes) == (240, 400)
