"""A node whose log directories fail on demand.

Where ``DIRECTORY.failed`` exists, every append and sync in DIRECTORY fails.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

from log_service.storage.files import RealFile
from tests.helpers.forked_process import node


def node_of_failing_directories(overrides: list[str]) -> int:
    """Serve the properties. Each append and each sync checks for a failed directory."""
    for name in ("append_gathered", "_sync"):
        setattr(RealFile, name, _checked(getattr(RealFile, name)))
    return node(overrides)


def _checked(call: Callable[..., Any]) -> Callable[..., Any]:
    def checked(self: RealFile, *arguments: Any) -> Any:
        if any(Path(f"{parent}.failed").exists() for parent in self.path.parents):
            raise OSError(errno.EIO, "the disk is gone", str(self.path))
        return call(self, *arguments)

    return checked
