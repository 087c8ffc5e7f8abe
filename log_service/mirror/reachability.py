"""Checks whether the clusters of a flow respond, concurrently with the flow's own work.

A client reports an unreachable cluster only after its timeouts, which are a minute by default.
Here a small request with a short timeout finds the problem within seconds. The complaint is
withdrawn once the cluster responds again. The flow does not depend on the result.
"""

import trio

from log_service.client.admin.admin import Admin
from log_service.common.env import Env
from log_service.common.errors import KafkaError, TidelogError
from log_service.mirror.complaints import Complaints
from log_service.mirror.flow import admin_of
from log_service.mirror.settings import ClusterSettings, FlowSettings

TIMEOUT_MS = 3_000
PAUSE_S = 3.0


async def watch_clusters(flow: FlowSettings, env: Env, complaints: Complaints) -> None:
    """Send requests to the source and the target of a flow at intervals, until cancelled.

    A cluster that does not respond causes a complaint, which is withdrawn when it responds.
    """
    async with trio.open_nursery() as nursery:
        for cluster in (flow.source, flow.target):
            nursery.start_soon(_watch, cluster, env, complaints)


async def _watch(cluster: ClusterSettings, env: Env, complaints: Complaints) -> None:
    sentence = (
        f"{cluster.alias} does not respond at {cluster.bootstrap_servers}: the mirror waits for it"
    )
    try:
        admin = admin_of(
            cluster, env, default_api_timeout_ms=TIMEOUT_MS, request_timeout_ms=TIMEOUT_MS
        )
    except (TidelogError, OSError):
        return  # its settings cannot be used, as the flow says
    async with admin:
        while True:
            if await _responds(admin):
                complaints.withdraw(sentence)
            else:
                complaints.note(sentence)
            await trio.sleep(PAUSE_S)


async def _responds(admin: Admin) -> bool:
    """Whether the cluster responds. A refusal is a response, and the flow itself reports it."""
    try:
        await admin.describe_cluster()
    except KafkaError as error:
        return not error.is_retriable
    return True
