"""The columns that a transform in Python names are read from its source.

They are told only where they are certain.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

import pytest

from orchestration.quality import Suite, expect, quarantine, warn
from orchestration.rows.aggregates import total
from orchestration.topics.spec import TopicSpec
from orchestration.transforms import spark_aggregate, spark_join, spark_table
from orchestration.transforms.result_columns import result_columns

ORDERS = TopicSpec(
    name="orders_of_known_columns", schema="id BIGINT, amount DOUBLE, country STRING"
)
PAYMENTS = TopicSpec(name="payments_of_known_columns", schema="id BIGINT, paid DOUBLE")
HOUR = timedelta(hours=1)
PLACE = ("_topic_id", "_partition", "_offset")


def plain(records: Any) -> Any:
    """Orders."""
    return records.select("id", "amount", "_topic_id", "_partition", "_offset")


def filtered_before_and_after(records: Any) -> Any:
    kept = 5
    return (
        records.filter("amount > 1")
        .select("id", "left.amount")
        .where(f"amount < {kept}")
        .dropDuplicates(["id"])
    )


def of_columns(records: Any) -> Any:
    functions: Any = records
    return records.select(
        functions.col("id"),
        records.amount,
        records["country"],
        functions.upper("country").alias("code"),
    )


def of_a_list(records: Any) -> Any:
    return records.select(["id", "amount"])


def of_expressions(records: Any) -> Any:
    return records.selectExpr("id", "amount * 2 AS twice", "payload.user")


def of_one_way_out_of_two(records: Any) -> Any:
    if records.is_empty:
        return records.select("id", "amount")

    def other(_: Any) -> Any:
        return 1

    return records.filter(other).select("id", "amount")


@pytest.mark.parametrize(
    ("function", "columns"),
    [
        (plain, ("id", "amount", *PLACE)),
        (filtered_before_and_after, ("id", "amount")),
        (of_columns, ("id", "amount", "country", "code")),
        (of_a_list, ("id", "amount")),
        (of_expressions, ("id", "twice", "user")),
        (of_one_way_out_of_two, ("id", "amount")),
    ],
)
def test_columns_of_a_last_select_are_known(
    function: Callable[..., Any], columns: tuple[str, ...]
) -> None:
    """A select by names tells all columns of the result."""
    assert result_columns(function) == columns


NAMES = ("id", "amount")


def of_a_star(records: Any) -> Any:
    return records.select("*", "id")


def of_names_from_elsewhere(records: Any) -> Any:
    return records.select(*NAMES)


def with_a_column_more(records: Any) -> Any:
    return records.select("id").withColumn("more", records.amount)


def of_two_ways_out(records: Any) -> Any:
    if records.is_empty:
        return records.select("id")
    return records.select("id", "amount")


def of_something_else(records: Any) -> Any:
    return OTHER.select("id", records)


def of_a_call(records: Any) -> Any:
    return plain(records).select("id")


def of_an_unnamed_expression(records: Any) -> Any:
    return records.selectExpr("id + 1")


def adding(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(function)
    def added(records: Any) -> Any:
        return function(records).withColumn("more", records.id)

    return added


@adding
def decorated(records: Any) -> Any:
    return records.select("id")


OTHER: Any = None


@pytest.mark.parametrize(
    "function",
    [
        of_a_star,
        of_names_from_elsewhere,
        with_a_column_more,
        of_two_ways_out,
        of_something_else,
        of_a_call,
        of_an_unnamed_expression,
        decorated,
        lambda records: records.select("id"),
        len,
    ],
)
def test_other_functions_tell_no_columns(function: Callable[..., Any]) -> None:
    """A doubtful function is left to the first run."""
    assert result_columns(function) is None


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (
            {"rules": quarantine("positive", "amuont > 0")},
            "the rule positive of table plain names amuont",
        ),
        (
            {"suite": Suite(expect("expect_column_values_to_not_be_null", column="amuont"))},
            "of table plain names amuont",
        ),
        (
            {"latest_by": "id", "deleted_when": "amuont IS NULL"},
            "deleted_when of table plain names amuont",
        ),
        ({"unique_by": "amuont"}, "unique_by of table plain names amuont"),
    ],
    ids=str,
)
def test_a_misspelt_column_in_a_check_of_a_python_transform_is_refused(
    given: dict[str, Any], what: str
) -> None:
    """The project loaded, and the first run failed."""
    with pytest.raises(
        ValueError, match=f"{what}, which the result does not have: did you mean amount"
    ):
        spark_table(topic=ORDERS, **given)(plain)


def pairs(records: Any) -> Any:
    return records.select("id", "right.paid", "_left", "_right")


def test_a_join_and_aggregates_refuse_misspelt_columns_too() -> None:
    """The columns of every kind of table are checked when it is declared."""
    with pytest.raises(
        ValueError,
        match="the rule is_paid of table pairs names payd, which the result does not have",
    ):
        spark_join(
            left=ORDERS,
            right=PAYMENTS,
            on="id",
            within=HOUR,
            lateness=HOUR,
            rules=[warn("is_paid", "payd > 0")],
        )(pairs)
    with pytest.raises(ValueError, match="aggregates of table plain names amuont"):
        spark_aggregate(topic=ORDERS, by="id", aggregates=total("revenue", "amuont"))(plain)
