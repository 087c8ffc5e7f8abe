"""Record batches as Arrow columns, for a range of offsets.

The module decides which batches of a partition belong to a range, and how many become columns at
once. ``columns`` makes the columns. It is imported when the first columns are asked for, so that
importing this module loads neither numpy nor pyarrow.

Invariants:

- Only records in [start, end) are returned, in the order of the batches. Markers are never
  returned.
- The caller knows the aborted transactions, and reports them with ``is_visible``.
- No batch outside the range is opened.
- A batch that cannot be read raises, or is reported in its turn with all of its offsets.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from log_service.common.errors import KafkaError
from log_service.common.types import Buffer
from log_service.records.batch import BatchHeader, CorruptBatch, OpenBatch, is_crc_valid, iterate_headers, open_batch
from log_service.records.compression import MAX_DECOMPRESSED_BYTES

DEFAULT_CHUNK_BYTES = 4 * 1024 * 1024
"""Bytes that become columns at once. Steps are then cheap, and caches still hold the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableBatch:
    """A batch that cannot be read, with its offsets in [start, end), its raw bytes and the reason.

    ``batch_end`` is the offset after the whole batch, which may extend beyond the range.
    """

    header: BatchHeader
    start: int
    end: int
    batch_end: int
    raw: Buffer
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """A batch of the range, its bytes and the base offset of the next batch.

    ``error`` is the reason why it could not be opened.
    """

    header: BatchHeader
    raw: memoryview
    next_base: int
    opened: OpenBatch | None
    error: KafkaError | None = None


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
    be cut off. Buffers come in the order of their offsets, and must keep their bytes until the next
    record batch is asked for. A batch that ``is_visible`` refuses, because its transaction was
    aborted, is left out. Each record batch is made of about ``chunk_bytes`` of decompressed
    records, and at least one batch. For an unreadable batch the result of ``on_unreadable`` is
    yielded. Without ``on_unreadable`` such a batch raises.

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
        if run and (batch.opened is None or run_bytes + size_bytes > min(chunk_bytes, MAX_RUN_BYTES)):
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
    run: Sequence[_Batch], start_offset: int, end_offset: int, on_unreadable: Callable[[UnreadableBatch], Any] | None
) -> Iterator[Any]:
    """Yield the columns of neighbouring batches. If one is unreadable, handle each on its own."""
    from log_service.records.columns import to_record_batch  # noqa: PLC0415 - brings numpy and pyarrow

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


def _unreadable(batch: _Batch, start_offset: int, end_offset: int, error: KafkaError) -> UnreadableBatch:
    """Describe an unreadable batch.

    A header with a wrong checksum may claim the next batch's offsets.
    """
    header = batch.header
    batch_end = min(header.next_offset, batch.next_base)
    reason = f"the batch at offsets {header.base_offset} to {batch_end - 1} cannot be read: {error}"
    start, end = max(header.base_offset, start_offset), min(batch_end, end_offset)
    return UnreadableBatch(header=header, start=start, end=end, batch_end=batch_end, raw=batch.raw, reason=reason)


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
    """Yield the batches with records in the range, decompressed. Uncompressed ones stay views."""
    for buffer in buffers:
        view = memoryview(buffer)
        found = list(iterate_headers(buffer, is_torn_tail_ok=True))
        for number, (position, header) in enumerate(found):
            if header.last_offset < start_offset or header.base_offset >= end_offset or header.is_control:
                continue
            if is_visible is not None and not is_visible(header):
                continue
            raw = view[position : position + header.size_bytes]
            next_base = found[number + 1][1].base_offset if number + 1 < len(found) else header.next_offset
            try:
                if is_crc_checked and not is_crc_valid(raw):
                    raise CorruptBatch(f"the checksum of the batch at offset {header.base_offset} does not hold")
                opened = open_batch(view, position, header, max_size_bytes)
            except KafkaError as error:
                if not is_tolerant:
                    raise
                yield _Batch(header=header, raw=raw, next_base=next_base, opened=None, error=error)
            else:
                yield _Batch(header=header, raw=raw, next_base=next_base, opened=opened)
