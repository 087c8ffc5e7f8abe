"""Which memory of which kernel holds what was written to a directory and not synced.

Decides on which systems that can be told: on Linux, for file systems where a write that has ended is in the kernel's page cache. A file
system that a process serves (FUSE) may keep writes in that process, and the end of that process takes them. Knows no logs.
"""

import os
from pathlib import Path

from log_service.storage.file_system_sync import DURABLE_FILE_SYSTEMS, MOUNTS, kind_of_file_system

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Drawn by each start of a kernel; containers see that of the kernel that they share."""
CACHED_FILE_SYSTEMS = DURABLE_FILE_SYSTEMS | {"btrfs", "overlay", "zfs"}


def page_cache_id(directory: Path, *, boot_id: Path = BOOT_ID, mounts: Path = MOUNTS) -> str | None:
    """Return the identity of the page cache of a directory: the kernel's run, the device and the directory. None where it is not known.

    Raises:
        OSError: there is no such directory, or it cannot be read.
    """
    try:
        booted = boot_id.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    status = os.stat(directory)  # noqa: PTH116 - beside the other calls to the system
    device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    if not booted or kind_of_file_system(device, mounts) not in CACHED_FILE_SYSTEMS:
        return None
    return f"{booted} {device} {status.st_ino}"


def is_same_page_cache(noted_id: object, present_id: str | None) -> bool:
    """Whether what was written then is there now, synced or not."""
    return present_id is not None and noted_id == present_id
