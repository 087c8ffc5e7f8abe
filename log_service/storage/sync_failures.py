"""The marker ``sync-failed`` in a partition's directory: a sync of this log failed, so that what is read may not be on the disk.

After a failed sync the operating system takes the pages for written: they can still be read, and the next sync succeeds without writing
them. A process that starts again on the same machine would acknowledge what only memory holds. So the log leaves the marker when a sync
fails, and recovery writes everything above the recovery point once more.

Decides the marker's name and life. Invariant: it goes only after all of that was written and synced. It need not be durable itself: a
machine that lost its memory reads what is on the disk.
"""

import logging
from collections.abc import Collection
from pathlib import Path

from log_service.common.env import Files

MARKER_FILE = "sync-failed"

logger = logging.getLogger(__name__)


def note_failed_sync(files: Files, directory: Path) -> None:
    """Leave the marker; a disk that does not even take that cannot be started on again."""
    try:
        files.open(directory / MARKER_FILE).close()
    except OSError as error:
        logger.error("%s: that a sync failed could not be noted: %s", directory, error)


def has_failed_sync(names: Collection[str]) -> bool:
    """Whether the marker is among the names in a partition's directory."""
    return MARKER_FILE in names


def forget_failed_sync(files: Files, directory: Path) -> None:
    """Remove the marker, durably."""
    files.remove(directory / MARKER_FILE)
    files.sync_directory(directory)
