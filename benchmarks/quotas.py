"""Quotas of bytes: how far from its bound a client ends up that sends, or reads, a quarter more than it is let.

A producer and a consumer, each with a client id and a bound of its own, go at the same time. A quota lets a client use up in a moment what
it has not used for ten windows, and then makes it wait until that is over: a client that goes as fast as it can moves everything in one
second of twelve. These go at a steady pace, so that it does not matter much where a span begins, and the first span does not count.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition

from benchmarks.broker_process import ERRORS_ONLY, BenchmarkError
from benchmarks.measured import Asked, Measured
from benchmarks.produce import MEGABYTE, produce_values, producer_of
from benchmarks.table import PERCENT, Row, value_at_most
from log_service.client import BlockingAdmin, QuotaEntity

BOUND = 4_000_000
"""Bytes a second: far below what either broker can do, so that only the quota decides."""
VALUE_BYTES = 10_240
"""Large beside what a request and a batch add, which count against the quota, too."""
BATCH_BYTES = 128 << 10
SPAN_S = 11.0
"""The windows over which brokers measure (``quota.window.num``, ``quota.window.size.seconds``)."""
SPANS = 2
PACE = 1.25 * BOUND
CATCH_UP_S = 0.1
"""What a client was late by is made up for no further back: after a pause it does not hurry."""
PREFETCHED_KIB = 512
GOAL_PERCENT = 5.0
PAUSE_S = 0.01


@dataclass(slots=True)
class Taken:
    """How many bytes came through, and when."""

    moments: list[tuple[float, int]] = field(default_factory=list)

    def note(self, size_bytes: int) -> None:
        """Count bytes as of now."""
        self.moments.append((time.monotonic(), size_bytes))

    def rate(self, began: float, ended: float) -> float:
        """Return the bytes a second between two moments."""
        return sum(size_bytes for moment, size_bytes in self.moments if began <= moment < ended) / (ended - began)


class Pace:
    """Lets so many bytes a second pass."""

    def __init__(self) -> None:
        self._due = time.monotonic()

    def wait(self, size_bytes: int) -> None:
        """Wait until these bytes are due."""
        now = time.monotonic()
        self._due = max(self._due, now - CATCH_UP_S)
        time.sleep(max(0.0, self._due - now))
        self._due += size_bytes / PACE


def send_until(ended: float, address: str, topic: str, client_id: str, taken: Taken) -> None:
    """Produce at a pace that the quota does not let through; what counts is what was acknowledged."""
    failures: list[object] = []

    def on_delivery(error: object, _record: object) -> None:
        if error:
            failures.append(error)
        else:
            taken.note(VALUE_BYTES)

    producer = producer_of(
        address,
        client_id=client_id,
        batch_size=BATCH_BYTES,
        queue_buffering_max_kbytes=4 * BATCH_BYTES >> 10,
        delivery_report_only_error=False,
    )
    value, pace = bytes(VALUE_BYTES), Pace()
    while time.monotonic() < ended:
        pace.wait(VALUE_BYTES)
        try:
            producer.produce(topic, value, on_delivery=on_delivery)
            producer.poll(0)
        except BufferError:
            producer.poll(PAUSE_S)
    producer.purge()
    producer.poll(0)
    if failures and not taken.moments:
        raise BenchmarkError(f"the producer with a quota failed: {failures[0]}")


def read_until(ended: float, address: str, topic: str, client_id: str, taken: Taken) -> None:
    """Read from the start at a pace that the quota does not let through."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "log_level": ERRORS_ONLY,
            "client.id": client_id,
            "group.id": client_id,
            "enable.auto.commit": False,
            "fetch.message.max.bytes": BATCH_BYTES,
            "queued.max.messages.kbytes": PREFETCHED_KIB,
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    pace = Pace()
    while time.monotonic() < ended:
        record = consumer.poll(PAUSE_S)
        if record is None:
            continue
        if record.error():
            raise BenchmarkError(f"the consumer with a quota failed: {record.error()}")
        taken.note(VALUE_BYTES)
        pace.wait(VALUE_BYTES)
    consumer.close()


def measure(broker: Measured, bench: Asked) -> list[Row]:
    """Measure one round. At a small scale one span counts; there is no shorter way to see a rate."""
    spans = max(1, round(SPANS * bench.scale))
    seconds = SPAN_S * (1 + spans)
    with broker.topic() as written, broker.topic() as read, BlockingAdmin(broker.address) as admin:
        entities = {
            QuotaEntity(client_id=f"writer-{written}"): "producer_byte_rate",
            QuotaEntity(client_id=f"reader-{read}"): "consumer_byte_rate",
        }
        produce_values(broker.address, read, VALUE_BYTES, int(BOUND * (seconds + 2 * SPAN_S) / VALUE_BYTES))
        admin.alter_client_quotas({entity: {key: BOUND} for entity, key in entities.items()})
        try:
            sent, taken = Taken(), Taken()
            began = time.monotonic() + SPAN_S
            ended = began + spans * SPAN_S
            with ThreadPoolExecutor(2) as threads:
                sending = threads.submit(send_until, ended, broker.address, written, f"writer-{written}", sent)
                reading = threads.submit(read_until, ended, broker.address, read, f"reader-{read}", taken)
                sending.result()
                reading.result()
        finally:
            admin.alter_client_quotas({entity: {key: None} for entity, key in entities.items()})
    return [*rows_of("sent", sent.rate(began, ended)), *rows_of("read", taken.rate(began, ended))]


def rows_of(verb: str, rate: float) -> list[Row]:
    """Return a rate, and how far it is from its bound."""
    name = f"{verb} under a quota of {BOUND / MEGABYTE:g} MB/s"
    off = abs(rate / BOUND - 1) * 100
    return [
        Row(figure=name, unit="MB/s", rounds=(rate / MEGABYTE,)),
        Row(figure=f"  {name}, off by", unit=PERCENT, rounds=(off,), goal=value_at_most(GOAL_PERCENT)),
    ]
