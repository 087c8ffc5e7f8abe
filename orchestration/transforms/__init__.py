"""Transforms: plain ``DataFrame -> DataFrame`` functions that become tables of the lake.

Each table is a Dagster asset.

What users write:

- ``decorator``: ``@spark_table``. ``declarations``: the declaration of a table.
- ``statements``: transforms written in SQL.
- ``to_topic``: rows become records of another topic. ``to_database``: tables in a database.
- ``joining``: tables of two joined topics.

From records to rows:

- ``reading``, ``intake``: who reads the records, and where they wait for Spark.
- ``overtaken``: records that retention removed from the log, read from the archive.
- ``parsing``, ``batch``: values become columns, records become rows or rejections.
- ``projection``: transforms that need no Spark. ``variants``: VARIANT as JSON.
- ``isolation``: finds the records on which a transform throws.
- ``deletions``: records that delete a key. ``checking``: the suite on a result.
- ``results``: a result until it is committed.

Runs without Dagster:

- ``topic_run``, ``derived_run``: a run of a table from a topic, and from tables.
- ``following``: a run that goes on while records come.
- ``replay_run``: a replay. ``replay_plan`` decides its offsets, ``replay_pieces`` cuts it.
- ``lost_records``: records that a replay cannot reach.
- ``rebuilding``: the replay of a table of aggregates. ``without_replay``: tables without a replay.
- ``rehearsal``: an empty batch that warms up a server that has just started.

Reports to Dagster:

- ``assets``, ``history``: tables and their replays as assets and jobs.
- ``events``, ``telling``: numbers, offsets and checks of a run.
- ``errors``, ``failures``: errors by who must act, and as Dagster's failures.
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
