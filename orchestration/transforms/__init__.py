"""Transforms: plain functions over DataFrames that become tables, as Dagster assets.

One engine serves several kinds of table. Each kind is one folder and registers its tables through
``kinds``. Kinds do not import each other. Every kind has the files ``assets`` (the Dagster assets),
``kind`` (it implements the protocol of ``kinds``) and ``run`` (a run without Dagster). All but
``archiving`` also have ``decorator``, ``replay`` and ``history`` (replays in Dagster). A kind has
``declarations`` of its own if those of this package do not fit it.

- ``declarations``: the declaration of a table. ``result_columns``: the columns of its result that
  are known without a run. ``errors``: errors by who must act.
- ``ledger``: the commits of kinds that commit outside the lake, as a table of the lake.
- ``batch``: turns records into rows or rejections.
- ``run``: the steps of a run. ``rehearsal``: an artificial batch that warms up Spark.
- ``replay``: reads committed records once more.
- ``dagster_views``: runs and replays as Dagster shows them.
- ``kinds``: the protocol of a kind, and the registry of declared tables.
- ``to_lake``, ``to_database``, ``to_topic``, ``joining``, ``archiving``: the kinds.
"""

from orchestration.transforms.archiving.assets import archive_asset
from orchestration.transforms.dagster_views.assets import ReplayRangeConfig
from orchestration.transforms.dagster_views.events import is_announced
from orchestration.transforms.declarations import DerivedTable, TopicTable, pool_of, table_key
from orchestration.transforms.errors import NotReadyError, TransformError
from orchestration.transforms.joining.assets import JoinedTableConfig
from orchestration.transforms.joining.decorator import spark_join
from orchestration.transforms.kinds import TopicFeed, topic_feeds
from orchestration.transforms.to_database.assets import DatabaseTableConfig
from orchestration.transforms.to_database.decorator import spark_duckdb_table, spark_sql_table
from orchestration.transforms.to_lake.assets import DerivedTableConfig, TopicTableConfig
from orchestration.transforms.to_lake.decorator import on_fresh_inputs, spark_aggregate, spark_table
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
    "archive_asset",
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
