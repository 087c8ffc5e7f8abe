"""No two declared followers keep one table of a database."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from orchestration.assembly import assemble
from orchestration.topics.spec import TopicSpec
from orchestration.transforms import spark_duckdb_table, spark_sql_table

TOPIC = TopicSpec(name="accounts-kept-apart", schema="id BIGINT, name STRING")


def follower(name: str) -> Callable[..., Any]:
    def transform(records: Any) -> Any:
        return records

    transform.__name__ = name
    return transform


def module_of(**declared: Any) -> ModuleType:
    module = ModuleType("assets.customers")
    vars(module).update(declared)
    return module


def test_two_followers_of_one_table_are_refused_by_name() -> None:
    first = spark_sql_table(topic=TOPIC, key="id")(follower("customers"))
    second = spark_sql_table(topic=TOPIC, table="Customers")(follower("all_customers"))
    with pytest.raises(
        ValueError,
        match="all_customers and customers cannot both be the table customers of the SQL database: give one of them another table=",
    ):
        assemble([module_of(first=first, second=second)])


def test_tables_of_one_name_in_two_databases_are_apart() -> None:
    first = spark_sql_table(topic=TOPIC, name="served_customers", table="customers")(
        follower("served")
    )
    second = spark_duckdb_table(topic=TOPIC, name="counted_customers", table="customers")(
        follower("counted")
    )
    assemble([module_of(first=first, second=second)])
