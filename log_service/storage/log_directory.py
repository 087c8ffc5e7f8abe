"""The state shared by all logs of one log directory: whether it is writable and whether it failed.

This module decides which disk errors fail one append and which fail the directory. It does not know
the directory's content.

Invariants:

- An offline directory stays offline until a restart.
- On a full disk, appends are refused and nothing is lost.
- Appends are refused before the disk is full, so that there is room for metadata, checkpoints and
  indexes. The free space is compared with ``reserve_bytes`` every few megabytes. It is also
  compared when a write finds the disk full, because other programs write to it too.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeGuard

from log_service.common.env import Files
from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.common.types import TopicPartition
from log_service.storage.refused_access import own_name, remedy_of
from log_service.storage.running_logs import Extent
from log_service.storage.segment import Segment

SPACE_CHECK_BYTES = 8 << 20
_FULL_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DEVICE_ERRORS = frozenset(
    {
        errno.EIO,
        errno.EROFS,
        errno.ENXIO,
        errno.ENODEV,
        errno.ESTALE,
        errno.EREMOTEIO,
        errno.EUCLEAN,
        errno.EBADMSG,
        errno.ETIMEDOUT,
        errno.ENOTCONN,
    }
)
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_PASSING_ERRORS = _NO_DESCRIPTORS | frozenset(
    {errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.EBADF, errno.ENOENT}
)


class LogDirectory:
    """One log directory.

    ``append_refusal`` is the current reason for refusing appends, or None.
    """

    __slots__ = (
        "_free_bytes",
        "_unchecked_bytes",
        "append_refusal",
        "is_offline",
        "may_lack_records",
        "on_cut",
        "on_doubt",
        "on_extent",
        "on_failed",
        "on_full",
        "on_going",
        "on_rolled",
        "path",
        "reserve_bytes",
        "save_recovery_points",
    )

    def __init__(
        self, path: Path, *, free_bytes: Callable[[Path], int] | None = None, reserve_bytes: int = 0
    ) -> None:
        """Create the state of an online directory.

        ``free_bytes`` returns the free space of a path's file system. Without it, no space is
        reserved.
        """
        self.path = path
        self.reserve_bytes = reserve_bytes
        self._unchecked_bytes = 0
        self._free_bytes = free_bytes
        self.on_full: Callable[[], None] = lambda: None
        self.append_refusal: str | None = None
        self.is_offline = False
        self.may_lack_records = False
        """Whether a start found a fault here that cannot result from the end of a process alone."""
        self.on_failed: Callable[[LogDirectory, OSError], None] = lambda _directory, _error: None
        self.on_rolled: Callable[[TopicPartition], None] = lambda _topic_partition: None
        """Called after a log has rolled. Its older segments must be synced in the background."""
        self.on_doubt: Callable[[Segment], object] = lambda segment: segment.doubt_indexes()
        """Called when a large segment's indexes must be rebuilt in the pool before their use."""
        self.save_recovery_points: Callable[[], object] = lambda: None
        """Called after a recovery point was lowered, before the bytes above it are removed.

        The recovery points are durable on return.
        """

        self.on_cut: Callable[[TopicPartition, int], object] = lambda _topic_partition, _offset: (
            None
        )
        """Called before a log is truncated, to durably lower the larger offsets in checkpoints."""
        self.on_extent: Callable[[TopicPartition, Extent], object] = (
            lambda _topic_partition, _extent: None
        )
        """Called after a log was added or grew by a segment, and before it is truncated."""
        self.on_going: Callable[[TopicPartition], object] = lambda _topic_partition: None
        """Called before a log's directory is renamed for removal."""

    def __repr__(self) -> str:
        return (
            f"<LogDirectory {self.path}"
            f" {'offline' if self.is_offline else 'full' if self.append_refusal else 'online'}>"
        )

    def note_written(self, size_bytes: int) -> bool:
        """Count bytes written by a log or the cleaner. Return whether the disk was found full.

        The free space is checked every ``SPACE_CHECK_BYTES``.

        Raises:
            OSError: the free space cannot be determined.
        """
        self._unchecked_bytes += size_bytes
        return self._unchecked_bytes > SPACE_CHECK_BYTES and self.check_space()

    def check_space(self) -> bool:
        """Refuse appends while less than ``reserve_bytes`` are free.

        Return whether they are refused.

        Appends are accepted again when more bytes are free.
        """
        self._unchecked_bytes = 0
        if self._free_bytes is None or self.is_offline:
            return False
        free_bytes = self._free_bytes(self.path)
        was_full = self.append_refusal is not None
        is_full = free_bytes < self.reserve_bytes
        self.append_refusal = (
            f"only {free_bytes} bytes are free for log directory {self.path}, less than the reserve"
            f" of {self.reserve_bytes}; make room"
            if is_full
            else None
        )
        if is_full and not was_full:
            self.on_full()
        return is_full

    def fail(self, error: OSError) -> KafkaError:
        """Take the directory offline and return the error for the client.

        ``on_failed`` is called only at the first failure.
        """
        if not self.is_offline:
            self.is_offline = True
            remedy = remedy_of(error) or "look at the disk"
            self.append_refusal = (
                f"log directory {self.path} is offline since: {error}; {remedy} and restart"
            )
            self.on_failed(self, error)
        return self.refused()

    def note_error(self, error: OSError) -> KafkaError:
        """Return the error for a client whose read or write failed.

        An error of the disk itself takes the directory offline. A full disk fails the append, and
        later appends until there is room. So the next batch of the same producer fails in the same
        way, instead of being out of order. A lack of descriptors, or a file that retention has just
        removed, fails only this request.
        """
        if is_full_disk(error):
            with suppress(OSError):
                self.check_space()
            text = (
                f"nothing can be written to log directory {self.path}: {error.strerror}; make room,"
                " reads go on"
            )
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)
        if error.errno in _PASSING_ERRORS:
            return KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"log directory {self.path}: {error}; the request may be sent again",
            )
        return self.fail(error)

    def note_sync_error(self, error: OSError) -> KafkaError:
        """Return the error for a client whose sync failed.

        The failure takes the directory offline unless the sync never began.
        """
        return self.note_error(error) if error.errno in _PASSING_ERRORS else self.fail(error)

    def replace_file(self, files: Files, path: Path, content: bytes) -> None:
        """Replace a small file of a log durably. Blocks, so call it in the thread pool.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the disk is full. The file is unchanged, and earlier
                syncs remain valid.
            OSError: any other error. It counts as a failed sync.
        """
        try:
            files.write_atomically(path, content)
        except OSError as error:
            if is_full_disk(error):
                raise self.note_error(error) from error
            raise

    def refused(self) -> KafkaError:
        """Return the error for a client whose request this directory refuses now.

        Its text is ``append_refusal``, if that is set.
        """
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            self.append_refusal or f"log directory {self.path} does not accept this now",
        )


