"""Proves that a run touches nothing of the real world.

While the guard is on, opening a file or a socket, starting a thread, reading the system's clock or
drawing its randomness raises ``RealWorldTouched``.

The files, sockets and threads are watched with Python's audit events, which no module can go
around; clocks and randomness by replacing them. The scheduler's own clock is virtual already, and
its wakeup socket is made before the guard is on.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

WATCHED = ("open", "os.", "socket.", "subprocess.", "shutil.", "tempfile.")
CLOCKS: dict[str, Callable[..., Any]] = {
    "time.time": time.time,
    "time.monotonic": time.monotonic,
    "time.sleep": time.sleep,
}


class RealWorldTouched(BaseException):
    """Code reached past the injected world.

    It is not an Exception, so that no handler takes it for a failure of the disk.
    """


class _Switch:
    is_on = False
    is_installed = False


def _audit(
    event: str,
    args: tuple[Any, ...],
    switch: type[_Switch] = _Switch,
    watched: tuple[str, ...] = WATCHED,
) -> None:
    """Python calls this to its very end, when the module's names are gone: the defaults stay."""
    if switch.is_on and event.startswith(watched):
        switch.is_on = False  # the traceback may be printed
        raise RealWorldTouched(f"{event} {args[:2]}")


def _clock(name: str) -> Any:
    """Logging and the test runner may read clocks; the product and the simulation may not."""

    def read(*args: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if _Switch.is_on and caller.startswith(("log_service", "tests")):
            raise RealWorldTouched(f"{caller} called {name}")
        return CLOCKS[name](*args)

    return read


@contextmanager
def real_world_closed() -> Iterator[None]:
    """Guard what runs inside; modules must have been imported before."""
    if not _Switch.is_installed:
        sys.addaudithook(_audit)
        _Switch.is_installed = True
    with (
        mock.patch("time.time", _clock("time.time")),
        mock.patch("time.monotonic", _clock("time.monotonic")),
        mock.patch("time.sleep", _clock("time.sleep")),
        mock.patch(
            "threading.Thread.start", side_effect=RealWorldTouched("threading.Thread.start")
        ),
        mock.patch("os.urandom", side_effect=RealWorldTouched("os.urandom")),
        mock.patch("random._urandom", side_effect=RealWorldTouched("random.SystemRandom")),
    ):
        shared_random = random.getstate()
        _Switch.is_on = True
        try:
            yield
        finally:
            _Switch.is_on = False
        if random.getstate() != shared_random:
            raise RealWorldTouched("the module random was drawn from")
