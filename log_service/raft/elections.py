"""Votes and leaders: how a replica responds in elections and which leaders it accepts.

This file decides which requests of other replicas are valid, in Kafka's order, when a vote is
granted, and how a replica handles a leader or an epoch that another replica names. Of the log it
reads only the end.

Invariants: A replica that learns of a higher epoch enters it before it sends anything. A peer that
contradicts known facts about the current epoch is ignored. A request for another replica is refused
after its epoch has been learned.
"""

from collections.abc import Sequence
from dataclasses import replace

from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.leader import Leader
from log_service.raft.log_view import EpochEnd, end_below
from log_service.raft.messages import (
    NO_LEADER,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Response,
    VoteRequest,
    VoteResponse,
)
from log_service.raft.replica import Replica
from log_service.raft.roles import Candidate, Follower, Prospective, Unattached, is_vote_granted
from log_service.raft.transitions import (
    become,
    become_candidate,
    become_follower,
    become_leader,
    become_prospective,
    become_unattached,
)
from log_service.raft.voters import ReplicaKey, VoterEndpoint

# What is due


def poll_election(replica: Replica, role: Prospective | Candidate) -> None:
    """Request votes from the undecided voters, until the election is lost or its time is over.

    When its time is over, a candidate requests pre-votes again, and a prospective replica gives up.
    """
    if not replica.is_shutting_down and replica.is_due(role.election_deadline_ms):
        if isinstance(role, Candidate):
            become_prospective(replica)
        else:
            _give_up(replica, role)
        return
    if role.votes.is_lost:
        return
    for key in role.votes.undecided:
        replica.send_to_voter(
            key, _vote_request(replica, key, is_pre_vote=isinstance(role, Prospective))
        )


def _vote_request(replica: Replica, voter: ReplicaKey, *, is_pre_vote: bool) -> VoteRequest:
    return VoteRequest(
        voter=voter,
        candidate=replica.own,
        epoch=replica.epoch,
        last_epoch=replica.log.last_epoch,
        end_offset=replica.log.end_offset,
        is_pre_vote=is_pre_vote,
    )


def _give_up(replica: Replica, role: Prospective) -> None:
    """Follow the known leader again, or none, because the election would not be won."""
    if role.leader_id != NO_LEADER and role.leader_endpoints:
        become_follower(replica, role.epoch, role.leader_id, role.leader_endpoints)
    else:
        become_unattached(replica, role.epoch, role.leader_id)


# Votes


def handle_vote(replica: Replica, request: VoteRequest) -> VoteResponse:
    """Grant or refuse a vote.

    The candidate need not be a known voter, because this replica may not know of a new voter yet.
    """
    error = _check_vote(replica, request)
    if error is not ErrorCode.NONE:
        return replica.response(VoteResponse, error)
    if request.epoch > replica.epoch:
        become_unattached(replica, request.epoch)
    if not _is_addressed(replica, request.voter):
        return replica.response(VoteResponse, ErrorCode.INVALID_VOTER_KEY)
    is_granted = request.candidate.node_id != replica.own.node_id and is_vote_granted(
        replica.role,
        request.candidate,
        is_up_to_date=_is_up_to_date(replica, request),
        is_pre_vote=request.is_pre_vote,
    )
    if is_granted and not request.is_pre_vote:
        _vote_for(replica, request.candidate)
    return replace(replica.response(VoteResponse), is_granted=is_granted)


def _check_vote(replica: Replica, request: VoteRequest) -> ErrorCode:
    """Return NONE if a vote request is valid, else its error.

    A candidate's epoch must be above all epochs in its log. A pre-vote's epoch may equal the last
    epoch in the log, because its sender may have records of the current leader.
    """
    is_epoch_valid = (
        request.last_epoch <= request.epoch
        if request.is_pre_vote
        else request.last_epoch < request.epoch
    )
    if request.end_offset < 0 or request.last_epoch < 0 or not is_epoch_valid:
        return ErrorCode.INVALID_REQUEST
    return _check_voter_request(replica, request.candidate.node_id, request.epoch)


