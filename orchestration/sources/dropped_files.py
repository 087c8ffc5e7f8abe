"""Reads files dropped into a folder: their lines, rows or whole content become records, once.

This module decides which files are ready (visible, no longer written, oldest first), how a file
becomes records, and where it is moved afterwards. A sent file is moved to ``done/``. An unreadable
file is moved to ``rejected/``, with a text file that says why, before any of its records are sent.
A position names one file and the number of its records that were sent. All earlier files have left
the folder. So after a killed run the next run continues in the middle of a file. If the run was
killed between the last record and the move, the next run only moves the file. The log service is
not known here.

Invariant: files with the same name are distinguished by inode, size and time. A file that changes
while it is read fails the run.
"""

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from orchestration.log_client.protocol import OutgoingRecord
from orchestration.sources.json_rows import json_key, json_value
from orchestration.sources.reading import (
    Portion,
    Position,
    Situation,
    SourceError,
    portioned,
    size_of,
)

ReadAs = Literal["lines", "csv", "parquet", "whole"]
BY_SUFFIX: dict[str, ReadAs] = {".csv": "csv", ".parquet": "parquet"}
DONE, REJECTED = "done", "rejected"
UNFINISHED = (".tmp", ".part", ".crdownload", ".swp")
MAX_RECORD_BYTES = 1_000_000
"""The largest record, with key and headers.

A topic's default limit is a batch of 1,048,588 bytes.
"""
EXTRA = "_extra"
"""The field for a CSV row's values beyond its header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedFiles:
    """A folder whose files become records.

    ``key`` names the field of the record's key, or is None for no key. A file that was changed in
    the last ``settle_s`` seconds is ignored, because it may still be written.
    """

    folder: Path
    pattern: str = "*"
    read_as: ReadAs | None = None
    key: str | None = None
    settle_s: float = 2.0

    def is_wanting(self, _position: Position | None, now: datetime) -> bool:
        """Return whether there is a file that may be read."""
        return bool(self.ready(now))

    def ready(self, now: datetime) -> list[Path]:
        """Return the files that may be read, oldest first."""
        found = []
        for path in self.folder.glob(self.pattern) if self.folder.is_dir() else ():
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue
            is_visible = not path.name.startswith(".") and path.suffix not in UNFINISHED
            if is_visible and path.is_file() and stat.st_mtime <= now.timestamp() - self.settle_s:
                found.append((stat.st_mtime_ns, path.name, path))
        return [path for _, _, path in sorted(found)]

    def portions(
        self, position: Position | None, situation: Situation, note: Callable[[str], None]
    ) -> Iterator[Portion]:
        """Yield the records of the ready files, file by file, the position's file first."""
        begun = None if position is None else self._begun(position)
        files = self.ready(situation.now)
        for path in (
            [begun, *(one for one in files if one != begun)] if begun is not None else files
        ):
            identity = identity_of(path)
            is_begun = path == begun and position is not None
            if is_begun and position is not None and position["is_done"]:
                self.move(path, DONE)
                continue
            reason = None if is_begun else self.fault_of(path)
            if reason is not None:
                note(f"{path.name} is rejected: {reason}")
                self._reject(path, reason)
                continue
            yield from self._portions_of(
                path, identity, int(position["records"]) if is_begun and position is not None else 0
            )

    def _begun(self, position: Position) -> Path | None:
        """Return the file of the position, or None if it has left the folder.

        :raises SourceError: the file was changed after a part of it was sent.
        """
        path = self.folder / str(position["file"])
        if not path.is_file():
            return None
        if identity_of(path) == position["identity"]:
            return path
        if position["is_done"]:
            return None
        raise SourceError(
            f"{path} was changed or replaced after {position['records']} of its records were sent:"
            " what comes next in it is not known. Give the new file another name"
        )

    def _portions_of(self, path: Path, identity: list[int], sent: int) -> Iterator[Portion]:
        """Yield the unsent records of a file.

        The last portion may be empty, and marks the file as done.
        """
        numbered = (
            (self._record(path, number, value), number + 1)
            for number, value in enumerate(self._values(path))
            if number >= sent
        )
        count = sent
        for records, after in portioned(numbered):
            if identity_of(path) != identity:
                raise SourceError(
                    f"{path} was changed while it was read: let files come into the folder whole,"
                    " by a rename"
                )
            count = after
            yield Portion(
                records=records, position=self._position(path, identity, count, is_done=False)
            )
        done = self._position(path, identity, count, is_done=True)
        yield Portion(
            records=(),
            position=done,
            finish=lambda: _ignored(self.move(path, DONE)),
            counts={"files": 1},
        )

    def _position(
        self, path: Path, identity: list[int], records: int, *, is_done: bool
    ) -> Position:
        return {"file": path.name, "identity": identity, "records": records, "is_done": is_done}

    def _kind(self, path: Path) -> ReadAs:
        return self.read_as or BY_SUFFIX.get(path.suffix.lower(), "lines")

    def fault_of(self, path: Path) -> str | None:
        """Return why a file cannot be read, or None if it can.

        The whole file is checked, because none of its records may be sent otherwise.
        """
        try:
            for number, value in enumerate(self._values(path)):
                size = size_of(self._record(path, number, value))
                if size > MAX_RECORD_BYTES:
                    return (
                        f"its record {number} has {size} bytes, and one takes at most"
                        f" {MAX_RECORD_BYTES}"
                    )
        except UnicodeDecodeError as error:
            return f"it is not UTF-8: {error.reason} at byte {error.start} of a block"
        except (csv.Error, pa.ArrowException, ValueError) as error:
            return str(error).partition("\n")[0]
        return None

    def _values(self, path: Path) -> Iterator[Any]:
        """Yield the values in a file, one for each record: bytes, or a row as a mapping."""
        kind = self._kind(path)
        if kind == "whole":
            yield path.read_bytes()
        elif kind == "lines":
            with path.open("rb") as lines:
                yield from (line.rstrip(b"\r\n") for line in lines if line.strip())
        elif kind == "csv":
            with path.open(encoding="utf-8-sig", newline="") as text:
                yield from csv.DictReader(text, restkey=EXTRA, strict=True)
        else:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=1_000):
                    yield from batch.to_pylist()

    def _record(self, path: Path, number: int, value: Any) -> OutgoingRecord:
        headers = (("file", path.name.encode()), ("record", str(number).encode()))
        if isinstance(value, bytes):
            return OutgoingRecord(key=_key_in(value, self.key), value=value, headers=headers)
        key = (
            None if self.key is None or value.get(self.key) is None else json_key([value[self.key]])
        )
        return OutgoingRecord(key=key, value=json_value(value), headers=headers)

    def move(self, path: Path, where: str) -> Path:
        """Move a file into the subfolder ``where``, and return its path there.

        It gets a new name if its own is taken.
        """
        folder = self.folder / where
        folder.mkdir(exist_ok=True)
        place, number = folder / path.name, 1
        while place.exists():
            number += 1
            place = folder / f"{path.stem}.{number}{path.suffix}"
        path.rename(place)
        return place

    def _reject(self, path: Path, reason: str) -> None:
        place = self.move(path, REJECTED)
        place.with_name(f"{place.name}.reason.txt").write_text(f"{reason}\n")


def _ignored(_place: Path) -> None:
    """Drop the new path of a moved file, because ``Portion.finish`` returns nothing."""


def identity_of(path: Path) -> list[int]:
    """Return inode, size and time, which distinguish files with the same name."""
    stat = path.stat()
    return [stat.st_ino, stat.st_size, stat.st_mtime_ns]


def _key_in(value: bytes, field: str | None) -> bytes | None:
    """Return the key in a line of JSON, or None if it has none."""
    if field is None:
        return None
    try:
        found = json.loads(value)[field]
    except (ValueError, LookupError, TypeError):
        return None
    return None if found is None else json_key([found])
