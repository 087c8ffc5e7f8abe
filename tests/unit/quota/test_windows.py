"""Rates and pauses: the numbers of Apache Kafka, and what holds for every sequence of requests."""

from hypothesis import given
from hypothesis import strategies as st

from log_service.config.views import QuotaWindows
from log_service.quota.windows import LONGEST_PAUSE_MS, Meters, SampledRate, pause_ms

WINDOWS = QuotaWindows()


def test_a_burst_is_measured_over_ten_seconds() -> None:
    """The figure of a running Apache Kafka 4.3.1: 19.1 kB at a bound of 1000 B/s pause for 9107 ms."""
    rate = SampledRate(WINDOWS, 0)
    rate.count(19_107, 0)
    assert rate.measured(0) == (1_910.7, 10_000)
    assert pause_ms(*rate.measured(0), 1_000) == 9_107


def test_the_window_that_has_begun_counts_with_what_of_it_is_over() -> None:
    rate = SampledRate(WINDOWS, 0)
    rate.count(5_000, 0)
    rate.count(5_000, 400)
    assert rate.measured(400) == (10_000 / 10.4, 10_400)


def test_samples_count_until_all_windows_are_over() -> None:
    rate = SampledRate(WINDOWS, 0)
    rate.count(11_000, 0)
    assert rate.measured(10_999)[0] > 999
    assert rate.measured(11_000)[0] == 0


def test_nothing_pauses_at_its_bound() -> None:
    assert pause_ms(1_000, 10_000, 1_000) == 0
    assert pause_ms(1_000.1, 10_000, 1_000) == 1


def test_what_is_taken_back_was_never_counted() -> None:
    meters = Meters(WINDOWS)
    assert meters.charge("a", 50_000, 1_000, 0) == 40_000
    meters.take_back("a", 50_000, 0)
    assert meters.charge("a", 10_000, 1_000, 0) == 0


def test_shares_are_apart() -> None:
    meters = Meters(WINDOWS)
    assert meters.charge("a", 50_000, 1_000, 0) > 0
    assert meters.charge("b", 10_000, 1_000, 0) == 0


def test_a_pause_has_its_longest() -> None:
    meters = Meters(WINDOWS, longest_ms=1_000)
    assert meters.charge("a", 1_000_000, 1, 0) == 1_000


def test_a_bound_next_to_nothing_has_the_longest_pause() -> None:
    """The value 5e-324 is above 0, so that it can be set as a share of request time.

    No request of the client's came through any more.
    """
    assert Meters(WINDOWS).charge("a", 1.0, 5e-324, 0) == LONGEST_PAUSE_MS
    assert Meters(WINDOWS, longest_ms=1_000).charge("a", 1.0, 1e-308, 0) == 1_000


def test_a_changed_bound_holds_for_what_was_counted_before() -> None:
    meters = Meters(WINDOWS)
    assert meters.charge("a", 10_000, 1_000, 0) == 0
    assert meters.charge("a", 0, 100, 0) == 90_000


def test_those_that_are_idle_are_forgotten_and_the_busy_ones_are_not() -> None:
    meters = Meters(WINDOWS)
    for number in range(1_024):
        meters.charge(number, 1, 1, 0)
    meters.charge("busy", 50_000, 1_000, 20_000)
    assert len(meters) == 1
    for number in range(5_000):
        meters.charge(number, 1, 1, 20_000)
    assert len(meters) == 5_001
    assert meters.charge("busy", 0, 1_000, 20_000) == 40_000


def test_those_nearest_to_their_bounds_are_shown_first() -> None:
    meters = Meters(WINDOWS)
    for number in range(5):
        meters.charge(f"client {number}", 1_000 * number, 100 * (5 - number), 0)
    assert [(each.share, each.rate) for each in meters.shown(0, 2)] == [
        ("client 4", 400.0),
        ("client 3", 300.0),
    ]
    assert not meters.shown(11_000, 2)


requests = st.lists(
    st.tuples(st.integers(0, 5_000), st.integers(0, 100_000)), min_size=1, max_size=60
)


