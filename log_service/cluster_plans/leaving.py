"""Decides what a cluster loses when it unregisters a broker or takes a voter out.

It refuses to lose what the cluster needs. A running broker that is unregistered registers again
only at its next start, so its partitions stay without it until then. After a voter was removed, the
quorum needs a majority of the remaining voters, which includes dead ones.
"""

from collections.abc import Collection

from log_service.cluster_plans.health import QuorumState
from log_service.cluster_plans.layout import NO_LEADER, ClusterLayout, PlanRefused

MAX_NAMED = 3


def what_is_on(layout: ClusterLayout, broker_id: int) -> str:
    """Return a text about a broker's replicas, and about the partitions that depend on them.

    The text has the number of replicas, of partitions that the broker leads, and of partitions
    without another replica in sync.
    """
    held = [each for each in layout.partitions if broker_id in each.replicas]
    if not held:
        return "no replica"
    led = sum(each.leader == broker_id for each in held)
    # None is in sync if the last one is an eligible leader replica.
    alone = [each for each in held if not set(each.isr) - {broker_id}]
    parts = [f"{_counted(len(held), 'replica')}"]
    if led:
        parts.append(f"the leaders of {_counted(led, 'partition')}")
    if alone:
        names = ", ".join(str(each.where) for each in alone[:MAX_NAMED])
        more = f" and {len(alone) - MAX_NAMED} more" if len(alone) > MAX_NAMED else ""
        parts.append(
            f"{_counted(len(alone), 'partition')} without another replica in sync ({names}{more})"
        )
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def refuse_to_forget(layout: ClusterLayout, broker_id: int) -> None:
    """Refuse to unregister a broker that still serves.

    Raises:
        PlanRefused: the broker is unknown, or it serves.
    """
    if not layout.broker(broker_id).is_fenced:
        raise PlanRefused(
            f"broker {broker_id} serves, with {what_is_on(layout, broker_id)}: empty it and take it"
            f" out with tidelog cluster remove {broker_id} --execute; if it has just stopped, wait"
            " until tidelog cluster status calls it fenced"
        )


def refuse_to_lose_replicas(layout: ClusterLayout, broker_id: int) -> None:
    """Refuse to unregister a broker that has replicas.

    It may have some because no plan could move them, because they were added since, or because
    their moves were cancelled.

    Raises:
        PlanRefused: the broker has replicas.
    """
    if all(broker_id not in each.replicas for each in layout.partitions):
        return
    stuck = [
        each.where
        for each in layout.partitions
        if broker_id in each.replicas and each.leader == NO_LEADER
    ]
    if stuck:
        raise PlanRefused(
            f"broker {broker_id} is not forgotten: it holds a replica of {stuck[0]}, which is"
            " offline; start the partition's brokers first"
        )
    raise PlanRefused(
        f"broker {broker_id} is not forgotten: it has {what_is_on(layout, broker_id)}, which came"
        " since it was emptied, or whose moves were taken back; the same command empties it again"
    )


def down_voters(quorum: QuorumState, fenced: Collection[int] = ()) -> list[int]:
    """Return the voters that count as down.

    They do not lead, and either their lag is large, or their broker is among ``fenced``.
    """
    others = [each for each in quorum.voters if each.node_id != quorum.leader_id]
    return [each.node_id for each in others if each.is_behind or each.node_id in fenced]


def refuse_to_lose_majority(
    quorum: QuorumState, node_id: int, fenced: Collection[int] = ()
) -> None:
    """Refuse to take a voter out if the others could not reach a majority.

    Without a majority the cluster's metadata cannot be changed any more. A voter that counts as
    down may still vote, so its own removal is judged by the same count.

    Raises:
        PlanRefused: too few voters would be left. The text names those that are down.
    """
    down = down_voters(quorum, fenced)
    remaining = [each.node_id for each in quorum.voters if each.node_id != node_id]
    lost = sorted(each for each in remaining if each in down)
    up_count = len(remaining) - len(lost)
    if up_count > len(remaining) // 2:
        return
    who = (
        f"{'voter' if len(lost) == 1 else 'voters'} {', '.join(map(str, lost))}"
        f" {'is' if len(lost) == 1 else 'are'} down or behind"
    )
    them = "it" if len(lost) == 1 else "them"
    raise PlanRefused(
        f"{who}: without node {node_id} only {up_count} of the {len(remaining)} voters that remain"
        f" could vote, which is not a majority, and the metadata quorum would be lost. Bring {them}"
        f" back, or take {them} out first: tidelog cluster voters remove {lost[0]} --execute"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
