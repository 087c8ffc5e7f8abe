"""Dagster shows an asset as its declaration says, whatever shape, sink or mart it is."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import dagster as dg
import pytest

from orchestration.marts.database_copy import sql_table
from orchestration.marts.mart import mart
from orchestration.rows.aggregates import count
from orchestration.topics.spec import TopicSpec
from orchestration.transforms import (
    spark_aggregate,
    spark_duckdb_table,
    spark_join,
    spark_sql_table,
    spark_table,
    spark_topic,
)

ORDERS = TopicSpec(name="orders", schema="id BIGINT NOT NULL, amount DOUBLE")
COPIES = TopicSpec(name="copies", schema="id BIGINT NOT NULL, amount DOUBLE")
HOURLY = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=1))
SHOWN: dict[str, Any] = {
    "group_name": "shop",
    "tags": {"team": "sales"},
    "owners": ["sales@example.com"],
    "freshness_policy": HOURLY,
}


def rows(records: Any) -> Any:
    """Orders as they came."""
    return records


DECLARED: dict[str, Callable[[], dg.AssetsDefinition]] = {
    "a table": lambda: spark_table(topic=ORDERS, name="shown_rows", **SHOWN)(rows),
    "newest rows": lambda: spark_table(topic=ORDERS, name="shown_newest", latest_by="id", **SHOWN)(
        rows
    ),
    "a table from tables": lambda: spark_table(
        tables=["shown_rows"], name="shown_derived", **SHOWN
    )(rows),
    "groups": lambda: spark_aggregate(
        topic=ORDERS, name="shown_groups", by="id", aggregates=(count("orders"),), **SHOWN
    )(rows),
    "a join": lambda: spark_join(
        left=ORDERS,
        right=COPIES,
        on="id",
        within=timedelta(1),
        lateness=timedelta(1),
        name="shown_join",
        **SHOWN,
    )(rows),
    "another topic": lambda: spark_topic(
        source=ORDERS, target=COPIES, name="shown_sending", **SHOWN
    )(rows),
    "a database": lambda: spark_sql_table(topic=ORDERS, name="shown_in_sql", **SHOWN)(rows),
    "DuckDB": lambda: spark_duckdb_table(topic=ORDERS, name="shown_in_duckdb", **SHOWN)(rows),
    "a mart": lambda: mart(
        "shown_mart", sql="SELECT 1 AS one FROM shown_rows", tables=["shown_rows"], **SHOWN
    ),
    "a copy for services": lambda: sql_table("shown_copy", table="shown_rows", **SHOWN),
}


@pytest.mark.parametrize("declare", DECLARED.values(), ids=DECLARED)
def test_group_tags_owners_and_freshness_are_those_that_were_declared(
    declare: Callable[[], dg.AssetsDefinition],
) -> None:
    (spec,) = declare().specs
    assert (spec.group_name, spec.owners, spec.freshness_policy) == (
        "shop",
        ["sales@example.com"],
        HOURLY,
    )
    assert spec.tags["team"] == "sales"
