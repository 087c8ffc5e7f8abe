"""Steps after a member's request: update its subscription, the epoch, the targets, the member.

The group enters a new epoch if its subscribed topics have changed. Targets of an older epoch are
computed again, but only when the assignment interval since the last computation is over. The member
is moved one step towards its target. ``reconciliation`` decides on this step, ``assignors`` on the
targets, and ``RegexRefresher`` on the matches of regular expressions. The steps are the same for
members of the consumer protocol and of the classic protocol.
``ConsumerHeartbeats`` takes them for a heartbeat, ``ClassicMembers`` for a join. Groups change only
when their records are replayed. The only state outside the log is the set of groups that must check
whether their topics have changed.

Source: KIP-848 as of Kafka 4.3, with KIP-1101 (hashes of topics) and KIP-1251 (assignment epochs).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from log_service.common.regexes import validate_regex
from log_service.common.types import TopicId
from log_service.coordinator.group.consumer.assignors import ASSIGNORS, MemberSpec
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.coordinator.group.consumer.reconciliation import Target, reconcile
from log_service.coordinator.group.consumer.regex_refresher import RegexRefresher
from log_service.coordinator.group.consumer.sessions import ConsumerSessions
from log_service.coordinator.group.group_settings import GroupSettings
from log_service.coordinator.group.records.codec import GroupRecord, validate_size
from log_service.coordinator.group.records.consumer import (
    CurrentAssignmentRecord,
    GroupEpochRecord,
    LegacyTopicsRecord,
    RegexRecord,
    SubscriptionRecord,
    TargetEpochRecord,
    TargetRecord,
)
from log_service.coordinator.group.topic_hash import TopicHashes
from log_service.coordinator.group.values.consumer_member import (
    ConsumerMember,
    CurrentAssignment,
    MemberState,
)
from log_service.coordinator.group.values.epochs import GroupEpoch, TargetEpoch
from log_service.coordinator.group.values.partitions import Partitions
from log_service.coordinator.request_context import VisibleOf
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.state_machine.decision import Decision

GroupDecision = Decision[GroupRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A member's request in progress.

    ``group`` and ``member`` are the state before the request. ``updated`` is the member with its
    new subscription. ``replaced_id`` is the previous member id of a static member.
    """

    group: ConsumerGroup
    member: ConsumerMember
    updated: ConsumerMember
    replaced_id: str | None
    visible: VisibleOf | None = None
    """Returns the topics that the member's client may see.

    None means that it may see all topics.
    """

    def members(self) -> list[ConsumerMember]:
        """Return the group's members after the request."""
        gone = {self.replaced_id, self.updated.member_id}
        return [
            *(member for member in self.group.members.values() if member.member_id not in gone),
            self.updated,
        ]

    @property
    def has_new_subscription(self) -> bool:
        """Whether the member's subscribed topics or regular expression have changed."""
        old, new = self.member.subscription, self.updated.subscription
        return (old.topics, old.regex) != (new.topics, new.regex)


