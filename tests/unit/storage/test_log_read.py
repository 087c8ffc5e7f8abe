"""Reading: which batches a fetch gets, lookups by time, ranges for loaders, leases."""

from pathlib import Path

import pytest
import trio

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.batch import iterate_headers
from log_service.storage.files import RealFiles
from tests.unit.storage.context import NOW_MS, LogContext, batch

SIZE = len(batch(1))


def three_segments() -> LogContext:
    """Offsets 0-1, 2-3, 4-5 in three segments, one record per batch."""
    context = LogContext(segment_bytes=2 * SIZE)
    context.append_records(1, 1, 1, 1, 1, 1)
    assert context.segment_offsets() == [0, 2, 4]
    return context


def test_a_read_begins_with_the_batch_that_holds_the_offset() -> None:
    context = LogContext()
    context.append_records(3, 3, 3)
    assert context.base_offsets(0) == [0, 3, 6]
    assert context.base_offsets(4) == [3, 6]
    assert context.base_offsets(8) == [6]


def test_a_read_stays_in_one_segment() -> None:
    context = three_segments()
    assert [context.base_offsets(offset) for offset in range(6)] == [
        [0, 1],
        [1],
        [2, 3],
        [3],
        [4, 5],
        [5],
    ]


def test_a_read_at_the_end_is_empty_and_beyond_it_out_of_range() -> None:
    context = three_segments()
    assert context.read(6) == b""
    for offset in (-1, 7):
        with pytest.raises(KafkaError) as caught:
            context.read(offset)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_read_below_the_log_start_offset_is_out_of_range() -> None:
    context = three_segments()
    context.log.advance_log_start_offset(3)
    assert context.base_offsets(3) == [3]
    with pytest.raises(KafkaError) as caught:
        context.read(2)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_max_bytes_may_cut_the_last_batch_but_not_the_first() -> None:
    context = LogContext()
    context.append_records(1, 1, 1)
    assert len(context.read(0, max_bytes=2 * SIZE + 10)) == 2 * SIZE + 10
    assert len(context.read(0, max_bytes=10)) == SIZE
    assert context.read(0, max_bytes=10, is_one_batch_guaranteed=False) == b""
    assert context.read(0, max_bytes=0, is_one_batch_guaranteed=False) == b""


@pytest.mark.parametrize("is_reopened", [False, True])
def test_nothing_at_or_above_the_upper_offset_is_read(is_reopened: bool) -> None:
    context = three_segments()
    if is_reopened:
        context.reopen_clean()
    assert context.base_offsets(4, upper_offset=5) == [4]
    assert context.base_offsets(0, upper_offset=1) == [0]
    assert context.base_offsets(0, upper_offset=2) == [0, 1]
    assert context.base_offsets(5, upper_offset=5) == []
    assert context.base_offsets(5, upper_offset=99) == [5]


def test_reads_far_from_the_end_go_through_the_index() -> None:
    context = LogContext(index_interval_bytes=10 * SIZE)
    context.append_records(*[1] * 1_000)
    assert len(context.log.segments.active.offset_index) > 80
    for offset in (0, 1, 10, 11, 12, 500, 871, 872, 873, 999):
        assert context.base_offsets(offset, max_bytes=1) == [offset]
    context.reopen_clean()
    for offset in (0, 11, 500, 999):
        assert context.base_offsets(offset, max_bytes=1) == [offset]


def test_a_hole_of_compaction_is_read_over() -> None:
    context = LogContext()
    for base_offset in (0, 10, 20):
        context.log.append_as_follower(batch(1, base_offset=base_offset))
    assert context.base_offsets(1) == [10, 20]
    assert context.base_offsets(11) == [20]
    context.reopen_clean()
    assert context.base_offsets(1) == [10, 20]


def test_a_damaged_index_is_built_again_where_it_is_used() -> None:
    context = LogContext(index_interval_bytes=1)
    context.append_records(*[1] * 20)
    trio.run(context.log.close)
    path = context.directory / "00000000000000000000.index"
    context.files.open(path).write_at(0, b"\xff" * 8)
    context.open(is_clean=True)
    assert context.log.log_end_offset == 20
    assert context.base_offsets(10, max_bytes=1) == [10]


