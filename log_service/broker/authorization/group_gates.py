"""Gates of groups: permission checks for members, committed offsets, and descriptions.

If the description of a group shows a topic that the client must not see, the whole description is
refused, with its members. A client would misread half a group. Offsets are shown or refused topic
by topic.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from log_service.broker.authorization.access import (
    CLUSTER,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    Access,
    refusal,
)
from log_service.broker.authorization.gate_shapes import (
    CLUSTER_ACTION,
    DELETE,
    DESCRIBE,
    READ,
    Question,
    admit_part,
    amended,
    amended_in_steps,
    keep,
    on_named_topics,
    on_plain_names,
    topic_name,
)
from log_service.broker.cluster_view import OPERATIONS_ON_GROUPS
from log_service.broker.handlers.find_coordinator import (
    FIRST_VERSION_WITH_MANY_KEYS,
    GROUP_KEY_TYPE,
    SHARE_KEY_TYPE,
    TRANSACTION_KEY_TYPE,
)
from log_service.broker.handlers.groups.streams import fault_of_names, named_topics
from log_service.broker.requests.call import Gate
from log_service.common.access import AclOperation, Admission
from log_service.common.steps import Steps
from log_service.metadata.features import has_consumer_groups, has_share_groups, has_streams_groups
from log_service.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from log_service.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponseTopic,
)
from log_service.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from log_service.protocol.messages.offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from log_service.protocol.messages.share_records import (
    ShareRecordsPartitionResult,
    ShareRecordsTopic,
    ShareRecordsTopicResult,
)
from log_service.security.acls.values import CLUSTER_NAME

FIRST_FETCH_VERSION_WITH_GROUPS: Final = 8
FIRST_FETCH_VERSION_BY_ID: Final = 10
NO_OFFSET: Final = -1
NAMES_PER_STEP: Final = 500
FIRST_COMMIT_VERSION_BY_ID = 10
FIRST_SYNC_VERSION_WITH_PROTOCOL = 5

# Members


def _reads_group(question: Question) -> None:
    question.access.require(READ, GROUP, question.request.group_id)


def find_coordinator(question: Question) -> Admission | None:
    """Refuse denied groups and transactional ids one by one.

    Only brokers may ask for the coordinators of share partitions.
    """
    key_type, request = question.request.key_type, question.request
    if key_type == SHARE_KEY_TYPE:
        question.access.require(CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    resource = {GROUP_KEY_TYPE: GROUP, TRANSACTION_KEY_TYPE: TRANSACTIONAL_ID}.get(key_type)
    if resource is None:
        return None
    if question.version < FIRST_VERSION_WITH_MANY_KEYS:
        question.access.require(DESCRIBE, resource, request.key)
        return None
    return on_plain_names(DESCRIBE, resource)(question)


def sync_group(question: Question) -> None:
    """Check READ on the group, unless the protocol is missing.

    The handler refuses a request without a protocol.
    """
    request = question.request
    if question.version < FIRST_SYNC_VERSION_WITH_PROTOCOL or None not in (
        request.protocol_type,
        request.protocol_name,
    ):
        _reads_group(question)


def _heartbeat_of(is_enabled: Callable[[Question], bool]) -> Gate:
    """Return the gate of heartbeats that name topics.

    It checks READ on the group, and DESCRIBE on every topic. If ``is_enabled`` returns false, it
    checks nothing.
    """

    def gate(question: Question) -> None:
        if not is_enabled(question):
            return
        _reads_group(question)
        names = set(question.request.subscribed_topic_names or ())
        if question.access.allowed(DESCRIBE, TOPIC, names) != names:
            raise refusal(DESCRIBE, TOPIC)

    return gate


def _is_consumer_protocol_on(question: Question) -> bool:
    return question.config.groups.consumer.is_enabled and has_consumer_groups(
        question.image.features
    )


consumer_group_heartbeat = _heartbeat_of(_is_consumer_protocol_on)
share_group_heartbeat = _heartbeat_of(lambda question: has_share_groups(question.image.features))


def streams_group_heartbeat(question: Question) -> None:
    """Check READ on the group, and DESCRIBE on every topic of the topology.

    The handler refuses names that no application may have. It also checks the permission to create
    topics.
    """
    if not (
        question.config.groups.streams.is_enabled and has_streams_groups(question.image.features)
    ):
        return
    _reads_group(question)
    topology = question.request.topology
    names = set() if topology is None else set(named_topics(topology))
    if (
        fault_of_names(sorted(names)) is None
        and question.access.allowed(DESCRIBE, TOPIC, names) != names
    ):
        raise refusal(DESCRIBE, TOPIC)


def share_fetch(question: Question) -> None:
    """Check READ on the group. The handler checks the topics of the session."""
    if question.request.group_id is not None:
        _reads_group(question)


share_acknowledge = share_fetch


# Descriptions

delete_groups = on_plain_names(DELETE, GROUP)


def list_groups(question: Question) -> Admission | None:
    """Show all groups with DESCRIBE on the cluster, else those that the client may describe."""
    if question.access.could_cluster(DESCRIBE):
        return None

    def amend(response: Any) -> Any:
        seen = question.access.visible(
            DESCRIBE, GROUP, (group.group_id for group in response.groups)
        )
        response.groups = keep(response.groups, lambda group: group.group_id in seen)
        return response

    return Admission(request=question.request, amend=amend)


def _describe_of(shown_topics: Callable[[Any], Iterable[str]]) -> Gate:
    """Return the gate of a description of groups.

    ``shown_topics`` returns the topics that the description of one group shows.
    """
    named = on_plain_names(DESCRIBE, GROUP)

    def gate(question: Question) -> Admission:
        return amended(
            question,
            named(question),
            lambda response: described_groups(question, response, shown_topics),
        )

    return gate


def described_groups(
    question: Question, response: Any, shown_topics: Callable[[Any], Iterable[str]]
) -> Any:
    """Complete a response that describes groups.

    A group with a topic that the client must not see is replaced by an error. If requested, the
    others get the operations that are permitted on them.
    """
    access = question.access
    for number, group in enumerate(response.groups):
        if group.error_code:
            continue
        topics = set(shown_topics(group))
        if access.allowed(DESCRIBE, TOPIC, topics) != topics:
            hidden = refusal(DESCRIBE, TOPIC)
            response.groups[number] = type(group)(
                group_id=group.group_id, error_code=hidden.code, error_message=str(hidden)
            )
        elif question.request.include_authorized_operations:
            group.authorized_operations = access.bits(GROUP, group.group_id, OPERATIONS_ON_GROUPS)
    return response


def _no_topics(group: Any) -> Iterable[str]:  # noqa: ARG001 - of any group
    """Return no topics, because only the members of a classic group can read its assignments."""
    return ()


def assigned_topics(group: Any) -> Iterable[str]:
    """Yield the topics of the members' assignments."""
    for member in group.members:
        for assignment in (member.assignment, getattr(member, "target_assignment", None)):
            if assignment is not None:
                yield from (topic.topic_name for topic in assignment.topic_partitions)


