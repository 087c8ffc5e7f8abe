"""The page of the flow."""

from dataclasses import replace

import trio

from log_service.common.errors import KafkaError
from log_service.http.console.addresses import command, path_to
from log_service.http.console.flow import FlowPart
from log_service.http.console.page_requests import FlowSource, PageRequest, part_response
from log_service.http.console.pages.flow.graph import FlowGraph, joined
from log_service.http.console.pages.flow.layout import Picture, picture_of
from log_service.http.server.values import HttpError, HttpResponse

MAX_SEARCH_CHARACTERS = 250
PART_TIMEOUT_S = 20.0
FIRST_TIMEOUT_S = 0.5
"""How long a page waits for its parts. Its script then requests the parts that took longer."""


async def show(page_request: PageRequest) -> HttpResponse:
    """Show the flow of records, or only the part that is joined with the searched nodes."""
    search = page_request.query.get("q", "")[:MAX_SEARCH_CHARACTERS]
    limit_s = PART_TIMEOUT_S if page_request.is_part else FIRST_TIMEOUT_S
    parts, late = await read_parts(page_request, limit_s)

    def draw() -> tuple[FlowGraph, Picture]:
        graph = joined(parts, search=search)
        return graph, picture_of(graph)

    # in another thread, because 10,000 edges take 60 ms
    graph, picture = await trio.to_thread.run_sync(draw)
    values = {
        "graph": graph,
        "picture": picture,
        "search": search,
        "own": path_to("flow", q=search),
        "late": late,
    }
    if page_request.is_part:
        return part_response(page_request.part("picture.html", **values))
    lines = (command("top"), command("groups", "list"))
    return page_request.page("flow.html", title="Flow", commands=lines, **values)


async def read_parts(
    page_request: PageRequest, limit_s: float
) -> tuple[list[FlowPart], tuple[str, ...]]:
    """Return the parts of all areas, and the names of areas that take longer than ``limit_s``.

    A part that cannot be read becomes a note, and does not affect the others.
    """
    found: dict[str, FlowPart] = {}
    late: list[str] = []

    async def read(name: str, source: FlowSource) -> None:
        try:
            with trio.move_on_after(limit_s) as scope:
                found[name] = await source(replace(page_request, area=name))
        except (KafkaError, HttpError) as error:
            found[name] = FlowPart(notes=(f"The part of the area {name} is missing: {error}.",))
        if scope.cancelled_caught:
            late.append(name)

    async with trio.open_nursery() as nursery:
        for name, source in page_request.context.flows.items():
            nursery.start_soon(read, name, source)
    return [found[name] for name in sorted(found)], tuple(sorted(late))
