"""The leader's knowledge of its replicas. The high watermark follows from it, and whether it still
leads.

Decides how far the log is committed, which voters must be told of the leader again, whether a majority still fetches (check-quorum), and
which voters are the best successors. Sends nothing and takes no messages.

Invariants: the high watermark is unknown until a majority has passed the start of the epoch, and never goes back; a replica counts with
what it has synced, the leader too; a fetch counts only where the replica's log is a prefix of the leader's.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.messages import UNKNOWN_OFFSET, FetchRequest
from log_service.raft.twins import Twins, TwinWatch
from log_service.raft.voters import NO_DIRECTORY, ReplicaKey, Voter, VoterSet

NEVER_MS = -(1 << 60)
OBSERVER_SESSION_MS = 300_000
CAUGHT_UP_WITHIN_MS = 3_600_000
MAX_OBSERVERS = 1_000
"""How many observers are remembered; the one that has been silent longest goes first."""
MAX_PARKED_OBSERVERS = 1_000
"""How many fetches of observers, and of those that name no replica, may wait at once; the oldest is responded to first."""


@dataclass(slots=True, kw_only=True)
class ReplicaProgress:
    """How far a replica has come. ``end_offset`` is -1 before its first valid fetch."""

    key: ReplicaKey
    end_offset: int = UNKNOWN_OFFSET
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS
    leader_end_at_fetch: int = UNKNOWN_OFFSET

    def note_fetch(self, fetch_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Take note of a fetch.

        A replica had caught up at its last fetch if it now has all that was there then.
        """
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif 0 < self.leader_end_at_fetch <= fetch_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.leader_end_at_fetch = leader_end_offset
        self.end_offset = fetch_offset
        self.last_fetch_ms = now_ms


@dataclass(slots=True, kw_only=True)
class PendingVoterChange:
    """A change of voters that is under way. ``last_offset`` is that of its record, None before the record is appended."""

    voter: Voter
    reply_to: Hashable | None
    deadline_ms: int
    is_response_after_commit: bool = True
    is_addition: bool = False
    last_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedFetch:
    """A fetch that waits for records or for a higher high watermark."""

    reply_to: Hashable
    request: FetchRequest
    deadline_ms: int


