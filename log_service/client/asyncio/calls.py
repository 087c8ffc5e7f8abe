"""The base of the asyncio classes. A client runs in a thread of its own, opened and closed by
``async with``, with methods to await.

``bridge`` has the way to that thread. Knows no clients.
"""

import warnings
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, update_wrapper
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from log_service.client.asyncio.bridge import Bridge
from log_service.client.portal import Departed, Portal

C = TypeVar("C")
P = ParamSpec("P")
T = TypeVar("T")


class OnAsyncio(Generic[C]):
    """Opens and closes an asyncio client, and makes one call after the other.

    A client belongs to the event loop that opened it. A task that is cancelled in a call ends the call over there before it goes on.
    Leaving the ``async with`` block by a cancellation is leaving it by an exception; a second cancellation ends it at once. In a forked
    process every call raises KafkaError, and closing does nothing.
    """

    def __init__(self, client: C) -> None:
        self._client = client
        self._portal: Portal[C] = Portal(client, type(self).__name__)  # type: ignore[arg-type]
        self._bridge = Bridge(self._portal)

    async def __aenter__(self) -> Self:
        await self._bridge.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._bridge.close(error)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'open' if self.is_open else 'closed'}>"

    def __del__(self) -> None:
        portal = getattr(self, "_portal", None)
        if portal is not None and portal.is_open:
            warnings.warn(f"{self!r} was never closed: use it inside 'async with'", ResourceWarning, stacklevel=2, source=self)
            portal.stop(Departed())

    @property
    def is_open(self) -> bool:
        """Whether calls are taken."""
        return self._portal.is_open

    async def close(self) -> None:
        """Close the client and its thread. Idempotent, and possible from any event loop."""
        await self._bridge.close()


def awaited(method: Callable[Concatenate[C, P], Awaitable[T]]) -> Callable[Concatenate[OnAsyncio[Any], P], Coroutine[Any, Any, T]]:
    """Return the method for a task on asyncio: it runs in the client's thread while the task waits."""

    async def call(self: OnAsyncio[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._bridge.call(partial(method, self._client, *args, **kwargs))

    update_wrapper(call, method)
    return call


def awaited_sync(method: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[OnAsyncio[Any], P], Coroutine[Any, Any, T]]:
    """Return a method that does not wait, run in the client's thread.

    Its state is touched nowhere else.
    """

    async def call(self: OnAsyncio[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._bridge.call_sync(partial(method, self._client, *args, **kwargs))

    update_wrapper(call, method)
    return call
