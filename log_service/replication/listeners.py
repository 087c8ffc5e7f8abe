"""Listeners in the order in which they came, each with a registration that ends it.

Decides nothing. Invariants: a registration removes its own listener and no other, also where one listener is registered twice; a listener
whose registration was cancelled is not called any more, also in the round that cancels it.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

L = TypeVar("L")


class Registration(Generic[L]):
    """One listener's stay."""

    __slots__ = ("_listeners", "listener")

    def __init__(self, listeners: "Listeners[L]", listener: L) -> None:
        self._listeners: Listeners[L] | None = listeners
        self.listener = listener

    @property
    def is_active(self) -> bool:
        """Whether the listener is still called."""
        return self._listeners is not None

    def cancel(self) -> None:
        """Call the listener no more. Idempotent."""
        listeners, self._listeners = self._listeners, None
        if listeners is not None:
            listeners.registrations = tuple(each for each in listeners.registrations if each is not self)


class Listeners(Generic[L]):
    """The listeners of one thing. ``registrations`` is empty where there are none, which costs nothing to ask."""

    __slots__ = ("registrations",)

    def __init__(self) -> None:
        self.registrations: tuple[Registration[L], ...] = ()

    def __iter__(self) -> Iterator[L]:
        return (each.listener for each in self.registrations if each._listeners is not None)  # noqa: SLF001 - a call less for each

    def add(self, listener: L) -> Registration[L]:
        """Call ``listener`` from now on, after those that are here already."""
        registration = Registration(self, listener)
        self.registrations = (*self.registrations, registration)
        return registration
