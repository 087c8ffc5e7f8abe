"""Stand-ins for the admin of a command, and for async functions that a test need not run."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import trio

T = TypeVar("T")


def returning(value: T) -> Callable[..., Awaitable[T]]:
    """Return an async function that takes anything and returns a value."""

    async def call(*_arguments: object, **_named: object) -> T:
        await trio.lowlevel.checkpoint()
        return value

    return call


def opening(admin: T) -> Callable[[str], AbstractAsyncContextManager[T]]:
    """Return a function that opens this admin, whatever the servers are."""

    @asynccontextmanager
    async def opened(_servers: str) -> AsyncIterator[T]:
        yield admin

    return opened


class InThread:
    """A blocking admin of programs with threads, over an async stand-in."""

    def __init__(self, admin: Any) -> None:
        self._admin = admin

    def run(self, function: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        """Run an async function over the stand-in to its end."""
        return trio.run(partial(function, self._admin, *args, **kwargs))

    def describe_cluster(self) -> Any:
        """Describe the stand-in's cluster."""
        return trio.run(self._admin.describe_cluster)
