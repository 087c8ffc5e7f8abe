"""The asset of a table of two joined topics, as Dagster shows it.

Events hold rows, offsets of both topics, the watermark, and counts of kept rows and late records.
Decides what Dagster shows of a run, like ``orchestration.transforms.dagster_views.assets`` for
tables of one topic.
"""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.resources.spark import SparkResource
from orchestration.rows.joins import SIDES
from orchestration.transforms.dagster_views import events
from orchestration.transforms.dagster_views.address import DELTA, table_address
from orchestration.transforms.dagster_views.assets import (
    Presentation,
    asset_spec,
    declared_columns,
    is_asset_selected,
    selected,
)
from orchestration.transforms.dagster_views.dead_letters import rejection_events
from orchestration.transforms.dagster_views.failures import explained
from orchestration.transforms.dagster_views.reporting import (
    Event,
    mirror_progress,
    run_context,
    with_verdicts,
)
from orchestration.transforms.declarations import pool_of, table_key
from orchestration.transforms.joining.declarations import JoinedTable
from orchestration.transforms.joining.events import JoinReporter, join_events
from orchestration.transforms.joining.kind import JoinedKind
from orchestration.transforms.joining.run import run_joined_table
from orchestration.transforms.kinds import declare
from orchestration.transforms.result_columns import result_columns
from orchestration.transforms.run.following import follow_ranges


class JoinedTableConfig(dg.Config):
    """Overrides of one run. Without any, the run reads both topics from the checkpoint on."""

    accept_lost_records: bool = Field(
        default=False, description="Go on where retention removed records before they were read"
    )
    follow_s: int = Field(
        default=0,
        description="Go on with what comes for so many seconds, a commit at a time; 0: one batch",
    )


def joined_table_asset(table: JoinedTable, shown: Presentation) -> dg.AssetsDefinition:
    """Return the asset of ``table``.

    It has no automation condition, because the topic sensor starts it when either topic has
    records.
    """
    key = table_key(table.name)
    deps = [table.topic(side).asset_key for side in SIDES]
    metadata = {
        **table_address(table.name, DELTA),
        **declared_columns(result_columns(table.function)),
    }
    spec = declare(
        JoinedKind(table), asset_spec(key, deps, table.function, shown, metadata=metadata)
    )

    @dg.multi_asset(
        name=key.to_python_identifier(),
        specs=[spec],
        check_specs=events.check_specs(key, table.rules, table.suite),
        can_subset=True,
        pool=pool_of(table.name),
    )
    def follow_topics(
        context: dg.AssetExecutionContext,
        config: JoinedTableConfig,
        log_service: LogServiceResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[Event | dg.AssetCheckEvaluation | dg.AssetMaterialization]:
        if not is_asset_selected(context, table.name):
            return
        with explained(table.name, spark), log_service.open() as log:
            reporter = JoinReporter(context, table.name)
            run = run_context(
                context, log, lake, spark, reporter, is_loss_accepted=config.accept_lost_records
            )
            results = follow_ranges(
                lambda several: run_joined_table(table, several), run, follow_s=config.follow_s
            )
            for number, result in enumerate(results):
                if result.version is not None:
                    for side, one in result.sides.items():
                        mirror_progress(
                            context, table.name, run, one.topic, result.next_offsets(side)
                        )
                outcomes = selected(context, join_events(context, table, result))
                shown = outcomes if number == 0 else events.plain_events(context.instance, outcomes)
                yield from with_verdicts(context, run, table.name, [table.left, table.right], shown)
                yield from rejection_events(table.name, result.letters)

    return follow_topics
