"""A fetch asks by the view that held when its connection began to open.

The view may change meanwhile.
"""

from operator import attrgetter
from types import MappingProxyType
from typing import Any, cast

import pytest
import trio

from log_service.client import OffsetSpec, TopicPartition
from log_service.client.admin.offsets import list_offsets, offsets_for_leader_epoch
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.connections.cluster_view import ClusterView, Node, PartitionView, TopicView
from log_service.client.consumer.fetch_exchange import FetchExchange
from log_service.client.consumer.subscriptions import PartitionState, Start
from log_service.client.metrics import ConsumerMeter
from log_service.common.types import NO_TOPIC_ID
from log_service.config.client import ClientConfig, ConsumerConfig
from log_service.protocol.messages.fetch import FetchResponse
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from log_service.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

MOVED, STAYING = TopicPartition("t", 0), TopicPartition("t", 1)
FOLLOWER = 1


class ChangingCluster:
    """Broker 1 leads both partitions at first.

    While it is connected to, broker 2 becomes the leader of the first, in epoch 5.
    """

    def __init__(self) -> None:
        both = tuple(
            PartitionView(
                partition=index,
                leader=FOLLOWER,
                leader_epoch=4,
                replicas=(1, 2),
                isr=(1, 2),
                offline_replicas=(),
            )
            for index in range(2)
        )
        topic = TopicView(
            name="t", topic_id=NO_TOPIC_ID, is_internal=False, partitions=both, available=(0, 1)
        )
        nodes = {node_id: Node(node_id=node_id, host="broker", port=9092) for node_id in (1, 2)}
        self.view = ClusterView(
            nodes=MappingProxyType(nodes), topics=MappingProxyType({"t": topic})
        )
        self.requests: list[Any] = []
        self.version = 12

    async def node(self, _node_id: int, _purpose: str = "") -> "ChangingCluster":
        await trio.lowlevel.checkpoint()
        self.view = self.view.with_leader(MOVED, 2, 5)
        return self

    def version_of(self, _api: object) -> int:
        return self.version

    async def request(self, request: Any, response_type: type[Any], **_: object) -> Any:
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        if response_type is FetchResponse:
            return FetchResponse()
        if response_type is ListOffsetsResponse:
            found = [
                ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=9)
                for each in request.topics[0].partitions
            ]
            return ListOffsetsResponse(
                topics=[ListOffsetsTopicResponse(name="t", partitions=found)]
            )
        ends = [
            EpochEndOffset(partition=each.partition, leader_epoch=4, end_offset=9)
            for each in request.topics[0].partitions
        ]
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic="t", partitions=ends)]
        )

    # What a question to leaders needs

    def group_by_leader(self, partitions: Any) -> dict[int, list[TopicPartition]]:
        return {self.view.leader_of(each): [each] for each in partitions}

    def watch(self, topics: Any) -> None:
        pass

    config = ClientConfig(bootstrap_servers=(("broker", 9092),))

    async def retry(self, attempt: Any, _timeout_ms: int) -> Any:
        return await attempt()

    @property
    def asked(self) -> list[tuple[int, int]]:
        """The partitions of all requests, with the leader epoch that each named."""
        partitions = [
            each
            for request in self.requests
            for topic in request.topics
            for each in topic.partitions
        ]
        number = attrgetter(
            "partition_index" if isinstance(self.requests[-1], ListOffsetsRequest) else "partition"
        )
        return [(number(each), each.current_leader_epoch) for each in partitions]


def exchange_with(cluster: ChangingCluster) -> FetchExchange:
    config = ConsumerConfig(bootstrap_servers=(("broker", 9092),))
    return FetchExchange(cast("ClusterMetadata", cluster), config, ConsumerMeter(now_ms=lambda: 0))


def positioned(topic_partition: TopicPartition) -> PartitionState:
    state = PartitionState(topic_partition, Start.RESET)
    state.seek(8, 4)
    return state


@pytest.mark.parametrize("version", [11, 12])
def test_a_broker_that_leads_no_more_is_not_asked_in_the_epoch_of_its_successor(
    version: int,
) -> None:
    """A follower responds to consumers, too (KIP-392).

    One that lost its log would say that the log was cut back to its end.
    """
    cluster = ChangingCluster()
    cluster.version = version
    exchange = exchange_with(cluster)
    trio.run(exchange.ask, FOLLOWER, [positioned(MOVED), positioned(STAYING)])
    assert (STAYING.partition, 4) in cluster.asked
    assert MOVED.partition not in dict(cluster.asked)


def test_the_replica_that_a_leader_named_as_nearer_is_asked_in_that_leaders_epoch() -> None:
    cluster = ChangingCluster()
    exchange = exchange_with(cluster)
    state = positioned(MOVED)
    state.preferred_replica = FOLLOWER
    trio.run(exchange.ask, FOLLOWER, [state])
    assert cluster.asked == [(MOVED.partition, 5)]


def test_where_an_epoch_ended_is_asked_in_the_epoch_of_the_leader_that_was_chosen() -> None:
    """One that leads no more refuses, and the question goes to its successor."""
    cluster = ChangingCluster()
    trio.run(offsets_for_leader_epoch, cast("ClusterMetadata", cluster), {MOVED: 4}, 1_000)
    assert cluster.asked == [(MOVED.partition, 4)]


def test_offsets_are_asked_in_the_epoch_of_the_leader_that_was_chosen() -> None:
    """A leader with an old view would tell where the log of an earlier epoch ends."""
    cluster = ChangingCluster()
    found = trio.run(
        list_offsets, cast("ClusterMetadata", cluster), {MOVED: OffsetSpec.latest()}, 0, 1_000
    )
    assert found[MOVED].offset == 9
    assert cluster.asked == [(MOVED.partition, 4)]
