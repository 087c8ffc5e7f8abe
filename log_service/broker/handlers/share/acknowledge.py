"""ShareAcknowledge (API key 79), versions 1-2.

Behaviour: a member acknowledges records that it has acquired. It accepts them, releases them for
another delivery, rejects them, or reports that the log holds no record at an offset. The broker
responds once the share coordinator has stored that. The acknowledgements of one partition count
together or not at all. The final epoch ends the member's share session afterwards, and releases its
remaining records.

Versions: 1 as in Apache Kafka 4.2; 2 renewal of locks, and the response has the duration of a lock
(KIP-1222).

Acknowledgements that come with a ShareFetch are checked and stored by the same functions.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from log_service.broker.cluster_view import NO_HINT, STALE_LEADER, hinted_brokers, leader_hint
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.broker.share.session import MAX_MEMBER_ID_LENGTH, SessionKey, SharedPartition
from log_service.broker.share.shares import Shares
from log_service.common.access import AclOperation, AclResource
from log_service.common.errors import ErrorCode, KafkaError, kept
from log_service.common.features import SHARE_VERSION
from log_service.common.session_epochs import FINAL_EPOCH
from log_service.common.types import TopicId
from log_service.coordinator.share.acknowledging import AcknowledgedRange
from log_service.coordinator.share.record_states import AcknowledgeType
from log_service.coordinator.share.share_state import ShareKey
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

FIRST_VERSION_WITH_RENEWAL = 2

Outcomes = dict[SharedPartition, KafkaError | None]
Asked = Mapping[SharedPartition, list[Any]]
"""The acknowledgement batches of a request by partition."""


def session_key(node: Node, group_id: str | None, member_id: str | None) -> SessionKey:
    """Return the group and the member of a request.

    Raises:
        KafkaError: UNSUPPORTED_VERSION, the cluster has no share groups; INVALID_REQUEST, a missing
            group or an invalid member id.
    """
    if not node.image().features.get(SHARE_VERSION, 0):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "share groups are not switched on: share.version is 0"
        )
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the request names no group")
    if not member_id or len(member_id) > MAX_MEMBER_ID_LENGTH:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"a member id has 1 to {MAX_MEMBER_ID_LENGTH} characters"
        )
    return SessionKey(group_id=group_id, member_id=member_id)


def handle_share_acknowledge(node: Node, call: Call, request: ShareAcknowledgeRequest) -> Deferred:
    """Respond once the acknowledgements are stored."""
    key = session_key(node, request.group_id, request.member_id)
    session = node.shares.sessions.accept_acknowledgement(key, request.share_session_epoch)
    deferred = call.defer()

    def respond(outcomes: Outcomes) -> None:
        if request.share_session_epoch == FINAL_EPOCH:
            node.shares.end_session(session)
        deferred.complete_with(lambda: _response(node, call, key.group_id, outcomes))

    asked = batches_of(request.topics)
    acknowledge(node, call, key, asked, respond, is_renewing=request.is_renew_ack)
    return deferred


def batches_of(topics: Iterable[Any]) -> dict[SharedPartition, list[Any]]:
    """Return the acknowledgement batches of a request by partition.

    The last batches of a repeated partition count.
    """
    return {
        (topic.topic_id, partition.partition_index): partition.acknowledgement_batches
        for topic in topics
        for partition in topic.partitions
    }


def acknowledge(
    node: Node,
    call: Call,
    key: SessionKey,
    asked: Asked,
    on_done: Callable[[Outcomes], None],
    *,
    is_renewing: bool,
) -> None:
    """Acknowledge the batches of each partition, and call ``on_done`` once with all outcomes.

    If no batch needs to be stored, partitions without batches are left out of the outcomes, as in
    Apache Kafka.
    """
    image, shares = node.image(), node.shares
    outcomes: Outcomes = {}
    stored: list[tuple[SharedPartition, list[AcknowledgedRange]]] = []
    silent: list[SharedPartition] = []
    for where, batches in asked.items():
        try:
            check_readable(image, call, where)
            ranges = validated_ranges(
                batches,
                has_renewal=call.version >= FIRST_VERSION_WITH_RENEWAL,
                is_renewing=is_renewing,
            )
            check_exists(image, where)
        except KafkaError as error:
            outcomes[where] = kept(error)
            continue
        if ranges:
            stored.append((where, ranges))
        else:
            silent.append(where)
    if not stored:
        on_done(outcomes)
        return
    outcomes.update(dict.fromkeys(silent))
    waiting = {where for where, _ in stored}

    def on_stored(where: SharedPartition, error: KafkaError | None) -> None:
        outcomes[where] = None if error is None else kept(error)
        waiting.discard(where)
        if not waiting:
            on_done(outcomes)

    for where, ranges in stored:
        _acknowledge_one(shares, key, where, ranges, partial(on_stored, where))


def _acknowledge_one(
    shares: Shares,
    key: SessionKey,
    where: SharedPartition,
    ranges: list[AcknowledgedRange],
    on_done: Callable[[KafkaError | None], None],
) -> None:
    topic_id, index = where
    led = shares.find(ShareKey(group_id=key.group_id, topic_id=topic_id, partition=index))
    if led is None:
        on_done(
            KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "the group has acquired nothing of this partition here",
            )
        )
        return
    partition, core = led.partition, led.core
    start_offset = 0 if core is None else core.start_offset

    def count(error: KafkaError | None) -> None:
        partition.share_acknowledge_count += 1
        partition.failed_share_acknowledge_count += error is not None
        if error is None:
            shares.count_acknowledged(ranges, start_offset)
        on_done(error)

    led.acknowledge(key.member_id, ranges, count)


def check_readable(image: MetadataImage, call: Call, where: SharedPartition) -> None:
    """Check that the client may read a partition's topic, if the topic exists.

    ``check_exists`` handles unknown topics.

    Raises:
        KafkaError: TOPIC_AUTHORIZATION_FAILED.
    """
    topic = None if call.access is None else image.topics.by_id.get(TopicId(where[0]))
    if call.access is not None and topic is not None:
        call.access.require(AclOperation.READ, AclResource.TOPIC, topic.name)


def check_exists(image: MetadataImage, where: SharedPartition) -> str:
    """Return the name of a partition's topic.

    Raises:
        KafkaError: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION.
    """
    topic_id, index = where
    topic = image.topics.by_id.get(TopicId(topic_id))
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic of id {topic_id}")
    if index not in topic.partitions:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic.name}-{index}"
        )
    return topic.name


def validated_ranges(
    batches: Iterable[Any], *, has_renewal: bool, is_renewing: bool
) -> list[AcknowledgedRange]:
    """Return the acknowledged ranges of a partition's batches, in the order of their offsets.

    Raises:
        KafkaError: INVALID_REQUEST, the batches are inconsistent, or renew a lock although the
            request does not set IsRenewAck.
    """
    last_type = AcknowledgeType.RENEW if has_renewal else AcknowledgeType.REJECT
    ranges = []
    previous = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < previous:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"offsets {first} to {last} are in no order"
            )
        if not types or (len(types) > 1 and len(types) != last - first + 1):
            text = (
                f"{len(types)} types for offsets {first} to {last}: send one type for all, or one"
                " for each"
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        if min(types) < 0 or max(types) > last_type:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"acknowledge types are 0 to {last_type}, not {min(types)} to {max(types)}",
            )
        if not is_renewing and AcknowledgeType.RENEW in types:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "locks are renewed by a request that says so: set IsRenewAck",
            )
        ranges.append(AcknowledgedRange(first_offset=first, last_offset=last, types=types))
        previous = last
    return ranges


def _response(
    node: Node, call: Call, group_id: str, outcomes: Outcomes
) -> ShareAcknowledgeResponse:
    image = node.image()
    response = ShareAcknowledgeResponse()
    if call.version >= FIRST_VERSION_WITH_RENEWAL:
        response.acquisition_lock_timeout_ms = node.shares.settings(
            group_id
        ).records.record_lock_duration_ms
    results = {
        where: PartitionData(
            partition_index=where[1],
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else str(error),
        )
        for where, error in outcomes.items()
    }
    add_partitions(call, image, response, results, PARTS)
    return response


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The message classes of which the response to a request of a share session consists."""

    topic: type[Any]
    leader: type[Any]
    endpoint: type[Any]


