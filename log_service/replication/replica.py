"""One replica on this node: its log, and its state of leadership and high watermark.

This file applies metadata, syncs and the records of a leader to the log and the state.
``partition`` adds the requests of clients and followers. ``PartitionState`` decides the high
watermark.

Invariants: with ``flush.messages=1`` the high watermark never passes the synced end, so that an
acknowledged record survives a loss of power. One sync covers every append before it.
"""

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import Buffer, TopicId, TopicPartition
from log_service.config.views import LogConfig
from log_service.metadata.partition import PartitionRegistration
from log_service.records.batch import HEADER_SIZE
from log_service.replication.follower_state import UNKNOWN_OFFSET
from log_service.replication.partition_state import Change, PartitionState
from log_service.storage.append_result import AppendResult
from log_service.storage.log import Log
from log_service.storage.retention import RetentionOutcome


class Replica:
    """A replica of a partition on this node. It has no log if the log could not be opened.

    ``state`` holds leadership and the high watermark. ``checkpointed_offset`` is the last
    checkpointed high watermark.
    """

    __slots__ = ("appended_bytes", "log", "state", "topic_id", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: Log | None,
        *,
        node_id: int,
        checkpointed_offset: int = 0,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.state = (
            PartitionState(node_id) if log is None else _state_of(log, node_id, checkpointed_offset)
        )
        self.appended_bytes = 0
        self.note_transactions()

    @property
    def is_offline(self) -> bool:
        """Whether the log cannot be used because its directory failed."""
        return self.log is None or self.log.home.is_offline

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the partition."""
        return self.state.is_leader

    @property
    def leader(self) -> int:
        """The id of the leader, or -1 if there is none."""
        return self.state.leader

    @property
    def leader_epoch(self) -> int:
        """The leader epoch, or -1 before any metadata has arrived."""
        return self.state.leader_epoch

    @property
    def isr(self) -> tuple[int, ...]:
        """The in-sync replicas that the controller committed."""
        return self.state.isr

    @property
    def replica_count(self) -> int:
        """The number of replicas of the partition."""
        return len(self.state.replicas)

    @property
    def high_watermark(self) -> int:
        """The high watermark. Records below this offset are committed."""
        return self.state.high_watermark

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read, or -1 if the log is offline."""
        return UNKNOWN_OFFSET if self.log is None else self.log.log_start_offset

    # Leadership

    def apply(self, registration: PartitionRegistration, now_ms: int) -> Change:
        """Lead or follow as the metadata says. An offline replica never leads.

        ``now_ms`` is monotonic. A leader with followers stores the start of its epoch at once,
        because followers may request it before the first append.
        """
        change = self.state.apply(registration, is_online=not self.is_offline, now_ms=now_ms)
        if self.state.followers and self.log is not None and Change.LED in change:
            self.log.leader_epochs.assign(self.state.leader_epoch, self.log.log_end_offset)
        return change

    def note_offline(self, now_ms: int) -> Change:
        """Give up leadership if the log directory has failed. Return the changes of the state."""
        registration = self.state.registration
        return (
            Change.NOTHING
            if registration is None
            else self.state.apply(registration, is_online=False, now_ms=now_ms)
        )

    def reconfigure(self, config: LogConfig, now_ms: int) -> Change:
        """Use ``config`` from now on, also for records that were appended before.

        Return the changes of the state.
        """
        if self.log is None:
            return Change.NOTHING
        self.log.reconfigure(config)
        return self.state.reconfigure(
            min_insync_replicas=config.min_insync_replicas,
            is_synced_first=config.flush_messages == 1,
            now_ms=now_ms,
        )

    def use_log(self, log: Log) -> None:
        """Use another log from now on: the copy in the new directory after a move."""
        self.log = log
        self.note_transactions()

    def note_transactions(self) -> None:
        """Bound the last stable offset by the log's open transactions, if it ever had any."""
        unstable = None if self.log is None else self.log.producer_state.unstable
        if unstable is not self.state.unstable:
            self.state.hold_stable_by(unstable)

    def _note_log_start(self) -> None:
        """Recompute the last stable offset, because the log start has moved.

        An open transaction may begin below the log start.
        """
        if self.state.unstable is not None:
            self.state.hold_stable_by(self.state.unstable)

    def _online_log(self) -> Log:
        if self.log is None or self.log.home.is_offline:
            raise self._offline()
        return self.log

    def _offline(self) -> KafkaError:
        text = (
            f"the log directory of {self.topic_partition} is offline: look at the disk, then"
            " restart the node"
        )
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)

    # Syncing

    @property
    def is_sync_due(self) -> bool:
        """Whether ``flush.messages`` requires a sync now, and the log can be synced."""
        log = self.log
        return log is not None and not log.home.is_offline and not log.is_closed and log.is_sync_due

    async def sync(self) -> bool:
        """Sync the log. Return whether ``state.own_end_offset`` or the high watermark moved.

        With ``flush.messages=1`` only synced records count towards the high watermark.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the disk failed and the directory is offline.
        """
        await self._online_log().sync()
        return self.note_synced()

    def note_synced(self) -> bool:
        """Apply the offset up to which the log is synced, because any task may sync the log.

        Return the same as ``sync``.
        """
        return self.log is not None and self.state.note_sync(self.log.syncs.recovery_point)

    # Following

    def append_as_follower(self, records: Buffer) -> AppendResult:
        """Append the leader's records as received.

        ``records`` are batches, and none has a later epoch than the leader's. An incomplete last
        batch is ignored. The first batch for an empty log may begin before the log's end, because
        the leader's log may start inside this batch.

        Raises:
            KafkaError: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR; see
                ``Log.append_as_follower``.
        """
        log, state = self._online_log(), self.state
        if log.log_end_offset == log.log_start_offset:
            base_offset = _first_base_offset(records)
            if base_offset is not None and base_offset < log.log_end_offset:
                log.restart_at(base_offset)
        result = log.append_as_follower(records, leader_epoch=state.leader_epoch)
        self.appended_bytes += len(records)
        state.note_follower_append(log.log_end_offset)
        self.note_transactions()
        return result

    def follow_leader(self, high_watermark: int, log_start_offset: int) -> bool:
        """Apply the leader's high watermark and log start. Return whether the watermark moved.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, the leader's log starts above this replica's high
                watermark.
        """
        log, state = self._online_log(), self.state
        is_moved = state.follow_high_watermark(high_watermark)
        if log_start_offset > log.log_start_offset:
            if log_start_offset > state.high_watermark:
                text = (
                    f"the leader's log of {self.topic_partition} starts at {log_start_offset},"
                    " above the high watermark here"
                )
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
            log.advance_log_start_offset(log_start_offset)
            self._note_log_start()
        return is_moved

    def truncate_to(self, offset: int) -> None:
        """Truncate this follower's log to ``offset``.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        log = self._online_log()
        if log.truncate_to(offset):
            self.state.note_truncation(log.log_end_offset)

    def restart_at(self, offset: int) -> None:
        """Drop this follower's log and restart it at ``offset``. The leader has no older records.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        self._online_log().restart_at(offset)
        self.state.note_restart(offset)

    # Retention

    def apply_retention(self, now_ms: int) -> RetentionOutcome:
        """Delete segments below the high watermark by age, by size or by the log start offset.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        outcome = self._online_log().apply_retention(now_ms, self.high_watermark)
        self._note_log_start()
        return outcome


def _first_base_offset(records: Buffer) -> int | None:
    """Return the base offset of the first batch, or None if there is none."""
    return int.from_bytes(records[:8], "big") if len(records) >= HEADER_SIZE else None


def _state_of(log: Log, node_id: int, checkpointed_offset: int) -> PartitionState:
    """Return the state of a replica whose log was just opened.

    The high watermark is at least the log start, because only records below a high watermark are
    ever deleted.
    """
    return PartitionState(
        node_id,
        log_end_offset=log.log_end_offset,
        synced_end_offset=log.recovery_point,
        high_watermark=max(checkpointed_offset, log.log_start_offset),
        min_insync_replicas=log.config.min_insync_replicas,
        is_synced_first=log.config.flush_messages == 1,
    )
