"""Replays: exactly the rows of a range are made again, by offsets, by time, or for what was
rejected.
"""

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from orchestration.dead_letters.fixes import Fix, Fixes
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.schemas import SchemaConflictError
from orchestration.lake.tables import Lake
from orchestration.offsets.planning import ProgressError
from orchestration.offsets.ranges import OffsetRange
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.replay.plan import ReplayRequest, plan
from orchestration.transforms.run.context import RunContext, TopicRunResult
from orchestration.transforms.to_lake import replay as replay_module
from orchestration.transforms.to_lake.run import run_topic_table
from tests.platform.pipeline import (
    Notes,
    clean_orders,
    letters_of,
    order,
    orders_table,
    rows_of,
    run_context,
)
from tests.unit.orchestration.archived import archive
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform


@pytest.fixture
def log(lake_root: Path, spark: Any) -> MemoryLog:
    made = MemoryLog()
    for number, partition in enumerate(made.add_topic("orders", 2).partitions):
        for position in range(6):
            partition.append(
                order(f"{number}-{position}", position - 1), timestamp_ms=1_000 * position
            )
    run_topic_table(orders_table(), run_context(made, lake_root, spark))
    return made


def run_replay(table: TopicTable, context: RunContext, request: ReplayRequest) -> TopicRunResult:
    """Replay all pieces and return what became of the last."""
    return list(replay_module.run_replay(table, context, request))[-1]


def fixed(records: Any) -> Any:
    return clean_orders(records.selectExpr("* EXCEPT (amount)", "abs(amount) + 1 AS amount"))


def versions(lake_root: Path) -> list[int]:
    return [
        one.next_offset
        for one in Lake(lake_root)
        .existing("clean_orders")
        .checkpoints("id-of-orders", [0, 1])
        .values()
    ]


def amounts(lake_root: Path) -> list[tuple[Any, ...]]:
    return rows_of(lake_root, columns=("_partition", "_offset", "amount"))


