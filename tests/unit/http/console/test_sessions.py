"""Sessions end in time, are bounded, and cannot be guessed."""

import random

from log_service.common.secrets import SecretText
from log_service.http.cluster_clients.credentials import Credentials
from log_service.http.console.sessions import SessionLimits, Sessions
from tests.unit.http.console.clocks import SteppedClock

ANN = Credentials(user="ann", password=SecretText("a"))
LIMITS = SessionLimits(max_count=3, max_count_per_user=2, idle_ms=1_000, max_age_ms=5_000)


def sessions(clock: SteppedClock) -> Sessions:
    return Sessions(clock, random.Random(7).randbytes, LIMITS)


def test_a_session_ends_without_requests() -> None:
    clock = SteppedClock()
    found = sessions(clock)
    session_id = found.open("ann", ANN)
    clock.now_ms += 999
    assert found.find(session_id) is not None
    clock.now_ms += 999
    assert found.find(session_id, is_use=False) is not None, "the request before prolonged it"
    clock.now_ms += 1
    assert found.find(session_id) is None


def test_a_session_ends_at_its_age_however_often_it_is_used() -> None:
    clock = SteppedClock()
    found = sessions(clock)
    session_id = found.open("ann", ANN)
    for _ in range(9):
        clock.now_ms += 500
        assert found.find(session_id) is not None
    clock.now_ms += 500
    assert found.find(session_id) is None


def test_the_least_recently_used_session_ends_first() -> None:
    found = sessions(SteppedClock())
    first, second = found.open("ann", ANN), found.open("ann", ANN)
    assert found.find(first) is not None
    third = found.open("ann", ANN)
    assert found.find(second) is None
    others = [found.open(name, ANN) for name in ("bob", "eve")]
    assert found.find(first) is None
    assert all(found.find(each) is not None for each in (third, *others))
    assert len(found) == 3


def test_all_sessions_of_a_person_end_together() -> None:
    found = sessions(SteppedClock())
    ids = [found.open(name, ANN) for name in ("ann", "bob", "ann")]
    found.close_all_of("ann")
    assert [found.find(each) is not None for each in ids] == [False, True, False]


def test_ids_and_tokens_belong_together() -> None:
    found = sessions(SteppedClock())
    one, other = found.new_id(), found.new_id()
    assert one != other
    assert found.is_csrf_token(one, found.csrf_token(one))
    assert not found.is_csrf_token(one, found.csrf_token(other))
    assert not found.is_csrf_token(one, "")
    assert not found.is_csrf_token(one, "ä")


def test_no_secret_is_shown() -> None:
    found = sessions(SteppedClock())
    session_id = found.open("ann", Credentials(user="ann", password=SecretText("wonderland")))
    assert "wonderland" not in f"{found!r} {found.find(session_id)!r}"
