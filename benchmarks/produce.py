"""Throughput of acknowledged produces, and what they cost the broker in CPU."""

import time

from confluent_kafka import Producer

from benchmarks.broker_process import BrokerProcess, touch_memory
from benchmarks.table import Row

MEGABYTE = 1e6
SIZES = {"100 B": (100, 2_000_000), "1 KiB": (1024, 600_000), "10 KiB": (10_240, 80_000)}
CHUNK = 2_000


def produce_values(address: str, topic: str, size_bytes: int, count: int) -> float:
    """Send ``count`` values and return the seconds until the last was acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1 << 20,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 512 << 10,
            "delivery.report.only.error": True,
        }
    )
    value = bytes(size_bytes)
    started = time.monotonic()
    sent_count = 0
    while sent_count < count:
        records = [{"value": value} for _ in range(min(CHUNK, count - sent_count))]
        accepted = producer.produce_batch(topic, records)
        sent_count += accepted
        producer.poll(0 if accepted == len(records) else 0.01)
    if producer.flush(120):
        raise SystemExit("records were not acknowledged within two minutes")
    return time.monotonic() - started


def measure(broker: BrokerProcess, *, round_count: int, scale: float) -> list[Row]:
    rows = []
    for name, (size_bytes, full_count) in SIZES.items():
        for partition_count in (1, 6):
            count = max(1, int(full_count * scale))
            speeds, costs, floors = [], [], []
            for index in range(round_count):
                topic = f"produce-{size_bytes}-{partition_count}-{index}"
                broker.create_topic(topic, partition_count)
                floors.append(touch_memory(int(size_bytes * count * 1.2)))
                cpu_before = broker.cpu_s()
                seconds = produce_values(broker.address, topic, size_bytes, count)
                speeds.append(size_bytes * count / seconds / MEGABYTE)
                costs.append((broker.cpu_s() - cpu_before) / (size_bytes * count / 1e9))
                broker.delete_topic(topic)
            where = f"{partition_count} partition{'s' if partition_count > 1 else ''}"
            rows.append(Row(figure=f"produce {name}, acks=all, {where}", unit="MB/s", rounds=tuple(speeds)))
            rows.append(Row(figure=f"broker CPU of produce {name}, {where}", unit="s per GB", rounds=tuple(costs)))
            rows.append(Row(figure="  of the same minute: writing as many bytes, nothing else", unit="s per GB", rounds=tuple(floors)))
    return rows
