"""The watchdog: judges lag objectives, and reports late tables, failing sensors and topic drift.

Topic drift means topics that differ from their declarations (``topic_drift``). The topic sensor
waits for records, so one of its ticks may take long, or fail. Therefore the watchdog judges
objectives in ticks of its own. If the topic sensor neither starts runs nor reports lag, tables
become late, and the watchdog notices that. Each table is judged by itself, so one that cannot be
judged does not block others. After ``LOOKS_WITHIN_S`` a tick leaves the other tables to the next
one, which begins with them.

A table that could not be evaluated, or a log service that did not respond, in
``UNEVALUATED_TICKS`` ticks in a row is reported once until it is over.

Of a sensor's failures in a row the 1st, 2nd, 4th, 8th... is reported. A tick that has not ended
after ``HUNG_AFTER_S`` is reported once. A sensor may tick several times between two ticks of the
watchdog. If it has passed one of these numbers meanwhile, the newest failure is reported. A tick
that is still running does not hide the failures before it.

Alerts go to the tick's log and, through ``notify``, to wherever a project wants them. The sensor of
schema drift watches this one in the same way, because it needs no log service and has its own
ticks.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile

import dagster as dg
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorTick,
    InstigatorType,
    TickStatus,
)
from deltalake.exceptions import DeltaError

from log_service.common.counts import agreed, counted
from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import (
    LogClient,
    LogServiceAwayError,
    LogServiceError,
    TopicDescription,
)
from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.retained.lag import lag_behind
from orchestration.retained.lag_objective import LagVerdict, lag_verdict
from orchestration.sensing.objectives import objectives, verdict_event
from orchestration.sensing.progress import Progress, decide_events, in_a_row, in_turn
from orchestration.sensing.run_failures import Alert, is_reported
from orchestration.sensing.topic_drift import decide_topic_drift, topic_drift_event
from orchestration.topics.spec import TopicSpec, differences, topic_specs
from orchestration.transforms import TopicFeed, topic_feeds

INTERVAL_S = 30
HUNG_AFTER_S = 180.0
REMEMBERED_TICKS = 1_025
"""The most ticks that are read to count failures in a row, for a sensor whose newest tick failed.

The 1,024th is the last that is counted. After it an alert follows whenever this many more have
failed.
"""
LOG_TIMEOUT_MS = 5_000
LOOKS_WITHIN_S = 25.0
"""The time after which a tick looks at no further table.

A leader that is away costs each of its tables ``LOG_TIMEOUT_MS``, several times for a table of
several topics. Dagster cuts off a tick that takes 60 seconds, and then none of its reports count.
"""
UNEVALUATED_TICKS = 4
"""Ticks in a row without a verdict after which an alert is sent.

They last two minutes, longer than a restart of brokers or an election of leaders.
"""
INTERRUPTED = "cannot schedule new futures after"
"""Part of the error of a tick whose process was stopped: Python's executors raise it."""
LOG_SERVICE = "the log service"
WATCHDOG = "watchdog"


@dataclass(frozen=True, slots=True, kw_only=True)
class TickSeen:
    """One tick of a sensor. ``started_s`` is when it began, in seconds since the epoch."""

    tick_id: int
    started_s: float
    is_failed: bool = False
    is_running: bool = False
    why: str = ""


def decide_sensor_alert(
    sensor: str, ticks: Sequence[TickSeen], now_s: float, reported: str = ""
) -> Alert | None:
    """Return an alert if a sensor's newest tick hangs, or its newest ended ticks failed.

    ``ticks`` are its ticks, newest first, at most ``REMEMBERED_TICKS`` of them ended. ``reported``
    is the ``run_id`` of the sensor's last alert, empty if there was none. Return None if there is
    nothing new to report.
    """
    subject = subject_of(sensor)
    if ticks and ticks[0].is_running:
        seconds = now_s - ticks[0].started_s
        if seconds > HUNG_AFTER_S:
            why = (
                f"its tick has not ended after {seconds:.0f} s; a restart of the code server"
                " ends it"
            )
            return Alert(subject=subject, run_id=occurrence(ticks[0]), failures=1, why=why)
        ticks = ticks[1:]
    failed = [occurrence(tick) for tick in takewhile(lambda tick: tick.is_failed, ticks)]
    is_counted = len(failed) < REMEMBERED_TICKS
    reported_before = len(failed) - failed.index(reported) if reported in failed else 0
    if not (is_reported(len(failed), reported_before) if is_counted else reported_before == 0):
        return None
    what = "failed" if is_counted else "failed at least"
    return Alert(
        subject=subject, run_id=failed[0], failures=len(failed), why=ticks[0].why, what=what
    )


def occurrence(tick: TickSeen) -> str:
    """Return the text that names a tick in alerts."""
    return f"tick {tick.tick_id}"


