"""One share group (KIP-932) as the log holds it: members, targets, and the partitions whose share states are initialized.

It changes only by ``replay``; what can be concluded from it are methods that change nothing. It does not know requests, timers or the
log. ``ShareHeartbeats`` decides.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from log_service.coordinator.group.records.share import (
    ShareAssignment,
    ShareAssignmentRecord,
    ShareEpochRecord,
    ShareGroupRecord,
    ShareMemberRecord,
    ShareSubscription,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    StatePartitions,
    StatePartitionsRecord,
)
from log_service.coordinator.group.share.states import NO_STATES
from log_service.coordinator.group.values.epochs import FIRST_EPOCH, GroupEpoch, TargetEpoch
from log_service.coordinator.group.values.partitions import NO_PARTITIONS, Partitions

EMPTY, STABLE = "Empty", "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """One member: what it asked for, and what it may fetch."""

    member_id: str
    subscription: ShareSubscription = field(default_factory=ShareSubscription)
    current: ShareAssignment = field(default_factory=ShareAssignment)


class ShareGroup:
    """The members of one group; several may fetch from the same partition."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = GroupEpoch(epoch=FIRST_EPOCH)
        self.target_epoch = TargetEpoch(epoch=FIRST_EPOCH)
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.states: StatePartitions | None = None
        self._subscribed: frozenset[str] | None = None

    def __repr__(self) -> str:
        return f"<ShareGroup {self.group_id!r} epoch={self.epoch.epoch} target={self.target_epoch.epoch} members={len(self.members)}>"

    def replay(self, record: ShareGroupRecord) -> None:
        """Take over one record of this group. One that takes back the whole group is its owner's."""
        match record:
            case ShareEpochRecord(content=GroupEpoch() as epoch):
                self.epoch = epoch
            case ShareMemberRecord():
                self._replay_member(record.member_id, record.content)
            case ShareTargetEpochRecord(content=content):
                self.target_epoch = content or TargetEpoch(epoch=FIRST_EPOCH)
            case ShareTargetRecord(member_id=member_id, content=None):
                self.targets.pop(member_id, None)
            case ShareTargetRecord(member_id=member_id, content=partitions):
                assert partitions is not None
                self.targets[member_id] = partitions
            case ShareAssignmentRecord(member_id=member_id, content=content):
                self._replay_assignment(member_id, content)
            case StatePartitionsRecord(content=content):
                self.states = content

    def _replay_member(self, member_id: str, subscription: ShareSubscription | None) -> None:
        self._subscribed = None
        if subscription is None:
            self.members.pop(member_id, None)
            return
        old = self.members.get(member_id)
        current = ShareAssignment() if old is None else old.current
        self.members[member_id] = ShareMember(member_id=member_id, subscription=subscription, current=current)

    def _replay_assignment(self, member_id: str, stored: ShareAssignment | None) -> None:
        """Take over what a member may fetch. In a log that was compacted that may stand before the record of the member itself."""
        old = self.members.get(member_id)
        if old is not None or stored is not None:
            old = old or ShareMember(member_id=member_id)
            current = stored or ShareAssignment()
            self.members[member_id] = ShareMember(member_id=member_id, subscription=old.subscription, current=current)

    # What follows from it

    @property
    def state(self) -> str:
        """What ListGroups and ShareGroupDescribe call the state."""
        return STABLE if self.members else EMPTY

    @property
    def known_states(self) -> StatePartitions:
        """The partitions that have a state, or are about to."""
        return self.states or NO_STATES

    def target_of(self, member_id: str) -> Partitions:
        """Return what a member is to fetch."""
        return self.targets.get(member_id, NO_PARTITIONS)

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """What the members read."""
        if self._subscribed is None:
            self._subscribed = topics_of(self.members.values())
        return self._subscribed

    def has_unassigned_states(self) -> bool:
        """Whether not all partitions with a state are assigned, of the topics that members read."""
        if not self.members:
            return False
        assigned: dict[UUID, set[int]] = {}
        for target in self.targets.values():
            for topic_id, indexes in target.items():
                assigned.setdefault(topic_id, set()).update(indexes)
        initialized = self.known_states.initialized
        return any(
            topic.name in self.subscribed_topics and assigned.get(topic_id, set()) != set(topic.partitions)
            for topic_id, topic in initialized.items()
        )


def topics_of(members: Iterable[ShareMember]) -> frozenset[str]:
    """Return what some members read."""
    return frozenset(topic for member in members for topic in member.subscription.topics)


def share_tombstones(group: ShareGroup) -> list[ShareGroupRecord]:
    """Return the records that take back everything that the log holds of a group."""
    group_id, members = group.group_id, sorted(group.members)
    records: list[ShareGroupRecord] = [ShareAssignmentRecord(group_id=group_id, member_id=each, content=None) for each in members]
    records += [ShareTargetRecord(group_id=group_id, member_id=each, content=None) for each in members]
    records.append(ShareTargetEpochRecord(group_id=group_id, content=None))
    records += [ShareMemberRecord(group_id=group_id, member_id=each, content=None) for each in members]
    records.append(StatePartitionsRecord(group_id=group_id, content=None))
    records.append(ShareEpochRecord(group_id=group_id, content=None))
    return records
