"""Deadlines of the members of consumer groups: heartbeats, revocation, rejoining, and syncing.

This file only sets timers and moves deadlines. ``ConsumerRemovals`` decides what to do when a
deadline expires. Deadlines are not in the log, and they start again when a group is loaded. A
member of the consumer protocol has a session, and a rebalance timer while it revokes partitions. A
member of the classic protocol has a session of its own length. Its join timer runs while the member
must rejoin, and its sync timer runs after it has joined.
"""

from functools import partial

from log_service.coordinator.group.group_settings import GroupSettings
from log_service.coordinator.group.member_sessions import MemberSessions, session_timer
from log_service.coordinator.group.records.codec import GroupRecord
from log_service.coordinator.group.timer_kinds import TimerKind
from log_service.coordinator.group.values.consumer_member import ConsumerMember
from log_service.state_machine.decision import Decision

GroupDecision = Decision[GroupRecord]


def rebalance_timer(group_id: str, member_id: str, epoch: int) -> tuple[str, str, str, int]:
    """Return the key of the timer that removes a member that does not revoke its partitions."""
    return (TimerKind.REBALANCE, group_id, member_id, epoch)


def join_timer(group_id: str, member_id: str) -> tuple[str, str, str]:
    """Return the key of the timer that removes a classic member that does not rejoin."""
    return (TimerKind.JOIN, group_id, member_id)


def sync_timer(group_id: str, member_id: str) -> tuple[str, str, str]:
    """Return the key of the timer that removes a classic member that joined but does not sync."""
    return (TimerKind.SYNC, group_id, member_id)


class ConsumerSessions:
    """The deadlines of all members of one shard's consumer groups."""

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self.members = MemberSessions(session_timer)
        self.awaited_joins: set[tuple[str, str]] = set()

    def keep_alive(
        self, group_id: str, member_id: str, timeout_ms: int, decision: GroupDecision
    ) -> None:
        """Restart a member's session."""
        self.members.keep_alive(group_id, member_id, timeout_ms, decision)

    def is_over(self, group_id: str, member_id: str, decision: GroupDecision) -> bool:
        """Return whether a member's session has expired when its timer fires.

        If the session has not expired, the timer is set for the rest of it.
        """
        return self.members.is_over(group_id, member_id, decision)

    def timeout_ms(self, group_id: str, member: ConsumerMember) -> int:
        """Return a member's session timeout. A classic member has a timeout of its own."""
        classic = member.subscription.classic
        return (
            self._settings.session_timeout_ms(group_id)
            if classic is None
            else classic.session_timeout_ms
        )

    def end(self, group_id: str, member: ConsumerMember, decision: GroupDecision) -> None:
        """Cancel all timers of a removed member."""
        member_id = member.member_id
        self.members.end(group_id, member_id, decision)
        decision.cancel_timer(rebalance_timer(group_id, member_id, member.current.epoch))
        if member.is_classic:
            self.note_join(group_id, member_id, decision)
            decision.cancel_timer(sync_timer(group_id, member_id))

    # Members of the consumer protocol

    def await_revocation(
        self, group_id: str, member: ConsumerMember, decision: GroupDecision
    ) -> None:
        """Start the timer within which a member must revoke partitions.

        A classic member has no such timer, because it must rejoin instead.
        """
        if not member.is_classic:
            key = rebalance_timer(group_id, member.member_id, member.current.epoch)
            decision.set_timer(key, decision.now_ms + member.subscription.rebalance_timeout_ms)

    def note_revocation(
        self, group_id: str, member: ConsumerMember, decision: GroupDecision
    ) -> None:
        """Cancel a member's rebalance timer, because the member has revoked its partitions."""
        decision.cancel_timer(rebalance_timer(group_id, member.member_id, member.current.epoch))

    # Members of the classic protocol

    def await_join(self, group_id: str, member: ConsumerMember, decision: GroupDecision) -> None:
        """Start a member's join timer, unless it is already running."""
        key = (group_id, member.member_id)
        if key not in self.awaited_joins:
            self.awaited_joins.add(key)
            decision.on_refused(partial(self.awaited_joins.discard, key))
            decision.set_timer(
                join_timer(*key), decision.now_ms + member.subscription.rebalance_timeout_ms
            )

    def note_join(self, group_id: str, member_id: str, decision: GroupDecision) -> None:
        """Cancel a member's join timer, because the member has joined or need not join any more."""
        key = (group_id, member_id)
        if key in self.awaited_joins:
            self.awaited_joins.discard(key)
            decision.on_refused(partial(self.awaited_joins.add, key))
            decision.cancel_timer(join_timer(*key))

    def await_sync(
        self, group_id: str, member_id: str, timeout_ms: int, decision: GroupDecision
    ) -> None:
        """Start the sync timer of a member that has joined."""
        decision.set_timer(sync_timer(group_id, member_id), decision.now_ms + timeout_ms)

    def note_sync(self, group_id: str, member_id: str, decision: GroupDecision) -> None:
        """Cancel a member's sync timer, because the member has synced."""
        decision.cancel_timer(sync_timer(group_id, member_id))
