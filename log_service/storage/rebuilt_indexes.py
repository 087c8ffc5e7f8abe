"""Index files that were built again: written beside their names, made durable together, and only then put in place.

Decides with how many syncs: one of the file system where there are many, as at the start of a node whose indexes are missing, else one of
each file. Knows nothing of what is in them.

Invariants: an index stands under its name only when all of it is durable: recovery believes what it finds below the recovery point. That
the name is durable is not waited for: what a loss of power takes away is built again, what was never put in place goes as a leftover.
"""

from pathlib import Path

from log_service.common.env import DirectoryLock, Files
from log_service.common.types import Buffer
from log_service.storage.file_names import temporary_path

LEAST_TOGETHER = 64
"""Fewer files are synced one by one: a sync of the file system waits for everybody who writes there."""


class RebuiltIndexes:
    """Those of one segment, or of a whole log directory, whose logs may be opened in several threads."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._paths: list[Path] = []

    def write(self, path: Path, content: Buffer) -> None:
        """Write what shall stand at ``path``; not there yet, and not synced."""
        file = self._files.open(temporary_path(path))
        try:
            file.truncate(0)
            file.append_gathered([content])
        finally:
            file.close()
        self._paths.append(path)

    def put_in_place(self, lock: DirectoryLock | None = None) -> None:
        """Make durable what was written and give it its names; blocks. ``lock`` is of the log directory that all of it is in.

        Raises:
            OSError: a sync failed, which is final; or a file could not be renamed.
        """
        paths, self._paths = self._paths, []
        if lock is not None and len(paths) >= LEAST_TOGETHER and lock.can_sync_file_system:
            lock.sync_file_system()
        else:
            for path in paths:
                self._sync(temporary_path(path))
        for path in paths:
            self._files.rename(temporary_path(path), path)

    def _sync(self, path: Path) -> None:
        file = self._files.open(path, create=False)
        try:
            file.sync_nowait()
        finally:
            file.close()
