"""The longest waits for acknowledgements between two moments."""

from tests.chaos.waits import Waits, waits_between

TOLD_AT = [(0.0, 1.0), (1.5, 2.0), (1.6, 5.0), (5.1, 5.2), (8.0, 12.0)]


def test_the_longest_waits_between_two_moments_are_found() -> None:
    assert waits_between(TOLD_AT, 1.5, 6.0) == Waits(silence=3.0, record=3.4, count=3)


def test_silence_at_either_end_counts() -> None:
    assert waits_between(TOLD_AT, 5.1, 9.0).silence == 9.0 - 5.2
    assert waits_between(TOLD_AT, -4.0, 2.0).silence == 5.0


def test_a_record_that_was_sent_before_ends_a_silence_and_counts_for_nothing_else() -> None:
    assert waits_between(TOLD_AT, 4.0, 6.0) == Waits(silence=1.0, record=5.2 - 5.1, count=1)


def test_where_nothing_is_acknowledged_all_the_time_is_silence() -> None:
    assert waits_between([], 1.0, 4.0) == Waits(silence=3.0, record=0.0, count=0)
