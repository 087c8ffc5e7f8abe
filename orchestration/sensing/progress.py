"""Decides which watermarks and lags are worth an event, as a pure function.

The sensor's cursor remembers the reported values. A topic's high watermark is reported when it
moved, and a table's lag when it changed, both at most once per interval. A lag that became zero is
reported at once. Dagster draws a line between samples. So a lag that did not change for longer is
reported once more before it grows. A falling lag needs no such sample, because the run that
committed has reported it. The cursor is never a checkpoint, and losing it costs a repeated event.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from orchestration.retained.lag import TopicLag

if TYPE_CHECKING:
    from orchestration.transforms import TopicFeed

REPORT_INTERVAL_S = 15.0
UNREADABLE = (ValueError, TypeError, AttributeError, LookupError)
"""The errors of reading a cursor that this software did not write."""
QUIET_S = 60.0
"""A lag without a report for this long has not changed, because a change is reported sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The last value that was reported of a topic or table, and when."""

    value: str
    at_s: float


def stored(reported: Mapping[str, Reported]) -> dict[str, list[str | float]]:
    """Return the reported values as a JSON object, for ``reported_in``."""
    return {key: [one.value, one.at_s] for key, one in sorted(reported.items())}


def reported_in(held: Any) -> dict[str, Reported]:
    """Return the reported values from a JSON object of ``stored``.

    :raises ValueError, TypeError, AttributeError, LookupError: ``held`` is not such an object.
    """
    return {str(key): Reported(value=str(one[0]), at_s=float(one[1])) for key, one in held.items()}


def read_cursor(cursor: str | None) -> dict[str, Reported]:
    """Return the values that a sensor reported, from a cursor that holds nothing else.

    They are empty if the cursor is missing or of another sensor.
    """
    try:
        return reported_in(json.loads(cursor or "{}"))
    except UNREADABLE:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The reports and counts that a cursor remembers: watermarks, lags, verdicts and last alerts.

    Watermarks are by topic, lags and verdicts by table, and alerts by subject. ``unevaluated``
    counts, by subject, the ticks in a row that could not evaluate it, or look at it. ``first`` is
    the table that the next tick looks at first, because this one had no time for it.
    """

    watermarks: Mapping[str, Reported] = field(default_factory=dict)
    lags: Mapping[str, Reported] = field(default_factory=dict)
    verdicts: Mapping[str, Reported] = field(default_factory=dict)
    alerts: Mapping[str, str] = field(default_factory=dict)
    unevaluated: Mapping[str, int] = field(default_factory=dict)
    first: str = ""

    def with_alerts(self, alerts: Mapping[str, str]) -> "Progress":
        """Return the progress with ``alerts`` added: the last reported failure, by subject."""
        return replace(self, alerts={**self.alerts, **alerts})

    def only_of(self, tables: Collection[str], topics: Collection[str]) -> "Progress":
        """Return the progress without other tables and topics than these.

        So removed declarations are forgotten.
        """
        return replace(
            self,
            watermarks={
                topic: reported for topic, reported in self.watermarks.items() if topic in topics
            },
            lags={table: reported for table, reported in self.lags.items() if table in tables},
            verdicts={
                table: reported for table, reported in self.verdicts.items() if table in tables
            },
        )

    @classmethod
    def from_cursor(cls, cursor: str | None) -> "Progress":
        """Read a cursor. An unreadable one counts as lost."""
        try:
            held = json.loads(cursor or "{}")
            kinds = {name: reported_in(held.get(name, {})) for name in KINDS}
            alerts = {
                str(subject): str(occurrence)
                for subject, occurrence in held.get(ALERTS, {}).items()
            }
            unevaluated = {
                str(subject): int(count) for subject, count in held.get(UNEVALUATED, {}).items()
            }
            first = str(held.get(FIRST, ""))
        except UNREADABLE:
            return cls()
        return cls(**kinds, alerts=alerts, unevaluated=unevaluated, first=first)

    def to_cursor(self) -> str:
        """Return the text that ``from_cursor`` reads."""
        reported = {name: stored(getattr(self, name)) for name in KINDS}
        more = {
            ALERTS: dict(sorted(self.alerts.items())),
            UNEVALUATED: dict(sorted(self.unevaluated.items())),
            FIRST: self.first,
        }
        return json.dumps({**reported, **{name: held for name, held in more.items() if held}})


