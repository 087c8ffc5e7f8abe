"""Lag from offsets and checkpoints."""

from pathlib import Path

import pyarrow as pa

from orchestration.checkpoints import Checkpoint
from orchestration.lag import lag_of, measure_lag
from orchestration.offsets import OffsetRange, OffsetRanges
from orchestration.tables import Lake, append_with_offsets
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
    covered = OffsetRanges(topic="t", topic_id="id-of-t", ranges=(OffsetRange(partition=0, start=0, end=5),))
    append_with_offsets(lake.create("clean", schema), schema.empty_table(), covered, {}, expected={})
    after = measure_lag(log, lake, topic="t", table="clean")
    assert before is not None
    assert after is not None
    assert (before.lag, after.lag, after.committed) == (7, 2, {0: Checkpoint(next_offset=5)})
