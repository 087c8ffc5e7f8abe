"""Measures throughput, cost and latency with three replicas, two of which must be in sync.

Clients, loads and settings are those of one node (``produce``, ``latency``). Leaders are spread
over the nodes. CPU is that of all three.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.broker_process import touch_memory
from benchmarks.cluster_nodes import NODES, Nodes, spread
from benchmarks.clusters import ClusterBench
from benchmarks.consume import consume_values
from benchmarks.latency import latencies_ms, percentile
from benchmarks.produce import MEGABYTE, SPREAD_PARTITIONS, produce_values
from benchmarks.table import Goal, Row, at_least, at_most

PARTITION_COUNT = 6
SIZES: dict[str, tuple[int, int, Goal | None]] = {
    "100 B": (100, 1_500_000, None),
    "1 KiB": (1024, 400_000, at_most(0.35)),
    "10 KiB": (10_240, 50_000, None),
}
"""Bytes of a value, the count at full scale, and the goal of CPU."""
SPREAD_COUNT = 150_000
RATE, FULL_SECONDS, MIN_SECONDS = 1_000, 10.0, 1.0
PERCENTILES: dict[str, tuple[float, Goal | None]] = {
    "p50": (0.5, at_most(0.9)),
    "p99": (0.99, at_most(0.25)),
    "p99.9": (0.999, None),
}
WARM_UPS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of one figure. ``settings`` are the producer's."""

    figure: str
    partition_count: int
    size_bytes: int
    count: int
    goal: Goal
    cpu_goal: Goal | None = None
    settings: Mapping[str, float] = field(default_factory=dict)


def warm_up(nodes: Nodes, bench: ClusterBench) -> None:
    """Produce large and small values to a cluster, and read some, to warm up a JVM.

    A JVM has then compiled the code that it needs.
    """
    for _ in range(WARM_UPS):
        put_mixed_load_on(nodes, bench)


def put_mixed_load_on(nodes: Nodes, bench: ClusterBench) -> None:
    """Produce 1 KiB and 100 B, and read the latter."""
    with nodes.topic(spread(PARTITION_COUNT)) as topic:
        produce_values(nodes.bootstrap, topic, 1024, bench.count(300_000))
    with nodes.topic(spread(1)) as topic:
        count = bench.count(700_000)
        produce_values(nodes.bootstrap, topic, 100, count)
        consume_values(nodes.bootstrap, topic, count)


def produce(nodes: Nodes, bench: ClusterBench) -> list[Row]:
    """Measure one round of produces to few partitions."""
    rows: list[Row] = []
    floors = []
    for name, (size_bytes, full_count, cpu_goal) in SIZES.items():
        count = bench.count(full_count)
        floors.append(touch_memory(int(size_bytes * count * len(NODES) * 1.2)))
        load = Load(
            figure=f"produce {name}, acks=all, RF {len(NODES)}, {PARTITION_COUNT} partitions",
            partition_count=PARTITION_COUNT,
            size_bytes=size_bytes,
            count=count,
            goal=at_least(2.0),
            cpu_goal=cpu_goal,
        )
        rows += produced(nodes, load)
    rows.append(
        Row(
            figure="floor: writing to the page cache with nothing around it",
            unit="s per GB",
            rounds=tuple(floors),
        )
    )
    return rows


def spread_produce(nodes: Nodes, bench: ClusterBench) -> list[Row]:
    """Measure one round of produces whose batches are small because there are many partitions."""
    count = bench.count(SPREAD_COUNT)
    touch_memory(int(1024 * count * len(NODES) * 1.2))
    load = Load(
        figure=f"produce 1 KiB spread over {SPREAD_PARTITIONS} partitions, RF {len(NODES)}",
        partition_count=SPREAD_PARTITIONS,
        size_bytes=1024,
        count=count,
        goal=at_least(3.0),
        settings={"sticky_partitioning_linger_ms": 0},
    )
    return produced(nodes, load)


def produced(nodes: Nodes, load: Load) -> list[Row]:
    """Produce to a new topic, and return throughput and the CPU of all nodes."""
    with nodes.topic(spread(load.partition_count)) as topic:
        cpu_before = nodes.cpu_s()
        seconds = produce_values(
            nodes.bootstrap, topic, load.size_bytes, load.count, **load.settings
        )
        cpu_s = nodes.cpu_s() - cpu_before
    total_bytes = load.size_bytes * load.count
    cpu_figure = f"  CPU of all brokers of {load.figure}"
    return [
        Row(
            figure=load.figure,
            unit="MB/s",
            rounds=(total_bytes / seconds / MEGABYTE,),
            goal=load.goal,
        ),
        Row(
            figure=cpu_figure,
            unit="s per GB",
            rounds=(cpu_s / (total_bytes / 1e9),),
            goal=load.cpu_goal,
        ),
    ]


def latency(nodes: Nodes, bench: ClusterBench) -> list[Row]:
    """Measure one round of records at a steady rate, one partition."""
    with nodes.topic(spread(1)) as topic:
        ordered = latencies_ms(
            nodes.bootstrap, topic, RATE, max(MIN_SECONDS, FULL_SECONDS * bench.scale)
        )
    return [
        Row(
            figure=f"latency {name} at {RATE:,} records/s, RF {len(NODES)}",
            unit="ms",
            rounds=(percentile(ordered, share),),
            goal=goal,
        )
        for name, (share, goal) in PERCENTILES.items()
    ]
