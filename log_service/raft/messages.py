"""Messages between replicas of the metadata log, as the quorum's rules use them.

``wire`` converts them to Kafka's messages. Each request is the part of Kafka's message for one
partition. The cluster and the partition were checked before. Every response holds the leader and
the epoch that its sender knows. The rules name the records and snapshot bytes of a response, and
the log's owner adds the bytes.
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
    """A node that gets requests. A configured server whose node id is unknown has a negative id."""

    node_id: NodeId
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """``candidate`` requests the vote of ``voter`` in ``epoch``.

    A pre-vote finds out whether an election could be won (KIP-996).
    """

    voter: ReplicaKey | None
    candidate: ReplicaKey
    epoch: LeaderEpoch
    last_epoch: int
    end_offset: int
    is_pre_vote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochRequest:
    """A new leader notifies ``voter`` that it leads."""

    voter: ReplicaKey | None
    leader_id: NodeId
    epoch: LeaderEpoch
    leader_endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochRequest:
    """A leader announces that it has resigned. ``successors`` are the other voters, best first."""

    leader_id: NodeId
    epoch: LeaderEpoch
    successors: tuple[ReplicaKey, ...] = ()
    leader_endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A replica requests the records after its log.

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
    """A replica requests the bytes of a snapshot from ``position`` on."""

    replica: ReplicaKey
    epoch: LeaderEpoch
    snapshot_id: SnapshotId
    position: int
    max_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateVoterRequest:
    """A voter reports its listeners and its range of kraft.version to the leader."""

    epoch: LeaderEpoch
    voter: Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoterRequest:
    """A request to make an observer a voter."""

    voter: Voter
    is_response_after_commit: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveVoterRequest:
    """A request to make a voter an observer."""

    voter: ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRequest:
    """A request of this node's own controller to raise kraft.version of the quorum.

    With ``is_only_checked``, the leader only checks whether this is possible.
    """

    kraft_version: int
    is_only_checked: bool = False


@dataclass(frozen=True, slots=True)
class KRaftVersionRequest:
    """The leader asks a future voter for its supported kraft.version.

    On the wire it is ApiVersions.
    """


def sender_of(request: object) -> NodeId | None:
    """Return the node that sent a request, or None if the request does not name it."""
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
    """A replica grants or refuses its vote."""

    is_granted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochResponse(Response):
    """The voter has accepted the new leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochResponse(Response):
    """The voter has accepted the resignation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse(Response):
    """Records, or where the replica's log diverges, or the snapshot to fetch instead.

    On the leader, the rules set ``records_from``, and the log's owner reads at most ``max_bytes``
    from there. On the follower, the rules get ``records``. ``high_watermark`` is -1 while the
    leader has committed nothing in its epoch.
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

    The log's owner reads at most ``max_bytes`` from ``position`` into ``content``.
    """

    snapshot_id: SnapshotId | None = None
    size_bytes: int = 0
    position: int = 0
    max_bytes: int = 0
    content: Sized = field(default=b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateVoterResponse(Response):
    """The leader has appended the voter's new entry, or does not need it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChangeResponse(Response):
    """The result of AddRaftVoter, RemoveRaftVoter or an upgrade. ``message`` is for the caller."""

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
