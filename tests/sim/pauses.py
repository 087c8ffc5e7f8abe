"""Stops all tasks of a host for a while, as SIGSTOP stops a process.

Its clocks go on, its machine takes connections and bytes, and nothing of it runs.

A task belongs to the host that ``HOST`` names in its context; a child has its parent's context. A
task that would run while its host is paused is held back behind trio's own bookkeeping: what woke
it has happened, a deadline that passed meanwhile has passed.

Invariant: a task that is held runs once, after ``resume``, with what it was woken with.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import trio
import trio._core._run as trio_run

HOST: ContextVar[str] = ContextVar("host", default="")
"""The host that a task runs on; empty for those of the simulation itself, and for clients."""

_reschedule: Callable[..., Any] = trio_run.Runner.reschedule


class Pauses:
    """The hosts that are paused just now, each with the tasks that would run."""

    def __init__(self) -> None:
        self._held: dict[str, list[trio.lowlevel.Task]] = {}

    def is_paused(self, host: str) -> bool:
        """Whether a host's tasks are held back."""
        return host in self._held

    def pause(self, host: str) -> None:
        """Hold back the tasks of a host from now on.

        A task that has its turn in this very moment ends its step.
        """
        if host in self._held:
            return
        runner = trio_run.GLOBAL_RUN_CONTEXT.runner
        self._held[host] = [task for task in runner.runq if task.context.get(HOST) == host]
        runnable = [task for task in runner.runq if task.context.get(HOST) != host]
        runner.runq.clear()
        runner.runq.extend(runnable)
        self._install()

    def resume(self, host: str) -> None:
        """Let the tasks of a host go on; no change where it is not paused."""
        held = self._held.pop(host, [])
        if held:
            trio_run.GLOBAL_RUN_CONTEXT.runner.runq.extend(held)
        self._install()

    def forget(self) -> None:
        """Hold back nothing any more: the world has ended."""
        self._held.clear()
        self._install()

    def _install(self) -> None:
        """Look at every task that wakes, but only while a host is paused."""
        trio_run.Runner.reschedule = self._watched() if self._held else _reschedule  # type: ignore[method-assign]

    def _watched(self) -> Callable[..., None]:
        held = self._held

        def reschedule(runner: trio_run.Runner, task: trio.lowlevel.Task, *arguments: Any) -> None:
            _reschedule(runner, task, *arguments)
            stopped = held.get(task.context.get(HOST, ""))
            if stopped is not None:
                runner.runq.pop()
                stopped.append(task)

        return reschedule
