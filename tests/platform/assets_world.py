"""The tests' project runs in one process.

It has the assets of the orders pipeline over a log in memory, a lake, a warehouse and an instance
of Dagster.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import LogClient
from orchestration.marts.database_copy import sql_table
from orchestration.marts.mart import mart
from orchestration.quality import Suite, expect, warn
from orchestration.resources import DatabaseResource, LakeResource, WarehouseResource
from orchestration.topics.spec import topic_asset
from orchestration.transforms import spark_table, table_key
from orchestration.warehouse.store import Warehouse
from tests.platform.pipeline import ORDERS, RULES
from tests.unit.orchestration.memory_log import MemoryLog

KEY = table_key("clean_orders")


class OpenedLog:
    """Stands in for ``LogServiceResource``."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log

    @contextmanager
    def open(self) -> Iterator[LogClient]:
        yield self.log


@dataclass
class OpenedSpark:
    """Stands in for ``SparkResource``: the session of the tests."""

    spark_session: Any

    def forget(self) -> None:
        pytest.fail("the session is there")


@spark_table(
    topic=ORDERS,
    unique_by=("id",),
    rules=RULES,
    suite=Suite(
        expect(
            "expect_column_values_to_be_between",
            column="amount",
            max_value=100,
            name="amount_up_to_100",
        )
    ),
    minimum_interval_s=7,
)
def clean_orders(records: Any) -> Any:
    """Orders that make sense."""
    return records.select("_topic_id", "_partition", "_offset", "_timestamp", "id", "amount")


@spark_table(tables=[clean_orders], rules=(warn("has_amount", "total > 0"),))
def totals(orders: Any) -> Any:
    return (
        orders.selectExpr("left(id, 1) AS kind", "amount")
        .groupBy("kind")
        .sum("amount")
        .withColumnRenamed("sum(amount)", "total")
    )


orders_topic = topic_asset(ORDERS)
by_kind = mart("by_kind", sql="SELECT kind, total FROM totals ORDER BY kind", tables=[totals])
orders_sql = sql_table("orders", table=clean_orders, columns=["id", "amount"], primary_key=["id"])
ASSETS = [orders_topic, clean_orders, totals, by_kind, orders_sql]


class World:
    """An instance with resources over a memory log and folders of the test."""

    def __init__(self, directory: Path, spark: Any, instance: dg.DagsterInstance) -> None:
        self.log = MemoryLog()
        self.instance = instance
        self.lake = Lake(directory / "lake")
        self.warehouse = Warehouse(directory / "warehouse", self.lake)
        self.database_url = f"sqlite:///{directory / 'reference.db'}"
        self.resources = {
            "log_service": dg.ResourceDefinition.hardcoded_resource(OpenedLog(self.log)),
            "spark": dg.ResourceDefinition.hardcoded_resource(OpenedSpark(spark)),
            "lake": LakeResource(root=str(self.lake.root)),
            "warehouse": WarehouseResource(
                directory=str(self.warehouse.directory), lake_root=str(self.lake.root)
            ),
            "database": DatabaseResource(url=self.database_url),
        }

    def materialize(
        self, *assets: dg.AssetsDefinition, config: dict[str, Any] | None = None
    ) -> dg.ExecuteInProcessResult:
        chosen = [asset.key for asset in assets]
        run_config = {"ops": {assets[0].op.name: {"config": config}}} if config else None
        return dg.materialize(
            ASSETS,
            selection=chosen,
            resources=self.resources,
            instance=self.instance,
            raise_on_error=False,
            run_config=run_config,
        )

    def values(self, key: dg.AssetKey = KEY) -> dict[str, Any]:
        event = self.instance.get_latest_materialization_event(key)
        materialization = event.asset_materialization if event else None
        return (
            {label: one.value for label, one in materialization.metadata.items()}
            if materialization
            else {}
        )


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    failed = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    data = failed[0].step_failure_data
    return str(data.user_failure_data.description if data.user_failure_data else data.error)
