"""Consumer groups, their members, and their lag in each partition."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from log_service.client import (
    GroupDescription,
    MemberDescription,
    OffsetSpec,
    TopicPartition,
)
from log_service.http.rest_proxy.bodies import json_response
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v3.documents import ClusterCall, Document
from log_service.http.server.values import HttpResponse

NO_GROUP: Final = "Dead"
GROUP_TYPES: Final = ("classic", "consumer")
CONSUMER_PROTOCOLS: Final = ("consumer", "")
WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The lag of a group in one partition. ``member`` is None if no member reads it."""

    where: TopicPartition
    current_offset: int
    log_end_offset: int
    member: MemberDescription | None

    @property
    def lag(self) -> int:
        """The number of records after the committed offset."""
        return max(self.log_end_offset - self.current_offset, 0)


async def list_groups(at: ClusterCall) -> HttpResponse:
    """Return the consumer groups that the caller may see."""
    listed = await at.admin.list_groups()
    ids = [
        each.group_id
        for each in listed
        if each.group_type.lower() in {*GROUP_TYPES, ""}
        and each.protocol_type in CONSUMER_PROTOCOLS
    ]
    groups = await at.admin.describe_groups(ids) if ids else {}
    documents = (_group(at, each) for each in groups.values())
    return at.listed("KafkaConsumerGroupList", ("consumer-groups",), documents)


async def get_group(at: ClusterCall) -> HttpResponse:
    """Return one group."""
    return json_response(_group(at, await _named(at)))


async def list_consumers(at: ClusterCall) -> HttpResponse:
    """Return the members of a group."""
    group = await _named(at)
    documents = (_consumer(at, group.group_id, each) for each in group.members)
    path = ("consumer-groups", group.group_id, "consumers")
    return at.listed("KafkaConsumerList", path, documents)


async def get_consumer(at: ClusterCall) -> HttpResponse:
    """Return one member of a group."""
    group = await _named(at)
    return json_response(_consumer(at, group.group_id, member_of(at, group.members)))


async def list_assignments(at: ClusterCall) -> HttpResponse:
    """Return the partitions of a member."""
    group = await _named(at)
    member = member_of(at, group.members)
    documents = (_assignment(at, group.group_id, member, each) for each in member.assignment)
    path = ("consumer-groups", group.group_id, "consumers", member.member_id, "assignments")
    return at.listed("KafkaConsumerAssignmentList", path, documents)


async def get_assignment(at: ClusterCall) -> HttpResponse:
    """Return one partition of a member."""
    group = await _named(at)
    member, where = member_of(at, group.members), _named_partition(at)
    if where not in member.assignment:
        raise RestError(404, f"Partition {where} is not assigned to this consumer.")
    return json_response(_assignment(at, group.group_id, member, where))


async def list_lags(at: ClusterCall) -> HttpResponse:
    """Return the lag of a group in each partition for which it has committed an offset."""
    group = await _named(at)
    lags = await lags_of(at, group)
    path = ("consumer-groups", group.group_id, "lags")
    return at.listed(
        "KafkaConsumerLagList", path, (_lag(at, group.group_id, each) for each in lags)
    )


async def get_lag(at: ClusterCall) -> HttpResponse:
    """Return the lag of a group in one partition."""
    group = await _named(at)
    wanted = _named_partition(at)
    for each in await lags_of(at, group):
        if each.where == wanted:
            return json_response(_lag(at, group.group_id, each))
    raise RestError(404, f"The group has committed no offset of partition {wanted}.")


async def get_lag_summary(at: ClusterCall) -> HttpResponse:
    """Return the largest of a group's lags in its partitions, and the sum of all of them."""
    group = await _named(at)
    lags = await lags_of(at, group)
    if not lags:
        raise RestError(404, "The group has committed no offsets.")
    worst = max(lags, key=lambda each: each.lag)
    path = ("consumer-groups", group.group_id)
    member_id = _id(worst.member)
    document = at.document(
        "KafkaConsumerGroupLagSummary",
        (*path, "lag-summary"),
        ("consumer-group", group.group_id, "lag-summary", None),
        consumer_group_id=group.group_id,
        max_lag_consumer_id=member_id,
        max_lag_instance_id=None if worst.member is None else worst.member.group_instance_id,
        max_lag_client_id="" if worst.member is None else worst.member.client_id,
        max_lag_topic_name=worst.where.topic,
        max_lag_partition_id=worst.where.partition,
        max_lag=worst.lag,
        total_lag=sum(each.lag for each in lags),
        max_lag_consumer=at.related(*path, "consumers", member_id),
        max_lag_partition=at.related(
            "topics", worst.where.topic, "partitions", worst.where.partition
        ),
    )
    return json_response(document)


