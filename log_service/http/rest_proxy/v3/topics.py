"""Topics, their partitions and replicas, and the partitions that move to other brokers."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from log_service.client import NewTopic, Reassignment, TopicDescription, TopicPartition
from log_service.client.connections.cluster_view import PartitionView
from log_service.http.rest_proxy.bodies import (
    as_object,
    json_response,
    list_of,
    number_of,
    read_object,
    refuse_unknown,
    text_of,
    whole_number,
)
from log_service.http.rest_proxy.cluster_reading import partition_of, topic_of
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v3.clusters import broker_of
from log_service.http.rest_proxy.v3.documents import (
    NO_CONTENT,
    ClusterCall,
    Document,
    created,
)
from log_service.http.server.values import HttpResponse

MAX_COUNT: Final = 1_000_000
MAX_BROKER: Final = 2**31 - 1
WITH_OPERATIONS: Final = "include_authorized_operations"
NEW_TOPIC_FIELDS: Final = (
    "topic_name",
    "partitions_count",
    "replication_factor",
    "replicas_assignments",
    "configs",
    "validate_only",
)


async def list_topics(at: ClusterCall) -> HttpResponse:
    """Return the topics that the caller may see."""
    topics = await _all_topics(at)
    return at.listed("KafkaTopicList", ("topics",), (_topic(at, each) for each in topics))


async def _all_topics(at: ClusterCall) -> list[TopicDescription]:
    names = [each.name for each in await at.admin.list_topics(is_internal_included=True)]
    found = await at.admin.describe_topics(names) if names else {}
    return list(found.values())


async def get_topic(at: ClusterCall) -> HttpResponse:
    """Return one topic."""
    topic = await _named_topic(at)
    document = _topic(at, topic)
    if is_wanted(at, WITH_OPERATIONS):
        found = (await at.admin.describe_topic_operations([topic.name])).get(topic.name)
        if found is not None:
            document["authorized_operations"] = sorted(each.name for each in found.operations)
    return json_response(document)


def is_wanted(at: ClusterCall, name: str) -> bool:
    """Return a boolean parameter of the query. It is false if it is missing.

    Raises:
        RestError: 400, the value is neither true nor false.
    """
    text = (at.query(name) or "false").lower()
    if text not in {"true", "false"}:
        raise RestError(400, f"{name} has to be true or false.")
    return text == "true"


async def create_topic(at: ClusterCall) -> HttpResponse:
    """Create a topic, or only check whether it could be created."""
    body = await read_object(at.call.request)
    refuse_unknown(body, NEW_TOPIC_FIELDS, "The body")
    topic = new_topic(body)
    is_validated_only = flag_of(body, "validate_only")
    await at.admin.create_topics([topic], is_validated_only=is_validated_only)
    if is_validated_only:
        return json_response(_expected_topic(at, topic))
    found = await topic_of(at.admin, topic.name)
    return created(_topic(at, found))


def new_topic(body: Mapping[str, Any]) -> NewTopic:
    """Return the topic that a body describes.

    Raises:
        RestError: 422, a field is not valid.
    """
    assignments = dict(_assignments(body))
    counts: dict[str, int] = {}
    if not assignments:
        counts["partition_count"] = _count_of(body, "partitions_count", MAX_COUNT)
        counts["replication_factor"] = _count_of(body, "replication_factor", 32_767)
    configs = {
        text_of(each, "name"): config_value(each.get("value")) for each in _objects(body, "configs")
    }
    return NewTopic(
        name=text_of(body, "topic_name"),
        configs={name: value for name, value in configs.items() if value is not None},
        assignments=assignments,
        **counts,
    )


def _assignments(body: Mapping[str, Any]) -> Iterator[tuple[int, list[int]]]:
    """Yield the partitions in a body, each with the brokers of its replicas.

    The body has a list of objects, as the API is documented, or an object of lists, as Confluent's
    proxy reads it.
    """
    given = body.get("replicas_assignments")
    if isinstance(given, dict):
        pairs = [{"partition_id": name, "broker_ids": brokers} for name, brokers in given.items()]
        body = {"replicas_assignments": pairs}
    for each in _objects(body, "replicas_assignments"):
        brokers = [whole_number(broker) for broker in list_of(each, "broker_ids")]
        known = [each for each in brokers if each is not None and 0 <= each <= MAX_BROKER]
        if len(known) < len(brokers):
            raise RestError(422, f"broker_ids has to be a list of whole numbers to {MAX_BROKER}.")
        yield number_of(each, "partition_id", at_most=MAX_COUNT), known


def _count_of(body: Mapping[str, Any], name: str, at_most: int) -> int:
    """Return a count in a body. It is -1, the cluster's default, if it is missing.

    Raises:
        RestError: 422, the count is not a number within the bounds, or is 0.
    """
    found = number_of(body, name, at_least=-1, at_most=at_most, default=-1)
    if found == 0:
        raise RestError(422, f"{name} has to be at least 1.")
    return found


def config_value(value: Any) -> str | None:
    """Return a config value as text in Kafka's form, with booleans in lower case.

    Raises:
        RestError: 422, the value is a list or an object.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    raise RestError(422, "value of a config has to be text, a number, true or false.")


