"""Sessions of the members of one shard's groups, for every protocol that has heartbeats.

This file moves deadlines and sets timers. Its caller decides what happens to a member whose session
has expired. Sessions are not in the log. If a decision is refused, its changes to sessions are
reverted.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

from log_service.coordinator.group.timer_kinds import TimerKind
from log_service.state_machine.decision import Decision

TimerKey = Callable[[str, str], Hashable]
"""Returns the key of a session's timer for a group id and a member id."""


def session_timer(group_id: str, member_id: str) -> tuple[str, str, str]:
    """Return the key of the timer that removes a silent member of a classic or a consumer group.

    Both kinds share the key, because a group may change from one kind to the other.
    """
    return (TimerKind.SESSION, group_id, member_id)


@dataclass(slots=True)
class Session:
    """The session of one member.

    The timer fires at ``timer_ms``. A heartbeat moves only the deadline. The timer is set again
    when it fires before the deadline.
    """

    deadline_ms: int = 0
    timer_ms: int | None = None

    def set_back(self, deadline_ms: int, timer_ms: int | None) -> None:
        """Restore both fields after a refused decision.

        ``Decision.stage`` could also restore them. This method is cheaper, and every heartbeat and
        every commit changes a session.
        """
        self.deadline_ms, self.timer_ms = deadline_ms, timer_ms


class MemberSessions:
    """The sessions of members, by group id and member id."""

    def __init__(self, timer_key: TimerKey) -> None:
        self._timer_key = timer_key
        self.sessions: dict[tuple[str, str], Session] = {}

    def __repr__(self) -> str:
        return f"<MemberSessions {len(self.sessions)}>"

    def keep_alive(
        self, group_id: str, member_id: str, timeout_ms: int, decision: Decision[Any]
    ) -> None:
        """Restart a member's session.

        A timer that is already set for an earlier time stays. When it fires, it finds the later
        deadline and is set again.
        """
        session = self.sessions.get((group_id, member_id))
        if session is None:
            session = self.sessions[group_id, member_id] = Session()
            decision.on_refused(partial(self._forget, group_id, member_id))
        decision.on_refused(partial(session.set_back, session.deadline_ms, session.timer_ms))
        session.deadline_ms = decision.now_ms + timeout_ms
        if session.timer_ms is None or session.timer_ms > session.deadline_ms:
            session.timer_ms = session.deadline_ms
            decision.set_timer(self._timer_key(group_id, member_id), session.deadline_ms)

    def _forget(self, group_id: str, member_id: str) -> None:
        self.sessions.pop((group_id, member_id), None)

    def is_over(self, group_id: str, member_id: str, decision: Decision[Any]) -> bool:
        """Return whether a member's session has expired when its timer fires.

        If the session has not expired, the timer is set for the rest of it.
        """
        session = self.sessions.get((group_id, member_id))
        if session is None:
            return False
        decision.stage(session)
        session.timer_ms = None
        if decision.now_ms < session.deadline_ms:
            self.keep_alive(group_id, member_id, session.deadline_ms - decision.now_ms, decision)
            return False
        return True

    def end(self, group_id: str, member_id: str, decision: Decision[Any]) -> None:
        """Remove the session of a removed member and cancel its timer."""
        decision.cancel_timer(self._timer_key(group_id, member_id))
        session = self.sessions.pop((group_id, member_id), None)
        if session is not None:
            decision.on_refused(partial(self.sessions.__setitem__, (group_id, member_id), session))
