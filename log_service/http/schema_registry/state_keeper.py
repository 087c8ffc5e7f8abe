"""Applies the topic's records to the state, one after the other.

A record that cannot be understood is skipped with a warning that names its offset. While another
thread reads the state, records are held back. Invariant: the state changes only on the event loop,
and never while another thread reads it.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

from log_service.http.schema_registry.records import UnreadableRecordError
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.values import DEFAULT_SETTINGS, Settings

logger = logging.getLogger(__name__)

T = TypeVar("T")


class TopicRecord(Protocol):
    """One record of the topic."""

    @property
    def offset(self) -> int:
        """The record's offset."""

    @property
    def timestamp_ms(self) -> int:
        """The record's timestamp, in milliseconds since 1970."""

    @property
    def key(self) -> bytes | None:
        """The record's key."""

    @property
    def value(self) -> bytes | None:
        """The record's value, None for a tombstone."""


class StateKeeper:
    """Owns a registry's state, and coordinates its changes with threads that read it."""

    def __init__(self, defaults: Settings = DEFAULT_SETTINGS) -> None:
        self.state = RegistryState(defaults)
        self.unreadable_count = 0
        self._waiting: deque[TopicRecord | None] = deque()
        self._reader_count = 0
        self._settled = trio.Event()
        self._settled.set()

    def __repr__(self) -> str:
        return f"<StateKeeper {self.state!r} waiting={len(self._waiting)}>"

    def begin_anew(self) -> None:
        """Empty the state. ``apply`` then gets the records from the first one on."""
        self._take(None)

    def apply(self, record: TopicRecord) -> None:
        """Apply the next record, or hold it back while another thread reads the state."""
        self._take(record)

    async def settled(self) -> None:
        """Wait until all records that were held back are applied."""
        while self._waiting:
            await self._settled.wait()

    async def read_elsewhere(self, read: Callable[[], T]) -> T:
        """Run a computation over the state in another thread, and return its result.

        The computation continues when the caller is cancelled, because a thread cannot be stopped.
        Records are held back until it ends.
        """
        await self.settled()
        self._reader_count += 1
        try:
            return await trio.to_thread.run_sync(read)
        finally:
            self._reader_count -= 1
            self._drain()

    def _take(self, record: TopicRecord | None) -> None:
        self._waiting.append(record)
        if self._reader_count:
            self._settled = trio.Event() if self._settled.is_set() else self._settled
        else:
            self._drain()

    def _drain(self) -> None:
        if self._reader_count:
            return
        while self._waiting:
            self._replay(self._waiting.popleft())
        self._settled.set()

    def _replay(self, record: TopicRecord | None) -> None:
        if record is None:
            self.state.clear()
            return
        try:
            self.state.replay(record.key, record.value, timestamp_ms=record.timestamp_ms)
        except UnreadableRecordError as error:
            self.unreadable_count += 1
            logger.warning("The record at offset %d is left out: %s", record.offset, error)
