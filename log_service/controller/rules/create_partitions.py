"""Decides on CreatePartitions, which adds partitions to topics (KIP-195). No record moves.

The controller decides on each topic of a request separately. This file reads no log and no clock.
"""

from collections import Counter
from collections.abc import Sequence

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId
from log_service.config.views import TopicDefaults
from log_service.controller.rules.partitions import placeable_brokers
from log_service.controller.rules.placement import place_replicas
from log_service.controller.rules.topics import (
    ChargePartitions,
    refuse_repetition,
    registered,
    validated_replicas,
)
from log_service.metadata.image import MetadataImage, TopicImage
from log_service.metadata.partition import partition_record
from log_service.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from log_service.protocol.stored.metadata_records import MetadataRecord


def create_partitions(
    image: MetadataImage,
    request: CreatePartitionsRequest,
    defaults: TopicDefaults,
    charge: ChargePartitions,
) -> tuple[list[MetadataRecord], CreatePartitionsResponse]:
    """Return the records of a request's new partitions, and the response.

    Each topic gets its own error code. ``charge`` charges the partitions to the client's quota.
    """
    records: list[MetadataRecord] = []
    results: list[CreatePartitionsTopicResult] = []
    counts = Counter(topic.name for topic in request.topics)
    left_count = defaults.max_partitions_per_request
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            refuse_repetition(topic.name, counts[topic.name])
            added = _create(image, topic, left_count, charge)
        except KafkaError as error:
            results.append(
                CreatePartitionsTopicResult(
                    name=topic.name, error_code=error.code, error_message=str(error)
                )
            )
            continue
        left_count -= len(added)
        records += added
        results.append(CreatePartitionsTopicResult(name=topic.name))
    return [] if request.validate_only else records, CreatePartitionsResponse(results=results)


def _create(
    image: MetadataImage, asked: CreatePartitionsTopic, left_count: int, charge: ChargePartitions
) -> list[MetadataRecord]:
    topic = image.topics.by_name.get(asked.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {asked.name}")
    present_count = len(topic.partitions)
    added_count = asked.count - present_count
    if added_count <= 0:
        text = (
            f"topic {asked.name} has {present_count} partition(s); {asked.count} would not be more"
        )
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, text)
    if added_count > left_count:
        text = (
            f"the request asks for more new partitions than are allowed at once, {left_count} are"
            " left; ask for less"
        )
        raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
    replicas = (
        _assigned(image, asked, topic, added_count)
        if asked.assignments is not None
        else _placed(image, topic, added_count)
    )
    charge(added_count)
    return [
        partition_record(topic.topic_id, index, registered(image, node_ids, index))
        for index, node_ids in enumerate(replicas, start=present_count)
    ]


def _placed(image: MetadataImage, topic: TopicImage, added_count: int) -> list[tuple[NodeId, ...]]:
    return place_replicas(
        placeable_brokers(image),
        partition_count=added_count,
        replication_factor=_factor(topic),
        seed=topic.topic_id.int + len(topic.partitions),
    )


def _factor(topic: TopicImage) -> int:
    return len(topic.partitions[0].replicas)


def _assigned(
    image: MetadataImage, asked: CreatePartitionsTopic, topic: TopicImage, added_count: int
) -> Sequence[tuple[NodeId, ...]]:
    assignments = asked.assignments or []
    if len(assignments) != added_count:
        text = (
            f"{added_count} partition(s) would be added, but {len(assignments)} assignment(s) are"
            " given"
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return [
        validated_replicas(image, assignment.broker_ids, index, _factor(topic))
        for index, assignment in enumerate(assignments, start=len(topic.partitions))
    ]
