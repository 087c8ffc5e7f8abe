"""These functions ask for the quorum of a cluster and change it."""

from uuid import UUID

from log_service.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from log_service.raft.voters import Voter, VoterEndpoint
from tests.helpers.cluster import CONTROLLER_PORT, Cluster, host_of, node_properties
from tests.unit.broker.context import RawClient

DESCRIBE = DescribeQuorumRequest(
    topics=[
        RequestTopicData(
            topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)]
        )
    ]
)
IDS = {each: UUID(int=1_000 + each) for each in range(1, 9)}


async def described(cluster: Cluster, node_id: int, port: int = 9092) -> ResponsePartitionData:
    client = RawClient(await cluster.world.client_env().network.connect(host_of(node_id), port))
    response: DescribeQuorumResponse = await client.ask(DESCRIBE, 2)
    (partition,) = response.topics[0].partitions
    return partition


def voter(node_id: int) -> Voter:
    return Voter(
        node_id=node_id,  # type: ignore[arg-type]
        directory_id=IDS[node_id],
        endpoints=(VoterEndpoint("CONTROLLER", host_of(node_id), CONTROLLER_PORT),),
    )


def dynamic(node_id: int, roles: str = "broker,controller", **properties: str) -> dict[str, str]:
    """The file of a node whose voters are records."""
    servers = ",".join(f"{host_of(each)}:{CONTROLLER_PORT}" for each in (1, 2, 3))
    texts = node_properties(
        node_id, (), roles, controller_quorum_bootstrap_servers=servers, **properties
    )
    return {name: text for name, text in texts.items() if name != "controller.quorum.voters"}
