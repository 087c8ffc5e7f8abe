"""Expectations that Spark evaluates, which look at each row."""

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from orchestration.quality import Suite, expect
from orchestration.quality.suites import run_suite

pytestmark = pytest.mark.platform
NOON = datetime(2026, 1, 2, 12)  # noqa: DTZ001 - as people write it


def test_times_are_compared_in_utc_whatever_the_zone_of_the_host(spark: Any) -> None:
    """Spark reads a Python time without zone in the host's."""
    rows = pa.table(
        {
            "at": pa.array([NOON.replace(tzinfo=UTC)], pa.timestamp("us", tz="UTC")),
            "local": pa.array([NOON], pa.timestamp("us")),
            "day": pa.array([NOON.date()], pa.date32()),
        }
    )
    bounds = [
        ("at", NOON),
        ("at", NOON.replace(tzinfo=UTC)),
        ("local", NOON.replace(tzinfo=UTC)),
        ("day", date(2026, 1, 2)),
    ]
    suite = Suite(
        *(
            expect(
                "expect_column_values_to_be_between",
                column=column,
                min_value=bound,
                max_value=bound,
                name=f"{column}{number}",
            )
            for number, (column, bound) in enumerate(bounds)
        )
    )
    assert [
        (one.is_met, one.observed.get("error"))
        for one in run_suite(suite, spark.createDataFrame(rows), table="t")
    ] == [(True, None)] * 4
