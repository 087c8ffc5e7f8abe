"""A connection to one node for typed requests. It is opened, secured, authenticated, and its
versions negotiated, in that order.

Decides the version of a request (``versions``), the time that a response may take, and the error of
each failure: ``KafkaError`` with NETWORK_EXCEPTION, REQUEST_TIMED_OUT or UNSUPPORTED_VERSION in
place of the socket's error. Sends no request while the node throttles this client (KIP-219).
Knows nothing of clusters. A closed connection is never opened again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol, TypeVar

import trio

from log_service import __version__
from log_service.common.env import Connection, Env
from log_service.common.errors import REASONS, ErrorCode, KafkaError, ProtocolError
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.codec import decode
from log_service.protocol.frames import RequestHeader, encode_request, parse_response_header
from log_service.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from log_service.protocol.schema import Message, has_records
from log_service.rpc.channel import Channel, SpeaksTlsError, open_channel
from log_service.rpc.retry import Backoff
from log_service.rpc.versions import BEFORE_NEGOTIATION, SpokenVersions

R = TypeVar("R", bound=Message)

SOFTWARE_NAME = "tidelog"
RECONNECT_BACKOFF = Backoff(first_ms=50, max_ms=1_000)
MAX_THROTTLE_MS = 60_000
"""The longest pause that a node may ask for; Kafka's quota windows are a few seconds."""
TIMEOUT_GRACE_MS = 5_000
"""The time that a waiting request gets in addition to the wait that it asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The address of a node, and the purpose of the connection.

    Requests that the node may answer late have a connection of their own, because other requests on
    it would have to wait for their responses.
    """

    host: str
    port: int
    purpose: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}{' ' + self.purpose if self.purpose else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcSettings:
    """The limits of connections and requests. ``client_id`` names the sender to the node.

    ``is_asking`` says whether to find out which protocol a listener speaks that ends connections
    without an error (``listener_checks``). Clients do, because their security settings may be
    wrong.

    A response longer than ``long_frame_bytes`` is decoded in another thread, because a megabyte of
    small elements takes 0.1 s. Responses with records are always decoded by the task that
    sent the request, because records stay bytes.
    """

    client_id: str
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    idle_timeout_ms: int = 540_000
    max_response_bytes: int = 100 << 20
    max_requests_in_flight: int = 64
    reconnect_backoff: Backoff = RECONNECT_BACKOFF
    is_asking: bool = False
    long_frame_bytes: float = inf


CLOSED_EARLY = "; a port that wants TLS closes connections without it: see security_protocol"
"""A possible reason why the first request of a connection gets no response."""


class EndedWhileSecuredError(ConnectionAbortedError):
    """The peer ended a connection during the TLS handshake, and did not say why."""


class EndedUnheardError(KafkaError):
    """The peer ended a connection without TLS before it had sent any response."""


class Security(Protocol):
    """Secures and authenticates a new connection, before it carries the caller's requests."""

    async def secure(self, destination: Destination, stream: Connection) -> Connection:
        """Return the stream that carries the requests: the given one, or TLS over it.

        Raises OSError: the peer is not the node that it should be.
        """

    async def authenticate(self, connection: "RpcConnection") -> None:
        """Prove our identity to the peer (SASL).

        This may negotiate the versions, which otherwise happens after it.

        Raises KafkaError: the peer refused.
        """


class Plaintext:
    """No encryption and no authentication."""

    async def secure(self, destination: Destination, stream: Connection) -> Connection:  # noqa: ARG002 - one stream is as good as another
        """Return the stream as it is."""
        return stream

    async def authenticate(self, connection: "RpcConnection") -> None:
        """Do nothing."""


LogIn = Callable[["RpcConnection"], Awaitable[None]]


class RpcConnection:
    """An open connection that knows the versions of its peer. Made by ``open_connection``."""

    def __init__(
        self,
        channel: Channel,
        destination: Destination,
        settings: RpcSettings,
        *,
        is_in_clear: bool = True,
    ) -> None:
        self._channel = channel
        self._settings = settings
        self._muted_until = -inf
        self._login_due = inf
        self._log_in: LogIn | None = None
        self._login_lock = trio.Lock()
        self._negotiated_count = 0  # responses that had come when the versions were known
        self._is_in_clear = is_in_clear
        self.destination = destination
        self.versions = BEFORE_NEGOTIATION

    def __repr__(self) -> str:
        return f"<RpcConnection {self.destination}{' closed' if self.is_closed else ''}>"

    @property
    def is_closed(self) -> bool:
        """Whether requests can no longer be sent."""
        return self._channel.is_closed

    @property
    def failure(self) -> Exception | None:
        """The reason why the connection is closed. None if idleness or our own side closed it."""
        return self._channel.failure

    @property
    def is_ended_unused(self) -> bool:
        """Whether the peer ended the connection before it was of use.

        Such a peer has negotiated versions, and has responded to nothing after that, not even to
        a login.
        """
        is_unused = 0 < self._negotiated_count == self._channel.response_count
        return is_unused and isinstance(self.failure, ConnectionResetError | BrokenPipeError)

    @property
    def in_flight_count(self) -> int:
        """Requests without a response yet."""
        return self._channel.in_flight_count

    @property
    def bytes_received(self) -> int:
        """Number of bytes received so far."""
        return self._channel.bytes_received

    @property
    def bytes_sent(self) -> int:
        """Number of bytes sent so far."""
        return self._channel.bytes_sent

    def version_of(self, key: ApiKey) -> int:
        """Return the version of the next request to an API.

        It is for callers whose requests have other fields in other versions. Raises as ``request``.
        """
        return self.versions.choose(key)

    def close(self) -> None:
        """Close at once; tasks that wait for a response get NETWORK_EXCEPTION."""
        self._channel.close()

    async def wait_closed(self) -> None:
        """Wait until the connection is closed by this side or the peer."""
        await self._channel.wait_closed()

    async def wait_unmuted(self) -> None:
        """Wait until the throttle time of the node's last responses is over.

        The node responds at once, and leaves the waiting to the client (KIP-219).
        """
        if self._muted_until > trio.current_time() and not self.is_closed:
            with trio.move_on_at(self._muted_until):
                await self._channel.wait_closed()

    async def negotiate(self) -> None:
        """Ask which versions the node speaks.

        A node that does not know our version of ApiVersions responds in version 0. It is then asked
        again in that version (KIP-511).

        Raises:
            KafkaError: NETWORK_EXCEPTION, REQUEST_TIMED_OUT, or the node's error.
        """
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=__version__
        )
        for version in (3, 0):
            frame = await self._exchange(request, version, self._settings.request_timeout_ms)
            is_refused = frame[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
            response = self._decoded(ApiVersionsResponse, 0 if is_refused else version, frame)
            if not is_refused:
                break
        raise_for(response.error_code, "", f"ApiVersions of {self.destination}")
        self.versions = SpokenVersions.of(response)
        self._negotiated_count = self._channel.response_count

    async def request(
        self,
        request: Message,
        response_type: type[R],
        *,
        max_version: int | None = None,
        waits_ms: int = 0,
    ) -> R:
        """Send a request and return its response.

        ``waits_ms`` is how long the request allows the node to wait before it responds. The
        response may take ``request_timeout_ms``, or slightly more than ``waits_ms`` if that is
        longer. A request that times out closes the connection. If earlier responses set a throttle
        time, the request is sent after it.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, NETWORK_EXCEPTION, REQUEST_TIMED_OUT.
        """
        await self.wait_unmuted()
        await self._renew_login()  # the last that waits: no request leaves in the middle of a login
        return await self._request(request, response_type, max_version, waits_ms)

    async def request_of_login(self, request: Message, response_type: type[R]) -> R:
        """Send a request that is part of a login, and return its response.

        Other requests wait while a login is renewed. This one does not. Raises as ``request``.
        """
        return await self._request(request, response_type, None, 0)

    def renew_login_after(self, seconds: float, log_in: LogIn) -> None:
        """Renew the login before the first request that is sent after ``seconds`` from now.

        ``log_in`` is called once to do it. Requests wait until it has returned (KIP-368).
        """
        self._login_due = trio.current_time() + seconds
        self._log_in = log_in

    async def _renew_login(self) -> None:
        if self._login_due > trio.current_time() and not self._login_lock.locked():
            return
        async with self._login_lock:
            log_in = self._log_in
            if log_in is None or self._login_due > trio.current_time() or self.is_closed:
                return
            self._login_due, self._log_in = inf, None
            try:
                await log_in(self)
            except BaseException:
                self.close()  # half a login: no other request may follow it
                raise

    async def _request(
        self, request: Message, response_type: type[R], max_version: int | None, waits_ms: int
    ) -> R:
        key = _key_of(request)
        version = self.versions.choose(key, max_version)
        timeout_ms = (
            max(self._settings.request_timeout_ms, waits_ms + TIMEOUT_GRACE_MS)
            if waits_ms
            else self._settings.request_timeout_ms
        )
        frame = await self._exchange(request, version, timeout_ms)
        if len(frame) <= self._settings.long_frame_bytes or has_records(response_type):
            response = self._decoded(response_type, version, frame)
        else:
            with self._only_responses_of(response_type):
                response = await trio.to_thread.run_sync(_decode, response_type, version, frame)
        throttle_time_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_time_ms > 0:
            self._mute(throttle_time_ms)
        return response

    async def send_only(self, request: Message, *, max_version: int | None = None) -> None:
        """Send a request that has no response (Produce with acks=0). Raises as ``request``."""
        await self._renew_login()
        key = _key_of(request)
        version = self.versions.choose(key, max_version)
        try:
            await self._channel.send(self._encoded(key, version, request))
        except OSError as error:
            raise self._lost(error) from error

    def _mute(self, throttle_time_ms: int) -> None:
        pause_s = min(throttle_time_ms, MAX_THROTTLE_MS) / 1_000
        self._muted_until = max(self._muted_until, trio.current_time() + pause_s)

    async def _exchange(self, request: Message, version: int, timeout_ms: int) -> bytearray:
        chunks = self._encoded(_key_of(request), version, request)
        try:
            return await self._channel.request(chunks, timeout_ms=timeout_ms)
        except TimeoutError as error:
            text = f"{self.destination} did not respond within {timeout_ms} ms"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from error
        except SpeaksTlsError as error:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)) from error
        except (OSError, ProtocolError) as error:
            raise self._lost(error) from error

    def _encoded(self, key: int, version: int, request: Message) -> list[Any]:
        header = RequestHeader(ApiKey(key), version, 0, self._settings.client_id)
        return encode_request(header, request)

    def _decoded(self, response_type: type[R], version: int, frame: bytearray) -> R:
        with self._only_responses_of(response_type):
            return _decode(response_type, version, frame)

    @contextmanager
    def _only_responses_of(self, response_type: type[Message]) -> Iterator[None]:
        """Close the connection if the bytes that the block decodes are not a response of this type.

        Raises:
            KafkaError: NETWORK_EXCEPTION.
        """
        try:
            yield
        except ProtocolError as error:
            self._channel.close()
            text = f"{self.destination} sent what is not a {response_type.__name__}: {error}"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text) from error

    def _lost(self, error: Exception) -> KafkaError:
        text = (
            error.strerror
            if isinstance(error, OSError)
            else f"the connection to {self.destination} is gone: {error}"
        )
        if (
            self._is_in_clear
            and self._channel.is_closed_unheard
            and self.versions is BEFORE_NEGOTIATION
        ):
            return EndedUnheardError(ErrorCode.NETWORK_EXCEPTION, f"{text or error}{CLOSED_EARLY}")
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, str(text or error))


