"""The transactions in a log that readers of committed records must not see (KIP-98).

Decides what a reader is told, from the indexes of aborted transactions (``.txnindex``), one beside each segment that has the marker of one.
A log takes an entry when a marker is appended. Where an index is damaged, the log is searched and its indexes are written anew. Knows
nothing of readers, and of compaction only that a cleaned segment has another index than those it replaces.

Invariant: ``ended`` are in the order of their markers. They are what the indexes say.
"""

import logging
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from struct import Struct

from log_service.common.env import Files
from log_service.common.errors import KafkaError, StorageError
from log_service.records.control import read_marker
from log_service.storage.file_names import TXN_INDEX_SUFFIX, file_name
from log_service.storage.segment import Segment
from log_service.storage.segments import Segments
from log_service.storage.unstable_transactions import EndedTransaction, UnstableTransactions

logger = logging.getLogger(__name__)
INDEX_ENTRY = Struct(">hqqqq")
"""One entry of an index: its version, and what ``AbortedTransaction`` holds."""
_VERSION = 0

AbortedTransaction = EndedTransaction


class AbortedTransactions:
    """Those of one log."""

    __slots__ = ("_ended",)

    def __init__(self, ended: Iterable[AbortedTransaction] = ()) -> None:
        self._ended = sorted(ended, key=attrgetter("last_offset"))

    def __bool__(self) -> bool:
        return bool(self._ended)

    def __repr__(self) -> str:
        return f"<AbortedTransactions {len(self._ended)}>"

    @property
    def ended(self) -> Sequence[AbortedTransaction]:
        """Those that have a marker, in the order of their markers."""
        return self._ended

    def within(self, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of those that may have records in [start, end)."""
        found = []
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
        return AbortedTransactions([*self._ended[:first], *entries, *self._ended[behind:]])

    def add(self, entry: AbortedTransaction) -> None:
        """Take a transaction whose marker was appended."""
        assert self is not NO_TRANSACTIONS, "logs without transactions share it"
        self._ended.append(entry)

    def cut(self, end_offset: int, segments: Segments) -> "AbortedTransactions":
        """Return those whose markers lie below ``end_offset``, to which the log is about to be cut, and cut the index of its last segment.

        The indexes of segments that go whole go with them.

        Raises:
            OSError: the disk failed.
        """
        keep = bisect_left(self._ended, end_offset, key=attrgetter("last_offset"))
        if keep == len(self._ended):
            return self
        kept = AbortedTransactions(self._ended[:keep])
        last = segments[max(segments.index_of(end_offset), 0)]
        last.replace_aborted(pack_index(kept.in_segment(last)))
        return kept

    def from_offset(self, start_offset: int) -> "AbortedTransactions":
        """Return those whose markers lie at or above ``start_offset``, where the first segment now begins."""
        first = bisect_left(self._ended, start_offset, key=attrgetter("last_offset"))
        return AbortedTransactions(self._ended[first:]) if first else self

    def in_segment(self, segment: Segment) -> list[AbortedTransaction]:
        """Return what belongs into the index of the active segment, or of one behind which there is none of them."""
        return self._ended[bisect_left(self._ended, segment.base_offset, key=attrgetter("last_offset")) :]

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


def load_aborted_transactions(files: Files, segments: Segments, indexed: Collection[int]) -> AbortedTransactions:
    """Read those of the segments whose base offsets are in ``indexed``. Blocks.

    Raises:
        StorageError: an index is damaged, and so is the log.
        OSError: the disk failed.
    """
    ended: list[AbortedTransaction] = []
    for segment in [segment for segment in segments if segment.base_offset in indexed]:
        content = files.read_bytes(segment.path(TXN_INDEX_SUFFIX))
        entries = list(INDEX_ENTRY.iter_unpack(content[: len(content) - len(content) % INDEX_ENTRY.size]))
        if len(content) % INDEX_ENTRY.size or any(version != _VERSION or first > last for version, _, first, last, _ in entries):
            return _rebuild(files, segments, segment)
        ended += [AbortedTransaction(*values) for _, *values in entries]
    return AbortedTransactions(ended) if ended else NO_TRANSACTIONS


def _rebuild(files: Files, segments: Segments, damaged: Segment) -> AbortedTransactions:
    path = damaged.path(TXN_INDEX_SUFFIX)
    logger.warning("%s is damaged; the log itself is searched for aborted transactions", path)
    try:
        found = AbortedTransactions(_search(segments))
    except KafkaError as error:
        text = f"{path} is damaged, and so is a batch of the log: {error}; restore them, or move the directory away"
        raise StorageError(text) from error
    files.remove(path)
    found.write_indexes(files, damaged.directory, segments)
    return found


def recover_aborted_transactions(
    files: Files, segments: Segments, indexed: Collection[int], aborted: Sequence[AbortedTransaction], from_offset: int
) -> AbortedTransactions:
    """Write anew the indexes of the segments from ``from_offset`` on, which a crash may have left behind. Blocks.

    ``aborted`` are the transactions that the log says were aborted from there on; the indexes before it are taken as they are.

    Raises:
        StorageError: an index is damaged, and so is the log.
        OSError: the disk failed.
    """
    recovered = [segment for segment in segments.from_offset(from_offset) if segment.base_offset >= from_offset]
    for segment in recovered:
        if segment.base_offset in indexed:
            files.remove(segment.path(TXN_INDEX_SUFFIX))
    older = load_aborted_transactions(files, segments, set(indexed).difference(segment.base_offset for segment in recovered))
    if not aborted:
        return older
    found = AbortedTransactions(aborted)
    found.write_indexes(files, segments.active.directory, segments)
    return AbortedTransactions([*older.ended, *aborted])


def _search(segments: Segments) -> Iterator[AbortedTransaction]:
    """Find in the log what its indexes should say."""
    transactions = UnstableTransactions()
    for segment in segments:
        for position, header in segment.headers(0):
            if not header.is_transactional:
                continue
            if not header.is_control:
                if header.producer_id not in transactions.open:
                    transactions.begin(header.producer_id, header.base_offset)
                continue
            marker = read_marker(segment.batch(position, header.size_bytes))
            ended = transactions.end(header.producer_id, header.last_offset)
            if ended is not None and marker is not None and marker.is_abort:
                yield ended
