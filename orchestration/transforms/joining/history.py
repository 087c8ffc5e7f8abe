"""The replay of a join in Dagster: the job ``replay_TABLE``, which joins everything once more.

It waits for the table's pool, as the table's own runs do, and reports the replaced rows on
``lake/TABLE``. Its config has the fields of every replay job, but only ``everything`` can be
replayed. Corrected values are then stored first, and are read in place of the original ones.
"""

from collections.abc import Iterator

import dagster as dg

from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.resources.spark import SparkResource
from orchestration.transforms.dagster_views.dead_letters import rejection_events
from orchestration.transforms.dagster_views.events import plain_events
from orchestration.transforms.dagster_views.failures import explained
from orchestration.transforms.dagster_views.replays import (
    JOB_PREFIX,
    ReplayConfig,
    TableEvent,
    job_with,
    keep_fixes,
    tagged,
)
from orchestration.transforms.dagster_views.reporting import run_context
from orchestration.transforms.declarations import pool_of
from orchestration.transforms.joining.declarations import JoinedTable
from orchestration.transforms.joining.events import JoinReporter, join_events
from orchestration.transforms.joining.replay import (
    planned_metadata,
    planned_replay,
    run_join_replay,
    summed,
)


def join_replay_job(table: JoinedTable) -> dg.JobDefinition:
    """Return the job that joins everything once more."""
    name = JOB_PREFIX + table.name
    description = (
        f"Join everything of {table.left.name} and {table.right.name} into {table.name} once more:"
        " nothing is late then"
    )

    @dg.op(name=f"{name}_records", description=description, pool=pool_of(table.name))
    def replay(
        context: dg.OpExecutionContext,
        config: ReplayConfig,
        log_service: LogServiceResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[TableEvent | dg.Output[None]]:
        with tagged(context, config), explained(table.name, spark), log_service.open() as log:
            request = config.request()
            run = run_context(context, log, lake, spark, JoinReporter(context, table.name))
            if config.dry_run:
                yield dg.Output(
                    None, metadata={**planned_metadata(planned_replay(table, run)), "dry_run": True}
                )
                return
            if request.is_everything:
                keep_fixes(run.lake, table.name, config.fixes, note=f"run {context.run.run_id}")
            result = run_join_replay(table, run, request)
            yield from plain_events(context.instance, join_events(context, table, result))
            yield from rejection_events(table.name, result.letters)
            yield dg.Output(None, metadata=summed(result).metadata())

    return job_with(table.name, replay, description)
