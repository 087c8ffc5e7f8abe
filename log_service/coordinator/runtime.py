"""Drives shards: loads them from their partition, appends what they decide, and answers when the log is safe.

It decides when a shard serves, in which order records and replies take effect, and what happens when the log refuses. It does not know
what a shard decides about. One append is one batch: a decision is stored whole or not at all.

Invariants: a shard is asked only between the end of its loading and its resignation; a record is replayed exactly once, at its append or
while loading; a reply, of reads too, leaves when the high watermark has passed what had been appended when it was made, in the order of
the decisions; every request is answered exactly once. When an append fails the shard is dropped and loaded anew: nothing is rolled back.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

import trio

from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError, TidelogError
from log_service.common.result import CancelTimer, SetTimer
from log_service.common.timers import Timer, TimerQueue
from log_service.common.types import Buffer
from log_service.coordinator.result import Decision
from log_service.records.batch import iterate_headers, iterate_records

log = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")
OnReply = Callable[[Any], None]
Refuse = Callable[[ErrorCode], Any]


class RunInPool(Protocol):
    """``Files.run_in_pool``: what reads a whole partition does not hold up the event loop."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]:
        """Run ``function`` in the pool."""


class CoordinatorLog(Protocol):
    """One partition of a coordinator's topic, led by this node."""

    @property
    def partition(self) -> int:
        """The partition's number, which names the shard."""

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this node leads."""

    @property
    def high_watermark(self) -> int:
        """The offset below which records are safe."""

    def append(self, records: Sequence[tuple[bytes, bytes | None]], wall_ms: int) -> int:
        """Append keys and values as one batch and return the log end offset.

        Raises:
            KafkaError: nothing was appended.
        """

    def watch_high_watermark(self, callback: Callable[[int], None]) -> None:
        """Call back whenever the high watermark has moved, never from inside ``append``."""

    def read_batches(self) -> Iterator[bytes]:
        """Iterate over the partition's batches in bounded chunks; called in the pool."""


class Shard(Protocol[R]):
    """A state machine over one partition: decides with its methods, changes in ``replay``."""

    def replay(self, record: R) -> None:
        """Take over one record."""

    def on_loaded(self, decision: Decision[R]) -> None:
        """Begin to serve."""

    def on_timer(self, key: Hashable, decision: Decision[R]) -> None:
        """Do what became due."""


S = TypeVar("S", bound=Shard[Any])


@dataclass(slots=True)
class _Waiting:
    """A request that has not been answered."""

    on_reply: OnReply
    refuse: Refuse


@dataclass(slots=True)
class _ShardContext(Generic[S]):
    """A shard with what surrounds it."""

    coordinator_log: CoordinatorLog
    shard: S
    is_active: bool = False
    is_dropped: bool = False
    appended_end: int = 0
    requests: dict[Hashable, _Waiting] = field(default_factory=dict)
    held_replies: deque[tuple[int, Hashable, Any]] = field(default_factory=deque)
    timers: dict[Hashable, Timer] = field(default_factory=dict)


@dataclass(slots=True)
class _Loaded:
    """How far a partition was replayed, and what of it could not be read."""

    end_offset: int = 0
    unreadable_count: int = 0
    first_unreadable_offset: int = -1
    reason: str = ""

    def note_unreadable(self, offset: int, error: TidelogError) -> None:
        """Count a record, or a batch, that makes no sense."""
        self.unreadable_count += 1
        if self.unreadable_count == 1:
            self.first_unreadable_offset, self.reason = offset, str(error)


