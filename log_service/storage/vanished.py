"""Rewrite segments whose files another program removed while the node has them open.

An open file keeps its bytes until the process ends. Appends, reads and syncs succeed, so the loss
would be seen only at the next start, which would lack acknowledged records. The segment is copied
from the open file to its old name. An active segment rolls first, so that it does not grow
meanwhile. If a removed file is not open, this module does nothing. A read of the file fails, and so
does the next start.

Invariants:

- A copy gets the name only after it is durable, and only if the segment is still part of the log.
- If copying fails, the log directory goes offline, because the node would acknowledge records that
  it may lose. A full disk is the exception, and the next check tries again.
"""

import errno
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from log_service.common.env import File, Files
from log_service.common.errors import KafkaError
from log_service.storage.file_names import temporary_path
from log_service.storage.log import Log
from log_service.storage.log_directory import is_full_disk
from log_service.storage.segment import Segment

logger = logging.getLogger(__name__)
_COPY_BYTES = 1 << 20


async def restore_vanished(files: Files, logs: Iterable[Log]) -> None:
    """Find vanished segments of open logs and rewrite them."""
    held = [
        (log, segment) for log in logs for segment in log.segments if segment.open_file is not None
    ]
    if not held:
        return
    vanished = await files.run_in_pool(
        lambda: [(log, segment) for log, segment in held if _has_vanished(segment)]
    )
    for log, segment in vanished:
        if _is_due(log, segment):
            logger.error(
                "%s vanished while it was in use: it is written again from the open file",
                segment.path(),
            )
            try:
                await _restore(log, segment)
            except KafkaError as error:
                logger.error("%s: %s", log.topic_partition, error)


def _has_vanished(segment: Segment) -> bool:
    try:
        return (
            segment.open_file is not None
            and not segment.is_removed
            and not segment.files.exists(segment.path())
        )
    except OSError:
        return False  # unknown, and the next read or write meets the error


def _is_due(log: Log, segment: Segment) -> bool:
    return (
        not log.is_closed
        and not log.home.is_offline
        and segment in log.segments
        and _has_vanished(segment)
    )


async def _restore(log: Log, segment: Segment) -> None:
    files = log.files
    try:
        if not files.exists(log.directory):
            raise FileNotFoundError(
                errno.ENOENT, "the directory of a partition vanished", str(log.directory)
            )
        if segment is log.segments.active:
            log.roll()
        lease = segment.slice(0, segment.size_bytes)
        try:
            await _replace(log, segment)
        finally:
            lease.release()
    except OSError as error:
        if _is_due(log, segment):
            raise (
                log.home.note_error(error) if is_full_disk(error) else log.home.fail(error)
            ) from error


async def _replace(log: Log, segment: Segment) -> None:
    """Copy the open file, and replace it with the copy unless the segment has changed meanwhile.

    A lease keeps the old file open.
    """
    files, old, size_bytes = log.files, segment.open_file, segment.size_bytes
    assert old is not None, "it was leased"
    beside = temporary_path(segment.path())
    copy = await files.run_in_pool(lambda: _copy(files, old, beside, size_bytes))
    if (
        not _is_due(log, segment)
        or segment.open_file is not old
        or segment.size_bytes != size_bytes
    ):
        copy.close()
        files.remove(beside)
        return
    files.rename(beside, segment.path())
    segment.replace_file(copy)
    await files.run_in_pool(lambda: files.sync_directory(log.directory))


def _copy(files: Files, source: File, path: Path, size_bytes: int) -> File:
    copy = files.open(path)
    try:
        copy.truncate(0)
        for chunk in _chunks(source, size_bytes):
            copy.append_gathered([chunk])
        copy.sync_nowait()
    except OSError:
        copy.close()
        files.remove(path)
        raise
    return copy


def _chunks(source: File, size_bytes: int) -> Iterator[bytes]:
    for position in range(0, size_bytes, _COPY_BYTES):
        wanted_bytes = min(_COPY_BYTES, size_bytes - position)
        chunk = source.read(position, wanted_bytes)
        if len(chunk) < wanted_bytes:
            raise OSError(
                errno.EIO, "a file that vanished is shorter than it was", str(source.path)
            )
        yield chunk
