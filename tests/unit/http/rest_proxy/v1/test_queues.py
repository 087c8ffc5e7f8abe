"""``acquire`` ends in time at a cluster whose broker hangs."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from log_service.client import Admin, KafkaError, NewTopic, ShareLeases
from log_service.client.share.leases import ACQUIRE_GRACE_MS
from log_service.http.rest_proxy.context import Call
from log_service.http.rest_proxy.streams import Streams
from log_service.http.rest_proxy.v1.queues import acquire
from log_service.http.server.values import HttpRequest
from tests.helpers.cluster import BROKER_PORT, Cluster, host_of, node_properties, tell_cluster

WAIT_MS = 1_000
ONE_COPY = {
    "offsets_topic_replication_factor": "1",
    "share_coordinator_state_topic_replication_factor": "1",
    "share_coordinator_state_topic_min_isr": "1",
}
REQUEST = HttpRequest(
    method="POST",
    path="/v1/queues/q/topics/t/acquire",
    headers={"content-type": "application/json"},
    body=b'{"wait_ms": %d}' % WAIT_MS,
    path_values={"group": "q", "topic": "t"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneLogin:
    """The clients of one login, which are open already."""

    open_admin: Admin
    leases: ShareLeases
    servers: str = ""
    env: Any = None
    credentials: None = None

    def settings(self) -> dict[str, Any]:
        return {}

    async def admin(self) -> Admin:
        await trio.lowlevel.checkpoint()
        return self.open_admin

    async def shared_client(self, _name: str, _make: Callable[[], Any]) -> ShareLeases:
        await trio.lowlevel.checkpoint()
        return self.leases


def test_acquire_ends_in_time_although_the_only_broker_hangs() -> None:
    async def story(cluster: Cluster) -> None:
        servers, env = f"{host_of(1)}:{BROKER_PORT}", cluster.world.client_env()
        async with Admin(servers, env=env) as admin, ShareLeases(servers, env=env) as leases:
            await admin.create_topics([NewTopic(name="t", partition_count=1)])
            call = Call(
                context=cast("Any", SimpleNamespace(streams=Streams(1))),
                request=REQUEST,
                clients=cast("Any", OneLogin(open_admin=admin, leases=leases)),
            )
            assert (await acquire(call)).body == b'{"records":[],"lock_ms":null}'
            cluster.world.network.cut(host_of(1), "client")
            began_s = trio.current_time()
            with pytest.raises(KafkaError):
                await acquire(call)
            assert round((trio.current_time() - began_s) * 1_000) <= WAIT_MS + ACQUIRE_GRACE_MS

    tell_cluster(story, {1: node_properties(1, (1,), **ONE_COPY)})
