"""Clusters and brokers."""

from log_service.client.connections.cluster_view import Node
from log_service.http.rest_proxy.bodies import json_response
from log_service.http.rest_proxy.context import Call
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v3.documents import ClusterCall, Document, listed
from log_service.http.server.values import HttpResponse


async def list_clusters(call: Call) -> HttpResponse:
    """Return the one cluster of this proxy."""
    admin = await call.admin()
    cluster = await admin.describe_cluster()
    at = ClusterCall(call=call, admin=admin, cluster_id=cluster.cluster_id)
    document = _cluster(at, cluster.controller_id)
    return listed("KafkaClusterList", call.link("v3", "clusters"), [document])


async def get_cluster(at: ClusterCall) -> HttpResponse:
    """Return the cluster."""
    cluster = await at.admin.describe_cluster()
    return json_response(_cluster(at, cluster.controller_id))


def _cluster(at: ClusterCall, controller_id: int) -> Document:
    has_controller = controller_id >= 0
    return at.document(
        "KafkaCluster",
        (),
        (),
        controller=at.related("brokers", controller_id) if has_controller else None,
        acls=at.related("acls"),
        brokers=at.related("brokers"),
        broker_configs=at.related("broker-configs"),
        consumer_groups=at.related("consumer-groups"),
        topics=at.related("topics"),
        partition_reassignments=at.related("topics", "-", "partitions", "-", "reassignment"),
    )


async def list_brokers(at: ClusterCall) -> HttpResponse:
    """Return the brokers."""
    nodes = (await at.admin.describe_cluster()).nodes
    return at.listed("KafkaBrokerList", ("brokers",), (_broker(at, each) for each in nodes))


async def get_broker(at: ClusterCall) -> HttpResponse:
    """Return one broker."""
    return json_response(_broker(at, await broker_of(at)))


async def broker_of(at: ClusterCall) -> Node:
    """Return the broker that the path names.

    Raises:
        RestError: 404, the broker does not exist.
    """
    wanted = at.value("broker")
    for each in (await at.admin.describe_cluster()).nodes:
        if str(each.node_id) == wanted:
            return each
    raise RestError(404, f"Broker {wanted[:30]} cannot be found.")


def _broker(at: ClusterCall, node: Node) -> Document:
    return at.document(
        "KafkaBroker",
        ("brokers", node.node_id),
        ("broker", node.node_id),
        broker_id=node.node_id,
        host=node.host,
        port=node.port,
        rack=node.rack,
        configs=at.related("brokers", node.node_id, "configs"),
        partition_replicas=at.related("brokers", node.node_id, "partition-replicas"),
    )
