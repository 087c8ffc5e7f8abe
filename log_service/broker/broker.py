"""The composition root of a node: makes its subsystems (rooms), starts and stops them in order.

Decides only the order. A start verifies the identity, opens the logs, binds the controller's
listeners, makes the controller, opens the metadata log, binds the broker's listeners, registers,
starts partitions and coordinators, and at last serves clients. A graceful stop goes the other way.
Other brokers take over leadership, no new connections are accepted, waiting requests get responses,
coordinators give up their shards, high watermarks are written, logs are closed in order, then the
metadata log. If ``run`` is cancelled instead, nothing more is written, as in a crash.

Invariants: nothing is served before the controller has unfenced the broker. A task that fails ends
the whole node, because its room cannot be trusted any more. It also closes the connections at once,
however long a disk delays the rest.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import trio

from log_service.broker.dynamic_settings import LiveSettings
from log_service.broker.lifecycle import NOT_REGISTERED, BrokerLifecycle, ControllerWatch
from log_service.broker.listeners import ListenerGroup
from log_service.broker.logins.first_users import lockout_warning
from log_service.broker.metrics.elections import UncleanElections
from log_service.broker.node import QuorumNode
from log_service.broker.one_error import one_error
from log_service.broker.peers import Peers
from log_service.broker.protection import Protection
from log_service.broker.quotas import ClientQuotas
from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Side
from log_service.broker.requests.pipeline import Pipeline, new_meters
from log_service.broker.rooms import (
    NodeFoundation,
    Rooms,
    build_rooms,
    new_controller,
    new_raft,
    quorum_node,
)
from log_service.broker.timer_task import TimerTask
from log_service.broker.warm_up import warm_up
from log_service.common.env import Listener, NodeEnv
from log_service.common.errors import StorageError, TidelogError
from log_service.common.timers import TimerQueue
from log_service.config.views import ListenerConfig, NodeConfig
from log_service.controller.driver import ControllerDriver
from log_service.metadata.features import first_feature_records
from log_service.metadata.image import MetadataImage
from log_service.metadata.loader import MetadataLoader
from log_service.network.server import FrameHandler, Server, ServerBudget
from log_service.raft.driver import RaftDriver
from log_service.raft.format import NodeIdentity, identify, random_id, read_bootstrap_records
from log_service.replication.replica_manager import ReplicaManager
from log_service.storage.log_manager import LogManager

if TYPE_CHECKING:
    from log_service.broker.authorization.audit_trail import AuditTrail
    from log_service.broker.authorization.node_authorizer import NodeAuthorizer
    from log_service.broker.logins.offered import NodeLogins

DRAIN_DEADLINE_MS = 5_000
HAND_OVER_DEADLINE_MS = 2_000
"""How long the leader of the quorum waits for its successor, which starts an election at once.

