"""Finds out from control records how the transactions of records ended. Values in, values out.

Call ``note`` with the records in the order of their partition's log. A marker ends the transaction
of its producer in that partition.
"""

from bisect import bisect_right

from log_service.client.consumer.records import ConsumerRecord, LogRecord
from log_service.common.types import TopicPartition

Producer = tuple[TopicPartition, int]
OPEN = "open"
FATES = {"COMMIT": "committed", "ABORT": "aborted"}


class Fates:
    """The outcomes of transactions whose records or markers were read."""

    def __init__(self) -> None:
        self._ends: dict[Producer, list[tuple[int, str]]] = {}
        self._open: set[Producer] = set()

    def __repr__(self) -> str:
        return f"<Fates producers={len(self._ends)} open={len(self._open)}>"

    @property
    def has_open(self) -> bool:
        """Whether ``ask`` was called for a transaction whose outcome is still unknown."""
        return bool(self._open)

    def note(self, record: ConsumerRecord) -> None:
        """Note the outcome that a marker tells. Other records are ignored."""
        marker = record.marker if isinstance(record, LogRecord) else None
        if marker is not None and marker.kind in FATES:
            producer = record.topic_partition, marker.producer_id
            self._ends.setdefault(producer, []).append((record.offset, FATES[marker.kind]))
            self._open.discard(producer)

    def ask(self, record: ConsumerRecord) -> None:
        """Make ``has_open`` true until the marker of this record's transaction is noted.

        Call it before ``note`` gets a later record. A record without a transaction is ignored.
        """
        if isinstance(record, LogRecord) and record.is_transactional and not record.is_control:
            self._open.add((record.topic_partition, record.producer_id))

    def of(self, record: ConsumerRecord) -> str:
        """Return the outcome of a record's transaction: committed, aborted or open.

        The outcome is empty without a transaction. It is open if no later marker of its producer
        was noted.
        """
        if not isinstance(record, LogRecord) or not record.is_transactional or record.is_control:
            return ""
        ends = self._ends.get((record.topic_partition, record.producer_id), [])
        place = bisect_right(ends, record.offset, key=lambda each: each[0])
        return ends[place][1] if place < len(ends) else OPEN
