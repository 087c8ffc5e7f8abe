"""Replays of a table in Dagster: an asset with a partition per day of record time, and a job.

``history/TABLE_by_day`` is for the backfill page of Dagster's UI. A partition is a day.
Materializing days replays the records of that time into ``lake/TABLE``. Consecutive days are one
run. The config of the job ``replay_TABLE`` takes offsets, times, everything, the rejected records,
or dead letters with corrected values. A dry run shows what it would replay. Tags of the job's runs
name the table, distinguish a dry run from a replay, and give the reason of a refusal. Days and job
wait for the table's pool, as its own runs do. Both report the replaced rows on ``lake/TABLE``, so
that downstream tables are computed anew. Neither moves a checkpoint. The work itself is in
``replay``.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import Field

from orchestration.dead_letters.fixes import Fixes, fix_of
from orchestration.dead_letters.places import Place
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import LogClient
from orchestration.offsets.planning import ProgressError
from orchestration.offsets.ranges import OffsetRange
from orchestration.resources.lake import LakeResource
from orchestration.resources.spark import SparkResource
from orchestration.transforms.dagster_views.assets import ReplayRangeConfig
from orchestration.transforms.dagster_views.days import HISTORY_PREFIX, days_key
from orchestration.transforms.dagster_views.dead_letters import rejection_events
from orchestration.transforms.dagster_views.events import plain_events
from orchestration.transforms.dagster_views.reporting import (
    Context,
    DagsterReporter,
    milliseconds,
    run_context,
    shortened,
    topic_events,
)
from orchestration.transforms.declarations import TopicTable, pool_of, table_key
from orchestration.transforms.replay.plan import ReplayPlan, ReplayRequest
from orchestration.transforms.replay.steps import Replayed, Replayer
from orchestration.transforms.run.context import RunContext

DAY_MS = 86_400_000
TableEvent = dg.AssetCheckEvaluation | dg.AssetMaterialization
JOB_PREFIX = "replay_"
REPLAYED_TABLE_TAG = "tidelog/replayed_table"
"""The tag with the table of each run of a replay job.

It is not the tag of a table's own runs. A refused replay is not a failure of the table, and the
next run of the table does not wait longer because of it.
"""
DRY_RUN_TAG = "tidelog/dry_run"
REFUSED_TAG = "tidelog/refused"
NODE = "replay"
"""Name of the only step of every such job, also in its config.

The op has another name, because jobs and ops share one namespace in Dagster.
"""
NOTHING_ASKED = (
    "say what to replay: offsets, from_time and to_time, everything: true, or dead_letters: true."
    " Example: from_time: 2026-01-01T00:00:00Z"
)


class FixConfig(dg.Config):
    """The corrected value of the rejected record at one offset."""

    topic: str | None = Field(
        default=None, description="The topic, or its id: where a place could be of several"
    )
    partition: int
    offset: int
    value: str | None = Field(
        default=None, description="The record's value as text; left out, the record has none"
    )


class ReplayConfig(dg.Config):
    """The records to replay.

    Several kinds of request may be combined. The times default to empty texts instead of None,
    because Dagster's launchpad begins with the fields that have a value.
    """

    fixes: list[FixConfig] = Field(
        default=[],
        description="Dead letters and the values they should have had; kept, then replayed",
    )

    offsets: list[ReplayRangeConfig] = Field(
        default=[], description="Ranges of offsets: partition, start, end (exclusive)"
    )
    from_time: str | None = Field(
        default="", description="From this time of records on: ISO 8601, e.g. 2026-01-01T00:00:00Z"
    )
    to_time: str | None = Field(default="", description="Up to this time of records (exclusive)")
    everything: bool = Field(
        default=False, description="All that the table has committed and that log or archive holds"
    )
    dead_letters: bool = Field(default=False, description="The records that the table rejected")
    dry_run: bool = Field(default=False, description="Only say which offsets that are")

    def request(self) -> ReplayRequest:
        """Return the requested replay.

        :raises ValueError: nothing is requested, or a time is not ISO 8601.
        """
        asked = ReplayRequest(
            ranges=(
                *(
                    OffsetRange(partition=one.partition, start=one.start, end=one.end)
                    for one in self.offsets
                ),
                *(
                    OffsetRange(partition=one.partition, start=one.offset, end=one.offset + 1)
                    for one in self.fixes
                ),
            ),
            from_ms=milliseconds(self.from_time),
            to_ms=milliseconds(self.to_time),
            is_everything=self.everything,
            is_of_dead_letters=self.dead_letters,
        )
        if asked.is_empty:
            raise ValueError(NOTHING_ASKED)
        return asked


def days_asset(
    table: TopicTable, kind: str = "deltalake"
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Return a decorator that makes a function the asset with the days of the table's records.

    Each day is a partition.
    """
    return dg.asset(
        key=days_key(table.name),
        deps=[table_key(table.name)],
        description=(
            f"The records of the table {table.name} by day (UTC). Materializing days, or a"
            " backfill, replays them into the table: the same records through today's transform,"
            " rules and fixes. The checkpoint stays where it is. A day is there once records of it"
            " were committed. Days without records are missing, and so are days that a release"
            " before this one committed."
        ),
        kinds={"kafka", kind},
        group_name=HISTORY_PREFIX,
        partitions_def=dg.DailyPartitionsDefinition(
            start_date=table.history_from.isoformat(), timezone="UTC", end_offset=1
        ),
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=pool_of(table.name),
    )


