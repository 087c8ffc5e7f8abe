"""The leader's side: serve fetches, notify and change voters, and resign.

This file decides the content and the time of a fetch response, when voters are notified of their
leader again, how a change of voters proceeds, and when a leader resigns. ``leader`` decides which
replicas count towards a majority.

Invariants: A response never contains a high watermark that was not committed in this epoch. A fetch
without a result waits, and every append and every move of the high watermark wakes it. Every
waiting request gets a response when the leader resigns.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace

from log_service.common.errors import ErrorCode
from log_service.common.features import DYNAMIC_QUORUM
from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft import voter_changes
from log_service.raft.elections import settle
from log_service.raft.events import AppendControl
from log_service.raft.leader import Leader, ParkedFetch, PendingVoterChange
from log_service.raft.log_view import BOOTSTRAP_SNAPSHOT, VALID, FetchCheck, check_fetch
from log_service.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    KRaftVersionRequest,
    KRaftVersionResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
    UpgradeRequest,
    VoterChangeResponse,
)
from log_service.raft.replica import Replica
from log_service.raft.roles import Resigned
from log_service.raft.transitions import become_unattached, resign
from log_service.raft.twins import Twins
from log_service.raft.voters import ReplicaKey, VoterSet

# What is due


def poll_leader(replica: Replica, leader: Leader) -> None:
    """Resign if that is due, end waits that take too long, and notify silent voters.

    The waits are those of parked fetches and of a change of voters.
    """
    if (
        replica.is_shutting_down
        or leader.is_resign_due
        or leader.is_check_quorum_over(replica.now_ms)
    ):
        resign(replica, leader)
        return
    if leader.pending is not None and replica.is_due(leader.pending.deadline_ms):
        end_voter_change(
            replica,
            leader,
            ErrorCode.REQUEST_TIMED_OUT,
            "the change of voters took too long; it may still be committed",
        )
    _respond_to_expired(replica, leader)
    if not leader.is_alone:
        _announce_to_silent_voters(replica, leader)
        if len(leader.voters) > 1:
            replica.wake_at(leader.check_quorum_deadline_ms)


def _announce_to_silent_voters(replica: Replica, leader: Leader) -> None:
    interval_ms = replica.config.begin_epoch_interval_ms
    if replica.is_due(leader.begin_deadline_ms):
        for key in leader.silent_voters(replica.now_ms - interval_ms):
            request = BeginQuorumEpochRequest(
                voter=key,
                leader_id=replica.own.node_id,
                epoch=leader.epoch,
                leader_endpoints=replica.leader_endpoints,
            )
            replica.send_to_voter(key, request)
        leader.begin_deadline_ms = replica.now_ms + interval_ms
        replica.wake_at(leader.begin_deadline_ms)


def poll_resigned(replica: Replica, role: Resigned) -> None:
    """Notify each voter that has not acknowledged the resignation.

    When the election timer expires, begin the next epoch without a leader.
    """
    if not replica.is_shutting_down and replica.is_due(role.election_deadline_ms):
        become_unattached(replica, LeaderEpoch(role.epoch + 1))
        return
    for key in role.unacknowledged:
        request = EndQuorumEpochRequest(
            leader_id=replica.own.node_id,
            epoch=role.epoch,
            successors=role.successors,
            leader_endpoints=replica.leader_endpoints,
        )
        replica.send_to_voter(key, request)


def take_end_response(replica: Replica, voter_id: NodeId, response: EndQuorumEpochResponse) -> bool:
    """Record that a voter knows of the resignation.

    Return whether the voter may be sent another request at once.
    """
    settled = settle(replica, response)
    if settled is not None:
        return settled
    if response.error is ErrorCode.NONE and isinstance(replica.role, Resigned):
        replica.role.unacknowledged = [
            key for key in replica.role.unacknowledged if key.node_id != voter_id
        ]
    return response.error is ErrorCode.NONE


# Fetches


def check_leader(replica: Replica, epoch: LeaderEpoch) -> ErrorCode:
    """Return the error for a request to the leader of ``epoch``, or NONE if this node is it."""
    if epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > replica.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(replica.role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.BROKER_NOT_AVAILABLE if replica.is_shutting_down else ErrorCode.NONE


def handle_fetch(replica: Replica, reply_to: Hashable, request: FetchRequest) -> None:
    """Respond at once, or park the fetch until there is a result.

    A valid fetch first counts for the high watermark and for check-quorum.
    """
    error = (
        check_leader(replica, request.epoch)
        if _is_fetch_valid(request)
        else ErrorCode.INVALID_REQUEST
    )
    leader = replica.role
    if isinstance(leader, Leader) and request.replica.node_id == replica.own.node_id:
        error = ErrorCode.INVALID_REQUEST  # another node has this node's id and must not continue
    if error is not ErrorCode.NONE or not isinstance(leader, Leader):
        replica.reply(reply_to, replica.response(FetchResponse, error))
        return
    check = check_fetch(replica.log, request.fetch_offset, request.last_epoch)
    if check.is_valid and request.replica.node_id >= 0:
        _respond_to_superseded(replica, leader, request.replica)
        if leader.note_fetch(
            request.replica, request.fetch_offset, replica.log.end_offset, replica.now_ms
        ):
            announce_commit(replica, leader)
        _note_twins(replica, leader, request.replica.node_id)
    response = _fetch_response(replica, leader, request, check)
    is_news = (
        response.records_from is not None
        or not check.is_valid
        or request.high_watermark < response.high_watermark
    )
    if is_news or request.max_wait_ms == 0:
        replica.reply(reply_to, response)
    else:
        leader.parked.append(
            ParkedFetch(
                reply_to=reply_to, request=request, deadline_ms=replica.now_ms + request.max_wait_ms
            )
        )
        superfluous = leader.superfluous_fetch()
        if superfluous is not None:
            leader.parked.remove(superfluous)
            replica.reply(
                superfluous.reply_to, _fetch_response(replica, leader, superfluous.request)
            )


def _note_twins(replica: Replica, leader: Leader, node_id: NodeId) -> Twins | None:
    """Report two processes that fetch with the id of one voter, and return them, or None.

    Both have fetched within ``fetch_timeout_ms``.
    """
    twins = leader.twins_of(node_id, replica.now_ms - replica.config.fetch_timeout_ms)
    if twins is not None:
        replica.effects.twins = twins
    return twins


def _is_fetch_valid(request: FetchRequest) -> bool:
    return (
        request.max_wait_ms >= 0
        and request.fetch_offset >= 0
        and 0 <= request.last_epoch <= request.epoch
    )


def _fetch_response(
    replica: Replica, leader: Leader, request: FetchRequest, check: FetchCheck = VALID
) -> FetchResponse:
    has_records = check.is_valid and request.fetch_offset < replica.log.end_offset
    return replace(
        replica.response(FetchResponse),
        high_watermark=leader.high_watermark,
        log_start_offset=replica.log.start_offset,
        diverging=check.diverging,
        snapshot_id=check.snapshot_id,
        records_from=request.fetch_offset if has_records else None,
        max_bytes=request.max_bytes,
    )


def respond_to_parked(replica: Replica, leader: Leader) -> None:
    """Respond to the parked fetches that now have a result.

    A result is a record, or a higher high watermark than in the request.
    """
    end_offset, high_watermark = replica.log.end_offset, leader.high_watermark
    _unpark(
        replica,
        leader,
        lambda fetch: (
            fetch.request.fetch_offset < end_offset or fetch.request.high_watermark < high_watermark
        ),
    )


def _respond_to_expired(replica: Replica, leader: Leader) -> None:
    _unpark(replica, leader, lambda fetch: replica.is_due(fetch.deadline_ms))


def _respond_to_superseded(replica: Replica, leader: Leader, key: ReplicaKey) -> None:
    """Respond to the parked fetch of a replica that has sent another fetch.

    A replica has at most one fetch in progress here.
    """
    _unpark(replica, leader, lambda fetch: fetch.request.replica == key)


def _unpark(replica: Replica, leader: Leader, is_over: Callable[[ParkedFetch], bool]) -> None:
    """Respond to the parked fetches whose wait is over."""
    parked, leader.parked = leader.parked, []
    for fetch in parked:
        if is_over(fetch):
            replica.reply(fetch.reply_to, _fetch_response(replica, leader, fetch.request))
        else:
            leader.parked.append(fetch)


def handle_fetch_snapshot(replica: Replica, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """Return a slice of a snapshot. A voter that fetches one counts for check-quorum."""
    error = check_leader(replica, request.epoch)
    leader = replica.role
    if error is not ErrorCode.NONE or not isinstance(leader, Leader):
        return replica.response(FetchSnapshotResponse, error)
    size_bytes = replica.log.snapshot_size_bytes(request.snapshot_id)
    if size_bytes is None or request.snapshot_id == BOOTSTRAP_SNAPSHOT:
        return replica.response(FetchSnapshotResponse, ErrorCode.SNAPSHOT_NOT_FOUND)
    if not 0 <= request.position < size_bytes:
        return replica.response(FetchSnapshotResponse, ErrorCode.POSITION_OUT_OF_RANGE)
    leader.note_contact(request.replica, replica.now_ms)
    return replace(
        replica.response(FetchSnapshotResponse),
        snapshot_id=request.snapshot_id,
        size_bytes=size_bytes,
        position=request.position,
        max_bytes=request.max_bytes,
    )


# Committing


def note_log(replica: Replica, leader: Leader, *, has_voters: bool) -> None:
    """Continue after the leader's log has grown. The new records may include voters.

    New voters count from now on, even before they are committed.
    """
    if has_voters:
        leader.set_voters(replica.voters)
        pending = leader.pending
        if (
            pending is not None
            and pending.last_offset is None
            and (pending.voter.key in replica.voters) == pending.is_addition
        ):
            pending.last_offset = replica.history.latest.offset
            if not pending.is_response_after_commit and pending.reply_to is not None:
                replica.reply(pending.reply_to, replica.response(VoterChangeResponse))
                pending.reply_to = None
    respond_to_parked(replica, leader)


def note_synced(replica: Replica, leader: Leader) -> None:
    """Count this leader's synced records, which may move the high watermark."""
    if leader.note_synced(replica.synced_end_offset):
        announce_commit(replica, leader)


