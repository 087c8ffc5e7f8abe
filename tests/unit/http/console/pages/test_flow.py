"""The graph of the flow is joined, searched and bounded, and its picture can be read."""

import itertools
import re
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from log_service.http.console.flow import FlowEdge, FlowKind, FlowNode, FlowPart
from log_service.http.console.pages.flow import graph as graph_module
from log_service.http.console.pages.flow.graph import joined
from log_service.http.console.pages.flow.handlers import (
    FIRST_TIMEOUT_S,
    PART_TIMEOUT_S,
    read_parts,
)
from log_service.http.console.pages.flow.layout import (
    LABEL_HEIGHT,
    NODE_HEIGHT,
    NODE_WIDTH,
    picture_of,
)
from log_service.http.console.pages.flow.reading import Pace
from log_service.http.server.values import HttpError


def node(name: str) -> FlowNode:
    """Return a node whose kind stands before its name."""
    kind, _, rest = name.partition(" ")
    return FlowNode(kind=FlowKind(kind), name=rest)


def edge(source: str, target: str, rate: float | None = None, lag: int | None = None) -> FlowEdge:
    return FlowEdge(source=node(source), target=node(target), records_per_s=rate, lag=lag)


PARTS = (
    FlowPart(
        edges=(
            edge("producer shop", "topic orders", 5.0),
            edge("topic orders", "group fraud", 4.0, 10),
            edge("topic payments", "group fraud", None, 0),
        ),
        paths=((node("topic orders"), "/topics/orders"),),
    ),
    FlowPart(
        edges=(
            edge("topic orders", "table sales", lag=3),
            edge("topic orders", "table sales", 2.0),
            edge("table sales", "table daily"),
            edge("table daily", "mart report"),
        ),
        failed=((node("table daily"), "its last run failed"),),
        notes=("Marts have no lag.",),
    ),
)


def test_the_parts_of_areas_meet_in_the_nodes_that_both_name() -> None:
    found = joined(PARTS)
    assert [each.name for each in found.nodes if each.kind is FlowKind.TOPIC] == [
        "orders",
        "payments",
    ]
    (sales,) = [each for each in found.edges if each.target == node("table sales")]
    assert (sales.records_per_s, sales.lag) == (2.0, 3)
    assert found.notes == ("Marts have no lag.",)


def test_a_search_finds_what_is_before_and_behind_a_name() -> None:
    found = joined(PARTS, search="SALES")
    assert {each.name for each in found.nodes} == {"shop", "orders", "sales", "daily", "report"}
    assert {each.name for each in joined(PARTS, search="payments").nodes} == {"payments", "fraud"}
    assert not joined(PARTS, search="nothing").edges


def test_a_flow_in_a_circle_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    circle = FlowPart(edges=(edge("topic a", "topic b"), edge("topic b", "topic a")))
    assert len(joined([circle], search="a").edges) == 2
    monkeypatch.setattr(graph_module, "MAX_EDGES", 1)
    assert joined([circle]).left_out_count == 1
    assert picture_of(joined([circle])).edges


def test_columns_stand_in_the_direction_of_the_records() -> None:
    picture = picture_of(joined(PARTS))
    assert [text for text, _ in picture.heads] == [
        "Producers", "Topics", "Groups", "Tables", "Marts"
    ]  # fmt: skip
    xs = {each.node.kind: each.x for each in picture.nodes}
    assert sorted(xs.values()) == [xs[kind] for kind in FlowKind]
    orders = next(each for each in picture.nodes if each.node == node("topic orders"))
    assert orders.path == "/topics/orders"
    daily = next(each for each in picture.nodes if each.node == node("table daily"))
    assert daily.failure == "its last run failed"


def test_no_nodes_and_no_words_overlap_and_all_fit_in() -> None:
    edges = [
        edge(f"producer p{source}", f"topic t{target}", 1.0)
        for source in range(9)
        for target in range(9)
    ]
    picture = picture_of(joined([FlowPart(edges=tuple(edges))]))
    boxes = [(each.x, each.y) for each in picture.nodes]
    for x, y in boxes:
        assert 0 <= x <= picture.width - NODE_WIDTH
        assert 0 <= y <= picture.height - NODE_HEIGHT
        assert not any(x == x2 and 0 < abs(y - y2) < NODE_HEIGHT for x2, y2 in boxes)
    words = sorted((each.x, each.y) for each in picture.edges)
    for (x1, y1), (x2, y2) in itertools.pairwise(words):
        assert x1 != x2 or y2 - y1 >= LABEL_HEIGHT
        assert y2 <= picture.height


def test_a_path_has_numbers_alone_whatever_a_node_is_called() -> None:
    hostile = '"/><script>'
    picture = picture_of(joined([FlowPart(edges=(edge(f"topic {hostile}", f"group {hostile}"),))]))
    assert all(re.fullmatch(r"[MC0-9. -]+", each.path) for each in picture.edges)


def test_a_rate_is_the_growth_between_looks_that_are_apart() -> None:
    pace, pair = Pace(), ("g", "t")
    assert not pace.look(1_000, {pair: 10})
    assert pace.look(11_000, {pair: 60, ("h", "t"): 5}) == {pair: 5.0}
    assert pace.look(11_500, {pair: 900}) == {pair: 5.0}
    assert pace.look(21_000, {pair: 50}) == {pair: 0.0}


@dataclass(frozen=True)
class Visit:
    """The parts of a page request that the flow's parts are read with."""

    context: Any
    area: str = ""


def test_a_part_that_takes_long_holds_up_no_page() -> None:
    async def soon(_visit: object) -> FlowPart:
        return PARTS[0]

    async def later(_visit: object) -> FlowPart:
        await trio.sleep(FIRST_TIMEOUT_S + 1)
        return PARTS[1]

    async def refused(_visit: object) -> FlowPart:
        raise HttpError(400, "the project cannot be loaded")

    async def run() -> None:
        began_s = trio.current_time()
        flows = {"topics": soon, "pipelines": later, "marts": refused}
        visit: Any = Visit(context=SimpleNamespace(flows=flows))
        parts, late = await read_parts(visit, FIRST_TIMEOUT_S)
        assert (trio.current_time() - began_s, late) == (FIRST_TIMEOUT_S, ("pipelines",))
        assert [each.edges for each in parts] == [(), PARTS[0].edges]
        assert "the project cannot be loaded" in parts[0].notes[0]
        parts, late = await read_parts(visit, PART_TIMEOUT_S)
        assert PARTS[1] in parts
        assert not late

    trio.run(run, clock=MockClock(autojump_threshold=0))
