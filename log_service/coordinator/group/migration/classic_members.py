"""Members of the classic protocol in a consumer group (KIP-848): join, sync, heartbeat, leave.

Classic members take the same steps as members of the consumer protocol. A JoinGroup holds the
member's subscription and owned partitions, and gets a response at once. The member's epoch is its
generation. No member is the leader, and no client computes assignments. The SyncGroup response
holds the member's partitions. A Heartbeat response makes the member rejoin in three cases: its
epoch is over, it must revoke partitions, or the partitions that it waits for are free.

This file knows neither classic groups nor the conversion of groups. ``GroupMigration`` converts
them.

Source: KIP-848 as of Kafka 4.3.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.coordinator.group.classic.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    encode_assignment,
    owned_partitions_of,
    subscription_of,
)
from log_service.coordinator.group.classic.joining import (
    FIRST_JOIN_VERSION_WITH_REQUIRED_ID,
    GroupDecision,
    protocols_of,
    rebalance_timeout_of,
    refused,
)
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.coordinator.group.consumer.heartbeats import validate_size
from log_service.coordinator.group.consumer.removals import ConsumerRemovals, holder_of, known
from log_service.coordinator.group.consumer.sessions import ConsumerSessions
from log_service.coordinator.group.consumer.steps import Beat, ConsumerSteps
from log_service.coordinator.group.group_settings import GroupSettings
from log_service.coordinator.group.migration.group_migration import GroupMigration
from log_service.coordinator.group.values.consumer_member import (
    ClassicMetadata,
    ConsumerMember,
    MemberState,
    Subscription,
)
from log_service.coordinator.group.values.partitions import Partitions, without_epochs
from log_service.coordinator.request_context import RequestContext
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from log_service.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from log_service.protocol.messages.leave_group import MemberIdentity
from log_service.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicMembers:
    """Decides on requests of classic members to one shard's consumer groups.

    ``new_member_id`` generates a member id from a prefix.
    """

    def __init__(
        self,
        *,
        settings: GroupSettings,
        new_member_id: Callable[[str], str],
        image: Callable[[], MetadataImage],
        steps: ConsumerSteps,
        sessions: ConsumerSessions,
        removals: ConsumerRemovals,
        migration: GroupMigration,
    ) -> None:
        self._settings = settings
        self._new_member_id = new_member_id
        self._image = image
        self._steps = steps
        self._sessions = sessions
        self._removals = removals
        self._migration = migration

    # Joining

    def handle_join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        """Admit a member and respond at once. The generation in the response is the member's epoch.

        Raises:
            KafkaError: the error for the member. The caller must discard the decision.
        """
        member_id = request.member_id or self._new_member_id("")[1:]
        self._validate_joiner(group, member_id, request)
        if (
            not request.member_id
            and request.group_instance_id is None
            and context.api_version >= FIRST_JOIN_VERSION_WITH_REQUIRED_ID
        ):
            decision.reply(context.reply_to, refused(member_id, ErrorCode.MEMBER_ID_REQUIRED))
            return
        subscription = self._subscription_of(request)
        member, replaced_id = self._find(group, member_id, request, decision)
        updated = replace(
            member, subscription=_updated(member.subscription, request, subscription, context)
        )
        beat = Beat(group=group, member=member, updated=updated, replaced_id=replaced_id)
        owned = owned_partitions_of(subscription, self._image())
        instance_id = request.group_instance_id
        holder = None if instance_id is None else group.static_member(instance_id)
        if holder is not None and self._migration.may_downgrade_by_replacing(group, holder):
            joined = self._join_and_downgrade(beat, holder, owned, decision)
        else:
            joined = self._join(beat, owned, decision)
        response = JoinGroupResponse(
            generation_id=joined.current.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
            member_id=member_id,
        )
        decision.reply(context.reply_to, response)

    def _validate_joiner(
        self, group: ConsumerGroup, member_id: str, request: JoinGroupRequest
    ) -> None:
        if not self._migration.takes_classic_members:
            text = (
                f"Cannot join the consumer group {group.group_id} with the classic protocol because"
                " the group migration is disabled."
            )
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
        validate_size(group, member_id, self._settings)
        offered = {protocol.name for protocol in request.protocols}
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not offered & common_protocols(
            group, offered
        ):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Member {member_id}'s protocols are not supported.",
            )

    def _subscription_of(self, request: JoinGroupRequest) -> ConsumerProtocolSubscription:
        try:
            return subscription_of(request.protocols[0].metadata)
        except ProtocolError as error:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"The member's subscription cannot be read: {error}.",
            ) from error

    def _find(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: JoinGroupRequest,
        decision: GroupDecision,
    ) -> tuple[ConsumerMember, str | None]:
        """Return the member, which may be new, and the id of the member that it replaces.

        Only a static member that returns under a new member id replaces one. Otherwise the id is
        None.
        """
        if request.group_instance_id is None:
            return (
                group.members.get(member_id)
                or ConsumerMember(member_id=member_id, subscription=Subscription()),
                None,
            )
        if not request.member_id:
            return self._removals.join_statically(
                group, member_id, request.group_instance_id, decision, is_classic=True
            )
        return holder_of(group, request.group_instance_id, member_id), None

    def _join(self, beat: Beat, owned: Partitions, decision: GroupDecision) -> ConsumerMember:
        group_id, joined = beat.group.group_id, beat.updated
        epoch = self._steps.note(beat, decision)
        current = self._steps.advance(beat, epoch, owned, decision)
        self._sessions.note_join(group_id, joined.member_id, decision)
        self._sessions.keep_alive(
            group_id, joined.member_id, self._sessions.timeout_ms(group_id, joined), decision
        )
        self._sessions.await_sync(
            group_id, joined.member_id, joined.subscription.rebalance_timeout_ms, decision
        )
        return replace(joined, current=current)

    def _join_and_downgrade(
        self, beat: Beat, holder: ConsumerMember, owned: Partitions, decision: GroupDecision
    ) -> ConsumerMember:
        """Turn the group into a classic one, with the joining member in place of ``holder``.

        Return the member. The classic group continues in its current generation, unless the targets
        are older than the group epoch. In that case a rebalance begins.
        """
        group, joined = beat.group, beat.updated
        is_rebalance_needed = group.target_epoch.epoch < self._steps.note(beat, decision)
        if not is_rebalance_needed:
            joined = replace(
                joined, current=self._steps.advance_to_last_target(beat, owned, decision)
            )
        self._migration.downgrade_by_replacing(
            group, holder, joined, decision, is_rebalance_needed=is_rebalance_needed
        )
        return joined

    # Sync, heartbeat, leave

    def handle_sync(
        self,
        group: ConsumerGroup,
        request: SyncGroupRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        """Respond with the partitions that the member holds.

        Raises:
            KafkaError: the error for the member. The caller must discard the decision.
        """
        member, classic = _validated(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        has_other_type = (
            request.protocol_type is not None and request.protocol_type != CONSUMER_PROTOCOL_TYPE
        )
        has_other_name = (
            request.protocol_name is not None and request.protocol_name != classic.protocols[0][0]
        )
        if has_other_type or has_other_name:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Member {member.member_id} has joined with another protocol.",
            )
        is_behind = group.target_epoch.epoch > member.current.epoch
        if is_behind and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
            self._sessions.await_join(group.group_id, member, decision)
            decision.reply(
                context.reply_to, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            )
            return
        self._sessions.note_sync(group.group_id, member.member_id, decision)
        self._sessions.keep_alive(
            group.group_id, member.member_id, classic.session_timeout_ms, decision
        )
        held = without_epochs(member.current.assigned)
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=encode_assignment(held, self._image(), classic.protocols[0][1]),
        )
        decision.reply(context.reply_to, response)

    def handle_heartbeat(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str | None,
        generation_id: int,
        decision: GroupDecision,
    ) -> ErrorCode:
        """Restart the member's session. Return REBALANCE_IN_PROGRESS if the member must rejoin.

        Raises:
            KafkaError: the error for the member. The caller must discard the decision.
        """
        member, classic = _validated(group, member_id, instance_id, generation_id)
        self._sessions.keep_alive(group.group_id, member_id, classic.session_timeout_ms, decision)
        if not has_to_join_again(group, member):
            return ErrorCode.NONE
        self._sessions.await_join(group.group_id, member, decision)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def handle_leave(
        self, group: ConsumerGroup, leavers: Iterable[MemberIdentity], decision: GroupDecision
    ) -> list[ErrorCode]:
        """Remove members of either protocol, then begin one epoch.

        Return a code for each leaver.

        An administrator may name a static member by its instance id alone.
        """
        errors: list[ErrorCode] = []
        leaving: dict[str, ConsumerMember] = {}
        for leaver in leavers:
            try:
                member = _leaver(group, leaver)
            except KafkaError as error:
                errors.append(error.code)
            else:
                leaving[member.member_id] = member
                errors.append(ErrorCode.NONE)
        if leaving:
            self._removals.remove(group, list(leaving.values()), decision)
        return errors


def common_protocols(group: ConsumerGroup, offered: Iterable[str]) -> set[str]:
    """Return the offered protocols that all classic members of a group support."""
    common = set(offered)
    for member in group.members.values():
        classic = member.subscription.classic
        if classic is not None:
            common &= {name for name, _ in classic.protocols}
    return common


def has_to_join_again(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether a classic member must rejoin.

    There are three reasons: its epoch is over, it has partitions to revoke, or the partitions that
    it waits for are free.
    """
    current = member.current
    if (
        current.epoch < group.target_epoch.epoch
        or current.state is MemberState.UNREVOKED_PARTITIONS
    ):
        return True
    return current.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(
        group, member
    )


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether another member still holds a partition of this member's target."""
    return any(
        group.is_held_by_another(member.member_id, topic_id, index)
        for topic_id, indexes in group.target_of(member).items()
        for index in indexes
    )


