"""Measures the time three nodes take to start, their memory, and their CPU at rest.

They start in empty directories. Memory is measured idle and after a mixed load. Each round starts
new nodes, one product at a time.
"""

import time

from benchmarks.cluster_load import put_mixed_load_on
from benchmarks.cluster_nodes import CALM_S, NODES, running_cluster
from benchmarks.clusters import ClusterBench
from benchmarks.table import Row, at_most

SETTLE_S = 3.0
IDLE_S, MIN_IDLE_S = 15.0, 2.0


def measure(product: str, bench: ClusterBench) -> list[Row]:
    """Measure one round."""
    began = time.monotonic()
    with running_cluster(product) as nodes:
        start_s = time.monotonic() - began - CALM_S
        time.sleep(SETTLE_S)
        idle_bytes = nodes.rss_bytes()
        cpu_before, began = nodes.cpu_s(), time.monotonic()
        time.sleep(max(MIN_IDLE_S, IDLE_S * bench.scale))
        idle_cpu = (nodes.cpu_s() - cpu_before) / (time.monotonic() - began) / len(NODES)
        put_mixed_load_on(nodes, bench)
        loaded_bytes = nodes.rss_bytes()
    return [
        Row(
            figure="three nodes formatted and started, until all are there",
            unit="s",
            rounds=(start_s,),
        ),
        Row(
            figure="RSS of three, idle", unit="MB", rounds=(idle_bytes / 1e6,), goal=at_most(1 / 6)
        ),
        Row(
            figure="RSS of three, after load",
            unit="MB",
            rounds=(loaded_bytes / 1e6,),
            goal=at_most(1 / 6),
        ),
        Row(
            figure="idle CPU, each of three",
            unit="ms per s",
            rounds=(idle_cpu * 1e3,),
            goal=at_most(0.5),
        ),
    ]
