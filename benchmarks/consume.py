"""Measures throughput of reading a topic in the page cache, and its cost for the broker."""

import time

from confluent_kafka import Consumer, TopicPartition

from benchmarks.broker_process import BenchmarkError, BrokerProcess
from benchmarks.produce import MEGABYTE, produce_values
from benchmarks.rounds import Bench
from benchmarks.table import Goal, Row, at_least, at_most

NO_GOALS: tuple[None, None] = (None, None)
SIZES: dict[str, tuple[int, int, tuple[Goal | None, Goal | None]]] = {
    "100 B": (100, 2_000_000, NO_GOALS),
    "1 KiB": (1024, 800_000, (at_least(1.1), at_most(1.0))),
}
"""Bytes of a value, the count at full scale, and the goals of throughput and CPU."""
PASSES = 3
"""How often a topic is read in a round after a first time that does not count.

One pass takes less than a second, in which the broker's CPU is a few ticks of the clock.
"""


def consume_values(address: str, topic: str, count: int, **settings: str) -> float:
    """Read ``count`` records from the start.

    Returns the seconds between the first and the last. ``settings`` are given as a producer's.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 8 << 20,
            "queued.max.messages.kbytes": 256 << 10,
            "queued.min.messages": 500_000,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    read_count, started = 0, 0.0
    while read_count < count:
        records = consumer.consume(min(10_000, count - read_count), timeout=10)
        if not records:
            raise BenchmarkError(f"only {read_count} of {count} records could be read")
        started = started or time.monotonic()
        read_count += len(records)
    seconds = time.monotonic() - started
    consumer.close()
    return seconds


def measure(broker: BrokerProcess, bench: Bench) -> list[Row]:
    """Measure one round."""
    rows = []
    for name, (size_bytes, full_count, (goal, cpu_goal)) in SIZES.items():
        count = bench.count(full_count, at_least=20_000)
        with broker.topic() as topic:
            produce_values(broker.address, topic, size_bytes, count)
            consume_values(broker.address, topic, count)
            cpu_before, client_before = broker.cpu_s(), time.process_time()
            seconds = sum(consume_values(broker.address, topic, count) for _ in range(PASSES))
            cpu_s, client_cpu_s = broker.cpu_s() - cpu_before, time.process_time() - client_before
        read_bytes = size_bytes * count * PASSES
        figure = f"consume {name} from the page cache"
        rows.append(
            Row(figure=figure, unit="MB/s", rounds=(read_bytes / seconds / MEGABYTE,), goal=goal)
        )
        rows.append(
            Row(
                figure=f"  broker CPU of {figure}",
                unit="s per GB",
                rounds=(cpu_s / (read_bytes / 1e9),),
                goal=cpu_goal,
            )
        )
        rows.append(
            Row(
                figure=f"  client CPU of {figure}",
                unit="s per GB",
                rounds=(client_cpu_s / (read_bytes / 1e9),),
            )
        )
    return rows
