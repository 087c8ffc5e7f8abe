"""One consumer group (KIP-848) as the log stores it: members, targets, and holders of partitions.

Only ``replay`` changes a group. All other methods only read. This file does not know requests,
timers or the log. ``ConsumerHeartbeats`` decides on changes.

Invariant: ``_holders`` maps a partition to the member that it is assigned to, or that has yet to
revoke it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from uuid import UUID

from log_service.common.java_hashing import in_hash_map_order
from log_service.coordinator.group.records.consumer import (
    ConsumerGroupRecord,
    CurrentAssignmentRecord,
    GroupEpochRecord,
    LegacyTopicsRecord,
    RegexRecord,
    ResolvedRegex,
    SubscriptionRecord,
    TargetEpochRecord,
    TargetRecord,
)
from log_service.coordinator.group.values.consumer_member import (
    ConsumerMember,
    CurrentAssignment,
    Subscription,
)
from log_service.coordinator.group.values.epochs import FIRST_EPOCH, GroupEpoch, TargetEpoch
from log_service.coordinator.group.values.partitions import (
    NO_PARTITIONS,
    HeldPartitions,
    Partitions,
)


class ConsumerGroupState(Enum):
    """The states of a group. The values are their names in ListGroups and ConsumerGroupDescribe."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """The members of one group, their targets and their current assignments."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = GroupEpoch(epoch=FIRST_EPOCH)
        self.target_epoch = TargetEpoch(epoch=FIRST_EPOCH)
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.regex_users: Counter[str] = Counter()
        self.has_legacy_topics = False
        self._holders: dict[UUID, dict[int, str]] = {}
        self._subscribed: frozenset[str] | None = None

    def __repr__(self) -> str:
        return (
            f"<ConsumerGroup {self.group_id!r} epoch={self.epoch.epoch}"
            f" target={self.target_epoch.epoch} members={len(self.members)}>"
        )

    # Stored state

    def replay(self, record: ConsumerGroupRecord) -> None:
        """Apply one record of this group. The caller handles a tombstone of the whole group."""
        match record:
            case GroupEpochRecord(content=GroupEpoch() as epoch):
                self.epoch = epoch
            case LegacyTopicsRecord(is_there=is_there):
                self.has_legacy_topics = is_there
            case SubscriptionRecord():
                self._replay_subscription(record.member_id, record.content)
            case TargetEpochRecord(content=content):
                self.target_epoch = content or TargetEpoch(epoch=FIRST_EPOCH)
            case TargetRecord(member_id=member_id, content=None):
                self.targets.pop(member_id, None)
            case TargetRecord(member_id=member_id, content=partitions):
                assert partitions is not None
                self.targets[member_id] = partitions
            case CurrentAssignmentRecord():
                self._replay_current(record.member_id, record.content)
            case RegexRecord(regex=regex, content=content):
                self._subscribed = None
                if content is None:
                    self.regexes.pop(regex, None)
                else:
                    self.regexes[regex] = content

    def _replay_subscription(self, member_id: str, subscription: Subscription | None) -> None:
        self._subscribed = None
        old = self.members.get(member_id)
        if (
            old is not None
            and self.static_members.get(old.subscription.instance_id or "") == member_id
        ):
            del self.static_members[old.subscription.instance_id or ""]
        self._count_regex(old.subscription if old is not None else None, -1)
        self._count_regex(subscription, 1)
        if subscription is None:
            self._replay_current(member_id, None)
            self.members.pop(member_id, None)
            return
        current = old.current if old is not None else CurrentAssignment()
        self.members[member_id] = ConsumerMember(
            member_id=member_id, subscription=subscription, current=current
        )
        if subscription.instance_id is not None:
            self.static_members[subscription.instance_id] = member_id

    def _count_regex(self, subscription: Subscription | None, change: int) -> None:
        if subscription is not None and subscription.regex:
            self.regex_users[subscription.regex] += change
            if not self.regex_users[subscription.regex]:
                del self.regex_users[subscription.regex]

    def _replay_current(self, member_id: str, stored: CurrentAssignment | None) -> None:
        """Apply the current assignment of a member.

        None means that the member holds no partitions.

        In a compacted log, this record may come before the member's subscription record, if the
        subscription was updated later. The member has an empty subscription until then.
        """
        old = self.members.get(member_id)
        if old is None:
            if stored is None:
                return
            old = ConsumerMember(member_id=member_id, subscription=Subscription())
        current = stored or CurrentAssignment()
        for topic_id, index in _each(old.current):
            holders = self._holders.get(topic_id, {})
            if holders.get(index) == member_id:
                del holders[index]
                if not holders:
                    del self._holders[topic_id]
        for topic_id, index in _each(current):
            self._holders.setdefault(topic_id, {})[index] = member_id
        self.members[member_id] = ConsumerMember(
            member_id=member_id, subscription=old.subscription, current=current
        )

    # Views of the stored state

    def is_held_by_another(self, member_id: str, topic_id: UUID, index: int) -> bool:
        """Whether another member is assigned a partition, or has yet to revoke it."""
        return self._holders.get(topic_id, {}).get(index, member_id) != member_id

    @property
    def state(self) -> ConsumerGroupState:
        """The state of the group, which tells how far the members have reached their targets."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch.epoch > self.target_epoch.epoch:
            return ConsumerGroupState.ASSIGNING
        is_stable = all(
            member.current.is_reconciled_to(self.target_epoch.epoch)
            for member in self.members.values()
        )
        return ConsumerGroupState.STABLE if is_stable else ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """Return the member with an instance id, or None."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: ConsumerMember) -> Partitions:
        """Return a member's target.

        A static member without a target gets that of the member it replaces.
        """
        own = self.targets.get(member.member_id)
        if own is None and member.subscription.instance_id is not None:
            own = self.targets.get(self.static_members.get(member.subscription.instance_id, ""))
        return NO_PARTITIONS if own is None else own

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The topics that members subscribe to, by name or by regular expression."""
        if self._subscribed is None:
            self._subscribed = self.topics_of(self.members.values())
        return self._subscribed

    def topics_of(self, members: Iterable[ConsumerMember]) -> frozenset[str]:
        """Return all topics that any of the members subscribes to."""
        return frozenset(
            topic
            for member in members
            for topic in self.topics_of_subscription(member.subscription)
        )

    def topics_of_subscription(self, subscription: Subscription) -> frozenset[str]:
        """Return a subscription's named topics and the known matches of its expression."""
        resolved = self.regexes.get(subscription.regex)
        return frozenset(subscription.topics) | (
            resolved.topics if resolved is not None and subscription.regex else frozenset()
        )

    def preferred_assignor(
        self, members: Iterable[ConsumerMember], offered: tuple[str, ...]
    ) -> str:
        """Return the offered assignor that most members prefer.

        If no member prefers an offered one, return the first of ``offered``.
        """
        votes = Counter(
            assignor for member in members if (assignor := member.subscription.assignor) in offered
        )
        return max(in_hash_map_order(votes), key=lambda name: votes[name]) if votes else offered[0]


