"""Bugs are planted into the product, so that the simulation of clusters proves that it finds them.

As in ``node_bugs``, each replaces one decision by a wrong one that a programmer could have made.
Those that are about several nodes are here: replication, in-sync replicas, the quorum, coordinators
that move.

    python -m tests.sim.cluster_bugs                          each bug, with the seeds that are known to show it first
    python -m tests.sim.cluster_bugs "high watermark"         those whose name contains this
    python -m tests.sim.cluster_bugs --seeds 9                every seed of each up to 9, with the time that it takes to show the bug
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, cast
from uuid import UUID
from weakref import WeakKeyDictionary

from log_service.broker.handlers.produce import produce
from log_service.controller.death_watch import DeathWatch
from log_service.controller.rules import alter_partition
from log_service.controller.rules.partitions import Partitions
from log_service.controller.sessions import BrokerSessions
from log_service.coordinator.shards import Shards
from log_service.metadata.partition import PartitionRegistration
from log_service.raft import core, elections, leadership, roles, voter_changes
from log_service.raft.leader import Leader
from log_service.raft.metadata_log import MetadataLog
from log_service.raft.roles import ElectionState, Role
from log_service.replication import partition_state
from log_service.replication.fetcher import Fetcher
from log_service.replication.partition import Partition
from log_service.replication.partition_state import Change, PartitionState
from log_service.state_machine.runtime import Runtime
from log_service.storage import last_run, page_cache
from log_service.storage.future_logs import FutureLogs
from log_service.storage.last_run import LostLog
from log_service.storage.log import Log
from log_service.storage.log_manager import LogManager
from tests.sim import cluster_aims as aims
from tests.sim.bug_hunts import ClusterBug, hunt
from tests.sim.cluster_plan import ClusterPlan
from tests.sim.missing_files import MISSING_FILES
from tests.sim.node_bugs import replace_before_the_rest, replay_without_commits
from tests.sim.node_plan import Fault, Plan
from tests.unit.raft.quorum_bugs import count_what_is_not_synced, note_log_as_synced

DEATHS = frozenset({Fault.DIE, Fault.DIE_AT_OPERATION, Fault.SEVERAL_DIE, Fault.DIE_WHILE_STARTING})
ISOLATIONS = frozenset({Fault.SPLIT, Fault.PAUSE})


def has_all_synced(plan: Plan) -> bool:
    return cast("ClusterPlan", plan).is_all_synced and plan.sync_seconds > 0


def has_deaths(plan: Plan) -> bool:
    return bool(DEATHS & set(plan.faults))


def has_isolation(plan: Plan) -> bool:
    return bool(ISOLATIONS & set(plan.faults))


def is_unsynced(plan: Plan) -> bool:
    return not cast("ClusterPlan", plan).is_all_synced


# The wrong decisions


def _forget_who_waits(_runtime: Runtime[Any]) -> list[Any]:
    return []


_begin = Fetcher.begin_at_own_end
_look_again, _apply = PartitionState.look_again, PartitionState.apply
_remembered, _is_vote_granted = roles.remembered, roles.is_vote_granted
_replay_log = Shards.replay_log
_read_batches = MetadataLog.read_batches
_suspect = DeathWatch.suspect
_wait, _maybe_finish, _read = (
    produce.ProducePartitionStatus.__init__,
    produce.ProducePartitionStatus.maybe_finish,
    Partition.read,
)


def _take_nothing(_partitions: Partitions, _node_id: int, _directory_id: UUID) -> None:
    """Leave a broker the replicas of a failed directory, because the broker is still there."""


async def _sync_later(self: Fetcher, unsynced: list[Any]) -> None:
    """The next fetch goes out at once, and tells the leader of what may be lost."""
    for followed in unsynced:
        self._start_soon(self._sync_one, followed)


def _own_end_without_sync(self: PartitionState) -> int:
    return self.log_end_offset


def _truncate_to_high_watermark(self: Fetcher, partition: Partition) -> None:
    """Truncate to the high watermark, as followers did before KIP-101."""
    _begin(self, partition)
    partition.truncate_to(partition.high_watermark)


def _check_no_epochs(*_arguments: object) -> None:
    """Take whatever any leader says of any time."""


def _is_always_far_enough(*_offsets: int) -> bool:
    return True


def _go_anywhere(self: PartitionState) -> bool:
    """The high watermark is where the slowest replica is, also where that is further back than
    before.
    """
    if not self.is_leader or self.is_under_min_isr:
        return False
    reached = min(
        (self.own_end_offset, *(max(0, follower.log_end_offset) for follower in self._awaited))
    )
    has_moved = reached != self.high_watermark
    self._move_to(reached)
    return has_moved


def _ignore_min_isr(self: PartitionState, now_ms: int) -> Change:
    """An ISR of one is enough for any topic."""
    kept, self.min_insync_replicas = self.min_insync_replicas, 1
    change = _look_again(self, now_ms)
    self.min_insync_replicas = kept
    return change


def _wait_for_committed_isr_alone(self: PartitionState, now_ms: int) -> Change:
    """Wait for the committed in-sync replicas alone, and for none that joins or may have joined."""
    kept, self.proposal = self.proposal, None
    change = _look_again(self, now_ms)
    self.proposal = kept
    return change


def _lead_on(self: PartitionState, registration: PartitionRegistration, **options: Any) -> Change:
    """Once a leader, always a leader."""
    was_leader = self.is_leader
    change = _apply(self, registration, **options)
    self.is_leader = self.is_leader or was_leader
    return change & ~Change.LOST if was_leader else change


def _forget_the_vote(role: Role) -> ElectionState:
    return _remembered(role)._replace(voted_id=roles.NOT_VOTED)


def _grant_any_pre_vote(
    role: Role, candidate: Any, *, is_up_to_date: bool, is_pre_vote: bool
) -> bool:
    if is_pre_vote:
        return is_up_to_date and not isinstance(role, Leader)
    return _is_vote_granted(role, candidate, is_up_to_date=is_up_to_date, is_pre_vote=is_pre_vote)


def _vote_for_a_shorter_log(
    role: Role, candidate: Any, *, is_up_to_date: bool, is_pre_vote: bool
) -> bool:
    return _is_vote_granted(role, candidate, is_up_to_date=True, is_pre_vote=is_pre_vote)


def _without_tail(self: MetadataLog, start_offset: int) -> list[Any]:
    """A start that finds a snapshot reads nothing that came after it."""
    found = _read_batches(self, start_offset)
    return found if self.latest_snapshot is None or not self.latest_snapshot.end_offset else []


def _load_nothing(self: Any, led: Any) -> Any:
    """Take the partition's end for how far it was loaded, and nothing else."""
    kept, led.shard = led.shard, self._new_shard()
    try:
        return _replay_log(self, led)
    finally:
        led.shard = kept


