"""Clients of one broker see a cluster of several.

They see racks, listeners, fenced brokers, and replicas that are offline.

Four brokers: 1 answers; 2 is a peer; 3 is fenced; 4 has no listener of the name that the clients
came through.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from trio.testing import wait_all_tasks_blocked

from log_service.common.errors import ErrorCode
from log_service.common.types import GROUP_METADATA_TOPIC, TopicId
from log_service.protocol.messages.describe_cluster import DescribeClusterRequest
from log_service.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.protocol.stored.metadata_records import (
    BrokerEndpoint,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from tests.helpers.handler_node import LISTENER, HandlerNode, tell_handlers
from tests.unit.metadata.records import broker, topic_id
from tests.unit.replication.context import sent

ORDERS = topic_id(7)
DIRECTORY, OTHER_DIRECTORY, LOST = UUID(int=500), UUID(int=600), UUID(int=2)


def endpoint(name: str, node_id: int) -> BrokerEndpoint:
    return BrokerEndpoint(name=name, host=f"{name.lower()}-{node_id}", port=9000 + node_id)


def publish_brokers(node: HandlerNode) -> None:
    both = [endpoint(LISTENER, 2), endpoint("INSIDE", 2)]
    node.publish(
        replace(broker(2, epoch=20), end_points=both, rack="east", log_dirs=[DIRECTORY]),
        replace(
            broker(3, epoch=30, fenced=True),
            end_points=[endpoint(LISTENER, 3)],
            rack="west",
            log_dirs=[DIRECTORY],
        ),
        replace(broker(4, epoch=40), end_points=[endpoint("INSIDE", 4)], log_dirs=[DIRECTORY]),
    )


def partition(
    index: int, replicas: Sequence[int], *, leader: int, isr: Sequence[int] = (), **fields: Any
) -> PartitionRecord:
    plain = PartitionRecord(
        topic_id=ORDERS,
        partition_id=index,
        replicas=list(replicas),
        isr=list(isr or replicas),
        leader=leader,
        leader_epoch=3,
        partition_epoch=5,
        directories=[DIRECTORY] * len(replicas),
    )
    return replace(plain, **fields)


def publish_orders(node: HandlerNode, *partitions: PartitionRecord) -> None:
    publish_brokers(node)
    node.publish(TopicRecord(name="orders", topic_id=ORDERS), *partitions)


async def partitions_of(node: HandlerNode, version: int) -> list[Any]:
    topics = [MetadataRequestTopic(name="orders")]
    (told,) = (
        await node.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True), version)
    ).topics
    return list(told.partitions)


# Brokers


def test_clients_are_told_the_brokers_of_their_listener_that_are_not_fenced() -> None:
    async def story(node: HandlerNode) -> None:
        publish_brokers(node)
        told = await node.ask(MetadataRequest(topics=[]), 13)
        assert [(each.node_id, each.host, each.rack) for each in told.brokers] == [
            (1, "broker", None),
            (2, "plaintext-2", "east"),
        ]
        node.connection.listener_name = "INSIDE"
        told = await node.ask(MetadataRequest(topics=[]), 13)
        assert [(each.node_id, each.host) for each in told.brokers] == [
            (2, "inside-2"),
            (4, "inside-4"),
        ]

    tell_handlers(story)


def test_where_all_brokers_are_fenced_clients_are_told_all_of_them() -> None:
    """A response that tells topics and no broker may cut librdkafka off for good (librdkafka#5301)."""

    async def story(node: HandlerNode) -> None:
        publish_orders(node, partition(0, [3, 2], leader=-1, isr=[3]))
        node.publish(
            FenceBrokerRecord(id=1, epoch=10),
            FenceBrokerRecord(id=2, epoch=20),
            FenceBrokerRecord(id=4, epoch=40),
        )
        told = await node.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 13)
        assert [(each.node_id, each.host) for each in told.brokers] == [
            (1, "broker"),
            (2, "plaintext-2"),
            (3, "plaintext-3"),
        ]
        assert told.controller_id == -1
        (described,) = told.topics[0].partitions
        assert (described.error_code, described.leader_id, described.offline_replicas) == (
            ErrorCode.LEADER_NOT_AVAILABLE,
            -1,
            [3, 2],
        )
        assert (await node.ask(DescribeClusterRequest(), 1)).brokers == []

    tell_handlers(story)


def test_any_broker_that_is_not_fenced_is_told_as_the_controller() -> None:
    async def story(node: HandlerNode) -> None:
        publish_brokers(node)
        told = {(await node.ask(MetadataRequest(topics=[]), 13)).controller_id for _ in range(60)}
        assert told == {1, 2, 4}
        told = {(await node.ask(DescribeClusterRequest(), 1)).controller_id for _ in range(60)}
        assert told == {1, 2, 4}

    tell_handlers(story)


