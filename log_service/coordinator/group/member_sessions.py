"""How long members may be silent: the sessions of the members of one shard's groups, whatever protocol with heartbeats they speak.

It moves deadlines and sets timers; what happens to a member whose session is over is its owner's to say. All of it is soft state, which no
log holds: a refused decision takes it back.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

from log_service.state_machine.decision import Decision

TimerKey = Callable[[str, str], Hashable]
"""Returns the key of the timer of a member's session, by the ids of its group and its own."""


def session_timer(group_id: str, member_id: str) -> tuple[str, str, str]:
    """Key of the timer that removes a silent member of a classic or a consumer group: one of the two kinds may become the other."""
    return ("session", group_id, member_id)


@dataclass(slots=True)
class Session:
    """How long a member may stay silent.

    ``timer_ms`` is when its timer fires next: a heartbeat moves the deadline alone, and the timer follows when it fires.
    """

    deadline_ms: int = 0
    timer_ms: int | None = None

    def set_back(self, deadline_ms: int, timer_ms: int | None) -> None:
        """Set both back. ``Decision.stage`` could do it, but each heartbeat and each commit changes a session, and this costs less."""
        self.deadline_ms, self.timer_ms = deadline_ms, timer_ms


class MemberSessions:
    """The sessions of members, by the ids of their group and their own."""

    def __init__(self, timer_key: TimerKey) -> None:
        self._timer_key = timer_key
        self._sessions: dict[tuple[str, str], Session] = {}

    def __repr__(self) -> str:
        return f"<MemberSessions {len(self._sessions)}>"

    def keep_alive(self, group_id: str, member_id: str, timeout_ms: int, decision: Decision[Any]) -> None:
        """Start a member's session anew. A timer that fires earlier is left alone: it looks at the deadline."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            session = self._sessions[group_id, member_id] = Session()
            decision.on_refused(partial(self._forget, group_id, member_id))
        decision.on_refused(partial(session.set_back, session.deadline_ms, session.timer_ms))
        session.deadline_ms = decision.now_ms + timeout_ms
        if session.timer_ms is None or session.timer_ms > session.deadline_ms:
            session.timer_ms = session.deadline_ms
            decision.set_timer(self._timer_key(group_id, member_id), session.deadline_ms)

    def _forget(self, group_id: str, member_id: str) -> None:
        self._sessions.pop((group_id, member_id), None)

    def is_over(self, group_id: str, member_id: str, decision: Decision[Any]) -> bool:
        """Whether a member whose timer has fired was silent for a whole session; if it was not, the timer is set for the rest of it."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            return False
        decision.stage(session)
        session.timer_ms = None
        if decision.now_ms < session.deadline_ms:
            self.keep_alive(group_id, member_id, session.deadline_ms - decision.now_ms, decision)
            return False
        return True

    def end(self, group_id: str, member_id: str, decision: Decision[Any]) -> None:
        """Forget the session of a member that goes."""
        decision.cancel_timer(self._timer_key(group_id, member_id))
        session = self._sessions.pop((group_id, member_id), None)
        if session is not None:
            decision.on_refused(partial(self._sessions.__setitem__, (group_id, member_id), session))
