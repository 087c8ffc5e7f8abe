"""The quorum's requests over the network, with one connection and one request in flight per peer.

This file decides which connection a request uses and the error of a failure. A request that times
out closes its connection, because every response after it would be late too. If a connection is
refused or lost, its request fails at once. The next attempt waits for the reconnect pause of the
connection pool. This file does not know the rules of the quorum. ``raft.core`` decides what is sent
to which peer, and when it is sent again.

Invariant: if the address of a peer changes, no request is sent to the old one.
"""

import errno
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from log_service.common.access import NODE_ADVICE
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.common.types import NodeId
from log_service.protocol.api_versions import response_class
from log_service.raft.messages import Peer, WireMessage

if TYPE_CHECKING:
    from log_service.rpc.connection import Destination
    from log_service.rpc.pool import ConnectionPool

logger = logging.getLogger(__name__)


class RpcTransport:
    """The ``Transport`` of a node.

    ``pool`` creates the connections with the first request, because a quorum of one node sends
    none. ``own_name`` returns the principal of this node towards controllers.
    """

    def __init__(self, pool: "Callable[[], ConnectionPool]", own_name: Callable[[], str]) -> None:
        self._pool = pool
        self._own_name = own_name
        self._refusing_ids: set[NodeId] = set()
        self._destinations: dict[NodeId, Destination] = {}
        self._logged: dict[Destination, None] = {}

    def __repr__(self) -> str:
        return f"<RpcTransport {list(self._destinations.values())}>"

    @property
    def refusing_ids(self) -> Collection[NodeId]:
        """The nodes that have refused a connection and have sent no request since."""
        return self._refusing_ids

    def note_request(self, node_id: NodeId) -> None:
        """Record a node's request, which shows that its process is running."""
        self._refusing_ids.discard(node_id)

    async def send(self, peer: Peer, request: WireMessage) -> WireMessage:
        """Send a message in the highest version that the peer knows, and return its response.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, no version that the peer knows can hold the request;
                NETWORK_EXCEPTION, REQUEST_TIMED_OUT.
            ConnectionRefusedError: no process listens at the peer's address.
        """
        destination = self._destination_of(peer)
        channel, is_done = self._pool().channel(destination), False
        try:
            response = await channel.request(request, response_class(request.SCHEMA.key))
            is_done = True
            self._refusing_ids.discard(peer.node_id)
            self._log_refusal(destination, request, getattr(response, "error_code", ErrorCode.NONE))
        except ProtocolError as error:
            is_done = True  # nothing was sent
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{destination}: {error}") from error
        except KafkaError as error:
            if channel.is_refused:
                self._refusing_ids.add(peer.node_id)
                raise ConnectionRefusedError(errno.ECONNREFUSED, str(error)) from error
            raise
        finally:
            if not is_done:
                channel.close()
        return response

    def _log_refusal(self, destination: "Destination", request: WireMessage, code: int) -> None:
        """Log, once for each address, an error that no later attempt can resolve.

        The quorum would retry forever without success.
        """
        if (
            code not in {ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
            or destination in self._logged
        ):
            return
        self._logged[destination] = None
        if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            text = "The controller at %s:%d refuses this node, which comes as %s: %s"
            logger.error(text, destination.host, destination.port, self._own_name(), NODE_ADVICE)
        else:
            text = (
                "The controller at %s:%d is of another cluster than this node, whose cluster id is"
                " %s: correct the address in this node's file, or give the node a directory that"
                " was formatted with that cluster's id"
            )
            logger.error(text, destination.host, destination.port, request.cluster_id)

    def _destination_of(self, peer: Peer) -> "Destination":
        from log_service.rpc.connection import (  # noqa: PLC0415 - a quorum of one asks no other node
            Destination,
        )

        destination = Destination(
            host=peer.host, port=peer.port, purpose=f"of controller {peer.node_id}"
        )
        known = self._destinations.get(peer.node_id)
        if known is not None and known != destination:
            self._pool().forget(known)
        self._destinations[peer.node_id] = destination
        return destination
