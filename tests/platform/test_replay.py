"""Replays: exactly the rows of a range are made again, by offsets, by time, or for what was rejected."""

from pathlib import Path
from typing import Any

import pytest

from orchestration.checkpoints import ProgressError
from orchestration.dead_letters import DeadLetters
from orchestration.fixes import Fix, Fixes
from orchestration.offsets import OffsetRange
from orchestration.schemas import SchemaConflictError
from orchestration.tables import Lake
from orchestration.transforms import replay_run as replay_module
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.replay_run import ReplayRequest
from orchestration.transforms.topic_run import RunContext, TopicRunResult, run_topic_table
from tests.platform.pipeline import Notes, clean_orders, letters_of, order, orders_table, rows_of, run_context
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform


@pytest.fixture
def log(lake_root: Path, spark: Any) -> MemoryLog:
    made = MemoryLog()
    for number, partition in enumerate(made.add_topic("orders", 2).partitions):
        for position in range(6):
            partition.append(order(f"{number}-{position}", position - 1), timestamp_ms=1_000 * position)
    run_topic_table(orders_table(), run_context(made, lake_root, spark))
    return made


def run_replay(table: TopicTable, context: RunContext, request: ReplayRequest) -> TopicRunResult:
    """Replay all pieces and return what became of the last."""
    return list(replay_module.run_replay(table, context, request))[-1]


def fixed(records: Any) -> Any:
    return clean_orders(records.selectExpr("* EXCEPT (amount)", "abs(amount) + 1 AS amount"))


def versions(lake_root: Path) -> list[int]:
    return [one.next_offset for one in Lake(lake_root).existing("clean_orders").checkpoints("id-of-orders", [0, 1]).values()]


def amounts(lake_root: Path) -> list[tuple[Any, ...]]:
    return rows_of(lake_root, columns=("_partition", "_offset", "amount"))


def test_rejected_records_are_replayed_into_the_table_and_leave_the_dead_letters(log: MemoryLog, lake_root: Path, spark: Any) -> None:
    assert [one[:2] for one in letters_of(lake_root)] == [(0, 0), (0, 1), (1, 0), (1, 1)]

    run_replay(orders_table(function=fixed), run_context(log, lake_root, spark), ReplayRequest(is_of_dead_letters=True))

    assert letters_of(lake_root) == []
    assert amounts(lake_root) == [(partition, offset, amount) for partition in (0, 1) for offset, amount in enumerate([2, 1, 1, 2, 3, 4])]
    assert versions(lake_root) == [6, 6]


def test_a_dead_letter_whose_record_was_compacted_away_stays_where_it_was(log: MemoryLog, lake_root: Path, spark: Any) -> None:
    """It has the only copy of the value, and what is not read can be no row."""
    del log.topics["orders"].partitions[0].records[1]
    Fixes(Lake(lake_root)).put("clean_orders", [Fix(topic_id="id-of-orders", partition=0, offset=1, value=order("fixed"))])
    notes = Notes()
    context = run_context(log, lake_root, spark, reporter=notes)
    for request in (ReplayRequest(is_of_dead_letters=True), ReplayRequest(is_everything=True)):
        run_replay(orders_table(function=fixed), context, request)
        assert [one[:2] for one in letters_of(lake_root)] == [(0, 1)]
        assert (0, 1) not in [one[:2] for one in amounts(lake_root)]
    (letter,) = DeadLetters(Lake(lake_root)).of_target("clean_orders")
    assert (letter["value"], letter["rule"]) == (order("0-1", 0), "amount_is_positive")
    assert notes.notes == ["the records of 1 dead letters of clean_orders are no longer in the log; they stay as they are"] * 2


def test_only_the_rows_of_the_range_are_made_again(log: MemoryLog, lake_root: Path, spark: Any) -> None:
    request = ReplayRequest(ranges=(OffsetRange(partition=1, start=3, end=5),))
    result = run_replay(orders_table(function=fixed), run_context(log, lake_root, spark), request)
    assert result.kind == "replay"
    assert amounts(lake_root) == [(0, 2, 1), (0, 3, 2), (0, 4, 3), (0, 5, 4), (1, 2, 1), (1, 3, 3), (1, 4, 4), (1, 5, 4)]
    assert versions(lake_root) == [6, 6]


def test_a_replay_may_reject_what_was_accepted(log: MemoryLog, lake_root: Path, spark: Any) -> None:
    stricter = orders_table(function=lambda records: clean_orders(records.selectExpr("* EXCEPT (amount)", "amount - 3 AS amount")))
    run_replay(stricter, run_context(log, lake_root, spark), ReplayRequest(ranges=(OffsetRange(partition=0, start=2, end=6),)))
    assert [one[:2] for one in rows_of(lake_root)] == [(0, 5), (1, 2), (1, 3), (1, 4), (1, 5)]
    assert [one[:2] for one in letters_of(lake_root)] == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1)]


