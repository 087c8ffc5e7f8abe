"""Makes files survive a power cut. A commit's files have to be on the disk before the commit is."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Wait until the bytes of a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
