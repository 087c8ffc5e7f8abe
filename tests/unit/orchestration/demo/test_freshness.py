"""An asset that is behind its inputs is found, of any kind.

An asset that is up to date is left alone.
"""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from orchestration.demo.freshness import Asset, Pipeline, stale
from orchestration.lake.tables import Lake, replace_all

JOINED = Asset(key=dg.AssetKey(["lake", "joined"]), inputs=("clean", "planes"))
MART = Asset(key=dg.AssetKey(["marts", "delay"]), inputs=("clean",))
COPY = Asset(key=dg.AssetKey(["sql", "planes"]), inputs=("planes",))


class Stage:
    """A lake and an instance, changed as runs would change them."""

    def __init__(self, root: Path, instance: dg.DagsterInstance) -> None:
        self.lake, self.instance = Lake(root), instance

    def append(self, name: str) -> None:
        rows = pa.table({"id": ["x"]})
        snapshot = self.lake.snapshot(name) or self.lake.create(name, rows.schema)
        write_deltalake(snapshot.delta, rows, mode="append")

    def compute(self) -> None:
        inputs = [self.lake.existing(name) for name in JOINED.inputs]
        rows = pa.table({"id": ["x"]})
        target = self.lake.snapshot("joined") or self.lake.create("joined", rows.schema)
        replace_all(target, rows, {f"input/{one.table_id}": one.version for one in inputs}, {})

    def tell(self, asset: Asset, **metadata: str | int) -> None:
        self.instance.report_runless_asset_event(
            dg.AssetMaterialization(asset.key, metadata=metadata)
        )

    def version(self, name: str) -> int:
        return self.lake.existing(name).version

    def stale(self, *downstream: Asset) -> list[str]:
        return [
            one.name
            for one in stale(
                Pipeline(topics=(), feeds=(), downstream=downstream), self.lake, self.instance
            )
        ]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with dg.DagsterInstance.ephemeral() as instance:
        made = Stage(tmp_path, instance)
        made.append("clean")
        made.append("planes")
        yield made


def test_what_was_never_computed_is_behind(stage: Stage) -> None:
    assert stage.stale(JOINED, MART, COPY) == ["joined", "delay", "planes"]


def test_a_table_is_fresh_until_an_input_gets_a_new_version(stage: Stage) -> None:
    stage.compute()
    assert stage.stale(JOINED) == []
    stage.append("planes")
    assert stage.stale(JOINED) == ["joined"]


def test_a_mart_is_fresh_when_it_was_built_from_the_versions_of_now(stage: Stage) -> None:
    stage.tell(MART, inputs=f"clean:{stage.version('clean')}")
    assert stage.stale(MART) == []
    stage.append("clean")
    assert stage.stale(MART) == ["delay"]


def test_a_sql_table_is_fresh_when_it_holds_the_version_of_now(stage: Stage) -> None:
    stage.tell(COPY, table_version=stage.version("planes"))
    assert stage.stale(COPY) == []
    stage.append("planes")
    assert stage.stale(COPY) == ["planes"]


def test_an_input_that_does_not_exist_keeps_everything_behind(stage: Stage) -> None:
    missing = Asset(key=MART.key, inputs=("clean", "nowhere"))
    stage.tell(missing, inputs=f"clean:{stage.version('clean')}")
    assert stage.stale(missing) == ["delay"]
