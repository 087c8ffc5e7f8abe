"""Measures topics created one after the other, moves of replicas, and a new follower's catch-up.

A move gives each of six partitions of two replicas another follower, so that every node sends and
receives. The catch-up is one follower that joins one leader. Data is a quarter of a gigabyte,
because two small cores share it with the client, and lies in the page cache.
"""

import time

from confluent_kafka.cimpl import NewTopic

from benchmarks.broker_process import touch_memory
from benchmarks.cluster_nodes import NODES, Nodes, new_name, spread, until
from benchmarks.clusters import ClusterBench
from benchmarks.produce import MEGABYTE, produce_values
from benchmarks.table import Row, at_least
from log_service.client import BlockingAdmin, TopicPartition

TOPIC_COUNT = 100
MOVED_PARTITIONS, VALUE_BYTES, VALUE_COUNT = 6, 1024, 250_000
PAUSE_S = 0.02


def topics(nodes: Nodes, bench: ClusterBench) -> list[Row]:
    """Create topics of one partition and three replicas, one request each.

    Returns the topics per second.
    """
    names = [new_name() for _ in range(bench.count(TOPIC_COUNT, at_least=10))]
    admin = nodes.admin()
    admin.list_topics(timeout=10)
    began = time.monotonic()
    for name in names:
        admin.create_topics([NewTopic(name, 1, len(NODES))])[name].result(timeout=30)
    seconds = time.monotonic() - began
    for deleted in admin.delete_topics(names).values():
        deleted.result(timeout=30)
    return [
        Row(
            figure="topics of RF 3 created, one by one",
            unit="topics/s",
            rounds=(len(names) / seconds,),
            goal=at_least(1.0),
        )
    ]


def moves(nodes: Nodes, bench: ClusterBench) -> list[Row]:
    """Measure one round: a move of all partitions' followers, and one partition's third replica."""
    size_text = f"{VALUE_BYTES * bench.count(VALUE_COUNT) / MEGABYTE:.0f} MB"
    before = spread(MOVED_PARTITIONS, 2)
    after = [[leader, other_than(leader, follower)] for leader, follower in before]
    moved, moved_cpu = moved_rate(nodes, bench, before, after)
    caught_up, caught_up_cpu = moved_rate(nodes, bench, [[1, 2]], [[1, 2, 3]])
    return [
        Row(
            figure=f"reassignment of {size_text}, {MOVED_PARTITIONS} partitions",
            unit="MB/s",
            rounds=(moved,),
            goal=at_least(1.0),
        ),
        Row(
            figure=f"  CPU of all brokers of reassignment of {size_text}",
            unit="s per GB",
            rounds=(moved_cpu,),
        ),
        Row(
            figure=f"a new follower's catch-up, {size_text} of 1 partition",
            unit="MB/s",
            rounds=(caught_up,),
            goal=at_least(1.0),
        ),
        Row(
            figure=f"  CPU of all brokers of a new follower's catch-up, {size_text}",
            unit="s per GB",
            rounds=(caught_up_cpu,),
        ),
    ]


def other_than(*nodes: int) -> int:
    """Return the node that is none of these."""
    return next(node for node in NODES if node not in nodes)


def moved_rate(
    nodes: Nodes, bench: ClusterBench, before: list[list[int]], after: list[list[int]]
) -> tuple[float, float]:
    """Fill a topic and move it, until no move is under way.

    Returns the MB/s that new replicas got, and CPU seconds per GB of it.
    """
    count = bench.count(VALUE_COUNT)
    touch_memory(int(VALUE_BYTES * count * 3 * 1.2))
    with nodes.topic(before) as topic, BlockingAdmin(nodes.bootstrap) as admin:
        produce_values(nodes.bootstrap, topic, VALUE_BYTES, count)
        targets = {TopicPartition(topic, index): replicas for index, replicas in enumerate(after)}
        admin.list_partition_reassignments()
        cpu_before, began = nodes.cpu_s(), time.monotonic()
        admin.alter_partition_reassignments(targets)
        until(lambda: not admin.list_partition_reassignments(), PAUSE_S, f"{topic} is moved")
        seconds, cpu_s = time.monotonic() - began, nodes.cpu_s() - cpu_before
        nodes.until_whole(topic)
    total_bytes = VALUE_BYTES * count
    return total_bytes / seconds / MEGABYTE, cpu_s / (total_bytes / 1e9)
