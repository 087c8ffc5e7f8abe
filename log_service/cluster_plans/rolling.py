"""Decides in which order the nodes of a cluster restart, and when the next one may restart.

The node that leads the metadata quorum comes last, so that the active controller moves only once. A
broker may stop if every partition on it keeps ``min.insync.replicas`` replicas in sync without it,
and every voter of the quorum is up to date. The next broker waits until all replicas are in sync
again. Replicas on observers are never in sync, and are ignored here.
"""

from collections.abc import Sequence

from log_service.cluster_plans.health import QuorumState
from log_service.cluster_plans.layout import NO_LEADER, ClusterLayout, PartitionLayout

MAX_NAMED = 3


def roll_order(layout: ClusterLayout, quorum: QuorumState) -> list[int]:
    """Return all active brokers in restart order: the active controller is the last one."""
    return sorted(layout.active, key=lambda broker: (broker == quorum.leader_id, broker))


def single_replicas(layout: ClusterLayout, broker: int) -> list[PartitionLayout]:
    """Return the partitions that no other broker can lead.

    They are offline while the broker restarts, and no wait can prevent that.
    """
    return [
        partition
        for partition in layout.partitions
        if broker in partition.replicas and not _others(layout, partition, broker)
    ]


def _others(layout: ClusterLayout, partition: PartitionLayout, broker: int) -> set[int]:
    """Return the brokers, other than ``broker``, that can be in sync."""
    return set(partition.replicas) - layout.observers - {broker}


def obstacles(layout: ClusterLayout, quorum: QuorumState, broker: int) -> list[str]:
    """Return the reasons why a broker must not stop now, as sentences. There are none if it may."""
    found = []
    out_of_sync = [
        each
        for each in layout.partitions
        if set(each.replicas) - set(each.isr) - layout.observers and len(each.replicas) > 1
    ]
    at_risk = [
        each
        for each in layout.partitions
        if broker in each.isr
        and len(each.isr) - 1 < min(each.min_isr, len(_others(layout, each, broker)))
    ]
    offline = [each for each in layout.partitions if each.leader == NO_LEADER]
    moving = [each for each in layout.partitions if each.is_moving]
    for partitions, what in (
        (offline, "offline"),
        (out_of_sync, "not in sync everywhere"),
        (at_risk, "under min ISR without it"),
        (moving, "on the way to other brokers"),
    ):
        if partitions:
            found.append(f"{_named(partitions)} {'is' if len(partitions) == 1 else 'are'} {what}")
    down = [
        each
        for each in layout.fenced
        if any(each in partition.replicas for partition in layout.partitions)
    ]
    found += [f"broker {each} is down" for each in down]
    if quorum.leader_id == NO_LEADER:
        found.append("the metadata quorum has no leader")
    found += [
        f"voter {each.node_id} is behind"
        for each in quorum.voters
        if each.is_behind and each.node_id != quorum.leader_id
    ]
    return found


def obstacles_to_stay_down(layout: ClusterLayout, quorum: QuorumState, broker: int) -> list[str]:
    """Return the reasons why a broker must not stop for a while, as sentences.

    These are its ``obstacles``, and that too few voters of the quorum would be left.
    """
    voters = [each.node_id for each in quorum.voters]
    left = [
        each.node_id
        for each in quorum.voters
        if each.node_id != broker and not each.is_behind and each.node_id not in layout.fenced
    ]
    found = obstacles(layout, quorum, broker)
    if broker in voters and len(left) <= len(voters) // 2:
        found.append(
            f"without it {len(left)} of {len(voters)} voters of the metadata quorum would be left,"
            " which is not a majority"
        )
    return found


def _named(partitions: Sequence[PartitionLayout]) -> str:
    names = ", ".join(str(each.where) for each in partitions[:MAX_NAMED])
    return (
        names
        if len(partitions) <= MAX_NAMED
        else f"{names} and {len(partitions) - MAX_NAMED} more partitions"
    )
