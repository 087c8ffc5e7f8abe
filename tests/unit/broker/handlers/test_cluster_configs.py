"""A default that is set through one broker holds on all brokers, also on later starts.

A broker's own value is above it.
"""

from typing import Any

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.alter_configs import AlterableConfig as ReplacedConfig
from log_service.protocol.messages.alter_configs import AlterConfigsRequest
from log_service.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from log_service.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.helpers.cluster import BROKER_PORT, Cluster, host_of, node_properties, tell_cluster
from tests.unit.broker.context import RawClient, batch, produce_request

BROKER = 4
SET, APPEND = 0, 2
SIZE = "message.max.bytes"
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE


async def client_of(cluster: Cluster, node_id: int) -> RawClient:
    return RawClient(
        await cluster.world.client_env().network.connect(host_of(node_id), BROKER_PORT)
    )


def change(
    name: str, value: str, key: str = SIZE, operation: int = SET
) -> IncrementalAlterConfigsRequest:
    changed = AlterableConfig(name=key, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=[changed])
    return IncrementalAlterConfigsRequest(resources=[resource])


async def verdicts(cluster: Cluster) -> dict[int, int]:
    """Return each broker's response to a batch of 3,000 bytes for the partition that it leads."""
    found = {}
    for node_id in sorted(cluster.brokers):
        client = await client_of(cluster, node_id)
        response = await client.ask(
            produce_request("t", batch(b"x" * 3_000), partition=node_id - 1, acks=1), 9
        )
        found[node_id] = response.responses[0].partition_responses[0].error_code
        client.close()
    return found


async def is_known(cluster: Cluster, name: str) -> None:
    await cluster.until(
        lambda: all(broker.image.configs.of(BROKER, name) for broker in cluster.brokers.values())
    )


def test_a_default_of_the_cluster_holds_on_every_broker_and_a_brokers_own_value_there_alone() -> (
    None
):
    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        client: Any = await client_of(
            cluster, next(node_id for node_id in cluster.brokers if node_id != leader)
        )
        placed = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=[index + 1])
            for index in range(3)
        ]
        topic = CreatableTopic(
            name="t", num_partitions=-1, replication_factor=-1, assignments=placed
        )
        assert (await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)).topics[
            0
        ].error_code == 0
        await cluster.until(
            lambda: all("t" in broker.image.topics.by_name for broker in cluster.brokers.values())
        )
        assert await verdicts(cluster) == {1: 0, 2: 0, 3: 0}
        assert (await client.ask(change("", "2000"), 1)).responses[0].error_code == 0
        await is_known(cluster, "")
        assert await verdicts(cluster) == {1: TOO_LARGE, 2: TOO_LARGE, 3: TOO_LARGE}
        owner = await client_of(cluster, 2)
        assert (await owner.ask(change("2", "5000"), 1)).responses[0].error_code == 0
        await is_known(cluster, "2")
        assert await verdicts(cluster) == {1: TOO_LARGE, 2: 0, 3: TOO_LARGE}
        for other in (client, owner):
            other.close()
        for node_id in (2, 3):
            await cluster.stop(node_id)
            await cluster.start(node_id)
        await cluster.until(lambda: len(cluster.unfenced(1)) == 3)
        assert await verdicts(cluster) == {1: TOO_LARGE, 2: 0, 3: TOO_LARGE}, (
            "and after a start, whatever the files say"
        )

    tell_cluster(story)


def test_a_broker_judges_which_directories_it_cordons_by_its_own_disks() -> None:
    """A broker checks by its own disks which directories it cordons.

    The active controller checked by the directories of its own file. Nodes of one host have
    other directories, and so have those of Kafka.
    """
    key = "cordoned.log.dirs"
    files = {
        each: node_properties(each, (1, 2, 3), **{"log.dirs": f"/disk{each}/a,/disk{each}/b"})
        for each in (1, 2, 3)
    }

    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        owner, other = (node_id for node_id in cluster.brokers if node_id != leader)
        client: Any = await client_of(cluster, owner)

        async def asked(*arguments: Any) -> tuple[int, str | None]:
            (result,) = (await client.ask(change(*arguments), 1)).responses
            return result.error_code, result.error_message

        assert await asked(str(owner), f"/disk{owner}/b", key) == (0, None)
        await is_known(cluster, str(owner))
        for operation in (SET, APPEND):
            refused, why = await asked(str(owner), f"/disk{leader}/a", key, operation)
            assert (refused, why) == (
                ErrorCode.INVALID_REQUEST,
                f"{key} names /disk{leader}/a, which is not one of log.dirs",
            )
        replacing = ReplacedResource(
            resource_type=BROKER,
            resource_name=str(owner),
            configs=[ReplacedConfig(name=key, value=f"/disk{leader}/a")],
        )
        (result,) = (await client.ask(AlterConfigsRequest(resources=[replacing]), 2)).responses
        assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, why)
        refused, why = await asked(str(other), f"/disk{other}/a", key)
        assert refused == ErrorCode.INVALID_REQUEST
        assert (
            why
            == f"{key} names /disk{other}/a, and only broker {other} knows its disks: ask that one"
        )
        assert (await asked(str(other), "*", key))[0] == 0
        client.close()

    tell_cluster(story, files)