def replay_context(
    context: Context, table: TopicTable, log: LogClient, lake: LakeResource, spark: SparkResource
) -> RunContext:
    """Return the context of a replay."""
    return run_context(context, log, lake, spark, DagsterReporter(context, table))


def days_events(
    context: dg.AssetExecutionContext, table: TopicTable, replayer: Replayer
) -> Iterator[TableEvent | dg.MaterializeResult[None]]:
    """Replay the days of the run's partitions, and yield the events for Dagster."""
    window = context.partition_time_window
    from_ms, to_ms = (int(moment.timestamp() * 1000) for moment in (window.start, window.end))
    first_day = ReplayRequest(from_ms=from_ms, to_ms=from_ms + DAY_MS)
    planned = plan_days(replayer, ReplayRequest(from_ms=from_ms, to_ms=to_ms), first_day)
    replayed = yield from _replay(context, table, replayer, planned)
    yield dg.MaterializeResult(metadata=replayed.metadata())


def plan_days(replayer: Replayer, request: ReplayRequest, first_day: ReplayRequest) -> ReplayPlan:
    """Plan the replay of consecutive days of record time.

    Refuse the days if the records of the first day are lost. Otherwise Dagster would show that day
    as replayed.

    :raises ProgressError: nothing of the first day is left, because retention removed it.
    """
    try:
        return replayer.plan(request, needed=first_day)
    except ProgressError as error:
        day = datetime.fromtimestamp((first_day.from_ms or 0) / 1000, UTC).date()
        raise ProgressError(
            f"the day {day} cannot be replayed, choose days from a later one on: {error}"
        ) from error


def replay_op(table: TopicTable) -> Callable[[Callable[..., Any]], dg.OpDefinition]:
    """Return a decorator that makes a function the only op of the replay job."""
    return dg.op(
        name=f"{JOB_PREFIX}{table.name}_records",
        description=_described(table),
        pool=pool_of(table.name),
    )


def job_of(table: TopicTable, replay: dg.OpDefinition) -> dg.JobDefinition:
    """Return the job that replays into ``table``. Its only step is the op ``replay``."""
    return job_with(table.name, replay, _described(table))


def job_with(name: str, replay: dg.OpDefinition, description: str) -> dg.JobDefinition:
    """Return the job that replays into the table ``name``. Its only step is the op ``replay``."""

    @dg.job(name=JOB_PREFIX + name, description=description, run_tags={REPLAYED_TABLE_TAG: name})
    def made() -> None:
        replay.alias(NODE)()

    return made


@contextmanager
def tagged(context: Context, config: ReplayConfig) -> Iterator[None]:
    """Tag a run of a replay job if it is dry, and with the reason if it is refused."""
    run_id = context.run.run_id
    if config.dry_run:
        context.instance.add_run_tags(run_id, {DRY_RUN_TAG: "true"})
    try:
        yield
    except dg.Failure as failure:
        context.instance.add_run_tags(
            run_id, {REFUSED_TAG: shortened(first_line(failure.description))}
        )
        raise


def first_line(text: str | None) -> str:
    """Return the first line of a failure's description, or a default text if it has none."""
    return next(iter((text or "").splitlines()), "no reason was given")


def _described(table: TopicTable) -> str:
    if table.aggregates:
        return (
            f"Make all groups of the table {table.name} anew (everything: true), of all records"
            " that they count"
        )
    return (
        f"Replay records into the table {table.name}: by offsets, by time, everything, or what was"
        " rejected"
    )


def job_events(
    context: dg.OpExecutionContext, table: TopicTable, config: ReplayConfig, replayer: Replayer
) -> Iterator[TableEvent | dg.Output[None]]:
    """Run the replay of a job's config, and yield the events for Dagster."""
    request = config.request()
    if config.dry_run:
        planned = replayer.plan(request)
        context.log.info("%s: would replay offsets %s", table.name, planned.ranges)
        yield dg.Output(None, metadata={**planned.metadata(), "dry_run": True})
        return
    keep_fixes(replayer.lake, table.name, config.fixes, note=f"run {context.run.run_id}")
    replayed = yield from _replay(context, table, replayer, replayer.plan(request))
    yield dg.Output(None, metadata=replayed.metadata())


def keep_fixes(lake: Lake, table: str, given: Sequence[FixConfig], *, note: str) -> None:
    """Store the corrected values of dead letters from a job's config.

    :raises PlaceError: the table rejected no such record, or several.
    """
    values = [(one, None if one.value is None else one.value.encode()) for one in given]
    letters = DeadLetters(lake)
    places = [
        (Place(topic=one.topic, partition=one.partition, offset=one.offset), value)
        for one, value in values
    ]
    Fixes(lake).put(
        table, [fix_of(letters, table, place, value) for place, value in places], note=note
    )


def _replay(
    context: Context, table: TopicTable, replayer: Replayer, planned: ReplayPlan
) -> Generator[TableEvent, None, Replayed]:
    """Replay, yield the events of each commit for the table's asset, and return the totals."""
    replayed = Replayed(lost=planned.lost, archived_count=planned.archived_count)
    for result in replayer.run(planned):
        if result.batch is None:
            continue
        yield from plain_events(context.instance, topic_events(context, table, result))
        yield from rejection_events(table.name, result.letters)
        replayed.add(result)
    return replayed
