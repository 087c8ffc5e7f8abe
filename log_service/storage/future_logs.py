"""Copies of logs that move to another log directory of this node (KIP-113).

A move fills a ``-future`` directory until the copy is caught up and durable. It then renames the
copy to the partition's name, and only after that renames the old directory. This module knows
neither requests nor leaders. ``move`` passes the new log to its caller.

Invariants:

- At every moment, one directory with the partition's name holds everything that was durable in the
  log.
- A crash between the two renames leaves two such directories. The file ``moved-here`` marks the
  copy. The copy is used, unless the other log was written later. This happens if the last step
  failed, or if the partition began again while the copy was offline. The mark is removed durably
  when no other log can exist.
- The next start removes an unfinished copy, and replication begins the move again. Every copy has
  ``moved-here`` from the beginning. Without the file, a start could not distinguish the copy from a
  future log of Apache Kafka.
- A copy ends at the same offset as its log, even if compaction removed the last records.
- The last step is the rest of the copy, one sync and two renames. It blocks the event loop for a
  few milliseconds once per move, so that nothing is appended meanwhile.
"""

import logging
from collections.abc import Callable, Container, Iterable
from functools import partial
from pathlib import Path

import trio

from log_service.common.env import NodeEnv
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from log_service.records.batch import iterate_headers
from log_service.storage.checkpoint_writer import CheckpointWriter
from log_service.storage.file_names import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    is_set_aside,
    parse_directory_name,
    set_aside_name,
)
from log_service.storage.held_logs import HeldLogs
from log_service.storage.log import Log
from log_service.storage.log_directory import LogDirectory
from log_service.storage.recovery import OpenedFrom
from log_service.storage.removals import PendingRemovals
from log_service.storage.rivals import is_blank

logger = logging.getLogger(__name__)
MOVED_HERE = "moved-here"
CHUNK_BYTES = 1 << 20
QUIET_BYTES = 4 << 20
"""The largest number of bytes that may be left for the last step."""
COPIED_AT_ONCE = 4
"""The number of copies that are filled at once.

Other copies wait as empty directories. This limits the load on memory and disks if thousands of
moves are requested.
"""


