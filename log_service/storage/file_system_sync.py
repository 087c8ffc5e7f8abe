"""One sync of a whole file system, where that promises as much as a sync of each file.

Decides where it does: on Linux from 5.8 on, which tells through ``syncfs`` what failed to be written since a descriptor was opened, and on
local file systems that are known to make data, sizes and names durable with it. Everywhere else each file has to be synced
by itself. Knows no logs.
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
    """Whether ``sync_file_system`` of an open file or directory is as good as syncing everything that was written on its file system."""
    if not sys.platform.startswith("linux") or _kernel() < FIRST_REPORTING_KERNEL or not hasattr(ctypes.CDLL(None), "syncfs"):
        return False
    device = os.fstat(number).st_dev
    return kind_of_file_system(f"{os.major(device)}:{os.minor(device)}", MOUNTS) in DURABLE_FILE_SYSTEMS


def sync_file_system(number: int) -> None:
    """Make everything durable that was written on the file system of an open descriptor; blocks.

    Raises:
        OSError: something was not written, since the descriptor was opened or the last call, by this process or another.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library.syncfs(number) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])


def kind_of_file_system(device: str, mounts: Path) -> str | None:
    """Return the kind of the file system on a device, as ``mounts`` says; None where that does not say, or says several things."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return None
    kinds = {match["kind"] for line in lines if (match := MOUNT.match(line)) and match["device"] == device}
    return kinds.pop() if len(kinds) == 1 else None
