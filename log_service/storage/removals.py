"""Delayed removal of files and directories, ``file.delete.delay.ms`` after they were renamed.

This module decides only when they are removed. It does not know logs. If the process ends before a
removal, the next start recognizes the file by its name.
"""

import heapq
import logging
from collections.abc import Callable
from itertools import count
from pathlib import Path

from log_service.common.env import Files

logger = logging.getLogger(__name__)


class PendingRemovals:
    """A heap of paths to remove and callbacks that close files, by due time in monotonic ms."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._heap: list[tuple[int, int, Path | Callable[[], None]]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._heap)

    def schedule(self, paths: list[Path], due_ms: int) -> None:
        """Remove ``paths`` at ``due_ms``. A directory is removed with its content."""
        for path in paths:
            heapq.heappush(self._heap, (due_ms, next(self._order), path))

    def schedule_release(self, release: Callable[[], None], due_ms: int) -> None:
        """Call ``release`` at ``due_ms``. It closes files that readers may still hold."""
        heapq.heappush(self._heap, (due_ms, next(self._order), release))

    def release_all(self) -> None:
        """Call every ``release`` now, because there are no readers any more. Remove nothing."""
        for _, _, what in self._heap:
            if not isinstance(what, Path):
                what()
        self._heap.clear()

    @property
    def next_due_ms(self) -> int | None:
        """The due time of the next entry, or None."""
        return self._heap[0][0] if self._heap else None

    async def run_due(self, now_ms: int) -> int:
        """Remove the due paths and call the due callbacks in the thread pool. Return their number.

        A path that cannot be removed is left for the next start.
        """
        due: list[Path | Callable[[], None]] = []
        while self._heap and self._heap[0][0] <= now_ms:
            due.append(heapq.heappop(self._heap)[2])
        if due:
            await self._files.run_in_pool(lambda: self._unlink(due))
        return len(due)

    def _unlink(self, due: list[Path | Callable[[], None]]) -> None:
        for path in due:
            if not isinstance(path, Path):
                path()
                continue
            try:
                if self._files.is_directory(path):
                    self._files.remove_tree(path)
                else:
                    self._files.remove(path)
            except OSError as error:
                logger.warning(
                    "%s could not be removed (%s); the next start tries again", path, error
                )
