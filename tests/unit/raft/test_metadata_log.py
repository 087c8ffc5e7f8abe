"""A fetched snapshot takes the place of the metadata log at any crash.

Snapshots and log keep step.
"""

from pathlib import Path
from random import Random

import pytest

from log_service.common.clock import SystemClock
from log_service.common.errors import StorageError
from log_service.common.types import LeaderEpoch, NodeId
from log_service.config.views import MetadataLogConfig
from log_service.protocol.stored.metadata_records import ConfigRecord, MetadataRecord
from log_service.raft.batches import encode_records
from log_service.raft.events import AppendControl, AppendFetched, StoreSlice
from log_service.raft.log_view import SnapshotId
from log_service.raft.metadata_log import METADATA_PARTITION, MetadataLog
from log_service.raft.snapshots import Snapshot, encode_snapshot
from log_service.raft.voters import ReplicaKey, Voter, VoterEntry, VoterSet
from log_service.storage.files import RealFiles
from tests.sim.disk import Crashed
from tests.sim.files import MemoryFiles
from tests.unit.raft.node import DIRECTORY, METADATA
from tests.unit.raft.quorum import directory, voter

OWN = ReplicaKey(NodeId(1), directory(1))
VOTERS = VoterEntry(0, 1, VoterSet((voter(1),)))
OLD, NEW = SnapshotId(2, 1), SnapshotId(50, 3)


def config(value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value=value)


def opened(files: MemoryFiles) -> tuple[MetadataLog, Snapshot | None]:
    log = MetadataLog(files, SystemClock(), DIRECTORY, MetadataLogConfig())
    return log, log.open()


def append(log: MetadataLog, *values: str, epoch: int = 1) -> None:
    """Append each record as a batch of its own, as a leader of ``epoch`` sends them."""
    for value in values:
        records = encode_records(
            [config(value)], base_offset=log.end_offset, epoch=epoch, timestamp_ms=0
        )
        assert log.append_fetched(AppendFetched(records=records, max_epoch=LeaderEpoch(epoch)))


def values(log: MetadataLog, start_offset: int) -> list[str | None]:
    return [
        record.value
        for batch in log.read_batches(start_offset)
        for record in batch.records
        if isinstance(record, ConfigRecord)
    ]


def slices(snapshot_id: SnapshotId, *values: str) -> list[StoreSlice]:
    """A snapshot in slices of a hundred bytes, as a leader sends it."""
    records: list[MetadataRecord] = [config(value) for value in values]
    content = b"".join(
        encode_snapshot(
            records, epoch=snapshot_id.epoch, timestamp_ms=0, last_contained_timestamp_ms=0
        )
    )
    starts = range(0, len(content), 100)
    return [
        StoreSlice(
            snapshot_id=snapshot_id,
            position=at,
            content=content[at : at + 100],
            is_last=at == starts[-1],
        )
        for at in starts
    ]


def with_old_snapshot(files: MemoryFiles) -> MetadataLog:
    """A log of four records, the first two of which a snapshot holds too."""
    log, _ = opened(files)
    append(log, "1", "2")
    log.write_snapshot(2, [config("1"), config("2")], VOTERS)
    log.remove_old_snapshots()
    append(log, "3", "4")
    return log


class Crashing:
    """Lets so many operations of the disk pass, and kills the process in the next one."""

    def __init__(self, passed_count: int) -> None:
        self.left_count = passed_count

    def __call__(self, operation: str, path: Path) -> None:
        self.left_count -= 1
        if self.left_count < 0:
            raise Crashed


@pytest.mark.parametrize("epoch", [1, 3], ids=["the same epoch", "a later epoch"])
@pytest.mark.parametrize("seed", range(2))
def test_a_crash_leaves_the_log_from_before_a_fetched_snapshot_or_begins_it_behind_the_snapshot(
    seed: int, epoch: int
) -> None:
    new = SnapshotId(50, epoch)
    stored_count = 0
    for passed_count in range(200):
        files = MemoryFiles(rng=Random(seed))
        log = with_old_snapshot(files)
        files.on_operation = Crashing(passed_count)
        try:
            for each in slices(new, "a", "b"):
                log.store_slice(each)
        except Crashed:
            pass
        else:
            stored_count += 1
        files.on_operation = lambda _operation, _path: None
        files.crash()
        log, snapshot = opened(files)
        assert snapshot is not None
        if snapshot.id == OLD:
            assert stored_count == 0
            assert values(log, 2) == ["3", "4"][: log.end_offset - 2]
        else:
            assert snapshot.records == (config("a"), config("b"))
            assert (
                snapshot.id,
                log.snapshots,
                log.start_offset,
                log.end_offset,
                log.last_epoch,
            ) == (new, [new], 50, 50, epoch)
            append(log, "5", epoch=epoch)
            log.close_files()
            log, _ = opened(files)
            assert (log.start_offset, values(log, 50)) == (50, ["5"])
        if stored_count:
            return
    pytest.fail("it never ended")


def test_a_snapshot_that_is_fetched_anew_begins_at_its_first_byte() -> None:
    """The leader changed in the middle, and the next one has another snapshot.

    Then the first is sent once more.
    """
    files = MemoryFiles(rng=Random(1))
    log = with_old_snapshot(files)
    for half in (
        slices(NEW, "a", "b")[:-1],
        slices(SnapshotId(40, 2), "other")[:-1],
        slices(NEW, "a", "b")[:2],
    ):
        assert [log.store_slice(each) for each in half] == [None] * len(half)
    *_, snapshot = [log.store_slice(each) for each in slices(NEW, "a", "b")]
    assert snapshot is not None
    assert snapshot.records == (config("a"), config("b"))
    assert (log.snapshots, log.start_offset, log.end_offset) == ([NEW], 50, 50)
    assert [
        name
        for name in files.list_directory(METADATA)
        if NEW.file_name in name or OLD.file_name in name
    ] == [NEW.file_name]
    log.store_slice(slices(SnapshotId(60, 3), "more")[0])
    log.close_files()
    assert files.open_count == 0, "the slice's file too"


