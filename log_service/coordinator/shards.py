"""Shards of a coordinator: one state machine for each partition that this node leads.

This file decides when a shard serves requests. It loads a shard when this node is elected leader of
its partition, and drops the shard when leadership is lost. Requests get
COORDINATOR_LOAD_IN_PROGRESS while the shard is loading, and NOT_COORDINATOR if there is no shard.
The shard decides on its requests, and its runtime performs the decisions.

A load that fails is repeated after a pause that doubles up to ``MAX_RELOAD_MS``, as long as this
node leads the partition in the same epoch. Until it succeeds, requests get NOT_COORDINATOR, and
requests to all shards leave the shard out.

A load reads to the log end offset instead of the high watermark, because records that an earlier
leader appended may still be replicated. Replies wait until these records are replicated. If the
partition is lost or led in a later epoch, a load stops at its next chunk, and its state is dropped.
"""

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import trio

from log_service.common.env import Clock, RunInPool
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError, TidelogError
from log_service.common.timers import Timer, TimerQueue
from log_service.common.types import Buffer
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.records.batch import (
    BatchHeader,
    CorruptBatch,
    iterate_headers,
    iterate_records,
)
from log_service.records.control import ControlType, EndOfTransaction, iterate_control_records
from log_service.state_machine.decision import Decision, InTransaction, ReplayContext
from log_service.state_machine.runtime import OnReply, Refuse, Runtime, StateMachine
from log_service.state_machine.stalls import STALL_GRACE_MS, Stalls

logger = logging.getLogger(__name__)

RELOAD_MS, MAX_RELOAD_MS = 1_000, 60_000
"""The first and the longest pause before a failed load is repeated. Pauses double."""
_MAX_DOUBLINGS = 10
DAMAGE_ADVICE = (
    ", but no retry mends a damaged log: where another replica has the log, stop this node, move"
    " the partition's directory away, and start the node again, so that it copies the log"
)

R = TypeVar("R")


class CoordinatorLog(Protocol):
    """One partition of a coordinator's topic, led by this node."""

    @property
    def partition(self) -> int:
        """The partition's number, which identifies the shard."""

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of this node."""

    @property
    def high_watermark(self) -> int:
        """The high watermark that the leader knows in this epoch."""

    def append(
        self,
        records: Sequence[tuple[bytes, bytes | None]],
        wall_ms: int,
        transaction: InTransaction | None = None,
    ) -> int:
        """Append keys and values as one batch, and return the log end offset.

        With ``transaction``, the batch belongs to a producer's transaction.

        Raises:
            KafkaError: nothing was appended.
        """

    def append_marker(self, marker: EndOfTransaction) -> int:
        """Append the end of a producer's transaction and return the log end offset.

        Raises:
            KafkaError: nothing was appended.
        """

    def delete_records(self, end_offset: int) -> None:
        """Delete the records below ``end_offset``, which must be below the high watermark.

        A topic that is only compacted refuses the deletion.

        Raises:
            KafkaError: nothing was deleted.
        """

    def watch_high_watermark(self, callback: Callable[[int], None]) -> None:
        """Call ``callback`` whenever the high watermark has moved, but never inside ``append``."""

    def read_batches(self) -> Iterator[bytes]:
        """Iterate over the partition's batches in bounded chunks. The thread pool calls this."""


class Shard(StateMachine[R], Protocol[R]):
    """A state machine over one partition of a coordinator's topic."""

    def replay_end_transaction(
        self, producer_id: int, producer_epoch: int, *, is_committed: bool
    ) -> None:
        """End a producer's transaction. Its replayed records take effect or are discarded."""

    def on_loaded(self, decision: Decision[R], /) -> None:
        """Begin to serve requests.

        The decision must not hold records. To store records at once, the shard sets a timer that is
        due at once, because timers are retried.
        """

    def on_image(
        self, delta: MetadataDelta, image: MetadataImage, decision: Decision[R], /
    ) -> None:
        """Handle new metadata. The decision must not hold records, as with ``on_loaded``."""


S = TypeVar("S", bound=Shard[Any])


@dataclass(slots=True)
class _Led(Generic[S, R]):
    """A partition that this node leads. It has a runtime after it is loaded.

    ``reload`` is the timer that repeats a failed load. ``logged`` holds the kinds of load errors
    that were logged already.
    """

    coordinator_log: CoordinatorLog
    shard: S
    runtime: Runtime[R] | None = None
    is_dropped: bool = False
    failed_count: int = 0
    reload: Timer | None = None
    logged: set[Hashable] = field(default_factory=set)

    @property
    def is_loading(self) -> bool:
        """Whether the first load is in progress."""
        return self.runtime is None and not self.failed_count


