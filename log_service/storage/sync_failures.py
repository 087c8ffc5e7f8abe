"""The marker ``sync-failed`` in the directory of a partition whose log had a failed sync.

After a failed sync, the operating system treats the pages as written. They can still be read, and
the next sync succeeds without writing them. A process that starts again on the same machine would
acknowledge data that exists only in memory. So the log writes the marker when a sync fails, and
recovery rewrites everything above the recovery point.

Invariant: the marker is removed only after recovery has written and synced all of this. The marker
itself need not be durable, because a machine that lost its memory reads the data on the disk.
"""

import logging
from collections.abc import Collection
from pathlib import Path

from log_service.common.env import Files

MARKER_FILE = "sync-failed"

logger = logging.getLogger(__name__)


def note_failed_sync(files: Files, directory: Path) -> None:
    """Write the marker. A failure is only logged.

    A node cannot start again on a disk that does not accept the marker.
    """
    try:
        files.open(directory / MARKER_FILE).close()
    except OSError as error:
        logger.error("%s: the marker of a failed sync could not be written: %s", directory, error)


def has_failed_sync(names: Collection[str]) -> bool:
    """Return whether the marker is among the names in a partition's directory."""
    return MARKER_FILE in names


def forget_failed_sync(files: Files, directory: Path) -> None:
    """Remove the marker durably."""
    files.remove(directory / MARKER_FILE)
    files.sync_directory(directory)
