"""How the metadata quorum is, as its leader sees it: what DescribeQuorum tells.

Decides who is a voter, who is an observer, and how far each has come. Times come in on the leader's monotonic clock and go out since the
epoch. Knows no request: ``driver`` asks, a handler writes the response.
"""

from dataclasses import dataclass

from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.leader import NEVER_MS, Leader, ReplicaProgress
from log_service.raft.voters import ReplicaKey, VoterSet

UNKNOWN_TIME_MS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDescription:
    """One replica. Times are milliseconds since the epoch, -1 where it never fetched, or never had all."""

    key: ReplicaKey
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The quorum, its leader's own entry among the voters if it is one. ``high_watermark`` is -1 while the epoch has committed nothing."""

    leader_id: NodeId
    epoch: LeaderEpoch
    high_watermark: int
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]
    voter_set: VoterSet


def describe(leader: Leader, end_offset: int, *, now_ms: int, wall_ms: int) -> QuorumDescription:
    """Return the quorum of ``leader``, whose log ends at ``end_offset``."""

    def wall(at_ms: int) -> int:
        return UNKNOWN_TIME_MS if at_ms <= NEVER_MS else wall_ms - (now_ms - at_ms)

    def described(progress: ReplicaProgress) -> ReplicaDescription:
        if progress.key.node_id == leader.own.node_id:
            return ReplicaDescription(key=leader.own, end_offset=end_offset, last_fetch_ms=wall_ms, last_caught_up_ms=wall_ms)
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