def is_failing_device(error: BaseException | None) -> TypeGuard[OSError]:
    """Return whether an operation failed because the disk or its file system is broken.

    Missing rights, names or space do not count. A file system that became read-only after errors
    counts, as does a file system whose process or server has ended.
    """
    return isinstance(error, OSError) and error.errno in _DEVICE_ERRORS


def is_shortage(error: BaseException | None) -> bool:
    """Return whether space or descriptors were lacking. A retry may succeed."""
    cause = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    return is_full_disk(error) or (isinstance(cause, OSError) and cause.errno in _NO_DESCRIPTORS)


def is_full_disk(error: BaseException | None) -> bool:
    """Return whether an error, or its cause, is a lack of space. A retry may succeed."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return isinstance(error, OSError) and error.errno in _FULL_DISK_ERRORS


@contextmanager
def directory_named(path: Path) -> Iterator[None]:
    """Turn a disk error during a start into an error that names the log directory and a remedy.

    Raises:
        StorageError: the disk failed.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"log directory {path} cannot be used: {error}; {_advice(path, error)}, then start"
            " again"
        ) from error


def _advice(path: Path, error: OSError) -> str:
    if is_full_disk(error):
        return "the disk is full, make room"
    if error.errno == errno.EACCES:
        user = own_name()
        return (
            f"let user {user} have all of it (mkdir -p {path} && chown -R {user} {path}) or run the"
            " node as its owner"
        )
    return remedy_of(error) or "look at the disk, and at whom the directory belongs to"
