"""The judge of quotas passes clients that share one as they should.

It names each broken promise by its fault.
"""

from collections.abc import Iterator

import pytest

from tests.sim.quota_checker import WARM_UP_SECONDS, QuotaChecker
from tests.sim.quota_clients import BOUNDS, Metered, Use

REQUEST_BYTES = 1_000
END = WARM_UP_SECONDS + 60.0
WINDOW_SECONDS = 4.0


def told(entries: list[tuple[float, Metered]]) -> list[str]:
    """Return what is said of requests, each with the time of its response."""
    found: list[str] = []
    checker = QuotaChecker(lambda _rule, text: found.append(text), WINDOW_SECONDS)
    checker.begin(0.0)
    for time, request in sorted(entries, key=lambda entry: entry[0]):
        request.ended_time, request.is_ok = time, not request.error
        checker.note(request)
        checker.note_ended(request)
    checker.end(END)
    return found


def asked(
    client: str, quota: str, use: Use, *, pause_ms: int = 0, line: int = 0, error: str = ""
) -> Metered:
    return Metered(
        client=client,
        quota=quota,
        use=use,
        is_patient=True,
        line=line,
        size_bytes=REQUEST_BYTES,
        is_served=True,
        pause_ms=pause_ms,
        error=error,
    )


def fair(
    faster: float = 1.0, *, first_share: float = 0.5, pause_ms: int = 0
) -> Iterator[tuple[float, Metered]]:
    """Return two clients that share the user's quota, and one that is alone, at their bounds.

    Clients of the user ``faster`` are at its bounds.
    """
    line = 0
    for use in Use:
        for client, quota, rate in (
            ("a", "user", BOUNDS["user"] * faster * first_share),
            ("b", "user", BOUNDS["user"] * faster * (1 - first_share)),
            ("c", "alone", BOUNDS["alone"]),
        ):
            line += 1
            interval = REQUEST_BYTES / rate
            for number in range(int(END / interval)):
                yield number * interval, asked(client, quota, use, line=line, pause_ms=pause_ms)


def test_clients_that_share_a_quota_as_they_should_are_not_named() -> None:
    assert not told([*fair()])
    assert not told([*fair(1.04)])
    assert not told([*fair(0.96, first_share=0.6, pause_ms=90)])


@pytest.mark.parametrize("faster", [0.94, 1.06])
def test_a_sum_that_is_not_the_quota_is_named(faster: float) -> None:
    assert len([text for text in told([*fair(faster)]) if "where the quota is" in text]) == len(Use)


def test_shares_that_are_not_equal_are_named() -> None:
    assert all("shares are not equal" in text for text in told([*fair(first_share=0.7)]))
    assert len(told([*fair(first_share=0.7)])) == len(Use)


def test_a_client_that_gets_nothing_is_named() -> None:
    nothing = asked("d", "user", Use.FETCH)
    nothing.is_served = False
    assert any("'d': 0" in text for text in told([*fair(), (10.0, nothing)]))


def test_a_pause_that_is_too_long_is_named() -> None:
    assert not told([*fair(), (END, asked("c", "alone", Use.PRODUCE, pause_ms=4_333, line=99))])
    assert any(
        "told to pause" in text
        for text in told(
            [*fair(), (END, asked("c", "alone", Use.PRODUCE, pause_ms=4_334, line=99))]
        )
    )


def test_a_response_before_the_pause_of_its_connection_is_over_is_named() -> None:
    early = [
        (2.0, asked("c", "alone", Use.FETCH, pause_ms=1_000, line=99)),
        (2.9, asked("c", "alone", Use.FETCH, line=99)),
    ]
    assert any("before its pause" in text for text in told([*fair(), *early]))
    early[1][1].line = 100
    assert not told([*fair(), *early]), "another connection has nothing to wait for"


def test_more_at_once_than_all_windows_hold_is_named() -> None:
    count = int(BOUNDS["alone"] * WINDOW_SECONDS / REQUEST_BYTES)
    burst = [asked("c", "alone", Use.FETCH, line=100 + number) for number in range(count + 1)]
    assert not told([*fair(), *((0.0, request) for request in burst[:-2])])
    assert any(
        "are allowed" in text for text in told([*fair(), *((0.0, request) for request in burst)])
    )


def test_a_refusal_is_named() -> None:
    assert any(
        "is refused" in text
        for text in told(
            [*fair(), (1.0, asked("c", "alone", Use.FETCH, error="THROTTLING_QUOTA_EXCEEDED"))]
        )
    )
