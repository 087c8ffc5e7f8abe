"""Measures the cost of a batch on its way from leader to follower.

    python -m benchmarks.replication_hop

Two processes on this machine, a leader and a follower, use loopback and real files, without quorum
and clients. In ``catch up`` the follower was away, and fetches megabytes at once. In ``lock step``
the leader appends a batch, waits until the follower has it, and appends the next. Then the whole
cost of a hop stands before every acknowledgement. The leader's appends themselves are measured
without a follower first, and subtracted.
"""

import dataclasses
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import trio

from benchmarks.broker_process import free_port
from log_service.broker.env import real_env
from log_service.broker.fetch_session import FetchSessionCache
from log_service.broker.node import Node
from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Side
from log_service.broker.requests.pipeline import Pipeline, new_meters
from log_service.broker.requests.produce_queues import ProduceQueues
from log_service.broker.timer_task import TimerTask
from log_service.common.timers import TimerQueue
from log_service.common.types import NodeId
from log_service.config.server import parse_server_properties
from log_service.config.views import LogManagerConfig
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE
from log_service.network.server import Server, ServerBudget
from log_service.protocol.stored.metadata_records import (
    BrokerEndpoint,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from log_service.records.builder import BatchBuilder
from log_service.replication.links import ClusterLinks
from log_service.replication.partition import Partition
from log_service.replication.replica_manager import ReplicaManager
from log_service.rpc.connection import RpcSettings
from log_service.rpc.pool import ConnectionPool
from log_service.storage.log_manager import LogManager

TOPIC_ID = UUID(int=4711)
LEADER, FOLLOWER = 1, 2
Ports = dict[int, int]
"""The port of each node, by its id."""
SIZES = ((100, 1), (1_000, 1), (1_000, 16), (1_000, 256), (1_000, 1_000))
"""(bytes of a value, records of a batch)."""


def records_of(replicas: tuple[int, ...], ports: Ports) -> list[MetadataRecord]:
    brokers = [
        RegisterBrokerRecord(
            broker_id=number,
            broker_epoch=10,
            incarnation_id=UUID(int=number),
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=port)],
            fenced=False,
        )
        for number, port in ports.items()
    ]
    partition = PartitionRecord(
        topic_id=TOPIC_ID,
        partition_id=0,
        replicas=list(replicas),
        isr=list(replicas),
        leader=LEADER,
        leader_epoch=0,
        partition_epoch=0,
    )
    return [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        *brokers,
        TopicRecord(name="hop", topic_id=TOPIC_ID),
        partition,
    ]


class _NoController:
    def spoken_versions(self) -> None:
        return None

    async def request(self, *_: Any) -> Any:
        await trio.sleep_forever()


class _NoTelemetry:
    is_shown = False


async def until(condition: Callable[[], bool], pause_s: float) -> None:
    while not condition():  # noqa: ASYNC110 - a pause that is long beside a hop costs less than being told of each
        await trio.sleep(pause_s)


@asynccontextmanager
async def node(
    number: int, directory: str, replicas: tuple[int, ...], ports: Ports
) -> AsyncIterator[ReplicaManager]:
    """Run one node until the block ends."""
    config, settings = parse_server_properties(
        {
            "node.id": str(number),
            "listeners": f"PLAINTEXT://127.0.0.1:{ports[number]}",
            "log.dirs": directory,
        }
    )
    env, timers = real_env(config), TimerQueue()
    logs = LogManager(
        env, LogManagerConfig(log_dirs=(Path(directory),)), config.log, node_id=number
    )
    await logs.load()
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in records_of(replicas, ports):
        delta.replay(record)
    image = delta.build(offset=1, epoch=1)
    async with trio.open_nursery() as nursery:
        pool = ConnectionPool(env, RpcSettings(client_id=f"broker-{number}"), nursery)
        links = ClusterLinks(
            controller=cast("Any", _NoController()),
            pool=lambda: pool,
            broker_epoch=lambda: 10,
            listener_name="PLAINTEXT",
        )
        replicas_ = ReplicaManager(
            node_id=NodeId(number),
            clock=env.clock,
            timers=timers,
            logs=logs,
            default_log_config_of=lambda _image: config.log,
            checkpoint_interval_ms=60_000,
            nursery=nursery,
            links=links,
        )
        fields: dict[str, Any] = {each.name: None for each in dataclasses.fields(Node) if each.init}
        fields |= {
            "config": config,
            "static_texts": settings.texts,
            "clock": env.clock,
            "image": lambda: image,
            "replicas": replicas_,
            "produce_queues": ProduceQueues(),
            "controller": _NoController(),
            "telemetry": _NoTelemetry(),
            "run_in_pool": env.files.run_in_pool,
            "logs": logs,
            "fetch_sessions": FetchSessionCache(config.fetch, env.rng),
        }
        pipeline = Pipeline(
            Node(**fields), Side.BROKER, nursery.start_soon, REGISTRY, new_meters(REGISTRY, 0)
        )
        server = Server(
            env=env,
            listener=config.listeners[0],
            limits=config.limits,
            handler=pipeline,
            shared=ServerBudget(config.limits),
        )
        await nursery.start(server.run)
        await nursery.start(TimerTask(timers, env.clock).run)
        replicas_.on_image(delta, image)
        yield replicas_
        nursery.cancel_scope.cancel()
    logs.release()


