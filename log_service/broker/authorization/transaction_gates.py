"""Gates of transactions: permission checks for producer ids, partitions, ends and descriptions.

In AddPartitionsToTxn one denied topic makes the whole request fail. The other topics get
OPERATION_NOT_ATTEMPTED, because a transaction gets all partitions of a request or none.
"""

from typing import Any

from log_service.broker.authorization.access import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, refusal
from log_service.broker.authorization.gate_shapes import (
    CLUSTER_ACTION,
    DESCRIBE,
    READ,
    WRITE,
    Question,
    amended,
    keep,
    on_plain_names,
    on_topics,
    require_on_cluster,
)
from log_service.common.access import AclOperation, Admission
from log_service.common.errors import ErrorCode
from log_service.common.topic_names import INTERNAL_TOPICS
from log_service.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

FIRST_ADD_VERSION_WITH_MANY = 4

_describe_ids = on_plain_names(DESCRIBE, TRANSACTIONAL_ID)
_read_topics = on_topics(READ)


def init_producer_id(question: Question) -> None:
    """Check WRITE on the transactional id.

    Without one the producer must be allowed to write to some topic (KIP-679).
    """
    name, access = question.request.transactional_id, question.access
    if name is not None:
        access.require(WRITE, TRANSACTIONAL_ID, name)
    elif not (
        access.could_cluster(AclOperation.IDEMPOTENT_WRITE) or access.may_somewhere(WRITE, TOPIC)
    ):
        raise refusal(AclOperation.IDEMPOTENT_WRITE, CLUSTER)


def add_partitions_to_txn(question: Question) -> Admission | None:
    """Check WRITE on the transactional id and on each topic, up to version 3.

    Later versions are for brokers, and need CLUSTER_ACTION.
    """
    if question.version >= FIRST_ADD_VERSION_WITH_MANY:
        require_on_cluster(question.access, CLUSTER_ACTION)
        return None
    request: AddPartitionsToTxnRequest = question.request
    question.access.require(WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
    topics = request.v3_and_below_topics
    allowed = question.access.allowed(
        WRITE, TOPIC, (topic.name for topic in topics if topic.name not in INTERNAL_TOPICS)
    )
    if all(topic.name in allowed for topic in topics):
        return None
    results = [_not_added(question, topic, is_allowed=topic.name in allowed) for topic in topics]
    return Admission(
        request=request, response=AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    )


def _not_added(
    question: Question, topic: AddPartitionsToTxnTopic, *, is_allowed: bool
) -> AddPartitionsToTxnTopicResult:
    partitions = [
        AddPartitionsToTxnPartitionResult(
            partition_index=index,
            partition_error_code=_why(question, topic.name, index, is_allowed=is_allowed),
        )
        for index in topic.partitions
    ]
    return AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=partitions)


def _why(question: Question, topic: str, index: int, *, is_allowed: bool) -> ErrorCode:
    if not is_allowed:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    is_there = question.image.topics.partition(topic, index) is not None
    return ErrorCode.OPERATION_NOT_ATTEMPTED if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def add_offsets_to_txn(question: Question) -> None:
    """Check WRITE on the transactional id, and READ on the group."""
    question.access.require(WRITE, TRANSACTIONAL_ID, question.request.transactional_id)
    question.access.require(READ, GROUP, question.request.group_id)


def end_txn(question: Question) -> None:
    """Check WRITE on the transactional id."""
    question.access.require(WRITE, TRANSACTIONAL_ID, question.request.transactional_id)


def txn_offset_commit(question: Question) -> Admission | None:
    """Check the permissions of AddOffsetsToTxn, and READ on each topic."""
    add_offsets_to_txn(question)
    return _read_topics(question)


def describe_transactions(question: Question) -> Admission:
    """Refuse denied transactional ids one by one, and leave out topics that must not be seen."""

    def amend(response: Any) -> Any:
        for state in response.transaction_states:
            seen = question.access.visible(DESCRIBE, TOPIC, (topic.topic for topic in state.topics))
            state.topics = keep(state.topics, lambda topic, seen=seen: topic.topic in seen)  # type: ignore[misc]  # bound for this state
        return response

    return amended(question, _describe_ids(question), amend)


def list_transactions(question: Question) -> Admission:
    """Leave out transactional ids that the client must not see. The audit log names each."""

    def amend(response: Any) -> Any:
        may = question.access.may
        response.transaction_states = keep(
            response.transaction_states,
            lambda state: may(DESCRIBE, TRANSACTIONAL_ID, state.transactional_id),
        )
        return response

    return Admission(request=question.request, amend=amend)