class Leader:
    """The role of the leader."""

    __slots__ = (
        "_fetched_ids",
        "_observers",
        "_synced_end_offset",
        "_twins",
        "_voters",
        "begin_deadline_ms",
        "check_quorum_deadline_ms",
        "check_quorum_ms",
        "counts_itself",
        "epoch",
        "epoch_start_offset",
        "high_watermark",
        "is_alone",
        "is_resign_due",
        "own",
        "parked",
        "pending",
        "told_voters",
        "voters",
    )

    def __init__(
        self, *, epoch: LeaderEpoch, own: ReplicaKey, epoch_start_offset: int, voters: VoterSet, check_quorum_ms: int, now_ms: int
    ) -> None:
        self.epoch = epoch
        self.own = own
        self.epoch_start_offset = epoch_start_offset
        self.high_watermark = UNKNOWN_OFFSET
        self.check_quorum_ms = check_quorum_ms
        self.check_quorum_deadline_ms = now_ms + check_quorum_ms
        self.begin_deadline_ms = now_ms
        self.is_resign_due = False
        self.pending: PendingVoterChange | None = None
        self.parked: list[ParkedFetch] = []
        self.told_voters: VoterSet | None = None
        """At kraft.version 0 the voters as they have told of themselves; those without a directory id have not. None once it is raised."""
        self.voters = VoterSet()
        self.counts_itself = False  # whether it is a voter
        self.is_alone = False  # whether it is the only one
        self._synced_end_offset = UNKNOWN_OFFSET
        self._voters: dict[NodeId, ReplicaProgress] = {}
        self._observers: dict[ReplicaKey, ReplicaProgress] = {}
        self._fetched_ids: dict[NodeId, None] = {}
        self._twins = TwinWatch()
        self.set_voters(voters)

    def __repr__(self) -> str:
        ends = {node_id: progress.end_offset for node_id, progress in self._voters.items()}
        return f"<Leader epoch={self.epoch} start={self.epoch_start_offset} hw={self.high_watermark} ends={ends}>"

    # Replicas

    def set_voters(self, voters: VoterSet) -> None:
        """Lead these voters from now on; a replica keeps its progress when it becomes a voter or an observer."""
        known = {**{progress.key: progress for progress in self._voters.values()}, **self._observers}
        by_id = {progress.key.node_id: progress for progress in self._voters.values()}
        self.voters = voters
        self.counts_itself = self.own in voters
        self.is_alone = self.counts_itself and len(voters) == 1
        self._voters = {}
        for voter in voters:
            progress = known.pop(voter.key, None)
            before = by_id.get(voter.node_id)
            if progress is None and before is not None and before.key.directory_id == NO_DIRECTORY:
                progress = known.pop(before.key, None)
            self._voters[voter.node_id] = progress or ReplicaProgress(key=voter.key)
            self._voters[voter.node_id].key = voter.key
        self._observers = {key: progress for key, progress in known.items() if key != self.own}

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether a replica votes."""
        voter = self.voters.get(key.node_id)
        return voter is not None and voter.matches(key)

    def superfluous_fetch(self) -> ParkedFetch | None:
        """Return the observer's fetch that has waited longest, where too many of them wait, else None."""
        others = [fetch for fetch in self.parked if not self.is_voter(fetch.request.replica)]
        return others[0] if len(others) > MAX_PARKED_OBSERVERS else None

    def progress_of(self, key: ReplicaKey) -> ReplicaProgress | None:
        """Return how far a replica has come, None where it never fetched and is no voter."""
        voter = self.voters.get(key.node_id)
        if voter is not None and voter.matches(key):
            return self._voters[key.node_id]
        return self._observers.get(key)

    def voter_progress(self) -> list[ReplicaProgress]:
        """Return how far the voters have come; the leader's own entry has what it has synced."""
        if self.counts_itself:
            self._voters[self.own.node_id].end_offset = self._synced_end_offset
        return list(self._voters.values())

    def observer_progress(self, now_ms: int) -> list[ReplicaProgress]:
        """Return how far the observers have come that were heard of lately."""
        return [each for each in self._observers.values() if now_ms - each.last_fetch_ms < OBSERVER_SESSION_MS]

    def note_synced(self, end_offset: int) -> bool:
        """Count what this node has made durable; says whether that commits more."""
        self._synced_end_offset = max(self._synced_end_offset, end_offset)
        return self._advance()

    def note_fetch(self, key: ReplicaKey, fetch_offset: int, leader_end_offset: int, now_ms: int) -> bool:
        """Count a valid fetch; says whether that commits more."""
        progress = self.progress_of(key)
        if progress is None:
            self._forget_silent_observers(now_ms)
            progress = self._observers[key] = ReplicaProgress(key=key)
        progress.note_fetch(fetch_offset, leader_end_offset, now_ms)
        self.note_heard(key, now_ms)
        return self._advance()

    def is_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether an observer has caught up once, and fetched within the hour: then it may become a voter."""
        progress = self._observers.get(key)
        return progress is not None and progress.last_caught_up_ms > NEVER_MS and progress.last_fetch_ms > now_ms - CAUGHT_UP_WITHIN_MS

    def successors(self) -> tuple[ReplicaKey, ...]:
        """Return the other voters, the most caught up first."""
        others = [progress for progress in self._voters.values() if progress.key.node_id != self.own.node_id]
        return tuple(progress.key for progress in sorted(others, key=lambda each: (-each.end_offset, each.key.node_id)))

    def silent_voters(self, since_ms: int) -> tuple[ReplicaKey, ...]:
        """Return the other voters whose last valid fetch was at or before ``since_ms``."""
        others = [progress for progress in self._voters.values() if progress.key.node_id != self.own.node_id]
        return tuple(progress.key for progress in others if progress.last_fetch_ms <= since_ms)

    def _forget_silent_observers(self, now_ms: int) -> None:
        self._observers = {key: each for key, each in self._observers.items() if now_ms - each.last_fetch_ms < OBSERVER_SESSION_MS}
        while len(self._observers) >= MAX_OBSERVERS:
            del self._observers[min(self._observers, key=lambda key: self._observers[key].last_fetch_ms)]

    def twins_of(self, node_id: NodeId, since_ms: int) -> Twins | None:
        """Return the directories of two processes that both follow as ``node_id`` since ``since_ms``, or None."""
        return self._twins.of(node_id, since_ms)

    # Committing

    def _advance(self) -> bool:
        """Move the high watermark to what a majority of the voters has synced."""
        ends = sorted((progress.end_offset for progress in self.voter_progress()), reverse=True)
        majority_end = ends[len(ends) // 2] if ends else UNKNOWN_OFFSET
        if majority_end <= self.epoch_start_offset or majority_end <= self.high_watermark:
            return False
        self.high_watermark = majority_end
        return True

    # Check-quorum

    def note_heard(self, key: ReplicaKey, now_ms: int) -> None:
        """Count a voter that follows. The check begins anew once a majority does, in which the
        leader counts where it is a voter.

        Another replica of a voter's node id is remembered, and does not count.
        """
        if key.node_id in self._voters and key.directory_id != NO_DIRECTORY:
            self._twins.note(key.node_id, key.directory_id, now_ms)
        voter = self.voters.get(key.node_id)
        if voter is None or not voter.matches(key):
            return
        self._fetched_ids[key.node_id] = None
        needed = self.voters.majority_count - (1 if self.counts_itself else 0)
        if len(self._fetched_ids) >= needed:
            self._fetched_ids.clear()
            self.check_quorum_deadline_ms = now_ms + self.check_quorum_ms

    def is_check_quorum_over(self, now_ms: int) -> bool:
        """Whether no majority has followed for the time of the check."""
        return len(self.voters) > 1 and now_ms >= self.check_quorum_deadline_ms
