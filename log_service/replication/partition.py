"""One partition as a broker serves it: its log, who leads it and since when, and how far consumers may read.

Decides whether a request may be served here (leadership, leader epoch), what is appended, and where the high watermark is. Knows neither
requests nor who waits: whoever appends or syncs tells the replica manager, which tells those who wait. Reads and appends never wait; only
syncing does.

Invariants: while this node leads, the high watermark never goes back and never passes the log's end. With ``flush.messages=1`` it never
passes what is synced, so that an acknowledged record survives the loss of power; one sync serves every append that waits for it. A leader
whose high watermark has not reached what it had when its epoch began names no end: an earlier one may have shown more (KIP-207). A failed
sync is final: the log directory is offline from then on, and every partition in it answers KAFKA_STORAGE_ERROR.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_LEADER_EPOCH, NO_NODE, NO_TIMESTAMP, TopicId, TopicPartition
from log_service.config.views import LogConfig
from log_service.records.batch import TRANSACTIONAL_FLAG
from log_service.records.validator import PRODUCER_CODEC, ValidatedBatches, validate_for_append
from log_service.storage.log import AppendResult, Log
from log_service.storage.log_reader import LogSlice
from log_service.storage.retention import RetentionOutcome
from log_service.storage.segment import Segment

UNKNOWN_OFFSET = -1
"""What ListOffsets and OffsetForLeaderEpoch say where there is no offset to tell."""


class OffsetSpec(IntEnum):
    """The timestamps of ListOffsets that are questions of their own (KIP-79, 734, 405, 1005, 1023)."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOffset:
    """An answer of ``find_offset``; ``UNKNOWN_OFFSET`` where no record is what was asked for."""

    offset: int = UNKNOWN_OFFSET
    timestamp: int = NO_TIMESTAMP
    leader_epoch: int = NO_LEADER_EPOCH


class ReadPlace(NamedTuple):
    """A position in bytes in one segment of a log."""

    segment: Segment
    position: int


