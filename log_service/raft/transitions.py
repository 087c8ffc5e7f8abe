"""Change the role of a replica, as the table of ``roles`` allows.

This file decides the first state of each role: its timers, its votes, and the state that it takes
from the previous role. ``elections``, ``leadership`` and ``following`` decide when a role changes.

Invariants: ``core`` sets the first role at a start. After that, roles change only in ``become``,
and only as the table allows. Responses to requests of the previous role no longer count.
"""

from log_service.common.errors import ErrorCode
from log_service.common.features import DYNAMIC_QUORUM
from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.events import AppendControl
from log_service.raft.leader import Leader
from log_service.raft.messages import NO_LEADER, FetchResponse, VoterChangeResponse
from log_service.raft.replica import Replica
from log_service.raft.roles import (
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Role,
    Unattached,
    Votes,
    may_follow,
    remembered,
)
from log_service.raft.voters import ReplicaKey, VoterEndpoint, VoterSet


def become(replica: Replica, role: Role) -> None:
    """Change the role.

    Responses to this replica's earlier requests no longer count. If the replica was the leader,
    waiting requests of other replicas get NOT_LEADER_OR_FOLLOWER.
    """
    old = replica.role
    assert may_follow(old, role), f"{old} cannot become {role}"
    replica.role = role
    replica.connections.forget()
    if isinstance(old, Leader):
        _refuse_what_waits(replica, old)


def _refuse_what_waits(replica: Replica, leader: Leader) -> None:
    for fetch in leader.parked:
        replica.reply(
            fetch.reply_to, replica.response(FetchResponse, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        )
    if leader.pending is not None and leader.pending.reply_to is not None:
        replica.reply(
            leader.pending.reply_to,
            replica.response(VoterChangeResponse, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        )


def become_unattached(replica: Replica, epoch: LeaderEpoch, leader_id: NodeId = NO_LEADER) -> None:
    """Change to a role without a leader to fetch from. A running election timer continues."""
    role = replica.role
    is_lost = isinstance(role, Prospective) and role.votes.is_lost
    if isinstance(role, Unattached | Prospective | Candidate | Resigned) and not is_lost:
        deadline_ms = role.election_deadline_ms
    else:
        deadline_ms = replica.election_deadline_ms()
    voted = remembered(role).voted if epoch == role.epoch else None
    become(
        replica,
        Unattached(epoch=epoch, leader_id=leader_id, voted=voted, election_deadline_ms=deadline_ms),
    )


def become_follower(
    replica: Replica, epoch: LeaderEpoch, leader_id: NodeId, endpoints: tuple[VoterEndpoint, ...]
) -> bool:
    """Fetch from a leader, and return true. Return false if the leader's address is unknown.

    In this case the replica becomes unattached if the epoch is a new one.
    """
    endpoints = endpoints or replica.voters.endpoints_of(leader_id)
    if not endpoints:
        if epoch > replica.epoch:
            become_unattached(replica, epoch, leader_id)
        return False
    voted = remembered(replica.role).voted if epoch == replica.epoch else None
    become(replica, new_follower(replica, epoch, leader_id, endpoints, voted))
    return True


def new_follower(
    replica: Replica,
    epoch: LeaderEpoch,
    leader_id: NodeId,
    endpoints: tuple[VoterEndpoint, ...],
    voted: ReplicaKey | None,
) -> Follower:
    """Return the role of a follower that has not fetched from its leader yet."""
    deadline_ms = replica.now_ms + replica.config.fetch_timeout_ms
    return Follower(
        epoch=epoch,
        leader_id=leader_id,
        leader_endpoints=endpoints,
        voted=voted,
        fetch_deadline_ms=deadline_ms,
        update_voter_deadline_ms=deadline_ms,
    )


def become_prospective(replica: Replica, voted: ReplicaKey | None = None) -> None:
    """Request pre-votes. The only voter becomes leader at once.

    The known leader stays, and so does the vote unless ``voted`` replaces it.
    """
    state = remembered(replica.role)
    role = Prospective(
        epoch=replica.epoch,
        leader_id=state.leader_id,
        leader_endpoints=replica.leader_endpoints,
        voted=voted or state.voted,
        votes=_own_vote(replica),
        election_deadline_ms=replica.election_deadline_ms(),
    )
    become(replica, role)
    if role.votes.is_won:
        become_candidate(replica)


def become_candidate(replica: Replica) -> None:
    """Begin a new epoch with a vote for this replica itself."""
    epoch = LeaderEpoch(replica.epoch + 1)
    role = Candidate(
        epoch=epoch,
        own=replica.own,
        votes=_own_vote(replica),
        election_deadline_ms=replica.election_deadline_ms(),
    )
    become(replica, role)
    if role.votes.is_won:
        become_leader(replica, role)


def _own_vote(replica: Replica) -> Votes:
    votes = Votes(replica.voters)
    votes.note(replica.own.node_id, is_granted=True)
    return votes


def become_leader(replica: Replica, candidate: Candidate) -> None:
    """Lead the epoch, and append its first records.

    The voters are among them if ``_voters_to_write`` returns any.
    """
    leader = Leader(
        epoch=candidate.epoch,
        own=replica.own,
        epoch_start_offset=replica.log.end_offset,
        voters=replica.voters,
        check_quorum_ms=replica.config.check_quorum_ms,
        now_ms=replica.now_ms,
    )
    if replica.history.latest.kraft_version < DYNAMIC_QUORUM:
        leader.volatile_voters = replica.voters.with_voter(replica.own_entry())
    become(replica, leader)
    leader.note_synced(replica.synced_end_offset)
    voters = _voters_to_write(replica)
    replica.change_log(
        AppendControl(
            epoch=leader.epoch,
            granting_ids=candidate.votes.granting_ids,
            voter_ids=tuple(voter.node_id for voter in replica.voters),
            kraft_version=replica.history.latest.kraft_version if voters is not None else None,
            voters=voters,
        )
    )


def _voters_to_write(replica: Replica) -> VoterSet | None:
    """Return the voters that a new leader writes, or None.

    They are written if the log has none yet, or if the leader's own entry is out of date. At
    kraft.version 0 they are never written.
    """
    latest = replica.history.latest
    if latest.kraft_version < DYNAMIC_QUORUM:
        return None
    if replica.is_own_entry_outdated():
        return latest.voters.with_voter(replica.own_entry())
    return latest.voters if latest.offset < 0 else None


def resign(replica: Replica, leader: Leader) -> None:
    """Stop leading in this epoch, and propose successors to the voters."""
    become(
        replica,
        Resigned(
            epoch=leader.epoch,
            own=replica.own,
            successors=leader.successors(),
            unacknowledged=[
                voter.key for voter in replica.voters if voter.node_id != replica.own.node_id
            ],
            election_deadline_ms=replica.election_deadline_ms(),
        ),
    )
