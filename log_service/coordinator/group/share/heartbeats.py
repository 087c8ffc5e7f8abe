"""Heartbeats of share groups (KIP-932): members join, report, get partitions, and leave.

The steps of one heartbeat:

1. Store the member's subscription.
2. Begin a new group epoch if the group's topics have changed, or if partitions with a state are not
   assigned.
3. Compute the targets if they are of an older epoch and the assignment interval has passed.
4. Assign the member its target at once, because no other member has to revoke anything.
5. Initialize states of subscribed partitions that have none. A later heartbeat assigns them.

Groups change only when their records are replayed. This file holds the state that is not in the
log: sessions, the groups that must check their topics, and when their states were last stored. It
does not know how records are stored. It does not know share coordinators either, and announces
``StatesToInitialize`` instead.

Source: KIP-932 as of Kafka 4.3.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.views import ShareGroupConfig
from log_service.coordinator.group.group_settings import GroupTimes
from log_service.coordinator.group.member_sessions import MemberSessions
from log_service.coordinator.group.records.codec import GroupRecord, validate_size
from log_service.coordinator.group.records.share import (
    ShareAssignment,
    ShareAssignmentRecord,
    ShareEpochRecord,
    ShareMemberRecord,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    StatePartitions,
    StatePartitionsRecord,
    StateTopic,
)
from log_service.coordinator.group.share.assignor import ShareMemberSpec, assign_simply
from log_service.coordinator.group.share.group import ShareGroup, ShareMember, topics_of
from log_service.coordinator.group.share.states import (
    missing_states,
    partitions_of_states,
    with_initializing,
)
from log_service.coordinator.group.timer_kinds import TimerKind
from log_service.coordinator.group.topic_hash import TopicHashes
from log_service.coordinator.group.values.epochs import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    GroupEpoch,
    TargetEpoch,
)
from log_service.coordinator.group.values.partitions import Partitions, in_order
from log_service.coordinator.request_context import RequestContext
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from log_service.state_machine.decision import Decision

UNKNOWN_OFFSET = -1

GroupDecision = Decision[GroupRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesToInitialize:
    """The share states of a group that share coordinators must initialize.

    Each state has a start offset. -1 means that the start offset is not decided yet.
    """

    group_id: str
    state_epoch: int
    start_offsets: Mapping[UUID, Mapping[int, int]]

    @property
    def partitions(self) -> Partitions:
        """The partitions without their offsets."""
        return {topic_id: frozenset(offsets) for topic_id, offsets in self.start_offsets.items()}


def share_session_timer(group_id: str, member_id: str) -> tuple[str, str, str]:
    """Return the key of the timer that removes a silent member."""
    return (TimerKind.SHARE_SESSION, group_id, member_id)


class ShareHeartbeats:
    """Decides on members of one shard's share groups.

    ``image`` returns the newest metadata. The record of a member has at most ``max_record_bytes``.
    """

    def __init__(
        self, config: ShareGroupConfig, image: Callable[[], MetadataImage], max_record_bytes: int
    ) -> None:
        self._config = config
        self._max_record_bytes = max_record_bytes
        self._times = GroupTimes("share", config, image)
        self._image = image
        self._hashes = TopicHashes()
        self.sessions = MemberSessions(share_session_timer)
        self.stale: set[str] = set()
        self._initializing_since_ms: dict[str, int] = {}

    # Heartbeat of a member that stays

    def handle_heartbeat(
        self,
        group: ShareGroup,
        request: ShareGroupHeartbeatRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        """Advance a member by one step, and respond.

        The request must be valid. ``group`` may be a new one.

        Raises:
            KafkaError: the error for the member. The caller must discard the decision.
        """
        if request.member_epoch == LEAVE_EPOCH:
            self.remove(group, _known(group, request.member_id), decision)
            response = ShareGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=LEAVE_EPOCH
            )
            decision.reply(context.reply_to, response)
            return
        if request.member_id not in group.members and len(group.members) >= self._config.max_size:
            text = (
                f"The share group has reached its maximum capacity of {self._config.max_size}"
                " members."
            )
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
        member = self._find(group, request)
        updated = _updated(member, request, context)
        current = self._step(group, member, updated, decision)
        self._keep_alive(group.group_id, member.member_id, decision)
        response = ShareGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=current.epoch,
            heartbeat_interval_ms=self._times.heartbeat_interval_ms(group.group_id),
        )
        is_full = request.member_epoch == JOIN_EPOCH or request.subscribed_topic_names is not None
        if is_full or current.partitions != member.current.partitions:
            response.assignment = _response_assignment(current.partitions)
        decision.reply(context.reply_to, response)

    def _find(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
        if request.member_epoch == JOIN_EPOCH:
            return group.members.get(request.member_id) or ShareMember(member_id=request.member_id)
        member = _known(group, request.member_id)
        _validate_epoch(member, request.member_epoch)
        return member

    def _step(
        self, group: ShareGroup, member: ShareMember, updated: ShareMember, decision: GroupDecision
    ) -> ShareAssignment:
        """Store the subscription, advance the group, and return the member's assignment."""
        is_bumped = False
        if updated.subscription != member.subscription:
            record = ShareMemberRecord(
                group_id=group.group_id, member_id=updated.member_id, content=updated.subscription
            )
            validate_size(record, self._max_record_bytes)
            decision.append(record)
            is_bumped = updated.subscription.topics != member.subscription.topics
        if group.target_epoch.epoch >= group.epoch.epoch:
            is_bumped = is_bumped or group.has_unassigned_states()
        members = [
            *(each for each in group.members.values() if each.member_id != updated.member_id),
            updated,
        ]
        epoch, is_bumped = self._settled_epoch(group, members, decision, is_bumped=is_bumped)
        target_epoch, target = self._settled_target(group, members, updated, epoch, decision)
        current = self._reconciled(updated, target_epoch, target, is_bumped=is_bumped)
        if current != member.current:
            decision.append(
                ShareAssignmentRecord(
                    group_id=group.group_id, member_id=updated.member_id, content=current
                )
            )
        self._initialize_states(group, topics_of(members), epoch, decision)
        return current

    def _settled_epoch(
        self,
        group: ShareGroup,
        members: Iterable[ShareMember],
        decision: GroupDecision,
        *,
        is_bumped: bool,
    ) -> tuple[int, bool]:
        """Return the group's epoch, and whether the epoch is a new one.

        A new epoch begins if ``is_bumped``, or if the metadata of the subscribed topics has
        changed.
        """
        group_id = group.group_id
        if not is_bumped and group_id not in self.stale:
            return group.epoch.epoch, False
        metadata_hash = self._hashes.of(topics_of(members), self._image())
        if group_id in self.stale:
            self.stale.discard(group_id)
            decision.on_refused(partial(self.stale.add, group_id))
        if not is_bumped and metadata_hash == group.epoch.metadata_hash:
            return group.epoch.epoch, False
        epoch = GroupEpoch(epoch=group.epoch.epoch + 1, metadata_hash=metadata_hash)
        decision.append(ShareEpochRecord(group_id=group_id, content=epoch))
        return epoch.epoch, True

    def _settled_target(
        self,
        group: ShareGroup,
        members: list[ShareMember],
        updated: ShareMember,
        epoch: int,
        decision: GroupDecision,
    ) -> tuple[int, Partitions]:
        """Return the epoch and the target of the member.

        If the targets are of an older epoch and the assignment interval since their computation is
        over, all targets are computed again first.
        """
        last, group_id = group.target_epoch, group.group_id
        if epoch <= last.epoch or not last.is_due(
            decision.wall_ms, self._times.assignment_interval_ms(group_id)
        ):
            return last.epoch, group.target_of(updated.member_id)
        specs = [
            ShareMemberSpec(
                member_id=member.member_id,
                topic_ids=self._topic_ids(member),
                last_target=group.target_of(member.member_id),
            )
            for member in members
        ]
        targets = assign_simply(specs, partitions_of_states(group.known_states.initialized))
        for member_id in sorted(targets):
            if targets[member_id] != group.targets.get(member_id):
                decision.append(
                    ShareTargetRecord(
                        group_id=group_id, member_id=member_id, content=targets[member_id]
                    )
                )
        decision.append(
            ShareTargetEpochRecord(
                group_id=group_id, content=TargetEpoch(epoch=epoch, computed_ms=decision.wall_ms)
            )
        )
        return epoch, targets[updated.member_id]

    def _topic_ids(self, member: ShareMember) -> frozenset[UUID]:
        """Return the ids of the existing topics that a member subscribes to."""
        by_name = self._image().topics.by_name
        return frozenset(
            topic.topic_id
            for name in member.subscription.topics
            if (topic := by_name.get(name)) is not None
        )

    def _reconciled(
        self, member: ShareMember, target_epoch: int, target: Partitions, *, is_bumped: bool
    ) -> ShareAssignment:
        """Return a member's assignment. This is its target, limited to its subscribed topics."""
        current = member.current
        if current.epoch == target_epoch and not is_bumped:
            return current
        wanted = self._topic_ids(member)
        partitions = {
            topic_id: indexes for topic_id, indexes in target.items() if topic_id in wanted
        }
        if current.epoch == target_epoch:
            return replace(current, partitions=partitions)
        return ShareAssignment(
            epoch=target_epoch, previous_epoch=current.epoch, partitions=partitions
        )

    # Share states

    def _initialize_states(
        self, group: ShareGroup, names: Iterable[str], epoch: int, decision: GroupDecision
    ) -> None:
        """Initialize the share states of partitions that have none.

        States whose initialization takes too long are initialized again.
        """
        states = group.known_states
        since_ms = self._initializing_since_ms.get(group.group_id, decision.wall_ms)
        is_retry_due = decision.wall_ms - since_ms >= self._config.initialize_retry_interval_ms
        missing = missing_states(states, names, self._image(), is_retry_due=is_retry_due)
        if missing:
            self.store_states(group.group_id, with_initializing(states, missing), decision)
            decision.announce(_states_to_initialize(group.group_id, epoch, missing))

    def store_states(self, group_id: str, states: StatePartitions, decision: GroupDecision) -> None:
        """Store the share states of a group.

        The retry interval of its initializing states starts again.
        """
        decision.append(StatePartitionsRecord(group_id=group_id, content=states))
        known_ms = self._initializing_since_ms.get(group_id)
        self._initializing_since_ms[group_id] = decision.wall_ms
        decision.on_refused(partial(self._set_initializing_since, group_id, known_ms))

    def _set_initializing_since(self, group_id: str, since_ms: int | None) -> None:
        if since_ms is None:
            self._initializing_since_ms.pop(group_id, None)
        else:
            self._initializing_since_ms[group_id] = since_ms

    # Members that leave

    def remove(self, group: ShareGroup, member: ShareMember, decision: GroupDecision) -> None:
        """Remove a member. The group begins a new epoch without this member."""
        group_id, member_id = group.group_id, member.member_id
        decision.append(ShareAssignmentRecord(group_id=group_id, member_id=member_id, content=None))
        decision.append(ShareTargetRecord(group_id=group_id, member_id=member_id, content=None))
        decision.append(ShareMemberRecord(group_id=group_id, member_id=member_id, content=None))
        staying = [each for each in group.members.values() if each.member_id != member_id]
        metadata_hash = self._hashes.of(topics_of(staying), self._image())
        epoch = GroupEpoch(epoch=group.epoch.epoch + 1, metadata_hash=metadata_hash)
        decision.append(ShareEpochRecord(group_id=group_id, content=epoch))
        self.sessions.end(group_id, member_id, decision)

    # Time and topics

    def _keep_alive(self, group_id: str, member_id: str, decision: GroupDecision) -> None:
        self.sessions.keep_alive(
            group_id, member_id, self._times.session_timeout_ms(group_id), decision
        )

    def on_session_timer(self, group: ShareGroup, member_id: str, decision: GroupDecision) -> None:
        """Remove a member that has sent no heartbeat for a whole session."""
        member = group.members.get(member_id)
        if member is not None and self.sessions.is_over(group.group_id, member_id, decision):
            self.remove(group, member, decision)

    def resume(self, group: ShareGroup, decision: GroupDecision) -> None:
        """Start a full session for every member of a group that was just loaded from the log.

        The group's initializing states get a full retry interval.
        """
        self.stale.add(group.group_id)
        self._initializing_since_ms[group.group_id] = decision.wall_ms
        for member_id in group.members:
            self._keep_alive(group.group_id, member_id, decision)

    def forget(self, group_id: str) -> None:
        """Drop the cached state of a removed group."""
        self.stale.discard(group_id)
        self._initializing_since_ms.pop(group_id, None)

    def on_image(self, delta: MetadataDelta, groups: Iterable[ShareGroup]) -> None:
        """Mark groups whose subscribed topics have changed, or all groups if a broker has changed.

        The next heartbeat to a marked group checks its topics.
        """
        deleted = {topic.name for topic in delta.deleted_topics.values()}
        touched = deleted | {changed.topic.name for changed in delta.changed_topics.values()}
        has_new_racks = bool(delta.changed_brokers)
        self._hashes.forget(deleted)
        self.stale.update(
            group.group_id
            for group in groups
            if has_new_racks or not touched.isdisjoint(group.subscribed_topics)
        )


