"""One partition as the controller's records describe it.

This module decides how a change record alters a registration. It knows neither logs nor the state
of brokers.

Invariants: the partition epoch grows with every change. The leader epoch grows with every change
that names a leader, even the same one, so that a broker that stopped uncleanly gets a new epoch.
"""

from typing import NamedTuple, cast
from uuid import UUID

from log_service.common.types import LeaderEpoch, NodeId, PartitionEpoch
from log_service.protocol.stored.metadata_records import PartitionChangeRecord, PartitionRecord

NO_LEADER = NodeId(-1)
MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, LOST_DIRECTORY = UUID(int=0), UUID(int=1), UUID(int=2)
"""Reserved ids (KIP-858): for replicas from before directories had ids, for a replica whose broker
has not chosen yet, and for a lost directory.
"""
UNPLACED_DIRECTORIES = frozenset({MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY})
"""The ids of replicas whose broker has not reported their directory yet."""
FIRST_FREE_DIRECTORY_ID = 100
"""Directory ids below this number have a meaning of their own, or may get one (KIP-858)."""
RECOVERED, RECOVERING = 0, 1
"""States of a leader; one that was elected uncleanly recovers until it has told the controller who
is in sync (KIP-704).
"""
NO_LEADER_CHANGE = -2
NO_RECOVERY_STATE_CHANGE = -1


class PartitionRegistration(NamedTuple):
    """A partition's replicas and its leader. A ``leader`` of -1 means that there is none.

    ``directories`` holds one log directory id per replica. The class is a tuple, because a node
    with ten thousand partitions makes fifty thousand of them while it starts.
    """

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    directories: tuple[UUID, ...] = ()
    adding_replicas: tuple[NodeId, ...] = ()
    removing_replicas: tuple[NodeId, ...] = ()
    eligible_leader_replicas: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()
    leader_recovery_state: int = RECOVERED

    @property
    def has_leader(self) -> bool:
        """Whether the partition has a leader."""
        return self.leader != NO_LEADER

    def directory_of(self, node_id: NodeId) -> UUID | None:
        """Return the log directory of a broker's replica.

        Return None if the broker has no replica, and a reserved id if the directory is not known.
        """
        try:
            position = self.replicas.index(node_id)
        except ValueError:
            return None
        return (
            self.directories[position] if position < len(self.directories) else MIGRATING_DIRECTORY
        )

    def assigned_directory_of(self, node_id: NodeId) -> UUID | None:
        """Return the log directory that the controller assigned to a broker's replica (KIP-858).

        Return None if the broker may choose the directory.
        """
        directory_id = self.directory_of(node_id)
        return None if directory_id in UNPLACED_DIRECTORIES else directory_id


def _ids(numbers: "list[int] | None") -> tuple[NodeId, ...]:
    return cast("tuple[NodeId, ...]", tuple(numbers)) if numbers else ()


def partition_of(record: PartitionRecord) -> PartitionRegistration:
    """Return the registration that a partition's record describes.

    If all replicas are in sync, ``replicas`` and ``isr`` share one tuple.
    """
    replicas = _ids(record.replicas)
    return PartitionRegistration(
        replicas=replicas,
        isr=replicas if record.isr == record.replicas else _ids(record.isr),
        leader=NodeId(record.leader),
        leader_epoch=LeaderEpoch(record.leader_epoch),
        partition_epoch=PartitionEpoch(record.partition_epoch),
        directories=tuple(record.directories),
        adding_replicas=_ids(record.adding_replicas),
        removing_replicas=_ids(record.removing_replicas),
        eligible_leader_replicas=_ids(record.eligible_leader_replicas),
        last_known_elr=_ids(record.last_known_elr),
        leader_recovery_state=record.leader_recovery_state,
    )


def changed_partition(
    partition: PartitionRegistration, record: PartitionChangeRecord
) -> PartitionRegistration:
    """Return ``partition`` with a change record applied. Fields that it lacks are unchanged."""
    is_led_anew = record.leader != NO_LEADER_CHANGE
    is_state_kept = record.leader_recovery_state == NO_RECOVERY_STATE_CHANGE
    adding, removing = record.adding_replicas, record.removing_replicas
    eligible, last_known = record.eligible_leader_replicas, record.last_known_elr
    return PartitionRegistration(
        replicas=partition.replicas if record.replicas is None else _ids(record.replicas),
        isr=partition.isr if record.isr is None else _ids(record.isr),
        leader=NodeId(record.leader) if is_led_anew else partition.leader,
        leader_epoch=LeaderEpoch(partition.leader_epoch + is_led_anew),
        partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
        directories=(
            partition.directories if record.directories is None else tuple(record.directories)
        ),
        adding_replicas=partition.adding_replicas if adding is None else _ids(adding),
        removing_replicas=partition.removing_replicas if removing is None else _ids(removing),
        eligible_leader_replicas=(
            partition.eligible_leader_replicas if eligible is None else _ids(eligible)
        ),
        last_known_elr=partition.last_known_elr if last_known is None else _ids(last_known),
        leader_recovery_state=(
            partition.leader_recovery_state if is_state_kept else record.leader_recovery_state
        ),
    )


def partition_record(
    topic_id: UUID, index: int, partition: PartitionRegistration
) -> PartitionRecord:
    """Return the record that describes a partition completely.

    It is used when a partition is created and for snapshots.
    """
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leader_replicas) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )
