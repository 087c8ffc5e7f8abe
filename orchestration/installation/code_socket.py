"""Places the Unix socket of a code server in a directory that its owner alone can enter.

A code server has no login, and every client of it can make it run code. A port of the loopback
address is open to every account of a machine, but a file in such a directory only to one.
"""

import os
import stat
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from log_service.common.errors import ConfigError
from log_service.common.private_files import private_directory

MAX_PATH_BYTES = 100
"""A socket's path may have 107 bytes on Linux and 103 on macOS."""


def code_socket(data_directory: Path) -> Path:
    """Return the path of the socket, and make its directory.

    The socket is in the data directory. If that path would be too long, it is in the directory for
    temporary files.

    :raises ConfigError: the directory may belong to another account, or that path is too long, too.
    """
    near = data_directory.resolve() / "dagster" / "code" / "server.sock"
    if len(os.fsencode(near)) <= MAX_PATH_BYTES:
        private_directory(near.parent)
        return near
    directory = Path(tempfile.gettempdir()) / f"tidelog-{os.getuid()}"
    path = directory / f"{sha256(os.fsencode(data_directory.resolve())).hexdigest()[:16]}.sock"
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise ConfigError(
            f"the path of the code server's socket is longer than {MAX_PATH_BYTES} bytes: set"
            f" TMPDIR to a directory with a shorter path than {directory.parent}"
        )
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != os.getuid()
        or stat.S_IMODE(found.st_mode) & 0o077
    ):
        raise ConfigError(
            f"{directory} has to be a directory of this account's that no other can enter: remove"
            " it, or set TMPDIR to another directory"
        )
    return path
