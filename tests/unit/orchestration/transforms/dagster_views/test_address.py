"""Dagster's UI shows a table's place, for every kind of table.

Each names itself and its store, also before it was ever written.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import dagster as dg
import pytest
from dagster._core.definitions.metadata.metadata_set import TableMetadataSet
from pyspark.sql import DataFrame

from orchestration.marts.database_copy import sql_table
from orchestration.marts.mart import mart
from orchestration.resources.warehouse import WarehouseResource
from orchestration.topics.spec import TopicSpec
from orchestration.transforms import spark_duckdb_table, spark_join, spark_sql_table, spark_table
from orchestration.transforms.archiving import Archive
from orchestration.transforms.archiving.assets import archive_asset

ORDERS = TopicSpec(name="addressed-orders", schema="id BIGINT, at TIMESTAMP", archive=Archive())
PAYMENTS = TopicSpec(name="addressed-payments", schema="id BIGINT, at TIMESTAMP")


@spark_table(topic=ORDERS)
def addressed_orders(records: DataFrame) -> DataFrame:
    return records


@spark_table(tables=["addressed_orders"])
def addressed_totals(addressed_orders: DataFrame) -> DataFrame:
    return addressed_orders


@spark_join(
    left=ORDERS,
    right=PAYMENTS,
    on="id",
    event_time=("at", "at"),
    within=(timedelta(0), timedelta(hours=1)),
    lateness=timedelta(0),
)
def addressed_join(pairs: DataFrame) -> DataFrame:
    return pairs


@spark_sql_table(topic=PAYMENTS, table="addressed_accounts")
def into_sql(records: DataFrame) -> DataFrame:
    return records


@spark_duckdb_table(topic=PAYMENTS, table="addressed_pets")
def into_duckdb(records: DataFrame) -> DataFrame:
    return records


MART = mart("addressed_mart", sql="SELECT 1 AS one", tables=[])


@pytest.mark.parametrize(
    ("asset", "table", "kind"),
    [
        (addressed_orders, "addressed_orders", "deltalake"),
        (addressed_totals, "addressed_totals", "deltalake"),
        (addressed_join, "addressed_join", "deltalake"),
        (archive_asset(ORDERS), None, "deltalake"),
        (MART, "addressed_mart", "duckdb"),
        (into_duckdb, "addressed_pets", "duckdb"),
        (into_sql, "addressed_accounts", None),
        (sql_table("addressed_copy", table="addressed_orders"), "addressed_copy", None),
    ],
)
def test_a_tables_asset_says_what_the_table_is_called_and_what_stores_it(
    asset: dg.AssetsDefinition, table: str | None, kind: str
) -> None:
    (metadata,) = asset.metadata_by_key.values()
    address = TableMetadataSet.extract_storage_address(metadata)
    assert address is not None
    assert (address.table_name, address.storage_kind) == (table or asset.key.path[-1], kind)


def test_a_build_of_a_mart_tells_its_file_as_an_address(tmp_path: Path) -> None:
    resource = WarehouseResource(
        directory=str(tmp_path / "marts"), lake_root=str(tmp_path / "lake")
    )
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize([MART], resources={"warehouse": resource}, instance=instance)
    (event,) = done.asset_materializations_for_node(MART.node_def.name)
    values: dict[str, Any] = {name: each.value for name, each in event.metadata.items()}
    assert Path(url2pathname(urlsplit(values["dagster/uri"]).path)) == Path(values["file"])
