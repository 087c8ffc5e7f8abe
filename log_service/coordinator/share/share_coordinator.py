"""One shard of the share coordinator: one partition of ``__share_group_state`` (KIP-932).

This file decides who may write, how a write is stored, and from which offset on the log is needed.
It does not know what the states mean to members, nor which groups exist. The group coordinator
initializes and deletes states. Leaders of partitions read and write them.

- A read with a newer leader epoch is stored before the leader gets the state. From then on, leaders
  with older epochs are fenced.
- A state that is initialized again has a newer state epoch. Writes with an older state epoch are
  fenced, because the group's offsets were reset.
- A write is stored as an update of the last snapshot. After a number of updates, a write is stored
  as a snapshot. This keeps loads short, and records before the oldest needed snapshot can be
  deleted.

Invariants: A state changes only in ``replay``. Its snapshot epoch increases with every snapshot. An
update belongs to the snapshot before it.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from itertools import islice
from uuid import UUID

from log_service.common.errors import ErrorCode
from log_service.config.views import ShareStateConfig
from log_service.coordinator.share.share_state import (
    FIRST_LEADER_EPOCH,
    NO_EPOCH,
    UNKNOWN_COUNT,
    UNKNOWN_START_OFFSET,
    ShareKey,
    ShareState,
    combined,
)
from log_service.coordinator.share.state_records import ShareRecord, SnapshotRecord, UpdateRecord
from log_service.coordinator.share.window import StateBatch
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.state_machine.decision import Decision, ReplayContext

COLD_TIMER = "cold snapshots"
CLEAN_UP_TIMER = "deleted topics"
MAX_CLEAN_UP_RECORDS = 1_000
CLEAN_UP_PAUSE_MS = 5
"""States of deleted topics are deleted in batches of this size, with this pause between batches."""
PRUNE_TIMER = "needless records"
IsThere = Callable[[UUID, int], bool]
"""Returns whether a partition of a topic exists, as far as this node knows."""


@dataclass(frozen=True, slots=True)
class NeedlessRecords:
    """Announcement that no state needs the log records below ``end_offset``."""

    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRefusal:
    """The error for one partition, if the request for its share state was refused."""

    error_code: ErrorCode
    error_message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateWrite:
    """A leader's write of the state of one share partition. An epoch of -1 is not checked."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = UNKNOWN_COUNT
    batches: tuple[StateBatch, ...] = ()


@dataclass(slots=True)
class _Entry:
    """A state with the log offset of its last snapshot and the number of updates since then.

    The epochs are the highest that the shard has seen. They are kept beside the state, because a
    state that is initialized again has no leader. Requests with older epochs are fenced.
    """

    state: ShareState
    snapshot_offset: int
    leader_epoch: int
    state_epoch: int
    update_count: int = 0


