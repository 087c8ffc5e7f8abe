"""Bugs of transactions and groups are planted here.

The copy loop in the simulation must find them.

As in ``cluster_bugs``, each replaces one decision by a wrong one that a programmer could have made.

    python -m tests.sim.copy_bugs                          each bug, with the seeds that are known to show it first
    python -m tests.sim.copy_bugs "stable offset"          those whose name contains this
    python -m tests.sim.copy_bugs --seeds 5                every seed of each up to 5, with the time that it takes to show the bug
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from log_service.client.consumer.aborted import AbortedFilter
from log_service.common.errors import ErrorCode
from log_service.coordinator import shards
from log_service.coordinator.group.classic.group import ClassicGroup
from log_service.coordinator.group.offsets.commit_checks import CommitChecks
from log_service.coordinator.group.offsets.committed import OffsetStore
from log_service.coordinator.shards import Shards
from log_service.coordinator.transaction import markers, rules
from log_service.coordinator.transaction.transaction import NO_START_MS, Transaction
from log_service.coordinator.transaction.transaction_coordinator import TransactionCoordinatorShard
from log_service.replication.partition import Partition
from log_service.storage import producer_snapshots
from log_service.storage.aborted_transactions import AbortedTransactions
from log_service.storage.producer_state import NO_OFFSET
from log_service.storage.unstable_transactions import UnstableTransactions
from log_service.storage.verifications import UNCHECKED
from tests.sim import cluster_aims as aims
from tests.sim.bug_hunts import ClusterBug, hunt

# The wrong decisions

_end = UnstableTransactions.end
_written = TransactionCoordinatorShard.handle_written_markers
_message, _replay_records = markers.markers_of, Shards.replay_records
_add_partitions, _raised_epoch = rules.add_partitions, rules.raised_epoch
_fetch, _take_end = OffsetStore.fetch, OffsetStore.replay_end_transaction
_begin_generation = ClassicGroup.begin_next_generation
_within = AbortedTransactions.within
_encode_entry, _on_loaded = producer_snapshots.encode_entry, TransactionCoordinatorShard.on_loaded


def _forget_the_marker(self: UnstableTransactions, producer_id: int, marker_offset: int) -> Any:
    """A transaction that has its marker holds no reader back, wherever the marker is."""
    ended = _end(self, producer_id, marker_offset)
    if ended is not None:
        self._ended.remove(ended)
    return ended


def _take_first_news_for_all(
    self: TransactionCoordinatorShard, written: Any, decision: Any
) -> None:
    """One broker has written its markers: so have all."""
    _written(
        self, replace(written, partitions=tuple(self.owed(written.transactional_id))), decision
    )


def _commit_what_is_sent_later(entry: Any) -> Any:
    """A marker of some of the partitions is a commit."""
    message = _message(entry)
    message.transaction_result = message.transaction_result or len(entry.partitions) < len(
        entry.markers.partitions
    )
    return message


def _replay_without_transactions(
    self: Any, shard: Any, chunk: bytes, position: int, *found: Any
) -> None:
    """Skip the records of transactions in a replay, as if they were for the former shard alone."""
    if not found[0].is_transactional:
        _replay_records(self, shard, chunk, position, *found)


def _replay_no_markers(*_arguments: object) -> None:
    """A load takes records alone."""


def _keep_the_start(known: Transaction | None, *arguments: Any) -> Transaction:
    """A transaction begins when the id's first one began."""
    following = _add_partitions(known, *arguments)
    if known is None or following is known or known.start_ms == NO_START_MS:
        return following
    return replace(following, start_ms=known.start_ms)


def _keep_the_epoch(known: Transaction, claimed: Any) -> dict[str, int]:
    """A producer that begins anew goes on with the epoch of the one before."""
    raised = _raised_epoch(known, claimed)
    return raised if known.producer_epoch < 0 else {}


def _fetch_what_may_change(
    self: OffsetStore, request: Any, *, is_stable_required: bool = False
) -> Any:
    return _fetch(self, request)


def _count_at_once(self: OffsetStore, record: Any, context: Any) -> None:
    """A position counts as soon as it is written."""
    self._take(context.offset, record)


def _count_in_any_case(self: OffsetStore, producer_id: int, *, is_committed: bool) -> Any:
    """A transaction that ends has its positions counted."""
    return _take_end(self, producer_id, is_committed=True)


def _stay_in_generation(self: ClassicGroup, wall_ms: int) -> None:
    """Members that come and go are of one generation."""
    before = self.generation_id
    _begin_generation(self, wall_ms)
    self.generation_id = max(1, before)


def _verify_nothing(self: Partition, *_arguments: Any, **_options: Any) -> Any:
    """The first batch of a transaction is as good as any other."""
    return UNCHECKED


def _first_alone(
    self: AbortedTransactions, start_offset: int, end_offset: int
) -> list[tuple[int, int]]:
    """One producer has one aborted transaction in what is read."""
    return list(
        {
            producer_id: (producer_id, first)
            for producer_id, first in reversed(_within(self, start_offset, end_offset))
        }.values()
    )


