"""What a figure sees of whom it measures, and of how much is asked for: the same for one node and for a cluster."""

import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol


class Measured(Protocol):
    """A broker, or all nodes of a cluster. CPU and memory are those of all processes together."""

    @property
    def address(self) -> str:
        """Where clients connect first: one broker, or several with commas between."""

    def cpu_s(self) -> float:
        """Return the CPU seconds, user and system, that were spent."""

    def rss_bytes(self) -> int:
        """Return the memory."""

    def topic(self, partition_count: int = 1) -> AbstractContextManager[str]:
        """Create a topic of a new name and delete it afterwards; in a cluster its partitions have three replicas, leaders spread evenly."""


class Asked(Protocol):
    """How much is asked for."""

    @property
    def scale(self) -> float:
        """The share of the full load."""

    def count(self, full: float, *, at_least: int = 1) -> int:
        """Return a load's share of what it is at full scale."""


def peak_memory_bytes() -> int:
    """Return the most memory that this program had. ``ru_maxrss`` also counts that of the process from which it was started."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None, "Linux tells it"
    return int(found.group(1)) * 1024
