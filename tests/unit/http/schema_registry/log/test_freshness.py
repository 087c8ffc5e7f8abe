"""How long a producer epoch is trusted, by two clocks."""

import pytest

from log_service.http.schema_registry.log.freshness import (
    REFUSED_AFTER_MS,
    RENEWED_AFTER_MS,
    Moment,
    age_ms,
    is_renewal_due,
    is_trusted,
)

BEGIN = Moment(monotonic_ms=5_000, wall_ms=1_700_000_000_000)


def later(monotonic_ms: int, wall_ms: int) -> Moment:
    return Moment(monotonic_ms=BEGIN.monotonic_ms + monotonic_ms, wall_ms=BEGIN.wall_ms + wall_ms)


@pytest.mark.parametrize(
    ("monotonic_ms", "wall_ms", "expected_ms"),
    [(10, 10, 10), (10, 500, 500), (500, 10, 500), (10, -300, 300)],
    ids=["both", "suspended machine", "slow wall clock", "wall clock set back"],
)
def test_age_is_told_by_the_clock_that_shows_more(
    monotonic_ms: int, wall_ms: int, expected_ms: int
) -> None:
    """A machine that was suspended finds its epoch old, although its monotonic clock stood still."""
    assert age_ms(BEGIN, later(monotonic_ms, wall_ms)) == expected_ms


@pytest.mark.parametrize(
    ("age", "due", "trusted"),
    [
        (0, False, True),
        (RENEWED_AFTER_MS - 1, False, True),
        (RENEWED_AFTER_MS, True, True),
        (REFUSED_AFTER_MS - 1, True, True),
        (REFUSED_AFTER_MS, True, False),
    ],
)
def test_an_epoch_is_renewed_long_before_it_is_refused(age: int, due: bool, trusted: bool) -> None:
    """An active writer never sends a batch under an epoch that is refused."""
    now = later(age, age)
    assert (is_renewal_due(BEGIN, now), is_trusted(BEGIN, now)) == (due, trusted)