def _see_what_was_aborted(
    self: AbortedFilter,
    last_offset: int,
    producer_id: int,
    *,
    is_transactional: bool,
    is_control: bool,
) -> bool:
    return not is_control


def _encode_without_transaction(entry: Any, batch: Any, timestamp: int, _txn_offset: int) -> bytes:
    """A snapshot says what a producer has written, and not that its transaction is open."""
    return _encode_entry(entry, batch, timestamp, NO_OFFSET)


def _begin_without_markers(self: TransactionCoordinatorShard, decision: Any) -> None:
    """Take the markers of stored outcomes as written."""
    self._owed.clear()
    _on_loaded(self, decision)


def _let_commit(self: CommitChecks, _request: Any) -> ErrorCode:
    """A producer knows what it has copied."""
    return ErrorCode.NONE


BUGS: Sequence[ClusterBug] = (
    ClusterBug(
        name="last stable offset moves when the marker is appended",
        replacements=((UnstableTransactions, "end", _forget_the_marker),),
        aim=aims.COPY_LOOP,
        shown_by=(2,),
    ),
    ClusterBug(
        name="complete after the first marker",
        replacements=(
            (TransactionCoordinatorShard, "handle_written_markers", _take_first_news_for_all),
        ),
        aim=aims.COPY_LOOP,
        shown_by=(4,),
    ),
    ClusterBug(
        name="abort written as a commit to some partitions",
        replacements=((markers, "markers_of", _commit_what_is_sent_later),),
        aim=aims.COPY_LOOP,
        shown_by=(6, 7, 0, 5),
    ),
    ClusterBug(
        name="positions of transactions lost when their coordinator moves",
        replacements=((Shards, "replay_records", _replay_without_transactions),),
        aim=aims.COPY_LOOP,
        shown_by=(2,),
    ),
    ClusterBug(
        name="markers not taken over when positions are loaded",
        replacements=((shards, "replay_markers", _replay_no_markers),),
        aim=aims.COPY_LOOP,
        shown_by=(2,),
    ),
    ClusterBug(
        name="fresh transaction times out with the one before",
        replacements=((rules, "add_partitions", _keep_the_start),),
        aim=aims.LATE_TRANSACTIONS,
        shown_by=(1,),
    ),
    ClusterBug(
        name="epoch stays when a producer begins anew",
        is_long=True,
        replacements=((rules, "raised_epoch", _keep_the_epoch),),
        aim=aims.ZOMBIES,
        shown_by=(2, 6, 7, 5),
    ),
    ClusterBug(
        name="positions read that may still change",
        is_long=True,
        replacements=((OffsetStore, "fetch", _fetch_what_may_change),),
        aim=aims.ZOMBIES,
        shown_by=(2,),
    ),
    ClusterBug(
        name="positions count before the marker",
        replacements=((OffsetStore, "replay", _count_at_once),),
        aim=aims.COPY_LOOP,
        shown_by=(2,),
    ),
    ClusterBug(
        name="positions of an aborted transaction count",
        replacements=((OffsetStore, "replay_end_transaction", _count_in_any_case),),
        aim=aims.COPY_LOOP,
        shown_by=(2,),
    ),
    ClusterBug(
        name="generation stays when members change",
        replacements=((ClassicGroup, "begin_next_generation", _stay_in_generation),),
        aim=aims.ZOMBIES,
        shown_by=(2,),
    ),
    ClusterBug(
        name="partition written to before the coordinator knows",
        is_long=True,
        replacements=((Partition, "begin_verification", _verify_nothing),),
        aim=aims.COPY_LOOP,
        shown_by=(2,),
    ),
    ClusterBug(
        name="one aborted transaction told of each producer",
        replacements=((AbortedTransactions, "within", _first_alone),),
        aim=aims.COPY_LOOP,
        shown_by=(2,),
    ),
    ClusterBug(
        name="reader takes aborted batches",
        replacements=((AbortedFilter, "is_visible", _see_what_was_aborted),),
        aim=aims.COPY_LOOP,
        shown_by=(2,),
    ),
    ClusterBug(
        name="snapshot leaves out that a transaction is open",
        replacements=((producer_snapshots, "encode_entry", _encode_without_transaction),),
        aim=aims.COPY_LOOP,
        shown_by=(2,),
    ),
    ClusterBug(
        name="markers lost on failover",
        is_long=True,
        replacements=((TransactionCoordinatorShard, "on_loaded", _begin_without_markers),),
        aim=aims.ENDING_COORDINATORS,
        shown_by=(7, 8),
    ),
    ClusterBug(
        name="positions of any member count",
        replacements=((CommitChecks, "validate_in_transaction", _let_commit),),
        aim=aims.ZOMBIES,
        shown_by=(17,),
    ),
)


def main(arguments: Iterable[str] | None = None) -> int:
    """Play bugs; see ``bug_hunts.hunt``."""
    return hunt(BUGS, arguments)


if __name__ == "__main__":
    sys.exit(main())
