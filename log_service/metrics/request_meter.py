"""Counts the requests of one API by version, and measures how long they took.

A request that gets its response at once counts one duration, which is both its total and its local
time. A request that waits counts two: the local time in its handler, and the total time until its
response is ready. This module knows no particular API.
"""

from bisect import bisect_left

from log_service.metrics.latency import BOUNDS_NS, LatencyMeter


class RequestMeter:
    """The requests of one API.

    ``versions`` counts requests by version. ``at_once`` and ``delayed_*`` hold durations in
    nanoseconds. ``followers`` meters the requests of other brokers, if they are measured apart from
    those of clients.
    """

    __slots__ = ("_counts", "at_once", "delayed_local", "delayed_total", "followers", "versions")

    def __init__(self, max_version: int, began_ms: int = 0) -> None:
        self.followers: RequestMeter | None = None
        self.versions = [0] * (max_version + 1)
        self.at_once = LatencyMeter(began_ms)
        self.delayed_local = LatencyMeter(began_ms)
        self.delayed_total = LatencyMeter(began_ms)
        self._counts = self.at_once.counts

    def __repr__(self) -> str:
        return f"<RequestMeter requests={sum(self.versions)}>"

    def note_at_once(self, version: int, duration_ns: int) -> None:
        """Count a request whose response was ready before its handler returned."""
        self.versions[version] += 1
        self._counts[bisect_left(BOUNDS_NS, duration_ns)] += 1
        self.at_once.sum_ns += duration_ns

    def note_local(self, version: int, duration_ns: int) -> None:
        """Count a request whose handler has returned and whose response comes later."""
        self.versions[version] += 1
        self.delayed_local.note(duration_ns)

    def note_total(self, duration_ns: int) -> None:
        """Count the whole time of a request whose response came later."""
        self.delayed_total.note(duration_ns)
