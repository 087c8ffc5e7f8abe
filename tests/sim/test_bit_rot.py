"""A node reports each bit that changed while it was stopped, if it matters.

It never serves a damaged record as good.

Below the recovery point no start reads a segment, in Apache Kafka neither: the client's checksum is
what stands between a flipped bit and its reader. Outside the checksum are, by Kafka's format, only
a batch's base offset, its size, its magic and its leader epoch.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
import trio

from log_service.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from log_service.common.errors import TidelogError
from tests.sim.disk import Directory, Inode
from tests.sim.node_clients import TIMEOUTS
from tests.sim.node_host import BOOTSTRAP, NodeHost, node_config
from tests.sim.world import World, sim_world

PARTITION = TopicPartition("kept", 0)
COUNT = 40
CHECKSUMMED_FROM = 17
"""Where in a batch its checksum begins."""
Story = Callable[[World, NodeHost], Awaitable[None]]


def values() -> list[str]:
    return [f"{number}:{'x' * 50}" for number in range(COUNT)]


def on_a_stopped_node(story: Story) -> None:
    """Write records over several segments, stop in order, and tell the story."""

    async def main(world: World) -> None:
        async with trio.open_nursery() as nursery:
            host = NodeHost(
                world,
                nursery,
                *node_config(
                    {"log.flush.interval.messages": "1"},
                    segment_bytes=1_000,
                    index_interval_bytes=100,
                ),
            )
            await host.start()
            async with Admin(BOOTSTRAP, env=world.client_env("admin"), **TIMEOUTS) as admin:
                await admin.create_topics([NewTopic(name=PARTITION.topic, partition_count=1)])
            async with Producer(
                BOOTSTRAP, env=world.client_env("producer"), **TIMEOUTS
            ) as producer:
                for value in values():
                    await (
                        await producer.send(PARTITION.topic, value=value.encode(), partition=0)
                    ).wait()
            await host.stop()
            await story(world, host)
            nursery.cancel_scope.cancel()

    sim_world(1, main)


def files_of(host: NodeHost, suffix: str) -> list[Inode]:
    node = host.disk.find(Path("/data/kept-0"))
    assert isinstance(node, Directory)
    return [
        child
        for name, child in sorted(node.children.items())
        if name.endswith(suffix) and isinstance(child, Inode)
    ]


async def read_all(world: World, name: str) -> tuple[list[tuple[int, str]], str]:
    """Everything that a reader gets, and the error that ended it."""
    found: list[tuple[int, str]] = []
    settings = {**TIMEOUTS, "request_timeout_ms": 2_000}
    try:
        async with Consumer(
            BOOTSTRAP, env=world.client_env(name), auto_offset_reset="none", **settings
        ) as consumer:
            consumer.assign([PARTITION])
            await consumer.seek(PARTITION, 0)
            with trio.move_on_after(20):
                while len(found) < COUNT:
                    found += [
                        (record.offset, (record.value or b"").decode())
                        for record in await consumer.poll(timeout_ms=500)
                    ]
    except TidelogError as error:
        return found, str(error)
    return found, "" if len(found) == COUNT else "it waits"


async def judge(world: World, host: NodeHost, what: str, *, may_skip: bool = False) -> str:
    """Start on the damaged disk, read, and stop; returns what was told. What is read must be what
    was written.
    """
    incarnation = await host.start()
    if not incarnation.is_up:
        return f"refused: {incarnation.error!r}"
    found, error = await read_all(world, what)
    await host.stop()
    expected = list(enumerate(values()))
    for offset, value in found:
        if not may_skip:
            assert (offset, value) in expected, f"{what}: {value[:10]!r} is served at {offset}"
    if not may_skip:
        assert [offset for offset, _ in found] == list(range(len(found))), (
            f"{what}: records are left out: {[offset for offset, _ in found]}"
        )
    return error


def flip(node: Inode, position: int, bit: int) -> None:
    """Change one bit, on the disk and in its cache."""
    for content in (node.content, node.durable):
        if position < len(content):
            content[position] ^= 1 << bit


@pytest.mark.parametrize("seed", range(3))
def test_a_flipped_bit_in_a_batch_is_told_and_not_served(seed: int) -> None:
    async def story(world: World, host: NodeHost) -> None:
        rng = Random(seed)
        log = files_of(host, ".log")[1]
        for _ in range(12):
            size = int.from_bytes(log.content[8:12], "big") + 12
            position, bit = rng.randrange(CHECKSUMMED_FROM, size), rng.randrange(8)
            flip(log, position, bit)
            told = await judge(world, host, f"bit {bit} of byte {position}")
            assert told, (
                f"bit {bit} of byte {position} of a batch is flipped, and no reader is told"
            )
            flip(log, position, bit)

    on_a_stopped_node(story)


@pytest.mark.parametrize(
    "suffix", [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint", "partition.metadata"]
)
def test_a_flipped_bit_beside_the_batches_costs_no_record(suffix: str) -> None:
    async def story(world: World, host: NodeHost) -> None:
        rng = Random(suffix)
        for _ in range(10):
            node = rng.choice([each for each in files_of(host, suffix) if each.content])
            kept = bytes(node.content)
            position, bit = rng.randrange(len(kept)), rng.randrange(8)
            flip(node, position, bit)
            told = await judge(world, host, f"bit {bit} of byte {position} of {node.name}")
            assert not told or suffix in {"leader-epoch-checkpoint", "partition.metadata"}, told
            for again in files_of(host, suffix):
                if again.name == node.name:
                    again.content[:], again.durable[:] = kept, kept

    on_a_stopped_node(story)
