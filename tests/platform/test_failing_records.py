"""A record on which a transform throws stops no table that bears it.

It becomes a dead letter, and the way back is that of every other.
"""

import logging
import queue
from dataclasses import replace
from logging.handlers import QueueHandler
from pathlib import Path
from typing import Any

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import functions as sql

from orchestration.calls.fix_trial import rejected_again
from orchestration.dead_letters.fixes import Fix, Fixes
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.quality import quarantine
from orchestration.transforms.batch.batch import QUERY_LOGGERS
from orchestration.transforms.errors import TransformError
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.to_database.replay import DatabaseReplayer
from orchestration.transforms.to_database.run import Storing
from orchestration.transforms.to_lake.replay import run_replay
from orchestration.transforms.to_lake.run import run_topic_table
from orchestration.transforms.to_topic.replay import run_letters_replay
from tests.platform import killed_storing
from tests.platform.databases import database
from tests.platform.good_orders import GROUP, orders_transform, sending_of
from tests.platform.pipeline import letters_of, order, orders_table, rows_of, run_context
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform


def by_cast(records: Any) -> Any:
    return records.selectExpr("*", "CAST(note AS INT) AS number")


def by_python(records: Any) -> Any:
    return records.withColumn(
        "number", sql.udf(lambda note: None if note is None else int(note), "int")("note")
    )


def by_rule(records: Any) -> Any:
    return records


NO_NUMBER = 'The value \'x\' of the type "STRING" cannot be cast to "INT"'


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog()
    made.add_topic("orders", 2)
    for number in range(20):
        made.topics["orders"].partitions[number % 2].append(
            order(f"o{number}", number, note="x" if number in {7, 12} else str(number))
        )
    made.topics["orders"].partitions[1].append(b"nonsense")
    return made


@pytest.mark.parametrize("arrow_records", [1_000, 3], ids=["run-process", "workers"])
@pytest.mark.parametrize(
    "case",
    [
        ({"function": by_cast}, NO_NUMBER),
        ({"function": by_python}, "ValueError: invalid literal for int() with base 10: 'x'"),
        (
            {"function": by_rule, "rules": (quarantine("is_number", "CAST(note AS INT) >= 0"),)},
            NO_NUMBER,
        ),
    ],
    ids=["cast", "udf", "rule"],
)
def test_records_that_throw_become_dead_letters_and_the_others_rows(
    case: tuple[dict[str, Any], str],
    arrow_records: int,
    log: MemoryLog,
    lake_root: Path,
    spark: Any,
) -> None:
    changes, reason = case
    table = orders_table(**{"rules": (), "unique_by": (), "max_failed": 2, **changes})
    result = run_topic_table(table, run_context(log, lake_root, spark, arrow_records=arrow_records))
    letters = letters_of(lake_root)
    assert [one[:3] for one in letters] == [
        (0, 6, "transform"),
        (1, 3, "transform"),
        (1, 10, "schema"),
    ]
    assert all(reason in one[3] for one in letters[:2])
    assert [row[2] for row in rows_of(lake_root)] == [
        f"o{number}" for number in (*range(0, 12, 2), 14, 16, 18, 1, 3, 5, *range(9, 20, 2))
    ]
    assert result.batch is not None
    assert result.batch.filtered == 0
    assert result.next_offsets == {0: 10, 1: 11}


