"""Measures a client's rate over the last seconds, and the pause that brings it back to its quota.

Time is divided into windows of equal length. A sample counts the amounts of one window. A rate is
the sum of the kept samples, divided by the time that they span. That time is never shorter than all
windows but one. So with eleven windows of one second, a burst is measured over ten seconds, however
short it was. Samples and times agree with Apache Kafka's to the millisecond, so that both throttle
alike.

Every request of a client with a quota is counted and compared with its bound, so this has to be
cheap. All samples but the current one are added up once. Their sum is reused until the first of
them is too old. If the rate over the shortest possible time is within the bound, the real rate is
not measured, because it is lower still.

Invariants: there is at most one sample more than there are windows; a sample expires if nothing
was counted in it for the length of all windows.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from log_service.config.views import QuotaWindows

LONGEST_PAUSE_MS: Final = 2**31 - 1
"""The longest pause that a response can report, which has 32 bits for it."""
_NEVER_MS: Final = -(1 << 62)
"""A time before every other. It marks sums of the samples as invalid."""


class _Sample:
    __slots__ = ("began_ms", "last_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.restart(now_ms)

    def restart(self, now_ms: int) -> None:
        self.began_ms = now_ms
        self.last_ms = now_ms
        self.total = 0.0


class SampledRate:
    """The amounts that were counted over the last windows."""

    __slots__ = (
        "_added_up_until_ms",
        "_current",
        "_least_span_ms",
        "_oldest_ms",
        "_others_total",
        "_samples",
        "_windows",
        "claimed_until_ms",
        "last_ms",
        "paused_until_ms",
    )

    def __init__(self, windows: QuotaWindows, now_ms: int) -> None:
        self._windows = windows
        self._samples = [_Sample(now_ms)]
        self._current = 0
        self.last_ms = now_ms
        """When something was counted last."""
        self.paused_until_ms = now_ms
        """The time until which the sharing clients must pause."""
        self.claimed_until_ms = now_ms
        """The time by which the requests that a pause has delayed will have been handled."""
        self._others_total = 0.0
        """The sum of all samples except the current one."""
        self._oldest_ms = now_ms
        """The time at which the oldest sample began."""
        self._added_up_until_ms = _NEVER_MS
        """The time until which ``_others_total`` and ``_oldest_ms`` are valid.

        Then they have to be computed again from the samples.
        """
        self._least_span_ms = max(1, (windows.count - 1) * windows.size_ms)
        """No rate is measured over a shorter time."""

    def count_within(self, amount: float, bound: float, now_ms: int) -> bool:
        """Add an amount to the current sample.

        Return true if the rate is surely within its bound, without measuring it.
        """
        sample = self._samples[self._current]
        if now_ms >= self._added_up_until_ms or now_ms - sample.began_ms >= self._windows.size_ms:
            self.count(amount, now_ms)
            return False
        sample.total += amount
        sample.last_ms = self.last_ms = now_ms
        return (self._others_total + sample.total) * 1_000 <= bound * self._least_span_ms

    def count(self, amount: float, now_ms: int) -> None:
        """Add an amount to the current sample. A negative amount takes back an earlier one."""
        windows, samples = self._windows, self._samples
        sample = samples[self._current]
        if now_ms - sample.began_ms >= windows.size_ms:
            self._current = (self._current + 1) % (windows.count + 1)
            if self._current >= len(samples):
                samples.append(_Sample(now_ms))
            sample = samples[self._current]
            sample.restart(now_ms)
            self._added_up_until_ms = _NEVER_MS
        sample.total += amount
        sample.last_ms = self.last_ms = now_ms

    def measured(self, now_ms: int) -> tuple[float, float]:
        """Return the rate per second, and the milliseconds over which it was measured."""
        windows = self._windows
        if now_ms >= self._added_up_until_ms:
            self._add_up(now_ms)
        total = self._others_total + self._samples[self._current].total
        span_ms = now_ms - self._oldest_ms
        missing_count = windows.count - 1 - span_ms // windows.size_ms
        if missing_count > 0:
            span_ms += missing_count * windows.size_ms
        span_ms = max(span_ms, 1)
        return total * 1_000 / span_ms, span_ms

    def _add_up(self, now_ms: int) -> None:
        """Empty the expired samples and sum the others, except the current one.

        The sum holds until the next sample expires.
        """
        expiry_ms = self._windows.count * self._windows.size_ms
        current = self._samples[self._current]
        self._others_total, self._oldest_ms, until_ms = 0.0, now_ms, now_ms + expiry_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= expiry_ms:
                sample.restart(now_ms)
            if sample is not current:
                self._others_total += sample.total
            self._oldest_ms = min(self._oldest_ms, sample.began_ms)
            until_ms = min(until_ms, sample.last_ms + expiry_ms)
        self._added_up_until_ms = until_ms

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing was counted for the length of all windows, so it may be dropped."""
        return now_ms - self.last_ms >= self._windows.count * self._windows.size_ms


