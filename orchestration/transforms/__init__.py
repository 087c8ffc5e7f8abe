"""Transforms: plain ``DataFrame -> DataFrame`` functions that become tables of the lake, as Dagster assets.

What users write:

- ``decorator``: ``@spark_table``. ``declarations``: what is declared of a table. ``statements``: transforms written in SQL.
- ``to_topic``: rows become records of another topic. ``to_database``: tables in a database. ``joining``: tables of two joined topics.

From records to rows:

- ``reading``, ``intake``: who reads the records, and where they wait for Spark. ``overtaken``: what comes from the archive.
- ``parsing``, ``batch``: values become columns, records become rows or rejections. ``projection``: transforms that need no Spark.
  ``isolation``: which records a transform throws on. ``variants``: VARIANT as JSON.
- ``deletions``: records that delete a key. ``checking``: the suite on a result. ``results``: a result until it is committed.

Runs without Dagster:

- ``topic_run``, ``derived_run``: a run of a table from a topic, and from tables. ``following``: one that goes on while records come.
- ``replay_run``: a replay; ``replay_plan`` decides its offsets, ``replay_pieces`` cuts it. ``lost_records``: what it cannot reach.
  ``rebuilding``: that of a table of aggregates. ``without_replay``: what has none.
- ``rehearsal``: a batch of nothing, for a server that has just started.

What Dagster is told:

- ``assets``, ``history``: tables and their replays as assets and jobs. ``events``, ``telling``: numbers, offsets and checks of a run.
- ``errors``, ``failures``: what goes wrong, by who must act, and as Dagster's failures.
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