def announce_commit(replica: Replica, leader: Leader) -> None:
    """Report a higher high watermark, and end a change of voters that is now committed.

    Respond to the parked fetches, too. A leader that is no longer a voter resigns once the voters
    are committed.
    """
    replica.advance_high_watermark(leader.high_watermark)
    pending = leader.pending
    if (
        pending is not None
        and pending.last_offset is not None
        and pending.last_offset < leader.high_watermark
    ):
        end_voter_change(replica, leader, ErrorCode.NONE, "")
    if not leader.counts_itself and replica.history.latest.offset < leader.high_watermark:
        leader.is_resign_due = True
    respond_to_parked(replica, leader)


# Voters


def handle_add_voter(replica: Replica, reply_to: Hashable, request: AddVoterRequest) -> None:
    """Refuse the change at once, or ask the new voter for its supported versions.

    ``take_versions`` continues after the new voter's response.
    """
    error = check_leader(replica, replica.epoch)
    leader = replica.role
    if error is not ErrorCode.NONE or not isinstance(leader, Leader):
        replica.reply(reply_to, replica.response(VoterChangeResponse, error))
        return
    listener_name = replica.config.listener_name
    twins = _note_twins(replica, leader, request.voter.node_id)
    refusal = voter_changes.check_addition(
        request, leader, replica.history.latest, listener_name, twins=twins
    )
    peer = replica.peer(request.voter.node_id, request.voter.endpoints)
    if refusal is None and (peer is None or not replica.send(peer, KRaftVersionRequest())):
        refusal = voter_changes.Refusal(
            ErrorCode.REQUEST_TIMED_OUT, "the new voter cannot be asked at the moment; try again"
        )
    if refusal is not None:
        replica.reply(
            reply_to,
            replace(replica.response(VoterChangeResponse, refusal.error), message=refusal.message),
        )
        return
    leader.pending = PendingVoterChange(
        voter=request.voter,
        reply_to=reply_to,
        deadline_ms=replica.now_ms + replica.config.request_timeout_ms,
        is_response_after_commit=request.is_response_after_commit,
        is_addition=True,
    )


