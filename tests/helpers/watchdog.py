"""Counts the function calls of a task between two of its checkpoints.

Calls take about 160 ns each, and counting them needs no clock.
"""

import sys
from types import FrameType
from typing import Any, Self

import trio

MOST_CALLS = 80_000
"""The most calls that one step of a task may take: 13 ms."""


class Watchdog(trio.abc.Instrument):
    """Counts the calls of each step of each task while it is entered.

    ``most`` is the largest number. ``is_off`` leaves out the work of the pool, which other threads
    do outside of tests.
    """

    def __init__(self) -> None:
        self.most = 0
        self.is_off = False
        self._count = 0

    def __enter__(self) -> Self:
        """Begin to count. The current step counts from here."""
        trio.lowlevel.add_instrument(self)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """End the count. The current step counts until here."""
        sys.setprofile(None)
        self.after_task_step()
        trio.lowlevel.remove_instrument(self)

    def before_task_step(self, task: Any = None) -> None:
        """Begin a step's count."""
        self._count = 0

    def after_task_step(self, task: Any = None) -> None:
        """Keep the largest count so far."""
        self.most = max(self.most, self._count)
        self._count = 0

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self.is_off and event in {"call", "c_call"}:
            self._count += 1
