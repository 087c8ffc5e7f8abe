"""Messages between replicas of the metadata log, as the quorum's rules see them. ``wire``
translates.

Each request is one partition's part of Kafka's message: the cluster and the partition are checked before it gets here. Every response names
the leader and the epoch that its sender knows. The rules name the records and snapshot bytes of a response; the log's owner puts the bytes
in.
"""

from collections.abc import Sized
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.log_view import EpochEnd, SnapshotId
from log_service.raft.voters import ReplicaKey, Voter, VoterEndpoint

NO_LEADER = NodeId(-1)
NO_EPOCH = LeaderEpoch(0)
"""The epoch before the first election."""
UNKNOWN_OFFSET = -1
WireMessage = Any
"""A generated message of ``protocol.messages``."""


class Peer(NamedTuple):
    """A node to send to. A server of the configuration whose id is not known yet has a negative id."""

    node_id: NodeId
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """``candidate`` asks ``voter`` for its vote in ``epoch``.

    A pre-vote asks whether an election would be worth it (KIP-996).
    """

    voter: ReplicaKey | None
    candidate: ReplicaKey
    epoch: LeaderEpoch
    last_epoch: int
    end_offset: int
    is_pre_vote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochRequest:
    """A new leader tells ``voter`` that it leads."""

    voter: ReplicaKey | None
    leader_id: NodeId
    epoch: LeaderEpoch
    leader_endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochRequest:
    """A leader tells that it resigned; ``successors`` are the other voters, the most caught up first."""

    leader_id: NodeId
    epoch: LeaderEpoch
    successors: tuple[ReplicaKey, ...] = ()
    leader_endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A replica asks for the records behind its log.

    The log is durable below ``fetch_offset`` and ends with a record of ``last_epoch``.
    """

    replica: ReplicaKey
    epoch: LeaderEpoch
    fetch_offset: int
    last_epoch: int
    high_watermark: int = UNKNOWN_OFFSET
    max_wait_ms: int = 0
    max_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotRequest:
    """A replica asks for the bytes of a snapshot from ``position`` on."""

    replica: ReplicaKey
    epoch: LeaderEpoch
    snapshot_id: SnapshotId
    position: int
    max_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateVoterRequest:
    """A voter tells the leader its listeners and its range of kraft.version."""

    epoch: LeaderEpoch
    voter: Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoterRequest:
    """An observer is to become a voter."""

    voter: Voter
    is_response_after_commit: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveVoterRequest:
    """A voter is to become an observer."""

    voter: ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRequest:
    """The quorum is to go on at another kraft.version. This is no peer's request, but this node's
    own controller's.

    Where ``is_only_checked`` the leader says whether it could be, and changes nothing.
    """

    kraft_version: int
    is_only_checked: bool = False


@dataclass(frozen=True, slots=True)
class KRaftVersionRequest:
    """The leader asks a voter to be which kraft.version it supports; ApiVersions on the wire."""


def sender_of(request: object) -> NodeId | None:
    """Return which node sent a request; None where the request does not say."""
    match request:
        case VoteRequest():
            return request.candidate.node_id
        case FetchRequest() | FetchSnapshotRequest():
            return request.replica.node_id
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            return request.leader_id
        case UpdateVoterRequest():
            return request.voter.node_id
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The fields of every response.

    ``leader_id`` is -1 while the sender knows no leader of ``epoch``.
    """

    error: ErrorCode = ErrorCode.NONE
    leader_id: NodeId = NO_LEADER
    epoch: LeaderEpoch = NO_EPOCH
    leader_endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse(Response):
    """Whether the vote is granted."""

    is_granted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochResponse(Response):
    """The voter has taken note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochResponse(Response):
    """The voter has taken note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse(Response):
    """Records, or how to get back to the leader's log first.

    The leader's rules set ``records_from``: the log's owner reads at most ``max_bytes`` from there. The follower's rules get ``records``.
    ``high_watermark`` is -1 while the leader has committed nothing in its epoch.
    """

    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = 0
    diverging: EpochEnd | None = None
    snapshot_id: SnapshotId | None = None
    records_from: int | None = None
    max_bytes: int = 0
    records: Sized = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotResponse(Response):
    """A slice of a snapshot of ``size_bytes``.

    The log's owner puts at most ``max_bytes`` from ``position`` on into ``content``.
    """

    snapshot_id: SnapshotId | None = None
    size_bytes: int = 0
    position: int = 0
    max_bytes: int = 0
    content: Sized = field(default=b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateVoterResponse(Response):
    """The leader has appended the voter's new entry, or needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChangeResponse(Response):
    """How AddRaftVoter, RemoveRaftVoter or an upgrade ended; ``message`` is for its caller to read."""

    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersionResponse(Response):
    """The range of kraft.version that a node supports."""

    min_kraft_version: int = 0
    max_kraft_version: int = 0


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | UpdateVoterRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpgradeRequest
    | KRaftVersionRequest
)
