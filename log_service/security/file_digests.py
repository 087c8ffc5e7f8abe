"""Digests that show whether a small file has changed, such as a key store or an issuer's keys.

Only the content is compared, because times, sizes and inode numbers mislead. A copy may keep the
time of its origin, a new certificate may be as long as the old one, and a file written in place
keeps its inode.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

FileDigest = bytes | None
"""The digest of a file's content, or None if it cannot be read."""


def file_digest(path: Path, read: Callable[[Path], bytes]) -> FileDigest:
    """Return the digest of a file's current content.

    ``read`` may raise OSError.

    Take the digest before using the file. A change in between then shows in the next digest.
    """
    try:
        return hashlib.sha256(read(path)).digest()
    except OSError:
        return None  # a later use of the file reports the error