def _check_voter_request(replica: Replica, sender_id: NodeId, epoch: LeaderEpoch) -> ErrorCode:
    if epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.INVALID_REQUEST if sender_id < 0 else ErrorCode.NONE


def _is_addressed(replica: Replica, key: ReplicaKey | None) -> bool:
    """Whether a request is meant for this replica. Older versions do not name a replica."""
    if key is None:
        return True
    return key.node_id == replica.own.node_id and (
        key.directory_id.int == 0 or key.directory_id == replica.own.directory_id
    )


def _is_up_to_date(replica: Replica, request: VoteRequest) -> bool:
    end = _end_with_own_vote(replica)
    return (request.last_epoch, request.end_offset) >= end


def _end_with_own_vote(replica: Replica) -> EpochEnd:
    """Return the end up to which a candidate must have the log to get this replica's vote.

    If the newest voter set excludes this replica, only the records before this set count. Later
    records are committed without this replica, by a majority of the other voters. A candidate needs
    votes of a majority of these voters, so at least one of them has the records. If this replica
    required the records too, a quorum of two would be lost when its leader removed itself and died
    before the other voter had the record. Each of the two would then need the other's vote.
    """
    log, latest = replica.log, replica.history.latest
    if replica.is_voter or latest.offset <= log.start_offset:
        return EpochEnd(log.last_epoch, log.end_offset)
    return end_below(log, latest.offset)


def _vote_for(replica: Replica, candidate: ReplicaKey) -> None:
    """Store the first vote of this epoch, and restart the election timer."""
    role = replica.role
    if isinstance(role, Unattached) and role.voted is None:
        deadline_ms = replica.election_deadline_ms()
        become(
            replica,
            Unattached(
                epoch=role.epoch,
                leader_id=role.leader_id,
                voted=candidate,
                election_deadline_ms=deadline_ms,
            ),
        )
    elif isinstance(role, Prospective) and role.voted is None:
        become_prospective(replica, voted=candidate)


def take_vote_response(replica: Replica, voter_id: NodeId, response: VoteResponse) -> bool:
    """Count a vote. Return whether the peer may be sent another request at once."""
    settled = settle(replica, response)
    if settled is not None:
        return settled
    if response.error is not ErrorCode.NONE:
        return False
    role = replica.role
    if isinstance(role, Prospective | Candidate):
        role.votes.note(voter_id, is_granted=response.is_granted)
        if role.votes.is_won and isinstance(role, Prospective):
            become_candidate(replica)
        elif role.votes.is_won and isinstance(role, Candidate):
            become_leader(replica, role)
        elif role.votes.is_lost and isinstance(role, Prospective):
            _give_up(replica, role)
    return True


def take_vote_failure(replica: Replica, request: VoteRequest, error: ErrorCode) -> None:
    """Hold the election without pre-votes if a voter does not know pre-votes."""
    if (
        error is ErrorCode.UNSUPPORTED_VERSION
        and request.is_pre_vote
        and isinstance(replica.role, Prospective)
    ):
        become_candidate(replica)


# Leaders


def handle_begin_quorum_epoch(
    replica: Replica, request: BeginQuorumEpochRequest
) -> BeginQuorumEpochResponse:
    """Follow the leader that sends the request."""
    error = _check_voter_request(replica, request.leader_id, request.epoch)
    if error is ErrorCode.NONE and not learn_leader(
        replica, request.leader_id, request.epoch, request.leader_endpoints
    ):
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    if error is ErrorCode.NONE and not _is_addressed(replica, request.voter):
        error = ErrorCode.INVALID_VOTER_KEY
    return replica.response(BeginQuorumEpochResponse, error)


