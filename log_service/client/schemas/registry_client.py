"""The clients of a schema registry: for tasks on trio and on asyncio, and for threads.

The clients execute the requests and pauses of a core with httpx. They limit the time and the size
of a response. They follow no redirects, because a request carries the login, and they ignore proxy
settings of the environment. Equal requests of several tasks or threads at the same time, such as
for the same new id, are sent once.
"""

import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack
from functools import update_wrapper
from pathlib import Path
from random import SystemRandom
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from threading import Lock
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from log_service.client.schemas.errors import schemas_extra
from log_service.client.schemas.exchange import (
    HttpCall,
    HttpFailure,
    HttpResponse,
    Outcome,
    Pause,
    Steps,
)
from log_service.client.schemas.registry_core import RegistryCore
from log_service.client.schemas.settings import RegistryClientSettings
from log_service.common.errors import ErrorCode, KafkaError

with schemas_extra():
    import anyio
    import httpx

P = ParamSpec("P")
T = TypeVar("T")


class RegistryClientBase:
    """The base class of the async and the blocking client, with their settings and core."""

    def __init__(self, url: str | Iterable[str], settings: Mapping[str, Any]) -> None:
        self.settings = RegistryClientSettings.of(url, settings)
        self.core = RegistryCore(self.settings, now=time.monotonic, random=SystemRandom().random)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(self.settings.urls)}>"

    def clear_caches(self) -> None:
        """Forget all schemas, so that the next calls ask the registry."""
        self.core.clear_caches()

    def _http_settings(self) -> dict[str, Any]:
        """Return the keyword arguments for an async or blocking HTTP client of httpx."""
        context = SSLContext(PROTOCOL_TLS_CLIENT)  # trusts no certificate
        if self.settings.tls is not None:
            from log_service.security.tls.contexts import (  # noqa: PLC0415 - plaintext clients have no use for it
                client_context,
            )

            context = client_context(self.settings.tls, Path.read_bytes).context
        return {
            "verify": context,
            "proxy": self.settings.proxy,
            "timeout": self.settings.timeout,
            "follow_redirects": False,
            "trust_env": False,
        }

    def _too_large(self) -> HttpFailure:
        return HttpFailure(
            text=f"the response has more than max_response_bytes={self.settings.max_response_bytes}"
        )

    def _too_late(self) -> HttpFailure:
        return HttpFailure(
            text=f"the response was not complete after timeout={self.settings.timeout:g} s"
        )

    def _closed(self, usage: str) -> KafkaError:
        return KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the schema registry client is closed: use it inside '{usage}'",
        )


