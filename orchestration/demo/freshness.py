"""Finds the assets of a project that have not caught up with their topics or inputs.

Decides from the tables themselves. It compares checkpoints with watermarks, and the input versions
of each table with the current ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import dagster as dg

from orchestration.lake.tables import LAKE_PREFIX, Lake
from orchestration.log_client.protocol import LogClient
from orchestration.marts.database_copy import SQL_PREFIX
from orchestration.retained.lag import TopicLag, measure_lag
from orchestration.topics.inputs import MART_PREFIX
from orchestration.topics.spec import TopicSpec, topic_specs
from orchestration.transforms import TopicFeed, topic_feeds
from orchestration.transforms.dagster_views.dead_letters import DEAD_LETTERS_KEY
from orchestration.transforms.dagster_views.events import VERSION_METADATA, latest_metadata
from orchestration.transforms.to_lake.derived import INPUT_TRANSACTION


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """The key of a table that is not made from topics, and the names of its input tables.

    It is a lake table from tables, a mart or a SQL table.
    """

    key: dg.AssetKey
    inputs: tuple[str, ...]

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.path[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The declarations of a project.

    They are topics, the tables that follow them, and the assets downstream of these tables. The
    latter are lake tables, marts and SQL tables.
    """

    topics: tuple[TopicSpec, ...]
    feeds: tuple[TopicFeed, ...]
    downstream: tuple[Asset, ...]

    @classmethod
    def of(cls, assets: Sequence[dg.AssetsDefinition]) -> "Pipeline":
        """Read the declarations from the project's assets."""
        feeds = topic_feeds(assets)
        followed = {feed.asset_key for feed in feeds}
        downstream = tuple(
            Asset(
                key=spec.key,
                inputs=tuple(
                    dep.asset_key.path[-1]
                    for dep in spec.deps
                    if dep.asset_key.path[0] == LAKE_PREFIX
                ),
            )
            for asset in assets
            for spec in asset.specs
            if spec.key.path[0] in {LAKE_PREFIX, MART_PREFIX, SQL_PREFIX}
            and spec.key not in {*followed, DEAD_LETTERS_KEY}
        )
        return cls(topics=topic_specs(assets), feeds=feeds, downstream=downstream)


def lags(pipeline: Pipeline, log: LogClient, lake: Lake) -> dict[str, TopicLag]:
    """Return, by table, the lag behind its topics.

    Tables whose topics do not exist are left out.
    """
    found = {
        feed.table: measure_lag(log, lake, topic=feed.topic, table=feed.table, also=feed.also)
        for feed in pipeline.feeds
    }
    return {table: lag for table, lag in found.items() if lag is not None}


def stale(pipeline: Pipeline, lake: Lake, instance: dg.DagsterInstance) -> Iterator[Asset]:
    """Yield the assets that were not computed from the current versions of their inputs."""
    for asset in pipeline.downstream:
        versions = {
            name: snapshot.version
            for name in asset.inputs
            if (snapshot := lake.snapshot(name)) is not None
        }
        if len(versions) < len(asset.inputs) or not _is_current(asset, versions, lake, instance):
            yield asset


def _is_current(
    asset: Asset, versions: dict[str, int], lake: Lake, instance: dg.DagsterInstance
) -> bool:
    match asset.key.path[0]:
        case "marts":
            built = str(latest_metadata(instance, asset.key, "inputs") or "").split()
            return {f"{name}:{version}" for name, version in versions.items()} == set(built)
        case "sql":
            return [latest_metadata(instance, asset.key, VERSION_METADATA)] == list(
                versions.values()
            )
        case _:
            target = lake.snapshot(asset.name)
            ids = {name: lake.existing(name).table_id for name in asset.inputs}
            return target is not None and all(
                target.transaction_version(INPUT_TRANSACTION + ids[name]) == version
                for name, version in versions.items()
            )
