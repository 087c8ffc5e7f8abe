"""Connection pools of a node to other nodes, made on first use.

A single node therefore does not even import the modules for them. Decides which pool a request
uses. The quorum's requests have a pool of their own, with their own name, timeouts and one request
in flight. Requests to controllers have their own pool if controllers are reached with another
protection than brokers. All other requests share one pool. A destination's ``purpose`` keeps
requests that wait long apart from those that do not. ``destination_of`` finds the address of
another broker.
"""

from typing import TYPE_CHECKING

import trio

from log_service.broker.protection import Protection
from log_service.common.env import NodeEnv
from log_service.common.types import NodeId
from log_service.config.views import NodeConfig
from log_service.metadata.image import MetadataImage

if TYPE_CHECKING:
    from log_service.rpc.connection import Destination, RpcSettings, Security
    from log_service.rpc.pool import ConnectionPool, OnPeerClosed

FIRST_RECONNECT_MS, LAST_RECONNECT_MS = 50, 500
"""Pause before a controller is connected to again, as in Apache Kafka."""


class Peers:
    """The pools of one node's connections to other nodes.

    ``nursery`` holds their connections. It is set before the first request.

    ``on_peer_closed`` is called with the destination of a connection that its broker has ended.
    """

    def __init__(self, env: NodeEnv, config: NodeConfig, protection: Protection) -> None:
        self.nursery: trio.Nursery | None = None
        self.on_peer_closed: OnPeerClosed | None = None
        self._env = env
        self._config = config
        self._protection = protection
        self._of_all: ConnectionPool | None = None
        self._of_controllers: ConnectionPool | None = None
        self._of_quorum: ConnectionPool | None = None

    def __repr__(self) -> str:
        return f"<Peers of={self._config.node_id} all={self._of_all!r} quorum={self._of_quorum!r}>"

    def pool(self) -> "ConnectionPool":
        """Return the pool of all requests to brokers."""
        if self._of_all is None:
            self._of_all = self._new_pool(
                self._settings(), self._protection.between_brokers, self.on_peer_closed
            )
        return self._of_all

    def controller_pool(self) -> "ConnectionPool":
        """Return the pool of all requests to controllers, except the quorum's."""
        if self._protection.to_controllers is self._protection.between_brokers:
            return self.pool()
        if self._of_controllers is None:
            self._of_controllers = self._new_pool(self._settings(), self._protection.to_controllers)
        return self._of_controllers

    def _settings(self) -> "RpcSettings":
        from log_service.rpc.connection import (  # noqa: PLC0415 - a node alone asks no other node
            RpcSettings,
        )

        return RpcSettings(client_id=f"broker-{self._config.node_id}")

    def quorum_pool(self) -> "ConnectionPool":
        """Return the pool of the quorum's requests."""
        if self._of_quorum is None:
            from log_service.rpc.connection import RpcSettings  # noqa: PLC0415 - as above
            from log_service.rpc.retry import Backoff  # noqa: PLC0415 - as above

            timeout_ms = self._config.quorum.request_timeout_ms
            settings = RpcSettings(
                client_id=f"raft-client-{self._config.node_id}",
                request_timeout_ms=timeout_ms,
                connect_timeout_ms=timeout_ms,
                max_requests_in_flight=1,
                reconnect_backoff=Backoff(first_ms=FIRST_RECONNECT_MS, max_ms=LAST_RECONNECT_MS),
            )
            self._of_quorum = self._new_pool(settings, self._protection.to_controllers)
        return self._of_quorum

    def _new_pool(
        self,
        settings: "RpcSettings",
        security: "Security | None",
        on_peer_closed: "OnPeerClosed | None" = None,
    ) -> "ConnectionPool":
        from log_service.rpc.pool import ConnectionPool  # noqa: PLC0415 - as above

        assert self.nursery is not None, "the node runs before it asks others"
        return ConnectionPool(
            self._env, settings, self.nursery, security, on_peer_closed=on_peer_closed
        )


def destination_of(
    image: MetadataImage,
    node_id: int,
    listener_name: str,
    purpose: str,
    *,
    with_fenced: bool = False,
) -> "Destination | None":
    """Return a broker's address for other brokers.

    Returns None if the broker is not registered, has no such listener, or is fenced. With
    ``with_fenced`` a fenced broker has an address, too.
    """
    broker = image.cluster.brokers.get(NodeId(node_id))
    endpoint = (
        None
        if broker is None or (broker.is_fenced and not with_fenced)
        else broker.endpoints.get(listener_name)
    )
    if endpoint is None:
        return None
    from log_service.rpc.connection import (  # noqa: PLC0415 - a node alone asks no other node
        Destination,
    )

    return Destination(host=endpoint.host, port=endpoint.port, purpose=purpose)