def _decode(response_type: type[R], version: int, frame: bytearray) -> R:
    """Decode a response. May be called in any thread.

    Raises ProtocolError: the bytes are not a response of this type.
    """
    _, position = parse_response_header(_key_of(response_type), version, frame)
    return decode(response_type, version, frame, position)[0]


@asynccontextmanager
async def open_connection(
    env: Env, destination: Destination, settings: RpcSettings, security: Security | None = None
) -> AsyncIterator[RpcConnection]:
    """Connect, secure, authenticate, negotiate, and keep the connection for the length of the
    block.

    Raises:
        TimeoutError: the peer did not accept the connection in time.
        OSError: refused, unreachable, unknown host; EndedWhileSecuredError, the peer ended the
            connection while it was secured.
        KafkaError: the peer does not speak the protocol, or refuses us.
    """
    security, is_in_clear = security or Plaintext(), True

    async def secure(stream: Connection) -> Connection:
        nonlocal is_in_clear
        secured = await _secured(security, destination, stream)
        is_in_clear = secured is stream
        return secured

    async with open_channel(
        env,
        destination.host,
        destination.port,
        secure=secure,
        connect_timeout_ms=settings.connect_timeout_ms,
        max_frame_bytes=settings.max_response_bytes,
        idle_timeout_ms=settings.idle_timeout_ms,
        max_requests_in_flight=settings.max_requests_in_flight,
    ) as channel:
        connection = RpcConnection(channel, destination, settings, is_in_clear=is_in_clear)
        await security.authenticate(connection)
        if connection.versions is BEFORE_NEGOTIATION:
            # A login asks what the node speaks before it begins.
            await connection.negotiate()
        yield connection


async def _secured(security: Security, destination: Destination, stream: Connection) -> Connection:
    try:
        return await security.secure(destination, stream)
    except (ConnectionAbortedError, ConnectionResetError, BrokenPipeError) as error:
        raise EndedWhileSecuredError(error.errno, error.strerror or str(error)) from error


def raise_for(code: int, text: str | None, where: str) -> None:
    """Raise the error that a response carries. Do nothing if its code is NONE.

    Raises:
        KafkaError: ``code`` is not NONE.
    """
    if code != ErrorCode.NONE:
        name = ErrorCode.of(code)
        reason = f"{name.name}, {REASONS[name]}" if name in REASONS else name.name
        raise KafkaError(name, f"{where}: {text or reason}")


def _key_of(message: Message | type[Message]) -> int:
    key = message.SCHEMA.key
    assert key is not None, f"{message.SCHEMA.name} is neither request nor response"
    return key
