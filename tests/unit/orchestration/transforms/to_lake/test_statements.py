"""Some SQL statements are a plain choice of columns. Spark is asked about the others."""

from typing import Any

import pytest

from orchestration.components.sql_transform import known_columns
from orchestration.quality import Suite, expect, warn
from orchestration.quality.conditions import named_columns
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.declarations import DerivedTable, TopicTable
from orchestration.transforms.result_columns import named_results
from orchestration.transforms.to_lake.statements import (
    asked,
    plain_choice,
    sql_transform,
    validate_provenance,
)

COLUMNS = ("id", "amount", "_offset")


@pytest.mark.parametrize(
    ("statement", "chosen"),
    [
        (
            "SELECT id, amount AS paid, _offset FROM orders",
            {"id": "id", "paid": "amount", "_offset": "_offset"},
        ),
        ("select id\nfrom `orders`\n", {"id": "id"}),
        ("SELECT id FROM ORDERS", {"id": "id"}),
        ("SELECT ID FROM orders", None),
        ("SELECT id, id FROM orders", None),
        ("SELECT current_date FROM orders", None),
        ("SELECT DISTINCT id FROM orders", None),
        ("SELECT id + 1 AS id FROM orders", None),
        ("SELECT id FROM orders WHERE amount > 0", None),
        ("SELECT id FROM orders o", None),
        ("SELECT id FROM others", None),
        ("SELECT * FROM orders", None),
        ("SELECT id -- the key\nFROM orders", None),
    ],
)
def test_only_a_choice_of_known_columns_needs_no_sql(
    statement: str, chosen: dict[str, str] | None
) -> None:
    assert plain_choice(statement, "orders", COLUMNS) == chosen


def test_headers_are_a_known_column_where_they_are_asked_for() -> None:
    topic = TopicSpec(name="orders", schema="id BIGINT")
    statement = "SELECT id, _headers, _topic_id, _partition, _offset FROM orders"
    assert plain_choice(statement, "orders", known_columns(topic)) is None
    assert plain_choice(statement, "orders", known_columns(topic, has_headers=True)) is not None


def test_spark_is_asked_with_relations_by_name_and_braces_as_they_are() -> None:
    question = asked("SELECT '{x}' FROM orders JOIN `a.b`", ["orders", "a.b"])
    assert question.format(given_0="one", given_1="two") == (
        "WITH orders AS (SELECT * FROM one), `a.b` AS (SELECT * FROM two) SELECT * FROM (\nSELECT '{x}' FROM orders JOIN `a.b`\n)"
    )


def test_statements_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="sql is empty"):
        sql_transform(" ; ", ["orders"], place="x")
    with pytest.raises(ValueError, match="sql does not read payments: write FROM payments"):
        sql_transform("SELECT 1 FROM orders", ["orders", "payments"], place="x")
    with pytest.raises(ValueError, match="sql does not select _topic_id, _partition: "):
        validate_provenance("SELECT id, _offset FROM orders")
    validate_provenance("SELECT *, amount * 2 AS twice FROM orders")


def test_a_table_is_computed_anew_when_its_statement_changes() -> None:
    tables = [
        DerivedTable(
            name="sums",
            inputs=("orders",),
            function=sql_transform(f"SELECT {n} AS n FROM orders", ["orders"], place="x"),
        )
        for n in (1, 1, 2)
    ]
    first, again, other = (one.code_fingerprint for one in tables)
    assert first == again != other


@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        (
            "SELECT id, upper(name) AS loud, o._offset FROM orders AS o WHERE amount > 0",
            ("id", "loud", "_offset"),
        ),
        ("SELECT country, count(*) AS n FROM orders GROUP BY country", ("country", "n")),
        ("SELECT *, 1 AS one FROM orders", None),
        ("SELECT upper(name) FROM orders", None),
        ("SELECT id FROM a UNION ALL SELECT id FROM b", None),
        ("SELECT id RLIKE 'x' AS found FROM orders", None),
    ],
)
def test_the_columns_of_a_result_are_known_where_all_have_names(
    statement: str, columns: tuple[str, ...] | None
) -> None:
    assert named_results(statement) == columns


@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        ("amount > 0 AND lower(place.City) LIKE 'x%'", ("amount", "place")),
        ('Name = "text" AND `odd name` IS NOT NULL -- why', ("name", "odd name")),
        ("ts > current_timestamp - INTERVAL 1 DAY AND CAST(a AS INT) IN (1, 2)", ("ts", "a")),
        ("exists(xs, x -> x > 1) OR array_contains(transform(xs, x -> x), 1)", ()),
        ("id RLIKE 'x'", ()),
    ],
)
def test_the_columns_of_a_condition_are_found(condition: str, columns: tuple[str, ...]) -> None:
    assert named_columns(condition) == columns


def derived(**checks: Any) -> DerivedTable:
    function = sql_transform(
        "SELECT country, count(*) AS n FROM orders GROUP BY country", ["orders"], place="sql"
    )
    return DerivedTable(name="counts", inputs=("orders",), function=function, **checks)


def test_a_check_of_a_column_that_the_result_does_not_have_is_refused_when_it_is_declared() -> None:
    """Only the first run told it, and of an expectation only as one that is not met."""
    derived(
        rules=(warn("is_some", "N > 0 AND Country IS NOT NULL"),),
        suite=Suite(expect("expect_column_max_to_be_between", column="n")),
    )
    with pytest.raises(
        ValueError,
        match=r"the rule is_some of table counts names m, which the result does not have: it has country, n",
    ):
        derived(rules=(warn("is_some", "m > 0"),))
    with pytest.raises(
        ValueError,
        match=r"the expectation .* of table counts names contry, .* did you mean country\? It has country, n",
    ):
        derived(suite=Suite(expect("expect_column_max_to_be_between", column="contry")))


def test_deleted_when_names_columns_of_the_result() -> None:
    topic = TopicSpec(name="orders", schema="id STRING, amount INT")
    function = sql_transform(
        "SELECT id, amount, _timestamp, _topic_id, _partition, _offset FROM orders",
        ["orders"],
        place="sql",
    )
    with pytest.raises(
        ValueError,
        match="deleted_when of table newest names amuont, which the result does not have: did you mean amount",
    ):
        TopicTable(
            name="newest",
            topic=topic,
            function=function,
            latest_by=("id",),
            deleted_when="amuont = 0",
        )