def flag_of(body: Mapping[str, Any], name: str) -> bool:
    """Return a boolean field. It is false if it is missing.

    Raises:
        RestError: 422, the value is neither true nor false.
    """
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise RestError(422, f"{name} has to be true or false.")
    return bool(value)


async def change_topic(at: ClusterCall) -> HttpResponse:
    """Increase the number of a topic's partitions."""
    body = await read_object(at.call.request)
    refuse_unknown(body, ("partitions_count",), "The body")
    count = number_of(body, "partitions_count", at_least=1, at_most=MAX_COUNT)
    name = (await _named_topic(at)).name
    await at.admin.create_partitions({name: count})
    return json_response(_topic(at, await topic_of(at.admin, name)))


async def delete_topic(at: ClusterCall) -> HttpResponse:
    """Delete a topic with all its records."""
    name = (await _named_topic(at)).name
    await at.admin.delete_topics([name])
    return NO_CONTENT


async def list_partitions(at: ClusterCall) -> HttpResponse:
    """Return the partitions of a topic."""
    topic = await _named_topic(at)
    documents = (_partition(at, topic.name, each) for each in topic.partitions)
    return at.listed("KafkaPartitionList", ("topics", topic.name, "partitions"), documents)


async def get_partition(at: ClusterCall) -> HttpResponse:
    """Return one partition."""
    topic = await _named_topic(at)
    return json_response(_partition(at, topic.name, _named_partition(at, topic)))


async def list_replicas(at: ClusterCall) -> HttpResponse:
    """Return the replicas of a partition."""
    topic = await _named_topic(at)
    partition = _named_partition(at, topic)
    documents = (_replica(at, topic.name, partition, each) for each in partition.replicas)
    path = ("topics", topic.name, "partitions", partition.partition, "replicas")
    return at.listed("KafkaReplicaList", path, documents)


async def get_replica(at: ClusterCall) -> HttpResponse:
    """Return one replica."""
    topic = await _named_topic(at)
    partition, wanted = _named_partition(at, topic), at.value("broker")
    for broker in partition.replicas:
        if str(broker) == wanted:
            return json_response(_replica(at, topic.name, partition, broker))
    raise RestError(404, f"Replica {wanted[:30]} cannot be found.")


async def list_broker_replicas(at: ClusterCall) -> HttpResponse:
    """Return the replicas that a broker has."""
    broker = (await broker_of(at)).node_id
    topics = await _all_topics(at)
    documents = (
        _replica(at, topic.name, partition, broker)
        for topic in topics
        for partition in topic.partitions
        if broker in partition.replicas
    )
    return at.listed("KafkaReplicaList", ("brokers", broker, "partition-replicas"), documents)


# Reassignments


