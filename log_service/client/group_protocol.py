"""The bytes that members of a consumer group exchange through the coordinator: subscriptions and assignments, as every Kafka client writes
them.

Decides the versions: what is written is version 3 of the subscription (owned partitions, generation and rack, KIP-792, KIP-881) and version
1 of the assignment; what is read is any version, a newer one as the newest that is known here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct, error

from log_service.common.errors import ProtocolError
from log_service.common.types import TopicPartition
from log_service.protocol.codec import decode, encode
from log_service.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

CONSUMER_PROTOCOL_TYPE = "consumer"
SUBSCRIPTION_VERSION = 3
ASSIGNMENT_VERSION = 1
NO_GENERATION = -1
_VERSION = Struct(">h")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member wants and has. ``generation_id`` is the one in which it owned ``owned``, -1 where it does not tell."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    user_data: bytes | None = None
    rack: str | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    """Return a subscription's bytes, version first."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=numbers) for topic, numbers in _grouped(subscription.owned)
        ],
        generation_id=subscription.generation_id,
        rack_id=subscription.rack,
    )
    return _VERSION.pack(SUBSCRIPTION_VERSION) + encode(message, SUBSCRIPTION_VERSION)


def decode_subscription(encoded: bytes) -> Subscription:
    """Read a subscription.

    Raises:
        ProtocolError: the bytes are none.
    """
    version = _version_of(encoded, SUBSCRIPTION_VERSION)
    message, _ = decode(ConsumerProtocolSubscription, version, encoded, _VERSION.size)
    owned = tuple(TopicPartition(each.topic, number) for each in message.owned_partitions for number in each.partitions)
    return Subscription(
        topics=tuple(message.topics), owned=owned, generation_id=message.generation_id, user_data=message.user_data, rack=message.rack_id
    )


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    """Return an assignment's bytes, version first."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=numbers) for topic, numbers in _grouped(partitions)
        ],
        user_data=user_data,
    )
    return _VERSION.pack(ASSIGNMENT_VERSION) + encode(message, ASSIGNMENT_VERSION)


def decode_assignment(encoded: bytes) -> tuple[TopicPartition, ...]:
    """Read the partitions of an assignment; no bytes are no partitions.

    Raises:
        ProtocolError: the bytes are none.
    """
    if not encoded:
        return ()
    version = _version_of(encoded, ASSIGNMENT_VERSION)
    message, _ = decode(ConsumerProtocolAssignment, version, encoded, _VERSION.size)
    return tuple(TopicPartition(each.topic, number) for each in message.assigned_partitions for number in each.partitions)


def _version_of(encoded: bytes, newest: int) -> int:
    try:
        (version,) = _VERSION.unpack_from(encoded)
    except error:
        raise ProtocolError(f"{len(encoded)} bytes are neither a subscription nor an assignment") from None
    if version < 0:
        raise ProtocolError(f"a subscription or assignment has no version {version}")
    return min(int(version), newest)


def _grouped(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    grouped: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        grouped.setdefault(topic, []).append(number)
    return list(grouped.items())


def is_same(first: Sequence[TopicPartition], second: Sequence[TopicPartition]) -> bool:
    """Whether two assignments hold the same partitions."""
    return sorted(first) == sorted(second)
