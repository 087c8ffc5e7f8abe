"""The dirty part of a log is found, and segments are grouped into one."""

from log_service.storage.cleaner.grouping import group_segments
from log_service.storage.cleaner.selection import is_due, look_at
from log_service.storage.segment import MAX_RELATIVE_OFFSET
from tests.unit.storage.cleaner.context import CompactedLog

NOW = 1_700_000_000_000


def three_segments(**config: int) -> CompactedLog:
    log = CompactedLog(**config)
    for number in range(3):
        log.write_segment((b"a", b"%d" % number), (b"b", b"%d" % number))
    return log


def test_a_log_that_was_never_cleaned_is_dirty_up_to_its_active_segment() -> None:
    log = three_segments()
    found = look_at(log.log, NOW, 6)
    assert (found.first_dirty_offset, found.first_uncleanable_offset, found.dirty_ratio) == (
        0,
        6,
        1.0,
    )


def test_a_high_watermark_inside_a_segment_keeps_all_of_it() -> None:
    assert look_at(three_segments().log, NOW, 3).first_uncleanable_offset == 2


def test_nothing_is_cleanable_without_a_closed_segment() -> None:
    log = CompactedLog()
    log.write((b"a", b"1"))
    found = look_at(log.log, NOW, 1)
    assert (found.cleanable_bytes, found.dirty_ratio) == (0, 0.0)
    assert not is_due(found, log.config)


def test_the_ratio_is_of_bytes_and_has_to_be_passed() -> None:
    log = three_segments()
    log.log.cleaned_offset = 4
    found = look_at(log.log, NOW, 6)
    assert (found.clean_bytes, found.cleanable_bytes) == (
        log.log.segments[0].size_bytes * 2,
        log.log.segments[2].size_bytes,
    )
    assert not is_due(found, log.config)
    log.log.cleaned_offset = 2
    assert is_due(look_at(log.log, NOW, 6), log.config)


def test_a_checkpoint_outside_the_log_begins_anew() -> None:
    log = three_segments()
    log.log.cleaned_offset = 99
    assert look_at(log.log, NOW, 6).first_dirty_offset == 0
    log.log.cleaned_offset = 1
    log.log.advance_log_start_offset(2)
    assert look_at(log.log, NOW, 6).first_dirty_offset == 2


def test_neighbours_become_one_while_indexes_and_offsets_allow() -> None:
    log = three_segments()
    segments = list(log.log.segments)[:3]
    assert group_segments(segments, 6, log.config) == [segments]
    far = group_segments(segments, MAX_RELATIVE_OFFSET + 2, log.config)
    assert far == [segments[:2], segments[2:]], (
        "the last would reach further than 32 bits from the first"
    )


def test_an_index_that_would_overflow_begins_another_group() -> None:
    log = CompactedLog(index_interval_bytes=1, segment_index_bytes=36)
    for _ in range(3):
        for number in range(3):
            log.write((b"%d" % number, b"v"))
        log.log.roll()
    groups = group_segments(list(log.log.segments)[:-1], log.log.log_end_offset, log.config)
    assert [len(group) for group in groups] == [2, 1]
