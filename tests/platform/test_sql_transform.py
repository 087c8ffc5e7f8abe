"""Rows and dead letters of a transform in SQL are those of the function in Python, through real
Spark.

A refusal is a sentence.
"""

from pathlib import Path
from typing import Any

import pytest

from orchestration.lake.tables import Lake
from orchestration.quality import quarantine
from orchestration.transforms.declarations import DerivedTable
from orchestration.transforms.errors import TransformError
from orchestration.transforms.to_lake.derived import run_derived_table
from orchestration.transforms.to_lake.run import run_topic_table
from orchestration.transforms.to_lake.statements import sql_transform
from tests.platform.pipeline import letters_of, order, orders_table, rows_of, run_context
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform
COLUMNS = ("_topic_id", "_partition", "_offset", "_timestamp", "id", "amount", "note")
STATEMENT = """
-- What Python does in clean_orders, with a text that Python would take for a field: {note}
WITH known AS (SELECT * FROM orders)
SELECT _topic_id, _partition, _offset, _timestamp, id, amount, upper(note) AS note
FROM known WHERE id <> '{}' -- the last remark
;
"""


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog()
    (first, second) = made.add_topic("orders", 2).partitions
    for identity, amount in (("a", 1), ("b", -1), ("a", 3)):
        first.append(order(identity, amount, note="x"))
    second.append(order("c", 2))
    second.append(b"no JSON")
    return made


def test_rows_rules_repetitions_and_dead_letters_are_those_of_python(
    log: MemoryLog, tmp_path: Path, spark: Any
) -> None:
    in_sql = orders_table(
        function=sql_transform(STATEMENT, ["orders"], place="here", columns=COLUMNS)
    )
    for name, table in (("python", orders_table()), ("sql", in_sql)):
        run_topic_table(table, run_context(log, tmp_path / name, spark))
    found = [
        (
            rows_of(tmp_path / name, columns=("_partition", "_offset", "note")),
            letters_of(tmp_path / name),
        )
        for name in ("python", "sql")
    ]
    assert found[0] == found[1]
    assert found[0][0] == [(0, 0, "X"), (1, 0, None)]
    assert [one[:3] for one in found[0][1]] == [
        (0, 1, "amount_is_positive"),
        (0, 2, "unique_by"),
        (1, 1, "schema"),
    ]


def test_a_choice_of_columns_gives_the_same_rows_with_and_without_sql(
    log: MemoryLog, tmp_path: Path, spark: Any
) -> None:
    statement = "SELECT _topic_id, _partition, _offset, id AS name, amount FROM orders"
    for name, columns in (("chosen", COLUMNS), ("asked", ())):
        table = orders_table(
            function=sql_transform(statement, ["orders"], place="here", columns=columns),
            unique_by=(),
            rules=(),
        )
        run_topic_table(table, run_context(log, tmp_path / name, spark))
    chosen, asked = (
        rows_of(tmp_path / name, columns=("_partition", "_offset", "name", "amount"))
        for name in ("chosen", "asked")
    )
    assert chosen == asked == [(0, 0, "a", 1), (0, 1, "b", -1), (0, 2, "a", 3), (1, 0, "c", 2)]


def test_what_spark_refuses_names_the_place_of_the_statement(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    statement = "SELECT nothing, _topic_id, _partition, _offset FROM orders"
    table = orders_table(
        function=sql_transform(statement, ["orders"], place="assets/a/defs.yaml, line 4"),
        rules=(quarantine("x", "1 = 1"),),
        unique_by=(),
    )
    with pytest.raises(
        TransformError,
        match=r"^assets/a/defs.yaml, line 4: Spark refuses the SQL: .*nothing(.|\n)*change the sql there",
    ):
        run_topic_table(table, run_context(log, lake_root, spark))
    assert rows_of(lake_root) == []


def test_a_statement_over_tables_reads_each_by_its_name(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    statement = "SELECT count(*) AS orders, max(later.amount) AS largest FROM clean_orders JOIN clean_orders AS later USING (id)"
    table = DerivedTable(
        name="sums",
        inputs=("clean_orders",),
        function=sql_transform(statement, ["clean_orders"], place="here"),
    )
    run_derived_table(table, Lake(lake_root), lambda: spark, run_id="run", commit_attempts=1)
    assert rows_of(lake_root, "sums", ("orders", "largest")) == [(2, 2)]