def subject_of(sensor: str) -> str:
    """Return the text that names a sensor in alerts."""
    return f"sensor {sensor}"


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """The findings of a tick: verdicts by table, and the reasons why other subjects have none.

    A verdict tells whether a table meets its lag objective. A subject is a table, or
    ``LOG_SERVICE``. ``first`` is the first table that there was no time for.
    """

    verdicts: dict[str, LagVerdict] = field(default_factory=dict)
    unevaluated: dict[str, str] = field(default_factory=dict)
    first: str = ""


def decide_unevaluated(
    before: Mapping[str, int], unevaluated: Mapping[str, str]
) -> tuple[dict[str, int], list[Alert]]:
    """Return each subject's number of ticks in a row without a verdict, and the alerts about it.

    ``before`` has the numbers of the previous tick. While the log service is away nothing is known
    of tables, so their numbers stay.
    """
    counts = in_a_row(before, unevaluated, UNEVALUATED_TICKS)
    alerts = [
        Alert(
            subject=subject,
            run_id="",
            failures=UNEVALUATED_TICKS,
            why=unevaluated[subject],
            what="did not respond" if subject == LOG_SERVICE else "could not be judged",
        )
        for subject, count in counts.items()
        if count == UNEVALUATED_TICKS
    ]
    return ({**before, **counts} if LOG_SERVICE in unevaluated else counts), alerts


def watchdog_sensor(
    *,
    name: str = WATCHDOG,
    notify: Callable[[Alert], None] | None = None,
    now_s: Callable[[], float] = time.time,
) -> dg.SensorDefinition:
    """Return the watchdog, a sensor. ``notify`` is called with every alert, e.g. for a chat."""

    @dg.sensor(
        name=name,
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Judges whether tables keep up with their topics, and tells of sensors that fail or"
            " hang"
        ),
    )
    def watch(
        context: dg.SensorEvaluationContext, log_service: LogServiceResource, lake: LakeResource
    ) -> dg.SensorResult:
        assert context.repository_def is not None
        progress, began_s = Progress.from_cursor(context.cursor), now_s()
        feeds = topic_feeds(context.repository_def.assets_defs_by_key.values())
        wanted = objectives(context.repository_def.asset_checks_defs_by_key.values())
        evaluation = Evaluation(first=progress.first)
        declared = topic_specs(context.repository_def.assets_defs_by_key.values())
        specs = {spec.name: spec for spec in declared}
        drift = decide_topic_drift({}, {})
        in_order = in_turn(feeds, progress.first)
        try:
            with log_service.open(timeout_ms=LOG_TIMEOUT_MS) as log:
                evaluation = evaluated(log, lake.open(), feeds=in_order, wanted=wanted, now_s=now_s)
                differences = differences_within(log, specs.values(), began_s, now_s)
                drift = decide_topic_drift(progress.alerts, differences)
        except LogServiceError as error:
            evaluation.unevaluated[LOG_SERVICE] = str(error)
        for subject, why in evaluation.unevaluated.items():
            context.log.error("%s cannot be judged: %s", subject, why)
        unevaluated, stuck = decide_unevaluated(progress.unevaluated, evaluation.unevaluated)
        verdicts = evaluation.verdicts
        own_names = {sensor.name for sensor in context.repository_def.sensor_defs}
        watched = watched_sensors(sensor_states(context.instance), name, own_names)
        found = sensor_alerts(context.instance, watched, now_s(), progress.alerts)
        alerts = [alert for alert in found if progress.alerts.get(alert.subject) != alert.run_id]
        texts = {table: one.text for table, one in verdicts.items()}
        reported = decide_events({}, progress, now_s(), texts)
        lacking = [table for table in reported.evaluated if not verdicts[table].is_kept]
        missed = [missed_objective(table, verdicts[table]) for table in lacking]
        shown = [*alerts, *missed, *stuck, *drift.alerts]
        for alert in shown:
            context.log.error(alert.text)
            if notify is not None:
                notify(alert)
        by_table = {feed.table: feed for feed in feeds}
        kept = reported.progress.only_of(by_table, ())
        kept = replace(kept, unevaluated=unevaluated, first=evaluation.first)
        remembered = {alert.subject: alert.run_id for alert in alerts}
        return dg.SensorResult(
            skip_reason=dg.SkipReason(
                "; ".join(alert.text for alert in shown) or "nothing to tell"
            ),
            cursor=kept.with_alerts({**remembered, **drift.remembered}).to_cursor(),
            asset_events=[
                *(verdict_event(by_table[table], verdicts[table]) for table in reported.evaluated),
                *(topic_drift_event(specs[topic], text) for topic, text in drift.events.items()),
            ],
        )

    return watch


def differences_within(
    log: LogClient, specs: Iterable[TopicSpec], began_s: float, now_s: Callable[[], float]
) -> dict[str, tuple[str, ...]]:
    """Return the differences between topics and their declarations.

    The tick began at ``began_s``. Topics that there is no more time for in it are left out.

    :raises LogServiceAwayError: the log service does not respond.
    """
    found: dict[str, tuple[str, ...]] = {}
    for spec in specs:
        if now_s() - began_s < LOOKS_WITHIN_S:
            found |= differences(log, [spec])
    return found


