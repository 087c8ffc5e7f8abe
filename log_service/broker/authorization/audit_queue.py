"""Decisions on their way into the audit log: requests put them in, and one writer takes them out.

A request never waits here. Where the writer is too slow, or its file or topic is not there, decisions are lost, and counted.

Invariant: at most ``MAX_WAITING_COUNT`` decisions wait, with names of at most ``MAX_WAITING_SIZE`` characters in all.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Final

import trio

from log_service.security.audit import AuditEntry

MAX_WAITING_COUNT: Final = 10_000
MAX_WAITING_SIZE: Final = 8 << 20
MAX_TAKEN_COUNT: Final = 500
"""Decisions that are written together."""

Write = Callable[[Sequence[AuditEntry]], Awaitable[bool]]
"""Writes decisions, and says whether they were written."""


class AuditQueue:
    """The decisions that wait for one writer."""

    def __init__(self) -> None:
        self._waiting: deque[AuditEntry] = deque()
        self._size = 0
        self._is_filled = trio.Event()
        self._is_empty = trio.Event()
        self._is_empty.set()
        self.written_count = 0
        self.dropped_count = 0

    def __repr__(self) -> str:
        return f"<AuditQueue waiting={len(self._waiting)} written={self.written_count} dropped={self.dropped_count}>"

    def put_nowait(self, entry: AuditEntry) -> None:
        """Have a decision written, or count it as dropped where there is no room."""
        if len(self._waiting) >= MAX_WAITING_COUNT or self._size + entry.size > MAX_WAITING_SIZE:
            self.dropped_count += 1
            return
        self._waiting.append(entry)
        self._size += entry.size
        if not self._is_filled.is_set():
            self._is_filled.set()
            self._is_empty = trio.Event()

    async def write_with(self, write: Write) -> None:
        """Write decisions as they come, until cancelled."""
        while True:
            await self._is_filled.wait()
            entries = list(islice(self._waiting, MAX_TAKEN_COUNT))
            is_written = await write(entries)
            self._remove(entries)
            if is_written:
                self.written_count += len(entries)
            else:
                self.dropped_count += len(entries)

    def _remove(self, entries: Sequence[AuditEntry]) -> None:
        for entry in entries:
            self._waiting.popleft()
            self._size -= entry.size
        if not self._waiting:
            self._is_filled = trio.Event()
            self._is_empty.set()

    async def wait_empty(self) -> None:
        """Wait until nothing waits any more."""
        await self._is_empty.wait()
