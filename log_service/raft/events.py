"""Events of the quorum's rules, and the effects that they return.

``RaftCore.step`` takes one event and returns ``Effects``. The owner of the log and of the network performs them in this order: it writes
``persist`` durably, then performs ``log_change``, then sends ``replies`` and ``sends``; the rest is information. Once ``log_change`` is
performed the owner steps ``LogChanged`` or ``SnapshotInstalled``, and ``Synced`` as soon as the log is durable. No other event comes
between ``Effects`` and the end of their performance.
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
    """The process begins; the first event."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed, at the latest to ``Effects.deadline_ms``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestArrived:
    """A peer's request. Exactly one of the ``replies`` of this or a later step has its ``reply_to``."""

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
    """A request of ``Effects.sends`` that got no response, or one that holds only an error for all of it.

    ``is_refused`` says that the peer's host is there and no process listens at the peer's address.
    """

    peer_id: NodeId
    request_id: int
    request: Request
    error: ErrorCode
    is_refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChanged:
    """The log was appended to or cut.

    ``changes`` are the voters in what was appended. ``is_refused`` says that nothing was appended, for the bytes were no records.
    """

    changes: tuple[VoterChange, ...] = ()
    is_refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The log is durable below ``end_offset``."""

    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInstalled:
    """A fetched snapshot is durable and has replaced the log. ``change`` is its voters."""

    snapshot_id: SnapshotId
    change: VoterChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResignAsked:
    """The owner wants another leader; no change where this node does not lead in ``epoch``."""

    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class ShutdownBegan:
    """The process is about to end: a leader hands over, and no election is begun."""


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
    """Cut the log at ``offset``."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFetched:
    """Append a leader's batches.

    A last batch that is cut off is left out. So is a batch of an epoch above ``max_epoch``, with all behind it.
    """

    records: Sized
    max_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendControl:
    """Append one control batch of this node's own ``epoch``, its records in this order; None is none.

    ``granting_ids`` belongs to LeaderChange: who leads is this node, and who may vote ``voter_ids``.
    """

    epoch: LeaderEpoch
    granting_ids: tuple[NodeId, ...] | None = None
    voter_ids: tuple[NodeId, ...] = ()
    kraft_version: int | None = None
    voters: VoterSet | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSlice:
    """Write a slice of a fetched snapshot; the last one makes it durable and replaces the log by it."""

    snapshot_id: SnapshotId
    position: int
    content: Sized
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A request to a peer. Its end is one ``ResponseArrived`` or ``RequestFailed``; a late one is passed over."""

    request_id: int
    peer: Peer
    request: Request


@dataclass(slots=True)
class Effects:
    """The effects of one step.

    ``high_watermark`` and ``leader`` are set where they have changed. ``leader`` is who leads which epoch, -1 where no leader is known; a
    replica hears of itself once it has committed the start of its epoch, for only then it knows all that is committed. ``deadline_ms`` is
    when to step ``Ticked`` at the latest. ``failure`` says why the process must end: going on would lose what is committed. ``rival_epoch``
    is the epoch that this replica leads, as a peer says, and does not. ``twins`` are two processes that follow as one voter.
    ``voting_directory`` is the one from which this node votes, as the log says, where that is not this replica's.
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
