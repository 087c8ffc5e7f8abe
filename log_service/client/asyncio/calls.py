"""The base class of the asyncio clients, and functions that make their awaitable methods.

A client runs in a thread of its own. ``async with`` opens and closes it. ``bridge`` connects the
event loop with that thread. This module knows no client.
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
    """Opens and closes an asyncio client, and passes calls to its thread.

    A client belongs to the event loop that opened it. If a task is cancelled in a call, the call
    ends in the client's thread before the task continues. A cancellation that leaves the ``async
    with`` block counts as an exception. A second cancellation cuts closing short. In a forked
    process every call raises KafkaError, and closing does nothing.
    """

    def __init__(self, client: C) -> None:
        self._client = client
        self._portal: Portal[C] = Portal(client, type(self).__name__)  # type: ignore[arg-type]
        self._bridge = Bridge(self._portal)

    async def __aenter__(self) -> Self:
        await self._bridge.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._bridge.close(error)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'open' if self.is_open else 'closed'}>"

    def __del__(self) -> None:
        portal = getattr(self, "_portal", None)
        if portal is not None and portal.is_open:
            warnings.warn(
                f"{self!r} was never closed: use it inside 'async with'",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
            portal.stop(Departed())

    @property
    def is_open(self) -> bool:
        """Whether the client accepts calls."""
        return self._portal.is_open

    async def close(self) -> None:
        """Close the client and its thread. Idempotent, and possible from any event loop."""
        await self._bridge.close()


def awaited(
    method: Callable[Concatenate[C, P], Awaitable[T]],
) -> Callable[Concatenate[OnAsyncio[Any], P], Coroutine[Any, Any, T]]:
    """Return an awaitable method that runs an async method of the client.

    The client's method runs in the client's thread, while the task on asyncio waits.
    """

    async def call(self: OnAsyncio[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._bridge.call(partial(method, self._client, *args, **kwargs))

    update_wrapper(call, method)
    return call


def awaited_sync(
    method: Callable[Concatenate[C, P], T],
) -> Callable[Concatenate[OnAsyncio[Any], P], Coroutine[Any, Any, T]]:
    """Return an awaitable method that runs a plain method in the client's thread.

    So only the client's thread uses the state of the client.
    """

    async def call(self: OnAsyncio[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._bridge.call_sync(partial(method, self._client, *args, **kwargs))

    update_wrapper(call, method)
    return call