KINDS = ("watermarks", "lags", "verdicts")
ALERTS = "alerts"
UNEVALUATED = "unjudged"
FIRST = "first"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDecision:
    """Topics, tables and verdicts to report, and the progress to remember.

    ``topics`` are those whose watermark is reported, ``tables`` those whose lag is, and
    ``evaluated`` the tables whose verdict is. ``stood_at`` is the previous lag of those ``tables``
    whose lag had not changed for a while.
    """

    topics: tuple[str, ...]
    tables: tuple[str, ...]
    evaluated: tuple[str, ...]
    stood_at: Mapping[str, int]
    progress: Progress


def decide_events(
    lags: Mapping[str, TopicLag],
    reported: Progress,
    now_s: float,
    verdicts: Mapping[str, str] | None = None,
) -> EventDecision:
    """Decide which of ``lags`` and ``verdicts``, both by table, are reported.

    A verdict is reported when it changes.
    """
    topics: dict[str, Reported] = {}
    tables: dict[str, Reported] = {}
    stood_at: dict[str, int] = {}
    evaluated = {
        table: Reported(value=verdict, at_s=now_s)
        for table, verdict in (verdicts or {}).items()
        if is_due(reported.verdicts.get(table), verdict, now_s, is_urgent=True)
    }
    for table, lag in lags.items():
        for one in lag.each:
            watermark = f"{one.topic_id} {one.high_watermark}"
            if is_due(reported.watermarks.get(one.topic), watermark, now_s):
                topics[one.topic] = Reported(value=watermark, at_s=now_s)
        if is_due(reported.lags.get(table), str(lag.lag), now_s, is_urgent=lag.lag == 0):
            tables[table] = Reported(value=str(lag.lag), at_s=now_s)
            last = reported.lags.get(table)
            if (
                last is not None
                and now_s - last.at_s >= QUIET_S
                and last.value.isdecimal()
                and int(last.value) < lag.lag
            ):
                stood_at[table] = int(last.value)
    progress = replace(
        reported,
        watermarks={**reported.watermarks, **topics},
        lags={**reported.lags, **tables},
        verdicts={**reported.verdicts, **evaluated},
    )
    return EventDecision(
        topics=tuple(topics),
        tables=tuple(tables),
        evaluated=tuple(evaluated),
        stood_at=stood_at,
        progress=progress,
    )


def is_due(last: Reported | None, value: str, now_s: float, *, is_urgent: bool = False) -> bool:
    """Return whether to report a value: it is the first, or has changed since the ``last`` one.

    A changed value is reported once ``REPORT_INTERVAL_S`` has passed since the last report, and at
    once if ``is_urgent``.
    """
    if last is None:
        return True
    return last.value != value and (is_urgent or now_s - last.at_s >= REPORT_INTERVAL_S)


def in_a_row(before: Mapping[str, int], now: Iterable[str], most: int) -> dict[str, int]:
    """Return in how many ticks in a row each subject of ``now`` has occurred.

    The numbers stop at ``most`` + 1. ``before`` has those of the previous tick. Subjects that are
    not in ``now`` are forgotten.
    """
    return {subject: min(before.get(subject, 0) + 1, most + 1) for subject in now}


def in_turn(
    feeds: Sequence["TopicFeed"], first: str, behind: Collection[str] = ()
) -> list["TopicFeed"]:
    """Return ``feeds`` in the order of a look, which begins at the table ``first``.

    The feeds before it follow at the end. The tables in ``behind`` come after all others.
    """
    at = next((place for place, feed in enumerate(feeds) if feed.table == first), 0)
    return sorted([*feeds[at:], *feeds[:at]], key=lambda feed: feed.table in behind)


def partition_rows(lag: TopicLag) -> Sequence[dict[str, int | str]]:
    """Return one row per partition, to be shown to people.

    It has the topic's name if the table reads several topics.
    """
    return [
        {
            **({"topic": of.topic} if lag.others else {}),
            "partition": one.partition,
            "log_start_offset": one.log_start_offset,
            "committed_offset": one.committed_offset,
            "high_watermark": one.high_watermark,
            "lag": one.lag,
        }
        for of in lag.each
        for one in of.partitions
    ]
