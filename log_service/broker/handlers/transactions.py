"""Requests to the transaction coordinator, in every version of Kafka 4.3.

AddPartitionsToTxn (24, versions 0-5): adds partitions to the transaction of one producer up to
version 3. From version 4 on brokers ask for many producers, and may ask only to verify. A partition
that does not exist is UNKNOWN_TOPIC_OR_PARTITION, and all others of its transaction are
OPERATION_NOT_ATTEMPTED then. AddOffsetsToTxn (25, 0-4): adds the partition of a group's offsets.
EndTxn (26, 0-5): stores the outcome and responds. The markers follow. DescribeTransactions (65, 0)
and ListTransactions (66, 0-2): respond with the transactions that this broker coordinates.

Versions of AddPartitionsToTxn: 2 PRODUCER_FENCED (KIP-588); 3 flexible; 4 many transactions,
verification; 5 TRANSACTION_ABORTABLE. AddOffsetsToTxn and EndTxn: 2 PRODUCER_FENCED; 3 flexible; 4
TRANSACTION_ABORTABLE; EndTxn 5: the producer's next epoch (KIP-890). ListTransactions: 1 duration
(KIP-994); 2 pattern (KIP-1152).
"""

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred, Refusable
from log_service.common.errors import KafkaError
from log_service.common.types import GROUP_METADATA_TOPIC, TopicPartition
from log_service.coordinator.transaction_service import FIRST_ADD_VERSION_WITH_MANY
from log_service.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from log_service.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from log_service.protocol.messages.describe_transactions import DescribeTransactionsRequest
from log_service.protocol.messages.end_txn import EndTxnRequest
from log_service.protocol.messages.list_transactions import ListTransactionsRequest


def handle_add_partitions_to_txn(
    node: Node, call: Call, request: AddPartitionsToTxnRequest
) -> Deferred:
    """Respond when the partitions are stored."""
    topics = node.image().topics

    def is_there(where: TopicPartition) -> bool:
        return topics.partition(where.topic, where.partition) is not None

    deferred = call.defer()
    node.transactions.add_partitions(request, call.version, deferred.complete, is_there)
    return deferred


def handle_add_offsets_to_txn(node: Node, call: Call, request: AddOffsetsToTxnRequest) -> Deferred:
    """Respond when the partition of the group's offsets is stored."""
    deferred = call.defer()
    where = TopicPartition(GROUP_METADATA_TOPIC, node.groups.partition_for(request.group_id))
    node.transactions.add_offsets(request, where, call.client(), deferred.complete)
    return deferred


def handle_end_txn(node: Node, call: Call, request: EndTxnRequest) -> Deferred:
    """Respond when the outcome is stored."""
    deferred = call.defer()
    node.transactions.end_txn(request, call.client(), deferred.complete)
    return deferred


def handle_describe_transactions(
    node: Node, call: Call, request: DescribeTransactionsRequest
) -> Deferred:
    """Describe each requested transactional id, once even if it is repeated."""
    deferred = call.defer()
    request.transactional_ids = list(dict.fromkeys(request.transactional_ids))
    node.transactions.describe(request, deferred.complete)
    return deferred


def handle_list_transactions(node: Node, call: Call, request: ListTransactionsRequest) -> Deferred:
    """List the transactional ids of this broker that pass the filters."""
    deferred = call.defer()
    node.transactions.list(request, deferred.complete)
    return deferred


def refuse_add_partitions_to_txn(call: Refusable, error: KafkaError) -> AddPartitionsToTxnResponse:
    """Return an error at the top, or for each partition up to version 3.

    Those versions have no field at the top.
    """
    if call.version >= FIRST_ADD_VERSION_WITH_MANY:
        return AddPartitionsToTxnResponse(error_code=error.code)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=error.code
                    )
                    for index in topic.partitions
                ],
            )
            for topic in call.request.v3_and_below_topics
        ]
    )
