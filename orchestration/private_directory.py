"""Directories of an installation that its owner alone can enter.

Who can read a SQLite database can lock it, and then nothing is written to it any more. Who can write beside a token can put another in its
place. So what the platform keeps for itself is closed, whatever the umask was, in installations that are not secured, too.
"""

from pathlib import Path

PRIVATE = 0o700


def private_directory(path: Path) -> Path:
    """Have a directory that its owner alone can enter, and return it; one that others could enter is closed."""
    path.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    path.chmod(PRIVATE)
    return path
