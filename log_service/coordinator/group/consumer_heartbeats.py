"""Heartbeats of consumer groups (KIP-848): members join, report, get partitions and lose them, and leave, all by one request.

One heartbeat takes a member through these steps: its subscription is noted; if what the group reads has changed, the group enters a new
epoch; if the targets are of an older epoch, and not computed just now, they are computed; the member is moved one step towards its
target. ``reconciliation`` decides the step, ``assignors`` the targets, ``RegexRefresher`` what regular expressions match.

Groups change only as their records are replayed. Soft state is here: sessions, and which groups have to look at changed topics. It does
not know how records are stored, nor the classic protocol's groups.

Source: KIP-848 as of Kafka 4.3, with KIP-1101 (hashes of topics) and KIP-1251 (assignment epochs).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicId
from log_service.coordinator.group.assignors import ASSIGNORS, MemberSpec
from log_service.coordinator.group.classic_group import Session
from log_service.coordinator.group.consumer_group import ConsumerGroup
from log_service.coordinator.group.consumer_member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    CurrentAssignment,
    MemberState,
    Subscription,
)
from log_service.coordinator.group.consumer_records import (
    CurrentAssignmentRecord,
    GroupEpoch,
    GroupEpochRecord,
    LegacyTopicsRecord,
    RegexRecord,
    SubscriptionRecord,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from log_service.coordinator.group.consumer_requests import (
    is_full,
    is_leaving,
    owned_partitions,
    told_assignment,
    updated_subscription,
    validate_epoch,
    validate_heartbeat,
)
from log_service.coordinator.group.group_settings import GroupSettings
from log_service.coordinator.group.partitions import NOTHING_HELD, Partitions, in_epoch, is_same_set
from log_service.coordinator.group.reconciliation import Target, reconcile
from log_service.coordinator.group.records import GroupRecord
from log_service.coordinator.group.regex_refresher import RegexRefresher
from log_service.coordinator.group.topic_hash import TopicHashes
from log_service.coordinator.group.topic_regexes import validate_regex
from log_service.coordinator.request_context import RequestContext
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from log_service.state_machine.decision import Decision

GroupDecision = Decision[GroupRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beat:
    """One heartbeat under way: the group before it, the member before it, and the member with its new subscription.

    ``replaced_id`` is the id that a static member had until now.
    """

    group: ConsumerGroup
    member: ConsumerMember
    updated: ConsumerMember
    replaced_id: str | None

    def members(self) -> list[ConsumerMember]:
        """Return the group's members as they will be."""
        gone = {self.replaced_id, self.updated.member_id}
        return [*(member for member in self.group.members.values() if member.member_id not in gone), self.updated]

    @property
    def has_new_subscription(self) -> bool:
        """Whether the member wants other topics than before."""
        old, new = self.member.subscription, self.updated.subscription
        return (old.topics, old.regex) != (new.topics, new.regex)


def session_timer(group_id: str, member_id: str) -> tuple[str, str, str]:
    """Key of the timer that removes a silent member."""
    return ("session", group_id, member_id)


def rebalance_timer(group_id: str, member_id: str, epoch: int) -> tuple[str, str, str, int]:
    """Key of the timer that removes a member that does not give partitions up."""
    return ("rebalance", group_id, member_id, epoch)


