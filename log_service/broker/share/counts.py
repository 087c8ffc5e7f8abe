"""Counts of share groups (KIP-1103): of the node, of a group, of a share partition.

Decides which values are summed up, and how. Knows neither metric names nor a clock.
"""

from dataclasses import dataclass, field

from log_service.metrics.latency import NS_PER_MS


@dataclass(slots=True)
class ShareCounts:
    """Counts of all share partitions since the node started."""

    lock_timeouts: int = 0
    loads: int = 0
    load_ms: int = 0
    dead_letters: int = 0


@dataclass(slots=True)
class FetchCounts:
    """Sums over those fetches of one group that went on to acquire records."""

    fetch_count: int = 0
    percent_sum: int = 0
    """Percentage of its partitions that a fetch could acquire from, summed up over all fetches."""
    waited_ms: int = 0
    """How long fetches waited for a partition to acquire from, or until they gave up."""

    def note(self, acquirable_count: int, asked_count: int, waited_ms: int) -> None:
        """Count one fetch of ``asked_count`` partitions.

        Records could be acquired from ``acquirable_count`` of them.
        """
        self.fetch_count += 1
        self.percent_sum += 100 * acquirable_count // asked_count
        self.waited_ms += waited_ms


@dataclass(slots=True)
class Spread:
    """The number of values of one kind, and their sum."""

    count: int = 0
    sum: float = 0

    def note(self, value: float) -> None:
        """Add one value."""
        self.count += 1
        self.sum += value


@dataclass(slots=True)
class FetchTimes:
    """The times for which fetches had a share partition to themselves.

    A fetch reads and acquires in one step that no other fetch can enter. Input times are monotonic
    nanoseconds. Output values are milliseconds and whole percent (KIP-1103).
    """

    held_ms: Spread = field(default_factory=Spread)
    percent: Spread = field(default_factory=Spread)
    """The share of the fetch in the time since the previous fetch ended, in percent.

    The first fetch has no previous one.
    """
    _ended_ns: int | None = None

    def note(self, began_ns: int, ended_ns: int) -> None:
        """Count one fetch, which had the share partition from ``began_ns`` to ``ended_ns``."""
        held_ns = ended_ns - began_ns
        whole_ns = ended_ns - (began_ns if self._ended_ns is None else self._ended_ns)
        self.held_ms.note(held_ns / NS_PER_MS)
        self.percent.note(100 * held_ns // whole_ns if whole_ns else 100)
        self._ended_ns = ended_ns
