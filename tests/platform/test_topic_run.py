"""A table that follows a topic: rows, rejections and offsets of one batch after the other."""

import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from orchestration.dead_letters.fixes import Fix, Fixes
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.schemas import SchemaConflictError
from orchestration.lake.tables import Lake
from orchestration.offsets.planning import ProgressError
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.quality import Suite, expect, quarantine
from orchestration.spark.source import RecordBatchFrame
from orchestration.transforms.batch import intake
from orchestration.transforms.batch.intake import Intake
from orchestration.transforms.batch.parsing import parse
from orchestration.transforms.batch.reading import read_batch
from orchestration.transforms.batch.results import chosen_rows
from orchestration.transforms.errors import NotReadyError, TransformError
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.run.following import follow
from orchestration.transforms.to_lake.replay import run_replay
from orchestration.transforms.to_lake.run import run_topic_table
from tests.platform.pipeline import (
    SUITE,
    Notes,
    append_order,
    clean_orders,
    letters_of,
    order,
    orders_table,
    rows_of,
    run_context,
)
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog()
    made.add_topic("orders", 2)
    return made


def test_each_record_becomes_a_row_or_a_dead_letter_with_its_reason(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    first, second = log.topics["orders"].partitions
    for value in [
        order("a", 5, note="hi"),
        order("b", -1),
        b"nonsense",
        order("a", 7),
        None,
        b'{"id": "x"}',
        order("c", "many"),
    ]:
        first.append(value)
    second.append(order("d", 2000))
    second.append(b"\xff\xfe")

    result = run_topic_table(orders_table(suite=SUITE), run_context(log, lake_root, spark))

    assert rows_of(lake_root) == [(0, 0, "a"), (1, 0, "d")]
    assert letters_of(lake_root) == [
        (0, 1, "amount_is_positive", "amount > 0 does not hold"),
        (0, 2, "schema", "the value is not JSON"),
        (0, 3, "unique_by", "duplicate"),
        (0, 4, "schema", "the value is null"),
        (0, 5, "schema", "field amount is required and missing"),
        (0, 6, "schema", "field amount is not INT"),
        (1, 1, "schema", "the value is not UTF-8 text"),
    ]
    assert result.batch is not None
    assert result.batch.violations == {
        "amount_is_positive": 1,
        "amount_is_small": 1,
        "id_is_short": 0,
    }
    assert [one.is_met for one in result.outcomes] == [True, True]
    snapshot = Lake(lake_root).existing("clean_orders")
    assert {
        partition: one.next_offset
        for partition, one in snapshot.checkpoints("id-of-orders", [0, 1]).items()
    } == {0: 7, 1: 2}


def test_next_run_reads_only_what_is_new_and_knows_the_keys_of_the_table(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    partition = log.topics["orders"].partitions[0]
    partition.append(order("a"))
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    partition.append(order("a"))
    partition.append(order("b"))

    run_topic_table(orders_table(), run_context(log, lake_root, spark))

    assert log.reads == [("orders", 0, 0, 1), ("orders", 0, 1, 3)]
    assert rows_of(lake_root) == [(0, 0, "a"), (0, 2, "b")]
    assert letters_of(lake_root) == [(0, 1, "unique_by", "duplicate")]


def test_nothing_new_commits_nothing_and_starts_no_spark(log: MemoryLog, lake_root: Path) -> None:
    def no_session() -> Any:
        pytest.fail("no session is needed")

    result = run_topic_table(orders_table(), run_context(log, lake_root, None, session=no_session))

    assert result.version is None
    assert Lake(lake_root).names() == ("dead_letters",)


def test_offsets_are_committed_where_every_record_was_rejected_or_there_was_none(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    first, second = log.topics["orders"].partitions
    first.append(b"nonsense")
    second.skip(3)

    run_topic_table(orders_table(), run_context(log, lake_root, spark))

    snapshot = Lake(lake_root).existing("clean_orders")
    assert {
        partition: one.next_offset
        for partition, one in snapshot.checkpoints("id-of-orders", [0, 1]).items()
    } == {0: 1, 1: 3}
    assert rows_of(lake_root) == []


def test_a_failed_rule_or_expectation_commits_nothing(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    log.topics["orders"].partitions[0].append(order("x" * 30))
    result = run_topic_table(orders_table(), run_context(log, lake_root, spark))
    assert result.failures == ("rule id_is_short: 1 row violates length(id) < 20",)
    assert result.version is None
    assert Lake(lake_root).snapshot("clean_orders") is None


def of_unknown_columns(records: Any) -> Any:
    """Return the columns of ``clean_orders``, which its source does not tell."""
    return clean_orders(records)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("amount >> > 0", r"cannot be evaluated: ParseException: .*Syntax error"),
        ("amuont > 0", r"cannot be evaluated: AnalysisException: .*`amuont`"),
        ("amount", "is int, and has to be true or false"),
    ],
)
def test_a_rule_that_cannot_be_evaluated_is_named_in_its_own_words(
    log: MemoryLog, lake_root: Path, spark: Any, condition: str, why: str
) -> None:
    log.topics["orders"].partitions[0].append(order("a"))
    rules = (quarantine("fine", "amount > 0"), quarantine("amount_is_positive", condition))
    with pytest.raises(
        TransformError,
        match=f"the rule amount_is_positive of table clean_orders, {condition}, {why}",
    ) as raised:
        run_topic_table(
            orders_table(function=of_unknown_columns, rules=rules),
            run_context(log, lake_root, spark),
        )
    assert "NOT" not in str(raised.value)


def test_last_stable_offset_bounds_the_run_and_the_limit_leaves_a_backlog(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    partition = log.topics["orders"].partitions[0]
    for number in range(10):
        partition.append(order(f"o{number}"))
    partition.last_stable_offset = 6

    result = run_topic_table(orders_table(), run_context(log, lake_root, spark, records_per_run=4))

    assert [row[1] for row in rows_of(lake_root)] == [0, 1, 2, 3]
    assert result.backlog == 2


def test_a_backlog_is_followed_range_by_range_and_each_record_is_read_once(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    partition = log.topics["orders"].partitions[0]
    for number in range(10):
        partition.append(order(f"o{number}"))

    results = []
    for result in follow(
        orders_table(),
        run_context(log, lake_root, spark, records_per_run=4),
        run=run_topic_table,
        follow_s=600,
    ):
        results.append(result)
        if not result.backlog:
            break

    assert [str(one.ranges) for one in results] == ["0:[0,4)", "0:[4,8)", "0:[8,10)"]
    assert [row[1] for row in rows_of(lake_root)] == list(range(10))
    assert log.reads == [("orders", 0, 0, 4), ("orders", 0, 4, 8), ("orders", 0, 8, 10)]


def test_recreated_topic_starts_at_its_log_start_and_says_so(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    log.topics["orders"].partitions[0].append(order("a"))
    log.topics["orders"].partitions[0].append(order("b"))
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    log.add_topic("orders", 1, topic_id="another-id").partitions[0].append(order("c"))
    notes = Notes()

    run_topic_table(orders_table(), run_context(log, lake_root, spark, reporter=notes))

    assert rows_of(lake_root, columns=("_topic_id", "_offset", "id")) == [
        ("another-id", 0, "c"),
        ("id-of-orders", 0, "a"),
        ("id-of-orders", 1, "b"),
    ]
    assert "was recreated: its id is now another-id" in notes.notes[0]


def test_a_repetition_of_a_record_of_the_deleted_topic_names_that_topic(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    """Offset 0 of the new one is another record."""
    log.topics["orders"].partitions[0].append(order("a"))
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    partition = log.add_topic("orders", 1, topic_id="another-id").partitions[0]
    for identity in ("b", "a", "b"):
        partition.append(order(identity))
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    letters = DeadLetters(Lake(lake_root)).of_target("clean_orders")
    assert [(row["_offset"], row["duplicate_of"]) for row in letters] == [
        (1, "id-of-orders/0:0"),
        (2, "0:0"),
    ]


def test_a_topic_that_is_created_anew_between_the_plan_and_the_read_is_read_as_itself(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    log.topics["orders"].partitions[0].append(order("of the old one"))
    notes = Notes()
    plain = log.range_reader

    def anew(*, is_tolerant: bool = False) -> Any:
        if log.topics["orders"].topic_id == "id-of-orders":
            log.add_topic("orders", 1, topic_id="another-id").partitions[0].append(
                order("of the new one")
            )
        return plain(is_tolerant=is_tolerant)

    with mock.patch.object(log, "range_reader", anew):
        run_topic_table(orders_table(), run_context(log, lake_root, spark, reporter=notes))

    assert rows_of(lake_root, columns=("_topic_id", "_offset", "id")) == [
        ("another-id", 0, "of the new one")
    ]
    assert "it was deleted and created anew; looking again" in notes.notes[0]


def test_what_only_markers_of_a_new_leader_follow_is_no_truncated_log(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    partition = log.topics["orders"].partitions[0]
    partition.append(order("a"))
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    partition.append(order("b"))
    partition.leader_epoch, partition.epoch_ends[0] = 1, partition.log_end_offset
    partition.skip(1)
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    partition.skip(1)
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    partition.append(order("c"))
    result = run_topic_table(orders_table(), run_context(log, lake_root, spark))
    assert result.next_offsets == {0: 5}
    assert rows_of(lake_root) == [(0, 0, "a"), (0, 1, "b"), (0, 4, "c")]
    partition.append(order("d"))
    partition.epoch_ends[1] = 4
    with pytest.raises(ProgressError, match="leader epoch 1 ends at offset 4"):
        run_topic_table(orders_table(), run_context(log, lake_root, spark))


def test_truncated_log_is_refused(log: MemoryLog, lake_root: Path, spark: Any) -> None:
    partition = log.topics["orders"].partitions[0]
    partition.leader_epoch = 4
    for number in range(3):
        partition.append(order(f"o{number}"))
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    partition.epoch_ends[4] = 2
    partition.skip(5)
    with pytest.raises(
        ProgressError, match="leader epoch 4 ends at offset 2, below the table's checkpoint 3"
    ):
        run_topic_table(orders_table(), run_context(log, lake_root, spark))


def test_a_transform_that_throws_is_named_and_commits_nothing(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    log.topics["orders"].partitions[0].append(order("a"))

    def throws(records: Any) -> Any:
        raise ZeroDivisionError("three over zero")

    with pytest.raises(
        TransformError, match="table clean_orders raised ZeroDivisionError: three over zero"
    ):
        run_topic_table(orders_table(function=throws), run_context(log, lake_root, spark))
    with pytest.raises(TransformError, match="DIVIDE_BY_ZERO"):
        run_topic_table(
            orders_table(function=lambda records: records.selectExpr("*", "1 / (amount - 1) AS x")),
            run_context(log, lake_root, spark),
        )
    assert Lake(lake_root).names() == ("dead_letters",)


def test_result_without_or_with_foreign_provenance_is_refused(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    log.topics["orders"].partitions[0].append(order("a"))
    with pytest.raises(TransformError, match="lacks _topic_id, _offset"):
        run_topic_table(
            orders_table(function=lambda records: records.select("_partition", "id", "amount")),
            run_context(log, lake_root, spark),
        )
    with pytest.raises(TransformError, match="are not of the batch"):
        run_topic_table(
            orders_table(
                function=lambda records: records.selectExpr(
                    "_topic_id", "_partition", "_offset + 5 AS _offset", "id", "amount"
                )
            ),
            run_context(log, lake_root, spark),
        )


def test_changed_columns_are_refused_unless_the_table_may_evolve(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    partition = log.topics["orders"].partitions[0]
    partition.append(order("a"))
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    partition.append(order("b", 3))

    def more(records: Any) -> Any:
        return records.selectExpr(
            "_topic_id",
            "_partition",
            "_offset",
            "_timestamp",
            "id",
            "amount",
            "amount * 2 AS twice",
        )

    with pytest.raises(
        SchemaConflictError,
        match=r"note \(STRING\) is in the table and not in the result; twice \(INT\)",
    ):
        run_topic_table(orders_table(function=more), run_context(log, lake_root, spark))
    run_topic_table(
        orders_table(function=more, is_evolving=True), run_context(log, lake_root, spark)
    )
    assert rows_of(lake_root, columns=("id", "note", "twice")) == [
        ("a", None, None),
        ("b", None, 6),
    ]


def test_a_record_made_into_several_rows_is_rejected_as_a_whole(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    partition = log.topics["orders"].partitions[0]
    partition.append(order("a", 2))
    partition.append(order("b", 1))

    def exploded(records: Any) -> Any:
        return records.selectExpr(
            "_topic_id",
            "_partition",
            "_offset",
            "id",
            "amount",
            "explode(sequence(1, amount)) AS step",
        )

    rules = (quarantine("first", "step < 2"),)
    run_topic_table(
        orders_table(function=exploded, unique_by=("id", "step"), rules=rules),
        run_context(log, lake_root, spark),
    )
    assert rows_of(lake_root) == [(0, 1, "b")]
    assert letters_of(lake_root) == [(0, 0, "first", "step < 2 does not hold")]


def test_records_that_misfit_are_found_where_spark_skips_a_part_of_the_input(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    partition = log.topics["orders"].partitions[0]
    partition.append(order("a"))
    partition.append(b"nonsense")
    nothing = orders_table(function=lambda records: records.where("false"))
    result = run_topic_table(nothing, run_context(log, lake_root, spark))
    assert [one[:3] for one in letters_of(lake_root)] == [(0, 1, "schema")]
    assert result.batch is not None
    assert result.batch.filtered == 1


def test_missing_topic_names_the_asset_that_creates_it(lake_root: Path) -> None:
    with pytest.raises(NotReadyError, match="materialize topics/orders"):
        run_topic_table(orders_table(), run_context(MemoryLog(), lake_root, None))


def test_bytes_that_are_no_text_and_lenient_json_are_dead_letters(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    partition = log.topics["orders"].partitions[0]
    for value in (
        b'{"id": "\xff", "amount": 1}',
        b"{'id': 'a', 'amount': 1}",
        b'{"id": "a", "amount": 99999999999}',
        b'{"id": "b", "amount": 1}',
    ):
        partition.append(value, key=b"\xfe")
    run_topic_table(
        orders_table(function=lambda records: records), run_context(log, lake_root, spark)
    )
    assert rows_of(lake_root, columns=("_offset", "id", "_key")) == [(3, "b", "\ufffd")]
    assert letters_of(lake_root) == [
        (0, 0, "schema", "the value is not UTF-8 text"),
        (0, 1, "schema", "the value is not JSON"),
        (0, 2, "schema", "field amount is not INT"),
    ]


def test_large_ranges_are_read_by_sparks_workers_with_the_same_result(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    first, second = log.topics["orders"].partitions
    for number in range(300):
        first.append(order(f"a{number}", number - 5))
        second.append(order(f"b{number}"))
    second.append(b"nonsense")

    result = run_topic_table(orders_table(), run_context(log, lake_root, spark, arrow_records=100))

    assert result.statistics is not None
    assert result.statistics.records == 601
    assert result.statistics.leader_epochs == {0: 0, 1: 0}
    assert len(rows_of(lake_root)) == 594
    assert len(letters_of(lake_root)) == 7
    assert {(0, 0), (1, 300)} <= {one[:2] for one in letters_of(lake_root)}


def test_all_ways_of_reading_give_the_same_records_and_leave_nothing(
    log: MemoryLog, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = log.topics["orders"].partitions[0]
    partition.append(
        order("a"), key=b"k", headers=[("trace", b"1"), ("trace", None)], timestamp_ms=86_400_000
    )
    partition.append(None, timestamp_ms=86_399_999)
    ranges = OffsetRanges(
        topic="orders", topic_id="id-of-orders", ranges=(OffsetRange(partition=0, start=0, end=2),)
    )
    leftover = tmp_path / "batch-of-a-killed-run.parquet"
    leftover.touch()
    os.utime(leftover, (0, 0))
    inline = read_batch(
        spark,
        log.range_reader(),
        ranges,
        None,
        arrow_records=10,
        scratch=tmp_path,
        has_headers=True,
    )
    assert isinstance(inline, Intake)
    monkeypatch.setattr(intake, "INLINE_BYTES", 0)
    by_file = read_batch(
        spark,
        log.range_reader(),
        ranges,
        None,
        arrow_records=10,
        scratch=tmp_path,
        has_headers=True,
    )
    assert isinstance(by_file, Intake)
    by_workers = read_batch(
        spark, log.range_reader(), ranges, None, arrow_records=0, scratch=tmp_path, has_headers=True
    )
    assert isinstance(by_workers, RecordBatchFrame)
    assert len(list(tmp_path.glob("*.parquet"))) == 1
    assert inline.statistics == by_file.statistics == by_workers.statistics
    assert by_workers.statistics.days == {0, 1}
    frames = (
        inline.frame(spark, None),
        by_file.frame(spark, None),
        parse(by_workers.frame, None, has_headers=True).fitting(),
    )
    rows = [frame.orderBy("_offset").toArrow().to_pylist() for frame in frames]
    assert rows[0] == rows[1] == rows[2]
    assert [row["_headers"] for row in rows[0]] == [
        [{"key": "trace", "value": b"1"}, {"key": "trace", "value": None}],
        [],
    ]
    assert [
        one.records_at({0: [1]})["_offset"].to_pylist() for one in (inline, by_file, by_workers)
    ] == [[1], [1], [1]]
    for one in (inline, by_file, by_workers):
        one.release()
    assert list(tmp_path.glob("*.parquet")) == []


@pytest.mark.parametrize("arrow_records", [10_000, 0])
def test_a_transform_reads_the_headers_and_a_replay_keeps_those_of_a_fixed_record(
    log: MemoryLog, lake_root: Path, spark: Any, arrow_records: int
) -> None:
    partition = log.topics["orders"].partitions[0]
    partition.append(order("a"), headers=[("trace", b"1"), ("trace", b"2")])
    partition.append(b'{"id": "b",\n "amount": 1.0e0}', headers=[("trace", b"3")])
    partition.append(b'{"id": "c",\n "amount": 1}', headers=[("other", b"4")])
    partition.append(b"nonsense", headers=[("trace", b"5"), ("none", None)])

    def traced(records: Any) -> Any:
        traces = "transform(filter(_headers, h -> h.key = 'trace'), h -> CAST(h.value AS STRING)) AS traces"
        return records.selectExpr("_topic_id", "_partition", "_offset", "id", "amount", traces)

    table = orders_table(function=traced, has_headers=True)
    context = run_context(log, lake_root, spark, arrow_records=arrow_records)
    run_topic_table(table, context)
    assert rows_of(lake_root, columns=("_offset", "traces")) == [(0, ["1", "2"]), (2, [])]
    letters = DeadLetters(Lake(lake_root)).of_target("clean_orders")
    assert [[tuple(one.values()) for one in letter["headers"]] for letter in letters] == [
        [("trace", b"3")],
        [("trace", b"5"), ("none", None)],
    ]

    Fixes(Lake(lake_root)).put(
        "clean_orders", [Fix(topic_id="id-of-orders", partition=0, offset=3, value=order("d"))]
    )
    list(run_replay(table, context, ReplayRequest(is_of_dead_letters=True)))
    assert rows_of(lake_root, columns=("_offset", "traces")) == [
        (0, ["1", "2"]),
        (2, []),
        (3, ["5"]),
    ]


def test_headers_that_are_passed_on_are_a_column_of_the_table(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    def passed_on(records: Any) -> Any:
        return records.select(
            "_topic_id", "_partition", "_offset", "_timestamp", "id", "amount", "_headers"
        )

    trace = [("trace", b"1"), ("none", None), ("trace", b"2")]
    table = orders_table(function=passed_on, has_headers=True)
    newest = orders_table(
        name="newest_orders", function=passed_on, has_headers=True, unique_by=(), latest_by=("id",)
    )
    context = run_context(log, lake_root, spark)
    partition = log.topics["orders"].partitions[0]
    for offset, headers in enumerate((trace, [], trace[:1])):
        partition.append(order("a" if offset else "b", offset + 1), headers=headers)
        for one in (table, newest):
            run_topic_table(one, context)
    told = [
        [{"key": key, "value": value} for key, value in headers]
        for headers in (trace, [], trace[:1])
    ]
    rows = {
        name: Lake(lake_root).existing(name).dataset().to_table(columns=["_offset", "_headers"])
        for name in ("clean_orders", "newest_orders")
    }
    assert rows["clean_orders"].sort_by("_offset")["_headers"].to_pylist() == told[:2]
    assert rows["newest_orders"].sort_by("_offset")["_headers"].to_pylist() == [told[0], told[2]]
    list(run_replay(table, context, ReplayRequest(is_everything=True)))
    assert (
        Lake(lake_root)
        .existing("clean_orders")
        .dataset()
        .to_table()
        .sort_by("_offset")["_headers"]
        .to_pylist()
        == told[:2]
    )


def test_who_reads_headers_that_were_not_asked_for_is_told_how_to(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    append_order(log, "a")
    table = orders_table(
        function=lambda records: records.select(
            "_topic_id", "_partition", "_offset", "id", "amount", "_headers"
        )
    )
    with pytest.raises(TransformError, match=r"declared with has_headers=True"):
        run_topic_table(table, run_context(log, lake_root, spark))


@pytest.mark.parametrize("is_blocking", [True, False])
def test_a_blocking_expectation_sees_every_row_and_a_sample_says_that_it_is_one(
    log: MemoryLog, lake_root: Path, spark: Any, *, is_blocking: bool
) -> None:
    suite = Suite(
        expect(
            "expect_column_values_to_be_between",
            column="amount",
            max_value=100,
            name="small",
            is_blocking=is_blocking,
        ),
        expect("expect_column_values_to_not_be_null", column="id", name="has_id"),
        sample_rows=5,
    )
    unseen = next(number for number in range(50) if number not in chosen_rows(50, 5))
    for number in range(50):
        log.topics["orders"].partitions[0].append(
            order(f"o-{number}", 500 if number == unseen else 1)
        )
    result = run_topic_table(orders_table(suite=suite), run_context(log, lake_root, spark))
    small, has_id = result.outcomes
    assert [one.expectation.check_name for one in result.outcomes] == ["small", "has_id"]
    assert (has_id.observed["rows"], has_id.observed["of_rows"]) == (5, 50)
    if is_blocking:
        assert result.failures == (
            "expectation small: element_count 50, unexpected_count 1, unexpected_percent 2.0, missing_count 0, unexpected_values 500",
        )
        assert Lake(lake_root).snapshot("clean_orders") is None
    else:
        assert small.is_met
        assert (small.observed["rows"], small.observed["of_rows"]) == (5, 50)
        assert result.failures == ()


def test_where_retention_took_all_that_was_unread_an_accepted_loss_moves_the_checkpoint(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    append_order(log, "a")
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    append_order(log, "b")
    log.delete_records("orders", {0: 2})
    with pytest.raises(ProgressError, match=r"\[1, 2\) were removed"):
        run_topic_table(orders_table(), run_context(log, lake_root, spark))

    notes = Notes()
    run_topic_table(
        orders_table(), run_context(log, lake_root, spark, is_loss_accepted=True, reporter=notes)
    )

    assert (
        Lake(lake_root).existing("clean_orders").checkpoints("id-of-orders", [0])[0].next_offset
        == 2
    )
    assert "going on without them" in notes.notes[0]
    append_order(log, "c")
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    assert rows_of(lake_root) == [(0, 0, "a"), (0, 2, "c")]