def test_fenced_brokers_are_described_to_those_who_ask_for_them() -> None:
    async def story(node: HandlerNode) -> None:
        publish_brokers(node)
        plain = await node.ask(DescribeClusterRequest(), 2)
        assert [(each.broker_id, each.is_fenced) for each in plain.brokers] == [
            (1, False),
            (2, False),
        ]
        full = await node.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)
        assert [(each.broker_id, each.is_fenced) for each in full.brokers] == [
            (1, False),
            (2, False),
            (3, True),
        ]

    tell_handlers(story)


# Partitions


def test_a_partition_without_a_leader_is_described_with_its_error() -> None:
    async def story(node: HandlerNode) -> None:
        publish_orders(node, partition(0, [3, 2], leader=-1, isr=[3]))
        (told,) = await partitions_of(node, 13)
        assert (told.error_code, told.leader_id, told.leader_epoch) == (
            ErrorCode.LEADER_NOT_AVAILABLE,
            -1,
            3,
        )
        assert (told.replica_nodes, told.isr_nodes, told.offline_replicas) == ([3, 2], [3], [3])

    tell_handlers(story)


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)]
)
def test_a_leader_without_the_clients_listener_is_no_leader_for_them(
    version: int, code: ErrorCode
) -> None:
    async def story(node: HandlerNode) -> None:
        publish_orders(node, partition(0, [4, 2], leader=4))
        (told,) = await partitions_of(node, version)
        assert (told.error_code, told.leader_id, told.offline_replicas) == (code, -1, [4])
        node.connection.listener_name = "INSIDE"
        (told,) = await partitions_of(node, version)
        assert (told.error_code, told.leader_id, told.offline_replicas) == (ErrorCode.NONE, 4, [])

    tell_handlers(story)


def test_the_first_version_leaves_out_replicas_that_cannot_be_reached() -> None:
    async def story(node: HandlerNode) -> None:
        publish_orders(
            node,
            partition(0, [2, 3, 1], leader=2, isr=[2, 1]),
            partition(1, [2, 1], leader=2),
            partition(2, [3], leader=-1),
        )
        short, whole, leaderless = await partitions_of(node, 0)
        assert (short.error_code, short.replica_nodes, short.isr_nodes) == (
            ErrorCode.REPLICA_NOT_AVAILABLE,
            [2, 1],
            [2, 1],
        )
        assert (whole.error_code, whole.replica_nodes) == (ErrorCode.NONE, [2, 1])
        assert (leaderless.error_code, leaderless.replica_nodes) == (
            ErrorCode.LEADER_NOT_AVAILABLE,
            [],
        )
        short = (await partitions_of(node, 1))[0]
        assert (short.error_code, short.replica_nodes) == (ErrorCode.NONE, [2, 3, 1])

    tell_handlers(story)


def test_replicas_on_directories_that_are_gone_are_offline() -> None:
    async def story(node: HandlerNode) -> None:
        directories = [DIRECTORY, OTHER_DIRECTORY]
        publish_orders(
            node,
            partition(0, [2, 1], leader=2, directories=directories),
            partition(1, [2, 1], leader=2, directories=[LOST, DIRECTORY]),
            partition(2, [2, 1], leader=2, directories=[UUID(int=0), UUID(int=1)]),
        )
        assert [each.offline_replicas for each in await partitions_of(node, 13)] == [[1], [2], []]

    tell_handlers(story)


def test_eligible_leader_replicas_are_described_and_leaders_out_of_reach_are_not() -> None:
    async def story(node: HandlerNode) -> None:
        publish_orders(
            node,
            partition(0, [2, 3], leader=2, isr=[2], eligible_leader_replicas=[3]),
            partition(1, [3], leader=-1, isr=[], eligible_leader_replicas=[3], last_known_elr=[3]),
            partition(2, [4], leader=4),
        )
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="orders")], response_partition_limit=100
        )
        (told,) = (await node.ask(request, 0)).topics
        assert [each.error_code for each in told.partitions] == [0, 0, 0]
        assert [each.leader_id for each in told.partitions] == [2, -1, -1]
        assert [each.eligible_leader_replicas for each in told.partitions] == [[3], [3], []]
        assert [each.last_known_elr for each in told.partitions] == [[], [3], []]
        assert [each.offline_replicas for each in told.partitions] == [[3], [3], [4]]

    tell_handlers(story)


