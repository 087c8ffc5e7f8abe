"""The protocol of blocking calls that the platform makes to a log service.

The log service is Tidelog's, Apache Kafka, or one in a test's memory. Topic ids are texts (Kafka's
22 letters of url-safe base64), offsets and epochs are ints, and record batches are Arrow with the
columns of ``RECORD_SCHEMA``. ``orchestration.log_client.connection`` is the adapter over
``log_service.client``.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

from orchestration.offsets.planning import PartitionOffsets
from orchestration.offsets.ranges import OffsetRange

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
"""The headers of a record, in their order. A key may come more than once."""
RECORD_SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("leader_epoch", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
"""One row per record.

A record without timestamp has null. Readers may yield further columns, ``headers`` among them.
"""


class LogServiceError(RuntimeError):
    """The log service could not be reached or refused.

    The text names the address and the remedy.
    """


class LogServiceAwayError(LogServiceError):
    """No broker responded in time, so that further calls are not worth a try now.

    Other errors are about the one call that raised them.
    """


class OtherTopicError(LogServiceError):
    """A topic was deleted and created anew, so the name belongs to another topic now."""


class SenderFencedError(LogServiceError):
    """Another sender took the transactional id, or a transaction took too long.

    The uncommitted records of this sender are aborted.
    """


class OutgoingRecord(NamedTuple):
    """A record to be sent. A record without value is a tombstone.

    If ``timestamp_ms`` is None, the record gets the time of sending.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The offset that a consumer group committed in one partition.

    ``note`` is the text that was committed with it (Kafka's offset metadata).
    """

    next_offset: int
    leader_epoch: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """The id and the size of an existing topic."""

    topic: str
    topic_id: str
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPass:
    """The segments that one pass of retention removed from one partition."""

    topic: str
    partition: int
    segments: int
    bytes: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPass:
    """The result of compacting one partition.

    The figures count the rewritten records and bytes, and are 0 if no pass was due.

    ``reason`` is why the partition could not be compacted. With ``is_under_way`` the pass still
    runs, and its figures are not known yet.
    """

    topic: str
    partition: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int
    tombstones_removed: int
    tombstones_kept: int
    dirty_ratio_before: float
    dirty_ratio_after: float
    seconds: float
    passes: int
    is_under_way: bool = False
    reason: str | None = None


UNREADABLE = "unreadable"
"""The column of a tolerant reader's batch with the reason why an offset cannot be read.

It is null if the offset can be read, and the batch may lack it.
"""
UNREADABLE_BATCH = "the batch at offsets "
"""The beginning of the reasons in the column ``UNREADABLE``."""


class RangeReader(Protocol):
    """Reads the records of one offset range.

    It can be pickled, because Spark's Python workers call it, too. A tolerant reader yields a row
    for each offset of a batch that cannot be read, with the column ``UNREADABLE``. Such a row has
    no key. The value of the first of them is the batch's bytes, up to a bound.
    """

    def __call__(
        self, topic: str, wanted: OffsetRange, *, topic_id: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of ``RECORD_SCHEMA`` until the position has reached ``wanted.end``.

        They hold committed records only. With ``topic_id`` the topic has to have that id.

        :raises OtherTopicError: the topic has another id.
        :raises LogServiceError: also if the partition does not reach ``wanted.end`` in time.
        """
        ...


class Sender(Protocol):
    """Sends records in transactions. It is the only sender of its transactional id."""

    @property
    def max_record_bytes(self) -> int:
        """The size of the largest record, with its overhead, that this sender can send."""
        ...

    def send(
        self,
        topic: str,
        records: Iterable[OutgoingRecord],
        *,
        group_id: str,
        source: str,
        offsets: Mapping[int, CommittedOffset],
    ) -> None:
        """Send ``records`` to ``topic`` and commit the group's ``offsets`` in one transaction.

        The offsets are those of the topic ``source``. When this returns, ``committed_offsets``
        returns them.

        :raises SenderFencedError: the transaction is aborted.
        :raises LogServiceError: the transaction is aborted, or its outcome is not known. In the
            latter case ``committed_offsets`` shows the outcome, once another sender of the
            transactional id is open.
        """
        ...

    def send_all(self, records: Iterable[tuple[str, OutgoingRecord]]) -> None:
        """Send records, each to its topic, in one transaction.

        Readers may see the records some time after the return. They see them at the latest when
        another sender of the transactional id is open.

        :raises SenderFencedError: the transaction is aborted.
        :raises LogServiceError: the transaction is aborted, or its outcome is not known.
        """
        ...


class LogClient(Protocol):
    """Blocking calls. All raise ``LogServiceError`` if the log service is away or refuses."""

    def describe_topic(self, topic: str) -> TopicDescription | None:
        """Return the topic of that name, or None."""
        ...

    def partition_offsets(self, topic: str) -> tuple[PartitionOffsets, ...]:
        """Return the offsets of each partition, ordered by partition."""
        ...

    def leader_epoch_ends(self, topic: str, epochs: Mapping[int, int]) -> dict[int, int]:
        """Return, by partition, the end offset of the given leader epoch.

        It is -1 if the leader never knew the epoch (KIP-101).
        """
        ...

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int | None]:
        """Return, by partition, the first offset at or after ``timestamp_ms``, or None."""
        ...

    def range_reader(self, *, is_tolerant: bool = False) -> RangeReader:
        """Return a reader that works in other processes as well.

        Only a tolerant one continues after a batch that cannot be read.
        """
        ...

    def create_topic(
        self, topic: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        """Create the topic. A topic that exists already is an error."""
        ...

    def add_partitions(self, topic: str, total: int) -> None:
        """Raise the number of partitions to ``total``."""
        ...

    def topic_configs(self, topic: str) -> dict[str, str]:
        """Return the values in force for the topic, by key."""
        ...

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set the given keys and leave the others (KIP-339)."""
        ...

    def wait_for_records(
        self, positions: Mapping[tuple[str, int], int], timeout_ms: int
    ) -> set[tuple[str, int]]:
        """Wait for records, and return the (topic, partition) pairs that have some.

        These have records at or above their offset. The result is empty after ``timeout_ms``. A
        position outside the log counts too, because a run has to report it. A partition that may
        not be read is skipped as long as there is another one to wait for.
        """
        ...

    def apply_retention(self) -> tuple[RetentionPass, ...] | None:
        """Make the brokers apply retention to all topics now.

        Return None if they do not know the request. Such brokers clean by themselves.
        """
        ...

    def apply_compaction(self, timeout_ms: int) -> tuple[CompactionPass, ...] | None:
        """Make the brokers compact now the logs that are due.

        Return None if they do not know the request. Such brokers clean by themselves.
        """
        ...

    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """Delete the records below an offset, by partition. Return the new log start offsets."""
        ...

    def mirror_offsets(self, group_id: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit ``offsets`` for a group without members, for tools that show lag."""
        ...

    def committed_offsets(
        self, group_id: str, topic: str, partitions: Iterable[int]
    ) -> dict[int, CommittedOffset]:
        """Return the offsets that a group committed, by partition.

        Partitions without a committed offset are left out. Waits for the end of transactions with
        the group's offsets.
        """
        ...

    def open_sender(self, transactional_id: str) -> AbstractContextManager[Sender]:
        """Open the sender of ``transactional_id``.

        When it is open, earlier senders are fenced and their open transaction is aborted.
        """
        ...
