"""Pauses between tries: each thing that fails has its own."""

from log_service.mirror.retries import Retries


def test_what_fails_again_and_again_is_tried_ever_more_rarely() -> None:
    retries, now_s, tries = Retries(2, 30), 0.0, []
    while now_s < 100:
        tries.append(now_s)
        retries.settle({"large"}, now_s)
        now_s += retries.wait_s(now_s)
    assert tries == [0, 2, 6, 14, 30, 60, 90]


def test_what_fails_for_the_first_time_is_tried_soon_beside_what_fails_for_long() -> None:
    retries = Retries(2, 30)
    for now_s in (0, 2, 6, 14):
        retries.settle({"large"}, now_s)
    assert retries.wait_s(14) == 16
    retries.settle({"large", "new"}, 15)
    assert retries.wait_s(15) == 2
    retries.settle({"large"}, 17)
    assert retries.wait_s(17) == 13, "the early try of the other is no try of this one"


def test_what_was_done_begins_anew_when_it_fails_again() -> None:
    retries = Retries(2, 30)
    for now_s in (0, 2, 6):
        retries.settle({"large"}, now_s)
    retries.settle((), 14)
    assert retries.wait_s(14) == 30
    retries.settle({"large"}, 20)
    assert retries.wait_s(20) == 2


def test_no_pause_is_longer_than_the_longest() -> None:
    retries = Retries(2, 1)
    retries.settle({"large"}, 0)
    assert retries.wait_s(0) == 1
