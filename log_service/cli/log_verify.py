"""``tidelog log verify`` checks whether a segment is whole, and whether its indexes are right.

Reads files, and writes nothing. Reports a batch that does not parse, whose checksum is wrong or
whose records no client can read. Also reports offsets that do not rise, an offset index entry that
does not point at the batch with its offset, and a time index entry whose time no record up to its
offset has.
"""

import bisect
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from log_service.common.errors import KafkaError, TidelogError
from log_service.common.types import Buffer
from log_service.records.batch import BatchHeader, batch_view, is_crc_valid, parse_header
from log_service.records.checks import check_stored
from log_service.storage.indexes import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY

MAX_PROBLEMS = 5

Batches = list[tuple[int, BatchHeader]]
"""Positions and headers, in the order of the file."""


def checked(segment: Path) -> dict[str, Any]:
    """Return a row about a segment: its size in batches, records and bytes, and its problems."""
    batches: Batches = []
    problems = list(
        read_batches(segment.read_bytes(), int(segment.stem), batches, segment.parent.name)
    )
    for suffix, check in ((".index", offset_problems), (".timeindex", time_problems)):
        try:
            problems += check(segment.with_suffix(suffix), int(segment.stem), batches)
        except ValueError as error:
            problems.append(f"{segment.stem}{suffix}: {error}")
    left_out = [f"and {len(problems) - MAX_PROBLEMS} more"] if len(problems) > MAX_PROBLEMS else []
    return {
        "segment": f"{segment.parent.name}/{segment.name}",
        "batches": len(batches),
        "records": sum(header.record_count for _, header in batches),
        "bytes": segment.stat().st_size,
        "problems": "; ".join(problems[:MAX_PROBLEMS] + left_out) or None,
    }


def read_batches(
    content: bytes, base_offset: int, batches: Batches, partition: str
) -> Iterator[str]:
    """Append a segment's batches to ``batches``, and yield the segment's problems.

    It ends at the first batch that does not parse.
    """
    position, next_offset = 0, base_offset
    while position < len(content):
        try:
            header = parse_header(content, position)
            batch = batch_view(content, position)
            is_valid = is_crc_valid(batch)
        except TidelogError as error:
            yield f"at {position}: {error}"
            return
        if not is_valid:
            yield (
                f"at {position}: the checksum of the batch of offset {header.base_offset} is wrong"
            )
        elif (reason := unreadable(header, batch)) is not None:
            offsets = f"offsets {header.base_offset} to {header.last_offset} of {partition}"
            yield f"at {position}: the records at {offsets} cannot be read: {reason}"
        if header.base_offset < next_offset:
            yield f"at {position}: offset {header.base_offset} comes after {next_offset - 1}"
        batches.append((position, header))
        position, next_offset = position + header.size_bytes, header.last_offset + 1


def unreadable(header: BatchHeader, batch: Buffer) -> str | None:
    """Return why no client can read a batch with a right checksum, or None if it is readable."""
    try:
        check_stored(header, batch)
    except KafkaError as error:
        return str(error)
    return None


def offset_problems(path: Path, base_offset: int, batches: Batches) -> Iterator[str]:
    """Yield the entries of an offset index that do not point at the batch with their offset."""
    at = dict(batches)
    for relative, position in entries(path, OFFSET_INDEX_ENTRY):
        offset = base_offset + relative
        if not relative and not position:
            continue
        found = at.get(position)
        if found is None:
            yield f"{path.name}: offset {offset} is said to be at {position}, where no batch begins"
        elif not found.base_offset <= offset <= found.last_offset:
            yield (
                f"{path.name}: offset {offset} is said to be at {position}, where"
                f" {found.base_offset} to {found.last_offset} are"
            )


def time_problems(path: Path, base_offset: int, batches: Batches) -> Iterator[str]:
    """Yield the problems of a time index.

    They are times that do not rise, and a time that no record up to the offset has.
    """
    ends = [header.last_offset for _, header in batches]
    highest: list[int] = []
    for _, header in batches:
        highest.append(max(header.max_timestamp, highest[-1] if highest else header.max_timestamp))
    last_time = last_offset = -1
    for timestamp, relative in entries(path, TIME_INDEX_ENTRY):
        offset = base_offset + relative
        if timestamp <= 0 and not relative:
            continue
        if timestamp < last_time or offset < last_offset:
            yield (
                f"{path.name}: time {timestamp} at offset {offset} comes after {last_time} at"
                f" {last_offset}"
            )
        place = bisect.bisect_left(ends, offset)
        if place == len(ends) or timestamp > highest[place]:
            yield f"{path.name}: no record up to offset {offset} has time {timestamp}"
        last_time, last_offset = timestamp, offset


def entries(path: Path, entry: struct.Struct) -> Iterator[tuple[int, int]]:
    """Yield an index's entries. A missing index has none."""
    if path.exists():
        yield from entry.iter_unpack(whole_entries(path, entry.size))


def whole_entries(path: Path, entry_bytes: int) -> bytes:
    """Return an index's content, which has to be entries of ``entry_bytes`` bytes each.

    Raises:
        ValueError: the content ends within an entry.
    """
    content = path.read_bytes()
    if len(content) % entry_bytes:
        raise ValueError(
            f"{len(content)} bytes are not entries of {entry_bytes} bytes: the index is damaged and"
            " is rebuilt by a broker"
        )
    return content
