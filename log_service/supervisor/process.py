"""One component's process: it starts with its guard, writes to a log file, and ends in time.

This module knows nothing of other components and never restarts anything.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import trio

from log_service.supervisor.spec import Argv, Component

MAX_LOG_BYTES = 32 << 20
GUARD_GRACE_S = 5.0
KILL_AGAIN_S = 1.0
LAST_LINES = 5
LAST_LINES_WINDOW_BYTES = 8 << 10


@dataclass(slots=True, kw_only=True)
class ComponentProcess:
    """A running component. ``guard`` is the process that we started. Its child is the component."""

    component: Component
    guard: trio.Process
    log_path: Path

    @property
    def pid(self) -> int:
        """The guard's process id. Send signals to it."""
        return self.guard.pid

    @property
    def component_pid(self) -> int | None:
        """The component's own process id.

        None if the system does not report it, or the process does not exist yet.
        """
        try:
            children = (
                Path(f"/proc/{self.guard.pid}/task/{self.guard.pid}/children").read_text().split()
            )
        except OSError:
            return None
        return int(children[0]) if children else None

    async def wait(self) -> int:
        """Wait for the end and return the exit code.

        It is 128 + signal if a signal ended the component.
        """
        return await self.guard.wait()

    def kill(self) -> None:
        """Let the guard kill the component and all processes that it started.

        A guard does so at the second SIGTERM.
        """
        for _ in range(2):
            if self.guard.poll() is None:
                self.guard.terminate()

    async def kill_and_wait(self) -> None:
        """Kill the component and all processes that it started, without SIGTERM first.

        Return when they have ended.
        """
        while self.guard.poll() is None:
            self.kill()
            with trio.move_on_after(KILL_AGAIN_S):
                await self.guard.wait()
        await self.stop()

    async def stop(self) -> None:
        """Ask the component to end, and kill it after its deadline. Return when it has ended."""
        with trio.CancelScope(shield=True):
            if self.guard.poll() is None:
                self.guard.terminate()
            with trio.move_on_after(self.component.stop_deadline_s + GUARD_GRACE_S):
                await self.guard.wait()
            if self.guard.poll() is None:
                self.guard.kill()
                await self.guard.wait()
            if self.guard.stdin is not None:
                await self.guard.stdin.aclose()


async def start(component: Component, log_directory: Path) -> ComponentProcess:
    """Start a component with a guard around it.

    Raises:
        OSError: the component cannot be started.
    """
    log_path = log_directory / f"{component.name}.log"
    argv = [
        sys.executable,
        "-m",
        "log_service.supervisor.guard",
        str(component.stop_deadline_s),
        "--",
        *component.argv,
    ]
    with open_log(log_path) as output:
        guard = await trio.lowlevel.open_process(
            argv,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=component.working_directory,
            env=environment_of(component),
            start_new_session=True,
        )
    return ComponentProcess(component=component, guard=guard, log_path=log_path)


async def run_to_end(component: Component, argv: Argv, log_directory: Path) -> int:
    """Run one of a component's own commands, such as its preparation, and return its exit code.

    Its output goes to the component's log file.
    """
    with open_log(log_directory / f"{component.name}.log") as output:
        finished = await trio.run_process(
            list(argv),
            check=False,
            stdin=b"",
            capture_stdout=False,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=component.working_directory,
            env=environment_of(component),
            start_new_session=True,
        )
    return finished.returncode


def environment_of(component: Component) -> dict[str, str]:
    """Return the supervisor's environment, overridden by the component's own variables.

    Python does not buffer its output, unless the component says otherwise.
    """
    return {**os.environ, "PYTHONUNBUFFERED": "1", **component.environment}


def open_log(path: Path) -> IO[bytes]:
    """Open a component's log file for appending. A large file is first renamed to ``.1``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))
    return path.open("ab")


def last_lines(path: Path) -> list[str]:
    """Return the last ``LAST_LINES`` lines of a log file that are not blank.

    They show why a component died.
    """
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - LAST_LINES_WINDOW_BYTES))
        text = file.read().decode(errors="replace")
    return [line for line in text.splitlines() if line.strip()][-LAST_LINES:]
