"""Appends batches to the registry's topic, so that brokers refuse a superseded writer.

All instances share one transactional id. To take over, a writer gets the next producer epoch from
the coordinator, and writes a first record with it. From then on the partition's leader refuses
every batch of an older epoch. So all records of older writers have lower offsets than the first
record. The batches are idempotent and in no transaction, because other registries read uncommitted
records: an aborted write would assign an id there but not here.

Invariants: one batch is in flight. A batch is sent again with the same sequence number until its
outcome is known. If the outcome stays unknown or the call is cancelled, the writer gives up its
epoch. It never writes into a topic that was created again since it took over. ``freshness`` bounds
the age of the epoch. After 32,767 epochs the coordinator gives another producer id. The new id does
not fence the last epoch of the former id, which therefore ends only by its age.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import trio

from log_service.client.admin.groups import with_coordinator
from log_service.client.connections.cluster_metadata import TRANSACTION_KEY_TYPE, ClusterMetadata
from log_service.client.consumer.range_reader import HasCluster
from log_service.client.consumer.subscriptions import is_other_topic
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TOPIC_ID, TopicId, TopicPartition
from log_service.http.schema_registry.log.errors import (
    NotWritten,
    OutcomeUnknown,
    RecordsTooLarge,
    SchemasLogError,
    Superseded,
)
from log_service.http.schema_registry.log.freshness import (
    Moment,
    is_renewal_due,
    is_trusted,
    moment_of,
)
from log_service.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from log_service.records.batch import next_sequence
from log_service.records.builder import build_batch
from log_service.rpc.connection import RpcConnection, raise_for

NOOP_KEY = b'{"keytype":"NOOP","magic":0}'
"""The key of a record that other registries ignore, whatever its value is."""
ACKS_ALL = -1
TRANSACTION_TIMEOUT_MS = 60_000
"""Coordinators demand a transaction timeout, although no transaction is opened."""
MAX_BATCH_BYTES = 32 << 20
"""The bound of a batch.

A broker closes the connection of a much larger request, which looks like a failure.
"""
LAST_PRODUCE_VERSION_WITH_NAMES = 12
PURPOSE = "schemas"

KeyAndValue = tuple[bytes, bytes | None]

FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
LOST_PLACE = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""Errors after which the leader and the writer disagree on the batches before this one."""
TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
REFUSED_BEFORE_APPEND = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Retriable errors after which the batch is surely not in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Identity:
    """The producer id and epoch of a writer, the id of its topic, and the time of the take-over."""

    producer_id: int
    producer_epoch: int
    topic_id: TopicId
    since: Moment


@dataclass(slots=True)
class _Attempts:
    """The attempts to append one batch.

    ``is_unclear`` is set if an attempt may have appended the batch.
    """

    is_unclear: bool = False