class ConsumerSteps:
    """Advances members of one shard's consumer groups. ``image`` returns the newest metadata."""

    def __init__(
        self,
        settings: GroupSettings,
        sessions: ConsumerSessions,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._image = image
        self._hashes = TopicHashes()
        self.stale: set[str] = set()
        self._regexes = RegexRefresher(settings, image, self.next_epoch)

    # Subscription of a member

    def note(self, beat: Beat, decision: GroupDecision) -> int:
        """Store a member's subscription and return the group's epoch.

        The epoch is a new one if the group's subscribed topics have changed.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR, the subscription does not fit into a record;
                INVALID_REGULAR_EXPRESSION.
        """
        group, updated = beat.group, beat.updated
        is_bump_needed = False
        if updated.subscription != beat.member.subscription:
            record = SubscriptionRecord(
                group_id=group.group_id, member_id=updated.member_id, content=updated.subscription
            )
            validate_size(record, self._settings.max_record_bytes)
            decision.append(record)
            is_bump_needed = updated.subscription.topics != beat.member.subscription.topics
        is_bump_needed = self._note_regex(beat, decision) or is_bump_needed
        self._regexes.maybe_refresh(group, updated.subscription.regex, decision, beat.visible)
        return self._settled_epoch(beat, decision, is_bump_needed=is_bump_needed)

    def _note_regex(self, beat: Beat, decision: GroupDecision) -> bool:
        """Validate a new expression, and delete the record of one that no member uses any more.

        Return whether the group's topics change at once. They change later if the new expression
        has no known matches yet.
        """
        group, old, new = (
            beat.group,
            beat.member.subscription.regex,
            beat.updated.subscription.regex,
        )
        if old == new:
            return False
        if old and group.regex_users[old] == 1:
            decision.append(RegexRecord(group_id=group.group_id, regex=old, content=None))
        if new and not group.regex_users[new]:
            validate_regex(new)
        return not new or new in group.regexes

    def _settled_epoch(self, beat: Beat, decision: GroupDecision, *, is_bump_needed: bool) -> int:
        """Return the group's epoch, after beginning a new one if necessary.

        A new epoch begins if ``is_bump_needed``, or if the metadata of the topics has changed.
        """
        group_id = beat.group.group_id
        if not is_bump_needed and group_id not in self.stale:
            return beat.group.epoch.epoch
        metadata_hash = self.hash_of(beat.group.topics_of(beat.members()))
        if group_id in self.stale:
            self.stale.discard(group_id)
            decision.on_refused(partial(self.stale.add, group_id))
        if not is_bump_needed and metadata_hash == beat.group.epoch.metadata_hash:
            return beat.group.epoch.epoch
        return self._append_epoch(beat.group, metadata_hash, decision)

    def hash_of(self, topics: Iterable[str]) -> int:
        """Return the hash of ``topics``, computed from the newest metadata."""
        return self._hashes.of(topics, self._image())

    def next_epoch(
        self, group: ConsumerGroup, topics: Iterable[str], decision: GroupDecision
    ) -> None:
        """Begin a new epoch of the group. The group reads ``topics`` in this epoch."""
        self._append_epoch(group, self.hash_of(topics), decision)

    def _append_epoch(
        self, group: ConsumerGroup, metadata_hash: int, decision: GroupDecision
    ) -> int:
        epoch = GroupEpoch(epoch=group.epoch.epoch + 1, metadata_hash=metadata_hash)
        decision.append(GroupEpochRecord(group_id=group.group_id, content=epoch))
        if group.has_legacy_topics:
            decision.append(LegacyTopicsRecord(group_id=group.group_id))
        return epoch.epoch

    # Target and current assignment of a member

    def advance(
        self, beat: Beat, epoch: int, owned: Partitions | None, decision: GroupDecision
    ) -> CurrentAssignment:
        """Compute the targets of the group's ``epoch`` if they are due, and advance the member.

        Return its assignment after one step towards its target.
        """
        target_epoch, target = self._settled_target(beat, epoch, decision)
        return self._reconciled(beat, target_epoch, target, owned, decision)

    def advance_to_last_target(
        self, beat: Beat, owned: Partitions | None, decision: GroupDecision
    ) -> CurrentAssignment:
        """Return the member's assignment after one step towards the last computed target."""
        group = beat.group
        return self._reconciled(
            beat, group.target_epoch.epoch, group.target_of(beat.updated), owned, decision
        )

    def _settled_target(
        self, beat: Beat, epoch: int, decision: GroupDecision
    ) -> tuple[int, Partitions]:
        """Return the epoch and the target of the member.

        If the targets are of an older epoch and the assignment interval since their computation is
        over, all targets are computed again first.
        """
        group = beat.group
        last = group.target_epoch
        if epoch <= last.epoch or not last.is_due(
            decision.wall_ms, self._settings.assignment_interval_ms(group.group_id)
        ):
            return last.epoch, group.target_of(beat.updated)
        targets = self._computed_targets(beat)
        for member_id in sorted(targets):
            if targets[member_id] != group.targets.get(member_id):
                decision.append(
                    TargetRecord(
                        group_id=group.group_id, member_id=member_id, content=targets[member_id]
                    )
                )
        decision.append(
            TargetEpochRecord(
                group_id=group.group_id,
                content=TargetEpoch(epoch=epoch, computed_ms=decision.wall_ms),
            )
        )
        return epoch, targets[beat.updated.member_id]

    def _computed_targets(self, beat: Beat) -> dict[str, Partitions]:
        group, by_name = beat.group, self._image().topics.by_name
        members = beat.members()
        counts: dict[UUID, int] = {
            found.topic_id: len(found.partitions)
            for name in group.topics_of(members)
            if (found := by_name.get(name)) is not None
        }
        specs = [
            MemberSpec(
                member_id=member.member_id,
                instance_id=member.subscription.instance_id,
                topic_ids=self._topic_ids(group, member),
                last_target=group.target_of(member),
            )
            for member in members
        ]
        assign = ASSIGNORS[group.preferred_assignor(members, self._settings.assignors)]
        return assign(specs, counts)

    def _topic_ids(self, group: ConsumerGroup, member: ConsumerMember) -> frozenset[TopicId]:
        """Return the ids of the existing topics that a member subscribes to."""
        by_name = self._image().topics.by_name
        names = group.topics_of_subscription(member.subscription)
        return frozenset(
            topic.topic_id for name in names if (topic := by_name.get(name)) is not None
        )

    def _reconciled(
        self,
        beat: Beat,
        target_epoch: int,
        partitions: Partitions,
        owned: Partitions | None,
        decision: GroupDecision,
    ) -> CurrentAssignment:
        group, updated = beat.group, beat.updated
        before = updated.current
        if before.is_reconciled_to(target_epoch) and not beat.has_new_subscription:
            return before
        target = Target(
            epoch=target_epoch,
            partitions=partitions,
            wanted_topics=self._topic_ids(group, updated),
            has_new_subscription=beat.has_new_subscription,
        )
        after = reconcile(
            before, target, owned, partial(group.is_held_by_another, updated.member_id)
        )
        if after != before:
            decision.append(
                CurrentAssignmentRecord(
                    group_id=group.group_id, member_id=updated.member_id, content=after
                )
            )
            if before.state is MemberState.UNREVOKED_PARTITIONS:
                self._sessions.note_revocation(group.group_id, updated, decision)
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self._sessions.await_revocation(
                    group.group_id, replace(updated, current=after), decision
                )
        return after

    # Topics

    def on_regex_timer(
        self, group: ConsumerGroup | None, group_id: str, decision: GroupDecision
    ) -> None:
        """Continue matching the group's regular expressions."""
        self._regexes.on_timer(group, group_id, decision)

    def note_loaded(self, group_id: str) -> None:
        """Mark a loaded group, so that its next request checks whether its topics have changed."""
        self.stale.add(group_id)

    def forget(self, group_id: str) -> None:
        """Drop the cached state of a removed group."""
        self.stale.discard(group_id)
        self._regexes.forget(group_id)

    def on_image(self, delta: MetadataDelta, groups: Iterable[ConsumerGroup]) -> None:
        """Mark groups whose subscribed topics have changed, or all groups if a broker has changed.

        The next request to a marked group checks its topics. If topics were created, the matches of
        regular expressions are outdated.
        """
        changed = {changed.topic.name for changed in delta.changed_topics.values()}
        deleted = {topic.name for topic in delta.deleted_topics.values()}
        touched = changed | deleted
        has_new_racks = bool(delta.changed_brokers)
        self._hashes.forget(deleted)
        if any(changed.is_new for changed in delta.changed_topics.values()):
            self._regexes.note_new_topics(self._image().offset)
        self.stale.update(
            group.group_id
            for group in groups
            if has_new_racks or not touched.isdisjoint(group.subscribed_topics)
        )