def test_rejected_records_are_replayed_into_the_table_and_leave_the_dead_letters(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    assert [one[:2] for one in letters_of(lake_root)] == [(0, 0), (0, 1), (1, 0), (1, 1)]

    run_replay(
        orders_table(function=fixed),
        run_context(log, lake_root, spark),
        ReplayRequest(is_of_dead_letters=True),
    )

    assert letters_of(lake_root) == []
    assert amounts(lake_root) == [
        (partition, offset, amount)
        for partition in (0, 1)
        for offset, amount in enumerate([2, 1, 1, 2, 3, 4])
    ]
    assert versions(lake_root) == [6, 6]


def test_a_dead_letter_whose_record_was_compacted_away_stays_where_it_was(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    """It has the only copy of the value, and what is not read can be no row."""
    del log.topics["orders"].partitions[0].records[1]
    Fixes(Lake(lake_root)).put(
        "clean_orders", [Fix(topic_id="id-of-orders", partition=0, offset=1, value=order("fixed"))]
    )
    notes = Notes()
    context = run_context(log, lake_root, spark, reporter=notes)
    for request in (ReplayRequest(is_of_dead_letters=True), ReplayRequest(is_everything=True)):
        run_replay(orders_table(function=fixed), context, request)
        assert [one[:2] for one in letters_of(lake_root)] == [(0, 1)]
        assert (0, 1) not in [one[:2] for one in amounts(lake_root)]
    (letter,) = DeadLetters(Lake(lake_root)).of_target("clean_orders")
    assert (letter["value"], letter["rule"]) == (order("0-1", 0), "amount_is_positive")
    assert (
        notes.notes
        == [
            "the record of 1 dead letter of clean_orders is no longer in the log; it stays as it is"
        ]
        * 2
    )


def test_only_the_rows_of_the_range_are_made_again(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    request = ReplayRequest(ranges=(OffsetRange(partition=1, start=3, end=5),))
    result = run_replay(orders_table(function=fixed), run_context(log, lake_root, spark), request)
    assert result.kind == "replay"
    assert amounts(lake_root) == [
        (0, 2, 1),
        (0, 3, 2),
        (0, 4, 3),
        (0, 5, 4),
        (1, 2, 1),
        (1, 3, 3),
        (1, 4, 4),
        (1, 5, 4),
    ]
    assert versions(lake_root) == [6, 6]


def test_a_replay_may_reject_what_was_accepted(log: MemoryLog, lake_root: Path, spark: Any) -> None:
    stricter = orders_table(
        function=lambda records: clean_orders(
            records.selectExpr("* EXCEPT (amount)", "amount - 3 AS amount")
        )
    )
    run_replay(
        stricter,
        run_context(log, lake_root, spark),
        ReplayRequest(ranges=(OffsetRange(partition=0, start=2, end=6),)),
    )
    assert [one[:2] for one in rows_of(lake_root)] == [(0, 5), (1, 2), (1, 3), (1, 4), (1, 5)]
    assert [one[:2] for one in letters_of(lake_root)] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (0, 3),
        (0, 4),
        (1, 0),
        (1, 1),
    ]


def test_a_range_of_time_is_replayed_in_every_partition(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    run_replay(
        orders_table(function=fixed),
        run_context(log, lake_root, spark),
        ReplayRequest(from_ms=3_500, to_ms=5_000),
    )
    assert [one for one in amounts(lake_root) if one[1] >= 3] == [
        (0, 3, 2),
        (0, 4, 4),
        (0, 5, 4),
        (1, 3, 2),
        (1, 4, 4),
        (1, 5, 4),
    ]


def test_ranges_that_were_never_committed_or_are_gone_are_refused(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    with pytest.raises(ProgressError, match="reaches above the checkpoint 6"):
        run_replay(
            orders_table(),
            run_context(log, lake_root, spark),
            ReplayRequest(ranges=(OffsetRange(partition=0, start=3, end=7),)),
        )
    log.topics["orders"].partitions[0].log_start_offset = 4
    with pytest.raises(
        ProgressError, match=r"neither the log nor an archive of the topic holds \[3, 4\)"
    ):
        run_replay(
            orders_table(),
            run_context(log, lake_root, spark),
            ReplayRequest(ranges=(OffsetRange(partition=0, start=3, end=6),)),
        )
    context = run_context(log, lake_root, spark)
    run_replay(orders_table(), context, ReplayRequest(is_of_dead_letters=True))
    assert "no longer in the log" in context.reporter.notes[0]  # type: ignore[attr-defined]
    assert len(letters_of(lake_root)) == 4


def test_what_retention_removed_is_read_from_the_archive_as_if_it_were_in_the_log(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    """Ranges, times and everything mean the same offsets, and the records are as they were."""
    archive(log, Lake(lake_root))
    log.delete_records("orders", {0: 4, 1: 6})
    context = run_context(log, lake_root, spark)
    ranges = (OffsetRange(partition=0, start=1, end=5), OffsetRange(partition=1, start=0, end=2))
    for request, offsets, archived in [
        (ReplayRequest(ranges=ranges), "0:[1,5) 1:[0,2)", 6),
        (ReplayRequest(from_ms=1_500, to_ms=4_000), "0:[2,4) 1:[2,4)", 4),
        (ReplayRequest(is_everything=True), "0:[0,6) 1:[0,6)", 12),
        (ReplayRequest(is_of_dead_letters=True), "0:[0,2) 1:[0,2)", 4),
    ]:
        planned = plan(orders_table(), context, request)
        assert (str(planned.ranges), planned.lost, planned.archived_count) == (
            offsets,
            "",
            archived,
        )
    before = amounts(lake_root), letters_of(lake_root)
    run_replay(orders_table(), context, ReplayRequest(is_everything=True))
    assert (amounts(lake_root), letters_of(lake_root)) == before
    run_replay(orders_table(function=fixed), context, ReplayRequest(ranges=ranges))
    assert amounts(lake_root) == [
        *((0, offset, amount) for offset, amount in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 4)]),
        *(
            (1, offset, amount)
            for offset, amount in [(0, 2), (1, 1), (2, 1), (3, 2), (4, 3), (5, 4)]
        ),
    ]
    assert [one[:2] for one in letters_of(lake_root)] == [(0, 0)]
    assert versions(lake_root) == [6, 6]


def test_only_what_neither_log_nor_archive_holds_is_lost(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    archive(log, Lake(lake_root))
    for number, partition in enumerate(log.topics["orders"].partitions):
        for position in range(4):
            partition.append(order(f"later-{number}-{position}", 1), timestamp_ms=10_000 + position)
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    log.delete_records("orders", {0: 8})
    rows = amounts(lake_root)
    context = run_context(log, lake_root, spark)
    with pytest.raises(
        ProgressError,
        match=r"holds \[6, 8\): those records are gone. Replay within what is left: \[0, 6\), \[8, 10\)",
    ):
        run_replay(
            orders_table(),
            context,
            ReplayRequest(ranges=(OffsetRange(partition=0, start=5, end=9),)),
        )
    assert amounts(lake_root) == rows
    planned = plan(orders_table(), context, ReplayRequest(from_ms=5_000))
    assert str(planned.ranges) == "0:[5,6) 0:[8,10) 1:[5,10)"
    assert "retention has removed orders-0 [6, 8) from the log" in planned.lost
    assert "the lake table orders_archive, does not hold them" in planned.lost
    assert plan(orders_table(), context, ReplayRequest(from_ms=0, to_ms=5_000)).lost == ""
    assert plan(orders_table(), context, ReplayRequest(is_everything=True)).lost.startswith(
        "retention has removed orders-0 [6, 8) from the log;"
    )
    run_replay(orders_table(), context, ReplayRequest(is_everything=True))
    assert amounts(lake_root) == rows
    assert [offset for partition, offset, _ in rows if partition == 0] == [2, 3, 4, 5, 6, 7, 8, 9]


def test_each_time_is_asked_once(log: MemoryLog, lake_root: Path, spark: Any) -> None:
    with mock.patch.object(log, "offsets_at", wraps=log.offsets_at) as asked:
        run_replay(
            orders_table(),
            run_context(log, lake_root, spark),
            ReplayRequest(from_ms=3_500, to_ms=5_000),
        )
    assert [one.args for one in asked.call_args_list] == [("orders", 3_500), ("orders", 5_000)]


def with_currency(records: Any) -> Any:
    return clean_orders(records).selectExpr("* EXCEPT (note)", "'EUR' AS currency")


def test_a_replay_into_an_evolving_table_brings_columns_and_leaves_columns_out(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    request = ReplayRequest(ranges=(OffsetRange(partition=1, start=3, end=5),))
    run_replay(
        orders_table(function=with_currency, is_evolving=True),
        run_context(log, lake_root, spark),
        request,
    )
    assert rows_of(lake_root, columns=("_partition", "_offset", "currency"))[-4:] == [
        (1, 2, None),
        (1, 3, "EUR"),
        (1, 4, "EUR"),
        (1, 5, None),
    ]
    assert versions(lake_root) == [6, 6]


def test_a_replay_whose_columns_do_not_fit_changes_nothing(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    before, letters = amounts(lake_root), letters_of(lake_root)
    request = ReplayRequest(ranges=(OffsetRange(partition=1, start=0, end=5),))
    with pytest.raises(
        SchemaConflictError, match=r"currency \(STRING\) is in the result and not in the table"
    ):
        run_replay(
            orders_table(function=with_currency), run_context(log, lake_root, spark), request
        )
    assert (amounts(lake_root), letters_of(lake_root)) == (before, letters)


def test_everything_is_replayed_piece_by_piece_and_no_checkpoint_moves(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    context = run_context(log, lake_root, spark, records_per_run=5)
    results = list(
        replay_module.run_replay(
            orders_table(function=fixed), context, ReplayRequest(is_everything=True)
        )
    )
    assert [str(one.ranges) for one in results] == [
        "0:[0,2) 1:[0,3)",
        "0:[2,5) 1:[3,5)",
        "0:[5,6) 1:[5,6)",
    ]
    assert letters_of(lake_root) == []
    assert len(amounts(lake_root)) == 12
    assert versions(lake_root) == [6, 6]
    assert context.reporter.pinned == [("replay", "0:[0,6) 1:[0,6)")]  # type: ignore[attr-defined]


def test_spans_of_time_that_follow_one_another_cover_each_offset_once(
    lake_root: Path, spark: Any
) -> None:
    made = MemoryLog()
    partition = made.add_topic("orders", 1).partitions[0]
    for number, time_s in enumerate([0, 5, 3, 12, 8, 21, 2]):
        partition.append(order(f"o-{number}", 1), timestamp_ms=1_000 * time_s)
    run_topic_table(orders_table(), run_context(made, lake_root, spark))
    context = run_context(made, lake_root, spark)
    spans = [
        plan(orders_table(), context, ReplayRequest(from_ms=start, to_ms=start + 10_000))
        for start in (0, 10_000, 20_000)
    ]
    assert [str(one.ranges) for one in spans] == ["0:[0,3)", "0:[3,5)", "0:[5,7)"]
