"""Arrow does selects of plain columns by itself, and no other transform.

The plans are Spark Connect's, without a server.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.connect import functions as sql
from pyspark.sql.connect import plan
from pyspark.sql.connect.dataframe import DataFrame

from orchestration.transforms.batch.projection import chosen_columns

NAMES = ("_topic_id", "_partition", "_offset", "id", "note", "odd name", "a.b")


@pytest.fixture
def records() -> DataFrame:
    session: Any = SimpleNamespace(client=None, session_id="one")
    return DataFrame(plan.Range(0, 10, 1), session)


PLAIN: dict[str, tuple[Callable[[Any], Any], dict[str, str]]] = {
    "names": (lambda records: records.select("_offset", "id"), {"_offset": "_offset", "id": "id"}),
    "columns": (
        lambda records: records.select(sql.col("id"), records["note"]),
        {"id": "id", "note": "note"},
    ),
    "another name": (
        lambda records: records.select(sql.col("id").alias("number"), "note"),
        {"number": "id", "note": "note"},
    ),
    "select of a select": (
        lambda records: records.select("note", sql.col("id").alias("number")).select(
            sql.col("number").alias("n")
        ),
        {"n": "id"},
    ),
    "names exchanged": (
        lambda records: records.select(sql.col("id").alias("note"), sql.col("note").alias("id")),
        {"note": "id", "id": "note"},
    ),
}


@pytest.mark.parametrize("case", PLAIN)
def test_a_choice_of_columns_is_arrows(records: DataFrame, case: str) -> None:
    transform, expected = PLAIN[case]
    found = chosen_columns(transform(records), records, NAMES)
    assert found == expected
    assert list(found or {}) == list(expected)


OTHERS: dict[str, Callable[[Any], Any]] = {
    "a function": lambda records: records.select(sql.upper("note")),
    "arithmetic": lambda records: records.select((sql.col("id") + 1).alias("id")),
    "a cast": lambda records: records.select(sql.col("id").cast("string")),
    "an expression in SQL": lambda records: records.selectExpr("id"),
    "a filter": lambda records: records.where("id > 1").select("id"),
    "a filter between": lambda records: records.select("id").where("id > 1").select("id"),
    "a limit": lambda records: records.select("id").limit(1),
    "a new column": lambda records: records.withColumn("twice", sql.col("id") * 2),
    "a drop": lambda records: records.drop("note"),
    "distinct": lambda records: records.select("id").distinct(),
    "a star": lambda records: records.select("*"),
    "another case": lambda records: records.select("ID"),
    "a column that is not there": lambda records: records.select("nothing"),
    "a name in quotes": lambda records: records.select("`odd name`"),
    "a name with a dot": lambda records: records.select("a.b"),
    "a column twice": lambda records: records.select("id", "id"),
    "a column twice in another case": lambda records: records.select(
        "id", sql.col("note").alias("ID")
    ),
    "a literal": lambda records: records.select(sql.lit(1).alias("id")),
    "a column of the select before": lambda records: records.select("note").select("id"),
    "metadata": lambda records: records.select(sql.col("id").alias("id", metadata={"a": 1})),
    "a union": lambda records: records.select("id").union(records.select("id")),
    "other records": lambda records: DataFrame(plan.Range(0, 5, 1), records.sparkSession).select(
        "id"
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_whatever_is_more_is_sparks(records: DataFrame, case: str) -> None:
    assert chosen_columns(OTHERS[case](records), records, NAMES) is None


def test_names_that_differ_in_case_alone_are_sparks_to_tell_apart(records: DataFrame) -> None:
    assert chosen_columns(records.select("id"), records, ("id", "ID")) is None
