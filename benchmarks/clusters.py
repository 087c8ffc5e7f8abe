"""Keeps a cluster of each product for figures of three nodes, and gives one of them its turn.

The cluster that is not measured is suspended, so that it takes no CPU from the other. Two kinds
stay alive from round to round, so that a JVM is warm and stays so. Clusters that are only loaded
get long timeouts, because none of their nodes may be fenced for having been suspended. Clusters in
which nodes die have every timeout as shipped, and find together again after each suspension.
Figures of starts and of memory have new clusters, one at a time.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from benchmarks.apache_kafka import NAME as PEER
from benchmarks.cluster_nodes import CALM_S, PRODUCTS, Nodes, running_cluster, spread
from benchmarks.measured import Asked, Measured
from benchmarks.rounds import SUSPENDED_SESSION_MS, Measure, Sides, say
from benchmarks.table import OURS, Row

PATIENCE = {
    "broker_session_timeout_ms": SUSPENDED_SESSION_MS,
    "replica_lag_time_max_ms": SUSPENDED_SESSION_MS,
    "controller_quorum_fetch_timeout_ms": SUSPENDED_SESSION_MS,
}
MeasureNodes = Callable[[Nodes, "ClusterBench"], list[Row]]


@dataclass(slots=True, kw_only=True)
class ClusterBench:
    """The scale of the load, and the living clusters. ``warm_up`` runs once on each of them."""

    scale: float
    has_peer: bool
    warm_up: Callable[[Nodes, "ClusterBench"], None]
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _alive: dict[str, Nodes] = field(default_factory=dict)
    _properties: Mapping[str, str] | None = None

    @property
    def products(self) -> list[str]:
        """Return the names of the measured products, ours first."""
        return [OURS, PEER] if self.has_peer else [OURS]

    def count(self, full: float, *, at_least: int = 1) -> int:
        """Return a load's count at this scale, given its count at full scale."""
        return max(at_least, int(full * self.scale))

    def at_scale(self, share: float) -> "ClusterBench":
        """Return a bench with a share of this one's load."""
        return replace(self, scale=self.scale * share)

    def clusters(self, properties: Mapping[str, str]) -> Mapping[str, Nodes]:
        """Return a suspended cluster of each product.

        The present clusters stay if they have the same properties.
        """
        if self._properties != properties:
            self.stop()
            with contextlib.ExitStack() as stack:
                for name in self.products:
                    say(f"starting and warming up three nodes of {name}")
                    nodes = stack.enter_context(running_cluster(PRODUCTS[name], **properties))
                    self.warm_up(nodes, self)
                    nodes.suspend()
                    self._alive[name] = nodes
                self._stack, self._properties = stack.pop_all(), dict(properties)
        return self._alive

    def stop(self) -> None:
        """Stop the living clusters."""
        self._alive, self._properties = {}, None
        self._stack.close()

    def beside(self, measures: Mapping[str, Measure]) -> Sides:
        """Return the sides of a family that compares the products."""
        return Sides(measures=measures, peer=PEER if self.has_peer else "")


@dataclass(frozen=True, slots=True)
class AsOne:
    """A cluster in the form that figures of one node expect."""

    nodes: Nodes

    @property
    def address(self) -> str:
        return self.nodes.bootstrap

    def cpu_s(self) -> float:
        return self.nodes.cpu_s()

    def rss_bytes(self) -> int:
        return self.nodes.rss_bytes()

    def topic(self, partition_count: int = 1) -> contextlib.AbstractContextManager[str]:
        return self.nodes.topic(spread(partition_count))


def as_one_node(
    measure: Callable[[Measured, Asked], list[Row]], share: float = 1.0
) -> MeasureNodes:
    """Return a function that takes the figures of one node on a cluster, with a share of the load.

    The broker's CPU and memory in these figures are those of all nodes.
    """
    return lambda nodes, bench: measure(AsOne(nodes), bench.at_scale(share))


ClusterFamily = Callable[[ClusterBench], contextlib.AbstractContextManager[Sides]]


def of_living_clusters(
    measure: MeasureNodes, properties: Mapping[str, str], calm_s: float = CALM_S
) -> ClusterFamily:
    """Return the family that measures each cluster in turn, while the other one is suspended.

    ``calm_s`` is that of ``resume``.
    """

    @contextlib.contextmanager
    def family(bench: ClusterBench) -> Iterator[Sides]:
        clusters = bench.clusters(properties)

        def measure_alone(name: str) -> list[Row]:
            nodes = clusters[name]
            nodes.resume(calm_s)
            try:
                return measure(nodes, bench)
            finally:
                nodes.suspend()

        try:
            yield bench.beside({name: partial(measure_alone, name) for name in clusters})
        except BaseException:
            bench.stop()  # a cluster that failed is not asked again
            raise

    return family


def of_new_clusters(measure: Callable[[str, ClusterBench], list[Row]]) -> ClusterFamily:
    """Return the family that starts clusters of its own in each round.

    ``measure`` gets the name of the product.
    """

    @contextlib.contextmanager
    def family(bench: ClusterBench) -> Iterator[Sides]:
        bench.stop()
        yield bench.beside(
            {name: partial(measure, PRODUCTS[name], bench) for name in bench.products}
        )

    return family
