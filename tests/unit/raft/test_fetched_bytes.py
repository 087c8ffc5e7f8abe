"""A leader sends a fetching replica to the right offset.

The replica appends the valid part of the leader's bytes.
"""

from random import Random

import pytest

from log_service.common.clock import SystemClock
from log_service.common.types import LeaderEpoch
from log_service.config.views import MetadataLogConfig
from log_service.metadata.features import first_feature_records
from log_service.raft.batches import encode_records
from log_service.raft.events import AppendFetched
from log_service.raft.log_view import BOOTSTRAP_SNAPSHOT, VALID, FetchCheck, SnapshotId, check_fetch
from log_service.raft.metadata_log import MetadataLog
from tests.sim.files import MemoryFiles
from tests.unit.raft.node import DIRECTORY
from tests.unit.raft.quorum import Entry, MemoryLog

RECORDS = first_feature_records()


@pytest.fixture
def log() -> MetadataLog:
    opened = MetadataLog(MemoryFiles(rng=Random(1)), SystemClock(), DIRECTORY, MetadataLogConfig())
    opened.open()
    return opened


def sent(base_offset: int, epoch: int = 1) -> bytes:
    return encode_records(RECORDS, base_offset=base_offset, epoch=epoch, timestamp_ms=0)


def fetched(log: MetadataLog, records: bytes, *, max_epoch: int = 1) -> tuple[int, int]:
    """Append what a leader sent; return how many batches that were, and where the log ends."""
    return len(
        log.append_fetched(AppendFetched(records=records, max_epoch=LeaderEpoch(max_epoch)))
    ), log.end_offset


def test_a_last_batch_that_is_cut_off_is_left_out_and_fetched_again(log: MetadataLog) -> None:
    """Either product sends a slice of its file, which may end anywhere."""
    count = len(RECORDS)
    assert fetched(log, sent(0) + sent(count)[:-1]) == (1, count)
    assert fetched(log, sent(count)[:40]) == (0, count)
    assert fetched(log, sent(count)) == (1, 2 * count)


def test_a_batch_of_an_epoch_that_this_replica_does_not_know_is_left_out_with_all_behind_it(
    log: MetadataLog,
) -> None:
    """KAFKA-18723: it would be there before the epoch of the replica that holds it."""
    count = len(RECORDS)
    assert fetched(log, sent(0) + sent(count, 3) + sent(2 * count), max_epoch=2) == (1, count)
    assert fetched(log, sent(count, 3), max_epoch=2) == (0, count)
    assert fetched(log, sent(count, 3), max_epoch=3) == (1, 2 * count)


@pytest.mark.parametrize(
    "records",
    [sent(1), sent(0)[:-1] + b"x", b"no batch", b""],
    ids=["a gap", "a checksum", "no batch", "nothing"],
)
def test_what_does_not_follow_the_log_or_is_damaged_is_left_out(
    log: MetadataLog, records: bytes
) -> None:
    assert fetched(log, records) == (0, 0)


@pytest.mark.parametrize("start_offset", [0, 2])
def test_a_replica_without_anything_begins_with_the_newest_snapshot(start_offset: int) -> None:
    """Also where the log still holds all of it, as Apache Kafka's leader says."""
    log = MemoryLog()
    log.entries = [Entry(1, str(number)) for number in range(6)]
    log.snapshots = {SnapshotId(2, 1): (), SnapshotId(4, 1): ()}
    log.trim_to(start_offset)
    assert check_fetch(log, 0, 0) == FetchCheck(snapshot_id=SnapshotId(4, 1))
    assert check_fetch(log, 5, 1) == VALID


def test_the_snapshot_of_a_fresh_directory_is_sent_to_nobody() -> None:
    log = MemoryLog()
    log.entries = [Entry(1, "voters")]
    log.snapshots = {BOOTSTRAP_SNAPSHOT: ()}
    assert check_fetch(log, 0, 0) == VALID
