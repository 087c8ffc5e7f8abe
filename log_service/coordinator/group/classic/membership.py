"""Decide on the members of a classic group that sync, send heartbeats, leave, or fall silent.

This file decides on SyncGroup, Heartbeat and LeaveGroup and on the session and sync timers.
``joining`` decides on a rebalance that follows. A generation is stored when its leader has synced.
No member gets its assignment before the generation is in the log.
"""

from collections.abc import Iterable

from log_service.common.errors import ErrorCode
from log_service.config.views import GroupConfig
from log_service.coordinator.group.classic.group import ClassicGroup, ClassicMember, GroupState
from log_service.coordinator.group.classic.joining import (
    GroupDecision,
    Joining,
    keep_alive,
    refused,
    sync_timer,
)
from log_service.coordinator.group.classic.stored_group import store_group
from log_service.coordinator.group.member_sessions import session_timer
from log_service.coordinator.request_context import RequestContext
from log_service.protocol.messages.leave_group import MemberIdentity
from log_service.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class Membership:
    """Decides on the requests and timers of members that have joined a classic group."""

    def __init__(self, config: GroupConfig, joining: Joining) -> None:
        self._config = config
        self._joining = joining

    def handle_sync(
        self,
        group: ClassicGroup,
        request: SyncGroupRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        """Respond with the member's assignment, now or once the leader has sent it."""
        error = self._validate_sync(group, request)
        if error is not ErrorCode.NONE:
            decision.reply(context.reply_to, SyncGroupResponse(error_code=error))
            return
        member = group.members[request.member_id]
        decision.stage_attribute(member, "awaiting_sync")
        if member.member_id in group.pending_sync_members:
            group.pending_sync_members.remove(member.member_id)
            decision.on_refused(lambda: group.pending_sync_members.add(member.member_id))
        if group.is_in(GroupState.STABLE):
            self.keep_alive(group, member, decision)
            decision.reply(context.reply_to, assigned(group, member))
            return
        if member.awaiting_sync is not None:
            decision.reply(
                member.awaiting_sync, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            )
        member.awaiting_sync = context.reply_to
        if member.member_id == group.leader_id:
            self._take_assignments(group, request, decision)

    def _validate_sync(self, group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
        error = self.validate_request(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        if error is not ErrorCode.NONE:
            return error
        has_other_type = (
            request.protocol_type is not None and request.protocol_type != group.protocol_type
        )
        has_other_name = (
            request.protocol_name is not None and request.protocol_name != group.protocol_name
        )
        if has_other_type or has_other_name:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.is_in(GroupState.PREPARING_REBALANCE):
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def validate_request(
        self, group: ClassicGroup, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Return NONE if a request's member id, instance id and generation fit, else an error."""
        if group.is_in(GroupState.DEAD):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = group.validate_member(member_id, group_instance_id)
        if error is ErrorCode.NONE and generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _take_assignments(
        self, group: ClassicGroup, request: SyncGroupRequest, decision: GroupDecision
    ) -> None:
        decision.stage(group)
        assignments = {
            assignment.member_id: assignment.assignment for assignment in request.assignments
        }
        assigned_bytes = sum(map(len, assignments.values()))
        if group.subscription_bytes() + assigned_bytes > self._config.max_metadata_record_bytes:
            self._joining.abandon_generation(group, ErrorCode.UNKNOWN_SERVER_ERROR, decision)
            return
        decision.stage(*group.members.values())
        for member in group.members.values():
            group.assign(member, assignments.get(member.member_id, b""))
        group.transition_to(GroupState.STABLE, decision.wall_ms)
        decision.append(store_group(group, decision.wall_ms))
        for member in group.members.values():
            if member.awaiting_sync is not None:
                decision.reply(member.awaiting_sync, assigned(group, member))
                member.awaiting_sync = None
                self.keep_alive(group, member, decision)
        if not group.pending_sync_members:
            decision.cancel_timer(sync_timer(group.group_id))

    def on_sync_timer(self, group: ClassicGroup, decision: GroupDecision) -> None:
        """Remove the members of this generation that did not sync in time.

        They include static members that did not rejoin.
        """
        if not group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        decision.stage(group)
        silent = [
            group.members[member_id]
            for member_id in sorted(group.pending_sync_members)
            if member_id in group.members
        ]
        for member in silent:
            self._remove(group, member, decision)
        if silent:
            self._joining.rebalance_or_complete_join(group, decision)

    def handle_heartbeat(
        self,
        group: ClassicGroup,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        decision: GroupDecision,
    ) -> ErrorCode:
        """Restart the member's session.

        Return REBALANCE_IN_PROGRESS during a join phase, else NONE. An invalid request changes
        nothing, and its error is returned.
        """
        error = self.validate_request(group, member_id, group_instance_id, generation_id)
        if error is not ErrorCode.NONE:
            return error
        self.keep_alive(group, group.members[member_id], decision)
        return (
            ErrorCode.REBALANCE_IN_PROGRESS
            if group.is_in(GroupState.PREPARING_REBALANCE)
            else ErrorCode.NONE
        )

    def keep_alive(
        self, group: ClassicGroup, member: ClassicMember, decision: GroupDecision
    ) -> None:
        """Restart the member's session."""
        keep_alive(group, member, member.session_timeout_ms, decision)

    def handle_leave(
        self, group: ClassicGroup, leavers: Iterable[MemberIdentity], decision: GroupDecision
    ) -> list[ErrorCode]:
        """Remove all leaving members, then begin one rebalance if one was removed.

        Return a code for each leaver. A leaver that is not a valid member gets an error.
        An administrator may name a static member by its instance id alone.
        """
        decision.stage(group)
        errors = [self._leave(group, leaver, decision) for leaver in leavers]
        if ErrorCode.NONE in errors and not group.is_in(GroupState.EMPTY):
            self._joining.rebalance_or_complete_join(group, decision)
        return errors

    def _leave(
        self, group: ClassicGroup, leaver: MemberIdentity, decision: GroupDecision
    ) -> ErrorCode:
        member_id = leaver.member_id
        if member_id in group.pending_join_members:
            self._forget_pending(group, member_id, decision)
            return ErrorCode.NONE
        if member_id == "" and leaver.group_instance_id is not None:
            member_id = group.static_members.get(leaver.group_instance_id, "")
        error = group.validate_member(member_id, leaver.group_instance_id)
        if error is ErrorCode.NONE:
            self._remove(group, group.members[member_id], decision)
        return error

    def on_session_timer(
        self, group: ClassicGroup, member_id: str, decision: GroupDecision
    ) -> None:
        """Remove a member or a pending member id whose session has expired.

        A member with an open JoinGroup or SyncGroup request stays, unless it is still waiting for
        the response to its first join.
        """
        if member_id in group.pending_join_members:
            decision.stage(group)
            self._forget_pending(group, member_id, decision)
            self._joining.maybe_complete_join(group, decision)
            return
        member = group.members.get(member_id)
        if member is None:
            return
        decision.stage(member.session)
        member.session.timer_ms = None
        if decision.now_ms < member.session.deadline_ms:
            keep_alive(group, member, member.session.deadline_ms - decision.now_ms, decision)
            return
        is_waiting = member.awaiting_join is not None or member.awaiting_sync is not None
        if is_waiting and not member.is_new:
            return
        decision.stage(group)
        self._remove(group, member, decision)
        self._joining.rebalance_or_complete_join(group, decision)

    def _forget_pending(self, group: ClassicGroup, member_id: str, decision: GroupDecision) -> None:
        group.pending_join_members.pop(member_id, None)
        decision.cancel_timer(session_timer(group.group_id, member_id))

    def _remove(self, group: ClassicGroup, member: ClassicMember, decision: GroupDecision) -> None:
        decision.cancel_timer(session_timer(group.group_id, member.member_id))
        if member.awaiting_join is not None:
            decision.reply(member.awaiting_join, refused("", ErrorCode.UNKNOWN_MEMBER_ID))
        if member.awaiting_sync is not None:
            decision.reply(
                member.awaiting_sync, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            )
        group.remove(member)

    def resume(self, group: ClassicGroup, decision: GroupDecision) -> None:
        """Start a full session for every member of a group that was just loaded from the log."""
        for member in group.members.values():
            self.keep_alive(group, member, decision)


def assigned(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    """Return the response for a sync, with the member's assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
