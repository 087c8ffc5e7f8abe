"""Processes of runs that die at a chosen step.

Each is forked (``forking``), for the tests start dozens. What the process writes is in a file of
its own.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest import mock

from tests.platform.forking import forking

KILLED = 137
TIMEOUT_S = 200

Steps = Mapping[str, tuple[Any, str, str]]
"""By the name of a step: the owner of a function, the function's name, and when the process dies:
before it, after it, or once what it sent is delivered.
"""


def plant(steps: Steps, step: str, at_call: int = 1) -> None:
    """Let this process die at a step: when its function is called for the ``at_call``-th time. A
    name that is no step's changes nothing.
    """
    if step in steps:
        owner, name, when = steps[step]
        mock.patch.object(owner, name, _dying(getattr(owner, name), when, at_call)).start()


def _dying(function: Callable[..., Any], when: str, at_call: int) -> Callable[..., Any]:
    calls = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < at_call:
            return function(*args, **kwargs)
        if when != "before":
            function(*args, **kwargs)
        if when == "delivered":
            args[0].flush()
        os._exit(KILLED)

    return call


@dataclass(frozen=True, slots=True)
class Running:
    """A process, and the file with what it says."""

    process: BaseProcess
    output: Path

    def finish(self) -> tuple[int | None, str]:
        """Wait for its end; return its exit code and what it said."""
        self.process.join(TIMEOUT_S)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        return self.process.exitcode, self.output.read_text(errors="replace")


def start(main: Callable[..., None], directory: Path, *arguments: Any) -> Running:
    """Run ``main``, a function of a module, in a process of its own; its output is kept in
    ``directory``.
    """
    number = sum(1 for _ in directory.glob("run-*.txt"))
    output = directory / f"run-{number}.txt"
    output.touch()
    process = forking().Process(target=_run, args=(main, output, arguments), daemon=True)
    process.start()
    return Running(process, output)


def exit_code(main: Callable[..., None], *arguments: Any, **more: Any) -> int | None:
    """Run ``main`` in a process of its own until its end, and return its exit code.

    Its output goes where the test's goes.
    """
    process = forking().Process(target=main, args=arguments, kwargs=more)
    process.start()
    process.join(TIMEOUT_S)
    process.kill()
    process.join()
    return process.exitcode


def _run(main: Callable[..., None], output: Path, arguments: tuple[Any, ...]) -> None:
    with output.open("ab") as written:
        os.dup2(written.fileno(), sys.stdout.fileno())
        os.dup2(written.fileno(), sys.stderr.fileno())
    main(*arguments)
