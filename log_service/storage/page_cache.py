"""The identity of the page cache that holds unsynced writes to a directory.

The identity is known on Linux, for file systems on which a finished write is in the kernel's page
cache. A file system that is served by a process (FUSE) may hold writes in this process and lose
them with it. This module does not know logs.
"""

import os
from pathlib import Path

from log_service.storage.file_system_sync import DURABLE_FILE_SYSTEMS, MOUNTS, kind_of_file_system

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""A random id of each start of a kernel. All containers on one kernel see the same id."""
CACHED_FILE_SYSTEMS = DURABLE_FILE_SYSTEMS | {"btrfs", "overlay", "zfs"}


def page_cache_id(directory: Path, *, boot_id: Path = BOOT_ID, mounts: Path = MOUNTS) -> str | None:
    """Return the identity of a directory's page cache, or None if it is unknown.

    The identity consists of the kernel's boot id, the device and the directory.

    Raises:
        OSError: the directory does not exist or cannot be read.
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
    """Return whether the page cache is the one with ``noted_id``, so that no write was lost.

    An unknown page cache is never the same.
    """
    return present_id is not None and noted_id == present_id
