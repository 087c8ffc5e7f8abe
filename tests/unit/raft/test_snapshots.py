"""A snapshot's bytes come back whole, and a peer can follow its offsets.

A broken one is refused.
"""

from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from log_service.common.errors import StorageError
from log_service.common.types import NodeId
from log_service.protocol.stored.control_records import KRaftVersionRecord
from log_service.protocol.stored.metadata_records import ConfigRecord
from log_service.raft.batches import decode_batches
from log_service.raft.log_view import SnapshotId
from log_service.raft.snapshots import (
    Snapshot,
    encode_snapshot,
    list_snapshots,
    read_snapshot,
    unfinished_snapshots,
)
from log_service.raft.voters import Voter, VoterEndpoint
from tests.sim.files import MemoryFiles

DIRECTORY = Path("/node/log")
ID = SnapshotId(2_600, 7)
RECORDS = tuple(
    ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value=str(number))
    for number in range(2_500)
)
VOTERS = (
    Voter(
        node_id=NodeId(1),
        directory_id=UUID(int=1_001),
        endpoints=(VoterEndpoint("CONTROLLER", "node1", 9093),),
    ),
)


def batches(voters: tuple[Voter, ...] = VOTERS) -> list[bytes]:
    return list(
        encode_snapshot(
            RECORDS, epoch=7, timestamp_ms=2_000, last_contained_timestamp_ms=1_000, voters=voters
        )
    )


def stored(content: bytes) -> MemoryFiles:
    files = MemoryFiles(rng=Random(1))
    files.make_directory(DIRECTORY)
    files.write_atomically(DIRECTORY / ID.file_name, content)
    return files


@pytest.mark.parametrize(
    "voters", [VOTERS, ()], ids=["voters are records", "voters are configuration"]
)
def test_a_snapshot_is_read_as_it_was_written(voters: tuple[Voter, ...]) -> None:
    files = stored(b"".join(batches(voters)))
    assert read_snapshot(files, DIRECTORY / ID.file_name, ID) == Snapshot(
        ID, RECORDS, voters, 1_000
    )


def test_each_batch_of_a_snapshot_begins_where_the_one_before_it_ends() -> None:
    found = list(decode_batches(b"".join(batches()), "snapshot"))
    offsets = [(batch.base_offset, batch.last_offset) for batch in found]
    assert [base for base, _ in offsets] == [0, *(last + 1 for _, last in offsets[:-1])]
    assert offsets[-1][1] == len(RECORDS) + 3, (
        "header, version and voters come before the records, the footer after them"
    )
    assert {(batch.epoch, batch.timestamp_ms) for batch in found} == {(7, 2_000)}


def test_a_snapshot_names_kraft_version_1_where_it_names_voters() -> None:
    def levels(voters: tuple[Voter, ...]) -> list[int]:
        opening = next(decode_batches(batches(voters)[0], "snapshot"))
        return [
            value.kraft_version
            for value in opening.control
            if isinstance(value, KRaftVersionRecord)
        ]

    assert (levels(VOTERS), levels(())) == ([1], [])


@pytest.mark.parametrize(
    "content",
    [b"", b"".join(batches()[:-1]), b"".join(batches()[1:]), b"".join(batches()[1:-1])],
    ids=["empty", "no footer", "no header", "records alone"],
)
def test_what_is_not_a_whole_snapshot_is_refused_by_name(content: bytes) -> None:
    with pytest.raises(
        StorageError, match=r"0000002600-0000000007\.checkpoint is not a whole snapshot"
    ):
        read_snapshot(stored(content), DIRECTORY / ID.file_name, ID)


def test_snapshots_are_told_from_other_files_and_listed_from_the_oldest() -> None:
    files = stored(b"")
    for name in (
        SnapshotId(90, 8).file_name,
        "bootstrap.checkpoint",
        f"{ID.file_name}.deleted",
        "0-0.checkpoint",
    ):
        files.write_atomically(DIRECTORY / name, b"")
    assert list_snapshots(files, DIRECTORY) == [SnapshotId(90, 8), ID]


def test_only_a_snapshot_that_was_not_finished_is_called_so() -> None:
    """Another file may be written at the same time, which would miss its temporary name."""
    files = stored(b"")
    for name in (f"{ID.file_name}.tmp", "synced-offset-checkpoint.tmp"):
        files.write_atomically(DIRECTORY / name, b"")
    assert unfinished_snapshots(files, DIRECTORY) == [f"{ID.file_name}.tmp"]
