"""Declarations may give one name in the place of several. Mistakes are told where they are made."""

from collections.abc import Callable
from datetime import timedelta
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from orchestration.assembly import assemble
from orchestration.marts.database_copy import sql_table
from orchestration.marts.mart import mart, mart_key
from orchestration.quality import expect, quarantine, warn
from orchestration.rows.aggregates import count
from orchestration.sources import folder_source, sql_source
from orchestration.topics.spec import TopicSpec, topic_asset
from orchestration.transforms import (
    spark_aggregate,
    spark_duckdb_table,
    spark_join,
    spark_sql_table,
    spark_table,
    spark_topic,
    table_key,
)
from orchestration.transforms.joining.kind import JoinedKind
from orchestration.transforms.to_database.kind import StoredKind
from orchestration.transforms.to_lake.kind import LakeKind
from orchestration.transforms.to_topic.kind import SendingKind
from tests.helpers.declared_kinds import declared_as

ORDERS = TopicSpec(name="orders-of-declarations", schema="order_id BIGINT NOT NULL, amount DOUBLE")
OTHERS = TopicSpec(name="others-of-declarations", schema="order_id BIGINT NOT NULL")
orders_topic = topic_asset(ORDERS)
POSITIVE = quarantine("amount_is_positive", "amount > 0")
SPAN = timedelta(minutes=1)


def rows(records: Any) -> Any:
    return records


table = spark_table(topic=ORDERS, name="declared_orders")(rows)


def test_a_single_column_is_one_name_and_not_its_letters() -> None:
    spark_table(topic=ORDERS, name="unique_one", unique_by="order_id")(rows)
    spark_table(topic=ORDERS, name="latest_one", latest_by="order_id")(rows)
    spark_aggregate(topic=ORDERS, name="grouped_one", by="order_id", aggregates=count("orders"))(
        rows
    )
    spark_duckdb_table(topic=ORDERS, name="kept_one", key="order_id")(rows)
    spark_join(
        left=ORDERS, right=OTHERS, on="order_id", within=SPAN, lateness=SPAN, name="joined_one"
    )(rows)
    assert declared_as(LakeKind, "unique_one").table.unique_by == ("order_id",)
    assert declared_as(LakeKind, "latest_one").table.latest_by == ("order_id",)
    assert declared_as(LakeKind, "grouped_one").table.aggregate_by == ("order_id",)
    assert declared_as(StoredKind, "kept_one").table.follower.latest_by == ("order_id",)
    assert declared_as(JoinedKind, "joined_one").table.shape.on == (("order_id", "order_id"),)


def test_a_single_rule_is_one_rule() -> None:
    spark_table(topic=ORDERS, name="ruled_table", rules=POSITIVE)(rows)
    spark_aggregate(
        topic=ORDERS,
        name="ruled_groups",
        by="order_id",
        aggregates=[count("orders")],
        rules=POSITIVE,
    )(rows)
    spark_sql_table(topic=ORDERS, name="ruled_sql", rules=POSITIVE)(rows)
    spark_duckdb_table(topic=ORDERS, name="ruled_duckdb", rules=POSITIVE)(rows)
    spark_topic(source=ORDERS, target=OTHERS, name="ruled_topic", rules=POSITIVE)(rows)
    seen = warn("amount_is_seen", "amount IS NOT NULL")
    spark_join(
        left=ORDERS,
        right=OTHERS,
        on="order_id",
        within=SPAN,
        lateness=SPAN,
        name="ruled_join",
        rules=seen,
    )(rows)
    checks = spark_table(tables="declared_orders", name="ruled_copy", rules=seen)(rows).check_specs
    assert (
        declared_as(LakeKind, "ruled_table").table.rules
        == declared_as(LakeKind, "ruled_groups").table.rules
        == (POSITIVE,)
    )
    for stored in ("ruled_sql", "ruled_duckdb"):
        assert declared_as(StoredKind, stored).table.follower.rules == (POSITIVE,)
    assert declared_as(SendingKind, "ruled_topic").transform.table.rules == (POSITIVE,)
    assert declared_as(JoinedKind, "ruled_join").table.rules == (seen,)
    assert [one.name for one in checks] == ["amount_is_seen"]


@pytest.mark.parametrize("given", [table, "declared_orders"])
def test_a_single_input_is_one_table(given: dg.AssetsDefinition | str) -> None:
    assert spark_table(tables=given, name="copied")(rows).asset_deps[table_key("copied")] == {
        table.key
    }
    assert mart("summed", sql="FROM declared_orders", tables=given).asset_deps[
        mart_key("summed")
    ] == {table.key}


