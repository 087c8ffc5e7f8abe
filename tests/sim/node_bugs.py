"""Bugs that are planted into the product, to prove that the simulation finds what it is there for.

Each replaces one decision of the product by a wrong one that a programmer could have made, while
``planted`` is open. ``seed_limit`` is how many seeds the simulation gets to notice: those that are
known to show the bug, then others that have the fault which it is about.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

from log_service.broker.handlers.fetch.reads import DelayedFetch, FetchPartitionStatus
from log_service.broker.handlers.produce import produce
from log_service.client.admin import groups
from log_service.client.consumer import commits
from log_service.client.consumer.subscriptions import PartitionState, Subscriptions
from log_service.common.errors import ErrorCode, KafkaError
from log_service.controller.rules import brokers, configs, table
from log_service.coordinator.group.records.offset import OffsetRecord
from log_service.coordinator.shards import Shards
from log_service.raft.driver import RaftDriver
from log_service.raft.events import Synced
from log_service.replication import partition_state
from log_service.replication.partition import Partition
from log_service.storage import log as log_module
from log_service.storage import recovery
from log_service.storage.checkpoint_writer import CheckpointWriter
from log_service.storage.cleaner.offset_map import OffsetMap
from log_service.storage.future_logs import FutureLogs
from log_service.storage.log import Log
from log_service.storage.log_directory import LogDirectory
from log_service.storage.producer_state import ProducerState
from log_service.storage.segment import Segment
from tests.sim.node_plan import Fault, Plan, draw_plan

Replacement = tuple[Any, str, Callable[..., Any] | property | tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A planted bug has its replacement, and seeds in which it matters.

    Within some of these it has to be noticed.

    ``shown_by`` are seeds that are known to show it, the first of them also played without the bug;
    none where the first ones do.
    """

    name: str
    replacements: tuple[Replacement, ...]
    seed_limit: int = 20
    fits: Callable[[Plan], bool] = lambda _plan: True
    shown_by: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.name

    def plan_of(self, seed: int) -> Plan:
        """Draw what a seed plays with the bug."""
        return draw_plan(seed)

    def seeds(self) -> Iterator[int]:
        """The known seeds, and then the first ones that have what the bug is about; ``seed_limit``
        in all.
        """
        others = (
            seed for seed in count() if seed not in self.shown_by and self.fits(self.plan_of(seed))
        )
        return islice(chain(self.shown_by, others), self.seed_limit)


def warn_where_late(bug: Bug, seed: int) -> None:
    """Warn that another seed than the first known one has shown a bug.

    It takes longer from now on, and no test fails for that.
    """
    if bug.shown_by and seed != bug.shown_by[0]:
        text = f"the planted bug {str(bug)!r} is shown by seed {seed}, and no more by {bug.shown_by[0]}: let shown_by begin with one that does"
        warnings.warn(text, UserWarning, stacklevel=2)


def is_compacting(plan: Plan) -> bool:
    return any(topic.is_compacted for topic in plan.topics)


