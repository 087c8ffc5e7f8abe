"""The sensor of all topics: a tick waits until a table has something to read, and starts a run.

It queries the log service, the lake and Dagster's runs, and leaves the decisions to ``decide_runs``
and ``decide_events``. A tick waits up to ``wait_s``, and twice as long if everything was read and
reported. That is far below the limit of a tick. Long waits are better, because the daemon pauses
between ticks, and because a tick costs more than a wait. The second half begins only if the project
was not reloaded in between. If the log service is away, the tick is skipped and never fails. A
topic or a table that cannot be looked at is skipped, and the tick says so.

Dagster cuts off a tick after 60 seconds, and then discards its results. The look at all tables
therefore ends after ``LOOKS_WITHIN_S``. The next look begins with the other tables. Tables that
could not be looked at come after all others, so that partition leaders that do not respond delay no
other table.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event

import dagster as dg
from deltalake.exceptions import DeltaError

from orchestration.lake.tables import Lake, TableSnapshot
from orchestration.log_client.protocol import (
    LogClient,
    LogServiceAwayError,
    LogServiceError,
    TopicDescription,
)
from orchestration.offsets.planning import Checkpoint
from orchestration.project.home import UNFINISHED
from orchestration.project.location import DEFINITIONS
from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.retained.lag import TopicLag, lag_behind, seconds_behind
from orchestration.sensing.new_records import RunDecision, TableState, decide_runs
from orchestration.sensing.past_runs import past_runs, retry_text
from orchestration.sensing.progress import (
    Progress,
    decide_events,
    in_a_row,
    in_turn,
    partition_rows,
)
from orchestration.settings import load_settings
from orchestration.topics.spec import TOPIC_PREFIX, reconcile_all, topic_specs
from orchestration.transforms import is_announced
from orchestration.transforms.kinds import FOLLOWERS, Snapshot, TopicFeed, topic_feeds

TABLE_TAG = "tidelog/table"
TOPIC_TAG = "tidelog/topic"
WAIT_S = 15.0
"""How long a tick waits for records at a time.

The end of the code server and a reload of the project wait at most this long.
"""
LOG_TIMEOUT_MS = 5_000
LOOKS_WITHIN_S = 10.0
"""The time after which a look at all tables begins no further one.

A leader that is away costs each of its tables ``LOG_TIMEOUT_MS``.
"""
TELLS_WITHIN_S = 40.0
"""The seconds into a tick after which it no longer queries the log.

