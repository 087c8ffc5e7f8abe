"""The state file of a supervisor lists its components. A lock keeps out a second supervisor.

``status`` trusts the file only while the lock is held, because a killed supervisor leaves a file,
but no lock. The next supervisor removes that file once it holds the lock. So a lock without a file
means that an installation is starting.

Invariant: the file of the lock is for its owner alone, whatever the umask was. An account that can
open a file for reading can lock it, and so keep an installation from its next start.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from log_service.common.errors import StorageError
from log_service.common.private_files import open_private, replace_private

STATE_FILE = "supervisor.json"
LOCK_FILE = "supervisor.lock"
LOCK_ATTEMPTS, LOCK_PAUSE_S = 20, 0.01
"""How often a start tries to lock, and the pause between.

A process that checks for a supervisor holds the lock for a moment.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentState:
    """The state of one component.

    ``state`` is waiting, starting, ready, not responding, restarting, stopping or stopped. ``pid``
    is the component's own process, ``guard_pid`` the one that watches it. ``external_setting``
    names the setting that points to a component of the user's own, which has neither pid.
    ``complaint`` has the problems that the component reports, one line each. ``waits_for`` are the
    components that must become ready before this one starts. ``failure`` says why its last start or
    run ended, until it is ready again.
    """

    name: str
    state: str
    address: str
    pid: int | None
    restart_count: int
    log_path: str
    metrics_url: str = ""
    guard_pid: int | None = None
    external_setting: str = ""
    complaint: str = ""
    waits_for: tuple[str, ...] = ()
    failure: str = ""


def write(data_directory: Path, states: Mapping[str, ComponentState]) -> None:
    """Replace the state file by one that only its owner can read.

    Complaints in it may quote records.
    """
    content = {"pid": os.getpid(), "components": [asdict(state) for state in states.values()]}
    replace_private(data_directory / STATE_FILE, json.dumps(content, indent=2))


def read(data_directory: Path) -> list[ComponentState]:
    """Return the states of the components. The list is empty if no supervisor holds the lock."""
    if not is_locked(data_directory):
        return []
    try:
        content = json.loads((data_directory / STATE_FILE).read_text())
    except FileNotFoundError:
        return []
    return [
        ComponentState(**{**component, "waits_for": tuple(component["waits_for"])})
        for component in content["components"]
    ]


def is_locked(data_directory: Path) -> bool:
    """Return whether a supervisor runs on this data directory.

    Raises:
        StorageError: the installation is another account's.
    """
    try:
        with (data_directory / LOCK_FILE).open("rb") as file:
            # The lock is shared, so that two commands can ask at the same time.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except PermissionError as error:
        raise StorageError(
            f"{data_directory} is the installation of another account: ask as that one"
        ) from error
    return False


@contextmanager
def held_lock(data_directory: Path) -> Iterator[None]:
    """Lock the data directory for one supervisor, and delete the state file of an earlier one.

    The lock is held until the block ends.

    Raises:
        StorageError: another supervisor runs on it, or it cannot be written.
    """
    try:
        data_directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        number = open_private(data_directory / LOCK_FILE, os.O_RDWR)
    except OSError as error:
        raise StorageError(
            f"the data directory {data_directory} cannot be used ({error.strerror}): name another"
            " one with --data"
        ) from error
    with os.fdopen(number, "rb") as file:
        if not _has_locked(file):
            raise StorageError(
                f"tidelog already runs on {data_directory}: stop it with Ctrl-C where it runs, or"
                " name another directory with --data"
            )
        (data_directory / STATE_FILE).unlink(missing_ok=True)
        yield


def _has_locked(file: BinaryIO) -> bool:
    for attempt in range(LOCK_ATTEMPTS):
        time.sleep(LOCK_PAUSE_S if attempt else 0)
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False
