"""The transactions of one log that hold its last stable offset back (KIP-98): those that are open, and those whose marker is not safe yet.

Decides how far readers of committed records may read, given the high watermark. Knows nothing of files, and of batches only what it is
told: where a producer's transaction begins, and where its marker is. A transaction that began below the start of the log holds readers back
at the start.

Invariant: the first offsets rise from one open transaction to the next, in the order in which they are told.
"""

from collections.abc import Mapping
from typing import NamedTuple


class EndedTransaction(NamedTuple):
    """A transaction that has its marker. ``last_offset`` is the marker's, ``last_stable_offset`` where the first one began that was open
    then, or the offset behind the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class UnstableTransactions:
    """Those of one log."""

    __slots__ = ("_ended", "_open", "_start_offset")

    def __init__(self, start_offset: int = 0) -> None:
        self._start_offset = start_offset
        self._open: dict[int, int] = {}
        self._ended: list[EndedTransaction] = []

    def __repr__(self) -> str:
        return f"<UnstableTransactions open={self._open} ended={len(self._ended)}>"

    @property
    def open(self) -> Mapping[int, int]:
        """The first offsets of the open transactions by producer, the oldest first."""
        return self._open

    @property
    def first_open_offset(self) -> int | None:
        """Where the first one began that is open, None where none is."""
        return next(iter(self._open.values()), None)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Take the first batch of a producer's transaction."""
        self._open[producer_id] = first_offset

    def end(self, producer_id: int, marker_offset: int) -> EndedTransaction | None:
        """Take the marker of a producer's transaction; None where it ends none."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        next_open_offset = self.first_open_offset
        stable_offset = marker_offset + 1 if next_open_offset is None else next_open_offset
        ended = EndedTransaction(producer_id, first_offset, marker_offset, stable_offset)
        self._ended.append(ended)
        return ended

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return how far no transaction is open, or ended by a marker that is not safe yet; the high watermark at most."""
        stable = high_watermark
        for first_offset in self._open.values():
            stable = min(stable, first_offset)
            break
        for ended in self._ended:
            if ended.last_offset >= high_watermark:
                stable = min(stable, ended.first_offset)
        return stable if stable >= self._start_offset else min(self._start_offset, high_watermark)

    def start_at(self, offset: int) -> None:
        """Take over where the log starts."""
        self._start_offset = offset

    def settle(self, high_watermark: int) -> int:
        """Forget what ended below the high watermark, which does not go back in this log, and return the last stable offset."""
        if self._ended:
            self._ended = [ended for ended in self._ended if ended.last_offset >= high_watermark]
        return self.last_stable_offset(high_watermark)

    def clear(self) -> None:
        """Forget all: the log is read again."""
        self._open.clear()
        self._ended.clear()
