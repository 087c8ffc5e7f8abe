"""Transforms: plain ``DataFrame -> DataFrame`` functions that become tables of the lake, as Dagster assets.

``declarations`` holds what is declared, ``parsing`` and ``batch`` turn records into rows, ``topic_run``, ``replay_run`` and ``derived_run``
are runs without Dagster, ``events`` and ``telling`` are what Dagster is told, ``assets`` and ``history`` put it together, ``decorator`` is
what users write. ``to_topic`` is the room of transforms whose rows are records of another topic, ``to_database`` that of tables in a
database, ``joining`` that of tables of two joined topics.
"""

from orchestration.transforms.assets import (
    DerivedTableConfig,
    ReplayRangeConfig,
    TopicFeed,
    TopicTableConfig,
    topic_feeds,
)
from orchestration.transforms.declarations import DerivedTable, TopicTable, pool_of, table_key
from orchestration.transforms.decorator import on_fresh_inputs, spark_aggregate, spark_table
from orchestration.transforms.errors import NotReadyError, TransformError
from orchestration.transforms.events import is_announced
from orchestration.transforms.joining.assets import JoinedTableConfig
from orchestration.transforms.joining.decorator import spark_join
from orchestration.transforms.to_database.assets import DatabaseTableConfig
from orchestration.transforms.to_database.decorator import spark_duckdb_table, spark_sql_table
from orchestration.transforms.to_topic.assets import TopicTransformConfig
from orchestration.transforms.to_topic.decorator import spark_topic

__all__ = [
    "DatabaseTableConfig",
    "DerivedTable",
    "DerivedTableConfig",
    "JoinedTableConfig",
    "NotReadyError",
    "ReplayRangeConfig",
    "TopicFeed",
    "TopicTable",
    "TopicTableConfig",
    "TopicTransformConfig",
    "TransformError",
    "is_announced",
    "on_fresh_inputs",
    "pool_of",
    "spark_aggregate",
    "spark_duckdb_table",
    "spark_join",
    "spark_sql_table",
    "spark_table",
    "spark_topic",
    "table_key",
    "topic_feeds",
]
