"""Nodes and commands that begin as forks of a process that has imported them: a start takes a fifth of the processor time.

    process = start_forked(["node.id=1", ...], log=path)             # as `tidelog serve` with these properties and no file
    process = start_forked(["mirror", "run", file], log=path, target=command)       # as `tidelog mirror run FILE`
    process.send_signal(signal.SIGTERM)
    process.wait(20)

Each is a process like any other: it has its own memory and descriptors, can be killed or paused, and ends with the test run that started
it. What a fresh interpreter does before is tested where the command line and the supervisor start nodes.
"""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing import connection
from pathlib import Path

from log_service.broker.main import serve
from log_service.cli.main import main as command_line

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


class ForkedProcess:
    """A running fork; the interface is that of ``subprocess.Popen``."""

    def __init__(self, target: Callable[[list[str]], int | None], arguments: Sequence[str], log: Path) -> None:
        self._process = _context.Process(target=_run, args=(target, list(arguments), str(log), dict(os.environ)), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended, negative for a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return how it ended; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end.

        Raises:
            TimeoutExpired: it has not ended after ``timeout`` seconds.
        """
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return self._process.exitcode

    def send_signal(self, sig: int) -> None:
        """Send a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def node(overrides: list[str]) -> int:
    """Serve the properties (``key=value``)."""
    return serve(None, overrides)


def command(arguments: list[str]) -> None:
    """Run ``tidelog`` with these arguments."""
    command_line(arguments)


def start_forked(arguments: Sequence[str], *, log: Path, target: Callable[[list[str]], int | None] = node) -> ForkedProcess:
    """Call the target, a function of a module, in a new process, which writes its output behind what is in the log.

    What the target returns is the exit code.
    """
    return ForkedProcess(target, arguments, log)


def _run(target: Callable[[list[str]], int | None], arguments: list[str], log: str, environ: dict[str, str]) -> None:
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    os.environ.clear()
    os.environ.update(environ)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    gc.disable()
    sys.exit(target(arguments))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
