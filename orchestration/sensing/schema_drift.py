"""Notices changes in the shape of tables, and records that stop fitting their topic's schema.

A shape is the types of a table's columns and the number of misfits, which are records that did not
fit the schema. The sensor compares the shapes in the cursor with the current ones, and reports a
drift as an observation on the table. It starts no run. Each table is read by itself. An unreadable
table keeps its known shape, and does not block others. If the table of dead letters is unreadable,
the known number of misfits is kept.

Its ticks also look for new versions of topics' subjects in schema registries (``registry_drift``).
They need no log service, so they also check whether the watchdog fails or hangs. If a table or
the lake is unreadable, that is reported once until it is over. The tick does not fail then, because
a failed tick would forget what it has reported about the watchdog.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import dagster as dg
import pyarrow as pa
from deltalake.exceptions import DeltaError

from orchestration.dead_letters.table import DEAD_LETTERS, SCHEMA_RULE, DeadLetters
from orchestration.lake.tables import RESERVED_NAMES, Lake
from orchestration.resources.lake import LakeResource
from orchestration.sensing.registry_drift import (
    decide_registry_drift,
    look_at_registry,
    registry_events,
)
from orchestration.sensing.run_failures import Alert
from orchestration.sensing.watchdog import WATCHDOG, sensor_alerts, sensor_states
from orchestration.topics.spec import topic_specs
from orchestration.transforms import table_key, topic_feeds

INTERVAL_S = 60
REGISTRY = ":registry"
"""The cursor's field for the newest reported version of each topic's subject."""
ALERTS = ":alerts"
"""The cursor's field for the last reports by subject. No table has such a name."""
ASKED = ":asked"
"""The cursor's field for the topic that was asked last, in a tick that a slow registry ended."""
FIELDS = (REGISTRY, ALERTS, ASKED)
TOPIC = "topic"
LAKE = "the lake"
UNREAD = "unread"
UNREADABLE = (DeltaError, OSError, ValueError, pa.ArrowException)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of a table: types by column, and how many records did not fit the schema."""

    columns: Mapping[str, str] = field(default_factory=dict)
    misfits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The changes between two shapes."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    new_misfits: int = 0

    @property
    def summary(self) -> str:
        """The changes as one sentence, empty without any."""
        parts = [f"{what} {', '.join(names)}" for what, names in self._named() if names]
        if self.new_misfits:
            parts.append(f"{self.new_misfits} more records do not fit the schema")
        return "; ".join(parts)

    def _named(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        return (
            ("new columns", self.added),
            ("columns that are gone", self.removed),
            ("columns of another type", self.changed),
        )


def decide_drift(before: Shape | None, now: Shape) -> Drift:
    """Return the changes from the shape ``before`` to the shape ``now``.

    For a table that is seen for the first time no column is new, but its misfits count.
    """
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
    """The findings of a tick: shapes by table, and why a table, or the lake, was unreadable."""

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


def look_at(lake: Lake, before: Mapping[str, Shape]) -> Looked:
    """Read the shape of every table of the lake. ``before`` are the known shapes."""
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
        shapes=kept
        | {
            name: Shape(columns=found, misfits=misfits.get(name, 0))
            for name, found in columns.items()
        },
        unread=unread,
    )


def columns_of(lake: Lake, name: str) -> dict[str, dict[str, str]]:
    """Return the types of a table's columns, as ``{name: {column: type}}``.

    It is empty if the table is gone by now. Raises one of ``UNREADABLE``.
    """
    snapshot = lake.snapshot(name)
    return (
        {}
        if snapshot is None
        else {name: {column.name: str(column.type) for column in snapshot.arrow_schema}}
    )


def misfits_of(lake: Lake, tables: Collection[str]) -> dict[str, int]:
    """Return by table how many records did not fit the topic's schema.

    Raises one of ``UNREADABLE``.
    """
    found: dict[str, int] = {}
    for row in DeadLetters(lake).summary(tables):
        if row["rule"] == SCHEMA_RULE:
            target = str(row["target"])
            found[target] = found.get(target, 0) + int(row["count"])
    return found


DESCRIPTION = (
    "Tells when columns come, go or change their type, and when records stop fitting their topic's"
    " schema"
)


def reason_of(error: Exception) -> str:
    """Return the text of an error, or else its type."""
    return str(error).strip() or type(error).__name__


def schema_drift_sensor(
    *,
    name: str = "schema_drift",
    interval_s: int = INTERVAL_S,
    notify: Callable[[Alert], None] | None = None,
    watchdog: str = WATCHDOG,
    now_s: Callable[[], float] = time.time,
) -> dg.SensorDefinition:
    """Return the sensor that reports a changed shape of a table or of a topic's records.

    It also reports new versions of the subjects of topics. ``notify`` is called when the sensor
    named ``watchdog`` fails or hangs, because that sensor reports on all others. It is also called
    when a table, the lake or a schema registry is unreadable, and when a new version of a subject
    does not fit the columns of its topic.
    """

    @dg.sensor(
        name=name,
        minimum_interval_seconds=interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=DESCRIPTION,
    )
    def watch_shapes(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SensorResult:
        reported = watch_watchdog(context)
        before = read_shapes(context.cursor)
        looked = look_at(lake.open(), before)
        assets = () if context.repository_def is None else context.repository_def.assets_defs_by_key
        defined = list(dict(assets).values())
        specs = {spec.name: spec for spec in topic_specs(defined)}
        of_registry = look_at_registry(specs.values(), now_s, read_last_topic(context.cursor))
        news = decide_registry_drift(read_field(context.cursor, REGISTRY), of_registry, specs)
        unread = {**looked.unread, **of_registry.unread}
        reported = {key: text for key, text in reported.items() if text != UNREAD or key in unread}
        alerts = [
            Alert(subject=subject, run_id="", failures=1, why=why, what="could not be read")
            for subject, why in unread.items()
        ]
        for alert in [*alerts, *news.alerts]:
            context.log.error(alert.text)
            if notify is not None and alert.subject not in reported:
                notify(alert)
        reported |= dict.fromkeys(unread, UNREAD)
        events = table_events(before, looked.shapes)
        feeds = topic_feeds(defined)
        for topic in news.reported:
            events += registry_events(specs[topic], feeds, of_registry.verdicts[topic])
        quiet = "no table changed its shape" if looked.shapes else "the lake has no tables yet"
        return dg.SensorResult(
            skip_reason=(
                None
                if events
                else dg.SkipReason("; ".join(alert.text for alert in alerts) or quiet)
            ),
            cursor=written(looked.shapes, reported, news.remembered, of_registry.last_topic),
            asset_events=events,
        )

    def watch_watchdog(context: dg.SensorEvaluationContext) -> Mapping[str, str]:
        """Alert about the watchdog's failures, and return those that were reported."""
        reported = read_alerts(context.cursor)
        watched = [state for state in sensor_states(context.instance) if state.name == watchdog]
        found = sensor_alerts(context.instance, watched, now_s(), reported)
        for alert in found:
            if reported.get(alert.subject) != alert.run_id:
                context.log.error(alert.text)
                if notify is not None:
                    notify(alert)
        return {**reported, **{alert.subject: alert.run_id for alert in found}}

    return watch_shapes


