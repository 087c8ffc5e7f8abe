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

import trio

from log_service.broker.call import Side
from log_service.broker.lifecycle import BrokerLifecycle
from log_service.broker.live import LiveSettings
from log_service.broker.metrics.endpoint import MetricsEndpoint, bind_metrics
from log_service.broker.metrics.page import page
from log_service.broker.metrics.sources import MetricsSources
from log_service.broker.one_error import one_error
from log_service.broker.pipeline import Pipeline, new_meters
from log_service.broker.registry import REGISTRY
from log_service.broker.rooms import Ground, Rooms, build_rooms, new_controller
from log_service.broker.timer_task import TimerTask
from log_service.broker.warm_up import warm_up
from log_service.common.env import Listener, NodeEnv
from log_service.common.errors import StorageError, TidelogError
from log_service.common.timers import TimerQueue
from log_service.common.types import NodeId
from log_service.config.views import ListenerConfig, NodeConfig
from log_service.controller.driver import ControllerDriver
from log_service.metadata.features import first_feature_records
from log_service.metadata.image import Endpoint, MetadataImage
from log_service.metadata.loader import MetadataLoader
from log_service.metrics.exposition import rendered
from log_service.network.server import Server, ServerBudget
from log_service.raft.driver import RaftDriver
from log_service.raft.format import identify, random_id, read_bootstrap_records
from log_service.replication.replica_manager import ReplicaManager
from log_service.storage.log_manager import LogManager

