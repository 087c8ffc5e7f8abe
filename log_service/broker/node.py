"""What the handlers of a broker may use, and the request that a handler answers.

Decides nothing: the broker fills a ``Node`` while it starts, the dispatcher hands it to every handler with a ``Call``. There is one
``Node`` per broker and no other place where handlers find state.
"""

import errno
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from log_service.broker.fetch_session import FetchSessionCache
from log_service.broker.producer_ids import ProducerIds
from log_service.common.env import Clock
from log_service.config.views import NodeConfig
from log_service.controller.driver import ControllerDriver
from log_service.coordinator.group_service import GroupService, RequestClient
from log_service.coordinator.runtime import RunInPool
from log_service.metadata.image import MetadataImage
from log_service.network.server import Chunk, ConnectionContext, PendingAnswer
from log_service.protocol.frames import RequestHeader, encode_response
from log_service.raft.driver import RaftDriver
from log_service.replication.replica_manager import ReplicaManager
from log_service.storage.log_manager import LogManager

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Node:
    """The rooms of one running broker, as its handlers see them."""

    config: NodeConfig
    static_texts: Mapping[str, str]
    cluster_id: str
    clock: Clock
    image: Callable[[], MetadataImage]
    run_in_pool: RunInPool
    raft: RaftDriver
    logs: LogManager
    replicas: ReplicaManager
    groups: GroupService
    controller: ControllerDriver
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIds
    controller_address: tuple[str, int] | None = None
    """Where admin clients reach the controller, as they are told."""


@dataclass(slots=True, eq=False)
class Call:
    """One request: who asks, in which version, and how to answer later."""

    header: RequestHeader
    connection: ConnectionContext

    @property
    def version(self) -> int:
        """The request's version, which is the response's."""
        return self.header.api_version

    def client(self) -> RequestClient:
        """Return who asks, as coordinators are told; hosts are written with a slash, as Kafka's tools expect them."""
        return RequestClient(
            api_version=self.header.api_version, client_id=self.header.client_id or "", client_host=f"/{self.connection.peer_host}"
        )

    def encode(self, response: Any) -> list[Chunk]:
        """Return the response as the frame that answers this request."""
        header = self.header
        frame: list[Any] = encode_response(header.api_key, header.api_version, header.correlation_id, response)
        return frame

    def later(self) -> "Later":
        """Promise an answer; answers behind it on this connection wait for it."""
        return Later(self)


class Later:
    """A promised answer: ``complete`` it once. After the connection went, completing does nothing."""

    __slots__ = ("_call", "answer", "on_answered")

    def __init__(self, call: Call) -> None:
        self._call = call
        self.answer = PendingAnswer()
        self.on_answered: Callable[[], None] | None = None

    def on_discard(self, callback: Callable[[], None]) -> None:
        """Call back if the connection goes before the answer."""
        self.answer.on_discard = callback

    def complete(self, response: Any) -> None:
        """Answer now. A response that cannot be encoded costs the connection, never whoever completes."""
        self.complete_with(lambda: response)

    def complete_with(self, make_response: Callable[[], Any]) -> None:
        """Answer with what ``make_response`` returns; a bug in it costs this connection and nobody else."""
        if self.answer.is_done:
            return
        try:
            chunks = self._call.encode(make_response())
        except Exception:
            logger.exception("%s from %s failed", self._call.header.api_key.name, self._call.connection.peer_host)
            chunks = [NO_ANSWER]
        self.answer.complete(chunks)
        if self.on_answered is not None:
            self.on_answered()


class _NoAnswer:
    """A chunk that nobody can send: a connection whose turn has come to send it closes, because its client waits in vain."""

    def __len__(self) -> int:
        return 1

    def read(self) -> bytes:
        """Refuse.

        Raises:
            OSError: always.
        """
        raise OSError(errno.EIO, "the request failed, see the traceback above")

    def release(self) -> None:
        """Nothing is held."""


NO_ANSWER: Chunk = _NoAnswer()

Response = Any
"""A response message, ``None`` (nothing is sent), a ``Later``, or a coroutine that returns a response message."""

Handler = Callable[[Node, Call, Any], Response]
