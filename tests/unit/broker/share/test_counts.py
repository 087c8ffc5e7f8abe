"""How long a fetch has a share partition to itself, in numbers (KIP-1103)."""

from log_service.broker.share.counts import FetchTimes

MS = 1_000_000


def told(times: FetchTimes) -> tuple[float, float]:
    return times.held_ms.sum, times.percent.sum


def test_the_first_fetch_has_nothing_before_it_to_be_compared_with() -> None:
    times = FetchTimes()
    times.note(50 * MS, 53 * MS)
    assert told(times) == (3, 100)


def test_a_fetch_is_compared_with_the_time_since_the_one_before() -> None:
    times = FetchTimes()
    times.note(0, 10 * MS)
    times.note(13 * MS, 14 * MS)
    times.note(23 * MS, 23 * MS)
    assert told(times) == (11, 100 + 25 + 0)
    assert (times.held_ms.count, times.percent.count) == (3, 3)


def test_a_fetch_right_behind_another_that_takes_no_time_takes_all_of_it() -> None:
    times = FetchTimes()
    times.note(0, 0)
    times.note(0, 0)
    assert told(times) == (0, 200)
