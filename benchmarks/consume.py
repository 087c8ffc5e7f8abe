"""Throughput of reading a topic that lies in the page cache, and what it costs the broker."""

import time

from confluent_kafka import Consumer, TopicPartition

from benchmarks.broker_process import BrokerProcess
from benchmarks.produce import MEGABYTE, produce_values
from benchmarks.table import Row

SIZES = {"100 B": (100, 2_000_000), "1 KiB": (1024, 600_000)}


def consume_values(address: str, topic: str, count: int) -> float:
    """Read ``count`` records from the start and return the seconds between the first and the last."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 8 << 20,
            "queued.max.messages.kbytes": 256 << 10,
            "queued.min.messages": 500_000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    read_count, started = 0, 0.0
    while read_count < count:
        records = consumer.consume(10_000, timeout=10)
        if not records:
            raise SystemExit(f"only {read_count} of {count} records could be read")
        started = started or time.monotonic()
        read_count += len(records)
    seconds = time.monotonic() - started
    consumer.close()
    return seconds


def measure(broker: BrokerProcess, *, scale: float) -> list[Row]:
    """Measure one round."""
    rows = []
    for name, (size_bytes, full_count) in SIZES.items():
        count = max(20_000, int(full_count * scale))
        with broker.topic() as topic:
            produce_values(broker.address, topic, size_bytes, count)
            cpu_before = broker.cpu_s()
            seconds = consume_values(broker.address, topic, count)
            cpu_s = broker.cpu_s() - cpu_before
        rows.append(Row(figure=f"consume {name}", unit="MB/s", rounds=(size_bytes * count / seconds / MEGABYTE,)))
        rows.append(Row(figure=f"  broker CPU of consume {name}", unit="s per GB", rounds=(cpu_s / (size_bytes * count / 1e9),)))
    return rows
