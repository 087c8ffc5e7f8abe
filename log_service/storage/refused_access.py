"""Permission errors that name the user, the operation and the owner of the file.

From ``Permission denied`` alone, an operator could not see the cause. The text of the error names
the rights.
"""

import errno
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REFUSALS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextmanager
def rights_named(operation: str, *, is_in_directory: bool = False) -> Iterator[None]:
    """Make a permission error name ``operation``, the user, and the owner and mode of the file.

    With ``is_in_directory`` the rights on the file's directory decide, as for a removal.

    Raises:
        OSError: the system refuses. Its ``strerror`` has the details.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in REFUSALS or error.filename is None:
            raise
        path = Path(error.filename)
        owner = _owner_of_nearest(path.parent if is_in_directory else path)
        text = f"{error.strerror} to {operation} it as user {own_name()}; {owner}"
        raise OSError(error.errno, text, error.filename, None, error.filename2) from error


def remedy_of(error: OSError) -> str | None:
    """Return what an operator can do about a refused operation, or None for another error."""
    if error.errno == errno.EROFS:
        return "mount its file system writable"
    if error.errno in REFUSALS:
        return f"give its files and directories to user {own_name()} (chown -R)"
    return None


def own_name() -> str:
    """Return the name of the effective user of this process."""
    return _user_name(os.geteuid())


def _user_name(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:  # containers run under ids that have no name
        return str(user_id)


def _owner_of_nearest(path: Path) -> str:
    """Return the owner of a path, or of the nearest directory above it that this user can see."""
    for each in (path, *path.parents):
        try:
            found = each.stat()
        except OSError:
            continue
        return (
            f"{each} belongs to user {_user_name(found.st_uid)}, mode"
            f" {stat.S_IMODE(found.st_mode):04o}"
        )
    return f"nothing above {path} can be seen"
