"""Close the logs of one log directory in order, so that the next start need not recover them.

This module decides whether each log is synced separately or all logs with one sync of the file
system. ``log_manager`` chooses the logs that have changes to write. If all logs were closed,
``log_manager`` also writes the marker of a clean stop.
"""

import logging
from collections.abc import Sequence
from functools import partial

import trio

from log_service.common.env import DirectoryLock, Files
from log_service.common.errors import KafkaError
from log_service.storage.log import Log

logger = logging.getLogger(__name__)
LEAST_TOGETHER = 64
"""The least number of logs that are closed together.

A file system sync waits for other processes, so a few logs are closed one by one.
"""
WRITTEN_PER_TURN = 64
CLOSING_COUNT = 16


async def close_logs(files: Files, lock: DirectoryLock, logs: Sequence[Log]) -> list[Log]:
    """Close logs of one online directory, and return the logs that could not be closed in order.

    ``lock`` is the directory's lock. A log that is not returned is durable, including everything
    that its next start reads. A few logs are closed one by one. Many logs are closed with one sync
    of the file system, because ten thousand logs are ninety thousand files and directories, and
    separate syncs would take too long. If the sync of the file system fails, every log that it
    covered counts as failed.
    """
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
            _note_failed(log, error, failed)


async def _close_together(
    files: Files, lock: DirectoryLock, logs: Sequence[Log], failed: list[Log]
) -> None:
    written: list[Log] = []
    async with trio.open_nursery() as nursery:
        for start in range(0, len(logs), WRITTEN_PER_TURN):
            nursery.start_soon(
                files.run_in_pool,
                partial(_begin_close, logs[start : start + WRITTEN_PER_TURN], written, failed),
            )
    sync_error = None
    try:
        await files.run_in_pool(lock.sync_file_system)
    except OSError as error:
        sync_error = error
    for log in written:
        _end_close(log, sync_error, failed)


def _begin_close(logs: Sequence[Log], written: list[Log], failed: list[Log]) -> None:
    """Write the files that the next start of ``logs`` reads, without syncing. Runs in the pool."""
    for log in logs:
        try:
            log.begin_close()
        except OSError as error:
            _end_close(log, error, failed)
        else:
            written.append(log)


def _end_close(log: Log, error: OSError | None, failed: list[Log]) -> None:
    refusal = log.end_close(error)
    if refusal is not None:
        _note_failed(log, refusal, failed)


def _note_failed(log: Log, error: KafkaError, failed: list[Log]) -> None:
    logger.error("%s could not be closed in order: %s", log.topic_partition, error)
    failed.append(log)
