"""Retention, the log start offset, truncation."""

import errno
from typing import Any

import pytest
import trio

from log_service.common.errors import ErrorCode, KafkaError
from tests.unit.storage.context import NOW_MS, LogContext, batch

SIZE = len(batch(1))


def segments_of_one(count: int, **config: Any) -> LogContext:
    """Return a log of ``count`` segments with one record each, a second apart."""
    context = LogContext(segment_bytes=SIZE, **config)
    for number in range(count):
        context.append(batch(1, timestamp=NOW_MS + 1_000 * number))
    assert len(context.log.segments) == count
    return context


def test_retention_by_time_deletes_the_oldest_segments() -> None:
    context = segments_of_one(5, retention_ms=10_000)
    outcome = context.log.apply_retention(NOW_MS + 11_001, 5)
    assert outcome == (2, 2 * SIZE, 2)
    assert context.segment_offsets() == [2, 3, 4]
    assert context.log.log_start_offset == 2


def test_retention_by_size_keeps_at_least_that_much() -> None:
    context = segments_of_one(5, retention_bytes=2 * SIZE + 1)
    assert context.log.apply_retention(NOW_MS, 5).segments_deleted == 2
    assert context.log.apply_retention(NOW_MS, 5).segments_deleted == 0


def test_retention_stops_below_the_high_watermark() -> None:
    context = segments_of_one(5, retention_ms=0)
    assert context.log.apply_retention(NOW_MS + 100_000, 3).segments_deleted == 3


def test_everything_too_old_leaves_an_empty_segment_at_the_end() -> None:
    context = segments_of_one(3, retention_ms=0)
    assert context.log.apply_retention(NOW_MS + 100_000, 3).segments_deleted == 3
    assert context.segment_offsets() == [3]
    assert (context.log.log_start_offset, context.log.log_end_offset, context.log.size_bytes) == (
        3,
        3,
        0,
    )
    assert context.log.apply_retention(NOW_MS + 100_000, 3).segments_deleted == 0
    assert context.append(batch(1)).base_offset == 3


def test_a_topic_that_is_only_compacted_keeps_its_age() -> None:
    context = segments_of_one(3, retention_ms=0, is_deleted=False)
    assert context.log.apply_retention(NOW_MS + 100_000, 3).segments_deleted == 0
    context.log.advance_log_start_offset(1)
    assert context.log.apply_retention(NOW_MS + 100_000, 3).segments_deleted == 1


def test_no_limits_keep_everything() -> None:
    context = segments_of_one(3, retention_ms=-1)
    assert context.log.apply_retention(NOW_MS + 10**15, 3).segments_deleted == 0


def test_records_without_timestamps_age_by_their_file() -> None:
    context = LogContext(segment_bytes=SIZE, retention_ms=10_000)
    for _ in range(2):
        context.append(batch(1, timestamp=-1))
    assert context.log.apply_retention(NOW_MS + 9_000, 2).segments_deleted == 0
    assert context.log.apply_retention(NOW_MS + 11_000, 2).segments_deleted == 2


def test_deleted_files_are_renamed_and_go_after_the_delay() -> None:
    context = segments_of_one(2, retention_ms=0, file_delete_delay_ms=60_000)
    context.log.apply_retention(NOW_MS + 500, 1)
    assert "00000000000000000000.log.deleted" in context.names()
    assert "00000000000000000000.index.deleted" in context.names()
    trio.run(context.log.removals.run_due, NOW_MS + 59_999)
    assert "00000000000000000000.log.deleted" in context.names()
    trio.run(context.log.removals.run_due, NOW_MS + 60_000)
    assert not any(name.endswith(".deleted") for name in context.names())


def test_snapshots_of_deleted_segments_go_with_them() -> None:
    context = segments_of_one(5, retention_ms=0)
    context.log.apply_retention(NOW_MS + 100_000, 4)
    assert [name for name in context.names() if name.endswith(".snapshot")] == [
        "00000000000000000004.snapshot"
    ]


def test_leader_epochs_follow_the_log_start_offset() -> None:
    context = LogContext()
    context.append_records(2, leader_epoch=1)
    context.append_records(2, leader_epoch=2)
    assert context.log.advance_log_start_offset(3)
    assert not context.log.advance_log_start_offset(2)
    assert context.log.leader_epochs.entries == [(2, 3)]