class Partition:
    """One replica on this node, without a log where its directory failed. Created by the replica manager, which alone calls ``become_*``.

    The counts of requests and bytes are since the node started and only grow. ``is_synced_first`` is ``flush.messages=1``: where it does
    not hold, what is appended is safe at once.
    """

    __slots__ = (
        "_epoch_start_offset",
        "_first_end_offset",
        "append_count",
        "appended_bytes",
        "failed_append_count",
        "failed_read_count",
        "high_watermark",
        "is_leader",
        "is_synced_first",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "read_count",
        "replica_count",
        "sent_bytes",
        "topic_id",
        "topic_partition",
        "watchers",
    )

    def __init__(self, topic_partition: TopicPartition, topic_id: TopicId, log: Log | None) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.is_leader = False
        self.leader: int = NO_NODE
        self.leader_epoch: int = NO_LEADER_EPOCH
        self.isr: tuple[int, ...] = ()
        self.replica_count = 1
        self.high_watermark = 0
        self.watchers: list[Callable[[int], None]] = []
        self.appended_bytes = 0
        self.sent_bytes = 0
        self.append_count = 0
        self.read_count = 0
        self.failed_append_count = 0
        self.failed_read_count = 0
        self._epoch_start_offset = 0
        self._first_end_offset = 0 if log is None else log.log_end_offset
        self.is_synced_first = log is not None and log.config.flush_messages == 1

    def __repr__(self) -> str:
        role = "offline" if self.is_offline else "leader" if self.is_leader else "follower"
        isr = ",".join(map(str, self.isr))
        return f"<Partition {self.topic_partition} {role} epoch={self.leader_epoch} hw={self.high_watermark} isr={isr}>"

    @property
    def is_offline(self) -> bool:
        """Whether the log cannot be used: its directory failed."""
        return self.log is None or self.log.home.is_offline

    @property
    def appended_record_count(self) -> int:
        """Records appended since the node started: each took one offset."""
        return 0 if self.log is None else max(0, self.log.log_end_offset - self._first_end_offset)

    # Leadership

    def become_leader(self, node_id: int, leader_epoch: int, isr: tuple[int, ...], checkpointed: int) -> None:
        """Lead from now on; ``checkpointed`` is the high watermark that was last written down."""
        log = self._online_log()
        if not self.is_leader or leader_epoch != self.leader_epoch:
            self._epoch_start_offset = log.log_end_offset
        self.is_leader, self.leader, self.leader_epoch, self.isr = True, node_id, leader_epoch, isr
        known = max(self.high_watermark, min(checkpointed, log.log_end_offset), log.log_start_offset)
        self.high_watermark = known
        self.advance_high_watermark()

    def become_follower(self, leader: int, leader_epoch: int, isr: tuple[int, ...]) -> None:
        """Serve neither appends nor reads; ``leader`` may be nobody."""
        self.is_leader, self.leader, self.leader_epoch, self.isr = False, leader, leader_epoch, isr

    def reconfigure(self, config: LogConfig) -> None:
        """Go by ``config`` from now on; say nothing to those who wait."""
        if self.log is not None:
            self.log.reconfigure(config)
            self.is_synced_first = config.flush_messages == 1

    def leading_log(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> Log:
        """Return the log if this node may serve the partition to somebody who believes in ``current_leader_epoch`` (-1: does not say).

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH (theirs is older), UNKNOWN_LEADER_EPOCH (ours is older),
                KAFKA_STORAGE_ERROR.
        """
        log = self.log
        if log is None or log.home.is_offline:
            raise self._offline()
        if current_leader_epoch not in (NO_LEADER_EPOCH, self.leader_epoch):
            is_fenced = current_leader_epoch < self.leader_epoch
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH if is_fenced else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return log

    def _online_log(self) -> Log:
        if self.log is None or self.log.home.is_offline:
            raise self._offline()
        return self.log

    def _offline(self) -> KafkaError:
        text = f"the log directory of {self.topic_partition} is offline: look at the disk, then restart the node"
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)

    # Appending and syncing

    def append_as_leader(self, records: bytearray | memoryview, now_ms: int, *, needs_all: bool = False) -> AppendResult:
        """Check and append a batch as a producer sent it (writable: offset and epoch are stamped in place).

        ``needs_all`` asks for ``min.insync.replicas`` first, for all replicas where the partition has fewer.

        Raises:
            KafkaError: what is wrong with the batch or its producer's sequence; NOT_ENOUGH_REPLICAS; KAFKA_STORAGE_ERROR.
        """
        self.append_count += 1
        log = self.leading_log()
        config = log.config
        if needs_all and self.replica_count > len(self.isr) < config.min_insync_replicas:  # nobody is asked for more than could ever be
            text = f"{self.topic_partition} has {len(self.isr)} in-sync replicas where min.insync.replicas is {config.min_insync_replicas}"
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, text)
        validated = validate_for_append(
            records,
            max_batch_size_bytes=config.max_message_bytes,
            now_ms=now_ms,
            is_compacted=config.is_compacted,
            timestamp_type=config.message_timestamp_type,
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            compression_type=config.compression_type,
            compression_level=None if config.compression_type == PRODUCER_CODEC else _compression_level(config),
        )
        if validated.batches[0][1].attributes & TRANSACTIONAL_FLAG:
            text = "transactions are not supported by this broker, and the request names no transactional id"
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text)
        return self._append(log, validated, now_ms)

    def append_own(self, validated: ValidatedBatches, now_ms: int) -> AppendResult:
        """Append batches that this node built: a coordinator's records.

        Raises:
            KafkaError: this node does not lead the partition; KAFKA_STORAGE_ERROR.
        """
        return self._append(self.leading_log(), validated, now_ms)

    def _append(self, log: Log, validated: ValidatedBatches, now_ms: int) -> AppendResult:
        result = log.append_as_leader(validated, leader_epoch=self.leader_epoch, now_ms=now_ms)
        if not result.is_duplicate:
            self.appended_bytes += validated.size_bytes
            if not self.is_synced_first:
                self.high_watermark = log.log_end_offset
        return result

    @property
    def is_sync_due(self) -> bool:
        """Whether ``flush.messages`` asks for a sync now."""
        log = self.log
        if log is None or log.home.is_offline or log.is_closed:
            return False
        return log.log_end_offset - log.recovery_point >= log.config.flush_messages

    async def sync(self) -> bool:
        """Sync the log and say whether the high watermark moved.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the disk failed and the directory is offline.
        """
        await self._online_log().sync()
        return self.advance_high_watermark()

    def advance_high_watermark(self) -> bool:
        """Move to what the in-sync replicas have, here this node alone; say whether it moved."""
        log = self.log
        if log is None or not self.is_leader:
            return False
        reached = log.recovery_point if self.is_synced_first else log.log_end_offset
        if reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True

    # Reading

    @property
    def last_stable_offset(self) -> int:
        """How far ``read_committed`` consumers may read: no transaction can be open, so it is the high watermark."""
        return self.high_watermark

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read; -1 where the log is offline."""
        return UNKNOWN_OFFSET if self.log is None else self.log.log_start_offset

    def read(self, start_offset: int, *, max_bytes: int, current_leader_epoch: int, is_one_batch_guaranteed: bool) -> LogSlice | None:
        """Return whole batches below the high watermark from the one that holds ``start_offset``; None where there are none.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, and what ``leading_log`` raises.
        """
        self.read_count += 1
        log = self.leading_log(current_leader_epoch)
        if start_offset == self.high_watermark:
            return None
        if not log.log_start_offset <= start_offset <= self.high_watermark:
            self._check_appended(log, start_offset)
            return None
        return log.read(
            start_offset, max_bytes=max_bytes, upper_offset=self.high_watermark, is_one_batch_guaranteed=is_one_batch_guaranteed
        )

    def place_of(self, offset: int) -> ReadPlace | None:
        """Return where ``offset`` lies in the active segment; None where it lies in an older one, or the log cannot be read."""
        log = self.log
        if log is None or offset < (segment := log.segments.active).base_offset:
            return None
        try:
            place = segment.locate(offset)
        except OSError:
            return None  # the next read says what is wrong
        return ReadPlace(segment, segment.size_bytes if place is None else place.position)

    def readable_bytes(self, start: ReadPlace, end_offset: int) -> int | None:
        """Return how many bytes lie from ``start`` to ``end_offset``; None where they are not all in the active segment any more."""
        log = self.log
        if log is None or start.segment is not log.segments.active:
            return None
        if end_offset == log.log_end_offset:
            return start.segment.size_bytes - start.position
        end = self.place_of(end_offset)
        return None if end is None else end.position - start.position

    def aborted_in(self, start_offset: int, found: LogSlice) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of the aborted transactions that may have records in what ``read`` found.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        return self._online_log().aborted_in(start_offset, found)

    def _check_appended(self, log: Log, start_offset: int) -> None:
        """Let an offset pass that was appended and is not safe yet: it can be read soon."""
        if log.log_start_offset <= start_offset <= log.log_end_offset:
            return
        known = f"{log.log_start_offset} to {log.log_end_offset}"
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.topic_partition} has offsets {known}, not {start_offset}")

    def diverging_epoch(
        self, last_fetched_epoch: int, fetch_offset: int, current_leader_epoch: int = NO_LEADER_EPOCH
    ) -> tuple[int, int] | None:
        """Return (epoch, end offset) where a reader's log parted from this one, None where it did not (KIP-320, KIP-595).

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, the reader's epoch is unknown here, or its offset is gone; what ``leading_log`` raises.
        """
        log = self.leading_log(current_leader_epoch)
        epoch, end_offset = self._epoch_end(log, last_fetched_epoch)
        if end_offset == UNKNOWN_OFFSET or fetch_offset < log.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return (epoch, end_offset) if epoch < last_fetched_epoch or end_offset < fetch_offset else None

    def end_offset_for_epoch(self, leader_epoch: int, current_leader_epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest epoch up to ``leader_epoch``; (-1, -1) where there is none."""
        return self._epoch_end(self.leading_log(current_leader_epoch), leader_epoch)

    def _epoch_end(self, log: Log, leader_epoch: int) -> tuple[int, int]:
        if leader_epoch == self.leader_epoch:
            return leader_epoch, log.log_end_offset
        if leader_epoch > self.leader_epoch or leader_epoch == NO_LEADER_EPOCH:
            return NO_LEADER_EPOCH, UNKNOWN_OFFSET
        if log.latest_leader_epoch == NO_LEADER_EPOCH:
            return leader_epoch, log.log_end_offset  # the current epoch is the first, and begins here
        if leader_epoch > log.latest_leader_epoch:
            return log.latest_leader_epoch, log.log_end_offset  # nothing was written since
        return log.end_offset_for_epoch(leader_epoch)

    def find_offset(self, timestamp: int, current_leader_epoch: int) -> FoundOffset:
        """Answer ListOffsets: a special timestamp of ``OffsetSpec``, or the first record at or after a time.

        May read from the disk: callers run it in the pool where that matters.

        Raises:
            KafkaError: OFFSET_NOT_AVAILABLE, ask again soon; what ``leading_log`` raises.
        """
        log = self.leading_log(current_leader_epoch)
        match timestamp:
            case OffsetSpec.LATEST:
                self._check_end_known()
                return FoundOffset(offset=self.last_stable_offset, leader_epoch=self.leader_epoch)
            case OffsetSpec.EARLIEST | OffsetSpec.EARLIEST_LOCAL:
                return FoundOffset(offset=log.log_start_offset, leader_epoch=self._epoch_at(log, log.log_start_offset))
            case OffsetSpec.LATEST_TIERED | OffsetSpec.EARLIEST_PENDING_UPLOAD:
                return FoundOffset()  # nothing is ever tiered
        found = log.offset_of_max_timestamp() if timestamp == OffsetSpec.MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
        if found is None or found.offset >= self.high_watermark:
            self._check_end_known()
            return FoundOffset()
        return FoundOffset(offset=found.offset, timestamp=found.timestamp, leader_epoch=found.leader_epoch)

    @property
    def is_end_known(self) -> bool:
        """Whether the high watermark lies at or above all that consumers may have read from an earlier leader (KIP-207)."""
        return self.high_watermark >= self._epoch_start_offset

    def _check_end_known(self) -> None:
        if not self.is_end_known:
            text = f"what {self.topic_partition} held when its leader epoch began is safe up to {self.high_watermark} so far"
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, text)

    def _epoch_at(self, log: Log, offset: int) -> int:
        epoch = log.leader_epochs.epoch_of(offset) if offset < log.log_end_offset else self.leader_epoch
        return self.leader_epoch if epoch == NO_LEADER_EPOCH else epoch

    def read_batches(self) -> Iterator[bytes]:
        """Yield the whole log, batch by batch in chunks; for coordinators that load."""
        log = self._online_log()
        return log.read_batches(log.log_start_offset, log.log_end_offset)

    # Trimming

    def delete_records(self, offset: int) -> int:
        """Drop what lies before ``offset`` (-1: before the high watermark) and return the new log start offset (KIP-107).

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE beyond the high watermark; POLICY_VIOLATION where the topic is only compacted.
        """
        log = self.leading_log()
        if not log.config.is_deleted:
            text = f"{self.topic_partition} is compacted only: its cleanup.policy would have to include delete"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
        target = self.high_watermark if offset == UNKNOWN_OFFSET else offset
        if not 0 <= target <= self.high_watermark:
            text = f"{self.topic_partition} can be cut up to its high watermark {self.high_watermark}, not at {offset}"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        if target > log.log_start_offset:
            log.advance_log_start_offset(target)
        return log.log_start_offset

    def apply_retention(self, now_ms: int) -> RetentionOutcome:
        """Delete the segments that age, size or the log start offset no longer keep, none that reach past the high watermark.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        return self._online_log().apply_retention(now_ms, self.high_watermark)


def _compression_level(config: LogConfig) -> int | None:
    """Return the level that the topic's codec is used with here; None is the library's own."""
    levels = {"gzip": config.compression_gzip_level, "lz4": config.compression_lz4_level, "zstd": config.compression_zstd_level}
    level = levels.get(config.compression_type)
    return None if config.compression_type == "gzip" and level == -1 else level
