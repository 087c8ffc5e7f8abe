"""Implements ``LogClient`` over ``log_service.client``, for our log service and any Kafka cluster.

Converts the client's values to the platform's. Topic ids become texts, and errors become sentences
that name the address. Knows no table.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic, sleep
from uuid import UUID

import pyarrow as pa

from log_service.client import (
    BlockingAdmin,
    BlockingProducer,
    CompactionResult,
    ConfigError,
    ConfigResource,
    ConsumerGroupMetadata,
    ErrorCode,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    ProducerFailed,
    ProducerFenced,
    TopicPartition,
    TransactionAbortable,
    UnreadableBatch,
    read_range_arrow,
)
from log_service.config.client import ProducerConfig
from orchestration.log_client.protocol import (
    HEADERS,
    RECORD_SCHEMA,
    UNREADABLE,
    CommittedOffset,
    CompactionPass,
    LogServiceAwayError,
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
from orchestration.settings import client_settings

UNREACHABLE = frozenset(
    {ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.BROKER_NOT_AVAILABLE}
)
TRANSACTION_TIMEOUT_MS = 60_000
"""The time limit of a transaction.

It lasts only as long as sending takes, because it begins when all is computed and checked.
"""
COMMIT_TRIES = 3
TOLD_WITHIN_S = 30
MAX_RAW_BYTES = 1 << 20
"""Most bytes that are kept of a batch that cannot be read."""
MAX_UNREADABLE_ROWS = 100_000
"""Most rows of a batch that cannot be read. The last one names the offsets that have no row."""
TOLD_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class ClientRangeReader:
    """Reads a range over a connection of its own.

    It holds plain values only, so that it can be sent to Spark's workers.

    ``timeout_ms`` bounds each wait for further records of the range. If it is None, the client's
    own limit applies. ``client_config`` is the path of a properties file with encryption and login.
    It has to exist on the machine that calls the reader. If it is None, these settings come from
    the environment. If ``is_tolerant``, a batch that cannot be read becomes a row per offset.
    """

    bootstrap_servers: str
    timeout_ms: int | None = None
    client_config: str | None = None
    is_tolerant: bool = False

    def __call__(
        self, topic: str, wanted: OffsetRange, *, topic_id: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the committed records of the range as Arrow batches.

        :raises OtherTopicError: the topic has another id than ``topic_id``.
        :raises LogServiceError: the range cannot be read.
        """
        with _explained(self.bootstrap_servers):
            place = TopicPartition(topic, wanted.partition)
            yield from read_range_arrow(
                self.bootstrap_servers,
                place,
                wanted.start,
                wanted.end,
                timeout_ms=self.timeout_ms,
                topic_id=None if topic_id is None else topic_id_of(topic_id),
                on_unreadable=unreadable_rows if self.is_tolerant else None,
                **client_settings(file=self.client_config),
            )


