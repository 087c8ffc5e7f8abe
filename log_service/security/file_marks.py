"""What tells a small file from the one that was there before: a store of keys and certificates, the keys of an issuer.

Decides that the content alone tells. A time, a size and a number of an inode do not: a copy keeps the time of its origin, a certificate is
as long as the one before it, and a file that is written in place keeps its inode.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

FileMark = bytes | None
"""The digest of a file's content; None where it cannot be read."""


def file_mark(path: Path, read: Callable[[Path], bytes]) -> FileMark:
    """Return the mark of what ``read``, which raises OSError, finds in a file now. Take it before the file is used: a change meanwhile
    then shows in the next mark."""
    try:
        return hashlib.sha256(read(path)).digest()
    except OSError:
        return None  # using the file says what is wrong
