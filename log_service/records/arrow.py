"""Between record batches and Arrow: a range of offsets becomes columns, and columns become batches.

Decides which batches of a partition belong to a range and how many are turned into columns at once. How that is done is in ``columns``,
which is imported when the first columns are asked for: a process that only imports this module loads neither numpy nor pyarrow.

Invariants: records come in the order of the batches and only those in [start, end); markers never come. The caller knows which
transactions were aborted, and tells with ``is_visible``. No batch outside the range is opened.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from log_service.common.types import NO_TIMESTAMP, Buffer
from log_service.records.batch import BatchHeader, CorruptBatch, OpenBatch, is_crc_valid, iterate_headers, open_batch
from log_service.records.builder import BatchBuilder
from log_service.records.compression import MAX_DECOMPRESSED_BYTES, Codec

DEFAULT_CHUNK_BYTES = 4 * 1024 * 1024
"""How much is turned into columns at once: enough that the cost of each step does not count, and no more than caches hold."""

DEFAULT_MAX_BATCH_BYTES = 1_000_000
"""How large a batch made of columns becomes before compression; below every default ``max.message.bytes``."""


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


def to_table(
    buffers: Iterable[Buffer],
    start_offset: int,
    end_offset: int,
    *,
    is_visible: Callable[[BatchHeader], bool] | None = None,
    is_crc_checked: bool = True,
    max_size_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Any:
    """Return a ``pyarrow.Table`` of what ``iterate_record_batches`` yields; an empty range is an empty table with the same columns."""
    import pyarrow as pa  # noqa: PLC0415 - the broker runs without it

    record_batches = iterate_record_batches(
        buffers,
        start_offset,
        end_offset,
        is_visible=is_visible,
        is_crc_checked=is_crc_checked,
        max_size_bytes=max_size_bytes,
    )
    return pa.Table.from_batches(record_batches, schema=schema())


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


def build_batches(
    table: Any,
    *,
    timestamp_ms: int = NO_TIMESTAMP,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Iterator[bytearray]:
    """Yield batches of a ``pyarrow.Table``'s rows, each of at most ``max_batch_bytes`` before compression (one row may be more).

    Columns: value (binary or string), and if they are there key, timestamp and headers, as ``schema`` has them; ``timestamp_ms`` stands in
    for timestamps that are null or not there.

    Raises:
        pyarrow.ArrowInvalid: a column is of a type that is not one of these.
    """
    builder = BatchBuilder(codec, level, max_batch_bytes)
    for timestamp, key, value, headers in _rows(table):
        pairs = [(header["key"], header["value"]) for header in headers] if headers else ()
        if not builder.has_room_for(key, value, pairs):
            yield builder.build()
            builder = BatchBuilder(codec, level, max_batch_bytes)
        builder.append(timestamp_ms if timestamp is None else timestamp, key, value, pairs)
    if len(builder):
        yield builder.build()


def _rows(table: Any) -> Iterator[tuple[int | None, bytes | None, bytes | None, list[dict[str, Any]] | None]]:
    """Yield (timestamp, key, value, headers) of each row."""
    import pyarrow as pa  # noqa: PLC0415 - the broker runs without it

    def column(record_batch: Any, name: str, *types: Any) -> list[Any]:
        if name not in record_batch.schema.names:
            return [None] * record_batch.num_rows
        array = record_batch.column(name)
        for target in types:
            array = array.cast(target)
        return list(array.to_pylist())

    for record_batch in table.to_batches():
        yield from zip(
            column(record_batch, "timestamp", pa.timestamp("ms", tz="UTC"), pa.int64()),
            column(record_batch, "key", pa.binary()),
            column(record_batch, "value", pa.binary()),
            column(record_batch, "headers"),
            strict=True,
        )
