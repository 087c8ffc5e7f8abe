"""One request on its way through a broker, its row of the registry, and the results of its handler.

A handler returns a ``Reply``, which is one of these:

- a response message, which the broker sends at once;
- the frame of a response that the handler has encoded itself, if the call has no account to charge;
- a ``Deferred``, which is completed later;
- ``NOTHING``, for the one request without a response (Produce with acks=0).

If a handler raises ``KafkaError``, the client gets the error response of the API.

Invariants: a ``Deferred`` is completed once. An error in making its response closes the connection
of its request and no other.
"""

import errno
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import partial
from types import coroutine
from typing import Any, Protocol, TypeVar, final

from log_service.broker.requests.pieces import Items, Levels
from log_service.common.access import Access, AclOperation, AclResource, Admission, Permission
from log_service.common.env import RunInPool
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.common.steps import Steps
from log_service.controller.caller import Caller
from log_service.coordinator.request_context import RequestClient
from log_service.metrics.request_meter import RequestMeter
from log_service.network.responses import release_slices
from log_service.network.server import Chunk, ConnectionContext, PendingResponse
from log_service.protocol.api_versions import KNOWN, ApiKey, ApiSpec
from log_service.protocol.frames import encode_response
from log_service.protocol.schema import Message

FAILED = "%s from %s failed"

NOT_COUNTED: AbstractContextManager[None] = nullcontext()

logger = logging.getLogger(__name__)

T = TypeVar("T")

StartTask = Callable[..., None]
"""``nursery.start_soon``, which runs a request's waiting work beside the connections."""


@final
class Nothing:
    """The reply to a request that has no response."""

    __slots__ = ()


NOTHING = Nothing()


@final
class Deferred(PendingResponse):
    """A response to a call that is completed later, once, with a message.

    If the connection ends first, the request is charged at that moment. Completing has no effect
    afterwards.
    """

    __slots__ = ("_call", "on_responded")

    def __init__(self, call: "Call", *, holds_frame: bool = False) -> None:
        super().__init__(holds_frame=holds_frame)
        self._call = call
        self.on_responded: Callable[[], None] | None = None

    @property
    def call(self) -> "Call":
        """The call that gets the response."""
        return self._call

    def note_discarded(self) -> None:
        """Charge the request, and call the callback of ``on_discard``."""
        self.on_responded = None
        super().note_discarded()
        self._call.charge(None)  # a client that leaves early is charged all the same

    def complete(self, response: Message) -> None:
        """Send a response now.

        If it cannot be encoded, the connection of the request closes. Does not raise.
        """
        if self.is_done:
            return
        try:
            chunks = self._call.respond(response)
        except Exception as error:  # noqa: BLE001 - a bug of ours: its own connection pays
            self.fail(error)
            return
        self.complete_encoded(chunks)

    def complete_with(self, make_response: Callable[[], Message]) -> None:
        """Send the response that ``make_response`` returns.

        If it raises, the connection of the request closes, and no other.
        """
        if self.is_done:
            return
        try:
            with self._call.counted():
                response = make_response()
        except Exception as error:  # noqa: BLE001 - as above
            self.fail(error)
            return
        self.complete(response)

    def completing(self, make_response: Callable[[Any], Message]) -> Callable[[Any], None]:
        """Return a callback that takes a reply, and completes this with ``make_response(reply)``.

        If that raises, the connection of the request closes, and no other.
        """
        return lambda reply: self.complete_with(lambda: make_response(reply))

    def complete_without_response(self) -> None:
        """Complete without a response (Produce with acks=0). Later responses can then be sent."""
        if not self.is_done:
            self._call.charge(None)
            self.complete_encoded([])

    def fail(self, error: Exception) -> None:
        """Close the connection of the request, because it gets no response.

        The reason is a bug, or an invalid request (ProtocolError).
        """
        if not self.is_done:
            if isinstance(error, ProtocolError):
                logger.info(
                    "Closing the connection from %s: %s", self._call.connection.peer_host, error
                )
            else:
                logger.error(
                    FAILED,
                    self._call.route.api.key.name,
                    self._call.connection.peer_host,
                    exc_info=error,
                )
            self._call.charge(None)
            self.complete_encoded([NO_RESPONSE])

    def complete_encoded(self, chunks: list[Chunk] | None) -> None:
        """Send an encoded frame. The request must have been charged before."""
        if self.is_done:
            release_slices(chunks or ())
            return
        on_responded, self.on_responded = self.on_responded, None  # it may refer back to this
        del self._call  # a response may wait for its turn, and need not keep its request meanwhile
        super().complete_encoded(chunks)
        if on_responded is not None:
            on_responded()

    def pass_on_to(self, other: "Deferred") -> None:
        """Complete ``other`` with the frame of this response, as soon as this is complete."""
        if self.is_done:
            other.complete_encoded(self.take())
            return
        other.on_discard(self.discard)
        self.watch(lambda done: other.complete_encoded(done.take()))

    async def complete_after(self, waiting: Coroutine[Any, Any, Message]) -> None:
        """Send the response that ``waiting`` returns, or the API's error response if it raises."""
        call = self._call
        try:
            response = await call.counting(waiting)
        except KafkaError as error:
            response = call.refusal(error)
        except Exception as error:
            logger.exception(FAILED, call.route.api.key.name, call.connection.peer_host)
            text = f"the broker failed: {type(error).__name__}"
            response = call.refusal(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text))
        told_ms: int = getattr(response, "throttle_time_ms", 0)
        if told_ms > 0:  # told by the controller, whose quotas are not those of this broker
            call.connection.mute(told_ms)
        self.complete(response)


