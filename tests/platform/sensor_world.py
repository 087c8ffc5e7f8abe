"""A topic with a table is seen by the sensor of new records.

A test appends, and the sensor decides.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from orchestration.lake.range_commits import append_with_offsets
from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import LogServiceError
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.resources import LakeResource, LogServiceResource, default_resources
from orchestration.sensing import lag_objective, topic_sensor
from orchestration.sensing.topic_sensor import TABLE_TAG, Clock
from orchestration.topics.spec import TopicSpec, topic_asset
from orchestration.transforms import spark_table
from orchestration.transforms.dagster_views.events import checkpoint_text
from tests.unit.orchestration.memory_log import MemoryLog

ORDERS = TopicSpec(name="orders", schema="id STRING")
KEY = dg.AssetKey(["lake", "clean_orders"])


class World:
    """A log, a lake, an instance and a clock that only moves when somebody waits."""

    def __init__(
        self, instance: dg.DagsterInstance, lake_root: Path, minimum_interval_s: int = 5
    ) -> None:
        self.instance, self.lake_root = instance, lake_root
        self.log = MemoryLog()
        self.log.on_wait = lambda timeout_ms: self.sleep(timeout_ms / 1000)
        self.now_s = time.time()
        self.cursor: str | None = None
        self.unreachable = False
        self.sensor = topic_sensor(
            wait_s=15, clock=Clock(now_s=lambda: self.now_s, sleep=self.sleep)
        )

        @spark_table(topic=ORDERS, minimum_interval_s=minimum_interval_s)
        def clean_orders(records: Any) -> Any:
            """Orders."""
            return records

        self.assets = [topic_asset(ORDERS), clean_orders]
        self.checks = [lag_objective(clean_orders, within_s=60)]
        self.define()

    def define(self, *more: dg.AssetsDefinition) -> None:
        """Let the project consist of the table of orders, and ``more``."""
        self.repository = dg.Definitions(
            assets=[*self.assets, *more],
            asset_checks=self.checks,
            sensors=[self.sensor],
            resources=default_resources(),
        ).get_repository_def()

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    @property
    def log_service(self) -> LogServiceResource:
        world = self

        class InMemory(LogServiceResource):
            @contextmanager
            def open(self, *, timeout_ms: int | None = None) -> Iterator[Any]:
                if world.unreachable:
                    raise LogServiceError(f"the log service does not answer within {timeout_ms} ms")
                yield world.log

        return InMemory()

    def tick(self) -> Any:
        context = dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursor,
            repository_def=self.repository,
            resources={
                "log_service": self.log_service,
                "lake": LakeResource(root=str(self.lake_root)),
            },
        )
        result = self.sensor(context)
        if isinstance(result, dg.SensorResult):
            self.cursor = result.cursor
        return result

    def commit(self, end: int, *, is_told: bool = True) -> None:
        """Do what a run does: rows and checkpoint into the table, a materialization into Dagster."""
        lake = Lake(self.lake_root)
        snapshot = lake.snapshot("clean_orders") or lake.create(
            "clean_orders", pa.schema([pa.field("id", pa.string())])
        )
        committed = snapshot.checkpoints("id-of-orders", [0])
        start = committed[0].next_offset if committed else 0
        ranges = OffsetRanges(
            topic="orders",
            topic_id="id-of-orders",
            ranges=(OffsetRange(partition=0, start=start, end=end),),
        )
        append_with_offsets(
            snapshot, pa.table({"id": ["x"] * (end - start)}), ranges, {}, expected=committed
        )
        if is_told:
            metadata = {"tidelog/checkpoint": checkpoint_text("id-of-orders", {0: end})}
            self.instance.report_runless_asset_event(
                dg.AssetMaterialization(KEY, metadata=metadata)
            )

    def run(self, status: dg.DagsterRunStatus, **tags: str) -> None:
        run = dg.DagsterRun(job_name="job", status=status, tags={TABLE_TAG: "clean_orders", **tags})
        self.instance.add_run(run)
        self.now_s = max(self.now_s, time.time())


def append(world: World, count: int) -> None:
    topic = world.log.topics.get("orders") or world.log.add_topic("orders")
    for _ in range(count):
        topic.partitions[0].append(b"{}")


def told(result: Any) -> dict[str, dict[str, Any]]:
    return {
        type(event).__name__: {
            name: value.value for name, value in event.metadata.items() if name != "offsets"
        }
        for event in result.asset_events
    }