def test_a_search_for_failing_records_fills_no_log(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    """PySpark logs each failed query with all its tracebacks."""
    logged: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    listener = QueueHandler(logged)
    loggers = [PySparkLogger.getLogger(name) for name in QUERY_LOGGERS]
    for one in loggers:
        one.addHandler(listener)
    try:
        table = orders_table(function=by_cast, rules=(), unique_by=(), max_failed=2)
        run_topic_table(table, run_context(log, lake_root, spark))
    finally:
        for one in loggers:
            one.removeHandler(listener)
    assert len(letters_of(lake_root)) == 3
    assert logged.qsize() <= 2, "only the batch's own failure and its cause"
    assert not any(one.disabled for one in loggers)


def test_without_max_failed_a_run_names_topic_partition_and_offset(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    table = orders_table(function=by_cast, rules=(), unique_by=())
    with pytest.raises(
        TransformError,
        match=r"the record at partition 0, offset 6 of the topic orders: .*'x'.*declare max_failed",
    ):
        run_topic_table(table, run_context(log, lake_root, spark))
    with pytest.raises(
        TransformError, match=r"more than 1 record of a batch.*: 0:6, 1:3 of the topic orders"
    ):
        run_topic_table(
            orders_table(function=by_cast, rules=(), unique_by=(), max_failed=0.01),
            run_context(log, lake_root, spark),
        )
    assert rows_of(lake_root) == []
    assert letters_of(lake_root) == []


def test_such_a_dead_letter_is_fixed_and_replayed_and_one_that_throws_again_stays(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    table = orders_table(function=by_cast, rules=(), unique_by=(), max_failed=2)
    run_topic_table(table, run_context(log, lake_root, spark))
    log.topics["orders"].partitions[0].append(order("later", note="x"))
    run_topic_table(table, run_context(log, lake_root, spark, run_id="run-2"))
    lake, letters = Lake(lake_root), DeadLetters(Lake(lake_root))
    fixed = [
        Fix(
            topic_id=log.topics["orders"].topic_id,
            partition=partition,
            offset=offset,
            value=order(f"n{offset}", note=note),
        )
        for partition, offset, note in ((0, 6, "6"), (1, 3, "y"))
    ]
    again = rejected_again(spark, lake, table, letters.of_target(table.name), fixed)
    assert [place[1:] for place in again] == [(1, 3)]
    Fixes(lake).put(table.name, fixed)
    for _ in run_replay(
        table, run_context(log, lake_root, spark), ReplayRequest(is_of_dead_letters=True)
    ):
        pass
    assert [one[:3] for one in letters_of(lake_root)] == [
        (0, 10, "transform"),
        (1, 3, "transform"),
        (1, 10, "schema"),
    ]
    assert "'y'" in letters_of(lake_root)[1][3]
    assert (0, 6, "n6") in rows_of(lake_root)


def test_a_table_of_a_database_goes_on_and_its_replay_too(
    log: MemoryLog, lake_root: Path, spark: Any, tmp_path: Path
) -> None:
    table = orders_table(name="mine", function=by_cast, rules=(), unique_by=(), max_failed=2)
    with database("sqlite", tmp_path) as place, place.store("mine") as store:
        work = Storing(declared=killed_storing.declared(place, table), store=store)
        assert work.run(table, run_context(log, lake_root, spark)).version is not None
        assert [one[:3] for one in letters_of(lake_root)] == [
            (0, 6, "transform"),
            (1, 3, "transform"),
            (1, 10, "schema"),
        ]
        assert len(place.rows("mine", "id")) == 18
        strict = replace(table, max_failed=None)
        replayer = DatabaseReplayer(
            Storing(declared=killed_storing.declared(place, strict), store=store),
            run_context(log, lake_root, spark),
        )
        list(replayer.run(replayer.plan(ReplayRequest(is_everything=True))))
        assert len(place.rows("mine", "id")) == 18
    assert [one[:3] for one in letters_of(lake_root)] == [
        (0, 6, "transform"),
        (1, 3, "transform"),
        (1, 10, "schema"),
    ]


def test_a_transform_to_a_topic_goes_on_and_sends_the_others_once(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    copies = (
        "_topic_id",
        "_partition",
        "_offset",
        "_timestamp",
        "id",
        "amount",
        "CAST(note AS INT) AS copy",
    )
    transform = orders_transform(
        function=lambda records: records.selectExpr(*copies), rules=(), max_failed=0.2
    )
    context = run_context(log, lake_root, spark)
    with log.open_sender(GROUP) as sender:
        table, work = sending_of(transform, sender)
        work.run(table, context)
        assert [one[:3] for one in letters_of(lake_root)] == [
            (0, 6, "transform"),
            (1, 3, "transform"),
            (1, 10, "schema"),
        ]
        assert sorted(one.key or b"" for _, records in log.sent for one in records) == sorted(
            f"o{number}".encode() for number in range(20) if number not in {7, 12}
        )
        Fixes(context.lake).put(
            table.name,
            [
                Fix(
                    topic_id=log.topics["orders"].topic_id,
                    partition=0,
                    offset=6,
                    value=order("o12", note="3"),
                )
            ],
        )
        list(run_letters_replay(work, table, context, ReplayRequest(is_of_dead_letters=True)))
    assert [one[:3] for one in letters_of(lake_root)] == [(1, 3, "transform"), (1, 10, "schema")]
    assert [one.key for _, records in log.sent for one in records].count(b"o12") == 1
