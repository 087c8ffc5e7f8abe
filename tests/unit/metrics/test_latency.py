"""Durations in buckets: what they cost in precision, and which minutes a quantile speaks of."""

import itertools
import random

import pytest

from log_service.metrics.latency import BOUNDS_NS, WINDOW_MS, LatencyMeter, quantiles_ms
from log_service.metrics.request_meter import RequestMeter

MS = 1_000_000


def test_buckets_rise_from_a_microsecond_to_a_hundred_seconds() -> None:
    assert BOUNDS_NS[0] == 1_000
    assert BOUNDS_NS[-1] == 100_000_000_000
    assert all(low < high <= low * 1.22 for low, high in itertools.pairwise(BOUNDS_NS))


@pytest.mark.parametrize("seed", range(5))
def test_quantile_is_within_a_bucket_of_the_true_one(seed: int) -> None:
    rng = random.Random(seed)
    durations = sorted(int(rng.lognormvariate(13, 2)) + 1_000 for _ in range(5_000))
    meter = LatencyMeter()
    for duration in durations:
        meter.note(duration)
    wanted = (0.5, 0.75, 0.95, 0.99, 0.999)
    for quantile, found in zip(wanted, quantiles_ms(meter.counts, wanted), strict=True):
        true = durations[min(int(quantile * len(durations)), len(durations) - 1)] / MS
        assert true / 1.22 <= found <= true * 1.22, f"seed {seed}: {quantile}"


def test_nothing_noted_is_zero() -> None:
    assert quantiles_ms(LatencyMeter().counts, (0.5, 0.99)) == [0.0, 0.0]


def test_durations_beyond_the_last_bound_are_counted_at_it() -> None:
    meter = LatencyMeter()
    meter.note(10**15)
    assert meter.count == 1
    assert quantiles_ms(meter.counts, (0.99,)) == [100_000.0]


def test_quantiles_forget_what_is_older_than_two_windows() -> None:
    meter = LatencyMeter(began_ms=0)
    meter.note(50 * MS)
    assert sum(meter.recent(1_000)) == 1
    assert sum(meter.recent(WINDOW_MS)) == 1, "this look ends the first window"
    meter.note(2 * MS)
    assert sum(meter.recent(WINDOW_MS + 1_000)) == 2, "the window before still counts"
    assert sum(meter.recent(2 * WINDOW_MS)) == 2
    assert sum(meter.recent(2 * WINDOW_MS + 1)) == 1, "the first window is forgotten"
    assert meter.count == 2, "the count itself never falls"


def test_a_request_with_a_response_at_once_is_one_duration_and_one_that_waits_is_two() -> None:
    meter = RequestMeter(3)
    meter.note_at_once(3, 5 * MS)
    meter.note_local(1, 2 * MS)
    assert meter.versions == [0, 1, 0, 1]
    assert (meter.at_once.count, meter.delayed_local.count, meter.delayed_total.count) == (1, 1, 0)
    meter.note_total(100 * MS)
    assert meter.delayed_total.sum_ns == 100 * MS
    assert meter.at_once.sum_ns == 5 * MS
