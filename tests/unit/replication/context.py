"""A replica manager over real logs on a memory disk, told what to do by metadata records."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from uuid import UUID

import trio
from trio.testing import MockClock

from log_service.common.env import NodeEnv
from log_service.common.timers import TimerQueue
from log_service.common.types import NodeId, TopicId, TopicPartition
from log_service.config.views import LogConfig, LogManagerConfig
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage
from log_service.protocol.stored.metadata_records import (
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from log_service.records.builder import BatchBuilder
from log_service.replication.partition import Partition
from log_service.replication.replica_listener import ReplicaListener
from log_service.replication.replica_manager import ReplicaManager
from log_service.storage.log_manager import LogManager
from tests.sim import MemoryFiles, MemoryNetwork, VirtualClock

NODE = NodeId(1)
LOG_DIR = Path("/data/kafka")
OTHER_DIR = Path("/data/other")
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def batch(*values: bytes, key: bytes | None = None, timestamp_ms: int = 1_000) -> bytearray:
    """A producer's batch with one record per value."""
    builder = BatchBuilder()
    for value in values:
        builder.append(timestamp_ms, key, value)
    return builder.build()


def sent(*values: bytes, timestamp_ms: int = 1_000) -> memoryview:
    """The same as a request carries it."""
    return memoryview(batch(*values, timestamp_ms=timestamp_ms))


def topic_id(name: str) -> TopicId:
    return TopicId(UUID(int=1000 + sum(name.encode())))


class ReplicaContext:
    """The parts that a test of replication works with.

    ``produce`` and ``read`` go through the partition as the handlers do.
    """

    def __init__(
        self,
        env: NodeEnv,
        replicas: ReplicaManager,
        logs: LogManager,
        timers: TimerQueue,
        nursery: trio.Nursery,
    ) -> None:
        self.env = env
        self.replicas = replicas
        self.logs = logs
        self.timers = timers
        self.nursery = nursery
        self.image: MetadataImage = EMPTY_IMAGE
        assert isinstance(env.files, MemoryFiles)
        self.files = env.files

    def publish(self, *records: MetadataRecord) -> None:
        """Replay records, and hand the image to the replica manager."""
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.build(offset=self.image.offset + len(records), epoch=1)
        self.replicas.on_image(delta, self.image)

    def create_topic(
        self,
        name: str = "a",
        *,
        partitions: int = 1,
        replicas: Sequence[NodeId] = (NODE,),
        isr: Sequence[NodeId] = (NODE,),
        identity: TopicId | None = None,
        **configs: str,
    ) -> None:
        """Create a topic whose partitions this node leads."""
        identity = identity or topic_id(name)
        records: list[MetadataRecord] = [TopicRecord(name=name, topic_id=identity)]
        records += [
            config_record(name, key.replace("_", "."), value) for key, value in configs.items()
        ]
        records += [
            PartitionRecord(
                topic_id=identity,
                partition_id=index,
                replicas=list(replicas),
                isr=list(isr),
                leader=NODE,
                leader_epoch=0,
                partition_epoch=0,
            )
            for index in range(partitions)
        ]
        self.publish(*records)

    def elect(self, leader: int, name: str = "a", index: int = 0) -> None:
        """Change the leader, which raises the leader epoch."""
        self.publish(
            PartitionChangeRecord(
                topic_id=self.image.topics.by_name[name].topic_id, partition_id=index, leader=leader
            )
        )

    def delete_topic(self, name: str = "a") -> None:
        self.publish(RemoveTopicRecord(topic_id=self.image.topics.by_name[name].topic_id))

    def configure(self, key: str, value: str | None, name: str = "a") -> None:
        self.publish(config_record(name, key, value))

    def partition(self, name: str = "a", index: int = 0) -> Partition:
        return self.replicas.get_partition(name, index)

    def produce(
        self,
        *values: bytes,
        name: str = "a",
        index: int = 0,
        acks: int = 1,
        timestamp_ms: int = 1_000,
    ) -> int:
        """Append a batch and announce it; returns its base offset."""
        partition = self.partition(name, index)
        result = self.replicas.append(
            partition,
            sent(*values, timestamp_ms=timestamp_ms),
            acks=acks,
            now_ms=self.env.clock.wall_ms(),
        )
        self.replicas.announce((partition,))
        return result.base_offset


class Hearing(ReplicaListener):
    """A listener that writes down what it hears."""

    def __init__(self, told: list[str], name: str = "") -> None:
        self.told = told
        self.name = name

    def on_led(self, partition: Partition) -> None:
        self.told.append(f"{self.name}led {partition.topic_partition} in {partition.leader_epoch}")

    def on_lost(self, partition: Partition) -> None:
        self.told.append(f"{self.name}lost {partition.topic_partition}")

    def on_moved(self, partition: Partition) -> None:
        self.told.append(f"{self.name}moved {partition.topic_partition}")

    def on_deleted(self, partition: Partition) -> None:
        self.told.append(f"{self.name}deleted {partition.topic_partition}")


def config_record(topic: str, key: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name=topic, name=key, value=value)


def key_of(name: str = "a", index: int = 0) -> TopicPartition:
    return TopicPartition(name, index)


@asynccontextmanager
async def running(
    files: MemoryFiles | None = None,
    config: LogConfig | None = None,
    log_dirs: tuple[Path, ...] = (LOG_DIR,),
) -> AsyncIterator[ReplicaContext]:
    """Run a replica manager; leaving cancels it and closes nothing, as a crash would."""
    clock = VirtualClock()
    files = files or MemoryFiles(clock=clock)
    env = NodeEnv(
        clock=clock,
        rng=Random(f"7 {log_dirs}"),
        network=MemoryNetwork(Random(7)).host("node"),
        files=files,
    )
    log_config = config or LogConfig()
    logs = LogManager(
        env, LogManagerConfig(log_dirs=log_dirs), log_config, node_id=NODE, cluster_id=CLUSTER_ID
    )
    await logs.load()
    timers = TimerQueue()
    async with trio.open_nursery() as nursery:
        replicas = ReplicaManager(
            node_id=NODE,
            clock=clock,
            timers=timers,
            logs=logs,
            default_log_config_of=lambda _image: log_config,
            checkpoint_interval_ms=5_000,
            nursery=nursery,
        )
        await nursery.start(replicas.run)
        yield ReplicaContext(env, replicas, logs, timers, nursery)
        nursery.cancel_scope.cancel()
    logs.release()


def run_story(main: Callable[[], Awaitable[None]]) -> None:
    """Run an async test in virtual time."""
    trio.run(main, clock=MockClock(autojump_threshold=0))
