"""Tries fixes: finds the records that a table would reject again with their fixes.

A dead letter holds its whole record, so the records are read from the dead letters. Writes nothing,
and asks no broker. The trial reads only the fixed records. A replay may also read an earlier record
with the same key, so its rejections may differ. Knows no Dagster.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from orchestration.dead_letters.fixes import Fix, replay_ranges
from orchestration.dead_letters.table import Rejection
from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import HEADERS, RECORD_SCHEMA
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.rows.uniqueness import TableKeys
from orchestration.transforms.batch.batch import compute_batch
from orchestration.transforms.batch.reading import read_batch
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.kinds import declared

WITH_HEADERS = RECORD_SCHEMA.append(pa.field("headers", HEADERS))
RecordPlace = tuple[str, int, int]
"""The topic id, partition and offset of a record."""


@dataclass(frozen=True, slots=True)
class _FixedLetters:
    """A log reader that reads dead letters, with the values of their fixes, in place of the log."""

    letters: Sequence[Mapping[str, Any]]
    values: Mapping[RecordPlace, bytes | None]

    def __call__(
        self,
        topic: str,  # noqa: ARG002 - a RangeReader
        wanted: OffsetRange,
        *,
        topic_id: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        rows = [
            {
                "offset": row["_offset"],
                "timestamp": row["_timestamp"],
                "leader_epoch": 0,
                "key": row["key"],
                "value": self.values[_place_of(row)],
                "headers": row["headers"] or [],
            }
            for row in self.letters
            if row["_topic_id"] == topic_id
            and row["_partition"] == wanted.partition
            and row["_offset"] in wanted
        ]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=WITH_HEADERS)


def follower(name: str) -> TopicTable | None:
    """Return the table ``name`` if its transform can be tried on chosen records, else None."""
    kind = declared(name)
    return None if kind is None else kind.follower


def rejected_again(
    session: Any,
    lake: Lake,
    table: TopicTable,
    letters: Iterable[Mapping[str, Any]],
    fixes: Sequence[Fix],
) -> dict[RecordPlace, Rejection]:
    """Return the rejections that ``table`` would make of the records of ``fixes``, by record.

    ``letters`` are its dead letters, in the order of their offsets.

    :raises TransformError: the transform cannot be computed.
    :raises SparkGoneError: the warm server died meanwhile.
    """
    values = {(one.topic_id, one.partition, one.offset): one.value for one in fixes}
    reader = _FixedLetters([row for row in letters if _place_of(row) in values], values)
    snapshot = lake.snapshot(table.name) if table.unique_by else None
    existing = None if snapshot is None else TableKeys(snapshot=snapshot)
    found: dict[RecordPlace, Rejection] = {}
    forgiven = {
        number: [one.offset for one in fixes if one.partition == number]
        for number in {one.partition for one in fixes}
    }
    for topic_id in sorted({one.topic_id for one in fixes}):
        kept = replay_ranges([one for one in fixes if one.topic_id == topic_id])
        ranges = OffsetRanges(topic=table.topic.name, topic_id=topic_id, ranges=tuple(kept))
        source = read_batch(
            session,
            reader,
            ranges,
            table.topic.fields,
            value_format=table.topic.value_format,
            arrow_records=ranges.count,
            has_headers=table.has_headers,
        )
        try:
            batch = compute_batch(session, table, source, existing, forgiven=forgiven)
        finally:
            source.release()
        found |= {(topic_id, one.partition, one.offset): one for one in batch.rejections}
    return found


def _place_of(row: Mapping[str, Any]) -> RecordPlace:
    return row["_topic_id"], row["_partition"], row["_offset"]
