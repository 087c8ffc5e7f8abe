"""TxnOffsetCommit (API key 28), versions 0-5: offsets of a group in a producer's transaction.

Behaviour: partitions that do not exist are refused here with UNKNOWN_TOPIC_OR_PARTITION. For the
rest the transaction coordinator is asked about the group's partition of ``__consumer_offsets``,
unless the transaction has written to it before. Then the group's coordinator responds when the
offsets are replicated there. They take effect when the transaction's commit marker arrives.

Versions: 2 leader epoch; 3 flexible, member and generation (KIP-447); 4 TRANSACTION_ABORTABLE
(KIP-890); 5 the coordinator adds the partition to the transaction itself, so AddOffsetsToTxn is not
needed (KIP-890).
"""

from dataclasses import replace
from functools import partial

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.broker.transactions.response_errors import Asker
from log_service.broker.transactions.verifier import Question, VerificationResult
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import GROUP_METADATA_TOPIC, NO_SEQUENCE, TopicPartition
from log_service.coordinator.group.listing import refused_txn_commit
from log_service.coordinator.refusals import api_error
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

FIRST_VERSION_WITH_LOADING = 2
"""Older clients fail for good on COORDINATOR_LOAD_IN_PROGRESS."""

Refused = dict[str, TxnOffsetCommitResponseTopic]


def handle_txn_offset_commit(node: Node, call: Call, request: TxnOffsetCommitRequest) -> Deferred:
    """Refuse unknown partitions, and ask both coordinators about the rest.

    The transaction coordinator verifies the transaction, and the group's coordinator responds.
    """
    deferred = call.defer()
    known, refused = _sort_out(node.image(), request.topics)
    respond = deferred.completing(partial(_with_refused, call, refused))
    request.topics = known
    if not known:
        respond(TxnOffsetCommitResponse())
    elif request.group_id == "":
        respond(refused_txn_commit(request, ErrorCode.INVALID_GROUP_ID))
    else:
        where = TopicPartition(GROUP_METADATA_TOPIC, node.groups.partition_for(request.group_id))
        question = Question(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            sequences={where: NO_SEQUENCE},
            asker=Asker.of_offset_commit(call.version),
        )

        def commit(result: VerificationResult) -> None:
            code = result.errors.get(where)
            if code is None:
                node.groups.txn_offset_commit(
                    request, call.client(), respond, shown=result.shown[where]
                )
            else:
                respond(refused_txn_commit(request, api_error(KafkaError(code))))

        node.transaction_verifier.verify(question, commit, deferred)
    return deferred


def _sort_out(
    image: MetadataImage, topics: list[TxnOffsetCommitRequestTopic]
) -> tuple[list[TxnOffsetCommitRequestTopic], Refused]:
    """Return the topics with existing partitions, and the responses for the other partitions."""
    known: list[TxnOffsetCommitRequestTopic] = []
    refused: Refused = {}
    for topic in topics:
        there: list[TxnOffsetCommitRequestPartition] = []
        missing: list[int] = []
        for each in topic.partitions:
            if image.topics.partition(topic.name, each.partition_index) is not None:
                there.append(each)
            else:
                missing.append(each.partition_index)
        if there:
            known.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=there))
        if missing:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            responses = refused.setdefault(
                topic.name, TxnOffsetCommitResponseTopic(name=topic.name)
            ).partitions
            responses += [
                TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
                for index in missing
            ]
    return known, refused


def _with_refused(
    call: Call, refused: Refused, response: TxnOffsetCommitResponse
) -> TxnOffsetCommitResponse:
    """Merge the responses so that each topic appears once, with refused partitions first."""
    for topic in response.topics:
        there = refused.setdefault(topic.name, topic)
        if there is not topic:
            there.partitions.extend(topic.partitions)
    for topic in refused.values():
        for partition in topic.partitions:
            if (
                partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                and call.version < FIRST_VERSION_WITH_LOADING
            ):
                partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return replace(response, topics=list(refused.values()))
