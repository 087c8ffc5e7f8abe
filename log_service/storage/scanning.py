"""Scans of the batches of a file, by header alone or with verified checksums.

This module decides how much is read at once. It does not know indexes and expected offsets. A scan
stops where the bytes are not batches any more, and gives the reason.

Invariants: a scan never reads past its given end, never holds more than one chunk (or one larger
batch), and always ends.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct

from log_service.common.env import Files
from log_service.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    MIN_BATCH_LENGTH,
    BatchHeader,
    CorruptBatch,
    is_crc_valid,
    parse_header,
)

Read = Callable[[int, int], bytes]
"""Returns at most ``size_bytes`` from ``position``. The arguments are (position, size_bytes)."""

SMALL_BYTES = 8 << 10
_HEADERS_CHUNK_BYTES = 32 << 10
_BATCHES_CHUNK_BYTES = 1 << 20
_FIND_CHUNK_BYTES = 8 << 10
LENGTH_POSITION = LOG_OVERHEAD - 4
_SPAN = Struct(">qi11xi")
"""The fields of a header: base offset, batch length, last offset delta."""


def walker(files: Files, path: Path, read: Read, size_bytes: int) -> Read:
    """Return a function that reads a file for one scan.

    A small file is read whole. ``read`` would keep it open, and a node has very many small files.
    """
    if size_bytes > SMALL_BYTES:
        return read
    content = files.read_bytes(path) if size_bytes else b""
    return lambda position, wanted_bytes: content[position : position + wanted_bytes]


def scan_headers(
    read: Read, position: int, end: int, *, first_chunk_bytes: int = _HEADERS_CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of the batches from ``position`` to ``end``.

    Of large batches, only the headers are read.

    Raises:
        CorruptBatch: bytes are not a header, or a batch would end after ``end``.
    """
    chunk, start = b"", position
    chunk_bytes = first_chunk_bytes
    while position < end:
        if position + HEADER_SIZE > start + len(chunk):
            chunk, start = read(position, min(chunk_bytes, end - position)), position
        header = parse_header(chunk, position - start)
        size_bytes = header.size_bytes
        if position + size_bytes > end:
            raise CorruptBatch(cut_off_text(header, position, end))
        yield position, header
        position += size_bytes
        chunk_bytes = (
            HEADER_SIZE if size_bytes > _HEADERS_CHUNK_BYTES // 4 else _HEADERS_CHUNK_BYTES
        )


def find_indexed(
    read: Read, lookup: Callable[[], int], doubt: Callable[[], None], end: int, offset: int
) -> tuple[int, int] | None:
    """Find a batch as ``find_batch`` does, from the index entry that ``lookup`` returns.

    Index files have no checksum. An entry is trusted if a batch begins at its position and does not
    begin above ``offset``. Otherwise ``doubt`` rebuilds the index.
    """
    position = lookup()
    if not position:
        return find_batch(read, 0, end, offset)
    try:
        if parse_header(read(position, HEADER_SIZE)).base_offset <= offset:
            return find_batch(read, position, end, offset)
    except CorruptBatch:
        pass  # either the entry or the batch is wrong, and the scan shows which
    doubt()
    return find_batch(read, lookup(), end, offset)


def find_batch(read: Read, position: int, end: int, offset: int) -> tuple[int, int] | None:
    """Return (position, size) of the first batch whose last offset is at or above ``offset``.

    The search begins at ``position``. It scans the first chunk without building headers, because an
    index entry is seldom further away. Return None if the batches end before ``offset``.

    Raises:
        CorruptBatch: as ``scan_headers``.
    """
    chunk, start = read(position, min(_FIND_CHUNK_BYTES, end - position)), position
    unpack, last = _SPAN.unpack_from, position + len(chunk) - HEADER_SIZE
    while position <= last:
        base_offset, length, last_offset_delta = unpack(chunk, position - start)
        following = position + LOG_OVERHEAD + length
        if (
            length < MIN_BATCH_LENGTH
            or last_offset_delta < 0
            or chunk[position - start + MAGIC_POSITION] != MAGIC
            or following > end
        ):
            break  # the scan below finds the fault
        if base_offset + last_offset_delta >= offset:
            return position, following - position
        position = following
    for found, header in scan_headers(read, position, end):
        if header.last_offset >= offset:
            return found, header.size_bytes
    return None


def scan_batches(
    read: Read, position: int, end: int
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield (position, header, bytes) of the batches from ``position`` to ``end``.

    Checksums are verified.

    Raises:
        CorruptBatch: bytes are not a batch, a batch would end after ``end``, or a checksum does not
            match.
    """
    chunk, start = memoryview(b""), position
    while position < end:
        if position + HEADER_SIZE > start + len(chunk):
            chunk, start = (
                memoryview(read(position, min(_BATCHES_CHUNK_BYTES, end - position))),
                position,
            )
        header = parse_header(chunk, position - start)
        size_bytes = header.size_bytes
        if position + size_bytes > end:
            raise CorruptBatch(cut_off_text(header, position, end))
        if position + size_bytes > start + len(chunk):
            wanted_bytes = min(max(_BATCHES_CHUNK_BYTES, size_bytes), end - position)
            chunk, start = memoryview(read(position, wanted_bytes)), position
        batch = chunk[position - start : position - start + size_bytes]
        if len(batch) != size_bytes:
            raise CorruptBatch(cut_off_text(header, position, start + len(chunk)))
        if not is_crc_valid(batch):
            text = (
                f"the batch at position {position} (base offset {header.base_offset}) does not have"
                " the checksum it announces"
            )
            raise CorruptBatch(text)
        yield position, header, batch
        position += size_bytes


def is_begun_batch(start: bytes, size_bytes: int) -> bool:
    """Return whether the last bytes of a file are the beginning of a longer batch.

    These bytes have the size ``size_bytes`` and begin with ``start``.
    """
    if size_bytes < LOG_OVERHEAD:
        return True
    length = int.from_bytes(start[LENGTH_POSITION:LOG_OVERHEAD], signed=True)
    return length >= MIN_BATCH_LENGTH and LOG_OVERHEAD + length > size_bytes


def cut_off_text(header: BatchHeader, position: int, end: int) -> str:
    """Return the error text for a batch that does not fit before ``end``."""
    return (
        f"the batch at position {position} (base offset {header.base_offset}) announces"
        f" {header.size_bytes} bytes, the file ends at {end}"
    )
