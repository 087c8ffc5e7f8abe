"""A quota that is set through any broker holds on all.

The controller's quotas hold for clients of the other brokers, too.
"""

from typing import Any

import trio

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.helpers.cluster import BROKER_PORT, Cluster, host_of, tell_cluster
from tests.unit.broker.context import RawClient


async def client_of(cluster: Cluster, node_id: int) -> RawClient:
    return RawClient(
        await cluster.world.client_env().network.connect(host_of(node_id), BROKER_PORT)
    )


def quota(key: str, value: float) -> AlterClientQuotasRequest:
    entity = [RequestEntityData(entity_type="client-id", entity_name="story")]
    return AlterClientQuotasRequest(
        entries=[RequestEntryData(entity=entity, ops=[OpData(key=key, value=value)])]
    )


async def other_than_the_controller(cluster: Cluster) -> int:
    leader = await cluster.leader()
    return next(node_id for node_id in cluster.brokers if node_id != leader)


def new_topic(name: str, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)],
        timeout_ms=10_000,
    )


def test_quotas_that_are_set_through_one_broker_hold_on_all() -> None:
    async def story(cluster: Cluster) -> None:
        client = await client_of(cluster, await other_than_the_controller(cluster))
        assert (await client.ask(quota("producer_byte_rate", 1_000), 1)).entries[0].error_code == 0
        await cluster.until(
            lambda: all(broker.image.access.client_quotas for broker in cluster.brokers.values())
        )
        for node_id, broker in cluster.brokers.items():
            other = await client_of(cluster, node_id)
            (entry,) = (await other.ask(DescribeClientQuotasRequest(), 1)).entries
            assert [(value.key, value.value) for value in entry.values] == [
                ("producer_byte_rate", 1_000)
            ]
            assert all(server.handler.quotas is not None for server in broker.servers)  # type: ignore[attr-defined]  # a pipeline
            other.close()

    tell_cluster(story)


def test_a_client_of_another_broker_is_refused_by_the_controller_and_paused_by_its_broker() -> None:
    async def story(cluster: Cluster) -> None:
        node_id = await other_than_the_controller(cluster)
        client = await client_of(cluster, node_id)
        assert (await client.ask(quota("controller_mutation_rate", 0.5), 1)).entries[
            0
        ].error_code == 0
        assert (await client.ask(new_topic("large", 8), 7)).topics[0].error_code == 0
        refused = await client.ask(new_topic("small"), 7)
        assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 4_000 <= refused.throttle_time_ms <= 5_000
        began = trio.current_time()
        done: Any = await client.ask(new_topic("small"), 5)
        assert trio.current_time() - began >= refused.throttle_time_ms / 1_000 - 0.01
        assert done.topics[0].error_code == 0
        assert done.throttle_time_ms > 1_000
        began = trio.current_time()
        await client.ask(MetadataRequest(topics=[]), 12)
        assert trio.current_time() - began >= done.throttle_time_ms / 1_000 - 0.01

    tell_cluster(story)


def test_topics_that_are_created_for_a_client_that_missed_them_are_charged_to_it() -> None:
    async def story(cluster: Cluster) -> None:
        for node_id in list(cluster.brokers):
            client = await client_of(cluster, node_id)
            assert (await client.ask(quota("controller_mutation_rate", 0.1 * node_id), 1)).entries[
                0
            ].error_code == 0
            missed = [
                MetadataRequestTopic(name=f"missed-{node_id}-{number}") for number in range(20)
            ]
            await client.ask(MetadataRequest(topics=missed, allow_auto_topic_creation=True), 12)
            await cluster.until(
                lambda node_id=node_id: (  # type: ignore[misc]
                    f"missed-{node_id}-19" in cluster.brokers[node_id].image.topics.by_name
                )
            )
            refused = await client.ask(new_topic("another"), 7)
            assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            client.close()

    tell_cluster(story)