def is_moving(plan: Plan) -> bool:
    return plan.are_logs_moved


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Run with the bug."""
    with ExitStack() as stack:
        for owner, name, replacement in bug.replacements:
            stack.enter_context(mock.patch.object(owner, name, replacement))
        yield


# The wrong decisions

_append_partition, _note_synced, _await = (
    Partition.append_validated,
    Partition.note_synced,
    FetchPartitionStatus.__init__,
)
_wait = produce.ProducePartitionStatus.__init__
_recover, _roll, _write = Segment.recover, Log.begin_segment, Log.write_content
_replace_log = FutureLogs.replace_log
_replay_batch = Shards.replay_batch
_commit_request = groups.commit_request


def _append_as_if_synced(self: partition_state.PartitionState, log_end_offset: int) -> bool:
    self.log_end_offset = self.high_watermark = log_end_offset
    return True


def _finish_at_once(_self: Any) -> bool:
    return True


def _forget_producers(
    producers: ProducerState, *_arguments: object, **_offsets: object
) -> list[Any]:
    producers.reset()
    return []


def _keep_torn_tail(self: Segment, size_bytes: int) -> None:
    """Believe to have cut."""


def _keep_old_indexes(self: Segment, *arguments: Any) -> Any:
    result = _recover(self, *arguments)
    self._indexes.is_loaded = False
    return result


def _lead_on(*_arguments: object, is_clean: bool) -> None:
    """A process that registers again goes on where the process before ended."""


def replay_without_commits(self: Any, *arguments: Any) -> None:
    def decode(key: Any, value: Any) -> Any:
        decoded = real_decode(key, value)
        return None if isinstance(decoded, OffsetRecord) else decoded

    real_decode, self._decode = self._decode, decode
    try:
        _replay_batch(self, *arguments)
    finally:
        self._decode = real_decode


async def _commit_before_sync(self: RaftDriver) -> None:
    if self.high_watermark == 0:
        await self.log.log.sync()
    self._inbox.append(Synced(end_offset=self.log_end_offset))
    await self._drain()


def _try_sync_again(self: LogDirectory, _error: OSError) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "try again")


def _roll_without_directory(self: Log, *arguments: Any) -> Any:
    is_dirty = self.syncs.is_directory_dirty
    segment = _roll(self, *arguments)
    self.syncs.is_directory_dirty = is_dirty
    return segment


def _refuse_what_would_roll(self: Log, buffer: Any, size_bytes: int, *arguments: Any) -> Any:
    if self.segments.active.size_bytes + size_bytes > self.config.segment_bytes:
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "no segment holds this")
    return _write(self, buffer, size_bytes, *arguments)


def _recovery_points_ahead(self: CheckpointWriter, directory: LogDirectory) -> dict[Any, int]:
    return {key: log.log_end_offset for key, log in self._logs_of(directory).items()}


def _take_any_sequence(self: ProducerState, _header: object) -> None:
    """Every batch is new."""


def _keep_only_the_active_segment(retained: Any, _now_ms: int, _high_watermark: int) -> int:
    return len(retained.segments) - 1


def _alter_without_a_record(*arguments: Any) -> Any:
    return [], configs.incremental_alter_configs(*arguments)[1]


_imported_rule = table.imported_rule


def _imported_with_one_that_records_nothing(module: str, name: str) -> Any:
    return (
        _alter_without_a_record
        if name == "incremental_alter_configs"
        else _imported_rule(module, name)
    )


def _commit_one_too_many(group_id: str, offsets: Any, **member: Any) -> Any:
    return _commit_request(
        group_id,
        {each: replace(position, offset=position.offset + 1) for each, position in offsets.items()},
        **member,
    )


def _supersede_the_latest_too(self: OffsetMap, keys: Any, offsets: Any) -> list[int]:
    return [index for index, key in enumerate(keys) if self._offsets.get(key, -1) >= offsets[index]]


def _take_the_latest_for_old(self: OffsetMap, keys: Any, offsets: Any) -> bool:
    """The first offset of a key is kept, not the last."""
    for key, offset in zip(keys, offsets, strict=True):
        self._offsets.setdefault(key, offset)
    self.latest_offset = offsets[-1] if offsets else self.latest_offset
    return True


def _superseded_by_any(self: OffsetMap, keys: Any, offsets: Any) -> list[int]:
    return [
        index
        for index, key in enumerate(keys)
        if self._offsets.get(key, offsets[index]) != offsets[index]
    ]


def _revoke_in_part(self: Subscriptions, partitions: Any) -> None:
    """A member reads a partition that went to another member no more, and still commits it."""
    for each in partitions:
        self._partitions[each].is_paused = True


def _assign_besides(self: Subscriptions, partitions: Any, start: Any) -> None:
    for each in partitions:
        state = self._partitions.get(each)
        self._partitions[each] = (
            PartitionState(each, start) if state is None or state.is_paused else state
        )


def _leave_copies(_self: FutureLogs, _directory: LogDirectory) -> list[Any]:
    return []


def replace_before_the_rest(self: FutureLogs, log: Log, copy: Log) -> Log:
    with mock.patch.object(log, "read_batches", return_value=()):
        return _replace_log(self, log, copy)


_visible_bytes: WeakKeyDictionary[Log, int] = WeakKeyDictionary()
"""Of each log, what was appended when the high watermark last moved: taken for what can be read."""


def _advance_and_count_all(self: Partition, *arguments: Any) -> Any:
    has_moved = _note_synced(self, *arguments)
    if has_moved and self.log is not None:
        _visible_bytes[self.log] = self.appended_bytes
    return has_moved


def _append_and_count_all(self: Partition, log: Log, *arguments: Any) -> Any:
    result = _append_partition(self, log, *arguments)
    if not self.state.is_synced_first:
        _visible_bytes[log] = self.appended_bytes
    return result


def _await_bytes(self: Any, partition: Partition, *arguments: Any) -> None:
    _await(self, partition, *arguments)
    self.readable_bytes = _visible_bytes.get(partition.log, 0) if partition.log is not None else 0


def _has_more_bytes(_self: DelayedFetch, awaited: Any) -> bool:
    return bool(_visible_bytes.get(awaited.partition.log, 0) > awaited.readable_bytes)


def _wait_for_the_next_record(
    self: Any,
    partition: Partition,
    leader_epoch: int,
    required_offset: int,
    *arguments: Any,
    **options: Any,
) -> None:
    _wait(self, partition, leader_epoch, required_offset + 1, *arguments, **options)


BUGS = (
    Bug(
        name="acknowledged before the sync",
        replacements=((produce.ProducePartitionStatus, "maybe_finish", _finish_at_once),),
        shown_by=(19, 20),
    ),
    Bug(
        name="high watermark past what is synced",
        replacements=((partition_state.PartitionState, "note_append", _append_as_if_synced),),
        shown_by=(20, 12),
    ),
    Bug(
        name="producers not rebuilt after a crash",
        replacements=((recovery, "reload_producers", _forget_producers),),
        shown_by=(45, 35),
    ),
    Bug(
        name="repetitions not noticed",
        replacements=((ProducerState, "check", _take_any_sequence),),
        shown_by=(45, 35),
    ),
    Bug(
        name="torn tail not cut",
        replacements=((Segment, "cut_torn_tail", _keep_torn_tail),),
        shown_by=(20, 37),
    ),
    Bug(
        name="index not rebuilt",
        replacements=((Segment, "recover", _keep_old_indexes),),
        shown_by=(12, 20),
    ),
    Bug(
        name="epoch not raised after a crash",
        replacements=((brokers, "clean_up", _lead_on),),
        shown_by=(20, 50),
    ),
    Bug(
        name="commits not replayed",
        replacements=((Shards, "replay_batch", replay_without_commits),),
        shown_by=(50, 45),
    ),
    Bug(
        name="metadata acknowledged before the sync",
        replacements=((RaftDriver, "sync", _commit_before_sync),),
        shown_by=(20, 37),
    ),
    Bug(
        name="failed sync tried again",
        replacements=((LogDirectory, "note_sync_error", _try_sync_again),),
        seed_limit=40,
        fits=lambda plan: Fault.FAILED_SYNC in plan.faults,
        shown_by=(4,),
    ),
    Bug(
        name="directory not synced after a roll",
        replacements=((Log, "begin_segment", _roll_without_directory),),
        shown_by=(7, 4),
    ),
    Bug(
        name="batch refused that a new segment would hold",
        replacements=((Log, "write_content", _refuse_what_would_roll),),
        shown_by=(6, 7),
    ),
    Bug(
        name="retention takes too much",
        replacements=((log_module, "count_deletable", _keep_only_the_active_segment),),
        shown_by=(0,),
    ),
    Bug(
        name="change acknowledged and not recorded",
        replacements=((table, "imported_rule", _imported_with_one_that_records_nothing),),
        shown_by=(11, 3),
    ),
    Bug(
        name="commit of a record that was not read",
        replacements=((commits, "commit_request", _commit_one_too_many),),
        shown_by=(0,),
    ),
    Bug(
        name="compaction takes the latest too",
        replacements=((OffsetMap, "superseded", _supersede_the_latest_too),),
        fits=is_compacting,
        shown_by=(36, 4),
    ),
    Bug(
        name="compaction keeps the first",
        replacements=(
            (OffsetMap, "add", _take_the_latest_for_old),
            (OffsetMap, "superseded", _superseded_by_any),
        ),
        fits=is_compacting,
        shown_by=(4,),
    ),
    Bug(
        name="partitions committed on that went to another member",
        replacements=(
            (Subscriptions, "revoke", _revoke_in_part),
            (Subscriptions, "assign", _assign_besides),
        ),
        fits=lambda plan: plan.is_member_late and plan.member_count > 1 and plan.are_offsets_synced,
        shown_by=(50,),
    ),
    Bug(
        name="copy in place before its rest",
        replacements=((FutureLogs, "replace_log", replace_before_the_rest),),
        fits=is_moving,
        shown_by=(94,),
    ),
    Bug(
        name="unfinished copies left",
        replacements=((FutureLogs, "delete_copies", _leave_copies),),
        fits=is_moving,
        shown_by=(20,),
    ),
    Bug(
        name="waiting fetch takes what was appended for what can be read",
        replacements=(
            (Partition, "note_synced", _advance_and_count_all),
            (Partition, "append_validated", _append_and_count_all),
            (FetchPartitionStatus, "__init__", _await_bytes),
            (DelayedFetch, "has_enough", _has_more_bytes),
        ),
        fits=lambda plan: plan.are_waits_judged,
        shown_by=(39, 35),
    ),
    Bug(
        name="produce is acknowledged with the next record",
        replacements=((produce.ProducePartitionStatus, "__init__", _wait_for_the_next_record),),
        fits=lambda plan: plan.are_waits_judged,
        shown_by=(35, 19),
    ),
    Bug(
        name="recovery point ahead",
        replacements=((CheckpointWriter, "recovery_points", _recovery_points_ahead),),
        shown_by=(4,),
    ),
)
