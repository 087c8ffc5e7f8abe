"""The roles of a replica of the metadata log, and the allowed changes between them.

    role         what it does                             it ends when
    -----------  ---------------------------------------  ---------------------------------------
    unattached   knows no leader; asks any voter for one  a leader is known; a voter's election
                                                          timer: prospective
    voted        is unattached, has voted in this epoch   as unattached
    prospective  requests pre-votes in the same epoch     a majority grants them: candidate; it
                                                          refuses, or the election timer: follower
                                                          or unattached
    candidate    votes for itself in a new epoch, and     a majority: leader; the election timer:
                 asks for votes                           prospective
    leader       serves fetches, appends, commits         shutdown, no majority fetches, removed:
                                                          resigned
    resigned     led this epoch and will not again;       the election timer: unattached in the
                 tells the voters so                      next epoch
    follower     fetches from the leader                  a voter's fetch timer: prospective
    observer     is unattached or follower, no voter      as they do, without timers: it never
                                                          asks for votes

Any role changes to unattached or follower when the replica learns of a higher epoch. ``SAME_EPOCH``
and ``NEXT_EPOCH`` hold this table. ``transitions.become`` changes roles and checks the table.

Invariant: the result of ``remembered`` is on disk before any other node can learn of the role.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.leader import Leader
from log_service.raft.log_view import SnapshotId
from log_service.raft.messages import NO_LEADER, UNKNOWN_OFFSET
from log_service.raft.voters import NO_DIRECTORY, ReplicaKey, VoterEndpoint, VoterSet

NOT_VOTED = NodeId(-1)


class ElectionState(NamedTuple):
    """A replica's stored election state: the newest epoch, its leader, and its own vote.

    The leader or the vote is -1 if there is none. The state is a tuple, because each step builds
    one to check whether anything has changed.
    """

    leader_id: NodeId
    leader_epoch: LeaderEpoch
    voted_id: NodeId = NOT_VOTED
    voted_directory_id: UUID = NO_DIRECTORY

    @property
    def voted(self) -> ReplicaKey | None:
        """The candidate that got this replica's vote, or None."""
        return (
            None
            if self.voted_id == NOT_VOTED
            else ReplicaKey(self.voted_id, self.voted_directory_id)
        )


class Votes:
    """The votes of one election. Every voter is undecided until it grants or refuses its vote."""

    def __init__(self, voters: VoterSet) -> None:
        self.voters = voters
        self._granted: dict[NodeId, bool] = {}

    def __repr__(self) -> str:
        return f"<Votes {self._granted} of {len(self.voters)}>"

    def note(self, voter_id: NodeId, *, is_granted: bool) -> None:
        """Count a vote. The vote of a replica that is not a voter is ignored."""
        if self.voters.get(voter_id) is not None:
            self._granted[voter_id] = is_granted

    @property
    def granting_ids(self) -> tuple[NodeId, ...]:
        """The voters that granted their vote."""
        return tuple(
            sorted(voter_id for voter_id, is_granted in self._granted.items() if is_granted)
        )

    @property
    def undecided(self) -> tuple[ReplicaKey, ...]:
        """The voters that have not responded yet."""
        return tuple(voter.key for voter in self.voters if voter.node_id not in self._granted)

    @property
    def is_won(self) -> bool:
        """Whether a majority granted its votes."""
        return len(self.granting_ids) >= self.voters.majority_count

    @property
    def is_lost(self) -> bool:
        """Whether a majority can no longer be reached."""
        return len(self.granting_ids) + len(self.undecided) < self.voters.majority_count


@dataclass(slots=True, kw_only=True)
class Unattached:
    """The role without a leader to fetch from.

    ``leader_id`` is set if a leader is known but its address is not.
    """

    epoch: LeaderEpoch
    leader_id: NodeId = NO_LEADER
    voted: ReplicaKey | None = None
    election_deadline_ms: int


@dataclass(slots=True, kw_only=True)
class Prospective:
    """The role that requests pre-votes. The leader and the vote are those of the previous role."""

    epoch: LeaderEpoch
    leader_id: NodeId = NO_LEADER
    leader_endpoints: tuple[VoterEndpoint, ...] = ()
    voted: ReplicaKey | None = None
    votes: Votes
    election_deadline_ms: int


