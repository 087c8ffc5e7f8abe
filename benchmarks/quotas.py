"""Measures how far clients end up from their quota of bytes when they exceed it by a quarter.

Producers and consumers go at the same time, each with a client id and a bound of its own: one of
each kind, and crowds of 8 and of 64 that share a client id, and so a bound. A quota lets a client
use up in a moment the unused part of ten windows, and then makes it wait until that is over. So a
client that goes as fast as it can moves everything in one second of twelve. These go at a steady
pace, so that it does not matter much where a span begins. The first span does not count.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition

from benchmarks.broker_process import ERRORS_ONLY, BenchmarkError
from benchmarks.measured import Asked, Measured
from benchmarks.produce import MEGABYTE, produce_values, producer_of
from benchmarks.table import PERCENT, Row, value_at_most
from log_service.client import BlockingAdmin, QuotaEntity

BOUND = 4_000_000
"""The quota in bytes a second.

It is far below either broker's speed, so that only the quota decides.
"""
VALUE_BYTES = 10_240
"""Bytes of a value. They are many beside a request's and a batch's own, which count, too."""
BATCH_BYTES = 128 << 10
CROWD_BATCH_BYTES = 16 << 10
"""Bytes of a batch of a crowd's client, which has a small part of the bound."""
STORED_BATCH_BYTES = 64 << 10
"""Bytes of a batch that a crowd reads.

They are more than one client asks for, so that a response holds one whole batch, and no part of
another one.
"""
CLIENT_COUNTS = (1, 8, 64)
"""Numbers of clients that share a bound."""
SPAN_S = 11.0
"""The length of the windows over which brokers measure.

See ``quota.window.num`` and ``quota.window.size.seconds``.
"""
SPANS = 2
PACE = 1.25 * BOUND
CATCH_UP_S = 0.1
"""The most delay that a client makes up for, so that it does not hurry after a pause."""
PREFETCHED_KIB = 512
"""Prefetched data of all consumers of a bound together."""
GOAL_PERCENT = 5.0
PAUSE_S = 0.01


@dataclass(slots=True)
class Taken:
    """The bytes that came through, with their times."""

    moments: list[tuple[float, int]] = field(default_factory=list)

    def note(self, size_bytes: int) -> None:
        """Count bytes as of now."""
        self.moments.append((time.monotonic(), size_bytes))

    def rate(self, began: float, ended: float) -> float:
        """Return the bytes a second between two moments."""
        return sum(size_bytes for moment, size_bytes in self.moments if began <= moment < ended) / (
            ended - began
        )


