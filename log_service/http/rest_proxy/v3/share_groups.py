"""Share groups and their members. The queues of a share group are in version 1."""

from log_service.client import ShareGroupDescription, ShareMemberDescription, TopicPartition
from log_service.http.rest_proxy.bodies import json_response
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v3.documents import ClusterCall, Document
from log_service.http.rest_proxy.v3.groups import NO_GROUP, member_of, shown_state
from log_service.http.server.values import HttpResponse


async def list_groups(at: ClusterCall) -> HttpResponse:
    """Return the share groups that the caller may see."""
    ids = [each.group_id for each in await at.admin.list_groups(types=["share"])]
    groups = await at.admin.describe_share_groups(ids) if ids else {}
    documents = (_group(at, each) for each in groups.values())
    return at.listed("KafkaShareGroupList", ("share-groups",), documents)


async def get_group(at: ClusterCall) -> HttpResponse:
    """Return one share group."""
    return json_response(_group(at, await _named(at)))


async def list_consumers(at: ClusterCall) -> HttpResponse:
    """Return the members of a share group."""
    group = await _named(at)
    documents = (_consumer(at, group.group_id, each) for each in group.members)
    path = ("share-groups", group.group_id, "consumers")
    return at.listed("KafkaShareGroupConsumerList", path, documents)


async def get_consumer(at: ClusterCall) -> HttpResponse:
    """Return one member of a share group."""
    group = await _named(at)
    return json_response(_consumer(at, group.group_id, member_of(at, group.members)))


async def list_assignments(at: ClusterCall) -> HttpResponse:
    """Return the partitions of a member of a share group."""
    group = await _named(at)
    member = member_of(at, group.members)
    documents = (_assignment(at, group.group_id, member, each) for each in member.assignment)
    path = ("share-groups", group.group_id, "consumers", member.member_id, "assignments")
    return at.listed("KafkaShareGroupConsumerAssignmentList", path, documents)


async def _named(at: ClusterCall) -> ShareGroupDescription:
    """Return the share group that the path names.

    Raises:
        RestError: 404, the share group does not exist.
    """
    name = at.value("group")
    found = (await at.admin.describe_share_groups([name]))[name]
    if found.state == NO_GROUP:
        raise RestError(404, f"Share group {name[:100]} cannot be found.")
    return found


def _group(at: ClusterCall, group: ShareGroupDescription) -> Document:
    path = ("share-groups", group.group_id)
    assigned = sorted({where for member in group.members for where in member.assignment})
    return at.document(
        "KafkaShareGroup",
        path,
        ("share-group", group.group_id),
        share_group_id=group.group_id,
        state=shown_state(group.state),
        coordinator=at.related("brokers", group.coordinator.node_id),
        consumers=at.related(*path, "consumers"),
        consumer_count=len(group.members),
        partition_count=len(assigned),
        assigned_topic_partitions=[
            {"topic_name": where.topic, "partition_id": where.partition} for where in assigned
        ],
    )


def _consumer(at: ClusterCall, group_id: str, member: ShareMemberDescription) -> Document:
    path = ("share-groups", group_id, "consumers", member.member_id)
    return at.document(
        "KafkaShareGroupConsumer",
        path,
        ("share-group", group_id, "consumer", member.member_id),
        group_id=group_id,
        consumer_id=member.member_id,
        client_id=member.client_id,
        assignments=at.related(*path, "assignments"),
    )


def _assignment(
    at: ClusterCall, group_id: str, member: ShareMemberDescription, where: TopicPartition
) -> Document:
    path = ("share-groups", group_id, "consumers", member.member_id, "assignments")
    names = ("share-group", group_id, "consumer", member.member_id)
    return at.document(
        "KafkaShareGroupConsumerAssignment",
        (*path, where.topic, "partitions", where.partition),
        (*names, "assignment", where.topic, "partition", where.partition),
        group_id=group_id,
        consumer_id=member.member_id,
        topic_name=where.topic,
        partition_id=where.partition,
        partition=at.related("topics", where.topic, "partitions", where.partition),
    )
