"""Compares the asyncio faces of our client with its blocking faces and with aiokafka.

All use the same tidelog node, the same topic and the same settings. Ratios are against the blocking
faces. Both kinds of faces run the same trio client in a thread, and the asyncio faces may cost at
most 1.3 times as much CPU per record. As in ``clients``, the CPU is this process's, the broker has
a process of its own, and the clock starts when a client knows the topic. aiokafka has no
``send_many``, so it gets records one by one there, too.
"""

import asyncio
import contextlib
import gc
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition

from benchmarks.broker_process import BrokerProcess, running_broker
from benchmarks.clients import (
    CONSUMER,
    POLL_RECORDS,
    PRODUCER,
    SIZES,
    Spent,
    Watch,
    Way,
    Work,
    blocking_poll,
    blocking_send,
    blocking_send_many,
)
from benchmarks.produce import CHUNK, MEGABYTE, produce_values
from benchmarks.rounds import Bench, Sides
from benchmarks.table import Goal, Row, at_most
from log_service.client import (
    AsyncioConsumer,
    AsyncioProducer,
    BlockingConsumer,
    BlockingProducer,
    TopicPartition,
)

PEER = "blocking"
FACES_GOAL = at_most(1.3)
WAITED_SHARE = 5
"""The share of records that are sent where acknowledgements are awaited: one in so many."""
AIOKAFKA_PRODUCER: dict[str, Any] = {
    "enable_idempotence": True,
    "max_batch_size": 512 << 10,
    "linger_ms": 5,
}
AIOKAFKA_CONSUMER: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "max_partition_fetch_bytes": 8 << 20,
    "fetch_max_wait_ms": 500,
}


def in_asyncio(way: Callable[[Work], Awaitable[Spent]]) -> Way:
    return lambda work: asyncio.run(way(work))  # type: ignore[arg-type]


async def asyncio_send_many(work: Work) -> Spent:
    async with AsyncioProducer(work.address, **PRODUCER) as producer:
        await producer.partitions_for(work.topic)
        watch = Watch()
        for chunk in work.chunks():
            await producer.send_many(work.topic, chunk)
        await producer.flush()
        return watch.spent()


async def asyncio_send(work: Work) -> Spent:
    async with AsyncioProducer(work.address, **PRODUCER) as producer:
        await producer.partitions_for(work.topic)
        watch = Watch()
        for _ in range(work.count):
            await producer.send(work.topic, work.value)
        await producer.flush()
        return watch.spent()


async def asyncio_send_and_wait(work: Work) -> Spent:
    """Send records, and await each acknowledgement in turn. Most have arrived by then."""
    async with AsyncioProducer(work.address, **PRODUCER) as producer:
        await producer.partitions_for(work.topic)
        watch = Watch()
        for chunk in work.chunks():
            receipts = [await producer.send(work.topic, value) for value in chunk]
            for receipt in receipts:
                await receipt.wait()
        return watch.spent()


async def asyncio_tasks(work: Work) -> Spent:
    """Send each record in a task of its own that awaits the acknowledgement.

    A service has a task for each request in the same way.
    """
    async with AsyncioProducer(work.address, **PRODUCER) as producer:
        await producer.partitions_for(work.topic)

        async def handle(value: bytes) -> None:
            receipt = await producer.send(work.topic, value)
            await receipt.wait()

        watch = Watch()
        for chunk in work.chunks():
            await asyncio.gather(*(handle(value) for value in chunk))
        return watch.spent()


async def asyncio_poll(work: Work) -> Spent:
    async with AsyncioConsumer(work.address, **CONSUMER) as consumer:
        await consumer.partitions_for(work.topic)
        watch, read_count, read_bytes = Watch(), 0, 0
        await consumer.assign([TopicPartition(work.topic, 0)])
        while read_count < work.count and (
            records := await consumer.poll(POLL_RECORDS, timeout_ms=10_000)
        ):
            read_count += len(records)
            read_bytes += sum(len(record.value) for record in records)
        spent = watch.spent()
    work.require_all(read_bytes)
    return spent


async def asyncio_loop(work: Work) -> Spent:
    async with AsyncioConsumer(work.address, **CONSUMER) as consumer:
        await consumer.partitions_for(work.topic)
        watch, read_bytes, left_count = Watch(), 0, work.count
        await consumer.assign([TopicPartition(work.topic, 0)])
        async for record in consumer:
            read_bytes += len(record.value)
            left_count -= 1
            if not left_count:
                break
        spent = watch.spent()
    work.require_all(read_bytes)
    return spent


def blocking_send_and_wait(work: Work) -> Spent:
    with BlockingProducer(work.address, **PRODUCER) as producer:
        producer.partitions_for(work.topic)
        watch = Watch()
        for chunk in work.chunks():
            for receipt in [producer.send(work.topic, value) for value in chunk]:
                receipt.wait()
        return watch.spent()


def blocking_loop(work: Work) -> Spent:
    with BlockingConsumer(work.address, **CONSUMER) as consumer:
        consumer.partitions_for(work.topic)
        watch, read_bytes, left_count = Watch(), 0, work.count
        consumer.assign([TopicPartition(work.topic, 0)])
        for record in consumer:
            read_bytes += len(record.value)
            left_count -= 1
            if not left_count:
                break
        spent = watch.spent()
    work.require_all(read_bytes)
    return spent


