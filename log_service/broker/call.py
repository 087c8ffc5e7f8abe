"""One request on its way through a broker, the row of the registry for its API, and what its handler may give back.

A handler returns a ``Reply``: a response message, which the broker sends at once; the frame of a response that the handler has encoded
itself, where the call has no account to charge; a ``Deferred``, which is completed later; or ``NOTHING``, for the one request that has no
response (Produce with acks=0). A handler that raises ``KafkaError`` gets the error response of its API.

Invariants: a ``Deferred`` is completed once, and what goes wrong in making its response costs the connection of its request and no other.
"""

import errno
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import partial
from typing import Any, Protocol, final

from log_service.broker.pieces import Levels
from log_service.common.access import Access, AclOperation, AclResource, Admission, Permission, Principal
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.controller.caller import Caller
from log_service.coordinator.request_context import RequestClient
from log_service.metrics.request_meter import RequestMeter
from log_service.network.responses import release_slices
from log_service.network.server import Chunk, ConnectionContext, PendingResponse
from log_service.protocol.api_versions import KNOWN, ApiKey, ApiSpec
from log_service.protocol.frames import encode_response
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
    """A promised response: complete it once. Completing it does nothing after the connection has gone, and the request is charged then."""

    __slots__ = ("_call", "_on_discard", "on_responded", "response")

    def __init__(self, call: "Call", *, holds_frame: bool = False) -> None:
        self._call = call
        self._on_discard: Callable[[], None] | None = None
        self.response = PendingResponse(self._discarded, holds_frame=holds_frame)
        self.on_responded: Callable[[], None] | None = None

    def on_discard(self, callback: Callable[[], None]) -> None:
        """Call back if the connection goes before the response."""
        self._on_discard = callback

    def _discarded(self) -> None:
        on_discard, self._on_discard, self.on_responded = self._on_discard, None, None
        if on_discard is not None:
            on_discard()
        self._call.charge(None)  # a client that does not wait for the response has asked for as much

    def complete(self, response: Message) -> None:
        """Respond now. A response that cannot be encoded costs the connection of its request; the caller goes on."""
        if self.response.is_done:
            return
        try:
            chunks = self._call.respond(response)
        except Exception as error:  # noqa: BLE001 - a bug of ours: its own connection pays
            self.fail(error)
            return
        self._complete(chunks)

    def complete_with(self, make_response: Callable[[], Message]) -> None:
        """Respond with what ``make_response`` returns; a bug in it costs the connection of its request and no other."""
        if self.response.is_done:
            return
        try:
            response = make_response()
        except Exception as error:  # noqa: BLE001 - as above
            self.fail(error)
            return
        self.complete(response)

    def completing(self, make_response: Callable[[Any], Message]) -> Callable[[Any], None]:
        """Return what completes this with the response that ``make_response`` makes of a reply; a bug in it costs what it costs there."""
        return lambda reply: self.complete_with(lambda: make_response(reply))

    def complete_without_response(self) -> None:
        """Let the responses behind this one leave: the request has none (Produce with acks=0)."""
        if not self.response.is_done:
            self._call.charge(None)
            self._complete([])

    def fail(self, error: Exception) -> None:
        """Close the connection of the request: there is no response, because of a bug; or the request has none (ProtocolError)."""
        if not self.response.is_done:
            if isinstance(error, ProtocolError):
                logger.info("Closing the connection from %s: %s", self._call.connection.peer_host, error)
            else:
                logger.error(FAILED, self._call.route.api.key.name, self._call.connection.peer_host, exc_info=error)
            self._complete([NO_RESPONSE])

    def complete_encoded(self, chunks: list[Chunk]) -> None:
        """Respond with a frame: the request is charged already."""
        if not self.response.is_done:
            self._complete(chunks)
        else:
            release_slices(chunks)

    def _complete(self, chunks: list[Chunk]) -> None:
        on_responded, self._on_discard, self.on_responded = self.on_responded, None, None  # they may lead back to this
        self.response.complete(chunks)
        if on_responded is not None:
            on_responded()

    async def complete_after(self, waiting: Coroutine[Any, Any, Message]) -> None:
        """Respond with what ``waiting`` returns; with the error response of the API where it raises."""
        try:
            response = await waiting
        except KafkaError as error:
            response = self._call.refusal(error)
        except Exception as error:
            logger.exception(FAILED, self._call.route.api.key.name, self._call.connection.peer_host)
            text = f"the broker failed: {type(error).__name__}"
            response = self._call.refusal(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text))
        told_ms: int = getattr(response, "throttle_time_ms", 0)
        if told_ms > 0:  # by the controller, whose quotas are not those of this broker
            self._call.connection.mute(told_ms)
        self.complete(response)


