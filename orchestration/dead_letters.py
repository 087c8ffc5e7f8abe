"""Dead letters: the records that a table rejected, in one Delta table beside the tables, with the reason and the way back.

Two tables cannot commit together, and the target's commit alone is the checkpoint. So the dead letters go first: one commit replaces
whatever this table holds for the target, topic id and partition at or above the checkpoint, and carries an application transaction of its
own. Rows at or above the checkpoint are *pending*: their run has not committed, or was killed before it could; the next run replaces them.
Readers use ``committed``. Knows no rule and no Spark.
Invariants: a committed dead letter's (topic id, partition, offset) is not in its target; a slower rival conflicts instead of erasing,
because it commits from a snapshot loaded before it read the checkpoint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from orchestration.checkpoints import Checkpoint
from orchestration.offsets import OffsetRange, OffsetRanges, ranges_of_offsets
from orchestration.tables import CommitConflictError, Lake, TableSnapshot, overwrite_where, quoted, ranges_predicate

DEAD_LETTERS = "dead_letters"
DUPLICATE = "duplicate"
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
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why one record is not in the table. ``rule`` is the rule's name, "schema" or "unique_by"."""

    partition: int
    offset: int
    reason: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who rejects: the target table, the topic's name and id, and the run."""

    target: str
    topic: str
    topic_id: str
    run_id: str