def awaited(
    method: Callable[Concatenate[RegistryCore, P], Steps[T]],
) -> Callable[Concatenate["SchemaRegistryClient", P], Coroutine[Any, Any, T]]:
    """Return an async method for a method of the core."""

    async def call(self: "SchemaRegistryClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(method(self.core, *args, **kwargs))

    update_wrapper(call, method)
    return call


def blocking(
    method: Callable[Concatenate[RegistryCore, P], Steps[T]],
) -> Callable[Concatenate["BlockingSchemaRegistryClient", P], T]:
    """Return a blocking method for a method of the core."""

    def call(self: "BlockingSchemaRegistryClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(method(self.core, *args, **kwargs))

    update_wrapper(call, method)
    return call


class _Flight:
    """A request in flight. ``outcome`` stays None if its task was cancelled."""

    def __init__(self) -> None:
        self.landed = anyio.Event()
        self.outcome: Outcome | None = None


class SchemaRegistryClient(RegistryClientBase):
    """Asks a schema registry, in tasks on trio or on asyncio. ``async with`` opens and closes it.

    Settings are those of ``RegistryClientSettings``, as keywords: Confluent's names in snake case,
    ``basic_auth_user_info``, and ``ssl_*`` as for the other clients of this package. ``transport``
    is httpx's, and replaces the network in tests. A client belongs to the event loop that opened
    it, and all tasks of this loop may share it.

    Raises:
        ConfigError: a setting does not exist or is not valid, or a certificate cannot be read.
    """

    def __init__(
        self,
        url: str | Iterable[str],
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(url, settings)
        self._http = {**self._http_settings(), "transport": transport}
        self._stack = AsyncExitStack()
        self._client: httpx.AsyncClient | None = None
        self._flights: dict[HttpCall, _Flight] = {}

    async def __aenter__(self) -> Self:
        self._client = await self._stack.enter_async_context(httpx.AsyncClient(**self._http))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client = None
        with anyio.move_on_after(self.settings.timeout, shield=True):
            await self._stack.aclose()

    async def run(self, steps: Steps[T]) -> T:
        """Execute the requests and pauses of a core, and return its result."""
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            if isinstance(step, Pause):
                await anyio.sleep(step.seconds)
                outcome = None
            else:
                outcome = await (self._send_once(step) if step.is_shared else self._send(step))

    async def _send_once(self, call: HttpCall) -> Outcome:
        """Send a request, or wait for the response to an equal one that another task sent."""
        while (flight := self._flights.get(call)) is not None:
            await flight.landed.wait()
            if flight.outcome is not None:
                return flight.outcome
        flight = self._flights[call] = _Flight()
        try:
            flight.outcome = await self._send(call)
            return flight.outcome
        finally:
            del self._flights[call]
            flight.landed.set()

    async def _send(self, call: HttpCall) -> Outcome:
        if self._client is None:
            raise self._closed("async with")
        content, is_too_large, status = bytearray(), False, 0
        try:
            with anyio.move_on_after(self.settings.timeout) as exchange:
                async with self._client.stream(
                    call.method, call.url, content=call.content, headers=call.headers
                ) as response:
                    status = response.status_code
                    async for piece in response.aiter_bytes():
                        is_too_large = len(content) + len(piece) > self.settings.max_response_bytes
                        if is_too_large:
                            # in its next wait the loop ends, and httpx closes its iterators
                            exchange.cancel()
                        else:
                            content += piece
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return _failure(error)
        if is_too_large:
            return self._too_large()
        return (
            self._too_late()
            if exchange.cancelled_caught
            else HttpResponse(status=status, content=bytes(content))
        )

    register_schema = awaited(RegistryCore.register_schema)
    lookup_schema = awaited(RegistryCore.lookup_schema)
    get_schema = awaited(RegistryCore.get_schema)
    get_schema_by_guid = awaited(RegistryCore.get_schema_by_guid)
    get_latest_version = awaited(RegistryCore.get_latest_version)
    get_version = awaited(RegistryCore.get_version)
    get_versions = awaited(RegistryCore.get_versions)
    get_subjects = awaited(RegistryCore.get_subjects)
    get_schemas = awaited(RegistryCore.get_schemas)
    get_schema_versions = awaited(RegistryCore.get_schema_versions)
    get_referenced_by = awaited(RegistryCore.get_referenced_by)
    get_contexts = awaited(RegistryCore.get_contexts)
    check_compatibility = awaited(RegistryCore.check_compatibility)
    get_config = awaited(RegistryCore.get_config)
    set_config = awaited(RegistryCore.set_config)
    delete_config = awaited(RegistryCore.delete_config)
    get_mode = awaited(RegistryCore.get_mode)
    set_mode = awaited(RegistryCore.set_mode)
    delete_mode = awaited(RegistryCore.delete_mode)
    delete_subject = awaited(RegistryCore.delete_subject)
    delete_version = awaited(RegistryCore.delete_version)


class BlockingSchemaRegistryClient(RegistryClientBase):
    """Asks a schema registry, in any thread. ``with`` opens and closes it.

    Settings and errors are those of ``SchemaRegistryClient``.
    """

    def __init__(
        self,
        url: str | Iterable[str],
        *,
        transport: httpx.BaseTransport | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(url, settings)
        self._http = {**self._http_settings(), "transport": transport}
        self._stack = ExitStack()
        self._client: httpx.Client | None = None
        self._lock = Lock()
        self._flights: dict[HttpCall, Future[Outcome | None]] = {}

    def __enter__(self) -> Self:
        self._client = self._stack.enter_context(httpx.Client(**self._http))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client = None
        self._stack.close()

    def run(self, steps: Steps[T]) -> T:
        """Execute the requests and pauses of a core, and return its result."""
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                outcome = None
            else:
                outcome = self._send_once(step) if step.is_shared else self._send(step)

    def _send_once(self, call: HttpCall) -> Outcome:
        """Send a request, or wait for the response to an equal one that another thread sent."""
        while True:
            with self._lock:
                flight = self._flights.get(call)
                if flight is None:
                    own = self._flights[call] = Future()
                    break
            if (outcome := flight.result()) is not None:
                return outcome
        outcome = None
        try:
            outcome = self._send(call)
            return outcome
        finally:
            with self._lock:
                del self._flights[call]
            own.set_result(outcome)

    def _send(self, call: HttpCall) -> Outcome:
        if self._client is None:
            raise self._closed("with")
        content, deadline = bytearray(), time.monotonic() + self.settings.timeout
        try:
            with self._client.stream(
                call.method, call.url, content=call.content, headers=call.headers
            ) as response:
                for piece in response.iter_bytes():
                    content += piece
                    if len(content) > self.settings.max_response_bytes:
                        return self._too_large()
                    if time.monotonic() > deadline:
                        return self._too_late()
                return HttpResponse(status=response.status_code, content=bytes(content))
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return _failure(error)

    register_schema = blocking(RegistryCore.register_schema)
    lookup_schema = blocking(RegistryCore.lookup_schema)
    get_schema = blocking(RegistryCore.get_schema)
    get_schema_by_guid = blocking(RegistryCore.get_schema_by_guid)
    get_latest_version = blocking(RegistryCore.get_latest_version)
    get_version = blocking(RegistryCore.get_version)
    get_versions = blocking(RegistryCore.get_versions)
    get_subjects = blocking(RegistryCore.get_subjects)
    get_schemas = blocking(RegistryCore.get_schemas)
    get_schema_versions = blocking(RegistryCore.get_schema_versions)
    get_referenced_by = blocking(RegistryCore.get_referenced_by)
    get_contexts = blocking(RegistryCore.get_contexts)
    check_compatibility = blocking(RegistryCore.check_compatibility)
    get_config = blocking(RegistryCore.get_config)
    set_config = blocking(RegistryCore.set_config)
    delete_config = blocking(RegistryCore.delete_config)
    get_mode = blocking(RegistryCore.get_mode)
    set_mode = blocking(RegistryCore.set_mode)
    delete_mode = blocking(RegistryCore.delete_mode)
    delete_subject = blocking(RegistryCore.delete_subject)
    delete_version = blocking(RegistryCore.delete_version)


def _failure(error: Exception) -> HttpFailure:
    """Return the failure for an exception.

    If the exception has no text, that of its cause is used. Errors of TLS on trio are an example.
    """
    found: BaseException | None = error
    while found is not None and not str(found):
        found = found.__cause__ or found.__context__
    return HttpFailure(
        text=type(error).__name__ if found is None else f"{type(error).__name__}: {found}"
    )