@dataclass(slots=True)
class _Loaded:
    """The progress of a replay: the offset after the last batch, and the unreadable records."""

    end_offset: int = 0
    unreadable_count: int = 0
    first_unreadable_offset: int = -1
    reason: str = ""

    def note_unreadable(self, offset: int, error: TidelogError) -> None:
        """Count a record or a batch that cannot be read, and remember the first one's error."""
        self.unreadable_count += 1
        if self.unreadable_count == 1:
            self.first_unreadable_offset, self.reason = offset, str(error)


@dataclass(frozen=True, slots=True)
class _EncodingLog(Generic[R]):
    """The log of a state machine. It encodes records to keys and values and appends them."""

    coordinator_log: CoordinatorLog
    encode: Callable[[R], tuple[bytes, bytes | None]]

    @property
    def high_watermark(self) -> int:
        return self.coordinator_log.high_watermark

    def append(self, records: Sequence[R], wall_ms: int) -> int:
        return self.coordinator_log.append(self._encoded(records), wall_ms)

    def append_in_transaction(
        self, records: Sequence[R], wall_ms: int, transaction: InTransaction
    ) -> int:
        return self.coordinator_log.append(self._encoded(records), wall_ms, transaction)

    def _encoded(self, records: Sequence[R]) -> list[tuple[bytes, bytes | None]]:
        try:
            return [self.encode(record) for record in records]
        except ProtocolError as error:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"the coordinator cannot store the request: {error}"
            ) from error


def _refuse_announcement(coordinator_log: CoordinatorLog, announcement: object) -> None:
    raise AssertionError(
        f"partition {coordinator_log.partition} announces {announcement!r}, but has no listener"
    )


