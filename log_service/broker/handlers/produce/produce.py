"""Produce (API key 0), versions 3-13.

Behaviour: the broker appends every partition by itself, and each gets its own result. The last
batch for a repeated partition counts. acks=0 gets no response. An error closes the connection then,
because such a producer can notice nothing else. acks=1 responds after the append, or after the sync
if the topic syncs first (``flush.messages=1``). acks=-1 needs
``min.insync.replicas`` before anything is appended, and waits until the high watermark has passed
the records. A wait ends with NOT_LEADER_OR_FOLLOWER when the leader epoch of the append ends, with
NOT_ENOUGH_REPLICAS_AFTER_APPEND if the in-sync replicas became too few meanwhile, and with
REQUEST_TIMED_OUT after ``timeout_ms``. The records may stay in each case. Other acks get
INVALID_REQUIRED_ACKS. Clients may not write to internal topics.

Versions: 3 record batches of magic 2 and a transactional id; 5 log start offset; 7 zstd; 8 errors
per record (KIP-467); 9 flexible; 10 current leader (KIP-951); 12 implicit transaction partitions
(KIP-890); 13 topic ids instead of names (KIP-516). Versions 0-2 are advertised and refused
(KAFKA-18659).

``transactional`` handles requests with a transactional id, ``plain`` all others. This module has
their common parts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol
from uuid import UUID

from log_service.broker.cluster_view import STALE_LEADER, LeaderHint, hinted_brokers, leader_hint
from log_service.broker.node import Node
from log_service.broker.requests.call import NOTHING, Call, Deferred, Nothing, Refusable
from log_service.broker.requests.echo import echoing
from log_service.broker.requests.pieces import Items
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError, kept
from log_service.common.topic_names import INTERNAL_TOPICS
from log_service.common.types import NO_TOPIC_ID, Buffer, TopicPartition
from log_service.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from log_service.records.batch import ATTRIBUTES_POSITION, CODEC_MASK, HEADER_SIZE
from log_service.records.compression import Codec
from log_service.records.validator import (
    NotOneBatchError,
    RejectedRecordsError,
    TurnRoom,
    ValidatedBatches,
)
from log_service.replication.partition import Batch, Partition
from log_service.storage.append_result import AppendResult

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_LEADER = 10
FIRST_VERSION_BY_ID = 13

UNITS_PER_BATCH = 16_384
"""Cost of an append besides the check of its records, in units of ``TurnRoom``."""

_EXPECTED = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Refusals that Kafka's meter of failed requests leaves out."""
_CODES_OF_RECORDS = frozenset(
    {
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""Errors that come with the log start offset.

A producer that lost track compares it with its last offset (KIP-360).
"""


class ProducePartitionStatus:
    """A partition whose records are appended and not yet acknowledged.

    ``needs_all`` (acks=all) means that all in-sync replicas must have the records.
    """

    __slots__ = ("leader_epoch", "needs_all", "partition", "required_offset", "result")

    def __init__(
        self,
        partition: Partition,
        leader_epoch: int,
        required_offset: int,
        result: PartitionProduceResponse,
        *,
        needs_all: bool,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.required_offset = required_offset
        self.needs_all = needs_all
        self.result = result

    def maybe_finish(self) -> bool:
        """Return whether the outcome is known. If it is an error, write it into the result."""
        code = self.partition.acknowledgement(
            self.leader_epoch, self.required_offset, needs_all=self.needs_all
        )
        if code:
            _refuse(self.result, code)
        return code is not None


class DelayedProduce:
    """A produce request that waits until all of its appends are acknowledged or refused.

    ``name_leaders`` adds current leaders to its response.
    """

    __slots__ = ("_deferred", "_is_leader_stale", "_name_leaders", "_response", "_waiting")

    def __init__(
        self,
        response: ProduceResponse,
        waiting: list[ProducePartitionStatus],
        deferred: Deferred,
        name_leaders: Callable[[ProduceResponse], None],
        *,
        is_leader_stale: bool,
    ) -> None:
        self._response = response
        self._name_leaders = name_leaders
        self._is_leader_stale = is_leader_stale
        self._waiting = {item.partition.topic_partition: item for item in waiting}
        self._deferred = deferred

    def is_ready(self, key: TopicPartition) -> bool:
        """Apply the new state of partition ``key``. Return whether the request is complete.

        Does not raise, because another request may run this. A bug closes the connection of this
        request instead.
        """
        try:
            return self.try_complete(key)
        except Exception as error:  # noqa: BLE001 - a bug of ours: its own connection pays
            self._deferred.fail(error)  # the append belongs to another request, which must not fail
            return True

    def try_complete(self, key: TopicPartition) -> bool:
        """Apply the new state of a partition. Return whether the request is complete."""
        item = self._waiting.get(key)
        if item is not None and item.maybe_finish():
            del self._waiting[key]
            self._is_leader_stale |= item.result.error_code in STALE_LEADER
        return not self._waiting

    def on_ready(self) -> None:
        """Send the response."""
        self._deferred.complete_with(self._completed)

    def _completed(self) -> ProduceResponse:
        if self._is_leader_stale:
            self._name_leaders(self._response)
        return self._response

    def on_expired(self) -> None:
        """Respond that the rest was not acknowledged in time."""
        for item in self._waiting.values():
            _refuse(item.result, ErrorCode.REQUEST_TIMED_OUT)
        self._deferred.complete_with(self._completed)


def respond(
    node: Node,
    call: Call,
    request: ProduceRequest,
    outcomes: "list[tuple[TopicProduceData, list[Outcome]]]",
    deferred: Deferred | None = None,
    *,
    is_announced: bool = False,
) -> ProduceResponse | Deferred | Nothing:
    """Return the response to a request whose partitions have the given ``outcomes``.

    As acks require, it is a message to send at once, a deferred response that completes when all
    records are acknowledged, or ``NOTHING``. ``outcomes`` has those of the partitions of each
    topic, in the order of the request. ``deferred`` is the deferred response to the request, if
    there is one already. Unless ``is_announced``, waiting requests are notified of the appends.
    """
    response = ProduceResponse()
    moved: list[Partition] = []
    waiting: list[ProducePartitionStatus] = []
    is_leader_stale = False
    for topic, of_topic in outcomes:
        results = []
        for wanted, outcome in zip(topic.partition_data, of_topic, strict=True):
            if isinstance(outcome, PartitionProduceResponse):
                result = outcome
                is_leader_stale |= result.error_code in STALE_LEADER
            else:
                partition, leader_epoch, appended = outcome
                result = _appended_result(wanted.index, appended)
                moved.append(partition)
                if not appended.is_duplicate:
                    count = appended.last_offset - appended.base_offset + 1
                    node.produced.add(call.client_id, partition.topic_partition.topic, count)
                if leader_epoch != partition.leader_epoch or not partition.state.is_safe_at_once:
                    # Turns may lie between.
                    required_offset, needs_all = appended.last_offset + 1, request.acks == ACKS_ALL
                    waiting.append(
                        ProducePartitionStatus(
                            partition, leader_epoch, required_offset, result, needs_all=needs_all
                        )
                    )
            results.append(result)
        if results:
            response.responses.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=results
                )
            )
    if moved and not is_announced:
        node.replicas.announce(moved)
    if request.acks == ACKS_NONE:
        _close_if_failed(response if call.amend is None else call.amend(response))
        return NOTHING
    waiting = [item for item in waiting if not item.maybe_finish()]
    if waiting:
        return _delay(
            node,
            call,
            request,
            response,
            waiting,
            deferred=deferred or call.defer(),
            is_leader_stale=is_leader_stale,
        )
    if is_leader_stale and call.version >= FIRST_VERSION_WITH_LEADER:
        _name_leaders(node, call, response)
    return response


_echo = echoing(
    Items(request_field="topic_data", response_field="responses", named_by=("name", "topic_id")),
    Items(
        request_field="partition_data", response_field="partition_responses", named_by=("index",)
    ),
    base_offset=-1,
)


def refuse_produce(call: Refusable, error: KafkaError) -> ProduceResponse:
    """Return an error for each partition.

    Raises:
        ProtocolError: acks is 0, so closing the connection is the only way to report the error.
    """
    if call.request.acks == ACKS_NONE:
        raise ProtocolError(f"produce with acks=0 failed with {error.code.name}")
    refused = _echo(call, error)
    assert isinstance(refused, ProduceResponse), "the echo of an API is its own response"
    return refused


def _name_leaders(node: Node, call: Call, response: ProduceResponse) -> None:
    """Add leaders and their endpoints to refusals with a stale leader (KIP-951).

    So the client need not ask for the leaders.
    """
    leaders: list[int] = []
    for topic in response.responses:
        for result in topic.partition_responses:
            if result.error_code in STALE_LEADER:
                leader = _leader_of(node, topic, result.index)
                result.current_leader = LeaderIdAndEpoch(
                    leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                )
                leaders.append(leader.leader_id)
    response.node_endpoints = [
        NodeEndpoint(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
        for broker in hinted_brokers(node.image(), call.connection.listener_name, leaders)
    ]


def _name_no_leaders(response: ProduceResponse) -> None:
    """Do nothing, because older versions have no field for leaders."""


def _leader_of(node: Node, topic: TopicProduceResponse, index: int) -> LeaderHint:
    """Return the leader by this broker's replica of the partition, or else by the image.

    The replica may know more than the image.
    """
    try:
        partition = node.replicas.find(topic.name, topic.topic_id, index)
    except KafkaError:
        return leader_hint(node.image(), topic.name, topic.topic_id, index)
    return LeaderHint(partition.leader, partition.leader_epoch)


def each_once(topics: list[TopicProduceData]) -> list[TopicProduceData]:
    """Return the topics of a request with only the last entry for each partition."""
    found: dict[tuple[str, UUID], dict[int, PartitionProduceData]] = {}
    count = 0
    for topic in topics:
        count += len(topic.partition_data)
        found.setdefault((topic.name, topic.topic_id), {}).update(
            {wanted.index: wanted for wanted in topic.partition_data}
        )
    if len(found) == len(topics) and sum(map(len, found.values())) == count:
        return topics
    return [
        TopicProduceData(name=name, topic_id=topic_id, partition_data=list(wanted.values()))
        for (name, topic_id), wanted in found.items()
    ]


@dataclass(slots=True, kw_only=True)
class Terms:
    """The fields of a request that apply to all of its partitions.

    The class has slots, because its fields are read for each partition and slots are faster than a
    tuple.
    """

    acks: int
    refusal: tuple[ErrorCode, str] | None
    """The error of every existing partition, if the whole request is invalid."""
    is_by_id: bool
    knows_zstd: bool


def terms_of(request: ProduceRequest, version: int) -> Terms:
    """Return the parts of a request that apply to all of its partitions."""
    refusal = None
    if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        refusal = ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be 0, 1 or -1, not {request.acks}"
    return Terms(
        acks=request.acks,
        refusal=refusal,
        is_by_id=version >= FIRST_VERSION_BY_ID,
        knows_zstd=version >= FIRST_VERSION_WITH_ZSTD,
    )


Outcome = tuple[Partition, int, AppendResult] | PartitionProduceResponse
"""The partition, leader epoch and result of an append, or the refusal of a batch.

It is a tuple, because tuples are created fast.
"""


class Appends(Protocol):
    """Finds partitions and appends batches: the replica manager, or a layer above it."""

    def find(self, topic: str, topic_id: UUID, index: int) -> Partition:
        """Return a partition. See ``ReplicaManager.find``."""

    def append(
        self, partition: Partition, records: Batch, *, acks: int, now_ms: int, room: TurnRoom | None
    ) -> AppendResult:
        """Append a batch. See ``ReplicaManager.append``."""


class UnverifiedError(KafkaError):
    """The coordinator did not confirm the partition's transaction, so the log was not asked."""


def append_batch(
    replicas: Appends,
    terms: Terms,
    topic: TopicProduceData,
    index: int,
    records: Buffer | Batch | None,
    *,
    now_ms: int,
    room: TurnRoom,
) -> Outcome:
    """Append one partition's batch.

    The caller notifies waiting requests of the append, and waits for its acknowledgement if acks
    require it.

    Raises:
        NoRoomError: the append takes longer than the rest of the turn. Nothing was done.
    """
    room.take_work(UNITS_PER_BATCH)
    partition: Partition | None = None
    try:
        partition = replicas.find(topic.name, topic.topic_id, index)
        if isinstance(records, memoryview):
            if not terms.knows_zstd:
                refuse_zstd(records)
        elif not isinstance(records, ValidatedBatches | KafkaError):
            return _failed(
                index, ErrorCode.INVALID_RECORD, "the request carries no records for the partition"
            )
        if terms.refusal is not None:
            return _failed(index, *terms.refusal)
        if partition.topic_partition.topic in INTERNAL_TOPICS:
            return _failed(
                index, ErrorCode.INVALID_TOPIC_EXCEPTION, "only brokers write to this topic"
            )
        return (
            partition,
            partition.leader_epoch,
            replicas.append(partition, records, acks=terms.acks, now_ms=now_ms, room=room),
        )
    except KafkaError as error:
        kept(error)  # a check that failed earlier may have kept it
        if partition is not None:
            partition.failed_append_count += error.code not in _EXPECTED
            return _error_result(index, error, partition)
        names_nothing = terms.is_by_id and topic.topic_id == NO_TOPIC_ID
        return _failed(
            index, ErrorCode.UNKNOWN_TOPIC_ID if names_nothing else error.code, str(error)
        )


def _appended_result(index: int, appended: AppendResult) -> PartitionProduceResponse:
    """Return the result of a partition that appended its batch."""
    return PartitionProduceResponse(
        index=index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=appended.log_start_offset,
    )


def _delay(
    node: Node,
    call: Call,
    request: ProduceRequest,
    response: ProduceResponse,
    waiting: list[ProducePartitionStatus],
    *,
    deferred: Deferred,
    is_leader_stale: bool,
) -> Deferred:
    name_leaders = (
        partial(_name_leaders, node, call)
        if call.version >= FIRST_VERSION_WITH_LEADER
        else _name_no_leaders
    )
    operation = DelayedProduce(
        response, waiting, deferred, name_leaders, is_leader_stale=is_leader_stale
    )
    deadline_ms = node.clock.monotonic_ms() + max(request.timeout_ms, 0)
    watch = node.replicas.delayed_produces.watch(
        operation, [item.partition.topic_partition for item in waiting], deadline_ms
    )
    deferred.on_discard(watch.cancel)
    return deferred


def _close_if_failed(response: ProduceResponse) -> None:
    """Close the connection of a request that has no response, if a partition refused its records.

    Raises:
        ProtocolError: a partition failed, and closing the connection is the only way to report it.
    """
    for topic in response.responses:
        for result in topic.partition_responses:
            if result.error_code:
                code = ErrorCode.of(result.error_code)
                raise ProtocolError(
                    f"produce with acks=0 to {topic.name or topic.topic_id}-{result.index} failed"
                    f" with {code.name}"
                )


def _failed(index: int, code: ErrorCode, text: str | None) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=code, base_offset=-1, error_message=text
    )


def _refuse(result: PartitionProduceResponse, code: ErrorCode) -> None:
    result.error_code, result.base_offset, result.log_append_time_ms, result.log_start_offset = (
        code,
        -1,
        -1,
        -1,
    )


def refuse_zstd(records: memoryview) -> None:
    """Refuse zstd in old versions of Produce, because consumers of that age could not read it.

    Raises:
        KafkaError: UNSUPPORTED_COMPRESSION_TYPE.
    """
    if len(records) >= HEADER_SIZE and records[ATTRIBUTES_POSITION + 1] & CODEC_MASK == Codec.ZSTD:
        text = f"zstd needs version {FIRST_VERSION_WITH_ZSTD} of Produce"
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)


def _error_result(index: int, error: KafkaError, partition: Partition) -> PartitionProduceResponse:
    """Return the result of a partition that refused its batch."""
    result = _failed(index, error.code, str(error))
    if error.code in _CODES_OF_RECORDS and not isinstance(
        error, NotOneBatchError | UnverifiedError
    ):
        result.log_start_offset = partition.log_start_offset
    if isinstance(error, RejectedRecordsError):
        result.record_errors = [
            BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=text)
            for batch_index, text in error.record_errors
        ]
    return result