async def lags_of(at: ClusterCall, group: GroupDescription) -> list[PartitionLag]:
    """Return the lag of a group in each partition for which it has committed an offset."""
    committed = await at.admin.list_group_offsets(group.group_id)
    if not committed:
        return []
    ends = await at.admin.list_offsets(dict.fromkeys(committed, OffsetSpec.latest()))
    readers = {where: each for each in group.members for where in each.assignment}
    return [
        PartitionLag(
            where=where,
            current_offset=committed[where].offset,
            log_end_offset=ends[where].offset,
            member=readers.get(where),
        )
        for where in sorted(committed)
        if where in ends
    ]


async def _named(at: ClusterCall) -> GroupDescription:
    """Return the group that the path names.

    Raises:
        RestError: 404, the group does not exist.
    """
    name = at.value("group")
    found = (await at.admin.describe_groups([name]))[name]
    if found.state == NO_GROUP:
        raise RestError(404, f"Consumer group {name[:100]} cannot be found.")
    return found


class HasMemberId(Protocol):
    """A member of a group of any type."""

    @property
    def member_id(self) -> str:
        """The id that the coordinator or the member chose."""


M = TypeVar("M", bound=HasMemberId)


def member_of(at: ClusterCall, members: Iterable[M]) -> M:
    """Return the member that the path names.

    Raises:
        RestError: 404, the group has no member with this id.
    """
    wanted = at.value("consumer")
    for each in members:
        if each.member_id == wanted:
            return each
    raise RestError(404, f"Consumer {wanted[:100]} cannot be found.")


def shown_state(state: str) -> str:
    """Return the state of a group as the API shows it, such as ``PREPARING_REBALANCE``."""
    return WORD_START.sub("_", state).upper()


def _named_partition(at: ClusterCall) -> TopicPartition:
    text = at.value("partition")
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise RestError(404, f"HTTP 404 Not Found: {text[:30]} is no partition")
    return TopicPartition(at.value("topic"), int(text))


def _id(member: MemberDescription | None) -> str:
    return "" if member is None else member.member_id


def _group(at: ClusterCall, group: GroupDescription) -> Document:
    path = ("consumer-groups", group.group_id)
    return at.document(
        "KafkaConsumerGroup",
        path,
        ("consumer-group", group.group_id),
        consumer_group_id=group.group_id,
        is_simple=not group.protocol_type,
        partition_assignor=group.assignor,
        state=shown_state(group.state),
        coordinator=at.related("brokers", group.coordinator.node_id),
        consumers=at.related(*path, "consumers"),
        lag_summary=at.related(*path, "lag-summary"),
    )


def _consumer(at: ClusterCall, group_id: str, member: MemberDescription) -> Document:
    path = ("consumer-groups", group_id, "consumers", member.member_id)
    return at.document(
        "KafkaConsumer",
        path,
        ("consumer-group", group_id, "consumer", member.member_id),
        consumer_group_id=group_id,
        consumer_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        assignments=at.related(*path, "assignments"),
    )


def _assignment(
    at: ClusterCall, group_id: str, member: MemberDescription, where: TopicPartition
) -> Document:
    path = ("consumer-groups", group_id, "consumers", member.member_id, "assignments")
    return at.document(
        "KafkaConsumerAssignment",
        (*path, where.topic, "partitions", where.partition),
        ("consumer-group", group_id, "consumer", member.member_id, *_names("assignment", where)),
        consumer_group_id=group_id,
        consumer_id=member.member_id,
        topic_name=where.topic,
        partition_id=where.partition,
        partition=at.related("topics", where.topic, "partitions", where.partition),
        lag=at.related(*_lag_path(group_id, where)),
    )


def _names(kind: str, where: TopicPartition) -> tuple[object, ...]:
    return (kind, where.topic, "partition", where.partition)


def _lag_path(group_id: str, where: TopicPartition) -> tuple[object, ...]:
    return ("consumer-groups", group_id, "lags", where.topic, "partitions", where.partition)


def _lag(at: ClusterCall, group_id: str, lag: PartitionLag) -> Document:
    return at.document(
        "KafkaConsumerLag",
        _lag_path(group_id, lag.where),
        ("consumer-group", group_id, *_names("lag", lag.where)),
        consumer_group_id=group_id,
        topic_name=lag.where.topic,
        partition_id=lag.where.partition,
        current_offset=lag.current_offset,
        log_end_offset=lag.log_end_offset,
        lag=lag.lag,
        consumer_id=_id(lag.member),
        instance_id=None if lag.member is None else lag.member.group_instance_id,
        client_id="" if lag.member is None else lag.member.client_id,
    )
