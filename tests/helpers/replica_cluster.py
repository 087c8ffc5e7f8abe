"""Several nodes that replicate to each other in virtual time, without a quorum.

Logs, replica managers and listeners are real. The cluster is its own controller. ``publish`` hands
metadata records to every node that runs and is not deaf. An AlterPartition of a leader becomes a
record at once, unless ``refusal`` refuses it.

def test_something() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic("a", replicas=(1, 2))
        await cluster.node(1).produce("a", batch(b"one"))

    tell_cluster(story)
"""

import dataclasses
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast
from uuid import UUID

import trio

from log_service.broker.client_telemetry import ClientTelemetry
from log_service.broker.fetch_session import FetchSessionCache
from log_service.broker.lost_brokers import LostBrokers
from log_service.broker.node import Node
from log_service.broker.produced_counts import ProducedCounts
from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Side
from log_service.broker.requests.pipeline import Pipeline, new_meters
from log_service.broker.requests.produce_queues import ProduceQueues
from log_service.broker.timer_task import TimerTask
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.timers import TimerQueue
from log_service.common.types import NodeId, TopicId
from log_service.config.resolve import log_defaults
from log_service.config.server import parse_server_properties
from log_service.config.views import LogManagerConfig
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage
from log_service.network.server import Server, ServerBudget
from log_service.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from log_service.protocol.stored.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from log_service.records.batch import iterate_headers, iterate_records
from log_service.replication.links import ClusterLinks
from log_service.replication.partition import Partition
from log_service.replication.replica_manager import ReplicaManager
from log_service.rpc.connection import RpcSettings
from log_service.rpc.pool import ConnectionPool
from log_service.storage.log import Log
from log_service.storage.log_manager import LogManager
from tests.helpers.handler_node import FakeController
from tests.sim import World, sim_run
from tests.unit.broker.context import Asking, RawClient
from tests.unit.replication.context import config_record, topic_id

LISTENER = "PLAINTEXT"
PORT = 9092
CLUSTER_ID = "cluster-of-the-story-00"
TOPIC = "a"


