"""Sends the records of a request, and says what became of each.

All records are handed to the producer in their order before the first result is awaited. A record
that the cluster refuses does not keep the others from being written.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from log_service.client import Delivery, KafkaError, Producer, RecordMetadata
from log_service.records.record import RecordHeader

Outcome = RecordMetadata | KafkaError


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRecord:
    """One record to send. ``partition`` and ``timestamp_ms`` None are chosen by the producer."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[RecordHeader, ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


async def send_all(
    producer: Producer, topic: str, records: Sequence[OutgoingRecord]
) -> list[Outcome]:
    """Send records, and return for each where it is, or why it is nowhere."""
    sent = [await _send(producer, topic, each) for each in records]
    return [each if isinstance(each, KafkaError) else await _outcome(each) for each in sent]


async def _send(producer: Producer, topic: str, record: OutgoingRecord) -> Delivery | KafkaError:
    try:
        return await producer.send(
            topic,
            record.value,
            record.key,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
            partition=record.partition,
        )
    except KafkaError as error:
        return error


async def _outcome(delivery: Delivery) -> Outcome:
    try:
        return await delivery.wait()
    except KafkaError as error:
        return error
