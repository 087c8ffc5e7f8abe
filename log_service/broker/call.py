"""One request on its way through a broker, and the three things that a handler may give back for it.

A handler returns a ``Reply``: a response message, which the broker sends at once; a ``Deferred``, which is completed later; or ``NOTHING``,
for the one request that has no response (Produce with acks=0). A handler that raises ``KafkaError`` is answered with the error response of
its API.

Invariants: a ``Deferred`` is completed once, and what goes wrong in making its response costs the connection of its request and no other.
"""

import errno
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, final

from log_service.broker.node import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.group_service import RequestClient
from log_service.metrics.request_meter import RequestMeter
from log_service.network.server import Chunk, ConnectionContext, PendingAnswer
from log_service.protocol.frames import RequestHeader, encode_response
from log_service.protocol.schema import Message

FAILED = "%s from %s failed"

logger = logging.getLogger(__name__)

StartTask = Callable[..., None]
"""``nursery.start_soon``: runs what a request waits for beside the connections."""


@final
class Nothing:
    """A request that has no response."""

    __slots__ = ()


NOTHING = Nothing()


@final
class Deferred:
    """A promised response: complete it once. Completing it does nothing after the connection has gone."""

    __slots__ = ("_call", "on_responded", "response")

    def __init__(self, call: "Call") -> None:
        self._call = call
        self.response = PendingAnswer()
        self.on_responded: Callable[[], None] | None = None

    def on_discard(self, callback: Callable[[], None]) -> None:
        """Call back if the connection goes before the response."""
        self.response.on_discard = callback

    def complete(self, response: Message) -> None:
        """Respond now. A response that cannot be encoded costs the connection of its request; the caller goes on."""
        self.complete_with(lambda: response)

    def complete_with(self, make_response: Callable[[], Message]) -> None:
        """Respond with what ``make_response`` returns; a bug in it costs the connection of its request and no other."""
        if self.response.is_done:
            return
        try:
            chunks = self._call.encode(make_response())
        except Exception:
            logger.exception(FAILED, self._call.header.api_key.name, self._call.connection.peer_host)
            chunks = [NO_RESPONSE]
        self.response.complete(chunks)
        if self.on_responded is not None:
            self.on_responded()

    async def complete_after(self, waiting: Coroutine[Any, Any, Message]) -> None:
        """Respond with what ``waiting`` returns; with the error response of the API where it raises."""
        try:
            response = await waiting
        except KafkaError as error:
            response = self._call.refusal(error)
        except Exception as error:
            logger.exception(FAILED, self._call.header.api_key.name, self._call.connection.peer_host)
            text = f"the broker failed: {type(error).__name__}"
            response = self._call.refusal(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text))
        self.complete(response)


Reply = Message | Deferred | Nothing
"""What a handler gives back."""

Handler = Callable[[Node, "Call", Any], Reply]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What the broker needs to answer the requests of one API."""

    handle: Handler
    request_type: type[Any]
    response_type: type[Message]
    refuse: Callable[[Any, type[Message], KafkaError], Message]
    """Makes the response that answers a request with an error throughout."""
    meter: RequestMeter
    start_task: StartTask


@dataclass(slots=True, eq=False)
class Call:
    """One request: who asks, what, and in which version."""

    header: RequestHeader
    connection: ConnectionContext
    request: Any
    route: Route

    @property
    def version(self) -> int:
        """The request's version, which is the response's."""
        return self.header.api_version

    def client(self) -> RequestClient:
        """Return who asks, as coordinators are told; hosts are written with a slash, as Kafka's tools expect them."""
        return RequestClient(
            api_version=self.header.api_version, client_id=self.header.client_id or "", client_host=f"/{self.connection.peer_host}"
        )

    def encode(self, response: Message) -> list[Chunk]:
        """Return the response as the frame that answers this request."""
        header = self.header
        frame: list[Any] = encode_response(header.api_key, header.api_version, header.correlation_id, response)
        return frame

    def refusal(self, error: KafkaError) -> Message:
        """Return the response that answers this request with an error throughout."""
        return self.route.refuse(self.request, self.route.response_type, error)

    def defer(self) -> Deferred:
        """Promise a response. The responses behind it on this connection wait for it."""
        return Deferred(self)

    def run(self, waiting: Coroutine[Any, Any, Message]) -> Deferred:
        """Promise the response that ``waiting`` returns, and run it beside the connections."""
        deferred = Deferred(self)
        self.route.start_task(deferred.complete_after, waiting)
        return deferred


class _NoResponse:
    """A chunk that cannot be sent: the connection whose turn has come to send it closes, because its client waits in vain."""

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


NO_RESPONSE: Chunk = _NoResponse()
