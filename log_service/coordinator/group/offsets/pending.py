"""Positions that open transactions have committed for groups, and that count when the transaction is committed (KIP-98, KIP-447).

Decides what of a producer's transaction counts once it ends: not what was committed again meanwhile, further on in the log. Such a position
stays pending, because its transaction is still open, and readers who ask for stable positions go on waiting for it. A position that was
deleted meanwhile is forgotten at once. Knows nothing of members, nor of the positions that count.

Invariant: ``_waiting`` names a producer for a position exactly as long as ``_by_producer`` holds the position.
"""

from collections.abc import Collection, Iterator

from log_service.common.types import TopicPartition
from log_service.coordinator.group.records.offset import OffsetRecord

NONE_PENDING = -1
_Key = tuple[str, TopicPartition]


class PendingOffsets:
    """Those of one shard."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[_Key, tuple[int, OffsetRecord | None]]] = {}
        """Each with the offset of its record; None in place of the record where a later one counts."""
        self._waiting: dict[str, dict[TopicPartition, set[int]]] = {}

    def __repr__(self) -> str:
        return f"<PendingOffsets producers={len(self._by_producer)}>"

    def group_ids(self) -> Iterator[str]:
        """Iterate over the groups for which transactions have committed something."""
        yield from self._waiting

    def of(self, group_id: str) -> Collection[TopicPartition]:
        """Return the partitions for which open transactions have committed positions of a group."""
        return self._waiting.get(group_id, {}).keys()

    def last_of(self, group_id: str, where: TopicPartition) -> int:
        """Return the offset of the last record of a position that is pending; ``NONE_PENDING`` where none is."""
        waiting = self._waiting.get(group_id, {}).get(where, ())
        return max((self._by_producer[producer_id][group_id, where][0] for producer_id in waiting), default=NONE_PENDING)

    def add(self, producer_id: int, offset: int, record: OffsetRecord) -> None:
        """Take a position that a transaction commits; ``offset`` is that of its record."""
        where = TopicPartition(record.topic, record.partition)
        self._by_producer.setdefault(producer_id, {})[record.group_id, where] = (offset, record)
        self._waiting.setdefault(record.group_id, {}).setdefault(where, set()).add(producer_id)

    def end(self, producer_id: int) -> list[tuple[int, OffsetRecord]]:
        """End a producer's transaction; return what counts if it was committed, each with the offset of its record."""
        ended = self._by_producer.pop(producer_id, {})
        for group_id, where in ended:
            self._wait_no_more(producer_id, group_id, where)
        return [(offset, record) for offset, record in ended.values() if record is not None]

    def note_committed(self, group_id: str, where: TopicPartition, offset: int) -> None:
        """Take note that a record at ``offset`` counts: what stands before it in the log never does."""
        for producer_id in self._waiting.get(group_id, {}).get(where, ()):
            positions = self._by_producer[producer_id]
            if positions[group_id, where][0] < offset:
                positions[group_id, where] = (positions[group_id, where][0], None)

    def note_deleted(self, group_id: str, where: TopicPartition) -> None:
        """Forget what is pending for a position that is deleted."""
        for producer_id in tuple(self._waiting.get(group_id, {}).get(where, ())):
            positions = self._by_producer[producer_id]
            del positions[group_id, where]
            if not positions:
                del self._by_producer[producer_id]
            self._wait_no_more(producer_id, group_id, where)

    def _wait_no_more(self, producer_id: int, group_id: str, where: TopicPartition) -> None:
        of_group = self._waiting[group_id]
        of_group[where].discard(producer_id)
        if not of_group[where]:
            del of_group[where]
        if not of_group:
            del self._waiting[group_id]
