"""The daemon's sign of life: a file in the instance's folder that a thread touches all the time.

The thread touches it every few seconds. The supervisor looks at the file's age, because the daemon
listens on no port. A process that is stopped, or cannot run Python any more, stops touching it. So
does a process with a hanging loop. That matters, because a hanging loop of sensors starts no run
although the process is alive. The supervisor decides what follows. Imports nothing of Dagster, so
that a check costs nothing.
"""

import threading
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Protocol

HEARTBEAT_INTERVAL_S = 3.0
STANDING_AFTER_S = 600.0
"""The longest time without a step of a loop.

Dagster's loops make one every minute, but a loop that evaluates very many assets takes minutes.
"""


class Loop(Protocol):
    """One of the daemon's loops."""

    name: str

    def progress(self) -> Hashable:
        """Return a value that changes with each step."""
        ...


class Loops:
    """The loops of a process. Any thread may add one."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._seen: dict[Loop, tuple[Hashable, float]] = {}

    def add(self, loop: Loop) -> None:
        """Watch a loop from now on."""
        self._seen[loop] = loop.progress(), self._clock_s()

    def standing(self) -> list[str]:
        """Return the names of the loops that have made no progress for ``STANDING_AFTER_S``."""
        now_s = self._clock_s()
        for loop, (before, _) in list(self._seen.items()):
            if (progress := loop.progress()) != before:
                self._seen[loop] = progress, now_s
        return [
            loop.name
            for loop, (_, since_s) in self._seen.items()
            if now_s - since_s > STANDING_AFTER_S
        ]


def heartbeat_file(home: Path) -> Path:
    """Return the path of the heartbeat file in an instance's folder ``home``."""
    return home / "daemon.alive"


def start_heartbeat(
    home: Path, loops: Loops, on_stall: Callable[[str], None]
) -> Callable[[], None]:
    """Start a thread that touches the file while all loops make progress.

    ``on_stall`` gets a sentence on loops that make none. Return a function that stops the thread
    and waits for its end.
    """
    is_over = threading.Event()
    thread = threading.Thread(
        target=_beat,
        args=(heartbeat_file(home), loops, on_stall, is_over),
        name="heartbeat",
        daemon=True,
    )
    thread.start()

    def stop() -> None:
        is_over.set()
        thread.join()

    return stop


def _beat(
    path: Path, loops: Loops, on_stall: Callable[[str], None], is_over: threading.Event
) -> None:
    reported: list[str] = []
    while not is_over.is_set():
        standing = loops.standing()
        if not standing:
            path.touch()
        elif standing != reported:
            on_stall(
                f"{', '.join(standing)} made no step for {STANDING_AFTER_S:.0f} s: the daemon gives"
                " no sign of life until it does"
            )
        reported = standing
        is_over.wait(HEARTBEAT_INTERVAL_S)
