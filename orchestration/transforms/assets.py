"""Assets of lake tables: runs of declared tables as Dagster shows them.

Decides how a run is presented to Dagster. Checks come first. Then comes either the materialization,
or a Failure that no retry policy repeats and after which nothing was committed. A run with nothing
new materializes nothing. Config only overrides. The work itself is in ``topic_run``, ``replay_run``
and ``derived_run``.
"""

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
from pydantic import Field

from orchestration.dead_letter_asset import rejection_events
from orchestration.offsets import OffsetRange
from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.resources.spark import SparkResource
from orchestration.settings import load_settings
from orchestration.spark.session import shared_scratch
from orchestration.table_address import DELTA, table_address
from orchestration.transforms import events
from orchestration.transforms.declarations import DerivedTable, TopicTable, Transform, declare, pool_of, table_key
from orchestration.transforms.derived_run import DerivedRunResult, run_derived_table
from orchestration.transforms.failures import explained
from orchestration.transforms.following import follow
from orchestration.transforms.replay_plan import ReplayRequest
from orchestration.transforms.replay_run import run_replay
from orchestration.transforms.telling import (
    DagsterReporter,
    Event,
    milliseconds,
    mirror,
    raise_failures,
    run_context,
    topic_events,
    with_verdicts,
)
from orchestration.transforms.topic_run import RunContext, TopicRunResult

FEED_METADATA = "tidelog/feed"
TABLE_KINDS = frozenset({"pyspark", "deltalake"})


class ReplayRangeConfig(dg.Config):
    """Offsets [start, end) of one partition."""

    partition: int
    start: int
    end: int


class TopicTableConfig(dg.Config):
    """Overrides of one run. Without any, the run reads from the checkpoint on."""

    replay: list[ReplayRangeConfig] = Field(default=[], description="Read these committed offsets once more and replace their rows")
    replay_from: str | None = Field(default=None, description="Replay from this time on: ISO 8601, e.g. 2026-01-01T00:00:00Z")
    replay_to: str | None = Field(default=None, description="Replay up to this time (exclusive)")
    replay_dead_letters: bool = Field(default=False, description="Replay the records that this table rejected")
    accept_lost_records: bool = Field(default=False, description="Go on where retention removed records before they were read")
    follow_s: int = Field(default=0, description="Go on with what comes for so many seconds, a commit at a time; 0: one range")

    def request(self) -> ReplayRequest:
        """Return the requested replay.

        :raises ValueError: a time is not ISO 8601.
        """
        return ReplayRequest(
            ranges=tuple(OffsetRange(partition=one.partition, start=one.start, end=one.end) for one in self.replay),
            from_ms=milliseconds(self.replay_from),
            to_ms=milliseconds(self.replay_to),
            is_of_dead_letters=self.replay_dead_letters,
        )


