"""Empties the demo's own data directory at its start.

Decides which directory may be emptied: one with the marker of an earlier demo, on which no
installation runs. Any other one is refused.
"""

import shutil
from pathlib import Path

from log_service.supervisor.state import is_locked

MARKER = "tidelog-demo"
MARKER_TEXT = (
    "tidelog demo made this directory and empties it when it starts again. Remove this file to keep"
    " what is here.\n"
)


class DemoError(RuntimeError):
    """The demo cannot continue, or one of its checks failed. The text gives the reason."""


def prepare_directory(directory: Path) -> None:
    """Create ``directory`` if need be, empty it, and put the marker of a demo into it.

    :raises DemoError: the directory is not a demo's, or an installation runs on it.
    """
    if directory.exists() and not directory.is_dir():
        raise DemoError(f"{directory} is a file: name a directory with --data")
    if directory.is_dir() and any(directory.iterdir()):
        if not (directory / MARKER).is_file():
            raise DemoError(
                f"{directory} was not made by a demo, so it is not emptied: name another directory"
                " with --data"
            )
        if is_locked(directory):
            raise DemoError(
                f"tidelog runs on {directory}: stop it first, or name another directory with --data"
            )
        _empty(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / MARKER).write_text(MARKER_TEXT)


def _empty(directory: Path) -> None:
    """Remove all contents. The marker is last, so that an interrupted removal can be finished."""
    for entry in directory.iterdir():
        if entry.name == MARKER:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    (directory / MARKER).unlink()