Lag is then reported without the waiting time of records.
"""
POLL_S = 1.0
RUN_POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The clock of a tick: a function for the time, and one to sleep."""

    now_s: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The resources, settings and intermediate results of a tick."""

    log: LogClient
    lake: Lake
    instance: dg.DagsterInstance
    feeds: Sequence[TopicFeed]
    minimum_interval_s: float
    clock: Clock = Clock()
    wait_s: float = WAIT_S
    is_current: Callable[[], bool] = lambda: True
    """Whether the project is still loaded as it was when the tick began."""
    failures: dict[str, str] = field(default_factory=dict)
    """The reason, by table, why it could not be looked at.

    The table is skipped until the next tick.
    """
    postponed: list[str] = field(default_factory=list)
    """The tables that the last look had no time for, in the order of their turn."""
    snapshots: dict[str, TableSnapshot | None] = field(default_factory=dict)
    """The tables of the lake as the last look loaded them, each once."""

    def lags(self) -> dict[str, TopicLag]:
        """Return the lag of each table.

        Tables without a topic, tables that cannot be looked at, and tables without time for a look
        are left out.

        :raises LogServiceAwayError: the log service does not respond at all.
        """
        found: dict[str, TopicLag] = {}
        until_s = self.clock.now_s() + LOOKS_WITHIN_S
        self.postponed.clear()
        self.snapshots.clear()
        for one in self.feeds:
            if one.table not in self.failures and self.clock.now_s() >= until_s:
                self.postponed.append(one.table)
                continue
            descriptions = [] if one.table in self.failures else self._descriptions(one)
            known = [description for description in descriptions if description is not None]
            if len(known) < len(one.topics):
                continue
            try:
                found[one.table] = lag_behind(self.log, known, self._snapshot_of(one))
            except (LogServiceError, DeltaError, OSError) as error:
                self._leave_alone(one, error)
        return found

    def _descriptions(self, feed: TopicFeed) -> list[TopicDescription | None]:
        """Return the topics of a table, None for each that does not exist.

        The list is empty if the log service refuses to describe one of them. Any broker describes
        any topic, so a log service that does not respond here does not respond for any table.
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
        """Return the states that decide about runs, for the tables of ``lags``."""
        return [self._state(feed, lags[feed.table]) for feed in self.feeds if feed.table in lags]

    def _state(self, feed: TopicFeed, lag: TopicLag) -> TableState:
        interval_s, snapshot, now_s = (
            interval_of(feed, self.minimum_interval_s),
            self._snapshot_of(feed),
            self.clock.now_s(),
        )
        state = TableState(
            table=feed.table,
            pending=feed.start.due_offsets(lag, snapshot, now_s),
            is_announced=is_announced(
                self.instance,
                feed.asset_key,
                lag.topic_id,
                lag.committed,
                {other.topic_id: other.committed for other in lag.others},
            ),
            is_misplaced=any(is_misplaced(one, one.committed) for one in lag.each),
            is_upkeep_due=feed.start.is_upkeep_due(snapshot, now_s),
            minimum_interval_s=interval_s,
        )
        if not state.is_wanting:
            return state
        past = past_runs(self.instance, TABLE_TAG, feed.table)
        return replace(
            state,
            is_running=past.is_running,
            last_start_s=past.last_start_s,
            failures=past.failures,
        )

    def _snapshot_of(self, feed: TopicFeed) -> Snapshot:
        def load() -> TableSnapshot | None:
            if feed.table not in self.snapshots:
                self.snapshots[feed.table] = self.lake.snapshot(feed.table)
            return self.snapshots[feed.table]

        return load

    def run_config_of(self, feed: TopicFeed, follow_s: int) -> Mapping[str, object]:
        """Return the config of a run that is to be started now."""
        is_following = not interval_of(feed, self.minimum_interval_s)
        return feed.start.run_config(
            self._snapshot_of(feed), self.clock.now_s(), follow_s=follow_s if is_following else 0
        )

    def wait(self, lags: Mapping[str, TopicLag], decision: RunDecision, deadline_s: float) -> None:
        """Wait for new records, for a table that becomes due, or for the end of a run in flight.

        An archive does not wait for a record, because a single one makes no chunk. If the log
        service allows none of the topics to be read, the function only sleeps.
        """
        limit_s = deadline_s - self.clock.now_s()
        if decision.next_due_s is not None:
            limit_s = min(limit_s, decision.next_due_s - self.clock.now_s())
        if decision.in_flight:
            self._wait_for_runs(decision.in_flight, min(limit_s, POLL_S))
            return
        followed = [
            lags[feed.table]
            for feed in self.feeds
            if feed.table in lags and feed.start.is_each_record_awaited
        ]
        each = [of for lag in followed for of in lag.each]
        ends = {
            (of.topic, one.partition): one.last_stable_offset
            for of in each
            for one in of.partitions
        }
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
        except LogServiceError:  # runs report that no topic may be read
            self.clock.sleep(max(started_s + timeout_ms / 1000 - self.clock.now_s(), 0.0))
            return False

    def _wait_for_runs(self, tables: Sequence[str], limit_s: float) -> None:
        """Wait until a run of one of these tables has ended, ``limit_s`` seconds at most.

        Only the runs are queried, because that is cheap, and because the next run waits for this.
        """
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
    """The lags that a tick has read last, and the decision that follows from them."""

    lags: Mapping[str, TopicLag]
    decision: RunDecision


def watch_until(watch: Watch, deadline_s: float, progress: Progress) -> Findings:
    """Look at the tables and wait, until a table is to be started or the deadline passes.

    The deadline is ``wait_s`` later if everything was read and reported. ``progress`` has the
    reported values.
    """
    while True:
        lags = watch.lags()
        decision = decide_runs(watch.states(lags), watch.clock.now_s())
        is_idle = (
            len(lags) == len(watch.feeds)
            and not decision.is_anything_wanting
            and is_all_reported(lags, progress)
        )
        until_s = deadline_s + watch.wait_s if is_idle else deadline_s
        if decision.start or watch.clock.now_s() >= until_s or not watch.is_current():
            return Findings(lags=lags, decision=decision)
        if not watch.postponed:
            watch.wait(lags, decision, until_s)


def is_all_reported(lags: Mapping[str, TopicLag], progress: Progress) -> bool:
    """Return whether ``progress`` holds the current watermarks and lags."""
    left = decide_events(lags, progress, math.inf)
    return not left.topics and not left.tables


