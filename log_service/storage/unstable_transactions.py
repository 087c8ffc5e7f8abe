"""Transactions of one log that hold its last stable offset back (KIP-98).

These are open transactions, and those whose marker is not below the high watermark yet. Given the
high watermark, this module decides how far readers of committed records may read. It does not know
files. About batches it knows only the first offset of a producer's transaction and the offset of
its marker. A transaction that began below the start of the log holds readers back at the start.

Invariant: first offsets increase from one open transaction to the next, in the order in which they
are reported.
"""

from collections.abc import Mapping
from typing import NamedTuple


class EndedTransaction(NamedTuple):
    """A transaction that has its marker.

    ``last_offset`` is the marker's offset. ``last_stable_offset`` is the first offset of the oldest
    transaction that is still open at the marker, or the offset after the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class UnstableTransactions:
    """The transactions of one log that hold its last stable offset back."""

    __slots__ = ("_ended", "_open", "_start_offset")

    def __init__(self, start_offset: int = 0) -> None:
        self._start_offset = start_offset
        self._open: dict[int, int] = {}
        self._ended: list[EndedTransaction] = []

    def __repr__(self) -> str:
        return f"<UnstableTransactions open={self._open} ended={len(self._ended)}>"

    @property
    def open(self) -> Mapping[int, int]:
        """The first offset of each open transaction by producer, oldest first."""
        return self._open

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the oldest open transaction, or None."""
        return next(iter(self._open.values()), None)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Begin a producer's transaction at its first batch."""
        self._open[producer_id] = first_offset

    def end(self, producer_id: int, marker_offset: int) -> EndedTransaction | None:
        """End a producer's transaction at its marker, and return the transaction.

        Return None if the producer has no open transaction.
        """
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        next_open_offset = self.first_open_offset
        stable_offset = marker_offset + 1 if next_open_offset is None else next_open_offset
        ended = EndedTransaction(producer_id, first_offset, marker_offset, stable_offset)
        self._ended.append(ended)
        return ended

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the last stable offset, which is at most the high watermark.

        No transaction below it is open, or ended by a marker at or above the high watermark.
        """
        stable = high_watermark
        for first_offset in self._open.values():
            stable = min(stable, first_offset)
            break
        for ended in self._ended:
            if ended.last_offset >= high_watermark:
                stable = min(stable, ended.first_offset)
        return stable if stable >= self._start_offset else min(self._start_offset, high_watermark)

    def start_at(self, offset: int) -> None:
        """Set the log start offset, at which transactions that began earlier hold readers back."""
        self._start_offset = offset

    def settle(self, high_watermark: int) -> int:
        """Drop transactions that ended below the high watermark, and return the last stable offset.

        The high watermark never decreases in this log.
        """
        if self._ended:
            self._ended = [ended for ended in self._ended if ended.last_offset >= high_watermark]
        return self.last_stable_offset(high_watermark)

    def clear(self) -> None:
        """Drop all transactions, because the log is read again."""
        self._open.clear()
        self._ended.clear()
