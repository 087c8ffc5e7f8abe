"""Each listener names its own addresses and has its own limits.

The controller's listener serves admin clients alone (KIP-919).
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

import pytest

from log_service.common.errors import ErrorCode
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.api_versions import ApiVersionsRequest
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.describe_cluster import DescribeClusterRequest
from log_service.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from log_service.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.messages.metadata import MetadataRequest
from tests.sim import World, sim_run
from tests.unit.broker.context import HOST, PORT, RawClient, Story, running

OUTSIDE, CONTROLLER = 9093, 9094
LISTENERS = {
    "listeners": f"INSIDE://{HOST}:{PORT},OUTSIDE://{HOST}:{OUTSIDE},ADMINS://{HOST}:{CONTROLLER}",
    "advertised.listeners": "INSIDE://inside.example:1,OUTSIDE://outside.example:2,ADMINS://controller.example:3",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,ADMINS:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "controller.listener.names": "ADMINS",
}


@asynccontextmanager
async def client_of(node: Story, port: int) -> AsyncIterator[RawClient]:
    client = await node.connect(port)
    yield client
    client.close()


ADDRESSES = {PORT: ("inside.example", 1), OUTSIDE: ("outside.example", 2)}


def listening(
    story: Callable[[Story], Awaitable[None]], more: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Tell a story of a node with these listeners."""

    async def main(world: World) -> None:
        async with running(world, **LISTENERS, **more) as node:
            await story(node)

    sim_run(1, main)


@pytest.mark.parametrize("port", ADDRESSES)
def test_a_client_is_told_the_addresses_of_the_listener_it_came_through(port: int) -> None:
    async def story(node: Story) -> None:
        async with client_of(node, port) as client:
            metadata = await client.ask(MetadataRequest(topics=None), 12)
            assert [(broker.host, broker.port) for broker in metadata.brokers] == [ADDRESSES[port]]
            cluster = await client.ask(DescribeClusterRequest(), 2)
            assert [(broker.host, broker.port) for broker in cluster.brokers] == [ADDRESSES[port]]
            (found,) = (
                await client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
            ).coordinators
            assert (found.host, found.port) == ADDRESSES[port]

    listening(story)


def test_the_controllers_listener_answers_admin_clients_alone() -> None:
    async def story(node: Story) -> None:
        async with client_of(node, CONTROLLER) as client:
            versions = await client.ask(
                ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4
            )
            keys = {ApiKey(row.api_key) for row in versions.api_keys}
            assert {ApiKey.DESCRIBE_QUORUM, ApiKey.VOTE, ApiKey.FETCH} <= keys
            assert not keys & {
                ApiKey.METADATA,
                ApiKey.PRODUCE,
                ApiKey.FIND_COORDINATOR,
                ApiKey.TIDELOG_MAINTENANCE,
                ApiKey.TIDELOG_SHARE_RECORDS,
            }
            cluster = await client.ask(DescribeClusterRequest(endpoint_type=2), 1)
            assert cluster.endpoint_type == 2
            assert [(each.broker_id, each.host, each.port) for each in cluster.brokers] == [
                (1, "controller.example", 3)
            ]
            quorum = await client.ask(
                DescribeQuorumRequest(
                    topics=[
                        RequestTopicData(
                            topic_name="__cluster_metadata",
                            partitions=[RequestPartitionData(partition_index=0)],
                        )
                    ]
                ),
                2,
            )
            assert quorum.topics[0].partitions[0].leader_id == 1
            created = await client.ask(
                CreateTopicsRequest(
                    topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)]
                ),
                7,
            )
            assert created.topics[0].error_code == 0
            rows = await client.ask(
                DescribeConfigsRequest(
                    resources=[
                        DescribeConfigsResource(
                            resource_type=2, resource_name="a", configuration_keys=["retention.ms"]
                        )
                    ]
                ),
                4,
            )
            assert rows.results[0].configs[0].value == "604800000"

    listening(story)


@pytest.mark.parametrize(
    ("port", "endpoint_type", "code"),
    [
        (PORT, 2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (CONTROLLER, 1, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (PORT, 3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (CONTROLLER, 3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_brokers_and_controllers_are_told_apart(
    port: int, endpoint_type: int, code: ErrorCode
) -> None:
    async def story(node: Story) -> None:
        async with client_of(node, port) as client:
            assert (
                await client.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
            ).error_code == code

    listening(story)


def test_the_controllers_listener_closes_what_asks_for_records() -> None:
    async def story(node: Story) -> None:
        async with client_of(node, CONTROLLER) as client:
            with pytest.raises(EOFError):
                await client.ask(MetadataRequest(topics=None), 12)

    listening(story)


async def set_for_broker(node: Story, **configs: str | None) -> int:
    changes = [
        AlterableConfig(name=name, config_operation=0 if value is not None else 1, value=value)
        for name, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=changes)
    response = await node.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    code: int = response.responses[0].error_code
    return code


async def is_let_in(node: Story, port: int) -> bool:
    async with client_of(node, port) as client:
        try:
            await client.ask(MetadataRequest(topics=[]), 12)
        except (EOFError, OSError):
            return False
        return True


def test_limits_of_one_listener_act_from_the_file_and_change_live() -> None:
    async def story(node: Story) -> None:
        assert not await is_let_in(node, OUTSIDE)
        assert await is_let_in(node, PORT)
        assert await set_for_broker(node, **{"listener.name.outside.max.connections": "5"}) == 0
        assert await is_let_in(node, OUTSIDE)
        assert await set_for_broker(node, **{"listener.name.outside.max.connections": None}) == 0
        assert not await is_let_in(node, OUTSIDE)

    listening(story, {"listener.name.outside.max.connections": "0"})


def test_limits_of_the_node_change_live_and_survive_a_restart() -> None:
    async def main(world: World) -> None:
        async with running(world, **LISTENERS) as node:
            assert await is_let_in(node, OUTSIDE)
            assert await set_for_broker(node, **{"max.connections.per.ip": "1"}) == 0
            assert not await is_let_in(node, OUTSIDE)
            assert (await node.ask(MetadataRequest(topics=[]), 12)).brokers
        async with running(world, **LISTENERS) as node:
            assert not await is_let_in(node, OUTSIDE)
            assert await set_for_broker(node, **{"max.connections.per.ip": None}) == 0
            assert await is_let_in(node, OUTSIDE)

    sim_run(1, main)
