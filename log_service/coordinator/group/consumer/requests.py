"""Validate a ConsumerGroupHeartbeat without looking at its group, and read its fields.

These are plain functions of the request. The source is KIP-848 as of Kafka 4.3. The error texts are
our own.
"""

from dataclasses import replace

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.group.values.consumer_member import (
    ConsumerMember,
    CurrentAssignment,
    Subscription,
)
from log_service.coordinator.group.values.epochs import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from log_service.coordinator.group.values.partitions import (
    Partitions,
    in_order,
    is_subset,
    partitions_of,
)
from log_service.coordinator.request_context import RequestContext
from log_service.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ResponseTopicPartitions,
)

FIRST_VERSION_WITH_CLIENT_IDS = 1
NO_TIMEOUT = -1


def validate_heartbeat(
    request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]
) -> None:
    """Validate the fields of a request, without looking at its group.

    Raises:
        KafkaError: INVALID_REQUEST or UNSUPPORTED_ASSIGNOR, with the reason.
    """
    complaint = _complaint(request, api_version)
    if complaint is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, complaint)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        offered = ", ".join(assignors)
        text = (
            f"ServerAssignor {request.server_assignor} is not offered; the assignors of this broker"
            f" are {offered}"
        )
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, text)


def _complaint(request: ConsumerGroupHeartbeatRequest, api_version: int) -> str | None:
    epoch = request.member_epoch
    needs_id = api_version >= FIRST_VERSION_WITH_CLIENT_IDS or epoch != JOIN_EPOCH
    rules = (
        (needs_id and not request.member_id.strip(), "MemberId can't be empty."),
        (not request.group_id.strip(), "GroupId can't be empty."),
        (_is_blank(request.instance_id), "InstanceId can't be empty."),
        (_is_blank(request.rack_id), "RackId can't be empty."),
        (
            epoch == JOIN_EPOCH and request.rebalance_timeout_ms == NO_TIMEOUT,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (
            epoch == JOIN_EPOCH
            and (request.topic_partitions is None or bool(request.topic_partitions)),
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            epoch == JOIN_EPOCH
            and request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None,
            (
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when"
                " (re-)joining."
            ),
        ),
        (epoch == STATIC_LEAVE_EPOCH and request.instance_id is None, "InstanceId can't be null."),
        (
            epoch < STATIC_LEAVE_EPOCH,
            f"MemberEpoch is {epoch}, but must be greater than or equal to -2.",
        ),
    )
    return next((text for is_wrong, text in rules if is_wrong), None)


def _is_blank(text: str | None) -> bool:
    return text is not None and not text.strip()


def is_leaving(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the member leaves. A static member may leave temporarily."""
    return request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the request holds all fields, as a join does.

    The response to such a request must hold the assignment.
    """
    has_subscription = (
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    )
    is_complete = (
        request.rebalance_timeout_ms != NO_TIMEOUT
        and has_subscription
        and request.topic_partitions is not None
    )
    return request.member_epoch == JOIN_EPOCH or is_complete


def owned_partitions(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    """Return the partitions that the member reports as owned, or None if it does not report."""
    return None if request.topic_partitions is None else partitions_of(request.topic_partitions)


def updated_subscription(
    old: Subscription, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> Subscription:
    """Return a member's subscription after a request. A null field leaves its value unchanged."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    return replace(
        old,
        instance_id=old.instance_id if request.instance_id is None else request.instance_id,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        topics=old.topics if names is None else tuple(sorted(set(names))),
        regex=old.regex if regex is None else regex,
        rebalance_timeout_ms=(
            old.rebalance_timeout_ms
            if request.rebalance_timeout_ms == NO_TIMEOUT
            else request.rebalance_timeout_ms
        ),
        assignor=old.assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )


def validate_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    """Validate the member epoch of a request.

    The member's previous epoch is valid too, if the response with the current epoch may have been
    lost.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH, the member must give up all partitions and join again.
    """
    current = member.current
    if epoch in (JOIN_EPOCH, current.epoch):
        return
    if epoch > current.epoch:
        text = (
            f"The consumer group member has a greater member epoch ({epoch}) than the one known by"
            f" the group coordinator ({current.epoch}). The member must abandon all its partitions"
            " and rejoin."
        )
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)
    was_reply_lost = (
        epoch == current.previous_epoch and owned is not None and is_subset(owned, current.assigned)
    )
    if not was_reply_lost:
        text = (
            f"The consumer group member has a smaller member epoch ({epoch}) than the one known by"
            f" the group coordinator ({current.epoch}). The member must abandon all its partitions"
            " and rejoin."
        )
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)


def assignment_of(current: CurrentAssignment) -> Assignment:
    """Return the assignment for a response, without partitions yet to be revoked."""
    topics = [
        ResponseTopicPartitions(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in in_order(current.assigned)
    ]
    return Assignment(topic_partitions=topics)
