"""One partition of a broker, as clients and other replicas use it.

This file decides whether a request may be served here (leadership, leader epoch), what is appended
and what a read returns. ``replica`` is its log and its state. This module knows neither requests
nor waiting. After an append or a sync, the caller notifies the replica manager, which notifies the
waiting requests. Only a sync waits for the disk. Appends and reads never yield to other tasks.

Invariants: A leader returns no log end until its high watermark has reached the start of its epoch,
because an earlier leader may have exposed more (KIP-207). A failed sync is final. From then on the
log directory is offline, and every request for a partition in it gets KAFKA_STORAGE_ERROR.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.steps import Steps
from log_service.common.types import NO_LEADER_EPOCH, NO_TIMESTAMP, TopicId, TopicPartition
from log_service.records.batch import TRANSACTIONAL_FLAG
from log_service.records.control import EndOfTransaction
from log_service.records.rules import SchemaRules
from log_service.records.validator import (
    Allowance,
    NoRoomError,
    TurnRoom,
    ValidatedBatches,
    validate_for_append,
    validate_in_steps,
)
from log_service.replication.follower_state import UNKNOWN_OFFSET
from log_service.replication.listeners import Listeners
from log_service.replication.partition_state import Isolation
from log_service.replication.replica import Replica
from log_service.storage.append_result import AppendResult
from log_service.storage.log import CheckBatch, Log
from log_service.storage.log_reader import LogSlice
from log_service.storage.segment import Segment
from log_service.storage.transaction_checks import (
    begin_verification,
    check_client_batch,
    check_own_batch,
)
from log_service.storage.verifications import Verification

READ_UNCOMMITTED = Isolation.READ_UNCOMMITTED

Batch = bytearray | memoryview | ValidatedBatches | KafkaError
"""A producer's batch for one partition, or the result of its check."""