def test_what_a_follower_says_of_its_log_when_it_holds_a_snapshot_alone() -> None:
    files = MemoryFiles(rng=Random(1))
    log, _ = opened(files)
    assert (log.last_epoch, log.latest_snapshot, log.earliest_snapshot) == (0, None, None)
    for each in slices(NEW, "a"):
        log.store_slice(each)
    assert (log.last_epoch, log.latest_snapshot, log.earliest_snapshot) == (3, NEW, NEW)
    assert log.end_of_epoch(3) is None
    append(log, "1", epoch=4)
    assert (log.last_epoch, log.end_of_epoch(4)) == (4, (4, 51))


def test_a_snapshot_is_of_the_epoch_of_the_last_record_below_its_end() -> None:
    files = MemoryFiles(rng=Random(1))
    log, _ = opened(files)
    append(log, "1", "2")
    append(log, "3", epoch=4)
    assert [log.write_snapshot(end, [], VOTERS) for end in (1, 2, 3)] == [(1, 1), (2, 1), (3, 4)]


def test_snapshots_are_read_in_pieces_by_their_id_alone() -> None:
    files = MemoryFiles(rng=Random(1))
    log = with_old_snapshot(files)
    content = files.read_bytes(METADATA / OLD.file_name)
    assert (log.snapshot_size_bytes(OLD), log.snapshot_size_bytes(NEW)) == (len(content), None)
    assert log.read_snapshot_slice(OLD, 10, 20) == content[10:30]
    log.close_files()
    assert files.open_count == 0


def test_a_read_is_as_large_as_was_asked_for_and_has_one_whole_batch_at_least() -> None:
    files = MemoryFiles(rng=Random(1))
    log, _ = opened(files)
    append(log, "1", "2", "3", "4")
    content = log.read(0, 1_000_000)
    size = len(content) // 4
    assert content == files.read_bytes(METADATA / "00000000000000000000.log")
    assert log.read(1, 1_000_000) == content[size:]
    assert log.read(1, 1) == content[size : 2 * size]
    assert len(log.read(0, 3 * size)) == 3 * size
    assert log.read(4, 1_000_000) == b""
    assert files.lease_count == 0, "what was read may be deleted"


@pytest.mark.parametrize(("kraft_version", "named"), [(0, ()), (1, VOTERS.voters.voters)])
def test_a_snapshot_names_the_voters_where_they_are_records(
    kraft_version: int, named: tuple[Voter, ...]
) -> None:
    files = MemoryFiles(rng=Random(1))
    log, _ = opened(files)
    append(log, "1")
    log.write_snapshot(1, [config("1")], VOTERS._replace(kraft_version=kraft_version))
    _, snapshot = opened(files)
    assert snapshot is not None
    assert (snapshot.voters, snapshot.records) == (named, (config("1"),))


def test_the_log_lets_go_of_what_its_oldest_snapshot_holds() -> None:
    files = MemoryFiles(rng=Random(1))
    log, _ = opened(files)
    for number in range(4):
        append(log, str(number))
        log.write_snapshot(number + 1, [config(str(number))], VOTERS)
        log.remove_old_snapshots()
        log.trim(number + 1)
        assert log.start_offset == max(1, number)
    assert log.snapshots == [(3, 1), (4, 1)]
    assert values(log, 3) == ["3"]


def test_a_control_batch_holds_what_the_rules_asked_for_and_nothing_else() -> None:
    log, _ = opened(MemoryFiles(rng=Random(1)))
    asked = [
        AppendControl(
            epoch=LeaderEpoch(2), granting_ids=(NodeId(1),), voter_ids=(NodeId(1), NodeId(2))
        ),
        AppendControl(epoch=LeaderEpoch(2), kraft_version=1),
        AppendControl(epoch=LeaderEpoch(2), kraft_version=1, voters=VOTERS.voters),
    ]
    appended = [log.append_control(each, OWN) for each in asked]
    assert [[type(value).__name__ for value in batch.control] for batch in appended] == [
        ["LeaderChangeMessage"],
        ["KRaftVersionRecord"],
        ["KRaftVersionRecord", "VotersRecord"],
    ]
    assert [(batch.base_offset, batch.last_offset, batch.epoch) for batch in appended] == [
        (0, 0, 2),
        (1, 1, 2),
        (2, 3, 2),
    ]
    assert log.read_batches(0) == appended
    assert log.read_batches(3) == appended[2:], "the batch that holds the offset"


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_cannot_be_opened_stops_the_start_and_is_named(
    tmp_path: Path, suffix: str
) -> None:
    """The node started, and took the log directory offline when it stopped."""
    files = RealFiles(pool_threads=1)
    log = MetadataLog(files, SystemClock(), tmp_path, MetadataLogConfig())
    log.open()
    append(log, "1")
    log.close_files()
    index = tmp_path / str(METADATA_PARTITION) / f"{0:020}{suffix}"
    index.unlink(missing_ok=True)
    index.mkdir()
    again = MetadataLog(files, SystemClock(), tmp_path, MetadataLogConfig())
    with pytest.raises(StorageError, match=rf"opened as user .*{index.name}.*move it away"):
        again.open()
    again.close_files()
    index.rmdir()
    healed = MetadataLog(files, SystemClock(), tmp_path, MetadataLogConfig())
    healed.open()
    assert values(healed, 0) == ["1"]
    healed.close_files()
