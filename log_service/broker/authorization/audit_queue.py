"""Decisions that wait to be written into the audit log, from requests to one writer.

A request never waits here. If the writer is too slow, or its file or topic is missing, decisions
are dropped and counted.

Invariants: at most ``MAX_WAITING_COUNT`` allowed and as many denied decisions wait, each kind with
at most ``MAX_WAITING_SIZE`` characters of resources, principals and hosts in all. Each kind keeps
its order. Each kind has these limits to itself, and gets half of each write if it needs that. So a
flood of one kind neither hides nor delays the other. Denials are written first.
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
"""Decisions that are written together, at most."""

Write = Callable[[Sequence[AuditEntry]], Awaitable[bool]]
"""Writes decisions, and returns whether they were written."""


class AuditQueue:
    """The decisions that wait for one writer."""

    def __init__(self) -> None:
        self._denied: deque[AuditEntry] = deque()
        self._allowed: deque[AuditEntry] = deque()
        self._sizes = {id(self._denied): 0, id(self._allowed): 0}
        self._is_filled = trio.Event()
        self._is_empty = trio.Event()
        self._is_empty.set()
        self.written_count = 0
        self.dropped_count = 0
        self.dropped_denied_count = 0
        """Number of denials among the dropped decisions."""

    def __repr__(self) -> str:
        return (
            f"<AuditQueue waiting={len(self._denied) + len(self._allowed)}"
            f" written={self.written_count} dropped={self.dropped_count}>"
        )

    def put_nowait(self, entry: AuditEntry) -> None:
        """Queue a decision, or count it as dropped if there is no room."""
        waiting = self._allowed if entry.decision.is_allowed else self._denied
        if (
            len(waiting) >= MAX_WAITING_COUNT
            or self._sizes[id(waiting)] + entry.size > MAX_WAITING_SIZE
        ):
            self._note_dropped([entry])
            return
        waiting.append(entry)
        self._sizes[id(waiting)] += entry.size
        if not self._is_filled.is_set():
            self._is_filled.set()
            self._is_empty = trio.Event()

    async def write_with(self, write: Write) -> None:
        """Write decisions as they come, until cancelled."""
        while True:
            await self._is_filled.wait()
            denied_count, allowed_count = shares(len(self._denied), len(self._allowed))
            denied, allowed = (
                list(islice(self._denied, denied_count)),
                list(islice(self._allowed, allowed_count)),
            )
            entries = denied + allowed
            is_written = await write(entries)
            self._remove(self._denied, denied)
            self._remove(self._allowed, allowed)
            if is_written:
                self.written_count += len(entries)
            else:
                self._note_dropped(entries)

    def _note_dropped(self, entries: Sequence[AuditEntry]) -> None:
        self.dropped_count += len(entries)
        self.dropped_denied_count += sum(not entry.decision.is_allowed for entry in entries)

    def _remove(self, waiting: deque[AuditEntry], written: Sequence[AuditEntry]) -> None:
        for entry in written:
            waiting.popleft()
            self._sizes[id(waiting)] -= entry.size
        if not self._denied and not self._allowed:
            self._is_filled = trio.Event()
            self._is_empty.set()

    async def wait_empty(self) -> None:
        """Wait until the queue is empty."""
        await self._is_empty.wait()


def shares(denied_count: int, allowed_count: int) -> tuple[int, int]:
    """Return how many denied and how many allowed decisions the next write takes."""
    denied_share = min(denied_count, max(MAX_TAKEN_COUNT // 2, MAX_TAKEN_COUNT - allowed_count))
    return denied_share, min(allowed_count, MAX_TAKEN_COUNT - denied_share)