class SchemasWriter:
    """The only writer of a topic, as long as no other instance takes over. ``client`` is open."""

    def __init__(
        self, client: HasCluster, topic: str, *, transactional_id: str | None = None
    ) -> None:
        self._client = client
        self._partition = TopicPartition(topic, 0)
        self._id = transactional_id or f"tidelog-schema-registry-{topic}"
        self._identity: _Identity | None = None
        self._sequence = 0
        self._is_released = True
        self._lock = trio.Lock()

    def __repr__(self) -> str:
        return f"<SchemasWriter {self._partition} {self._identity}>"

    @property
    def topic_id(self) -> TopicId | None:
        """The id of the topic that was taken over, or None if this instance may not write."""
        return None if self._identity is None else self._identity.topic_id

    @property
    def is_renewal_due(self) -> bool:
        """Whether the writer must take over, for the first time or again, before a decision."""
        return self._identity is None or is_renewal_due(self._identity.since, self._now())

    def release(self) -> None:
        """Stop writing until the next ``take_over``. A batch in flight may still be appended."""
        self._is_released, self._identity = True, None

    async def take_over(self, timeout_ms: int, first_value: bytes | None = None) -> int:
        """Supersede every other writer, and return the offset of this writer's first record.

        Every record of an older writer has a lower offset. Read up to the first record before a
        decision. Its key is ``NOOP_KEY``, and its value is ``first_value``.

        Raises:
            Superseded: a third instance took over meanwhile.
            NotWritten: the cluster refused, or did not respond before the first record was sent.
            OutcomeUnknown: the first record was sent, and may or may not be in the log.
        """
        left_ms = self._cluster.countdown(timeout_ms)
        async with self._lock:
            self._is_released, self._identity = False, None
            try:
                identity = await self._new_identity(left_ms())
            except KafkaError as error:
                raise NotWritten(f"{self._id}: no producer epoch: {error}") from error
            self._sequence = 0
            return await self._append(identity, [(NOOP_KEY, first_value)], left_ms())

    async def write(self, records: Iterable[KeyAndValue], timeout_ms: int) -> int:
        """Append records as one batch, all or none, and return the offset of the last.

        Raises:
            Superseded: another instance is the writer now, or this instance never took over.
            RecordsTooLarge: the broker or ``MAX_BATCH_BYTES`` allows less.
            NotWritten: the cluster refused, or could not be reached to send the batch.
            OutcomeUnknown: the batch was sent, and may or may not be in the log.
        """
        left_ms = self._cluster.countdown(timeout_ms)
        async with self._lock:
            identity = self._identity
            if identity is None:
                raise Superseded(f"this instance is not the writer of {self._partition}")
            return await self._append(identity, list(records), left_ms())

    # Batches

    async def _append(
        self, identity: _Identity, records: list[KeyAndValue], timeout_ms: int
    ) -> int:
        """Append a batch. Give the identity up if it is superseded or the outcome is unknown."""
        batch = self._encoded(identity, records)
        attempts = _Attempts()
        self._identity = None
        try:
            base_offset = await self._cluster.retry(
                partial(self._attempt, identity, batch, attempts), timeout_ms
            )
        except KafkaError as error:
            failure = self._failure(error, is_unclear=attempts.is_unclear)
            if not isinstance(failure, Superseded | OutcomeUnknown):
                self._keep(identity)
            raise failure from error
        self._keep(identity)
        self._sequence = next_sequence(self._sequence, len(records))
        return base_offset + len(records) - 1

    def _keep(self, identity: _Identity) -> None:
        """Continue to write under this identity, unless the writer was released meanwhile."""
        self._identity = None if self._is_released else identity

    def _encoded(self, identity: _Identity, records: list[KeyAndValue]) -> bytes:
        now_ms = self._cluster.env.clock.wall_ms()
        batch = build_batch(
            ((now_ms, key, value) for key, value in records),
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=self._sequence,
        )
        if len(batch) > MAX_BATCH_BYTES:
            raise RecordsTooLarge(
                f"{len(batch)} bytes of records for {self._partition} are more than"
                f" {MAX_BATCH_BYTES}"
            )
        return batch

    def _failure(self, error: KafkaError, *, is_unclear: bool) -> SchemasLogError:
        """Return the error that tells whether the records may be in the log."""
        text = f"{self._partition}: {error}"
        if is_unclear:
            return OutcomeUnknown(text)
        if error.code in FENCED:
            return Superseded(f"another instance took {self._partition} over: {error}")
        if error.code in LOST_PLACE or error.code is ErrorCode.INCONSISTENT_TOPIC_ID:
            return Superseded(text)
        return RecordsTooLarge(text) if error.code in TOO_LARGE else NotWritten(text)

    async def _attempt(self, identity: _Identity, batch: bytes, attempts: _Attempts) -> int:
        """Send the batch once, and return its base offset.

        Sets ``attempts.is_unclear`` if this attempt may have appended the batch.
        """
        await self._require_topic(identity)
        if not is_trusted(identity.since, self._now()):
            text = (
                f"the producer epoch of {self._id} is too old to be trusted: the process was paused"
            )
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, text)
        connection = await self._cluster.leader(self._partition, PURPOSE)
        was_unclear, attempts.is_unclear = attempts.is_unclear, True
        result = await self._exchange(connection, identity.topic_id, batch)
        code = ErrorCode.of(result.error_code)
        if _is_refused_before_append(code):
            attempts.is_unclear = was_unclear
        raise_for(code, result.error_message, f"write to {self._partition}")
        return result.base_offset

    async def _exchange(
        self, connection: RpcConnection, topic_id: TopicId, batch: bytes
    ) -> PartitionProduceResponse:
        data = PartitionProduceData(index=self._partition.partition, records=batch)
        topic = TopicProduceData(
            name=self._partition.topic, topic_id=topic_id, partition_data=[data]
        )
        request = ProduceRequest(
            transactional_id=None,
            acks=ACKS_ALL,
            timeout_ms=self._cluster.config.request_timeout_ms,
            topic_data=[topic],
        )
        max_version = LAST_PRODUCE_VERSION_WITH_NAMES if topic_id == NO_TOPIC_ID else None
        response = await connection.request(request, ProduceResponse, max_version=max_version)
        if len(response.responses) != 1 or len(response.responses[0].partition_responses) != 1:
            text = f"{connection.destination} left {self._partition} out of its response"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
        result = response.responses[0].partition_responses[0]
        self._cluster.learn_leader(self._partition, result.current_leader, response.node_endpoints)
        return result

    async def _require_topic(self, identity: _Identity) -> None:
        """Refuse a topic that was deleted and created again since this instance took over.

        Raises:
            KafkaError: INCONSISTENT_TOPIC_ID, or the topic is unknown.
        """
        current = await self._topic_id()
        if is_other_topic(identity.topic_id, current):
            text = (
                f"topic {self._partition.topic} was deleted and created anew since this instance"
                " took it over"
            )
            raise _FinalError(ErrorCode.INCONSISTENT_TOPIC_ID, text)

    async def _topic_id(self) -> TopicId:
        name = self._partition.topic
        if name not in self._cluster.view.topics:
            await self._cluster.refresh([name])
        if name not in self._cluster.view.topics:
            code = self._cluster.view.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            raise KafkaError(code, f"topic {name}: {code.name}")
        return self._cluster.view.topic_id_of(name)

    # Epochs

    async def _new_identity(self, timeout_ms: int) -> _Identity:
        ask = partial(
            with_coordinator,
            self._cluster,
            self._id,
            self._init_producer_id,
            key_type=TRANSACTION_KEY_TYPE,
        )
        return await self._cluster.retry(ask, timeout_ms)

    async def _init_producer_id(self) -> _Identity:
        await self._cluster.refresh([self._partition.topic])
        topic_id, since = await self._topic_id(), self._now()
        connection = await self._cluster.coordinator(
            self._id, PURPOSE, key_type=TRANSACTION_KEY_TYPE
        )
        request = InitProducerIdRequest(
            transactional_id=self._id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        response = await connection.request(request, InitProducerIdResponse)
        raise_for(response.error_code, None, "InitProducerId")
        return _Identity(
            producer_id=response.producer_id,
            producer_epoch=response.producer_epoch,
            topic_id=topic_id,
            since=since,
        )

    @property
    def _cluster(self) -> ClusterMetadata:
        return self._client.cluster

    def _now(self) -> Moment:
        return moment_of(self._cluster.env.clock)


class _FinalError(KafkaError):
    """An error after which the same writer need not try again."""

    @property
    def is_retriable(self) -> bool:
        return False


def _is_refused_before_append(code: ErrorCode) -> bool:
    """Return whether an error means that this attempt certainly did not append the batch.

    A leader that steps down, or whose followers are slow, may have appended it.
    """
    return code in REFUSED_BEFORE_APPEND or not (
        code.is_retriable or code in {ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR}
    )
