"""Decides on CreateTopics and DeleteTopics.

The controller decides on each topic of a request separately. A refused topic has a result with an
error, and no records. The ids of new topics are an argument, because a rule draws no random
numbers.

Invariants: a decision sees the metadata image and the earlier decisions of the same request. With
``validate_only`` the results are the same, but there are no records.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import CLUSTER_METADATA_TOPIC, NO_TOPIC_ID, NodeId, TopicId
from log_service.config.describe import describe_new_topic
from log_service.config.resolve import Layers
from log_service.config.topic import validate_schema_registry, validate_topic_configs
from log_service.config.views import TopicDefaults
from log_service.controller.rules.partitions import MIN_ISR, new_partition, placeable_brokers
from log_service.controller.rules.placement import place_replicas
from log_service.controller.rules.topic_names import TakenNames, validate_topic_name
from log_service.metadata.features import keeps_eligible_leaders
from log_service.metadata.image import MetadataImage, ResourceType, TopicImage
from log_service.metadata.partition import PartitionRegistration, partition_record
from log_service.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from log_service.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from log_service.protocol.stored.metadata_records import (
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
)

UNSET = -1


ChargePartitions = Callable[[int], None]
"""Charges created or deleted partitions to the client's quota.

Raises KafkaError THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    """The arguments of rules about topics, besides the metadata.

    They are the defaults of new topics, the properties file, new ids and the quota. ``charge``
    charges new partitions to the client's quota, and raises THROTTLING_QUOTA_EXCEEDED if the quota
    is used up (KIP-599).
    """

    defaults: TopicDefaults
    static_texts: Mapping[str, str] = field(repr=False)
    new_id: Callable[[], UUID]
    charge: ChargePartitions


# Creating


def create_topics(
    image: MetadataImage, request: CreateTopicsRequest, rules: TopicRules
) -> tuple[list[MetadataRecord], CreateTopicsResponse]:
    """Return the records of a request's new topics, and the response with a result for each."""
    records: list[MetadataRecord] = []
    results: list[CreatableTopicResult] = []
    counts = Counter(topic.name for topic in request.topics)
    taken = TakenNames(image.topics)
    partition_total = _partition_total(request.topics, rules.defaults)
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            refuse_repetition(topic.name, counts[topic.name])
            _refuse_excess(partition_total, rules.defaults.max_partitions_per_request)
            _validate_new_name(image, taken, topic.name)
            created, result = _create_topic(image, topic, rules)
        except KafkaError as error:
            results.append(
                CreatableTopicResult(
                    name=topic.name, error_code=error.code, error_message=str(error)
                )
            )
            continue
        taken.take(topic.name)
        records += created
        results.append(result)
    return [] if request.validate_only else records, CreateTopicsResponse(topics=results)