class FutureLogs:
    """The copies of the logs in ``held``.

    ``logs`` holds the copies that are being filled. ``on_removals`` is called when a log that was
    moved away waits for its removal.
    """

    def __init__(
        self,
        env: NodeEnv,
        held: HeldLogs,
        removals: PendingRemovals,
        checkpoint_writer: CheckpointWriter,
        *,
        on_removals: Callable[[], None],
    ) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.unfinished: dict[TopicPartition, LogDirectory] = {}
        """Moves that the last stop interrupted, with their target directories.

        Replication begins these moves again.
        """
        self.kept_in: list[LogDirectory] = []
        """Directories that still contain the old log of a move because its rename failed.

        Such a directory was not closed in order.
        """
        self._files = env.files
        self._clock = env.clock
        self._held = held
        self._removals = removals
        self._checkpoint_writer = checkpoint_writer
        self._on_removals = on_removals
        self._filling = trio.CapacityLimiter(COPIED_AT_ONCE)

    def __repr__(self) -> str:
        return f"<FutureLogs {len(self.logs)} unfinished={len(self.unfinished)}>"

    # Moving

    async def move(
        self, log: Log, target: LogDirectory, on_replaced: Callable[[Log], None]
    ) -> None:
        """Copy ``log`` to ``target`` and replace the log with its copy.

        ``on_replaced`` gets the new log in the same turn of the event loop. The copy is dropped if
        the move is cancelled or the log is deleted meanwhile.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, a disk failed. The old log remains in service.
        """
        try:
            copy = await self._begin(log, target)
            async with self._filling:
                replacement = await self._fill(log, copy)
                if replacement is not None:
                    on_replaced(replacement)
        finally:
            left = self.logs.pop(log.topic_partition, None)
            if left is not None:
                self._drop(left)

    async def _fill(self, log: Log, copy: Log) -> Log | None:
        """Copy until nothing is left and return the new log, or None if the old log was closed."""
        while _is_open(log):
            if copy.log_end_offset < log.log_start_offset:  # retention was faster
                self._drop(copy)
                copy = await self._begin(log, copy.home)
            elif _left_bytes(log, copy) > QUIET_BYTES and (
                chunk := await self._read(log, copy.log_end_offset, CHUNK_BYTES)
            ):
                copy.append_as_follower(chunk)
            else:
                await copy.sync()
                if _is_open(log) and (
                    _left_bytes(log, copy) <= QUIET_BYTES or not _has_more(log, copy)
                ):
                    return self.replace_log(log, copy)
        return None

    async def _begin(self, log: Log, target: LogDirectory) -> Log:
        files, topic_partition = self._files, log.topic_partition
        await self._forget_last_move(log)
        first = await self._read(log, log.log_start_offset, 1)
        base_offset = min(
            [log.log_start_offset, *(header.base_offset for _, header in iterate_headers(first))]
        )
        path = target.path / set_aside_name(
            topic_partition, FUTURE_DIRECTORY_SUFFIX, self._held.new_id()
        )

        def begin() -> Log:
            self._checkpoint_writer.forget(target, topic_partition)
            nameless = _removed_at_start(path)
            files.make_directory(nameless)
            files.write_atomically(nameless / MOVED_HERE, b"")
            files.rename(nameless, path)
            known = OpenedFrom(
                is_clean=True, log_start_offset=base_offset, recovery_point=base_offset
            )
            copy = self._held.open_at(
                target, path, topic_partition, log.config, known=known, topic_id=log.topic_id
            )
            self.logs[topic_partition] = (
                copy  # set here, so that a move that is cancelled while it waits drops the copy
            )
            # With its first batch the copy ends above the log start, which may lie inside a batch.
            copy.append_as_follower(first)
            return copy

        try:
            return await files.run_in_pool(begin)
        except OSError as error:
            self._discard(target, path, _removed_at_start(path))
            raise target.note_error(error) from error

    async def _forget_last_move(self, log: Log) -> None:
        """Remove ``moved-here`` from a log, if the last move has left it there.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        try:
            await self._files.run_in_pool(partial(self._unmark, log))
        except OSError as error:
            raise log.home.note_error(error) from error

    def _unmark(self, log: Log) -> None:
        """Remove ``moved-here``. Blocks. The removal is durable on return."""
        self._files.remove(log.directory / MOVED_HERE)
        self._files.sync_directory(log.directory)

    async def _read(self, log: Log, offset: int, chunk_bytes: int) -> bytes:
        """Return whole batches from ``offset`` on, or nothing at the end of the log."""

        def read() -> bytes:
            return next(log.read_batches(offset, chunk_bytes=chunk_bytes), b"")

        return await self._files.run_in_pool(read)

    def replace_log(self, log: Log, copy: Log) -> Log:
        """Copy the rest, replace the log by its copy, and return the new log.

        This takes one turn of the event loop, so that nothing is appended meanwhile.
        """
        files, topic_partition = self._files, log.topic_partition
        for chunk in log.read_batches(copy.log_end_offset):
            copy.append_as_follower(chunk)
        final = copy.home.path / str(topic_partition)
        known = OpenedFrom(
            is_clean=True,
            log_start_offset=log.log_start_offset,
            recovery_point=log.log_end_offset,
            cleaned_offset=log.cleaned_offset,
        )
        try:
            copy.close_as_copy_of(log)
            files.rename(copy.directory, final)
            files.sync_directory(copy.home.path)
            replacement = self._held.open_at(
                copy.home, final, topic_partition, log.config, known=known, topic_id=log.topic_id
            )
            self._checkpoint_writer.remember(replacement)
        except OSError as error:
            self._discard(copy.home, final, _removed_at_start(copy.directory))
            raise copy.home.note_error(error) from error
        del self.logs[topic_partition]
        self._take_place(log, replacement)
        logger.info("%s was moved from %s to %s", topic_partition, log.home.path, copy.home.path)
        return replacement

    def _take_place(self, old: Log, log: Log) -> None:
        """Serve ``log``, rename the old directory durably, then remove the mark ``moved-here``.

        If this fails, a warning is logged and the next start finishes the move.
        """
        try:
            self._held.replace(old, log)
            self._on_removals()
            self._files.sync_directory(old.home.path)
            self._unmark(log)
        except (KafkaError, OSError) as error:
            self.kept_in.append(old.home)
            logger.warning(
                "%s: the next start finishes the move to %s: %s",
                log.topic_partition,
                log.home.path,
                error,
            )

    def _drop(self, copy: Log) -> None:
        """Close a copy and schedule the removal of its files."""
        copy.close_files()
        self._discard(copy.home, copy.directory, _removed_at_start(copy.directory))

    def _discard(self, home: LogDirectory, path: Path, target: Path) -> None:
        """Rename a copy's directory to ``target`` and schedule its removal.

        If a crash leaves the directory, the next start removes it because of its new name.
        """
        try:
            if not home.is_offline and self._files.exists(path):
                self._files.rename(path, target)
                self._removals.schedule([target], self._clock.monotonic_ms())
        except OSError as error:
            logger.warning(
                "%s is left of a move that was given up; the next start removes it: %s", path, error
            )

    # Starting

    async def look_for_unfinished(self) -> None:
        """Remove the copies that the last stop has left, and store the moves in ``unfinished``."""
        for directory in self._held.directories:
            if not directory.is_offline:
                try:
                    names = await self._files.run_in_pool(partial(self.delete_copies, directory))
                except OSError as error:
                    directory.note_error(error)
                    continue
                self.unfinished.update(dict.fromkeys(names, directory))

    def delete_copies(self, directory: LogDirectory) -> list[TopicPartition]:
        """Delete the unfinished copies in a directory, and return their partitions.

        Partitions without a served log are left out of the result.
        """
        files, found = self._files, []
        for name in files.list_directory(directory.path):
            topic_partition = parse_directory_name(
                name.removesuffix(FUTURE_DIRECTORY_SUFFIX).rpartition(".")[0]
            )
            if is_set_aside(name, FUTURE_DIRECTORY_SUFFIX) and files.exists(
                directory.path / name / MOVED_HERE
            ):
                nameless = _removed_at_start(directory.path / name)
                files.rename(directory.path / name, nameless)
                files.remove_tree(nameless)
                if topic_partition is not None and topic_partition in self._held.logs:
                    found.append(topic_partition)
        return found

    async def unmark_finished(self, but: Container[TopicPartition]) -> None:
        """Remove ``moved-here`` from all logs except those of the partitions in ``but``.

        This runs at a start that has read every directory. A partition in ``but`` still has several
        logs, and the file is needed to choose between them.
        """
        logs = [log for log in self._held.logs.values() if log.topic_partition not in but]
        await self._files.run_in_pool(partial(self._unmark_all, logs))

    def _unmark_all(self, logs: Iterable[Log]) -> None:
        for log in logs:
            try:
                if not log.home.is_offline and self._files.exists(log.directory / MOVED_HERE):
                    self._unmark(log)
            except OSError as error:
                log.home.note_error(error)

    def take_unfinished(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """Return the target of a move that the last stop interrupted, and forget the move."""
        return self.unfinished.pop(topic_partition, None)

    def settle(self, one: Log, other: Log) -> Log | None:
        """Return the log to use after a crash in the last step of a move. Rename the other one.

        The copy is used, unless the other log was written later. This is so if the other log ends
        in a later leader epoch, or in the same epoch with more records. Return None if the two logs
        do not come from a move. Then both are unchanged, and ``rivals`` decides.

        Raises:
            KafkaError: the disk failed.
        """
        moved = [log for log in (one, other) if self._is_marked(log)]
        if len(moved) != 1 or _are_of_two_topics(one, other):
            return None
        stays, goes = (one, other) if moved[0] is one else (other, one)
        if (goes.latest_leader_epoch, goes.log_end_offset) > (
            stays.latest_leader_epoch,
            stays.log_end_offset,
        ):
            stays, goes = goes, stays
        self._take_place(goes, stays)
        return stays

    def _is_marked(self, log: Log) -> bool:
        """Return whether a log has ``moved-here``.

        The result is false if the directory fails meanwhile.

        Raises:
            KafkaError: the file cannot be checked, although the directory is online.
        """
        try:
            return self._files.exists(log.directory / MOVED_HERE)
        except OSError as error:
            refusal = log.home.note_error(error)
            if not log.home.is_offline:
                raise refusal from error
            return False

    def release(self) -> None:
        """Close the files of all copies without removing them."""
        for log in self.logs.values():
            log.close_files()


def _is_open(log: Log) -> bool:
    """Return whether a log is still served. It may be closed during any wait."""
    return not log.is_closed


def _are_of_two_topics(one: Log, other: Log) -> bool:
    return one.topic_id != other.topic_id and all(
        log.topic_id is not None or is_blank(log) for log in (one, other)
    )


def _removed_at_start(path: Path) -> Path:
    """Return a directory name under which the next start removes the directory.

    A copy has such a name before it is begun, and after it is dropped.
    """
    return path.with_name(path.name.removesuffix(FUTURE_DIRECTORY_SUFFIX) + DELETE_DIRECTORY_SUFFIX)


def _has_more(log: Log, copy: Log) -> bool:
    """Return whether the log has a batch that the copy lacks.

    The log may end later than the copy without such a batch, because compaction can remove the
    last batches.
    """
    return bool(next(log.read_batches(copy.log_end_offset, chunk_bytes=1), b""))


def _left_bytes(log: Log, copy: Log) -> int:
    """Return how many bytes the copy lacks. The result may be too large by up to one segment."""
    if copy.log_end_offset >= log.log_end_offset:
        return 0
    place = (
        log.segments.active.locate(copy.log_end_offset)
        if copy.log_end_offset >= log.segments.active.base_offset
        else None
    )
    return log.segments.active.size_bytes - place.position if place is not None else log.size_bytes