def take_versions(replica: Replica, node_id: NodeId, response: KRaftVersionResponse | None) -> bool:
    """Append the new voter's record if it supports kraft.version and has caught up.

    Otherwise the change ends with an error. ``response`` is None if there was none. Return whether
    the voter may be sent another request at once.
    """
    leader = replica.role
    pending = leader.pending if isinstance(leader, Leader) else None
    if (
        not isinstance(leader, Leader)
        or pending is None
        or pending.last_offset is not None
        or pending.voter.node_id != node_id
    ):
        return True
    if not pending.is_addition:
        return True
    latest = replica.history.latest
    if response is None or response.error is not ErrorCode.NONE:
        end_voter_change(
            replica,
            leader,
            ErrorCode.REQUEST_TIMED_OUT,
            "the new voter did not return the versions that it supports",
        )
        return False
    voter = replace(
        pending.voter,
        min_kraft_version=response.min_kraft_version,
        max_kraft_version=response.max_kraft_version,
    )
    if not voter_changes.supports(voter, latest.kraft_version):
        text = f"the new voter does not support kraft.version {latest.kraft_version}"
        end_voter_change(replica, leader, ErrorCode.INVALID_REQUEST, text)
    elif not leader.is_caught_up(voter.key, replica.now_ms):
        end_voter_change(
            replica,
            leader,
            ErrorCode.REQUEST_TIMED_OUT,
            "the new voter lags behind; try again once it has caught up",
        )
    else:
        pending.voter = voter
        _append_voters(replica, latest.voters.with_voter(voter))
    return True


