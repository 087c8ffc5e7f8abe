"""Offset ranges as values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestration.offsets.ranges import (
    OffsetRange,
    OffsetRanges,
    merged,
    places_within,
    ranges_of_offsets,
    split_range,
    table_of_offsets,
)


def one(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange(partition=partition, start=start, end=end)


def ranges(*given_ranges: OffsetRange) -> OffsetRanges:
    return OffsetRanges(topic="t", topic_id="T", ranges=given_ranges)


def test_a_range_is_half_open() -> None:
    assert one(0, 3, 5).count == 2
    assert [offset for offset in range(8) if offset in one(0, 3, 5)] == [3, 4]
    assert one(0, 3, 3).is_empty
    assert str(ranges(one(0, 3, 5), one(2, 0, 1))) == "0:[3,5) 2:[0,1)"


@pytest.mark.parametrize(("partition", "start", "end"), [(-1, 0, 1), (0, -1, 1), (0, 2, 1)])
def test_a_range_that_is_none_is_refused(partition: int, start: int, end: int) -> None:
    with pytest.raises(ValueError, match="is not a range"):
        one(partition, start, end)


def test_ranges_ascend_and_do_not_overlap() -> None:
    assert ranges(one(0, 0, 2), one(0, 2, 4), one(1, 0, 1)).ends() == {0: 4, 1: 1}
    for wrong in [(one(1, 0, 1), one(0, 0, 1)), (one(0, 0, 3), one(0, 2, 4))]:
        with pytest.raises(ValueError, match="ascend"):
            ranges(*wrong)
    assert list(ranges(one(0, 1, 1), one(1, 0, 1)).without_empty()) == [one(1, 0, 1)]


def test_split_covers_the_whole_in_order() -> None:
    assert split_range(one(3, 5, 12), 3) == [one(3, 5, 8), one(3, 8, 11), one(3, 11, 12)]


@given(st.sets(st.integers(0, 200), max_size=40), st.integers(1, 10))
def test_covering_ranges_hold_every_offset_in_at_most_so_many_pieces(
    offsets: set[int], most: int
) -> None:
    covering = ranges_of_offsets(7, sorted(offsets), most)
    assert len(covering) <= most
    assert all(any(offset in piece for piece in covering) for offset in offsets)
    ranges(*covering)
    if most >= 40:
        assert sum(piece.count for piece in covering) == len(offsets)


def test_neighbours_share_a_range_and_the_widest_gaps_are_kept() -> None:
    assert ranges_of_offsets(0, [1, 2, 3, 9, 100], 5) == [
        one(0, 1, 4),
        one(0, 9, 10),
        one(0, 100, 101),
    ]
    assert ranges_of_offsets(0, [1, 2, 3, 9, 100], 2) == [one(0, 1, 10), one(0, 100, 101)]


def test_table_of_offsets_shows_the_lag_of_each_partition() -> None:
    assert table_of_offsets(ranges(one(0, 1, 4), one(1, 0, 2)), {0: 9, 1: 2}) == [
        {"partition": 0, "start": 1, "end": 4, "high_watermark": 9, "lag": 5},
        {"partition": 1, "start": 0, "end": 2, "high_watermark": 2, "lag": 0},
    ]


def test_spanning_reaches_over_both_and_drops_another_topic_id() -> None:
    first, second = ranges(one(0, 3, 5), one(2, 0, 1)), ranges(one(0, 5, 9), one(1, 4, 6))
    assert first.spanning(second) == ranges(one(0, 3, 9), one(1, 4, 6), one(2, 0, 1))
    other = OffsetRanges(topic="t", topic_id="recreated", ranges=(one(0, 0, 1),))
    assert first.spanning(other) == other


def test_places_are_those_of_their_own_partition_and_ranges() -> None:
    held = [one(0, 3, 5), one(0, 8, 9), one(1, 0, 4)]
    assert places_within({0: [2, 3, 4, 5, 8], 1: [8, 3], 2: [3]}, held) == {0: [3, 4, 8], 1: [3]}
    assert places_within({0: [5]}, held) == {}


def test_only_ranges_of_one_partition_are_made_one() -> None:
    assert merged([one(1, 2, 4), one(0, 3, 6), one(0, 0, 3), one(0, 1, 2), one(0, 8, 9)]) == [
        one(0, 0, 6),
        one(0, 8, 9),
        one(1, 2, 4),
    ]


def test_ranges_that_span_no_offset_are_none_altogether() -> None:
    assert ranges(one(0, 3, 3), one(1, 5, 5)).is_empty
    assert not ranges(one(0, 3, 3), one(1, 5, 6)).is_empty
