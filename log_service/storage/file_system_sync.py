"""One sync of a whole file system, where it guarantees as much as a sync of each file.

In Linux 5.8 and later, ``syncfs`` reports the writes that failed since a descriptor was opened. The
file system must also be a local one for which ``syncfs`` is known to make data, sizes and names
durable. On other systems each file must be synced separately.
"""

import ctypes
import os
import re
import sys
from pathlib import Path

FIRST_REPORTING_KERNEL = (5, 8)
DURABLE_FILE_SYSTEMS = frozenset({"ext3", "ext4", "f2fs", "tmpfs", "xfs"})
MOUNTS = Path("/proc/self/mountinfo")
MOUNT = re.compile(r"\d+ \d+ (?P<device>\d+:\d+) .* - (?P<kind>\S+) ")


def can_sync_file_system(number: int) -> bool:
    """Return whether ``sync_file_system`` guarantees as much as a sync of every file.

    ``number`` is the descriptor of an open file or directory on the file system.
    """
    if (
        not sys.platform.startswith("linux")
        or kernel_version() < FIRST_REPORTING_KERNEL
        or not hasattr(ctypes.CDLL(None), "syncfs")
    ):
        return False
    device = os.fstat(number).st_dev
    return (
        kind_of_file_system(f"{os.major(device)}:{os.minor(device)}", MOUNTS)
        in DURABLE_FILE_SYSTEMS
    )


def sync_file_system(number: int) -> None:
    """Make everything written on the file system of an open descriptor durable. Blocks.

    Raises:
        OSError: a write of this or another process has failed since the descriptor was opened or
            since the last call.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library.syncfs(number) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def kernel_version() -> tuple[int, ...]:
    """Return the major and minor version of the operating system's kernel."""
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])


def kind_of_file_system(device: str, mounts: Path) -> str | None:
    """Return the type of the file system on a device, according to the file ``mounts``.

    Return None if ``mounts`` names no type for the device, or several.
    """
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return None
    kinds = {
        match["kind"]
        for line in lines
        if (match := MOUNT.match(line)) and match["device"] == device
    }
    return kinds.pop() if len(kinds) == 1 else None
