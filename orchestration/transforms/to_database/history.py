"""Replays into a table of a database in Dagster: an asset with a partition per day, and a job.

Both are as for tables of the lake.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from orchestration.resources.database import DatabaseResource
from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.resources.spark import SparkResource
from orchestration.resources.warehouse import WarehouseResource
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
from orchestration.transforms.run.context import RunContext
from orchestration.transforms.to_database.declarations import DatabaseTable
from orchestration.transforms.to_database.opening import opened, refusals_as_failures
from orchestration.transforms.to_database.replay import DatabaseReplayer
from orchestration.transforms.to_database.run import Storing


@contextmanager
def _replayer(
    declared: DatabaseTable,
    database: DatabaseResource,
    warehouse: WarehouseResource,
    run: RunContext,
) -> Iterator[DatabaseReplayer]:
    with opened(declared, database, warehouse, run.lake) as store:
        yield DatabaseReplayer(Storing(declared=declared, store=store), run)


def history_asset(declared: DatabaseTable) -> dg.AssetsDefinition:
    """Return the asset with a partition for each day of the table's records."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # backfill_policy: else 365 runs a year
        return _history_asset(declared)


def _history_asset(declared: DatabaseTable) -> dg.AssetsDefinition:
    table = declared.follower

    @days_asset(table, declared.kind)
    def replay_days(  # noqa: PLR0917 - Dagster gives each resource by its name
        context: dg.AssetExecutionContext,
        log_service: LogServiceResource,
        spark: SparkResource,
        lake: LakeResource,
        database: DatabaseResource,
        warehouse: WarehouseResource,
    ) -> Iterator[TableEvent | dg.MaterializeResult[None]]:
        with (
            explained(table.name, spark),
            refusals_as_failures(table.name),
            log_service.open() as log,
            _replayer(
                declared, database, warehouse, replay_context(context, table, log, lake, spark)
            ) as replayer,
        ):
            yield from days_events(context, table, replayer)

    return replay_days


def replay_job(declared: DatabaseTable) -> dg.JobDefinition:
    """Return the job that replays the records of its config."""
    table = declared.follower

    @replay_op(table)
    def replay(  # noqa: PLR0917 - Dagster gives each resource by its name
        context: dg.OpExecutionContext,
        config: ReplayConfig,
        log_service: LogServiceResource,
        spark: SparkResource,
        lake: LakeResource,
        database: DatabaseResource,
        warehouse: WarehouseResource,
    ) -> Iterator[TableEvent | dg.Output[None]]:
        with (
            tagged(context, config),
            explained(table.name, spark),
            refusals_as_failures(table.name),
            log_service.open() as log,
            _replayer(
                declared, database, warehouse, replay_context(context, table, log, lake, spark)
            ) as replayer,
        ):
            yield from job_events(context, table, config, replayer)

    return job_of(table, replay)