DRAIN_DEADLINE_MS = 5_000
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
        self._ground: Ground | None = None
        self._rooms: Rooms | None = None
        self._stop_requested = trio.Event()
        self._stopped = trio.Event()
        self._background_ended = trio.Event()
        self._is_diskless = trio.Event()
        self._disk_failure: StorageError | None = None
        self.is_stopped_gracefully = False

    def __repr__(self) -> str:
        return f"<Broker {self._config.node_id} {self._loader.image!r}>"

    @property
    def image(self) -> MetadataImage:
        """The newest committed metadata."""
        return self._loader.image

    @property
    def ground(self) -> Ground:
        """What the rooms stand on; only once the directories are found to be this node's."""
        assert self._ground is not None, "the node has not begun to start"
        return self._ground

    @property
    def rooms(self) -> Rooms:
        """What the node is made of; only once the metadata log is open."""
        assert self._rooms is not None, "the node has no rooms yet"
        return self._rooms

    @property
    def replicas(self) -> ReplicaManager:
        """The partitions of this node."""
        return self.rooms.replicas

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
            if self._ground is not None:
                self._ground.logs.release()
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
        ground = self._ground = await self._prepare_ground()
        self._watch_directories(ground.logs)
        await ground.logs.load()
        if self._disk_failure is not None:
            raise self._disk_failure
        controller = new_controller(ground)
        await self._raft.open()
        await nursery.start(self._hold_background, ground, controller)
        nursery.start_soon(warm_up, REGISTRY)

    async def _prepare_ground(self) -> Ground:
        env, config = self.env, self._config
        identity = await identify(env, config, first_feature_records())
        return Ground(
            env=env,
            config=config,
            static_texts=self._static_texts,
            identity=identity,
            timers=self._timers,
            loader=self._loader,
            raft=self._raft,
            logs=LogManager(env, config.log_manager, config.log, node_id=config.node_id, cluster_id=identity.cluster_id),
        )

    async def _hold_background(self, ground: Ground, controller: ControllerDriver, *, task_status: trio.TaskStatus[None]) -> None:
        """Start, and hold, everything that uses the logs: it has to end before they are closed.

        The connections are here too: they end with the first room that fails, and keep the nursery open for what they begin. So does the
        start, which would else find it closed where a disk fails meanwhile.
        """
        try:
            async with trio.open_nursery() as background:
                self._rooms = build_rooms(ground, controller, background)
                await self._start_background(ground, self._rooms)
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._background_ended.set()

    async def _start_background(self, ground: Ground, rooms: Rooms) -> None:
        start = rooms.background.start
        rooms.background.start_soon(self._end_without_directories)
        await start(self._timer_task.run)
        await start(self._raft.run, self._loader.snapshot_records)
        await self._activate_controller(rooms.controller)
        await self._bind()
        await self._join(ground, rooms.lifecycle)
        await start(rooms.groups.run)
        await start(rooms.replicas.run)
        self._publish(ground, rooms)
        await start(ground.logs.run)
        await self._serve(ground, rooms)
        await start(rooms.lifecycle.run)

    def _watch_directories(self, logs: LogManager) -> None:
        """Take note when the last log directory fails, or that of the metadata log; the call may come from a thread of the pool."""
        token = trio.lowlevel.current_trio_token()

        def on_failed(path: Path, error: OSError) -> None:
            if path == self._config.metadata_log_dir or all(directory.is_offline for directory in logs.directories):
                self._disk_failure = StorageError(f"log directory {path} failed: {error}; look at the disk, then start again")
                self._disk_failure.__cause__ = error
                token.run_sync_soon(self._is_diskless.set)

        logs.on_directory_failed = on_failed

    async def _end_without_directories(self) -> None:
        """End the node: it could only refuse, or not keep its metadata, and the operator has to look at the disk."""
        await self._is_diskless.wait()
        assert self._disk_failure is not None, "it is noted before the event is set"
        raise self._disk_failure

    async def _activate_controller(self, controller: ControllerDriver) -> None:
        files, directory = self.env.files, self._config.metadata_log_dir
        bootstrap = await files.run_in_pool(lambda: read_bootstrap_records(files, directory))
        await controller.activate(self.image, bootstrap)

    async def _bind(self) -> None:
        for listener in self._config.listeners:
            self._listeners.append(await self._listen(listener))
        if self._config.controller_listener is not None:
            self._controller_listener = await self._listen(self._config.controller_listener)
        if self._config.metrics_listener is not None:
            self._metrics_listener = await bind_metrics(self.env.network, *self._config.metrics_listener)

    async def _listen(self, listener: ListenerConfig) -> Listener:
        return await self.env.network.listen(listener.host, listener.port, backlog=self._config.limits.backlog)

    async def _join(self, ground: Ground, lifecycle: BrokerLifecycle) -> None:
        endpoints = {name: Endpoint(host=host, port=port) for name, (host, port) in self.addresses.items()}
        await lifecycle.register(
            cluster_id=ground.identity.cluster_id,
            incarnation_id=random_id(self.env.rng.getrandbits),
            endpoints=endpoints,
            log_dirs=tuple(sorted(ground.identity.directory_ids.values())),
        )
        await lifecycle.unfence()

    def _publish(self, ground: Ground, rooms: Rooms) -> None:
        """Have configuration, partitions and coordinators follow the image, and logs set aside that it does not know."""
        logs = ground.logs
        live = LiveSettings(self._config, self._static_texts, budget=self._budget, logs=logs, files=self.env.files)
        self._loader.add_publisher(live)
        logs.futures.settle_rivals(ground.is_known)
        self._loader.add_publisher(rooms.replicas)
        self._loader.add_publisher(rooms.groups)
        logs.set_aside_strays(ground.is_known)

    async def _serve(self, ground: Ground, rooms: Rooms) -> None:
        """Serve the broker's listeners, the controller's if there is one, and those who ask for metrics."""
        background, node = rooms.background, rooms.node(ground, self.controller_address)
        meters = new_meters(REGISTRY, self.env.clock.monotonic_ms())
        pipeline = Pipeline(node, Side.BROKER, background.start_soon, REGISTRY, meters)
        for config, listener in zip(self._config.listeners, self._listeners, strict=True):
            await self._serve_one(pipeline, config, listener, background)
        if self._config.controller_listener is not None and self._controller_listener is not None:
            controller_node = replace(node, controller=rooms.controller)  # a request here is for this node alone
            pipeline = Pipeline(controller_node, Side.CONTROLLER, background.start_soon, REGISTRY, meters)
            await self._serve_one(pipeline, self._config.controller_listener, self._controller_listener, background)
        if self._metrics_listener is not None:
            servers = {server.name: server for server in self._servers}
            sources = MetricsSources(node=node, meters=meters, servers=servers, logs=node.logs, raft=self._raft)
            endpoint = MetricsEndpoint(self._metrics_listener, lambda: rendered(page(sources)))
            await background.start(endpoint.run)

    async def _serve_one(self, pipeline: Pipeline, config: ListenerConfig, listener: Listener, background: trio.Nursery) -> None:
        server = Server(env=self.env, listener=config, limits=self._config.limits, handler=pipeline, shared=self._budget, bound=listener)
        await background.start(server.run)
        self._servers.append(server)

    # Stopping

    async def _stop(self) -> None:
        ground, rooms = self.ground, self.rooms
        async with trio.open_nursery() as draining:
            for server in self._servers:
                draining.start_soon(server.drain, DRAIN_DEADLINE_MS)
            rooms.replicas.delayed_fetches.expire_all()
            rooms.replicas.delayed_produces.expire_all()
            rooms.offsets.resign_all()
        try:
            await rooms.lifecycle.leave()
        except TidelogError as error:
            logger.warning("The controller did not take note that this broker stops: %s", error)
        rooms.controller.resign()
        rooms.background.cancel_scope.cancel()
        await self._background_ended.wait()
        rooms.replicas.deletions.finish()
        await rooms.replicas.checkpoint_high_watermarks()
        await ground.logs.close(broker_epoch=rooms.lifecycle.broker_epoch)
        await self._raft.close()