def refuse_repetition(name: str, count: int) -> None:
    """Refuse a topic that a request names more than once.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    if count > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"topic {name} stands more than once in the request"
        )


def _refuse_excess(partition_total: int, limit: int) -> None:
    if partition_total > limit:
        text = (
            f"the request asks for {partition_total} partitions, at most {limit} are created at"
            " once; ask for less"
        )
        raise KafkaError(ErrorCode.POLICY_VIOLATION, text)


def _partition_total(topics: Sequence[CreatableTopic], defaults: TopicDefaults) -> int:
    return sum(
        len(topic.assignments) or _count_or(topic.num_partitions, defaults.partition_count)
        for topic in topics
    )


def _count_or(count: int, default: int) -> int:
    return default if count == UNSET else max(count, 0)


def _validate_new_name(image: MetadataImage, taken: TakenNames, name: str) -> None:
    if name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{name} is the metadata log and cannot be created"
        )
    validate_topic_name(name)
    if name in image.topics.by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} already exists")
    other = taken.collision(name)
    if other is not None:
        text = f"topic {name} collides with topic {other}: metrics do not tell '.' from '_'"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)


def _create_topic(
    image: MetadataImage, topic: CreatableTopic, rules: TopicRules
) -> tuple[list[MetadataRecord], CreatableTopicResult]:
    configs = {config.name: config.value for config in topic.configs}
    validate_topic_configs(configs)
    validate_schema_registry(configs, rules.static_texts)
    texts = {name: value for name, value in configs.items() if value is not None}
    topic_id = TopicId(rules.new_id())
    partitions = (
        _assigned(image, topic)
        if topic.assignments
        else _placed(image, topic, rules.defaults, topic_id)
    )
    rules.charge(len(partitions))
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += (
        ConfigRecord(
            resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value
        )
        for name, value in texts.items()
    )
    if MIN_ISR in texts and keeps_eligible_leaders(image.features):
        records.append(ClearElrRecord(topic_name=topic.name))
    records += (
        partition_record(topic_id, index, partition) for index, partition in enumerate(partitions)
    )
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=_described(image, texts, rules.static_texts),
    )
    return records, result


def _placed(
    image: MetadataImage, topic: CreatableTopic, defaults: TopicDefaults, topic_id: TopicId
) -> list[PartitionRegistration]:
    if topic.num_partitions == 0 or topic.num_partitions < UNSET:
        text = (
            f"a topic cannot have {topic.num_partitions} partitions; ask for at least 1, or -1 for"
            " the default"
        )
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, text)
    if topic.replication_factor == 0 or topic.replication_factor < UNSET:
        text = (
            f"a replication factor cannot be {topic.replication_factor}; ask for at least 1, or -1"
            " for the default"
        )
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    placed = place_replicas(
        placeable_brokers(image),
        partition_count=_count_or(topic.num_partitions, defaults.partition_count),
        replication_factor=_count_or(topic.replication_factor, defaults.replication_factor),
        seed=topic_id.int,
    )
    return [registered(image, replicas, index) for index, replicas in enumerate(placed)]


def registered(
    image: MetadataImage, replicas: Sequence[NodeId], index: int
) -> PartitionRegistration:
    """Return a new partition on the given brokers.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT, none of them is active.
    """
    partition = new_partition(image, replicas)
    if partition is None:
        text = (
            f"every broker of partition {index} is fenced or shutting down; name one that is active"
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return partition


def _assigned(image: MetadataImage, topic: CreatableTopic) -> list[PartitionRegistration]:
    if topic.num_partitions != UNSET or topic.replication_factor != UNSET:
        text = "with a manual assignment the partition count and the replication factor must be -1"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    indexes = sorted(assignment.partition_index for assignment in topic.assignments)
    if indexes != list(range(len(indexes))):
        text = (
            f"the assignment names partitions {_shown(indexes)}; they must count from 0 without"
            " gaps or repetitions"
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    in_order: list[CreatableReplicaAssignment] = sorted(
        topic.assignments, key=lambda assignment: assignment.partition_index
    )
    factor = len(in_order[0].broker_ids)
    partitions = []
    for assignment in in_order:
        replicas = validated_replicas(
            image, assignment.broker_ids, assignment.partition_index, factor
        )
        partitions.append(registered(image, replicas, assignment.partition_index))
    return partitions


def _shown(indexes: Sequence[int]) -> str:
    return ", ".join(map(str, indexes[:10])) + (", ..." if len(indexes) > 10 else "")


def validated_replicas(
    image: MetadataImage, broker_ids: Sequence[int], index: int, factor: int
) -> tuple[NodeId, ...]:
    """Return the brokers of a manual assignment.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT, there are none, one is repeated or not registered,
            or there are not ``factor`` of them.
    """
    if not broker_ids:
        fault = "has no brokers"
    elif len(set(broker_ids)) != len(broker_ids):
        fault = "names a broker twice"
    elif unknown := [node_id for node_id in broker_ids if node_id not in image.cluster.brokers]:
        fault = f"names broker {unknown[0]}, which is not registered"
    elif len(broker_ids) != factor:
        fault = f"has {len(broker_ids)} replicas where the others have {factor}"
    else:
        return tuple(NodeId(node_id) for node_id in broker_ids)
    raise KafkaError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the assignment of partition {index} {fault}"
    )


def _described(
    image: MetadataImage, texts: Mapping[str, str], static_texts: Mapping[str, str]
) -> list[CreatableTopicConfigs]:
    cluster = image.configs.of(ResourceType.BROKER, "")
    return [
        CreatableTopicConfigs(
            name=row.name,
            value=row.value,
            read_only=row.is_read_only,
            config_source=row.source,
            is_sensitive=row.is_sensitive,
        )
        for row in describe_new_topic(Layers(topic=texts, cluster=cluster, static=static_texts))
    ]


# Deleting


def delete_topics(
    image: MetadataImage, request: DeleteTopicsRequest, charge: ChargePartitions
) -> tuple[list[MetadataRecord], DeleteTopicsResponse]:
    """Return the records that delete a request's topics, and the response.

    Old versions of the request name topics in ``topic_names``.
    """
    records: list[MetadataRecord] = []
    results: list[DeletableTopicResult] = []
    for states in _by_topic(
        image, [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    ):
        result, topic = _delete_topic(image, states)
        results.append(result)
        if topic is None:
            continue
        try:
            charge(len(topic.partitions))
        except KafkaError as error:
            result.error_code, result.error_message = error.code, str(error)
        else:
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
    return records, DeleteTopicsResponse(responses=results)


def _by_topic(
    image: MetadataImage, states: Sequence[DeleteTopicState]
) -> list[list[DeleteTopicState]]:
    """Group a request's entries by topic. An entry without an existing topic is its own group."""
    grouped: dict[object, list[DeleteTopicState]] = {}
    for state in states:
        topic = _find(image, state)
        grouped.setdefault(
            (state.name, state.topic_id) if topic is None else topic.topic_id, []
        ).append(state)
    return list(grouped.values())


def _find(image: MetadataImage, state: DeleteTopicState) -> TopicImage | None:
    if state.name is not None:
        return image.topics.by_name.get(state.name) if state.topic_id == NO_TOPIC_ID else None
    return image.topics.by_id.get(TopicId(state.topic_id))


def _delete_topic(
    image: MetadataImage, states: Sequence[DeleteTopicState]
) -> tuple[DeletableTopicResult, TopicImage | None]:
    topic = _find(image, states[0])
    if topic is not None and len(states) == 1:
        return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id), topic
    name = next((state.name for state in states if state.name is not None), None)
    topic_id = next(
        (state.topic_id for state in states if state.topic_id != NO_TOPIC_ID), NO_TOPIC_ID
    )
    if name is None and topic_id == NO_TOPIC_ID:
        code, text = ErrorCode.INVALID_REQUEST, "neither a name nor an id says which topic is meant"
    elif len(states) > 1:
        code, text = (
            ErrorCode.INVALID_REQUEST,
            f"topic {topic_id if name is None else name} stands more than once in the request",
        )
    elif name is not None and topic_id != NO_TOPIC_ID:
        code, text = (
            ErrorCode.INVALID_REQUEST,
            "a topic is deleted by its name or by its id, not by both",
        )
    elif name is None:
        code, text = ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id"
    else:
        code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}"
    return (
        DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=text),
        None,
    )