def pause_ms(rate: float, span_ms: float, bound: float) -> int:
    """Return for how many ms to pause until a rate over a span falls to its bound.

    0 if the rate is not above it. The pause is at most ``LONGEST_PAUSE_MS``, also for a bound near
    zero.
    """
    if rate <= bound:
        return 0
    return int(min((rate - bound) / bound * span_ms + 0.5, LONGEST_PAUSE_MS))


class Measured(NamedTuple):
    """A rate for display: the clients that share it, the rate per second and its bound."""

    share: str
    rate: float
    bound: float


MIN_SWEEP_COUNT: Final = 1_024


@dataclass(slots=True)
class Meters:
    """The rates of all clients with quotas of one kind.

    Rates that were idle for the length of all windows are dropped when new ones are added. No pause
    is longer than ``longest_ms``. ``pause_count`` and ``pause_total_ms`` tell how often and for how
    long clients had to pause.
    """

    windows: QuotaWindows
    longest_ms: int = LONGEST_PAUSE_MS
    pause_count: int = 0
    pause_total_ms: int = 0
    _rates: dict[object, tuple[SampledRate, float]] = field(default_factory=dict)
    _sweep_count: int = MIN_SWEEP_COUNT

    def __len__(self) -> int:
        return len(self._rates)

    def charge(self, share: object, amount: float, bound: float, now_ms: int) -> int:
        """Count an amount of the clients that share a quota. Return their pause in ms."""
        known = self._rates.get(share)
        rate = (
            known[0]
            if known is not None and known[1] == bound
            else self._rate_of(share, bound, now_ms)
        )
        if rate.count_within(amount, bound, now_ms):
            return 0
        per_second, span_ms = rate.measured(now_ms)
        if per_second <= bound:
            return 0
        found_ms = min(pause_ms(per_second, span_ms, bound), self.longest_ms)
        rate.paused_until_ms = now_ms + found_ms
        return found_ms

    def pause_left_ms(self, share: object, now_ms: int) -> int:
        """Return how many milliseconds are left of the pause of clients that share a quota.

        0 if the pause is over, or there was none.
        """
        known = self._rates.get(share)
        return 0 if known is None else max(0, known[0].paused_until_ms - now_ms)

    def claim(self, share: object, until_ms: int) -> None:
        """Note when a delayed request will be handled.

        New requests of the clients that share its quota wait for it.
        """
        known = self._rates.get(share)
        if known is not None:
            known[0].claimed_until_ms = max(known[0].claimed_until_ms, until_ms)

    def claim_left_ms(self, share: object, now_ms: int) -> int:
        """Return in how many milliseconds the delayed requests will have been handled."""
        known = self._rates.get(share)
        return 0 if known is None else max(0, known[0].claimed_until_ms - now_ms)

    def take_back(self, share: object, amount: float, now_ms: int) -> None:
        """Take an earlier amount back, as if it had never been counted."""
        known = self._rates.get(share)
        if known is not None:
            known[0].count(-amount, now_ms)

    def note_pause(self, paused_ms: int) -> None:
        """Record that a client was asked to pause."""
        self.pause_count += 1
        self.pause_total_ms += paused_ms

    def shown(self, now_ms: int, limit: int) -> list[Measured]:
        """Return the rates with the highest ratio to their bounds, at most ``limit``."""
        found = [
            Measured(str(share), rate.measured(now_ms)[0], bound)
            for share, (rate, bound) in list(self._rates.items())
            if not rate.is_idle(now_ms)
        ]
        return sorted(found, key=lambda each: each.rate / each.bound, reverse=True)[:limit]

    def _rate_of(self, share: object, bound: float, now_ms: int) -> SampledRate:
        known = self._rates.get(share)
        if known is None:
            if len(self._rates) >= self._sweep_count:
                self._rates = {
                    key: value for key, value in self._rates.items() if not value[0].is_idle(now_ms)
                }
                self._sweep_count = max(MIN_SWEEP_COUNT, 2 * len(self._rates))
            known = self._rates[share] = SampledRate(self.windows, now_ms), bound
        elif known[1] != bound:
            known = self._rates[share] = known[0], bound
        return known[0]
