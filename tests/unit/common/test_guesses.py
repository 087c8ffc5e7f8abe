"""Guesses of passwords: how fast, by how many connections, in how much memory."""

import pytest

from log_service.common.guesses import (
    FORGET_MS,
    FREE_GUESSES,
    MAX_STEP_MS,
    MAX_WAIT_MS,
    Guesses,
    step_ms,
)

HERE = "10.0.0.1"


def guessed(guesses: Guesses, count: int, user: str = "ann", address: str = HERE) -> int:
    """Guess wrongly, each time as soon as there is a turn, and return the time."""
    now_ms = 0
    for _ in range(count):
        wait_ms = guesses.begin(address, user, now_ms)
        assert wait_ms is not None
        now_ms += wait_ms
        guesses.note_failure(address, user, now_ms)
    return now_ms


def waits(guesses: Guesses, count: int, now_ms: int) -> list[int]:
    """Return how long those wait that are not turned away, of attempts that all begin at once."""
    begun = [guesses.begin(HERE, "ann", now_ms) for _ in range(count)]
    served = [wait for wait in begun if wait is not None]
    assert begun == served + [None] * (count - len(served)), (
        "once one is turned away, the next are, too"
    )
    return served


def test_a_few_wrong_passwords_cost_nothing_and_more_cost_ever_more() -> None:
    assert [step_ms(count) for count in range(FREE_GUESSES)] == [0] * FREE_GUESSES
    steps = [step_ms(count) for count in range(FREE_GUESSES, 60)]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (200, MAX_STEP_MS)
    guesses = Guesses()
    assert guessed(guesses, FREE_GUESSES) == 0
    assert guessed(Guesses(), FREE_GUESSES + 7) == 200 + 400 + 800 + 1_600 + 3_200 + 2 * MAX_STEP_MS


def test_many_connections_guess_no_faster_than_one() -> None:
    guesses = Guesses()
    assert waits(guesses, 50, guessed(guesses, FREE_GUESSES + 20)) == [MAX_STEP_MS, MAX_WAIT_MS]


def test_attempts_in_flight_count_like_wrong_ones() -> None:
    """A burst of 64 on a pair without wrong passwords waited for nothing."""
    served = waits(Guesses(), 64, 0)
    assert served == [0] * FREE_GUESSES + [200, 600, 1_400, 3_000, 6_200]


def test_a_burst_that_fails_slows_the_next_attempt() -> None:
    guesses = Guesses()
    for _ in waits(guesses, 64, 0):
        guesses.note_failure(HERE, "ann", 0)
    assert guesses.begin(HERE, "ann", MAX_WAIT_MS) == 6_200 + MAX_STEP_MS - MAX_WAIT_MS


def test_attempts_that_are_not_compared_are_forgotten_when_they_end() -> None:
    guesses = Guesses()
    for _ in waits(guesses, 64, 0):
        guesses.note_unseen(HERE, "ann")
    assert len(guesses) == 0
    guesses.note_unseen(HERE, "ann")
    assert waits(guesses, FREE_GUESSES, 0) == [0] * FREE_GUESSES


def test_logins_that_succeed_leave_nothing_and_wait_for_nothing() -> None:
    guesses = Guesses()
    for _ in range(100):
        assert guesses.begin(HERE, "ann", 0) == 0
        guesses.note_success(HERE, "ann")
    assert len(guesses) == 0


def test_a_success_ends_one_attempt_and_not_the_others() -> None:
    guesses = Guesses()
    waits(guesses, FREE_GUESSES + 1, 0)
    guesses.note_success(HERE, "ann")
    assert guesses.begin(HERE, "ann", 0) != 0, "five are still in flight"


def test_others_wait_for_nothing() -> None:
    guesses = Guesses()
    now_ms = guessed(guesses, 30)
    assert guesses.begin(HERE, "bob", now_ms) == 0
    assert guesses.begin("10.0.0.2", "ann", now_ms) == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("10.0.0.1", "::FFFF:10.0.0.1"),
        ("2001:db8::1", "2001:DB8::ffff:2"),
        ("fe80::1%eth0", "fe80::1%eth1"),
    ],
)
def test_a_host_is_one_however_its_address_is_written(one: str, other: str) -> None:
    """One host may have all addresses of an IPv6 network of 64 bits."""
    guesses = Guesses()
    assert guesses.begin(other, "ann", guessed(guesses, 30, address=one)) == MAX_STEP_MS


def test_the_right_password_and_time_make_good() -> None:
    guesses = Guesses()
    now_ms = guessed(guesses, 30)
    assert guesses.begin(HERE, "ann", now_ms) == MAX_STEP_MS
    guesses.note_success(HERE, "ann")
    assert guesses.begin(HERE, "ann", now_ms) == 0
    guesses.note_success(HERE, "ann")
    now_ms = guessed(guesses, 30)
    now_ms += FORGET_MS + 1
    for _ in range(FREE_GUESSES):
        assert guesses.begin(HERE, "ann", now_ms) == 0
        guesses.note_failure(HERE, "ann", now_ms)


def test_memory_is_bounded_and_who_guesses_stays_known() -> None:
    guesses = Guesses(max_pairs=100)
    for number in range(1000):
        for user in (f"user {number}" + "x" * 1000, "ann"):
            guesses.begin(HERE, user, number * MAX_STEP_MS)
            guesses.note_failure(HERE, user, number * MAX_STEP_MS)
    assert len(guesses) == 100
    assert guesses.begin(HERE, "ann", 999 * MAX_STEP_MS) == MAX_STEP_MS


def test_a_pair_that_is_forgotten_while_it_tries_ends_all_the_same() -> None:
    guesses = Guesses(max_pairs=1)
    guesses.begin(HERE, "ann", 0)
    guesses.begin(HERE, "bob", 0)
    guesses.note_success(HERE, "ann")
    guesses.note_failure(HERE, "ann", 0)
    assert len(guesses) == 1
