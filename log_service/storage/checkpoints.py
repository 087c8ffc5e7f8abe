"""Checkpoint files of offsets in Kafka's text format.

A checkpoint has a version line, a count and one line per entry. This module defines the format and
detects damage. It does not interpret the offsets. A checkpoint is always replaced as a whole, so a
reader finds either the old or the new content.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from log_service.common.env import Files
from log_service.common.errors import StorageError
from log_service.common.types import TopicPartition

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"

_VERSION = "0"


def parse_lines(path: Path, content: bytes) -> list[list[str]]:
    """Return the fields of each entry of a checkpoint's content.

    An empty file has no entries, because Apache Kafka leaves unwritten checkpoints empty. ``path``
    is used only in errors.

    Raises:
        StorageError: the version is unknown, or the count is not the number of entries.
    """
    if not content:
        return []
    try:
        lines = content.decode("utf-8").splitlines()
        version, count = lines[0].strip(), int(lines[1])
    except (IndexError, ValueError) as error:
        text = (
            f"{path} is not a checkpoint ({error}): restore it, or remove it so that its content is"
            " determined again"
        )
        raise StorageError(text) from error
    entries = [line.split() for line in lines[2:] if line.strip()]
    if version != _VERSION or count != len(entries):
        text = (
            f"{path} is damaged: version {version!r}, {len(entries)} entries where it announces"
            f" {count}"
        )
        raise StorageError(text)
    return entries


def format_lines(lines: Iterable[str]) -> bytes:
    """Return the content of a checkpoint with these entries."""
    entries = list(lines)
    return "\n".join([_VERSION, str(len(entries)), *entries, ""]).encode()


def read_offsets(files: Files, path: Path) -> dict[TopicPartition, int]:
    """Return the offset of each partition.

    A missing file has no entries.

    Raises:
        StorageError: the file is damaged.
    """
    try:
        entries = parse_lines(path, files.read_bytes(path))
    except FileNotFoundError:
        return {}
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partition, offset in entries
        }
    except ValueError as error:
        text = f"{path} is damaged: an entry is not `topic partition offset`"
        raise StorageError(text) from error


def write_offsets(files: Files, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint by one with ``offsets``. The new content is durable on return."""
    files.write_atomically(
        path,
        format_lines(f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items()),
    )
