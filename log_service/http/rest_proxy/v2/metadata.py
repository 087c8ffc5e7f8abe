"""Topics, partitions, offsets and brokers, as version 2 shows them."""

from collections.abc import Iterator
from typing import Any

from log_service.client import ConfigResource, TopicPartition
from log_service.client.connections.cluster_view import PartitionView
from log_service.http.rest_proxy.bodies import json_response, list_response
from log_service.http.rest_proxy.cluster_reading import offsets_of, partition_of, topic_of
from log_service.http.rest_proxy.context import Call
from log_service.http.rest_proxy.v2.media_types import content_type_of
from log_service.http.server.values import HttpResponse


async def list_topics(call: Call) -> HttpResponse:
    """Return the names of all topics that the caller may see."""
    content_type = content_type_of(call.request)
    topics = await (await call.admin()).list_topics(is_internal_included=True)
    return list_response((each.name for each in topics), content_type=content_type)


async def get_topic(call: Call) -> HttpResponse:
    """Return a topic with its configs and partitions."""
    content_type, name = content_type_of(call.request), call.value("topic")
    admin = await call.admin()
    topic = await topic_of(admin, name)
    resource = ConfigResource.topic(name)
    configs = (await admin.describe_configs([resource]))[resource]
    body = {
        "name": name,
        "configs": {each.name: each.value for each in configs.values() if each.value is not None},
        "partitions": [shown_partition(each) for each in topic.partitions],
    }
    return json_response(body, content_type=content_type)


async def list_partitions(call: Call) -> HttpResponse:
    """Return the partitions of a topic with their replicas."""
    content_type = content_type_of(call.request)
    topic = await topic_of(await call.admin(), call.value("topic"))
    return list_response(map(shown_partition, topic.partitions), content_type=content_type)


async def get_partition(call: Call) -> HttpResponse:
    """Return one partition with its replicas."""
    content_type = content_type_of(call.request)
    topic = await topic_of(await call.admin(), call.value("topic"))
    found = partition_of(topic, call.value("partition"))
    return json_response(shown_partition(found), content_type=content_type)


async def get_offsets(call: Call) -> HttpResponse:
    """Return the first offset of a partition, and the offset after its last record."""
    content_type, name = content_type_of(call.request), call.value("topic")
    admin = await call.admin()
    found = partition_of(await topic_of(admin, name), call.value("partition"))
    first, last = await offsets_of(admin, TopicPartition(name, found.partition))
    body = {"beginning_offset": first, "end_offset": last}
    return json_response(body, content_type=content_type)


async def list_brokers(call: Call) -> HttpResponse:
    """Return the ids of the brokers."""
    content_type = content_type_of(call.request)
    cluster = await (await call.admin()).describe_cluster()
    body = {"brokers": sorted(each.node_id for each in cluster.nodes)}
    return json_response(body, content_type=content_type)


def shown_partition(partition: PartitionView) -> dict[str, Any]:
    """Return a partition as the API shows it."""
    return {
        "partition": partition.partition,
        "leader": partition.leader,
        "replicas": list(_shown_replicas(partition)),
    }


def _shown_replicas(partition: PartitionView) -> Iterator[dict[str, Any]]:
    for broker in partition.replicas:
        yield {
            "broker": broker,
            "leader": broker == partition.leader,
            "in_sync": broker in partition.isr,
        }
