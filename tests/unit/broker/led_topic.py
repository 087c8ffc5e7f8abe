"""A cluster in virtual time has a topic with a chosen leader.

Its stories tell what becomes of that leader.
"""

import trio

from log_service.metadata.partition import PartitionRegistration
from log_service.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.helpers.cluster import BROKER_PORT, Cluster, host_of
from tests.unit.broker.context import RawClient


async def lead(cluster: Cluster, node_id: int) -> int:
    """Create a topic that one node leads and all have; return the active controller."""
    controller = await cluster.leader()
    await cluster.until(lambda: len(cluster.unfenced(controller)) == 3)
    client = RawClient(
        await cluster.world.client_env().network.connect(host_of(controller), BROKER_PORT)
    )
    replicas = [node_id, *(each for each in (1, 2, 3) if each != node_id)]
    topic = CreatableTopic(
        name="a",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)],
    )
    response: CreateTopicsResponse = await client.ask(
        CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7
    )
    assert response.topics[0].error_code == 0, response
    client.close()
    await cluster.until(
        lambda: all("a" in broker.image.topics.by_name for broker in cluster.brokers.values())
    )
    await trio.sleep(3)  # each broker's heartbeats have their connection by now
    return controller


def known(cluster: Cluster, node_id: int) -> PartitionRegistration:
    return cluster.brokers[node_id].image.topics.by_name["a"].partitions[0]


def other_than(*node_ids: int) -> int:
    return next(each for each in (1, 2, 3) if each not in node_ids)