async def aiokafka_send(work: Work) -> Spent:
    async with AIOKafkaProducer(bootstrap_servers=work.address, **AIOKAFKA_PRODUCER) as producer:
        await producer.partitions_for(work.topic)
        watch = Watch()
        for _ in range(work.count):
            await producer.send(work.topic, work.value)
        await producer.flush()
        return watch.spent()


async def aiokafka_send_and_wait(work: Work) -> Spent:
    async with AIOKafkaProducer(bootstrap_servers=work.address, **AIOKAFKA_PRODUCER) as producer:
        await producer.partitions_for(work.topic)
        watch = Watch()
        for chunk in work.chunks():
            for future in [await producer.send(work.topic, value) for value in chunk]:
                await future
        return watch.spent()


async def aiokafka_tasks(work: Work) -> Spent:
    async with AIOKafkaProducer(bootstrap_servers=work.address, **AIOKAFKA_PRODUCER) as producer:
        await producer.partitions_for(work.topic)
        watch = Watch()
        for chunk in work.chunks():
            await asyncio.gather(*(producer.send_and_wait(work.topic, value) for value in chunk))
        return watch.spent()


async def aiokafka_poll(work: Work) -> Spent:
    async with AIOKafkaConsumer(bootstrap_servers=work.address, **AIOKAFKA_CONSUMER) as consumer:
        watch, read_count, read_bytes = Watch(), 0, 0
        consumer.assign([AiokafkaPartition(work.topic, 0)])
        while read_count < work.count and (
            found := await consumer.getmany(timeout_ms=10_000, max_records=POLL_RECORDS)
        ):
            for records in found.values():
                read_count += len(records)
                read_bytes += sum(len(record.value) for record in records)
        spent = watch.spent()
    work.require_all(read_bytes)
    return spent


async def aiokafka_loop(work: Work) -> Spent:
    async with AIOKafkaConsumer(bootstrap_servers=work.address, **AIOKAFKA_CONSUMER) as consumer:
        watch, read_bytes, left_count = Watch(), 0, work.count
        consumer.assign([AiokafkaPartition(work.topic, 0)])
        async for record in consumer:
            read_bytes += len(record.value)
            left_count -= 1
            if not left_count:
                break
        spent = watch.spent()
    work.require_all(read_bytes)
    return spent


MANY, ONE, WAITED, TASKS = (
    "many at a time",
    "one by one",
    "one by one and awaited",
    "by a task each",
)
SENDS: dict[str, dict[str, Way]] = {
    "asyncio": {
        MANY: in_asyncio(asyncio_send_many),
        ONE: in_asyncio(asyncio_send),
        WAITED: in_asyncio(asyncio_send_and_wait),
        TASKS: in_asyncio(asyncio_tasks),
    },
    "aiokafka": {
        MANY: in_asyncio(aiokafka_send),
        ONE: in_asyncio(aiokafka_send),
        WAITED: in_asyncio(aiokafka_send_and_wait),
        TASKS: in_asyncio(aiokafka_tasks),
    },
    PEER: {MANY: blocking_send_many, ONE: blocking_send, WAITED: blocking_send_and_wait},
}
"""Ways to send.

The blocking faces have no task for each record, because threads are too expensive.
"""
READS: dict[str, dict[str, Way]] = {
    "asyncio": {"by poll": in_asyncio(asyncio_poll), "in a loop": in_asyncio(asyncio_loop)},
    "aiokafka": {"by poll": in_asyncio(aiokafka_poll), "in a loop": in_asyncio(aiokafka_loop)},
    PEER: {"by poll": blocking_poll, "in a loop": blocking_loop},
}


def rows_of(figure: str, work: Work, spent: Spent, goal: Goal | None) -> list[Row]:
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
            goal=goal,
        ),
    ]


def measure(side: str, broker: BrokerProcess, scale: float) -> list[Row]:
    """Measure one round of one side."""
    rows = []
    goal = FACES_GOAL if side == "asyncio" else None
    for name, (size_bytes, full_count) in SIZES.items():
        for manner, way in SENDS[side].items():
            count = max(
                CHUNK, int(full_count * scale) // (WAITED_SHARE if manner in {WAITED, TASKS} else 1)
            )
            with broker.topic() as topic:
                work = Work(
                    address=broker.address, topic=topic, value=bytes(size_bytes), count=count
                )
                rows += rows_of(
                    f"produce {name}, {manner}",
                    work,
                    way(work),
                    goal if manner in SENDS[PEER] else None,
                )
        count = max(CHUNK, int(full_count * scale))
        with broker.topic() as topic:
            produce_values(broker.address, topic, size_bytes, count)
            work = Work(address=broker.address, topic=topic, value=bytes(size_bytes), count=count)
            for manner, way in READS[side].items():
                rows += rows_of(f"consume {name}, {manner}", work, way(work), goal)
    return rows


@contextlib.contextmanager
def asyncio_clients(bench: Bench) -> Iterator[Sides]:
    """Start one tidelog node for all sides, and warm up each side.

    Each does a little of everything before it is measured, so that imports are not measured.
    """
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    bench.stop_brokers()
    with running_broker() as broker:
        for side in SENDS:
            measure(side, broker, 0.0)
        gc.collect()
        gc.freeze()
        yield Sides(
            measures={side: partial(measure, side, broker, bench.scale) for side in SENDS},
            peer=PEER,
        )