# Leaders beside errors (KIP-951)


def produce(index: int, *, by_id: TopicId | None = None, acks: int = 1) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=sent(b"x"))]
    topic = (
        TopicProduceData(name="orders", partition_data=data)
        if by_id is None
        else TopicProduceData(topic_id=by_id, partition_data=data)
    )
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[topic])


@pytest.mark.parametrize("replicas", [[2, 1], [2, 3]], ids=["replica here", "replica elsewhere"])
@pytest.mark.parametrize("version", [9, 10, 13])
def test_a_producer_that_asks_the_wrong_broker_is_told_the_leader(
    version: int, replicas: list[int]
) -> None:
    async def story(node: HandlerNode) -> None:
        publish_orders(node, partition(0, replicas, leader=2))
        told = await node.ask(produce(0, by_id=ORDERS if version >= 13 else None), version)
        result = told.responses[0].partition_responses[0]
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        if version < 10:
            return
        assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (2, 3)
        assert [
            (each.node_id, each.host, each.port, each.rack) for each in told.node_endpoints
        ] == [(2, "plaintext-2", 9002, "east")]

    tell_handlers(story)


def test_a_leader_out_of_the_clients_reach_is_named_without_an_address() -> None:
    async def story(node: HandlerNode) -> None:
        publish_orders(node, partition(0, [4, 2], leader=4))
        told = await node.ask(produce(0), 10)
        leader = told.responses[0].partition_responses[0].current_leader
        assert (leader.leader_id, told.node_endpoints) == (4, [])

    tell_handlers(story)


def test_a_produce_that_waited_in_vain_names_the_new_leader() -> None:
    async def story(node: HandlerNode) -> None:
        publish_orders(node, partition(0, [1, 2], leader=1))
        asked = node.context.nursery
        told: list[Any] = []

        async def ask() -> None:
            told.append(await node.ask(produce(0, acks=-1), 10))

        asked.start_soon(ask)
        await wait_all_tasks_blocked()
        assert told == []
        node.publish(PartitionChangeRecord(topic_id=ORDERS, partition_id=0, leader=2))
        await wait_all_tasks_blocked()
        result = told[0].responses[0].partition_responses[0]
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (2, 4)
        assert [each.node_id for each in told[0].node_endpoints] == [2]

    tell_handlers(story)


def test_a_consumer_that_asks_the_wrong_broker_is_told_the_leader() -> None:
    async def story(node: HandlerNode) -> None:
        publish_orders(node, partition(0, [2, 3], leader=2))
        wanted = FetchTopic(
            topic_id=ORDERS,
            partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)],
        )
        told = await node.ask(
            FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1_000, topics=[wanted]), 16
        )
        found = told.responses[0].partitions[0]
        assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (2, 3)
        assert [(each.node_id, each.host) for each in told.node_endpoints] == [(2, "plaintext-2")]

    tell_handlers(story)


# Coordinators


def coordinators_topic(*partitions: PartitionRecord) -> list[Any]:
    return [TopicRecord(name=GROUP_METADATA_TOPIC, topic_id=ORDERS), *partitions]


async def coordinator_of(node: HandlerNode, group_id: str) -> Any:
    (found,) = (
        await node.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id]), 4)
    ).coordinators
    return found


def test_the_coordinator_of_a_group_leads_its_partition_of_the_topic_as_it_is() -> None:
    """The coordinator of a group leads its partition of the existing topic.

    This broker's configuration says 50 partitions. The broker that created the topic used
    another number.
    """

    async def story(node: HandlerNode) -> None:
        publish_brokers(node)
        node.publish(
            *coordinators_topic(
                *(
                    partition(index, [2], leader=2 if index == 648006740 % 3 else -1)
                    for index in range(3)
                )
            )
        )
        found = await coordinator_of(node, "console-consumer")
        assert (found.error_code, found.node_id, found.host, found.port) == (
            ErrorCode.NONE,
            2,
            "plaintext-2",
            9002,
        )

    tell_handlers(story)


@pytest.mark.parametrize("leader", [-1, 4], ids=["no leader", "a leader without the listener"])
def test_a_coordinator_that_clients_cannot_reach_is_not_available(leader: int) -> None:
    async def story(node: HandlerNode) -> None:
        publish_brokers(node)
        node.publish(*coordinators_topic(partition(0, [2, 4], leader=leader)))
        found = await coordinator_of(node, "g")
        assert (found.error_code, found.node_id, found.host, found.port) == (
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            -1,
            "",
            -1,
        )
        assert node.controller.requests == []

    tell_handlers(story)
