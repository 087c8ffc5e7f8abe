"""The follower's side of a replica: it fetches, and applies the fetched records.

This file decides from whom a replica fetches, what it appends, where it truncates its log, when it
fetches a snapshot instead, and how far it knows the log to be committed. It reads only offsets. The
log's owner handles the bytes.

Invariants: A fetch is sent only when the whole log is durable. One request is in flight at a time.
The log is never truncated below the high watermark. A leader that requests this has lost committed
records, and this replica must not lose them too.
"""

from log_service.common.errors import ErrorCode
from log_service.common.features import DYNAMIC_QUORUM
from log_service.common.types import NodeId
from log_service.raft.elections import settle
from log_service.raft.events import (
    AppendFetched,
    LogChanged,
    SnapshotInstalled,
    StoreSlice,
    TruncateTo,
)
from log_service.raft.log_view import EpochEnd, SnapshotId, truncation_offset
from log_service.raft.messages import (
    UNKNOWN_OFFSET,
    AddVoterRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoterChangeResponse,
)
from log_service.raft.replica import Replica
from log_service.raft.roles import Follower, SnapshotFetch, Unattached
from log_service.raft.transitions import become_prospective

JOIN_RESPONSES = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.DUPLICATE_VOTER,
        ErrorCode.VOTER_NOT_FOUND,
    }
)
"""The error codes of a leader that has changed the voters, cannot do so yet, or need not."""

# What is due


def poll_unattached(replica: Replica, role: Unattached) -> None:
    """Look for a leader. A voter that finds none in time begins an election."""
    if (
        replica.is_voter
        and not replica.is_shutting_down
        and replica.is_due(role.election_deadline_ms)
    ):
        become_prospective(replica)
    else:
        _fetch_from_any(replica)


def poll_follower(replica: Replica, role: Follower) -> None:
    """Fetch, unless the leader has been silent for too long.

    The fetch waits until everything that was fetched before is durable.
    """
    if replica.is_shutting_down:
        return
    is_silent = not role.awaits_sync and replica.is_due(role.fetch_deadline_ms)
    if is_silent:
        role.has_fetched = (
            False  # from now on it grants pre-votes, as it may be a voter that does not know it yet
        )
    if is_silent and replica.is_voter:
        become_prospective(replica)
    elif replica.is_log_durable and not (
        _maybe_update_own_entry(replica, role) if replica.is_voter else _maybe_join(replica, role)
    ):
        _fetch_from_best(replica, role)


def _maybe_update_own_entry(replica: Replica, role: Follower) -> bool:
    """Send this voter's listeners to the leader if its entry is out of date. Return whether it did.

    At kraft.version 0, they are sent once to each leader. The next fetch waits for the response.
    """
    if not replica.is_due(role.update_voter_deadline_ms):
        return False
    is_static = replica.history.latest.kraft_version < DYNAMIC_QUORUM
    is_wanted = (
        bool(replica.endpoints) and not role.has_updated_voter
        if is_static
        else replica.is_own_entry_outdated()
    )
    peer = replica.peer(role.leader_id, role.leader_endpoints)
    is_sent = (
        is_wanted
        and peer is not None
        and replica.send(peer, UpdateVoterRequest(epoch=role.epoch, voter=replica.own_entry()))
    )
    if is_sent or not is_wanted:
        role.update_voter_deadline_ms = replica.now_ms + replica.config.fetch_timeout_ms
        replica.wake_at(role.update_voter_deadline_ms)
    return is_sent


def _maybe_join(replica: Replica, role: Follower) -> bool:
    """Request that the leader makes this controller a voter, if it may join by itself (KIP-1186).

    A voter with this node id and another directory is this node before it got a new disk. It is
    removed first. Return whether a request was sent.
    """
    if (
        not replica.config.is_auto_join_enabled
        or not replica.endpoints
        or replica.history.latest.kraft_version < DYNAMIC_QUORUM
    ):
        return False
    peer = replica.peer(role.leader_id, role.leader_endpoints)
    if peer is None or not replica.is_due(role.update_voter_deadline_ms):
        return False
    old = replica.voters.get(replica.own.node_id)
    is_sent = replica.send(
        peer,
        (
            AddVoterRequest(voter=replica.own_entry(), is_response_after_commit=False)
            if old is None
            else RemoveVoterRequest(voter=old.key)
        ),
    )
    if is_sent:
        _put_off_joining(replica, role)
    return is_sent


