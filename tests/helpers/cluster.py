"""Several nodes of one cluster in virtual time, each on a host of its own.

Voters are static or stand in the metadata.

async def story(cluster: Cluster) -> None:
    leader = await cluster.leader()

tell_cluster(story)
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import trio

from log_service.broker.broker import Broker
from log_service.client import Admin, NewTopic, Producer
from log_service.common.types import NodeId
from log_service.config.server import parse_server_properties
from log_service.config.views import NodeConfig
from log_service.metadata.features import first_feature_records
from log_service.protocol.stored.metadata_records import MetadataRecord
from log_service.raft.format import FormatPlan, format_directories
from tests.sim import World, sim_run
from tests.sim.disk import Crashed

CLUSTER_ID = "cluster-in-virtual-time"
BROKER_PORT, CONTROLLER_PORT = 9092, 9093
DATA = Path("/data")


def host_of(node_id: int) -> str:
    return f"node{node_id}"


def node_properties(
    node_id: int, voter_ids: Iterable[int], roles: str = "broker,controller", **properties: str
) -> dict[str, str]:
    """Return the properties of one node. Their names are given with underscores."""
    listeners = {
        "broker": f"PLAINTEXT://{host_of(node_id)}:{BROKER_PORT}",
        "controller": f"CONTROLLER://{host_of(node_id)}:{CONTROLLER_PORT}",
    }
    return {
        "process.roles": roles,
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(
            f"{each}@{host_of(each)}:{CONTROLLER_PORT}" for each in voter_ids
        ),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners[role] for role in roles.split(",")),
        "log.dirs": str(DATA),
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
        **{name.replace("_", "."): value for name, value in properties.items()},
    }


class Cluster:
    """The nodes of a cluster by id. ``nursery`` runs them."""

    def __init__(
        self, world: World, nursery: trio.Nursery, files: Mapping[int, Mapping[str, str]]
    ) -> None:
        self.world = world
        self.nursery = nursery
        self.files = files
        self.brokers: dict[int, Broker] = {}
        self.scopes: dict[int, trio.CancelScope] = {}

    def config(self, node_id: int) -> tuple[NodeConfig, dict[str, str]]:
        config, settings = parse_server_properties(self.files[node_id])
        return replace(config, disk_pool_threads=1), dict(settings.texts)

    def wipe(self, node_id: int) -> None:
        """Give a stopped node an empty disk, formatted anew, with ids of its own."""
        del self.world.disks[host_of(node_id)]
        self.format(node_id, number=1)

    def format(
        self,
        node_id: int,
        *,
        number: int = 0,
        more_records: Sequence[MetadataRecord] = (),
        **plan: Any,
    ) -> None:
        """Format the node's disk as ``tidelog storage format`` does.

        ``number`` is that of the disk.
        """
        config, _ = self.config(node_id)
        files = self.world.node_env(host_of(node_id)).files
        whole = FormatPlan(
            node_id=NodeId(node_id),
            cluster_id=CLUSTER_ID,
            is_log_elsewhere=True,
            bootstrap_records=[*first_feature_records(), *more_records],
            new_bits=Random(
                f"format {node_id}" if not number else f"format {node_id} {number}"
            ).getrandbits,
            now_ms=0,
            **plan,
        )
        format_directories(files, config.log_manager.log_dirs, config.metadata_log_dir, whole)

    async def start(self, *node_ids: int) -> None:
        """Start nodes at once, and wait until all serve."""
        async with trio.open_nursery() as starting:
            for node_id in node_ids or self.files:
                starting.start_soon(self.nursery.start, self._run, node_id)

    async def _run(self, node_id: int, *, task_status: trio.TaskStatus[Any]) -> None:
        config, texts = self.config(node_id)
        with trio.CancelScope() as self.scopes[node_id]:
            broker = self.brokers[node_id] = Broker(
                self.world.node_env(host_of(node_id)), config, static_texts=texts
            )
            try:
                await broker.run(task_status=task_status)
            except* Crashed:  # its disk was gone before the cancellation came
                assert self.brokers.get(node_id) is not broker, "nobody has killed the node"

    async def stop(self, node_id: int) -> None:
        await self.brokers.pop(node_id).stop()

    def kill(self, node_id: int) -> None:
        """End a node as a loss of power does."""
        self.world.crash(host_of(node_id))
        del self.brokers[node_id]
        self.scopes[node_id].cancel()

    async def leader(self) -> int:
        """Wait until a node is the active controller, and return its id."""
        while True:
            for node_id, broker in self.brokers.items():
                if broker.rooms.controller.is_active:
                    return node_id
            await trio.sleep(0.05)

    async def until(self, is_so: Callable[[], bool], seconds: float = 60) -> None:
        with trio.fail_after(seconds):
            while not is_so():  # noqa: ASYNC110 - several nodes make it so
                await trio.sleep(0.05)

    async def until_soon(self, is_so: Callable[[], bool], seconds: float = 5) -> None:
        """Wait for a state that lasts a short time: check each tenth of a millisecond."""
        with trio.fail_after(seconds):
            while not is_so():  # noqa: ASYNC110 - as above
                await trio.sleep(0.0001)

    def unfenced(self, node_id: int) -> list[int]:
        """Return the brokers that may lead, as one node sees it."""
        return sorted(broker.node_id for broker in self.brokers[node_id].image.cluster.unfenced())


async def replicate_records(cluster: Cluster, leader: int) -> None:
    """Send thirty records to a new topic, and wait until all replicas are in sync.

    The topic has a replica on each node. ``leader`` is the node that is asked about the replicas.
    """
    env, node_ids = cluster.world.client_env(), sorted(cluster.brokers)
    servers = f"{host_of(leader)}:{BROKER_PORT}"
    async with Admin(servers, env=env) as admin:
        await admin.create_topics(
            [NewTopic(name="orders", partition_count=3, replication_factor=len(node_ids))]
        )
    async with Producer(servers, env=env) as producer:
        for number in range(30):
            await producer.send("orders", str(number).encode(), key=str(number).encode())
        await producer.flush()

    def is_whole() -> bool:
        partitions = cluster.brokers[leader].image.topics.by_name["orders"].partitions.values()
        return all(sorted(partition.isr) == node_ids for partition in partitions)

    await cluster.until(is_whole)


def tell_cluster(
    story: Callable[[Cluster], Awaitable[None]],
    files: Mapping[int, Mapping[str, str]] | None = None,
    *,
    seed: int = 1,
    is_started: bool = True,
) -> None:
    """Run one story with three nodes of both roles, or with the nodes of ``files``.

    The nodes are formatted and started, unless ``is_started`` is false.
    """

    async def main(world: World) -> None:
        async with trio.open_nursery() as nursery:
            cluster = Cluster(
                world,
                nursery,
                files or {each: node_properties(each, (1, 2, 3)) for each in (1, 2, 3)},
            )
            if is_started:
                for node_id in cluster.files:
                    cluster.format(node_id)
                with trio.fail_after(60):
                    await cluster.start()
            await story(cluster)
            nursery.cancel_scope.cancel()

    sim_run(seed, main)
