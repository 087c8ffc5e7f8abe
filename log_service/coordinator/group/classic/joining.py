"""The join phase of a classic group: admit members, begin a rebalance and the next generation.

This file decides on JoinGroup requests and on the two timers that end a join phase. It does not
know the log, and adds a ``GenerationRecord`` to the decision instead. A response to a join does not
wait for a stored record, because a generation takes effect only when its leader has synced.

Source: classic group protocol of Kafka 4.3, KIP-134 (initial delay), KIP-345 (static members),
KIP-394 (member id first), KIP-814 (a static leader that returns skips assignment).
"""

from collections.abc import Callable
from functools import partial

from log_service.common.errors import ErrorCode
from log_service.config.views import GroupConfig
from log_service.coordinator.group.classic.group import ClassicGroup, ClassicMember, GroupState
from log_service.coordinator.group.classic.stored_group import store_group
from log_service.coordinator.group.member_sessions import session_timer
from log_service.coordinator.group.records.codec import GroupRecord
from log_service.coordinator.group.timer_kinds import TimerKind
from log_service.coordinator.request_context import RequestContext
from log_service.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from log_service.protocol.messages.sync_group import SyncGroupResponse
from log_service.state_machine.decision import Decision

GroupDecision = Decision[GroupRecord]

MIN_POSTPONEMENT_MS = 100
"""The shortest postponement of a join phase in which no member has joined.

Without this bound, a rebalance timeout of 0 ms would end the phase again at once.
"""
MAX_PENDING_MEMBERS = 1_000
"""The largest number of pending member ids in a group.

A pending id was handed out but has not joined.
"""
FIRST_JOIN_VERSION_WITH_REQUIRED_ID = 4
ANNOUNCED_RECORDS = 8
"""The bound of a group's metadata and assignments, as a multiple of the largest record."""


_ERRORS_WITHOUT_MEMBER_ID = frozenset(
    {ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNKNOWN_SERVER_ERROR}
)
"""Errors whose response holds no member id."""


def join_timer(group_id: str) -> tuple[str, str]:
    """Return the key of the timer that ends a join phase."""
    return (TimerKind.JOIN, group_id)


def sync_timer(group_id: str) -> tuple[str, str]:
    """Return the key of the timer that removes members that do not sync in time."""
    return (TimerKind.SYNC, group_id)


