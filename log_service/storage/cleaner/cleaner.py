"""The cleaner of a node, which runs passes over compacted logs when due and on request.

Requested logs come first, then the log with the largest dirty ratio. The cleaner limits how many
logs are cleaned at once. It checks logs every ``log.cleaner.backoff.ms``, and logs of internal
topics at least every 15 seconds. It also decides what happens to a log that cannot be cleaned.
``compaction`` runs one pass.

Invariants:

- At most one pass per log runs at any time, and at most ``log.cleaner.threads`` passes in total.
  All passes share one memory limit.
- A damaged log is not cleaned until the next start, and is logged once. A batch with a valid
  checksum is not damaged, even if its records cannot be read (``unreadable``).
- A pass that failed because of the disk is repeated only after the pause.
"""

import logging
import math
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import replace
from weakref import WeakKeyDictionary

import trio

from log_service.common.env import NodeEnv
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import GROUP_METADATA_TOPIC, TopicPartition
from log_service.config.views import CleanerConfig
from log_service.storage.checkpoint_writer import CheckpointWriter
from log_service.storage.cleaner.compaction import Compaction, CompactionOutcome, PassOutcome
from log_service.storage.cleaner.selection import Cleanable, is_due, look_at
from log_service.storage.cleaner.swap import PassAborted
from log_service.storage.cleaner.throttle import Throttle
from log_service.storage.cleaner.unreadable import UnreadableBatches
from log_service.storage.log import Log

logger = logging.getLogger(__name__)
_OWN_TOPICS_INTERVAL_MS = 15_000
_LOGS_PER_TURN = 256
_PASSES_AT_ONCE = 64
_PASSING_CODES = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER})


