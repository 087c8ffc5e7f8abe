"""Counts what a task does between two of its checkpoints: calls of functions, which take about 160 ns each, and need no clock."""

import sys
from types import FrameType
from typing import Any, Self

import trio

MOST_CALLS = 80_000
"""As many calls may one step of a task take: 13 ms."""


class Watchdog(trio.abc.Instrument):
    """Counts the calls of each step of each task while it is entered. ``most`` is the largest number.

    ``is_off`` leaves out the work of the pool, which other threads do outside of tests.
    """

    def __init__(self) -> None:
        self.most = 0
        self.is_off = False
        self._count = 0

    def __enter__(self) -> Self:
        """Begin; the step under way counts from here."""
        trio.lowlevel.add_instrument(self)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """End; the step under way counts until here."""
        sys.setprofile(None)
        self.after_task_step()
        trio.lowlevel.remove_instrument(self)

    def before_task_step(self, task: Any = None) -> None:
        """Begin to count."""
        self._count = 0

    def after_task_step(self, task: Any = None) -> None:
        """Keep the largest count."""
        self.most = max(self.most, self._count)
        self._count = 0

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self.is_off and event in {"call", "c_call"}:
            self._count += 1
