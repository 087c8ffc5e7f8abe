"""Keeps a client open in a task of its own, so that many short requests can share it.

A client opens a nursery in its ``async with`` block, so it belongs to one task. The task of a
request would end too early.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

import trio

T = TypeVar("T")
logger = logging.getLogger(__name__)


class HostedClient(Generic[T]):
    """A client that is opened at its first use. ``name`` is its name in log messages."""

    def __init__(
        self,
        nursery: trio.Nursery,
        make: Callable[[], AbstractAsyncContextManager[T]],
        name: str,
    ) -> None:
        self._nursery = nursery
        self._make = make
        self._name = name
        self._opening = trio.Lock()
        self._client: T | None = None
        self._closing = trio.Event()
        self._ended = trio.Event()
        self._ended.set()

    def __repr__(self) -> str:
        return f"<HostedClient {self._name} {'closed' if self._client is None else 'open'}>"

    async def get(self) -> T:
        """Return the client, and open it first if it is not open.

        Raises:
            ConfigError: the client's settings contradict each other.
        """
        if self._client is not None:  # several times for each request
            return self._client
        async with self._opening:
            if self._client is None:
                # Key files are read and keys are derived here, which may take a while.
                block = await trio.to_thread.run_sync(self._make)
                self._client = await self._nursery.start(self._hold, block)
            return self._client

    async def _hold(
        self, block: AbstractAsyncContextManager[T], *, task_status: trio.TaskStatus[T]
    ) -> None:
        is_open = False
        self._ended = trio.Event()
        try:
            async with block as client:
                is_open = True
                task_status.started(client)
                await self._closing.wait()
        except Exception:
            if not is_open:
                raise
            logger.exception("%s failed, and is opened anew for the next request", self._name)
        finally:
            self._client = None
            self._ended.set()

    async def close(self) -> None:
        """Close the client for good, if it is open, and wait until it is closed. Idempotent."""
        self.close_soon()
        await self._ended.wait()

    def close_soon(self) -> None:
        """Begin to close the client for good, and return without waiting.

        The client is not cancelled, because a consumer, for instance, has to end in order.
        """
        self._closing.set()
