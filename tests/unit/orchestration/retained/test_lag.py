"""Lag from offsets and checkpoints."""

from pathlib import Path

import pyarrow as pa

from orchestration.lake.range_commits import append_with_offsets
from orchestration.lake.tables import Lake
from orchestration.offsets.planning import Checkpoint
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.retained.lag import MAX_LOOKED_AT, TopicLag, lag_of, measure_lag, seconds_behind
from tests.unit.orchestration.memory_log import MemoryLog


def test_lag_counts_to_the_high_watermark_and_pending_to_the_last_stable_offset() -> None:
    log = MemoryLog()
    first, second = log.add_topic("t", 2).partitions
    first.skip(10)
    first.last_stable_offset = 8
    second.skip(5)
    second.log_start_offset = 2
    lag = lag_of("t", "id-of-t", log.partition_offsets("t"), {0: Checkpoint(next_offset=4)})
    assert (lag.lag, lag.pending, lag.high_watermark) == (6 + 3, 4 + 3, 15)
    assert [one.committed_offset for one in lag.partitions] == [4, 2]


def test_lag_is_measured_from_the_table_and_there_is_none_without_a_topic(tmp_path: Path) -> None:
    lake, log = Lake(tmp_path), MemoryLog()
    assert measure_lag(log, lake, topic="t", table="clean") is None
    log.add_topic("t", 1).partitions[0].skip(7)
    before = measure_lag(log, lake, topic="t", table="clean")
    schema = pa.schema([("_offset", pa.int64())])
    covered = OffsetRanges(
        topic="t", topic_id="id-of-t", ranges=(OffsetRange(partition=0, start=0, end=5),)
    )
    append_with_offsets(
        lake.create("clean", schema), schema.empty_table(), covered, {}, expected={}
    )
    after = measure_lag(log, lake, topic="t", table="clean")
    assert before is not None
    assert after is not None
    assert (before.lag, after.lag, after.committed) == (7, 2, {0: Checkpoint(next_offset=5)})


def lag_behind(log: MemoryLog, **committed: int) -> TopicLag:
    checkpoints = {
        int(name.removeprefix("p")): Checkpoint(next_offset=offset)
        for name, offset in committed.items()
    }
    return lag_of("t", "id-of-t", log.partition_offsets("t"), checkpoints)


def test_seconds_behind_is_the_age_of_the_oldest_record_that_waits() -> None:
    log = MemoryLog()
    first, second = log.add_topic("t", 2).partitions
    for seconds in (100, 200, 300):
        first.append(b"", timestamp_ms=seconds * 1000)
    second.append(b"", timestamp_ms=250_000)
    assert seconds_behind(log, lag_behind(log, p0=1, p1=1), 500.0) == 300.0
    assert seconds_behind(log, lag_behind(log, p0=2), 500.0) == 250.0
    assert log.reads == [("t", 0, 1, 2), ("t", 0, 2, 3), ("t", 1, 0, 1)]


def test_nothing_is_read_where_nothing_waits() -> None:
    log = MemoryLog()
    log.add_topic("t").partitions[0].append(b"")
    assert seconds_behind(log, lag_behind(log, p0=1), 500.0) == 0.0
    assert log.reads == []


def test_records_that_are_gone_tell_nothing_and_harm_nothing() -> None:
    log = MemoryLog()
    gap, cut = log.add_topic("t", 2).partitions
    gap.skip(5)
    cut.append(b"", timestamp_ms=1_000)
    cut.append(b"", timestamp_ms=2_000)
    lag = lag_behind(log)
    cut.log_start_offset = 1
    assert seconds_behind(log, lag, 10.0) is None


def test_only_the_partitions_that_lag_most_are_looked_at() -> None:
    log = MemoryLog()
    for number, partition in enumerate(log.add_topic("t", MAX_LOOKED_AT + 3).partitions):
        partition.append(b"", timestamp_ms=1_000)
        partition.skip(number)
    assert seconds_behind(log, lag_behind(log), 4.0) == 3.0
    assert sorted(partition for _, partition, _, _ in log.reads) == list(
        range(3, MAX_LOOKED_AT + 3)
    )


def test_a_partition_that_was_emptied_before_it_was_read_has_nothing_to_wait_for() -> None:
    log = MemoryLog()
    emptied, other = log.add_topic("t", 2).partitions
    for seconds in (100, 200):
        emptied.append(b"", timestamp_ms=seconds * 1000)
        other.append(b"", timestamp_ms=seconds * 1000)
    log.delete_records("t", {0: 2})
    lag = lag_behind(log, p0=1, p1=1)
    assert [one.pending for one in lag.partitions] == [0, 1]
    assert seconds_behind(log, lag, 500.0) == 300.0
    assert log.reads == [("t", 1, 1, 2)]
