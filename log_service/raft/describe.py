"""The state of the metadata quorum as its leader sees it, for DescribeQuorum.

This file decides which replicas are voters or observers, and how far each has replicated. Times on
the leader's monotonic clock are converted to milliseconds since the Unix epoch. This file does not
know requests. ``driver`` calls it, and a handler writes the response.
"""

from dataclasses import dataclass

from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.leader import NEVER_MS, Leader, ReplicaProgress
from log_service.raft.voters import ReplicaKey, VoterSet

UNKNOWN_TIME_MS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDescription:
    """The progress of one replica.

    Times are milliseconds since the Unix epoch. They are -1 for a replica that has never fetched,
    or has never caught up.
    """

    key: ReplicaKey
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The state of the quorum. The leader's own entry is among the voters if it is a voter.

    ``high_watermark`` is -1 while the leader has committed nothing in its epoch.
    """

    leader_id: NodeId
    epoch: LeaderEpoch
    high_watermark: int
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]
    voter_set: VoterSet


def describe(leader: Leader, end_offset: int, *, now_ms: int, wall_ms: int) -> QuorumDescription:
    """Return the state of the quorum of ``leader``, whose log ends at ``end_offset``."""

    def wall(at_ms: int) -> int:
        return UNKNOWN_TIME_MS if at_ms <= NEVER_MS else wall_ms - (now_ms - at_ms)

    def described(progress: ReplicaProgress) -> ReplicaDescription:
        if progress.key.node_id == leader.own.node_id:
            return ReplicaDescription(
                key=leader.own,
                end_offset=end_offset,
                last_fetch_ms=wall_ms,
                last_caught_up_ms=wall_ms,
            )
        return ReplicaDescription(
            key=progress.key,
            end_offset=progress.end_offset,
            last_fetch_ms=wall(progress.last_fetch_ms),
            last_caught_up_ms=wall(progress.last_caught_up_ms),
        )

    return QuorumDescription(
        leader_id=leader.own.node_id,
        epoch=leader.epoch,
        high_watermark=leader.high_watermark,
        voters=tuple(map(described, leader.voter_progress())),
        observers=tuple(map(described, leader.observer_progress(now_ms))),
        voter_set=leader.voters,
    )