class ShareCoordinatorShard:
    """The states of one partition of ``__share_group_state``.

    ``is_there`` returns whether a share partition's topic and partition exist.
    """

    def __init__(self, config: ShareStateConfig, is_there: IsThere) -> None:
        self._config = config
        self._is_there = is_there
        self._entries: dict[ShareKey, _Entry] = {}
        self._replayed_end = 0
        self._orphans: set[ShareKey] = set()

    def __repr__(self) -> str:
        return f"<ShareCoordinatorShard states={len(self._entries)}>"

    @property
    def needed_offset(self) -> int:
        """The log offset from which a load must read.

        This is the oldest of the states' last snapshots, or the end of the log if there is no
        state.
        """
        return min(
            (entry.snapshot_offset for entry in self._entries.values()), default=self._replayed_end
        )

    def state_of(self, key: ShareKey) -> ShareState | None:
        """Return a state, or None. The caller must not change the state."""
        entry = self._entries.get(key)
        return None if entry is None else entry.state

    # Requests: the reply is a ``ShareState`` or None, or a ``StateRefusal``

    def handle_initialize(
        self,
        key: ShareKey,
        state_epoch: int,
        start_offset: int,
        reply_to: Hashable,
        decision: Decision[ShareRecord],
    ) -> None:
        """Initialize a state for the first time or again. Reply with None or a ``StateRefusal``."""
        entry = self._entries.get(key)
        refusal = _malformed(key)
        if refusal is None and entry is not None:
            refusal = _fenced_state(entry, state_epoch)
        refusal = refusal or self._unknown_partition(key)
        if refusal is not None:
            decision.reply(reply_to, refusal)
            return
        state = ShareState(
            snapshot_epoch=0 if entry is None else entry.state.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=FIRST_LEADER_EPOCH,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN_COUNT if start_offset == UNKNOWN_START_OFFSET else 0,
            create_timestamp_ms=decision.wall_ms,
            write_timestamp_ms=decision.wall_ms,
        )
        decision.append(SnapshotRecord(key=key, state=state))
        decision.reply(reply_to, None)

    def handle_read(
        self, key: ShareKey, leader_epoch: int, reply_to: Hashable, decision: Decision[ShareRecord]
    ) -> None:
        """Reply with the state or a ``StateRefusal``.

        After a reply with the state, leaders of older epochs are fenced.
        """
        entry = self._entries.get(key)
        refusal = (
            _malformed(key)
            or _not_open(entry, leader_epoch, NO_EPOCH, "read")
            or self._unknown_partition(key)
        )
        if refusal is not None or entry is None:
            decision.reply(reply_to, refusal)
            return
        state = entry.state
        if leader_epoch not in {NO_EPOCH, entry.leader_epoch}:
            write = ShareStateWrite(
                state_epoch=state.state_epoch,
                leader_epoch=leader_epoch,
                start_offset=state.start_offset,
                delivery_complete_count=state.delivery_complete_count,
            )
            decision.append(self._record_of(key, entry, write, leader_epoch, decision.wall_ms))
        decision.reply(reply_to, state)

    def handle_write(
        self,
        key: ShareKey,
        write: ShareStateWrite,
        reply_to: Hashable,
        decision: Decision[ShareRecord],
    ) -> None:
        """Store a leader's write. Reply with None or a ``StateRefusal``."""
        entry = self._entries.get(key)
        refusal = _malformed(key) or _not_open(
            entry, write.leader_epoch, write.state_epoch, "written"
        )
        refusal = refusal or self._unknown_partition(key)
        if refusal is None and entry is not None:
            decision.append(
                self._record_of(key, entry, write, entry.state.leader_epoch, decision.wall_ms)
            )
        decision.reply(reply_to, refusal)

    def handle_delete(
        self, key: ShareKey, reply_to: Hashable, decision: Decision[ShareRecord]
    ) -> None:
        """Delete a state, if it exists. Reply with None or a ``StateRefusal``."""
        refusal = _malformed(key) or self._unknown_partition(key)
        if refusal is None and key in self._entries:
            decision.append(SnapshotRecord(key=key, state=None))
        decision.reply(reply_to, refusal)

    def handle_read_summary(
        self, key: ShareKey, reply_to: Hashable, decision: Decision[ShareRecord]
    ) -> None:
        """Reply with the state, None if it does not exist, or a ``StateRefusal``.

        No leader is fenced.
        """
        decision.reply(
            reply_to, _malformed(key) or self._unknown_partition(key) or self.state_of(key)
        )

    # Timers and metadata

    def on_loaded(self, decision: Decision[ShareRecord]) -> None:
        """Begin to serve requests, and delete the states of topics that were deleted meanwhile.

        A topic id that is unknown here belongs to a deleted topic. The coordinator that wrote the
        state knew the topic, and led in an earlier epoch. This node knows its own leader epoch, so
        its metadata is newer than that coordinator's.
        """
        decision.set_timer(COLD_TIMER, decision.now_ms + self._config.cold_snapshot_interval_ms)
        decision.set_timer(PRUNE_TIMER, decision.now_ms + self._config.prune_interval_ms)
        self._orphans = {
            key for key in self._entries if not self._is_there(key.topic_id, key.partition)
        }
        if self._orphans:
            decision.set_timer(CLEAN_UP_TIMER, decision.now_ms)

    def on_image(
        self, delta: MetadataDelta, _image: MetadataImage, decision: Decision[ShareRecord]
    ) -> None:
        """Delete the states of deleted topics.

        The states of an unknown topic are not deleted here, because this node may not know the
        topic yet.
        """
        gone = delta.deleted_topics
        self._orphans |= {key for key in self._entries if key.topic_id in gone} if gone else set()
        if self._orphans:
            decision.set_timer(CLEAN_UP_TIMER, decision.now_ms)

    def on_timer(self, key: Hashable, decision: Decision[ShareRecord]) -> None:
        """Store cold states again, announce needless records, or delete deleted topics' states."""
        if key == COLD_TIMER:
            decision.set_timer(COLD_TIMER, decision.now_ms + self._config.cold_snapshot_interval_ms)
            self._store_cold_states(decision)
        elif key == PRUNE_TIMER:
            decision.set_timer(PRUNE_TIMER, decision.now_ms + self._config.prune_interval_ms)
            decision.announce(NeedlessRecords(self.needed_offset))
        else:
            gone = list(
                islice(
                    (each for each in self._entries if each in self._orphans),
                    MAX_CLEAN_UP_RECORDS + 1,
                )
            )
            for share_key in gone[:MAX_CLEAN_UP_RECORDS]:
                decision.append(SnapshotRecord(key=share_key, state=None))
            if len(gone) > MAX_CLEAN_UP_RECORDS:
                decision.set_timer(CLEAN_UP_TIMER, decision.now_ms + CLEAN_UP_PAUSE_MS)

    def _store_cold_states(self, decision: Decision[ShareRecord]) -> None:
        """Store states that were not written for a while as new snapshots.

        Nothing is stored if the last snapshot of every state already comes from this method.
        """
        if all(
            entry.state.create_timestamp_ms != entry.state.write_timestamp_ms
            for entry in self._entries.values()
        ):
            return
        for key, entry in self._entries.items():
            if (
                decision.wall_ms - entry.state.write_timestamp_ms
                >= self._config.cold_snapshot_interval_ms
            ):
                snapshot_epoch = entry.state.snapshot_epoch + 1
                state = replace(
                    entry.state, snapshot_epoch=snapshot_epoch, write_timestamp_ms=decision.wall_ms
                )
                decision.append(SnapshotRecord(key=key, state=state))

    # The log

    def replay(self, record: ShareRecord, context: ReplayContext) -> None:
        """Apply one record."""
        self._replayed_end = context.offset + 1
        match record:
            case SnapshotRecord(state=None):
                self._entries.pop(record.key, None)
                self._orphans.discard(record.key)
            case SnapshotRecord(state=ShareState() as state):
                self._take_over(record.key, state, context.offset)
            case UpdateRecord():
                entry = self._entries.get(record.key)
                if entry is not None:  # an update without its snapshot is ignored
                    entry.state = updated_state(entry.state, record)
                    entry.leader_epoch = max(entry.leader_epoch, record.leader_epoch)
                    entry.update_count += 1

    def _take_over(self, key: ShareKey, state: ShareState, offset: int) -> None:
        entry = self._entries[key] = self._entries.get(key) or _Entry(
            state=state,
            snapshot_offset=offset,
            leader_epoch=state.leader_epoch,
            state_epoch=state.state_epoch,
        )
        entry.state, entry.snapshot_offset = state, offset
        # like Apache Kafka, the count continues if a state is initialized again
        if entry.update_count >= self._config.snapshot_update_records:
            entry.update_count = 0
        entry.leader_epoch = max(entry.leader_epoch, state.leader_epoch)
        entry.state_epoch = max(entry.state_epoch, state.state_epoch)

    def replay_end_transaction(
        self, producer_id: int, producer_epoch: int, *, is_committed: bool
    ) -> None:
        """Do nothing, because share states are never written in transactions."""

    def _record_of(
        self, key: ShareKey, entry: _Entry, write: ShareStateWrite, leader_epoch: int, wall_ms: int
    ) -> ShareRecord:
        state = entry.state
        if entry.update_count < self._config.snapshot_update_records:
            return UpdateRecord(
                key=key,
                snapshot_epoch=state.snapshot_epoch,
                leader_epoch=leader_epoch,
                start_offset=write.start_offset,
                delivery_complete_count=write.delivery_complete_count,
                batches=combined(write.batches, write.start_offset),
            )
        start_offset = (
            state.start_offset if write.start_offset == UNKNOWN_START_OFFSET else write.start_offset
        )
        snapshot = replace(
            state,
            snapshot_epoch=state.snapshot_epoch + 1,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=write.delivery_complete_count,
            create_timestamp_ms=wall_ms,
            write_timestamp_ms=wall_ms,
            batches=combined((*state.batches, *write.batches), start_offset),
        )
        return SnapshotRecord(key=key, state=snapshot)

    def _unknown_partition(self, key: ShareKey) -> StateRefusal | None:
        if self._is_there(key.topic_id, key.partition):
            return None
        text = f"partition {key.partition} of topic {key.topic_id} does not exist"
        return StateRefusal(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=text)


