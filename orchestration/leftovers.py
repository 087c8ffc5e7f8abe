"""What killed processes left in a folder: found by name and age, while other processes remove the same."""

from collections.abc import Iterator
from pathlib import Path
from time import time


def old_ones(folder: Path, pattern: str, age_s: float) -> Iterator[Path]:
    """Yield the files and folders in ``folder`` whose names match, and which have not changed for ``age_s`` seconds.

    One that is gone by the time that it is looked at is passed over.
    """
    for found in folder.glob(pattern):
        try:
            is_old = found.stat().st_mtime < time() - age_s
        except FileNotFoundError:
            continue
        if is_old:
            yield found
