"""Connections to the nodes of a cluster: one per node and purpose, opened when first needed, versions negotiated on each.

Decides which version of an API a request goes out in (the highest that both sides speak), when a node that refused is tried again, and how
the failures of sockets are called: ``KafkaError`` NETWORK_EXCEPTION or REQUEST_TIMED_OUT. Knows nothing of topics and leaders.

Invariants: at most one connection per (address, purpose); whoever asks while it is being opened waits for the same attempt; a connection
that failed is forgotten before its error is seen.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Any, TypeVar

import trio

from log_service import __version__
from log_service.client.backoff import Backoff
from log_service.client.quiet_log import QuietLogger
from log_service.common.env import Env
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.config.client import ClientConfig
from log_service.network.channel import Channel, open_channel
from log_service.protocol.api_versions import SERVED, ApiKey
from log_service.protocol.codec import decode
from log_service.protocol.frames import RequestHeader, encode_request, parse_response_header
from log_service.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from log_service.protocol.schema import Message

R = TypeVar("R", bound=Message)

logger = logging.getLogger(__name__)

SOFTWARE_NAME = "tidelog"
MAINTENANCE_FEATURE = "tidelog.maintenance"
MAX_THROTTLE_MS = 60_000
"""A broker may ask for so long a pause at most; Kafka's quota windows are a few seconds."""
TIMEOUT_GRACE_MS = 5_000
"""What a request that makes the broker wait is given beyond the time that the broker was asked to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a node is, and what the connection is for: requests that wait long have one of their own, or others would wait behind them."""

    host: str
    port: int
    purpose: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}{' ' + self.purpose if self.purpose else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenVersions:
    """What a broker said it speaks: ranges by API, and the highest level of each feature."""

    ranges: Mapping[int, tuple[int, int]]
    features: Mapping[str, int]

    @classmethod
    def of(cls, response: ApiVersionsResponse) -> "SpokenVersions":
        """Read an ApiVersions answer."""
        return cls(
            ranges=MappingProxyType({api.api_key: (api.min_version, api.max_version) for api in response.api_keys}),
            features=MappingProxyType({feature.name: feature.max_version for feature in response.supported_features}),
        )

    def choose(self, key: int, max_version: int | None = None) -> int:
        """Return the highest version that both sides speak, no higher than ``max_version``.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, there is none.
        """
        ours = SERVED[ApiKey(key)]
        if ours.advertised_min_version is None:
            if MAINTENANCE_FEATURE in self.features:
                return min(ours.max_version, self.features[MAINTENANCE_FEATURE] - 1)
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the broker is not tidelog: it has no {ours.name} request")
        first, last = self.ranges.get(key, (0, -1))
        version = min(last, ours.max_version, ours.max_version if max_version is None else max_version)
        if version < max(first, ours.min_version):
            theirs = f"{first}-{last}" if last >= 0 else "none"
            ours_text = f"{ours.min_version}-{ours.max_version}"
            text = f"no common version of {ours.name}: the broker speaks {theirs}, this client {ours_text}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        return version


class NodeConnection:
    """A connection that knows what its broker speaks."""

    def __init__(self, channel: Channel, address: Address, config: ClientConfig) -> None:
        self._channel = channel
        self._config = config
        self.address = address
        self._muted_until = -inf
        self.versions = SpokenVersions(ranges=MappingProxyType({ApiKey.API_VERSIONS: (0, 3)}), features=MappingProxyType({}))

    def __repr__(self) -> str:
        return f"<NodeConnection {self.address}{' closed' if self.is_closed else ''}>"

    @property
    def is_closed(self) -> bool:
        """Whether requests can no longer be sent."""
        return self._channel.is_closed

    def version_of(self, key: ApiKey) -> int:
        """Return the version that a request of that API will go out in; for requests whose fields differ. Raises as ``request``."""
        return self.versions.choose(key)

    @property
    def failure(self) -> Exception | None:
        """Why the connection is closed, where neither idleness nor our own side closed it."""
        return self._channel.failure

    @property
    def bytes_received(self) -> int:
        """Bytes that came so far."""
        return self._channel.bytes_received

    @property
    def bytes_sent(self) -> int:
        """Bytes that left so far."""
        return self._channel.bytes_sent

    async def wait_unmuted(self) -> None:
        """Wait out the pause that the broker asked for with its last answers (KIP-219: it does not wait itself)."""
        if self._muted_until > trio.current_time() and not self.is_closed:
            with trio.move_on_at(self._muted_until):
                await self._channel.wait_closed()

    def close(self) -> None:
        """Close at once; whoever waits for an answer gets NETWORK_EXCEPTION."""
        self._channel.close()

    async def negotiate(self) -> None:
        """Ask what the broker speaks; one that does not know our version of the question answers in version 0 and is asked again (KIP-511).

        Raises:
            KafkaError: NETWORK_EXCEPTION, REQUEST_TIMED_OUT, or the broker's error.
        """
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        for version in (3, 0):
            frame = await self._exchange(request, version, self._config.request_timeout_ms)
            is_refused = frame[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
            response, _ = decode(ApiVersionsResponse, 0 if is_refused else version, frame, 4)
            if not is_refused:
                break
        raise_for(response.error_code, "", f"ApiVersions of {self.address}")
        self.versions = SpokenVersions.of(response)

    async def request(self, request: Message, response_type: type[R], *, max_version: int | None = None, waits_ms: int = 0) -> R:
        """Send a request and return its answer; ``waits_ms`` is how long the broker was asked to wait before it answers.

        A broker that throttles is left alone for as long as it said, before the next request.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, NETWORK_EXCEPTION, REQUEST_TIMED_OUT.
        """
        key = _key_of(request)
        version = self.versions.choose(key, max_version)
        timeout_ms = max(self._config.request_timeout_ms, waits_ms + TIMEOUT_GRACE_MS)
        await self.wait_unmuted()
        frame = await self._exchange(request, version, timeout_ms)
        try:
            _, position = parse_response_header(key, version, frame)
            response = decode(response_type, version, frame, position)[0]
        except ProtocolError as error:
            self._channel.close()
            raise KafkaError(
                ErrorCode.NETWORK_EXCEPTION, f"{self.address} answered what is no {response_type.__name__}: {error}"
            ) from error
        throttle_time_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_time_ms > 0:
            self._mute(throttle_time_ms)
        return response

    async def send_only(self, request: Message, *, max_version: int | None = None) -> None:
        """Send a request that gets no answer (Produce with acks=0). Raises as ``request``."""
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
            text = f"{self.address} did not answer within {timeout_ms} ms"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from error
        except (OSError, ProtocolError) as error:
            raise self._lost(error) from error

    def _encoded(self, key: int, version: int, request: Message) -> list[Any]:
        header = RequestHeader(ApiKey(key), version, 0, self._config.client_id)
        return encode_request(header, request)

    def _lost(self, error: Exception) -> KafkaError:
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the connection to {self.address} is gone: {str(error) or type(error).__name__}")


class _Opening:
    """An attempt to connect that several tasks may wait for."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.connection: NodeConnection | None = None
        self.error: KafkaError | None = None


class ConnectionPool:
    """All connections of one client. They live in the nursery that was handed in, and end with it."""

    def __init__(self, env: Env, config: ClientConfig, nursery: trio.Nursery) -> None:
        self._env = env
        self._config = config
        self._nursery = nursery
        self._backoff = Backoff(first_ms=config.reconnect_backoff_ms, max_ms=config.reconnect_backoff_max_ms)
        self._open: dict[Address, NodeConnection] = {}
        self._opening: dict[Address, _Opening] = {}
        self._failures: dict[Address, tuple[int, float]] = {}
        self._quiet = QuietLogger(logger, env.clock.monotonic_ms)
        self._closed_bytes = [0, 0]
        self.opened_total = 0
        self.failed_total = 0

    def __repr__(self) -> str:
        return f"<ConnectionPool open={[str(address) for address in self._open]}>"

    @property
    def open_count(self) -> int:
        """How many connections there are."""
        return len(self._open)

    @property
    def bytes_received(self) -> int:
        """Bytes that came on all connections so far."""
        return self._closed_bytes[0] + sum(connection.bytes_received for connection in self._open.values())

    @property
    def bytes_sent(self) -> int:
        """Bytes that left on all connections so far."""
        return self._closed_bytes[1] + sum(connection.bytes_sent for connection in self._open.values())

    def connected(self, address: Address) -> NodeConnection | None:
        """Return the connection to an address if one is open."""
        connection = self._open.get(address)
        return connection if connection is not None and not connection.is_closed else None

    async def connect(self, address: Address) -> NodeConnection:
        """Return the connection to an address, opening it if need be; waits out the pause after a failed attempt.

        Raises:
            KafkaError: NETWORK_EXCEPTION, nobody answers there.
        """
        connection = self._open.get(address)
        if connection is not None and not connection.is_closed:
            return connection
        opening = self._opening.get(address)
        if opening is None:
            opening = self._opening[address] = _Opening()
            self._nursery.start_soon(self._hold, address, opening)
        await opening.done.wait()
        if opening.connection is None:
            assert opening.error is not None
            raise KafkaError(opening.error.code, str(opening.error))
        return opening.connection

    async def _hold(self, address: Address, opening: _Opening) -> None:
        """Open a connection and keep it until it closes."""
        try:
            await self._pause(address)
            async with open_channel(
                self._env,
                address.host,
                address.port,
                connect_timeout_ms=self._config.socket_connection_setup_timeout_ms,
                max_frame_bytes=self._config.max_response_bytes,
                idle_timeout_ms=self._config.connections_max_idle_ms,
            ) as channel:
                connection = NodeConnection(channel, address, self._config)
                await connection.negotiate()
                self._failures.pop(address, None)
                self.opened_total += 1
                opening.connection = self._open[address] = connection
                del self._opening[address]
                opening.done.set()
                await channel.wait_closed()
                self._closed(connection)
        except (OSError, OverflowError, ProtocolError, KafkaError) as error:
            if opening.connection is None:
                self._failed(address, opening, error)
        finally:
            if opening.connection is not None and self._open.get(address) is opening.connection:
                del self._open[address]

    def _closed(self, connection: NodeConnection) -> None:
        """Say why a connection is gone, where that was not our own doing, and keep what it counted."""
        self._closed_bytes[0] += connection.bytes_received
        self._closed_bytes[1] += connection.bytes_sent
        if connection.failure is not None:
            self._quiet.info(connection.address, "the connection to %s is gone: %s", connection.address, connection.failure)

    def _failed(self, address: Address, opening: _Opening, error: Exception) -> None:
        count, _ = self._failures.get(address, (0, 0.0))
        not_before_ms = self._env.clock.monotonic_ms() + self._backoff.delay_ms(count, self._env.rng)
        self._failures[address] = (count + 1, not_before_ms)
        self.failed_total += 1
        text = f"cannot reach a broker at {address}: {str(error) or type(error).__name__}"
        opening.error = error if isinstance(error, KafkaError) else KafkaError(ErrorCode.NETWORK_EXCEPTION, text)
        self._quiet.warning(address, "%s", text)
        del self._opening[address]
        opening.done.set()

    async def _pause(self, address: Address) -> None:
        _, not_before_ms = self._failures.get(address, (0, 0.0))
        pause_ms = not_before_ms - self._env.clock.monotonic_ms()
        if pause_ms > 0:
            await trio.sleep(pause_ms / 1_000)


def raise_for(code: int, text: str | None, where: str) -> None:
    """Raise the error that a response carries, if it is one.

    Raises:
        KafkaError: ``code`` is not NONE.
    """
    if code != ErrorCode.NONE:
        name = ErrorCode.of(code)
        raise KafkaError(name, f"{where}: {text or name.name}")


def _key_of(request: Message) -> int:
    key = request.SCHEMA.key
    assert key is not None, f"{request.SCHEMA.name} is not a request"
    return key
