"""Tables from tables: the latest versions of the inputs, one commit that records them."""

import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from orchestration.lake.tables import Lake, replace_all
from orchestration.quality import Suite, expect, fail, warn
from orchestration.transforms.batch.results import chosen_rows
from orchestration.transforms.declarations import DerivedTable
from orchestration.transforms.errors import TransformError
from orchestration.transforms.to_lake.derived import DerivedRunResult, run_derived_table

pytestmark = pytest.mark.platform
Run = Callable[..., DerivedRunResult]


def joined(flights: Any, planes: Any) -> Any:
    """Flights with the seats of their planes."""
    return flights.join(planes, "tail", "left")


def store(lake: Lake, name: str, columns: dict[str, list[Any]]) -> None:
    rows = pa.table(columns)
    replace_all(lake.snapshot(name) or lake.create(name, rows.schema), rows, {}, {})


@pytest.fixture(params=[True, False], ids=["by-files", "by-rows"])
def is_lake_shared(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def lake(lake_root: Path) -> Lake:
    made = Lake(lake_root / "a folder with blanks")
    store(made, "flights", {"number": [1, 2, 3], "tail": ["a", "b", None]})
    store(made, "planes", {"tail": ["a"], "seats": [100]})
    return made


@pytest.fixture
def run(lake: Lake, spark: Any, is_lake_shared: bool) -> Run:
    def run_once(**changes: Any) -> DerivedRunResult:
        is_forced = changes.pop("is_forced", False)
        table = DerivedTable(
            **{"name": "joined", "inputs": ("flights", "planes"), "function": joined, **changes}
        )
        return run_derived_table(
            table,
            lake,
            lambda: spark,
            run_id="run-1",
            commit_attempts=3,
            is_forced=is_forced,
            is_lake_shared=is_lake_shared,
        )

    return run_once


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    found = lake.existing("joined").dataset().to_table(columns=["number", "seats"]).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def test_the_commit_records_its_inputs_and_unchanged_inputs_are_skipped(
    lake: Lake, run: Run
) -> None:
    first = run()
    assert rows(lake) == [(1, 100), (2, None), (3, None)]
    assert first.inputs == {"flights": 1, "planes": 1}
    assert lake.existing("joined").delta.history(1)[0]["tidelog.inputs"] == "flights:1 planes:1"

    again = run()
    assert again.is_unchanged
    assert again.version == first.version

    store(lake, "planes", {"tail": ["a", "b"], "seats": [100, 50]})
    third = run()
    assert not third.is_unchanged
    assert rows(lake) == [(1, 100), (2, 50), (3, None)]


def test_a_changed_transform_and_force_compute_unchanged_inputs_again(lake: Lake, run: Run) -> None:
    run()

    def inner(flights: Any, planes: Any) -> Any:
        return flights.join(planes, "tail").withColumnRenamed("number", "flight")

    assert not run(function=inner).is_unchanged
    assert lake.existing("joined").arrow_schema.names == ["tail", "flight", "seats"]
    assert run(function=inner).is_unchanged
    assert not run(function=inner, is_forced=True).is_unchanged


def test_missing_inputs_are_named(lake: Lake, run: Run) -> None:
    result = run(inputs=("flights", "weather"))
    assert result.missing == ("weather",)
    assert lake.snapshot("joined") is None


def test_an_empty_input_is_an_empty_frame(lake: Lake, run: Run) -> None:
    lake.create("empty", pa.schema([("tail", pa.string()), ("seats", pa.int64())]))
    run(inputs=("flights", "empty"))
    assert rows(lake) == [(1, None), (2, None), (3, None)]


def test_failed_checks_leave_the_table_as_it_was(lake: Lake, run: Run) -> None:
    run()
    version = lake.existing("joined").version
    store(lake, "planes", {"tail": ["a"], "seats": [-1]})
    result = run(
        rules=(fail("seats_positive", "seats > 0"), warn("has_plane", "seats IS NOT NULL"))
    )
    assert result.failures == ("rule seats_positive: 1 row violates seats > 0",)
    assert result.violations == {"seats_positive": 1, "has_plane": 2}
    suite = Suite(
        expect("expect_column_values_to_be_between", column="seats", min_value=0, is_blocking=True),
        sample_rows=None,
    )
    blocked = run(suite=suite)
    assert blocked.failures[0].startswith(
        "expectation seats_column_values_to_be_between: element_count 3, unexpected_count 1"
    )
    assert lake.existing("joined").version == version


def test_a_blocking_expectation_sees_every_row_of_a_derived_table(lake: Lake, run: Run) -> None:
    unseen = next(number for number in range(3) if number not in chosen_rows(3, 2))
    store(
        lake,
        "planes",
        {"tail": ["a", "b", "c"], "seats": [-1 if number == unseen else 1 for number in range(3)]},
    )
    store(lake, "flights", {"tail": ["a", "b", "c"], "id": [1, 2, 3]})
    suite = Suite(
        expect("expect_column_values_to_be_between", column="seats", min_value=0, is_blocking=True),
        sample_rows=2,
    )
    blocked = run(suite=suite)
    assert "unexpected_count 1" in blocked.failures[0]
    assert lake.snapshot("joined") is None


def test_columns_that_no_table_can_hold_are_refused(lake: Lake, run: Run) -> None:
    with pytest.raises(TransformError, match="returned list"):
        run(function=lambda flights, planes: [flights, planes])
    with pytest.raises(Exception, match="without a type: nothing"):
        run(function=lambda flights, planes: flights.selectExpr("*", "NULL AS nothing"))


def test_killed_runs_leave_nothing_for_ever(lake: Lake, run: Run, is_lake_shared: bool) -> None:
    old, young = lake.path("joined") / "_staging-old", lake.path("joined") / "_staging-young"
    for folder in (old, young):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    run()
    staged = [path.name for path in lake.path("joined").glob("_staging-*")]
    assert sorted(staged) == (
        ["_staging-young"] if is_lake_shared else ["_staging-old", "_staging-young"]
    )


def test_what_spark_wrote_is_found_by_its_statistics(lake: Lake, run: Run) -> None:
    moments = pa.array([datetime(2026, 1, 1, 12, tzinfo=UTC), None], pa.timestamp("us", tz="UTC"))
    rows = pa.table(
        {
            "n": [1, 2],
            "name": ["a", "é" * 70],
            "at": moments,
            "day": [date(2026, 1, 1), date(2026, 1, 2)],
            "share": [0.5, float("nan")],
        }
    )
    snapshot = lake.create("wide", rows.schema)
    replace_all(snapshot, rows, {}, {})
    run(inputs=("wide",), function=lambda wide: wide.coalesce(1))
    made = lake.existing("joined")
    assert made.row_count == 2
    assert made.arrow_schema == rows.schema
    dataset = made.dataset()
    for chosen, count in [
        (pads.field("at") == datetime(2026, 1, 1, 12, tzinfo=UTC), 1),
        (pads.field("at") > datetime(2026, 1, 1, 12, tzinfo=UTC), 0),
        (pads.field("day") >= date(2026, 1, 2), 1),
        (pads.field("name") == "é" * 70, 1),
        (pads.field("n") > 2, 0),
        (pads.field("at").is_null(), 1),
    ]:
        assert dataset.count_rows(filter=chosen) == count