class Joining:
    """Decides on joins. ``new_member_id`` turns a prefix into an id that clients cannot guess."""

    def __init__(self, config: GroupConfig, new_member_id: Callable[[str], str]) -> None:
        self._config = config
        self._new_member_id = new_member_id

    def handle_join(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        """Respond at once, or keep the request open until the join phase ends."""
        error = self._validate_joiner(group, request)
        if error is not ErrorCode.NONE:
            member_id = "" if error in _ERRORS_WITHOUT_MEMBER_ID else request.member_id
            decision.reply(context.reply_to, refused(member_id, error))
            return
        decision.stage(group)
        if request.member_id == "":
            self._join_without_id(group, request, context, decision)
        elif request.member_id in group.pending_join_members:
            self._admit(group, request.member_id, request, context, decision)
        else:
            self._join_again(group, request, context, decision)

    def _validate_joiner(self, group: ClassicGroup, request: JoinGroupRequest) -> ErrorCode:
        if group.is_in(GroupState.DEAD):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not group.accepts(request.member_id, self._config.max_size):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if not group.supports(
            request.protocol_type, (protocol.name for protocol in request.protocols)
        ):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if (
            request.group_instance_id is not None
            and request.member_id in group.pending_join_members
        ):
            # Apache Kafka's code. Pending member ids never belong to static members.
            return ErrorCode.UNKNOWN_SERVER_ERROR
        announced_bytes = sum(len(protocol.metadata) for protocol in request.protocols)
        if (
            group.metadata_bytes() + announced_bytes
            > ANNOUNCED_RECORDS * self._config.max_metadata_record_bytes
        ):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return ErrorCode.NONE

    def _join_without_id(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        member_id = self._new_member_id(request.group_instance_id or context.client_id)
        if (
            request.group_instance_id is None
            and context.api_version >= FIRST_JOIN_VERSION_WITH_REQUIRED_ID
        ):
            self._make_room_for_pending(group, decision)
            group.pending_join_members[member_id] = None
            decision.set_timer(
                session_timer(group.group_id, member_id),
                decision.now_ms + request.session_timeout_ms,
            )
            decision.reply(context.reply_to, refused(member_id, ErrorCode.MEMBER_ID_REQUIRED))
        elif request.group_instance_id in group.static_members:
            self._replace_static_member(group, member_id, request, context, decision)
        else:
            self._admit(group, member_id, request, context, decision)

    def _make_room_for_pending(self, group: ClassicGroup, decision: GroupDecision) -> None:
        """Drop the oldest pending member id if the group has too many of them.

        A client that still uses the dropped id gets UNKNOWN_MEMBER_ID and joins again.
        """
        if len(group.pending_join_members) >= MAX_PENDING_MEMBERS:
            oldest = next(iter(group.pending_join_members))
            del group.pending_join_members[oldest]
            decision.cancel_timer(session_timer(group.group_id, oldest))

    def _join_again(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        error = group.validate_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            decision.reply(context.reply_to, refused(request.member_id, error))
            return
        member = group.members[request.member_id]
        is_unchanged = member.protocols == protocols_of(request)
        follows = group.is_in(GroupState.STABLE) and group.leader_id != member.member_id
        if is_unchanged and (follows or group.is_in(GroupState.COMPLETING_REBALANCE)):
            decision.reply(
                context.reply_to,
                joined(group, member, has_members=group.leader_id == member.member_id),
            )
        else:
            self._let_wait(group, member, request, context, decision)

    def _admit(
        self,
        group: ClassicGroup,
        member_id: str,
        request: JoinGroupRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        member = ClassicMember(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=context.client_id,
            client_host=context.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_of(request),
            protocol_type=request.protocol_type,
            protocols=protocols_of(request),
        )
        decision.cancel_timer(session_timer(group.group_id, member_id))
        group.add(member)
        group.has_new_member_joined = True
        keep_alive(group, member, self._config.new_member_join_timeout_ms, decision)
        self._let_wait(group, member, request, context, decision)

    def _let_wait(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        request: JoinGroupRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        decision.stage(member)
        if member.awaiting_join is not None:
            decision.reply(
                member.awaiting_join, refused(member.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            )
        group.await_join(member, context.reply_to)
        group.announce(member, protocols_of(request))
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_of(request)
        self.rebalance_or_complete_join(group, decision)

    def _replace_static_member(
        self,
        group: ClassicGroup,
        member_id: str,
        request: JoinGroupRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        assert request.group_instance_id is not None
        old_id = group.static_members[request.group_instance_id]
        replaced = group.members[old_id]
        decision.stage(replaced, replaced.session)
        member = group.replace_static_member(request.group_instance_id, member_id)
        decision.cancel_timer(session_timer(group.group_id, old_id))
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_of(request)
        member.session.timer_ms = None
        keep_alive(group, member, member.session_timeout_ms, decision)
        if member.awaiting_join is not None:
            decision.reply(member.awaiting_join, refused(old_id, ErrorCode.FENCED_INSTANCE_ID))
            group.await_join(member, None)
        if member.awaiting_sync is not None:
            decision.reply(
                member.awaiting_sync, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID)
            )
            member.awaiting_sync = None
        member.client_id, member.client_host = context.client_id, context.client_host
        group.announce(member, protocols_of(request))
        if group.is_in(GroupState.STABLE) and group.select_protocol() == group.protocol_name:
            decision.append(store_group(group, decision.wall_ms))
            decision.reply(context.reply_to, self._returned(group, member, old_id, context))
        else:
            self._let_wait(group, member, request, context, decision)

    def _returned(
        self, group: ClassicGroup, member: ClassicMember, old_id: str, context: RequestContext
    ) -> JoinGroupResponse:
        """Return the response for a static member that rejoins under a new member id.

        The generation continues, so a leader that returns must not assign partitions again. From
        version 9, ``skip_assignment`` tells it so. Before, the response names its old id as leader.
        """
        is_leader = group.leader_id == member.member_id
        can_skip = context.api_version >= 9
        response = joined(group, member, has_members=is_leader and can_skip)
        response.skip_assignment = is_leader and can_skip
        if is_leader and not can_skip:
            response.leader = old_id
        return response

    def rebalance_or_complete_join(self, group: ClassicGroup, decision: GroupDecision) -> None:
        """Begin a rebalance if the state allows one.

        End the join phase if all members have joined.
        """
        if group.can_rebalance:
            self.begin_rebalance(group, decision)
        self.maybe_complete_join(group, decision)

    def begin_rebalance(self, group: ClassicGroup, decision: GroupDecision) -> None:
        """Begin the join phase. Open syncs of the old generation get REBALANCE_IN_PROGRESS."""
        if group.is_in(GroupState.COMPLETING_REBALANCE):
            self._abandon_sync(group, ErrorCode.REBALANCE_IN_PROGRESS, decision)
        is_first = group.is_in(GroupState.EMPTY)
        group.transition_to(GroupState.PREPARING_REBALANCE, decision.wall_ms)
        timeout_ms = group.rebalance_timeout_ms
        if is_first:
            delay_ms = self._config.initial_rebalance_delay_ms
            group.initial_delay_remaining_ms = max(timeout_ms - delay_ms, 0)
            group.has_new_member_joined = False
            timeout_ms = delay_ms
        decision.set_timer(join_timer(group.group_id), decision.now_ms + timeout_ms)

    def abandon_generation(
        self, group: ClassicGroup, error: ErrorCode, decision: GroupDecision
    ) -> None:
        """Begin a rebalance because the record of a generation cannot be stored.

        The open syncs of this generation get ``error``, and the assignments are emptied.
        """
        self._abandon_sync(group, error, decision)
        self.rebalance_or_complete_join(group, decision)

    def _abandon_sync(self, group: ClassicGroup, error: ErrorCode, decision: GroupDecision) -> None:
        group.pending_sync_members.clear()
        decision.cancel_timer(sync_timer(group.group_id))
        for member in group.members.values():
            decision.stage(member)
            group.assign(member, b"")
            if member.awaiting_sync is not None:
                decision.reply(member.awaiting_sync, SyncGroupResponse(error_code=error))
                member.awaiting_sync = None

    def maybe_complete_join(self, group: ClassicGroup, decision: GroupDecision) -> None:
        """End the join phase if all members have joined and the initial delay is over."""
        if (
            group.is_in(GroupState.PREPARING_REBALANCE)
            and group.initial_delay_remaining_ms is None
            and group.has_all_members_joined
        ):
            self.complete_join(group, decision)

    def on_join_timer(self, group: ClassicGroup, decision: GroupDecision) -> None:
        """End the join phase, or prolong the initial delay while members join (KIP-134)."""
        if not group.is_in(GroupState.PREPARING_REBALANCE):
            return
        decision.stage(group)
        remaining_ms = group.initial_delay_remaining_ms
        if remaining_ms and group.has_new_member_joined:
            delay_ms = min(self._config.initial_rebalance_delay_ms, remaining_ms)
            group.has_new_member_joined = False
            group.initial_delay_remaining_ms = remaining_ms - delay_ms
            decision.set_timer(join_timer(group.group_id), decision.now_ms + delay_ms)
        else:
            self.complete_join(group, decision)

    def complete_join(self, group: ClassicGroup, decision: GroupDecision) -> None:
        """Begin the next generation, and remove the dynamic members that did not join.

        Static members that did not join stay until the sync or session timer removes them. If no
        other members are left, the join phase is prolonged instead.
        """
        group.initial_delay_remaining_ms = None
        for member in [member for member in group.members.values() if member.awaiting_join is None]:
            if member.group_instance_id is None:
                group.remove(member)
                decision.cancel_timer(session_timer(group.group_id, member.member_id))
        if group.members and not group.maybe_elect_joined_leader():
            postponement_ms = max(group.rebalance_timeout_ms, MIN_POSTPONEMENT_MS)
            decision.set_timer(join_timer(group.group_id), decision.now_ms + postponement_ms)
            return
        decision.cancel_timer(join_timer(group.group_id))
        group.begin_next_generation(decision.wall_ms)
        if group.is_in(GroupState.EMPTY):
            decision.append(store_group(group, decision.wall_ms))
            return
        decision.set_timer(sync_timer(group.group_id), decision.now_ms + group.rebalance_timeout_ms)
        for member in group.members.values():
            self._respond_to_join(group, member, decision)

    def _respond_to_join(
        self, group: ClassicGroup, member: ClassicMember, decision: GroupDecision
    ) -> None:
        decision.stage(member)
        if member.awaiting_join is not None:
            is_leader = member.member_id == group.leader_id
            decision.reply(member.awaiting_join, joined(group, member, has_members=is_leader))
        group.await_join(member, None)
        member.is_new = False
        keep_alive(group, member, member.session_timeout_ms, decision)


def keep_alive(
    group: ClassicGroup, member: ClassicMember, session_ms: int, decision: GroupDecision
) -> None:
    """Restart a member's session.

    A timer that is already set for an earlier time stays. When it fires, it finds the later
    deadline and is set again.
    """
    session = member.session
    decision.on_refused(partial(session.set_back, session.deadline_ms, session.timer_ms))
    session.deadline_ms = decision.now_ms + session_ms
    if session.timer_ms is None or session.timer_ms > session.deadline_ms:
        session.timer_ms = session.deadline_ms
        decision.set_timer(session_timer(group.group_id, member.member_id), session.deadline_ms)


def refused(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    """Return the response for a refused join."""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name="")


def joined(group: ClassicGroup, member: ClassicMember, *, has_members: bool) -> JoinGroupResponse:
    """Return the response for a successful join. The leader gets the metadata of all members."""
    members = [
        JoinGroupResponseMember(
            member_id=other.member_id,
            group_instance_id=other.group_instance_id,
            metadata=other.metadata_for(group.protocol_name),
        )
        for other in (group.members.values() if has_members else ())
    ]
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name or "",
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=members,
    )


def protocols_of(request: JoinGroupRequest) -> tuple[tuple[str, bytes], ...]:
    """Return pairs of a protocol name and the member's metadata, in the order of the request."""
    return tuple((protocol.name, protocol.metadata) for protocol in request.protocols)


def rebalance_timeout_of(request: JoinGroupRequest) -> int:
    """Return the rebalance timeout of a request.

    Version 0 has none and uses the session timeout.
    """
    return (
        request.rebalance_timeout_ms
        if request.rebalance_timeout_ms >= 0
        else request.session_timeout_ms
    )
