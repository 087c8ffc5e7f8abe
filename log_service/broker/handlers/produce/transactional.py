"""Produce requests with a transactional id, verified by the transaction coordinator.

Behaviour: as ``produce``, after the coordinator has responded. All transactional batches in a
request must be of one producer, otherwise the whole request is INVALID_PRODUCER_ID_MAPPING. The
first batch of a transaction in a partition waits for the coordinator. The coordinator confirms that
the partition is in the transaction, or, from version 12 on, adds it (KIP-890). If it refuses, the
partition gets an error that clients of the version understand, and the other partitions are
appended. Batches outside of transactions are appended unchanged. All batches are checked before the
coordinator is asked. Checks that take longer than a turn of the event loop wait in the queue of the
connection (``produce_queues``).

With ``transaction.partition.verification.enable=false`` partitions of older versions are appended
without asking the coordinator.
"""

from contextlib import suppress
from functools import partial
from uuid import UUID

import trio

from log_service.broker.handlers.produce.checks import check_in_queue
from log_service.broker.handlers.produce.produce import (
    ACKS_NONE,
    UNITS_PER_BATCH,
    UnverifiedError,
    append_batch,
    each_once,
    refuse_produce,
    respond,
    terms_of,
)
from log_service.broker.node import Node
from log_service.broker.requests.call import NOTHING, Call, Deferred, Nothing
from log_service.broker.requests.produce_queues import QueuedRequest
from log_service.broker.transactions.response_errors import Asker, produce_error
from log_service.broker.transactions.verifier import Question, VerificationResult
from log_service.common.errors import ErrorCode, KafkaError, kept
from log_service.common.steps import Steps, finish
from log_service.common.types import Buffer, TopicPartition
from log_service.protocol.codec import MAX_REQUEST_ELEMENTS
from log_service.protocol.messages.produce import ProduceRequest, ProduceResponse
from log_service.records.batch import HEADER_SIZE, BatchHeader, parse_header
from log_service.records.validator import (
    Allowance,
    NoRoomError,
    TurnRoom,
    UnknownSchemasError,
    ValidatedBatches,
)
from log_service.replication.partition import Batch, Partition
from log_service.replication.replica_manager import ReplicaManager
from log_service.storage.append_result import AppendResult

Checked = dict[TopicPartition, Batch]
"""The result of each batch's check. A partition that is missing here has none."""


def handle_transactional_produce(
    node: Node, call: Call, request: ProduceRequest
) -> ProduceResponse | Deferred:
    """Append the partitions that the coordinator accepts, and respond now or later."""
    request.topic_data = each_once(request.topic_data)
    headers = _headers(node.replicas, request)
    producers = {(header.producer_id, header.producer_epoch) for header in headers.values()}
    if len(producers) > 1:
        text = "the request has batches of transactions of more than one producer"
        return refuse_produce(call, KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text))
    checks = _Checks(node, request)
    if not node.produce_queues.is_busy(call.connection) and checks.check_some(TurnRoom()):
        deferred = call.defer()
        _verify(node, call, headers, checks.done, deferred)
        return deferred

    async def work(queued: QueuedRequest) -> None:
        checks = _Checks(node, request)  # on the kept records
        if await checks.check_rest(queued):
            _verify(node, call, headers, checks.done, queued.deferred, is_kept=True)

    return node.produce_queues.add(call, request, work, outlives_client=request.acks == ACKS_NONE)


def _verify(
    node: Node,
    call: Call,
    headers: dict[TopicPartition, BatchHeader],
    checked: Checked,
    deferred: Deferred,
    *,
    is_kept: bool = False,
) -> None:
    """Ask the coordinator, and append the partitions that it accepts.

    ``is_kept`` means that the records stay valid after the handler has returned.
    """
    if not headers:
        _append(node, call, checked, deferred, VerificationResult())
        return
    request, header = call.request, next(iter(headers.values()))
    asker = Asker.of_produce(call.version)
    question = Question(
        transactional_id=request.transactional_id or "",
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        sequences={where: each.base_sequence for where, each in headers.items()},
        asker=asker,
        held_bytes=_held_bytes(request, checked) if is_kept else _kept_bytes(request, checked),
        keep=_nothing if is_kept else partial(_keep_records, request, checked, deferred),
    )
    node.transaction_verifier.verify(
        question, partial(_append, node, call, checked, deferred), deferred
    )


