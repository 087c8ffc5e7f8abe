"""Measures the cost of transactions for a producer, and the time of a commit.

One producer sends the same records twice: a thousand at a time with a flush between, and a thousand
at a time as a transaction, spread over 1, 10 or 100 partitions. ``share of plain`` is the remaining
share of the throughput. A broker that is fast without transactions has to be as much faster with
them. A commit is timed alone: its records were acknowledged before.
"""

import time

from confluent_kafka import Producer

from benchmarks.broker_process import ERRORS_ONLY, BenchmarkError
from benchmarks.latency import garbage_collector_resting, percentile
from benchmarks.measured import Asked, Measured
from benchmarks.table import Row, at_least, at_most

RECORDS_OF_ONE = 1_000
VALUE = bytes(1024)
PARTITION_COUNTS = {1: 200, 10: 200, 100: 60}
"""Partitions of a transaction, and the number of transactions at full scale."""
MIN_COUNT = 10
WARM_UP_COUNT = 10
COMMITS_TIMED = 500
GOALS = {"p50": (0.5, 0.75), "p99": (0.99, 0.5)}
TIMEOUT_S = 60.0


def producer_of(address: str, transactional_id: str | None) -> Producer:
    """Return a producer that has begun. It is transactional where it has an id."""
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": address,
        "log_level": ERRORS_ONLY,
        "enable.idempotence": True,
        "linger.ms": 0,
        "batch.size": 1 << 20,
        "delivery.report.only.error": True,
    }
    if transactional_id is None:
        return Producer(settings)
    producer = Producer({**settings, "transactional.id": transactional_id})
    producer.init_transactions(TIMEOUT_S)
    return producer


def send(producer: Producer, topic: str, partition_count: int, record_count: int) -> None:
    """Send records to all partitions in turn, and wait until they are acknowledged."""
    for number in range(record_count):
        producer.produce(topic, VALUE, partition=number % partition_count)
    if producer.flush(TIMEOUT_S):
        raise BenchmarkError("records were not acknowledged within a minute")


def seconds_plain(address: str, topic: str, partition_count: int, count: int) -> float:
    """Return the seconds of sending ``count`` times a thousand records."""
    producer = producer_of(address, None)
    for _ in range(WARM_UP_COUNT):
        send(producer, topic, partition_count, RECORDS_OF_ONE)
    started = time.perf_counter()
    for _ in range(count):
        send(producer, topic, partition_count, RECORDS_OF_ONE)
    return time.perf_counter() - started


def seconds_transactional(address: str, topic: str, partition_count: int, count: int) -> float:
    """Return the seconds of sending and committing ``count`` transactions of a thousand records."""
    producer = producer_of(address, f"of-{topic}")
    started = 0.0
    for number in range(-WARM_UP_COUNT, count):
        if number == 0:
            started = time.perf_counter()
        producer.begin_transaction()
        send(producer, topic, partition_count, RECORDS_OF_ONE)
        producer.commit_transaction(TIMEOUT_S)
    return time.perf_counter() - started


def commit_latencies_ms(address: str, topic: str, partition_count: int, count: int) -> list[float]:
    """Return the times of commits, ordered.

    Each transaction has one acknowledged record in each partition.
    """
    producer = producer_of(address, f"timed-{topic}")
    found: list[float] = []
    with garbage_collector_resting():
        for _ in range(WARM_UP_COUNT + count):
            producer.begin_transaction()
            send(producer, topic, partition_count, partition_count)
            started = time.perf_counter()
            producer.commit_transaction(TIMEOUT_S)
            found.append((time.perf_counter() - started) * 1e3)
    return sorted(found[WARM_UP_COUNT:])


def measure(broker: Measured, bench: Asked) -> list[Row]:
    """Measure one round."""
    rows: list[Row] = []
    for partition_count, full_count in PARTITION_COUNTS.items():
        count = bench.count(full_count, at_least=MIN_COUNT)
        where = f"{partition_count} partition{'s' if partition_count > 1 else ''}"
        with broker.topic(partition_count) as topic:
            plain_s = seconds_plain(broker.address, topic, partition_count, count)
            cpu_before = broker.cpu_s()
            seconds = seconds_transactional(broker.address, topic, partition_count, count)
            cpu_s = broker.cpu_s() - cpu_before
        with broker.topic(partition_count) as topic:
            ordered = commit_latencies_ms(
                broker.address,
                topic,
                partition_count,
                bench.count(COMMITS_TIMED, at_least=MIN_COUNT),
            )
        name = f"transactions of 1,000 records over {where}"
        rows += [
            Row(figure=name, unit="1/s", rounds=(count / seconds,), goal=at_least(1.0)),
            Row(
                figure=f"  share of plain, {name}",
                unit="",
                rounds=(plain_s / seconds,),
                goal=at_least(1.0),
            ),
            Row(figure=f"  broker CPU of {name}", unit="ms each", rounds=(cpu_s / count * 1e3,)),
        ]
        rows += [
            Row(
                figure=f"  commit over {where}, {name}",
                unit="ms",
                rounds=(percentile(ordered, share),),
                goal=at_most(goal),
            )
            for name, (share, goal) in GOALS.items()
        ]
    return rows
