"""Bugs are planted into clusters for judges that those of ``cluster_bugs`` do not reach.

They reach others in one way alone.

As there, each replaces one decision by a wrong one that a programmer could have made: about the
controller's view of brokers and leaders, about what followers believe, about the groups of the
consumer protocol, and about what becomes quiet again once faults are over.

    python -m tests.sim.judge_bugs                   each bug, with the seeds that are known to show it first
    python -m tests.sim.judge_bugs --seeds 9         every seed of each up to 9, with the time that it takes to show the bug
"""

import sys
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from log_service.broker.lifecycle import BrokerLifecycle
from log_service.controller import controller
from log_service.controller.rules import partition_change, partitions
from log_service.controller.rules.brokers import FENCED
from log_service.coordinator.group.consumer import reconciliation
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.metadata import topics_delta
from log_service.metadata.partition import PartitionRegistration, changed_partition
from log_service.protocol.messages.fetch import PartitionData
from log_service.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from log_service.replication import fetcher
from log_service.replication.fetcher import Fetcher
from log_service.replication.followed_partition import Followed
from log_service.replication.partition import Partition
from log_service.replication.partition_state import Change, PartitionState
from tests.sim import cluster_aims as aims
from tests.sim.bug_hunts import ClusterBug, hunt
from tests.sim.cluster_bugs import has_deaths, has_isolation

# The wrong decisions

_elect, _note_fetch, _append = (
    partition_change.elect,
    PartitionState.note_fetch,
    Fetcher.append_fetched,
)
_leave = BrokerLifecycle.leave


def _keep_the_leader_epoch(
    partition: PartitionRegistration, record: PartitionChangeRecord
) -> PartitionRegistration:
    """An epoch is the partition's; the next leader goes on with it."""
    return changed_partition(partition, record)._replace(leader_epoch=partition.leader_epoch)


def _fence_and_keep_in_sync(_partitions: Any, *brokers: Any) -> list[Any]:
    """A broker that is fenced comes back: what it has stays its own until then."""
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.node_id, broker_epoch=broker.epoch, fenced=FENCED
        )
        for broker in brokers
    ]


def _elect_anybody(*arguments: Any, **brokers: Any) -> Any:
    """A partition is better led by a replica that lacks records than by none."""
    partition, placement, eligible, policy = arguments
    return _elect(
        partition,
        placement,
        eligible,
        replace(policy, election=partition_change.Election.UNCLEAN),
        **brokers,
    )


def _propose_nobody(_self: PartitionState, _broker_id: int) -> None:
    """Leave each replica out of the in-sync replicas once it has left them."""


def _believe_to_the_end(self: PartitionState, _leader_high_watermark: int) -> bool:
    """Trust the leader that its records are safe."""
    self._move_to(self.log_end_offset)
    return True


def _cut_the_whole_epoch(partition: Partition, leader_epoch_end: tuple[int, int]) -> None:
    """A log that has parted from its leader's in an epoch is none of that epoch."""
    log = partition.log
    assert log is not None
    partition.truncate_to(
        log.end_offset_for_epoch(leader_epoch_end[0] - 1)[1] if leader_epoch_end[0] else 0
    )


def _take_what_is_safe_with_records(self: Fetcher, followed: Followed, told: PartitionData) -> bool:
    """Take nothing from a response without records."""
    return bool(told.records) and _append(self, followed, told)


def _announce_nothing_of_followers(
    self: PartitionState, broker_id: int, offset: int, **told: Any
) -> Change:
    """A fetch of a follower moves the high watermark, and nobody is told: the next append tells
    them.
    """
    return _note_fetch(self, broker_id, offset, **told) & ~Change.HIGH_WATERMARK


async def _leave_and_beat_on(self: BrokerLifecycle) -> None:
    """A broker that leaves goes on with the heartbeats of one that runs."""
    await _leave(copy(self))


def _is_held_by_none(*_arguments: object) -> bool:
    """A partition of the target is the member's."""
    return False


def _own_nothing_that_is_lost(*_arguments: object) -> bool:
    """Treat lost partitions as given up, whatever their member reports."""
    return False


BUGS: Sequence[ClusterBug] = (
    ClusterBug(
        name="leader epoch stays when another leads",
        replacements=(
            (topics_delta, "changed_partition", _keep_the_leader_epoch),
            (partitions, "changed_partition", _keep_the_leader_epoch),
        ),
        fits=has_deaths,
        shown_by=(1,),
    ),
    ClusterBug(
        name="fenced brokers stay in sync",
        replacements=((controller, "fence_brokers", _fence_and_keep_in_sync),),
        fits=has_deaths,
        shown_by=(1,),
    ),
    ClusterBug(
        name="unclean leaders where none may be",
        replacements=((partition_change, "elect", _elect_anybody),),
        aim=aims.UNCLEAN_ELECTIONS,
        shown_by=(2, 0),
    ),
    ClusterBug(
        name="broker that leaves beats on",
        is_long=True,
        replacements=((BrokerLifecycle, "leave", _leave_and_beat_on),),
        aim=aims.UNCLEAN_ELECTIONS,
        shown_by=(2, 0),
    ),
    ClusterBug(
        name="in-sync replicas never grow",
        replacements=((PartitionState, "propose_expansion", _propose_nobody),),
        aim=aims.LONG_LIVES,
        shown_by=(2, 3, 0),
    ),
    ClusterBug(
        name="follower takes all that it has for safe",
        replacements=((PartitionState, "follow_high_watermark", _believe_to_the_end),),
        shown_by=(1,),
    ),
    ClusterBug(
        name="cut by a whole epoch",
        replacements=((fetcher, "truncate_to_divergence", _cut_the_whole_epoch),),
        fits=has_isolation,
        shown_by=(12, 9, 15, 6),
    ),
    ClusterBug(
        name="follower takes what is safe with records alone",
        replacements=((Fetcher, "append_fetched", _take_what_is_safe_with_records),),
        shown_by=(1,),
    ),
    ClusterBug(
        name="nobody is told of what followers have fetched",
        replacements=((PartitionState, "note_fetch", _announce_nothing_of_followers),),
        fits=lambda plan: plan.are_waits_judged,
        shown_by=(3,),
    ),
    ClusterBug(
        name="partition of a group with two owners",
        replacements=((ConsumerGroup, "is_held_by_another", _is_held_by_none),),
        aim=aims.CONSUMER_GROUPS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="member need not give up what it loses",
        replacements=((reconciliation, "still_owns", _own_nothing_that_is_lost),),
        aim=aims.CONSUMER_GROUPS,
        shown_by=(0,),
    ),
)


def main(arguments: Iterable[str] | None = None) -> int:
    """Play bugs; see ``bug_hunts.hunt``."""
    return hunt(BUGS, arguments)


if __name__ == "__main__":
    sys.exit(main())
