"""Listeners and their registrations."""

from collections.abc import Callable

from log_service.replication.listeners import Listeners
from tests.helpers.opcodes import opcodes_of


def test_listeners_are_called_in_the_order_in_which_they_came() -> None:
    listeners: Listeners[str] = Listeners()
    assert not listeners.registrations
    for name in ("first", "second", "third"):
        listeners.add(name)
    assert list(listeners) == ["first", "second", "third"]


def test_a_registration_takes_away_its_own_listener_and_no_other() -> None:
    listeners: Listeners[str] = Listeners()
    first, second = listeners.add("same"), listeners.add("same")
    listeners.add("other")
    first.cancel()
    first.cancel()
    assert list(listeners) == ["same", "other"]
    second.cancel()
    assert list(listeners) == ["other"]


def test_a_listener_that_is_cancelled_in_a_round_is_not_called_in_it() -> None:
    listeners: Listeners[Callable[[], None]] = Listeners()
    called: list[str] = []

    def first() -> None:
        called.append("first")
        second.cancel()

    listeners.add(first)
    second = listeners.add(lambda: called.append("second"))
    for listener in listeners:
        listener()
    assert called == ["first"]


def test_a_listener_that_comes_in_a_round_is_called_from_the_next_one_on() -> None:
    listeners: Listeners[str] = Listeners()
    listeners.add("first")
    names = []
    for name in listeners:
        names.append(name)
        listeners.add("second")
    assert names == ["first"]
    assert list(listeners) == ["first", "second"]


def test_one_goes_at_one_cost_however_many_there_are() -> None:
    """Each removal had all others looked at.

    A thousand share groups of a partition cost a million steps when it was lost.
    """

    def cost_among(count: int) -> int:
        listeners: Listeners[int] = Listeners()
        registrations = [listeners.add(number) for number in range(count)]
        return opcodes_of(registrations[count // 2].cancel)

    assert cost_among(2) == cost_among(200)
