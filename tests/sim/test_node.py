"""The same broker and the same client run in one process on virtual time.

Network and disk are in memory.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from log_service.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from log_service.client.consumer.records import ConsumerRecord
from tests.sim import World
from tests.sim.node_guard import RealWorldTouched, real_world_closed
from tests.sim.node_host import BOOTSTRAP, Death, NodeHost, node_config
from tests.sim.world import sim_world

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPIC = "flights"
PARTITION_COUNT = 3
RECORDS_PER_CODEC = 20


async def produce(world: World, values: list[str], codec: str) -> None:
    env = world.client_env(f"producer {codec}")
    async with Producer(BOOTSTRAP, env=env, compression=codec, linger_ms=20) as producer:
        deliveries = [
            await producer.send(TOPIC, value=value.encode(), partition=i % PARTITION_COUNT)
            for i, value in enumerate(values)
        ]
        for value, delivery in zip(values, deliveries, strict=True):
            metadata = await delivery.wait()
            world.log("sent", value, metadata.partition, metadata.offset)


async def consume(world: World, count: int) -> list[ConsumerRecord]:
    """Two members of a group share ``count`` records and commit them."""
    found: list[ConsumerRecord] = []
    owners: dict[str, set[TopicPartition]] = {}

    async def member(name: str) -> None:
        async with Consumer(
            BOOTSTRAP, env=world.client_env(name), group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            await consumer.subscribe([TOPIC])
            while len(found) < count or len(owners) < 2:
                records = await consumer.poll(timeout_ms=300)
                found.extend(records)
                if consumer.assignment:
                    owners.setdefault(name, set()).update(consumer.assignment)
                world.log(name, [(record.partition, record.offset) for record in records])
                await consumer.commit()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(member, "first")
        nursery.start_soon(member, "second")
    return found


async def story(world: World) -> None:
    """A node restarts in order and after a kill, and its clients go on.

    They create, produce with every codec, and consume in a group.
    """
    world.network.weather = world.draw_weather()
    async with trio.open_nursery() as nursery:
        host = NodeHost(world, nursery, *node_config({"log.flush.interval.messages": "1"}))
        for start in range(3):
            incarnation = await host.start()
            assert incarnation.is_up, incarnation.error
            async with Admin(BOOTSTRAP, env=world.client_env("admin")) as admin:
                if start == 0:
                    await admin.create_topics(
                        [NewTopic(name=TOPIC, partition_count=PARTITION_COUNT)]
                    )
                values = [
                    [f"{start} {codec} {number}" for number in range(RECORDS_PER_CODEC)]
                    for codec in CODECS
                ]
                for codec, some in zip(CODECS, values, strict=True):
                    await produce(world, some, codec)
                sent = [value for some in values for value in some]
                found = await consume(world, len(sent))
                assert sorted(record.value.decode() for record in found) == sorted(sent), (
                    "a group reads on where it committed"
                )
                committed = await admin.list_group_offsets("g")
                assert sum(position.offset for position in committed.values()) == (start + 1) * len(
                    sent
                )
            if start == 0:
                await host.stop()
                assert incarnation.broker.is_stopped_gracefully
            else:
                host.die(Death.KILL if start == 1 else Death.POWER)


@pytest.fixture(scope="module")
def _imported() -> None:
    """Modules are loaded at first use; a run before the guarded ones does that."""
    sim_world(0, story)


@pytest.mark.usefixtures("_imported")
@pytest.mark.parametrize("seed", range(4))
def test_broker_and_client_run_in_virtual_time_without_socket_thread_clock_or_file(
    seed: int,
) -> None:
    world, _ = sim_world(seed, guarded_story)
    assert world.step_count > 1_000


async def guarded_story(world: World) -> None:
    with real_world_closed():
        await story(world)


@pytest.mark.usefixtures("_imported")
def test_same_seed_gives_the_same_run() -> None:
    (first, _), (again, _), (other, _) = (sim_world(seed, story) for seed in (11, 11, 12))
    assert first.trace == again.trace
    assert first.digest == again.digest != other.digest


def test_run_is_the_same_in_another_process_with_other_hashes() -> None:
    root = Path(__file__).resolve().parents[2]
    code = "from tests.sim.test_node import story; from tests.sim.world import sim_world; print(sim_world(3, story)[0].digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


class TestGuard:
    def test_notices_files_threads_sockets_clocks_and_randomness(self, tmp_path: Path) -> None:
        import random
        import socket
        import threading
        import time

        def touch_shared_random() -> None:
            random.random()

        touches: list[Callable[[], object]] = [
            (tmp_path / "file").touch,
            socket.socket,
            lambda: threading.Thread(target=print).start(),
            lambda: time.time(),  # noqa: PLW0108 - looked up while the guard is on
            random.SystemRandom().random,
            touch_shared_random,
        ]
        for touch in touches:
            with pytest.raises(RealWorldTouched), real_world_closed():
                touch()
