"""Closing the logs of one directory: each by itself, or, where there are many, all together with one sync of the file system.

Decides which, and which logs could not be closed in order; what a log writes for its next start is the log's. Ten thousand logs are ninety
thousand files and directories to sync, which takes longer than an operator waits.

Invariants: who is not named as failed is durable, with everything that its next start goes by; a sync that failed counts against every log
that it was for.
"""

import logging
from collections.abc import Sequence
from functools import partial

import trio

from log_service.common.env import DirectoryLock, Files
from log_service.common.errors import KafkaError
from log_service.storage.log import Log
from log_service.storage.sync_failures import note_failed_sync

LEAST_TOGETHER = 64
"""Fewer logs are closed one by one: a sync of the file system waits for everybody who writes there."""
WRITTEN_PER_TURN = 64
CLOSING_COUNT = 16

_log = logging.getLogger(__name__)


async def close_logs(files: Files, lock: DirectoryLock, logs: Sequence[Log]) -> list[Log]:
    """Close logs of the directory that ``lock`` is of, which is online; return those that could not be closed in order."""
    failed: list[Log] = []
    if len(logs) >= LEAST_TOGETHER and await files.run_in_pool(lambda: lock.can_sync_file_system):
        await _close_together(files, lock, logs, failed)
    else:
        limiter = trio.CapacityLimiter(CLOSING_COUNT)
        async with trio.open_nursery() as nursery:
            for log in logs:
                nursery.start_soon(_close_one, log, limiter, failed)
    return failed


async def _close_one(log: Log, limiter: trio.CapacityLimiter, failed: list[Log]) -> None:
    async with limiter:
        try:
            await log.close()
        except KafkaError as error:
            _log.error("%s could not be closed in order: %s", log.topic_partition, error)
            failed.append(log)


async def _close_together(files: Files, lock: DirectoryLock, logs: Sequence[Log], failed: list[Log]) -> None:
    written: list[Log] = []
    async with trio.open_nursery() as nursery:
        for start in range(0, len(logs), WRITTEN_PER_TURN):
            nursery.start_soon(files.run_in_pool, partial(_write, logs[start : start + WRITTEN_PER_TURN], written, failed))
    try:
        await files.run_in_pool(lock.sync_file_system)
    except OSError as error:
        for log in written:
            _fail(log, error, failed)
        return
    for log in written:
        log.recovery_point = log.log_end_offset
        log.close_files()


def _write(logs: Sequence[Log], written: list[Log], failed: list[Log]) -> None:
    """Write what the next start goes by, syncing nothing; runs in the pool."""
    for log in logs:
        try:
            write_for_next_start(log)
        except OSError as error:
            _fail(log, error, failed)
        else:
            written.append(log)


def write_for_next_start(log: Log) -> None:
    """Write indexes, leader epochs and producers of a log that takes no more appends; blocks, and syncs nothing."""
    log.is_closed = True
    log.segments.active.finish_indexes()
    epochs = log.leader_epochs.take_changes()
    if epochs is not None:
        log.files.write_atomically(log.leader_epochs.path, epochs, is_synced=False)
    if log.log_end_offset > 0:
        log.producer_snapshots.take(log.log_end_offset, log.producer_state)
        log.producer_snapshots.remove_needless(segment.base_offset for segment in log.segments)


def _fail(log: Log, error: OSError, failed: list[Log]) -> None:
    answer = log.home.answer_to_sync(error)
    _log.error("%s could not be closed in order: %s", log.topic_partition, answer)
    if log.home.is_offline:
        note_failed_sync(log.files, log.directory)
    log.close_files()
    failed.append(log)
