"""One streams group (KIP-1071) as the log stores it: topology, members, targets, holders of tasks.

Only ``replay`` changes a group. All other methods only read. This file does not know requests,
timers or the log. ``StreamsHeartbeats`` decides on changes.

Invariant: For each task and process, ``_active`` counts the members that hold the task as active,
and ``_copies`` those that hold it as standby or warmup. A member holds a task until it has revoked
the task.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import TypeVar

from log_service.coordinator.group.records.streams import (
    StreamsAssignmentRecord,
    StreamsEpoch,
    StreamsEpochRecord,
    StreamsGroupRecord,
    StreamsMemberRecord,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    TopologyRecord,
)
from log_service.coordinator.group.streams.reconciliation import Holders
from log_service.coordinator.group.values.epochs import FIRST_EPOCH, TargetEpoch
from log_service.coordinator.group.values.streams_tasks import (
    StreamsMember,
    StreamsMetadata,
    TaskAssignment,
    Tasks,
)
from log_service.coordinator.group.values.streams_topology import Topology

NO_TARGET = Tasks()
Task = tuple[str, int]
T = TypeVar("T", bound=Hashable)


class StreamsGroupState(Enum):
    """The states of a group. The values are their names in ListGroups and StreamsGroupDescribe."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """Topics are missing, or their partition counts do not fit."""
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class StreamsGroup:
    """The members of one group, their targets and their current tasks."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = StreamsEpoch(epoch=FIRST_EPOCH, validated_topology_epoch=0)
        self.target_epoch = TargetEpoch(epoch=FIRST_EPOCH)
        self.topology: Topology | None = None
        self.required_topics: frozenset[str] = frozenset()
        """The topics that must exist before tasks can be assigned."""
        self.readers: Mapping[str, str] = {}
        """The subtopology that reads a topic, by the topic's name."""
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, Tasks] = {}
        self._active: Counter[tuple[Task, str]] = Counter()
        self._active_anywhere: Counter[Task] = Counter()
        self._copies: Counter[tuple[Task, str]] = Counter()

    def __repr__(self) -> str:
        return (
            f"<StreamsGroup {self.group_id!r} epoch={self.epoch.epoch}"
            f" target={self.target_epoch.epoch} members={len(self.members)}>"
        )

    # Stored state

    def replay(self, record: StreamsGroupRecord) -> None:
        """Apply one record of this group. The caller handles a tombstone of the whole group."""
        match record:
            case StreamsEpochRecord(content=StreamsEpoch() as epoch):
                self.epoch = epoch
            case StreamsMemberRecord():
                self._replay_member(record.member_id, record.content)
            case StreamsTargetEpochRecord(content=content):
                self.target_epoch = content or TargetEpoch(epoch=FIRST_EPOCH)
            case StreamsTargetRecord(member_id=member_id, content=None):
                self.targets.pop(member_id, None)
            case StreamsTargetRecord(member_id=member_id, content=tasks):
                assert tasks is not None
                self.targets[member_id] = tasks
            case StreamsAssignmentRecord():
                self._replay_assignment(record.member_id, record.content)
            case TopologyRecord(content=topology):
                self.topology = topology
                self.required_topics = frozenset() if topology is None else topology.topics()
                self.readers = {} if topology is None else topology.readers()

    def _replay_member(self, member_id: str, metadata: StreamsMetadata | None) -> None:
        old = self.members.get(member_id)
        if metadata is None:
            self._put(member_id, old, None)
        else:
            self._put(
                member_id,
                old,
                replace(old or StreamsMember(member_id=member_id), metadata=metadata),
            )

    def _replay_assignment(self, member_id: str, stored: TaskAssignment | None) -> None:
        """Apply the assignment of a member. None means that the member runs no tasks.

        In a compacted log, this record may come before the member's metadata record.
        """
        old = self.members.get(member_id)
        if old is not None or stored is not None:
            self._put(
                member_id,
                old,
                replace(
                    old or StreamsMember(member_id=member_id), current=stored or TaskAssignment()
                ),
            )

    def _put(self, member_id: str, old: StreamsMember | None, new: StreamsMember | None) -> None:
        if old is not None:
            self._count(old, -1)
        if new is None:
            self.members.pop(member_id, None)
        else:
            self._count(new, 1)
            self.members[member_id] = new

    def _count(self, member: StreamsMember, change: int) -> None:
        """Add ``change`` to the counters of each task that the member's process holds."""
        process_id = member.metadata.process_id
        for held in (member.current.assigned, member.current.pending_revocation):
            for task in _each(held.active):
                _add(self._active, (task, process_id), change)
                _add(self._active_anywhere, task, change)
            for copies in (held.standby, held.warmup):
                for task in _each(copies):
                    _add(self._copies, (task, process_id), change)

    # Views of the stored state

    def holders_for(self, process_id: str) -> Holders:
        """Return predicates that tell whether a task is held in one process or active in any."""
        return Holders(
            is_active_anywhere=self._is_active_anywhere,
            is_held_here=partial(self._is_held_by, process_id),
        )

    def _is_active_anywhere(self, subtopology_id: str, partition: int) -> bool:
        return (subtopology_id, partition) in self._active_anywhere

    def _is_held_by(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        key = ((subtopology_id, partition), process_id)
        return key in self._active or key in self._copies

    @property
    def state(self) -> StreamsGroupState:
        """The state of the group, which tells how far the members have reached their targets."""
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.epoch.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch.epoch > self.target_epoch.epoch:
            return StreamsGroupState.ASSIGNING
        is_stable = all(
            member.current.is_reconciled_to(self.target_epoch.epoch)
            for member in self.members.values()
        )
        return StreamsGroupState.STABLE if is_stable else StreamsGroupState.RECONCILING

    def target_of(self, member_id: str) -> Tasks:
        """Return a member's target."""
        return self.targets.get(member_id, NO_TARGET)

    def reads(self, topic: str) -> bool:
        """Whether members read a topic. A group without members reads no topic."""
        return bool(self.members) and topic in self.readers


def streams_tombstones(group: StreamsGroup) -> list[StreamsGroupRecord]:
    """Return tombstones for all records of a group except its committed offsets."""
    group_id, members = group.group_id, sorted(group.members)
    records: list[StreamsGroupRecord] = [
        StreamsAssignmentRecord(group_id=group_id, member_id=each, content=None) for each in members
    ]
    records += [
        StreamsTargetRecord(group_id=group_id, member_id=each, content=None) for each in members
    ]
    records.append(StreamsTargetEpochRecord(group_id=group_id, content=None))
    records += [
        StreamsMemberRecord(group_id=group_id, member_id=each, content=None) for each in members
    ]
    records.append(StreamsEpochRecord(group_id=group_id, content=None))
    records.append(TopologyRecord(group_id=group_id, content=None))
    return records


def _each(tasks: Mapping[str, Collection[int]]) -> Iterable[Task]:
    return (
        (subtopology_id, partition) for subtopology_id, each in tasks.items() for partition in each
    )


def _add(counter: Counter[T], key: T, change: int) -> None:
    counter[key] += change
    if not counter[key]:
        del counter[key]
