"""The leader's knowledge of its replicas, which decides the high watermark and check-quorum.

This file decides how far the log is committed, which voters must be notified of the leader again,
whether a majority still fetches (check-quorum), and which voters are the best successors. It sends
nothing and processes no messages.

Invariants: The high watermark is unknown until a majority has passed the start of the epoch, and
never decreases. A replica counts with its synced records, and so does the leader. A fetch counts
only if the replica's log is a prefix of the leader's.
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
"""The largest number of tracked observers.

The one that has been silent longest is dropped first.
"""
MAX_PARKED_OBSERVERS = 1_000
"""The largest number of waiting fetches of observers and of unnamed replicas.

Above this number, the oldest fetch gets a response first.
"""


@dataclass(slots=True, kw_only=True)
class ReplicaProgress:
    """The progress of one replica. ``end_offset`` is -1 before its first valid fetch."""

    key: ReplicaKey
    end_offset: int = UNKNOWN_OFFSET
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS
    leader_end_at_fetch: int = UNKNOWN_OFFSET

    def note_fetch(self, fetch_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Apply a fetch of the replica.

        If the replica now has everything that the leader had at the previous fetch, it was caught
        up at that time.
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
    """A change of voters that is in progress.

    ``last_offset`` is the offset of its record, or None before the record is appended.
    """

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
    """The role of the leader, with the progress of its replicas."""

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
        "volatile_voters",
        "voters",
    )

    def __init__(
        self,
        *,
        epoch: LeaderEpoch,
        own: ReplicaKey,
        epoch_start_offset: int,
        voters: VoterSet,
        check_quorum_ms: int,
        now_ms: int,
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
        self.volatile_voters: VoterSet | None = None
        """The voters with the entries that they have reported to this leader, at kraft.version 0.

        A voter without a directory id has not reported yet. None after kraft.version is raised.
        """
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
        return (
            f"<Leader epoch={self.epoch} start={self.epoch_start_offset} hw={self.high_watermark}"
            f" ends={ends}>"
        )

    # Replicas

    def set_voters(self, voters: VoterSet) -> None:
        """Use these voters from now on. A replica that joins or leaves them keeps its progress."""
        known = {
            **{progress.key: progress for progress in self._voters.values()},
            **self._observers,
        }
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
        """Whether a replica is a voter."""
        voter = self.voters.get(key.node_id)
        return voter is not None and voter.matches(key)

    def superfluous_fetch(self) -> ParkedFetch | None:
        """Return the oldest waiting fetch of an observer if too many of them wait, else None."""
        others = [fetch for fetch in self.parked if not self.is_voter(fetch.request.replica)]
        return others[0] if len(others) > MAX_PARKED_OBSERVERS else None

    def progress_of(self, key: ReplicaKey) -> ReplicaProgress | None:
        """Return the progress of a replica, or None if it is not a voter and has never fetched."""
        voter = self.voters.get(key.node_id)
        if voter is not None and voter.matches(key):
            return self._voters[key.node_id]
        return self._observers.get(key)

    def voter_progress(self) -> list[ReplicaProgress]:
        """Return the progress of the voters. The leader's own entry has its synced end."""
        if self.counts_itself:
            self._voters[self.own.node_id].end_offset = self._synced_end_offset
        return list(self._voters.values())

    def observer_progress(self, now_ms: int) -> list[ReplicaProgress]:
        """Return the progress of the observers that have fetched recently."""
        return [
            each
            for each in self._observers.values()
            if now_ms - each.last_fetch_ms < OBSERVER_SESSION_MS
        ]

    def note_synced(self, end_offset: int) -> bool:
        """Count this node's records below ``end_offset``.

        Return whether the high watermark moved.
        """
        self._synced_end_offset = max(self._synced_end_offset, end_offset)
        return self.advance_high_watermark()

    def note_fetch(
        self, key: ReplicaKey, fetch_offset: int, leader_end_offset: int, now_ms: int
    ) -> bool:
        """Apply a valid fetch. Return whether the high watermark moved."""
        progress = self.progress_of(key)
        if progress is None:
            self._forget_silent_observers(now_ms)
            progress = self._observers[key] = ReplicaProgress(key=key)
        progress.note_fetch(fetch_offset, leader_end_offset, now_ms)
        self.note_contact(key, now_ms)
        return self.advance_high_watermark()

    def is_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether an observer has ever caught up, and has fetched within the last hour.

        Such an observer may become a voter.
        """
        progress = self._observers.get(key)
        return (
            progress is not None
            and progress.last_caught_up_ms > NEVER_MS
            and progress.last_fetch_ms > now_ms - CAUGHT_UP_WITHIN_MS
        )

    def successors(self) -> tuple[ReplicaKey, ...]:
        """Return the other voters, those with the largest end offset first."""
        others = [
            progress
            for progress in self._voters.values()
            if progress.key.node_id != self.own.node_id
        ]
        return tuple(
            progress.key
            for progress in sorted(others, key=lambda each: (-each.end_offset, each.key.node_id))
        )

    def silent_voters(self, since_ms: int) -> tuple[ReplicaKey, ...]:
        """Return the other voters whose last valid fetch was at or before ``since_ms``."""
        others = [
            progress
            for progress in self._voters.values()
            if progress.key.node_id != self.own.node_id
        ]
        return tuple(progress.key for progress in others if progress.last_fetch_ms <= since_ms)

    def _forget_silent_observers(self, now_ms: int) -> None:
        self._observers = {
            key: each
            for key, each in self._observers.items()
            if now_ms - each.last_fetch_ms < OBSERVER_SESSION_MS
        }
        while len(self._observers) >= MAX_OBSERVERS:
            del self._observers[
                min(self._observers, key=lambda key: self._observers[key].last_fetch_ms)
            ]

    def twins_of(self, node_id: NodeId, since_ms: int) -> Twins | None:
        """Return the directories of two processes that fetch with the id ``node_id``, or None.

        Both have fetched after ``since_ms``.
        """
        return self._twins.of(node_id, since_ms)

    # Committing

    def advance_high_watermark(self) -> bool:
        """Move the high watermark to the offset that a majority of the voters has synced.

        Return whether it moved.
        """
        ends = sorted((progress.end_offset for progress in self.voter_progress()), reverse=True)
        majority_end = ends[len(ends) // 2] if ends else UNKNOWN_OFFSET
        if majority_end <= self.epoch_start_offset or majority_end <= self.high_watermark:
            return False
        self.high_watermark = majority_end
        return True

    # Check-quorum

    def note_contact(self, key: ReplicaKey, now_ms: int) -> None:
        """Count a voter that has fetched. A majority restarts the time of check-quorum.

        The leader counts itself if it is a voter. Another replica with a voter's node id does not
        count, but is remembered for ``twins_of``.
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
        """Whether no majority of voters has fetched within ``check_quorum_ms``."""
        return len(self.voters) > 1 and now_ms >= self.check_quorum_deadline_ms
