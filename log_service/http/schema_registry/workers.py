"""Runs long work in other threads, so that the event loop is not blocked.

Python runs one thread at a time. So only a few threads work at once, because with each further
thread the event loop waits longer for the interpreter. Invariant: the number of requests that wait
for a thread is bounded.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import trio

from log_service.http.schema_registry.errors import BUSY, RegistryError

T = TypeVar("T")

WORKER_COUNT: Final = 2
MAX_WAITING: Final = 100


class Workers:
    """The bounded number of worker threads of one registry."""

    def __init__(self) -> None:
        self._turns = trio.CapacityLimiter(WORKER_COUNT)

    def __repr__(self) -> str:
        return f"<Workers busy={self._turns.borrowed_tokens} of {WORKER_COUNT}>"

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a free thread, and reserve it for the duration of the ``async with`` block.

        Raises:
            RegistryError: too many requests wait already.
        """
        if self._turns.statistics().tasks_waiting >= MAX_WAITING:
            raise RegistryError(
                BUSY, "Too many schemas are examined at once: try again in a moment"
            )
        async with self._turns:
            yield

    async def run_off_loop(self, work: Callable[[], T]) -> T:
        """Do work in another thread, and return its result.

        The work continues when the caller is cancelled, because a thread cannot be stopped.

        Raises:
            RegistryError: too many requests wait already.
        """
        async with self.turn():
            return await trio.to_thread.run_sync(work)
