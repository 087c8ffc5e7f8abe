"""Listeners and their registrations."""

from collections.abc import Callable

from log_service.replication.listeners import Listeners


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