def follow(directory: str, end_offset: int, ports: Ports, results: Any) -> None:
    """Follow until the log ends at ``end_offset``.

    Puts CPU seconds and seconds into ``results``.
    """

    async def main() -> None:
        async with node(FOLLOWER, directory, (LEADER, FOLLOWER), ports) as replicas:
            state = replicas.get_partition("hop", 0).state
            await until(lambda: state.log_end_offset > 0, 0.0005)
            cpu, began = time.process_time(), time.perf_counter()
            await until(lambda: state.log_end_offset >= end_offset, 0.05)
            results.put((time.process_time() - cpu, time.perf_counter() - began))
            await trio.sleep(0.6)  # the last fetch tells the leader

    trio.run(main)


def batch_of(value_bytes: int, count: int) -> bytes:
    builder = BatchBuilder()
    for _ in range(count):
        builder.append(1_700_000_000_000, None, b"x" * value_bytes)
    return bytes(builder.build())


def append(replicas: ReplicaManager, partition: Partition, batch: bytes) -> None:
    replicas.append(partition, memoryview(bytearray(batch)), acks=-1, now_ms=1_700_000_000_000)
    replicas.announce((partition,))


def measure(
    value_bytes: int, count: int, batches: int, *, is_lock_step: bool
) -> tuple[float, float, float, float]:
    """Return the CPU of the leader's appends alone, that of leader and follower, and seconds."""
    root = tempfile.mkdtemp(prefix="hop")
    ports = {number: free_port() for number in (LEADER, FOLLOWER)}
    batch = batch_of(value_bytes, count)
    context = get_context("spawn")
    results = context.Queue()
    alone = 0.0

    async def appends_alone() -> float:
        async with node(LEADER, f"{root}/alone", (LEADER,), ports) as replicas:
            partition = replicas.get_partition("hop", 0)
            began = time.process_time()
            for _ in range(batches):
                append(replicas, partition, batch)
            return time.process_time() - began

    async def lead() -> float:
        async with node(LEADER, f"{root}/leader", (LEADER, FOLLOWER), ports) as replicas:
            partition = replicas.get_partition("hop", 0)
            append(replicas, partition, batch)
            if not is_lock_step:
                for _ in range(batches - 1):
                    append(replicas, partition, batch)
            follower = context.Process(
                target=follow, args=(f"{root}/follower", batches * count, ports, results)
            )
            began = time.process_time()
            follower.start()
            if is_lock_step:
                moved = trio.Event()
                partition.high_watermark_listeners.add(lambda _: moved.set())
                for _ in range(batches - 1):
                    while partition.high_watermark < partition.state.log_end_offset:
                        moved = trio.Event()
                        await moved.wait()
                    append(replicas, partition, batch)
            await until(lambda: partition.high_watermark >= batches * count, 0.05)
            spent = time.process_time() - began
            await trio.to_thread.run_sync(follower.join)
            return spent

    try:
        if is_lock_step:
            alone = trio.run(appends_alone)
        leader_cpu = trio.run(lead)
        follower_cpu, seconds = results.get()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return alone, leader_cpu - alone, follower_cpu, seconds


def main() -> None:
    print(
        f"{os.cpu_count()} cores; microseconds of CPU per batch, and CPU seconds per GB of values"
    )
    for value_bytes, count in SIZES:
        size = value_bytes * count
        for is_lock_step in (True, False):
            batches = (
                min(3_000, 300_000_000 // size)
                if is_lock_step
                else min(20_000, 500_000_000 // size)
            )
            alone, leader, follower, seconds = measure(
                value_bytes, count, batches, is_lock_step=is_lock_step
            )
            per, gigabytes = 1e6 / batches, batches * size / 1e9
            print(
                f"{'lock step' if is_lock_step else 'catch up ':9} {count:5} x {value_bytes:5} B:"
                f" append {alone * per:6.1f} us, leader {leader * per:6.1f} us, follower"
                f" {follower * per:6.1f} us, {seconds * per:6.1f} us elapsed; leader"
                f" {leader / gigabytes:5.2f} s/GB, follower {follower / gigabytes:5.2f} s/GB",
                flush=True,
            )


if __name__ == "__main__":
    main()