_largest_required: WeakKeyDictionary[Log, int] = WeakKeyDictionary()
"""Of each log up to where appends were waited for: what ends there again was sent again."""


def _wait_for_new_records_alone(
    self: Any,
    partition: Partition,
    leader_epoch: int,
    required_offset: int,
    result: Any,
    *,
    needs_all: bool,
) -> None:
    """Wait for new records alone.

    Repeated records are in the log, and are acknowledged though no other replica may have them yet.
    """
    assert partition.log is not None, "it was just appended to"
    largest = _largest_required.get(partition.log, 0)
    _largest_required[partition.log] = max(required_offset, largest)
    _wait(
        self,
        partition,
        leader_epoch,
        required_offset,
        result,
        needs_all=needs_all and required_offset > largest,
    )


def _mark_what_is_sent_again(
    self: Any,
    partition: Partition,
    leader_epoch: int,
    required_offset: int,
    result: Any,
    *,
    needs_all: bool,
) -> None:
    """Mark a wait for repeated records by a negative offset.

    They wait for the other replicas alone.
    """
    assert partition.log is not None, "it was just appended to"
    largest = _largest_required.get(partition.log, 0)
    _largest_required[partition.log] = max(required_offset, largest)
    _wait(
        self,
        partition,
        leader_epoch,
        required_offset if required_offset > largest else -required_offset,
        result,
        needs_all=needs_all,
    )


def _finish_before_the_sync(self: Any) -> bool:
    """Count this replica as synced for repeated records.

    The sync that was begun is the first request's to wait for.
    """
    if self.required_offset >= 0:
        return _maybe_finish(self)
    state = self.partition.state
    kept, self.required_offset = self.required_offset, -self.required_offset
    try:
        ends = [
            state.log_end_offset,
            *(follower.log_end_offset for follower in state.awaited_followers),
        ]
        is_led_on = state.is_leader and state.leader_epoch == self.leader_epoch
        return (is_led_on and min(ends) >= self.required_offset) or _maybe_finish(self)
    finally:
        self.required_offset = kept


