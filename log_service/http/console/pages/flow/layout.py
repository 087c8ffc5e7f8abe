"""Places the nodes and edges of a flow in a picture. Values in, values out.

Nodes of one kind form a column. Their order makes few edges cross. An edge is a curve. An edge
between nodes of the same column goes around on the right. The texts of two edges never overlap.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from log_service.http.console.flow import FlowEdge, FlowKind, FlowNode
from log_service.http.console.history.plots import shown_rate
from log_service.http.console.pages.flow.graph import FlowGraph
from log_service.http.console.rendering import shown_number

NODE_WIDTH, NODE_HEIGHT = 180, 30
COLUMN_GAP, ROW_GAP = 150, 26
HEAD_HEIGHT, MARGIN = 30, 10
LABEL_HEIGHT = 15
MAX_NAME_CHARACTERS = 21
SWEEPS = 4
HEADS: Mapping[FlowKind, str] = {
    FlowKind.PRODUCER: "Producers",
    FlowKind.TOPIC: "Topics",
    FlowKind.GROUP: "Groups",
    FlowKind.TABLE: "Tables",
    FlowKind.MART: "Marts",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNode:
    """One node with its position. ``path`` is its page, ``failure`` the reason to look at it."""

    node: FlowNode
    x: float
    y: float
    text: str
    path: str
    failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedEdge:
    """One edge. ``path`` is an SVG path. ``x`` and ``y`` are the position of ``text``."""

    path: str
    text: str
    x: float
    y: float
    has_lag: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The whole picture. ``heads`` has the heading of each column and its position."""

    width: float
    height: float
    heads: tuple[tuple[str, float], ...]
    nodes: tuple[PlacedNode, ...]
    edges: tuple[PlacedEdge, ...]


def picture_of(graph: FlowGraph) -> Picture:
    """Return the picture of a graph."""
    columns = _columns(graph)
    places: dict[FlowNode, tuple[float, float]] = {}
    tallest = max((len(column) for column in columns), default=0)
    busiest = max(Counter(edge.target.kind for edge in graph.edges).values(), default=0)
    step = max(NODE_HEIGHT + ROW_GAP, busiest * LABEL_HEIGHT / max(1, tallest))
    for number, column in enumerate(columns):
        x = MARGIN + number * (NODE_WIDTH + COLUMN_GAP)
        above = (tallest - len(column)) * step / 2
        for row, node in enumerate(column):
            places[node] = x, HEAD_HEIGHT + MARGIN + above + row * step
    edges = _placed_edges(graph.edges, places)
    height = HEAD_HEIGHT + 2 * MARGIN + tallest * step
    return Picture(
        width=2 * MARGIN + len(columns) * (NODE_WIDTH + COLUMN_GAP),
        height=max([height, *(each.y + LABEL_HEIGHT for each in edges)]),
        heads=tuple(
            (HEADS[column[0].kind], MARGIN + number * (NODE_WIDTH + COLUMN_GAP))
            for number, column in enumerate(columns)
        ),
        nodes=tuple(
            PlacedNode(
                node=node,
                x=x,
                y=y,
                text=_shortened(node.name),
                path=graph.paths.get(node, ""),
                failure=graph.failed.get(node, ""),
            )
            for node, (x, y) in places.items()
        ),
        edges=edges,
    )


def edge_text(edge: FlowEdge) -> str:
    """Return the figures of an edge in words, empty if none is known."""
    parts = []
    if edge.records_per_s is not None:
        parts.append(shown_rate(edge.records_per_s))
    if edge.lag is not None:
        parts.append(f"lag {shown_number(edge.lag)}")
    return ", ".join(parts)


def _columns(graph: FlowGraph) -> list[list[FlowNode]]:
    """Return the nodes in a column for each kind that occurs.

    A column is sorted so that nodes are near the nodes that they are joined with.
    """
    columns = [[node for node in graph.nodes if node.kind is kind] for kind in FlowKind]
    columns = [column for column in columns if column]
    joined: dict[FlowNode, list[FlowNode]] = {}
    for edge in graph.edges:
        joined.setdefault(edge.source, []).append(edge.target)
        joined.setdefault(edge.target, []).append(edge.source)
    for sweep in range(SWEEPS):
        heights = {
            node: row / max(1, len(column)) for column in columns for row, node in enumerate(column)
        }
        for column in columns if sweep % 2 == 0 else reversed(columns):
            wanted = {
                node: sum(heights[each] for each in joined[node]) / len(joined[node])
                for node in column
            }
            column.sort(key=lambda node, wanted=wanted: (wanted[node], node))  # type: ignore[misc]
            heights |= {node: row / len(column) for row, node in enumerate(column)}
    return columns


def _placed_edges(
    edges: Sequence[FlowEdge], places: Mapping[FlowNode, tuple[float, float]]
) -> tuple[PlacedEdge, ...]:
    curves = []
    for edge in edges:
        (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
        start, end = x1 + NODE_WIDTH, x2
        y1, y2 = y1 + NODE_HEIGHT / 2, y2 + NODE_HEIGHT / 2
        if end <= start:  # the same column, or back
            end = x2 + NODE_WIDTH
            turn = max(start, end) + COLUMN_GAP / 3
            curve = (
                f"M{start:.0f} {y1:.0f}C{turn:.0f} {y1:.0f} {turn:.0f} {y2:.0f} {end:.0f} {y2:.0f}"
            )
            curves.append((edge, curve, turn, (y1 + y2) / 2))
        else:
            bend = min(COLUMN_GAP, end - start) / 2
            curve = (
                f"M{start:.0f} {y1:.0f}C{start + bend:.0f} {y1:.0f} "
                f"{end - bend:.0f} {y2:.0f} {end:.0f} {y2:.0f}"
            )
            curves.append((edge, curve, (start + end) / 2, (y1 + y2) / 2))
    ys = _apart([(x, y) for edge, _, x, y in curves])
    return tuple(
        PlacedEdge(path=curve, text=edge_text(edge), x=x, y=y, has_lag=bool(edge.lag))
        for (edge, curve, x, _), y in zip(curves, ys, strict=True)
    )


def _apart(points: Sequence[tuple[float, float]]) -> list[float]:
    """Return the height of each edge's text, moved down if it would overlap one at the same x."""
    ys = [y for _, y in points]
    last: dict[float, float] = {}
    for index in sorted(range(len(points)), key=lambda index: points[index][1]):
        x, y = points[index]
        ys[index] = max(y, last.get(x, y - LABEL_HEIGHT) + LABEL_HEIGHT)
        last[x] = ys[index]
    return ys


def _shortened(name: str) -> str:
    if len(name) <= MAX_NAME_CHARACTERS:
        return name or "(no name)"
    return f"{name[: MAX_NAME_CHARACTERS - 1]}…"
