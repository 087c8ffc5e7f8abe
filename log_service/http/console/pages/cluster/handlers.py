"""The page of the cluster."""

from log_service.cluster_operations.findings import state_findings
from log_service.cluster_operations.moving import brokers_left_throttled
from log_service.cluster_operations.reading import read_state
from log_service.http.console.addresses import command
from log_service.http.console.pages.cluster.view import cluster_page
from log_service.http.console.visits import Visit, part_response
from log_service.http.server.values import HttpResponse


async def show(visit: Visit) -> HttpResponse:
    """Show the cluster's problems first, then its brokers, quorum and moves."""
    admin = await visit.admin()
    state = await read_state(admin)
    throttled = await brokers_left_throttled(admin, state)
    page = cluster_page(state, state_findings(state, throttled))
    if visit.is_part:
        return part_response(visit.part("state.html", page=page))
    commands = (command("cluster", "status"),)
    return visit.page("cluster.html", title="Cluster", commands=commands, page=page)