def unreadable_rows(batch: UnreadableBatch) -> pa.RecordBatch:
    """Return a row for each offset of a batch that cannot be read.

    The first row has the batch's bytes, up to a bound, and all rows have the reason. A damaged
    batch may cover a large range of missing offsets. The number of rows is bounded, and the last
    row then represents its own offset and all later ones.
    """
    count = min(batch.end - batch.start, MAX_UNREADABLE_ROWS)
    reasons = [batch.reason] * count
    if batch.start + count < batch.end:
        reasons[-1] += f"; this stands for the offsets {batch.start + count - 1} to {batch.end - 1}"
    columns = {
        "offset": pa.array(range(batch.start, batch.start + count), pa.int64()),
        "timestamp": pa.nulls(count, RECORD_SCHEMA.field("timestamp").type),
        "leader_epoch": pa.array([batch.header.partition_leader_epoch] * count, pa.int32()),
        "key": pa.nulls(count, pa.binary()),
        "value": pa.array([bytes(batch.raw[:MAX_RAW_BYTES]), *[None] * (count - 1)], pa.binary()),
        "headers": pa.array([[]] * count, HEADERS),
        UNREADABLE: pa.array(reasons, pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


class Connection:
    """A connected ``LogClient``. The protocol documents the methods."""

    def __init__(
        self,
        admin: BlockingAdmin,
        bootstrap_servers: str,
        timeout_ms: int | None = None,
        client_config: str | None = None,
    ) -> None:
        self._admin = admin
        self.bootstrap_servers = bootstrap_servers
        self._timeout_ms = timeout_ms
        self.client_config = client_config

    def __repr__(self) -> str:
        return f"<Connection {self.bootstrap_servers}>"

    def describe_topic(self, topic: str) -> TopicDescription | None:
        """Return the topic of that name, or None."""
        with _explained(self.bootstrap_servers):
            try:
                found = self._admin.describe_topics([topic])[topic]
            except KafkaError as error:
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    return None
                raise
        return TopicDescription(
            topic=topic,
            topic_id=topic_id_text(found.topic_id),
            partitions=found.partition_count,
            replication_factor=max((len(one.replicas) for one in found.partitions), default=0),
        )

    def partition_offsets(self, topic: str) -> tuple[PartitionOffsets, ...]:
        """Return the offsets of each partition."""
        with _explained(self.bootstrap_servers):
            found = self._admin.describe_offsets([topic])
        return tuple(
            PartitionOffsets(
                partition=place.partition,
                log_start_offset=one.log_start_offset,
                last_stable_offset=one.last_stable_offset,
                high_watermark=one.high_watermark,
            )
            for place, one in sorted(found.items())
        )

    def leader_epoch_ends(self, topic: str, epochs: Mapping[int, int]) -> dict[int, int]:
        """Return, by partition, the end offset of the given leader epoch."""
        if not epochs:
            return {}
        asked = {TopicPartition(topic, partition): epoch for partition, epoch in epochs.items()}
        with _explained(self.bootstrap_servers):
            return {
                place.partition: end.end_offset
                for place, end in self._admin.offsets_for_leader_epoch(asked).items()
            }

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int | None]:
        """Return, by partition, the first offset at or after a time."""
        with _explained(self.bootstrap_servers):
            partitions = self._admin.describe_topics([topic])[topic].topic_partitions
            found = self._admin.list_offsets(
                {place: OffsetSpec.at(timestamp_ms) for place in partitions}
            )
        return {
            place.partition: one.offset if one.offset >= 0 else None for place, one in found.items()
        }

    def range_reader(self, *, is_tolerant: bool = False) -> RangeReader:
        """Return a reader that connects by itself."""
        return ClientRangeReader(
            self.bootstrap_servers, self._timeout_ms, self.client_config, is_tolerant
        )

    def create_topic(
        self, topic: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        """Create the topic."""
        wanted = NewTopic(
            name=topic,
            partition_count=partitions,
            replication_factor=replication_factor,
            configs=configs,
        )
        with _explained(self.bootstrap_servers):
            self._admin.create_topics([wanted])

    def add_partitions(self, topic: str, total: int) -> None:
        """Raise the number of partitions to ``total``."""
        with _explained(self.bootstrap_servers):
            self._admin.create_partitions({topic: total})

    def topic_configs(self, topic: str) -> dict[str, str]:
        """Return the values in force."""
        resource = ConfigResource.topic(topic)
        with _explained(self.bootstrap_servers):
            entries = self._admin.describe_configs([resource])[resource]
        return {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set the given keys and leave the others."""
        with _explained(self.bootstrap_servers):
            self._admin.alter_configs({ConfigResource.topic(topic): configs})

    def wait_for_records(
        self, positions: Mapping[tuple[str, int], int], timeout_ms: int
    ) -> set[tuple[str, int]]:
        """Wait for records, and return the (topic, partition) pairs that have some.

        These have records at or above their offset. The result is empty after ``timeout_ms``.
        """
        wanted = {
            TopicPartition(topic, partition): offset
            for (topic, partition), offset in positions.items()
        }
        with _explained(self.bootstrap_servers):
            return {
                (place.topic, place.partition)
                for place in self._admin.wait_for_records(wanted, timeout_ms)
            }

    def apply_retention(self) -> tuple[RetentionPass, ...] | None:
        """Make the brokers apply retention to all topics now.

        Return None if they do not know the request. Such brokers clean by themselves.
        """
        with _explained(self.bootstrap_servers):
            try:
                found = self._admin.apply_retention()
            except KafkaError as error:
                if error.code is ErrorCode.UNSUPPORTED_VERSION:
                    return None
                raise
        return tuple(
            RetentionPass(
                topic=one.topic,
                partition=one.partition,
                segments=one.segments_deleted,
                bytes=one.bytes_deleted,
                log_start_offset=one.log_start_offset,
            )
            for one in found
        )

    def apply_compaction(self, timeout_ms: int) -> tuple[CompactionPass, ...] | None:
        """Make the brokers compact now the logs that are due.

        Return None if they do not know the request. Such brokers clean by themselves.
        """
        with _explained(self.bootstrap_servers):
            try:
                found = self._admin.apply_compaction(timeout_ms=timeout_ms)
            except KafkaError as error:
                if error.code is ErrorCode.UNSUPPORTED_VERSION:
                    return None
                raise
        return tuple(_compaction_pass(one) for one in found)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """Delete the records below an offset, by partition. Return the new log start offsets."""
        wanted = {TopicPartition(topic, partition): offset for partition, offset in before.items()}
        with _explained(self.bootstrap_servers):
            return {
                place.partition: offset
                for place, offset in self._admin.delete_records(wanted).items()
            }

    def mirror_offsets(self, group_id: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit ``offsets`` for a group without members."""
        with _explained(self.bootstrap_servers):
            self._admin.alter_group_offsets(
                group_id,
                {TopicPartition(topic, partition): offset for partition, offset in offsets.items()},
            )

    def committed_offsets(
        self, group_id: str, topic: str, partitions: Iterable[int]
    ) -> dict[int, CommittedOffset]:
        """Return the offsets that a group committed in these partitions of the topic.

        The request names the partitions, because otherwise a coordinator leaves out those that have
        only pending offsets.
        """
        places = [TopicPartition(topic, partition) for partition in partitions]
        with _explained(self.bootstrap_servers):
            found = self._admin.list_group_offsets(group_id, places, is_stable_required=True)
        return {
            place.partition: CommittedOffset(
                next_offset=one.offset,
                leader_epoch=one.leader_epoch if one.leader_epoch >= 0 else None,
                note=one.metadata,
            )
            for place, one in found.items()
        }

    @contextmanager
    def open_sender(self, transactional_id: str) -> Iterator[Sender]:
        """Yield the sender of ``transactional_id``, closed afterwards."""
        with _explained(self.bootstrap_servers):
            settings = client_settings(file=self.client_config)
            max_record_bytes = ProducerConfig.of(self.bootstrap_servers, settings).max_request_size
            producer = BlockingProducer(
                self.bootstrap_servers,
                transactional_id=transactional_id,
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
                delivery_timeout_ms=TRANSACTION_TIMEOUT_MS,
                **settings,
            )
        with producer:
            with _explained(self.bootstrap_servers):
                producer.init_transactions()
            yield ClientSender(producer, self, max_record_bytes)


class ClientSender:
    """A ``Sender`` over a producer whose transactions are initialized."""

    def __init__(
        self, producer: BlockingProducer, connection: Connection, max_record_bytes: int
    ) -> None:
        self._producer = producer
        self._connection = connection
        self.max_record_bytes = max_record_bytes

    def send(
        self,
        topic: str,
        records: Iterable[OutgoingRecord],
        *,
        group_id: str,
        source: str,
        offsets: Mapping[int, CommittedOffset],
    ) -> None:
        """Send ``records`` and commit ``offsets`` in one transaction.

        Return when readers of the group's committed offsets get ``offsets``.
        """
        progress = {
            TopicPartition(source, partition): _offset_and_metadata(one)
            for partition, one in offsets.items()
        }
        with self._transaction():
            self._send_each((topic, one) for one in records)
            self._producer.send_offsets_to_transaction(
                progress, ConsumerGroupMetadata(group_id=group_id)
            )
        self._wait_until_visible(group_id, source, offsets)

    def send_all(self, records: Iterable[tuple[str, OutgoingRecord]]) -> None:
        """Send records, each to its topic, in one transaction."""
        with self._transaction():
            self._send_each(records)

    def _send_each(self, records: Iterable[tuple[str, OutgoingRecord]]) -> None:
        for topic, one in records:
            self._producer.send(
                topic,
                value=one.value,
                key=one.key,
                headers=one.headers,
                timestamp_ms=one.timestamp_ms,
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit the records and offsets that are sent in the block, or abort them."""
        with _explained(self._connection.bootstrap_servers):
            self._producer.begin_transaction()
            try:
                yield
                self._commit()
            except BaseException:
                with suppress(KafkaError):
                    self._producer.abort_transaction()
                raise

    def _wait_until_visible(
        self, group_id: str, source: str, offsets: Mapping[int, CommittedOffset]
    ) -> None:
        """Wait until the coordinator of the group returns the committed offsets.

        A commit is acknowledged before its markers are in the group's log. Until then, the
        coordinator returns older offsets.

        :raises LogServiceError: no response came in time.
        """
        deadline_s = monotonic() + TOLD_WITHIN_S
        while self._connection.committed_offsets(group_id, source, offsets) != offsets:
            if monotonic() > deadline_s:
                raise LogServiceError(
                    f"the group {group_id} does not tell the offsets that were committed for it"
                    f" {TOLD_WITHIN_S} s ago"
                )
            sleep(TOLD_POLL_S)

    def _commit(self) -> None:
        """Commit the transaction, and repeat the commit if its outcome is not known.

        A repeated commit is of the same transaction, so it is harmless.

        :raises KafkaError: the transaction is not committed, or its outcome is still not known.
        """
        for attempt in range(1, COMMIT_TRIES + 1):
            try:
                self._producer.commit_transaction()
            except (TransactionAbortable, ProducerFailed):
                raise
            except KafkaError:
                if attempt == COMMIT_TRIES:
                    raise
            else:
                return


@contextmanager
def connect(
    bootstrap_servers: str, *, timeout_ms: int | None = None, client_config: str | None = None
) -> Iterator[Connection]:
    """Yield a connection, closed afterwards.

    ``timeout_ms`` bounds every call. The client's own default applies if it is None.
    ``client_config`` is the path of a properties file with the settings of encryption and login. If
    it is None, the environment has these settings.

    :raises LogServiceError: the addresses cannot be used.
    """
    with _explained(bootstrap_servers):
        admin = _admin(bootstrap_servers, timeout_ms, client_config)
    with admin:
        yield Connection(admin, bootstrap_servers, timeout_ms, client_config)


@contextmanager
def connect_admin(
    bootstrap_servers: str, *, timeout_ms: int | None = None, client_config: str | None = None
) -> Iterator[BlockingAdmin]:
    """Yield the client's own admin, for operating the cluster.

    ``timeout_ms`` and ``client_config`` are as for ``connect``.

    :raises LogServiceError: the addresses cannot be used, or a call within the block fails.
    """
    with (
        _explained(bootstrap_servers),
        _admin(bootstrap_servers, timeout_ms, client_config) as admin,
    ):
        yield admin


def _admin(
    bootstrap_servers: str, timeout_ms: int | None, client_config: str | None
) -> BlockingAdmin:
    limits = (
        {}
        if timeout_ms is None
        else {"default_api_timeout_ms": timeout_ms, "request_timeout_ms": timeout_ms}
    )
    return BlockingAdmin(bootstrap_servers, **(client_settings(file=client_config) | limits))


def topic_id_text(topic_id: UUID) -> str:
    """Return a topic id as Kafka's tools print it, in 22 letters of url-safe base64."""
    return urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def topic_id_of(text: str) -> UUID:
    """Return the topic id of ``topic_id_text``."""
    return UUID(bytes=urlsafe_b64decode(text + "=="))


@contextmanager
def _explained(bootstrap_servers: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise LogServiceError(
            f"the log service at {bootstrap_servers} cannot be addressed: {error}"
        ) from error
    except ProducerFenced as error:
        raise SenderFencedError(str(error)) from error
    except KafkaError as error:
        if error.code is ErrorCode.INCONSISTENT_TOPIC_ID:
            raise OtherTopicError(str(error)) from error
        text = f"the log service at {bootstrap_servers} answered {error.code.name}: {error}"
        if error.code in UNREACHABLE:
            raise LogServiceAwayError(
                f"{text}. Is it running? TIDELOG_BOOTSTRAP_SERVERS names its address"
            ) from error
        raise LogServiceError(text) from error


def _offset_and_metadata(one: CommittedOffset) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        offset=one.next_offset,
        leader_epoch=-1 if one.leader_epoch is None else one.leader_epoch,
        metadata=one.note,
    )


def _compaction_pass(one: CompactionResult) -> CompactionPass:
    return CompactionPass(
        topic=one.topic,
        partition=one.partition,
        records_before=one.records_before,
        records_after=one.records_after,
        bytes_before=one.bytes_before,
        bytes_after=one.bytes_after,
        tombstones_removed=one.tombstones_removed,
        tombstones_kept=one.tombstones_kept,
        dirty_ratio_before=one.dirty_ratio_before,
        dirty_ratio_after=one.dirty_ratio_after,
        seconds=one.duration_ms / 1000,
        passes=one.pass_count,
        is_under_way=one.is_under_way,
        reason=one.reason,
    )