@pytest.mark.parametrize(
    "declare",
    [
        lambda topic: spark_table(topic=topic, name="lost")(rows),
        lambda topic: spark_aggregate(
            topic=topic, name="lost", by="order_id", aggregates=[count("n")]
        )(rows),
        lambda topic: spark_sql_table(topic=topic, name="lost")(rows),
        lambda topic: spark_duckdb_table(topic=topic, name="lost")(rows),
        lambda topic: spark_topic(source=topic, target=OTHERS, name="lost")(rows),
        lambda topic: spark_topic(source=ORDERS, target=topic, name="lost")(rows),
        lambda topic: spark_join(
            left=topic, right=OTHERS, on="order_id", within=SPAN, lateness=SPAN, name="lost"
        )(rows),
        lambda topic: spark_join(
            left=ORDERS, right=topic, on="order_id", within=SPAN, lateness=SPAN, name="lost"
        )(rows),
        lambda topic: sql_source("lost", topic=topic, table="orders", key="order_id"),
        lambda topic: folder_source("lost", topic=topic, folder="dropped"),
    ],
)
def test_what_is_no_topic_is_named(declare: Callable[[Any], object]) -> None:
    with pytest.raises(
        ValueError,
        match="lost wants a topic, and was given the asset topics/orders-of-declarations: give the TopicSpec",
    ):
        declare(orders_topic)
    with pytest.raises(ValueError, match="lost wants a topic, and was given 'orders'"):
        declare("orders")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"records_per_run": 0}, "records_per_run of limited is 0: a run reads at least 1 record"),
        ({"records_per_run": -1}, "records_per_run of limited is -1"),
        ({"minimum_interval_s": -5}, "minimum_interval_s of limited is -5: give seconds"),
        (
            {"suite": [expect("expect_column_to_exist", column="amount")]},
            r"the suite of limited is \[.*\]: give Suite\(expect\(",
        ),
    ],
)
def test_limits_and_suites_that_make_no_sense_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        spark_table(topic=ORDERS, name="limited", **given)(rows)
    with pytest.raises(ValueError, match=told):
        spark_join(
            left=ORDERS,
            right=OTHERS,
            on="order_id",
            within=SPAN,
            lateness=SPAN,
            name="limited",
            **given,
        )(rows)


def test_a_join_refuses_max_failed_and_says_what_to_do() -> None:
    """Python said that it was an unexpected argument."""
    with pytest.raises(
        ValueError,
        match="joined_badly is a join and cannot have max_failed: a row comes of two records",
    ):
        spark_join(
            left=ORDERS,
            right=OTHERS,
            on="order_id",
            within=SPAN,
            lateness=SPAN,
            name="joined_badly",
            max_failed=3,
        )(rows)


def test_a_suite_of_a_table_from_tables_and_a_day_are_looked_at() -> None:
    nothing: Any = None
    with pytest.raises(ValueError, match="the suite of copied is None"):
        spark_table(tables=[table], name="copied", suite=nothing)(rows)
    text: Any = "2026-01-31"
    with pytest.raises(
        ValueError, match=r"history_from of aged is '2026-01-31': give a day, e\.g\. datetime\.date"
    ):
        spark_table(topic=ORDERS, name="aged", history_from=text)(rows)


def test_a_table_of_what_is_no_table_is_refused() -> None:
    """Each place said it in its own words, and not all said what to do."""
    told = r"table copied reads topics/orders-of-declarations as a table of the lake, and that is none: .*spark_table\(topic="
    with pytest.raises(ValueError, match=told):
        spark_table(tables=[orders_topic], name="copied")(rows)
    summed = mart("summed", sql="FROM declared_orders", tables=[table])
    with pytest.raises(
        ValueError,
        match="the table copied reads marts/summed as a table of the lake, and that is none: only a mart",
    ):
        spark_table(tables=[summed], name="copied")(rows)
    with pytest.raises(
        ValueError,
        match="the SQL table served reads marts/summed as a table of the lake, and that is none: only a mart",
    ):
        sql_table("served", table=summed)
    with pytest.raises(
        ValueError,
        match=r"the SQL table served reads topics/.* as a table of the lake, .*spark_table\(topic=",
    ):
        sql_table("served", table=orders_topic)
    with pytest.raises(
        ValueError,
        match=r"the mart summed reads topics/.* as a table of the lake, .*spark_table\(topic=",
    ):
        mart("summed", sql="FROM declared_orders", tables=[orders_topic])


def test_what_is_neither_an_asset_nor_a_name_is_refused() -> None:
    """A key, or a topic's declaration, ended in an AttributeError."""
    given: Any = orders_topic.key
    with pytest.raises(
        ValueError,
        match="the table copied reads what is of the type AssetKey: name a table of the lake by its asset or",
    ):
        spark_table(tables=[given], name="copied")(rows)


def test_a_copy_of_what_nobody_makes_is_refused() -> None:
    module = ModuleType("assets.served")
    vars(module).update(served=sql_table("served", table="declared_orderz"), table=table)
    told = "sql/served reads the table declared_orderz, which no asset of the project makes; tables that one makes: .*declared_orders"
    with pytest.raises(ValueError, match=told):
        assemble([module])


def test_a_primary_key_is_among_the_columns() -> None:
    with pytest.raises(
        ValueError,
        match="the primary key of the SQL table served has order_id, which is not among its columns",
    ):
        sql_table("served", table=table, columns="amount", primary_key="order_id")
    sql_table("served", table=table, columns=["order_id", "amount"], primary_key="order_id")


def test_configs_are_the_texts_that_kafka_reads() -> None:
    given: Any = {
        "retention.ms": 86_400_000,
        "preallocate": True,
        "min.cleanable.dirty.ratio": 0.5,
        "cleanup.policy": "compact",
    }
    expected = {
        "retention.ms": "86400000",
        "preallocate": "true",
        "min.cleanable.dirty.ratio": "0.5",
        "cleanup.policy": "compact",
    }
    assert TopicSpec(name="configured", configs=given).configs == expected
