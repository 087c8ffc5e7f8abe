"""The transactions that one pass meets: which batches were aborted, and which markers nothing is left of.

Decides Kafka's rules (KIP-98, KIP-534): records of aborted transactions go; a marker may go once a pass meets no batch of its transaction,
an emptied one counts as a batch; an aborted transaction stays in the index of the segment that its marker is in for as long as the marker
has to stay. Knows nothing of files and keys.

Invariant: whether a batch was aborted depends on nothing but the index: between the first offset of a transaction and its marker every
transactional batch of its producer belongs to it.
"""

from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter

from log_service.records.batch import BatchHeader
from log_service.records.control import ControlType
from log_service.storage.aborted_transactions import AbortedTransaction

_MARKERS = frozenset({ControlType.ABORT, ControlType.COMMIT})


class PassTransactions:
    """Those of one pass, told of every batch that it reads in the order of offsets. ``aborted`` are in the order of their markers."""

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        self._met_producers: set[int] = set()
        self._kept: list[AbortedTransaction] = []
        for each in aborted:
            self._aborted.setdefault(each.producer_id, []).append(each)

    def __repr__(self) -> str:
        return f"<PassTransactions open={sorted(self._met_producers)} kept={len(self._kept)}>"

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the batch holds records of an aborted transaction."""
        return header.is_transactional and not header.is_control and self._find(header) is not None

    def note_batch(self, header: BatchHeader) -> None:
        """Take note of a batch of records."""
        if header.is_transactional:
            self._met_producers.add(header.producer_id)

    def note_control(self, header: BatchHeader, control_type: ControlType | None) -> bool:
        """Take note of a control batch. Says whether it is a marker, and nothing of its transaction was met."""
        is_needless = control_type in _MARKERS and header.producer_id not in self._met_producers
        self._met_producers.discard(header.producer_id)
        if control_type is ControlType.ABORT and not is_needless and (ended := self._find(header)) is not None:
            self._kept.append(ended)
        return is_needless

    def note_unreadable_control(self, header: BatchHeader) -> None:
        """Take note of a control batch that stays as it is: it is the marker of a transaction only if the index says so."""
        ended = self._find(header)
        if ended is not None and ended.last_offset <= header.last_offset:
            self.note_control(header, ControlType.ABORT)

    def take_kept(self) -> list[AbortedTransaction]:
        """Return, once, what has to be in the index of the segment whose last batch was met."""
        kept, self._kept = self._kept, []
        return kept

    def _find(self, header: BatchHeader) -> AbortedTransaction | None:
        """Return the aborted transaction that a transactional batch, or a marker, belongs to."""
        ended = self._aborted.get(header.producer_id, [])
        index = bisect_left(ended, header.base_offset, key=attrgetter("last_offset"))
        return ended[index] if index < len(ended) and ended[index].first_offset <= header.last_offset else None
