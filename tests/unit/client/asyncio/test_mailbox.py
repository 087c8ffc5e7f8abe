"""A mailbox runs work of another thread once, in order, and with few wake-ups."""

import logging
import threading
from random import Random

import pytest

from log_service.client.asyncio.mailbox import Mailbox


def test_many_things_are_one_wake_up() -> None:
    wakes: list[None] = []
    heard: list[int] = []
    mailbox = Mailbox(lambda: wakes.append(None))
    for number in range(100):
        mailbox.put(lambda number=number: heard.append(number))  # type: ignore[misc]
    assert (len(wakes), heard) == (1, [])
    mailbox.empty()
    assert heard == list(range(100))
    mailbox.put(lambda: heard.append(100))
    assert len(wakes) == 2, "it was emptied since"


def test_what_is_put_meanwhile_waits_for_the_next_time() -> None:
    wakes: list[None] = []
    heard: list[str] = []
    mailbox = Mailbox(lambda: wakes.append(None))

    def first() -> None:
        heard.append("first")
        mailbox.put(lambda: heard.append("second"))

    mailbox.put(first)
    mailbox.empty()
    assert (heard, len(wakes), len(mailbox)) == (["first"], 2, 1)
    mailbox.empty()
    assert heard == ["first", "second"]


def test_one_that_fails_is_logged_and_keeps_none_from_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[int] = []
    mailbox = Mailbox(lambda: None)
    mailbox.put(lambda: heard.append(1 // 0))
    mailbox.put(lambda: heard.append(2))
    with caplog.at_level(logging.ERROR):
        mailbox.empty()
    assert heard == [2]
    assert "ZeroDivisionError" in caplog.text


def test_what_a_ctrl_c_left_waiting_is_run_at_the_next_wake_up() -> None:
    """It used to wait for somebody to put something else, and a task that waited for it hung."""
    wakes: list[None] = []
    heard: list[int] = []
    mailbox = Mailbox(lambda: wakes.append(None))

    def interrupted() -> None:
        raise KeyboardInterrupt

    mailbox.put(interrupted)
    mailbox.put(lambda: heard.append(2))
    with pytest.raises(KeyboardInterrupt):
        mailbox.empty()
    assert (len(wakes), heard) == (2, [])
    mailbox.empty()
    assert heard == [2]


def test_a_wake_up_that_nobody_hears_is_sent_again() -> None:
    wakes: list[None] = []
    is_deaf = False
    mailbox = Mailbox(lambda: wakes.append(None), lambda: is_deaf)
    mailbox.put(int)
    mailbox.put(int)
    assert len(wakes) == 1
    is_deaf = True
    mailbox.put(int)
    assert len(wakes) == 2


@pytest.mark.parametrize("seed", range(5))
def test_nothing_that_is_put_while_the_other_thread_empties_is_forgotten(seed: int) -> None:
    """The thread that empties the mailbox looks only when it was woken.

    A missing wake-up would leave something behind.
    """
    wakes = threading.Semaphore(0)
    heard: list[int] = []
    mailbox = Mailbox(wakes.release)
    count = 20_000

    def work() -> None:
        while len(heard) < count and wakes.acquire(timeout=10):
            mailbox.empty()

    thread = threading.Thread(target=work)
    thread.start()
    rng = Random(seed)
    for number in range(count):
        mailbox.put(lambda number=number: heard.append(number))  # type: ignore[misc]
        if rng.random() < 0.01:
            threading.Event().wait(rng.random() / 10_000)
    thread.join(60)
    assert heard == list(range(count))
