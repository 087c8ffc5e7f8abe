"""The rooms of a running node: made here, all at once, from what the node stands on.

Decides what each room is given. Nothing runs yet when ``Rooms`` is returned: the broker starts its rooms in order. ``Ground`` is what
has to be there before: who the node is, and its logs and its metadata log, opened.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from uuid import UUID

import trio

from log_service.broker.directory_reports import DirectoryReports
from log_service.broker.fetch_session import FetchSessionCache
from log_service.broker.lifecycle import BrokerLifecycle
from log_service.broker.node import Node
from log_service.broker.offsets_leadership import OffsetsLeadership
from log_service.broker.producer_ids import ProducerIds
from log_service.common.env import NodeEnv
from log_service.common.timers import TimerQueue
from log_service.common.types import NodeId, TopicPartition
from log_service.config.resolve import log_defaults
from log_service.config.views import LogConfig, NodeConfig
from log_service.controller.channel import ActiveController
from log_service.controller.driver import ControllerDriver
from log_service.controller.rules.table import ControllerConfig
from log_service.coordinator.group_service import GroupService
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.metadata.loader import MetadataLoader
from log_service.raft.driver import RaftDriver
from log_service.raft.format import NodeIdentity
from log_service.records.compression import Codec
from log_service.replication.replica_manager import ReplicaManager
from log_service.storage.log import Log
from log_service.storage.log_manager import LogManager

if TYPE_CHECKING:
    from log_service.rpc.connection import Endpoint
    from log_service.rpc.pool import ConnectionPool

ALL_BROKERS = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the rooms of a node stand on."""

    env: NodeEnv
    config: NodeConfig
    static_texts: Mapping[str, str]
    identity: NodeIdentity
    timers: TimerQueue
    loader: MetadataLoader
    raft: RaftDriver
    logs: LogManager

    @property
    def node_id(self) -> NodeId:
        """Who the node is among others."""
        return NodeId(self.config.node_id)

    def image(self) -> MetadataImage:
        """Return the newest committed metadata."""
        return self.loader.image

    def is_there(self, where: TopicPartition, topic_id: UUID) -> bool:
        """Whether a partition that has a committed position exists, in the same topic where the topic's id was kept."""
        topic = self.image().topics.by_name.get(where.topic)
        return topic is not None and where.partition in topic.partitions and (not topic_id.int or topic.topic_id == topic_id)

    def is_known(self, log: Log) -> bool:
        """Whether a log is of a topic that there is. A loss of power may take the file with its topic id, which is then written anew."""
        if log.topic_id is None:
            topic, index = log.topic_partition
            return self.image().topics.partition(topic, index) is not None
        return log.topic_id in self.image().topics.by_id

    def log_defaults(self, image: MetadataImage) -> LogConfig:
        """Return the configuration of a topic that has none of its own."""
        cluster = image.configs.of(ResourceType.BROKER, ALL_BROKERS)
        own = image.configs.of(ResourceType.BROKER, str(self.config.node_id))
        return log_defaults(self.static_texts, cluster, own) if cluster or own else self.config.log

    def active_controller(self) -> "Endpoint | None":
        """Return where the leader of the quorum listens, None while there is none or it is this node."""
        leader_id = self.raft.leader_id
        if leader_id == self.config.node_id:
            return None
        endpoints = next((voter.endpoints for voter in self.raft.voters if voter.node_id == leader_id), ())
        if not endpoints:
            return None
        from log_service.rpc.connection import Endpoint  # noqa: PLC0415 - a quorum of one asks no other node

        return Endpoint(host=endpoints[0].host, port=endpoints[0].port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """What a running node is made of. ``background`` holds all that uses the logs."""

    background: trio.Nursery
    controller: ControllerDriver
    active_controller: ActiveController
    lifecycle: BrokerLifecycle
    groups: GroupService
    replicas: ReplicaManager
    offsets: OffsetsLeadership
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIds

    def node(self, ground: Ground, controller_address: tuple[str, int] | None) -> Node:
        """Return the rooms as handlers see them."""
        return Node(
            config=ground.config,
            static_texts=ground.static_texts,
            cluster_id=ground.identity.cluster_id,
            clock=ground.env.clock,
            image=ground.image,
            run_in_pool=ground.env.files.run_in_pool,
            raft=ground.raft,
            logs=ground.logs,
            replicas=self.replicas,
            groups=self.groups,
            controller=self.active_controller,
            fetch_sessions=self.fetch_sessions,
            producer_ids=self.producer_ids,
            controller_address=controller_address,
        )


def new_controller(ground: Ground) -> ControllerDriver:
    """Return the controller of this node. It is told of the metadata log's records, so that it is made before the log is opened."""
    config = ControllerConfig(
        node_id=ground.node_id,
        cluster_id=ground.identity.cluster_id,
        topics=ground.config.topics,
        broker_session_timeout_ms=ground.config.broker_session_timeout_ms,
        static_texts=ground.static_texts,
    )
    return ControllerDriver(ground.env, ground.raft, ground.timers, config)


def _pool_on_demand(ground: Ground, background: trio.Nursery) -> "Callable[[], ConnectionPool]":
    """Return the function that returns the node's connections to other nodes, and makes the pool the first time."""

    @cache
    def pool() -> "ConnectionPool":
        from log_service.rpc.connection import RpcSettings  # noqa: PLC0415 - a quorum of one asks no other node
        from log_service.rpc.pool import ConnectionPool  # noqa: PLC0415 - as above

        return ConnectionPool(ground.env, RpcSettings(client_id=f"broker-{ground.node_id}"), background)

    return pool


def build_rooms(ground: Ground, controller: ControllerDriver, background: trio.Nursery) -> Rooms:
    """Return all rooms of a node; what they do beside their callers runs in ``background``."""
    env, config = ground.env, ground.config
    active_controller = ActiveController(
        local=controller,
        find=ground.active_controller,
        pool=_pool_on_demand(ground, background),
        rng=env.rng,
    )
    lifecycle = BrokerLifecycle(config, active_controller, ground.image)
    groups = GroupService(
        clock=env.clock,
        rng=env.rng,
        config=config.groups,
        timers=ground.timers,
        run_in_pool=env.files.run_in_pool,
        is_there=ground.is_there,
    )
    replicas = ReplicaManager(
        node_id=ground.node_id,
        clock=env.clock,
        timers=ground.timers,
        logs=ground.logs,
        default_log_config_of=ground.log_defaults,
        checkpoint_interval_ms=config.high_watermark_checkpoint_interval_ms,
        nursery=background,
    )
    replicas.add_listener(DirectoryReports(ground.logs, lifecycle, background))
    return Rooms(
        background=background,
        controller=controller,
        active_controller=active_controller,
        lifecycle=lifecycle,
        groups=groups,
        replicas=replicas,
        offsets=OffsetsLeadership(replicas, groups, Codec(config.groups.offsets_topic_compression_codec)),
        fetch_sessions=FetchSessionCache(config.fetch, env.rng),
        producer_ids=ProducerIds(active_controller, ground.node_id, lambda: lifecycle.broker_epoch),
    )