def _put_off_joining(replica: Replica, role: Follower) -> None:
    role.update_voter_deadline_ms = replica.now_ms + replica.config.fetch_timeout_ms
    replica.wake_at(role.update_voter_deadline_ms)


def take_join_response(replica: Replica, response: VoterChangeResponse) -> bool:
    """Process the leader's response to a request to join.

    A successful change appears in the log. A failed attempt is repeated later. Return whether the
    leader may be sent another request at once.
    """
    if isinstance(replica.role, Follower):
        _put_off_joining(replica, replica.role)
    return response.error in JOIN_RESPONSES


def _fetch_from_best(replica: Replica, role: Follower) -> None:
    """Fetch from the leader. While it does not respond, ask a random server for the leader."""
    peer = replica.peer(role.leader_id, role.leader_endpoints)
    now_ms = replica.now_ms
    if peer is None or replica.connections.is_resting(peer.node_id, now_ms):
        _fetch_from_any(replica)
    elif replica.connections.is_timed_out(peer.node_id, now_ms):
        replica.connections.forget(peer.node_id)
        _fetch_from_any(replica)
    elif not replica.connections.is_any_under_way(now_ms):
        replica.send(peer, _next_request(replica, role))


def _next_request(replica: Replica, role: Follower) -> FetchRequest | FetchSnapshotRequest:
    if role.snapshot is None:
        return replica.fetch_request()
    return FetchSnapshotRequest(
        replica=replica.own,
        epoch=role.epoch,
        snapshot_id=role.snapshot.snapshot_id,
        position=role.snapshot.position,
        max_bytes=replica.config.snapshot_max_bytes,
    )


def _fetch_from_any(replica: Replica) -> None:
    """Ask a random bootstrap server for the leader, or a random voter if none is configured."""
    if not replica.is_log_durable:
        return
    voters = (
        replica.peer(voter.node_id, voter.endpoints)
        for voter in replica.voters
        if voter.node_id != replica.own.node_id
    )
    servers = replica.bootstrap_servers or tuple(peer for peer in voters if peer is not None)
    ready = [
        peer
        for peer in servers
        if replica.connections.ready_at(peer.node_id, replica.now_ms) <= replica.now_ms
    ]
    if ready and not replica.connections.is_any_under_way(replica.now_ms):
        replica.send(ready[replica.draw(len(ready))], replica.fetch_request())


# Responses


def take_fetch_response(replica: Replica, response: FetchResponse) -> bool:
    """Append the fetched records, truncate a diverging log, or begin to fetch a snapshot.

    Return whether the leader may be sent another request at once.
    """
    settled = settle(replica, response)
    if settled is not None:
        return settled
    role = replica.role
    if response.error is not ErrorCode.NONE or not isinstance(role, Follower):
        return False
    if response.diverging is not None:
        _truncate(replica, response.diverging)
    elif response.snapshot_id is not None:
        _begin_snapshot(replica, role, response.snapshot_id)
    else:
        role.leader_high_watermark = max(role.leader_high_watermark, response.high_watermark)
        if len(response.records) > 0:
            role.awaits_sync = True
            replica.change_log(AppendFetched(records=response.records, max_epoch=role.epoch))
        advance(replica, role)
    _note_success(replica, role)
    return True


def _note_success(replica: Replica, role: Follower) -> None:
    role.has_fetched = True
    role.fetch_deadline_ms = replica.now_ms + replica.config.fetch_timeout_ms


def _truncate(replica: Replica, diverging: EpochEnd) -> None:
    offset = truncation_offset(replica.log, diverging)
    if min(offset, diverging.end_offset) < replica.high_watermark:
        replica.effects.failure = (
            f"the leader of epoch {replica.epoch} holds the log only up to offset"
            f" {diverging.end_offset} of epoch {diverging.epoch}, but {replica.high_watermark} is"
            " committed: the quorum has lost records that this node still has"
        )
        return
    replica.change_log(TruncateTo(offset=offset))