@given(requests, st.integers(1, 12), st.integers(1, 5))
def test_a_rate_is_never_more_than_was_counted_and_never_negative(
    asked: list[tuple[int, int]], count: int, size_s: int
) -> None:
    windows = QuotaWindows(count=count, size_ms=size_s * 1_000)
    rate, now_ms, total = SampledRate(windows, 0), 0, 0
    for wait_ms, amount in asked:
        now_ms += wait_ms
        rate.count(amount, now_ms)
        total += amount
        per_second, span_ms = rate.measured(now_ms)
        assert span_ms >= max(1, (count - 1) * windows.size_ms)
        assert amount <= per_second * span_ms / 1_000 + 1e-6 <= total + 1e-3


class AllSamples:
    """A rate that adds up all of its samples each time, as Apache Kafka does. A sample is when it
    began, when it counted last, and what.
    """

    def __init__(self, windows: QuotaWindows) -> None:
        self.windows = windows
        self.samples: list[list[int]] = [[0, 0, 0]]
        self.current = 0

    def count(self, amount: int, now_ms: int) -> None:
        if now_ms - self.samples[self.current][0] >= self.windows.size_ms:
            self.current = (self.current + 1) % (self.windows.count + 1)
            if self.current == len(self.samples):
                self.samples.append([0, 0, 0])
            self.samples[self.current] = [now_ms, now_ms, 0]
        self.samples[self.current][1] = now_ms
        self.samples[self.current][2] += amount

    def measured(self, now_ms: int) -> tuple[float, int]:
        for sample in self.samples:
            if now_ms - sample[1] >= self.windows.count * self.windows.size_ms:
                sample[:] = [now_ms, now_ms, 0]
        span_ms = now_ms - min(sample[0] for sample in self.samples)
        span_ms += (
            max(0, self.windows.count - 1 - span_ms // self.windows.size_ms) * self.windows.size_ms
        )
        return sum(sample[2] for sample in self.samples) * 1_000 / max(span_ms, 1), max(span_ms, 1)


steps = st.lists(
    st.tuples(st.integers(0, 5_000), st.integers(-1_000, 100_000), st.booleans()),
    min_size=1,
    max_size=60,
)


@given(steps, st.integers(1, 12), st.integers(1, 5), st.integers(1, 50_000))
def test_what_was_added_up_before_is_what_all_samples_hold(
    asked: list[tuple[int, int, bool]], count: int, size_s: int, bound: int
) -> None:
    windows = QuotaWindows(count=count, size_ms=size_s * 1_000)
    rate, plain, now_ms = SampledRate(windows, 0), AllSamples(windows), 0
    for wait_ms, amount, is_counted in asked:
        now_ms += wait_ms
        if is_counted:
            is_within = rate.count_within(amount, bound, now_ms)
            plain.count(amount, now_ms)
            assert plain.measured(now_ms)[0] <= bound or not is_within
        assert rate.measured(now_ms) == plain.measured(now_ms)


@given(requests, st.integers(1, 5_000))
def test_who_waits_for_each_pause_gets_less_than_twice_the_bound_however_it_bursts(
    asked: list[tuple[int, int]], bound: int
) -> None:
    """The worst that can be had: a burst of 21 s, a pause of 11 s, and it is forgotten. It is
    Apache Kafka's worst, too.
    """
    meters, now_ms, total = Meters(WINDOWS), 0, 0
    for wait_ms, amount in asked:
        now_ms += wait_ms
        assert total <= 2 * bound * (now_ms / 1_000 + WINDOWS.burst_s) + 1
        total += amount
        now_ms += meters.charge("a", amount, bound, now_ms)


def test_a_pause_is_known_to_all_who_share_it_until_it_is_over() -> None:
    meters = Meters(WINDOWS, longest_ms=1_000)
    assert meters.pause_left_ms("a", 0) == 0
    assert meters.charge("a", 1_000_000, 1, 0) == 1_000
    assert [meters.pause_left_ms("a", now_ms) for now_ms in (0, 400, 999, 1_000, 5_000)] == [
        1_000,
        600,
        1,
        0,
        0,
    ]
    assert meters.pause_left_ms("b", 0) == 0