def handle_remove_voter(replica: Replica, reply_to: Hashable, request: RemoveVoterRequest) -> None:
    """Refuse the change at once, or append the voter set without the removed voter.

    The response follows after the commit. A leader that removes itself then resigns.
    """
    error = check_leader(replica, replica.epoch)
    leader = replica.role
    if error is not ErrorCode.NONE or not isinstance(leader, Leader):
        replica.reply(reply_to, replica.response(VoterChangeResponse, error))
        return
    twins = _note_twins(replica, leader, request.voter.node_id)
    remaining = voter_changes.check_removal(request, leader, replica.history.latest, twins=twins)
    removed = replica.voters.get(request.voter.node_id)
    if isinstance(remaining, voter_changes.Refusal) or removed is None:
        refusal = (
            remaining
            if isinstance(remaining, voter_changes.Refusal)
            else voter_changes.Refusal(ErrorCode.VOTER_NOT_FOUND, "")
        )
        replica.reply(
            reply_to,
            replace(replica.response(VoterChangeResponse, refusal.error), message=refusal.message),
        )
        return
    leader.pending = PendingVoterChange(
        voter=removed,
        reply_to=reply_to,
        deadline_ms=replica.now_ms + replica.config.request_timeout_ms,
    )
    _append_voters(replica, remaining)


def handle_update_voter(replica: Replica, request: UpdateVoterRequest) -> UpdateVoterResponse:
    """Append the voter set with the sender's updated entry, and respond at once.

    At kraft.version 0, the entry is held in memory instead.
    """
    error = check_leader(replica, request.epoch)
    leader = replica.role
    if error is not ErrorCode.NONE or not isinstance(leader, Leader):
        return replica.response(UpdateVoterResponse, error)
    updated = voter_changes.check_update(
        request, leader, replica.history.latest, replica.config.listener_name
    )
    if isinstance(updated, voter_changes.Refusal):
        return replica.response(UpdateVoterResponse, updated.error)
    if replica.history.latest.kraft_version < DYNAMIC_QUORUM:
        leader.volatile_voters = updated
    else:
        _append_voters(replica, updated)
    leader.note_contact(request.voter.key, replica.now_ms)
    return replica.response(UpdateVoterResponse)


def handle_upgrade(replica: Replica, reply_to: Hashable, request: UpgradeRequest) -> None:
    """Append the next kraft.version together with the voters, and respond after the commit.

    Respond at once if the change is refused, only checked, or not needed.
    """
    error = check_leader(replica, replica.epoch)
    leader = replica.role
    if error is not ErrorCode.NONE or not isinstance(leader, Leader):
        replica.reply(reply_to, replica.response(VoterChangeResponse, error))
        return
    voters = voter_changes.check_upgrade(request, leader, replica.history.latest)
    if isinstance(voters, voter_changes.Refusal):
        replica.reply(
            reply_to,
            replace(replica.response(VoterChangeResponse, voters.error), message=voters.message),
        )
        return
    if voters is None or request.is_only_checked:
        replica.reply(reply_to, replica.response(VoterChangeResponse))
        return
    leader.volatile_voters = None
    leader.pending = PendingVoterChange(
        voter=replica.own_entry(),
        reply_to=reply_to,
        deadline_ms=replica.now_ms + replica.config.request_timeout_ms,
        is_addition=True,
    )
    replica.change_log(
        AppendControl(epoch=replica.epoch, kraft_version=request.kraft_version, voters=voters)
    )


def _append_voters(replica: Replica, voters: VoterSet) -> None:
    replica.change_log(AppendControl(epoch=replica.epoch, voters=voters))


def end_voter_change(replica: Replica, leader: Leader, error: ErrorCode, message: str) -> None:
    """Respond to the caller of the change in progress, and end it."""
    pending, leader.pending = leader.pending, None
    if pending is not None and pending.reply_to is not None:
        replica.reply(
            pending.reply_to, replace(replica.response(VoterChangeResponse, error), message=message)
        )
