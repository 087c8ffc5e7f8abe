"""Listeners in the order in which they came, each with a registration that ends it.

Decides nothing. Invariants: a registration removes its own listener and no other, also where one listener is registered twice; a listener
whose registration was cancelled is not called any more, also in the round that cancels it. One comes and goes at one cost, however many
there are: each share group that reads a partition is one.
"""

from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

L = TypeVar("L")
NONE: Final[dict[Any, None]] = {}
"""The registrations of all that never had one, of ten thousand partitions for instance."""


class Registration(Generic[L]):
    """One listener's stay."""

    __slots__ = ("_listeners", "listener")

    def __init__(self, listeners: "Listeners[L]", listener: L) -> None:
        self._listeners: Listeners[L] | None = listeners
        self.listener = listener

    def cancel(self) -> None:
        """Call the listener no more. Idempotent."""
        listeners, self._listeners = self._listeners, None
        if listeners is not None:
            del listeners.registrations[self]


class Listeners(Generic[L]):
    """The listeners of one thing. ``registrations`` is empty where there are none, which costs nothing to ask.

    A listener that comes in a round is called from the next one on.
    """

    __slots__ = ("registrations",)

    def __init__(self) -> None:
        self.registrations: dict[Registration[L], None] = NONE

    def __iter__(self) -> Iterator[L]:
        return (each.listener for each in tuple(self.registrations) if each._listeners is not None)  # noqa: SLF001 - a call less for each

    def add(self, listener: L) -> Registration[L]:
        """Call ``listener`` from now on, after those that are here already."""
        registration = Registration(self, listener)
        self.registrations = self.registrations or {}
        self.registrations[registration] = None
        return registration
