"""The page of the cluster."""

from collections.abc import Sequence

import trio

from log_service.client.admin.admin import Admin
from log_service.cluster_operations.findings import state_findings
from log_service.cluster_operations.moving import brokers_left_throttled, moves_under_way
from log_service.cluster_operations.reading import read_state
from log_service.cluster_plans.plan import Move
from log_service.common.errors import KafkaError
from log_service.http.console.addresses import command
from log_service.http.console.history.plots import cluster_plots
from log_service.http.console.page_requests import PageRequest, part_response
from log_service.http.console.pages.cluster.view import ClusterPage, cluster_page
from log_service.http.server.values import HttpResponse


async def show(page_request: PageRequest) -> HttpResponse:
    """Show the cluster's problems first, then its brokers, quorum and moves."""
    admin = await page_request.admin()
    state = await read_state(admin)
    throttled = await brokers_left_throttled(admin, state)
    moves: Sequence[tuple[Move, int]] = ()
    if any(each.is_moving for each in state.layout.partitions):
        moves = await _moves(admin)
    sampler, now_ms = page_request.context.sampler, page_request.context.env.clock.wall_ms()

    def page() -> ClusterPage:
        return cluster_page(state, state_findings(state, throttled), moves)

    values = {
        # in another thread, because 10,000 partitions with three replicas take 50 ms
        "page": await trio.to_thread.run_sync(page),
        "sampler": sampler,
        "plots": () if sampler is None else cluster_plots(sampler.history, now_ms),
    }
    if page_request.is_part:
        return part_response(page_request.part("state.html", **values))
    commands = (command("cluster", "status"), command("top"))
    return page_request.page("cluster.html", title="Cluster", commands=commands, **values)


async def _moves(admin: Admin) -> Sequence[tuple[Move, int]]:
    """Return the moves of replicas under way, each with the bytes that have arrived.

    The list is empty if a broker does not report the copied bytes.
    """
    try:
        return await moves_under_way(admin)
    except KafkaError:
        return ()