def test_find_by_timestamp() -> None:
    context = LogContext(segment_bytes=1_000, index_interval_bytes=1)
    for number in range(30):
        context.append(batch(2, timestamp=NOW_MS + 10 * number))
    assert len(context.log.segments) > 2

    def find(timestamp: int) -> tuple[int, int] | None:
        found = context.log.offset_for_timestamp(timestamp)
        return None if found is None else (found.offset, found.timestamp)

    assert find(0) == (0, NOW_MS)
    assert find(NOW_MS + 1) == (1, NOW_MS + 1)
    assert find(NOW_MS + 2) == (2, NOW_MS + 10)
    assert find(NOW_MS + 155) == (32, NOW_MS + 160)
    assert find(NOW_MS + 291) == (59, NOW_MS + 291)
    assert find(NOW_MS + 292) is None
    context.log.advance_log_start_offset(5)
    assert find(0) == (5, NOW_MS + 21)


def test_find_by_timestamp_where_time_goes_back() -> None:
    context = LogContext(index_interval_bytes=1)
    for timestamp in (100, 50, 200, 60):
        context.append(batch(1, timestamp=timestamp), leader_epoch=9)
    found = context.log.offset_for_timestamp(101)
    assert found == (200, 2, 9)


def test_offset_of_the_largest_timestamp() -> None:
    context = LogContext(segment_bytes=4 * SIZE)
    assert context.log.offset_of_max_timestamp() is None
    for timestamp in (100, 900, 300, 900, 800, 10):
        context.append(batch(1, timestamp=timestamp), leader_epoch=2)
    assert context.log.offset_of_max_timestamp() == (900, 1, 2)
    context.reopen_clean()
    assert context.log.offset_of_max_timestamp() == (900, 1, 2)


def test_loaders_read_whole_batches_across_segments() -> None:
    context = three_segments()
    chunks = list(context.log.read_batches(1, 5, chunk_bytes=1))
    assert [header.base_offset for chunk in chunks for _, header in iterate_headers(chunk)] == [
        1,
        2,
        3,
        4,
    ]
    assert [offset for offset, _ in context.all_values()] == list(range(6))


def test_a_lease_outlives_retention(tmp_path: Path) -> None:
    context = LogContext(RealFiles(), tmp_path, segment_bytes=2 * SIZE, retention_bytes=0)
    context.append_records(1, 1, 1)
    leased = context.log.read(0, max_bytes=1_000, upper_offset=3, is_one_batch_guaranteed=True)
    assert leased.file_slice is not None
    context.log.apply_retention(NOW_MS, 3)
    context.clock.advance(120_000)
    assert trio.run(context.log.removals.run_due, context.clock.now_ms) > 0
    assert not any(name.endswith(".deleted") for name in context.names())
    assert len(leased.file_slice.read()) == leased.size_bytes
    leased.file_slice.release()


def test_a_lease_outlives_truncation(tmp_path: Path) -> None:
    context = LogContext(RealFiles(), tmp_path)
    context.append_records(1, 1, 1)
    before = context.read(0)
    leased = context.log.read(0, max_bytes=1_000, upper_offset=3, is_one_batch_guaranteed=True)
    assert leased.file_slice is not None
    context.log.truncate_to(1)
    context.append_records(1, leader_epoch=1)
    assert leased.file_slice.read() == before
    leased.file_slice.release()
    context.open()
    assert context.base_offsets(0) == [0, 1]
    assert context.log.leader_epochs.entries == [(0, 0), (1, 1)]


def test_idle_files_are_given_back_and_opened_again() -> None:
    context = three_segments()
    context.read(0)
    assert context.files.open_count == 3
    assert context.log.unload_idle() == 0
    assert context.log.unload_idle() == 3
    assert context.files.open_count == 0
    assert context.base_offsets(2) == [2, 3]
    context.append_records(1)
    assert context.base_offsets(6) == [6]


def test_indexes_that_only_retention_looked_at_are_given_back_too() -> None:
    context = three_segments()
    context.reopen_clean()
    context.log.apply_retention(NOW_MS, 6)
    assert context.log.unload_idle() == 0
    assert context.log.unload_idle() == 1


