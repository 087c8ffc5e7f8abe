"""Where the Unix socket of an installation's code server lies: in a directory that its owner alone can enter.

A code server has no login, and what reaches it can have code run. A port of the loopback address is there for every account of a machine,
a file in such a directory for one.
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
    """Return the path of the socket, and make its directory: in the data directory, or, where that would be too long, in the one for
    temporary files.

    Raises:
        ConfigError: what lies at the path of that directory may be another account's, or that path is too long, too.
    """
    near = data_directory.resolve() / "dagster" / "code" / "server.sock"
    if len(os.fsencode(near)) <= MAX_PATH_BYTES:
        private_directory(near.parent)
        return near
    directory = Path(tempfile.gettempdir()) / f"tidelog-{os.getuid()}"
    path = directory / f"{sha256(os.fsencode(data_directory.resolve())).hexdigest()[:16]}.sock"
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise ConfigError(
            f"the path of the code server's socket is longer than {MAX_PATH_BYTES} bytes: set TMPDIR to a directory with a shorter path "
            f"than {directory.parent}"
        )
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(
            f"{directory} has to be a directory of this account's that no other can enter: remove it, or set TMPDIR to another directory"
        )
    return path
