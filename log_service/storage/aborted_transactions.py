"""Aborted transactions of a log, which readers of committed records must not see (KIP-98).

Each segment that holds an abort marker has an index of aborted transactions (``.txnindex``). The
log adds an entry when it appends a marker. If an index is damaged, the log is searched and its
indexes are rewritten. This module does not know readers. About compaction it knows only that a
cleaned segment has another index than the segments that it replaces.

Invariant: ``ended`` is in the order of the markers and equals the content of the indexes.
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
"""One entry of an index: its version and the fields of ``AbortedTransaction``."""
_VERSION = 0

AbortedTransaction = EndedTransaction


class AbortedTransactions:
    """The aborted transactions of one log."""

    __slots__ = ("_ended",)

    def __init__(self, ended: Iterable[AbortedTransaction] = ()) -> None:
        self._ended = sorted(ended, key=attrgetter("last_offset"))

    def __bool__(self) -> bool:
        return bool(self._ended)

    def __repr__(self) -> str:
        return f"<AbortedTransactions {len(self._ended)}>"

    @property
    def ended(self) -> Sequence[AbortedTransaction]:
        """The aborted transactions, in the order of their markers."""
        return self._ended

    def within(self, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of aborted transactions that may overlap the range.

        The range is [``start_offset``, ``end_offset``).
        """
        found = []
        for index in range(
            bisect_left(self._ended, start_offset, key=attrgetter("last_offset")), len(self._ended)
        ):
            each = self._ended[index]
            if each.first_offset < end_offset:
                found.append((each.producer_id, each.first_offset))
            if each.last_stable_offset >= end_offset:
                break  # transactions that ended later also began later
        return found

    def replaced(
        self, start_offset: int, end_offset: int, entries: Sequence[AbortedTransaction]
    ) -> "AbortedTransactions":
        """Return the transactions after the segments of [start, end) were cleaned.

        ``entries`` is the index of the cleaned segment.
        """
        first = bisect_left(self._ended, start_offset, key=attrgetter("last_offset"))
        behind = bisect_left(self._ended, end_offset, key=attrgetter("last_offset"))
        if self._ended[first:behind] == list(entries):
            return self
        return AbortedTransactions([*self._ended[:first], *entries, *self._ended[behind:]])

    def add(self, entry: AbortedTransaction) -> None:
        """Add a transaction whose marker was appended."""
        assert self is not NO_TRANSACTIONS, "logs without transactions share it"
        self._ended.append(entry)

    def cut(self, end_offset: int, segments: Segments) -> "AbortedTransactions":
        """Return the transactions that remain when the log is cut to ``end_offset``.

        The index of the log's last remaining segment is cut too. Indexes of later segments are
        removed with their segments.

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
        """Return the transactions with markers at or above ``start_offset``, the new log start."""
        first = bisect_left(self._ended, start_offset, key=attrgetter("last_offset"))
        return AbortedTransactions(self._ended[first:]) if first else self

    def in_segment(self, segment: Segment) -> list[AbortedTransaction]:
        """Return the entries of a segment's index.

        Call it only for the active segment, or if no later segment has aborted transactions.
        """
        return self._ended[
            bisect_left(self._ended, segment.base_offset, key=attrgetter("last_offset")) :
        ]

    def write_indexes(self, files: Files, directory: Path, segments: Segments) -> None:
        """Write the transaction indexes of ``segments``, whose log is in ``directory``, durably.

        As in Kafka, an aborted transaction is in the index of the segment that holds its marker.
        Segments without such markers get no index. Transactions that ended before the first
        segment are left out. Blocks.
        """
        by_segment: dict[int, list[AbortedTransaction]] = {}
        for each in self._ended:
            if each.last_offset >= segments[0].base_offset:
                base_offset = segments[segments.index_of(each.last_offset)].base_offset
                by_segment.setdefault(base_offset, []).append(each)
        for base_offset, entries in by_segment.items():
            files.write_atomically(
                directory / file_name(base_offset, TXN_INDEX_SUFFIX), pack_index(entries)
            )


NO_TRANSACTIONS = AbortedTransactions()


def pack_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """Return the content of a segment's index. ``entries`` are in the order of their markers."""
    return b"".join(INDEX_ENTRY.pack(_VERSION, *each) for each in entries)


def load_aborted_transactions(
    files: Files, segments: Segments, indexed: Collection[int]
) -> AbortedTransactions:
    """Return the aborted transactions that the indexes of the segments in ``indexed`` name.

    ``indexed`` holds base offsets. If an index is damaged, the log is searched and its indexes are
    rewritten. Blocks.

    Raises:
        StorageError: an index is damaged, and so is the log.
        OSError: the disk failed.
    """
    ended: list[AbortedTransaction] = []
    for segment in [segment for segment in segments if segment.base_offset in indexed]:
        content = files.read_bytes(segment.path(TXN_INDEX_SUFFIX))
        entries = list(
            INDEX_ENTRY.iter_unpack(content[: len(content) - len(content) % INDEX_ENTRY.size])
        )
        if len(content) % INDEX_ENTRY.size or any(
            version != _VERSION or first > last for version, _, first, last, _ in entries
        ):
            return _rebuild(files, segments, segment)
        ended += [AbortedTransaction(*values) for _, *values in entries]
    return AbortedTransactions(ended) if ended else NO_TRANSACTIONS


def _rebuild(files: Files, segments: Segments, damaged: Segment) -> AbortedTransactions:
    path = damaged.path(TXN_INDEX_SUFFIX)
    logger.warning("%s is damaged; aborted transactions are read from the log itself", path)
    try:
        found = AbortedTransactions(_search(segments))
    except KafkaError as error:
        text = (
            f"{path} is damaged, and so is a batch of the log: {error}; restore them, or move the"
            " directory away"
        )
        raise StorageError(text) from error
    files.remove(path)
    found.write_indexes(files, damaged.directory, segments)
    return found


def recover_aborted_transactions(
    files: Files,
    segments: Segments,
    indexed: Collection[int],
    aborted: Sequence[AbortedTransaction],
    from_offset: int,
) -> AbortedTransactions:
    """Rewrite the indexes of the segments from ``from_offset`` on, and return all transactions.

    After a crash, these indexes may be stale. ``aborted`` holds the transactions that the log shows
    as aborted from this offset on. Earlier indexes are used as they are. Blocks.

    Raises:
        StorageError: an index is damaged, and so is the log.
        OSError: the disk failed.
    """
    recovered = [
        segment
        for segment in segments.from_offset(from_offset)
        if segment.base_offset >= from_offset
    ]
    for segment in recovered:
        if segment.base_offset in indexed:
            files.remove(segment.path(TXN_INDEX_SUFFIX))
    older = load_aborted_transactions(
        files, segments, set(indexed).difference(segment.base_offset for segment in recovered)
    )
    if not aborted:
        return older
    found = AbortedTransactions(aborted)
    found.write_indexes(files, segments.active.directory, segments)
    return AbortedTransactions([*older.ended, *aborted])


def _search(segments: Segments) -> Iterator[AbortedTransaction]:
    """Read the log, and yield each aborted transaction in the order of the markers."""
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