def handle_end_quorum_epoch(
    replica: Replica, request: EndQuorumEpochRequest
) -> EndQuorumEpochResponse:
    """Schedule an election, with a delay that depends on the leader's order of successors."""
    error = _check_voter_request(replica, request.leader_id, request.epoch)
    if error is ErrorCode.NONE and not learn_leader(
        replica, request.leader_id, request.epoch, request.leader_endpoints
    ):
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    role = replica.role
    if (
        error is ErrorCode.NONE
        and isinstance(role, Follower)
        and role.leader_id == request.leader_id
    ):
        place = _place_of(replica.own, request.successors)
        role.awaits_sync = False
        role.fetch_deadline_ms = replica.now_ms + successor_delay_ms(
            place, len(request.successors), replica.config.election_backoff_max_ms
        )
    return replica.response(EndQuorumEpochResponse, error)


def _place_of(own: ReplicaKey, successors: Sequence[ReplicaKey]) -> int:
    """Return this replica's index in ``successors``, or their number if it is not among them."""
    matching = (
        place
        for place, key in enumerate(successors)
        if key.node_id == own.node_id
        and (key.directory_id.int == 0 or key.directory_id == own.directory_id)
    )
    return next(matching, len(successors))


def successor_delay_ms(place: int, count: int, max_ms: int) -> int:
    """Return the delay before a successor begins an election.

    ``place`` is the index of the successor among ``count`` successors. The first one has no delay.
    The delay doubles with each later one. A replica that is no successor waits for ``max_ms``.
    """
    if place == 0:
        return 0
    if place >= count:
        return max_ms
    return min(max_ms, (max_ms >> (count - 1)) << (place - 1))


def learn_leader(
    replica: Replica, leader_id: NodeId, epoch: LeaderEpoch, endpoints: tuple[VoterEndpoint, ...]
) -> bool:
    """Accept the leader of an epoch that is not below this replica's epoch.

    Return false if the leader contradicts known facts: an epoch cannot have two leaders, and this
    node cannot lead an epoch without knowing. Apache Kafka's process ends in such a case. This
    process ignores the peer, because its own log and epoch remain correct.
    """
    if not _is_consistent(replica, leader_id, epoch):
        return False
    if epoch > replica.epoch:
        if leader_id == NO_LEADER:
            become_unattached(replica, epoch)
        else:
            become_follower(replica, epoch, leader_id, endpoints)
    elif leader_id not in {NO_LEADER, replica.own.node_id} and _knows_less(replica, endpoints):
        become_follower(replica, epoch, leader_id, endpoints)
    return True


def _is_consistent(replica: Replica, leader_id: NodeId, epoch: LeaderEpoch) -> bool:
    if leader_id == replica.own.node_id:
        is_own = epoch == replica.epoch and replica.leader_id == leader_id
        if not is_own:
            replica.effects.rival_epoch = epoch
        return is_own
    return (
        epoch != replica.epoch
        or NO_LEADER in {leader_id, replica.leader_id}
        or leader_id == replica.leader_id
    )


def _knows_less(replica: Replica, endpoints: tuple[VoterEndpoint, ...]) -> bool:
    return replica.leader_id == NO_LEADER or len(endpoints) > len(replica.leader_endpoints)


def settle(replica: Replica, response: Response) -> bool | None:
    """Apply the fields that all responses share.

    Return None if the rest of the response must still be processed. Otherwise the result is whether
    the peer may be sent another request at once.
    """
    if response.error is ErrorCode.UNKNOWN_LEADER_EPOCH:
        return False  # the peer does not know the epoch yet, for example after the loss of its disk
    if response.epoch < replica.epoch:
        return True
    is_stale = response.error in {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER}
    if response.epoch > replica.epoch or is_stale:
        learn_leader(replica, response.leader_id, response.epoch, response.leader_endpoints)
        return not is_stale
    if not _is_consistent(replica, response.leader_id, response.epoch):
        return False
    if response.leader_id != NO_LEADER and not isinstance(replica.role, Leader | Follower):
        is_known = replica.leader_id == response.leader_id and bool(replica.leader_endpoints)
        if not is_known:
            learn_leader(replica, response.leader_id, response.epoch, response.leader_endpoints)
        return None if response.error is ErrorCode.NONE else True
    return (
        False
        if response.error in {ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.INVALID_VOTER_KEY}
        else None
    )