Reply = Message | list[Chunk] | Deferred | Nothing
"""The result of a handler."""

Handler = Callable[[Any, "Call", Any], Reply]
"""Answers a request with the parts of the node.

These are a ``Node`` on the broker's listeners, a ``QuorumNode`` on the controller's.
"""


class Refusable(Protocol):
    """A request, or a part of one, for which an error response can be made."""

    @property
    def version(self) -> int:
        """The version of its API."""

    @property
    def request(self) -> Any:
        """The message of the request."""

    @property
    def response_type(self) -> type[Any]:
        """The message class of the response."""


Echo = Callable[[Refusable, KafkaError], Message]
"""Makes the response that returns an error for the whole request."""


Gate = Callable[[Any], Admission | None]
"""Checks the question about a request (``authorization.gate_shapes``).

None admits the whole request. A KafkaError refuses the whole request with its code.
"""


class Side(StrEnum):
    """The side of a node whose listeners accept an API: the broker's or the controller's.

    Its values are strings, because strings are hashed fast.
    """

    BROKER = "broker"
    CONTROLLER = "controller"


class QuotaKind(Enum):
    """The quota that the requests of an API count against.

    All but ``NONE`` count as request time, too.
    """

    NONE = "none"
    REQUEST = "request"
    PRODUCE = "produce"
    FETCH = "fetch"
    CONTROLLER_MUTATION = "controller mutation"


