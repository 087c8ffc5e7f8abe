"""Keeps the corrected values of rejected records in one Delta table of the lake.

A fix belongs to a target table and one offset of a topic id. Storing it changes neither the log nor
the table. Every later replay of the offset reads the fix in place of the record's value, so that
replaying all of history gives the same rows again. Knows no Spark.
Invariant: an offset of a target has at most one fix. A newer fix replaces the older one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from orchestration.dead_letters.places import Place, letter_at
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.quoting import quoted_text
from orchestration.lake.tables import FIXES, CommitConflictError, Lake, overwrite_where
from orchestration.log_client.protocol import UNREADABLE, RangeReader
from orchestration.offsets.byte_limits import is_cut_short
from orchestration.offsets.ranges import OffsetRange, ranges_of_offsets

MAX_REPLAY_RANGES = 50
ATTEMPTS = 10
SCHEMA = pa.schema(
    [
        pa.field("target", pa.string()),
        pa.field("_topic_id", pa.string()),
        pa.field("_partition", pa.int32()),
        pa.field("_offset", pa.int64()),
        pa.field("value", pa.binary()),
        pa.field("fixed_at", pa.timestamp("us", tz="UTC")),
        pa.field("note", pa.string()),
    ]
)
Repair = Callable[[bytes | None], bytes | None]
At = tuple[int, int]
"""Partition and offset."""


class FixError(ValueError):
    """A fix cannot be made, because its function raised or returned a wrong type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """The value to read in place of the value of a rejected record.

    None stands for a record without value.
    """

    topic_id: str
    partition: int
    offset: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class FixedReader:
    """A reader that returns the records of ``reader``, with other values at the offsets of fixes.

    It has only plain values, so that it can be sent to Spark's workers.
    """

    reader: RangeReader
    values: Mapping[At, bytes | None]

    def __call__(
        self, topic: str, wanted: OffsetRange, *, topic_id: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of the range, the fixed ones with their corrected values.

        A fixed record that could not be read counts as readable.
        """
        for batch in self.reader(topic, wanted, topic_id=topic_id):
            yield self._fixed(batch, wanted.partition)

    def _fixed(self, batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
        found = {
            row: offset
            for row, offset in enumerate(batch["offset"].to_pylist())
            if (partition, offset) in self.values
        }
        if not found:
            return batch
        values = batch["value"].to_pylist()
        for row, offset in found.items():
            values[row] = self.values[partition, offset]
        position = batch.schema.get_field_index("value")
        batch = batch.set_column(
            position,
            batch.schema.field(position),
            pa.array(values, batch.schema.field(position).type),
        )
        if UNREADABLE not in batch.schema.names:
            return batch
        reasons = [
            None if row in found else reason
            for row, reason in enumerate(batch[UNREADABLE].to_pylist())
        ]
        return batch.set_column(
            batch.schema.get_field_index(UNREADABLE), UNREADABLE, pa.array(reasons, pa.string())
        )


@dataclass(frozen=True, slots=True)
class ChosenReader:
    """Reads as ``reader`` does, but only the records at the given places.

    It holds plain values only, as ``FixedReader`` does.
    """

    reader: RangeReader
    places: Mapping[int, Sequence[int]]
    """Offsets by partition."""

    def __call__(
        self, topic: str, wanted: OffsetRange, *, topic_id: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the chosen records of the range."""
        chosen = pa.array(self.places.get(wanted.partition, ()), pa.int64())
        for batch in self.reader(topic, wanted, topic_id=topic_id):
            kept = batch.filter(pc.is_in(batch["offset"], value_set=chosen))
            if kept.num_rows:
                yield kept


@dataclass(frozen=True, slots=True)
class Fixes:
    """The fixes of a lake."""

    lake: Lake

    def of(self, target: str, topic_id: str) -> dict[At, bytes | None]:
        """Return the fixed values of a target, by partition and offset."""
        snapshot = self.lake.snapshot(FIXES)
        if snapshot is None:
            return {}
        chosen = (pads.field("target") == target) & (pads.field("_topic_id") == topic_id)
        rows = (
            snapshot.dataset()
            .to_table(columns=["_partition", "_offset", "value"], filter=chosen)
            .to_pylist()
        )
        return {(row["_partition"], row["_offset"]): row["value"] for row in rows}

    def put(
        self, target: str, fixes: Sequence[Fix], *, note: str = "", now: datetime | None = None
    ) -> None:
        """Store ``fixes`` in one commit. They replace older fixes of the same offsets.

        :raises CommitConflictError: in every attempt another writer was faster.
        """
        if not fixes:
            return
        moment = now or datetime.now(UTC)
        given = {(one.topic_id, one.partition, one.offset): one.value for one in fixes}
        places = list(given)
        new = pa.table(
            [
                [target] * len(given),
                *([place[position] for place in places] for position in range(3)),
                list(given.values()),
                [moment] * len(given),
                [note] * len(given),
            ],
            schema=SCHEMA,
        )
        for _ in range(ATTEMPTS):
            snapshot = self.lake.snapshot(FIXES) or self.lake.create(
                FIXES, SCHEMA, description="What rejected records should have been"
            )
            held = (
                snapshot.dataset()
                .to_table(filter=pads.field("target") == target)
                .select(SCHEMA.names)
            )
            columns = (held[name].to_pylist() for name in ("_topic_id", "_partition", "_offset"))
            kept = held.filter(
                pa.array([place not in given for place in zip(*columns, strict=True)], pa.bool_())
            )
            version = (snapshot.transaction_version(target) or 0) + 1
            rows = pa.concat_tables([kept.cast(SCHEMA), new])
            try:
                overwrite_where(
                    snapshot,
                    rows,
                    f"target = {quoted_text(target)}",
                    {target: version},
                    {"target": target, "note": note},
                )
            except CommitConflictError:
                continue
            return
        raise CommitConflictError(
            f"the table {FIXES} changed {ATTEMPTS} times while fixes of {target} were to be kept"
        )


def fix_of(letters: DeadLetters, target: str, place: Place, value: bytes | None) -> Fix:
    """Return the fix of one dead letter.

    :raises PlaceError: the table rejected no such record, or several.
    """
    row = letter_at(letters, target, place)
    return Fix(
        topic_id=row["_topic_id"], partition=place.partition, offset=place.offset, value=value
    )


def repaired(
    letters: DeadLetters, target: str, repair: Repair, *, rule: str | None = None
) -> list[Fix]:
    """Return the fixes that ``repair`` makes of a table's dead letters.

    ``repair`` gets a value and returns the corrected one. An unchanged value gets no fix, nor does
    a value of which the dead letter keeps only the beginning. ``rule`` restricts the dead letters
    to those of one rule.

    :raises FixError: ``repair`` raised, or returned neither bytes nor None.
    """
    found = []
    for row in letters.of_target(target, None if rule is None else pads.field("rule") == rule):
        if is_cut_short(row["reason"]):
            continue
        place = f"{row['_partition']}:{row['_offset']}"
        try:
            value = repair(row["value"])
        except Exception as error:  # the author's code may raise anything
            raise FixError(
                f"the repair of {target} {place} raised {type(error).__name__}: {error}. Nothing"
                " was fixed"
            ) from error
        if value is not None and not isinstance(value, bytes):
            raise FixError(
                f"the repair of {target} {place} returned {type(value).__name__}: it has to return"
                " bytes, or None"
            )
        if value != row["value"]:
            found.append(
                Fix(
                    topic_id=row["_topic_id"],
                    partition=row["_partition"],
                    offset=row["_offset"],
                    value=value,
                )
            )
    return found


def replay_ranges(fixes: Sequence[Fix]) -> list[OffsetRange]:
    """Return ranges that cover ``fixes``, at most fifty per partition.

    Ranges may include offsets without a fix.
    """
    return ranges_at((one.partition, one.offset) for one in fixes)


def ranges_at(places: Iterable[At]) -> list[OffsetRange]:
    """Return ranges that cover ``places``, at most fifty per partition.

    Ranges may include other offsets.
    """
    offsets: dict[int, list[int]] = {}
    for partition, offset in places:
        offsets.setdefault(partition, []).append(offset)
    return [
        one
        for partition in sorted(offsets)
        for one in ranges_of_offsets(partition, offsets[partition], MAX_REPLAY_RANGES)
    ]