def _nothing() -> None:
    """Do nothing, because the records are copied already."""


def _held_bytes(request: ProduceRequest, checked: Checked) -> int:
    """Return the size in bytes of the kept records, and of the batches that were recompressed."""
    records = _records(request)
    views = {id(each) for each in records}
    return sum(map(len, records)) + sum(
        len(buffer) for buffer in _buffers(checked) if id(buffer) not in views
    )


def _kept_bytes(request: ProduceRequest, checked: Checked) -> int:
    """Return how many bytes ``_keep_records`` will keep."""
    return sum(min(len(each), HEADER_SIZE) for each in _records(request)) + sum(
        map(len, _buffers(checked))
    )


def _records(request: ProduceRequest) -> list[Buffer]:
    return [
        wanted.records
        for topic in request.topic_data
        for wanted in topic.partition_data
        if wanted.records is not None
    ]


def _buffers(checked: Checked) -> list[Buffer]:
    return [batch.buffer for batch in checked.values() if isinstance(batch, ValidatedBatches)]


def _keep_records(request: ProduceRequest, checked: Checked, deferred: Deferred) -> None:
    """Copy the data that the append needs out of the connection's buffer.

    The next request overwrites the buffer while the coordinator is asked. The append writes the
    checked batches, so they are copied whole. It reads only the headers of the request's own
    records, so only these are kept.
    """
    deferred.held_bytes = _kept_bytes(request, checked)
    for topic in request.topic_data:
        for wanted in topic.partition_data:
            if wanted.records is not None:
                wanted.records = memoryview(bytearray(wanted.records[:HEADER_SIZE]))
    for where, batch in checked.items():
        if isinstance(batch, ValidatedBatches) and isinstance(batch.buffer, memoryview):
            # A recompressed one is our own.
            checked[where] = batch._replace(buffer=bytearray(batch.buffer))


class _Checks:
    """The checks of the batches of one request, both done and remaining.

    A batch is checked before the coordinator is asked, so no wait separates the coordinator's
    response and the append.
    """

    __slots__ = ("_left", "_node", "_now_ms", "done")

    def __init__(self, node: Node, request: ProduceRequest) -> None:
        self._node = node
        self._now_ms = node.clock.wall_ms()
        self._left = [
            (topic, wanted) for topic in request.topic_data for wanted in topic.partition_data
        ]
        self.done: Checked = {}

    def check_some(self, room: TurnRoom) -> bool:
        """Check batches until the turn has no ``room`` left. Return whether all are checked."""
        try:
            while self._left:
                room.take_work(UNITS_PER_BATCH)
                begun = self._begin(room)
                if begun is not None:
                    where, steps = begun
                    try:
                        self.done[where] = finish(steps)
                    except UnknownSchemasError as error:
                        raise NoRoomError from error
                    except KafkaError as error:
                        self.done[where] = kept(error)
                self._left.pop()
        except NoRoomError:
            return False
        return True

    async def check_rest(self, queued: QueuedRequest) -> bool:
        """Check the remaining batches, over several turns if needed.

        Return whether all are checked. They are not if the client has left meanwhile.
        """
        allowance = Allowance()
        while not queued.is_dropped:
            left_count = len(self._left)
            with queued.call.counted():
                is_all = self.check_some(TurnRoom())
            if is_all:
                return True
            if len(self._left) < left_count:
                await trio.lowlevel.checkpoint()
                continue
            await self._check_next(allowance, queued)  # it takes more than a turn
            self._left.pop()
        return False

    async def _check_next(self, allowance: Allowance, queued: QueuedRequest) -> None:
        topic, wanted = self._left[-1]
        with suppress(KafkaError):  # the append reports why
            partition = self._node.replicas.find(topic.name, topic.topic_id, wanted.index)
            if isinstance(wanted.records, memoryview):
                try:
                    found = await check_in_queue(
                        self._node, partition, wanted.records, self._now_ms, allowance, queued
                    )
                except KafkaError as error:
                    found = kept(error)
                if found is not None:
                    self.done[partition.topic_partition] = found

    def _begin(self, allowance: Allowance) -> tuple[TopicPartition, Steps[ValidatedBatches]] | None:
        """Return the partition and the check of the next batch.

        Return None if the batch cannot be checked. The append then reports the reason.
        """
        topic, wanted = self._left[-1]
        try:
            partition = self._node.replicas.find(topic.name, topic.topic_id, wanted.index)
        except KafkaError:
            return None
        try:
            if isinstance(wanted.records, memoryview):
                validation = self._node.schema_validation
                schemas = None if validation is None else validation.schemas_of(partition)
                return partition.topic_partition, partition.check_in_steps(
                    wanted.records, self._now_ms, allowance, schemas
                )
        except KafkaError as error:
            self.done[partition.topic_partition] = kept(error)
        return None