def _suspect_what_was_fenced(self: DeathWatch, node_id: Any, epoch: Any) -> Any:
    """A broker that came back after it was fenced by mistake is fenced for its next connection that
    ends.
    """
    self._fenced.pop(node_id, None)
    return _suspect(self, node_id, epoch)


def _allow_any_voter_change(_leader: Any, _latest: Any) -> None:
    return None


def _read_to_the_end(self: Partition, *arguments: Any, **options: Any) -> Any:
    """Serve all records of the log, whichever other replicas have them."""
    state = self.state
    kept, state.high_watermark = state.high_watermark, state.log_end_offset
    try:
        return _read(self, *arguments, **options)
    finally:
        state.high_watermark = kept


def _read_to_the_end_of_a_follower(self: Partition, *arguments: Any, **options: Any) -> Any:
    """A reader that its leader has sent to a replica in its rack gets all that is there."""
    return (
        _read(self, *arguments, **options)
        if self.state.is_leader
        else _read_to_the_end(self, *arguments, **options)
    )


def _miss_nothing(*_: object) -> bool:
    return False


def _take_any_page_cache(_noted_id: object, _present_id: str | None) -> bool:
    """Miss no file of the last run, whatever has happened to its machine since."""
    return True


def _believe_in_a_beginning(**fields: Any) -> LostLog:
    """Take what is left of a log for its beginning."""
    return LostLog(**{**fields, "has_gap": False})


def _presume_nobody(_sessions: BrokerSessions) -> frozenset[Any]:
    """A broker that is not fenced is there, whether or not this controller has heard of it."""
    return frozenset()


