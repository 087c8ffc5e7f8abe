"""Background work on all logs of a node.

It comprises retention, flushes, checkpoints and removals. It also unloads idle segments, restores
files that another program removed, and rebuilds indexes that cannot be trusted. This module decides
when each kind of work is due, on the injected clock. The logs, the checkpoint writer and the
removals do the work. One task does all of it, and sleeps until the next deadline or until another
part of the node wakes it. An error here does not fail the node. It is logged, and the part that met
a disk error has taken its directory offline.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

import trio

from log_service.common.env import NodeEnv
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from log_service.config.views import LogManagerConfig
from log_service.storage.checkpoint_writer import CheckpointWriter
from log_service.storage.held_logs import HeldLogs
from log_service.storage.removals import PendingRemovals
from log_service.storage.retention import RetentionOutcome
from log_service.storage.segment import Segment
from log_service.storage.vanished import restore_vanished

logger = logging.getLogger(__name__)
_LONGEST_SLEEP_MS = 3_600_000
_IDLE_INTERVAL_MS = 300_000
_VANISHED_INTERVAL_MS = 10_000
_FULL_DISK_INTERVAL_MS = 5_000


@dataclass(slots=True)
class _Periodic:
    """One kind of work and its next due time in monotonic ms."""

    work: Callable[[], Awaitable[None]]
    interval_ms: int
    due_ms: int


class Upkeep:
    """The background task of one node.

    ``apply_retention`` applies retention to all claimed logs.
    """

    def __init__(
        self,
        env: NodeEnv,
        config: LogManagerConfig,
        held: HeldLogs,
        removals: PendingRemovals,
        checkpoint_writer: CheckpointWriter,
        *,
        apply_retention: Callable[[], Awaitable[Mapping[TopicPartition, RetentionOutcome]]],
    ) -> None:
        self._files = env.files
        self._clock = env.clock
        self._config = config
        self._held = held
        self._removals = removals
        self._checkpoint_writer = checkpoint_writer
        self._delete_expired = apply_retention
        self._rolled: dict[TopicPartition, None] = {}
        self._doubted: dict[Segment, None] = {}
        self._wake = trio.Event()

    def wake(self) -> None:
        """Wake the task to check for due work."""
        self._wake.set()

    def sync_soon(self, topic_partition: TopicPartition) -> None:
        """Request a sync of the segments before the active one, in the background.

        The recovery point then moves up to the active segment.
        """
        self._rolled[topic_partition] = None
        self.wake()

    def rebuild_soon(self, segment: Segment) -> None:
        """Request a rebuild of a segment's indexes in the background.

        Several requests for one segment cause one rebuild.
        """
        self._doubted[segment] = None
        self.wake()

    async def run(self, task_status: "trio.TaskStatus[None]") -> None:
        """Work until cancelled."""
        periodic = self._schedule()
        task_status.started()
        while True:
            await self._sync_rolled()
            await self._rebuild_doubted()
            await self._removals.run_due(self._now_ms())
            for entry in periodic:
                if entry.due_ms <= self._now_ms():
                    await self._guarded(entry.work)
                    entry.due_ms = self._now_ms() + entry.interval_ms
            due_ms = min(entry.due_ms for entry in periodic)
            removal_ms = self._removals.next_due_ms
            if self._is_disk_full():
                due_ms = min(due_ms, self._now_ms() + _FULL_DISK_INTERVAL_MS)
            await self._sleep_until(due_ms if removal_ms is None else min(due_ms, removal_ms))

    def _schedule(self) -> list[_Periodic]:
        config = self._config
        first_ms = self._now_ms() + config.initial_task_delay_ms
        intervals: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self._apply_retention, config.retention_check_interval_ms),
            (self._flush_due, config.flush_scheduler_interval_ms),
            (self._save_recovery_points, config.flush_offset_checkpoint_interval_ms),
            (self._save_start_offsets, config.flush_start_offset_checkpoint_interval_ms),
            (self._expire_producers, config.producer_id_expiration_check_interval_ms),
            (self._unload_idle, _IDLE_INTERVAL_MS),
        ]
        vanished = _Periodic(
            self.restore_vanished, _VANISHED_INTERVAL_MS, self._now_ms() + _VANISHED_INTERVAL_MS
        )
        return [
            vanished,
            *(
                _Periodic(work, each_ms, first_ms + min(each_ms, _LONGEST_SLEEP_MS))
                for work, each_ms in intervals
            ),
        ]

    def _now_ms(self) -> int:
        return self._clock.monotonic_ms()

    async def _sleep_until(self, due_ms: int) -> None:
        sleep_ms = min(max(due_ms - self._now_ms(), 0), _LONGEST_SLEEP_MS)
        with trio.move_on_after(sleep_ms / 1000):
            await self._wake.wait()
        self._wake = trio.Event()

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except KafkaError as error:
            logger.error("upkeep of the logs: %s", error)

    def _is_disk_full(self) -> bool:
        """Check again whether the directories that refuse appends have enough space.

        Return whether one is still full.
        """
        is_full = False
        for directory in self._held.directories:
            if directory.append_refusal is not None and not directory.is_offline:
                is_full |= directory.check_space()
        return is_full

    async def _sync_rolled(self) -> None:
        rolled, self._rolled = self._rolled, {}
        for topic_partition in rolled:
            log = self._held.logs.get(topic_partition)
            if log is not None and not log.is_closed:
                try:
                    await log.sync_rolled()
                except KafkaError as error:
                    logger.error(
                        "%s: the segments that rolled could not be synced: %s",
                        topic_partition,
                        error,
                    )

    async def _rebuild_doubted(self) -> None:
        while self._doubted:
            segment = next(iter(self._doubted))
            logger.warning("%s: its indexes are missing or damaged and are rebuilt", segment.path())
            try:
                await self._files.run_in_pool(segment.doubt_indexes)
            except (KafkaError, OSError) as error:
                logger.error(
                    "the indexes of %s could not be built again: %s", segment.path(), error
                )
            finally:
                del self._doubted[segment]

    async def _apply_retention(self) -> None:
        outcomes = await self._delete_expired()
        segments_deleted = sum(outcome.segments_deleted for outcome in outcomes.values())
        if segments_deleted:
            logger.info(
                "retention deleted %d segments, %d bytes",
                segments_deleted,
                sum(outcome.bytes_deleted for outcome in outcomes.values()),
            )

    async def _flush_due(self) -> None:
        """Sync the logs that were not synced for ``flush.ms``."""
        now_ms = self._now_ms()
        for log in list(self._held.logs.values()):
            is_due = (
                log.log_end_offset > log.recovery_point
                and now_ms - log.syncs.synced_ms >= log.config.flush_ms
            )
            if is_due and not log.is_closed and not log.home.is_offline:
                await log.sync()

    async def _save_recovery_points(self) -> None:
        writer = self._checkpoint_writer
        for directory in self._held.directories:
            await writer.save(directory, partial(writer.write_recovery_points, directory))

    async def _save_start_offsets(self) -> None:
        writer = self._checkpoint_writer
        for directory in self._held.directories:
            await writer.save(directory, partial(writer.write_start_offsets, directory))
            await writer.save(directory, partial(writer.write_cleaned_offsets, directory))

    async def restore_vanished(self) -> None:
        """Rewrite segments whose files were removed while they are open."""
        await restore_vanished(self._files, list(self._held.logs.values()))

    async def _expire_producers(self) -> None:
        now_ms = self._clock.wall_ms()
        for log in self._held.logs.values():
            log.expire_producers(now_ms)
        await trio.lowlevel.checkpoint()

    async def _unload_idle(self) -> None:
        for log in self._held.logs.values():
            log.unload_idle()
        await trio.lowlevel.checkpoint()