class DerivedTableConfig(dg.Config):
    """Overrides of one run."""

    force: bool = Field(default=False, description="Compute even though neither inputs nor transform changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFeed:
    """Facts that a sensor needs about a table that follows a topic.

    ``minimum_interval_s`` None means that of the settings. ``target`` is the topic that a transform
    to a topic sends to. Its table is the ledger of the sent records. ``database_table`` is the
    table of a database. The lake's table is then the ledger of commits. ``is_replayable`` says that
    ranges may be read once more into the table. ``archive`` holds the fields of the topic's
    ``Archive``, if the feed is an archive. ``also`` names further topics that it reads, such as the
    right one of a join.
    """

    asset_key: dg.AssetKey
    table: str
    topic: str
    minimum_interval_s: int | None
    target: str | None = None
    database_table: str | None = None
    is_replayable: bool = True
    archive: Mapping[str, Any] | None = None
    also: tuple[str, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """Return all topics that the table follows."""
        return (self.topic, *self.also)


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """How an asset appears in Dagster."""

    group_name: str
    tags: Mapping[str, str] | None
    owners: Sequence[str] | None
    freshness_policy: dg.FreshnessPolicy | None


def topic_table_asset(table: TopicTable, shown: Presentation) -> dg.AssetsDefinition:
    """Return the asset of ``table``. It has no automation condition: the topic sensor starts it."""
    declare(table)
    key = table_key(table.name)
    feed: dict[str, Any] = {"table": table.name, "topic": table.topic.name, "minimum_interval_s": table.minimum_interval_s}
    metadata = {FEED_METADATA: dg.MetadataValue.json(feed), **table_address(table.name, DELTA)}
    spec = asset_spec(key, [table.topic.asset_key], table.function, shown, metadata=metadata)

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
            run = run_context(context, log, lake, spark, reporter, is_loss_accepted=config.accept_lost_records)
            request = config.request()
            results = follow(table, run, follow_s=config.follow_s) if request.is_empty else run_replay(table, run, request)
            yield from commit_events(context, table, run, reporter, results)

    return follow_topic


def commit_events(
    context: dg.AssetExecutionContext, table: TopicTable, run: RunContext, reporter: DagsterReporter, results: Iterable[TopicRunResult]
) -> Iterator[Event | dg.AssetCheckEvaluation | dg.AssetMaterialization]:
    """Yield the events of each commit as it is made.

    Events of the first commit are outputs and checks of the step. Those of later commits are plain
    events.
    """
    for number, result in enumerate(results):
        if result.version is not None:
            reporter.committed(result.ranges)
            mirror(context, table, run, result)
        told = selected(context, topic_events(context, table, result))
        shown = told if number == 0 else events.plain_events(context.instance, told)
        yield from with_verdicts(context, run, table.name, [table.topic.name], shown)
        yield from rejection_events(table.name, result.letters)


def derived_table_asset(
    table: DerivedTable, shown: Presentation, *, automation_condition: dg.AutomationCondition[dg.AssetKey] | None
) -> dg.AssetsDefinition:
    """Return the asset of ``table``."""
    key = table_key(table.name)
    inputs = [table_key(one) for one in table.inputs]

    @dg.multi_asset(
        name=key.to_python_identifier(),
        specs=[
            asset_spec(
                key, inputs, table.function, shown, automation_condition=automation_condition, metadata=table_address(table.name, DELTA)
            )
        ],
        check_specs=events.check_specs(key, table.rules, table.suite),
        can_subset=True,
        pool=pool_of(table.name),
        retry_policy=dg.RetryPolicy(max_retries=2, delay=3),
    )
    def recompute(
        context: dg.AssetExecutionContext, config: DerivedTableConfig, spark: SparkResource, lake: LakeResource
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


def asset_spec(
    key: dg.AssetKey,
    deps: Sequence[dg.AssetKey],
    function: Transform,
    shown: Presentation,
    *,
    kinds: Collection[str] = TABLE_KINDS,
    **more: Any,
) -> dg.AssetSpec:
    """Return the spec of a table's asset.

    A run with nothing new yields neither materialization nor checks. So the asset is skippable, and
    its checks may be left out.
    """
    return dg.AssetSpec(
        key,
        deps=deps,
        description=inspect.getdoc(function),
        kinds=set(kinds),
        group_name=shown.group_name,
        tags=shown.tags,
        owners=shown.owners,
        freshness_policy=shown.freshness_policy,
        skippable=True,
        **more,
    )


def is_asset_selected(context: dg.AssetExecutionContext, name: str) -> bool:
    """Return whether the run computes the table. A run of checks alone has nothing to do."""
    if context.selected_asset_keys:
        return True
    context.log.info("the checks of %s are evaluated before each of its commits; there is nothing to do without one", name)
    return False


def selected(context: dg.AssetExecutionContext, made: Iterator[Event]) -> Iterator[Event]:
    """Leave out the checks that were not selected."""
    for event in made:
        if (
            isinstance(event, dg.MaterializeResult)
            or dg.AssetCheckKey(_key_of(event), event.check_name or "") in context.selected_asset_check_keys
        ):
            yield event


def _key_of(result: dg.AssetCheckResult) -> dg.AssetKey:
    assert result.asset_key is not None
    return result.asset_key


def topic_feeds(assets: Iterable[dg.AssetsDefinition]) -> tuple[TopicFeed, ...]:
    """Return the tables among ``assets`` that follow topics, by name."""
    found = []
    for asset in assets:
        for key, metadata in asset.metadata_by_key.items():
            declared = metadata.get(FEED_METADATA)
            if isinstance(declared, dg.JsonMetadataValue) and isinstance(declared.value, dict):
                told = {**declared.value, "also": tuple(declared.value.get("also", ()))}
                found.append(TopicFeed(asset_key=key, **told))
    return tuple(sorted(found, key=lambda feed: feed.table))


def _derived_events(context: dg.AssetExecutionContext, table: DerivedTable, result: DerivedRunResult) -> Iterator[Event]:
    key = table_key(table.name)
    if result.missing:
        context.log.info("%s: waiting for the tables %s, which do not exist yet", table.name, ", ".join(result.missing))
        return
    if result.is_unchanged:
        context.log.info("%s: neither inputs nor transform changed (%s)", table.name, result.inputs)
        if events.latest_metadata(context.instance, key, events.VERSION_METADATA) != result.version:
            yield events.derived_materialization(key, result)
        return
    checks = events.check_results(key, table.rules, result.violations or {}, result.outcomes)
    if result.failures:
        yield from checks
        raise_failures(table.name, result.failures, "the latest versions of its inputs")
    yield events.derived_materialization(key, result)
    yield from checks
