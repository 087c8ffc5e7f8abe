"""Produce requests that name a transactional id: what ``produce`` does, and before it the questions to the transaction coordinator.

Behaviour: all batches of transactions in a request are of one producer, else all of it is INVALID_PRODUCER_ID_MAPPING. A batch that is the
first one of its producer's transaction in a partition waits until the coordinator has said that the partition is in the transaction, or,
from version 12 on, has added it (KIP-890). A partition for which it says something else gets an error that clients of the version
understand; the other partitions are appended. Batches outside of transactions are appended as they are.

``transaction.partition.verification.enable=false`` has partitions of older versions appended without a question.
"""

from contextlib import suppress
from functools import partial
from uuid import UUID

from log_service.broker.call import NOTHING, Call, Deferred
from log_service.broker.handlers.produce import (
    UnverifiedError,
    append_batch,
    each_once,
    refuse_produce,
    respond,
    terms_of,
)
from log_service.broker.node import Node
from log_service.broker.transaction_verdicts import Asker, told_to_producer
from log_service.broker.transaction_verifier import Question, Verdict
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.protocol.messages.produce import ProduceRequest, ProduceResponse
from log_service.records.batch import BatchHeader, parse_header
from log_service.replication.partition import Partition
from log_service.replication.replica_manager import ReplicaManager
from log_service.storage.append_result import AppendResult


def handle_transactional_produce(node: Node, call: Call, request: ProduceRequest) -> ProduceResponse | Deferred:
    """Append what the coordinator lets in, and respond now or later."""
    request.topic_data = each_once(request.topic_data)
    headers = _headers(node.replicas, request)
    producers = {(header.producer_id, header.producer_epoch) for header in headers.values()}
    if len(producers) > 1:
        text = "the request has batches of transactions of more than one producer"
        return refuse_produce(call, KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text))
    deferred = call.defer()
    if not producers:
        _append(node, call, deferred, Asker.VERIFIES, Verdict())
        return deferred
    ((producer_id, producer_epoch),) = producers
    asker = Asker.of_produce(call.version)
    question = Question(
        transactional_id=request.transactional_id or "",
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        sequences={where: header.base_sequence for where, header in headers.items()},
        asker=asker,
        held_bytes=sum(len(wanted.records or b"") for topic in request.topic_data for wanted in topic.partition_data),
        keep=partial(_keep_records, request),
    )
    node.transaction_verifier.verify(question, partial(_append, node, call, deferred, asker), deferred)
    return deferred


def _keep_records(request: ProduceRequest) -> None:
    """Copy the records: the connection's buffer, in which they stand, takes its next request while the coordinator is asked."""
    for topic in request.topic_data:
        for wanted in topic.partition_data:
            if wanted.records is not None:
                wanted.records = memoryview(bytearray(wanted.records))


def _headers(replicas: ReplicaManager, request: ProduceRequest) -> dict[TopicPartition, BatchHeader]:
    """Return the headers of the batches in transactions. What cannot be read, or has no partition here, the append refuses."""
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


def _append(node: Node, call: Call, deferred: Deferred, asker: Asker, verdict: Verdict) -> None:
    """Append all of a request but what the coordinator refuses."""
    request: ProduceRequest = call.request
    appends, terms, now_ms = _Appends(node.replicas, asker, verdict), terms_of(request, call.version), node.clock.wall_ms()
    outcomes = [
        (topic, [append_batch(appends, terms, topic, wanted.index, wanted.records, now_ms=now_ms) for wanted in topic.partition_data])
        for topic in request.topic_data
    ]
    reply = respond(node, call, request, outcomes, deferred)
    if reply is NOTHING:
        deferred.complete_without_response()
    elif reply is not deferred:
        deferred.complete(reply)  # type: ignore[arg-type]  # the only message among the replies


class _Appends:
    """Appends to this node's partitions, showing each log what the verdict says."""

    def __init__(self, replicas: ReplicaManager, asker: Asker, verdict: Verdict) -> None:
        self._replicas = replicas
        self._asker = asker
        self._verdict = verdict

    def find(self, topic: str, topic_id: UUID, index: int) -> Partition:
        """Return a partition. Raises as ``ReplicaManager.find``."""
        return self._replicas.find(topic, topic_id, index)

    def append(self, partition: Partition, records: bytearray | memoryview, *, acks: int, now_ms: int) -> AppendResult:
        """Append a batch. Raises as ``ReplicaManager.append``, and UnverifiedError.

        A partition that was not here when the coordinator was asked about the others is told to be elsewhere: its producer tries again.
        """
        where = partition.topic_partition
        code = self._verdict.errors.get(where)
        if code is not None:
            told = told_to_producer(code, self._asker)
            raise UnverifiedError(told, f"{where} is not known to be part of the transaction: {code.name}")
        shown = self._verdict.shown.get(where)
        if shown is None:
            if _is_of_transaction(parse_header(records)):
                raise UnverifiedError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{where} came to this node while others were asked about")
            return self._replicas.append(partition, records, acks=acks, now_ms=now_ms)
        return self._replicas.append_in_transaction(partition, records, shown, acks=acks, now_ms=now_ms)