class OffsetSpec(IntEnum):
    """The special timestamps of ListOffsets (KIP-79, 734, 405, 1005, 1023)."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOffset:
    """The result of ``find_offset``. The offset is ``UNKNOWN_OFFSET`` if no record matches."""

    offset: int = UNKNOWN_OFFSET
    timestamp: int = NO_TIMESTAMP
    leader_epoch: int = NO_LEADER_EPOCH


class ReadPlace(NamedTuple):
    """A position in bytes in one segment of a log."""

    segment: Segment
    position: int


class Partition(Replica):
    """One replica on this node, as clients and other replicas use it.

    ``high_watermark_listeners`` are called with the partition when its high watermark may have
    moved. The counters of requests and bytes start at 0 when the node starts, and never decrease.
    """

    __slots__ = (
        "_first_end_offset",
        "append_count",
        "failed_append_count",
        "failed_read_count",
        "failed_share_acknowledge_count",
        "failed_share_fetch_count",
        "high_watermark_listeners",
        "read_count",
        "sent_bytes",
        "share_acknowledge_count",
        "share_fetch_count",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: Log | None,
        *,
        node_id: int,
        checkpointed_offset: int = 0,
    ) -> None:
        """Create a replica. ``checkpointed_offset`` is the last checkpointed high watermark."""
        super().__init__(
            topic_partition,
            topic_id,
            log,
            node_id=node_id,
            checkpointed_offset=checkpointed_offset,
        )
        self.high_watermark_listeners: Listeners[Callable[[Partition], None]] = Listeners()
        self.sent_bytes = 0
        self.append_count = 0
        self.read_count = 0
        self.failed_append_count = 0
        self.failed_read_count = 0
        self.share_fetch_count = self.failed_share_fetch_count = 0
        self.share_acknowledge_count = self.failed_share_acknowledge_count = 0
        self._first_end_offset = self.state.log_end_offset

    def __repr__(self) -> str:
        return (
            f"<Partition {self.topic_partition}"
            f" {'offline ' if self.is_offline else ''}{self.state!r}>"
        )

    @property
    def appended_record_count(self) -> int:
        """The number of offsets appended since the node started."""
        return 0 if self.log is None else max(0, self.log.log_end_offset - self._first_end_offset)

    # Leadership

    def served_log(
        self, current_leader_epoch: int = NO_LEADER_EPOCH, *, is_leader_needed: bool = True
    ) -> Log:
        """Return the log if this node may serve the partition to a client.

        ``current_leader_epoch`` is the leader epoch in the client's request, or -1 if it has none.
        With ``is_leader_needed=False``, a follower may serve the partition too (KIP-392).

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER. FENCED_LEADER_EPOCH, the client's epoch is older.
                UNKNOWN_LEADER_EPOCH, this node's epoch is older. KAFKA_STORAGE_ERROR.
        """
        log, state = self.log, self.state
        if log is None or log.home.is_offline:
            raise self._offline()
        if current_leader_epoch not in (NO_LEADER_EPOCH, state.leader_epoch):
            is_fenced = current_leader_epoch < state.leader_epoch
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH if is_fenced else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
        if is_leader_needed and not state.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return log

    # Appending and syncing

    def append_as_leader(
        self, records: Batch, now_ms: int, *, needs_all: bool = False, room: TurnRoom | None = None
    ) -> AppendResult:
        """Check and append a producer's batch.

        ``records`` is the batch as received, or the result of its check. It must be writable,
        because offset and epoch are written into it. With ``needs_all``, ``min.insync.replicas``
        must be in sync, or all replicas if the partition has fewer.

        Raises:
            KafkaError: the error of the batch or of its producer's sequence; NOT_ENOUGH_REPLICAS;
                KAFKA_STORAGE_ERROR.
            NoRoomError: the check takes longer than ``room`` allows. Nothing was changed.
        """
        log, validated = self._checked(records, now_ms, needs_all=needs_all, room=room)
        if validated.batches[0][1].attributes & TRANSACTIONAL_FLAG:
            text = "the batch is part of a transaction, and the request names no transactional id"
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text)
        return self.append_validated(log, validated, now_ms)

    def append_in_transaction(
        self,
        records: Batch,
        shown: Verification,
        now_ms: int,
        *,
        needs_all: bool = False,
        room: TurnRoom | None = None,
    ) -> AppendResult:
        """Check and append a batch of a producer's transaction.

        ``shown`` is the verification that ``begin_verification`` returned for this batch.

        Raises:
            KafkaError: as ``append_as_leader``; INVALID_TXN_STATE, the transaction has ended
                meanwhile.
            NoRoomError: as ``append_as_leader``.
        """
        log, validated = self._checked(records, now_ms, needs_all=needs_all, room=room)
        producers = log.producer_state
        return self._append_unstable(
            log, validated, now_ms, lambda header: check_client_batch(producers, header, shown)
        )

    def _checked(
        self, records: Batch, now_ms: int, *, needs_all: bool, room: TurnRoom | None
    ) -> tuple[Log, ValidatedBatches]:
        """Check a batch, and return the log and the checked batches. Count the append.

        An append is not counted if there is no room for its check. Raises as ``append_as_leader``.
        """
        self.append_count += 1
        log = self.served_log()
        if needs_all and self.state.is_under_min_isr:
            raise self._not_enough_replicas()
        if isinstance(records, ValidatedBatches):
            return log, records
        if isinstance(records, KafkaError):
            raise records
        try:
            return log, validate_for_append(records, log.config, now_ms, room)
        except NoRoomError:
            self.append_count -= 1
            raise

    def check_in_steps(
        self,
        records: bytearray | memoryview,
        now_ms: int,
        allowance: Allowance,
        schemas: SchemaRules | None = None,
    ) -> Steps[ValidatedBatches]:
        """Return the steps of a batch's check, for the thread pool.

        The check uses the log's current configuration. ``schemas`` tells which schemas are accepted
        or refused, if the topic requires registered schemas.

        Raises:
            KafkaError: as ``served_log``. The steps raise as ``validate_in_steps``.
        """
        return validate_in_steps(records, self.served_log().config, now_ms, allowance, schemas)

    def _append_unstable(
        self, log: Log, validated: ValidatedBatches, now_ms: int, check: CheckBatch
    ) -> AppendResult:
        """Append a batch that may begin a transaction."""
        state = self.state
        result = log.append_as_leader(
            validated, leader_epoch=state.leader_epoch, now_ms=now_ms, check=check
        )
        if not result.is_duplicate:
            self.note_transactions()
            self.appended_bytes += validated.size_bytes
            state.note_append(result.last_offset + 1)
        return result

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, is_version_2: bool, now_ms: int
    ) -> Verification:
        """Return the verification that the first batch of a transaction must show.

        It is ``ONGOING`` if the transaction is already open. ``storage.verifications`` explains
        verifications.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, the producer has a later epoch; or an error of
                ``served_log``.
        """
        producers = self.served_log().producer_state
        return begin_verification(
            producers, producer_id, epoch, sequence, is_version_2=is_version_2, now_ms=now_ms
        )

    def append_marker(self, marker: EndOfTransaction, now_ms: int) -> AppendResult:
        """Append the end of a transaction. ``min.insync.replicas`` is required as with acks=all.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED; NOT_ENOUGH_REPLICAS;
                or an error of ``served_log``.
        """
        log, state = self.served_log(), self.state
        if state.is_under_min_isr:
            raise self._not_enough_replicas()
        result = log.append_marker(marker, leader_epoch=state.leader_epoch, now_ms=now_ms)
        self.note_transactions()
        state.note_append(result.last_offset + 1)
        return result

    def append_own(
        self, validated: ValidatedBatches, now_ms: int, shown: Verification | None = None
    ) -> AppendResult:
        """Append batches that this node built, such as the records of a coordinator.

        ``min.insync.replicas`` is required as with acks=all. If the batches belong to a producer's
        transaction, ``shown`` is the result of ``begin_verification``.

        Raises:
            KafkaError: NOT_ENOUGH_REPLICAS; this node does not lead the partition;
                KAFKA_STORAGE_ERROR; INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH. Nothing was
                appended.
        """
        log = self.served_log()
        if self.state.is_under_min_isr:
            raise self._not_enough_replicas()
        if shown is None:
            return self.append_validated(log, validated, now_ms)
        producers = log.producer_state
        return self._append_unstable(
            log, validated, now_ms, lambda header: check_own_batch(producers, header, shown)
        )

    def append_validated(self, log: Log, validated: ValidatedBatches, now_ms: int) -> AppendResult:
        """Append validated batches as the leader. Repeated batches change nothing."""
        state = self.state
        result = log.append_as_leader(validated, leader_epoch=state.leader_epoch, now_ms=now_ms)
        if not result.is_duplicate:
            self.appended_bytes += validated.size_bytes
            state.note_append(result.last_offset + 1)
        return result

    def _not_enough_replicas(self) -> KafkaError:
        wanted = self.state.min_insync_replicas
        text = (
            f"{self.topic_partition} has {len(self.isr)} in-sync replicas where min.insync.replicas"
            f" is {wanted}"
        )
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, text)

    def acknowledgement(
        self, leader_epoch: int, required_offset: int, *, needs_all: bool
    ) -> ErrorCode | None:
        """Return the result of an append, or None while it still waits for replicas or a sync.

        See ``PartitionState.acknowledgement``.
        """
        code = self.state.acknowledgement(leader_epoch, required_offset, needs_all=needs_all)
        return ErrorCode.KAFKA_STORAGE_ERROR if code is None and self.is_offline else code

    # Serving followers

    def read_for_follower(
        self,
        broker_id: int,
        start_offset: int,
        *,
        max_bytes: int,
        current_leader_epoch: int,
        is_one_batch_guaranteed: bool,
    ) -> LogSlice:
        """Return batches for a follower, up to the log's end.

        Raises:
            KafkaError: UNKNOWN_LEADER_EPOCH, this node does not know the broker as a replica
                (NOT_LEADER_OR_FOLLOWER if the request has no leader epoch); OFFSET_OUT_OF_RANGE; as
                ``served_log``.
        """
        log = self.log_for_follower(broker_id, current_leader_epoch)
        return log.read(
            start_offset,
            max_bytes=max_bytes,
            upper_offset=log.log_end_offset,
            is_one_batch_guaranteed=is_one_batch_guaranteed,
        )

    def log_for_follower(self, broker_id: int, current_leader_epoch: int) -> Log:
        """Return the log for a follower's fetch. Raises as ``read_for_follower``."""
        log = self.served_log(current_leader_epoch)
        if broker_id not in self.state.followers:
            text = (
                f"broker {broker_id} is not a replica of {self.topic_partition} in leader epoch"
                f" {self.leader_epoch}"
            )
            names_epoch = current_leader_epoch != NO_LEADER_EPOCH
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH if names_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                text,
            )
        return log

    # Reading

    def read(
        self,
        start_offset: int,
        *,
        isolation: Isolation,
        max_bytes: int,
        current_leader_epoch: int,
        is_one_batch_guaranteed: bool,
        is_leader_needed: bool = True,
    ) -> LogSlice | None:
        """Return the batches that a consumer may read, from the one that holds ``start_offset``.

        ``isolation`` sets the upper limit. Return None if there are no batches below the limit.
        With ``is_leader_needed=False``, a follower serves records below its own high watermark.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE; or an error of ``served_log``.
        """
        self.read_count += 1
        state = self.state
        log = self.served_log(current_leader_epoch, is_leader_needed=is_leader_needed)
        # The inlined ``read_limit``, because the call costs time on every fetch.
        limit = state.high_watermark if isolation is READ_UNCOMMITTED else state.last_stable_offset
        if start_offset == limit:
            return None
        if not log.log_start_offset <= start_offset <= limit:
            self._check_appended(log, start_offset)
            return None
        return log.read(
            start_offset,
            max_bytes=max_bytes,
            upper_offset=limit,
            is_one_batch_guaranteed=is_one_batch_guaranteed,
        )

    def place_of(self, offset: int) -> ReadPlace | None:
        """Return the position of ``offset`` in the active segment.

        Return None if the offset is in an older segment, or if the disk fails.
        """
        log = self.log
        if log is None or offset < (segment := log.segments.active).base_offset:
            return None
        try:
            place = segment.locate(offset)
        except OSError:
            return None  # the next read raises the error
        return ReadPlace(segment, segment.size_bytes if place is None else place.position)

    def readable_bytes(self, start: ReadPlace, end_offset: int) -> int | None:
        """Return the size of the batches between ``start`` and ``end_offset`` in bytes.

        Return None if one of them is not in the active segment.
        """
        log = self.log
        if log is None or start.segment is not log.segments.active:
            return None
        if end_offset == log.log_end_offset:
            return start.segment.size_bytes - start.position
        end = self.place_of(end_offset)
        return None if end is None else end.position - start.position

    def aborted_in(self, start_offset: int, found: LogSlice) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of each aborted transaction that may be in ``found``.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        return self._online_log().aborted_in(start_offset, found)

    def _check_appended(self, log: Log, start_offset: int) -> None:
        """Raise OFFSET_OUT_OF_RANGE unless the log holds the offset, committed or not."""
        if log.log_start_offset <= start_offset <= log.log_end_offset:
            return
        known = f"{log.log_start_offset} to {log.log_end_offset}"
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.topic_partition} has offsets {known}, not {start_offset}",
        )

    def diverging_epoch(
        self,
        last_fetched_epoch: int,
        fetch_offset: int,
        current_leader_epoch: int = NO_LEADER_EPOCH,
        *,
        is_leader_needed: bool = True,
    ) -> tuple[int, int] | None:
        """Return (epoch, end offset) where a reader's log diverged, or None (KIP-320, KIP-595).

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, the reader's epoch is unknown here, or its offset was
                deleted; or an error of ``served_log``.
        """
        log = self.served_log(current_leader_epoch, is_leader_needed=is_leader_needed)
        epoch, end_offset = self._epoch_end(log, last_fetched_epoch)
        if end_offset == UNKNOWN_OFFSET or fetch_offset < log.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return (
            (epoch, end_offset) if epoch < last_fetched_epoch or end_offset < fetch_offset else None
        )

    def end_offset_for_epoch(self, leader_epoch: int, current_leader_epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to ``leader_epoch`` and its end offset, or (-1, -1).

        Raises:
            KafkaError: as ``served_log``.
        """
        return self._epoch_end(self.served_log(current_leader_epoch), leader_epoch)

    def _epoch_end(self, log: Log, leader_epoch: int) -> tuple[int, int]:
        if leader_epoch == self.leader_epoch:
            return leader_epoch, log.log_end_offset
        if leader_epoch > self.leader_epoch or leader_epoch == NO_LEADER_EPOCH:
            return NO_LEADER_EPOCH, UNKNOWN_OFFSET
        if log.latest_leader_epoch == NO_LEADER_EPOCH:
            # No epoch is known, so the current epoch is the first one. It begins at the log end.
            return (
                leader_epoch,
                log.log_end_offset,
            )
        if leader_epoch > log.latest_leader_epoch:
            return log.latest_leader_epoch, log.log_end_offset  # nothing was written since
        return log.end_offset_for_epoch(leader_epoch)

    def find_offset(
        self,
        timestamp: int,
        current_leader_epoch: int,
        isolation: Isolation | None = Isolation.READ_UNCOMMITTED,
    ) -> FoundOffset:
        """Return the offset that a ListOffsets request wants to find.

        ``timestamp`` is a special timestamp of ``OffsetSpec``, or a time. A time finds the first
        record at or after it. ``isolation`` is None for a follower, whose latest offset is the log
        end. This method may read from the disk, so callers may run it in the thread pool.

        Raises:
            KafkaError: OFFSET_NOT_AVAILABLE, the client must retry soon; or an error of
                ``served_log``.
        """
        log = self.served_log(current_leader_epoch)
        match timestamp:
            case OffsetSpec.LATEST:
                if isolation is None:
                    return FoundOffset(offset=log.log_end_offset, leader_epoch=self.leader_epoch)
                self._check_end_known()
                return FoundOffset(
                    offset=self.state.read_limit(isolation), leader_epoch=self.leader_epoch
                )
            case OffsetSpec.EARLIEST | OffsetSpec.EARLIEST_LOCAL:
                return FoundOffset(
                    offset=log.log_start_offset,
                    leader_epoch=self._epoch_at(log, log.log_start_offset),
                )
            case OffsetSpec.LATEST_TIERED | OffsetSpec.EARLIEST_PENDING_UPLOAD:
                return FoundOffset()  # nothing is ever tiered
        found = (
            log.offset_of_max_timestamp()
            if timestamp == OffsetSpec.MAX_TIMESTAMP
            else log.offset_for_timestamp(timestamp)
        )
        limit = log.log_end_offset if isolation is None else self.state.read_limit(isolation)
        if found is None or found.offset >= limit:
            self._check_end_known()
            return FoundOffset()
        return FoundOffset(
            offset=found.offset, timestamp=found.timestamp, leader_epoch=found.leader_epoch
        )

    @property
    def is_end_known(self) -> bool:
        """Whether the high watermark has reached the start of the leader epoch (KIP-207)."""
        return self.state.is_end_known

    def _check_end_known(self) -> None:
        if not self.is_end_known:
            text = (
                f"the high watermark {self.high_watermark} of {self.topic_partition} has not"
                " reached the start of its leader epoch yet"
            )
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, text)

    def _epoch_at(self, log: Log, offset: int) -> int:
        epoch = (
            log.leader_epochs.epoch_of(offset) if offset < log.log_end_offset else self.leader_epoch
        )
        return self.leader_epoch if epoch == NO_LEADER_EPOCH else epoch

    def read_batches(self) -> Iterator[bytes]:
        """Yield the whole log, even above the high watermark, in chunks of whole batches.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        log = self._online_log()
        return log.read_batches(log.log_start_offset, log.log_end_offset)

    # Trimming

    @property
    def low_watermark(self) -> int:
        """The lowest log start of this leader and live followers, or -1 if one has not fetched."""
        return min(self.log_start_offset, self.state.low_watermark)

    def delete_records(self, offset: int) -> int:
        """Delete records before ``offset`` (-1: high watermark).

        Return the new log start (KIP-107).

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, ``offset`` is above the high watermark;
                POLICY_VIOLATION, the topic is only compacted; or an error of ``served_log``.
        """
        log = self.served_log()
        if not log.config.is_deleted:
            text = (
                f"{self.topic_partition} is compacted only: its cleanup.policy would have to"
                " include delete"
            )
            raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
        target = self.high_watermark if offset == UNKNOWN_OFFSET else offset
        if not 0 <= target <= self.high_watermark:
            text = (
                f"{self.topic_partition} can be cut up to its high watermark {self.high_watermark},"
                f" not at {offset}"
            )
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        if target > log.log_start_offset:
            log.advance_log_start_offset(target)
            self._note_log_start()
        return log.log_start_offset
