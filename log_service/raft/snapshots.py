"""Snapshots of the metadata log: ``<end offset>-<epoch>.checkpoint`` and ``bootstrap.checkpoint``.

This file decides names and content. A snapshot begins with a control batch, which holds the header.
If voters are records, it also holds the KRaft version and the voters. Batches of records follow,
and a control batch with the footer ends the snapshot. A file without a footer is unfinished and is
not a snapshot. This file does not interpret the records.

Invariants: A snapshot holds everything below its offset, and all of it was committed. A snapshot is
written under a temporary name, synced and renamed.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from log_service.common.env import Files
from log_service.common.errors import StorageError
from log_service.common.features import DYNAMIC_QUORUM
from log_service.protocol.stored.control_records import (
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from log_service.protocol.stored.metadata_records import MetadataRecord
from log_service.raft.batches import (
    ControlValue,
    decode_batches,
    encode_control,
    encode_records,
    kraft_version,
    voters_of,
    voters_record,
)
from log_service.raft.log_view import SnapshotId
from log_service.raft.voters import Voter
from log_service.records.control import ControlType
from log_service.storage.file_names import TEMPORARY_SUFFIX

BOOTSTRAP_FILE = "bootstrap.checkpoint"
NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
RECORDS_PER_BATCH = 1_000


class Snapshot(NamedTuple):
    """The content of a snapshot. ``voters`` is empty if the snapshot names none."""

    id: SnapshotId
    records: tuple[MetadataRecord, ...]
    voters: tuple[Voter, ...]
    last_contained_timestamp_ms: int


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """Return the id in a snapshot's file name, or None for any other file."""
    match = NAME.fullmatch(name)
    return SnapshotId(int(match[1]), int(match[2])) if match else None


def list_snapshots(files: Files, directory: Path) -> list[SnapshotId]:
    """Return the snapshots of a directory, oldest first."""
    return sorted(
        found
        for name in files.list_directory(directory)
        if (found := parse_snapshot_name(name)) is not None
    )


def unfinished_snapshots(files: Files, directory: Path) -> list[str]:
    """Return the names of unfinished snapshots that a crash left."""
    names = [name for name in files.list_directory(directory) if name.endswith(TEMPORARY_SUFFIX)]
    return [name for name in names if parse_snapshot_name(name.removesuffix(TEMPORARY_SUFFIX))]


def encode_snapshot(
    records: Iterable[MetadataRecord],
    *,
    epoch: int,
    timestamp_ms: int,
    last_contained_timestamp_ms: int,
    voters: Sequence[Voter] = (),
) -> Iterator[bytes]:
    """Yield the batches of a snapshot. Their offsets begin at 0 and have no meaning."""
    header = SnapshotHeaderRecord(
        version=0, last_contained_log_timestamp=last_contained_timestamp_ms
    )
    opening: list[tuple[ControlType, ControlValue]] = [(ControlType.SNAPSHOT_HEADER, header)]
    if voters:
        opening += [kraft_version(DYNAMIC_QUORUM), voters_record(voters)]
    yield encode_control(opening, base_offset=0, epoch=epoch, timestamp_ms=timestamp_ms)
    offset = len(opening)
    remaining = iter(records)
    while batch := list(islice(remaining, RECORDS_PER_BATCH)):
        yield encode_records(batch, base_offset=offset, epoch=epoch, timestamp_ms=timestamp_ms)
        offset += len(batch)
    footer = [(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))]
    yield encode_control(footer, base_offset=offset, epoch=epoch, timestamp_ms=timestamp_ms)


def read_snapshot(files: Files, path: Path, snapshot_id: SnapshotId) -> Snapshot:
    """Return the content of a snapshot. Blocks.

    Raises:
        StorageError: the snapshot is damaged or unfinished.
        FileNotFoundError: there is no such snapshot.
    """
    records: list[MetadataRecord] = []
    control: list[ControlValue] = []
    for batch in decode_batches(files.read_bytes(path), str(path)):
        records += batch.records
        control += batch.control
    if (
        not control
        or not isinstance(control[0], SnapshotHeaderRecord)
        or not isinstance(control[-1], SnapshotFooterRecord)
    ):
        raise StorageError(
            f"{path} is not a whole snapshot: it must begin with a header and end with a footer;"
            " restore it from a copy"
        )
    voters = next((voters_of(value) for value in control if isinstance(value, VotersRecord)), ())
    return Snapshot(snapshot_id, tuple(records), voters, control[0].last_contained_log_timestamp)
