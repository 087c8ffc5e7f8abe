"""The rules of the metadata quorum: KRaft (KIP-595, KIP-853, KIP-996) as a plain state machine.

``RaftCore.step`` takes one event of ``events`` and the current time, and returns the effects. It
has no other effect. This file decides which rule an event belongs to and with which role a restart
begins. The rules are in ``elections`` (votes, leaders), ``leadership`` (the leader's side) and
``following`` (the follower's side). ``roles`` is the table of roles. The rules read the log through
``LogView`` and draw random numbers from a function that the caller passes in. They know no bytes,
files, connections and clocks.

Invariants: An epoch has one leader. A vote is given once in an epoch and is durable before it is
sent. This node never leads an epoch that it led before its process began. A fetch asserts that
everything below its offset is durable. The high watermark never decreases. Records below it are
never removed by a truncation.
"""

from collections.abc import Callable, Hashable
from uuid import UUID

from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch, NodeId
from log_service.config.views import QuorumConfig
from log_service.raft import elections, following, leadership, transitions
from log_service.raft.events import (
    Effects,
    Event,
    LogChanged,
    RequestArrived,
    RequestFailed,
    ResignAsked,
    ResponseArrived,
    ShutdownBegan,
    SnapshotInstalled,
    Started,
    Synced,
    Ticked,
)
from log_service.raft.leader import Leader
from log_service.raft.log_view import LogView
from log_service.raft.messages import (
    NO_EPOCH,
    NO_LEADER,
    UNKNOWN_OFFSET,
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    KRaftVersionRequest,
    KRaftVersionResponse,
    Peer,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
    UpgradeRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from log_service.raft.replica import Replica
from log_service.raft.roles import (
    Candidate,
    ElectionState,
    Follower,
    Prospective,
    Resigned,
    Role,
    Unattached,
    Votes,
    remembered,
)
from log_service.raft.voters import ReplicaKey, VoterEndpoint, VoterEntry, VoterHistory, VoterSet


class RaftCore:
    """The state machine that applies the quorum's rules to one replica."""

    def __init__(
        self,
        *,
        own: ReplicaKey,
        config: QuorumConfig,
        log: LogView,
        history: VoterHistory,
        state: ElectionState | None,
        synced_end_offset: int,
        draw: Callable[[int], int],
        bootstrap_servers: tuple[Peer, ...] = (),
        endpoints: tuple[VoterEndpoint, ...] = (),
    ) -> None:
        """Begin with the state on disk.

        ``state`` is None if none was stored. ``draw(n)`` returns a random number from 0 to n - 1.
        ``endpoints`` are this node's listeners. Without any, it never updates its voter entry.
        """
        self._stored = state
        self._reported_leader: tuple[NodeId, LeaderEpoch] | None = None
        self._settled_leader: Leader | None = None
        self._checked_voters: VoterEntry | None = None
        self._reported_directory: UUID | None = None
        self.replica = Replica(
            own=own,
            config=config,
            log=log,
            history=history,
            synced_end_offset=synced_end_offset,
            draw=draw,
            bootstrap_servers=bootstrap_servers,
            endpoints=endpoints,
        )

    def __repr__(self) -> str:
        return (
            f"<RaftCore node={self.own.node_id} {self.role_name} epoch={self.epoch}"
            f" leader={self.leader_id} hw={self.high_watermark}>"
        )

    # What its owner may read

    @property
    def own(self) -> ReplicaKey:
        """The key of this replica."""
        return self.replica.own

    @property
    def role(self) -> Role:
        """The current role."""
        return self.replica.role

    @property
    def role_name(self) -> str:
        """The name of the current role in the table of ``roles``."""
        return self.replica.role_name

    @property
    def epoch(self) -> LeaderEpoch:
        """The newest epoch that this replica knows."""
        return self.replica.epoch

    @property
    def leader_id(self) -> NodeId:
        """The leader of the epoch, or -1 if it is unknown."""
        return self.replica.leader_id

    @property
    def leader_endpoints(self) -> tuple[VoterEndpoint, ...]:
        """The leader's listeners that this replica knows."""
        return self.replica.leader_endpoints or self.voters.endpoints_of(self.leader_id)

    @property
    def is_only_voter(self) -> bool:
        """Whether this replica is the whole quorum."""
        return self.replica.is_only_voter

    @property
    def high_watermark(self) -> int:
        """The highest known high watermark, or -1 if none is known.

        Records below it are committed.
        """
        return self.replica.high_watermark

    @property
    def is_fetch_parked(self) -> bool:
        """Whether another replica waits for the next append."""
        return isinstance(self.role, Leader) and bool(self.role.parked)

    @property
    def history(self) -> VoterHistory:
        """The voter sets by offset."""
        return self.replica.history

    @property
    def voters(self) -> VoterSet:
        """The newest voter set, committed or not."""
        return self.replica.voters

    # Steps

    def step(self, event: Event, now_ms: int) -> Effects:
        """Process one event and everything that is due, and return the effects."""
        replica = self.replica
        replica.now_ms = now_ms
        effects = replica.effects = Effects()
        self._take(event)
        self._note_voting_directory(is_start=isinstance(event, Started))
        self._poll()
        self._remember()
        return effects

    def _take(self, event: Event) -> None:
        replica = self.replica
        match event:
            case Synced():
                self._note_synced(event.end_offset)
            case Started():
                self._start()
            case RequestArrived():
                self._handle(event.reply_to, event.request)
            case ResponseArrived() if replica.connections.is_expected(
                event.peer_id, event.request_id
            ):
                is_well = self._take_response(event.peer_id, event.response)
                replica.connections.end(
                    event.peer_id, event.request_id, replica.now_ms, is_well=is_well
                )
            case RequestFailed() if replica.connections.is_expected(
                event.peer_id, event.request_id
            ):
                replica.connections.end(
                    event.peer_id, event.request_id, replica.now_ms, is_well=False
                )
                self._take_failure(event)
            case LogChanged():
                self._note_log(event)
            case SnapshotInstalled():
                replica.is_log_changing = False
                following.note_snapshot(replica, event)
            case ResignAsked():
                if isinstance(replica.role, Leader) and replica.role.epoch == event.epoch:
                    replica.role.is_resign_due = True
            case ShutdownBegan():
                replica.is_shutting_down = True
            case Ticked() | ResponseArrived() | RequestFailed():
                pass

    def _handle(self, reply_to: Hashable, request: Request) -> None:
        replica = self.replica
        response: Response | None = None
        match request:
            case VoteRequest():
                response = elections.handle_vote(replica, request)
            case BeginQuorumEpochRequest():
                response = elections.handle_begin_quorum_epoch(replica, request)
            case EndQuorumEpochRequest():
                response = elections.handle_end_quorum_epoch(replica, request)
            case FetchRequest():
                leadership.handle_fetch(replica, reply_to, request)
            case FetchSnapshotRequest():
                response = leadership.handle_fetch_snapshot(replica, request)
            case UpdateVoterRequest():
                response = leadership.handle_update_voter(replica, request)
            case AddVoterRequest():
                leadership.handle_add_voter(replica, reply_to, request)
            case RemoveVoterRequest():
                leadership.handle_remove_voter(replica, reply_to, request)
            case UpgradeRequest():
                leadership.handle_upgrade(replica, reply_to, request)
            case KRaftVersionRequest():
                # Peers ask by ApiVersions, which the shell answers. So this request never arrives.
                response = replica.response(KRaftVersionResponse, ErrorCode.UNSUPPORTED_VERSION)
        if response is not None:
            replica.reply(reply_to, response)

    def _take_response(self, peer_id: NodeId, response: Response) -> bool:
        """Process an expected response.

        Return whether the peer may be sent another request at once.
        """
        replica, is_well = self.replica, False
        match response:
            case VoteResponse():
                is_well = elections.take_vote_response(replica, peer_id, response)
            case BeginQuorumEpochResponse():
                settled = elections.settle(replica, response)
                is_well = response.error is ErrorCode.NONE if settled is None else settled
            case EndQuorumEpochResponse():
                is_well = leadership.take_end_response(replica, peer_id, response)
            case FetchResponse():
                is_well = following.take_fetch_response(replica, response)
            case FetchSnapshotResponse():
                is_well = following.take_snapshot_response(replica, response)
            case UpdateVoterResponse():
                is_well = following.take_update_response(replica, response)
            case KRaftVersionResponse():
                is_well = leadership.take_versions(replica, peer_id, response)
            case VoterChangeResponse():
                is_well = following.take_join_response(replica, response)
            case _:
                pass
        return is_well

    def _take_failure(self, event: RequestFailed) -> None:
        match event.request:
            case VoteRequest():
                elections.take_vote_failure(self.replica, event.request, event.error)
            case KRaftVersionRequest():
                leadership.take_versions(self.replica, event.peer_id, None)
            case FetchRequest() | FetchSnapshotRequest() | UpdateVoterRequest() if event.is_refused:
                following.note_refusal(self.replica, event.peer_id)
            case _:
                pass

    # The log

    def _note_log(self, event: LogChanged) -> None:
        replica = self.replica
        replica.is_log_changing = False
        replica.synced_end_offset = min(replica.synced_end_offset, replica.log.end_offset)
        replica.history.truncate_to(replica.log.end_offset)
        for change in event.changes:
            replica.history.note(change)
        match replica.role:
            case Leader():
                leadership.note_log(replica, replica.role, has_voters=bool(event.changes))
            case Follower():
                following.note_log(replica, replica.role, event)
            case _:
                pass

    def _note_synced(self, end_offset: int) -> None:
        replica = self.replica
        replica.synced_end_offset = max(
            replica.synced_end_offset, min(end_offset, replica.log.end_offset)
        )
        match replica.role:
            case Leader():
                leadership.note_synced(replica, replica.role)
            case Follower():
                following.note_synced(replica, replica.role)
            case _:
                pass

    # Time

    def _poll(self) -> None:
        """Act on due timers of the current role, until no role changes any more."""
        replica, role = self.replica, None
        while role is not replica.role:
            role = replica.role
            replica.effects.deadline_ms = None
            match role:
                case Leader():
                    leadership.poll_leader(replica, role)
                case Unattached():
                    following.poll_unattached(replica, role)
                case Prospective() | Candidate():
                    elections.poll_election(replica, role)
                case Follower():
                    following.poll_follower(replica, role)
                case Resigned():
                    leadership.poll_resigned(replica, role)
        ready_ms = replica.connections.next_change_ms(replica.now_ms)
        if ready_ms is not None:
            replica.wake_at(ready_ms)

    def _note_voting_directory(self, *, is_start: bool) -> None:
        """Report a voter entry that has this node's id and another directory.

        The entry is checked at the start, and again once the log has all committed records. While a
        new directory still reads the log, it may find outdated entries.
        """
        replica, latest = self.replica, self.history.latest
        if latest is self._checked_voters:
            return
        role = replica.role
        if not is_start and not (
            isinstance(role, Follower)
            and UNKNOWN_OFFSET < role.leader_high_watermark <= replica.log.end_offset
        ):
            return
        self._checked_voters = latest
        named = latest.voters.get(self.own.node_id)
        if named is None or named.matches(self.own):
            self._reported_directory = None
        elif named.directory_id != self._reported_directory:
            self._reported_directory = replica.effects.voting_directory = named.directory_id

    # Restarts

    def _start(self) -> None:
        """Take the role that a replica has after a restart.

        A former leader does not lead its epoch again, because records of this epoch may be lost.
        The only voter leads the next epoch.
        """
        replica = self.replica
        replica.role = role = self.first_role()
        if isinstance(role, Candidate) and role.votes.is_won:
            transitions.become_leader(replica, role)
        elif replica.is_only_voter:
            transitions.become_prospective(replica)

    def first_role(self) -> Role:
        """Return the role that a process begins with, which depends on its stored state."""
        replica = self.replica
        state = self._stored or ElectionState(leader_id=NO_LEADER, leader_epoch=NO_EPOCH)
        epoch, deadline_ms = state.leader_epoch, replica.election_deadline_ms()
        endpoints = replica.voters.endpoints_of(state.leader_id)
        if epoch < replica.log.last_epoch:
            return Unattached(
                epoch=LeaderEpoch(replica.log.last_epoch), election_deadline_ms=deadline_ms
            )
        if state.leader_id == self.own.node_id:
            others = [voter.key for voter in replica.voters if voter.node_id != self.own.node_id]
            return Resigned(
                epoch=epoch, own=self.own, unacknowledged=others, election_deadline_ms=deadline_ms
            )
        if state.voted == self.own and replica.is_voter:
            votes = Votes(replica.voters)
            votes.note(self.own.node_id, is_granted=True)
            return Candidate(
                epoch=epoch, own=self.own, votes=votes, election_deadline_ms=deadline_ms
            )
        if state.leader_id != NO_LEADER and endpoints:
            return transitions.new_follower(replica, epoch, state.leader_id, endpoints, state.voted)
        return Unattached(
            epoch=epoch,
            leader_id=state.leader_id,
            voted=state.voted,
            election_deadline_ms=deadline_ms,
        )

    def _remember(self) -> None:
        """Request to store a changed election state, and report a changed leader or epoch."""
        replica = self.replica
        if replica.role is self._settled_leader:
            return  # this leader was reported, and stays until the role changes
        state = remembered(replica.role)
        if state != self._stored:
            self._stored = replica.effects.persist = state
        is_unsettled = (
            isinstance(replica.role, Leader) and replica.role.high_watermark == UNKNOWN_OFFSET
        )
        self._settled_leader = (
            replica.role if isinstance(replica.role, Leader) and not is_unsettled else None
        )
        leader = (
            NO_LEADER if is_unsettled or isinstance(replica.role, Resigned) else state.leader_id,
            replica.epoch,
        )
        if leader != self._reported_leader:
            self._reported_leader = replica.effects.leader = leader
