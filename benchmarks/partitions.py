"""Measures a restart with ten thousand partitions on one node, after a clean stop and kill -9.

A hundred topics have a hundred partitions each. Before every stop each second partition gets a
record of 100 bytes, so that half of the logs hold records and the other half only exist. A restart
ends when a produce to one of these partitions is acknowledged and one metadata answer lists every
partition with its leader.
"""

import contextlib
import time
from collections.abc import Iterator
from functools import partial

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.broker_process import (
    DEADLINE_S,
    ERRORS_ONLY,
    BenchmarkError,
    BrokerProcess,
    Installation,
    produce_first,
)
from benchmarks.rounds import Bench, Sides, say
from benchmarks.table import Row, at_most

PARTITION_COUNT, TOPIC_PARTITION_COUNT = 10_000, 100
TOPICS_PER_REQUEST = 10
FILLED_SHARE = 2
VALUE = bytes(100)


def topic_names(partition_count: int) -> list[str]:
    return [f"bench-{index:03}" for index in range(partition_count // TOPIC_PARTITION_COUNT)]


def create_topics(address: str, topics: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": ERRORS_ONLY})
    for start in range(0, len(topics), TOPICS_PER_REQUEST):
        wanted = [
            NewTopic(name, TOPIC_PARTITION_COUNT, 1)
            for name in topics[start : start + TOPICS_PER_REQUEST]
        ]
        for created in admin.create_topics(
            wanted, operation_timeout=60, request_timeout=120
        ).values():
            created.result(timeout=DEADLINE_S)


def fill(address: str, topics: list[str]) -> None:
    """Append a record to every second partition."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "log_level": ERRORS_ONLY})
    for topic in topics:
        for partition in range(0, TOPIC_PARTITION_COUNT, FILLED_SHARE):
            producer.produce(topic, VALUE, partition=partition)
        producer.poll(0)
    if producer.flush(DEADLINE_S):
        raise BenchmarkError("records were not acknowledged")


def wait_until_served(topics: list[str], address: str) -> None:
    """Return once the last partition takes a record and metadata lists a leader for all."""
    produce_first(address, topics[-1], TOPIC_PARTITION_COUNT - 1)
    admin = AdminClient({"bootstrap.servers": address, "log_level": ERRORS_ONLY})
    deadline = time.monotonic() + DEADLINE_S
    while led_partition_count(admin, topics) < len(topics) * TOPIC_PARTITION_COUNT:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"metadata did not list every partition within {DEADLINE_S:.0f} s")
        time.sleep(0.1)


def led_partition_count(admin: AdminClient, topics: list[str]) -> int:
    try:
        found = admin.list_topics(timeout=30).topics
    except KafkaException:
        return 0
    return sum(
        partition.leader >= 0
        for name in topics
        if name in found
        for partition in found[name].partitions.values()
    )


def restart_rows(kind: str, broker: BrokerProcess, partition_count: int, goal: float) -> list[Row]:
    name = f"{partition_count:,} partitions, restart after {kind}"
    return [
        Row(figure=name, unit="s", rounds=(broker.start_s,), goal=at_most(goal)),
        Row(figure=f"  broker CPU of {name}", unit="s", rounds=(broker.cpu_s(),)),
        Row(
            figure=f"{partition_count:,} partitions, RSS after {kind}",
            unit="MB",
            rounds=(broker.rss_bytes() / 1e6,),
            goal=at_most(0.3),
        ),
    ]


def measure(installation: Installation, topics: list[str]) -> list[Row]:
    """Measure one round: from a clean stop to a kill -9 to a clean stop."""
    partition_count = len(topics) * TOPIC_PARTITION_COUNT
    wait = partial(wait_until_served, topics)
    with installation.running(wait) as broker:
        rows = restart_rows("a clean stop", broker, partition_count, 0.3)
        fill(installation.address, topics)
        broker.kill()
    with installation.running(wait) as broker:
        rows += restart_rows("kill -9", broker, partition_count, 0.2)
        fill(installation.address, topics)
        stop_s = broker.stop()
    return [
        *rows,
        Row(figure=f"{partition_count:,} partitions, clean stop", unit="s", rounds=(stop_s,)),
    ]


@contextlib.contextmanager
def partitions(bench: Bench) -> Iterator[Sides]:
    """Create the partitions once for each broker.

    None of the brokers runs while the other is measured.
    """
    bench.stop_brokers()
    topics = topic_names(bench.count(PARTITION_COUNT, at_least=TOPIC_PARTITION_COUNT))
    with bench.installations() as found:
        for name, installation in found.items():
            say(f"partitions: creating {len(topics) * TOPIC_PARTITION_COUNT:,} with {name}")
            with installation.running() as broker:
                create_topics(broker.address, topics)
                fill(broker.address, topics)
        yield bench.beside(
            {name: partial(measure, installation, topics) for name, installation in found.items()}
        )