def test_a_range_of_time_is_replayed_in_every_partition(log: MemoryLog, lake_root: Path, spark: Any) -> None:
    run_replay(orders_table(function=fixed), run_context(log, lake_root, spark), ReplayRequest(from_ms=3_500, to_ms=5_000))
    assert [one for one in amounts(lake_root) if one[1] >= 3] == [(0, 3, 2), (0, 4, 4), (0, 5, 4), (1, 3, 2), (1, 4, 4), (1, 5, 4)]


def test_ranges_that_were_never_committed_or_are_gone_are_refused(log: MemoryLog, lake_root: Path, spark: Any) -> None:
    with pytest.raises(ProgressError, match="reaches above the checkpoint 6"):
        run_replay(orders_table(), run_context(log, lake_root, spark), ReplayRequest(ranges=(OffsetRange(partition=0, start=3, end=7),)))
    log.topics["orders"].partitions[0].log_start_offset = 4
    with pytest.raises(ProgressError, match="below the log start 4"):
        run_replay(orders_table(), run_context(log, lake_root, spark), ReplayRequest(ranges=(OffsetRange(partition=0, start=3, end=6),)))
    context = run_context(log, lake_root, spark)
    run_replay(orders_table(), context, ReplayRequest(is_of_dead_letters=True))
    assert "no longer in the log" in context.reporter.notes[0]  # type: ignore[attr-defined]
    assert len(letters_of(lake_root)) == 4


def with_currency(records: Any) -> Any:
    return clean_orders(records).selectExpr("* EXCEPT (note)", "'EUR' AS currency")


def test_a_replay_into_an_evolving_table_brings_columns_and_leaves_columns_out(log: MemoryLog, lake_root: Path, spark: Any) -> None:
    request = ReplayRequest(ranges=(OffsetRange(partition=1, start=3, end=5),))
    run_replay(orders_table(function=with_currency, is_evolving=True), run_context(log, lake_root, spark), request)
    assert rows_of(lake_root, columns=("_partition", "_offset", "currency"))[-4:] == [
        (1, 2, None),
        (1, 3, "EUR"),
        (1, 4, "EUR"),
        (1, 5, None),
    ]
    assert versions(lake_root) == [6, 6]


def test_a_replay_whose_columns_do_not_fit_changes_nothing(log: MemoryLog, lake_root: Path, spark: Any) -> None:
    before, letters = amounts(lake_root), letters_of(lake_root)
    request = ReplayRequest(ranges=(OffsetRange(partition=1, start=0, end=5),))
    with pytest.raises(SchemaConflictError, match=r"currency \(string\) is in the result and not in the table"):
        run_replay(orders_table(function=with_currency), run_context(log, lake_root, spark), request)
    assert (amounts(lake_root), letters_of(lake_root)) == (before, letters)


def test_everything_is_replayed_piece_by_piece_and_no_checkpoint_moves(log: MemoryLog, lake_root: Path, spark: Any) -> None:
    context = run_context(log, lake_root, spark, records_per_run=5)
    results = list(replay_module.run_replay(orders_table(function=fixed), context, ReplayRequest(is_everything=True)))
    assert [str(one.ranges) for one in results] == ["0:[0,2) 1:[0,3)", "0:[2,5) 1:[3,5)", "0:[5,6) 1:[5,6)"]
    assert letters_of(lake_root) == []
    assert len(amounts(lake_root)) == 12
    assert versions(lake_root) == [6, 6]
    assert context.reporter.pinned == [("replay", "0:[0,6) 1:[0,6)")]  # type: ignore[attr-defined]


def test_spans_of_time_that_follow_one_another_cover_each_offset_once(lake_root: Path, spark: Any) -> None:
    made = MemoryLog()
    partition = made.add_topic("orders", 1).partitions[0]
    for number, time_s in enumerate([0, 5, 3, 12, 8, 21, 2]):
        partition.append(order(f"o-{number}", 1), timestamp_ms=1_000 * time_s)
    run_topic_table(orders_table(), run_context(made, lake_root, spark))
    context = run_context(made, lake_root, spark)
    spans = [
        replay_module.plan(orders_table(), context, ReplayRequest(from_ms=start, to_ms=start + 10_000)) for start in (0, 10_000, 20_000)
    ]
    assert [str(one) for one in spans] == ["0:[0,3)", "0:[3,5)", "0:[5,7)"]
