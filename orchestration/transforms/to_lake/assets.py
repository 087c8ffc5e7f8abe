"""Assets of lake tables: runs of declared tables as Dagster shows them.

The config of a run only overrides the declaration. The work itself is in ``run``, ``replay`` and
``derived``.
"""

from collections.abc import Iterator, Sequence

import dagster as dg
from pydantic import Field

from orchestration.offsets.ranges import OffsetRange
from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.resources.spark import SparkResource
from orchestration.settings import load_settings
from orchestration.spark.session import shared_scratch
from orchestration.transforms.dagster_views import events
from orchestration.transforms.dagster_views.address import DELTA, table_address
from orchestration.transforms.dagster_views.assets import (
    Presentation,
    ReplayRangeConfig,
    asset_spec,
    commit_events,
    declared_columns,
    is_asset_selected,
    selected,
)
from orchestration.transforms.dagster_views.events import VERSION_METADATA, column_schema
from orchestration.transforms.dagster_views.failures import explained
from orchestration.transforms.dagster_views.reporting import (
    DagsterReporter,
    Event,
    milliseconds,
    raise_failures,
    run_context,
)
from orchestration.transforms.declarations import DerivedTable, TopicTable, pool_of, table_key
from orchestration.transforms.kinds import declare
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.result_columns import result_columns
from orchestration.transforms.run.following import follow
from orchestration.transforms.to_lake.derived import DerivedRunResult, run_derived_table
from orchestration.transforms.to_lake.kind import LakeKind
from orchestration.transforms.to_lake.replay import run_replay
from orchestration.transforms.to_lake.run import run_topic_table


class TopicTableConfig(dg.Config):
    """Overrides of one run. Without any, the run reads from the checkpoint on."""

    replay: list[ReplayRangeConfig] = Field(
        default=[], description="Read these committed offsets once more and replace their rows"
    )
    replay_from: str | None = Field(
        default=None, description="Replay from this time on: ISO 8601, e.g. 2026-01-01T00:00:00Z"
    )
    replay_to: str | None = Field(default=None, description="Replay up to this time (exclusive)")
    replay_dead_letters: bool = Field(
        default=False, description="Replay the records that this table rejected"
    )
    accept_lost_records: bool = Field(
        default=False, description="Go on where retention removed records before they were read"
    )
    follow_s: int = Field(
        default=0,
        description="Go on with what comes for so many seconds, a commit at a time; 0: one range",
    )

    def request(self) -> ReplayRequest:
        """Return the requested replay.

        :raises ValueError: a time is not ISO 8601.
        """
        return ReplayRequest(
            ranges=tuple(
                OffsetRange(partition=one.partition, start=one.start, end=one.end)
                for one in self.replay
            ),
            from_ms=milliseconds(self.replay_from),
            to_ms=milliseconds(self.replay_to),
            is_of_dead_letters=self.replay_dead_letters,
        )


class DerivedTableConfig(dg.Config):
    """Overrides of one run."""

    force: bool = Field(
        default=False, description="Compute even though neither inputs nor transform changed"
    )