class Recognizer(Protocol):
    """A cache of an API's requests. It recognizes repeated ones by their bytes, undecoded."""

    def recall(self, connection: ConnectionContext, frame: memoryview) -> "Call | None":
        """Return the call of a cached request, or None if the frame has to be decoded."""

    def learn(self, call: "Call", frame: memoryview) -> None:
        """Cache a request that was decoded from ``frame``, if it can be recognized."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One row of the registry: all facts about an API except the bytes of its messages.

    ``permissions`` are the operations that its requests may need. The content of a request decides
    which of them it needs. The versions of an API are those for which messages can be encoded.
    ``controller_handler`` handles requests on the controller's listeners, if it differs from
    ``handler``.
    """

    key: ApiKey
    handler: Handler
    sides: frozenset[Side]
    permissions: tuple[Permission, ...]
    gates: Mapping[Side, Gate]
    """The gate of each side. A side without a gate admits every request.

    The controller's gate also guards requests that a controller decides on for its own node.
    """
    quota: QuotaKind
    echo: Echo
    max_elements: int
    """The most list elements that a request may have. One with more closes its connection."""
    pieces: tuple[Levels, ...] = ()
    """The lists at which a large request may be cut, by version.

    Without such lists it is handled whole.
    """
    is_each_named_once: bool = False
    """Whether naming something twice is an error.

    A request that would be cut is refused then.
    """
    item_weight: int = 0
    """Extra cost, in elements, of each outermost item of a request that is cut."""
    controller_handler: Handler | None = None
    is_forwardable: bool = False
    """Whether a broker passes requests on to the active controller, in an envelope (KIP-590)."""
    max_put_off_ms: int = 0
    """How long a request waits at most while others use up its quota. 0 means that it never waits.
    """
    recognizer: Callable[[], Recognizer] | None = None
    """Makes the cache of a pipeline that recognizes repeated requests."""
    is_of_follower: Callable[[Any], bool] | None = None
    """Whether a request comes from another broker, for an API that clients use as well.

    Such requests are metered apart, and are free.
    """

    def handler_on(self, side: Side) -> Handler:
        """Return the handler for the listeners of a side."""
        return (
            self.handler
            if self.controller_handler is None or side is Side.BROKER
            else self.controller_handler
        )

    @property
    def items(self) -> Items:
        """The outermost list of items, for an API that responds to items one by one."""
        return self.pieces[0][0]

    @property
    def spec(self) -> ApiSpec:
        """The API's name, its versions and its message classes."""
        return KNOWN[self.key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A row of the registry, ready for the requests of one listener, with its messages imported."""

    api: Api
    side: Side
    handle: Handler
    request_type: type[Any]
    response_type: type[Message]
    recognizer: Recognizer | None
    meter: RequestMeter
    start_task: StartTask
    respond_to_forwarded: "Callable[[Outer, ConnectionContext, memoryview], Message | Deferred]"
    """Handles a request inside a request of this route, as if it had come by itself.

    Raises ProtocolError if the inner request does not parse.
    """


class QuotaAccount(Protocol):
    """The account that one request is charged to."""

    @property
    def max_fetch_bytes(self) -> int | None:
        """The most bytes that a fetch response may hold, or None if no quota limits them."""

    def set_aside(self) -> None:
        """Note that the handler has returned and the response comes later."""

    def counted(self) -> AbstractContextManager[None]:
        """Charge the time of the block to the request, once its handler has returned.

        If the request was charged already, the time is charged at the end of the block.
        """

    def must_pause(self, response_bytes: int) -> bool:
        """Count a fetch response before it is sent. Return whether the client must pause.

        If so, the response must have no records.
        """

    def charge(self, response: Message | None) -> int:
        """Charge the request and its response. ``None`` means that there is no response.

        Return for how many milliseconds its connection has to pause.
        """


class Quotas(Protocol):
    """Measures clients against their quotas (KIP-13, KIP-124, KIP-219, KIP-599)."""

    def put_off_ms(self, api: "Api", connection: ConnectionContext, client_id: str | None) -> int:
        """Return for how many ms a request that is not decoded yet must be delayed.

        The reason is a quota that its client has used up. 0 means that the request can be handled.
        """

    def account_of(self, call: "Call", request_bytes: int, started_ns: int) -> QuotaAccount | None:
        """Return the account of a request received at ``started_ns``, or None if no quota applies.

        It is called before the request is authorized, because a refused one is charged as well.
        """

    def is_free(self, call: "Call") -> bool:
        """Whether an authorized request comes from another node and is not charged."""


class Authorizer(Protocol):
    """The authorizer of requests (KIP-11)."""

    def authorize(self, call: "Call") -> Admission | None:
        """Authorize a request. Return None to allow all of it, or the admission of a part.

        Store in the call the access object for its handler.

        Raises:
            KafkaError: the request is refused as a whole, with this code.
        """


@dataclass(slots=True, eq=False)
class Call:
    """One request: its client, its content and its version."""

    route: Route
    version: int
    correlation_id: int
    client_id: str | None
    connection: ConnectionContext
    request: Any
    account: QuotaAccount | None
    access: Access | None = field(default=None, init=False)
    """The client's access rights. None if there is no authorizer and everything is allowed."""
    amend: Callable[[Any], Any] | None = field(default=None, init=False)
    """Adds the refused parts to the response."""
    amend_in_steps: Callable[[Any], Steps[Any]] | None = field(default=None, init=False)
    """Adds the refused parts in steps. Used instead of ``amend`` if a response has no bound."""

    @property
    def response_type(self) -> type[Message]:
        """The class of its response."""
        return self.route.response_type

    def client(self) -> RequestClient:
        """The client as coordinators need it.

        Its host begins with a slash, as Kafka's tools expect.
        """
        return RequestClient(
            api_version=self.version,
            client_id=self.client_id or "",
            client_host=f"/{self.connection.peer_host}",
            visible=(
                None
                if self.access is None
                else partial(self.access.visible, AclOperation.DESCRIBE, AclResource.TOPIC)
            ),
        )

    def caller(self) -> Caller:
        """The client as the controller of this or another node needs it."""
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
        """Charge the request, and return the frame of its response."""
        if self.amend is not None:
            response = self.amend(response)
        if self.account is not None:
            self.charge(response)
        frame: list[Any] = encode_response(
            self.route.api.key, self.version, self.correlation_id, response
        )
        return frame

    async def respond_in_pool(self, response: Message, run_in_pool: RunInPool) -> list[Chunk]:
        """Charge the request, and return the frame of its response, encoded in the pool."""
        if self.amend is not None:
            response = self.amend(response)
        self.charge(response)
        encode = partial(
            encode_response, self.route.api.key, self.version, self.correlation_id, response
        )
        with self.counted():
            frame: list[Any] = await run_in_pool(encode)
        return frame

    def charge(self, response: Message | None) -> None:
        """Charge the request to its account, if any, and mute its connection as its quota requires.

        The controller may have set a throttle time in the response already. The longer one holds
        (KIP-219).
        """
        pause_ms = 0 if self.account is None else self.account.charge(response)
        if pause_ms > 0:
            self.connection.mute(pause_ms)
            if response is not None and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = max(pause_ms, response.throttle_time_ms)

    def counted(self) -> AbstractContextManager[None]:
        """Charge the time of a ``with`` block, for work after the handler has returned."""
        return NOT_COUNTED if self.account is None else self.account.counted()

    def counting(self, waiting: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Return an awaitable that runs a coroutine and charges the request for the time it runs.

        The time in which it waits is not charged.
        """
        return waiting if self.account is None else _counting(self.account, waiting)

    def refusal(self, error: KafkaError) -> Message:
        """Return the API's error response for this whole request."""
        return self.route.api.echo(self, error)

    def defer(self) -> Deferred:
        """Return a deferred response. Later responses on this connection wait for it."""
        return Deferred(self)

    def run(self, waiting: Coroutine[Any, Any, Message]) -> Deferred:
        """Run a coroutine in a task, and return the deferred response that it completes."""
        deferred = Deferred(self)
        self.route.start_task(deferred.complete_after, waiting)
        return deferred


@dataclass(frozen=True, slots=True)
class Outer:
    """The call that contained a forwarded call.

    ``wrap`` makes its response from the forwarded call and that call's response.
    """

    call: Call
    wrap: Callable[[Call, Message], Message]


@dataclass(slots=True, eq=False)
class ForwardedCall(Call):
    """A client's request that another broker forwarded inside a request of its own (KIP-590)."""

    outer: Outer

    def respond(self, response: Message) -> list[Chunk]:
        """Charge the request, and return the frame of the response to the enclosing request."""
        return self.outer.call.respond(self.wrapped(response))

    def wrapped(self, response: Message) -> Message:
        """Charge the request, and return the response to the enclosing request."""
        if self.amend is not None:
            response = self.amend(response)
        self.charge(response)
        return self.outer.wrap(self, response)

    async def respond_in_pool(self, response: Message, run_in_pool: RunInPool) -> list[Chunk]:
        """Charge the request, and return the frame of the response to the enclosing request.

        The frame is encoded in the pool.
        """
        return await self.outer.call.respond_in_pool(self.wrapped(response), run_in_pool)


@dataclass(slots=True, eq=False)
class PieceCall(Call):
    """A piece of a large request. It keeps its own response.

    Its cost is charged to the whole request.
    """

    whole: Call
    response: Message | None = field(default=None, init=False)
    """The response, or None before there is one."""

    def respond(self, response: Message) -> list[Chunk]:
        """Keep the response. Return no frame."""
        self.response = response if self.amend is None else self.amend(response)
        return []

    async def respond_in_pool(self, response: Message, run_in_pool: RunInPool) -> list[Chunk]:  # noqa: ARG002 - the whole response is encoded
        """Keep the response. Return no frame."""
        return self.respond(response)

    def charge(self, response: Message | None) -> None:
        """Do nothing, because the whole request is charged instead."""

    def counted(self) -> AbstractContextManager[None]:
        """Charge the time of the block to the whole request."""
        return self.whole.counted()

    def counting(self, waiting: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Charge the time in which a coroutine runs to the whole request."""
        return self.whole.counting(waiting)


@coroutine
def _counting(account: QuotaAccount, waiting: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Run a coroutine. Count the time in which it runs, and not the time in which it waits."""
    advance = partial(waiting.send, None)
    while True:
        with account.counted():
            try:
                awaited = advance()
            except StopIteration as ended:
                result: T = ended.value
                return result
        try:
            sent = yield awaited
        except BaseException as error:  # noqa: BLE001 - the coroutine's own, above all its cancellation
            advance = partial(waiting.throw, error)
        else:
            advance = partial(waiting.send, sent)


class _NoResponse:
    """A chunk that cannot be read.

    The attempt to send it closes the connection. Otherwise the client would wait in vain.
    """

    def __len__(self) -> int:
        return 1

    def read(self) -> bytes:
        """Fail.

        Raises:
            OSError: always.
        """
        raise OSError(errno.EIO, "the request failed, see the traceback above")

    def release(self) -> None:
        """Do nothing, because no memory is held."""


NO_RESPONSE: Chunk = _NoResponse()