class ConsumerHeartbeats:
    """Decides on the members of the consumer groups of one shard.

    ``image`` is the newest metadata; ``new_member_id`` turns a prefix into an id, for clients that do not make their own.
    """

    def __init__(self, settings: GroupSettings, new_member_id: Callable[[str], str], image: Callable[[], MetadataImage]) -> None:
        self._settings = settings
        self._new_member_id = new_member_id
        self._image = image
        self._hashes = TopicHashes()
        self._sessions: dict[tuple[str, str], Session] = {}
        self._stale: set[str] = set()
        self._regexes = RegexRefresher(settings, image, self._next_epoch)

    def validate(self, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> None:
        """Check a request by itself.

        Raises:
            KafkaError: what the client did wrong.
        """
        validate_heartbeat(request, context.api_version, self._settings.assignors)

    # A member that stays

    def handle_heartbeat(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, context: RequestContext, decision: GroupDecision
    ) -> None:
        """Take a valid request of a member one step further; ``group`` may be one that is about to be.

        Raises:
            KafkaError: what the member has to hear. The decision is to be refused.
        """
        if is_leaving(request):
            self._leave(group, request, context, decision)
            return
        member_id = request.member_id or self._new_member_id("")[1:]
        if member_id not in group.members and len(group.members) >= self._settings.max_size:
            text = f"The consumer group has reached its maximum capacity of {self._settings.max_size} members."
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
        member, replaced_id = self._find(group, member_id, request, decision)
        updated = replace(member, subscription=updated_subscription(member.subscription, request, context))
        beat = _Beat(group=group, member=member, updated=updated, replaced_id=replaced_id)
        current = self._step(beat, owned_partitions(request), decision)
        self._keep_alive(group.group_id, member_id, decision)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=current.epoch,
            heartbeat_interval_ms=self._settings.heartbeat_interval_ms(group.group_id),
        )
        if is_full(request) or not is_same_set(member.current.assigned, current.assigned):
            response.assignment = told_assignment(current)
        decision.reply(context.reply_to, response)

    def _find(
        self, group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest, decision: GroupDecision
    ) -> tuple[ConsumerMember, str | None]:
        """Return the member, and the id of the one that it replaces, if it is a static member that comes back."""
        is_joining = request.member_epoch == JOIN_EPOCH
        if request.instance_id is None:
            member = group.members.get(member_id)
            if member is None and is_joining:
                return ConsumerMember(member_id=member_id, subscription=Subscription()), None
            member = _known(member, member_id, group)
        else:
            member = group.static_member(request.instance_id)
            if is_joining:
                return self._join_statically(group, member, member_id, request.instance_id, decision)
            member = _holder(member, member_id, request.instance_id, group)
        validate_epoch(member, request.member_epoch, owned_partitions(request))
        return member, None

    def _join_statically(
        self, group: ConsumerGroup, holder: ConsumerMember | None, member_id: str, instance_id: str, decision: GroupDecision
    ) -> tuple[ConsumerMember, str | None]:
        if holder is None:
            known = group.members.get(member_id)
            return (known or ConsumerMember(member_id=member_id, subscription=Subscription())), None
        if holder.current.epoch != STATIC_LEAVE_EPOCH:
            text = (
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is owned by "
                f"member {holder.member_id}."
            )
            raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, text)
        current = replace(holder.current, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        member = ConsumerMember(member_id=member_id, subscription=holder.subscription, current=current)
        self._append_removal(group, holder, decision)
        group_id = group.group_id
        decision.append(SubscriptionRecord(group_id=group_id, member_id=member_id, content=member.subscription))
        decision.append(TargetRecord(group_id=group_id, member_id=member_id, content=group.target_of(holder)))
        decision.append(CurrentAssignmentRecord(group_id=group_id, member_id=member_id, content=current))
        return member, holder.member_id

    def _step(self, beat: _Beat, owned: Partitions | None, decision: GroupDecision) -> CurrentAssignment:
        """Note the subscription, move the group on if need be, and return what the member holds after this heartbeat."""
        group, updated = beat.group, beat.updated
        is_bump_needed = False
        if updated.subscription != beat.member.subscription:
            decision.append(SubscriptionRecord(group_id=group.group_id, member_id=updated.member_id, content=updated.subscription))
            is_bump_needed = updated.subscription.topics != beat.member.subscription.topics
        is_bump_needed = self._note_regex(beat, decision) or is_bump_needed
        self._regexes.maybe_refresh(group, updated.subscription.regex, decision)
        epoch = self._settled_epoch(beat, decision, is_bump_needed=is_bump_needed)
        target_epoch, target = self._settled_target(beat, epoch, decision)
        return self._reconciled(beat, target_epoch, target, owned, decision)

    def _note_regex(self, beat: _Beat, decision: GroupDecision) -> bool:
        """Forget an expression that no member uses any more, check a new one, and say whether the group reads other topics by it."""
        group, old, new = beat.group, beat.member.subscription.regex, beat.updated.subscription.regex
        if old == new:
            return False
        if old and group.regex_users[old] == 1:
            decision.append(RegexRecord(group_id=group.group_id, regex=old, content=None))
        if new and not group.regex_users[new]:
            validate_regex(new)
        return not new or new in group.regexes

    def _settled_epoch(self, beat: _Beat, decision: GroupDecision, *, is_bump_needed: bool) -> int:
        """Return the group's epoch, which is a new one where the members or the topics that they read have changed."""
        group_id = beat.group.group_id
        if not is_bump_needed and group_id not in self._stale:
            return beat.group.epoch.epoch
        metadata_hash = self._hashes.of(beat.group.topics_of(beat.members()), self._image())
        if group_id in self._stale:
            self._stale.discard(group_id)
            decision.on_refused(partial(self._stale.add, group_id))
        if not is_bump_needed and metadata_hash == beat.group.epoch.metadata_hash:
            return beat.group.epoch.epoch
        return self._append_epoch(beat.group, metadata_hash, decision)

    def _next_epoch(self, group: ConsumerGroup, topics: Iterable[str], decision: GroupDecision) -> None:
        """Have the group enter a new epoch in which it reads ``topics``."""
        self._append_epoch(group, self._hashes.of(topics, self._image()), decision)

    def _append_epoch(self, group: ConsumerGroup, metadata_hash: int, decision: GroupDecision) -> int:
        epoch = GroupEpoch(epoch=group.epoch.epoch + 1, metadata_hash=metadata_hash)
        decision.append(GroupEpochRecord(group_id=group.group_id, content=epoch))
        if group.has_legacy_topics:
            decision.append(LegacyTopicsRecord(group_id=group.group_id))
        return epoch.epoch

    def _settled_target(self, beat: _Beat, epoch: int, decision: GroupDecision) -> tuple[int, Partitions]:
        """Return the epoch and the target that hold for the member. Old ones are computed anew, but not again and again."""
        group = beat.group
        last = group.target_epoch
        interval_ms = self._settings.assignment_interval_ms(group.group_id)
        is_due = last.computed_ms == 0 or decision.wall_ms - last.computed_ms >= interval_ms
        if epoch <= last.epoch or not is_due:
            return last.epoch, group.target_of(beat.updated)
        targets = self._computed_targets(beat)
        for member_id in sorted(targets):
            if targets[member_id] != group.targets.get(member_id):
                decision.append(TargetRecord(group_id=group.group_id, member_id=member_id, content=targets[member_id]))
        decision.append(TargetEpochRecord(group_id=group.group_id, content=TargetEpoch(epoch=epoch, computed_ms=decision.wall_ms)))
        return epoch, targets[beat.updated.member_id]

    def _computed_targets(self, beat: _Beat) -> dict[str, Partitions]:
        group, by_name = beat.group, self._image().topics.by_name
        members = beat.members()
        counts: dict[UUID, int] = {
            found.topic_id: len(found.partitions) for name in group.topics_of(members) if (found := by_name.get(name)) is not None
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
        """Return the topics that a member wants, as far as they exist."""
        by_name = self._image().topics.by_name
        names = group.topics_of_subscription(member.subscription)
        return frozenset(topic.topic_id for name in names if (topic := by_name.get(name)) is not None)

    def _reconciled(
        self, beat: _Beat, target_epoch: int, partitions: Partitions, owned: Partitions | None, decision: GroupDecision
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
        after = reconcile(before, target, owned, partial(group.is_held_by_another, updated.member_id))
        if after != before:
            decision.append(CurrentAssignmentRecord(group_id=group.group_id, member_id=updated.member_id, content=after))
            if before.state is MemberState.UNREVOKED_PARTITIONS:
                decision.cancel_timer(rebalance_timer(group.group_id, updated.member_id, before.epoch))
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self._await_revocation(group.group_id, replace(updated, current=after), decision)
        return after

    def _await_revocation(self, group_id: str, member: ConsumerMember, decision: GroupDecision) -> None:
        key = rebalance_timer(group_id, member.member_id, member.current.epoch)
        decision.set_timer(key, decision.now_ms + member.subscription.rebalance_timeout_ms)

    # A member that goes

    def _leave(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, context: RequestContext, decision: GroupDecision
    ) -> None:
        if request.instance_id is None:
            member = _known(group.members.get(request.member_id), request.member_id, group)
        else:
            member = _holder(group.static_member(request.instance_id), request.member_id, request.instance_id, group)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            current = replace(
                member.current,
                epoch=STATIC_LEAVE_EPOCH,
                previous_epoch=member.current.epoch,
                assigned=in_epoch(member.current.assigned, 0),
                pending_revocation=NOTHING_HELD,
            )
            decision.append(CurrentAssignmentRecord(group_id=group.group_id, member_id=member.member_id, content=current))
        else:
            self.remove(group, [member], decision)
        decision.reply(context.reply_to, ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch))

    def remove(self, group: ConsumerGroup, leaving: list[ConsumerMember], decision: GroupDecision) -> None:
        """Let members go; the group enters a new epoch without them."""
        gone = {member.member_id for member in leaving}
        for member in leaving:
            self._append_removal(group, member, decision)
        staying = [member for member in group.members.values() if member.member_id not in gone]
        used = {member.subscription.regex for member in staying}
        for regex in sorted({member.subscription.regex for member in leaving} - used - {""}):
            decision.append(RegexRecord(group_id=group.group_id, regex=regex, content=None))
        self._next_epoch(group, group.topics_of(staying), decision)

    def _append_removal(self, group: ConsumerGroup, member: ConsumerMember, decision: GroupDecision) -> None:
        group_id, member_id = group.group_id, member.member_id
        decision.append(CurrentAssignmentRecord(group_id=group_id, member_id=member_id, content=None))
        decision.append(TargetRecord(group_id=group_id, member_id=member_id, content=None))
        decision.append(SubscriptionRecord(group_id=group_id, member_id=member_id, content=None))
        decision.cancel_timer(session_timer(group_id, member_id))
        decision.cancel_timer(rebalance_timer(group_id, member_id, member.current.epoch))
        session = self._sessions.pop((group_id, member_id), None)
        if session is not None:
            decision.on_refused(partial(self._sessions.__setitem__, (group_id, member_id), session))

    # Time and topics

    def _keep_alive(self, group_id: str, member_id: str, decision: GroupDecision, timeout_ms: int | None = None) -> None:
        """Start a member's session anew. A timer that fires earlier is left alone: it looks at the deadline."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            session = self._sessions[group_id, member_id] = Session()
            decision.on_refused(partial(self._forget_session, group_id, member_id))
        decision.on_refused(partial(session.set_back, session.deadline_ms, session.timer_ms))
        session.deadline_ms = decision.now_ms + (self._settings.session_timeout_ms(group_id) if timeout_ms is None else timeout_ms)
        if session.timer_ms is None or session.timer_ms > session.deadline_ms:
            session.timer_ms = session.deadline_ms
            decision.set_timer(session_timer(group_id, member_id), session.deadline_ms)

    def _forget_session(self, group_id: str, member_id: str) -> None:
        self._sessions.pop((group_id, member_id), None)

    def on_session_timer(self, group: ConsumerGroup, member_id: str, decision: GroupDecision) -> None:
        """Remove a member that has been silent for a whole session."""
        session, member = self._sessions.get((group.group_id, member_id)), group.members.get(member_id)
        if session is None or member is None:
            return
        decision.stage(session)
        session.timer_ms = None
        if decision.now_ms < session.deadline_ms:
            self._keep_alive(group.group_id, member_id, decision, session.deadline_ms - decision.now_ms)
        else:
            self.remove(group, [member], decision)

    def on_rebalance_timer(self, group: ConsumerGroup, member_id: str, epoch: int, decision: GroupDecision) -> None:
        """Remove a member that has not given its partitions up in time."""
        member = group.members.get(member_id)
        if member is not None and member.current.epoch == epoch and member.current.state is MemberState.UNREVOKED_PARTITIONS:
            self.remove(group, [member], decision)

    def on_regex_timer(self, group: ConsumerGroup | None, group_id: str, decision: GroupDecision) -> None:
        """Search more topics for those that the group's regular expressions match."""
        self._regexes.on_timer(group, group_id, decision)

    def resume(self, group: ConsumerGroup, decision: GroupDecision) -> None:
        """Give every member of a group that was just loaded a whole session, and as much time as it asked for to give up partitions."""
        self._stale.add(group.group_id)
        for member in group.members.values():
            self._keep_alive(group.group_id, member.member_id, decision)
            if member.current.state is MemberState.UNREVOKED_PARTITIONS:
                self._await_revocation(group.group_id, member, decision)

    def forget(self, group_id: str) -> None:
        """Forget what is known of a group that is gone."""
        self._stale.discard(group_id)
        self._regexes.forget(group_id)

    def on_image(self, delta: MetadataDelta, groups: Iterable[ConsumerGroup]) -> None:
        """Have groups look at the topics that they read once more, with the next heartbeat of each."""
        changed = {changed.topic.name for changed in delta.changed_topics.values()}
        deleted = {topic.name for topic in delta.deleted_topics.values()}
        touched = changed | deleted
        has_new_racks = bool(delta.changed_brokers)
        self._hashes.forget(deleted)
        if any(changed.is_new for changed in delta.changed_topics.values()):
            self._regexes.note_new_topics(self._image().offset)
        self._stale.update(group.group_id for group in groups if has_new_racks or not touched.isdisjoint(group.subscribed_topics))


def _known(member: ConsumerMember | None, member_id: str, group: ConsumerGroup) -> ConsumerMember:
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def _holder(holder: ConsumerMember | None, member_id: str, instance_id: str, group: ConsumerGroup) -> ConsumerMember:
    """Return the static member, if it is the one that asks."""
    if holder is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown in group {group.group_id}.")
    if holder.member_id != member_id:
        text = f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}."
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, text)
    return holder
