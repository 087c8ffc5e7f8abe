"""The one sensor of all topics: a tick waits until a table has something to read, and starts a run for it.

Decides nothing itself: it asks the log service, the lake and Dagster's runs, and hands what it found to ``decide_runs`` and
``decide_events``. A tick waits up to ``wait_s``, and twice as long where all was read and told, far below the limit of a tick, because the
daemon pauses between ticks, and because a tick costs more than a wait. The second half begins only where the project was not loaded anew
meanwhile. A log service that is away is a reason to skip, never an error; a topic or a table that cannot be looked at is passed over, and
the tick says so.

Dagster cuts off a tick after 60 seconds, and then nothing of it counts. So looking at all tables ends after ``LOOKS_WITHIN_S``: the others
have their turn later, and tables that could not be looked at come behind those that could, so that leaders that are away make no other
table wait for longer.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Event

import dagster as dg
from dagster._core.storage.tags import RUN_FAILURE_REASON_TAG
from deltalake.exceptions import DeltaError

from orchestration.archive import Archive
from orchestration.archive.planning import due_offsets, is_sweep_due, is_tidying_due
from orchestration.archive.run import swept_at
from orchestration.checkpoints import Checkpoint
from orchestration.instance import UNFINISHED
from orchestration.lag import TopicLag, lag_behind, seconds_behind
from orchestration.log_client import LogClient, LogServiceAwayError, LogServiceError, TopicDescription
from orchestration.projects import DEFINITIONS
from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.sensing.new_records import RunDecision, TableState, decide_runs
from orchestration.sensing.progress import Progress, decide_events, in_a_row, in_turn, partition_rows
from orchestration.settings import load_settings
from orchestration.tables import Lake
from orchestration.topics import TOPIC_PREFIX, reconcile_all, topic_specs
from orchestration.transforms import TopicFeed, is_announced, topic_feeds
from orchestration.transforms.to_topic.ledger import is_reminder_due

TABLE_TAG = "tidelog/table"
TOPIC_TAG = "tidelog/topic"
WAIT_S = 15.0
"""How long a tick waits for records at a time. Whatever ends the code server, or loads the project anew, waits for no more than that."""
LOG_TIMEOUT_MS = 5_000
LOOKS_WITHIN_S = 10.0
"""When a look at all tables begins with no further one: a leader that is away costs each of its tables ``LOG_TIMEOUT_MS``."""
TELLS_WITHIN_S = 40.0
"""When a tick asks the log for nothing more, in seconds since it began: lag is told all the same, without how long records wait."""
POLL_S = 1.0
RUN_POLL_S = 0.2
REMEMBERED_RUNS = 12
STEP_FAILURE = "STEP_FAILURE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Where a tick gets the time from, and how it passes it."""

    now_s: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What a tick looks at."""

    log: LogClient
    lake: Lake
    instance: dg.DagsterInstance
    feeds: Sequence[TopicFeed]
    minimum_interval_s: float
    clock: Clock = Clock()
    wait_s: float = WAIT_S
    is_current: Callable[[], bool] = lambda: True
    """Whether the project is loaded as it was when the tick began."""
    failures: dict[str, str] = field(default_factory=dict)
    """Why a table could not be looked at, by table: it is left alone until the next tick."""
    postponed: list[str] = field(default_factory=list)
    """The tables that the last look had no time for, in the order of their turn."""

    def lags(self) -> dict[str, TopicLag]:
        """Return, by table, how far each is behind.

        Tables without a topic, those that cannot be looked at, and those that there was no time for are left out.

        :raises LogServiceAwayError: the log service does not answer at all.
        """
        found: dict[str, TopicLag] = {}
        until_s = self.clock.now_s() + LOOKS_WITHIN_S
        self.postponed.clear()
        for one in self.feeds:
            if one.table not in self.failures and self.clock.now_s() >= until_s:
                self.postponed.append(one.table)
                continue
            descriptions = [] if one.table in self.failures else self._descriptions(one)
            known = [description for description in descriptions if description is not None]
            if len(known) < len(one.topics):
                continue
            try:
                found[one.table] = lag_behind(self.log, self.lake, known, one.table)
            except (LogServiceError, DeltaError, OSError) as error:
                self._leave_alone(one, error)
        return found

    def _descriptions(self, feed: TopicFeed) -> list[TopicDescription | None]:
        """Return a table's topics as they are, None where there is none; nothing where the log service refuses to describe one.

        Any broker describes any topic, so that one which does not respond here says the same of all tables.
        """
        try:
            return [self.log.describe_topic(topic) for topic in feed.topics]
        except LogServiceAwayError:
            raise
        except LogServiceError as error:
            self._leave_alone(feed, error)
            return []

    def _leave_alone(self, feed: TopicFeed, error: Exception) -> None:
        self.failures[feed.table] = str(error).strip() or type(error).__name__

    def states(self, lags: Mapping[str, TopicLag]) -> list[TableState]:
        """Return what decides about runs, for the tables of ``lags``."""
        return [self._state(feed, lags[feed.table]) for feed in self.feeds if feed.table in lags]

    def _state(self, feed: TopicFeed, lag: TopicLag) -> TableState:
        interval_s = interval_of(feed, self.minimum_interval_s)
        state = TableState(
            table=feed.table,
            pending=self._pending(feed, lag),
            is_announced=is_announced(
                self.instance, feed.asset_key, lag.topic_id, lag.committed, {other.topic_id: other.committed for other in lag.others}
            ),
            is_misplaced=any(is_misplaced(one, one.committed) for one in lag.each),
            is_reminder_due=feed.target is not None and self._is_reminder_due(feed.table),
            is_tidying_due=self._is_tidying_due(feed),
            minimum_interval_s=interval_s,
        )
        if not state.is_wanting:
            return state
        records = self.instance.get_run_records(dg.RunsFilter(tags={TABLE_TAG: feed.table}), limit=REMEMBERED_RUNS)
        return replace(
            state,
            is_running=any(record.dagster_run.status in UNFINISHED for record in records),
            last_start_s=records[0].create_timestamp.timestamp() if records else None,
            failures=failures_in_a_row([record.dagster_run for record in records]),
        )

    def _pending(self, feed: TopicFeed, lag: TopicLag) -> int:
        """Return how many offsets a run could read now; an archive lets them wait until there are enough."""
        return lag.pending if feed.archive is None or not lag.pending else due_offsets(lag, *self._archive_state(feed))

    def _is_tidying_due(self, feed: TopicFeed) -> bool:
        is_kept_for_ever = feed.archive is None or Archive(**feed.archive).kept_days is None
        return not is_kept_for_ever and is_tidying_due(*self._archive_state(feed))

    def _archive_state(self, feed: TopicFeed) -> tuple[Archive, int | None, float]:
        """Return an archive's declaration, when all that waited was archived last, and the time now."""
        return Archive(**(feed.archive or {})), swept_at(self.lake.snapshot(feed.table)), self.clock.now_s()

    def run_config_of(self, feed: TopicFeed, follow_s: int) -> dict[str, object]:
        """Return the config of a run that is to be started now."""
        if feed.archive is not None:
            return {} if is_sweep_due(*self._archive_state(feed)) else {"only_full_chunks": True}
        is_following = not interval_of(feed, self.minimum_interval_s)
        return {"follow_s": follow_s} if is_following and follow_s else {}

    def _is_reminder_due(self, name: str) -> bool:
        ledger = self.lake.snapshot(name)
        return ledger is not None and is_reminder_due(ledger, datetime.fromtimestamp(self.clock.now_s(), UTC))

    def wait(self, lags: Mapping[str, TopicLag], decision: RunDecision, deadline_s: float) -> None:
        """Wait for records beyond those that were seen, until something waiting may be due, or for the end of a run that is in the way.

        An archive alone waits for no record: a single one makes no chunk. Where the log service refuses to let any of the topics be read,
        time passes instead.
        """
        limit_s = deadline_s - self.clock.now_s()
        if decision.next_due_s is not None:
            limit_s = min(limit_s, decision.next_due_s - self.clock.now_s())
        if decision.in_flight:
            self._wait_for_runs(decision.in_flight, min(limit_s, POLL_S))
            return
        followed = [lags[feed.table] for feed in self.feeds if feed.table in lags and feed.archive is None]
        each = [of for lag in followed for of in lag.each]
        ends = {(of.topic, one.partition): one.last_stable_offset for of in each for one in of.partitions}
        started_s = self.clock.now_s()
        while (left_s := started_s + limit_s - self.clock.now_s()) > 0:
            if self._is_anything_new(ends, min(left_s, self.wait_s)) or not self.is_current():
                break
        is_early = self.clock.now_s() - started_s < min(POLL_S, limit_s)
        if decision.is_anything_wanting and is_early:
            self.clock.sleep(min(POLL_S, limit_s))

    def _is_anything_new(self, ends: Mapping[tuple[str, int], int], limit_s: float) -> bool:
        """Wait for records beyond ``ends``, and return whether there are some."""
        started_s = self.clock.now_s()
        timeout_ms = max(int(limit_s * 1000), 1)
        if not ends:
            self.clock.sleep(timeout_ms / 1000)
            return False
        try:
            return bool(self.log.wait_for_records(ends, timeout_ms))
        except LogServiceAwayError:
            raise
        except LogServiceError:  # no topic of them may be read: the runs say so, and lags are told all the same
            self.clock.sleep(max(started_s + timeout_ms / 1000 - self.clock.now_s(), 0.0))
            return False

    def _wait_for_runs(self, tables: Sequence[str], limit_s: float) -> None:
        """Wait until one of these tables' runs has ended: asking for that alone is cheap, and its successor is waited for."""
        until_s = self.clock.now_s() + limit_s
        while (left_s := until_s - self.clock.now_s()) > 0:
            self.clock.sleep(min(RUN_POLL_S, left_s))
            if not all(self._is_running(table) for table in tables):
                return

    def _is_running(self, table: str) -> bool:
        unfinished = dg.RunsFilter(tags={TABLE_TAG: table}, statuses=list(UNFINISHED))
        return bool(self.instance.get_run_ids(unfinished, limit=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a tick ended with."""

    lags: Mapping[str, TopicLag]
    decision: RunDecision


def watch_until(watch: Watch, deadline_s: float, progress: Progress) -> Findings:
    """Look and wait until a table is to be started, or the deadline, which is ``wait_s`` later where all was read and told.

    ``progress`` is what was told.
    """
    while True:
        lags = watch.lags()
        decision = decide_runs(watch.states(lags), watch.clock.now_s())
        is_idle = len(lags) == len(watch.feeds) and not decision.is_anything_wanting and is_all_told(lags, progress)
        until_s = deadline_s + watch.wait_s if is_idle else deadline_s
        if decision.start or watch.clock.now_s() >= until_s or not watch.is_current():
            return Findings(lags=lags, decision=decision)
        if not watch.postponed:
            watch.wait(lags, decision, until_s)


def is_all_told(lags: Mapping[str, TopicLag], progress: Progress) -> bool:
    """Return whether ``progress`` holds watermarks and lags as they are now."""
    left = decide_events(lags, progress, math.inf)
    return not left.topics and not left.tables


def interval_of(feed: TopicFeed, default_s: float) -> float:
    """Return how far apart a table's runs start at least."""
    return default_s if feed.minimum_interval_s is None else feed.minimum_interval_s


def failures_in_a_row(runs: Sequence[dg.DagsterRun]) -> int:
    """Count the newest runs that failed by themselves; one that was killed is tried again at once, and does not count."""
    count = 0
    for run in runs:
        if run.status is not dg.DagsterRunStatus.FAILURE:
            break
        count += run.tags.get(RUN_FAILURE_REASON_TAG) == STEP_FAILURE
    return count


def is_misplaced(lag: TopicLag, committed: Mapping[int, Checkpoint]) -> bool:
    """Return whether a checkpoint lies above the log's end or below its start."""
    return any(
        one.partition in committed and not one.log_start_offset <= one.committed_offset <= one.high_watermark for one in lag.partitions
    )


def topic_sensor(*, name: str = "new_records", wait_s: float = WAIT_S, clock: Clock | None = None) -> dg.SensorDefinition:
    """Return the sensor that follows every topic that a table of the project follows; a tick waits ``wait_s`` seconds at a time."""
    job = dg.define_asset_job(
        f"{name}_job",
        selection=dg.AssetSelection.kind("pyspark") | dg.AssetSelection.kind("archive"),
        description="Runs that the topic sensor starts: one table, everything new in its topic",
    )
    used = clock or Clock()
    is_reconciled = Event()  # the first tick that finds the log service brings the declared topics up to date

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=1,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Waits for new records in all topics and starts a run per table that has some; tells high watermarks and lag",
    )
    def follow_topics(
        context: dg.SensorEvaluationContext, log_service: LogServiceResource, lake: LakeResource
    ) -> dg.SensorResult | dg.SkipReason:
        assert context.repository_def is not None
        feeds = topic_feeds(context.repository_def.assets_defs_by_key.values())
        if not feeds:
            return dg.SkipReason("no table of the project follows a topic")
        began_s, progress = used.now_s(), Progress.from_cursor(context.cursor)
        loaded = sys.modules.get(DEFINITIONS)
        try:
            with log_service.open(timeout_ms=LOG_TIMEOUT_MS) as log:
                new_events = [] if is_reconciled.is_set() else declaration_events(log, context)
                is_reconciled.set()
                settings = load_settings()
                watch = Watch(
                    log=log,
                    lake=lake.open(),
                    instance=context.instance,
                    feeds=in_turn(feeds, progress.first, progress.unjudged),
                    minimum_interval_s=settings.minimum_interval_s,
                    clock=used,
                    wait_s=wait_s,
                    is_current=lambda: sys.modules.get(DEFINITIONS) is loaded,
                )
                findings = watch_until(watch, began_s + wait_s, progress)
                requests = [
                    run_request(feed, context.repository_def, watch.run_config_of(feed, settings.follow_s))
                    for feed in feeds
                    if feed.table in findings.decision.start
                ]
                for table, why in watch.failures.items():
                    context.log.error("the table %s cannot be looked at: %s", table, why)
                return sensor_result(watch, findings, requests, progress, new_events, tell_until_s=began_s + TELLS_WITHIN_S)
        except LogServiceError as error:
            return dg.SkipReason(str(error))

    return follow_topics


def declaration_events(log: LogClient, context: dg.SensorEvaluationContext) -> list[dg.AssetObservation]:
    """Bring the project's topics up to their declarations, and return what is to be told.

    Tells of topics that were changed, and of differences that no run can mend: fewer partitions, another replication factor, a refusal.
    """
    assert context.repository_def is not None
    events = []
    for topic, changes in reconcile_all(log, topic_specs(context.repository_def.assets_defs_by_key.values())).items():
        for note in changes.notes:
            context.log.warning(note)
        if changes.notes or changes.is_change:
            text = "; ".join([*changes.notes, *([changes.summary] if changes.is_change else [])])
            events.append(
                dg.AssetObservation(asset_key=dg.AssetKey([TOPIC_PREFIX, topic]), description=text, metadata={"declaration": text})
            )
    return events


def sensor_result(
    watch: Watch,
    findings: Findings,
    requests: Sequence[dg.RunRequest],
    progress: Progress,
    first_events: Sequence[dg.AssetObservation] = (),
    *,
    tell_until_s: float,
) -> dg.SensorResult:
    """Return what a tick tells Dagster: ``first_events``, runs to start, watermarks, lag.

    How long records wait is asked, and told, only until ``tell_until_s``.

    Remembers for the next tick where its look begins, and which tables come last, because they could not be looked at.
    """
    feeds, now_s = watch.feeds, watch.clock.now_s()
    by_table = {feed.table: feed for feed in feeds}
    told = decide_events(findings.lags, progress, now_s)
    watermarks = {of.topic: of for lag in findings.lags.values() for of in lag.each}
    events: list[dg.AssetMaterialization | dg.AssetObservation] = [*first_events]
    events += [watermark_event(watermarks[topic]) for topic in told.topics]
    for table in told.tables:
        lag = findings.lags[table]
        if table in told.stood_at:
            events.append(standing_lag_event(by_table[table], told.stood_at[table]))
        behind_s = seconds_behind(watch.log, lag, now_s) if watch.clock.now_s() < tell_until_s else None
        events.append(lag_event(by_table[table], lag, behind_s))
    kept = told.progress.only_of(by_table, {topic for feed in feeds for topic in feed.topics})
    unseen = {*watch.failures, *(table for table in watch.postponed if table in progress.unjudged)}
    return dg.SensorResult(
        run_requests=list(requests),
        skip_reason=None if requests else dg.SkipReason(skip_reason(findings, watch)),
        cursor=replace(kept, unjudged=in_a_row(progress.unjudged, unseen, 1), first=next(iter(watch.postponed), "")).to_cursor(),
        asset_events=events,
    )


def run_request(feed: TopicFeed, repository: dg.RepositoryDefinition, config: Mapping[str, object]) -> dg.RunRequest:
    """Return the request for one run of a table, with the checks that the run itself makes and the ``config`` of its asset.

    No run key: it would de-duplicate for ever, even after a run that failed.
    """
    table = repository.assets_defs_by_key[feed.asset_key]
    return dg.RunRequest(
        asset_selection=[feed.asset_key],
        asset_check_keys=[spec.key for spec in table.check_specs],
        run_config={"ops": {table.op.name: {"config": dict(config)}}} if config else {},
        tags={TABLE_TAG: feed.table, TOPIC_TAG: feed.topic},
    )


def watermark_event(lag: TopicLag) -> dg.AssetMaterialization:
    """Return the event that a topic grew."""
    return dg.AssetMaterialization(
        asset_key=dg.AssetKey([TOPIC_PREFIX, lag.topic]),
        description="The high watermark moved",
        metadata={
            "high_watermark": lag.high_watermark,
            "records_retained": sum(one.high_watermark - one.log_start_offset for one in lag.partitions),
            "partitions": len(lag.partitions),
        },
    )


def lag_event(feed: TopicFeed, lag: TopicLag, behind_s: float | None) -> dg.AssetObservation:
    """Return the sample of a table's lag; ``behind_s`` is how long the oldest record waits, None where that is unknown.

    The high watermark is the topic's to plot: a run tells the one that it began with, and a newer one between two runs would be a dip.
    """
    rows = [dg.TableRecord(dict(row)) for row in partition_rows(lag)]
    return dg.AssetObservation(
        asset_key=feed.asset_key,
        description="Lag behind the topic",
        metadata={
            "lag": lag.lag,
            **({} if behind_s is None else {"seconds_behind": behind_s}),
            "committed_offset": sum(one.committed_offset for of in lag.each for one in of.partitions),
            **({f"lag of {of.topic}": replace(of, others=()).lag for of in lag.each} if lag.others else {}),
            "offsets": dg.MetadataValue.table(rows) if rows else dg.MetadataValue.text("no partitions"),
        },
    )


def standing_lag_event(feed: TopicFeed, lag: int) -> dg.AssetObservation:
    """Return the sample of a lag that stood still until now; how long the oldest record waited is known where none did."""
    return dg.AssetObservation(
        asset_key=feed.asset_key,
        description="Lag behind the topic until now",
        metadata={"lag": lag, **({} if lag else {"seconds_behind": 0.0})},
    )


def skip_reason(findings: Findings, watch: Watch) -> str:
    """Return why a tick started nothing."""
    seen = {*findings.lags, *watch.failures, *watch.postponed}
    missing = sorted({topic for feed in watch.feeds if feed.table not in seen for topic in feed.topics})
    parts = ["no new records"]
    if findings.decision.in_flight:
        parts = [f"a run is in flight of {', '.join(findings.decision.in_flight)}"]
    elif findings.decision.next_due_s is not None:
        parts = ["new records wait for their table's interval"]
    if missing:
        parts.append(f"topics that do not exist: {', '.join(missing)}")
    parts += [f"the table {table} cannot be looked at: {why}" for table, why in sorted(watch.failures.items())]
    if watch.postponed:
        parts.append(f"looking at tables took {LOOKS_WITHIN_S:.0f} s, and the next tick begins with {watch.postponed[0]}")
    return "; ".join(parts)
