"""SQL statements of transforms: which are a plain choice of columns, and what Spark is asked otherwise."""

import pytest

from orchestration.components.sql_transform import known_columns
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.declarations import DerivedTable
from orchestration.transforms.to_lake.statements import asked, plain_choice, sql_transform, validate_provenance

COLUMNS = ("id", "amount", "_offset")


@pytest.mark.parametrize(
    ("statement", "chosen"),
    [
        ("SELECT id, amount AS paid, _offset FROM orders", {"id": "id", "paid": "amount", "_offset": "_offset"}),
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
def test_only_a_choice_of_known_columns_needs_no_sql(statement: str, chosen: dict[str, str] | None) -> None:
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
        DerivedTable(name="sums", inputs=("orders",), function=sql_transform(f"SELECT {n} AS n FROM orders", ["orders"], place="x"))
        for n in (1, 1, 2)
    ]
    first, again, other = (one.code_fingerprint for one in tables)
    assert first == again != other
