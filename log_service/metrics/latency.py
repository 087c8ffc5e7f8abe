"""Counts durations in fixed buckets, from which quantiles of the last minutes are computed.

This module decides the buckets. The last minutes are the current window and the one before, and a
window ends at the first reading after a minute. Each power of ten has twelve buckets, from a
microsecond to a hundred seconds, so that a quantile is off by a tenth at most. This module has no
clock, because the caller passes in durations and the time of reading.

Invariants: counts only grow. Counting a duration takes one search in a tuple and two additions.
"""

from bisect import bisect_left
from collections.abc import Sequence

BUCKETS_PER_DECADE = 12
FIRST_BOUND_NS = 1_000
LAST_BOUND_NS = 100_000_000_000
WINDOW_MS = 60_000
"""A window ends at the first reading after this time.

Quantiles are those of the window before and of the current one.
"""

NS_PER_MS = 1_000_000


def _bounds() -> tuple[int, ...]:
    bounds = []
    step = 0
    while (bound := round(FIRST_BOUND_NS * 10 ** (step / BUCKETS_PER_DECADE))) <= LAST_BOUND_NS:
        bounds.append(bound)
        step += 1
    return tuple(bounds)


BOUNDS_NS = _bounds()
"""Upper bounds of the buckets, inclusive; one more bucket takes what is longer."""


class LatencyMeter:
    """The durations of one operation, as counts by bucket."""

    __slots__ = ("_before", "_window", "_window_began_ms", "counts", "sum_ns")

    def __init__(self, began_ms: int = 0) -> None:
        self.counts = [0] * (len(BOUNDS_NS) + 1)
        self.sum_ns = 0
        self._before: Sequence[int] = tuple(self.counts)
        self._window: Sequence[int] = self._before
        self._window_began_ms = began_ms

    def __repr__(self) -> str:
        return f"<LatencyMeter count={self.count}>"

    @property
    def count(self) -> int:
        """The number of durations counted so far."""
        return sum(self.counts)

    def note(self, duration_ns: int) -> None:
        """Count one duration."""
        self.counts[bisect_left(BOUNDS_NS, duration_ns)] += 1
        self.sum_ns += duration_ns

    def recent(self, now_ms: int) -> list[int]:
        """Return the counts of the previous and the current window, by bucket.

        Begin a new window if the current one is old.
        """
        counts = [count - before for count, before in zip(self.counts, self._before, strict=True)]
        if now_ms - self._window_began_ms >= WINDOW_MS:
            self._before, self._window, self._window_began_ms = (
                self._window,
                tuple(self.counts),
                now_ms,
            )
        return counts


def quantiles_ms(counts: Sequence[int], wanted: Sequence[float]) -> list[float]:
    """Return the ``wanted`` quantiles (0 to 1, increasing) of bucket counts, in milliseconds.

    All are 0 if nothing was counted.
    """
    total = sum(counts)
    found = []
    seen, bucket = 0, -1
    for quantile in wanted:
        rank = quantile * total
        while total and seen < rank:
            bucket += 1
            seen += counts[bucket]
        found.append(_within(bucket, counts, seen, rank) / NS_PER_MS if total else 0.0)
    return found


def _within(bucket: int, counts: Sequence[int], seen: int, rank: float) -> float:
    """Return the duration in ns of the measurement that has the rank ``rank``, from the shortest.

    It lies in the given bucket. The bucket's durations are taken to be spread evenly. ``seen`` is
    the sum of the counts up to and including the bucket.
    """
    if bucket < 0:
        return 0.0
    low = BOUNDS_NS[bucket - 1] if bucket else 0
    high = BOUNDS_NS[bucket] if bucket < len(BOUNDS_NS) else LAST_BOUND_NS
    share = 1.0 - (seen - rank) / counts[bucket] if counts[bucket] else 1.0
    return low + (high - low) * share
