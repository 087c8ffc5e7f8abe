"""A consumer instance commits no offset of a partition that it gave up."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import trio

from log_service.client import Consumer, ConsumerRecord, TopicPartition
from log_service.http.cluster_clients.hosted import HostedClient
from log_service.http.rest_proxy.v2.instance import ConsumerInstance, InstanceSettings
from tests.sim import VirtualClock

LOST, KEPT = TopicPartition("t", 0), TopicPartition("t", 1)


def record(partition: TopicPartition) -> ConsumerRecord:
    """Return the record at offset 7 of a partition."""
    return ConsumerRecord(
        topic=partition.topic,
        partition=partition.partition,
        offset=7,
        timestamp_ms=0,
        timestamp_type="CreateTime",
        key=None,
        value=b"v",
        headers=(),
        leader_epoch=0,
    )


class RebalancedConsumer:
    """Loses a partition with the second poll, as a rebalance does."""

    def __init__(self) -> None:
        self.assignment: tuple[TopicPartition, ...] = (LOST, KEPT)
        self.committed: list[Mapping[TopicPartition, Any]] = []
        self._polls = [[record(LOST), record(KEPT)]]

    async def get(self) -> "RebalancedConsumer":
        """Return this consumer, as its host does."""
        await trio.lowlevel.checkpoint()
        return self

    async def poll(self, _count: int, *, timeout_ms: int) -> Sequence[ConsumerRecord]:
        await trio.lowlevel.checkpoint()
        if self._polls:
            return self._polls.pop()
        self.assignment = (KEPT,)
        return []

    async def commit(self, offsets: Mapping[TopicPartition, Any]) -> None:
        await trio.lowlevel.checkpoint()
        self.committed.append(offsets)


def instance_of(consumer: RebalancedConsumer) -> ConsumerInstance:
    """Return an instance that reads with a consumer."""
    return ConsumerInstance(
        group="g",
        name="one",
        owner="User:ann",
        settings=InstanceSettings(),
        hosted=cast("HostedClient[Consumer]", consumer),
        clock=VirtualClock(),
    )


def test_a_partition_that_a_poll_gives_up_is_neither_delivered_nor_committed() -> None:
    """Its next owner would skip records that it never got."""

    async def scene() -> None:
        consumer = RebalancedConsumer()
        instance = instance_of(consumer)
        assert await instance.take(1_000, 100) == [record(KEPT)]
        await instance.commit(None)
        assert consumer.committed == [{KEPT: 8}]

    trio.run(scene)


def test_records_of_a_partition_that_was_given_up_are_not_held_again() -> None:
    async def scene() -> None:
        consumer = RebalancedConsumer()
        instance = instance_of(consumer)
        await instance.take(1_000, 100)
        instance.give_back([record(LOST), record(KEPT)])
        assert await instance.take(1_000, 100) == [record(KEPT)]
        await instance.commit(None)
        assert consumer.committed == [{KEPT: 8}]

    trio.run(scene)
