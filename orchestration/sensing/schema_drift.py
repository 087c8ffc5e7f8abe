"""Notices when data changes its shape: columns of a table that come, go or change, and records that stop fitting their topic's schema.

Decides from two pictures, the one in the cursor and the one of now; tells by an observation on the table. Starts nothing.

Each table is read apart: one that cannot be read keeps the shape that is known of it, and no other from being looked at. Where the table of
dead letters cannot be read, what did not fit so far counts.

Its ticks need no log service, so that they also look whether the watchdog fails or hangs. A table or a lake that cannot be read fails no
tick, because a tick that fails forgets what it told of the watchdog: it is told once until it is over.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import dagster as dg
import pyarrow as pa
from deltalake.exceptions import DeltaError

from orchestration.dead_letters import DEAD_LETTERS, SCHEMA_RULE, DeadLetters
from orchestration.resources.lake import LakeResource
from orchestration.sensing.run_failures import Alert
from orchestration.sensing.watchdog import WATCHDOG, sensor_alerts, sensor_states
from orchestration.tables import RESERVED_NAMES, Lake
from orchestration.transforms import table_key

INTERVAL_S = 60
ALERTS = ":alerts"
"""Where the cursor keeps which failure of the watchdog was told; no table has such a name."""
LAKE = "the lake"
UNREAD = "unread"
UNREADABLE = (DeltaError, OSError, ValueError, pa.ArrowException)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A table as far as drift is concerned: types by column, and how many records did not fit the topic's schema so far."""

    columns: Mapping[str, str] = field(default_factory=dict)
    misfits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What changed between two shapes."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    new_misfits: int = 0

    @property
    def summary(self) -> str:
        """One sentence; empty where nothing changed."""
        parts = [f"{what} {', '.join(names)}" for what, names in self._named() if names]
        if self.new_misfits:
            parts.append(f"{self.new_misfits} more records do not fit the schema")
        return "; ".join(parts)

    def _named(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        return (("new columns", self.added), ("columns that are gone", self.removed), ("columns of another type", self.changed))


def decide_drift(before: Shape | None, now: Shape) -> Drift:
    """Return what changed; a table that is seen for the first time has not drifted, its misfits count."""
    if before is None:
        return Drift(new_misfits=now.misfits)
    common = before.columns.keys() & now.columns.keys()
    return Drift(
        added=tuple(sorted(now.columns.keys() - before.columns.keys())),
        removed=tuple(sorted(before.columns.keys() - now.columns.keys())),
        changed=tuple(sorted(name for name in common if before.columns[name] != now.columns[name])),
        new_misfits=max(now.misfits - before.misfits, 0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a tick saw: shapes by table, and why a table, or the whole lake, could not be read."""

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


def look_at(lake: Lake, before: Mapping[str, Shape]) -> Looked:
    """Look at every table of the lake; ``before`` are the shapes that are known."""
    try:
        names = [name for name in lake.names() if name not in RESERVED_NAMES]
    except UNREADABLE as error:
        return Looked(shapes=before, unread={LAKE: reason_of(error)})
    columns: dict[str, dict[str, str]] = {}
    unread: dict[str, str] = {}
    for name in names:
        try:
            columns |= columns_of(lake, name)
        except UNREADABLE as error:
            unread[name] = reason_of(error)
    try:
        misfits = misfits_of(lake, columns)
    except UNREADABLE as error:
        misfits = {name: before[name].misfits for name in columns if name in before}
        unread[DEAD_LETTERS] = reason_of(error)
    kept = {name: before[name] for name in names if name in before and name in unread}
    return Looked(
        shapes=kept | {name: Shape(columns=found, misfits=misfits.get(name, 0)) for name, found in columns.items()}, unread=unread
    )


def columns_of(lake: Lake, name: str) -> dict[str, dict[str, str]]:
    """Return a table's types by column, under its name; nothing where it is gone by now. Raises one of ``UNREADABLE``."""
    snapshot = lake.snapshot(name)
    return {} if snapshot is None else {name: {column.name: str(column.type) for column in snapshot.arrow_schema}}


def misfits_of(lake: Lake, tables: Collection[str]) -> dict[str, int]:
    """Return, by table, how many records did not fit the topic's schema so far. Raises one of ``UNREADABLE``."""
    found: dict[str, int] = {}
    for row in DeadLetters(lake).summary(tables):
        if row["rule"] == SCHEMA_RULE:
            target = str(row["target"])
            found[target] = found.get(target, 0) + int(row["count"])
    return found


def reason_of(error: Exception) -> str:
    """Return what an error says, or else what it is."""
    return str(error).strip() or type(error).__name__


def schema_drift_sensor(
    *,
    name: str = "schema_drift",
    interval_s: int = INTERVAL_S,
    notify: Callable[[Alert], None] | None = None,
    watchdog: str = WATCHDOG,
    now_s: Callable[[], float] = time.time,
) -> dg.SensorDefinition:
    """Return the sensor that tells when the shape of a table or of a topic's records changes.

    ``notify`` is called when the sensor of the name ``watchdog`` fails or hangs, because that one tells of all others, and when a table
    or the lake cannot be read.
    """

    @dg.sensor(
        name=name,
        minimum_interval_seconds=interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells when columns come, go or change their type, and when records stop fitting their topic's schema",
    )
    def watch_shapes(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SensorResult:
        told = watch_watchdog(context)
        before = read_shapes(context.cursor)
        looked = look_at(lake.open(), before)
        told = {subject: occurrence for subject, occurrence in told.items() if occurrence != UNREAD or subject in looked.unread}
        alerts = [
            Alert(subject=subject, run_id="", failures=1, why=why, what="could not be read") for subject, why in looked.unread.items()
        ]
        for alert in alerts:
            context.log.error(alert.text)
            if notify is not None and alert.subject not in told:
                notify(alert)
        drifts = {table: decide_drift(before.get(table), shape) for table, shape in looked.shapes.items()}
        events = [drift_event(table, drift, looked.shapes[table]) for table, drift in drifts.items() if drift.summary]
        quiet = "no table changed its shape" if looked.shapes else "the lake has no tables yet"
        return dg.SensorResult(
            skip_reason=None if events else dg.SkipReason("; ".join(alert.text for alert in alerts) or quiet),
            cursor=written(looked.shapes, {**told, **dict.fromkeys(looked.unread, UNREAD)}),
            asset_events=events,
        )

    def watch_watchdog(context: dg.SensorEvaluationContext) -> Mapping[str, str]:
        """Tell of the watchdog, and return what was told of it."""
        told = read_alerts(context.cursor)
        watched = [state for state in sensor_states(context.instance) if state.name == watchdog]
        found = sensor_alerts(context.instance, watched, now_s(), told)
        for alert in found:
            if told.get(alert.subject) != alert.run_id:
                context.log.error(alert.text)
                if notify is not None:
                    notify(alert)
        return {**told, **{alert.subject: alert.run_id for alert in found}}

    return watch_shapes


def drift_event(table: str, drift: Drift, now: Shape) -> dg.AssetObservation:
    """Return the observation that tells of a drift. Columns are a text: numbers of something so rare are plots of one point."""
    return dg.AssetObservation(
        asset_key=table_key(table),
        description=f"Schema drift: {drift.summary}",
        metadata={
            "columns": ", ".join(f"{name} {kind}" for name, kind in now.columns.items()),
            "records_misfit": now.misfits,
            "drift": drift.summary,
        },
    )


def read_shapes(cursor: str | None) -> dict[str, Shape]:
    """Read a cursor; one that cannot be read is one that was lost."""
    try:
        return {name: Shape(**one) for name, one in json.loads(cursor or "{}").items() if name != ALERTS}
    except (ValueError, TypeError, AttributeError):
        return {}


def read_alerts(cursor: str | None) -> dict[str, str]:
    """Read which failure was told last, by sensor; nothing where the cursor cannot be read."""
    try:
        return {str(subject): str(occurrence) for subject, occurrence in json.loads(cursor or "{}").get(ALERTS, {}).items()}
    except (ValueError, AttributeError):
        return {}


def written(shapes: Mapping[str, Shape], alerts: Mapping[str, str] | None = None) -> str:
    """Return the text that ``read_shapes`` and ``read_alerts`` read."""
    kept = {name: {**asdict(shape), "columns": dict(shape.columns)} for name, shape in sorted(shapes.items())}
    return json.dumps({**kept, **({ALERTS: dict(alerts)} if alerts else {})})
