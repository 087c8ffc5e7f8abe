"""The file ``tidelog-running-logs``, which lists a directory's logs and their offset ranges.

This module defines the content of the file, and decides when it is trusted. Each line replaces an
earlier line of its partition. A line that adds something is written after the files exist. A line
that removes something is written before the files are removed. Therefore everything in the list
exists at every moment, and a kill at any moment leaves a correct list. If a start does not find a
listed file, something else removed it.

Invariants:

- The file is never synced. Like ``tidelog-running``, it is trusted only with the page cache in
  which it was written.
- It names the epoch of its run.
- A run that cannot write the file any more calls ``on_failed``, and then has no list.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from uuid import UUID

from log_service.common.env import File, Files
from log_service.common.types import TopicId, TopicPartition
from log_service.storage import page_cache

RUNNING_LOGS_FILE = "tidelog-running-logs"
NEEDLESS_LINES = 10_000
"""The file is rewritten when it has this many more lines than there are logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The offsets and segments that a log certainly had at the end of a run.

    The log starts at or before ``start_offset`` and ends at or after ``end_offset``. Between them,
    segments begin at each of ``base_offsets``, and perhaps at other offsets. ``topic_id`` is None
    if it was not known.
    """

    topic_id: TopicId | None
    start_offset: int
    end_offset: int
    base_offsets: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class ListedLogs:
    """The listed logs of a log directory, and the checkpoints that were written."""

    broker_epoch: int
    extents: dict[TopicPartition, Extent] = field(default_factory=dict)
    checkpoints: set[str] = field(default_factory=set)


def read_running_logs(files: Files, directory: Path) -> ListedLogs | None:
    """Return the list that the node's last run left in a directory, or None without a trusted one.

    A list is not trusted if it is damaged, or was written with another page cache. An incomplete
    last line is ignored.
    """
    try:
        *lines, _torn = files.read_bytes(directory / RUNNING_LOGS_FILE).split(b"\n")
        first, *entries = [json.loads(line) for line in lines]
        if not page_cache.is_same_page_cache(first["pageCacheId"], files.page_cache_id(directory)):
            return None
        listed = ListedLogs(broker_epoch=int(first["brokerEpoch"]))
        for entry in entries:
            _take_line(listed, entry)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return listed


def _take_line(listed: ListedLogs, entry: list[object]) -> None:
    match entry:
        case [str(name)]:
            listed.checkpoints.add(name)
        case [str(topic), int(index)]:
            listed.extents.pop(TopicPartition(topic, index), None)
        case [
            str(topic),
            int(index),
            str(topic_id),
            int(start_offset),
            int(end_offset),
            list(base_offsets),
        ]:
            listed.extents[TopicPartition(topic, index)] = Extent(
                topic_id=TopicId(UUID(topic_id)) if topic_id else None,
                start_offset=start_offset,
                end_offset=end_offset,
                base_offsets=tuple(int(str(offset)) for offset in base_offsets),
            )
        case _:
            raise ValueError(entry)


def _line(entry: object) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def _extent_line(topic_partition: TopicPartition, extent: Extent) -> bytes:
    topic_id = "" if extent.topic_id is None else str(extent.topic_id)
    offsets = [extent.start_offset, extent.end_offset, extent.base_offsets]
    return _line([topic_partition.topic, topic_partition.partition, topic_id, *offsets])


class RunningLogs:
    """The list of one log directory while the node runs.

    Nothing is written before ``begin``. Any thread may call the methods. ``on_failed`` is called
    once when the file cannot be written any more. The file must not be trusted then.
    """

    def __init__(self, files: Files, directory: Path, on_failed: Callable[[OSError], None]) -> None:
        self._files = files
        self._directory = directory
        self._on_failed = on_failed
        self._file: File | None = None
        self._listed = ListedLogs(broker_epoch=-1)
        self._line_count = 0
        self._guard = Lock()

    def __repr__(self) -> str:
        return (
            f"<RunningLogs {self._directory}"
            f" logs={len(self._listed.extents)}{'' if self._file else ', not written'}>"
        )

    def begin(
        self,
        broker_epoch: int,
        extents: Mapping[TopicPartition, Extent],
        checkpoints: Iterable[str],
    ) -> None:
        """Replace the previous run's list by the logs that exist when a run begins.

        Raises:
            OSError: the disk failed or is full. This run has no list.
        """
        with self._guard:
            self._close()
            self._listed = ListedLogs(
                broker_epoch=broker_epoch, extents=dict(extents), checkpoints=set(checkpoints)
            )
            self._write_all()

    def _write_all(self) -> None:
        page_cache_id = self._files.page_cache_id(self._directory)
        if page_cache_id is None:
            return
        listed, path = self._listed, self._directory / RUNNING_LOGS_FILE
        lines = [
            _line({"version": 0, "brokerEpoch": listed.broker_epoch, "pageCacheId": page_cache_id})
        ]
        lines += [_line([name]) for name in sorted(listed.checkpoints)]
        lines += [
            _extent_line(topic_partition, extent)
            for topic_partition, extent in listed.extents.items()
        ]
        self._files.write_atomically(path, b"".join(lines), is_synced=False)
        self._file = self._files.open(path)
        self._line_count = len(lines)

    def note(self, topic_partition: TopicPartition, extent: Extent) -> None:
        """Add a log to the list, or change its extent."""
        with self._guard:
            if self._listed.extents.get(topic_partition) != extent:
                self._listed.extents[topic_partition] = extent
                error = self._append(_extent_line(topic_partition, extent))
            else:
                error = None
        self._report(error)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Remove a log from the list, because its files are about to be removed."""
        error = None
        with self._guard:
            if self._listed.extents.pop(topic_partition, None) is not None:
                error = self._append(_line([topic_partition.topic, topic_partition.partition]))
        self._report(error)

    def note_checkpoint(self, name: str) -> None:
        """Add a written checkpoint to the list."""
        error = None
        with self._guard:
            if name not in self._listed.checkpoints:
                self._listed.checkpoints.add(name)
                error = self._append(_line([name]))
        self._report(error)

    def _append(self, line: bytes) -> OSError | None:
        if self._file is None:
            return None
        try:
            self._line_count += 1
            if self._line_count > len(self._listed.extents) + NEEDLESS_LINES:
                self._close()
                self._write_all()
            else:
                self._file.append_gathered([line])
        except OSError as error:
            self._close()
            return error
        return None

    def _report(self, error: OSError | None) -> None:
        """Report a failure without holding the guard, because the callback may remove files."""
        if error is not None:
            self._on_failed(error)

    def end(self) -> None:
        """Close the file and write no more."""
        with self._guard:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