def tombstones(
    group: ConsumerGroup, replaced: Mapping[str, str] | None = None
) -> list[ConsumerGroupRecord]:
    """Return tombstones for all records of a group except its committed offsets.

    ``replaced`` maps the id of each member that was just replaced to the id of its successor. The
    tombstones then name the successor, because the decision already removes the replaced member.
    """
    group_id = group.group_id
    members = sorted((replaced or {}).get(each, each) for each in group.members)
    records: list[ConsumerGroupRecord] = [
        CurrentAssignmentRecord(group_id=group_id, member_id=each, content=None) for each in members
    ]
    records += [TargetRecord(group_id=group_id, member_id=each, content=None) for each in members]
    records.append(TargetEpochRecord(group_id=group_id, content=None))
    records += [
        SubscriptionRecord(group_id=group_id, member_id=each, content=None) for each in members
    ]
    records += [
        RegexRecord(group_id=group_id, regex=regex, content=None) for regex in sorted(group.regexes)
    ]
    if group.has_legacy_topics:
        records.append(LegacyTopicsRecord(group_id=group_id))
    records.append(GroupEpochRecord(group_id=group_id, content=None))
    return records


def _each(current: CurrentAssignment) -> Iterable[tuple[UUID, int]]:
    """Iterate over all partitions that a member holds, including those yet to be revoked."""
    both: tuple[HeldPartitions, ...] = (current.assigned, current.pending_revocation)
    return (
        (topic_id, index) for held in both for topic_id, epochs in held.items() for index in epochs
    )
