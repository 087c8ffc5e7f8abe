"""Chunks of a topic's records as lines, and the window of the newest chunks.

Positions are the next offsets to read, by partition. A chunk begins and ends at positions, and has
each record between them that the filter accepts. A stream may send the records of a chunk from its
own positions on, if these are not before the chunk's beginning. So it sends each record once.

Invariants: the chunks of a window follow each other without a gap. The newest chunk is always kept,
and older ones within bounds of number and bytes.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from log_service.http.rest_proxy.v1.lines import Lines

RECORD_BYTES: Final = 200
"""The approximate memory of a record besides its line."""
MAX_CHUNKS: Final = 500
"""The most chunks of a window. A topic with few records has small chunks."""
MAX_AHEAD: Final = 1_000
"""The most offsets, over all partitions, by which a stream that joins is ahead of the window."""

LineAt = tuple[int, int, bytes]
"""The partition and the offset of a record, and its line."""


class Chunk:
    """The accepted records from the positions ``before`` up to ``after``, not including these.

    Do not change either mapping, because chunks share them.
    """

    __slots__ = ("_texts", "after", "before", "records", "size_bytes")

    def __init__(
        self, before: Mapping[int, int], after: Mapping[int, int], records: Sequence[LineAt]
    ) -> None:
        self.before = before
        self.after = after
        self.records = records
        self.size_bytes = sum(len(line) for _, _, line in records)
        """About the bytes in memory, with the texts that were made."""
        self.size_bytes += RECORD_BYTES * (1 + len(records))
        self._texts: dict[type[Lines], bytes] = {}

    def __repr__(self) -> str:
        return f"<Chunk {self.before} to {self.after} records={len(self.records)}>"

    def text(self, lines: Lines) -> bytes:
        """Return all records as one text. Streams with the same type of ``lines`` share it."""
        found = self._texts.get(type(lines))
        if found is None:
            positions, pieces = dict(self.before), list[bytes]()
            for partition, offset, line in self.records:
                positions[partition] = offset + 1
                pieces.append(lines.record(line, positions))
            found = self._texts[type(lines)] = b"".join(pieces)
            self.size_bytes += len(found)
        return found

    def records_from(self, positions: Mapping[int, int]) -> Iterator[LineAt]:
        """Yield the records at or after these positions. A missing partition has the position 0."""
        for record in self.records:
            if record[1] >= positions.get(record[0], 0):
                yield record

    def moved(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Return the positions of a stream after it has sent the chunk."""
        ends = {each: max(end, positions.get(each, 0)) for each, end in self.after.items()}
        return {**positions, **ends}


class Window:
    """The newest chunks of a topic. Chunks are numbered consecutively."""

    def __init__(self, positions: Mapping[int, int]) -> None:
        self._chunks = deque[Chunk]()
        self.first_number = 0
        self.end: Mapping[int, int] = dict(positions)

    def __repr__(self) -> str:
        return f"<Window chunks={len(self._chunks)} first={self.first_number}>"

    @property
    def next_number(self) -> int:
        """The number of the next chunk that is appended."""
        return self.first_number + len(self._chunks)

    def append(self, chunk: Chunk) -> None:
        """Append a chunk. It has to begin at the window's end, and at 0 in new partitions."""
        self._chunks.append(chunk)
        self.end = chunk.after

    def trim(self, max_bytes: int) -> None:
        """Drop the oldest chunks beyond ``MAX_CHUNKS`` or ``max_bytes``, except the newest one."""
        size_bytes = sum(each.size_bytes for each in self._chunks)
        while len(self._chunks) > 1 and (size_bytes > max_bytes or len(self._chunks) > MAX_CHUNKS):
            size_bytes -= self._chunks.popleft().size_bytes
            self.first_number += 1

    def get(self, number: int) -> Chunk | None:
        """Return the chunk with a number, None if it was dropped or does not exist yet."""
        index = number - self.first_number
        return self._chunks[index] if 0 <= index < len(self._chunks) else None

    def join(self, positions: Mapping[int, int]) -> int | None:
        """Return the number of the first chunk that a stream at ``positions`` has not sent whole.

        If it has sent all chunks, this is the number of the next one. Return None if the stream
        cannot join: the window begins after its positions, its positions are more than
        ``MAX_AHEAD`` offsets in all after the window's end, or they have a partition that the
        window lacks.
        """
        start = self._chunks[0].before if self._chunks else self.end
        if not positions.keys() <= self.end.keys():
            return None
        if any(positions.get(each, 0) < offset for each, offset in start.items()):
            return None
        ahead = (offset - self.end[each] for each, offset in positions.items())
        if sum(max(each, 0) for each in ahead) > MAX_AHEAD:
            return None
        for number, chunk in enumerate(self._chunks, self.first_number):
            if any(positions.get(each, 0) < end for each, end in chunk.after.items()):
                return number
        return self.next_number
