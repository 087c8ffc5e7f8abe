"""Measures ten thousand partitions of three replicas after a broker dies.

The figures are the time until all partitions have leaders, and the time until the broker is back in
sync. A hundred topics have a hundred partitions each, with leaders and replicas where the product
places them. A broker that is not the active controller is killed. It leads about a third. All have
leaders when the metadata of a surviving broker names a living one for each. The restart ends when
it names three replicas in sync for each. A request takes the client much of a second of CPU, so it
pauses in between.
"""

import signal
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.cluster_nodes import NODES, Nodes, running_cluster, until
from benchmarks.clusters import ClusterBench
from benchmarks.partitions import (
    PARTITION_COUNT,
    TOPIC_PARTITION_COUNT,
    TOPICS_PER_REQUEST,
    topic_names,
)
from benchmarks.table import Row, at_most

PAUSE_S = 0.2
DEADLINE_S = 600.0


class Told(Protocol):
    """The metadata of a partition."""

    leader: int
    isrs: list[int]


def measure(product: str, bench: ClusterBench) -> list[Row]:
    """Measure one round, all of it with new nodes."""
    topics = topic_names(bench.count(PARTITION_COUNT, at_least=TOPIC_PARTITION_COUNT))
    count = len(topics) * TOPIC_PARTITION_COUNT
    named = f"{count:,} partitions, RF {len(NODES)}"
    with running_cluster(product) as nodes:
        began = time.monotonic()
        create(nodes, topics)
        created_s = time.monotonic() - began
        nodes.until_whole()
        rss_bytes = nodes.rss_bytes()
        victim = next(node for node in NODES if node != nodes.active_controller())
        survivor = nodes.admin(*(node for node in NODES if node != victim))
        nodes.end(victim, signal.SIGKILL)
        led_s = until_all(
            survivor,
            count,
            lambda each: each.leader not in (-1, victim),
            "all partitions are led again",
        )
        began = time.monotonic()
        nodes.start(victim)
        until_all(survivor, count, is_in_sync, "all replicas are in sync again")
        restarted_s = time.monotonic() - began
        again_bytes = nodes.rss_bytes()
    return [
        Row(
            figure=f"{named}: created, until all replicas are in sync",
            unit="s",
            rounds=(created_s,),
        ),
        Row(
            figure=f"{named}: a broker's death until all have leaders",
            unit="s",
            rounds=(led_s,),
            goal=at_most(0.5),
        ),
        Row(
            figure=f"{named}: its restart until all replicas are in sync",
            unit="s",
            rounds=(restarted_s,),
            goal=at_most(0.5),
        ),
        Row(
            figure=f"{named}: RSS of three", unit="MB", rounds=(rss_bytes / 1e6,), goal=at_most(0.5)
        ),
        Row(
            figure=f"{named}: RSS of three after that",
            unit="MB",
            rounds=(again_bytes / 1e6,),
            goal=at_most(0.5),
        ),
    ]


def create(nodes: Nodes, topics: list[str]) -> None:
    """Create the topics, and wait until every replica is in sync."""
    admin = nodes.admin()
    for start in range(0, len(topics), TOPICS_PER_REQUEST):
        wanted = [
            NewTopic(name, TOPIC_PARTITION_COUNT, len(NODES))
            for name in topics[start : start + TOPICS_PER_REQUEST]
        ]
        for created in admin.create_topics(
            wanted, operation_timeout=120, request_timeout=180
        ).values():
            created.result(timeout=DEADLINE_S)
    until_all(admin, len(topics) * TOPIC_PARTITION_COUNT, is_in_sync, "all replicas are in sync")


def is_in_sync(partition: Told) -> bool:
    """Return whether a partition has a leader and all its replicas in sync."""
    return partition.leader != -1 and len(partition.isrs) == len(NODES)


def until_all(admin: AdminClient, count: int, is_so: Callable[[Told], bool], what: str) -> float:
    """Ask for metadata until a condition holds for so many partitions, and return the seconds."""

    def are_all_so() -> bool:
        try:
            found = admin.list_topics(timeout=60).topics
        except KafkaException:
            return False
        return (
            counted((each for topic in found.values() for each in topic.partitions.values()), is_so)
            >= count
        )

    return until(are_all_so, PAUSE_S, what, DEADLINE_S)


def counted(partitions: Iterable[Told], is_so: Callable[[Told], bool]) -> int:
    return sum(map(is_so, partitions))