def topic_table_asset(table: TopicTable, shown: Presentation) -> dg.AssetsDefinition:
    """Return the asset of ``table``.

    It has no automation condition, because the topic sensor starts it.
    """
    key = table_key(table.name)
    metadata = {**table_address(table.name, DELTA), **declared_columns(_kept_columns(table))}
    spec = declare(
        LakeKind(table),
        asset_spec(key, [table.topic.asset_key], table.function, shown, metadata=metadata),
    )

    @dg.multi_asset(
        name=key.to_python_identifier(),
        specs=[spec],
        check_specs=events.check_specs(key, table.rules, table.suite),
        can_subset=True,
        pool=pool_of(table.name),
    )
    def follow_topic(
        context: dg.AssetExecutionContext,
        config: TopicTableConfig,
        log_service: LogServiceResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[Event | dg.AssetCheckEvaluation | dg.AssetMaterialization]:
        if not is_asset_selected(context, table.name):
            return
        with explained(table.name, spark), log_service.open() as log:
            reporter = DagsterReporter(context, table)
            run = run_context(
                context, log, lake, spark, reporter, is_loss_accepted=config.accept_lost_records
            )
            request = config.request()
            results = (
                follow(table, run, follow_s=config.follow_s, run=run_topic_table)
                if request.is_empty
                else run_replay(table, run, request)
            )
            yield from commit_events(
                context, table, run, reporter, results, has_days=not table.aggregates
            )

    return follow_topic


def _kept_columns(table: TopicTable) -> Sequence[str] | None:
    """Return the columns of the lake table, None if they are not known or may change."""
    if table.aggregates:
        return [*table.aggregate_by, *(one.name for one in table.aggregates)]
    return None if table.is_evolving else result_columns(table.function)


def derived_table_asset(
    table: DerivedTable,
    shown: Presentation,
    *,
    automation_condition: dg.AutomationCondition[dg.AssetKey] | None,
) -> dg.AssetsDefinition:
    """Return the asset of ``table``."""
    key = table_key(table.name)
    inputs = [table_key(one) for one in table.inputs]
    metadata = {
        **table_address(table.name, DELTA),
        **declared_columns(result_columns(table.function)),
    }

    @dg.multi_asset(
        name=key.to_python_identifier(),
        specs=[
            asset_spec(
                key,
                inputs,
                table.function,
                shown,
                automation_condition=automation_condition,
                metadata=metadata,
            )
        ],
        check_specs=events.check_specs(key, table.rules, table.suite),
        can_subset=True,
        pool=pool_of(table.name),
        retry_policy=dg.RetryPolicy(max_retries=2, delay=3),
    )
    def recompute(
        context: dg.AssetExecutionContext,
        config: DerivedTableConfig,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[Event]:
        if not is_asset_selected(context, table.name):
            return
        with explained(table.name, spark):
            settings = load_settings()
            result = run_derived_table(
                table,
                lake.open(),
                lambda: spark.spark_session,
                run_id=context.run.run_id,
                commit_attempts=settings.commit_attempts,
                is_forced=config.force,
                is_lake_shared=shared_scratch(settings) is not None,
            )
        yield from selected(context, _derived_events(context, table, result))

    return recompute


def _derived_events(
    context: dg.AssetExecutionContext, table: DerivedTable, result: DerivedRunResult
) -> Iterator[Event]:
    key = table_key(table.name)
    if result.missing:
        context.log.info(
            "%s: waiting for the tables %s, which do not exist yet",
            table.name,
            ", ".join(result.missing),
        )
        return
    if result.is_unchanged:
        context.log.info("%s: neither inputs nor transform changed (%s)", table.name, result.inputs)
        if events.latest_metadata(context.instance, key, events.VERSION_METADATA) != result.version:
            yield derived_materialization(key, result)
        return
    checks = events.check_results(key, table.rules, result.violations or {}, result.outcomes)
    if result.failures:
        yield from checks
        raise_failures(table.name, result.failures, "the latest versions of its inputs")
    yield derived_materialization(key, result)
    yield from checks


def derived_materialization(
    key: dg.AssetKey, result: DerivedRunResult
) -> dg.MaterializeResult[None]:
    """Return the event of a table that was computed anew."""
    return dg.MaterializeResult(
        asset_key=key,
        metadata={
            "rows": result.rows,
            "dagster/row_count": result.rows,
            **(
                {}
                if result.schema is None
                else {"dagster/column_schema": column_schema(result.schema)}
            ),
            "bytes": result.size_bytes,
            VERSION_METADATA: result.version,
            "inputs": dg.MetadataValue.table(
                [
                    dg.TableRecord({"table": name, "version": version})
                    for name, version in result.inputs.items()
                ]
            ),
        },
    )
