"""Send the requests of the rules, and pass each response to the rules as an event.

This file decides the error code of a failure and when a request has timed out. A request ends in
exactly one event: its response, or a failure. ``raft.core`` decides what is sent to which peer, and
when it is sent again.
"""

import logging
from collections.abc import Callable, Collection
from typing import Protocol

import trio

from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import NodeId
from log_service.config.views import QuorumConfig
from log_service.raft.events import Event, RequestFailed, ResponseArrived, Send
from log_service.raft.messages import Peer, VoterChangeResponse, WireMessage

logger = logging.getLogger(__name__)


class Transport(Protocol):
    """Sends requests to the other replicas."""

    @property
    def refusing_ids(self) -> Collection[NodeId]:
        """The nodes that have refused a connection and have sent no request since."""

    def note_request(self, node_id: NodeId) -> None:
        """Record a node's request, which shows that its process is running."""

    async def send(self, peer: Peer, request: WireMessage) -> WireMessage:
        """Send a message in the highest version that the peer knows, and return its response.

        Raises:
            ConnectionRefusedError: no process listens at the peer's address.
            OSError: the peer cannot be reached.
            KafkaError: UNSUPPORTED_VERSION, no version that the peer knows can hold the request;
                any other code, the peer did not respond.
        """


class PeerRequests:
    """The requests of one replica. ``post`` is called with each event.

    ``transport`` is None if the replica is the only voter.
    """

    def __init__(
        self,
        transport: Transport | None,
        quorum: QuorumConfig,
        clock: Clock,
        post: Callable[[Event], None],
    ) -> None:
        self._transport = transport
        self._quorum = quorum
        self._post = post
        self._quiet = QuietLogger(logger, clock.monotonic_ms)

    @property
    def has_transport(self) -> bool:
        """Whether other replicas can be reached at all."""
        return self._transport is not None

    @property
    def refusing_ids(self) -> Collection[NodeId]:
        """The nodes that have refused a connection and have sent no request since."""
        return self._transport.refusing_ids if self._transport is not None else ()

    def note_request(self, node_id: NodeId) -> None:
        """Record a node's request, which shows that its process is running."""
        if self._transport is not None:
            self._transport.note_request(node_id)

    def start(self, send: Send, cluster_id: str | None, nursery: trio.Nursery | None) -> None:
        """Send a request in ``nursery``.

        Without ``nursery``, before the replica runs, or without a transport, the request fails at
        once. The rules then retry it.
        """
        if nursery is None or self._transport is None:
            self._fail(send, ErrorCode.NETWORK_EXCEPTION)
        else:
            nursery.start_soon(self._send, self._transport, send, cluster_id)

    async def _send(self, transport: Transport, send: Send, cluster_id: str | None) -> None:
        from log_service.raft import (  # noqa: PLC0415 - brings the messages of nine APIs, which a quorum of one does not need
            wire,
        )

        context = wire.Context(
            cluster_id, self._quorum.listener_name, self._quorum.request_timeout_ms
        )
        error, is_refused = ErrorCode.REQUEST_TIMED_OUT, False
        with trio.move_on_after(self._quorum.request_timeout_ms / 1_000):
            try:
                message = await transport.send(send.peer, wire.write_request(send.request, context))
                response = wire.read_response(message, context)
            except wire.RefusedError as refused:
                error = refused.code
            except KafkaError as failed:
                error = failed.code
            except OSError as failed:
                error, is_refused = (
                    ErrorCode.NETWORK_EXCEPTION,
                    isinstance(failed, ConnectionRefusedError),
                )
            else:
                if (
                    isinstance(response, VoterChangeResponse)
                    and response.error is not ErrorCode.NONE
                ):
                    self._quiet.warning(
                        response.error,
                        "This controller is not a voter yet: %s",
                        response.message or response.error.name,
                    )
                self._post(
                    ResponseArrived(
                        peer_id=send.peer.node_id, request_id=send.request_id, response=response
                    )
                )
                return
        self._fail(send, error, is_refused=is_refused)

    def _fail(self, send: Send, error: ErrorCode, *, is_refused: bool = False) -> None:
        peer_id, request_id = send.peer.node_id, send.request_id
        self._post(
            RequestFailed(
                peer_id=peer_id,
                request_id=request_id,
                request=send.request,
                error=error,
                is_refused=is_refused,
            )
        )
