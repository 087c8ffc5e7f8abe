"""From record batches to Arrow: a range of offsets becomes columns.

Decides which batches of a partition belong to a range and how many are turned into columns at once. How that is done is in ``columns``,
which is imported when the first columns are asked for: a process that only imports this module loads neither numpy nor pyarrow.

Invariants: records come in the order of the batches and only those in [start, end); markers never come. The caller knows which
transactions were aborted, and tells with ``is_visible``. No batch outside the range is opened.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from log_service.common.types import Buffer
from log_service.records.batch import BatchHeader, CorruptBatch, OpenBatch, is_crc_valid, iterate_headers, open_batch
from log_service.records.compression import MAX_DECOMPRESSED_BYTES

DEFAULT_CHUNK_BYTES = 4 * 1024 * 1024
"""How much is turned into columns at once: enough that the cost of each step does not count, and no more than caches hold."""


def schema() -> Any:
    """Return the ``pyarrow.Schema`` of the columns.

    offset int64, timestamp ms UTC (null for none), key and value binary, headers list of (key string, value binary), leader_epoch int32.
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
) -> Iterator[Any]:
    """Yield ``pyarrow.RecordBatch``es of the records in [start, end) that lie in ``buffers``.

    A buffer holds batches of one partition back to back, the last one maybe cut off, as a fetch returns them; buffers come in the order of
    their offsets and have to keep their bytes until the next record batch is asked for. A batch that ``is_visible`` refuses (because its
    transaction was aborted) is left out. Every record batch comes of about ``chunk_bytes`` of decompressed records, at least one batch.

    Raises:
        KafkaError: CorruptBatch, a checksum does not hold or bytes are no batch; INVALID_RECORD, a record is malformed; or as
            ``compression.decompress``, which ``max_size_bytes`` bounds for each batch.
    """
    from log_service.records.columns import to_record_batch  # noqa: PLC0415 - brings numpy and pyarrow
    from log_service.records.fields import MAX_RUN_BYTES  # noqa: PLC0415 - brings numpy

    chunk_bytes = min(chunk_bytes, MAX_RUN_BYTES)
    run: list[OpenBatch] = []
    run_bytes = 0
    batches = _open_batches(
        buffers,
        start_offset,
        end_offset,
        is_visible=is_visible,
        is_crc_checked=is_crc_checked,
        max_size_bytes=min(max_size_bytes, MAX_RUN_BYTES),
    )
    for batch in batches:
        if run and run_bytes + batch.size_bytes > chunk_bytes:
            yield to_record_batch(run, start_offset, end_offset)
            run, run_bytes = [], 0
        run.append(batch)
        run_bytes += batch.size_bytes
    if run:
        yield to_record_batch(run, start_offset, end_offset)


def _open_batches(
    buffers: Iterable[Buffer],
    start_offset: int,
    end_offset: int,
    *,
    is_visible: Callable[[BatchHeader], bool] | None,
    is_crc_checked: bool,
    max_size_bytes: int,
) -> Iterator[OpenBatch]:
    """Yield the batches that have records in the range, decompressed; what is not compressed stays a view."""
    for buffer in buffers:
        view = memoryview(buffer)
        for position, header in iterate_headers(buffer, is_torn_tail_ok=True):
            if header.last_offset < start_offset or header.base_offset >= end_offset or header.is_control:
                continue
            if is_visible is not None and not is_visible(header):
                continue
            batch = view[position : position + header.size_bytes]
            if is_crc_checked and not is_crc_valid(batch):
                text = f"the checksum of the batch at offset {header.base_offset} does not hold"
                raise CorruptBatch(text)
            yield open_batch(view, position, header, max_size_bytes)
