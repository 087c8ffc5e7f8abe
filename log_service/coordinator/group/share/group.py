"""One share group (KIP-932) as the log stores it: members, targets, and initialized partitions.

A partition is initialized when it has a share state. Only ``replay`` changes a group. All other
methods only read. This file does not know requests, timers or the log. ``ShareHeartbeats`` decides
on changes.
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
    """One member: its subscription and its current assignment."""

    member_id: str
    subscription: ShareSubscription = field(default_factory=ShareSubscription)
    current: ShareAssignment = field(default_factory=ShareAssignment)


class ShareGroup:
    """The members of one share group. Several members may fetch from the same partition."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = GroupEpoch(epoch=FIRST_EPOCH)
        self.target_epoch = TargetEpoch(epoch=FIRST_EPOCH)
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.states: StatePartitions | None = None
        self._subscribed: frozenset[str] | None = None

    def __repr__(self) -> str:
        return (
            f"<ShareGroup {self.group_id!r} epoch={self.epoch.epoch}"
            f" target={self.target_epoch.epoch} members={len(self.members)}>"
        )

    def replay(self, record: ShareGroupRecord) -> None:
        """Apply one record of this group. The caller handles a tombstone of the whole group."""
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
        self.members[member_id] = ShareMember(
            member_id=member_id, subscription=subscription, current=current
        )

    def _replay_assignment(self, member_id: str, stored: ShareAssignment | None) -> None:
        """Apply a member's assignment.

        In a compacted log, this record may come before the member's subscription record.
        """
        old = self.members.get(member_id)
        if old is not None or stored is not None:
            old = old or ShareMember(member_id=member_id)
            current = stored or ShareAssignment()
            self.members[member_id] = ShareMember(
                member_id=member_id, subscription=old.subscription, current=current
            )

    # Views of the stored state

    @property
    def state(self) -> str:
        """The name of the state in ListGroups and ShareGroupDescribe."""
        return STABLE if self.members else EMPTY

    @property
    def known_states(self) -> StatePartitions:
        """The partitions whose share states exist, or are being initialized or deleted."""
        return self.states or NO_STATES

    def target_of(self, member_id: str) -> Partitions:
        """Return a member's target."""
        return self.targets.get(member_id, NO_PARTITIONS)

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The topics that members subscribe to."""
        if self._subscribed is None:
            self._subscribed = topics_of(self.members.values())
        return self._subscribed

    def has_unassigned_states(self) -> bool:
        """Whether a partition with a share state is unassigned although its topic is subscribed."""
        if not self.members:
            return False
        assigned: dict[UUID, set[int]] = {}
        for target in self.targets.values():
            for topic_id, indexes in target.items():
                assigned.setdefault(topic_id, set()).update(indexes)
        initialized = self.known_states.initialized
        return any(
            topic.name in self.subscribed_topics
            and assigned.get(topic_id, set()) != set(topic.partitions)
            for topic_id, topic in initialized.items()
        )


def topics_of(members: Iterable[ShareMember]) -> frozenset[str]:
    """Return all topics that any of the members subscribes to."""
    return frozenset(topic for member in members for topic in member.subscription.topics)


def share_tombstones(group: ShareGroup) -> list[ShareGroupRecord]:
    """Return tombstones for all records of a group."""
    group_id, members = group.group_id, sorted(group.members)
    records: list[ShareGroupRecord] = [
        ShareAssignmentRecord(group_id=group_id, member_id=each, content=None) for each in members
    ]
    records += [
        ShareTargetRecord(group_id=group_id, member_id=each, content=None) for each in members
    ]
    records.append(ShareTargetEpochRecord(group_id=group_id, content=None))
    records += [
        ShareMemberRecord(group_id=group_id, member_id=each, content=None) for each in members
    ]
    records.append(StatePartitionsRecord(group_id=group_id, content=None))
    records.append(ShareEpochRecord(group_id=group_id, content=None))
    return records
