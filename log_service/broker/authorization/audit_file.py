"""The audit log's file: lines are appended, and the file rolls when it is full.

Decides names and sizes. The current file has the configured name, the previous one has ``.1``
after the name, and so on. The oldest file is deleted. Each line is ``[time] LEVEL decision
(kafka.authorizer.logger)``, as Apache Kafka's log4j writes it, in the machine's time zone.

Invariant: no file is larger than ``max_bytes``, except one that holds a single line. There are at
most ``max_files``.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from log_service.common.env import Clock, File, Files
from log_service.common.quiet_log import QuietLogger
from log_service.config.views import AuditConfig
from log_service.security.audit import LOGGER_NAME, AuditEntry

logger = logging.getLogger(__name__)


class RollingFile:
    """A file that is renamed when it is full, and continued as an empty one.

    Every call may wait for the disk, and may raise OSError.
    """

    def __init__(self, files: Files, path: Path, *, max_bytes: int, max_files: int) -> None:
        self._files = files
        self._path = path
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._file: File | None = None

    def __repr__(self) -> str:
        return f"<RollingFile {self._path}>"

    def append(self, lines: Sequence[bytes]) -> None:
        """Append whole lines. Begin the next file once they do not fit any more."""
        file, together = self._opened(), bytearray()
        for line in lines:
            if file.size_bytes + len(together) + len(line) > self._max_bytes and (
                file.size_bytes or together
            ):
                file = self._rolled(file, together)
                together = bytearray()
            together += line
        self._write(file, together)

    def close(self) -> None:
        """Close the file. A later append opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> File:
        if self._file is None:
            self._files.make_directory(self._path.parent)
            self._file = self._files.open(self._path)
        return self._file

    def _rolled(self, file: File, rest: bytearray) -> File:
        self._write(file, rest)
        self.close()
        if self._max_files == 1:
            self._files.remove(self._path)
        for number in range(self._max_files - 1, 0, -1):
            older = self._numbered(number - 1)
            if self._files.exists(older):
                self._files.rename(older, self._numbered(number))
        return self._opened()

    def _write(self, file: File, content: bytearray) -> None:
        if content:
            file.append_gathered([content])

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


class AuditFile:
    """Writes decisions into the file of the configuration."""

    def __init__(self, files: Files, clock: Clock, path: Path, config: AuditConfig) -> None:
        self._files = files
        self._path = path
        self._rolling = RollingFile(
            files, path, max_bytes=config.max_file_bytes, max_files=config.max_files
        )
        self._quiet = QuietLogger(logger, clock.monotonic_ms)

    def __repr__(self) -> str:
        return f"<AuditFile {self._path}>"

    async def open(self) -> None:
        """Open the file.

        Raises:
            OSError: the file cannot be written.
        """
        await self._files.run_in_pool(lambda: self._rolling.append(()))

    async def write(self, entries: Sequence[AuditEntry]) -> bool:
        """Append decisions. Return whether they were written."""
        try:
            await self._files.run_in_pool(
                lambda: self._rolling.append([_line(entry) for entry in entries])
            )
        except OSError as error:
            self._rolling.close()
            self._quiet.warning(
                error.errno,
                "%d decisions are missing in the audit log %s: %s",
                len(entries),
                self._path,
                error,
            )
            return False
        return True

    def close(self) -> None:
        """Close the file."""
        self._rolling.close()


def _line(entry: AuditEntry) -> bytes:
    moment = datetime.fromtimestamp(entry.wall_ms / 1_000)  # noqa: DTZ006 - the machine's time, as log4j writes it
    text = (
        f"[{moment:%Y-%m-%d %H:%M:%S},{entry.wall_ms % 1_000:03}] {entry.level} {entry.line()}"
        f" ({LOGGER_NAME})\n"
    )
    return text.encode(errors="backslashreplace")
