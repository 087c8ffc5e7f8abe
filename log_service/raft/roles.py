"""The roles of a replica of the metadata log, and from which one to which it may go.

    role         what it does                                              it ends when
    -----------  --------------------------------------------------------  -----------------------------------------------------------
    unattached   knows no leader to fetch from; asks any voter for one     a leader is known; a voter's election timer: prospective
    voted        is unattached, and gave its vote in this epoch            as unattached
    prospective  asks whether an election would be won, in the same epoch  a majority would vote for it: candidate; it would not, or
                                                                           the election timer: follower or unattached
    candidate    votes for itself in a new epoch, and asks for votes       a majority: leader; the election timer: prospective
    leader       serves fetches, appends, commits                          shutdown, no majority fetches, removed: resigned
    resigned     led this epoch and will not again; tells the voters so    the election timer: unattached in the next epoch
    follower     fetches from the leader                                   a voter's fetch timer: prospective
    observer     is unattached or follower, and no voter                   as they do, without timers: it never asks for votes

Any role goes to unattached or follower when it hears of a higher epoch. ``SAME_EPOCH`` and ``NEXT_EPOCH`` are this table; roles change in
``transitions.become``, which checks them.

Invariant: what ``remembered`` returns is on disk before any other node can learn of the role.
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
    """A replica's memory of elections. It has the newest known epoch, its leader, and the own vote
    there, where -1 is none.

    A tuple, because each step makes one to see whether anything has changed.
    """

    leader_id: NodeId
    leader_epoch: LeaderEpoch
    voted_id: NodeId = NOT_VOTED
    voted_directory_id: UUID = NO_DIRECTORY

    @property
    def voted(self) -> ReplicaKey | None:
        """The candidate that got this replica's vote, None where none did."""
        return None if self.voted_id == NOT_VOTED else ReplicaKey(self.voted_id, self.voted_directory_id)


class Votes:
    """The votes of one election: every voter is undecided until it grants or refuses."""

    def __init__(self, voters: VoterSet) -> None:
        self.voters = voters
        self._granted: dict[NodeId, bool] = {}

    def __repr__(self) -> str:
        return f"<Votes {self._granted} of {len(self.voters)}>"

    def note(self, voter_id: NodeId, *, is_granted: bool) -> None:
        """Count a vote; one that is not a voter's counts for nothing."""
        if self.voters.get(voter_id) is not None:
            self._granted[voter_id] = is_granted

    @property
    def granting_ids(self) -> tuple[NodeId, ...]:
        """The voters that granted it."""
        return tuple(sorted(voter_id for voter_id, is_granted in self._granted.items() if is_granted))

    @property
    def undecided(self) -> tuple[ReplicaKey, ...]:
        """The voters that have not said anything yet."""
        return tuple(voter.key for voter in self.voters if voter.node_id not in self._granted)

    @property
    def is_won(self) -> bool:
        """Whether a majority granted it."""
        return len(self.granting_ids) >= self.voters.majority_count

    @property
    def is_lost(self) -> bool:
        """Whether a majority cannot grant it any more."""
        return len(self.granting_ids) + len(self.undecided) < self.voters.majority_count


@dataclass(slots=True, kw_only=True)
class Unattached:
    """Knows no leader to fetch from. ``leader_id`` is set where a leader is known whose address is not."""

    epoch: LeaderEpoch
    leader_id: NodeId = NO_LEADER
    voted: ReplicaKey | None = None
    election_deadline_ms: int


@dataclass(slots=True, kw_only=True)
class Prospective:
    """Asks for pre-votes. The leader and the vote are those of the role before it."""

    epoch: LeaderEpoch
    leader_id: NodeId = NO_LEADER
    leader_endpoints: tuple[VoterEndpoint, ...] = ()
    voted: ReplicaKey | None = None
    votes: Votes
    election_deadline_ms: int


@dataclass(slots=True, kw_only=True)
class Candidate:
    """Asks for votes in an epoch of its own."""

    epoch: LeaderEpoch
    own: ReplicaKey
    votes: Votes
    election_deadline_ms: int


@dataclass(slots=True, kw_only=True)
class SnapshotFetch:
    """A snapshot that a follower fetches: ``position`` bytes of it are stored."""

    snapshot_id: SnapshotId
    position: int = 0


@dataclass(slots=True, kw_only=True)
class Follower:
    """Fetches from the leader, which is another node. ``awaits_sync`` while what it fetched is not durable yet."""

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
    """Led ``epoch`` before it resigned, or before the process began. ``unacknowledged`` are the voters that do not know yet."""

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
"""Unattached and prospective begin again with a vote that they gave; a follower does when it learns more of its leader's addresses; a
resigned replica is prospective at once where it is the only voter."""

NEXT_EPOCH: Mapping[type[Role], tuple[type[Role], ...]] = {
    Unattached: (Unattached, Follower),
    Prospective: (Unattached, Follower, Candidate),
    Candidate: (Unattached, Follower),
    Leader: (Unattached, Follower),
    Follower: (Unattached, Follower),
    Resigned: (Unattached, Follower),
}


def may_follow(old: Role, new: Role) -> bool:
    """Whether the table lets ``new`` come after ``old``."""
    if new.epoch == old.epoch:
        return type(new) in SAME_EPOCH[type(old)]
    return new.epoch > old.epoch and type(new) in NEXT_EPOCH[type(old)]


def remembered(role: Role) -> ElectionState:
    """Return what a restart must know of a role."""
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
    return ElectionState(leader_id=leader_id, leader_epoch=epoch, voted_id=voted.node_id, voted_directory_id=voted.directory_id)


def is_vote_granted(role: Role, candidate: ReplicaKey, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
    """Return whether a replica votes for a candidate of its own epoch whose log is or is not up to date.

    A pre-vote is refused by a leader and by a follower that hears its leader, so that a replica that was cut off disturbs no quorum. A
    binding vote is given once in an epoch, and only while the epoch has no leader.
    """
    if is_pre_vote:
        hears_leader = isinstance(role, Leader) or (isinstance(role, Follower) and role.has_fetched)
        return is_up_to_date and not hears_leader
    if not isinstance(role, Unattached | Prospective):
        return False
    if role.voted is not None:
        return role.voted.node_id == candidate.node_id and role.voted.directory_id in {NO_DIRECTORY, candidate.directory_id}
    return is_up_to_date and role.leader_id == NO_LEADER
