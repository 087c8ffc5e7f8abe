"""Holds the state of one replica of the metadata log for the quorum's rules.

This file decides nothing. The rules are functions of ``transitions``, ``elections``, ``leadership``
and ``following``, which read and change a ``Replica``. It has the role, the view of the log and the
voters, and the operations that all rules use: send, reply, set a deadline, change the log.
"""

from collections.abc import Callable, Hashable
from typing import TypeVar

from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch, NodeId
from log_service.config.views import QuorumConfig
from log_service.raft.connections import Connections
from log_service.raft.events import (
    AppendControl,
    AppendFetched,
    Effects,
    Send,
    StoreSlice,
    TruncateTo,
)
from log_service.raft.leader import Leader
from log_service.raft.log_view import LogView
from log_service.raft.messages import (
    NO_LEADER,
    UNKNOWN_OFFSET,
    FetchRequest,
    Peer,
    Request,
    Response,
)
from log_service.raft.roles import Follower, Prospective, Resigned, Role, Unattached, remembered
from log_service.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterHistory, VoterSet

R = TypeVar("R", bound=Response)


class Replica:
    """The state that the rules share. ``effects`` and ``now_ms`` belong to the current step."""

    def __init__(
        self,
        *,
        own: ReplicaKey,
        config: QuorumConfig,
        log: LogView,
        history: VoterHistory,
        synced_end_offset: int,
        draw: Callable[[int], int],
        bootstrap_servers: tuple[Peer, ...] = (),
        endpoints: tuple[VoterEndpoint, ...] = (),
    ) -> None:
        self.own = own
        self.config = config
        self.log = log
        self.history = history
        self.synced_end_offset = synced_end_offset
        self.draw = draw
        self.bootstrap_servers = bootstrap_servers
        self.endpoints = endpoints
        self.connections = Connections(
            request_timeout_ms=config.request_timeout_ms, retry_backoff_ms=config.retry_backoff_ms
        )
        self.role: Role = Unattached(epoch=LeaderEpoch(0), election_deadline_ms=0)
        self.high_watermark = UNKNOWN_OFFSET
        self.is_shutting_down = False
        self.is_log_changing = False
        self.now_ms = 0
        self.effects = Effects()

    # What follows from the state

    @property
    def epoch(self) -> LeaderEpoch:
        """The newest epoch that this replica knows."""
        return self.role.epoch

    @property
    def leader_id(self) -> NodeId:
        """The leader of the epoch, or -1 if it is unknown."""
        return remembered(self.role).leader_id

    @property
    def leader_endpoints(self) -> tuple[VoterEndpoint, ...]:
        """The addresses of the leader, or none if they are unknown."""
        match self.role:
            case Leader() | Resigned():
                return self.endpoints or self.voters.endpoints_of(self.own.node_id)
            case Follower() | Prospective():
                return self.role.leader_endpoints
            case _:
                return ()

    @property
    def voters(self) -> VoterSet:
        """The newest voter set, committed or not."""
        return self.history.latest.voters

    @property
    def is_voter(self) -> bool:
        """Whether this replica may vote and be elected."""
        return self.own in self.voters

    @property
    def is_only_voter(self) -> bool:
        """Whether this replica is the only voter."""
        return len(self.voters) == 1 and self.is_voter

    @property
    def is_log_durable(self) -> bool:
        """Whether the whole log is synced. Only then may a fetch be sent."""
        return not self.is_log_changing and self.synced_end_offset >= self.log.end_offset

    @property
    def role_name(self) -> str:
        """The name of the role in the table of ``roles``."""
        role = self.role
        if isinstance(role, Unattached | Follower) and not self.is_voter:
            return "observer"
        if isinstance(role, Unattached) and role.voted is not None:
            return "voted"
        return type(role).__name__.lower()

    def own_entry(self) -> Voter:
        """Return the voter entry that this replica should have."""
        return Voter(
            node_id=self.own.node_id, directory_id=self.own.directory_id, endpoints=self.endpoints
        )

    def is_own_entry_outdated(self) -> bool:
        """Whether the voters contain this replica with other listeners than it has."""
        known = self.voters.get(self.own.node_id)
        return (
            bool(self.endpoints)
            and known is not None
            and known.matches(self.own)
            and known != self.own_entry()
        )

    # What all rules do

    def is_due(self, deadline_ms: int) -> bool:
        """Return whether a deadline has passed. If not, request a step at the deadline."""
        if deadline_ms <= self.now_ms:
            return True
        self.wake_at(deadline_ms)
        return False

    def wake_at(self, deadline_ms: int) -> None:
        """Request a step at ``deadline_ms`` at the latest."""
        known_ms = self.effects.deadline_ms
        self.effects.deadline_ms = deadline_ms if known_ms is None else min(known_ms, deadline_ms)

    def election_deadline_ms(self) -> int:
        """Return the random end of an election timer that begins now."""
        timeout_ms = self.config.election_timeout_ms
        return self.now_ms + timeout_ms + (self.draw(timeout_ms) if timeout_ms else 0)

    def peer(self, node_id: NodeId, endpoints: tuple[VoterEndpoint, ...]) -> Peer | None:
        """Return the address of a node's controller listener, or None if it is unknown."""
        endpoint = next(
            (each for each in endpoints if each.name == self.config.listener_name), None
        )
        return Peer(node_id, endpoint.host, endpoint.port) if endpoint is not None else None

    def send(self, peer: Peer, request: Request) -> bool:
        """Send a request to a peer if it is ready. Return whether it was."""
        is_ready = self.connections.ready_at(peer.node_id, self.now_ms) <= self.now_ms
        if is_ready:
            request_id = self.connections.send(peer.node_id, self.now_ms)
            self.effects.sends.append(Send(request_id=request_id, peer=peer, request=request))
        return is_ready

    def send_to_voter(self, key: ReplicaKey, request: Request) -> None:
        """Send to a voter that is ready and whose address is known."""
        peer = self.peer(key.node_id, self.voters.endpoints_of(key.node_id))
        if peer is not None:
            self.send(peer, request)

    def reply(self, reply_to: Hashable, response: Response) -> None:
        """Respond to the request that was handed in with ``reply_to``."""
        self.effects.replies.append((reply_to, response))

    def response(self, cls: type[R], error: ErrorCode = ErrorCode.NONE) -> R:
        """Return a response with the fields that all responses share.

        A leader without a known address is not named, because a peer of Apache Kafka that does not
        know it as a voter would stop.
        """
        endpoints = self.leader_endpoints
        is_known = bool(endpoints) or isinstance(self.role, Leader | Resigned)
        return cls(
            error=error,
            leader_id=self.leader_id if is_known else NO_LEADER,
            epoch=self.epoch,
            leader_endpoints=endpoints,
        )

    def fetch_request(self) -> FetchRequest:
        """Return the request for the records after this replica's log."""
        return FetchRequest(
            replica=self.own,
            epoch=self.epoch,
            fetch_offset=self.log.end_offset,
            last_epoch=self.log.last_epoch,
            high_watermark=self.high_watermark,
            max_wait_ms=self.config.fetch_wait_ms,
            max_bytes=self.config.fetch_max_bytes,
        )

    def change_log(self, change: TruncateTo | AppendFetched | AppendControl | StoreSlice) -> None:
        """Request a change of the log. The previous change must be complete."""
        assert not self.is_log_changing, "a change of the log is under way"
        self.effects.log_change = change
        self.is_log_changing = True

    def advance_high_watermark(self, offset: int) -> None:
        """Record that everything below ``offset`` is committed.

        The high watermark never decreases.
        """
        if offset > self.high_watermark:
            self.high_watermark = self.effects.high_watermark = offset
