"""Events of the quorum's rules, and the effects that they return.

``RaftCore.step`` takes one event and returns ``Effects``. The owner of the log and of the network
performs them in this order: it writes ``persist`` durably, then performs ``log_change``, then sends
``replies`` and ``sends``. The other fields are information. After ``log_change`` the owner passes
``LogChanged`` or ``SnapshotInstalled`` to ``step``, and ``Synced`` as soon as the log is durable.
No other event may come before the effects are fully performed.
"""

from collections.abc import Hashable, Sized
from dataclasses import dataclass, field
from uuid import UUID

from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.log_view import SnapshotId
from log_service.raft.messages import Peer, Request, Response
from log_service.raft.roles import ElectionState
from log_service.raft.twins import Twins
from log_service.raft.voters import VoterChange, VoterSet

# Events


@dataclass(frozen=True, slots=True)
class Started:
    """The process begins. This is the first event."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed. This event comes at ``Effects.deadline_ms`` at the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestArrived:
    """A peer's request.

    Exactly one of the ``replies`` of this or a later step has its ``reply_to``.
    """

    reply_to: Hashable
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseArrived:
    """The response to a request of ``Effects.sends``."""

    peer_id: NodeId
    request_id: int
    response: Response


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed:
    """A request of ``Effects.sends`` that got no response, or an error for the whole request.

    ``is_refused`` means that the peer's host is reachable but no process listens at its address.
    """

    peer_id: NodeId
    request_id: int
    request: Request
    error: ErrorCode
    is_refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChanged:
    """The log was appended to or truncated, or a slice of a snapshot was stored.

    ``changes`` are the voter changes in the appended records. ``is_refused`` means that nothing was
    appended, because the bytes do not begin with a whole valid batch that follows the log.
    """

    changes: tuple[VoterChange, ...] = ()
    is_refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The log is durable below ``end_offset``."""

    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInstalled:
    """A fetched snapshot is durable and has replaced the log. ``change`` holds its voters."""

    snapshot_id: SnapshotId
    change: VoterChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResignAsked:
    """The owner requests another leader.

    It has no effect if this node does not lead in ``epoch``.
    """

    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class ShutdownBegan:
    """The process is about to end. A leader resigns, and no election begins."""


Event = (
    Started
    | Ticked
    | RequestArrived
    | ResponseArrived
    | RequestFailed
    | LogChanged
    | Synced
    | SnapshotInstalled
    | ResignAsked
    | ShutdownBegan
)

# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTo:
    """Truncate the log to ``offset``."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFetched:
    """Append a leader's batches.

    An incomplete last batch is ignored. A batch of an epoch above ``max_epoch`` is ignored too,
    with all batches after it.
    """

    records: Sized
    max_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendControl:
    """Append one control batch of this node's own ``epoch``.

    Its records are in the order of the fields. A field that is None has no record. ``granting_ids``
    and ``voter_ids`` belong to the LeaderChange record, whose leader is this node.
    """

    epoch: LeaderEpoch
    granting_ids: tuple[NodeId, ...] | None = None
    voter_ids: tuple[NodeId, ...] = ()
    kraft_version: int | None = None
    voters: VoterSet | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSlice:
    """Write a slice of a fetched snapshot. With the last slice, the snapshot replaces the log."""

    snapshot_id: SnapshotId
    position: int
    content: Sized
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A request to a peer. It ends with one ``ResponseArrived`` or ``RequestFailed``.

    A late response is ignored.
    """

    request_id: int
    peer: Peer
    request: Request


@dataclass(slots=True)
class Effects:
    """The effects of one step.

    - ``high_watermark`` and ``leader`` are set if they have changed. ``leader`` is the leader and
      its epoch, with id -1 if no leader is known. A replica is reported as the leader only after it
      has committed the start of its epoch, because only then it knows all committed records.
    - ``deadline_ms`` is the latest time of the next ``Ticked``.
    - ``failure`` is the reason why the process must end. Otherwise committed records would be lost.
    - ``rival_epoch`` is an epoch that this replica leads according to a peer, but in fact does not.
    - ``twins`` are two processes that fetch with the id of one voter.
    - ``voting_directory`` is the directory from which this node votes according to the log, if it
      is not this replica's.
    """

    persist: ElectionState | None = None
    log_change: TruncateTo | AppendFetched | AppendControl | StoreSlice | None = None
    replies: list[tuple[Hashable, Response]] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    high_watermark: int | None = None
    leader: tuple[NodeId, LeaderEpoch] | None = None
    deadline_ms: int | None = None
    failure: str | None = None
    rival_epoch: LeaderEpoch | None = None
    twins: Twins | None = None
    voting_directory: UUID | None = None
