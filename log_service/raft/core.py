"""What a quorum of one decides: the epoch of a start, and how far the log is committed.

Decides with plain functions over values; knows no file, no clock and no network. Elections come with more voters: they replace
``elect_self`` and nothing else that a reader of the log can see.

Invariants: an epoch is never used twice, not even by a start that crashed before it wrote a record; the high watermark never passes what
the voter has synced, and never goes back.
"""

from dataclasses import dataclass
from uuid import UUID

from log_service.common.types import LeaderEpoch, NodeId

NO_LEADER = NodeId(-1)
NOT_VOTED = NodeId(-1)
NO_DIRECTORY = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """A place between two records of the metadata log, as the leader of ``epoch`` sees it. ``end_offset`` is exclusive.

    The offset alone names no place: a leader of a later epoch may have another record there.
    """

    epoch: LeaderEpoch
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """What a voter remembers about elections: the newest epoch it knows, its leader, and its own vote there; -1 is none."""

    leader_id: NodeId
    leader_epoch: LeaderEpoch
    voted_id: NodeId = NOT_VOTED
    voted_directory_id: UUID = NO_DIRECTORY


def elect_self(known: QuorumState | None, log_epoch: int, node_id: NodeId) -> QuorumState:
    """Return the state of a start of the only voter: leader of an epoch that neither its memory nor its log has seen.

    ``log_epoch`` is the epoch of the last batch, -1 for an empty log.
    """
    known_epoch = known.leader_epoch if known else 0
    return QuorumState(leader_id=node_id, leader_epoch=LeaderEpoch(max(known_epoch, log_epoch, 0) + 1))


def committed_offset(high_watermark: int, synced_end_offset: int) -> int:
    """Return the high watermark (exclusive) once this voter's log is durable below ``synced_end_offset``: one voter is a majority."""
    return max(high_watermark, synced_end_offset)