def missed_objective(table: str, verdict: LagVerdict) -> Alert:
    """Return the alert for a table that no longer meets its lag objective."""
    why = (
        f"{counted(verdict.late, 'record')} {agreed(verdict.late, 'is', 'are')} older than"
        f" {verdict.within_s} s and not in the table"
    )
    return Alert(subject=table, run_id="", failures=1, why=why, what="does not keep up")


def evaluated(
    log: LogClient,
    lake: Lake,
    *,
    feeds: Sequence[TopicFeed],
    wanted: Mapping[dg.AssetKey, int],
    now_s: Callable[[], float],
) -> Evaluation:
    """Return verdicts on the tables with an objective, and which tables could not be looked at.

    Any broker describes any topic, so the log service is away if none does. Offsets come from the
    leaders of partitions. A leader that does not respond concerns only the tables whose topics it
    leads.

    :raises LogServiceAwayError: the log service does not respond.
    """
    found = Evaluation()
    began_s = now_s()
    for feed in feeds:
        if now_s() - began_s >= LOOKS_WITHIN_S:
            found.first = found.first or feed.table
            found.unevaluated[feed.table] = (
                f"it was not looked at, because looking at others took {LOOKS_WITHIN_S:.0f} s"
            )
            continue
        try:
            topics = described(log, feed)
        except LogServiceAwayError:
            raise
        except LogServiceError as error:
            found.unevaluated[feed.table] = str(error)
            continue
        try:
            lag = lag_behind(log, topics, partial(lake.snapshot, feed.table)) if topics else None
            if lag is not None and feed.asset_key in wanted:
                found.verdicts[feed.table] = lag_verdict(
                    log, lag, wanted[feed.asset_key], int(now_s() * 1000)
                )
        except (LogServiceError, DeltaError, OSError) as error:
            found.unevaluated[feed.table] = str(error).strip() or type(error).__name__
    return found


def described(log: LogClient, feed: TopicFeed) -> list[TopicDescription]:
    """Return the descriptions of a table's topics, empty if one of them does not exist.

    :raises LogServiceError: the log service refuses to describe one, or does not respond.
    """
    found = [log.describe_topic(topic) for topic in feed.topics]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else []


def sensor_states(instance: dg.DagsterInstance) -> Sequence[InstigatorState]:
    """Return the states of all sensors in an instance, also of projects that are gone."""
    return instance.all_instigator_state(instigator_type=InstigatorType.SENSOR)


def watched_sensors(
    states: Sequence[InstigatorState], name: str, own_names: Collection[str]
) -> list[InstigatorState]:
    """Return the states of the sensors that the watchdog ``name`` watches.

    ``own_names`` are the sensors of its project. It watches neither itself nor sensors that its
    project no longer has.
    """
    own_locations = {location_of(state) for state in states if state.name == name}
    return [
        state
        for state in states
        if state.name != name
        and (state.name in own_names or location_of(state) not in own_locations)
    ]


def location_of(state: InstigatorState) -> str:
    """Return the code location of a sensor."""
    return str(state.origin.repository_origin.code_location_origin.location_name)


def sensor_alerts(
    instance: dg.DagsterInstance,
    states: Iterable[InstigatorState],
    now_s: float,
    reported: Mapping[str, str],
) -> list[Alert]:
    """Return the alerts for running sensors.

    ``reported`` has the ``run_id`` of the last alert by subject.
    """
    alerts = []
    for state in states:
        if state.is_running:
            alert = decide_sensor_alert(
                state.name,
                ticks_of(instance, state),
                now_s,
                reported.get(subject_of(state.name), ""),
            )
            alerts += [] if alert is None else [alert]
    return alerts


def ticks_of(instance: dg.DagsterInstance, state: InstigatorState) -> list[TickSeen]:
    """Return the newest two ticks of a sensor, newest first.

    If the last one that has ended failed, the ticks before it are included.
    """
    newest = [
        seen(tick)
        for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=2)
    ]
    under_way = int(bool(newest) and newest[0].is_running)
    if not any(tick.is_failed for tick in newest[under_way:][:1]):
        return newest
    return [
        seen(tick)
        for tick in instance.get_ticks(
            state.instigator_origin_id, state.selector_id, limit=REMEMBERED_TICKS + under_way
        )
    ]


def seen(tick: InstigatorTick) -> TickSeen:
    """Return a tick with its state and the first line of its error.

    A tick that was interrupted because its process was stopped did not fail.
    """
    error = tick.tick_data.error
    cause = (error.cause or error) if error is not None else None
    why = (
        cause.message.strip().splitlines()[0][:500]
        if cause is not None and cause.message.strip()
        else "no reason was given"
    )
    return TickSeen(
        tick_id=int(tick.tick_id),
        started_s=tick.timestamp,
        is_failed=tick.status is TickStatus.FAILURE and INTERRUPTED not in why,
        is_running=tick.status is TickStatus.STARTED,
        why=why,
    )
