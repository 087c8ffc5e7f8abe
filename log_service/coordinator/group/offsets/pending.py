"""Offsets of groups that are pending in open transactions (KIP-98, KIP-447).

This file decides which offsets of a producer's transaction take effect when it ends. A pending
offset is superseded if another offset was committed for the partition later in the log. It still
counts as pending until its transaction ends, because fetches of stable offsets wait for the
transaction. A pending offset is dropped at once if the offset of its partition is deleted. This
file knows neither members nor committed offsets.

Invariant: ``_waiting`` names a producer for a partition of a group exactly as long as
``_by_producer`` holds an entry of this producer for the partition.
"""

from collections.abc import Collection, Iterator

from log_service.common.types import TopicPartition
from log_service.coordinator.group.records.offset import OffsetRecord

NONE_PENDING = -1
_Key = tuple[str, TopicPartition]


class PendingOffsets:
    """The pending offsets of one shard."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[_Key, tuple[int, OffsetRecord | None]]] = {}
        """The log offset and the record of each pending offset.

        The record is None if the offset is superseded.
        """
        self._waiting: dict[str, dict[TopicPartition, set[int]]] = {}

    def __repr__(self) -> str:
        return f"<PendingOffsets producers={len(self._by_producer)}>"

    def group_ids(self) -> Iterator[str]:
        """Iterate over the groups with pending offsets."""
        yield from self._waiting

    def of(self, group_id: str) -> Collection[TopicPartition]:
        """Return the partitions for which a group has pending offsets."""
        return self._waiting.get(group_id, {}).keys()

    def last_of(self, group_id: str, where: TopicPartition) -> int:
        """Return the log offset of the last pending record for a partition, or ``NONE_PENDING``."""
        waiting = self._waiting.get(group_id, {}).get(where, ())
        return max(
            (self._by_producer[producer_id][group_id, where][0] for producer_id in waiting),
            default=NONE_PENDING,
        )

    def add(self, producer_id: int, offset: int, record: OffsetRecord) -> None:
        """Add a pending offset. ``offset`` is the log offset of its record."""
        where = TopicPartition(record.topic, record.partition)
        self._by_producer.setdefault(producer_id, {})[record.group_id, where] = (offset, record)
        self._waiting.setdefault(record.group_id, {}).setdefault(where, set()).add(producer_id)

    def end(self, producer_id: int) -> list[tuple[int, OffsetRecord]]:
        """End a producer's transaction. Return the records that take effect if it was committed.

        Each record comes with its log offset.
        """
        ended = self._by_producer.pop(producer_id, {})
        for group_id, where in ended:
            self._wait_no_more(producer_id, group_id, where)
        return [(offset, record) for offset, record in ended.values() if record is not None]

    def note_committed(self, group_id: str, where: TopicPartition, offset: int) -> None:
        """Supersede pending offsets whose records come before log offset ``offset``."""
        for producer_id in self._waiting.get(group_id, {}).get(where, ()):
            positions = self._by_producer[producer_id]
            if positions[group_id, where][0] < offset:
                positions[group_id, where] = (positions[group_id, where][0], None)

    def note_deleted(self, group_id: str, where: TopicPartition) -> None:
        """Drop the pending offsets of a partition whose committed offset was deleted."""
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