def _headers(
    replicas: ReplicaManager, request: ProduceRequest
) -> dict[TopicPartition, BatchHeader]:
    """Return the headers of the batches in transactions.

    The append refuses batches that cannot be read, or have no partition here.
    """
    headers = {}
    for topic in request.topic_data:
        for wanted in topic.partition_data:
            with suppress(KafkaError):
                partition = replicas.find(topic.name, topic.topic_id, wanted.index)
                header = parse_header(wanted.records or b"")
                if _is_of_transaction(header):
                    headers[partition.topic_partition] = header
    return headers


def _is_of_transaction(header: BatchHeader) -> bool:
    return header.is_transactional and header.producer_id >= 0


def _append(
    node: Node, call: Call, checked: Checked, deferred: Deferred, result: VerificationResult
) -> None:
    """Append all partitions of a request, and respond now or later."""
    with call.counted():
        reply = _append_all(node, call, checked, deferred, result)
    if reply is NOTHING:
        deferred.complete_without_response()
    elif reply is not deferred:
        deferred.complete(reply)  # type: ignore[arg-type]  # the only message among the replies


def _append_all(
    node: Node, call: Call, checked: Checked, deferred: Deferred, result: VerificationResult
) -> ProduceResponse | Deferred | Nothing:
    """Append all partitions of a request, except those that the coordinator refuses."""
    request: ProduceRequest = call.request
    asker = Asker.of_produce(call.version)
    appends, terms, now_ms = (
        _Appends(node.replicas, checked, asker, result),
        terms_of(request, call.version),
        node.clock.wall_ms(),
    )
    # The result is of this moment, so all batches are appended at once.
    room = TurnRoom(UNITS_PER_BATCH * MAX_REQUEST_ELEMENTS)
    outcomes = [
        (
            topic,
            [
                append_batch(
                    appends, terms, topic, each.index, each.records, now_ms=now_ms, room=room
                )
                for each in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return respond(node, call, request, outcomes, deferred)


class _Appends:
    """Appends to this node's partitions, as the coordinator decided on each of them."""

    def __init__(
        self, replicas: ReplicaManager, checked: Checked, asker: Asker, result: VerificationResult
    ) -> None:
        self._replicas = replicas
        self._checked = checked
        self._asker = asker
        self._result = result

    def find(self, topic: str, topic_id: UUID, index: int) -> Partition:
        """Return a partition. Raises as ``ReplicaManager.find``."""
        return self._replicas.find(topic, topic_id, index)

    def append(
        self,
        partition: Partition,
        records: Batch,  # noqa: ARG002 - one shape for all
        *,
        acks: int,
        now_ms: int,
        room: TurnRoom | None,  # noqa: ARG002 - one shape for all
    ) -> AppendResult:
        """Append a checked batch. Raises as ``ReplicaManager.append``, and UnverifiedError.

        A partition may have come to this node only after the coordinator was asked. It then gets
        NOT_LEADER_OR_FOLLOWER, so that its producer tries again.
        """
        where = partition.topic_partition
        code = self._result.errors.get(where)
        if code is not None:
            sent_code = produce_error(code, self._asker)
            raise UnverifiedError(
                sent_code, f"{where} is not known to be part of the transaction: {code.name}"
            )
        shown, checked = self._result.shown.get(where), self._checked.get(where)
        if checked is None or (
            shown is None
            and isinstance(checked, ValidatedBatches)
            and _is_of_transaction(checked.batches[0][1])
        ):
            raise UnverifiedError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{where} came to this node while others were asked about",
            )
        if shown is None:
            return self._replicas.append(partition, checked, acks=acks, now_ms=now_ms)
        return self._replicas.append_in_transaction(
            partition, checked, shown, acks=acks, now_ms=now_ms
        )
