"""Replacement of segments by the cleaned segment made from them, safe against crashes.

The order of steps is Kafka's. The new files are made durable as ``.cleaned`` and renamed to
``.swap``. From then on, the next start would finish the exchange. The old files are renamed to
``.deleted``, and the new ones get their final names. A reader that holds an old segment can read it
to the end, because the indexes are in memory and the file stays open until it is removed.

Invariants:

- A log's segments and its aborted transactions change in memory and on disk in one step, during
  which no other task runs.
- An exchange begins only below a durable recovery point, so that no start treats the offset gaps of
  compaction as lost records.
- Unless a start undoes an exchange, it uses the new index of aborted transactions, even if no
  batches end in ``.swap``. With old batches the new index does no harm, because it only lacks
  transactions of which no batch is left. The old index with new batches could do harm, because it
  may name transactions whose marker was removed.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from log_service.common.env import Files
from log_service.common.errors import StorageError
from log_service.config.views import LogConfig
from log_service.records.batch import CorruptBatch
from log_service.storage.aborted_transactions import AbortedTransaction, pack_index
from log_service.storage.file_names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    parse_file_name,
)
from log_service.storage.log import Log
from log_service.storage.segment import Segment

logger = logging.getLogger(__name__)


class PassAborted(Exception):  # noqa: N818 - it says what happened
    """The log changed during a pass, because it was deleted, truncated, cut by retention or closed.

    Segments that were exchanged before stay. The rest of the log is cleaned by a later pass.
    """


def new_cleaned_segment(log: Log, base_offset: int) -> Segment:
    """Create the segment that will replace the segments from ``base_offset`` on, and return it.

    The names of its files end in ``.cleaned``.
    """
    return Segment(
        log.files,
        log.directory,
        base_offset,
        log.config,
        created_ms=log.clock.wall_ms(),
        tail=CLEANED_SUFFIX,
    )


def discard(segment: Segment) -> None:
    """Remove the files of an unfinished cleaned segment, whichever suffix they have.

    The file of batches is removed before the indexes.
    """
    segment.close_file()
    for suffix in SEGMENT_SUFFIXES:
        for tail in (SWAP_SUFFIX, CLEANED_SUFFIX):
            segment.files.remove(segment.directory / file_name(segment.base_offset, suffix + tail))


def check_untouched(log: Log, segments: Sequence[Segment]) -> None:
    """Check that the log still has all of ``segments``.

    Raises:
        PassAborted: the log is closed or offline, or no longer has one of the segments.
    """
    if log.is_closed or log.home.is_offline:
        raise PassAborted
    held = set(log.segments)
    if not held.issuperset(segments):
        raise PassAborted


async def exchange(
    log: Log, old: Sequence[Segment], new: Segment, aborted: Sequence[AbortedTransaction] = ()
) -> None:
    """Replace ``old`` with ``new``, unless ``old`` has changed since ``new`` was made.

    ``old`` holds adjacent segments below the recovery point. ``aborted`` is the index of aborted
    transactions of ``new``, in the order of their markers.

    Raises:
        PassAborted: ``old`` has changed. The caller discards ``new``.
        KafkaError: KAFKA_STORAGE_ERROR, the disk failed during the exchange. The directory is
            offline.
        OSError: the disk failed, and nothing was exchanged.
    """
    sizes = [segment.size_bytes for segment in old]

    def prepare() -> None:
        new.finish_durably()
        if aborted:
            log.files.write_atomically(new.path(TXN_INDEX_SUFFIX), pack_index(aborted))
        log.home.save_recovery_points()
        for segment in old:
            segment.pin()
        new.rename(SWAP_SUFFIX)
        log.files.sync_directory(log.directory)

    await log.files.run_in_pool(prepare)
    check_untouched(log, old)
    if sizes != [segment.size_bytes for segment in old]:
        raise PassAborted
    log.exchange_segments(old, new, aborted)
    await log.files.run_in_pool(lambda: log.files.sync_directory(log.directory))


# After a crash


def finish_exchanges(
    files: Files, directory: Path, names: Sequence[str], config: LogConfig
) -> list[str]:
    """Finish or undo exchanges that a crash interrupted, and return the valid file names.

    An exchange is finished if its new files already end in ``.swap``. Any other one is undone.

    Raises:
        StorageError: a file of an exchange is damaged.
    """
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swapped = [name for name in names if name.endswith(SWAP_SUFFIX)]
    if not cleaned and not swapped:
        return list(names)
    first_cleaned = min(
        (offset for name in cleaned if (offset := _offset_of(name, CLEANED_SUFFIX)) is not None),
        default=None,
    )
    undone = [
        name
        for name in swapped
        if first_cleaned is not None and (_offset_of(name, SWAP_SUFFIX) or 0) >= first_cleaned
    ]
    kept = [name for name in swapped if name not in undone]
    base_offsets = [
        offset
        for name in kept
        if (offset := parse_file_name(name, LOG_SUFFIX + SWAP_SUFFIX)) is not None
    ]
    for name in [*undone, *cleaned]:
        files.remove(directory / name)
    for name in kept:
        if _offset_of(name, SWAP_SUFFIX) not in base_offsets:  # its batches have no .swap file
            if parse_file_name(name, TXN_INDEX_SUFFIX + SWAP_SUFFIX) is not None:
                # It cannot be rebuilt.
                files.rename(directory / name, directory / name.removesuffix(SWAP_SUFFIX))
                continue
            files.remove(directory / name)
            files.remove(directory / name.removesuffix(SWAP_SUFFIX))
    if base_offsets:
        _finish(files, directory, sorted(base_offsets), config)
    files.sync_directory(directory)
    return files.list_directory(directory)


def _finish(files: Files, directory: Path, base_offsets: list[int], config: LogConfig) -> None:
    end_offset = max(
        _end_offset(files, directory, base_offset, config) for base_offset in base_offsets
    )
    logger.warning(
        "%s: finishing the exchange of segments %d to %d, which a stop interrupted",
        directory,
        base_offsets[0],
        end_offset,
    )
    for name in files.list_directory(directory):
        offset = _offset_of(name, "")
        if offset is not None and base_offsets[0] <= offset < max(end_offset, base_offsets[0] + 1):
            files.remove(directory / name)
    files.sync_directory(directory)
    for base_offset in base_offsets:
        for suffix in SEGMENT_SUFFIXES:
            source = directory / file_name(base_offset, suffix + SWAP_SUFFIX)
            if files.exists(source):
                files.rename(source, directory / file_name(base_offset, suffix))


def _end_offset(files: Files, directory: Path, base_offset: int, config: LogConfig) -> int:
    """Return the offset after the last batch of a ``.swap`` segment."""
    path = directory / file_name(base_offset, LOG_SUFFIX + SWAP_SUFFIX)
    segment = Segment(
        files,
        directory,
        base_offset,
        config,
        created_ms=0,
        size_bytes=files.size_bytes(path),
        tail=SWAP_SUFFIX,
    )
    end_offset = base_offset
    try:
        for _, header in segment.headers(0):
            end_offset = header.next_offset
    except CorruptBatch as error:
        text = (
            f"{path} was durable before it got this name, and is damaged: {error}; restore it, or"
            f" move {directory} away"
        )
        raise StorageError(text) from error
    finally:
        segment.close_file()
    return end_offset


def _offset_of(name: str, tail: str) -> int | None:
    """Return the base offset in the name of a segment's file that ends in ``tail``, or None."""
    for suffix in SEGMENT_SUFFIXES:
        offset = parse_file_name(name, suffix + tail)
        if offset is not None:
            return offset
    return None
