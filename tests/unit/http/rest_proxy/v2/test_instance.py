"""A consumer instance commits no offset of a partition that it gave up."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import trio
import trio.testing

from log_service.client import Consumer, ConsumerRecord, TopicPartition
from log_service.http.cluster_clients.hosted import HostedClient
from log_service.http.rest_proxy.v2.instance import ConsumerInstance, InstanceSettings, size_of
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
    """Loses a partition with the second poll, as a rebalance does, once ``gate`` is open."""

    def __init__(self) -> None:
        self.gate: trio.Event | None = None
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
        if self.gate is not None:
            await self.gate.wait()
        self.assignment = (KEPT,)
        return []

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        await trio.lowlevel.checkpoint()

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


def test_records_are_given_back_while_another_request_has_the_turn() -> None:
    """A response that fails waits for no other. The request that polls meanwhile delivers them."""

    async def scene() -> None:
        consumer = RebalancedConsumer()
        instance = instance_of(consumer)
        consumer.gate = trio.Event()
        consumer.gate.set()
        assert await instance.take(1_000, 100) == [record(KEPT)]
        consumer.gate = trio.Event()
        taken: list[ConsumerRecord] = []

        async def take() -> None:
            taken.extend(await instance.take(1_000, 100))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            await trio.testing.wait_all_tasks_blocked()
            instance.give_back([record(KEPT)])
            await instance_commits_nothing(instance, consumer)
            consumer.gate.set()
        assert taken == []
        assert await instance.take(1_000, 100) == [record(KEPT)]
        await instance.commit(None)
        assert consumer.committed == [{KEPT: 8}]

    trio.run(scene)


async def instance_commits_nothing(
    instance: ConsumerInstance, consumer: RebalancedConsumer
) -> None:
    """Check that a commit waits for its turn."""
    with trio.move_on_after(0):
        await instance.commit(None)
    assert consumer.committed == []


def test_records_that_a_seek_left_behind_are_not_held_again() -> None:
    """The next response began with them, and the next commit went back to them."""

    async def scene() -> None:
        consumer = RebalancedConsumer()
        instance = instance_of(consumer)
        await instance.take(1_000, 100)
        await instance.seek({KEPT: 100})
        instance.give_back([record(KEPT)])
        assert await instance.take(1_000, 100) == []
        await instance.commit(None)
        assert consumer.committed == []

    trio.run(scene)


def test_empty_headers_count_because_their_json_is_long() -> None:
    """The JSON of 500,000 empty headers was written on the event loop."""
    record = ConsumerRecord("t", 0, 0, 0, "CreateTime", None, None, (("", None),) * 1_000, 0)
    assert size_of(record) > 10_000