def test_the_log_start_offset_cannot_pass_the_end() -> None:
    context = segments_of_one(2)
    with pytest.raises(KafkaError) as caught:
        context.log.advance_log_start_offset(3)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_truncation_removes_whole_batches_and_later_segments() -> None:
    context = LogContext(segment_bytes=3 * SIZE)
    context.append_records(*[1] * 8)
    assert context.log.truncate_to(4)
    assert context.segment_offsets() == [0, 3]
    assert context.base_offsets(3) == [3]
    assert context.log.log_end_offset == 4
    assert context.append(batch(1), leader_epoch=1).base_offset == 4
    assert context.base_offsets(3) == [3, 4]


def test_truncation_at_the_start_of_a_segment_leaves_it_empty() -> None:
    context = LogContext(segment_bytes=3 * SIZE)
    context.append_records(*[1] * 8)
    context.log.truncate_to(3)
    assert context.segment_offsets() == [0, 3]
    assert context.log.segments.active.size_bytes == 0
    context.append_records(1)
    assert context.base_offsets(3) == [3]


def test_truncation_at_the_end_does_nothing() -> None:
    context = segments_of_one(2)
    assert not context.log.truncate_to(2)
    assert not context.log.truncate_to(9)


def test_truncation_below_the_start_begins_there() -> None:
    context = segments_of_one(4, retention_ms=0)
    context.log.apply_retention(NOW_MS + 100_000, 2)
    context.log.truncate_to(1)
    assert (context.log.log_start_offset, context.log.log_end_offset) == (1, 1)
    assert context.append(batch(1)).base_offset == 1


def test_truncation_saves_the_lower_recovery_point_before_bytes_go() -> None:
    context = LogContext()
    context.append_records(1, 1, 1)
    trio.run(context.log.sync)
    seen: list[tuple[int, int]] = []
    context.log.home.save_recovery_points = lambda: seen.append(
        (context.log.recovery_point, context.log.size_bytes)
    )
    context.log.truncate_to(1)
    assert seen == [(1, 3 * SIZE)]
    assert context.log.recovery_point == 1


def test_truncation_finds_the_largest_timestamp_again() -> None:
    context = LogContext(index_interval_bytes=1)
    for timestamp in (100, 300, 200, 900):
        context.append(batch(1, timestamp=timestamp))
    context.log.truncate_to(3)
    assert context.log.segments.active.max_timestamp == 300
    found = context.log.offset_of_max_timestamp()
    assert found is not None
    assert found.offset == 1


def test_epochs_end_where_truncation_says() -> None:
    context = LogContext()
    context.append_records(2, leader_epoch=1)
    context.append_records(2, leader_epoch=4)
    assert context.log.end_offset_for_epoch(1) == (1, 2)
    assert context.log.end_offset_for_epoch(4) == (4, 4)
    context.log.truncate_to(2)
    assert context.log.latest_leader_epoch == 1
    assert context.log.end_offset_for_epoch(1) == (1, 2)


def test_a_full_disk_stops_retention_without_losing_the_log() -> None:
    context = segments_of_one(3, retention_ms=0)
    context.files.fail_next("open", error=errno.ENOSPC, containing="00000000000000000003.")
    with pytest.raises(KafkaError) as caught:
        context.log.apply_retention(NOW_MS + 100_000, 3)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert context.base_offsets(0) == [0]
    assert context.log.apply_retention(NOW_MS + 100_000, 3).segments_deleted == 3


def test_rolling_twice_rolls_once() -> None:
    context = LogContext()
    context.append_records(1)
    assert context.log.roll()
    assert not context.log.roll()
    assert context.segment_offsets() == [0, 1]


def test_a_log_that_began_anew_has_no_old_epochs_after_a_kill() -> None:
    """A follower would fetch on in an epoch of which it holds nothing."""
    context = LogContext()
    context.append_records(2, leader_epoch=1)
    trio.run(context.log.sync)
    context.log.restart_at(10)
    reopened = context.open(recovery_point=0, log_start_offset=0)
    assert (reopened.log_start_offset, reopened.log_end_offset) == (10, 10)
    assert reopened.latest_leader_epoch == -1
