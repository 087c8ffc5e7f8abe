"""One registry: its state, and the path of a change into the topic.

Changes are handled one at a time. For each change, this instance reads the topic to its end,
decides, writes, and reads the written records back. Only then the client gets the response.
Computations over schemas run in other threads.

Invariants: a decision sees every record that was written before. The number of waiting changes is
bounded, so that reading requests are still handled while the topic cannot be written.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import trio

from log_service.common.errors import KafkaError
from log_service.http.schema_registry import errors
from log_service.http.schema_registry.authorization import Access, open_access
from log_service.http.schema_registry.decisions.decision import Decision
from log_service.http.schema_registry.log.errors import (
    OutcomeUnknown,
    ReadTimedOut,
    RecordsTooLarge,
    SchemasLogError,
    Superseded,
)
from log_service.http.schema_registry.log.writer import KeyAndValue
from log_service.http.schema_registry.parsing import SchemaParser
from log_service.http.schema_registry.records import MAX_VALUE_BYTES
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.state_keeper import StateKeeper
from log_service.http.schema_registry.workers import Workers
from log_service.http.server.values import HttpRequest, HttpResponse

logger = logging.getLogger(__name__)

T = TypeVar("T")

WRITE_TIMEOUT_MS = 30_000
MAX_CHANGES = 100
"""The most changes under way, including forwarded ones. Further ones are refused."""


class WritableLog(Protocol):
    """The part of ``SchemasLog`` that changes need."""

    async def prepare_write(self, timeout_ms: int) -> None:
        """Read the topic to its end, and make sure that this instance is its only writer."""

    async def write(self, records: list[tuple[bytes, bytes | None]], timeout_ms: int) -> int:
        """Append a batch, and return the offset of its last record."""

    async def read_to(self, offset: int, timeout_ms: int) -> None:
        """Wait until the state has the record at an offset."""


Forward = Callable[[HttpRequest], Awaitable[HttpResponse | None]]
"""Sends a change to the instance that writes. Returns None if this instance writes now."""


async def no_forward(_request: HttpRequest) -> HttpResponse | None:
    """Refuse to forward a request, because no other instance is known.

    Raises:
        RegistryError: always.
    """
    raise errors.RegistryError(errors.UNKNOWN_LEADER, "Leader not known.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryIdentity:
    """The Kafka cluster that holds the topic, and the group of registries that share it.

    ``is_mode_mutable`` tells whether clients may change modes.
    """

    cluster_id: str
    group: str
    is_mode_mutable: bool = True


class Registry:
    """Answers requests from the state, and makes changes by writing records to the topic."""

    def __init__(
        self,
        keeper: StateKeeper,
        log: WritableLog,
        identity: RegistryIdentity,
        access: Access = open_access,
    ) -> None:
        self._keeper = keeper
        self._log = log
        self._turn = trio.Lock()
        self._change_count = 0
        self._loaded = trio.Event()
        self.identity = identity
        self.access = access
        self.is_writer = False
        self.forward: Forward = no_forward
        self.parser = SchemaParser(lambda: keeper.state)
        self.workers = Workers()

    def __repr__(self) -> str:
        return f"<Registry {self.state!r} is_writer={self.is_writer}>"

    @property
    def state(self) -> RegistryState:
        """The state that results from all records that were read."""
        return self._keeper.state

    @property
    def is_loaded(self) -> bool:
        """Whether the topic was read to its end once."""
        return self._loaded.is_set()

    @property
    def unreadable_count(self) -> int:
        """The number of records that were skipped, because they cannot be understood."""
        return self._keeper.unreadable_count

    def obstacle(self) -> str | None:
        """Return why this instance is not ready, or None if it is ready."""
        return None if self.is_loaded else "the topic of schemas is still being read"

    def note_loaded(self) -> None:
        """Note that the topic was read to its end, so that requests are answered from now on."""
        self._loaded.set()

    async def require_loaded(self, timeout_s: float = 10) -> None:
        """Wait until the topic was read to its end once.

        Raises:
            RegistryError: reading takes longer than ``timeout_s``.
        """
        if self._loaded.is_set():
            return
        with trio.move_on_after(timeout_s):
            await self._loaded.wait()
        if not self._loaded.is_set():
            text = "The registry is still reading its topic: try again in a moment"
            raise errors.RegistryError(errors.BUSY, text)

    async def forwarded(self, request: HttpRequest) -> HttpResponse | None:
        """Return the writing instance's response to a change, or None if this instance writes.

        Raises:
            RegistryError: no instance writes now, it cannot be reached, or too many changes wait.
        """
        if self.is_writer:
            return None
        with self._one_change():
            return await self.forward(request)

    async def think(self, compute: Callable[[], T]) -> T:
        """Run a computation over the state in another thread, and return its result.

        No record is applied meanwhile. So a computation should only concern one schema or a pair.

        Raises:
            RegistryError: too many computations wait, or the computation raises it.
        """
        async with self.workers.turn():
            return await self._keeper.read_elsewhere(compute)

    async def write(self, decide: Callable[[], Decision[T]]) -> T:
        """Decide a change over the newest state, write it, and return its result.

        Changes are made one after the other. A change that has begun continues even if its client
        leaves, so that the writer learns the outcome of the records.

        Raises:
            RegistryError: the decision refuses, the topic cannot be written, or too many changes
                wait.
        """
        with self._one_change():
            async with self._turn:
                return await self._write(decide)

    @contextmanager
    def _one_change(self) -> Iterator[None]:
        if self._change_count >= MAX_CHANGES:
            raise errors.RegistryError(
                errors.BUSY, "Too many changes wait to be written: try again in a moment"
            )
        self._change_count += 1
        try:
            yield
        finally:
            self._change_count -= 1

    async def _write(self, decide: Callable[[], Decision[T]]) -> T:
        def decided() -> tuple[Decision[T], list[KeyAndValue]]:
            decision = decide()
            lines = self.state.encoded(list(decision.records))
            _require_readable(lines)
            return decision, lines

        try:
            with trio.CancelScope(shield=True):
                await self._log.prepare_write(WRITE_TIMEOUT_MS)
                decision, lines = await self._keeper.read_elsewhere(decided)
                if lines:
                    offset = await self._log.write(lines, WRITE_TIMEOUT_MS)
                    await self._log.read_to(offset, WRITE_TIMEOUT_MS)
                    await self._keeper.settled()
        except (SchemasLogError, KafkaError) as error:
            self.is_writer = self.is_writer and not isinstance(error, Superseded)
            raise store_failure(error) from error
        return decision.result


def _require_readable(lines: Iterable[KeyAndValue]) -> None:
    """Refuse a record that readers would skip, before it is written.

    Raises:
        RegistryError: a value is too long.
    """
    longest = max((len(value or b"") for _, value in lines), default=0)
    if longest > MAX_VALUE_BYTES:
        text = f"The record has {longest} bytes with its metadata and rules"
        raise errors.schema_too_large(f"{text}, and may have {MAX_VALUE_BYTES}")


def store_failure(error: SchemasLogError | KafkaError) -> errors.RegistryError:
    """Return the error response for a change that failed, or whose outcome is unknown."""
    if isinstance(error, RecordsTooLarge):
        return errors.schema_too_large(f"The schema is too large for the topic: {error}")
    if isinstance(error, Superseded):
        return errors.RegistryError(errors.UNKNOWN_LEADER, f"Leader not known: {error}")
    if isinstance(error, OutcomeUnknown):
        text = f"The change may or may not be written, look before you try again: {error}"
        return errors.RegistryError(errors.OPERATION_TIMEOUT, text)
    if isinstance(error, ReadTimedOut):
        text = f"The topic could not be read in time: {error}"
        return errors.RegistryError(errors.OPERATION_TIMEOUT, text)
    return errors.RegistryError(errors.STORE_FAILED, f"The topic could not be written: {error}")
