"""Guesses of passwords: how fast, by how many connections, in how much memory."""

from log_service.common.guesses import FORGET_MS, FREE_GUESSES, MAX_STEP_MS, MAX_WAIT_MS, Guesses, step_ms


def guessed(guesses: Guesses, count: int, user: str = "ann", now_ms: int = 0) -> None:
    for _ in range(count):
        guesses.note_failure("10.0.0.1", user, now_ms)


def test_a_few_wrong_passwords_cost_nothing_and_more_cost_ever_more() -> None:
    assert [step_ms(count) for count in range(FREE_GUESSES)] == [0] * FREE_GUESSES
    steps = [step_ms(count) for count in range(FREE_GUESSES, 60)]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (200, MAX_STEP_MS)


def test_many_connections_guess_no_faster_than_one() -> None:
    guesses = Guesses()
    guessed(guesses, FREE_GUESSES + 20)
    waits = [guesses.turn_ms("10.0.0.1", "ann", 0) for _ in range(50)]
    served = [wait for wait in waits if wait is not None]
    assert served == [MAX_STEP_MS, MAX_WAIT_MS]
    assert waits[len(served) :] == [None] * (50 - len(served))


def test_others_wait_for_nothing() -> None:
    guesses = Guesses()
    guessed(guesses, 100)
    assert guesses.turn_ms("10.0.0.1", "bob", 0) == 0
    assert guesses.turn_ms("10.0.0.2", "ann", 0) == 0


def test_the_right_password_and_time_make_good() -> None:
    guesses = Guesses()
    guessed(guesses, 100)
    guesses.note_success("10.0.0.1", "ann")
    assert guesses.turn_ms("10.0.0.1", "ann", 0) == 0
    guessed(guesses, 100)
    assert guesses.turn_ms("10.0.0.1", "ann", FORGET_MS + 1) == 0
    guesses.note_failure("10.0.0.1", "ann", FORGET_MS + 1)
    assert guesses.turn_ms("10.0.0.1", "ann", FORGET_MS + 1) == 0


def test_memory_is_bounded_and_who_guesses_stays_known() -> None:
    guesses = Guesses(max_pairs=100)
    for number in range(1000):
        guesses.note_failure("10.0.0.1", f"user {number}" + "x" * 1000, 0)
        guesses.note_failure("10.0.0.1", "ann", 0)
    assert len(guesses) == 100
    assert guesses.turn_ms("10.0.0.1", "ann", 0) != 0
