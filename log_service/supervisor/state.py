"""The state file of a supervisor lists its components. A lock keeps a second supervisor off the
same data.

``status`` reads the file and believes it only while the lock is held: a supervisor that was killed
leaves a file behind, but no lock. The next one removes that file once it holds the lock: a lock
without a file is an installation that is starting.

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
"""How often a start tries to lock, and its pause: a process that asks whether one runs has the lock
for a moment.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentState:
    """The state of one component. ``state``: waiting, starting, ready, not responding, restarting,
    stopping, stopped.

    ``pid`` is the component's own process, ``guard_pid`` the one that watches it.
    ``external_setting`` names the setting that points to a component of the user's own, which has
    neither. ``complaint`` is what the component says to be wrong, a line each. ``waits_for`` are
    the components that have to be ready before this one starts, and are not. ``failure`` says why
    its last start or run ended, until it is ready again.
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
    """Replace the state file by one for its owner alone: complaints of runs may quote records."""
    content = {"pid": os.getpid(), "components": [asdict(state) for state in states.values()]}
    replace_private(data_directory / STATE_FILE, json.dumps(content, indent=2))


def read(data_directory: Path) -> list[ComponentState]:
    """Return the running components, none where no supervisor holds the lock."""
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
    """Whether a supervisor is alive on this data.

    Raises:
        StorageError: the installation is another account's.
    """
    try:
        with (data_directory / LOCK_FILE).open("rb") as file:
            # A shared one, which two that ask at once can have.
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
    """Hold the data directory for one supervisor, and forget the components of an earlier one.

    Raises:
        StorageError: another one runs on it, or it cannot be written.
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
