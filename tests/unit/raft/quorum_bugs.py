"""The simulation notices each bug that is planted in the quorum's rules.

One that never caught a bug proves nothing.
"""

from dataclasses import dataclass
from typing import Any

from log_service.raft import leadership, roles, transitions, voter_changes
from log_service.raft.core import RaftCore
from log_service.raft.leader import Leader
from log_service.raft.replica import Replica
from log_service.raft.roles import ElectionState, Role
from tests.unit.raft.quorum import MemoryLog

_become_follower = transitions.become_follower
_is_vote_granted = roles.is_vote_granted
_note_synced = leadership.note_synced
_remembered = roles.remembered
_first_role = RaftCore.first_role


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A bug has a description, and the (owner, name, replacement) that plant it."""

    name: str
    replacements: tuple[tuple[Any, str, Any], ...]


def count_what_is_not_synced(replica: Replica, leader: Leader) -> None:
    replica.synced_end_offset = replica.log.end_offset
    _note_synced(replica, leader)


def note_log_as_synced(replica: Replica, leader: Leader, *, has_voters: bool) -> None:
    _note_log(replica, leader, has_voters=has_voters)
    count_what_is_not_synced(replica, leader)


_note_log = leadership.note_log


def _forget_the_vote(role: Role) -> ElectionState:
    return _remembered(role)._replace(voted_id=roles.NOT_VOTED)


def _follow_and_truncate(replica: Replica, epoch: Any, leader_id: Any, endpoints: Any) -> bool:
    """Cut the log to the high watermark, as followers did before KIP-101."""
    is_following = _become_follower(replica, epoch, leader_id, endpoints)
    log = replica.log
    assert isinstance(log, MemoryLog)
    log.truncate_to(max(replica.high_watermark, log.start_offset))
    replica.synced_end_offset = log.synced_end_offset
    return is_following


def _grant_any_pre_vote(
    role: Role, candidate: Any, *, is_up_to_date: bool, is_pre_vote: bool
) -> bool:
    if is_pre_vote:
        return is_up_to_date and not isinstance(role, Leader)
    return _is_vote_granted(role, candidate, is_up_to_date=is_up_to_date, is_pre_vote=is_pre_vote)


def _vote_for_anyone(role: Role, candidate: Any, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
    return _is_vote_granted(role, candidate, is_up_to_date=True, is_pre_vote=is_pre_vote)


def _allow_any_change(_leader: Any, _latest: Any) -> None:
    return None


def _advance_before_the_start(self: Leader) -> bool:
    ends = sorted((progress.end_offset for progress in self.voter_progress()), reverse=True)
    if ends[len(ends) // 2] <= self.high_watermark:
        return False
    self.high_watermark = ends[len(ends) // 2]
    return True


def _lead_on(self: RaftCore) -> Role:
    role = _first_role(self)
    if isinstance(role, roles.Resigned):
        replica = self.replica
        return Leader(
            epoch=role.epoch,
            own=role.own,
            epoch_start_offset=replica.log.end_offset - 1,
            voters=replica.voters,
            check_quorum_ms=replica.config.check_quorum_ms,
            now_ms=replica.now_ms,
        )
    return role


BUGS = (
    Bug(
        name="fetched before the sync",
        replacements=(
            (Replica, "is_log_durable", property(lambda self: not self.is_log_changing)),
        ),
    ),
    Bug(
        name="leader counts what it has not synced",
        replacements=(
            (leadership, "note_synced", count_what_is_not_synced),
            (leadership, "note_log", note_log_as_synced),
        ),
    ),
    Bug(
        name="vote not written down",
        replacements=(
            (roles, "remembered", _forget_the_vote),
            ("log_service.raft.core", "remembered", _forget_the_vote),
        ),
    ),
    Bug(
        name="truncated to the high watermark",
        replacements=(
            (transitions, "become_follower", _follow_and_truncate),
            ("log_service.raft.elections", "become_follower", _follow_and_truncate),
        ),
    ),
    Bug(
        name="pre-vote that disturbs",
        replacements=(("log_service.raft.elections", "is_vote_granted", _grant_any_pre_vote),),
    ),
    Bug(
        name="voted for a shorter log",
        replacements=(("log_service.raft.elections", "is_vote_granted", _vote_for_anyone),),
    ),
    Bug(
        name="second voter change before the first is committed",
        replacements=((voter_changes, "check_no_other_change", _allow_any_change),),
    ),
    Bug(
        name="committed before the epoch's start",
        replacements=((Leader, "advance_high_watermark", _advance_before_the_start),),
    ),
    Bug(name="a restart leads on", replacements=((RaftCore, "first_role", _lead_on),)),
)