PARTS = Parts(topic=ShareAcknowledgeTopicResponse, leader=LeaderIdAndEpoch, endpoint=NodeEndpoint)


def add_partitions(
    call: Call,
    image: MetadataImage,
    response: Any,
    results: Mapping[SharedPartition, Any],
    parts: Parts,
    *,
    unled: Collection[SharedPartition] = (),
) -> None:
    """Add partitions by topic, and name the new leaders of those that moved away (KIP-951).

    All other errors name leader -1, because franz-go 1.22 fetches from any leader beside an error
    until its metadata changes:

    - An error that is not about the leader would name broker 0, the default of the field.
    - This node did not lead the partitions of ``unled`` when it was asked. The client may know of a
      later election than this node, and the leader that this node knows may be dead.

    (Apache Kafka 4.3 names both.)
    """
    topics: dict[UUID, Any] = {}
    leaders: list[int] = []
    for (topic_id, index), partition in results.items():
        if partition.error_code:
            is_named = partition.error_code in STALE_LEADER and (topic_id, index) not in unled
            leader = leader_hint(image, "", topic_id, index) if is_named else NO_HINT
            partition.current_leader = parts.leader(
                leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
            )
            leaders.append(leader.leader_id)
        topics.setdefault(topic_id, parts.topic(topic_id=topic_id)).partitions.append(partition)
    response.responses = list(topics.values())
    response.node_endpoints = [
        parts.endpoint(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
        for broker in hinted_brokers(image, call.connection.listener_name, leaders)
    ]
