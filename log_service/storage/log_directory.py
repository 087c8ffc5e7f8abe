"""The state that all logs of one log directory share: whether it may be written, whether it failed.

Decides which disk errors cost one append and which cost the directory. Knows nothing of what lies in it.

Invariants: once offline, always offline: only a restart brings a directory back. A full disk refuses appends and loses nothing. Appends
are refused before the disk is full, so that metadata, checkpoints and indexes have room: ``reserve_bytes`` are looked after every few
megabytes, and when the disk is full all the same, because others write to it, too.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeGuard

from log_service.common.env import Files
from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.common.types import TopicPartition
from log_service.storage.refused_access import own_name
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
_PASSING_ERRORS = _NO_DESCRIPTORS | frozenset({errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.EBADF, errno.ENOENT})


class LogDirectory:
    """One log directory. ``append_refusal`` is why nothing may be appended at the moment, None where it may."""

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

    def __init__(self, path: Path, *, free_bytes: Callable[[Path], int] | None = None, reserve_bytes: int = 0) -> None:
        """``free_bytes`` tells how much room the disk has; without it nothing is reserved."""
        self.path = path
        self.reserve_bytes = reserve_bytes
        self._unchecked_bytes = 0
        self._free_bytes = free_bytes
        self.on_full: Callable[[], None] = lambda: None
        self.append_refusal: str | None = None
        self.is_offline = False
        self.may_lack_records = False
        """Whether a start found in a log here what the end of a process alone does not leave."""
        self.on_failed: Callable[[LogDirectory, OSError], None] = lambda _directory, _error: None
        self.on_rolled: Callable[[TopicPartition], None] = lambda _topic_partition: None
        """Called when a log rolled: the segments before the active one are due for a sync in the background."""
        self.on_doubt: Callable[[Segment], object] = lambda segment: segment.doubt_indexes()
        """Called where the indexes of a large segment have to be built again, in the pool, before it can be used."""
        self.save_recovery_points: Callable[[], object] = lambda: None
        """Called after a recovery point was lowered and before the bytes behind it go; durable on return."""

        self.on_cut: Callable[[TopicPartition, int], object] = lambda _topic_partition, _offset: None
        """Called before a log is cut at an offset; what a file says of offsets behind it is lowered durably."""
        self.on_extent: Callable[[TopicPartition, Extent], object] = lambda _topic_partition, _extent: None
        """Called after a log came or grew by a segment, and before it is cut."""
        self.on_going: Callable[[TopicPartition], object] = lambda _topic_partition: None
        """Called before a log's directory loses its name."""

    def __repr__(self) -> str:
        return f"<LogDirectory {self.path} {'offline' if self.is_offline else 'full' if self.append_refusal else 'online'}>"

    def note_written(self, size_bytes: int) -> bool:
        """Count bytes that a log or the cleaner wrote, and look at the disk every ``SPACE_CHECK_BYTES``; says whether it was found full.

        Raises:
            OSError: the disk does not tell how much is free.
        """
        self._unchecked_bytes += size_bytes
        return self._unchecked_bytes > SPACE_CHECK_BYTES and self.check_space()

    def check_space(self) -> bool:
        """Refuse appends while less than ``reserve_bytes`` are free, and take them again once more are; says whether the disk is full."""
        self._unchecked_bytes = 0
        if self._free_bytes is None or self.is_offline:
            return False
        free_bytes = self._free_bytes(self.path)
        was_full = self.append_refusal is not None
        is_full = free_bytes < self.reserve_bytes
        self.append_refusal = (
            f"only {free_bytes} bytes are free for log directory {self.path}, less than the reserve of {self.reserve_bytes}; make room"
            if is_full
            else None
        )
        if is_full and not was_full:
            self.on_full()
        return is_full

    def fail(self, error: OSError) -> KafkaError:
        """Take the directory offline, call ``on_failed`` the first time, and return the error for the client."""
        if not self.is_offline:
            self.is_offline = True
            self.append_refusal = f"log directory {self.path} is offline since: {error}; look at the disk and restart"
            self.on_failed(self, error)
        return self.refused()

    def note_error(self, error: OSError) -> KafkaError:
        """Return the error for the client whose read or write failed; an error of the disk itself takes the directory offline.

        A full disk costs the append, and those behind it until there is room: the next batch of the same producer is not out of order.
        Missing descriptors, or a file that retention has just removed, cost the request.
        """
        if is_full_disk(error):
            with suppress(OSError):
                self.check_space()
            text = f"nothing can be written to log directory {self.path}: {error.strerror}; make room, reads go on"
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)
        if error.errno in _PASSING_ERRORS:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.path}: {error}; the request may be sent again")
        return self.fail(error)

    def note_sync_error(self, error: OSError) -> KafkaError:
        """Return the error for the client whose sync failed, which takes the directory offline unless the sync never began."""
        return self.note_error(error) if error.errno in _PASSING_ERRORS else self.fail(error)

    def replace_file(self, files: Files, path: Path, content: bytes) -> None:
        """Write a small file of a log durably, in a thread of the pool.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the disk is full: the file is what it was, and nothing that was synced before is in doubt.
            OSError: anything else; it counts as a failed sync.
        """
        try:
            files.write_atomically(path, content)
        except OSError as error:
            if is_full_disk(error):
                raise self.note_error(error) from error
            raise

    def refused(self) -> KafkaError:
        """Return the error for the client while ``append_refusal`` stands."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.append_refusal or f"log directory {self.path} does not take this now")


def is_failing_device(error: BaseException | None) -> TypeGuard[OSError]:
    """Whether an operation failed because of the disk itself, and not by what an operator has set up.

    A file system that has met errors and is mounted to be read only counts, too, as does one whose process or server is gone.
    """
    return isinstance(error, OSError) and error.errno in _DEVICE_ERRORS


def is_shortage(error: BaseException | None) -> bool:
    """Whether something failed for want of room or of descriptors: it may be tried again later."""
    cause = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    return is_full_disk(error) or (isinstance(cause, OSError) and cause.errno in _NO_DESCRIPTORS)


def is_full_disk(error: BaseException | None) -> bool:
    """Whether a write failed, or what it was the cause of, because there is no room: it may be tried again later."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return isinstance(error, OSError) and error.errno in _FULL_DISK_ERRORS


@contextmanager
def directory_named(path: Path) -> Iterator[None]:
    """Turn an error of the disk while a node starts into one that names its log directory, and says what to do.

    Raises:
        StorageError: the disk failed.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(f"log directory {path} cannot be used: {error}; {_advice(path, error)}, then start again") from error


def _advice(path: Path, error: OSError) -> str:
    if is_full_disk(error):
        return "the disk is full, make room"
    if error.errno == errno.EACCES:
        user = own_name()
        return f"let user {user} have all of it (mkdir -p {path} && chown -R {user} {path}) or run the node as its owner"
    return "look at the disk, and at whom the directory belongs to"