If all controllers stop together, there is no successor.
"""
NO_TEXTS: Mapping[str, str] = MappingProxyType({})

logger = logging.getLogger(__name__)


class Broker:
    """A node of a cluster: a broker, a controller or both.

    ``run`` it in a nursery. ``stop`` ends it gracefully, cancelling it ends it at once.

    ``static_texts`` are the keys and values of the node's file as written, for requests that
    describe the configuration. ``most_connections`` is the number of connections that the process's
    file descriptors allow.
    """

    def __init__(
        self,
        env: NodeEnv,
        config: NodeConfig,
        *,
        static_texts: Mapping[str, str] = NO_TEXTS,
        most_connections: int = sys.maxsize,
    ) -> None:
        self._protection = Protection(env, config)
        self.env = env
        self._config = config
        self._static_texts = static_texts
        self._loader = MetadataLoader()
        self.logins = self._new_logins()
        self._meters = new_meters(REGISTRY, env.clock.monotonic_ms())
        self._timers = TimerQueue()
        self._timer_task = TimerTask(self._timers, env.clock)
        self._peers = Peers(env, config, self._protection)
        self._raft: RaftDriver | None = None
        self._logs: LogManager | None = None
        self._budget = ServerBudget(config.limits, most_connections=most_connections)
        self._quotas = ClientQuotas(env.clock, config.quota_windows, self._budget)
        self.authorizer: NodeAuthorizer | None = None
        self._listeners = ListenerGroup(
            env, config.listeners, config.limits, self._budget, self._protection
        )
        self._controller_listeners = ListenerGroup(
            env, config.controller_listeners, config.limits, self._budget, self._protection
        )
        self._metrics_listener: Listener | None = None
        self._foundation: NodeFoundation | None = None
        self._rooms: Rooms | None = None
        self._stop_requested = trio.Event()
        self._starting = trio.CancelScope()
        self._stopped = trio.Event()
        self._background_ended = trio.Event()
        self._is_diskless = trio.Event()
        self._disk_failure: StorageError | None = None
        self.is_started = False
        self.is_stopped_gracefully = False

    def __repr__(self) -> str:
        return f"<Broker {self._config.node_id} {self._loader.image!r}>"

    @property
    def image(self) -> MetadataImage:
        """The newest committed metadata."""
        return self._loader.image

    @property
    def raft(self) -> RaftDriver:
        """The metadata log of this node, once its directories are verified."""
        assert self._raft is not None, "the node has not begun to start"
        return self._raft

    @property
    def _audit_trail(self) -> "AuditTrail | None":
        return None if self.authorizer is None else self.authorizer.trail

    @property
    def foundation(self) -> NodeFoundation:
        """The foundation of the rooms, once the node's directories are verified."""
        assert self._foundation is not None, "the node has not begun to start"
        return self._foundation

    @property
    def rooms(self) -> Rooms:
        """The rooms of the node, once the metadata log is open."""
        assert self._rooms is not None, "the node has no rooms yet"
        return self._rooms

    @property
    def open_rooms(self) -> Rooms | None:
        """The rooms of the node, or None until the metadata log is open."""
        return self._rooms

    @property
    def open_raft(self) -> RaftDriver | None:
        """The metadata log of this node, or None until its directories are verified."""
        return self._raft

    @property
    def replicas(self) -> ReplicaManager:
        """The partitions of this node."""
        return self.rooms.replicas

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first listener, as advertised to clients."""
        return self.addresses[self._config.listeners[0].name]

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Host and port of each listener by name, as advertised to clients."""
        return self._listeners.addresses

    @property
    def servers(self) -> tuple[Server, ...]:
        """Servers of the broker's listeners in the order of the file, then the controller's."""
        return (*self._listeners.servers, *self._controller_listeners.servers)

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Host and port of the metrics page, or None if there is none."""
        return (
            None
            if self._metrics_listener is None
            else (self._metrics_listener.host, self._metrics_listener.port)
        )

    @property
    def controller_address(self) -> tuple[str, int] | None:
        """Advertised host and port of the controller's listener, or None if there is none."""
        return next(iter(self._controller_listeners.addresses.values()), None)

    # Running

    async def run(
        self, *, task_status: trio.TaskStatus["Broker"] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Start and serve until stopped or cancelled.

        ``task_status`` is notified once connections are served. A node that is stopped while it
        starts notifies it, too, and is not ``is_started``.

        Raises:
            StorageError: a directory is in use, of another node, or damaged; or a disk failed that
                the node needs.
            OSError: a listener cannot be bound.
        """
        try:
            with one_error():
                async with trio.open_nursery() as nursery:
                    with self._starting:
                        await self._start(nursery)
                    if self._starting.cancelled_caught:
                        task_status.started(self)
                        await self._give_up_start()
                    else:
                        self.is_started = True
                        task_status.started(self)
                        await self._stop_requested.wait()
                        await self._stop()
                    self.is_stopped_gracefully = True
                    nursery.cancel_scope.cancel()
        except StorageError:
            if self._foundation is not None:  # else the directories may be another process's
                self._foundation.logs.note_disk_failed()
            raise
        finally:
            self._listeners.close()
            self._controller_listeners.close()
            if self._metrics_listener is not None:
                self._metrics_listener.close()
            if self._audit_trail is not None:
                self._audit_trail.close()
            if self._logs is not None:
                self._logs.release()
            if self._raft is not None:
                self._raft.release()
            self._stopped.set()

    async def stop(self) -> None:
        """Stop gracefully, and return when everything is closed.

        A start in progress ends first, because it may be waiting for other nodes.
        """
        self._stop_requested.set()
        self._starting.cancel()
        await self._stopped.wait()

    async def wait_stopped(self) -> None:
        """Wait until everything is closed, for any reason."""
        await self._stopped.wait()

    # Starting

    async def _start(self, nursery: trio.Nursery) -> None:
        env, config = self.env, self._config
        identity = await identify(env, config, first_feature_records())
        if identity.is_new and config.is_alone and (warning := lockout_warning(config)) is not None:
            logger.warning("%s", warning)
        # A controller-only node has no logs to open, but still locks the directories, because the
        # lock covers the metadata log in them.
        logs = self._logs = LogManager(
            env,
            config.log_manager,
            config.log,
            node_id=config.node_id,
            cluster_id=identity.cluster_id,
        )
        self._watch_directories(logs)
        await logs.load()
        if self._disk_failure is not None:
            raise self._disk_failure
        await self._controller_listeners.bind()
        foundation = self._foundation = self._new_foundation(identity, logs)
        files, directory = env.files, config.metadata_log_dir
        controller = new_controller(
            foundation, await files.run_in_pool(lambda: read_bootstrap_records(files, directory))
        )
        await foundation.raft.open()
        await nursery.start(self._hold_background, foundation, controller)
        nursery.start_soon(warm_up, REGISTRY, self.authorizer)

    def _new_foundation(self, identity: NodeIdentity, logs: LogManager) -> NodeFoundation:
        raft = self._raft = new_raft(
            self.env, self._config, self._peers, self._controller_listeners.addresses
        )
        raft.subscribe(self._loader)
        raft.subscribe(ControllerWatch(self._meet_controller))
        if self._config.authorizer is not None:
            from log_service.broker.authorization.node_authorizer import (  # noqa: PLC0415 - many nodes have none
                NodeAuthorizer,
            )

            self.authorizer = NodeAuthorizer(
                self.env,
                self._config,
                self._config.authorizer,
                lambda: self.image,
                lambda: raft.high_watermark,
            )
            self._loader.add_publisher(self.authorizer)
        return NodeFoundation(
            env=self.env,
            config=self._config,
            static_texts=self._static_texts,
            identity=identity,
            timers=self._timers,
            loader=self._loader,
            raft=raft,
            logs=logs,
            peers=self._peers.pool,
            controller_peers=self._peers.controller_pool,
            admit=None if self.authorizer is None else self.authorizer.admit,
            certificates=self._protection.certificates(self._static_texts),
            logins=self.logins,
        )

    async def _hold_background(
        self,
        foundation: NodeFoundation,
        controller: ControllerDriver,
        *,
        task_status: trio.TaskStatus[None],
    ) -> None:
        """Make and start everything that uses the logs, and keep it running until cancelled.

        It has to end before the logs are closed. The connections and the node's start run in the
        same nursery. So they end with the first room that fails, and can start tasks until then.
        """
        try:
            async with trio.open_nursery() as background:
                self._peers.nursery = background
                self._rooms = rooms = build_rooms(foundation, controller, background)
                self._peers.on_peer_closed = lambda where: rooms.lost_brokers.connection_lost(
                    where.host, where.port
                )
                await self._start_background(foundation, rooms)
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._background_ended.set()

    async def _start_background(self, foundation: NodeFoundation, rooms: Rooms) -> None:
        start, trail = rooms.background.start, self._audit_trail
        if trail is not None:
            await trail.start(rooms.background)
        rooms.background.start_soon(self._end_without_directories)
        if foundation.certificates is not None:
            self._loader.add_publisher(foundation.certificates)
            rooms.background.start_soon(foundation.certificates.run)
        await start(self._timer_task.run)
        await start(foundation.raft.run, self._loader.snapshot_records)
        rooms.controller.watch_brokers_in(rooms.background)
        if self.logins is not None:
            self._loader.add_publisher(self.logins)
            await self.logins.start(rooms.background)
        await self._serve_controller(foundation, rooms)
        if not self._config.is_broker:
            await self._serve_metrics(foundation, rooms)
        if self._config.is_controller and not self._config.is_alone:
            self._register_controller(foundation, rooms)
        if self._config.is_broker:
            await self._start_broker(foundation, rooms)
        if trail is not None:
            trail.start_topic(foundation, rooms)

    async def _start_broker(self, foundation: NodeFoundation, rooms: Rooms) -> None:
        start = rooms.background.start
        await self._listeners.bind()
        await self._bind_metrics()
        await self._register(foundation, rooms.lifecycle)
        is_only_broker = rooms.controller.is_active and set(self.image.cluster.brokers) == {
            foundation.node_id
        }
        if is_only_broker:
            # No other broker has to know, and its partitions get a leader before they are opened.
            await rooms.lifecycle.unfence()
        else:
            await rooms.lifecycle.catch_up()
        await start(rooms.groups.run)
        await start(rooms.transactions.run)
        await start(rooms.markers.run)
        await start(rooms.share_states.run)
        await start(rooms.replicas.run)
        self._publish(foundation, rooms)
        await start(foundation.logs.run)
        if not is_only_broker:
            await rooms.lifecycle.unfence()
        await self._serve(foundation, rooms)
        await start(rooms.lifecycle.run)

    def _watch_directories(self, logs: LogManager) -> None:
        """Watch for the failure of the metadata log's directory, or of all log directories.

        Either ends the node. The callback may run in a thread of the pool.
        """
        token = trio.lowlevel.current_trio_token()

        def on_failed(path: Path, error: OSError) -> None:
            if path == self._config.metadata_log_dir or all(
                directory.is_offline for directory in logs.directories
            ):
                self._disk_failure = StorageError(
                    f"log directory {path} failed: {error}; look at the disk, then start again"
                )
                self._disk_failure.__cause__ = error
                token.run_sync_soon(self._is_diskless.set)
            else:
                token.run_sync_soon(self._report_directory)

        logs.watch_directories(on_failed)

    def _report_directory(self) -> None:
        """Report a failed directory to the controller at once, so that it elects other leaders."""
        if self._rooms is not None:
            self._rooms.lifecycle.hurry()

    def _meet_controller(self) -> None:
        """Report this broker to a new controller at once.

        Before that, the controller does not elect this broker as a leader.
        """
        if self._rooms is not None:
            self._rooms.lifecycle.meet_controller()

    async def _end_without_directories(self) -> None:
        """End the node after the failure of a directory that it cannot do without.

        It could only refuse requests or lose metadata, and the operator has to look at the disk.
        """
        await self._is_diskless.wait()
        assert self._disk_failure is not None, "it is noted before the event is set"
        raise self._disk_failure

    async def _register(self, foundation: NodeFoundation, lifecycle: BrokerLifecycle) -> None:
        if self._disk_failure is not None:
            # a clearer error than the controller's refusal of a broker without log directories
            raise self._disk_failure
        await lifecycle.register(
            cluster_id=foundation.identity.cluster_id,
            incarnation_id=random_id(self.env.rng.getrandbits),
            endpoints=self._listeners.endpoints,
            log_dirs=tuple(sorted(foundation.logs.directory_ids.values())),
        )
        foundation.logs.note_registered(lifecycle.broker_epoch)

    def _register_controller(self, foundation: NodeFoundation, rooms: Rooms) -> None:
        """Register this node's controller and its listeners in the metadata."""
        from log_service.broker.controller_registration import (  # noqa: PLC0415 - a node alone has no one to tell
            ControllerRegistrar,
        )

        registrar = ControllerRegistrar(
            node_id=foundation.node_id,
            incarnation_id=random_id(self.env.rng.getrandbits),
            endpoints=self._controller_listeners.endpoints,
            channel=rooms.controller_channel,
            rng=self.env.rng,
        )
        self._loader.add_publisher(registrar)
        rooms.background.start_soon(registrar.run)

    def _publish(self, foundation: NodeFoundation, rooms: Rooms) -> None:
        """Begin to publish images to configuration, partitions and coordinators.

        Logs that belong to no partition of this node (strays) are set aside first.
        """
        logs = foundation.logs
        live = LiveSettings(
            self._config,
            self._static_texts,
            budget=self._budget,
            logs=logs,
            files=self.env.files,
            verifier=rooms.transaction_verifier,
        )
        self._loader.add_publisher(live)
        logs.unserved.settle_rivals(foundation.is_known, foundation.assigned_directory)
        logs.unserved.set_aside_strays(foundation.is_known)
        self._loader.add_publisher(rooms.replicas)
        if len(logs.directories) > 1:
            self._loader.add_publisher(rooms.directory_reports)
        self._loader.add_publisher(rooms.groups)
        self._loader.add_publisher(rooms.share_states)
        self._loader.add_publisher(rooms.shares)
        self._loader.add_publisher(rooms.telemetry)
        # Last, because it completes requests whose clients then expect this node's state to be that
        # of the new image.
        self._loader.add_publisher(rooms.lost_brokers)

    async def _serve_controller(self, foundation: NodeFoundation, rooms: Rooms) -> None:
        """Serve the controller's listeners.

        Other controllers must reach this one before there is a leader.
        """
        self._loader.add_publisher(self._quotas)
        node = quorum_node(foundation, rooms.controller, self.controller_address)
        await self._controller_listeners.serve(
            self._handlers(node, Side.CONTROLLER, rooms.background), rooms.background
        )

    async def _serve(self, foundation: NodeFoundation, rooms: Rooms) -> None:
        """Serve the broker's listeners and the metrics page."""
        background, node = rooms.background, rooms.node(foundation, self.controller_address)
        await self._listeners.serve(self._handlers(node, Side.BROKER, background), background)
        await self._serve_metrics(foundation, rooms)

    async def _bind_metrics(self) -> None:
        if self._config.metrics_listener is not None and self._metrics_listener is None:
            from log_service.broker.metrics.endpoint import (  # noqa: PLC0415 - as in ``_bind_metrics``
                bind_metrics,
            )

            self._metrics_listener = await bind_metrics(
                self.env.network, *self._config.metrics_listener
            )

    async def _serve_metrics(self, foundation: NodeFoundation, rooms: Rooms) -> None:
        """Serve the metrics page, if one is configured. A controller-only node has one, too."""
        await self._bind_metrics()
        if self._metrics_listener is not None:
            from log_service.broker.metrics.endpoint import (  # noqa: PLC0415 - many nodes have no metrics page
                MetricsEndpoint,
            )
            from log_service.broker.metrics.page import (  # noqa: PLC0415 - as in ``_bind_metrics``
                page,
            )
            from log_service.broker.metrics.sources import (  # noqa: PLC0415 - as in ``_bind_metrics``
                MetricsSources,
            )
            from log_service.metrics.exposition import (  # noqa: PLC0415 - as in ``_bind_metrics``
                rendered,
            )

            node = rooms.node(foundation, self.controller_address)
            servers = {server.name: server for server in self.servers}
            unclean_elections = UncleanElections()
            if self._config.is_controller:
                self._loader.add_publisher(unclean_elections)
            sources = MetricsSources(
                node=node,
                meters=self._meters,
                servers=servers,
                logs=node.logs,
                raft=node.raft,
                unclean_elections=unclean_elections,
                quotas=self._quotas,
                markers=rooms.markers,
                decided=self.authorizer,
                certificate_days=(
                    dict if foundation.certificates is None else foundation.certificates.days_left
                ),
                logins={} if self.logins is None else self.logins.handlers,
                tls_listeners=self._protection.tls_listeners,
            )
            endpoint = MetricsEndpoint(
                self._metrics_listener, lambda: rendered(page(sources)), sources.turns
            )
            await rooms.background.start(endpoint.run)

    def _handlers(
        self, node: QuorumNode, side: Side, background: trio.Nursery
    ) -> Callable[[ListenerConfig], FrameHandler]:
        """Return a function that makes the frame handler of a listener of a side.

        The handler is the pipeline. If the listener requires a login, the login comes first.
        """
        pipeline = Pipeline(node, side, background.start_soon, REGISTRY, self._meters)
        pipeline.authorizer = self.authorizer
        self._quotas.govern(pipeline)
        logins = self.logins
        return lambda listener: (
            pipeline
            if logins is None
            else logins.in_front_of(pipeline, listener, background.start_soon)
        )

    def _new_logins(self) -> "NodeLogins | None":
        """Return the logins of this node's listeners, or None if no listener requires one.

        Raises:
            ConfigError: a listener cannot offer the logins of its configuration.
        """
        config = self._config
        if not any(
            listener.security.sasl for listener in (*config.listeners, *config.controller_listeners)
        ):
            return None
        from log_service.broker.logins.offered import (  # noqa: PLC0415 - a node without logins does not import them
            NodeLogins,
        )

        return NodeLogins(self.env, config, lambda: self._loader.image)

    # Stopping

    async def _stop(self) -> None:
        """Stop in order.

        Other brokers take over leadership before clients are disconnected. A single node
        disconnects its clients first.
        """
        foundation, rooms = self.foundation, self.rooms
        if self._config.is_alone:
            await self._end_connections(rooms)
            await self._leave(rooms.lifecycle)
        else:
            await self._leave(rooms.lifecycle)
            await self._end_connections(rooms)
        if not foundation.raft.is_only_voter:
            await foundation.raft.hand_over(HAND_OVER_DEADLINE_MS)
        await self._controller_listeners.drain(DRAIN_DEADLINE_MS)
        if self._audit_trail is not None:
            await self._audit_trail.flush()
        rooms.controller.resign()
        rooms.background.cancel_scope.cancel()
        await self._background_ended.wait()
        rooms.replicas.deletions.finish()
        await rooms.replicas.checkpoint_high_watermarks()
        await foundation.logs.close(broker_epoch=rooms.lifecycle.broker_epoch)
        await foundation.raft.close()

    async def _give_up_start(self) -> None:
        """Close everything that an aborted start had opened. No client was served.

        A broker that was not registered yet has changed nothing. If its previous run ended cleanly,
        the logs still record this.
        """
        if self._rooms is None or self._foundation is None:
            return
        logs, lifecycle = self._foundation.logs, self._rooms.lifecycle
        is_registered = lifecycle.broker_epoch != NOT_REGISTERED
        await logs.close(
            broker_epoch=lifecycle.broker_epoch if is_registered else logs.previous_broker_epoch
        )
        await self._foundation.raft.close()

    async def _end_connections(self, rooms: Rooms) -> None:
        """Accept no new requests from clients, and respond to the waiting ones."""
        async with trio.open_nursery() as draining:
            draining.start_soon(self._listeners.drain, DRAIN_DEADLINE_MS)
            rooms.replicas.delayed_fetches.expire_all()
            rooms.shares.delayed_fetches.expire_all()
            rooms.replicas.delayed_produces.expire_all()
            rooms.leadership.resign_all()

    async def _leave(self, lifecycle: BrokerLifecycle) -> None:
        try:
            await lifecycle.leave()
        except TidelogError as error:
            logger.warning("The controller did not take note that this broker stops: %s", error)
