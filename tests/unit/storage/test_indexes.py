"""Index entries: their bytes, lookups, cutting, and which files are not believed."""

from pathlib import Path

import pytest

from log_service.storage.indexes import IndexInDoubt, OffsetIndex, TimeIndex
from tests.sim.files import MemoryFiles

OFFSET_PATH = Path("/00000000000000000100.index")
TIME_PATH = Path("/00000000000000000100.timeindex")


def offset_index(files: MemoryFiles, *, is_new: bool = True) -> OffsetIndex:
    index = OffsetIndex(files, OFFSET_PATH, 100, 80)
    if is_new:
        index.reset()
    return index


def time_index(files: MemoryFiles, *, is_new: bool = True) -> TimeIndex:
    index = TimeIndex(files, TIME_PATH, 100, 120)
    if is_new:
        index.reset()
    return index


def test_offset_entries_are_relative_offset_and_position() -> None:
    files = MemoryFiles()
    index = offset_index(files)
    index.append(103, 5000)
    index.flush()
    assert files.read_bytes(OFFSET_PATH) == bytes.fromhex("0000000300001388")


def test_lookup_finds_the_last_entry_at_or_below_an_offset() -> None:
    index = offset_index(MemoryFiles())
    for offset, position in ((103, 4100), (110, 9000), (120, 14000)):
        index.append(offset, position)
    assert [index.lookup(offset) for offset in (100, 102, 103, 109, 110, 119, 120, 500)] == [
        0,
        0,
        4100,
        4100,
        9000,
        9000,
        14000,
        14000,
    ]
    assert index.last_entry == (120, 14000)


def test_entries_survive_in_the_file_and_are_appended_to_it() -> None:
    files = MemoryFiles()
    index = offset_index(files)
    index.append(103, 4100)
    index.flush()
    again = offset_index(files, is_new=False)
    again.append(110, 9000)
    again.flush()
    assert list(offset_index(files, is_new=False)) == [(103, 4100), (110, 9000)]


def test_truncation_drops_entries_and_the_file_follows() -> None:
    files = MemoryFiles()
    index = offset_index(files)
    for offset, position in ((103, 4100), (110, 9000), (120, 14000)):
        index.append(offset, position)
    index.flush()
    index.truncate_to(110)
    index.append(111, 9500)
    index.flush()
    assert list(offset_index(files, is_new=False)) == [(103, 4100), (111, 9500)]


def test_reset_empties_the_file_with_the_next_flush() -> None:
    files = MemoryFiles()
    index = offset_index(files)
    index.append(103, 4100)
    index.flush()
    index.reset()
    index.flush()
    assert files.read_bytes(OFFSET_PATH) == b""


def test_an_empty_index_still_gets_its_file() -> None:
    files = MemoryFiles()
    offset_index(files).flush()
    assert files.read_bytes(OFFSET_PATH) == b""


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="missing"),
        pytest.param(b"\0" * 7, id="no whole entries"),
        pytest.param(bytes.fromhex("0000000300001388") + b"\0" * 16, id="tail never written"),
        pytest.param(bytes.fromhex("ffffffff00001388"), id="below the base offset"),
    ],
)
def test_a_file_that_cannot_be_right_is_in_doubt(content: bytes | None) -> None:
    files = MemoryFiles()
    if content is not None:
        files.open(OFFSET_PATH).append_gathered([content])
    with pytest.raises(IndexInDoubt):
        len(offset_index(files, is_new=False))


def test_an_entry_behind_the_end_of_the_log_is_in_doubt() -> None:
    index = offset_index(MemoryFiles())
    index.append(103, 4100)
    assert index.last_position(4101) == 4100
    with pytest.raises(IndexInDoubt, match="4100"):
        index.last_position(4100)


def test_an_index_is_full_when_no_entry_fits() -> None:
    index = offset_index(MemoryFiles())
    for number in range(1, 11):
        assert not index.is_full
        index.append(100 + number, number * 5000)
    assert index.is_full


def test_time_entries_are_timestamp_and_relative_offset() -> None:
    files = MemoryFiles()
    index = time_index(files)
    index.maybe_append(1_000, 103)
    index.flush()
    assert files.read_bytes(TIME_PATH) == (1_000).to_bytes(8, "big") + (3).to_bytes(4, "big")


def test_only_later_timestamps_are_added() -> None:
    index = time_index(MemoryFiles())
    assert index.maybe_append(1_000, 103)
    assert not index.maybe_append(1_000, 110)
    assert not index.maybe_append(-1, 111)
    assert index.maybe_append(1_001, 112)
    assert list(index) == [(1_000, 103), (1_001, 112)]


def test_time_lookup_finds_the_last_entry_at_or_below_a_timestamp() -> None:
    index = time_index(MemoryFiles())
    index.maybe_append(1_000, 103)
    index.maybe_append(2_000, 110)
    assert [index.lookup(timestamp) for timestamp in (999, 1_000, 1_999, 2_000, 9_999)] == [
        100,
        103,
        103,
        110,
        110,
    ]


def test_the_time_index_keeps_room_for_the_entry_of_a_roll() -> None:
    index = time_index(MemoryFiles())
    for number in range(9):
        assert not index.is_full
        index.maybe_append(number, 101 + number)
    assert index.is_full
    assert index.maybe_append(100, 200)


def test_time_truncation_goes_by_offset() -> None:
    files = MemoryFiles()
    index = time_index(files)
    for timestamp, offset in ((1_000, 103), (2_000, 110), (3_000, 120)):
        index.maybe_append(timestamp, offset)
    index.truncate_to(110)
    assert index.last_entry == (1_000, 103)


def test_memory_that_was_given_back_is_read_again() -> None:
    files = MemoryFiles()
    index = offset_index(files)
    index.append(103, 4100)
    index.flush(is_synced=True)
    index.unload()
    assert index.lookup(200) == 4100
    assert files.sync_count == 1