def _topics_of_topology(group: Any) -> Iterable[str]:
    return () if group.topology is None else named_topics(group.topology)


describe_groups = _describe_of(_no_topics)
consumer_group_describe = share_group_describe = _describe_of(assigned_topics)
streams_group_describe = _describe_of(_topics_of_topology)

# Committed offsets


def offset_commit(question: Question) -> Admission | None:
    """Check READ on the group and on each topic."""
    _reads_group(question)
    return on_named_topics(question, READ, first_version_by_id=FIRST_COMMIT_VERSION_BY_ID)


def offset_delete(question: Question) -> Admission | None:
    """Check DELETE on the group and READ on each topic."""
    question.access.require(DELETE, GROUP, question.request.group_id)
    return _refuse_topics(question, "topics", lambda topic: topic.name, _undeleted)


def alter_share_group_offsets(question: Question) -> Admission | None:
    """Check READ on the group and on each topic."""
    if question.request.group_id:
        _reads_group(question)
        return _refuse_topics(question, "responses", lambda topic: topic.topic_name, _unaltered)
    return None


def delete_share_group_offsets(question: Question) -> Admission | None:
    """Check DELETE on the group and READ on each topic."""
    if question.request.group_id:
        question.access.require(DELETE, GROUP, question.request.group_id)
        return _refuse_topics(question, "responses", lambda topic: topic.topic_name, _unforgotten)
    return None


