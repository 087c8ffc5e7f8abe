"""Some gaps may have held records of a span of time, and a replay names them."""

from pathlib import Path

import pytest

from orchestration.lake.tables import Lake
from orchestration.offsets.planning import Checkpoint
from orchestration.offsets.ranges import OffsetRange
from orchestration.retained.readable_records import HeldTopic
from orchestration.transforms.replay.lost_records import decide_lost, lost_sentence
from tests.unit.orchestration.archived import archive, held_by
from tests.unit.orchestration.memory_log import MemoryLog

COMMITTED = {0: Checkpoint(next_offset=9)}


def texts(ranges: list[OffsetRange]) -> list[str]:
    return [str(one) for one in ranges]


def held(*bounds: tuple[int, int], number: int = 0) -> dict[int, list[OffsetRange]]:
    return {number: [OffsetRange(partition=number, start=start, end=end) for start, end in bounds]}


@pytest.mark.parametrize(
    ("ranges", "starts", "lost"),
    [
        (held((0, 9)), {0: 0}, []),
        (held((4, 9)), {0: 4}, ["0:[0,4)"]),
        (held((4, 9)), {0: 5}, []),
        (held((4, 9)), {0: None}, []),
        (held(), {0: None}, ["0:[0,9)"]),
        (held((4, 9)), None, ["0:[0,4)"]),
        (held((0, 9)), None, []),
        (held((4, 9), number=1), {1: 4}, []),
        (held((0, 2), (5, 9)), {0: 5}, ["0:[2,5)"]),
        (held((0, 2), (5, 9)), {0: 1}, ["0:[2,5)"]),
        (held((0, 2), (5, 9)), {0: 6}, []),
        (held((1, 2), (5, 9)), {0: 1}, ["0:[0,1)", "0:[2,5)"]),
        (held((0, 2)), {0: None}, ["0:[2,9)"]),
        (held((0, 2)), {0: 1}, ["0:[2,9)"]),
    ],
)
def test_a_gap_counts_where_the_span_may_have_begun_in_it_or_before(
    ranges: dict[int, list[OffsetRange]], starts: dict[int, int | None] | None, lost: list[str]
) -> None:
    assert texts(decide_lost(ranges, COMMITTED, starts)) == lost


@pytest.mark.parametrize(
    ("end", "lost"), [(1, []), (2, []), (5, ["0:[2,5)"]), (8, ["0:[2,5)"]), (None, ["0:[2,5)"])]
)
def test_a_gap_behind_the_end_of_the_span_does_not_count(end: int | None, lost: list[str]) -> None:
    assert texts(decide_lost(held((0, 2), (5, 9)), COMMITTED, {0: 0}, {0: end})) == lost


def test_the_archive_is_named_where_there_is_one(tmp_path: Path) -> None:
    log = MemoryLog()
    partition = log.add_topic("orders").partitions[0]
    for _ in range(9):
        partition.append(b"1")
    log.delete_records("orders", {0: 4})
    lake, gap = Lake(tmp_path / "lake"), [OffsetRange(partition=0, start=0, end=4)]
    assert lost_sentence([], held_by(log, lake), is_archive_read=True) == ""
    assert lost_sentence(gap, held_by(log, lake)).endswith("the topic has no archive")
    archive(log, lake)
    assert lost_sentence(gap, held_by(log, lake)).endswith(
        "the lake table orders_archive, does not hold them"
    )
    assert "is read only where everything is replayed" in lost_sentence(
        gap, held_by(log, lake), is_archive_read=False
    )


def with_a_gap(directory: Path) -> HeldTopic:
    """Return a topic of nine records with a gap.

    The archive holds the first four, the log the last three, and nothing the two between.
    """
    log, lake = MemoryLog(), Lake(directory / "lake")
    partition = log.add_topic("orders").partitions[0]
    for _ in range(4):
        partition.append(b"1")
    archive(log, lake)
    for _ in range(5):
        partition.append(b"1")
    log.delete_records("orders", {0: 6})
    return held_by(log, lake)


def test_what_an_archive_holds_before_a_gap_is_not_called_lost(tmp_path: Path) -> None:
    """A table of newest rows is replayed from behind the last gap on.

    The archive was said not to hold the records before it.
    """
    held_topic = with_a_gap(tmp_path)
    lost = decide_lost(held_topic.tails, COMMITTED, None)
    assert texts(lost) == ["0:[0,6)"]
    assert lost_sentence(lost, held_topic, is_of_time=False) == (
        "retention has removed orders-0 [4, 6) from the log; the topic's archive, the lake table orders_archive, does not hold them; "
        "it holds orders-0 [0, 4), which are not read: of a table that keeps the newest row of each key, "
        "a deletion in the gap behind them may have been forgotten"
    )
    assert "[4, 6)" in lost_sentence(decide_lost(held_topic.ranges, COMMITTED, None), held_topic)


def test_only_what_is_lost_is_said_to_be_removed(tmp_path: Path) -> None:
    """A table that is behind has committed nothing of the gap itself; the sentence named no offsets
    there.
    """
    held_topic = with_a_gap(tmp_path)
    lost = decide_lost(held_topic.tails, {0: Checkpoint(next_offset=3)}, None)
    assert texts(lost) == ["0:[0,3)"]
    assert lost_sentence(lost, held_topic, is_of_time=False) == (
        "the topic's archive, the lake table orders_archive, holds orders-0 [0, 3), which are not read: of a table that keeps the newest "
        "row of each key, a deletion in the gap behind them may have been forgotten"
    )
