"""Bugs of quotas are planted here.

Clients of a simulated cluster must notice them.

As in ``cluster_bugs``, each replaces one decision by a wrong one that a programmer could have made.

    python -m tests.sim.quota_bugs                   each bug, with the seeds that are known to show it first
    python -m tests.sim.quota_bugs --seeds 9         every seed of each up to 9, with the time that it takes to show the bug
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from log_service.broker.quotas import ClientAccount, ClientQuotas
from log_service.broker.requests.call import Call
from log_service.common.env import Clock
from log_service.network.responses import ConnectionContext
from log_service.quota import entities, windows
from log_service.quota.entities import Client, Share
from log_service.quota.windows import Meters, SampledRate
from tests.sim import cluster_aims as aims
from tests.sim.bug_hunts import ClusterBug, hunt

# The wrong decisions

_levels, _pause_ms, _account_of = entities.levels, windows.pause_ms, ClientQuotas.account_of
_count = SampledRate.count


def _read_on(_self: ConnectionContext, _pause: int) -> None:
    """A client pauses by itself: it was told so."""


def _share_with_nobody(client: Client) -> list[tuple[Any, Share]]:
    """Each client has the quota of its user for itself."""
    return [(entity, Share(client.user, client.client_id)) for entity, _ in _levels(client)]


def _keep_what_was_counted(_self: Meters, _share: object, _amount: float, _now_ms: int) -> None:
    """A response was counted, be it empty or not."""


def _pause_for_the_rate(rate: float, span_ms: float, bound: float) -> int:
    """A client pauses by how far it is above its bound, however long the rate was measured over."""
    return _pause_ms(rate, min(span_ms, 1_000), bound)


class _WallClock:
    """A clock that tells the time of the day where it is asked how much time has passed."""

    def __init__(self, clock: Clock) -> None:
        self.monotonic_ms = self.wall_ms = clock.wall_ms
        self.monotonic_ns = clock.monotonic_ns


def _charge_by_the_wall(
    self: ClientQuotas, call: Call, request_bytes: int, started_ns: int
) -> ClientAccount | None:
    """One clock is as good as another."""
    if not isinstance(self.clock, _WallClock):
        self.clock = _WallClock(self.clock)
    return _account_of(self, call, request_bytes, started_ns)


def _forget_at_each_window(self: SampledRate, amount: float, now_ms: int) -> None:
    """A new window begins with nothing, the one before counts no more."""
    _count(self, amount, now_ms)
    for number, sample in enumerate(self._samples):
        if number != self._current:
            sample.total = 0.0


BUGS: Sequence[ClusterBug] = (
    ClusterBug(
        name="connection that has to pause is read on",
        replacements=((ConnectionContext, "mute", _read_on),),
        aim=aims.QUOTAS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="quota of a user is each client's own",
        replacements=((entities, "levels", _share_with_nobody),),
        aim=aims.QUOTAS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="empty responses are counted",
        is_long=True,
        replacements=((Meters, "take_back", _keep_what_was_counted),),
        aim=aims.QUOTAS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="pause does not go by how long was measured",
        replacements=((windows, "pause_ms", _pause_for_the_rate),),
        aim=aims.QUOTAS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="quotas go by the wall clock",
        is_long=True,
        replacements=((ClientQuotas, "account_of", _charge_by_the_wall),),
        aim=aims.QUOTAS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="windows are forgotten too early",
        replacements=((SampledRate, "count", _forget_at_each_window),),
        aim=aims.QUOTAS,
        shown_by=(0,),
    ),
)


def main(arguments: Iterable[str] | None = None) -> int:
    """Play bugs; see ``bug_hunts.hunt``."""
    return hunt(BUGS, arguments)


if __name__ == "__main__":
    sys.exit(main())
