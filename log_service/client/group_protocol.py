"""Encodes and decodes subscriptions and assignments of classic consumer groups.

Members exchange these bytes through the coordinator, in the format of every Kafka client. The
client writes version 3 of the subscription (owned partitions, generation and rack, KIP-792,
KIP-881) and version 1 of the assignment. It reads every version. A version that it does not know is
read as the newest known one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from struct import Struct, error, iter_unpack

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
STICKY = "sticky"
COOPERATIVE_STICKY = "cooperative-sticky"
_VERSION = _INT16 = Struct(">h")
_INT32 = Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Topics that a member wants and partitions that it owns.

    ``generation_id`` is the generation in which the member owned ``owned``, or -1 if unknown.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    user_data: bytes | None = None
    rack: str | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    """Return the bytes of a subscription, version first."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in _grouped(subscription.owned)
        ],
        generation_id=subscription.generation_id,
        rack_id=subscription.rack,
    )
    return _VERSION.pack(SUBSCRIPTION_VERSION) + encode(message, SUBSCRIPTION_VERSION)


def decode_subscription(encoded: bytes) -> Subscription:
    """Decode a subscription.

    Raises:
        ProtocolError: the bytes are not a subscription.
    """
    version = _version_of(encoded, SUBSCRIPTION_VERSION)
    message, _ = decode(ConsumerProtocolSubscription, version, encoded, _VERSION.size)
    owned = tuple(
        TopicPartition(each.topic, number)
        for each in message.owned_partitions
        for number in each.partitions
    )
    return Subscription(
        topics=tuple(message.topics),
        owned=owned,
        generation_id=message.generation_id,
        user_data=message.user_data,
        rack=message.rack_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the bytes of an assignment, version first."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in _grouped(partitions)
        ],
        user_data=None,
    )
    return _VERSION.pack(ASSIGNMENT_VERSION) + encode(message, ASSIGNMENT_VERSION)


def decode_assignment(encoded: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of an assignment. Empty bytes are an empty assignment.

    Raises:
        ProtocolError: the bytes are not an assignment.
    """
    if not encoded:
        return ()
    version = _version_of(encoded, ASSIGNMENT_VERSION)
    message, _ = decode(ConsumerProtocolAssignment, version, encoded, _VERSION.size)
    return tuple(
        TopicPartition(each.topic, number)
        for each in message.assigned_partitions
        for number in each.partitions
    )


def _version_of(encoded: bytes, newest: int) -> int:
    try:
        (version,) = _VERSION.unpack_from(encoded)
    except error:
        raise ProtocolError(
            f"{len(encoded)} bytes are neither a subscription nor an assignment"
        ) from None
    if version < 0:
        raise ProtocolError(f"a subscription or assignment has no version {version}")
    return min(int(version), newest)


def _grouped(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    grouped: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        grouped.setdefault(topic, []).append(number)
    return list(grouped.items())


# User data of the sticky assignors


def subscription_for(
    assignor: str,
    topics: Iterable[str],
    owned: Iterable[TopicPartition],
    generation_id: int,
    rack: str,
) -> Subscription:
    """Return the subscription that a member sends for one assignor.

    Only ``cooperative-sticky`` gets ``owned`` as owned partitions, because members with other
    assignors give them up before joining. ``sticky`` gets them in its user data (KIP-54).
    """
    previous = tuple(owned)
    user_data = None
    if assignor == COOPERATIVE_STICKY:
        user_data = _INT32.pack(generation_id)
    elif assignor == STICKY:
        user_data = _encode_previous(previous, generation_id)
    return Subscription(
        topics=tuple(topics),
        owned=previous if assignor == COOPERATIVE_STICKY else (),
        generation_id=generation_id,
        user_data=user_data,
        rack=rack or None,
    )


def with_previous_assignment(assignor: str, subscription: Subscription) -> Subscription:
    """Return the subscription with the fields that a sticky assignor keeps in its user data.

    They are the generation and, with ``sticky``, the previously owned partitions. Subscriptions for
    other assignors are returned unchanged.
    """
    if not subscription.user_data:
        return subscription
    if assignor == STICKY:
        owned, generation_id = _decode_previous(subscription.user_data)
        return replace(subscription, owned=owned, generation_id=generation_id)
    if (
        assignor == COOPERATIVE_STICKY
        and subscription.generation_id == NO_GENERATION
        and len(subscription.user_data) >= _INT32.size
    ):
        return replace(subscription, generation_id=_INT32.unpack_from(subscription.user_data)[0])
    return subscription


def _encode_previous(owned: Iterable[TopicPartition], generation_id: int) -> bytes:
    topics = _grouped(owned)
    parts = [_INT32.pack(len(topics))]
    for topic, numbers in topics:
        name = topic.encode()
        parts += [
            _INT16.pack(len(name)),
            name,
            _INT32.pack(len(numbers)),
            *map(_INT32.pack, numbers),
        ]
    parts.append(_INT32.pack(generation_id))
    return b"".join(parts)


def _decode_previous(user_data: bytes) -> tuple[tuple[TopicPartition, ...], int]:
    """Decode the previously owned partitions and their generation from sticky's user data.

    If the bytes are malformed, the member counts as one that owned nothing.
    """
    owned: list[TopicPartition] = []
    try:
        (topic_count,), position = _INT32.unpack_from(user_data), 4
        for _ in range(topic_count):
            (size,) = _INT16.unpack_from(user_data, position)
            topic = user_data[position + 2 : position + 2 + size].decode()
            (count,) = _INT32.unpack_from(user_data, position + 2 + size)
            position += 6 + size
            owned += [
                TopicPartition(topic, number)
                for (number,) in iter_unpack(">i", user_data[position : position + 4 * count])
            ]
            position += 4 * count
        generation_id = (
            _INT32.unpack_from(user_data, position)[0]
            if position < len(user_data)
            else NO_GENERATION
        )
    except (error, UnicodeDecodeError):
        return (), NO_GENERATION
    return tuple(owned), generation_id
