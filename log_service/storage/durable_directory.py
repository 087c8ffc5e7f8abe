"""Directories that survive a crash.

Each missing directory is created and then made durable in its parent, beginning with the outermost
one.
"""

from pathlib import Path

from log_service.common.env import Files


def make_durable_directory(files: Files, path: Path) -> None:
    """Create a directory and its missing parents durably, unless it exists. Blocks."""
    missing = []
    while not files.is_directory(path) and path != path.parent:
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        files.make_directory(directory)
        files.sync_directory(directory.parent)
