"""Measures throughput of acknowledged produces, and their CPU cost for the broker."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Producer

from benchmarks.broker_process import ERRORS_ONLY, BenchmarkError, BrokerProcess, touch_memory
from benchmarks.rounds import Bench
from benchmarks.table import Goal, Row, at_least, at_most

MEGABYTE = 1e6
SIZES = {"100 B": (100, 3_000_000), "1 KiB": (1024, 1_000_000), "10 KiB": (10_240, 100_000)}
SPREAD_PARTITIONS, SPREAD_COUNT = 100, 300_000
PRODUCERS, SINGLE_COUNT = 16, 160_000
CHUNK, TURN = 2_000, 64


def producer_of(address: str, **settings: str | float) -> Producer:
    """Return a producer that batches as much as it can.

    ``settings`` are named as librdkafka names them, with underscores for dots.
    """
    chosen = {
        "bootstrap.servers": address,
        "log_level": ERRORS_ONLY,
        "acks": "all",
        "linger.ms": 5,
        "batch.size": 1 << 20,
        "batch.num.messages": 100_000,
        "queue.buffering.max.messages": 500_000,
        "queue.buffering.max.kbytes": 512 << 10,
        "delivery.report.only.error": True,
    }
    return Producer(
        {**chosen, **{name.replace("_", "."): value for name, value in settings.items()}}
    )


def produce_values(
    address: str, topic: str, size_bytes: int, count: int, **settings: str | float
) -> float:
    """Send ``count`` values and return the seconds until the last was acknowledged."""
    producer = producer_of(address, **settings)
    value = bytes(size_bytes)
    started = time.monotonic()
    sent_count = 0
    while sent_count < count:
        records = [{"value": value} for _ in range(min(CHUNK, count - sent_count))]
        accepted = producer.produce_batch(topic, records)
        sent_count += accepted
        producer.poll(0 if accepted == len(records) else 0.01)
    if producer.flush(120):
        raise BenchmarkError("records were not acknowledged within two minutes")
    return time.monotonic() - started


def produce_alone(address: str, topic: str, size_bytes: int, count: int) -> float:
    """Send one-record batches from ``PRODUCERS`` producers.

    Returns the seconds until the last was acknowledged.
    """
    producers = [producer_of(address, linger_ms=0, batch_num_messages=1) for _ in range(PRODUCERS)]
    value = bytes(size_bytes)
    share = count // PRODUCERS
    started = time.monotonic()
    for start in range(0, share, TURN):
        for producer in producers:
            producer.produce_batch(
                topic, [{"value": value} for _ in range(min(TURN, share - start))]
            )
            producer.poll(0)
    if any(producer.flush(120) for producer in producers):
        raise BenchmarkError("records were not acknowledged within two minutes")
    return time.monotonic() - started


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of one figure."""

    name: str
    size_bytes: int
    count: int
    partition_count: int
    cpu_goal: Goal | None = None
    produce: Callable[[str, str, int, int], float] = produce_values


def loads() -> Iterator[Load]:
    """Yield the loads in the order of the table."""
    for name, (size_bytes, count) in SIZES.items():
        for partition_count in (1, 6):
            where = f"{partition_count} partition{'s' if partition_count > 1 else ''}"
            yield Load(
                name=f"produce {name}, acks=all, {where}",
                size_bytes=size_bytes,
                count=count,
                partition_count=partition_count,
                cpu_goal=at_most(0.6),
            )
    yield Load(
        name=f"produce 1 KiB spread over {SPREAD_PARTITIONS} partitions",
        size_bytes=1024,
        count=SPREAD_COUNT,
        partition_count=SPREAD_PARTITIONS,
        produce=partial(produce_values, sticky_partitioning_linger_ms=0),
    )


def measure(broker: BrokerProcess, bench: Bench) -> list[Row]:
    """Measure one round."""
    rows: list[Row] = []
    floors = []
    for load in loads():
        count = bench.count(load.count)
        size_bytes = load.size_bytes * count
        with broker.topic(load.partition_count) as topic:
            floors.append(touch_memory(int(size_bytes * 1.2)))
            cpu_before = broker.cpu_s()
            seconds = load.produce(broker.address, topic, load.size_bytes, count)
            cpu_s = broker.cpu_s() - cpu_before
        rows += [
            Row(
                figure=load.name,
                unit="MB/s",
                rounds=(size_bytes / seconds / MEGABYTE,),
                goal=at_least(1.0),
            ),
            Row(
                figure=f"  broker CPU of {load.name}",
                unit="s per GB",
                rounds=(cpu_s / (size_bytes / 1e9),),
                goal=load.cpu_goal,
            ),
        ]
    rows.append(
        Row(
            figure="floor: writing to the page cache with nothing around it",
            unit="s per GB",
            rounds=tuple(floors),
        )
    )
    return [*rows, *measure_alone(broker, bench.count(SINGLE_COUNT, at_least=PRODUCERS))]


def measure_alone(broker: BrokerProcess, count: int) -> list[Row]:
    """Measure the cost of a request with one record."""
    count -= count % PRODUCERS
    with broker.topic(PRODUCERS) as topic:
        cpu_before = broker.cpu_s()
        seconds = produce_alone(broker.address, topic, 100, count)
        cpu_s = broker.cpu_s() - cpu_before
    name = f"one-record batches of 100 B from {PRODUCERS} producers"
    return [
        Row(figure=name, unit="records/s", rounds=(count / seconds,), goal=at_least(1.0)),
        Row(figure=f"  broker CPU of {name}", unit="us each", rounds=(cpu_s / count * 1e6,)),
    ]