def table_events(
    before: Mapping[str, Shape], shapes: Mapping[str, Shape]
) -> list[dg.AssetObservation | dg.AssetCheckEvaluation]:
    """Return the observations of the tables whose shape changed."""
    drifts = {table: decide_drift(before.get(table), shape) for table, shape in shapes.items()}
    return [
        drift_event(table, drift, shapes[table]) for table, drift in drifts.items() if drift.summary
    ]


def drift_event(table: str, drift: Drift, now: Shape) -> dg.AssetObservation:
    """Return the observation that reports a table's drift to Dagster.

    Its metadata lists the columns as one text and does not count them, because Dagster plots
    numbers, and so rare an event gives a plot of one point.
    """
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
    """Read a cursor. An unreadable one counts as lost."""
    try:
        return {
            name: Shape(**one)
            for name, one in json.loads(cursor or "{}").items()
            if name not in FIELDS
        }
    except (ValueError, TypeError, AttributeError):
        return {}


def read_alerts(cursor: str | None) -> dict[str, str]:
    """Read the last report of each subject, empty if the cursor is unreadable.

    A subject is the watchdog with the id of the tick, or something that could not be read, such as
    a table, with ``UNREAD``.
    """
    return read_field(cursor, ALERTS)


def read_last_topic(cursor: str | None) -> str:
    """Read the topic that the last tick asked about last, empty if it asked about all."""
    return read_field(cursor, ASKED).get(TOPIC, "")


def read_field(cursor: str | None, name: str) -> dict[str, str]:
    """Read a field that is an object of texts, empty if the cursor is unreadable."""
    try:
        return {
            str(subject): str(text)
            for subject, text in json.loads(cursor or "{}").get(name, {}).items()
        }
    except (ValueError, AttributeError):
        return {}


def written(
    shapes: Mapping[str, Shape],
    alerts: Mapping[str, str] | None = None,
    registry: Mapping[str, str] | None = None,
    last_topic: str = "",
) -> str:
    """Return the text that ``read_shapes`` and ``read_field`` read."""
    kept = {
        name: {**asdict(shape), "columns": dict(shape.columns)}
        for name, shape in sorted(shapes.items())
    }
    asked = {TOPIC: last_topic} if last_topic else {}
    fields = ((ALERTS, alerts), (REGISTRY, registry), (ASKED, asked))
    others = {name: dict(one) for name, one in fields if one}
    return json.dumps({**kept, **others})