BUGS: Sequence[ClusterBug] = (
    ClusterBug(
        name="follower fetches on before it has synced",
        replacements=((Fetcher, "sync", _sync_later),),
        fits=has_all_synced,
        shown_by=(3, 7, 19),
    ),
    ClusterBug(
        name="leader counts its own unsynced records",
        replacements=((PartitionState, "own_end_offset", property(_own_end_without_sync)),),
        fits=has_all_synced,
        shown_by=(3, 10, 19),
    ),
    ClusterBug(
        name="quorum's leader counts its own unsynced records",
        replacements=(
            (leadership, "note_synced", count_what_is_not_synced),
            (leadership, "note_log", note_log_as_synced),
        ),
        fits=lambda plan: plan.sync_seconds > 0,
        shown_by=(3, 6),
    ),
    ClusterBug(
        name="truncated to the high watermark",
        replacements=((Fetcher, "begin_at_own_end", _truncate_to_high_watermark),),
        fits=lambda plan: bool({Fault.NEW_LEADER_DIES, Fault.STOP} & set(plan.faults)),
        shown_by=(3, 9, 2),
    ),
    ClusterBug(
        name="no epoch is checked in AlterPartition",
        replacements=(
            (alter_partition, "check_epochs", _check_no_epochs),
            (alter_partition, "check_eligible", _check_no_epochs),
        ),
        aim=aims.LATE_CHANGES,
        shown_by=(2,),
    ),
    ClusterBug(
        name="in-sync replicas grow too early",
        replacements=((partition_state, "is_far_enough", _is_always_far_enough),),
        aim=aims.LATE_CHANGES,
        shown_by=(2, 1, 4),
    ),
    ClusterBug(
        name="high watermark goes back",
        replacements=((PartitionState, "advance_high_watermark", _go_anywhere),),
        aim=aims.SLOW_FOLLOWERS,
        shown_by=(1, 4),
    ),
    ClusterBug(
        name="high watermark moves under min.insync.replicas",
        replacements=((PartitionState, "look_again", _ignore_min_isr),),
        fits=has_deaths,
        shown_by=(1, 3, 0),
    ),
    ClusterBug(
        name="stale leader goes on",
        replacements=((PartitionState, "apply", _lead_on),),
        fits=has_isolation,
        shown_by=(3, 2, 1),
    ),
    ClusterBug(
        name="vote not written down",
        replacements=(
            (roles, "remembered", _forget_the_vote),
            (core, "remembered", _forget_the_vote),
        ),
        fits=has_deaths,
        shown_by=(3, 1, 0),
    ),
    ClusterBug(
        name="pre-vote that disturbs",
        replacements=((elections, "is_vote_granted", _grant_any_pre_vote),),
        fits=has_isolation,
        shown_by=(1,),
    ),
    ClusterBug(
        name="voted for a shorter log",
        replacements=((elections, "is_vote_granted", _vote_for_a_shorter_log),),
        fits=has_isolation,
        shown_by=(1, 15, 11, 6),
    ),
    ClusterBug(
        name="presumed broker is elected",
        replacements=((BrokerSessions, "presumed", _presume_nobody),),
        aim=aims.LOST_DISKS,
        shown_by=(4, 5, 14, 8, 16),
    ),
    ClusterBug(
        name="snapshot without its tail",
        replacements=((MetadataLog, "read_batches", _without_tail),),
        aim=aims.SHORT_SNAPSHOTS,
        shown_by=(1, 3, 4),
    ),
    ClusterBug(
        name="coordinator serves before it has loaded",
        replacements=((Shards, "replay_log", _load_nothing),),
        aim=aims.MOVING_COORDINATORS,
        shown_by=(0, 3, 4),
    ),
    ClusterBug(
        name="offsets lost on failover",
        replacements=((Shards, "replay_batch", replay_without_commits),),
        aim=aims.MOVING_COORDINATORS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="what is sent again is acknowledged at once",
        replacements=((produce.ProducePartitionStatus, "__init__", _wait_for_new_records_alone),),
        aim=aims.SLOW_FOLLOWERS,
        shown_by=(1,),
    ),
    ClusterBug(
        name="what is sent again is acknowledged while the leader syncs",
        replacements=(
            (produce.ProducePartitionStatus, "__init__", _mark_what_is_sent_again),
            (produce.ProducePartitionStatus, "maybe_finish", _finish_before_the_sync),
        ),
        aim=aims.SLOW_SYNCS,
        shown_by=(1,),
    ),
    ClusterBug(
        name="live leader fenced twice in one epoch",
        replacements=((DeathWatch, "suspect", _suspect_what_was_fenced),),
        aim=aims.REFUSED_CONTROLLERS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="second voter change before the first is committed",
        replacements=((voter_changes, "check_no_other_change", _allow_any_voter_change),),
        aim=aims.CHANGING_VOTERS,
        shown_by=(2,),
    ),
    ClusterBug(
        name="loss of power taken for a kill",
        replacements=(
            (page_cache, "is_same_page_cache", _take_any_page_cache),
            (LogManager, "has_lost", _miss_nothing),
        ),
        fits=is_unsynced,
        aim=aims.SEVERAL_DEATHS,
        shown_by=(17, 21),
    ),
    ClusterBug(
        name="missing logs not looked for",
        replacements=((LogManager, "has_lost", _miss_nothing),),
        aim=MISSING_FILES,
        shown_by=(1, 2, 3),
    ),
    ClusterBug(
        name="log with a gap goes on at its end",
        is_long=True,
        replacements=((last_run, "LostLog", _believe_in_a_beginning),),
        aim=MISSING_FILES,
        shown_by=(7, 14),
    ),
    ClusterBug(
        name="leaders stay in a directory that failed",
        is_long=True,
        replacements=((Partitions, "take_directory", _take_nothing),),
        aim=aims.FAILING_DIRECTORIES,
        shown_by=(10,),
    ),
    ClusterBug(
        name="copy of a replica in place before its rest",
        replacements=((FutureLogs, "replace_log", replace_before_the_rest),),
        aim=aims.MOVING_LOGS,
        shown_by=(0, 1, 2),
    ),
    ClusterBug(
        name="coordinator that resigns forgets who waits",
        replacements=((Runtime, "take_requests", _forget_who_waits),),
        aim=aims.MOVING_COORDINATORS,
        shown_by=(3,),
    ),
    ClusterBug(
        name="reads above the high watermark",
        replacements=((Partition, "read", _read_to_the_end),),
        aim=aims.SLOW_FOLLOWERS,
        shown_by=(0, 1),
    ),
    ClusterBug(
        name="follower serves reads above its high watermark",
        replacements=((Partition, "read", _read_to_the_end_of_a_follower),),
        aim=aims.SLOW_FOLLOWERS,
        shown_by=(7, 6, 2),
    ),
)


def main(arguments: Iterable[str] | None = None) -> int:
    """Play bugs; see ``bug_hunts.hunt``."""
    return hunt(BUGS, arguments)


if __name__ == "__main__":
    sys.exit(main())