def interval_of(feed: TopicFeed, default_s: float) -> float:
    """Return the least time in seconds between two starts of a table's runs."""
    return default_s if feed.minimum_interval_s is None else feed.minimum_interval_s


def is_misplaced(lag: TopicLag, committed: Mapping[int, Checkpoint]) -> bool:
    """Return whether a checkpoint is above the log's end or below its start."""
    return any(
        one.partition in committed
        and not one.log_start_offset <= one.committed_offset <= one.high_watermark
        for one in lag.partitions
    )


def topic_sensor(
    *, name: str = "new_records", wait_s: float = WAIT_S, clock: Clock | None = None
) -> dg.SensorDefinition:
    """Return the sensor for every topic that a table of the project follows.

    A tick waits ``wait_s`` seconds at a time. The sensor targets assets and not a job, because
    Dagster's list of runs names the assets of a run only if the run belongs to no declared job.
    """
    used = clock or Clock()
    is_reconciled = Event()  # set by the first tick that reconciles the declared topics

    @dg.sensor(
        name=name,
        asset_selection=FOLLOWERS,
        minimum_interval_seconds=1,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Waits for new records in all topics and starts a run per table that has some; tells"
            " high watermarks and lag"
        ),
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
                    feeds=in_turn(feeds, progress.first, progress.unevaluated),
                    minimum_interval_s=settings.minimum_interval_s,
                    clock=used,
                    wait_s=wait_s,
                    is_current=lambda: sys.modules.get(DEFINITIONS) is loaded,
                )
                findings = watch_until(watch, began_s + wait_s, progress)
                requests = [
                    run_request(
                        feed, context.repository_def, watch.run_config_of(feed, settings.follow_s)
                    )
                    for feed in feeds
                    if feed.table in findings.decision.start
                ]
                for table, why in watch.failures.items():
                    context.log.error("the table %s cannot be looked at: %s", table, why)
                return sensor_result(
                    watch,
                    findings,
                    requests,
                    progress,
                    new_events,
                    report_until_s=began_s + TELLS_WITHIN_S,
                )
        except LogServiceError as error:
            return dg.SkipReason(str(error))

    return follow_topics


def declaration_events(
    log: LogClient, context: dg.SensorEvaluationContext
) -> list[dg.AssetObservation]:
    """Bring the project's topics up to their declarations, and return the observations.

    They report topics that were changed, and differences that no run can remove: fewer partitions,
    another replication factor, a refusal.
    """
    assert context.repository_def is not None
    events = []
    for topic, changes in reconcile_all(
        log, topic_specs(context.repository_def.assets_defs_by_key.values())
    ).items():
        for note in changes.notes:
            context.log.warning(note)
        if changes.notes or changes.is_change:
            text = "; ".join([*changes.notes, *([changes.summary] if changes.is_change else [])])
            events.append(
                dg.AssetObservation(
                    asset_key=dg.AssetKey([TOPIC_PREFIX, topic]),
                    description=text,
                    metadata={"declaration": text},
                )
            )
    return events


def sensor_result(
    watch: Watch,
    findings: Findings,
    requests: Sequence[dg.RunRequest],
    progress: Progress,
    first_events: Sequence[dg.AssetObservation] = (),
    *,
    report_until_s: float,
) -> dg.SensorResult:
    """Return the result of a tick: ``first_events``, runs to start, watermarks and lag.

    How long records wait is queried and reported only until ``report_until_s``. The cursor keeps
    the first table of the next look, and the tables that come last because they could not be looked
    at.
    """
    feeds, now_s = watch.feeds, watch.clock.now_s()
    by_table = {feed.table: feed for feed in feeds}
    reported = decide_events(findings.lags, progress, now_s)
    watermarks = {of.topic: of for lag in findings.lags.values() for of in lag.each}
    events: list[dg.AssetMaterialization | dg.AssetObservation] = [*first_events]
    events += [watermark_event(watermarks[topic]) for topic in reported.topics]
    for table in reported.tables:
        lag = findings.lags[table]
        if table in reported.stood_at:
            events.append(standing_lag_event(by_table[table], reported.stood_at[table]))
        behind_s = (
            seconds_behind(watch.log, lag, now_s) if watch.clock.now_s() < report_until_s else None
        )
        events.append(lag_event(by_table[table], lag, behind_s))
    kept = reported.progress.only_of(by_table, {topic for feed in feeds for topic in feed.topics})
    unseen = {
        *watch.failures,
        *(table for table in watch.postponed if table in progress.unevaluated),
    }
    return dg.SensorResult(
        run_requests=list(requests),
        skip_reason=None if requests else dg.SkipReason(skip_reason(findings, watch)),
        cursor=replace(
            kept,
            unevaluated=in_a_row(progress.unevaluated, unseen, 1),
            first=next(iter(watch.postponed), ""),
        ).to_cursor(),
        asset_events=events,
    )


