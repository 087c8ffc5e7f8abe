"""Produce requests wait for replicas or for a sync.

The tests tell what acknowledges them, which errors end the wait, and how far a bug reaches.
"""

from dataclasses import replace
from typing import Any

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch, NodeId, PartitionEpoch
from log_service.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from log_service.replication.partition import Partition
from tests.unit.broker.context import RawClient, Story, batch, produce_request, tell

WAIT_MS = 600_000


def change(node: Story, **metadata: Any) -> Partition:
    """Let the metadata say something else of the partition, and announce it."""
    partition = node.broker.replicas.partitions["a", 0]
    before = partition.state.registration
    assert before is not None
    partition.apply(
        before._replace(partition_epoch=PartitionEpoch(before.partition_epoch + 1), **metadata), 0
    )
    node.broker.replicas.announce((partition,))
    return partition


async def with_a_follower(node: Story, **configs: Any) -> Partition:
    """A topic whose partition has a second replica, in sync, which fetches only where the test says
    so.
    """
    await node.create_topic("a", **configs)
    both = (NodeId(1), NodeId(2))
    return change(node, replicas=both, isr=both)


def follow(node: Story, partition: Partition, offset: int) -> None:
    partition.state.note_fetch(2, offset, log_start_offset=0, broker_epoch=-1, now_ms=0)
    node.broker.replicas.announce((partition,))


async def send(node: Story, *, acks: int = -1) -> RawClient:
    client = await node.connect()
    await client.send(
        replace(produce_request("a", batch(b"one"), acks=acks), timeout_ms=WAIT_MS), 9
    )
    await trio.sleep(1)
    return client


async def receive(client: RawClient) -> PartitionProduceResponse:
    with trio.fail_after(1):
        response: ProduceResponse = await client.receive()
    return response.responses[0].partition_responses[0]


@pytest.mark.parametrize("count", [1, 3])
def test_acks_all_waits_for_the_in_sync_replicas(count: int) -> None:
    """The first request and those like it, which are known by heart."""

    async def story(node: Story) -> None:
        partition = await with_a_follower(node)
        for number in range(count):
            client = await send(node)
            assert partition.high_watermark == number
            follow(node, partition, number + 1)
            assert (await receive(client)).base_offset == number

    tell(story)


def test_acks_1_waits_for_no_follower() -> None:
    async def story(node: Story) -> None:
        partition = await with_a_follower(node)
        for number in range(3):
            assert (await receive(await send(node, acks=1))).base_offset == number
        assert partition.high_watermark == 0

    tell(story)


def test_acks_1_waits_for_the_sync_and_for_no_follower() -> None:
    async def story(node: Story) -> None:
        partition = await with_a_follower(node, flush_messages="1")
        assert (await receive(await send(node, acks=1))).base_offset == 0
        assert partition.high_watermark == 0

    tell(story)


@pytest.mark.parametrize("acks", [-1, 1])
@pytest.mark.parametrize("leader", [1, 2, -1])
def test_a_leader_epoch_that_ends_ends_the_wait(leader: int, acks: int) -> None:
    """The same node in a later epoch does not know whether a leader between them kept the record."""

    async def story(node: Story) -> None:
        await with_a_follower(node, flush_messages="1")
        files: Any = node.broker.env.files
        files.sync_seconds = (60, 60)
        client = await send(node, acks=acks)
        change(node, leader=NodeId(leader), leader_epoch=LeaderEpoch(1))
        assert (await receive(client)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        files.sync_seconds = (0, 0)
        await trio.sleep(60)

    tell(story)


def test_an_isr_that_shrinks_under_the_minimum_after_the_append_is_told() -> None:
    async def story(node: Story) -> None:
        partition = await with_a_follower(node, min_insync_replicas="2")
        client = await send(node)
        partition.state.note_fetch(2, 1, log_start_offset=0, broker_epoch=-1, now_ms=0)
        change(node, isr=(NodeId(1),))
        assert (await receive(client)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert (await receive(await send(node))).error_code == ErrorCode.NOT_ENOUGH_REPLICAS

    tell(story)


def test_a_bug_of_a_room_that_listens_ends_the_node_with_that_bug() -> None:
    """And not the connection of the producer whose records it heard of."""

    def hear(partition: Partition) -> None:
        raise LookupError(f"a bug of a listener of {partition.topic_partition}")

    async def story(node: Story) -> None:
        await node.create_topic("a")
        partition = node.broker.replicas.partitions["a", 0]
        partition.high_watermark_listeners.add(hear)
        await send(node)
        await trio.sleep_forever()

    with pytest.raises(LookupError, match="a bug of a listener of a-0"):
        tell(story)