def _validated(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[ConsumerMember, ClassicMetadata]:
    """Return the member of a request, and its classic metadata from its last join.

    Raises:
        KafkaError: the error for the member.
    """
    member = (
        known(group.members.get(member_id), member_id, group)
        if instance_id is None
        else holder_of(group, instance_id, member_id)
    )
    classic = member.subscription.classic
    if classic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol."
        )
    if generation_id != member.current.epoch:
        text = (
            f"The generation {generation_id} is not the epoch of member {member_id}, which is"
            f" {member.current.epoch}."
        )
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, text)
    return member, classic


def _leaver(group: ConsumerGroup, leaver: MemberIdentity) -> ConsumerMember:
    instance_id = leaver.group_instance_id
    if instance_id is None:
        return known(group.members.get(leaver.member_id), leaver.member_id, group)
    if leaver.member_id:
        return holder_of(group, instance_id, leaver.member_id)
    return known(group.static_member(instance_id), leaver.member_id, group)


def _updated(
    old: Subscription,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    context: RequestContext,
) -> Subscription:
    """Return a member's subscription after a join. A classic member has no regular expression."""
    return replace(
        old,
        instance_id=(
            old.instance_id if request.group_instance_id is None else request.group_instance_id
        ),
        rack_id=subscription.rack_id or old.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        regex="",
        rebalance_timeout_ms=rebalance_timeout_of(request),
        classic=ClassicMetadata(
            session_timeout_ms=request.session_timeout_ms, protocols=protocols_of(request)
        ),
    )