class CoordinatorRuntime(Generic[S, R]):
    """The shards that this node leads. ``run`` must be running before the first ``lead``."""

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerQueue,
        run_in_pool: RunInPool,
        new_shard: Callable[[], S],
        encode: Callable[[R], tuple[bytes, bytes | None]],
        decode: Callable[[Buffer, Buffer | None], R | None],
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._run_in_pool = run_in_pool
        self._new_shard = new_shard
        self._encode = encode
        self._decode = decode
        self._contexts: dict[int, _ShardContext[S]] = {}
        self._tokens = count(1)
        self._nursery: trio.Nursery | None = None
        self._is_over = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the tasks that load shards; runs until cancelled, and then gives every shard up."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._is_over = True  # before the nursery closes: an image may still bring a partition to lead
                for partition in list(self._contexts):
                    self.resign(partition)

    def lead(self, coordinator_log: CoordinatorLog) -> None:
        """Take a partition over: load its shard, then serve. Leading it again in a later epoch loads it anew."""
        self.resign(coordinator_log.partition)
        if self._is_over:
            return
        context = _ShardContext(coordinator_log=coordinator_log, shard=self._new_shard())
        self._contexts[coordinator_log.partition] = context
        assert self._nursery is not None, "run() has not started"
        self._nursery.start_soon(self._load, context)

    def resign(self, partition: int) -> None:
        """Give a partition up; whoever waits is told to look for the new coordinator."""
        context = self._contexts.pop(partition, None)
        if context is not None:
            self._drop(context, ErrorCode.NOT_COORDINATOR)

    def ask(self, partition: int, decide: Callable[[S, Decision[R], Hashable], None], on_reply: OnReply, refuse: Refuse) -> None:
        """Have a shard decide on one request; ``on_reply`` is called once, now or later."""
        context = self._contexts.get(partition)
        if context is None:
            on_reply(refuse(ErrorCode.NOT_COORDINATOR))
        elif not context.is_active:
            on_reply(refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            token = next(self._tokens)
            context.requests[token] = _Waiting(on_reply, refuse)
            self._decide(context, lambda decision: decide(context.shard, decision, token))

    def tell_all(self, decide: Callable[[S, Decision[R]], None]) -> None:
        """Have every active shard decide on something that nobody waits for."""
        for context in list(self._contexts.values()):
            if context.is_active:
                self._decide(context, partial(decide, context.shard))

    def active_shards(self) -> list[S] | None:
        """Return all shards for reading, or None while one is loading."""
        if not all(context.is_active for context in self._contexts.values()):
            return None
        return [context.shard for context in self._contexts.values()]

    # -- one decision

    def _decide(self, context: _ShardContext[S], decide: Callable[[Decision[R]], None]) -> None:
        decision: Decision[R] = Decision(self._clock.monotonic_ms(), self._clock.wall_ms())
        decide(decision)
        if decision.records and not self._append(context, decision):
            return
        for reply in decision.replies:
            context.held_replies.append((context.appended_end, reply.reply_to, reply.response))
        for timer in decision.timers:
            self._set_timer(context, timer)
        self._send_replies(context)

    def _append(self, context: _ShardContext[S], decision: Decision[R]) -> bool:
        pairs = [self._encode(record) for record in decision.records]
        try:
            context.appended_end = context.coordinator_log.append(pairs, decision.wall_ms)
        except KafkaError as error:
            partition = context.coordinator_log.partition
            log.warning("coordinator shard %d could not append (%s): loading it anew", partition, error)
            self.lead(context.coordinator_log)
            return False
        for record in decision.records:
            context.shard.replay(record)
        return True

    def _send_replies(self, context: _ShardContext[S]) -> None:
        high_watermark = context.coordinator_log.high_watermark
        while context.held_replies and context.held_replies[0][0] <= high_watermark:
            _, token, response = context.held_replies.popleft()
            waiting = context.requests.pop(token, None)
            if waiting is not None:
                waiting.on_reply(response)

    def _set_timer(self, context: _ShardContext[S], timer: SetTimer | CancelTimer) -> None:
        old = context.timers.pop(timer.key, None)
        if old is not None:
            old.cancel()
        if isinstance(timer, SetTimer):
            key = timer.key
            context.timers[key] = self._timers.schedule(timer.deadline_ms, lambda: self._on_timer(context, key))

    def _on_timer(self, context: _ShardContext[S], key: Hashable) -> None:
        context.timers.pop(key, None)
        if not context.is_dropped:
            self._decide(context, lambda decision: context.shard.on_timer(key, decision))

    # -- loading and dropping

    async def _load(self, context: _ShardContext[S]) -> None:
        partition = context.coordinator_log.partition
        try:
            loaded = await self._run_in_pool(lambda: self._replay_log(context))
        except (OSError, TidelogError):
            log.exception("coordinator shard %d could not be loaded: its groups are unavailable until this node restarts", partition)
            return
        if context.is_dropped:
            return
        if loaded.unreadable_count:
            text = "coordinator shard %d: %d records cannot be read and are left out, the first at offset %d: %s"
            log.warning(text, partition, loaded.unreadable_count, loaded.first_unreadable_offset, loaded.reason)
        context.appended_end = loaded.end_offset
        context.coordinator_log.watch_high_watermark(lambda _offset: self._send_replies(context))
        context.is_active = True
        self._decide(context, context.shard.on_loaded)

    def _replay_log(self, context: _ShardContext[S]) -> "_Loaded":
        """Replay the whole partition; runs in the pool, where nobody else sees the shard yet."""
        loaded = _Loaded()
        for chunk in context.coordinator_log.read_batches():
            for position, header in iterate_headers(chunk):
                if not header.is_control:
                    self._replay_batch(context.shard, chunk, position, loaded)
                loaded.end_offset = header.next_offset
        return loaded

    def _replay_batch(self, shard: S, chunk: bytes, position: int, loaded: "_Loaded") -> None:
        """Replay what can be read of a batch: a record that somebody else wrote, or that is damaged, must not cost all groups."""
        try:
            for record in iterate_records(chunk, position):
                try:
                    decoded = None if record.key is None else self._decode(record.key, record.value)
                except ProtocolError as error:
                    loaded.note_unreadable(record.offset, error)
                    continue
                if decoded is not None:
                    shard.replay(decoded)
        except KafkaError as error:
            loaded.note_unreadable(loaded.end_offset, error)

    def _drop(self, context: _ShardContext[S], error: ErrorCode) -> None:
        context.is_active = False
        context.is_dropped = True
        for timer in context.timers.values():
            timer.cancel()
        context.timers.clear()
        context.held_replies.clear()
        waiting, context.requests = list(context.requests.values()), {}
        for request in waiting:
            request.on_reply(request.refuse(error))