Reply = Message | list[Chunk] | Deferred | Nothing
"""What a handler gives back."""

Handler = Callable[[Any, "Call", Any], Reply]
"""Answers a request with what the node has: a ``Node`` on the broker's listeners, a ``QuorumNode`` on the controller's."""


class Refusable(Protocol):
    """What a refusal repeats: a request, or a part of one."""

    @property
    def version(self) -> int:
        """The version of its API."""

    @property
    def request(self) -> Any:
        """What was asked."""

    @property
    def response_type(self) -> type[Any]:
        """The class of its response."""


Echo = Callable[[Refusable, KafkaError], Message]
"""Makes the response that answers a request with an error throughout."""


class Side(StrEnum):
    """Which listeners of a node take an API: those of the broker, that of the controller. Strings, because those are hashed fast."""

    BROKER = "broker"
    CONTROLLER = "controller"


class QuotaKind(Enum):
    """What the requests of an API count against. All but those of ``NONE`` count as request time, too."""

    NONE = "none"
    REQUEST = "request"
    PRODUCE = "produce"
    FETCH = "fetch"
    CONTROLLER_MUTATION = "controller mutation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One row of the registry: all that the broker knows of an API but the bytes of its messages.

    ``permissions`` are the operations that its requests may ask for; which of them one request needs depends on what is in it. Its
    versions are those that can be encoded. ``controller_handler`` answers on the controller's listeners, where ``handler`` does not.
    """

    key: ApiKey
    handler: Handler
    sides: frozenset[Side]
    permissions: tuple[Permission, ...]
    quota: QuotaKind
    echo: Echo
    max_elements: int
    """The most list elements that a request may have; those that have more close their connection."""
    pieces: tuple[Levels, ...] = ()
    """Where a request of many elements may be cut, by the list that its version uses. Without any it is handled whole."""
    is_each_named_once: bool = False
    """Whether naming something twice is an error: a request that is cut is refused then."""
    item_weight: int = 0
    """How many elements the outermost item of a request costs beside its own, when it is cut."""
    controller_handler: Handler | None = None

    def handler_on(self, side: Side) -> Handler:
        """Return what answers on the listeners of a side."""
        return self.handler if self.controller_handler is None or side is Side.BROKER else self.controller_handler

    @property
    def spec(self) -> ApiSpec:
        """The API's name, its versions and its message classes."""
        return KNOWN[self.key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A row of the registry, ready for the requests of one listener: its messages are imported."""

    api: Api
    side: Side
    handle: Handler
    request_type: type[Any]
    response_type: type[Message]
    meter: RequestMeter
    start_task: StartTask
    respond_to_forwarded: "Callable[[Outer, ConnectionContext, memoryview], Message | Deferred]"
    """Answers a request that stands in a request of this route, as if it had come by itself. Raises ProtocolError: it does not parse."""


class QuotaAccount(Protocol):
    """What one request is charged to."""

    @property
    def max_fetch_bytes(self) -> int | None:
        """The most that a response to a fetch may hold; None for no bound of the client's own."""

    def set_aside(self, spent_ns: int | None = None) -> None:
        """Note that the handler is done, and the response comes later. ``spent_ns`` is what the request cost, None: all until now."""

    def must_pause(self, response_bytes: int) -> bool:
        """Count the response to a fetch before it is sent. Return whether the client has to pause: then it gets no records."""

    def charge(self, response: Message | None) -> int:
        """Count the request and its response (None: it has none). Return for how many milliseconds its connection has to pause."""


class Quotas(Protocol):
    """How much clients may ask for in a time (KIP-13, KIP-124, KIP-219, KIP-599)."""

    def put_off_ms(self, api: "Api", principal: Principal, client_id: str | None) -> int:
        """Return for how long a request has to wait that was not decoded yet, because its client's share is used up; 0 for not at all."""

    def account_of(self, call: "Call", request_bytes: int, started_ns: int) -> QuotaAccount | None:
        """Return what a request is charged to that was received at ``started_ns``, None where no quota holds for its client.

        It is asked before the request is authorized: a refused one is charged as well.
        """

    def is_free(self, call: "Call") -> bool:
        """Whether a request that was let through is one of another node's, which is not charged."""


class Authorizer(Protocol):
    """Who may do what (KIP-11)."""

    def authorize(self, call: "Call") -> Admission | None:
        """Let a request pass: all of it (None), or what the admission says. Note in the call whom its handler may ask.

        Raises:
            KafkaError: the request is refused as a whole, with this code.
        """


@dataclass(slots=True, eq=False)
class Call:
    """One request: who asks, what, and in which version."""

    route: Route
    version: int
    correlation_id: int
    client_id: str | None
    connection: ConnectionContext
    request: Any
    account: QuotaAccount | None
    access: Access | None = field(default=None, init=False)
    """What its client may do; None where there is no authorizer, and everything is allowed."""
    amend: Callable[[Any], Any] | None = field(default=None, init=False)
    """Adds what was refused to the response."""

    @property
    def response_type(self) -> type[Message]:
        """The class of its response."""
        return self.route.response_type

    def client(self) -> RequestClient:
        """Return who asks, as coordinators are told; hosts are written with a slash, as Kafka's tools expect them."""
        return RequestClient(
            api_version=self.version,
            client_id=self.client_id or "",
            client_host=f"/{self.connection.peer_host}",
            visible=None if self.access is None else partial(self.access.visible, AclOperation.DESCRIBE, AclResource.TOPIC),
        )

    def caller(self) -> Caller:
        """Return who asks, as another node's controller is told."""
        return Caller(
            version=self.version,
            correlation_id=self.correlation_id,
            client_id=self.client_id,
            principal=self.connection.principal,
            host=self.connection.peer_host,
            is_token_authenticated=self.connection.is_token_authenticated,
            is_at_broker=self.route.side is Side.BROKER or isinstance(self, ForwardedCall),
        )

    def respond(self, response: Message) -> list[Chunk]:
        """Charge the request, and return the response as the frame that answers it."""
        if self.amend is not None:
            response = self.amend(response)
        if self.account is not None:
            self.charge(response)
        frame: list[Any] = encode_response(self.route.api.key, self.version, self.correlation_id, response)
        return frame

    def charge(self, response: Message | None) -> None:
        """Charge the request to its account, if it has one, and have its connection pause for as long as its quota asks (KIP-219).

        The controller may have asked for a pause already: the response says so, and the longer one holds.
        """
        pause_ms = 0 if self.account is None else self.account.charge(response)
        if pause_ms > 0:
            self.connection.mute(pause_ms)
            if response is not None and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = max(pause_ms, response.throttle_time_ms)

    def refusal(self, error: KafkaError) -> Message:
        """Return the response that answers this request with an error throughout."""
        return self.route.api.echo(self, error)

    def defer(self) -> Deferred:
        """Promise a response. The responses behind it on this connection wait for it."""
        return Deferred(self)

    def run(self, waiting: Coroutine[Any, Any, Message]) -> Deferred:
        """Promise the response that ``waiting`` returns, and run it beside the connections."""
        deferred = Deferred(self)
        self.route.start_task(deferred.complete_after, waiting)
        return deferred


@dataclass(frozen=True, slots=True)
class Outer:
    """The call that a forwarded call came in: its response is what ``wrap`` makes of the forwarded call and its response."""

    call: Call
    wrap: Callable[[Call, Message], Message]


@dataclass(slots=True, eq=False)
class ForwardedCall(Call):
    """A request that another broker has passed on, in a request of its own (KIP-590)."""

    outer: Outer

    def respond(self, response: Message) -> list[Chunk]:
        """Charge the request, and return its response as the frame that answers the request around it."""
        return self.outer.call.respond(self.wrapped(response))

    def wrapped(self, response: Message) -> Message:
        """Charge the request, and return the response to the request around it."""
        if self.amend is not None:
            response = self.amend(response)
        self.charge(response)
        return self.outer.wrap(self, response)


@dataclass(slots=True, eq=False)
class PieceCall(Call):
    """A piece of a large request. It is answered by itself, and keeps its response; the whole request is charged."""

    told: Message | None = field(default=None, init=False)
    """The response, once there is one."""

    def respond(self, response: Message) -> list[Chunk]:
        """Keep the response. Return no frame."""
        self.told = response if self.amend is None else self.amend(response)
        return []

    def charge(self, response: Message | None) -> None:
        """Nothing: the whole request is charged."""


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