def run_request(
    feed: TopicFeed, repository: dg.RepositoryDefinition, config: Mapping[str, object]
) -> dg.RunRequest:
    """Return the request for one run of a table, with its checks and its asset's ``config``.

    It has no run key, because that would de-duplicate for ever, even after a failed run.
    """
    table = repository.assets_defs_by_key[feed.asset_key]
    return dg.RunRequest(
        asset_selection=[feed.asset_key],
        asset_check_keys=[spec.key for spec in table.check_specs],
        run_config={"ops": {table.op.name: {"config": dict(config)}}} if config else {},
        tags={TABLE_TAG: feed.table, TOPIC_TAG: feed.topic},
    )


def watermark_event(lag: TopicLag) -> dg.AssetMaterialization:
    """Return the event that reports a topic's high watermark."""
    return dg.AssetMaterialization(
        asset_key=dg.AssetKey([TOPIC_PREFIX, lag.topic]),
        description="The high watermark moved",
        metadata={
            "high_watermark": lag.high_watermark,
            "records_retained": sum(
                one.high_watermark - one.log_start_offset for one in lag.partitions
            ),
            "partitions": len(lag.partitions),
        },
    )


def lag_event(feed: TopicFeed, lag: TopicLag, behind_s: float | None) -> dg.AssetObservation:
    """Return the observation that reports a table's lag.

    ``behind_s`` is how long the oldest record waits, None if unknown. The high watermark is plotted
    on the topic's asset only. A run reports the watermark from its start. A newer one between two
    runs would make that look like a dip.
    """
    rows = [dg.TableRecord(dict(row)) for row in partition_rows(lag)]
    return dg.AssetObservation(
        asset_key=feed.asset_key,
        description="Lag behind the topic",
        metadata={
            "lag": lag.lag,
            **({} if behind_s is None else {"seconds_behind": behind_s}),
            "committed_offset": sum(
                one.committed_offset for of in lag.each for one in of.partitions
            ),
            **(
                {f"lag of {of.topic}": replace(of, others=()).lag for of in lag.each}
                if lag.others
                else {}
            ),
            "offsets": (
                dg.MetadataValue.table(rows) if rows else dg.MetadataValue.text("no partitions")
            ),
        },
    )


def standing_lag_event(feed: TopicFeed, lag: int) -> dg.AssetObservation:
    """Return the observation that reports a lag which had not changed until now.

    How long the oldest record waited is known only for a lag of zero.
    """
    return dg.AssetObservation(
        asset_key=feed.asset_key,
        description="Lag behind the topic until now",
        metadata={"lag": lag, **({} if lag else {"seconds_behind": 0.0})},
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times in a row"


def skip_reason(findings: Findings, watch: Watch) -> str:
    """Return why a tick started nothing."""
    seen = {*findings.lags, *watch.failures, *watch.postponed}
    missing = sorted(
        {topic for feed in watch.feeds if feed.table not in seen for topic in feed.topics}
    )
    parts = ["no new records"]
    waiting, now_s = findings.decision.waiting, watch.clock.now_s()
    if findings.decision.in_flight:
        parts = [f"a run is in flight of {', '.join(findings.decision.in_flight)}"]
    elif any(not one.failures for one in waiting):
        parts = ["new records wait for their table's interval"]
    elif waiting:
        parts = []
    parts += [
        f"{one.table} failed {_times(one.failures)}: {retry_text(one.due_s, now_s)}"
        for one in waiting
        if one.failures
    ]
    if missing:
        parts.append(f"topics that do not exist: {', '.join(missing)}")
    parts += [
        f"the table {table} cannot be looked at: {why}"
        for table, why in sorted(watch.failures.items())
    ]
    if watch.postponed:
        parts.append(
            f"looking at tables took {LOOKS_WITHIN_S:.0f} s, and the next tick begins with"
            f" {watch.postponed[0]}"
        )
    return "; ".join(parts)
