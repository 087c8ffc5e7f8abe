"""Listeners in order of registration. Each has a registration that ends it.

Decides nothing.

Invariants:

- A registration removes its own listener and no other, even if one listener is registered twice.
- A listener whose registration was cancelled is not called any more, not even in the round that
  cancels it.
- Adding and removing a listener costs the same however many there are, because each share group
  that reads a partition is one.
"""

from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

L = TypeVar("L")
NONE: Final[dict[Any, None]] = {}
"""Shared empty registrations of everything without a listener, such as ten thousand partitions."""


class Registration(Generic[L]):
    """The registration of one listener."""

    __slots__ = ("_listeners", "listener")

    def __init__(self, listeners: "Listeners[L]", listener: L) -> None:
        self._listeners: Listeners[L] | None = listeners
        self.listener = listener

    def cancel(self) -> None:
        """Stop calling the listener. Idempotent."""
        listeners, self._listeners = self._listeners, None
        if listeners is not None:
            del listeners.registrations[self]


class Listeners(Generic[L]):
    """The listeners of one object.

    ``registrations`` is empty if there are none, so that the check is cheap.

    A listener that is added during a round is called from the next one on.
    """

    __slots__ = ("registrations",)

    def __init__(self) -> None:
        self.registrations: dict[Registration[L], None] = NONE

    def __iter__(self) -> Iterator[L]:
        return (each.listener for each in tuple(self.registrations) if each._listeners is not None)  # noqa: SLF001 - a call less for each

    def add(self, listener: L) -> Registration[L]:
        """Call ``listener`` from now on, after those that are registered already."""
        registration = Registration(self, listener)
        self.registrations = self.registrations or {}
        self.registrations[registration] = None
        return registration
