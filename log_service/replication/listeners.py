"""Lists of listeners, which are called in order of registration until they are cancelled.

This file decides nothing.

Invariants:

- A registration removes only its own listener, even if one listener is registered twice.
- A listener whose registration was cancelled is not called any more, not even in the round of calls
  that cancels it.
- The cost of adding and removing a listener does not depend on their number. Each share group that
  reads a partition is one listener.
"""

from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

L = TypeVar("L")
NONE: Final[dict[Any, None]] = {}
"""The shared empty registrations of objects without a listener, such as most partitions."""


class Registration(Generic[L]):
    """The registration of one listener."""

    __slots__ = ("_listeners", "listener")

    def __init__(self, listeners: "Listeners[L]", listener: L) -> None:
        self._listeners: Listeners[L] | None = listeners
        self.listener = listener

    def cancel(self) -> None:
        """Stop calling the listener. A second call has no effect."""
        listeners, self._listeners = self._listeners, None
        if listeners is not None:
            del listeners.registrations[self]


class Listeners(Generic[L]):
    """The listeners of one object.

    ``registrations`` is empty if there are no listeners, so that callers can check this cheaply. A
    listener that is added during a round of calls is called from the next round on.
    """

    __slots__ = ("registrations",)

    def __init__(self) -> None:
        self.registrations: dict[Registration[L], None] = NONE

    def __iter__(self) -> Iterator[L]:
        return (each.listener for each in tuple(self.registrations) if each._listeners is not None)  # noqa: SLF001 - a call less for each

    def add(self, listener: L) -> Registration[L]:
        """Call ``listener`` from now on, and return its registration, which can be cancelled.

        The listeners that are already registered are called before it.
        """
        registration = Registration(self, listener)
        self.registrations = self.registrations or {}
        self.registrations[registration] = None
        return registration
