"""Tables from tables: the latest versions of the inputs, one commit that records them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orchestration.quality import Suite, expect, fail, warn
from orchestration.tables import Lake, replace_all
from orchestration.transforms.declarations import DerivedTable
from orchestration.transforms.derived_run import DerivedRunResult, run_derived_table
from orchestration.transforms.errors import TransformError

pytestmark = pytest.mark.platform


def joined(flights: Any, planes: Any) -> Any:
    """Flights with the seats of their planes."""
    return flights.join(planes, "tail", "left")


def store(lake: Lake, name: str, columns: dict[str, list[Any]]) -> None:
    rows = pa.table(columns)
    replace_all(lake.snapshot(name) or lake.create(name, rows.schema), rows, {}, {})


@pytest.fixture
def lake(lake_root: Path) -> Lake:
    made = Lake(lake_root)
    store(made, "flights", {"number": [1, 2, 3], "tail": ["a", "b", None]})
    store(made, "planes", {"tail": ["a"], "seats": [100]})
    return made


def run(lake: Lake, spark: Any, **changes: Any) -> DerivedRunResult:
    is_forced = changes.pop("is_forced", False)
    table = DerivedTable(**{"name": "joined", "inputs": ("flights", "planes"), "function": joined, **changes})
    return run_derived_table(table, lake, lambda: spark, run_id="run-1", commit_attempts=3, is_forced=is_forced)


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    found = lake.existing("joined").dataset().to_table(columns=["number", "seats"]).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def test_the_commit_records_its_inputs_and_unchanged_inputs_are_skipped(lake: Lake, spark: Any) -> None:
    first = run(lake, spark)
    assert rows(lake) == [(1, 100), (2, None), (3, None)]
    assert first.inputs == {"flights": 1, "planes": 1}
    assert lake.existing("joined").last_commit()["tidelog.inputs"] == "flights:1 planes:1"

    again = run(lake, spark)
    assert again.is_unchanged
    assert again.version == first.version

    store(lake, "planes", {"tail": ["a", "b"], "seats": [100, 50]})
    third = run(lake, spark)
    assert not third.is_unchanged
    assert rows(lake) == [(1, 100), (2, 50), (3, None)]


def test_a_changed_transform_and_force_compute_unchanged_inputs_again(lake: Lake, spark: Any) -> None:
    run(lake, spark)

    def inner(flights: Any, planes: Any) -> Any:
        return flights.join(planes, "tail").withColumnRenamed("number", "flight")

    assert not run(lake, spark, function=inner).is_unchanged
    assert lake.existing("joined").arrow_schema.names == ["tail", "flight", "seats"]
    assert run(lake, spark, function=inner).is_unchanged
    assert not run(lake, spark, function=inner, is_forced=True).is_unchanged


def test_missing_inputs_are_named_and_need_no_spark(lake: Lake) -> None:
    result = run(lake, None, inputs=("flights", "weather"))
    assert result.missing == ("weather",)
    assert lake.snapshot("joined") is None


def test_an_empty_input_is_an_empty_frame(lake: Lake, spark: Any) -> None:
    lake.create("empty", pa.schema([("tail", pa.string()), ("seats", pa.int64())]))
    run(lake, spark, inputs=("flights", "empty"))
    assert rows(lake) == [(1, None), (2, None), (3, None)]


def test_failed_checks_leave_the_table_as_it_was(lake: Lake, spark: Any) -> None:
    run(lake, spark)
    version = lake.existing("joined").version
    store(lake, "planes", {"tail": ["a"], "seats": [-1]})
    result = run(lake, spark, rules=(fail("seats_positive", "seats > 0"), warn("has_plane", "seats IS NOT NULL")))
    assert result.failures == ("rule seats_positive: 1 rows violate seats > 0",)
    assert result.violations == {"seats_positive": 1, "has_plane": 2}
    suite = Suite(expect("expect_column_values_to_be_between", column="seats", min_value=0, is_blocking=True), sample_rows=None)
    blocked = run(lake, spark, suite=suite)
    assert blocked.failures[0].startswith("expectation seats_column_values_to_be_between: element_count 3, unexpected_count 1")
    assert lake.existing("joined").version == version


def test_columns_that_no_table_can_hold_are_refused(lake: Lake, spark: Any) -> None:
    with pytest.raises(TransformError, match="returned list"):
        run(lake, spark, function=lambda flights, planes: [flights, planes])
    with pytest.raises(Exception, match="without a type: nothing"):
        run(lake, spark, function=lambda flights, planes: flights.selectExpr("*", "NULL AS nothing"))
