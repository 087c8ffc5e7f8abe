"""Finds the files of killed processes by name and age, while other processes remove the same files.

Also decides where the files of a table are until a commit names them. This is a staging folder,
which is abandoned if its run was killed.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from time import time
from uuid import uuid4

STAGING_PREFIX = "_staging-"
STAGING_AGE_S = 6 * 3_600
"""A staging folder that has not changed for this time belongs to a killed run."""


def old_ones(folder: Path, pattern: str, age_s: float) -> Iterator[Path]:
    """Yield matching entries of ``folder`` that have not changed for ``age_s`` seconds.

    Files that other processes remove meanwhile are skipped.
    """
    for found in folder.glob(pattern):
        try:
            is_old = found.stat().st_mtime < time() - age_s
        except FileNotFoundError:
            continue
        if is_old:
            yield found


def new_staging_folder(table_folder: Path) -> Path:
    """Return a new path in a table's folder, for a folder of files that are not yet in the table.

    Removes old staging folders, which killed runs have left.
    """
    for leftover in old_ones(table_folder, f"{STAGING_PREFIX}*", STAGING_AGE_S):
        shutil.rmtree(leftover, ignore_errors=True)
    return table_folder / f"{STAGING_PREFIX}{uuid4().hex}"
