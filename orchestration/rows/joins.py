"""Joins two topics by key and event time: pairs rows, keeps waiting rows, rejects late ones.

A left and a right row are a *pair* if their keys are equal and the right time is between ``before``
and ``after`` around the left time. This is Flink's interval join. The *watermark* is an event time:
rows that are read later should be at or above it, and those below it are late. A row is *kept*
while a row at or above the watermark may be its partner. An outer join returns a row without a
partner when the row is dropped. DuckDB computes the pairs over Arrow. Does not know topics, Spark,
files or clocks.
Invariants: two rows that are a pair are returned together exactly once, unless one was late,
however the records were cut into batches. A row without a partner is returned at most once, when no
partner can come any more. The watermark never decreases. A kept row may still find a partner.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orchestration.dead_letters.table import Rejection
from orchestration.values.times import FIRST_US, LAST_US, MICROSECOND, moment

Side = Literal["left", "right"]
How = Literal["inner", "left", "right", "full"]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
LEFT: Side = "left"
RIGHT: Side = "right"
SIDES = (LEFT, RIGHT)
OTHER: Mapping[Side, Side] = {LEFT: RIGHT, RIGHT: LEFT}
PLACE = ("_topic_id", "_partition", "_offset")
PLACES: Mapping[Side, str] = {LEFT: "_left", RIGHT: "_right"}
"""The columns of the result that hold the places of the records of a row."""
MATCHED = "_is_matched"
"""The column of kept rows that tells whether a row has found a partner."""
KEY_RULE = "join_on"
TIME_RULE = "event_time"
RECORD_TIME = "_timestamp"
"""The time of the record itself, as event time."""
LATE_RULE = "late"
UTC_TIME = pa.timestamp("us", tz="UTC")
NO_ROW = -1
MAX_PAIRS = 5_000_000
"""Most pairs of one batch, because the run holds them in memory.

