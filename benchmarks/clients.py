"""Compares our own client with confluent-kafka, the fastest client for Python.

Both use the same tidelog node, the same topic and the same settings. Each side hands over records
as its users do: many at a time (``send_many``; ``produce_batch``) and one by one (``send``;
``produce``), and looks at every value that it reads. A client's threads and event loop are in this
process, whose CPU is the client's. The broker has a process of its own. Connecting is not measured:
the clock starts when a client knows the topic.
"""

import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition

from benchmarks.broker_process import ERRORS_ONLY, BenchmarkError, BrokerProcess, running_broker
from benchmarks.produce import CHUNK, MEGABYTE, produce_values
from benchmarks.rounds import Bench, Sides
from benchmarks.table import Row
from log_service.client import (
    BlockingConsumer,
    BlockingProducer,
    Consumer,
    Producer,
    TopicPartition,
)

PEER = "confluent-kafka"
SIZES = {"100 B": (100, 600_000), "1 KiB": (1024, 300_000)}
PRODUCER: dict[str, Any] = {"batch_size": 512 << 10, "linger_ms": 5, "buffer_memory": 128 << 20}
CONFLUENT_PRODUCER: dict[str, Any] = {
    "log_level": ERRORS_ONLY,
    "enable.idempotence": True,
    "batch.size": 512 << 10,
    "batch.num.messages": 100_000,
    "linger.ms": 5,
    "queue.buffering.max.kbytes": 128 << 10,
    "queue.buffering.max.messages": 500_000,
    "delivery.report.only.error": True,
}
CONSUMER: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "max_partition_fetch_bytes": 8 << 20,
    "queued_max_bytes": 256 << 20,
}
CONFLUENT_CONSUMER: dict[str, Any] = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "fetch.message.max.bytes": 8 << 20,
    "queued.max.messages.kbytes": 256 << 10,
    "queued.min.messages": 500_000,
}
POLL_RECORDS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The seconds, and the CPU seconds of this process, that work took."""

    seconds: float
    cpu_s: float


@dataclass(slots=True)
class Watch:
    started: float = field(default_factory=time.monotonic)
    cpu_before: float = field(default_factory=time.process_time)

    def spent(self) -> Spent:
        return Spent(
            seconds=time.monotonic() - self.started, cpu_s=time.process_time() - self.cpu_before
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of a client."""

    address: str
    topic: str
    value: bytes
    count: int

    def chunks(self) -> Iterator[list[bytes]]:
        for start in range(0, self.count, CHUNK):
            yield [self.value] * min(CHUNK, self.count - start)

    def require_all(self, read_bytes: int) -> None:
        if read_bytes != self.count * len(self.value):
            raise BenchmarkError(
                f"{read_bytes:,} bytes of values were read instead of"
                f" {self.count * len(self.value):,}"
            )


Way = Callable[[Work], Spent]


def in_trio(way: Callable[[Work], object]) -> Way:
    return partial(trio.run, way)  # type: ignore[arg-type]


async def trio_send_many(work: Work) -> Spent:
    async with Producer(work.address, **PRODUCER) as producer:
        await producer.partitions_for(work.topic)
        watch = Watch()
        for chunk in work.chunks():
            await producer.send_many(work.topic, chunk)
        await producer.flush()
        return watch.spent()


async def trio_send(work: Work) -> Spent:
    async with Producer(work.address, **PRODUCER) as producer:
        await producer.partitions_for(work.topic)
        watch = Watch()
        for _ in range(work.count):
            await producer.send(work.topic, work.value)
        await producer.flush()
        return watch.spent()


async def trio_poll(work: Work) -> Spent:
    async with Consumer(work.address, **CONSUMER) as consumer:
        await consumer.partitions_for(work.topic)
        watch, read_count, read_bytes = Watch(), 0, 0
        consumer.assign([TopicPartition(work.topic, 0)])
        while read_count < work.count and (
            records := await consumer.poll(POLL_RECORDS, timeout_ms=10_000)
        ):
            read_count += len(records)
            read_bytes += sum(len(record.value) for record in records)
        spent = watch.spent()
    work.require_all(read_bytes)
    return spent


def blocking_send_many(work: Work) -> Spent:
    with BlockingProducer(work.address, **PRODUCER) as producer:
        producer.partitions_for(work.topic)
        watch = Watch()
        for chunk in work.chunks():
            producer.send_many(work.topic, chunk)
        producer.flush()
        return watch.spent()


def blocking_send(work: Work) -> Spent:
    with BlockingProducer(work.address, **PRODUCER) as producer:
        producer.partitions_for(work.topic)
        watch = Watch()
        for _ in range(work.count):
            producer.send(work.topic, work.value)
        producer.flush()
        return watch.spent()