class Shards(Generic[S, R]):
    """The shards that this node leads. ``run`` must be running before the first ``lead``."""

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerQueue,
        run_in_pool: RunInPool,
        topic: str,
        new_shard: Callable[[], S],
        encode: Callable[[R], tuple[bytes, bytes | None]],
        decode: Callable[[Buffer, Buffer | None], R | None],
        reply_timeout_ms: int | None = None,
        on_announcement: Callable[[CoordinatorLog, Any], None] = _refuse_announcement,
        is_about_silence: Callable[[Hashable], bool] = lambda _key: False,
    ) -> None:
        """Create the shards of one coordinator. ``topic`` is the coordinator's topic.

        A reply may depend on records that are not replicated yet. ``reply_timeout_ms`` bounds how
        long the reply waits for them. ``on_announcement`` is called with the log of a shard and
        each announcement in the shard's decisions. ``is_about_silence`` returns whether the timer
        of a key removes silent members. After a stall of this process, these timers wait until the
        unread requests have been read.
        """
        self._clock = clock
        self._timers = timers
        self._run_in_pool = run_in_pool
        self._topic = topic
        self._new_shard = new_shard
        self._encode = encode
        self._decode = decode
        self._reply_timeout_ms = reply_timeout_ms
        self._on_announcement = on_announcement
        self._is_about_silence = is_about_silence
        self._stalls = Stalls(_log_stall)
        self.led: dict[int, _Led[S, R]] = {}
        self._nursery: trio.Nursery | None = None
        self._is_over = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks that load shards until they are cancelled. Then resign every shard."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                # set before the nursery closes, because a new image may still call lead()
                self._is_over = True
                for partition in list(self.led):
                    self.resign(partition)

    def lead(self, coordinator_log: CoordinatorLog) -> None:
        """Load the shard of a partition, then serve its requests.

        If this node already leads the partition, the shard is loaded again. After the end of
        ``run``, nothing is loaded.
        """
        self.resign(coordinator_log.partition)
        if self._is_over:
            return
        led: _Led[S, R] = _Led(coordinator_log=coordinator_log, shard=self._new_shard())
        self.led[coordinator_log.partition] = led
        assert self._nursery is not None, "run() has not started"
        self._nursery.start_soon(self._load, led)

    def resign(self, partition: int) -> None:
        """Drop the shard of a partition.

        Waiting clients get NOT_COORDINATOR and look for the new coordinator.
        """
        led = self.led.pop(partition, None)
        if led is None:
            return
        led.is_dropped = True
        if led.reload is not None:
            led.reload.cancel()
        if led.runtime is not None:
            led.runtime.close(
                KafkaError(
                    ErrorCode.NOT_COORDINATOR,
                    f"this node does not lead partition {partition} any more",
                )
            )

    def ask(
        self,
        partition: int,
        decide: Callable[[S, Decision[R], Hashable], None],
        on_reply: OnReply,
        refuse: Refuse,
    ) -> None:
        """Let a shard decide on one request. ``on_reply`` is called once, now or later.

        It gets the shard's reply. If there is no serving shard or the log refuses the append, it
        gets the response that ``refuse`` makes of the error.
        """
        try:
            led, runtime = self._find(partition)
        except KafkaError as error:
            on_reply(refuse(error))
        else:
            runtime.ask(partial(decide, led.shard), on_reply, refuse)

    def fire_if_due(self, partition: int, key: Hashable) -> None:
        """Fire a due timer of a serving shard now instead of in the next turn of the event loop.

        If the shard does not serve, or the timer is not due, nothing happens.
        """
        led = self.led.get(partition)
        if led is not None and led.runtime is not None:
            led.runtime.fire_if_due(key)

    def end_transaction(
        self, partition: int, marker: EndOfTransaction, on_reply: OnReply, refuse: Refuse
    ) -> None:
        """Append the end of a producer's transaction and let the shard replay it.

        ``on_reply`` gets None when the marker is replicated, now or later. After an error it gets
        the response that ``refuse`` makes of the error.
        """
        try:
            led, runtime = self._find(partition)
        except KafkaError as error:
            on_reply(refuse(error))
            return
        replay = partial(
            led.shard.replay_end_transaction,
            marker.producer_id,
            marker.producer_epoch,
            is_committed=not marker.is_abort,
        )
        runtime.ask_to_append(
            partial(led.coordinator_log.append_marker, marker), replay, on_reply, refuse
        )

    def _find(self, partition: int) -> tuple[_Led[S, R], Runtime[R]]:
        """Return a serving shard, with its runtime.

        Raises:
            KafkaError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        led = self.led.get(partition)
        if led is None:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR, f"this node does not lead partition {partition}"
            )
        if led.is_loading:
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"partition {partition} is being loaded"
            )
        if led.runtime is None:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR,
                f"partition {partition} could not be loaded; the node tries again",
            )
        return led, led.runtime

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Pass new metadata to every serving shard."""
        for led in list(self.led.values()):
            if led.runtime is not None:
                led.runtime.decide_alone(partial(led.shard.on_image, delta, image))
                led.runtime.fire_due()

    def shard(self, partition: int) -> S | None:
        """Return a serving shard, or None. The caller must not change the shard."""
        led = self.led.get(partition)
        return None if led is None or led.runtime is None else led.shard

    def serving(self) -> list[S] | None:
        """Return all shards, or None while one is loading for the first time.

        A shard whose load failed is left out. The caller must not change the shards.
        """
        if any(led.is_loading for led in self.led.values()):
            return None
        return [led.shard for led in self.led.values() if led.runtime is not None]

    # Loading

    async def _load(self, led: _Led[S, R]) -> None:
        try:
            loaded = await self._run_in_pool(lambda: self.replay_log(led))
        except (OSError, TidelogError) as error:
            # A dropped load may fail because a follower truncates the log under it.
            if not led.is_dropped:
                self._load_later(led, error)
        else:
            if not led.is_dropped:
                self._serve(led, loaded)

    def _load_later(self, led: _Led[S, R], error: OSError | TidelogError) -> None:
        """Repeat a failed load after a pause. Each kind of error is logged once."""
        led.failed_count += 1
        self._log_failed_load(led, error)
        doublings = min(led.failed_count - 1, _MAX_DOUBLINGS)
        pause_ms = min(RELOAD_MS << doublings, MAX_RELOAD_MS)
        led.reload = self._timers.schedule(
            self._clock.monotonic_ms() + pause_ms, partial(self._load_again, led)
        )

    def _load_again(self, led: _Led[S, R]) -> None:
        # The failed load has changed the old shard.
        led.shard = self._new_shard()
        assert self._nursery is not None, "a load has failed, so run() has started"
        self._nursery.start_soon(self._load, led)

    def _log_failed_load(self, led: _Led[S, R], error: OSError | TidelogError) -> None:
        kind = _kind_of(error)
        if kind in led.logged:
            return
        led.logged.add(kind)
        text = (
            "The coordinator of %s-%d could not be loaded in leader epoch %d: %s. Its clients wait."
            " It is tried again every %d to %d seconds while this node leads the partition%s"
        )
        logger.error(
            text,
            self._topic,
            led.coordinator_log.partition,
            led.coordinator_log.leader_epoch,
            error,
            RELOAD_MS // 1_000,
            MAX_RELOAD_MS // 1_000,
            DAMAGE_ADVICE if isinstance(error, CorruptBatch) else "",
            exc_info=error,
        )

    def _serve(self, led: _Led[S, R], loaded: _Loaded) -> None:
        """Begin to serve a loaded shard."""
        partition = led.coordinator_log.partition
        if led.failed_count:
            logger.info(
                "The coordinator of %s-%d is loaded after %d failed attempts",
                self._topic,
                partition,
                led.failed_count,
            )
        if loaded.unreadable_count:
            text = (
                "coordinator shard %d: %d records cannot be read and are left out, the first at"
                " offset %d: %s"
            )
            logger.warning(
                text,
                partition,
                loaded.unreadable_count,
                loaded.first_unreadable_offset,
                loaded.reason,
            )
        log = _EncodingLog(led.coordinator_log, self._encode)
        runtime: Runtime[R] = Runtime(
            led.shard,
            log,
            clock=self._clock,
            timers=self._timers,
            appended_end=loaded.end_offset,
            reply_timeout_ms=self._reply_timeout_ms,
            on_announcement=partial(self._on_announcement, led.coordinator_log),
            is_about_silence=self._is_about_silence,
            stalls=self._stalls,
            name=f"the coordinator of {self._topic}-{partition}",
        )
        led.runtime = runtime
        led.coordinator_log.watch_high_watermark(lambda _offset: runtime.on_high_watermark())
        runtime.decide_alone(led.shard.on_loaded)
        runtime.fire_due()

    def replay_log(self, led: _Led[S, R]) -> _Loaded:
        """Replay the whole partition, and return the progress.

        This runs in the thread pool. No other task has access to the shard yet.
        """
        loaded = _Loaded()
        for chunk in led.coordinator_log.read_batches():
            if led.is_dropped:
                break
            for position, header in iterate_headers(chunk):
                self.replay_batch(led.shard, chunk, position, header, loaded)
                loaded.end_offset = header.next_offset
        return loaded

    def replay_batch(
        self, shard: S, chunk: bytes, position: int, header: BatchHeader, loaded: _Loaded
    ) -> None:
        """Replay the readable records of a batch.

        Unreadable records are skipped because one foreign or damaged record must not block all
        groups.
        """
        try:
            if header.is_control:
                replay_markers(shard, chunk, position, header)
            else:
                self.replay_records(shard, chunk, position, header, loaded)
        except KafkaError as error:
            loaded.note_unreadable(loaded.end_offset, error)

    def replay_records(
        self, shard: S, chunk: bytes, position: int, header: BatchHeader, loaded: _Loaded
    ) -> None:
        """Replay the records of a batch of data. Unreadable ones are noted and skipped."""
        producer = (header.producer_id, header.producer_epoch) if header.is_transactional else ()
        for record in iterate_records(chunk, position):
            try:
                decoded = None if record.key is None else self._decode(record.key, record.value)
            except ProtocolError as error:
                loaded.note_unreadable(record.offset, error)
                continue
            if decoded is not None:
                shard.replay(decoded, ReplayContext(record.offset, *producer))


def _kind_of(error: OSError | TidelogError) -> Hashable:
    """Return the kind of an error: its class, and its code or errno."""
    if isinstance(error, KafkaError):
        return type(error), error.code
    return type(error), error.errno if isinstance(error, OSError) else None


def _log_stall(late_ms: int) -> None:
    text = (
        "This process was stalled for %d ms or more: for %d ms no member of a group is removed for"
        " its silence"
    )
    logger.warning(text, late_ms, STALL_GRACE_MS)


def replay_markers(shard: Shard[Any], chunk: bytes, position: int, header: BatchHeader) -> None:
    """Replay the ends of transactions in a control batch."""
    for record in iterate_control_records(chunk, position):
        if record.type in (ControlType.COMMIT, ControlType.ABORT):
            is_committed = record.type is ControlType.COMMIT
            shard.replay_end_transaction(
                header.producer_id, header.producer_epoch, is_committed=is_committed
            )
