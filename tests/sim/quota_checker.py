"""Judges what clients with quotas get.

* Those who share a quota get its bound together, to within 5 %, whatever they ask for and whether
  they pause by themselves; and at no moment more than the bound and what all windows hold.
* Each of them gets a near-equal share, to within 35 % over half a minute. One whose connection
  breaks loses nothing but its time.
* Nobody is told to pause for longer than it takes to work off one request of each that shares the
  quota, and what all windows hold.
* A connection that has to pause gets no response before its pause is over: the broker does not read
  from it (KIP-219).
* Nobody is refused anything.

A quota is measured over some seconds, which can be used up at once when clients begin: to sums and
shares the first ``WARM_UP_SECONDS`` do not count.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.sim.node_history import Entry, Operation
from tests.sim.quota_clients import BOUNDS, Metered, Use

WARM_UP_SECONDS = 8.0
SUM_TOLERANCE = 0.05
SHARE_TOLERANCE = 0.35
"""Who comes when a window has ended gets what that leaves, which is up to chance: over half a
minute it is not quite the same for all.
"""
LATE_SECONDS = 0.002
"""How much earlier a response may seem to come: the network draws the time that each takes."""
RULE = "quotas"


@dataclass(slots=True)
class _Shared:
    """One use of a quota: who shares it, and what they were given."""

    name: str
    bound: float
    clients: set[str] = field(default_factory=set)
    total_bytes: float = 0.0
    largest_bytes: int = 0
    counted: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Bytes of each client behind the time that does not count."""


class QuotaChecker:
    """Judges requests as they end; ``report`` takes what contradicts a promise. Quotas are measured
    over ``window_seconds``.
    """

    def __init__(self, report: Callable[[str, str], None], window_seconds: float) -> None:
        self._report = report
        self._window_seconds = window_seconds
        self._began_time = 0.0
        self._shared = {
            (quota, use): _Shared(f"{use.value} of {quota}", bound)
            for quota, bound in BOUNDS.items()
            for use in Use
        }
        self._last: dict[int, Metered] = {}

    def begin(self, now: float) -> None:
        """Take note that the quotas hold from now on, in seconds."""
        self._began_time = now

    def note(self, entry: Entry) -> None:
        """Take a request that has begun."""
        if isinstance(entry, Metered):
            self._shared[entry.quota, entry.use].clients.add(entry.client)

    def note_ended(self, operation: Operation) -> None:
        """Take a response."""
        if not isinstance(operation, Metered):
            return
        shared = self._shared[operation.quota, operation.use]
        shared.largest_bytes = max(shared.largest_bytes, operation.size_bytes)
        if operation.error:
            self._report(RULE, f"{operation.client} is refused: {operation.error}")
        if operation.is_served:
            self._count(shared, operation)
        self._check_pause(shared, operation)
        before, self._last[operation.line] = self._last.get(operation.line), operation
        if (
            before is not None
            and before.ended_time + before.pause_ms / 1_000 > operation.ended_time + LATE_SECONDS
        ):
            early = before.ended_time + before.pause_ms / 1_000 - operation.ended_time
            self._report(
                RULE,
                f"{operation.client} has a response {early:.3f} s before its pause of {before.pause_ms} ms is over",
            )

    def _count(self, shared: _Shared, served: Metered) -> None:
        seconds = served.ended_time - self._began_time
        shared.total_bytes += served.size_bytes
        if seconds >= WARM_UP_SECONDS:
            shared.counted[served.client] += served.size_bytes
        allowed = (
            shared.bound * (seconds + self._window_seconds)
            + len(shared.clients) * shared.largest_bytes
        )
        if shared.total_bytes > allowed:
            self._report(
                RULE,
                f"{shared.name}: {shared.total_bytes:.0f} bytes in {seconds:.1f} s, where {allowed:.0f} are allowed",
            )

    def _check_pause(self, shared: _Shared, operation: Metered) -> None:
        limit_ms = 1_000 * (
            self._window_seconds + len(shared.clients) * shared.largest_bytes / shared.bound
        )
        if operation.pause_ms > limit_ms:
            text = f"is told to pause for {operation.pause_ms} ms, where {limit_ms:.0f} are enough"
            self._report(RULE, f"{shared.name}: {operation.client} {text}")

    def end(self, now: float) -> None:
        """Judge what everybody got until now."""
        seconds = now - self._began_time - WARM_UP_SECONDS
        for shared in self._shared.values():
            rates = {client: shared.counted[client] / seconds for client in sorted(shared.clients)}
            told = {client: round(rate) for client, rate in rates.items()}
            total = sum(rates.values())
            if abs(total - shared.bound) > SUM_TOLERANCE * shared.bound:
                self._report(
                    RULE,
                    f"{shared.name}: {total:.0f} bytes a second, where the quota is {shared.bound:.0f}: {told}",
                )
            mean = total / max(1, len(rates))
            if any(abs(rate - mean) > SHARE_TOLERANCE * mean for rate in rates.values()):
                self._report(RULE, f"{shared.name}: shares are not equal, {told} bytes a second")
