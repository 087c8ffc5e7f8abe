"""Limits the bytes that a run opens (decompresses), and the size of one record.

A few kilobytes of compressed batches may hold gigabytes of records, so a number of offsets bounds
no memory. A run therefore counts the bytes that it opens, and stops reading when its budget is
spent. The next run continues there. A record larger than ``record_bytes`` is never parsed. It
becomes a dead letter that keeps the beginning of its value and names the place of the whole value.
Decides which partitions are read if the budget is not enough for all. Knows no table, no Spark.
Invariants: a run opens at most its budget and one record batch. At least one range that is not
empty is read. Unread offsets stay above the checkpoint.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from orchestration.offsets.ranges import OffsetRange, OffsetRanges

DEFAULT_RUN_BYTES = 256 << 20
DEFAULT_RECORD_BYTES = 16 << 20
KEPT_VALUE_BYTES = 64 << 10
"""Most bytes that a dead letter keeps of the key and of the value of a record that is too large.

It keeps no headers of such a record.
"""
SETTING_NAMED = "(TIDELOG_RECORD_BYTES)"
LARGEST_BATCH_BYTES = 128 << 20
"""Most bytes that a client opens of one record batch."""

Reading = Callable[[OffsetRange], Iterator[pa.RecordBatch]]
"""Reads one range, with the columns of ``orchestration.spark.source.SOURCE_SCHEMA``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteLimits:
    """Bounds the bytes that a run opens in all, and the size of one record.

    The size of a record is the sum of the bytes of its key, value and headers. ``run_bytes`` None
    sets no bound for the run.
    """

    run_bytes: int | None = DEFAULT_RUN_BYTES
    record_bytes: int = DEFAULT_RECORD_BYTES


DEFAULT_LIMITS = ByteLimits()


def opened_bytes(batch: pa.RecordBatch) -> int:
    """Return the size in memory of the keys, values and headers of a batch, in bytes."""
    return sum(batch[name].nbytes for name in ("key", "value", "headers"))


def bounded(
    batch: pa.RecordBatch, topic: str, record_bytes: int
) -> tuple[pa.RecordBatch, pa.Array | None]:
    """Return the batch with too large fields cut short, and the refusals of its records.

    A refusal is the reason, null if a record is accepted. The refusals are None if all
    records are small enough. The result does not keep the bytes that were cut off in memory.
    """
    if opened_bytes(batch) <= record_bytes:
        return batch, None
    sizes = pc.add(
        pc.add(_lengths(batch["key"]), _lengths(batch["value"])), _header_bytes(batch["headers"])
    )
    is_large = pc.greater(sizes, record_bytes)
    if not pc.any(is_large).as_py():
        return batch, None
    columns = {name: batch[name] for name in batch.schema.names}
    for name in ("key", "value"):
        columns[name] = pc.if_else(
            is_large, pc.binary_slice(batch[name], 0, KEPT_VALUE_BYTES), batch[name]
        )
    columns["headers"] = _where_not(is_large, batch["headers"])
    places = zip(
        is_large.to_pylist(),
        sizes.to_pylist(),
        batch["_partition"].to_pylist(),
        batch["_offset"].to_pylist(),
        strict=True,
    )
    faults = [
        _fault(topic, partition, offset, size, record_bytes) if large else None
        for large, size, partition, offset in places
    ]
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema), pa.array(
        faults, pa.string()
    )


def _fault(topic: str, partition: int, offset: int, size: int, record_bytes: int) -> str:
    return (
        f"the record has {size} bytes, and a run takes at most {record_bytes} of one"
        f" {SETTING_NAMED}: its first {KEPT_VALUE_BYTES} bytes are kept here, the whole one is in"
        f" topic {topic}, partition {partition}, offset {offset}"
    )


def is_cut_short(reason: str) -> bool:
    """Return whether a dead letter of this reason has only the beginning of its record."""
    return SETTING_NAMED in reason


def _lengths(column: pa.Array) -> pa.Array:
    return pc.fill_null(pc.cast(pc.binary_length(column), pa.int64()), 0)


def _header_bytes(headers: pa.Array) -> pa.Array:
    """Return the size of each record's headers in bytes."""
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_pylist()
    flat = headers.flatten()
    sizes = iter(
        pc.add(_lengths(flat.field("key")), _lengths(flat.field("value"))).to_pylist()
        if len(flat)
        else ()
    )
    return pa.array([sum(next(sizes) for _ in range(count)) for count in counts], pa.int64())


def _where_not(is_large: pa.Array, headers: pa.Array) -> pa.Array:
    """Return the headers of small records, and null for large ones."""
    rows = pc.if_else(is_large, None, pa.array(range(len(headers)), pa.int64()))
    return headers.take(rows)


class BudgetedRead:
    """Reads ranges until ``run_bytes`` are spent, or to their ends if it is None.

    ``taken`` has the offsets that were read, once all batches were read.
    """

    def __init__(self, ranges: OffsetRanges, read: Reading, run_bytes: int | None) -> None:
        self._ranges = ranges
        self._read = read
        self._run_bytes = run_bytes
        self._taken: list[OffsetRange] = []
        self.opened = 0
        """The number of bytes opened so far."""

    @property
    def taken(self) -> OffsetRanges:
        """Return the offsets that were read.

        They begin at the start of each range that was read, wholly or in part.
        """
        return OffsetRanges(
            topic=self._ranges.topic,
            topic_id=self._ranges.topic_id,
            ranges=tuple(sorted(self._taken)),
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the ranges. Later ranges get the budget that earlier ones leave."""
        order = reading_order(self._ranges, self._run_bytes)
        for position, one in enumerate(order):
            if self._run_bytes is None:
                yield from self._range(one, None)
            elif one.is_empty or self.opened < self._run_bytes:
                yield from self._range(
                    one, (self._run_bytes - self.opened) // (len(order) - position)
                )

    def _range(self, one: OffsetRange, share: int | None) -> Iterator[pa.RecordBatch]:
        end, opened = one.end, 0
        with closing(self._read(one)) as batches:  # type: ignore[type-var]  # readers are generators
            for batch in batches:
                size = opened_bytes(batch)
                opened += size
                self.opened += size
                yield batch
                if share is not None and opened >= share and batch.num_rows:
                    end = batch["_offset"][-1].as_py() + 1
                    break
        self._taken.append(OffsetRange(partition=one.partition, start=one.start, end=end))


def reading_order(ranges: OffsetRanges, run_bytes: int | None) -> Sequence[OffsetRange]:
    """Return the ranges in reading order. They keep their order if the budget is enough for all.

    If one batch of ``LARGEST_BATCH_BYTES`` per range would exceed the budget, each run begins with
    another range, so that none starves. A hash of the ranges decides which one. It changes with
    each run, because at least one range moves.
    """
    held = list(ranges)
    if run_bytes is None or len(held) * LARGEST_BATCH_BYTES <= run_bytes:
        return held
    first = crc32(str(ranges).encode()) % len(held)
    return [*held[first:], *held[:first]]