A key that many records share on both sides makes more pairs than records.
"""


class JoinError(ValueError):
    """A batch cannot be joined. The text gives the reason and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinShape:
    """Defines which two rows are a pair, and how long a row waits for its partner.

    ``on`` has the key columns as (left, right) names, and ``event_time`` the left and the right
    column of event time. A right row is the partner of a left row if its time is at most
    ``before_us`` earlier and at most ``after_us`` later. A side without records for
    ``idle_after_us`` no longer holds the watermark back. With None it always does. An event time
    may be at most ``ahead_us`` after its record's timestamp, or any time with None.
    """

    on: tuple[tuple[str, str], ...]
    event_time: tuple[str, str]
    before_us: int
    after_us: int
    lateness_us: int
    how: How = "inner"
    idle_after_us: int | None = None
    ahead_us: int | None = None

    def keys(self, side: Side) -> list[str]:
        """Return the key columns of one side."""
        return [names[SIDES.index(side)] for names in self.on]

    def time(self, side: Side) -> str:
        """Return the column of event time of one side."""
        return self.event_time[SIDES.index(side)]

    def reach_us(self, side: Side) -> int:
        """Return by how many microseconds a partner of a row of ``side`` may be later than it."""
        return self.after_us if side == LEFT else self.before_us

    def is_outer(self, side: Side) -> bool:
        """Return whether rows of ``side`` without a partner are in the result."""
        return self.how in {side, "full"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SideClock:
    """The clock of one side: the greatest event time by partition, and the time of the last read.

    Both count microseconds since 1970.
    """

    topic_id: str
    greatest_us: Mapping[int, int]
    read_at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinClock:
    """The progress of event time after a commit, for each side and for the join.

    ``watermark_us`` is the join's watermark, None until both sides have one.
    """

    left: SideClock
    right: SideClock
    watermark_us: int | None = None

    def side(self, side: Side) -> SideClock:
        """Return the clock of one side."""
        return self.left if side == LEFT else self.right

    def newest(self, side: Side) -> datetime | None:
        """Return the greatest event time of one side."""
        return moment(max(times)) if (times := self.side(side).greatest_us.values()) else None

    @property
    def watermark(self) -> datetime | None:
        """Return the watermark as a time."""
        return None if self.watermark_us is None else moment(self.watermark_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The rows that a batch read of one side, with ``PLACE`` and the side's columns.

    ``waiting`` are the partitions with more records than the batch read. ``is_any_read`` tells
    whether any offsets of the topic were read.
    """

    topic_id: str
    rows: pa.Table
    waiting: frozenset[int] = frozenset()
    is_any_read: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStep:
    """The result of joining one batch.

    ``rows`` have the key columns by the left side's names, and ``left`` and ``right``. These two
    are structs of each side's columns, or null if there is no partner. ``_left`` and ``_right`` are
    structs of topic id, partition and offset of the two records.
    """

    rows: pa.Table
    kept: Mapping[Side, pa.Table]
    clock: JoinClock
    rejections: Mapping[Side, tuple[Rejection, ...]]


def joined(
    shape: JoinShape,
    kept: Mapping[Side, pa.Table],
    clock: JoinClock,
    arrivals: Mapping[Side, Arrivals],
    now_us: int,
    *,
    is_late_possible: bool = True,
) -> JoinStep:
    """Join a batch with itself and with the rows ``kept`` by the batches before.

    Kept rows have the columns of ``Arrivals`` and ``MATCHED``. Rows below the watermark of the last
    commit are late, and are rejected. Rows of this batch may raise the watermark for the next
    batch. With ``is_late_possible`` False no row is late, because a replay joins everything again.

    :raises JoinError: the batch has too many pairs.
    """
    usable, rejections, greatest = {}, {}, {}
    for side in SIDES:
        rows, unusable = _with_key_and_time(shape, side, arrivals[side].rows)
        rows, ahead = _not_ahead(shape, side, rows, now_us)
        greatest[side] = _greatest_by_partition(rows, shape.time(side), now_us)
        usable[side], late = _in_time(
            rows, shape.time(side), clock.watermark_us if is_late_possible else None
        )
        rejections[side] = (*unusable, *ahead, *late)
    after = advanced(shape, clock, arrivals, greatest, now_us)
    sides = {side: _Rows.of(shape, side, kept[side], usable[side]) for side in SIDES}
    pairs = _pairs(shape, sides)
    left, right = [pairs[LEFT]], [pairs[RIGHT]]
    remaining: dict[Side, pa.Table] = {}
    for side in SIDES:
        found = sides[side].with_partners(pairs[side])
        is_kept = (
            found.times_us + shape.reach_us(side) >= after.watermark_us
            if after.watermark_us is not None
            else found.all
        )
        remaining[side] = found.rows.filter(pa.array(is_kept))
        if shape.is_outer(side):
            alone = np.flatnonzero(~is_kept & ~found.is_matched)
            no_rows = np.full(len(alone), NO_ROW, np.int64)
            left.append(alone if side == LEFT else no_rows)
            right.append(alone if side == RIGHT else no_rows)
    rows = _side_by_side(shape, sides, np.concatenate(left), np.concatenate(right))
    return JoinStep(rows=rows, kept=remaining, clock=after, rejections=rejections)


def first_clock(topic_ids: Mapping[Side, str], now_us: int) -> JoinClock:
    """Return the clock of a join that has read nothing yet."""
    left, right = (
        SideClock(topic_id=topic_ids[side], greatest_us={}, read_at_us=now_us) for side in SIDES
    )
    return JoinClock(left=left, right=right)


def advanced(
    shape: JoinShape,
    clock: JoinClock,
    arrivals: Mapping[Side, Arrivals],
    greatest: Mapping[Side, Mapping[int, int]],
    now_us: int,
) -> JoinClock:
    """Return the clock after a batch. ``greatest`` are its greatest event times by partition.

    The watermark is the lesser of both sides' watermarks. An idle side does not hold it back.
    """
    sides = {
        side: _seen(clock.side(side), arrivals[side], greatest[side], now_us) for side in SIDES
    }
    marks = [
        _mark(shape, sides[side], arrivals[side])
        for side in SIDES
        if not is_idle(shape, sides[side], arrivals[side], now_us)
    ]
    known = [mark for mark in marks if mark is not None]
    watermark_us = clock.watermark_us
    if marks and len(known) == len(marks):
        watermark_us = min(known) if watermark_us is None else max(min(known), watermark_us)
    return JoinClock(left=sides[LEFT], right=sides[RIGHT], watermark_us=watermark_us)


def is_idle(shape: JoinShape, clock: SideClock, arrivals: Arrivals, now_us: int) -> bool:
    """Return whether a side had no records for ``idle_after_us`` and has none to read."""
    is_silent = not arrivals.is_any_read and not arrivals.waiting
    return (
        shape.idle_after_us is not None
        and is_silent
        and now_us - clock.read_at_us >= shape.idle_after_us
    )


def _seen(
    clock: SideClock, arrivals: Arrivals, greatest: Mapping[int, int], now_us: int
) -> SideClock:
    """Return a side's clock after a batch.

    If the topic was recreated, the clock starts again, because its partitions are new.
    """
    before = clock.greatest_us if clock.topic_id == arrivals.topic_id else {}
    together = {
        partition: max(times[partition] for times in (before, greatest) if partition in times)
        for partition in {*before, *greatest}
    }
    read_at_us = now_us if arrivals.is_any_read else clock.read_at_us
    return SideClock(topic_id=arrivals.topic_id, greatest_us=together, read_at_us=read_at_us)


def _mark(shape: JoinShape, clock: SideClock, arrivals: Arrivals) -> int | None:
    """Return one side's watermark, its greatest event time minus the lateness, or None.

    If partitions have more records to read, the least of their greatest times counts instead.
    Otherwise records that are read later from a backlog would be late.
    """
    if arrivals.waiting:
        if not arrivals.waiting <= clock.greatest_us.keys():
            return None
        return (
            min(clock.greatest_us[partition] for partition in arrivals.waiting) - shape.lateness_us
        )
    return max(clock.greatest_us.values()) - shape.lateness_us if clock.greatest_us else None


def _with_key_and_time(
    shape: JoinShape, side: Side, rows: pa.Table
) -> tuple[pa.Table, tuple[Rejection, ...]]:
    """Return the rows with a key and a time, and the rejections of the others.

    A row of a year beyond 9999 is rejected, because the watermark would never reach it.
    """
    found: list[Rejection] = []
    for column in shape.keys(side):
        why = f"the column {column}, by which records are joined, is null"
        found += _rejections(rows.filter(rows[column].is_null()), why, KEY_RULE)
        rows = rows.filter(rows[column].is_valid())
    time = shape.time(side)
    found += _rejections(
        rows.filter(rows[time].is_null()), f"the event time {time} is null", TIME_RULE
    )
    rows = rows.filter(rows[time].is_valid())
    times_us = _times_us(rows, time)
    is_told = (times_us >= FIRST_US) & (times_us <= LAST_US)
    why = (
        f"the event time {time} lies outside of the years 1 to 9999: is it written in another unit"
        " than declared?"
    )
    found += _rejections(rows.filter(pa.array(~is_told)), why, TIME_RULE)
    return rows.filter(pa.array(is_told)), tuple(found)


def _not_ahead(
    shape: JoinShape, side: Side, rows: pa.Table, now_us: int
) -> tuple[pa.Table, tuple[Rejection, ...]]:
    """Return the rows that are not too far ahead of their records, and rejections of the others.

    A row far ahead would be kept until the watermark reaches it. A record's timestamp counts at
    most as the current time, because a producer may stamp any time.
    """
    if shape.ahead_us is None:
        return rows, ()
    time = shape.time(side)
    times_us = _times_us(rows, time)
    stamped = pc.fill_null(rows[RECORD_TIME].cast(UTC_TIME).cast(pa.int64()), now_us)
    record_us = np.minimum(np.asarray(stamped.to_numpy(), np.int64), now_us)
    is_ahead = times_us > record_us + shape.ahead_us
    far = rows.filter(pa.array(is_ahead))
    reasons = [
        f"the event time {time} is {moment(time_us).isoformat()}, more than"
        f" {shape.ahead_us * MICROSECOND} ahead of {moment(max(stamp_us, FIRST_US)).isoformat()},"
        " the time of the record: is its clock right? The join says how far ahead it may be"
        for time_us, stamp_us in zip(
            times_us[is_ahead].tolist(), record_us[is_ahead].tolist(), strict=True
        )
    ]
    return rows.filter(pa.array(~is_ahead)), _each_rejected(far, reasons, TIME_RULE)


def _in_time(
    rows: pa.Table, time: str, watermark_us: int | None
) -> tuple[pa.Table, tuple[Rejection, ...]]:
    """Return the rows at or above the watermark, and the rejections of the late ones."""
    if watermark_us is None:
        return rows, ()
    times_us = _times_us(rows, time)
    is_late = times_us < watermark_us
    late = rows.filter(pa.array(is_late))
    reasons = [
        f"late by {(watermark_us - time_us) * MICROSECOND}: {time} is"
        f" {moment(time_us).isoformat()}, and the watermark was at"
        f" {moment(watermark_us).isoformat()}"
        for time_us in times_us[is_late].tolist()
    ]
    return rows.filter(pa.array(~is_late)), _each_rejected(late, reasons, LATE_RULE)


def _rejections(rows: pa.Table, reason: str, rule: str) -> tuple[Rejection, ...]:
    return _each_rejected(rows, [reason] * rows.num_rows, rule)


def _each_rejected(rows: pa.Table, reasons: Sequence[str], rule: str) -> tuple[Rejection, ...]:
    return tuple(
        Rejection(partition=partition, offset=offset, reason=reason, rule=rule)
        for partition, offset, reason in zip(
            rows["_partition"].to_pylist(), rows["_offset"].to_pylist(), reasons, strict=True
        )
    )


def _greatest_by_partition(rows: pa.Table, time: str, now_us: int) -> dict[int, int]:
    """Return the greatest event time of each partition.

    Times after the current time are ignored, because one wrong clock would make all other records
    late.
    """
    times_us, partitions = _times_us(rows, time), rows["_partition"].to_numpy()
    is_past = times_us <= now_us
    return {
        int(one): int(times_us[is_past & (partitions == one)].max())
        for one in np.unique(partitions[is_past])
    }


def _times_us(rows: pa.Table, time: str) -> Numbers:
    return np.asarray(rows[time].cast(UTC_TIME).cast(pa.int64()).to_numpy(), np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """The kept and the new rows of a side, with their times and flags."""

    keys: list[str]
    rows: pa.Table
    times_us: Numbers
    is_new: Flags

    @classmethod
    def of(cls, shape: JoinShape, side: Side, kept: pa.Table, new: pa.Table) -> "_Rows":
        unmatched = new.append_column(MATCHED, pa.array(np.zeros(new.num_rows, np.bool_)))
        rows = pa.concat_tables([kept.select(unmatched.column_names), unmatched])
        is_new = np.arange(rows.num_rows) >= kept.num_rows
        return cls(
            keys=shape.keys(side),
            rows=rows,
            times_us=_times_us(rows, shape.time(side)),
            is_new=is_new,
        )

    @property
    def all(self) -> Flags:
        return np.ones(self.rows.num_rows, np.bool_)

    @property
    def is_matched(self) -> Flags:
        return np.asarray(self.rows[MATCHED].to_numpy(zero_copy_only=False), np.bool_)

    def with_partners(self, matched: Numbers) -> "_Rows":
        """Return the rows, with those numbered in ``matched`` marked as having a partner."""
        flags = self.is_matched.copy()
        flags[matched] = True
        position = self.rows.schema.get_field_index(MATCHED)
        return replace(self, rows=self.rows.set_column(position, MATCHED, pa.array(flags)))

    def index(self) -> pa.Table:
        """Return the table that DuckDB joins: keys ``k0``, ``k1``, ..., time, row number, flag.

        The flag marks new rows.
        """
        columns = {f"k{number}": self.rows[name] for number, name in enumerate(self.keys)}
        return pa.table(
            {
                **columns,
                "t": self.times_us,
                "n": np.arange(self.rows.num_rows),
                "is_new": self.is_new,
            }
        )


def _pairs(shape: JoinShape, sides: Mapping[Side, _Rows]) -> dict[Side, Numbers]:
    """Return the pairs with at least one new row, as the row numbers of both sides.

    :raises JoinError: there are too many pairs.
    """
    same = " AND ".join(f"l.k{number} = r.k{number}" for number in range(len(shape.on)))
    near = f"r.t BETWEEN l.t - {shape.before_us:d} AND l.t + {shape.after_us:d}"
    select = f"SELECT l.n AS l, r.n AS r FROM {{}} AS l JOIN {{}} AS r ON {same} AND {near}"  # noqa: S608 - numbers and our own names
    new, old = "(SELECT * FROM {} WHERE is_new)", "(SELECT * FROM {} WHERE NOT is_new)"
    of_new_left = select.format(new.format("lefts"), "rights")
    of_old_left = select.format(old.format("lefts"), new.format("rights"))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("lefts", sides[LEFT].index())
        connection.register("rights", sides[RIGHT].index())
        query = f"SELECT l, r FROM ({of_new_left} UNION ALL {of_old_left}) LIMIT {MAX_PAIRS + 1:d}"  # noqa: S608
        found = connection.sql(query).fetchnumpy()
    left, right = np.asarray(found["l"], np.int64), np.asarray(found["r"], np.int64)
    if len(left) > MAX_PAIRS:
        raise JoinError(
            f"a batch gives more than {MAX_PAIRS} pairs: {', '.join(shape.keys(LEFT))} is the same"
            " in too many records of both topics. Nothing was committed. Join on more columns,"
            " shorten within, or set a smaller records_per_run"
        )
    order = np.lexsort((right, left))
    return {LEFT: left[order], RIGHT: right[order]}


def _side_by_side(
    shape: JoinShape, sides: Mapping[Side, _Rows], left: Numbers, right: Numbers
) -> pa.Table:
    """Return the result rows for pairs of row numbers. ``NO_ROW`` means a missing partner."""
    numbers = {LEFT: left, RIGHT: right}
    taken = {
        side: (
            sides[side]
            .rows.take(pa.array(numbers[side], mask=numbers[side] == NO_ROW))
            .combine_chunks()
        )
        for side in SIDES
    }
    columns = [
        _either(taken[LEFT][mine], taken[RIGHT][theirs], numbers[LEFT] == NO_ROW)
        for mine, theirs in shape.on
    ]
    columns += [
        _struct(taken[side].drop_columns([MATCHED, "_topic_id"]), numbers[side] == NO_ROW)
        for side in SIDES
    ]
    columns += [
        _struct(taken[side].select(PLACE), numbers[side] == NO_ROW, strip=True) for side in SIDES
    ]
    return pa.table(columns, names=[*shape.keys(LEFT), *SIDES, *(PLACES[side] for side in SIDES)])


def _either(left: pa.ChunkedArray, right: pa.ChunkedArray, is_right: Flags) -> pa.Array:
    return pc.if_else(pa.array(is_right), right, left)


def _struct(rows: pa.Table, is_null: Flags, *, strip: bool = False) -> pa.StructArray:
    """Return the columns of ``rows`` as one struct column, which is null where ``is_null`` is set.

    ``strip`` removes the underscore from the names of the columns.
    """
    fields = [
        pa.field(field.name.removeprefix("_") if strip else field.name, field.type)
        for field in rows.schema
    ]
    arrays = [column.combine_chunks() for column in rows.columns]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(is_null))
