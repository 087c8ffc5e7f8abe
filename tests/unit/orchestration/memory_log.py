"""A log service in memory keeps ``LogClient``'s promises.

It is for tests of the platform beside a log, not of the log.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from orchestration.log_client.protocol import (
    HEADERS,
    RECORD_SCHEMA,
    UNREADABLE,
    UNREADABLE_BATCH,
    CommittedOffset,
    CompactionPass,
    LogServiceError,
    OtherTopicError,
    OutgoingRecord,
    RangeReader,
    RetentionPass,
    Sender,
    SenderFencedError,
    TopicDescription,
)
from orchestration.offsets.planning import PartitionOffsets
from orchestration.offsets.ranges import OffsetRange

Headers = Sequence[tuple[str, bytes | None]]
READ_SCHEMA = RECORD_SCHEMA.append(pa.field("headers", HEADERS))


@dataclass(slots=True, kw_only=True)
class MemoryPartition:
    records: dict[int, tuple[int, int, bytes | None, bytes | None]] = field(default_factory=dict)
    headers: dict[int, Headers] = field(default_factory=dict)
    unreadable: dict[int, str] = field(default_factory=dict)
    log_start_offset: int = 0
    log_end_offset: int = 0
    last_stable_offset: int | None = None
    leader_epoch: int = 0
    epoch_ends: dict[int, int] = field(default_factory=dict)

    def append(
        self,
        value: bytes | None,
        key: bytes | None = None,
        timestamp_ms: int = 1_700_000_000_000,
        headers: Headers = (),
    ) -> int:
        offset = self.log_end_offset
        self.records[offset] = (timestamp_ms, self.leader_epoch, key, value)
        self.headers[offset] = headers
        self.log_end_offset += 1
        return offset

    def append_unreadable(self, count: int, raw: bytes) -> None:
        """Append a batch that cannot be read; what is there of it is what a tolerant reader tells."""
        start, end = self.log_end_offset, self.log_end_offset + count
        for offset in range(start, end):
            self.append(raw if offset == start else None, timestamp_ms=0)
            self.unreadable[offset] = (
                f"{UNREADABLE_BATCH}{start} to {end - 1} cannot be read: CORRUPT_MESSAGE"
            )

    def skip(self, count: int) -> None:
        """Offsets without records, as markers and compaction leave them."""
        self.log_end_offset += count


@dataclass(slots=True, kw_only=True)
class MemoryTopic:
    topic_id: str
    partitions: list[MemoryPartition]
    replication_factor: int = 1
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MemoryReader:
    topics: dict[str, MemoryTopic]
    reads: list[tuple[str, int, int, int]]
    is_tolerant: bool = False

    def __call__(
        self, topic: str, wanted: OffsetRange, *, topic_id: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        self.reads.append((topic, wanted.partition, wanted.start, wanted.end))
        found = self.topics[topic]
        if topic_id not in {None, found.topic_id}:
            raise OtherTopicError(
                f"the topic {topic} has the id {found.topic_id}, not {topic_id}: it was deleted and created anew"
            )
        partition = found.partitions[wanted.partition]
        if wanted.start < partition.log_start_offset:
            raise LogServiceError("OFFSET_OUT_OF_RANGE")
        if wanted.end > partition.log_end_offset:
            raise LogServiceError(
                f"REQUEST_TIMED_OUT: the partition stood still at {partition.log_end_offset}"
            )
        offsets = [offset for offset in sorted(partition.records) if offset in wanted]
        chosen = [
            (offset, *partition.records[offset], partition.headers.get(offset, ()))
            for offset in offsets
        ]
        for at in range(0, len(chosen), 1_000):
            columns = list(zip(*chosen[at : at + 1_000], strict=True))
            stamps = [datetime.fromtimestamp(ms / 1000, UTC) for ms in columns[1]]
            headers = [[{"key": name, "value": value} for name, value in one] for one in columns[5]]
            batch = pa.record_batch(
                [columns[0], stamps, columns[2], columns[3], columns[4], headers],
                schema=READ_SCHEMA,
            )
            reasons = [partition.unreadable.get(offset) for offset in columns[0]]
            if any(reasons) and not self.is_tolerant:
                raise LogServiceError(next(filter(None, reasons)))
            yield (
                batch.append_column(UNREADABLE, pa.array(reasons, pa.string()))
                if any(reasons)
                else batch
            )


class MemorySender:
    """Sends whole transactions: all of one is there, or nothing. It refuses records as brokers do."""

    max_record_bytes = 1 << 20

    def __init__(self, log: "MemoryLog", transactional_id: str) -> None:
        self._log = log
        self._transactional_id = transactional_id
        self.epoch = log.epochs[transactional_id] = log.epochs.get(transactional_id, -1) + 1

    def send(
        self,
        topic: str,
        records: Iterable[OutgoingRecord],
        *,
        group_id: str,
        source: str,
        offsets: Mapping[int, CommittedOffset],
    ) -> None:
        taken = list(records)
        self._append([(topic, one) for one in taken])
        self._log.sent.append((topic, taken))
        self._log.groups.setdefault((group_id, source), {}).update(offsets)

    def send_all(self, records: Iterable[tuple[str, OutgoingRecord]]) -> None:
        self._append(list(records))

    def _append(self, records: list[tuple[str, OutgoingRecord]]) -> None:
        if self._log.epochs[self._transactional_id] != self.epoch:
            raise SenderFencedError(f"{self._transactional_id} is fenced")
        for topic, one in records:
            limit = min(
                self.max_record_bytes,
                int(self._log.topics[topic].configs.get("max.message.bytes", 1 << 20)),
            )
            if (
                len(one.key or b"")
                + len(one.value or b"")
                + sum(len(name) + len(value or b"") for name, value in one.headers)
                > limit
            ):
                raise LogServiceError("MESSAGE_TOO_LARGE")
        for topic, one in records:
            partitions = self._log.topics[topic].partitions
            partitions[sum(one.key or b"") % len(partitions)].append(
                one.value, one.key, one.timestamp_ms or 0, one.headers
            )


class MemoryLog:
    """Topics by name; reads and mirrored offsets are noted for tests."""

    def __init__(self) -> None:
        self.topics: dict[str, MemoryTopic] = {}
        self.reads: list[tuple[str, int, int, int]] = []
        self.mirrored: dict[str, dict[int, int]] = {}
        self.calls: list[str] = []
        self.retention: tuple[RetentionPass, ...] | None = ()
        self.compaction: tuple[CompactionPass, ...] | None = ()
        self.waits: list[int] = []
        self.on_wait: Callable[[int], None] | None = None
        self.groups: dict[tuple[str, str], dict[int, CommittedOffset]] = {}
        self.epochs: dict[str, int] = {}
        self.sent: list[tuple[str, list[OutgoingRecord]]] = []

    def add_topic(self, name: str, partitions: int = 1, topic_id: str | None = None) -> MemoryTopic:
        topic = MemoryTopic(
            topic_id=topic_id or f"id-of-{name}",
            partitions=[MemoryPartition() for _ in range(partitions)],
        )
        self.topics[name] = topic
        return topic

    def describe_topic(self, topic: str) -> TopicDescription | None:
        found = self.topics.get(topic)
        if found is None:
            return None
        return TopicDescription(
            topic=topic,
            topic_id=found.topic_id,
            partitions=len(found.partitions),
            replication_factor=found.replication_factor,
        )

    def partition_offsets(self, topic: str) -> tuple[PartitionOffsets, ...]:
        return tuple(
            PartitionOffsets(
                partition=number,
                log_start_offset=one.log_start_offset,
                last_stable_offset=one.log_end_offset
                if one.last_stable_offset is None
                else one.last_stable_offset,
                high_watermark=one.log_end_offset,
            )
            for number, one in enumerate(self.topics[topic].partitions)
        )

    def leader_epoch_ends(self, topic: str, epochs: Mapping[int, int]) -> dict[int, int]:
        partitions = self.topics[topic].partitions
        return {
            partition: partitions[partition].epoch_ends.get(
                epoch, partitions[partition].log_end_offset
            )
            for partition, epoch in epochs.items()
        }

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int | None]:
        return {
            number: min(
                (offset for offset, record in one.records.items() if record[0] >= timestamp_ms),
                default=None,
            )
            for number, one in enumerate(self.topics[topic].partitions)
        }

    def range_reader(self, *, is_tolerant: bool = False) -> RangeReader:
        return MemoryReader(self.topics, self.reads, is_tolerant)

    def create_topic(
        self, topic: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        self.calls.append("create_topic")
        created = self.add_topic(topic, partitions)
        created.replication_factor = replication_factor
        created.configs.update(configs)

    def add_partitions(self, topic: str, total: int) -> None:
        self.calls.append("add_partitions")
        partitions = self.topics[topic].partitions
        partitions.extend(MemoryPartition() for _ in range(total - len(partitions)))

    def topic_configs(self, topic: str) -> dict[str, str]:
        return {"cleanup.policy": "delete", **self.topics[topic].configs}

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        self.calls.append("alter_topic_configs")
        self.topics[topic].configs.update(configs)

    def wait_for_records(
        self, positions: Mapping[tuple[str, int], int], timeout_ms: int
    ) -> set[tuple[str, int]]:
        self.waits.append(timeout_ms)
        if self.on_wait is not None:
            self.on_wait(timeout_ms)
        return {
            place
            for place, offset in positions.items()
            if self.topics[place[0]].partitions[place[1]].log_end_offset > offset
        }

    def apply_retention(self) -> tuple[RetentionPass, ...] | None:
        self.calls.append("apply_retention")
        return self.retention

    def apply_compaction(self, timeout_ms: int) -> tuple[CompactionPass, ...] | None:
        self.calls.append(f"apply_compaction {timeout_ms}")
        return self.compaction

    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        self.calls.append("delete_records")
        for number, offset in before.items():
            partition = self.topics[topic].partitions[number]
            partition.log_start_offset = max(partition.log_start_offset, offset)
            partition.records = {
                place: record for place, record in partition.records.items() if place >= offset
            }
        return {number: self.topics[topic].partitions[number].log_start_offset for number in before}

    def mirror_offsets(self, group_id: str, topic: str, offsets: Mapping[int, int]) -> None:
        self.mirrored[group_id] = dict(offsets)

    def committed_offsets(
        self, group_id: str, topic: str, partitions: Iterable[int]
    ) -> dict[int, CommittedOffset]:
        found = self.groups.get((group_id, topic), {})
        return {partition: found[partition] for partition in partitions if partition in found}

    @contextmanager
    def open_sender(self, transactional_id: str) -> Iterator[Sender]:
        yield MemorySender(self, transactional_id)