class ReplicaNode(Asking):
    """One node of the cluster, and a client's connection to it.

    It has died where ``is_running`` is false.
    """

    def __init__(self, cluster: "ReplicaCluster", node_id: int, properties: dict[str, str]) -> None:
        self.cluster = cluster
        self.node_id = NodeId(node_id)
        self.host = f"host{node_id}"
        self.config, settings = parse_server_properties(
            {
                "node.id": str(node_id),
                "listeners": f"{LISTENER}://{self.host}:{PORT}",
                "log.dirs": f"/data/{node_id}",
                **properties,
            }
        )
        self.texts = settings.texts
        self.is_running = False
        self.is_deaf = False
        self.image: MetadataImage = EMPTY_IMAGE
        self.epoch = -1
        self._scope = trio.CancelScope()
        self._client: RawClient | None = None
        self._ended = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Start the node, and let it run until it is killed."""
        self.env = env = self.cluster.world.node_env(self.host)
        self.image, self._scope, self._client, self._ended = (
            EMPTY_IMAGE,
            trio.CancelScope(),
            None,
            trio.Event(),
        )
        self.logs = LogManager(
            env,
            LogManagerConfig(log_dirs=(Path(f"/data/{self.node_id}"),)),
            self.config.log,
            node_id=self.node_id,
            cluster_id=CLUSTER_ID,
        )
        await self.logs.load()
        with self._scope:
            async with trio.open_nursery() as nursery:
                await self._start(nursery)
                self.is_running = True
                task_status.started()
                await trio.sleep_forever()
        self._ended.set()

    async def _start(self, nursery: trio.Nursery) -> None:
        env, timers, nothing = self.env, TimerQueue(), cast("Any", None)
        pool = ConnectionPool(env, RpcSettings(client_id=f"broker-{self.node_id}"), nursery)
        self.nursery = nursery
        self.replicas = ReplicaManager(
            node_id=self.node_id,
            clock=env.clock,
            timers=timers,
            logs=self.logs,
            default_log_config_of=lambda _image: log_defaults(self.texts),
            checkpoint_interval_ms=5_000,
            nursery=nursery,
            links=ClusterLinks(
                controller=cast("Any", self.cluster),
                pool=lambda: pool,
                broker_epoch=lambda: self.epoch,
                listener_name=LISTENER,
                config=self.config.replication,
            ),
        )
        self.pool = pool
        fields = {each.name: nothing for each in dataclasses.fields(Node) if each.init}
        fields |= {
            "lost_brokers": LostBrokers(
                env,
                timers,
                image=lambda: self.image,
                listener_name=LISTENER,
                grace_ms=0,
                start_task=nursery.start_soon,
            ),
            "config": self.config,
            "static_texts": self.texts,
            "cluster_id": CLUSTER_ID,
            "clock": env.clock,
            "image": lambda: self.image,
            "run_in_pool": env.files.run_in_pool,
            "logs": self.logs,
            "replicas": self.replicas,
            "controller": FakeController(),
            "produce_queues": ProduceQueues(),
            "produced": ProducedCounts(),
            "fetch_sessions": FetchSessionCache(self.config.fetch, Random(self.node_id)),
            "telemetry": ClientTelemetry(
                clock=env.clock,
                rng=Random(self.node_id),
                run_in_pool=env.files.run_in_pool,
                max_bytes=0,
                is_shown=False,
            ),
        }
        self.node = Node(**fields)
        self.meters = new_meters(REGISTRY, 0)
        pipeline = Pipeline(self.node, Side.BROKER, nursery.start_soon, REGISTRY, self.meters)
        limits = self.config.limits
        server = Server(
            env=env,
            listener=self.config.listeners[0],
            limits=limits,
            handler=pipeline,
            shared=ServerBudget(limits),
        )
        await nursery.start(server.run)
        await nursery.start(TimerTask(timers, env.clock).run)
        await nursery.start(self.replicas.run)

    def publish(self, image: MetadataImage) -> None:
        """Apply metadata, as its changes since the image that this node saw last."""
        if self.is_running and not self.is_deaf and image is not self.image:
            delta, self.image = MetadataDelta.between(self.image, image), image
            self.replicas.on_image(delta, image)

    async def kill(self, *, is_power_lost: bool = False) -> None:
        """Kill the node's process. Its disk keeps all written bytes.

        With ``is_power_lost`` it keeps only the synced bytes.
        """
        self.is_running = False
        end = self.cluster.world.crash if is_power_lost else self.cluster.world.kill
        end(self.host)
        self._scope.cancel()
        await self._ended.wait()
        self.logs.release()

    async def ask(self, request: Any, version: int) -> Any:
        if self._client is None:
            self._client = RawClient(
                await self.cluster.world.client_env().network.connect(self.host, PORT)
            )
        return await self._client.ask(request, version)

    def partition(self, name: str = TOPIC, index: int = 0) -> Partition:
        return self.replicas.get_partition(name, index)

    def log(self, name: str = TOPIC, index: int = 0) -> Log:
        log = self.partition(name, index).log
        assert log is not None
        return log

    def bytes_of(self, name: str = TOPIC, index: int = 0) -> bytes:
        """Return all batches of a partition, as they are in its segments."""
        log = self.log(name, index)
        return b"".join(log.read_batches(log.log_start_offset))

    def values(self, name: str = TOPIC, index: int = 0) -> list[bytes | None]:
        content = self.bytes_of(name, index)
        return [
            None if record.value is None else bytes(record.value)
            for position, _ in iterate_headers(content)
            for record in iterate_records(content, position)
        ]


class ReplicaCluster:
    """The nodes and their metadata. ``alterations`` are the received AlterPartition requests."""

    def __init__(
        self, world: World, nursery: trio.Nursery, count: int, properties: dict[str, str]
    ) -> None:
        self.world = world
        self.nursery = nursery
        self.nodes = {
            number: ReplicaNode(self, number, properties) for number in range(1, count + 1)
        }
        self.image: MetadataImage = EMPTY_IMAGE
        self.alterations: list[AlterPartitionRequest] = []
        self.decision_seconds = 0.001
        self.most_at_once = 0
        """The most requests of one node that were under way at a time."""
        self._under_way: Counter[int] = Counter()
        self.refusal: Callable[[AlterPartitionRequest], ErrorCode | KafkaError | None] = (
            lambda _request: None
        )
        self._last_epoch = 10

    def node(self, number: int) -> ReplicaNode:
        return self.nodes[number]

    async def start(self, number: int) -> None:
        """Start a node, which registers and receives all metadata."""
        node = self.nodes[number]
        await self.nursery.start(node.run)
        self._last_epoch += 1
        node.epoch = self._last_epoch
        self.register(number)

    def register(self, number: int, *, fenced: bool = False) -> None:
        self.publish(
            RegisterBrokerRecord(
                broker_id=number,
                broker_epoch=self.nodes[number].epoch,
                incarnation_id=UUID(int=self.nodes[number].epoch),
                end_points=[BrokerEndpoint(name=LISTENER, host=self.nodes[number].host, port=PORT)],
                fenced=fenced,
                log_dirs=[UUID(int=500 + number)],
            )
        )

    def fence(self, number: int, *, is_fenced: bool = True) -> None:
        change = BrokerRegistrationChangeRecord(
            broker_id=number, broker_epoch=self.nodes[number].epoch, fenced=1 if is_fenced else -1
        )
        self.publish(change)

    def publish(self, *records: MetadataRecord) -> None:
        """Commit records, and publish them to every node that is not deaf."""
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.build(offset=self.image.offset + len(records), epoch=1)
        for node in self.nodes.values():
            node.publish(self.image)

    def tell(self, number: int) -> None:
        """Let a deaf node hear again, and publish to it all that it missed."""
        self.nodes[number].is_deaf = False
        self.nodes[number].publish(self.image)

    def create_topic(
        self,
        name: str = TOPIC,
        *,
        replicas: Sequence[int] = (1, 2),
        isr: Sequence[int] | None = None,
        partitions: int = 1,
        identity: TopicId | None = None,
        **configs: str,
    ) -> None:
        """Create a topic that the first of its replicas leads."""
        identity = identity or topic_id(name)
        self.publish(
            TopicRecord(name=name, topic_id=identity),
            *(config_record(name, key.replace("_", "."), value) for key, value in configs.items()),
            *(
                PartitionRecord(
                    topic_id=identity,
                    partition_id=index,
                    replicas=list(replicas),
                    isr=list(replicas if isr is None else isr),
                    leader=replicas[0],
                    leader_epoch=0,
                    partition_epoch=0,
                )
                for index in range(partitions)
            ),
        )

    def change(self, name: str = TOPIC, index: int = 0, **fields: Any) -> None:
        """Change a partition: ``leader``, ``isr``, ``replicas``."""
        self.publish(
            PartitionChangeRecord(
                topic_id=self.image.topics.by_name[name].topic_id, partition_id=index, **fields
            )
        )

    def delete_topic(self, name: str = TOPIC) -> None:
        self.publish(RemoveTopicRecord(topic_id=self.image.topics.by_name[name].topic_id))

    def isr(self, name: str = TOPIC, index: int = 0) -> tuple[int, ...]:
        return self.image.topics.by_name[name].partitions[index].isr

    async def request(
        self, request: AlterPartitionRequest, response_type: type[Any]
    ) -> AlterPartitionResponse:
        """Handle an AlterPartition as the controller does.

        The record is committed before the response leaves.
        """
        assert response_type is AlterPartitionResponse
        self._under_way[request.broker_id] += 1
        self.most_at_once = max(self.most_at_once, self._under_way[request.broker_id])
        await trio.sleep(self.decision_seconds)
        self._under_way[request.broker_id] -= 1
        self.alterations.append(request)
        refusal = self.refusal(request)
        if isinstance(refusal, KafkaError):
            raise refusal
        response = AlterPartitionResponse()
        for topic in request.topics:
            told = ResponseTopicData(topic_id=topic.topic_id)
            response.topics.append(told)
            for wanted in topic.partitions:
                members = [member.broker_id for member in wanted.new_isr_with_epochs]
                told.partitions.append(
                    self._altered(
                        TopicId(topic.topic_id), wanted.partition_index, members, refusal, wanted
                    )
                )
        return response

    def _altered(
        self,
        identity: TopicId,
        index: int,
        members: list[int],
        refusal: ErrorCode | None,
        wanted: Any,
    ) -> ResponsePartitionData:
        known = self.image.topics.by_id[identity].partitions[index]
        if refusal is None and wanted.partition_epoch < known.partition_epoch:
            refusal = ErrorCode.INVALID_UPDATE_VERSION
        if refusal is not None:
            return ResponsePartitionData(partition_index=index, error_code=refusal)
        self.publish(PartitionChangeRecord(topic_id=identity, partition_id=index, isr=members))
        changed = self.image.topics.by_id[identity].partitions[index]
        return ResponsePartitionData(
            partition_index=index,
            leader_id=changed.leader,
            leader_epoch=changed.leader_epoch,
            isr=list(changed.isr),
            partition_epoch=changed.partition_epoch,
        )


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> float:
    """Wait until ``condition`` holds, and return the time that took."""
    began = trio.current_time()
    while not condition():
        assert trio.current_time() - began < seconds, "it did not happen in time"
        await trio.sleep(0.001)
    return trio.current_time() - began


def tell_cluster(
    story: Callable[[ReplicaCluster], Awaitable[None]],
    count: int = 3,
    seed: int = 1,
    **properties: str,
) -> None:
    """Run one story against ``count`` nodes. Property names are given with underscores."""

    async def main(world: World) -> None:
        async with trio.open_nursery() as nursery:
            named = {name.replace("_", "."): value for name, value in properties.items()}
            cluster = ReplicaCluster(world, nursery, count, named)
            cluster.publish(FeatureLevelRecord(name="metadata.version", feature_level=30))
            for number in cluster.nodes:
                await cluster.start(number)
            await story(cluster)
            nursery.cancel_scope.cancel()
        for node in cluster.nodes.values():
            node.logs.release()

    sim_run(seed, main)
