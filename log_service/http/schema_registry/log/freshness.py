"""Decides for how long a writer may trust its producer epoch.

A newer writer fences an older one only as long as the brokers remember both. The partition's leader
forgets the epoch of an idle producer after ``producer.id.expiration.ms`` (a day by default). The
coordinator forgets an idle transactional id after ``transactional.id.expiration.ms`` (seven days by
default), and then gives another producer id, which fences no older writer. So a writer stops using
its epoch long before that. A paused process finds its epoch too old when it runs again.

A cluster in which either time is shorter than ``REFUSED_AFTER_MS`` is not supported. ``expiration``
warns.
"""

from dataclasses import dataclass

from log_service.common.env import Clock

RENEWED_AFTER_MS = 1_800_000
"""The age of its epoch at which a writer takes over again before it decides a write."""
REFUSED_AFTER_MS = 3_600_000
"""A writer sends nothing under an epoch that is so old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment by the monotonic and the wall clock. The first may stop while a machine sleeps."""

    monotonic_ms: int
    wall_ms: int


def moment_of(clock: Clock) -> Moment:
    """Return the present moment."""
    return Moment(monotonic_ms=clock.monotonic_ms(), wall_ms=clock.wall_ms())


def age_ms(since: Moment, now: Moment) -> int:
    """Return the milliseconds since a moment, by the clock that shows more.

    If the wall clock is set forward or back, the difference counts as age, too.
    """
    return max(now.monotonic_ms - since.monotonic_ms, abs(now.wall_ms - since.wall_ms))


def is_renewal_due(since: Moment, now: Moment) -> bool:
    """Return whether an epoch acquired ``since`` should be renewed before the next write."""
    return age_ms(since, now) >= RENEWED_AFTER_MS


def is_trusted(since: Moment, now: Moment) -> bool:
    """Return whether a batch may be sent under an epoch that was acquired ``since``."""
    return age_ms(since, now) < REFUSED_AFTER_MS
