"""Makes every record that changes an existing partition: its leader, in-sync set or replicas.

A rule describes the wanted partition in a ``Target``. This module ends a completed reassignment,
computes the eligible leader replicas, elects a leader, and returns one record, or None if nothing
changes. It reads one partition and no cluster. The brokers that may lead are an argument.

Eligible leader replicas (ELR, KIP-966) left the in-sync set while it was smaller than ``min_isr``.
The high watermark does not move at that time. So an ELR has every committed record, and may lead
when the in-sync set is empty. A broker that stopped uncleanly may have lost records, and leaves
both sets.

Invariants: after a change the leader is in the in-sync set, or there is no leader. The in-sync set
and the ELR share no member. The leader epoch rises with a new leader and when a replica leaves the
partition, and only then. The last known leader is remembered while there is no leader.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from log_service.common.types import NodeId
from log_service.metadata.partition import NO_LEADER, RECOVERED, RECOVERING, PartitionRegistration
from log_service.protocol.stored.metadata_records import PartitionChangeRecord

NO_CHANGE = PartitionChangeRecord()


class Election(Enum):
    """The replicas that an election may make leader.

    ``UNCLEAN`` loses records if no replica has them all. ``PREFERRED`` tries the first replica
    first.
    """

    PREFERRED = auto()
    CLEAN = auto()
    UNCLEAN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPolicy:
    """The rules for a topic's partitions.

    ``min_isr`` is min.insync.replicas. ``keeps_eligible`` tells whether ELR are kept. ``election``
    tells which replicas may lead.
    """

    min_isr: int
    keeps_eligible: bool
    election: Election = Election.CLEAN


class Target(NamedTuple):
    """The wanted state of a partition.

    ``directories`` has the log directories of replicas that moved. ``unclean_shutdown`` is the
    broker that has just stopped without flushing all its records.
    """

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()
    recovery_state: int = RECOVERED
    directories: Mapping[NodeId, UUID] = MappingProxyType({})
    unclean_shutdown: NodeId | None = None


def unchanged(partition: PartitionRegistration, **changes: Any) -> Target:
    """Return a target equal to the present partition, except for ``changes``."""
    present = Target(
        partition.replicas,
        partition.isr,
        partition.adding_replicas,
        partition.removing_replicas,
        partition.leader_recovery_state,
    )
    return present._replace(**changes) if changes else present


class _Elected(NamedTuple):
    leader: NodeId
    is_unclean: bool = False


def change_of(
    partition: PartitionRegistration,
    target: Target,
    policy: PartitionPolicy,
    *,
    may_lead: Callable[[NodeId], bool],
    default_directory: Callable[[NodeId], UUID],
    observers: frozenset[int] = frozenset(),
    awaited: frozenset[NodeId] = frozenset(),
) -> PartitionChangeRecord | None:
    """Return the record that changes a partition to ``target``, or None if nothing changes.

    The caller adds topic and index to the record. Brokers in ``awaited`` may not lead yet. Each of
    them soon sends a heartbeat or is fenced. Until then, no unclean election happens.
    """
    placement = finished_if_done(target, observers)
    isr = placement.isr
    eligible = (
        _eligible(partition, placement, target.unclean_shutdown, policy)
        if policy.keeps_eligible
        else ()
    )
    elected = elect(partition, placement, eligible, policy, may_lead=may_lead, awaited=awaited)
    record = PartitionChangeRecord()
    recovery_state = target.recovery_state
    if elected.leader != partition.leader:
        record.leader = elected.leader
        if elected.is_unclean:
            isr, eligible, recovery_state = (elected.leader,), (), RECOVERING
    elif not set(partition.replicas) <= set(placement.replicas):
        # The same leader begins an epoch, which ends what it sends to replicas that leave.
        record.leader = partition.leader
    if elected.leader in eligible:
        isr = (elected.leader,)
        # If one replica in sync is enough, the leader may commit alone from here on, and the
        # others fall behind.
        eligible = (
            tuple(node_id for node_id in eligible if node_id != elected.leader)
            if policy.min_isr > 1
            else ()
        )
    if recovery_state != partition.leader_recovery_state:
        record.leader_recovery_state = recovery_state
    _note_isr(record, partition, isr, eligible, policy)
    _note_placement(record, partition, placement, target.directories, default_directory)
    return None if record.leader == NO_CHANGE.leader and record == NO_CHANGE else record


# Reassignments


def finished_if_done(target: Target, observers: frozenset[int] = frozenset()) -> Target:
    """End the reassignment of a target if it is complete, else return the same target (KIP-455).

    A reassignment is complete once every added replica is in sync, and at least one replica that is
    not removed. If the replication factor shrinks, all that are not removed must be in sync.
    ``observers`` need not be in sync.
    """
    if not (target.adding or target.removing):
        return target
    staying = tuple(node_id for node_id in target.replicas if node_id not in target.removing)
    isr = tuple(node_id for node_id in target.isr if node_id not in target.removing)
    is_shrinking = len(target.adding) < len(target.removing)
    if (target.removing and not (isr and staying)) or not set(target.adding) - observers <= set(
        isr
    ):
        return target
    if is_shrinking and not set(staying) - observers <= set(isr):
        return target
    return Target(replicas=staying, isr=isr)


# Eligible leader replicas


def _eligible(
    partition: PartitionRegistration,
    placement: Target,
    unclean_shutdown: NodeId | None,
    policy: PartitionPolicy,
) -> tuple[NodeId, ...]:
    """Return the replicas outside the in-sync set that have every committed record.

    They were in sync when the set became too small.
    """
    if len(placement.isr) >= policy.min_isr:
        return ()
    candidates = {*partition.eligible_leader_replicas, *partition.isr} - set(placement.isr)
    return tuple(
        sorted(
            node_id
            for node_id in candidates
            if node_id in placement.replicas and node_id != unclean_shutdown
        )
    )


# Elections


def elect(
    partition: PartitionRegistration,
    placement: Target,
    eligible: tuple[NodeId, ...],
    policy: PartitionPolicy,
    *,
    may_lead: Callable[[NodeId], bool],
    awaited: frozenset[NodeId],
) -> _Elected:
    """Return the present leader if it may lead, else another one.

    A preferred election tries the first replica first. Without a broker that may lead, the result
    has ``NO_LEADER``.
    """
    electable = placement.isr or eligible
    candidates = (partition.leader, *placement.replicas)
    if policy.election is Election.PREFERRED:
        candidates = (placement.replicas[0], *candidates)
    leader = _first(node_id for node_id in candidates if node_id in electable and may_lead(node_id))
    if leader is not None:
        return _Elected(leader)
    last_known = partition.last_known_elr
    if policy.keeps_eligible and not electable and len(last_known) == 1 and may_lead(last_known[0]):
        return _Elected(last_known[0], is_unclean=True)
    if policy.election is Election.UNCLEAN and awaited.isdisjoint(electable):
        leader = _first(filter(may_lead, placement.replicas))
        if leader is not None:
            return _Elected(leader, is_unclean=True)
    return _Elected(NO_LEADER)


def _first(node_ids: Iterable[NodeId]) -> NodeId | None:
    return next(iter(node_ids), None)


# The record


def _note_isr(
    record: PartitionChangeRecord,
    partition: PartitionRegistration,
    isr: tuple[NodeId, ...],
    eligible: tuple[NodeId, ...],
    policy: PartitionPolicy,
) -> None:
    """Write the changed in-sync set, ELR and last known leader into ``record``.

    Without ELR an empty in-sync set is not written, so its last member remains.
    """
    if isr != partition.isr and (isr or policy.keeps_eligible):
        record.isr = list(isr)
    if set(eligible) != set(partition.eligible_leader_replicas):
        record.eligible_leader_replicas = list(eligible)
    if not policy.keeps_eligible:
        return
    if record.leader == NO_LEADER and partition.has_leader and not partition.last_known_elr:
        record.last_known_elr = [partition.leader]
    elif record.leader >= 0 and partition.last_known_elr:
        record.last_known_elr = []


def _note_placement(
    record: PartitionChangeRecord,
    partition: PartitionRegistration,
    placement: Target,
    moved: Mapping[NodeId, UUID],
    default_directory: Callable[[NodeId], UUID],
) -> None:
    """Write the replicas, their directories, and the added and removed replicas into ``record``."""
    is_elsewhere = placement.replicas != partition.replicas
    if is_elsewhere or moved or len(partition.directories) != len(partition.replicas):
        known = {**dict(zip(partition.replicas, partition.directories, strict=False)), **moved}
        directories = [
            known[node_id] if node_id in known else default_directory(node_id)
            for node_id in placement.replicas
        ]
        if tuple(directories) != partition.directories:
            record.directories = directories
    if is_elsewhere:
        record.replicas = list(placement.replicas)
    if placement.removing != partition.removing_replicas:
        record.removing_replicas = list(placement.removing)
    if placement.adding != partition.adding_replicas:
        record.adding_replicas = list(placement.adding)
