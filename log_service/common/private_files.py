"""Directories and files of an installation that only their owner may use, whatever the umask.

An account that can read a file can lock it. A locked SQLite database accepts no more writes, and
tasks that wait for the lock hang. An account that can write to a token's directory can replace the
token. So an installation closes its own files to other accounts even if it is not secured.
"""

import os
from pathlib import Path

PRIVATE_DIRECTORY, PRIVATE_FILE = 0o700, 0o600


def private_directory(path: Path) -> Path:
    """Create a directory that only its owner can enter, and return ``path``.

    The rights of an existing directory are changed if others could enter it.

    Raises:
        OSError: the directory cannot be created, or closed to others.
    """
    path.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    path.chmod(PRIVATE_DIRECTORY)
    return path


def open_private(path: Path, flags: int) -> int:
    """Open a file that only its owner can read, and return its descriptor.

    A missing file is created.

    Raises:
        OSError: the file cannot be opened or closed to others.
    """
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        os.fchmod(descriptor, PRIVATE_FILE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def replace_private(path: Path, content: str | bytes) -> None:
    """Replace a file as a whole by one that only its owner can read, and sync it.

    Text is written as UTF-8.

    Raises:
        OSError: the file cannot be written. The old file is unchanged.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    try:
        with os.fdopen(
            os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE), "wb"
        ) as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
