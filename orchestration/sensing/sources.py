"""The sensor that starts a source's run when there may be something new for it.

That is a file in its folder, a row beyond the source's position, or a comparison that is due. The
decision is based on Dagster's runs and the sources themselves, not on the sensor's cursor, so
nothing is forgotten. The cursor only counts ticks that could not look at a source.

If a source cannot be looked at in time, or its topic is refused, its run is started, because the
run says why it fails. If the database canceled a look that took too long, no run is started,
because it would take as long, at every interval. The position up to which a source was sent is a
record of the topic ``tidelog.positions``. If the leader of that topic does not respond, no run is
started either. After ``UNLOOKED_TICKS`` ticks in a row in which a source got neither look nor run,
it is reported, because no run fails for it. If no broker responds, the tick is skipped.

Sources are looked at in parallel, each in a thread. A database or folder that hangs therefore
delays other sources by at most ``LOOKS_WITHIN_S``.

Invariants: at most one run of a source is in flight. Two starts are at least the source's interval
apart, more after failed runs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Thread
from time import monotonic

import dagster as dg

from orchestration.log_client.protocol import (
    LogClient,
    LogServiceAwayError,
    LogServiceError,
    TopicDescription,
)
from orchestration.resources.log_service import LogServiceResource
from orchestration.sensing.new_records import next_start_s
from orchestration.sensing.past_runs import past_runs
from orchestration.sensing.progress import Progress, in_a_row
from orchestration.sensing.run_failures import Alert
from orchestration.sensing.topic_sensor import LOG_TIMEOUT_MS, Clock
from orchestration.settings import SettingsError, load_settings
from orchestration.sources.assets import SourceFeed, declared_source, source_feeds
from orchestration.sources.positions import found_among, read_positions
from orchestration.sources.reading import LookTooLongError, SourceError
from orchestration.sources.run import sender_id

SOURCE_TAG = "tidelog/source"
INTERVAL_S = 5
LOOKS_WITHIN_S = 10.0
"""The most time of all looks in a tick together.

It is far below a tick's limit, and above a database's time to respond.
"""
UNLOOKED_TICKS = 12
"""Failed looks in a row after which an alert is sent.

They last a minute or two, longer than an election of leaders or a burst of slow queries.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """The state of a source. ``failures`` counts the newest runs that failed in a row."""

    source: str
    every_s: float
    is_running: bool = False
    last_start_s: float | None = None
    failures: int = 0

    @property
    def due_s(self) -> float:
        """The time of the next look."""
        return next_start_s(self.last_start_s, self.every_s, self.failures)


def decide_looks(states: Iterable[SourceState], now_s: float) -> tuple[str, ...]:
    """Return the sources to look at: those that are due and have no run in flight."""
    return tuple(one.source for one in states if not one.is_running and one.due_s <= now_s)


