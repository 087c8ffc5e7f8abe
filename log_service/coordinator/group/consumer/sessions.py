"""How long each member of a consumer group may take: for its next sign of life, to give partitions up, to join again, and to sync.

It sets timers and moves deadlines, and decides nothing else: what happens when one is over is ``ConsumerRemovals``'. All of it is soft
state, which no log holds and which is begun anew when a group is loaded. Members of the consumer protocol have a session and, while they
give partitions up, a rebalance timer; those of the classic protocol have a session of their own length, a join timer from when they are
told to join again, and a sync timer from when they have joined.
"""

from functools import partial

from log_service.coordinator.group.group_settings import GroupSettings
from log_service.coordinator.group.member_sessions import MemberSessions, session_timer
from log_service.coordinator.group.records.codec import GroupRecord
from log_service.coordinator.group.values.consumer_member import ConsumerMember
from log_service.state_machine.decision import Decision

GroupDecision = Decision[GroupRecord]


def rebalance_timer(group_id: str, member_id: str, epoch: int) -> tuple[str, str, str, int]:
    """Key of the timer that removes a member that does not give partitions up."""
    return ("rebalance", group_id, member_id, epoch)


def join_timer(group_id: str, member_id: str) -> tuple[str, str, str]:
    """Key of the timer that removes a classic member that was told to join again and does not."""
    return ("join", group_id, member_id)


def sync_timer(group_id: str, member_id: str) -> tuple[str, str, str]:
    """Key of the timer that removes a classic member that has joined and does not sync."""
    return ("sync", group_id, member_id)


class ConsumerSessions:
    """The times of all members of one shard's consumer groups."""

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._sessions = MemberSessions(session_timer)
        self._awaited_joins: set[tuple[str, str]] = set()

    def keep_alive(self, group_id: str, member_id: str, timeout_ms: int, decision: GroupDecision) -> None:
        """Start a member's session anew."""
        self._sessions.keep_alive(group_id, member_id, timeout_ms, decision)

    def is_over(self, group_id: str, member_id: str, decision: GroupDecision) -> bool:
        """Whether a member whose timer has fired was silent for a whole session."""
        return self._sessions.is_over(group_id, member_id, decision)

    def timeout_ms(self, group_id: str, member: ConsumerMember) -> int:
        """Return how long a member may be silent: a classic one has said so itself."""
        classic = member.subscription.classic
        return self._settings.session_timeout_ms(group_id) if classic is None else classic.session_timeout_ms

    def end(self, group_id: str, member: ConsumerMember, decision: GroupDecision) -> None:
        """Forget all times of a member that goes."""
        member_id = member.member_id
        self._sessions.end(group_id, member_id, decision)
        decision.cancel_timer(rebalance_timer(group_id, member_id, member.current.epoch))
        if member.is_classic:
            self.note_join(group_id, member_id, decision)
            decision.cancel_timer(sync_timer(group_id, member_id))

    # Members of the consumer protocol

    def await_revocation(self, group_id: str, member: ConsumerMember, decision: GroupDecision) -> None:
        """Give a member as much time as it asked for to give partitions up; a classic one shows that by joining again."""
        if not member.is_classic:
            key = rebalance_timer(group_id, member.member_id, member.current.epoch)
            decision.set_timer(key, decision.now_ms + member.subscription.rebalance_timeout_ms)

    def note_revocation(self, group_id: str, member: ConsumerMember, decision: GroupDecision) -> None:
        """Note that a member has given up what it had to in its epoch."""
        decision.cancel_timer(rebalance_timer(group_id, member.member_id, member.current.epoch))

    # Members of the classic protocol

    def await_join(self, group_id: str, member: ConsumerMember, decision: GroupDecision) -> None:
        """Have a member join again in time; being told so once more gives it no more time."""
        key = (group_id, member.member_id)
        if key not in self._awaited_joins:
            self._awaited_joins.add(key)
            decision.on_refused(partial(self._awaited_joins.discard, key))
            decision.set_timer(join_timer(*key), decision.now_ms + member.subscription.rebalance_timeout_ms)

    def note_join(self, group_id: str, member_id: str, decision: GroupDecision) -> None:
        """Note that a member has joined, or need not any more."""
        key = (group_id, member_id)
        if key in self._awaited_joins:
            self._awaited_joins.discard(key)
            decision.on_refused(partial(self._awaited_joins.add, key))
            decision.cancel_timer(join_timer(*key))

    def await_sync(self, group_id: str, member_id: str, timeout_ms: int, decision: GroupDecision) -> None:
        """Have a member that has joined sync in time."""
        decision.set_timer(sync_timer(group_id, member_id), decision.now_ms + timeout_ms)

    def note_sync(self, group_id: str, member_id: str, decision: GroupDecision) -> None:
        """Note that a member has synced."""
        decision.cancel_timer(sync_timer(group_id, member_id))
