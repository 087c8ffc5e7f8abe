"""Replays of a lake table in Dagster: an asset with a partition per day, and a job."""

import warnings
from collections.abc import Iterator

import dagster as dg

from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.resources.spark import SparkResource
from orchestration.transforms.dagster_views.failures import explained
from orchestration.transforms.dagster_views.replays import (
    ReplayConfig,
    TableEvent,
    days_asset,
    days_events,
    job_events,
    job_of,
    replay_context,
    replay_op,
    tagged,
)
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.to_lake.replay import TableReplayer


def history_asset(table: TopicTable) -> dg.AssetsDefinition:
    """Return the asset with a partition for each day of the table's records."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # backfill_policy: else 365 runs a year
        return _history_asset(table)


def _history_asset(table: TopicTable) -> dg.AssetsDefinition:
    @days_asset(table)
    def replay_days(
        context: dg.AssetExecutionContext,
        log_service: LogServiceResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[TableEvent | dg.MaterializeResult[None]]:
        with explained(table.name, spark), log_service.open() as log:
            yield from days_events(
                context,
                table,
                TableReplayer(table, replay_context(context, table, log, lake, spark)),
            )

    return replay_days


def replay_job(table: TopicTable) -> dg.JobDefinition:
    """Return the job that replays the records of its config."""

    @replay_op(table)
    def replay(
        context: dg.OpExecutionContext,
        config: ReplayConfig,
        log_service: LogServiceResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[TableEvent | dg.Output[None]]:
        with tagged(context, config), explained(table.name, spark), log_service.open() as log:
            yield from job_events(
                context,
                table,
                config,
                TableReplayer(table, replay_context(context, table, log, lake, spark)),
            )

    return job_of(table, replay)