async def list_reassignments(at: ClusterCall) -> HttpResponse:
    """Return the partitions of the cluster, or of one topic, that move to other brokers."""
    topic = at.call.request.path_values.get("topic")
    wanted = None
    if topic is not None:
        wanted = (await _named_topic(at)).topic_partitions
    found = await at.admin.list_partition_reassignments(wanted)
    documents = (_reassignment(at, where, each) for where, each in sorted(found.items()))
    path = ("topics", topic or "-", "partitions", "-", "reassignment")
    return at.listed("KafkaReassignmentList", path, documents)


async def get_reassignment(at: ClusterCall) -> HttpResponse:
    """Return the move of one partition."""
    topic = await _named_topic(at)
    where = TopicPartition(topic.name, _named_partition(at, topic).partition)
    found = await at.admin.list_partition_reassignments([where])
    if where not in found:
        raise RestError(404, f"Partition {where} does not move.")
    return json_response(_reassignment(at, where, found[where]))


# Documents


async def _named_topic(at: ClusterCall) -> TopicDescription:
    return await topic_of(at.admin, at.value("topic"))


def _named_partition(at: ClusterCall, topic: TopicDescription) -> PartitionView:
    return partition_of(topic, at.value("partition"))


def _objects(body: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    if body.get(name) is not None:
        for each in list_of(body, name):
            yield as_object(each, f"An item of {name}")


def _topic(at: ClusterCall, topic: TopicDescription) -> Document:
    replicas = len(topic.partitions[0].replicas) if topic.partitions else 0
    return _topic_document(
        at, topic.name, topic.partition_count, replicas, is_internal=topic.is_internal
    )


def _expected_topic(at: ClusterCall, topic: NewTopic) -> Document:
    """Return the document of a topic that is not created yet.

    A count for which the cluster's default applies is unknown, and shown as 0.
    """
    replicas = max(topic.replication_factor, 0)
    count = max(topic.partition_count, 0)
    if topic.assignments:
        count, replicas = len(topic.assignments), len(next(iter(topic.assignments.values())))
    return _topic_document(at, topic.name, count, replicas, is_internal=False)


def _topic_document(
    at: ClusterCall, name: str, partition_count: int, replica_count: int, *, is_internal: bool
) -> Document:
    return at.document(
        "KafkaTopic",
        ("topics", name),
        ("topic", name),
        topic_name=name,
        is_internal=is_internal,
        replication_factor=replica_count,
        partitions_count=partition_count,
        partitions=at.related("topics", name, "partitions"),
        configs=at.related("topics", name, "configs"),
        partition_reassignments=at.related("topics", name, "partitions", "-", "reassignment"),
        authorized_operations=[],
    )


def _partition(at: ClusterCall, topic: str, partition: PartitionView) -> Document:
    path = ("topics", topic, "partitions", partition.partition)
    has_leader = partition.leader >= 0
    return at.document(
        "KafkaPartition",
        path,
        ("topic", topic, "partition", partition.partition),
        topic_name=topic,
        partition_id=partition.partition,
        leader=at.related(*path, "replicas", partition.leader) if has_leader else None,
        replicas=at.related(*path, "replicas"),
        reassignment=at.related(*path, "reassignment"),
    )


def _replica(at: ClusterCall, topic: str, partition: PartitionView, broker: int) -> Document:
    path = ("topics", topic, "partitions", partition.partition, "replicas", broker)
    return at.document(
        "KafkaReplica",
        path,
        ("topic", topic, "partition", partition.partition, "replica", broker),
        topic_name=topic,
        partition_id=partition.partition,
        broker_id=broker,
        is_leader=broker == partition.leader,
        is_in_sync=broker in partition.isr,
        broker=at.related("brokers", broker),
    )


def _reassignment(at: ClusterCall, where: TopicPartition, move: Reassignment) -> Document:
    path = ("topics", where.topic, "partitions", where.partition)
    return at.document(
        "KafkaReassignment",
        (*path, "reassignment"),
        ("topic", where.topic, "partition", where.partition, "reassignment", None),
        topic_name=where.topic,
        partition_id=where.partition,
        adding_replicas=list(move.adding_replicas),
        removing_replicas=list(move.removing_replicas),
        replicas=at.related(*path, "replicas"),
    )
