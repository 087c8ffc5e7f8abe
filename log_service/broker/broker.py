"""The composition root of a node: puts the rooms together, starts them in order, and stops them in order.

Decides only the order. Start: identity, logs, metadata log, controller, bound listeners, registration, partitions, coordinators, and at
last connections. A graceful stop goes back: no new connections, requests that wait are answered, the broker is fenced, coordinators give
up their shards, high watermarks are written, logs are closed in order, then the metadata log. Cancelling ``run`` instead writes nothing
more, as a crash would.

Invariants: nothing is served before the controller has let the broker in; a task that fails takes the whole node down, because its room
cannot be trusted any more, and the connections with it at once, however long a disk holds up the rest.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

import trio

from log_service.broker.bound_network import BoundNetwork
from log_service.broker.call import Side
from log_service.broker.directory_reports import DirectoryReports
from log_service.broker.fetch_session import FetchSessionCache
from log_service.broker.lifecycle import BrokerLifecycle
from log_service.broker.live import LiveSettings
from log_service.broker.metrics.endpoint import MetricsEndpoint, bind_metrics
from log_service.broker.metrics.page import page
from log_service.broker.metrics.sources import MetricsSources
from log_service.broker.node import Node
from log_service.broker.offsets_leadership import OffsetsLeadership
from log_service.broker.one_error import one_error
from log_service.broker.pipeline import Meters, Pipeline, new_meters
from log_service.broker.producer_ids import ProducerIds
from log_service.broker.registry import REGISTRY
from log_service.broker.timer_task import TimerTask
from log_service.broker.warm_up import warm_up
from log_service.common.env import Env, Listener, NodeEnv
from log_service.common.errors import StorageError, TidelogError
from log_service.common.timers import TimerQueue
from log_service.common.types import NodeId, TopicPartition
from log_service.config.resolve import log_defaults
from log_service.config.views import ListenerConfig, LogConfig, NodeConfig
from log_service.controller.channel import ActiveController
from log_service.controller.driver import ControllerDriver
from log_service.controller.rules.table import ControllerConfig
from log_service.coordinator.group_service import GroupService
from log_service.metadata.features import first_feature_records
from log_service.metadata.image import Endpoint, MetadataImage, ResourceType
from log_service.metadata.loader import MetadataLoader
from log_service.metrics.exposition import rendered
from log_service.network.server import Server, ServerBudget
from log_service.raft.driver import RaftDriver
from log_service.raft.format import NodeIdentity, identify, random_id, read_bootstrap_records
from log_service.records.compression import Codec
from log_service.replication.replica_manager import ReplicaManager
from log_service.rpc import connection as rpc
from log_service.rpc.pool import ConnectionPool
from log_service.storage.log import Log
from log_service.storage.log_manager import LogManager

DRAIN_DEADLINE_MS = 5_000
ALL_BROKERS = ""
NO_TEXTS: Mapping[str, str] = MappingProxyType({})

logger = logging.getLogger(__name__)


class Broker:
    """One node. ``run`` it in a nursery; ``stop`` ends it gracefully, cancelling it ends it at once.

    ``static_texts`` are the keys of the node's file as they were given, for those who ask what is configured.
    """

    def __init__(self, env: NodeEnv, config: NodeConfig, *, static_texts: Mapping[str, str] = NO_TEXTS) -> None:
        self.env = env
        self._config = config
        self._static_texts = static_texts
        self._timers = TimerQueue()
        self._timer_task = TimerTask(self._timers, env.clock)
        self._loader = MetadataLoader()
        self._raft = RaftDriver(env, config.metadata_log_dir, node_id=NodeId(config.node_id), config=config.metadata_log)
        self._raft.subscribe(self._loader)
        self._budget = ServerBudget(config.limits)
        self._servers: list[Server] = []
        self._listeners: list[Listener] = []
        self._controller_listener: Listener | None = None
        self._metrics_listener: Listener | None = None
        self.is_stopped_gracefully = False
        self._stop_requested = trio.Event()
        self._stopped = trio.Event()
        self._background_ended = trio.Event()
        self._is_diskless = trio.Event()
        self._disk_failure: StorageError | None = None
        self._background: trio.Nursery
        self._logs: LogManager
        self._controller: ControllerDriver
        self._controller_channel: ActiveController
        self._lifecycle: BrokerLifecycle
        self._replicas: ReplicaManager
        self._groups: GroupService
        self._offsets: OffsetsLeadership

    def __repr__(self) -> str:
        return f"<Broker {self._config.node_id} {self._loader.image!r}>"

    @property
    def image(self) -> MetadataImage:
        """The newest committed metadata."""
        return self._loader.image

    @property
    def replicas(self) -> ReplicaManager:
        """The partitions of this node."""
        return self._replicas

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first listener, as clients are told."""
        return self.addresses[self._config.listeners[0].name]

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Host and port of each listener by name, as clients are told."""
        return {
            config.name: (config.advertised_host, config.advertised_port or listener.port)
            for config, listener in zip(self._config.listeners, self._listeners, strict=True)
        }

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Host and port of the metrics page, if there is one."""
        return None if self._metrics_listener is None else (self._metrics_listener.host, self._metrics_listener.port)

    @property
    def controller_address(self) -> tuple[str, int] | None:
        """Host and port of the listener of the controller, as admin clients are told; None where there is none."""
        config, listener = self._config.controller_listener, self._controller_listener
        return None if config is None or listener is None else (config.advertised_host, config.advertised_port or listener.port)

    # Running

    async def run(self, *, task_status: trio.TaskStatus["Broker"] = trio.TASK_STATUS_IGNORED) -> None:
        """Start, tell ``task_status`` once connections are answered, and serve until stopped or cancelled.

        Raises:
            StorageError: a directory is in use, of another node, or damaged; or a disk failed that the node cannot do without.
            OSError: a listener cannot be bound.
        """
        try:
            with one_error():
                async with trio.open_nursery() as nursery:
                    await self._start(nursery)
                    task_status.started(self)
                    await self._stop_requested.wait()
                    await self._stop()
                    self.is_stopped_gracefully = True
                    nursery.cancel_scope.cancel()
        finally:
            for listener in (*self._listeners, self._controller_listener):
                if listener is not None:
                    listener.close()
            if self._metrics_listener is not None:
                self._metrics_listener.close()
            if hasattr(self, "_logs"):
                self._logs.release()
            self._raft.release()
            self._stopped.set()

    async def stop(self) -> None:
        """Stop gracefully, and return when everything is closed."""
        self._stop_requested.set()
        await self._stopped.wait()

    async def wait_stopped(self) -> None:
        """Wait until everything is closed, for whatever reason."""
        await self._stopped.wait()

    # Starting

    async def _start(self, nursery: trio.Nursery) -> None:
        identity = await identify(self.env, self._config, first_feature_records())
        self._logs = self._new_logs(identity)
        self._watch_directories()
        await self._logs.load()
        if self._disk_failure is not None:
            raise self._disk_failure
        self._controller = self._new_controller(identity)
        await self._raft.open()
        await nursery.start(self._hold_background, identity)
        nursery.start_soon(warm_up, REGISTRY)

    async def _hold_background(self, identity: NodeIdentity, *, task_status: trio.TaskStatus[None]) -> None:
        """Start, and hold, everything that uses the logs: it has to end before they are closed.

        The connections are here too: they end with the first room that fails, and keep the nursery open for what they begin. So does the
        start, which would else find it closed where a disk fails meanwhile.
        """
        try:
            async with trio.open_nursery() as self._background:
                await self._start_background(identity)
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._background_ended.set()

    async def _start_background(self, identity: NodeIdentity) -> None:
        self._background.start_soon(self._end_without_directories)
        await self._background.start(self._timer_task.run)
        await self._background.start(self._raft.run, self._loader.snapshot_records)
        await self._start_controller()
        await self._bind()
        await self._join(identity)
        await self._start_rooms()
        node = self._new_node(identity)
        meters = new_meters(REGISTRY, self.env.clock.monotonic_ms())
        await self._serve(node, meters)
        await self._serve_metrics(node, meters)
        await self._background.start(self._lifecycle.run)

    def _watch_directories(self) -> None:
        """Take note when the last log directory fails, or that of the metadata log; the call may come from a thread of the pool."""
        token = trio.lowlevel.current_trio_token()

        def on_failed(path: Path, error: OSError) -> None:
            if path == self._config.metadata_log_dir or all(directory.is_offline for directory in self._logs.directories):
                self._disk_failure = StorageError(f"log directory {path} failed: {error}; look at the disk, then start again")
                self._disk_failure.__cause__ = error
                token.run_sync_soon(self._is_diskless.set)

        self._logs.on_directory_failed = on_failed

    async def _end_without_directories(self) -> None:
        """End the node: it could only refuse, or not keep its metadata, and somebody has to look at the disk."""
        await self._is_diskless.wait()
        assert self._disk_failure is not None, "it is noted before the event is set"
        raise self._disk_failure

    def _new_logs(self, identity: NodeIdentity) -> LogManager:
        config = self._config
        return LogManager(self.env, config.log_manager, config.log, node_id=config.node_id, cluster_id=identity.cluster_id)

    def _new_controller(self, identity: NodeIdentity) -> ControllerDriver:
        config = ControllerConfig(
            node_id=NodeId(self._config.node_id),
            cluster_id=identity.cluster_id,
            topics=self._config.topics,
            broker_session_timeout_ms=self._config.broker_session_timeout_ms,
            static_texts=self._static_texts,
        )
        return ControllerDriver(self.env, self._raft, self._timers, config)

    async def _start_controller(self) -> None:
        files, directory = self.env.files, self._config.metadata_log_dir
        bootstrap = await files.run_in_pool(lambda: read_bootstrap_records(files, directory))
        await self._controller.activate(self.image, bootstrap)
        settings = rpc.RpcSettings(client_id=f"broker-{self._config.node_id}")
        self._controller_channel = ActiveController(
            local=self._controller,
            find=self._active_controller,
            pool=ConnectionPool(self.env, settings, self._background),
            rng=self.env.rng,
        )

    def _active_controller(self) -> rpc.Endpoint | None:
        """Return where the leader of the quorum listens, None while there is none or it is this node."""
        leader_id = self._raft.leader_id
        if leader_id == self._config.node_id:
            return None
        endpoints = next((voter.endpoints for voter in self._raft.voters if voter.node_id == leader_id), ())
        return rpc.Endpoint(host=endpoints[0].host, port=endpoints[0].port) if endpoints else None

    async def _bind(self) -> None:
        for listener in self._config.listeners:
            self._listeners.append(await self._listen(listener))
        if self._config.controller_listener is not None:
            self._controller_listener = await self._listen(self._config.controller_listener)
        if self._config.metrics_listener is not None:
            self._metrics_listener = await bind_metrics(self.env.network, *self._config.metrics_listener)

    async def _listen(self, listener: ListenerConfig) -> Listener:
        return await self.env.network.listen(listener.host, listener.port, backlog=self._config.limits.backlog)

    async def _join(self, identity: NodeIdentity) -> None:
        self._lifecycle = BrokerLifecycle(self._config, self._controller_channel, lambda: self.image)
        endpoints = {name: Endpoint(host=host, port=port) for name, (host, port) in self.addresses.items()}
        await self._lifecycle.register(
            cluster_id=identity.cluster_id,
            incarnation_id=random_id(self.env.rng.getrandbits),
            endpoints=endpoints,
            log_dirs=tuple(sorted(identity.directory_ids.values())),
        )
        await self._lifecycle.unfence()

    async def _start_rooms(self) -> None:
        """Partitions and coordinators, as the image says that there are."""
        self._groups = GroupService(
            clock=self.env.clock,
            rng=self.env.rng,
            config=self._config.groups,
            timers=self._timers,
            run_in_pool=self.env.files.run_in_pool,
            is_there=self._is_there,
        )
        self._replicas = ReplicaManager(
            node_id=NodeId(self._config.node_id),
            clock=self.env.clock,
            timers=self._timers,
            logs=self._logs,
            default_log_config_of=self._log_defaults,
            checkpoint_interval_ms=self._config.high_watermark_checkpoint_interval_ms,
            nursery=self._background,
        )
        await self._background.start(self._groups.run)
        await self._background.start(self._replicas.run)
        self._replicas.add_listener(DirectoryReports(self._logs, self._lifecycle, self._background))
        self._offsets = OffsetsLeadership(self._replicas, self._groups, Codec(self._config.groups.offsets_topic_compression_codec))
        self._loader.add_publisher(
            LiveSettings(self._config, self._static_texts, budget=self._budget, logs=self._logs, files=self.env.files)
        )
        self._logs.futures.settle_rivals(self._is_known)
        self._loader.add_publisher(self._replicas)
        self._loader.add_publisher(self._groups)
        self._logs.set_aside_strays(self._is_known)
        await self._background.start(self._logs.run)

    def _is_there(self, where: TopicPartition, topic_id: UUID) -> bool:
        """Whether a partition that somebody committed a position for exists, in the same topic where its id was kept."""
        topic = self.image.topics.by_name.get(where.topic)
        return topic is not None and where.partition in topic.partitions and (not topic_id.int or topic.topic_id == topic_id)

    def _is_known(self, log: Log) -> bool:
        """Whether a log is of a topic that there is. A loss of power may take the file with its topic id, which is then written anew."""
        if log.topic_id is None:
            topic, index = log.topic_partition
            return self.image.topics.partition(topic, index) is not None
        return log.topic_id in self.image.topics.by_id

    def _log_defaults(self, image: MetadataImage) -> LogConfig:
        cluster = image.configs.of(ResourceType.BROKER, ALL_BROKERS)
        own = image.configs.of(ResourceType.BROKER, str(self._config.node_id))
        return log_defaults(self._static_texts, cluster, own) if cluster or own else self._config.log

    def _new_node(self, identity: NodeIdentity) -> Node:
        return Node(
            config=self._config,
            static_texts=self._static_texts,
            cluster_id=identity.cluster_id,
            clock=self.env.clock,
            image=lambda: self._loader.image,
            run_in_pool=self.env.files.run_in_pool,
            raft=self._raft,
            logs=self._logs,
            replicas=self._replicas,
            groups=self._groups,
            controller=self._controller_channel,
            fetch_sessions=FetchSessionCache(self._config.fetch, self.env.rng),
            producer_ids=ProducerIds(self._controller_channel, NodeId(self._config.node_id), lambda: self._lifecycle.broker_epoch),
            controller_address=self.controller_address,
        )

    async def _serve(self, node: Node, meters: Meters) -> None:
        """Answer the broker's listeners, and the controller's if there is one."""
        pipeline = Pipeline(node, Side.BROKER, self._background.start_soon, REGISTRY, meters)
        for config, listener in zip(self._config.listeners, self._listeners, strict=True):
            await self._serve_one(pipeline, config, listener)
        if self._config.controller_listener is not None and self._controller_listener is not None:
            controller_node = replace(node, controller=self._controller)  # a request here is for this node alone
            pipeline = Pipeline(controller_node, Side.CONTROLLER, self._background.start_soon, REGISTRY, meters)
            await self._serve_one(pipeline, self._config.controller_listener, self._controller_listener)

    async def _serve_one(self, pipeline: Pipeline, config: ListenerConfig, listener: Listener) -> None:
        env = Env(clock=self.env.clock, rng=self.env.rng, network=BoundNetwork(self.env.network, listener))
        server = Server(env=env, listener=config, limits=self._config.limits, handler=pipeline, shared=self._budget)
        await self._background.start(server.run)
        self._servers.append(server)

    async def _serve_metrics(self, node: Node, meters: Meters) -> None:
        if self._metrics_listener is not None:
            servers = {server.name: server for server in self._servers}
            sources = MetricsSources(node=node, meters=meters, servers=servers, logs=self._logs, raft=self._raft)
            endpoint = MetricsEndpoint(self._metrics_listener, lambda: rendered(page(sources)))
            await self._background.start(endpoint.run)

    # Stopping

    async def _stop(self) -> None:
        async with trio.open_nursery() as draining:
            for server in self._servers:
                draining.start_soon(server.drain, DRAIN_DEADLINE_MS)
            self._replicas.delayed_fetches.expire_all()
            self._replicas.delayed_produces.expire_all()
            self._offsets.resign_all()
        try:
            await self._lifecycle.leave()
        except TidelogError as error:
            logger.warning("The controller did not take note that this broker stops: %s", error)
        self._controller.resign()
        self._background.cancel_scope.cancel()
        await self._background_ended.wait()
        self._replicas.deletions.finish()
        await self._replicas.checkpoint_high_watermarks()
        await self._logs.close(broker_epoch=self._lifecycle.broker_epoch)
        await self._raft.close()