def share_records(question: Question) -> Admission | None:
    """Check DESCRIBE on the group and on each topic."""
    question.access.require(DESCRIBE, GROUP, question.request.group_id)
    return _refuse_topics(question, "topics", lambda topic: topic.name, _unseen, operation=DESCRIBE)


def _unseen(topic: ShareRecordsTopic) -> ShareRecordsTopicResult:
    partitions = [
        ShareRecordsPartitionResult(
            partition_index=index, error_code=NO_TOPIC.code, error_message=str(NO_TOPIC)
        )
        for index in topic.partitions
    ]
    return ShareRecordsTopicResult(name=topic.name, partitions=partitions)


def _refuse_topics(
    question: Question,
    response_field: str,
    name_of: Callable[[Any], str],
    refused: Callable[[Any], Any],
    *,
    operation: AclOperation = READ,
) -> Admission | None:
    """Admit the topics that the operation is allowed on.

    Unless the handler's response has an error for the whole group, the refused topics are added to
    its ``response_field``.
    """
    topics = question.request.topics
    allowed = question.access.allowed(operation, TOPIC, map(name_of, topics))
    items = [refused(topic) for topic in topics if name_of(topic) not in allowed]
    if not items:
        return None

    def amend(response: Any) -> Any:
        if not response.error_code:
            getattr(response, response_field).extend(items)
        return response

    kept = [topic for topic in topics if name_of(topic) in allowed]
    return Admission(request=replace(question.request, topics=kept), amend=amend)


NO_TOPIC = refusal(READ, TOPIC)


def _undeleted(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    partitions = [
        OffsetDeleteResponsePartition(
            partition_index=partition.partition_index, error_code=NO_TOPIC.code
        )
        for partition in topic.partitions
    ]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def _unaltered(topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
    partitions = [
        AlterShareGroupOffsetsResponsePartition(
            partition_index=partition.partition_index,
            error_code=NO_TOPIC.code,
            error_message=str(NO_TOPIC),
        )
        for partition in topic.partitions
    ]
    return AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=partitions)


def _unforgotten(
    topic: DeleteShareGroupOffsetsRequestTopic,
) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, error_code=NO_TOPIC.code, error_message=str(NO_TOPIC)
    )


# Offsets of many groups at once


def offset_fetch(question: Question) -> Admission | None:
    """Check DESCRIBE on each group and on each named topic.

    If all topics of a group are asked for, only those that the client may see are shown.
    """
    if question.version < FIRST_FETCH_VERSION_WITH_GROUPS:
        return _fetch_one(question)
    return _fetch_many(question)


def _fetch_one(question: Question) -> Admission | None:
    request, access = question.request, question.access
    access.require(DESCRIBE, GROUP, request.group_id)
    if request.topics is None:
        return amended_in_steps(question, None, partial(_shown_alone, access))
    allowed = access.allowed(DESCRIBE, TOPIC, (topic.name for topic in request.topics))
    denied = [topic for topic in request.topics if topic.name not in allowed]
    if not denied:
        return None

    def amend(response: Any) -> Any:
        if not getattr(response, "error_code", 0):
            response.topics.extend(map(_refused_alone, denied))
        return response

    kept = [topic for topic in request.topics if topic.name in allowed]
    return Admission(request=replace(request, topics=kept), amend=amend)


def _refused_alone(topic: OffsetFetchRequestTopic) -> OffsetFetchResponseTopic:
    partitions = [
        OffsetFetchResponsePartition(
            partition_index=index, committed_offset=NO_OFFSET, error_code=NO_TOPIC.code
        )
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)


def _shown_alone(access: Access, group: Any) -> Steps[Any]:
    """Remove the topics that the client must not see from the offsets of a single group.

    The audit log names each of them.
    """
    group.topics = yield from _shown(group.topics, partial(_audited, access))
    return group


