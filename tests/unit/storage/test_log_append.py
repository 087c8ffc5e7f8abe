"""Appending to a log: offsets, epochs, rolling, what a full or failing disk does."""

import errno
from pathlib import Path

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.batch import is_crc_valid, parse_header
from log_service.storage.files import RealFiles
from tests.unit.storage.context import NOW_MS, LogContext, batch, validated


def test_appends_are_stamped_with_the_next_offsets_and_the_epoch() -> None:
    context = LogContext()
    first = context.append(batch(3), leader_epoch=4)
    second = context.append(batch(2), leader_epoch=5)
    assert (first.base_offset, first.last_offset) == (0, 2)
    assert (second.base_offset, second.last_offset) == (3, 4)
    header = parse_header(context.read(3))
    assert (header.base_offset, header.partition_leader_epoch) == (3, 5)
    assert context.log.log_end_offset == 5
    assert context.log.latest_leader_epoch == 5


def test_the_callers_own_buffer_is_what_is_stamped() -> None:
    context = LogContext()
    context.append(batch(2))
    checked = validated(batch(1))
    context.log.append_as_leader(checked, leader_epoch=0, now_ms=NOW_MS)
    assert parse_header(checked.buffer).base_offset == 2


def test_append_time_replaces_the_producers_timestamp_and_renews_the_checksum() -> None:
    context = LogContext(message_timestamp_type="LogAppendTime")
    context.clock.advance(5_000)
    result = context.append(batch(2, timestamp=7))
    assert result.append_time_ms == NOW_MS + 5_000
    content = context.read(0)
    assert parse_header(content).max_timestamp == NOW_MS + 5_000
    assert is_crc_valid(content)
    found = context.log.offset_for_timestamp(NOW_MS)
    assert found is not None
    assert (found.offset, found.timestamp) == (0, NOW_MS + 5_000)


def test_a_full_segment_rolls_before_the_append() -> None:
    size = len(batch(1))
    context = LogContext(segment_bytes=2 * size)
    context.append_records(1, 1, 1, 1, 1)
    assert context.segment_offsets() == [0, 2, 4]
    assert context.base_offsets(1) == [1]
    assert context.base_offsets(2) == [2, 3]


def test_a_segment_rolls_by_the_timestamps_of_its_records() -> None:
    context = LogContext(segment_ms=1_000)
    context.append(batch(1, timestamp=NOW_MS))
    context.append(batch(1, timestamp=NOW_MS + 1_000))
    context.append(batch(1, timestamp=NOW_MS + 1_001))
    assert context.segment_offsets() == [0, 2]


def test_a_segment_without_timestamps_rolls_by_the_clock() -> None:
    context = LogContext(segment_ms=1_000)
    context.append(batch(1, timestamp=-1))
    context.clock.advance(1_001)
    context.append(batch(1, timestamp=-1))
    assert context.segment_offsets() == [0, 1]


def test_a_full_index_rolls() -> None:
    context = LogContext(segment_index_bytes=24, index_interval_bytes=1)
    context.append_records(1, 1, 1, 1, 1)
    assert context.segment_offsets() == [0, 2, 4]


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    context = LogContext(segment_bytes=100)
    with pytest.raises(KafkaError) as caught:
        context.append(batch(1, value=b"v" * 200))
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert context.log.log_end_offset == 0


def test_a_full_disk_costs_the_append_and_nothing_else() -> None:
    context = LogContext()
    context.append_records(1)
    context.files.fail_next("append", error=errno.ENOSPC, containing=".log")
    with pytest.raises(KafkaError) as caught:
        context.append(batch(1))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "make room" in str(caught.value)
    assert context.base_offsets(0) == [0]
    assert context.append(batch(1)).base_offset == 1


def test_a_failing_disk_takes_the_directory_offline_once() -> None:
    context = LogContext()
    context.append_records(1)
    failures: list[OSError] = []
    context.log.home.on_failed = lambda _directory, error: failures.append(error)
    context.files.fail_next("append", containing=".log")
    for _ in range(2):
        with pytest.raises(KafkaError) as caught:
            context.append(batch(1))
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(failures) == 1
    with pytest.raises(KafkaError):
        context.read(0)


def test_followers_take_offsets_and_epochs_from_the_batches() -> None:
    leader, follower = LogContext(), LogContext()
    leader.append_records(2, 1, leader_epoch=3)
    content = leader.read(0)
    assert follower.log.append_as_follower(content).last_offset == 2
    assert follower.read(0) == content
    assert follower.log.latest_leader_epoch == 3


def test_followers_refuse_batches_that_do_not_follow_or_are_damaged() -> None:
    context = LogContext()
    context.append_records(2)
    with pytest.raises(KafkaError) as caught:
        context.log.append_as_follower(batch(1, base_offset=1))
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    damaged = batch(1, base_offset=2)
    damaged[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        context.log.append_as_follower(damaged)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert context.log.log_end_offset == 2


def test_a_gap_too_wide_for_relative_offsets_begins_a_segment_nearer_to_the_batch() -> None:
    context = LogContext()
    context.append_records(1)
    far = 2**31 + 10
    context.log.append_as_follower(batch(1, base_offset=far))
    assert context.log.log_end_offset == far + 1
    assert context.base_offsets(5) == [far]


def test_flush_messages_asks_for_a_sync_before_the_response() -> None:
    context = LogContext(flush_messages=3)
    assert not context.append(batch(2)).must_sync
    assert context.append(batch(1)).must_sync


def test_the_real_disk_holds_what_was_appended(tmp_path: Path) -> None:
    context = LogContext(RealFiles(), tmp_path)
    context.append_records(3, 2)
    assert context.base_offsets(0) == [0, 3]
    assert (context.directory / "00000000000000000000.log").stat().st_size == context.log.size_bytes
    context.reopen_clean()
    assert context.base_offsets(1) == [0, 3]


def test_the_first_append_to_a_log_that_was_opened_again_needs_room_for_its_batches_alone() -> None:
    context = LogContext(index_interval_bytes=1)
    context.reopen_clean()
    context.files.disk.space_bytes = len(batch(1))
    assert context.append(batch(1)).base_offset == 0
    assert context.log.log_end_offset == 1
