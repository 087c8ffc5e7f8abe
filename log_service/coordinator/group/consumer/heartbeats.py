"""Heartbeats of consumer groups (KIP-848): join, report, get and revoke partitions, leave.

This file finds the member of a heartbeat and decides on the response. ``ConsumerSteps`` advances
the group and the member. ``ConsumerRemovals`` removes members. Groups change only when their
records are replayed. This file knows neither how records are stored nor the classic protocol.

Source: KIP-848 as of Kafka 4.3.
"""

from collections.abc import Callable
from dataclasses import replace

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.coordinator.group.consumer.removals import ConsumerRemovals, holder_of, known
from log_service.coordinator.group.consumer.requests import (
    assignment_of,
    is_full,
    is_leaving,
    owned_partitions,
    updated_subscription,
    validate_epoch,
    validate_heartbeat,
)
from log_service.coordinator.group.consumer.sessions import ConsumerSessions
from log_service.coordinator.group.consumer.steps import Beat, ConsumerSteps
from log_service.coordinator.group.group_settings import GroupSettings
from log_service.coordinator.group.records.codec import GroupRecord
from log_service.coordinator.group.records.consumer import CurrentAssignmentRecord
from log_service.coordinator.group.values.consumer_member import (
    ConsumerMember,
    MemberState,
    Subscription,
)
from log_service.coordinator.group.values.epochs import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from log_service.coordinator.group.values.partitions import NOTHING_HELD, in_epoch, is_same_set
from log_service.coordinator.request_context import RequestContext
from log_service.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from log_service.state_machine.decision import Decision

GroupDecision = Decision[GroupRecord]


class ConsumerHeartbeats:
    """Decides on the heartbeats of one shard's consumer groups.

    ``new_member_id`` generates a member id from a prefix, for clients that send no id.
    """

    def __init__(
        self,
        settings: GroupSettings,
        new_member_id: Callable[[str], str],
        steps: ConsumerSteps,
        sessions: ConsumerSessions,
        removals: ConsumerRemovals,
    ) -> None:
        self._settings = settings
        self._new_member_id = new_member_id
        self._steps = steps
        self.sessions = sessions
        self._removals = removals

    def validate(self, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> None:
        """Validate the fields of a request, without looking at its group.

        Raises:
            KafkaError: the request is invalid.
        """
        validate_heartbeat(request, context.api_version, self._settings.assignors)

    def handle_heartbeat(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        """Advance a member by one step, and respond.

        The request must be valid. ``group`` may be a new one.

        Raises:
            KafkaError: the error for the member. The caller must discard the decision.
        """
        if is_leaving(request):
            self._leave(group, request, context, decision)
            return
        group_id, member_id = group.group_id, request.member_id or self._new_member_id("")[1:]
        validate_size(group, member_id, self._settings)
        member, replaced_id = self._find(group, member_id, request, decision)
        updated = replace(
            member, subscription=updated_subscription(member.subscription, request, context)
        )
        beat = Beat(
            group=group,
            member=member,
            updated=updated,
            replaced_id=replaced_id,
            visible=context.visible,
        )
        epoch = self._steps.note(beat, decision)
        current = self._steps.advance(beat, epoch, owned_partitions(request), decision)
        self.sessions.keep_alive(
            group_id, member_id, self._settings.session_timeout_ms(group_id), decision
        )
        if member.is_classic:
            self.sessions.note_join(group_id, member_id, decision)
            self.sessions.note_sync(group_id, member_id, decision)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=current.epoch,
            heartbeat_interval_ms=self._settings.heartbeat_interval_ms(group_id),
        )
        if is_full(request) or not is_same_set(member.current.assigned, current.assigned):
            response.assignment = assignment_of(current)
        decision.reply(context.reply_to, response)

    def _find(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: ConsumerGroupHeartbeatRequest,
        decision: GroupDecision,
    ) -> tuple[ConsumerMember, str | None]:
        """Return the member, which may be new, and the id of the member that it replaces.

        Only a static member that returns under a new member id replaces one. Otherwise the id is
        None.
        """
        is_joining = request.member_epoch == JOIN_EPOCH
        if request.instance_id is None:
            member = group.members.get(member_id)
            if member is None and is_joining:
                return ConsumerMember(member_id=member_id, subscription=Subscription()), None
            member = known(member, member_id, group)
        elif is_joining:
            return self._removals.join_statically(
                group, member_id, request.instance_id, decision, is_classic=False
            )
        else:
            member = holder_of(group, request.instance_id, member_id)
        validate_epoch(member, request.member_epoch, owned_partitions(request))
        return member, None

    def _leave(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        if request.instance_id is None:
            member = known(group.members.get(request.member_id), request.member_id, group)
        else:
            member = holder_of(group, request.instance_id, request.member_id)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            current = replace(
                member.current,
                epoch=STATIC_LEAVE_EPOCH,
                previous_epoch=member.current.epoch,
                assigned=in_epoch(member.current.assigned, 0),
                pending_revocation=NOTHING_HELD,
            )
            decision.append(
                CurrentAssignmentRecord(
                    group_id=group.group_id, member_id=member.member_id, content=current
                )
            )
        else:
            self._removals.remove(group, [member], decision)
        decision.reply(
            context.reply_to,
            ConsumerGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=request.member_epoch
            ),
        )

    def resume(self, group: ConsumerGroup, decision: GroupDecision) -> None:
        """Start a full session for every member of a group that was just loaded from the log.

        A member that has yet to revoke partitions also gets its full rebalance timeout.
        """
        self._steps.note_loaded(group.group_id)
        for member in group.members.values():
            timeout_ms = self.sessions.timeout_ms(group.group_id, member)
            self.sessions.keep_alive(group.group_id, member.member_id, timeout_ms, decision)
            if member.current.state is MemberState.UNREVOKED_PARTITIONS:
                self.sessions.await_revocation(group.group_id, member, decision)


def validate_size(group: ConsumerGroup, member_id: str, settings: GroupSettings) -> None:
    """Refuse a new member if the group is full.

    Raises:
        KafkaError: GROUP_MAX_SIZE_REACHED.
    """
    if member_id not in group.members and len(group.members) >= settings.max_size:
        text = (
            f"The consumer group has reached its maximum capacity of {settings.max_size} members."
        )
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
