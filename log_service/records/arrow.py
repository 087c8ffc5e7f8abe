"""Record batches as Arrow columns, for a range of offsets.

The module decides which batches of a partition belong to a range, and how many become columns at
once. ``columns`` makes the columns. It is imported when the first columns are needed, so that
importing this module loads neither numpy nor pyarrow.

Invariants:

- Only records in [start, end) are returned, in the order of the batches. Markers are never
  returned.
- The caller knows the aborted transactions, and reports them with ``is_visible``.
- No batch outside the range is opened.
- A batch that cannot be read raises, or is reported in its turn with all of its offsets.
- A header is trusted only if its checksum matches. Otherwise the batch is taken to end at the next
  batch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from log_service.common.errors import KafkaError
from log_service.common.types import Buffer
from log_service.records.batch import (
    BatchHeader,
    CorruptBatch,
    OpenBatch,
    is_crc_valid,
    iterate_headers,
    open_batch,
)
from log_service.records.compression import MAX_DECOMPRESSED_BYTES

DEFAULT_CHUNK_BYTES = 4 * 1024 * 1024
"""Bytes that become columns at once. Steps are then cheap, and caches still hold the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableBatch:
    """A batch that cannot be read, with its offsets in [start, end), its raw bytes and the reason.

    ``batch_end`` is the offset after the whole batch, which may extend beyond the range. If the
    checksum does not match, ``batch_end`` is the next batch's base offset, or the end of the range.
    Some of the offsets may then never have had a record.
    """

    header: BatchHeader
    start: int
    end: int
    batch_end: int
    raw: Buffer
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """A batch with offsets in the range, its bytes and the offset after it.

    ``error`` is the reason why the batch could not be opened.
    """

    header: BatchHeader
    raw: memoryview
    end: int
    opened: OpenBatch | None
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A batch and its position in a buffer.

    ``next_base`` is the base offset of the next batch, or None if that batch is not known.
    """

    view: memoryview
    position: int
    header: BatchHeader
    next_base: int | None
    is_damaged: bool

    @property
    def raw(self) -> memoryview:
        return self.view[self.position : self.position + self.header.size_bytes]


def schema() -> Any:
    """Return the ``pyarrow.Schema`` of the columns.

    They are offset int64, timestamp ms UTC (null for none), key and value binary, headers list of
    (key string, value binary), and leader_epoch int32.
    """
    from log_service.records.columns import SCHEMA  # noqa: PLC0415 - brings pyarrow

    return SCHEMA


def iterate_record_batches(
    buffers: Iterable[Buffer],
    start_offset: int,
    end_offset: int,
    *,
    is_visible: Callable[[BatchHeader], bool] | None = None,
    is_crc_checked: bool = True,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    max_size_bytes: int = MAX_DECOMPRESSED_BYTES,
    on_unreadable: Callable[[UnreadableBatch], Any] | None = None,
) -> Iterator[Any]:
    """Yield ``pyarrow.RecordBatch``es of the records in [start, end) that lie in ``buffers``.

    A buffer holds consecutive batches of one partition, as a fetch returns them. Its last batch may
    be cut off. Buffers come in the order of their offsets, and must keep their bytes until the
    caller requests the next record batch. A batch that ``is_visible`` refuses, because its
    transaction was aborted, is left out. Each record batch is made of about ``chunk_bytes`` of
    decompressed records, and at least one batch. For an unreadable batch the result of
    ``on_unreadable`` is yielded. Without ``on_unreadable`` such a batch raises.

    Raises:
        KafkaError: CorruptBatch, a checksum is wrong or bytes are not a batch; INVALID_RECORD, a
            record is malformed; or as ``compression.decompress``, which ``max_size_bytes`` bounds
            for each batch.
    """
    from log_service.records.fields import MAX_RUN_BYTES  # noqa: PLC0415 - brings numpy

    run: list[_Batch] = []
    run_bytes = 0
    batches = _batches(
        buffers,
        start_offset,
        end_offset,
        is_visible=is_visible,
        is_crc_checked=is_crc_checked,
        max_size_bytes=min(max_size_bytes, MAX_RUN_BYTES),
        is_tolerant=on_unreadable is not None,
    )
    for batch in batches:
        size_bytes = 0 if batch.opened is None else batch.opened.size_bytes
        if run and (
            batch.opened is None or run_bytes + size_bytes > min(chunk_bytes, MAX_RUN_BYTES)
        ):
            yield from _columns(run, start_offset, end_offset, on_unreadable)
            run, run_bytes = [], 0
        run.append(batch)
        run_bytes += size_bytes
        if batch.opened is None:
            yield from _columns(run, start_offset, end_offset, on_unreadable)
            run = []
    if run:
        yield from _columns(run, start_offset, end_offset, on_unreadable)


def _columns(
    run: Sequence[_Batch],
    start_offset: int,
    end_offset: int,
    on_unreadable: Callable[[UnreadableBatch], Any] | None,
) -> Iterator[Any]:
    """Yield the columns of adjacent batches. If one is unreadable, handle each batch on its own."""
    from log_service.records.columns import (  # noqa: PLC0415 - brings numpy and pyarrow
        to_record_batch,
    )

    opened = [one.opened for one in run if one.opened is not None]
    error = run[0].error
    if error is None:
        try:
            columns = to_record_batch(opened, start_offset, end_offset)
        except KafkaError as refused:
            if on_unreadable is None:
                raise
            error = refused
        else:
            yield columns
            return
    assert on_unreadable is not None
    if len(run) > 1:
        for one in run:
            yield from _columns([one], start_offset, end_offset, on_unreadable)
        return
    found = _unreadable(run[0], start_offset, end_offset, error)
    if found.start < found.end:
        yield on_unreadable(found)


def _unreadable(
    batch: _Batch, start_offset: int, end_offset: int, error: KafkaError
) -> UnreadableBatch:
    """Describe an unreadable batch, with its offsets in the range and the reason."""
    header = batch.header
    reason = f"the batch at offsets {header.base_offset} to {batch.end - 1} cannot be read: {error}"
    if batch.end > header.next_offset:
        reason += (
            f"; its header claims to end at offset {header.last_offset}, so some of these offsets"
            " may never have had a record"
        )
    start, end = max(header.base_offset, start_offset), min(batch.end, end_offset)
    return UnreadableBatch(
        header=header, start=start, end=end, batch_end=batch.end, raw=batch.raw, reason=reason
    )


def _batches(
    buffers: Iterable[Buffer],
    start_offset: int,
    end_offset: int,
    *,
    is_visible: Callable[[BatchHeader], bool] | None,
    is_crc_checked: bool,
    max_size_bytes: int,
    is_tolerant: bool,
) -> Iterator[_Batch]:
    """Yield the batches with records in the range, decompressed.

    Batches that are not compressed are not copied.
    """
    for place in _places(buffers, is_crc_checked=is_crc_checked):
        header = place.header
        end = _end_of(place, end_offset)
        if end <= start_offset or header.base_offset >= end_offset:
            continue
        is_hidden = header.is_control or (is_visible is not None and not is_visible(header))
        if is_hidden and not place.is_damaged:
            continue
        try:
            if place.is_damaged:
                raise CorruptBatch(
                    f"the checksum of the batch at offset {header.base_offset} does not hold"
                )
            opened = open_batch(place.view, place.position, header, max_size_bytes)
        except KafkaError as error:
            if not is_tolerant:
                raise
            yield _Batch(header=header, raw=place.raw, end=end, opened=None, error=error)
        else:
            yield _Batch(header=header, raw=place.raw, end=end, opened=opened)


def _end_of(place: _Place, end_offset: int) -> int:
    """Return the offset after a batch.

    The header of a damaged batch is not trusted. Such a batch ends at the next batch, or at the
    end of the range.
    """
    if place.is_damaged:
        return (
            max(end_offset, place.header.base_offset + 1)
            if place.next_base is None
            else place.next_base
        )
    if place.next_base is None:
        return place.header.next_offset
    return min(place.header.next_offset, place.next_base)


def _places(buffers: Iterable[Buffer], *, is_crc_checked: bool) -> Iterator[_Place]:
    """Yield each batch of the buffers.

    A damaged batch at the end of a buffer is yielded later, when the first batch of the next buffer
    is known.
    """
    damaged: _Place | None = None
    for buffer in buffers:
        view = memoryview(buffer)
        found = list(iterate_headers(buffer, is_torn_tail_ok=True))
        if damaged is not None and found:
            yield replace(damaged, next_base=_base_after(damaged.header, found[0][1]))
            damaged = None
        for number, (position, header) in enumerate(found, 1):
            place = _Place(
                view=view,
                position=position,
                header=header,
                next_base=_base_after(header, found[number][1]) if number < len(found) else None,
                is_damaged=is_crc_checked
                and not is_crc_valid(view[position : position + header.size_bytes]),
            )
            if place.is_damaged and number == len(found):
                damaged = place
            else:
                yield place
    if damaged is not None:
        yield damaged


def _base_after(header: BatchHeader, following: BatchHeader) -> int | None:
    """Return the base offset of the next batch, or None if it is not above this batch's."""
    return following.base_offset if following.base_offset > header.base_offset else None
