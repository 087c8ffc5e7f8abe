"""Bugs of queues are planted here.

Workers of a simulated cluster must notice them.

As in ``cluster_bugs``, each replaces one decision by a wrong one that a programmer could have made.

    python -m tests.sim.queue_bugs                   each bug, with the seeds that are known to show it first
    python -m tests.sim.queue_bugs --seeds 9         every seed of each up to 9, with the time that it takes to show the bug
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from log_service.broker.cluster_view import LeaderHint
from log_service.broker.handlers.share import acknowledge
from log_service.broker.share.led_share_partition import LedSharePartition
from log_service.coordinator.share import acknowledging, share_coordinator, share_partition
from log_service.coordinator.share.acknowledging import Acknowledging
from log_service.coordinator.share.in_flight import Delivery, InFlightBatch
from log_service.coordinator.share.record_states import STATE_AFTER, RecordState
from log_service.coordinator.share.share_partition import SharePartition
from log_service.coordinator.share.window import StateBatch
from tests.sim import cluster_aims as aims
from tests.sim.bug_hunts import ClusterBug, hunt

# The wrong decisions

_state_batches = share_partition.state_batches
_updated = share_coordinator.updated_state


def _never_expire(_self: SharePartition, _now_ms: int) -> None:
    """Let a member keep its records for good."""


def _believe_anybody(
    self: Acknowledging, batch: InFlightBatch, first: int, last: int, of_type: Any
) -> None:
    """A member knows what it was given: its word counts, be the record another member's by now."""
    batch.change(first, last, self._ended(STATE_AFTER[of_type]))


def _store_first_counts(runs: Any) -> Iterator[StateBatch]:
    """Store each record as delivered once."""
    return (replace(batch, delivery_count=1) for batch in _state_batches(runs))


def _give_up_at_once(delivery: Delivery, _delivery_count_limit: int) -> Delivery:
    """Archive each record that a member gives back."""
    return delivery.followed_by(RecordState.ARCHIVED, delivery.delivery_count)


def _count_before_it_is_stored(self: LedSharePartition, write: Any, on_done: Any) -> None:
    """A change counts as soon as it is decided; nothing of it is stored."""
    if write is not None:
        self._open_count += 1
        self._settle([(write, on_done)], None)
    else:
        on_done(None)


def _forget_what_changed(state: Any, update: Any) -> Any:
    """Load of an update only its start offset, and not the states of records behind it."""
    return replace(_updated(state, update), batches=state.batches)


BUGS: Sequence[ClusterBug] = (
    ClusterBug(
        name="an error names the leader that fields hold where nothing is set",
        is_long=True,
        replacements=((acknowledge, "NO_HINT", LeaderHint(0, 0)),),
        aim=aims.QUEUES,
        shown_by=(0,),
    ),
    ClusterBug(
        name="locks never run out",
        is_long=True,
        replacements=((SharePartition, "expire_locks", _never_expire),),
        aim=aims.QUEUES,
        shown_by=(2, 5, 4, 7),
    ),
    ClusterBug(
        name="acknowledged by a member that lost its lock",
        replacements=((Acknowledging, "change_state", _believe_anybody),),
        aim=aims.QUEUES,
        shown_by=(1,),
    ),
    ClusterBug(
        name="delivery counts are not stored",
        is_long=True,
        replacements=((share_partition, "state_batches", _store_first_counts),),
        aim=aims.QUEUES,
        shown_by=(0,),
    ),
    ClusterBug(
        name="given up when it is given back",
        is_long=True,
        replacements=(
            (share_partition, "given_back", _give_up_at_once),
            (acknowledging, "given_back", _give_up_at_once),
        ),
        aim=aims.QUEUES,
        shown_by=(0,),
    ),
    ClusterBug(
        name="taken before it is stored",
        is_long=True,
        replacements=((LedSharePartition, "store", _count_before_it_is_stored),),
        aim=aims.QUEUES,
        shown_by=(0,),
    ),
    ClusterBug(
        name="states of records lost on failover",
        is_long=True,
        replacements=((share_coordinator, "updated_state", _forget_what_changed),),
        aim=aims.QUEUES,
        shown_by=(0,),
    ),
)


def main(arguments: Iterable[str] | None = None) -> int:
    """Play bugs; see ``bug_hunts.hunt``."""
    return hunt(BUGS, arguments)


if __name__ == "__main__":
    sys.exit(main())
