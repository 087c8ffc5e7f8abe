"""The SQL of marts is checked against the tables and columns of the project when the project loads."""

from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from orchestration.assembly import assemble
from orchestration.marts.mart import mart
from orchestration.rows.aggregates import count
from orchestration.topics.spec import TopicSpec, topic_asset
from orchestration.transforms import spark_aggregate, spark_duckdb_table, spark_table
from orchestration.transforms.to_lake.statements import sql_transform

ORDERS = TopicSpec(name="orders_of_marts", schema="id BIGINT, amount DOUBLE, country STRING")
IN_SQL = sql_transform(
    "SELECT id, amount, country, _topic_id, _partition, _offset FROM orders",
    ["orders"],
    place="here",
)


@spark_table(topic=ORDERS)
def clean_orders(records: Any) -> Any:
    return records.select(
        "id", "amount", "country", "payload", "_topic_id", "_partition", "_offset"
    )


@spark_table(topic=ORDERS)
def unknown_orders(records: Any) -> Any:
    return records.withColumn("twice", records.amount * 2)


@spark_table(topic=ORDERS, is_evolving=True)
def evolving_orders(records: Any) -> Any:
    return records.select("id", "_topic_id", "_partition", "_offset")


@spark_aggregate(topic=ORDERS, by="country", aggregates=count("orders"))
def by_country(records: Any) -> Any:
    return records.withColumn("more", records.amount)


@spark_duckdb_table(topic=ORDERS, key="id", table="fresh_orders")
def stored_orders(records: Any) -> Any:
    return records.select("id", "_topic_id", "_partition", "_offset")


def loaded(*marts: dg.AssetsDefinition) -> dg.Definitions:
    tables = [clean_orders, unknown_orders, evolving_orders, by_country, stored_orders]
    module = ModuleType("assets.orders")
    vars(module).update(
        topic=topic_asset(ORDERS),
        tables=[*tables, spark_table(topic=ORDERS, name="in_sql")(IN_SQL)],
        marts=list(marts),
    )
    return assemble([module])


def question(sql: str) -> dg.AssetsDefinition:
    return mart("revenue", sql=sql, tables=["clean_orders"])


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        (
            "SELECT sum(amount) FROM claen_orders",
            "reads claen_orders, which no asset of the project makes: did you mean clean_orders",
        ),
        (
            "SELECT id FROM clean_orders WHERE id IN (SELECT id FROM paid)",
            "reads paid, which no asset of the project makes: there are ",
        ),
        (
            "SELECT contry FROM clean_orders",
            "names the column contry, which is not there: did you mean country",
        ),
        (
            "SELECT o.amuont FROM clean_orders o",
            "names the column amuont, which is not there: did you mean amount",
        ),
        (
            "SELECT country FROM clean_orders GROUP BY ALL ORDER BY amuont",
            "names the column amuont",
        ),
        (
            "SELECT * EXCLUDE (amuont) FROM in_sql",
            "names the column amuont, .*in_sql has id, amount, country",
        ),
        ("SELECT id FROM clean_orders JOIN by_country USING (contry)", "names the column contry"),
        (
            "WITH o AS (SELECT id, upper(country) AS code FROM in_sql) SELECT cod FROM o",
            "names the column cod",
        ),
        (
            "SELECT reson FROM dead_letters",
            "names the column reson, which is not there: did you mean reason",
        ),
        (
            "SELECT oders FROM by_country",
            "names the column oders, which is not there: did you mean orders",
        ),
    ],
)
def test_a_misspelt_table_or_column_of_a_mart_is_refused_when_the_project_loads(
    sql: str, told: str
) -> None:
    """The project loaded, and the first build failed."""
    with pytest.raises(ValueError, match=f"the sql of the mart revenue {told}"):
        loaded(question(sql))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT country, sum(amount) AS revenue FROM clean_orders GROUP BY ALL",
        "SELECT amuont FROM unknown_orders",
        "SELECT later FROM evolving_orders",
        "SELECT any_column FROM fresh_orders JOIN stored_orders USING (id)",
        "SELECT price FROM (SELECT unnest(payload, recursive := true) FROM clean_orders)",
        "SELECT payload.user.id, payload.* FROM clean_orders",
        "SELECT id - INTERVAL 1 DAY AS day, amount + 1 FROM clean_orders",
        "PIVOT clean_orders ON country USING sum(amount)",
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n",
        "SELECT table_name FROM information_schema.tables, duckdb_views, range(3)",
        "SELECT x FROM 'prices.parquet'",
        "SELECT ORDERS FROM by_country",
    ],
)
def test_whatever_may_be_right_is_left_to_the_build(sql: str) -> None:
    """Types are not known, and neither are the columns of some tables."""
    loaded(question(sql))


def test_a_mart_of_a_mart_is_checked_by_the_answer_of_the_first() -> None:
    """The columns of a mart's answer are those that later marts may name."""
    first = mart(
        "first",
        sql="SELECT country, sum(amount) AS revenue FROM clean_orders GROUP BY ALL",
        tables=["clean_orders"],
    )
    loaded(first, mart("a_second", sql="SELECT revenue FROM first", tables=[], marts=["first"]))
    with pytest.raises(
        ValueError,
        match=r"the sql of the mart a_second names the column amount, .*first has country, revenue",
    ):
        loaded(first, mart("a_second", sql="SELECT amount FROM first", tables=[], marts=["first"]))
