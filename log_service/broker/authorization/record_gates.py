"""Gates of the APIs about records: permission checks before the handlers.

The APIs are Produce, ListOffsets, OffsetForLeaderEpoch, DeleteRecords and DescribeProducers. A
produce request with acks=0 has no response. If a part of it is denied, the other part is appended.
Then the connection is closed, because there is no other way to report the refusal.
"""

from dataclasses import replace
from operator import attrgetter

from log_service.broker.authorization.access import TOPIC, TRANSACTIONAL_ID, refusal
from log_service.broker.authorization.gate_shapes import (
    CLUSTER_ACTION,
    DELETE,
    DESCRIBE,
    READ,
    WRITE,
    Question,
    admit_part,
    on_named_topics,
    on_topics,
)
from log_service.broker.handlers.produce.produce import ACKS_LEADER, ACKS_NONE, FIRST_VERSION_BY_ID
from log_service.common.access import Admission
from log_service.common.topic_names import topic_name_fault
from log_service.protocol.messages.produce import ProduceRequest
from log_service.records.batch import looks_transactional


def produce(question: Question) -> Admission | None:
    """Check WRITE on each topic, and on the transactional id of batches in transactions."""
    request: ProduceRequest = question.request
    if _has_transactional_batch(request):
        name = request.transactional_id
        if name is None or not question.access.may(WRITE, TRANSACTIONAL_ID, name):
            raise refusal(WRITE, TRANSACTIONAL_ID)
    if request.acks == ACKS_NONE:
        return _admit_without_response(question)
    return _admit_topics(question)


def _admit_topics(question: Question) -> Admission | None:
    return on_named_topics(question, WRITE, first_version_by_id=FIRST_VERSION_BY_ID)


def _admit_without_response(question: Question) -> Admission | None:
    """Admit the allowed part of a request that gets no response.

    If a part was refused, the handler closes the connection.
    """
    admission = _admit_topics(
        replace(question, request=replace(question.request, acks=ACKS_LEADER))
    )
    if admission is None:
        return None
    if admission.response is not None:
        raise refusal(WRITE, TOPIC)
    return replace(admission, request=replace(admission.request, acks=ACKS_NONE))


def _has_transactional_batch(request: ProduceRequest) -> bool:
    return any(
        looks_transactional(wanted.records)
        for topic in request.topic_data
        for wanted in topic.partition_data
    )


list_offsets = on_topics(DESCRIBE)
delete_records = on_topics(DELETE)


def offset_for_leader_epoch(question: Question) -> Admission | None:
    """Admit all topics for brokers, and for other clients those that they may describe."""
    if question.access.could_cluster(CLUSTER_ACTION):
        return None
    return on_topics(DESCRIBE, name_of=attrgetter("topic"))(question)


def describe_producers(question: Question) -> Admission | None:
    """Check READ on each topic. The handler refuses a name that no topic can have."""
    names = [
        topic.name for topic in question.request.topics if topic_name_fault(topic.name) is None
    ]
    allowed = question.access.allowed(READ, TOPIC, names)
    denied = set(names) - allowed
    return admit_part(question, lambda topic: topic.name not in denied, refusal(READ, TOPIC))
