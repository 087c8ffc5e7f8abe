"""The transactions in a log that readers of committed records must not see: Apache Kafka wrote them before its files came here (KIP-98).

Decides that from Kafka's indexes of them (``.txnindex``) and, where one is damaged, from the log. Knows nothing of readers, and of
compaction only that a cleaned segment has another index than those it replaces. This version begins and ends no transactions: a log has
those that it had when it was opened. One that is still open can never be committed here, because its coordinator is not here. It counts as
aborted for readers, and compaction leaves everything from its first offset on: Kafka may commit it after the files are moved back.
"""

import logging
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from log_service.common.env import Files
from log_service.common.errors import KafkaError, StorageError
from log_service.records.control import ControlType, iterate_control_records
from log_service.storage.file_names import TXN_INDEX_SUFFIX, file_name
from log_service.storage.producer_state import NO_OFFSET, ProducerState
from log_service.storage.segments import Segments

logger = logging.getLogger(__name__)
INDEX_ENTRY = Struct(">hqqqq")
"""One entry of an index: its version, and what ``AbortedTransaction`` holds."""
_VERSION = 0
_OPEN_TOLD = 5


class AbortedTransaction(NamedTuple):
    """One transaction; ``last_offset`` is that of its marker, ``last_stable_offset`` where the first one began that was open then."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedTransactions:
    """Those of one log. ``ended`` are in the order of their markers; ``still_open`` are (producer id, first offset)."""

    __slots__ = ("_ended", "_still_open")

    def __init__(self, ended: Iterable[AbortedTransaction] = (), still_open: Iterable[tuple[int, int]] = ()) -> None:
        self._ended = sorted(ended, key=attrgetter("last_offset"))
        self._still_open = list(still_open)

    def __bool__(self) -> bool:
        return bool(self._ended or self._still_open)

    def __repr__(self) -> str:
        return f"<AbortedTransactions ended={len(self._ended)} open={len(self._still_open)}>"

    @property
    def ended(self) -> Sequence[AbortedTransaction]:
        """Those that have a marker, in the order of their markers."""
        return self._ended

    @property
    def first_open_offset(self) -> int | None:
        """Where the first one began that has not ended, None where all have."""
        return min((first_offset for _, first_offset in self._still_open), default=None)

    def within(self, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of those that may have records in [start, end)."""
        found = [each for each in self._still_open if each[1] < end_offset]
        for index in range(bisect_left(self._ended, start_offset, key=attrgetter("last_offset")), len(self._ended)):
            each = self._ended[index]
            if each.first_offset < end_offset:
                found.append((each.producer_id, each.first_offset))
            if each.last_stable_offset >= end_offset:
                break  # whatever ended later began later, too
        return found

    def replaced(self, start_offset: int, end_offset: int, entries: Sequence[AbortedTransaction]) -> "AbortedTransactions":
        """Return what there is when the segments of [start, end) have been cleaned and ``entries`` is their index."""
        first = bisect_left(self._ended, start_offset, key=attrgetter("last_offset"))
        behind = bisect_left(self._ended, end_offset, key=attrgetter("last_offset"))
        if self._ended[first:behind] == list(entries):
            return self
        return AbortedTransactions([*self._ended[:first], *entries, *self._ended[behind:]], self._still_open)

    def write_indexes(self, files: Files, directory: Path, segments: Segments) -> None:
        """Write the indexes beside copied segments, as Kafka has them: each entry with the segment of its marker; durable on return."""
        by_segment: dict[int, list[AbortedTransaction]] = {}
        for each in self._ended:
            if each.last_offset >= segments[0].base_offset:
                base_offset = segments[segments.index_of(each.last_offset)].base_offset
                by_segment.setdefault(base_offset, []).append(each)
        for base_offset, entries in by_segment.items():
            files.write_atomically(directory / file_name(base_offset, TXN_INDEX_SUFFIX), pack_index(entries))


NO_TRANSACTIONS = AbortedTransactions()


def pack_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """Return the content of a segment's index; ``entries`` in the order of their markers."""
    return b"".join(INDEX_ENTRY.pack(_VERSION, *each) for each in entries)


def load_aborted_transactions(files: Files, segments: Segments, indexed: Collection[int], producers: ProducerState) -> AbortedTransactions:
    """Read those of the segments whose base offsets are in ``indexed``, and those that ``producers`` has open. Blocks.

    Raises:
        StorageError: an index is damaged, and so is the log.
        OSError: the disk failed.
    """
    still_open = [(entry.producer_id, entry.current_txn_first_offset) for entry in producers if entry.current_txn_first_offset != NO_OFFSET]
    if still_open:
        told = sorted(still_open, key=itemgetter(1))[:_OPEN_TOLD]
        logger.warning("%s: transactions that were left open count as aborted: (producer, offset) %s", segments.active.directory, told)
    ended: list[AbortedTransaction] = []
    for path in [segment.path(TXN_INDEX_SUFFIX) for segment in segments if segment.base_offset in indexed]:
        content = files.read_bytes(path)
        entries = list(INDEX_ENTRY.iter_unpack(content[: len(content) - len(content) % INDEX_ENTRY.size]))
        if len(content) % INDEX_ENTRY.size or any(version != _VERSION or first > last for version, _, first, last, _ in entries):
            logger.warning("%s is damaged; the log itself is searched for aborted transactions", path)
            try:
                return AbortedTransactions(_search(segments), still_open)
            except KafkaError as error:
                text = f"{path} is damaged, and so is a batch of the log: {error}; restore them, or move the directory away"
                raise StorageError(text) from error
        ended += [AbortedTransaction(*values) for _, *values in entries]
    return AbortedTransactions(ended, still_open) if ended or still_open else NO_TRANSACTIONS


def _search(segments: Segments) -> Iterator[AbortedTransaction]:
    """Find in the log what its indexes should say."""
    first_offsets: dict[int, int] = {}
    for segment in segments:
        for position, header in segment.headers(0):
            if header.is_transactional and not header.is_control:
                first_offsets.setdefault(header.producer_id, header.base_offset)
            elif header.is_transactional:
                first_offset = first_offsets.pop(header.producer_id, None)
                marker = next(iterate_control_records(segment.batch(position, header.size_bytes)), None)
                if first_offset is not None and marker is not None and marker.type is ControlType.ABORT:
                    stable_offset = min(first_offsets.values(), default=header.next_offset)
                    yield AbortedTransaction(header.producer_id, first_offset, header.last_offset, stable_offset)