def validate_share_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """Validate the fields of a request, without looking at its group.

    Raises:
        KafkaError: INVALID_REQUEST, with the reason.
    """
    names, epoch = request.subscribed_topic_names, request.member_epoch
    rules = (
        (not request.member_id.strip(), "MemberId can't be empty."),
        (not request.group_id.strip(), "GroupId can't be empty."),
        (request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty."),
        (epoch == JOIN_EPOCH and not names, "SubscribedTopicNames must be set in first request."),
        (epoch < LEAVE_EPOCH, "MemberEpoch is invalid."),
    )
    complaint = next((text for is_wrong, text in rules if is_wrong), None)
    if complaint is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, complaint)


def _validate_epoch(member: ShareMember, epoch: int) -> None:
    """Validate the member epoch of a request.

    The previous epoch is valid too, because the response with the current epoch may have been lost.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH, the member must join again.
    """
    current = member.current
    if epoch in (current.epoch, current.previous_epoch):
        return
    how = "greater" if epoch > current.epoch else "smaller"
    text = (
        f"The share group member has a {how} member epoch ({epoch}) than the one known by the group"
        f" coordinator ({current.epoch}). The member must abandon all its partitions and rejoin."
    )
    raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)


def _known(group: ShareGroup, member_id: str) -> ShareMember:
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {group.group_id}.",
        )
    return member


def _updated(
    member: ShareMember, request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareMember:
    """Return a member after a request. A null field leaves its value unchanged."""
    old, names = member.subscription, request.subscribed_topic_names
    subscription = replace(
        old,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        topics=old.topics if names is None else tuple(sorted(set(names))),
    )
    return replace(member, subscription=subscription)


def _states_to_initialize(
    group_id: str, state_epoch: int, topics: Mapping[UUID, StateTopic]
) -> StatesToInitialize:
    offsets = {
        topic_id: dict.fromkeys(sorted(topic.partitions), UNKNOWN_OFFSET)
        for topic_id, topic in topics.items()
    }
    return StatesToInitialize(group_id=group_id, state_epoch=state_epoch, start_offsets=offsets)


def _response_assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=each, partitions=indexes)
            for each, indexes in in_order(partitions)
        ]
    )
