"""The flow of records between topics, tables and marts, as edges of a graph.

Decides only the edges. The facts on tables come from the caller, so that a picture and its tests
need neither broker nor lake.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from orchestration.console.values import TableFacts

TOPIC = "topics"
"""The beginning of a topic's node, as of its asset in the Dagster UI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Records that go from one place to another.

    Places are asset keys, such as ``topics/orders``, ``lake/clean_orders`` and ``marts/daily``.
    ``lag`` counts the offsets of the source that the target has not committed. ``records_per_s`` is
    the pace of the target's last commits. Both are None where they are not known: behind a table,
    and for one of several topics.
    """

    source: str
    target: str
    lag: int | None = None
    records_per_s: float | None = None


def platform_edges(tables: Iterable[TableFacts]) -> tuple[Edge, ...]:
    """Return the edges from topics to tables, between tables, and to topics, in order."""
    edges = set[Edge]()
    for table in tables:
        is_alone = len(table.topics) == 1
        for topic in table.topics:
            edges.add(
                Edge(
                    source=f"{TOPIC}/{topic}",
                    target=table.asset,
                    lag=table.lag if is_alone else None,
                    records_per_s=table.records_per_s if is_alone else None,
                )
            )
        edges |= {Edge(source=each, target=table.asset) for each in table.inputs}
        if table.target is not None:
            edges.add(Edge(source=table.asset, target=f"{TOPIC}/{table.target}"))
    return tuple(sorted(edges, key=lambda edge: (edge.source, edge.target)))
