"""What the files and directories of logs are called, and reading those names back.

Knows names only. Invariant: a name that was made here parses back to the same value, and a name that Kafka would not have made parses to
nothing.
"""

from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

from log_service.common.types import TopicPartition

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
TEMPORARY_SUFFIX = ".tmp"

DELETE_DIRECTORY_SUFFIX = "-delete"
STRAY_DIRECTORY_SUFFIX = "-stray"
FUTURE_DIRECTORY_SUFFIX = "-future"

SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

_OFFSET_DIGITS = 20
_MAX_DIRECTORY_NAME = 255


def file_name(offset: int, suffix: str) -> str:
    """Return the name of the segment file or snapshot of ``offset``: 20 digits and the suffix."""
    return f"{offset:020d}{suffix}"


def parse_file_name(name: str, suffix: str) -> int | None:
    """Return the offset in a file's name, None where it is no such name."""
    digits = name.removesuffix(suffix)
    if len(digits) != _OFFSET_DIGITS or not name.endswith(suffix) or not digits.isascii() or not digits.isdigit():
        return None
    return int(digits)


def offsets_by_suffix(names: Iterable[str]) -> dict[str, list[int]]:
    """Return the offsets in the names of a directory's files, by what follows them (``.log``), in the order of the names."""
    found: dict[str, list[int]] = {}
    for name in names:
        digits, dot, suffix = name.partition(".")
        if len(digits) == _OFFSET_DIGITS and digits.isascii() and digits.isdigit():
            found.setdefault(dot + suffix, []).append(int(digits))
    return found


def parse_directory_name(name: str) -> TopicPartition | None:
    """Return the partition that a directory is of; None for anything else, directories set aside among them."""
    topic, dash, digits = name.rpartition("-")
    if not dash or not topic or not digits.isascii() or not digits.isdigit():
        return None
    return TopicPartition(topic, int(digits))


def temporary_path(path: Path) -> Path:
    """Return where a file is written before it gets the name ``path``; what a crash leaves there goes at the next start."""
    return path.with_name(path.name + TEMPORARY_SUFFIX)


def set_aside_name(topic_partition: TopicPartition, suffix: str, unique: UUID) -> str:
    """Return ``<topic>-<partition>.<32 hex digits><suffix>``; a topic name that is too long for that is cut, as Kafka cuts it."""
    tail = f".{unique.hex}{suffix}"
    return str(topic_partition)[: _MAX_DIRECTORY_NAME - len(tail)] + tail


def is_set_aside(name: str, suffix: str) -> bool:
    """Whether a directory's name was made by ``set_aside_name`` with that suffix."""
    unique = name.removesuffix(suffix).rpartition(".")[2]
    return name.endswith(suffix) and len(unique) == 32 and all(digit in "0123456789abcdef" for digit in unique)
