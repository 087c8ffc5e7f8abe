"""The flow of records as values: producers, topics, groups, tables and marts, joined by edges.

An area contributes its part through ``Area.flow``, and the page Flow joins the parts. A node is
identified by its kind and name, so two parts that name the same topic share its node.
"""

from dataclasses import dataclass
from enum import StrEnum


class FlowKind(StrEnum):
    """The kinds of nodes, in the order in which records pass them."""

    PRODUCER = "producer"
    TOPIC = "topic"
    GROUP = "group"
    TABLE = "table"
    MART = "mart"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FlowNode:
    """A place that records come from, stay in, or go to."""

    kind: FlowKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEdge:
    """Records that go from one node to another. A rate or a lag of None is unknown."""

    source: FlowNode
    target: FlowNode
    records_per_s: float | None = None
    lag: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPart:
    """The edges that one area knows.

    ``paths`` has nodes with the paths of their pages, and ``failed`` the nodes that need attention,
    each with the reason. ``notes`` are sentences for the page about missing edges or names.
    """

    edges: tuple[FlowEdge, ...] = ()
    paths: tuple[tuple[FlowNode, str], ...] = ()
    failed: tuple[tuple[FlowNode, str], ...] = ()
    notes: tuple[str, ...] = ()
