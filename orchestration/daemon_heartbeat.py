"""The daemon's sign of life: a file in the instance's folder that a thread of the daemon's process touches every few seconds.

The supervisor looks at the file's age, because the daemon listens nowhere. A process that is stopped, or that cannot run Python any more,
stops touching it. Decides nothing about what happens then. Imports nothing of Dagster, so that looking costs nothing.
"""

import threading
from pathlib import Path

HEARTBEAT_INTERVAL_S = 3.0


def heartbeat_file(home: Path) -> Path:
    """Return the file, in an instance's folder."""
    return home / "daemon.alive"


def start_heartbeat(home: Path) -> None:
    """Touch the file until the process ends."""
    threading.Thread(target=_beat, args=(heartbeat_file(home),), name="heartbeat", daemon=True).start()


def _beat(path: Path) -> None:
    pause = threading.Event()
    while True:
        path.touch()
        pause.wait(HEARTBEAT_INTERVAL_S)
