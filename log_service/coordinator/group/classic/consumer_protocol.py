"""Decode and encode the subscriptions and assignments that classic consumers exchange.

The coordinator reads the subscribed topics in every classic group of consumers. If a classic
consumer is a member of a consumer group (KIP-848), the coordinator also reads its owned partitions,
its rack and its assignment. All other content matters only to the members. This file knows the
public format in all versions. It reads a newer version as the newest known one.
"""

import struct
from collections.abc import Mapping
from uuid import UUID

from log_service.common.errors import ProtocolError
from log_service.common.types import TopicId
from log_service.coordinator.group.values.partitions import Partitions, in_order
from log_service.metadata.image import MetadataImage
from log_service.protocol.codec import decode, encode
from log_service.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from log_service.protocol.schema import version_span

CONSUMER_PROTOCOL_TYPE = "consumer"
NEWEST_VERSION = version_span(ConsumerProtocolSubscription.SCHEMA.valid)[1]

_VERSION = struct.Struct(">h")


def subscription_of(metadata: bytes) -> ConsumerProtocolSubscription:
    """Return a member's subscription from its metadata.

    Raises:
        ProtocolError: the bytes are not a subscription.
    """
    subscription, _ = decode(
        ConsumerProtocolSubscription, _known_version(metadata), metadata, _VERSION.size
    )
    return subscription


def subscribed_topics_of(metadata: bytes) -> list[str]:
    """Return the subscribed topics from a member's metadata.

    Raises:
        ProtocolError: the bytes are not a subscription.
    """
    return subscription_of(metadata).topics


def assignment_of(assignment: bytes, image: MetadataImage) -> Partitions:
    """Return the partitions of a member's assignment, without topics that do not exist.

    Empty bytes are an assignment without partitions.

    Raises:
        ProtocolError: the bytes are not an assignment, or they hold user data of a custom assignor.
    """
    if not assignment:
        return {}
    message, _ = decode(
        ConsumerProtocolAssignment, _known_version(assignment), assignment, _VERSION.size
    )
    if message.user_data:
        raise ProtocolError("the assignment holds user data of a custom assignor")
    return _by_topic_id(message.assigned_partitions, image)


def owned_partitions_of(
    subscription: ConsumerProtocolSubscription, image: MetadataImage
) -> Partitions:
    """Return the partitions that a member reports as owned, without topics that do not exist."""
    return _by_topic_id(subscription.owned_partitions, image)


def _by_topic_id(
    topics: (
        list[ConsumerProtocolAssignmentTopicPartition]
        | list[ConsumerProtocolSubscriptionTopicPartition]
    ),
    image: MetadataImage,
) -> Partitions:
    found: dict[UUID, frozenset[int]] = {}
    for each in topics:
        topic = image.topics.by_name.get(each.topic)
        if topic is not None and each.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | frozenset(
                each.partitions
            )
    return found


def encode_assignment(partitions: Partitions, image: MetadataImage, subscription: bytes) -> bytes:
    """Encode a member's assignment in the version of its subscription.

    Topics that no longer exist are left out.
    """
    named: Mapping[str, list[int]] = {
        topic.name: indexes
        for topic_id, indexes in in_order(partitions)
        if (topic := image.topics.by_id.get(TopicId(topic_id))) is not None
    }
    topics = [
        ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=indexes)
        for name, indexes in named.items()
    ]
    version = max(_known_version(subscription), 0) if len(subscription) >= _VERSION.size else 0
    return _VERSION.pack(version) + encode(
        ConsumerProtocolAssignment(assigned_partitions=topics), version
    )


def _known_version(metadata: bytes) -> int:
    if len(metadata) < _VERSION.size:
        raise ProtocolError(f"{len(metadata)} bytes are neither a subscription nor an assignment")
    version: int = _VERSION.unpack_from(metadata)[0]
    return min(version, NEWEST_VERSION)
