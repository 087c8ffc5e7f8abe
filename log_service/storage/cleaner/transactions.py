"""Transactions in one pass: their aborted batches and needless markers.

The rules are Kafka's (KIP-98, KIP-534). Records of aborted transactions are removed. A marker may
be removed when a pass finds no batch of its transaction. An emptied batch also counts as a batch.
An aborted transaction stays in the index of its marker's segment as long as the marker exists. This
module does not know files and keys.

Invariant: only the index decides whether a batch was aborted. Between the first offset of a
transaction and its marker, every transactional batch of its producer belongs to it.
"""

from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter

from log_service.records.batch import BatchHeader
from log_service.records.control import ControlType
from log_service.storage.aborted_transactions import AbortedTransaction

_MARKERS = frozenset({ControlType.ABORT, ControlType.COMMIT})


class PassTransactions:
    """The transactions of one pass. The pass reports every batch in the order of offsets.

    ``aborted`` is in the order of the markers.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        self._met_producers: set[int] = set()
        self._kept: list[AbortedTransaction] = []
        for each in aborted:
            self._aborted.setdefault(each.producer_id, []).append(each)

    def __repr__(self) -> str:
        return f"<PassTransactions open={sorted(self._met_producers)} kept={len(self._kept)}>"

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether the batch holds records of an aborted transaction."""
        return header.is_transactional and not header.is_control and self._find(header) is not None

    def note_batch(self, header: BatchHeader) -> None:
        """Register a batch of records."""
        if header.is_transactional:
            self._met_producers.add(header.producer_id)

    def note_control(self, header: BatchHeader, control_type: ControlType | None) -> bool:
        """Register a control batch.

        Return whether it is a marker of a transaction without any batch left.
        """
        is_needless = control_type in _MARKERS and header.producer_id not in self._met_producers
        self._met_producers.discard(header.producer_id)
        if (
            control_type is ControlType.ABORT
            and not is_needless
            and (ended := self._find(header)) is not None
        ):
            self._kept.append(ended)
        return is_needless

    def note_unreadable_control(self, header: BatchHeader) -> None:
        """Register a control batch that cannot be read and is retained.

        It is the marker of a transaction only if the index says so.
        """
        ended = self._find(header)
        if ended is not None and ended.last_offset <= header.last_offset:
            self.note_control(header, ControlType.ABORT)

    def take_kept(self) -> list[AbortedTransaction]:
        """Return the aborted transactions whose markers are retained in the segment just read.

        They become the index of aborted transactions of the cleaned segment. The pass forgets them.
        """
        kept, self._kept = self._kept, []
        return kept

    def _find(self, header: BatchHeader) -> AbortedTransaction | None:
        """Return the aborted transaction of a transactional batch or marker, or None."""
        ended = self._aborted.get(header.producer_id, [])
        index = bisect_left(ended, header.base_offset, key=attrgetter("last_offset"))
        return (
            ended[index]
            if index < len(ended) and ended[index].first_offset <= header.last_offset
            else None
        )
