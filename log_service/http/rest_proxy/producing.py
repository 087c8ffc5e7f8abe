"""Sends the records of a request, and returns the outcome of each.

All records are handed to the producer in their order before the first result is awaited. The others
are written even if the cluster refuses one of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from log_service.client import Delivery, KafkaError, Producer, RecordMetadata
from log_service.http.rest_proxy.errors import TOO_MANY, RestError
from log_service.records.record import RecordHeader

MAX_PARTITION: Final = 2**31 - 1
MAX_PAUSE_S: Final = 60

Outcome = RecordMetadata | KafkaError


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRecord:
    """One record to send. The producer chooses a ``partition`` or ``timestamp_ms`` of None."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[RecordHeader, ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def require_room(producer: Producer) -> None:
    """Refuse a request while the cluster accepts records more slowly than they arrive.

    If a quota of the cluster throttles the producer, its records wait in its buffer. Half of the
    buffer is left for requests that are being written.

    Raises:
        RestError: 42901, half of the buffer is full. ``Retry-After`` is the cluster's throttle
            time, or a second.
    """
    if producer.accumulator.buffered_bytes * 2 < producer.config.buffer_memory:
        return
    throttle_ms = producer.metrics().produce_throttle_time_max
    pause_s = min(max(ceil(throttle_ms / 1_000), 1), MAX_PAUSE_S) if throttle_ms > 0 else 1
    text = "The cluster takes the records of this login more slowly than they come."
    raise RestError(TOO_MANY, text, (("retry-after", str(pause_s)),))


async def send_all(
    producer: Producer, topic: str, records: Sequence[OutgoingRecord]
) -> list[Outcome]:
    """Send records, and return the outcome of each: its position, or why it was not written."""
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