def blocking_poll(work: Work) -> Spent:
    with BlockingConsumer(work.address, **CONSUMER) as consumer:
        consumer.partitions_for(work.topic)
        watch, read_count, read_bytes = Watch(), 0, 0
        consumer.assign([TopicPartition(work.topic, 0)])
        while read_count < work.count and (
            records := consumer.poll(POLL_RECORDS, timeout_ms=10_000)
        ):
            read_count += len(records)
            read_bytes += sum(len(record.value) for record in records)
        spent = watch.spent()
    work.require_all(read_bytes)
    return spent


def confluent_send_many(work: Work) -> Spent:
    producer = ConfluentProducer({"bootstrap.servers": work.address, **CONFLUENT_PRODUCER})
    producer.list_topics(work.topic)
    watch = Watch()
    for chunk in work.chunks():
        waiting = [{"value": value} for value in chunk]
        while waiting:
            waiting = waiting[producer.produce_batch(work.topic, waiting) :]
            producer.poll(0.01 if waiting else 0)
    return flushed(producer, watch)


def confluent_send(work: Work) -> Spent:
    producer = ConfluentProducer({"bootstrap.servers": work.address, **CONFLUENT_PRODUCER})
    producer.list_topics(work.topic)
    watch = Watch()
    for _ in range(work.count):
        while not is_taken(producer, work):
            producer.poll(0.01)
    return flushed(producer, watch)


def is_taken(producer: ConfluentProducer, work: Work) -> bool:
    try:
        producer.produce(work.topic, work.value)
    except BufferError:
        return False
    return True


def flushed(producer: ConfluentProducer, watch: Watch) -> Spent:
    if producer.flush(120):
        raise BenchmarkError("records were not acknowledged within two minutes")
    return watch.spent()


def confluent_poll(work: Work) -> Spent:
    consumer = ConfluentConsumer({"bootstrap.servers": work.address, **CONFLUENT_CONSUMER})
    consumer.list_topics(work.topic)
    watch, read_count, read_bytes = Watch(), 0, 0
    consumer.assign([ConfluentPartition(work.topic, 0, 0)])
    while read_count < work.count and (
        records := consumer.consume(min(POLL_RECORDS, work.count - read_count), timeout=10)
    ):
        read_count += len(records)
        read_bytes += sum(len(record.value() or b"") for record in records)
    spent = watch.spent()
    consumer.close()
    work.require_all(read_bytes)
    return spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    send_many: Way
    send: Way
    poll: Way


CLIENTS = {
    "trio": Client(
        send_many=in_trio(trio_send_many), send=in_trio(trio_send), poll=in_trio(trio_poll)
    ),
    "blocking": Client(send_many=blocking_send_many, send=blocking_send, poll=blocking_poll),
    PEER: Client(send_many=confluent_send_many, send=confluent_send, poll=confluent_poll),
}


def rows_of(figure: str, work: Work, spent: Spent) -> list[Row]:
    return [
        Row(
            figure=figure,
            unit="MB/s",
            rounds=(work.count * len(work.value) / spent.seconds / MEGABYTE,),
        ),
        Row(
            figure=f"  client CPU of {figure}",
            unit="us per record",
            rounds=(spent.cpu_s / work.count * 1e6,),
        ),
    ]


def measure(client: Client, broker: BrokerProcess, scale: float) -> list[Row]:
    """Measure one round of one client."""
    rows = []
    for name, (size_bytes, full_count) in SIZES.items():
        value, count = bytes(size_bytes), max(CHUNK, int(full_count * scale))
        for figure, way in (
            (f"produce {name}, many at a time", client.send_many),
            (f"produce {name}, one by one", client.send),
        ):
            with broker.topic() as topic:
                work = Work(address=broker.address, topic=topic, value=value, count=count)
                rows += rows_of(figure, work, way(work))
        with broker.topic() as topic:
            produce_values(broker.address, topic, size_bytes, count)
            work = Work(address=broker.address, topic=topic, value=value, count=count)
            rows += rows_of(f"consume {name}", work, client.poll(work))
    return rows


@contextlib.contextmanager
def clients(bench: Bench) -> Iterator[Sides]:
    """Start one tidelog node for all clients, and warm up each client.

    Each does a little of everything before it is measured, so that imports are not measured.
    """
    bench.stop_brokers()
    with running_broker() as broker:
        for client in CLIENTS.values():
            measure(client, broker, 0.0)
        gc.collect()
        gc.freeze()
        yield Sides(
            measures={
                name: partial(measure, client, broker, bench.scale)
                for name, client in CLIENTS.items()
            },
            peer=PEER,
        )
