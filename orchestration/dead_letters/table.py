"""Keeps the records that tables rejected in one Delta table, with the reason.

The target is the table that rejected a record. Two tables cannot commit together, and the target's
commit alone decides which dead letters count. So the dead letters are committed first. Each commit
of them is an *attempt* with a rising number per target and topic id.
New rows have it as ``attempt``, and rows that a replay withdraws have it as ``ended_by``. The
target's commit then names the number (application transaction ``letters/<topic id>``). From that
moment the new rows count and the withdrawn ones do not. Readers use ``committed``. Knows no rule
and no Spark.

A killed attempt leaves rows with a number that the target never named. The next attempt removes
them after an empty commit to the target (``fence``). If the run that wrote these rows is still
alive, its commit to the target then conflicts, instead of naming rows that are gone.
Invariants: a committed record is either in its target or a dead letter that counts, never both and
never neither. Of two rival runs of a target the slower one gets a conflict and erases nothing,
because it commits from a snapshot loaded before it read the checkpoint.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from orchestration.lake.quoting import quoted_text
from orchestration.lake.tables import (
    CommitConflictError,
    Lake,
    TableSnapshot,
    add_columns,
    fence,
    overwrite_where,
    ranges_predicate,
)
from orchestration.log_client.protocol import HEADERS
from orchestration.offsets.planning import Checkpoint
from orchestration.offsets.ranges import OffsetRange, OffsetRanges, ranges_of_offsets

DEAD_LETTERS = "dead_letters"
DUPLICATE = "duplicate"
SCHEMA_RULE = "schema"
"""The rule of a record whose value does not fit its topic's schema."""
MAX_REPLAY_RANGES_PER_PARTITION = 50
RIVAL_ATTEMPTS = 10
ENVELOPE = pa.schema(
    [
        pa.field("target", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("_topic_id", pa.string()),
        pa.field("_partition", pa.int32()),
        pa.field("_offset", pa.int64()),
        pa.field("_timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("reason", pa.string()),
        pa.field("rule", pa.string()),
        pa.field("run_id", pa.string()),
        pa.field("rejected_at", pa.timestamp("us", tz="UTC")),
        pa.field("duplicate_of", pa.string()),
        pa.field("attempt", pa.int64()),
        pa.field("ended_by", pa.int64()),
        pa.field("headers", HEADERS),
    ]
)
ADDED_LATER = ("duplicate_of", "attempt", "ended_by", "headers")
"""Columns that the tables of earlier releases lack.

They are added when such a table is first opened.
"""
PARTITION_COLUMN = "target"
NOT_ENDED = -1
"""``ended_by`` of a row that an attempt was to end, but the attempt was given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """The reason why one record is not in the table.

    ``rule`` is the rule's name, "schema" or "unique_by". For a repeated key, ``duplicate_of`` is
    the place ``partition:offset`` of the record with the key. It begins with ``topic id/`` if that
    record is of a deleted topic with the same name.
    """

    partition: int
    offset: int
    reason: str
    rule: str
    duplicate_of: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of dead letters: the target table, the topic's name and id, and the run."""

    target: str
    topic: str
    topic_id: str
    run_id: str


def envelopes(
    origin: Origin, rejections: Sequence[Rejection], records: pa.Table, now: datetime
) -> pa.Table:
    """Join ``rejections`` with their ``records`` into rows of the dead-letter table.

    The records have the columns ``_partition, _offset, _timestamp, key, value, headers``.

    :raises LookupError: a rejected record is not among the records.
    """
    why = {(one.partition, one.offset): one for one in rejections}
    found = list(
        zip(records["_partition"].to_pylist(), records["_offset"].to_pylist(), strict=True)
    )
    missing = why.keys() - set(found)
    if missing:
        raise LookupError(
            f"{len(missing)} rejected records of topic {origin.topic} are not in the batch, e.g."
            f" partition and offset {min(missing)}"
        )
    kept = records.filter(pa.array([place in why for place in found], pa.bool_()))
    reasons = [why[place] for place in found if place in why]
    size = len(reasons)
    return pa.table(
        [
            [origin.target] * size,
            [origin.topic] * size,
            [origin.topic_id] * size,
            *(kept[name] for name in ("_partition", "_offset", "_timestamp", "key", "value")),
            [one.reason for one in reasons],
            [one.rule for one in reasons],
            [origin.run_id] * size,
            pa.array([now] * size, ENVELOPE.field("rejected_at").type),
            [one.duplicate_of for one in reasons],
            pa.nulls(size, pa.int64()),
            pa.nulls(size, pa.int64()),
            kept["headers"],
        ],
        schema=ENVELOPE,
    )


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead-letter table of a lake."""

    lake: Lake

    def snapshot(self) -> TableSnapshot:
        """Return the newest version, created empty if need be.

        A run loads it before it reads its target's checkpoint.
        """
        description = "Records that tables rejected, with reason and offset"
        found = self.lake.snapshot(DEAD_LETTERS) or self.lake.create(
            DEAD_LETTERS, ENVELOPE, description=description, partition_by=[PARTITION_COLUMN]
        )
        missing = [
            ENVELOPE.field(name) for name in ADDED_LATER if name not in found.arrow_schema.names
        ]
        return add_columns(found, missing, partition_by=[PARTITION_COLUMN]) if missing else found

    def cleaned(
        self, snapshot: TableSnapshot, origin: Origin, target: TableSnapshot
    ) -> TableSnapshot:
        """Undo the attempts that the target never named, and return the newest version.

        Their rows are removed, and the dead letters that they were to end stay. Usually there are
        no such attempts, and then no commit is made. The target is fenced first, so that none of
        these attempts can be named any more.

        :raises CommitConflictError: since the snapshots, another run committed to the target, or
            dead letters of the target.
        """
        named = named_attempt(target, origin.topic_id)
        unnamed = pads.field("attempt") > named
        ended = pads.field("ended_by").is_valid() & (pads.field("ended_by") != NOT_ENDED)
        left = snapshot.dataset().to_table(
            columns=ENVELOPE.names, filter=_own(origin) & (unnamed | ended)
        )
        if not left.num_rows:
            return snapshot
        fence(target, {letters_transaction(origin.topic_id): named})
        is_kept = (pads.field("attempt").is_null() | (pads.field("attempt") <= named)) & (
            pads.field("ended_by") > named
        )
        kept = left.filter(is_kept)
        kept = kept.set_column(
            kept.schema.get_field_index("ended_by"),
            "ended_by",
            pa.array([NOT_ENDED] * kept.num_rows, pa.int64()),
        )
        predicate = f"{_own_sql(origin)} AND (attempt > {named} OR ended_by IS NOT NULL)"
        undone = snapshot.dataset().to_table(
            columns=ENVELOPE.names, filter=_own(origin) & (pads.field("ended_by") == NOT_ENDED)
        )
        rows = pa.concat_tables([kept, undone]).cast(ENVELOPE)
        return self._overwrite(
            snapshot,
            _Commit(
                origin=origin, predicate=predicate, rows=rows, note="left by attempts that ended"
            ),
        )

    def replace_pending(
        self,
        snapshot: TableSnapshot,
        origin: Origin,
        ranges: OffsetRanges,
        committed: Mapping[int, Checkpoint],
        rows: pa.Table,
    ) -> int | None:
        """Commit ``rows`` as the dead letters of ``ranges`` that do not count yet.

        They replace all rows at or above the checkpoints. Return the number of the attempt, which
        the target's commit has to name. It is None, without a commit, if there are neither rows nor
        earlier dead letters to replace.

        :raises CommitConflictError: a rival run of the same target committed dead letters since
            ``snapshot``.
        """
        bounds = {
            one.partition: committed[one.partition].next_offset if one.partition in committed else 0
            for one in ranges
        }
        parts = [
            f"(_partition = {partition} AND _offset >= {bound})"
            for partition, bound in bounds.items()
        ]
        if rows.num_rows == 0 and not _is_pending(snapshot, origin, bounds):
            return None
        attempt = next_attempt(snapshot, origin)
        predicate = f"{_own_sql(origin)} AND ({' OR '.join(parts)})"
        self._overwrite(
            snapshot,
            _Commit(
                origin=origin,
                predicate=predicate,
                rows=_numbered(rows, "attempt", attempt),
                note=f"pending of {ranges}",
            ),
        )
        return attempt

    def begin_replay(
        self, snapshot: TableSnapshot, origin: Origin, ranges: OffsetRanges, rows: pa.Table
    ) -> int | None:
        """Commit ``rows``, the rejections of a replay, beside the dead letters that they replace.

        ``ranges`` are those of the replay. The target's commit decides which of them count, and has
        to name the returned number. It is None, without a commit, if there were no dead letters and
        are none now.

        :raises CommitConflictError: a rival run of the same target committed dead letters since
            ``snapshot``.
        """
        existing = self._of_ranges(snapshot, origin, ranges)
        if rows.num_rows + existing.num_rows == 0:
            return None
        attempt = next_attempt(snapshot, origin)
        both = pa.concat_tables(
            [_numbered(existing, "ended_by", attempt), _numbered(rows, "attempt", attempt)]
        )
        self._overwrite_ranges(snapshot, origin, ranges, both)
        return attempt

    def settle_replay(self, origin: Origin, ranges: OffsetRanges, attempt: int) -> None:
        """Remove the rows that the attempt has ended, after the target named it.

        This only saves space, because these rows do not count any more. So a conflict is ignored.
        """
        snapshot = self.snapshot()
        existing = self._of_ranges(snapshot, origin, ranges)
        kept = existing.filter(pc.field("ended_by").is_null() | (pc.field("ended_by") != attempt))
        if kept.num_rows != existing.num_rows:
            with suppress(CommitConflictError):
                self._overwrite_ranges(snapshot, origin, ranges, kept)

    def committed(self, targets: Collection[str] | None = None) -> pads.Dataset:
        """Return the dead letters that count.

        Their offsets are below the checkpoint of their target, and the target has named their
        attempt. ``targets`` restricts them to these tables, and no other table is read. If there
        was no rejection yet, there is no table, and a reader does not create one.
        """
        snapshot = self._written()
        if snapshot is None:
            return pads.dataset(ENVELOPE.empty_table())
        return snapshot.dataset().filter(self._committed_expression(snapshot, targets))

    def pending(self) -> pads.Dataset:
        """Return the dead letters that do not count.

        They come from a run that has not committed yet, or was killed before it could.
        """
        snapshot = self._written()
        if snapshot is None:
            return pads.dataset(ENVELOPE.empty_table())
        return snapshot.dataset().filter(~self._committed_expression(snapshot))

    def of_target(
        self, target: str, chosen: pads.Expression | None = None, *, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the dead letters of a table that count, in the order of their offsets.

        The order is by topic id, partition and offset. The columns ``attempt`` and ``ended_by`` are
        left out. ``chosen`` is a further filter.
        """
        own = pads.field("target") == target
        found = self.committed([target]).filter(own if chosen is None else own & chosen)
        columns = [name for name in ENVELOPE.names if name not in {"attempt", "ended_by"}]
        order = [("_topic_id", "ascending"), ("_partition", "ascending"), ("_offset", "ascending")]
        rows = found.to_table(columns=columns).sort_by(order)
        return list((rows if limit is None else rows.slice(0, limit)).to_pylist())

    def topics_of(self, target: str) -> dict[str, str]:
        """Return the names of the topics, by id, of which a table has dead letters that count."""
        rows = self.committed([target]).to_table(
            columns=["_topic_id", "topic"], filter=pads.field("target") == target
        )
        return {
            row["_topic_id"]: row["topic"]
            for row in rows.group_by(["_topic_id", "topic"]).aggregate([]).to_pylist()
        }

    def summary(self, targets: Collection[str] | None = None) -> list[dict[str, str | int]]:
        """Return the counts of committed dead letters by target, topic, rule and reason.

        The most frequent come first. ``targets`` restricts them to these tables.
        """
        columns = ["target", "topic", "rule", "reason"]
        counted = (
            self.committed(targets)
            .to_table(columns=columns)
            .group_by(columns)
            .aggregate([([], "count_all")])
        )
        ordered = counted.sort_by(
            [("count_all", "descending"), ("target", "ascending"), ("rule", "ascending")]
        )
        return list(ordered.rename_columns([*columns, "count"]).to_pylist())

    def by_day(self) -> list[dict[str, str | int]]:
        """Return the counts of committed dead letters by day, target and rule, in order.

        The day is that of the rejection (UTC).
        """
        found = self.committed().to_table(columns=["rejected_at", "target", "rule"])
        days = pc.strftime(found["rejected_at"], format="%Y-%m-%d")
        columns = ["day", "target", "rule"]
        counted = found.set_column(0, "day", days).group_by(columns).aggregate([([], "count_all")])
        ordered = counted.sort_by([(name, "ascending") for name in columns])
        return list(ordered.rename_columns([*columns, "count"]).to_pylist())

    def newest(self, count: int) -> list[dict[str, Any]]:
        """Return the ``count`` committed dead letters that were rejected last, newest first.

        They come without their keys.
        """
        names = [name for name in ENVELOPE.names if name not in {"key", "attempt", "ended_by"}]
        places = self.committed().to_table(columns=["rejected_at"])["rejected_at"]
        if not len(places):
            return []
        rows = (
            self.committed()
            .filter(pads.field("rejected_at") >= pc.scalar(_nth_newest(places, count)))
            .to_table(columns=names)
        )
        return list(
            rows.sort_by([("rejected_at", "descending"), ("_offset", "descending")])
            .slice(0, count)
            .to_pylist()
        )

    def replay_ranges(self, target: str, topic_id: str) -> list[OffsetRange]:
        """Return ranges that cover the committed dead letters of ``target``.

        There are at most fifty per partition, so they may include other offsets.
        """
        offsets = self.places(target, topic_id)
        return [
            one
            for partition in sorted(offsets)
            for one in ranges_of_offsets(
                partition, offsets[partition], MAX_REPLAY_RANGES_PER_PARTITION
            )
        ]

    def places(self, target: str, topic_id: str) -> dict[int, list[int]]:
        """Return the offsets of the committed dead letters of ``target``, by partition."""
        chosen = (pads.field("target") == target) & (pads.field("_topic_id") == topic_id)
        found = self.committed([target]).to_table(columns=["_partition", "_offset"], filter=chosen)
        offsets: dict[int, list[int]] = {}
        for partition, offset in zip(
            found["_partition"].to_pylist(), found["_offset"].to_pylist(), strict=True
        ):
            offsets.setdefault(partition, []).append(offset)
        return {partition: sorted(found) for partition, found in sorted(offsets.items())}

    def rows_at(self, target: str, topic_id: str, places: Mapping[int, Sequence[int]]) -> pa.Table:
        """Return the committed dead letters of ``target`` at the given offsets by partition.

        Their ``ended_by`` is null, so that another attempt can commit them again.
        """
        chosen = pc.scalar(False)
        for partition, offsets in places.items():
            chosen |= (pads.field("_partition") == partition) & pads.field("_offset").isin(
                list(offsets)
            )
        own = (pads.field("target") == target) & (pads.field("_topic_id") == topic_id)
        found = (
            self.committed([target])
            .to_table(columns=ENVELOPE.names, filter=own & chosen)
            .cast(ENVELOPE)
        )
        not_ended = pa.nulls(found.num_rows, pa.int64())
        return found.set_column(
            ENVELOPE.get_field_index("ended_by"), ENVELOPE.field("ended_by"), not_ended
        )

    def _written(self) -> TableSnapshot | None:
        """Return the newest version, or None if no run has created the table yet."""
        return None if self.lake.snapshot(DEAD_LETTERS) is None else self.snapshot()

    def _committed_expression(
        self, snapshot: TableSnapshot, chosen: Collection[str] | None = None
    ) -> pads.Expression:
        keys = (
            snapshot.dataset()
            .to_table(columns=["target", "_topic_id", "_partition"])
            .group_by(["target", "_topic_id", "_partition"])
        )
        expression = pc.scalar(False)
        targets = {}
        for row in keys.aggregate([]).to_pylist():
            target, topic_id, partition = row["target"], row["_topic_id"], row["_partition"]
            if chosen is not None and target not in chosen:
                continue
            if target not in targets:
                targets[target] = self.lake.snapshot(target)
            found = targets[target]
            next_offset = found.transaction_version(f"{topic_id}/{partition}") if found else None
            if found is not None and next_offset is not None:
                named = named_attempt(found, topic_id)
                attempt, ended_by = pads.field("attempt"), pads.field("ended_by")
                expression |= (
                    (pads.field("target") == target)
                    & (pads.field("_topic_id") == topic_id)
                    & (pads.field("_partition") == partition)
                    & (pads.field("_offset") < next_offset)
                    & (attempt.is_null() | (attempt <= named))
                    & (ended_by.is_null() | (ended_by > named) | (ended_by == NOT_ENDED))
                )
        return expression

    def _of_ranges(self, snapshot: TableSnapshot, origin: Origin, ranges: OffsetRanges) -> pa.Table:
        chosen = pc.scalar(False)
        for one in ranges:
            chosen |= (
                (pads.field("_partition") == one.partition)
                & (pads.field("_offset") >= one.start)
                & (pads.field("_offset") < one.end)
            )
        return snapshot.dataset().to_table(columns=ENVELOPE.names, filter=_own(origin) & chosen)

    def _overwrite_ranges(
        self, snapshot: TableSnapshot, origin: Origin, ranges: OffsetRanges, rows: pa.Table
    ) -> TableSnapshot:
        predicate = f"target = {quoted_text(origin.target)} AND {ranges_predicate(ranges)}"
        return self._overwrite(
            snapshot,
            _Commit(
                origin=origin,
                predicate=predicate,
                rows=rows.cast(ENVELOPE),
                note=f"replay of {ranges}",
            ),
        )

    def _overwrite(self, snapshot: TableSnapshot, commit: "_Commit") -> TableSnapshot:
        """Replace rows by those of ``commit``, in a commit that is based on ``snapshot``.

        If runs of other targets have committed meanwhile, try again from the new version, because
        all targets share this table.

        :raises CommitConflictError: another run of the same target has committed, or every try met
            a conflict.
        """
        attempt = next_attempt(snapshot, commit.origin)
        bumped = {attempts_transaction(commit.origin): attempt}
        notes = {
            "target": commit.origin.target,
            "note": commit.note,
            "run_id": commit.origin.run_id,
        }
        for _ in range(RIVAL_ATTEMPTS):
            try:
                return overwrite_where(snapshot, commit.rows, commit.predicate, bumped, notes)
            except CommitConflictError:
                snapshot = self.snapshot()
                if next_attempt(snapshot, commit.origin) != attempt:
                    raise
        raise CommitConflictError(
            f"the table {DEAD_LETTERS} changed {RIVAL_ATTEMPTS} times while {commit.origin.target}"
            " tried to commit to it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    origin: Origin
    predicate: str
    rows: pa.Table
    note: str


def attempts_transaction(origin: Origin) -> str:
    """Return the application transaction that counts a target's attempts.

    It distinguishes a rival run of the target from runs of other targets.
    """
    return f"{origin.target}/{origin.topic_id}"


def next_attempt(snapshot: TableSnapshot, origin: Origin) -> int:
    """Return the number of the attempt that commits from ``snapshot``."""
    return (snapshot.transaction_version(attempts_transaction(origin)) or 0) + 1


def letters_transaction(topic_id: str) -> str:
    """Return the application transaction by which a target names an attempt."""
    return f"letters/{topic_id}"


def named_attempt(target: TableSnapshot, topic_id: str) -> int:
    """Return the number of the attempt that the target's last commit named, or 0 if there is none.

    The dead letters of that attempt are committed with it.
    """
    return target.transaction_version(letters_transaction(topic_id)) or 0


def naming(topic_id: str, attempt: int | None) -> dict[str, int]:
    """Return the application transactions by which the target's commit names ``attempt``.

    There are none if it is None.
    """
    return {} if attempt is None else {letters_transaction(topic_id): attempt}


def _numbered(rows: pa.Table, column: str, attempt: int) -> pa.Table:
    numbers = pa.array([attempt] * rows.num_rows, pa.int64())
    return rows.set_column(
        rows.schema.get_field_index(column), ENVELOPE.field(column), numbers
    ).cast(ENVELOPE)


def _nth_newest(moments: pa.ChunkedArray, count: int) -> datetime:
    ordered = moments.take(pc.sort_indices(moments, sort_keys=[("", "descending")]))
    found: datetime = ordered[min(count, len(ordered)) - 1].as_py()
    return found


def _is_pending(snapshot: TableSnapshot, origin: Origin, bounds: Mapping[int, int]) -> bool:
    chosen = pc.scalar(False)
    for partition, bound in bounds.items():
        chosen |= (pads.field("_partition") == partition) & (pads.field("_offset") >= bound)
    return bool(snapshot.dataset().count_rows(filter=_own(origin) & chosen))


def _own_sql(origin: Origin) -> str:
    return f"target = {quoted_text(origin.target)} AND _topic_id = {quoted_text(origin.topic_id)}"


def _own(origin: Origin) -> pads.Expression:
    return (pads.field("target") == origin.target) & (pads.field("_topic_id") == origin.topic_id)
