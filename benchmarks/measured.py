"""Declares what a figure sees of a broker and of its load, for one node and for a cluster alike."""

import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol


class Measured(Protocol):
    """A broker, or all nodes of a cluster.

    CPU and memory are those of all processes together.
    """

    @property
    def address(self) -> str:
        """Return the address for clients: one broker, or several with commas between."""

    def cpu_s(self) -> float:
        """Return the spent CPU seconds, user and system."""

    def rss_bytes(self) -> int:
        """Return the memory."""

    def topic(self, partition_count: int = 1) -> AbstractContextManager[str]:
        """Create a topic of a new name and delete it afterwards.

        In a cluster its partitions have three replicas, and leaders are spread evenly.
        """


class Asked(Protocol):
    """The amount of load."""

    @property
    def scale(self) -> float:
        """Return the share of the full load."""

    def count(self, full: float, *, at_least: int = 1) -> int:
        """Return a load's count at this scale, given its count at full scale."""


def peak_memory_bytes() -> int:
    """Return the peak memory of this program.

    ``ru_maxrss`` would also count that of the process from which it was started.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None, "Linux tells it"
    return int(found.group(1)) * 1024
