"""Joins the parts of all areas into one graph, and bounds it. Values in, values out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from log_service.http.console.flow import FlowEdge, FlowNode, FlowPart

MAX_EDGES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowGraph:
    """The edges of all areas, sorted, with the page and the reported failure of each node.

    ``left_out_count`` is the number of edges that are not shown.
    """

    edges: tuple[FlowEdge, ...]
    paths: Mapping[FlowNode, str]
    failed: Mapping[FlowNode, str]
    notes: tuple[str, ...]
    left_out_count: int = 0
    nodes: tuple[FlowNode, ...] = field(init=False)

    def __post_init__(self) -> None:
        found = {node for edge in self.edges for node in (edge.source, edge.target)}
        object.__setattr__(self, "nodes", tuple(sorted(found)))


def joined(parts: Sequence[FlowPart], *, search: str = "") -> FlowGraph:
    """Join the parts of all areas into one graph.

    With a ``search`` it has the nodes whose names contain the text, all nodes before them in the
    flow, and all nodes after them. If an edge occurs twice, known figures win.
    """
    edges: dict[tuple[FlowNode, FlowNode], FlowEdge] = {}
    for edge in (each for part in parts for each in part.edges):
        before = edges.setdefault((edge.source, edge.target), edge)
        edges[edge.source, edge.target] = replace(
            before,
            records_per_s=edge.records_per_s
            if before.records_per_s is None
            else before.records_per_s,
            lag=edge.lag if before.lag is None else before.lag,
        )
    wanted = sorted(edges.values(), key=lambda edge: (edge.source, edge.target))
    if search:
        wanted = _around(wanted, search.casefold())
    return FlowGraph(
        edges=tuple(wanted[:MAX_EDGES]),
        paths={node: path for part in parts for node, path in part.paths},
        failed={node: reason for part in parts for node, reason in part.failed},
        notes=tuple(note for part in parts for note in part.notes),
        left_out_count=max(0, len(wanted) - MAX_EDGES),
    )


def _around(edges: Sequence[FlowEdge], needle: str) -> list[FlowEdge]:
    """Return the edges upstream and downstream of the nodes whose names contain a text."""
    found = {
        node
        for edge in edges
        for node in (edge.source, edge.target)
        if needle in node.name.casefold()
    }
    before = _reached(found, [(edge.target, edge.source) for edge in edges])
    behind = _reached(found, [(edge.source, edge.target) for edge in edges])
    return [
        edge
        for edge in edges
        if {edge.source, edge.target} <= before or {edge.source, edge.target} <= behind
    ]


def _reached(
    starts: Iterable[FlowNode], steps: Sequence[tuple[FlowNode, FlowNode]]
) -> set[FlowNode]:
    following: dict[FlowNode, list[FlowNode]] = {}
    for source, target in steps:
        following.setdefault(source, []).append(target)
    reached, waiting = set(starts), list(starts)
    while waiting:
        for node in following.get(waiting.pop(), ()):
            if node not in reached:
                reached.add(node)
                waiting.append(node)
    return reached