def _shown(topics: list[Any], seen_of: Callable[[list[str]], set[str]]) -> Steps[list[Any]]:
    """Return the topics whose names ``seen_of`` returns, in several steps."""
    shown: list[Any] = []
    for start in range(0, len(topics), NAMES_PER_STEP):
        if start:
            yield
        some = topics[start : start + NAMES_PER_STEP]
        seen = seen_of([_topic_name(topic) for topic in some])
        shown += [topic for topic in some if _topic_name(topic) in seen]
    return shown


def _fetch_many(question: Question) -> Admission | None:
    is_by_id = question.version >= FIRST_FETCH_VERSION_BY_ID

    def name_of(topic: Any) -> str | None:
        return topic_name(question.image, topic.topic_id) if is_by_id else topic.name

    return admit_groups(question, name_of, _refused_among_many, _audited)


def _refused_among_many(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, error_code=NO_TOPIC.code
        )
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )


def describe_share_group_offsets(question: Question) -> Admission | None:
    """Check DESCRIBE on each group and on each named topic.

    If all topics of a group are asked for, only those that the client may see are shown.
    """
    return admit_groups(question, lambda topic: topic.topic_name, _undescribed, _silent)


def _undescribed(
    topic: DescribeShareGroupOffsetsRequestTopic,
) -> DescribeShareGroupOffsetsResponseTopic:
    partitions = [
        DescribeShareGroupOffsetsResponsePartition(
            partition_index=index,
            start_offset=NO_OFFSET,
            error_code=NO_TOPIC.code,
            error_message=str(NO_TOPIC),
        )
        for index in topic.partitions
    ]
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, partitions=partitions
    )


def admit_groups(
    question: Question,
    name_of: Callable[[Any], str | None],
    refused: Callable[[Any], Any],
    seen_of: Callable[[Any, list[str]], set[str]],
) -> Admission | None:
    """Admit the groups and topics of a request that the client may describe.

    ``refused`` makes the result of a denied topic. A topic without a name does not exist, and is
    left to the handler. If all topics of a group are asked for, the response shows those whose
    names ``seen_of`` returns.
    """
    request, access = question.request, question.access
    seen = access.allowed(
        DESCRIBE, GROUP, dict.fromkeys(group.group_id for group in request.groups)
    )
    first = admit_part(question, lambda group: group.group_id in seen, refusal(DESCRIBE, GROUP))
    if first is not None and first.response is not None:
        return first
    groups = [group for group in request.groups if group.group_id in seen]
    names = {
        name
        for group in groups
        for topic in group.topics or ()
        if (name := name_of(topic)) is not None
    }
    denied = names - access.allowed(DESCRIBE, TOPIC, names)
    whole = {group.group_id for group in groups if group.topics is None}
    items: dict[str, list[Any]] = {}
    for group in groups:
        items.setdefault(group.group_id, []).extend(
            refused(topic) for topic in group.topics or () if name_of(topic) in denied
        )

    def amend(response: Any) -> Steps[Any]:
        for group in response.groups:
            if group.error_code:
                continue
            if group.group_id in whole:
                group.topics = yield from _shown(group.topics, partial(seen_of, access))
            group.topics.extend(items.pop(group.group_id, ()))
        return response

    return replace(
        amended_in_steps(question, first, amend),
        request=replace(request, groups=[_without(group, name_of, denied) for group in groups]),
    )


def _without(group: Any, name_of: Callable[[Any], str | None], denied: set[str]) -> Any:
    """Return a group of the request without the denied topics."""
    if group.topics is None or not denied:
        return group
    return replace(group, topics=[topic for topic in group.topics if name_of(topic) not in denied])


def _topic_name(topic: Any) -> str:
    name: str = topic.topic_name if hasattr(topic, "topic_name") else topic.name
    return name


def _audited(access: Access, names: list[str]) -> set[str]:
    """Return the names of visible topics. Denials are logged at INFO, as in Apache Kafka."""
    return access.allowed(DESCRIBE, TOPIC, names)


def _silent(access: Access, names: list[str]) -> set[str]:
    """Return the names of visible topics. Denials are logged at TRACE only."""
    return access.visible(DESCRIBE, TOPIC, names)
