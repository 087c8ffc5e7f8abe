"""The platform's part of the page Flow: topics, tables and marts, joined by edges.

``platform_flow`` decides the edges from facts alone, so that its tests need neither broker nor
lake.
"""

from collections.abc import Iterable

from log_service.http.console.addresses import path_to
from log_service.http.console.flow import FlowEdge, FlowKind, FlowNode, FlowPart
from log_service.http.console.page_requests import PageRequest
from orchestration.console.platform import Platform
from orchestration.console.values import TableFacts


async def show_flow(platform: Platform, page_request: PageRequest) -> FlowPart:
    """Return the edges between topics, tables and marts that the person may read.

    Raises:
        HttpError: the project cannot be loaded.
    """
    if platform.missing:
        return FlowPart()
    sight = await platform.sight(page_request)
    overview = sight.overview
    return platform_flow(
        each for each in overview.tables if sight.rights.may_read(overview.needed_topics(each.name))
    )


def platform_flow(tables: Iterable[TableFacts]) -> FlowPart:
    """Return the edges from topics to tables, between tables, and on to topics and marts.

    The edges to a table that follows several topics show no lag and no rate, because both are known
    only for the whole table.
    """
    edges: list[FlowEdge] = []
    shown = sorted(tables, key=lambda each: each.asset)
    nodes = {each.asset: _node(each) for each in shown}
    for table in shown:
        own, is_alone = nodes[table.asset], len(table.topics) == 1
        edges += [
            FlowEdge(
                source=FlowNode(kind=FlowKind.TOPIC, name=topic),
                target=own,
                lag=table.lag if is_alone else None,
                records_per_s=table.records_per_s if is_alone else None,
            )
            for topic in table.topics
        ]
        edges += [
            FlowEdge(source=nodes[each], target=own) for each in table.inputs if each in nodes
        ]
        if table.target is not None:
            target = FlowNode(kind=FlowKind.TOPIC, name=table.target)
            edges.append(FlowEdge(source=own, target=target))
    return FlowPart(
        edges=tuple(edges),
        paths=tuple(
            (nodes[each.asset], path_to("pipelines", "tables", each.name)) for each in shown
        ),
        failed=tuple((nodes[each.asset], each.failure) for each in shown if each.failure),
    )


def _node(table: TableFacts) -> FlowNode:
    return FlowNode(kind=FlowKind.MART if table.is_mart else FlowKind.TABLE, name=table.name)
