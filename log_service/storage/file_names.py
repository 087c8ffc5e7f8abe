"""The names of the files and directories of logs, and their parsing.

Invariant: a name that is built here parses back to the same value. A name that Kafka would not use
parses to None.
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
    """Return the file name of ``offset``: 20 digits and the suffix."""
    return f"{offset:020d}{suffix}"


def parse_file_name(name: str, suffix: str) -> int | None:
    """Return the offset in a file's name, or None for any other name."""
    digits = name.removesuffix(suffix)
    if (
        len(digits) != _OFFSET_DIGITS
        or not name.endswith(suffix)
        or not digits.isascii()
        or not digits.isdigit()
    ):
        return None
    return int(digits)


def offsets_by_suffix(names: Iterable[str]) -> dict[str, list[int]]:
    """Return the offsets in the names of a directory's files, grouped by suffix such as ``.log``.

    Offsets are in the order of the names.
    """
    found: dict[str, list[int]] = {}
    for name in names:
        digits, dot, suffix = name.partition(".")
        if len(digits) == _OFFSET_DIGITS and digits.isascii() and digits.isdigit():
            found.setdefault(dot + suffix, []).append(int(digits))
    return found


def parse_directory_name(name: str) -> TopicPartition | None:
    """Return the partition of a directory name, or None for any other name.

    The names of deleted, stray and future logs give None too.
    """
    topic, dash, digits = name.rpartition("-")
    if not dash or not topic or not digits.isascii() or not digits.isdigit():
        return None
    return TopicPartition(topic, int(digits))


def temporary_path(path: Path) -> Path:
    """Return the path at which a file is written before it is renamed to ``path``.

    The next start removes a file that a crash leaves there.
    """
    return path.with_name(path.name + TEMPORARY_SUFFIX)


def set_aside_name(topic_partition: TopicPartition, suffix: str, unique: UUID) -> str:
    """Return ``<topic>-<partition>.<32 hex digits><suffix>``.

    Directories of deleted, stray and unfinished logs get such names. As in Kafka, a topic name that
    is too long for this is cut.
    """
    tail = f".{unique.hex}{suffix}"
    return str(topic_partition)[: _MAX_DIRECTORY_NAME - len(tail)] + tail


def is_set_aside(name: str, suffix: str) -> bool:
    """Return whether a directory's name was built by ``set_aside_name`` with this suffix."""
    unique = name.removesuffix(suffix).rpartition(".")[2]
    return (
        name.endswith(suffix)
        and len(unique) == 32
        and all(digit in "0123456789abcdef" for digit in unique)
    )