class Cleaner:
    """The cleaner of the ``logs`` of one node.

    It leaves out logs that are not ``claimed``, because the configuration of their topic is not
    known yet. The log manager changes both collections.
    """

    def __init__(
        self,
        env: NodeEnv,
        config: CleanerConfig,
        logs: Mapping[TopicPartition, Log],
        claimed: Container[TopicPartition],
        checkpoints: CheckpointWriter,
        *,
        high_watermark_of: Callable[[Log], int],
        on_removals: Callable[[], None],
    ) -> None:
        """Create a cleaner. It cleans each log at most up to ``high_watermark_of(log)``.

        ``on_removals`` is called when a pass has renamed files for their removal.
        """
        self.config = config
        self.last_outcome = CompactionOutcome()
        """The outcome for the log that was cleaned last."""
        self.checked_ms = env.clock.monotonic_ms()
        """The time of the last check of all logs.

        ``max_dirty_ratio`` is the largest ratio at that time.
        """
        self.max_dirty_ratio = 0.0
        self._files = env.files
        self._clock = env.clock
        self._logs = logs
        self._claimed = claimed
        self._checkpoints = checkpoints
        self._high_watermark_of = high_watermark_of
        self._on_removals = on_removals
        self._throttle = Throttle(env.clock, config.io_max_bytes_per_second)
        self._running: set[TopicPartition] = set()
        self._given_up: dict[TopicPartition, tuple[Log, str]] = {}
        self._unreadable: WeakKeyDictionary[Log, UnreadableBatches] = WeakKeyDictionary()
        self._retry_ms: dict[TopicPartition, int] = {}
        self._requested: dict[TopicPartition, _Requested] = {}
        self._wake = trio.Event()

    def __repr__(self) -> str:
        return (
            f"<Cleaner running={sorted(self._running)} requested={len(self._requested)}"
            f" uncleanable={len(self.uncleanable)}>"
        )

    def reconfigure(self, config: CleanerConfig) -> None:
        """Apply ``config`` from the next pass on."""
        self.config = config
        self._throttle.bytes_per_second = config.io_max_bytes_per_second
        self._wake.set()

    @property
    def uncleanable(self) -> dict[TopicPartition, str]:
        """The logs that no pass can finish, with the reason.

        Logs that were deleted since, and later logs of the same names, are left out.
        """
        self._given_up = {
            key: given_up
            for key, given_up in self._given_up.items()
            if self._logs.get(key) is given_up[0]
        }
        return {key: reason for key, (_, reason) in self._given_up.items()}

    # Asking

    def look(self, log: Log) -> Cleanable:
        """Return the dirty part of a log that a pass would clean now."""
        return look_at(log, self._clock.wall_ms(), self._high_watermark_of(log))

    async def clean_now(
        self, wanted: Collection[TopicPartition], timeout_ms: float = math.inf
    ) -> dict[TopicPartition, CompactionOutcome | None]:
        """Run the passes that are due for ``wanted`` partitions now, and return their outcomes.

        ``run`` must be running. An outcome is None if its passes take longer than ``timeout_ms``.
        They continue after that time. Partitions without a compacted log here are left out.

        Raises:
            KafkaError: POLICY_VIOLATION, the cleaner is disabled.
        """
        if not self._is_enabled:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                "nothing is compacted while log.cleaner.enable is false or log.cleaner.threads"
                " is 0",
            )
        requests = {
            key: self._requested.setdefault(key, _Requested())
            for key in wanted
            if self._compacted_log(key) is not None
        }
        self._wake.set()
        with trio.move_on_after(timeout_ms / 1000):
            for one in requests.values():
                await one.done.wait()
        return {key: one.outcome if one.done.is_set() else None for key, one in requests.items()}

    @property
    def _is_enabled(self) -> bool:
        return self.config.is_enabled and self.config.thread_count > 0

    def _compacted_log(self, key: TopicPartition) -> Log | None:
        log = self._logs.get(key)
        if (
            log is None
            or not log.config.is_compacted
            or log.is_closed
            or log.home.is_offline
            or key not in self._claimed
        ):
            return None
        return log

    # Running

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Clean requested and due logs until cancelled."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            full_look_ms, is_full = self._now_ms() + self.config.backoff_ms, False
            while True:
                # A full check goes on after each pass, so it does not wait for the full interval.
                pause_ms = _OWN_TOPICS_INTERVAL_MS if is_full else full_look_ms - self._now_ms()
                await self._sleep(min(pause_ms, _OWN_TOPICS_INTERVAL_MS))
                is_full = is_full or self._now_ms() >= full_look_ms
                while (log := await self._next_log(is_full=is_full)) is not None:
                    self._running.add(log.topic_partition)
                    nursery.start_soon(self._clean_and_report, log)
                if is_full and not self._running:
                    full_look_ms, is_full = self._now_ms() + self.config.backoff_ms, False

    def _now_ms(self) -> int:
        return self._clock.monotonic_ms()

    async def _sleep(self, sleep_ms: int) -> None:
        with trio.move_on_after(max(sleep_ms, 0) / 1000):
            await self._wake.wait()
        self._wake = trio.Event()

    async def _next_log(self, *, is_full: bool) -> Log | None:
        """Return the log to clean next: a requested one, or else the dirtiest one that is due.

        Unless ``is_full``, only logs of the topic of committed offsets are compared. Return None if
        no log is due, if no thread is free, or if the cleaner is disabled.
        """
        if not self._is_enabled or len(self._running) >= self.config.thread_count:
            return None
        for key, request in list(self._requested.items()):
            if key not in self._running:
                log = self._compacted_log(key)
                if log is not None:
                    return log
                del self._requested[key]
                request.done.set()
        return await self._dirtiest(is_full=is_full)

    async def _dirtiest(self, *, is_full: bool) -> Log | None:
        """Return the log with the largest dirty ratio, among the logs that are due.

        Unless ``is_full``, only logs of the topic of committed offsets are checked.
        """
        found, worst_ratio, dirtiest_ratio, uncleanable = None, -1.0, 0.0, self.uncleanable
        for turn, key in enumerate(list(self._logs)):
            if turn % _LOGS_PER_TURN == _LOGS_PER_TURN - 1:
                await trio.lowlevel.checkpoint()
            if not is_full and key.topic != GROUP_METADATA_TOPIC:
                continue
            log = self._compacted_log(key)
            if (
                log is None
                or key in self._running
                or key in uncleanable
                or self._retry_ms.get(key, 0) > self._now_ms()
            ):
                continue
            cleanable = self.look(log)
            dirtiest_ratio = max(dirtiest_ratio, cleanable.dirty_ratio)
            if cleanable.dirty_ratio > worst_ratio and is_due(cleanable, log.config):
                found, worst_ratio = log, cleanable.dirty_ratio
        if is_full:
            self.checked_ms, self.max_dirty_ratio = self._now_ms(), dirtiest_ratio
        return found

    async def _clean_and_report(self, log: Log) -> None:
        key = log.topic_partition
        outcome = CompactionOutcome()
        try:
            outcome = await self._clean(log)
            if outcome.pass_count:
                self.last_outcome = outcome
        finally:
            self._running.discard(key)
            request = self._requested.pop(key, None)
            if request is not None:
                request.outcome = outcome
                request.done.set()
            self._wake.set()

    async def _clean(self, log: Log) -> CompactionOutcome:
        """Run passes over one log as long as they are due, and return the outcome of all."""
        key, cleanable = log.topic_partition, self.look(log)
        outcome = CompactionOutcome(
            dirty_ratio_before=cleanable.dirty_ratio, cleaned_offset=cleanable.first_dirty_offset
        )
        reason = self.uncleanable.get(key)
        while (
            reason is None
            and outcome.pass_count < _PASSES_AT_ONCE
            and is_due(cleanable, log.config)
        ):
            started_ms = self._now_ms()
            reason, done = await self._pass(log, cleanable)
            if done is not None:
                outcome = outcome.after(done, self._now_ms() - started_ms)
                cleanable = self.look(log)
        if reason is None and not outcome.pass_count:
            reason = _held_back(log)
        if outcome.pass_count:
            logger.info(
                "%s: compacted %d bytes to %d in %d ms",
                key,
                outcome.bytes_before,
                outcome.bytes_after,
                outcome.duration_ms,
            )
        return replace(outcome, dirty_ratio_after=cleanable.dirty_ratio, reason=reason)

    async def _pass(self, log: Log, cleanable: Cleanable) -> tuple[str | None, PassOutcome | None]:
        """Run one pass.

        Return its outcome, or the reason why it failed. The other value is None.
        """
        key = log.topic_partition
        try:
            done = await self._compaction(log, cleanable).run()
        except PassAborted:
            return self._put_off(key, "it changed while it was cleaned"), None
        except KafkaError as error:
            if error.code in _PASSING_CODES:
                return self._put_off(key, str(error)), None
            return self._give_up(log, str(error)), None
        except OSError as error:
            return self._put_off(key, str(log.home.note_error(error))), None
        log.note_cleaned(done.end_offset)
        self._retry_ms.pop(key, None)
        self._on_removals()
        await self._write_checkpoint(log)
        return None, done

    def _compaction(self, log: Log, cleanable: Cleanable) -> Compaction:
        config = self.config
        return Compaction(
            log,
            cleanable,
            map_bytes=int(config.dedupe_buffer_bytes * config.dedupe_load_factor)
            // config.thread_count,
            slice_bytes=config.io_buffer_bytes // config.thread_count,
            now_ms=self._clock.wall_ms(),
            pace=self._throttle.wait,
            unreadable=self._unreadable.setdefault(
                log, UnreadableBatches(topic_partition=log.topic_partition)
            ),
        )

    async def _write_checkpoint(self, log: Log) -> None:
        try:
            await self._checkpoints.save(
                log.home, lambda: self._checkpoints.write_cleaned_offsets(log.home)
            )
        except KafkaError as error:
            logger.warning(
                "%s: the offset up to which it is compacted could not be written: %s",
                log.topic_partition,
                error,
            )

    def _put_off(self, key: TopicPartition, reason: str) -> str:
        logger.info("%s was not compacted and is tried again later: %s", key, reason)
        self._retry_ms[key] = self._now_ms() + min(self.config.backoff_ms, _OWN_TOPICS_INTERVAL_MS)
        return reason

    def _give_up(self, log: Log, reason: str) -> str:
        logger.error(
            "%s is not compacted any more until the next start: %s", log.topic_partition, reason
        )
        self._given_up[log.topic_partition] = log, reason
        return reason


def _held_back(log: Log) -> str | None:
    """Return the reason why segments before the active one cannot be compacted now, or None."""
    open_offset = log.producer_state.first_open_offset
    if open_offset is None or open_offset >= log.segments.active.base_offset:
        return None
    return (
        f"nothing from offset {open_offset} on can be compacted until the transaction that is open"
        " there has ended"
    )


class _Requested:
    """A request to clean a partition now, and its outcome."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.outcome = CompactionOutcome()