class Looks:
    """Looks at sources in threads, at most one for each source.

    A source that hangs therefore holds only one thread.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, Future[bool]] = {}

    def begin(self, source: str, look: Callable[[], bool]) -> Future[bool]:
        """Return the future of ``look``, or of an earlier look at the source that has not ended."""
        under_way = self._under_way.get(source)
        if under_way is not None and not under_way.done():
            return under_way
        future: Future[bool] = Future()

        def run() -> None:
            try:
                future.set_result(look())
            except Exception as error:  # noqa: BLE001 - whatever it is, the tick raises it
                future.set_exception(error)

        self._under_way[source] = future
        Thread(target=run, name=f"look at {source}", daemon=True).start()
        return future


def run_requests(looked: Mapping[SourceFeed, "Look"]) -> list[dg.RunRequest]:
    """Return a run request for each source whose run is to be started."""
    return [
        dg.RunRequest(asset_selection=[feed.asset_key], tags={SOURCE_TAG: feed.source})
        for feed, one in looked.items()
        if one.is_wanting
    ]


def skip_reason(looked: Mapping[SourceFeed, "Look"]) -> dg.SkipReason:
    """Return why no run was requested."""
    whys = [
        f"the source {feed.source} cannot be looked at: {one.why}"
        for feed, one in looked.items()
        if one.why
    ]
    return dg.SkipReason("; ".join(whys) or "nothing new in any source")


def source_sensor(
    *,
    name: str = "sources",
    clock: Clock | None = None,
    looks_within_s: float = LOOKS_WITHIN_S,
    notify: Callable[[Alert], None] | None = None,
) -> dg.SensorDefinition:
    """Return the sensor that starts the runs of every source of the project.

    A look asks a source for new content. A tick waits at most ``looks_within_s`` for all looks.
    ``notify`` is called once for a source that could not be looked at for a minute or two, and for
    which no run was started.
    """
    used = clock or Clock()
    looks = Looks()

    @dg.sensor(
        name=name,
        asset_selection=dg.AssetSelection.key_prefixes("sources"),
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Looks for files that were dropped and rows that changed, and starts a run per source"
            " that has some"
        ),
    )
    def look_at_sources(
        context: dg.SensorEvaluationContext, log_service: LogServiceResource
    ) -> dg.SensorResult | dg.SkipReason:
        assert context.repository_def is not None
        feeds = source_feeds(context.repository_def.assets_defs_by_key.values())
        now_s = used.now_s()
        due = decide_looks([state_of(feed, context.instance) for feed in feeds], now_s)
        if not due:
            return dg.SkipReason("no source is due" if feeds else "the project has no source")
        try:
            with log_service.open(timeout_ms=LOG_TIMEOUT_MS) as log:
                begun = begin_looks(
                    looks,
                    [feed for feed in feeds if feed.source in due],
                    log,
                    datetime.fromtimestamp(now_s, UTC),
                )
        except LogServiceError as error:
            return dg.SkipReason(str(error))
        until_s = monotonic() + looks_within_s
        looked = {feed: outcome(feed, look, until_s, context) for feed, look in begun.items()}
        unlooked, stuck = decide_unlooked(
            Progress.from_cursor(context.cursor).unevaluated,
            {feed.source: one.why for feed, one in looked.items()},
            [feed.source for feed in feeds],
        )
        alerts = {feed: alert_of(feed, looked[feed].why) for feed in looked if feed.source in stuck}
        for alert in alerts.values():
            context.log.error(alert.text)
            if notify is not None:
                notify(alert)
        requests = run_requests(looked)
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else skip_reason(looked),
            cursor=Progress(unevaluated=unlooked).to_cursor(),
            asset_events=[unlooked_event(feed, alert) for feed, alert in alerts.items()],
        )

    return look_at_sources


def state_of(feed: SourceFeed, instance: dg.DagsterInstance) -> SourceState:
    """Return the state of a source from Dagster's runs."""
    past = past_runs(instance, SOURCE_TAG, feed.source)
    return SourceState(
        source=feed.source,
        every_s=feed.every_s,
        is_running=past.is_running,
        last_start_s=past.last_start_s,
        failures=past.failures,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The outcome of a look: whether to start the source's run.

    ``why`` is the reason why that is not known. It is empty if a run would report the reason.
    """

    is_wanting: bool = False
    why: str = ""


def decide_unlooked(
    before: Mapping[str, int], looked: Mapping[str, str], known: Iterable[str]
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return each source's number of ticks in a row without a look, and the sources to report.

    ``looked`` has the sources that were due, each with the reason why it was not looked at, or an
    empty text. ``before`` has the numbers of the previous tick. They stay for ``known`` sources
    that were not due.
    """
    counts = in_a_row(before, [source for source, why in looked.items() if why], UNLOOKED_TICKS)
    waiting = {
        source: before[source] for source in known if source in before and source not in looked
    }
    return {**waiting, **counts}, tuple(
        source for source, count in counts.items() if count == UNLOOKED_TICKS
    )


def begin_looks(
    looks: Looks, feeds: Sequence[SourceFeed], log: LogClient, now: datetime
) -> dict[SourceFeed, Future[bool]]:
    """Read the positions of sources, and begin to look whether the sources have more.

    Any broker describes any topic, so the log service is away if none does. Positions come from the
    leader of their topic, which is asked once for all sources.

    :raises LogServiceAwayError: the log service does not respond.
    """
    begun: dict[SourceFeed, Future[bool]] = {}
    positions: Future[dict[bytes, bytes | None]] | None = None
    for feed in feeds:
        try:
            target = log.describe_topic(feed.topic)
        except LogServiceAwayError:
            raise
        except LogServiceError as error:
            begun[feed] = failed(error)
            continue
        try:
            if target is not None and positions is None:
                positions = positions_of(log)
            newest = {} if target is None or positions is None else positions.result()
            begun[feed] = begin_look(looks, feed, target, newest, now)
        except (LogServiceError, SourceError, SettingsError) as error:
            begun[feed] = failed(error)
    return begun


def begin_look(
    looks: Looks,
    feed: SourceFeed,
    target: TopicDescription | None,
    newest: Mapping[bytes, bytes | None],
    now: datetime,
) -> Future[bool]:
    """Begin to look whether a source has more records than it has sent to ``target``.

    ``newest`` holds the newest record of each position.

    :raises SettingsError: a setting that the source needs is missing.
    """
    found = (
        None
        if target is None
        else found_among(newest, sender_id(feed.source, load_settings().deployment), target)
    )
    source, position = declared_source(feed.source), None if found is None else found.position
    return looks.begin(feed.source, lambda: source.is_wanting(position, now))


def positions_of(log: LogClient) -> Future[dict[bytes, bytes | None]]:
    """Return the newest record of each position, or the error that prevents reading them."""
    done: Future[dict[bytes, bytes | None]] = Future()
    try:
        done.set_result(read_positions(log, is_final=False))
    except (LogServiceError, SourceError) as error:
        done.set_exception(error)
    return done


def failed(error: Exception) -> Future[bool]:
    """Return a look that ended with ``error`` before it began."""
    done: Future[bool] = Future()
    done.set_exception(error)
    return done


def outcome(
    feed: SourceFeed, look: Future[bool], until_s: float, context: dg.SensorEvaluationContext
) -> Look:
    """Wait for a look until ``until_s``, and return whether to start a run of the source.

    A run starts if it would find something new, or report a failure. It also starts if the look has
    not ended by ``until_s``. It does not start if the database canceled the look, because the run
    would take as long, at every interval, or if the source's position is unknown.
    """
    try:
        return Look(is_wanting=look.result(timeout=max(until_s - monotonic(), 0.0)))
    except TimeoutError:
        context.log.error("the source %s cannot be looked at: it does not respond", feed.source)
    except (LookTooLongError, LogServiceAwayError) as error:
        context.log.error(
            "whether the source %s has something new is not known, and no run is started: %s",
            feed.source,
            error,
        )
        return Look(why=str(error))
    except (LogServiceError, SourceError, SettingsError, OSError) as error:
        context.log.error("the source %s cannot be looked at: %s", feed.source, error)
    return Look(is_wanting=True)


def alert_of(feed: SourceFeed, why: str) -> Alert:
    """Return the alert for a source that could not be looked at for long."""
    subject = feed.asset_key.to_user_string()
    return Alert(
        subject=subject, run_id="", failures=UNLOOKED_TICKS, why=why, what="could not be looked at"
    )


def unlooked_event(feed: SourceFeed, alert: Alert) -> dg.AssetObservation:
    """Return the observation with the alert's text on the source's asset."""
    return dg.AssetObservation(
        asset_key=feed.asset_key,
        description=alert.text,
        metadata={"failures_in_a_row": alert.failures, "failure": alert.why},
    )