def envelopes(origin: Origin, rejections: Sequence[Rejection], records: pa.Table, now: datetime) -> pa.Table:
    """Join ``rejections`` with their ``records`` (columns ``_partition, _offset, _timestamp, key, value``) into rows of the table.

    :raises LookupError: a rejected record is not among the records.
    """
    why = {(one.partition, one.offset): one for one in rejections}
    found = list(zip(records["_partition"].to_pylist(), records["_offset"].to_pylist(), strict=True))
    missing = why.keys() - set(found)
    if missing:
        raise LookupError(
            f"{len(missing)} rejected records of topic {origin.topic} are not in the batch, e.g. partition and offset {min(missing)}"
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
        ],
        schema=ENVELOPE,
    )


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead-letter table of a lake."""

    lake: Lake

    def snapshot(self) -> TableSnapshot:
        """Return the newest version, created empty if need be. A run loads it before it reads its target's checkpoint."""
        description = "Records that tables rejected, with reason and offset"
        return self.lake.snapshot(DEAD_LETTERS) or self.lake.create(
            DEAD_LETTERS, ENVELOPE, description=description, partition_by=["target"]
        )

    def replace_pending(
        self, snapshot: TableSnapshot, origin: Origin, ranges: OffsetRanges, committed: Mapping[int, Checkpoint], rows: pa.Table
    ) -> bool:
        """Make ``rows`` the dead letters of ``ranges``, in place of whatever lies at or above the checkpoints.

        Returns whether it committed: with nothing to say and nothing pending it does not.

        :raises CommitConflictError: a rival run of the same target committed dead letters since ``snapshot``.
        """
        bounds = {one.partition: committed[one.partition].next_offset if one.partition in committed else 0 for one in ranges}
        parts = [f"(_partition = {partition} AND _offset >= {bound})" for partition, bound in bounds.items()]
        predicate = f"target = {quoted(origin.target)} AND _topic_id = {quoted(origin.topic_id)} AND ({' OR '.join(parts)})"
        if rows.num_rows == 0 and not _is_pending(snapshot, origin, bounds):
            return False
        commit = _Commit(origin=origin, partitions=tuple(bounds), predicate=predicate, rows=rows, note=f"pending of {ranges}")
        self._overwrite(snapshot, commit)
        return True

    def add_replayed(self, snapshot: TableSnapshot, origin: Origin, ranges: OffsetRanges, rows: pa.Table) -> TableSnapshot:
        """First step of a replay: add its rejections to those of the ranges, so that no moment shows a record in neither table."""
        existing = self._of_ranges(snapshot, origin, ranges)
        new = set(zip(rows["_partition"].to_pylist(), rows["_offset"].to_pylist(), strict=True))
        places = zip(existing["_partition"].to_pylist(), existing["_offset"].to_pylist(), strict=True)
        kept = existing.filter(pa.array([place not in new for place in places], pa.bool_()))
        if rows.num_rows == 0:
            return snapshot
        return self._overwrite_ranges(snapshot, origin, ranges, pa.concat_tables([kept, rows]))

    def settle_replayed(self, origin: Origin, ranges: OffsetRanges, rows: pa.Table) -> None:
        """Last step of a replay: what was rejected before and is accepted now goes."""
        snapshot = self.snapshot()
        if self._of_ranges(snapshot, origin, ranges).num_rows != rows.num_rows:
            self._overwrite_ranges(snapshot, origin, ranges, rows)

    def committed(self) -> pads.Dataset:
        """Return the dead letters that count: those below the checkpoint of their target."""
        snapshot = self.snapshot()
        return snapshot.dataset().filter(self._committed_expression(snapshot))

    def pending(self) -> pads.Dataset:
        """Return the dead letters at or above the checkpoint: of a run that has not committed yet, or was killed before it could."""
        snapshot = self.snapshot()
        return snapshot.dataset().filter(~self._committed_expression(snapshot))

    def summary(self) -> list[dict[str, str | int]]:
        """Return the committed dead letters counted by target, topic, rule and reason, most frequent first."""
        columns = ["target", "topic", "rule", "reason"]
        counted = self.committed().to_table(columns=columns).group_by(columns).aggregate([([], "count_all")])
        ordered = counted.sort_by([("count_all", "descending"), ("target", "ascending"), ("rule", "ascending")])
        return list(ordered.rename_columns([*columns, "count"]).to_pylist())

    def replay_ranges(self, target: str, topic_id: str) -> list[OffsetRange]:
        """Return ranges that cover the committed dead letters of ``target``, at most fifty per partition (gaps are bridged)."""
        chosen = (pads.field("target") == target) & (pads.field("_topic_id") == topic_id)
        found = self.committed().to_table(columns=["_partition", "_offset"], filter=chosen)
        offsets: dict[int, list[int]] = {}
        for partition, offset in zip(found["_partition"].to_pylist(), found["_offset"].to_pylist(), strict=True):
            offsets.setdefault(partition, []).append(offset)
        return [
            one
            for partition in sorted(offsets)
            for one in ranges_of_offsets(partition, offsets[partition], MAX_REPLAY_RANGES_PER_PARTITION)
        ]

    def _committed_expression(self, snapshot: TableSnapshot) -> pads.Expression:
        keys = snapshot.dataset().to_table(columns=["target", "_topic_id", "_partition"]).group_by(["target", "_topic_id", "_partition"])
        expression = pc.scalar(False)
        targets = {}
        for row in keys.aggregate([]).to_pylist():
            target, topic_id, partition = row["target"], row["_topic_id"], row["_partition"]
            if target not in targets:
                targets[target] = self.lake.snapshot(target)
            found = targets[target]
            next_offset = found.transaction_version(f"{topic_id}/{partition}") if found else None
            if next_offset is not None:
                expression |= (
                    (pads.field("target") == target)
                    & (pads.field("_topic_id") == topic_id)
                    & (pads.field("_partition") == partition)
                    & (pads.field("_offset") < next_offset)
                )
        return expression

    def _of_ranges(self, snapshot: TableSnapshot, origin: Origin, ranges: OffsetRanges) -> pa.Table:
        chosen = pc.scalar(False)
        for one in ranges:
            chosen |= (pads.field("_partition") == one.partition) & (pads.field("_offset") >= one.start) & (pads.field("_offset") < one.end)
        return snapshot.dataset().to_table(columns=ENVELOPE.names, filter=_own(origin) & chosen)

    def _overwrite_ranges(self, snapshot: TableSnapshot, origin: Origin, ranges: OffsetRanges, rows: pa.Table) -> TableSnapshot:
        predicate = f"target = {quoted(origin.target)} AND {ranges_predicate(ranges)}"
        partitions = tuple(ranges.ends())
        commit = _Commit(origin=origin, partitions=partitions, predicate=predicate, rows=rows.cast(ENVELOPE), note=f"replay of {ranges}")
        return self._overwrite(snapshot, commit)

    def _overwrite(self, snapshot: TableSnapshot, commit: "_Commit") -> TableSnapshot:
        """Commit from ``snapshot``. Other targets share this table: where only they were faster, try again from their version."""
        before = commit.own_versions(snapshot)
        bumped = {application_id: (version or 0) + 1 for application_id, version in before.items()}
        notes = {"target": commit.origin.target, "note": commit.note, "run_id": commit.origin.run_id}
        for _ in range(RIVAL_ATTEMPTS):
            try:
                return overwrite_where(snapshot, commit.rows, commit.predicate, bumped, notes)
            except CommitConflictError:
                snapshot = self.snapshot()
                if commit.own_versions(snapshot) != before:
                    raise
        raise CommitConflictError(
            f"the table {DEAD_LETTERS} changed {RIVAL_ATTEMPTS} times while {commit.origin.target} tried to commit to it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    origin: Origin
    partitions: tuple[int, ...]
    predicate: str
    rows: pa.Table
    note: str

    def own_versions(self, snapshot: TableSnapshot) -> dict[str, int | None]:
        """Return the versions of this target's own application transactions: they tell a rival run of the target from other targets."""
        ids = [f"{self.origin.target}/{self.origin.topic_id}/{partition}" for partition in self.partitions]
        return {application_id: snapshot.transaction_version(application_id) for application_id in ids}


def _is_pending(snapshot: TableSnapshot, origin: Origin, bounds: Mapping[int, int]) -> bool:
    chosen = pc.scalar(False)
    for partition, bound in bounds.items():
        chosen |= (pads.field("_partition") == partition) & (pads.field("_offset") >= bound)
    return bool(snapshot.dataset().count_rows(filter=_own(origin) & chosen))


def _own(origin: Origin) -> pads.Expression:
    return (pads.field("target") == origin.target) & (pads.field("_topic_id") == origin.topic_id)