class Pace:
    """Limits work to so many bytes a second."""

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self._due = time.monotonic()

    def wait(self, size_bytes: int) -> None:
        """Wait until these bytes are due."""
        now = time.monotonic()
        self._due = max(self._due, now - CATCH_UP_S)
        time.sleep(max(0.0, self._due - now))
        self._due += size_bytes / self.bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Clients of one client id, which share a bound, and the topic that they write or read.

    ``taken`` counts the bytes that came through for them.
    """

    address: str
    topic: str
    client_id: str
    client_count: int
    ended: float
    taken: Taken = field(default_factory=Taken)

    @property
    def batch_bytes(self) -> int:
        """Return the batch size of one of them."""
        return BATCH_BYTES if self.client_count == 1 else CROWD_BATCH_BYTES

    def pace(self) -> Pace:
        """Return the pace of one of them."""
        return Pace(PACE / self.client_count)


def send_until_ended(crowd: Crowd) -> None:
    """Produce at a pace that the quota does not let through.

    Acknowledged bytes count.
    """
    failures: list[object] = []

    def on_delivery(error: object, _record: object) -> None:
        if error:
            failures.append(error)
        else:
            crowd.taken.note(VALUE_BYTES)

    producer = producer_of(
        crowd.address,
        client_id=crowd.client_id,
        batch_size=crowd.batch_bytes,
        queue_buffering_max_kbytes=4 * crowd.batch_bytes >> 10,
        delivery_report_only_error=False,
    )
    value, pace = bytes(VALUE_BYTES), crowd.pace()
    while time.monotonic() < crowd.ended:
        pace.wait(VALUE_BYTES)
        try:
            producer.produce(crowd.topic, value, on_delivery=on_delivery)
            producer.poll(0)
        except BufferError:
            producer.poll(PAUSE_S)
    producer.purge()
    producer.poll(0)
    if failures and not crowd.taken.moments:
        raise BenchmarkError(f"the producer with a quota failed: {failures[0]}")


def read_until_ended(crowd: Crowd) -> None:
    """Read from the start at a pace that the quota does not let through."""
    consumer = Consumer(
        {
            "bootstrap.servers": crowd.address,
            "log_level": ERRORS_ONLY,
            "client.id": crowd.client_id,
            "group.id": crowd.client_id,
            "enable.auto.commit": False,
            "fetch.message.max.bytes": crowd.batch_bytes,
            "queued.max.messages.kbytes": PREFETCHED_KIB // crowd.client_count,
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(crowd.topic, 0, 0)])
    pace = crowd.pace()
    while time.monotonic() < crowd.ended:
        record = consumer.poll(PAUSE_S)
        if record is None:
            continue
        if record.error():
            raise BenchmarkError(f"the consumer with a quota failed: {record.error()}")
        crowd.taken.note(VALUE_BYTES)
        pace.wait(VALUE_BYTES)
    consumer.close()


def measure(broker: Measured, bench: Asked) -> list[Row]:
    """Measure one round.

    At a small scale one span counts, because there is no shorter way to see a rate.
    """
    spans = max(1, round(SPANS * bench.scale))
    seconds = SPAN_S * (1 + spans)
    with ExitStack() as stack:
        written = {count: stack.enter_context(broker.topic()) for count in CLIENT_COUNTS}
        read = {count: stack.enter_context(broker.topic()) for count in CLIENT_COUNTS}
        for client_count, topic in read.items():
            count = int(BOUND * (seconds + 2 * SPAN_S) / VALUE_BYTES) // client_count
            settings = {} if client_count == 1 else {"batch_size": STORED_BATCH_BYTES}
            produce_values(broker.address, topic, VALUE_BYTES, count, **settings)
        began = time.monotonic() + SPAN_S
        ended = began + spans * SPAN_S
        senders, readers = (
            {
                count: Crowd(
                    address=broker.address,
                    topic=topic,
                    client_id=topic,
                    client_count=count,
                    ended=ended,
                )
                for count, topic in topics.items()
            }
            for topics in (written, read)
        )
        bounds = {
            **{
                QuotaEntity(client_id=crowd.client_id): "producer_byte_rate"
                for crowd in senders.values()
            },
            **{
                QuotaEntity(client_id=crowd.client_id): "consumer_byte_rate"
                for crowd in readers.values()
            },
        }
        with bounded(broker.address, bounds), ThreadPoolExecutor(2 * sum(CLIENT_COUNTS)) as threads:
            at_work = [
                *begun(threads, send_until_ended, senders.values()),
                *begun(threads, read_until_ended, readers.values()),
            ]
            for each in at_work:
                each.result()
    return [
        row
        for verb, crowds in (("sent", senders), ("read", readers))
        for count, crowd in crowds.items()
        for row in rows_of(verb, crowd.taken.rate(began, ended), count)
    ]


@contextmanager
def bounded(address: str, bounds: Mapping[QuotaEntity, str]) -> Iterator[None]:
    """Give clients a quota of ``BOUND`` each."""
    with BlockingAdmin(address) as admin:
        admin.alter_client_quotas({entity: {key: BOUND} for entity, key in bounds.items()})
        try:
            yield
        finally:
            admin.alter_client_quotas({entity: {key: None} for entity, key in bounds.items()})


def begun(
    threads: ThreadPoolExecutor, work: Callable[[Crowd], None], crowds: Iterable[Crowd]
) -> Iterator[Future[None]]:
    """Let all clients of some crowds work, each in a thread."""
    for crowd in crowds:
        for _ in range(crowd.client_count):
            yield threads.submit(work, crowd)


def rows_of(verb: str, rate: float, client_count: int = 1) -> list[Row]:
    """Return a rate, and its distance from its bound."""
    crowd = "" if client_count == 1 else f" by {client_count} clients"
    name = f"{verb} under a quota of {BOUND / MEGABYTE:g} MB/s{crowd}"
    off = abs(rate / BOUND - 1) * 100
    return [
        Row(figure=name, unit="MB/s", rounds=(rate / MEGABYTE,)),
        Row(
            figure=f"  {name}, off by",
            unit=PERCENT,
            rounds=(off,),
            goal=value_at_most(GOAL_PERCENT),
        ),
    ]