def _begin_snapshot(replica: Replica, role: Follower, snapshot_id: SnapshotId) -> None:
    """Fetch a snapshot, unless its id is invalid or this replica already has it."""
    if (
        snapshot_id.end_offset >= 0
        and snapshot_id.epoch >= 0
        and snapshot_id != replica.log.latest_snapshot
    ):
        role.snapshot = SnapshotFetch(snapshot_id=snapshot_id)


def take_snapshot_response(replica: Replica, response: FetchSnapshotResponse) -> bool:
    """Store a slice of the snapshot.

    If the leader no longer has the snapshot, fetch records again. Return whether the leader may be
    sent another request at once.
    """
    settled = settle(replica, response)
    if settled is not None:
        return settled
    role = replica.role
    if not isinstance(role, Follower) or role.snapshot is None:
        return False
    expected = (role.snapshot.snapshot_id, role.snapshot.position)
    if (
        response.error is ErrorCode.NONE
        and (response.snapshot_id, response.position) == expected
        and len(response.content) > 0
    ):
        position = response.position + len(response.content)
        is_last = position >= response.size_bytes
        slice_ = StoreSlice(
            snapshot_id=expected[0],
            position=response.position,
            content=response.content,
            is_last=is_last,
        )
        replica.change_log(slice_)
        role.snapshot.position = position
    else:
        role.snapshot = None
        if response.error is not ErrorCode.SNAPSHOT_NOT_FOUND:
            return False
    _note_success(replica, role)
    return True


def take_update_response(replica: Replica, response: UpdateVoterResponse) -> bool:
    """Record that the leader has this voter's listeners, or does not need them.

    Return whether the leader may be sent another request at once.
    """
    settled = settle(replica, response)
    if settled is not None:
        return settled
    role = replica.role
    if response.error not in {ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION} or not isinstance(
        role, Follower
    ):
        return False
    role.has_updated_voter = True
    _note_success(replica, role)
    return True


# A leader that is gone

PARTS_OF_GRACE = 4


def note_refusal(replica: Replica, peer_id: NodeId) -> None:
    """Begin an election soon if no process listens at the leader's address.

    The leader is then gone, even if it has been silent only for a short time. Pre-votes prevent the
    election of a new leader while other voters still fetch from the old one. Each voter waits for a
    different time, with jitter, so that two voters do not split the votes. From now on, this
    replica grants pre-votes.
    """
    role, grace_ms = replica.role, replica.config.death_grace_ms
    if not isinstance(role, Follower) or role.leader_id != peer_id or grace_ms <= 0:
        return
    role.has_fetched = False
    turn_ms = max(1, grace_ms // PARTS_OF_GRACE)
    others = [voter.node_id for voter in replica.voters if voter.node_id != peer_id]
    turn = sorted(others).index(replica.own.node_id) if replica.own.node_id in others else 0
    wait_ms = min(grace_ms, turn * turn_ms) + replica.draw(max(1, turn_ms // 2))
    role.fetch_deadline_ms = min(role.fetch_deadline_ms, replica.now_ms + wait_ms)


# The log


def note_log(replica: Replica, role: Follower, event: LogChanged) -> None:
    """Continue after a change of the log. If nothing was appended, pause before the next fetch."""
    if event.is_refused:
        role.awaits_sync = False
        replica.connections.rest(role.leader_id, replica.now_ms)
    advance(replica, role)


def note_synced(replica: Replica, role: Follower) -> None:
    """Continue after fetched records are durable.

    The time that this replica's disk needs does not count as silence of the leader.
    """
    if role.awaits_sync and replica.is_log_durable:
        role.awaits_sync = False
        _note_success(replica, role)
    advance(replica, role)


def note_snapshot(replica: Replica, event: SnapshotInstalled) -> None:
    """Continue after a snapshot. All records that it covers are committed and durable."""
    replica.synced_end_offset = event.snapshot_id.end_offset
    replica.history.forget()
    if event.change is not None:
        replica.history.note(event.change)
    replica.advance_high_watermark(event.snapshot_id.end_offset)
    if isinstance(replica.role, Follower):
        replica.role.snapshot = None


def advance(replica: Replica, role: Follower) -> None:
    """Follow the leader's high watermark as far as this replica's log is durable."""
    if role.leader_high_watermark != UNKNOWN_OFFSET:
        replica.advance_high_watermark(min(role.leader_high_watermark, replica.synced_end_offset))
