"""An operation on a file that the system refuses to this user: who asked, for what, and whose the file is.

``Permission denied`` alone sends an operator to look for what is wrong. The text of the error names the rights.
"""

import errno
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def rights_named(operation: str) -> Iterator[None]:
    """Let an error of missing rights name ``operation``, the user, and the owner and mode of the file.

    Raises:
        PermissionError: the system refuses; its ``strerror`` says the rest.
    """
    try:
        yield
    except PermissionError as error:
        if error.errno != errno.EACCES or error.filename is None:
            raise
        text = f"{error.strerror} to {operation} it as user {own_name()}; {_owner_of_nearest(Path(error.filename))}"
        raise PermissionError(errno.EACCES, text, error.filename) from error


def own_name() -> str:
    """Return the name of the user that this process acts as."""
    return _user_name(os.geteuid())


def _user_name(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:  # containers run under ids that no file names
        return str(user_id)


def _owner_of_nearest(path: Path) -> str:
    """Return who owns a path, or the nearest directory above it that this user can see."""
    for each in (path, *path.parents):
        try:
            found = each.stat()
        except OSError:
            continue
        return f"{each} belongs to user {_user_name(found.st_uid)}, mode {stat.S_IMODE(found.st_mode):04o}"
    return f"nothing above {path} can be seen"
