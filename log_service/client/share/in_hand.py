"""Holds the records in hand: those that were returned to the application and not settled yet.

Decides which acknowledgements are still possible, which are implied, and when the lock of a record
has expired. This module knows neither network nor clock. The caller passes the time.

Invariants: a record is in hand from the poll that returned it. It leaves when an acknowledgement
other than RENEW is taken for sending, or when its lock expires. Before that, a later
acknowledgement replaces an earlier one. A record that is delivered again replaces its earlier
delivery.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from log_service.client.share.records import AcknowledgeType, ShareRecord
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition

S = TypeVar("S")

Place = tuple[str, int, int]
"""Topic, partition, offset."""
TypesByOffset = dict[TopicPartition, dict[int, int]]


@dataclass(slots=True)
class _Held(Generic[S]):
    record: ShareRecord
    source: S
    deadline_ms: float
    acknowledge_type: AcknowledgeType | None = None


class InHand(Generic[S]):
    """Records that one application has in hand, each with its source.

    The source is the session that acquired the record. Acknowledgements of the record go only to
    that session.
    """

    def __init__(self) -> None:
        self._held: dict[Place, _Held[S]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hand_out(
        self,
        records: Iterable[ShareRecord],
        source: S,
        deadline_ms: float,
        default: AcknowledgeType | None = None,
    ) -> None:
        """Add records that the application receives now.

        ``default`` is how they are acknowledged if the application does not acknowledge them.
        """
        for record in records:
            self._held[record[:3]] = _Held(record, source, deadline_ms, default)

    def acknowledge(self, record: ShareRecord, kind: AcknowledgeType) -> None:
        """Note the application's acknowledgement of a record.

        Raises:
            KafkaError: INVALID_RECORD_STATE, the record is not in hand.
        """
        held = self._held.get(record[:3])
        if held is None or held.record.delivery_count != record.delivery_count:
            text = (
                "it was acknowledged before, its lock ran out, or this consumer did not return it"
            )
            where = (
                f"the record at {record.topic_partition} offset {record.offset}, delivery"
                f" {record.delivery_count}"
            )
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"{where}, is not in hand: {text}")
        held.acknowledge_type = kind

    def acknowledge_unset(self, records: Iterable[ShareRecord], kind: AcknowledgeType) -> None:
        """Acknowledge those of ``records`` that are in hand and have no acknowledgement yet."""
        for record in records:
            held = self._held.get(record[:3])
            if (
                held is not None
                and held.acknowledge_type is None
                and held.record.delivery_count == record.delivery_count
            ):
                held.acknowledge_type = kind

    def acknowledge_rest(self, kind: AcknowledgeType) -> None:
        """Acknowledge all records in hand that have no acknowledgement yet."""
        for held in self._held.values():
            if held.acknowledge_type is None:
                held.acknowledge_type = kind

    def take_back(self, records: Iterable[ShareRecord]) -> list[tuple[ShareRecord, S, float]]:
        """Remove records that were returned, but did not reach the application.

        Return those that are in hand, each with its source and the deadline of its lock.
        """
        taken = []
        for record in records:
            held = self._held.get(record[:3])
            if held is not None and held.record.delivery_count == record.delivery_count:
                del self._held[record[:3]]
                taken.append((held.record, held.source, held.deadline_ms))
        return taken

    def take_acknowledged(self) -> list[tuple[S, TypesByOffset]]:
        """Return the acknowledgements to send, by source.

        Their records are no longer in hand, unless they are renewed.
        """
        by_source: dict[int, tuple[S, TypesByOffset]] = {}
        for place, held in list(self._held.items()):
            if held.acknowledge_type is None:
                continue
            _, types = by_source.setdefault(id(held.source), (held.source, {}))
            types.setdefault(held.record.topic_partition, {})[held.record.offset] = int(
                held.acknowledge_type
            )
            if held.acknowledge_type is AcknowledgeType.RENEW:
                held.acknowledge_type = None
            else:
                del self._held[place]
        return list(by_source.values())

    def renew(
        self, topic_partition: TopicPartition, offsets: Iterable[int], deadline_ms: float
    ) -> None:
        """Note that the leader renewed locks of records, which now last until ``deadline_ms``."""
        for offset in offsets:
            held = self._held.get((*topic_partition, offset))
            if held is not None:
                held.deadline_ms = max(held.deadline_ms, deadline_ms)

    def drop_expired(self, now_ms: float) -> list[ShareRecord]:
        """Remove and return the records whose lock has expired without an acknowledgement."""
        late = [
            (place, held.record)
            for place, held in self._held.items()
            if held.deadline_ms <= now_ms and held.acknowledge_type is None
        ]
        for place, _ in late:
            del self._held[place]
        return [record for _, record in late]