def test_the_newest_batches_are_found_after_many() -> None:
    context = LogContext(index_interval_bytes=1 << 20)
    context.append_records(*[2] * 1_000)
    for offset in (0, 1, 1_400, 1_487, 1_488, 1_489, 1_743, 1_744, 1_745, 1_999):
        assert context.base_offsets(offset, max_bytes=1) == [offset // 2 * 2]


def test_a_closed_log_raises_an_error_that_sends_clients_elsewhere() -> None:
    context = three_segments()
    trio.run(context.log.close)
    with pytest.raises(KafkaError) as caught:
        context.read(0)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError):
        context.append_records(1)


def test_a_file_that_was_removed_costs_the_request_only() -> None:
    context = three_segments()
    context.reopen_clean()
    context.files.remove(context.directory / "00000000000000000000.log")
    with pytest.raises(KafkaError) as caught:
        context.read(0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert context.base_offsets(4) == [4, 5]


def test_an_index_entry_that_points_behind_its_batch_is_not_believed() -> None:
    """An index has no checksum: a flipped bit in one let a reader step over records without a word."""
    context = LogContext(index_interval_bytes=1)
    context.append_records(*[1] * 20)
    trio.run(context.log.close)
    path = context.directory / "00000000000000000000.index"
    entry = context.files.read_bytes(path)[8 * 9 : 8 * 10]
    assert int.from_bytes(entry[:4], "big") == 10
    for damaged in (
        b"\0\0\0\x09" + entry[4:],
        entry[:4] + b"\0\0\0\x07",
        entry[:4] + b"\x7f\0\0\0",
    ):
        context.files.open(path).write_at(8 * 9, damaged)
        context.open(is_clean=True)
        for offset in (9, 10, 11):
            assert context.base_offsets(offset, max_bytes=1) == [offset]
        trio.run(context.log.close)


def test_an_empty_index_of_many_batches_is_built_again() -> None:
    """The index's name may outlive a loss of power without its content.

    Retention took the segment before it was synced, and that was undone.
    """
    context = LogContext(index_interval_bytes=1, segment_bytes=1_000)
    context.append_records(*[1] * 30)
    trio.run(context.log.close)
    context.files.open(context.directory / "00000000000000000000.index").truncate(0)
    context.open(is_clean=True)
    segment = context.log.segments[0]
    assert context.base_offsets(5, max_bytes=1) == [5]
    assert len(segment.offset_index) > 2


def test_indexes_that_were_built_again_hold_the_last_time() -> None:
    """A segment of one batch has no entry by offset, and so is built again at each start.

    Its only entry by time was lost.
    """
    context = LogContext(index_interval_bytes=1, segment_bytes=100)
    context.append_records(*[1] * 4)
    newest = context.log.segments[0].max_timestamp
    trio.run(context.log.close)
    context.open(is_clean=True)
    assert context.base_offsets(0, max_bytes=1) == [0]
    assert list(context.log.segments[0].time_index) == [(newest, 0)]


def test_the_first_batch_of_an_empty_log_that_was_opened_again_is_found_whole() -> None:
    context = LogContext(index_interval_bytes=SIZE // 2)
    context.reopen_clean()
    context.append_records(1, 1, 1)
    for offset in range(3):
        assert len(context.read(offset, max_bytes=10)) == SIZE
        assert context.read(offset, max_bytes=10, is_one_batch_guaranteed=False) == b""
        assert context.base_offsets(offset) == list(range(offset, 3))


def test_a_batch_that_reaches_beyond_both_ends_is_read_whole_and_no_other_after_it() -> None:
    context = LogContext()
    context.append_records(5, 5, 5)
    for start, end, expected in (
        (1, 3, [0]),
        (5, 6, [5]),
        (4, 6, [0, 5]),
        (9, 10, [5]),
        (14, 15, [10]),
        (5, 5, []),
    ):
        chunks = list(context.log.read_batches(start, end))
        assert [
            header.base_offset for chunk in chunks for _, header in iterate_headers(chunk)
        ] == expected, (start, end)