@dataclass(slots=True, kw_only=True)
class Candidate:
    """The role that requests votes in a new epoch."""

    epoch: LeaderEpoch
    own: ReplicaKey
    votes: Votes
    election_deadline_ms: int


@dataclass(slots=True, kw_only=True)
class SnapshotFetch:
    """A snapshot that a follower fetches. ``position`` is the number of bytes stored so far."""

    snapshot_id: SnapshotId
    position: int = 0


@dataclass(slots=True, kw_only=True)
class Follower:
    """The role that fetches from the leader, which is another node.

    ``awaits_sync`` is true while fetched records are not durable yet.
    """

    epoch: LeaderEpoch
    leader_id: NodeId
    leader_endpoints: tuple[VoterEndpoint, ...]
    voted: ReplicaKey | None = None
    fetch_deadline_ms: int
    update_voter_deadline_ms: int
    has_fetched: bool = False
    has_updated_voter: bool = False
    awaits_sync: bool = False
    leader_high_watermark: int = UNKNOWN_OFFSET
    snapshot: SnapshotFetch | None = None


@dataclass(slots=True, kw_only=True)
class Resigned:
    """The role of a replica that led ``epoch``, and has resigned or restarted since.

    ``unacknowledged`` holds the voters that do not know of the resignation yet.
    """

    epoch: LeaderEpoch
    own: ReplicaKey
    successors: tuple[ReplicaKey, ...] = ()
    unacknowledged: list[ReplicaKey] = field(default_factory=list)
    election_deadline_ms: int


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned

SAME_EPOCH: Mapping[type[Role], tuple[type[Role], ...]] = {
    Unattached: (Unattached, Prospective, Follower),
    Prospective: (Prospective, Unattached, Follower),
    Candidate: (Leader, Prospective, Follower),
    Leader: (Resigned,),
    Follower: (Follower, Prospective),
    Resigned: (Prospective,),
}
"""The allowed changes within an epoch.

Unattached and prospective replicas take the same role again after a vote. A follower does so when
it learns more addresses of its leader. A resigned replica becomes prospective at once if it is the
only voter.
"""

NEXT_EPOCH: Mapping[type[Role], tuple[type[Role], ...]] = {
    Unattached: (Unattached, Follower),
    Prospective: (Unattached, Follower, Candidate),
    Candidate: (Unattached, Follower),
    Leader: (Unattached, Follower),
    Follower: (Unattached, Follower),
    Resigned: (Unattached, Follower),
}


def may_follow(old: Role, new: Role) -> bool:
    """Whether the table allows a change from ``old`` to ``new``."""
    if new.epoch == old.epoch:
        return type(new) in SAME_EPOCH[type(old)]
    return new.epoch > old.epoch and type(new) in NEXT_EPOCH[type(old)]


def remembered(role: Role) -> ElectionState:
    """Return the part of a role that must survive a restart."""
    match role:
        case Leader() | Resigned():
            return ElectionState(leader_id=role.own.node_id, leader_epoch=role.epoch)
        case Candidate():
            return _state(role.epoch, NO_LEADER, role.own)
        case _:
            return _state(role.epoch, role.leader_id, role.voted)


def _state(epoch: LeaderEpoch, leader_id: NodeId, voted: ReplicaKey | None) -> ElectionState:
    if voted is None:
        return ElectionState(leader_id=leader_id, leader_epoch=epoch)
    return ElectionState(
        leader_id=leader_id,
        leader_epoch=epoch,
        voted_id=voted.node_id,
        voted_directory_id=voted.directory_id,
    )


def is_vote_granted(
    role: Role, candidate: ReplicaKey, *, is_up_to_date: bool, is_pre_vote: bool
) -> bool:
    """Return whether a replica votes for a candidate of its own epoch.

    A pre-vote is refused by a leader and by a follower that has fetched from its leader, so that a
    replica that was cut off does not disturb the quorum. A binding vote is given once in an epoch,
    and only while the epoch has no leader.
    """
    if is_pre_vote:
        has_leader = isinstance(role, Leader) or (isinstance(role, Follower) and role.has_fetched)
        return is_up_to_date and not has_leader
    if not isinstance(role, Unattached | Prospective):
        return False
    if role.voted is not None:
        return role.voted.node_id == candidate.node_id and role.voted.directory_id in {
            NO_DIRECTORY,
            candidate.directory_id,
        }
    return is_up_to_date and role.leader_id == NO_LEADER