def _malformed(key: ShareKey) -> StateRefusal | None:
    if key.partition >= 0:
        return None
    return StateRefusal(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=f"partition {key.partition}: partitions are numbered from 0",
    )


def _not_open(
    entry: _Entry | None, leader_epoch: int, state_epoch: int, verb: str
) -> StateRefusal | None:
    if entry is None:
        text = f"the state is not {verb}, because it was not initialized: initialize it first"
        return StateRefusal(error_code=ErrorCode.INVALID_REQUEST, error_message=text)
    if NO_EPOCH != leader_epoch < entry.leader_epoch:
        text = (
            f"leader epoch {leader_epoch} is older than {entry.leader_epoch}: another leader was"
            " elected"
        )
        return StateRefusal(error_code=ErrorCode.FENCED_LEADER_EPOCH, error_message=text)
    return _fenced_state(entry, state_epoch)


def _fenced_state(entry: _Entry, state_epoch: int) -> StateRefusal | None:
    if state_epoch == NO_EPOCH or state_epoch >= entry.state_epoch:
        return None
    text = (
        f"state epoch {state_epoch} is older than {entry.state_epoch}: the state was initialized"
        " anew"
    )
    return StateRefusal(error_code=ErrorCode.FENCED_STATE_EPOCH, error_message=text)


def updated_state(state: ShareState, update: UpdateRecord) -> ShareState:
    """Return the state of a share partition after an update."""
    start_offset = (
        state.start_offset if update.start_offset == UNKNOWN_START_OFFSET else update.start_offset
    )
    return replace(
        state,
        leader_epoch=state.leader_epoch if update.leader_epoch == NO_EPOCH else update.leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=update.delivery_complete_count,
        batches=combined((*state.batches, *update.batches), start_offset),
    )
