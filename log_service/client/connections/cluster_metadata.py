"""Refreshes one client's view of its cluster, and connects to the nodes of the cluster.

Decides where a request goes, when the view is too old, and how a call is retried. The first
requests go to the bootstrap servers, later ones to the brokers that the view names. After a
retriable error the client pauses, refreshes its view and tries again, until the deadline of the
call. This module knows nothing of records and groups.

A request to which any broker can respond goes to the broker with the fewest requests in flight. If
its response is slow, the next broker is asked as well. When a metadata response no longer names a
broker, the connections to it are closed. Requests that wait there are then tried elsewhere. The
client begins again with the bootstrap servers (KIP-899, KIP-1102) in two cases: no known broker can
be reached, or none has responded for ``metadata_recovery_rebootstrap_trigger_ms``.
``metadata_recovery_strategy`` none prevents this.

Invariants: a task that asks for topics during a refresh waits for that refresh. It asks the cluster
itself only if the refresh did not cover its topics. A refresh drops known facts only if the
response contradicts them. Every call ends by its deadline, and then raises the last error.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import trio

from log_service.client.arguments import topic_name
from log_service.client.connections.cluster_view import (
    NO_LEADER,
    ClusterView,
    Node,
    TopicView,
    topic_views,
)
from log_service.client.metrics import ClientMetrics
from log_service.common.env import Env
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import TopicPartition
from log_service.config.client import ClientConfig
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from log_service.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from log_service.protocol.schema import Message
from log_service.rpc.connection import Destination, RpcConnection, RpcSettings, Security, raise_for
from log_service.rpc.pool import ConnectionPool
from log_service.rpc.retry import Backoff, first_success, retry

T = TypeVar("T")
R = TypeVar("R", bound=Message)

logger = logging.getLogger(__name__)


class LeaderIdAndEpoch(Protocol):
    """The part of a produce or fetch response that names a partition's current leader."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(Protocol):
    """The part of a produce or fetch response that has the address of a leader."""

    node_id: int
    host: str
    port: int
    rack: str | None


SILENCE_MS = 1_000
"""A broker whose response is late by this time may be dead.

The client then asks the cluster for the current leaders.
"""
REBOOTSTRAP = "rebootstrap"
CONNECT_STAGGER_MS = 250
"""After this time without a connection to one broker, the client tries another broker as well."""
RESPONSE_STAGGER_MS = 1_000
"""After this time without a response, the client asks another broker as well."""

LONG_FRAME_BYTES = 64 << 10
MANY_PARTITIONS = 1_000
"""Above this number of partitions, another thread makes their views.

The view of one partition takes 3 microseconds.
"""
GROUP_KEY_TYPE = 0
TRANSACTION_KEY_TYPE = 1
KINDS_OF_KEYS = {GROUP_KEY_TYPE: "group", TRANSACTION_KEY_TYPE: "transactional id"}
FIRST_VERSION_WITH_COORDINATOR_KEYS = 4
REFUSED_TOPICS = frozenset(
    {ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)


class ClusterMetadata:
    """One client's view of its cluster, and the connections to the cluster's nodes.

    ``view`` may be read at any time without waiting. ``on_refreshed`` is called after each
    metadata response.
    """

    def __init__(
        self,
        env: Env,
        config: ClientConfig,
        nursery: trio.Nursery,
        *,
        security: Security | None = None,
        is_auto_create_allowed: bool = False,
        is_idle: Callable[[str, int], bool] = lambda topic, since_ms: False,  # noqa: ARG005 - no topic is idle by default
        on_refreshed: Callable[[], None] = lambda: None,
    ) -> None:
        self.env = env
        self.config = config
        self.pool = ConnectionPool(env, _rpc_settings(config), nursery, security)
        self.view = ClusterView()
        self._is_auto_create_allowed = is_auto_create_allowed
        self._quiet = QuietLogger(logger, env.clock.monotonic_ms)
        self._backoff = Backoff(
            first_ms=config.retry_backoff_ms, max_ms=config.retry_backoff_max_ms
        )
        self._topics: dict[
            str, int
        ] = {}  # watched topics, each with the time of the last ``watch``
        self._is_idle = is_idle
        self._on_refreshed = on_refreshed
        self._is_watching_all = False
        self._refreshing: trio.Event | None = None
        self._refreshed_ms = -config.metadata_max_age_ms
        self._failing_since_ms: int | None = None
        self._coordinators: dict[tuple[int, str], int] = {}  # by type of key, and key

    def __repr__(self) -> str:
        return (
            f"<ClusterMetadata {self.view.cluster_id} nodes={len(self.view.nodes)}"
            f" topics={len(self.view.topics)}>"
        )

    @property
    def is_stale(self) -> bool:
        """Whether ``metadata_max_age_ms`` has passed since the last refresh."""
        return self.env.clock.monotonic_ms() - self._refreshed_ms >= self.config.metadata_max_age_ms

    def metrics(self) -> ClientMetrics:
        """Return the metrics of the connections, and the age of the view."""
        return ClientMetrics(
            connection_count=self.pool.open_count,
            connection_creation_total=self.pool.opened_total,
            connection_failure_total=self.pool.failed_total,
            incoming_byte_total=self.pool.bytes_received,
            outgoing_byte_total=self.pool.bytes_sent,
            metadata_age=(
                (self.env.clock.monotonic_ms() - self._refreshed_ms) / 1_000
                if self.view.nodes
                else -1.0
            ),
        )

    def learn_leader(
        self,
        topic_partition: TopicPartition,
        leader: LeaderIdAndEpoch | None,
        endpoints: Iterable[NodeEndpoint] = (),
    ) -> None:
        """Store the new leader that an error response named, and its address (KIP-951).

        ``leader`` None means that the response named no leader.
        """
        if leader is not None and leader.leader_id >= 0:
            leader_nodes = [
                endpoint for endpoint in endpoints if endpoint.node_id == leader.leader_id
            ]
            self.learn_nodes(leader_nodes)
            self.view = self.view.with_leader(
                topic_partition, leader.leader_id, leader.leader_epoch
            )

    def learn_nodes(self, endpoints: Iterable[NodeEndpoint]) -> None:
        """Store the addresses of brokers that a response named."""
        nodes = (
            Node(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
            for each in endpoints
        )
        self.view = self.view.with_nodes(nodes)

    def has_other_leader(self, topic_partition: TopicPartition, node_id: int) -> bool:
        """Return whether the view names a leader, and it is not ``node_id``.

        A request that ``node_id`` refused can then go to that leader at once.
        """
        return self.view.leader_of(topic_partition) not in {NO_LEADER, node_id}

    # Nodes

    async def any_node(self) -> RpcConnection:
        """Return a connection to any broker.

        It is the open connection with the fewest requests in flight. If none is open, it is a new
        connection to the first broker that can be reached.

        Raises:
            KafkaError: NETWORK_EXCEPTION, no broker can be reached. The text names the last one
                tried.
        """
        connected = self._connected()
        if connected:
            return connected[0]
        attempts = [partial(self.pool.connect, address) for address in self._addresses()]
        return await first_success(attempts, stagger_ms=CONNECT_STAGGER_MS)

    async def ask_any(
        self, request: Message, response_type: type[R], *, is_anyone_asked: bool = False
    ) -> R:
        """Return the response of any broker. If one is slow to respond, others are asked as well.

        Use it only for requests that may be sent twice. With ``is_anyone_asked`` the broker is
        chosen at random from all brokers. Otherwise connected brokers are asked first.

        Raises:
            KafkaError: NETWORK_EXCEPTION, REQUEST_TIMED_OUT.
        """

        async def ask(find: Callable[[], Awaitable[RpcConnection]]) -> R:
            return await (await find()).request(request, response_type)

        first = [] if is_anyone_asked else self._connected()
        finds: list[Callable[[], Awaitable[RpcConnection]]] = [
            partial(_given, connection) for connection in first
        ]
        asked = {connection.destination for connection in first}
        finds += [
            partial(self.pool.connect, address)
            for address in self._addresses()
            if address not in asked
        ]
        stagger_ms = RESPONSE_STAGGER_MS if first else CONNECT_STAGGER_MS
        return await first_success([partial(ask, find) for find in finds], stagger_ms=stagger_ms)

    def _connected(self) -> list[RpcConnection]:
        """Return the open connections to brokers, those with the fewest requests in flight first.

        Those with equally many requests in flight are in random order.
        """
        addresses = [
            Destination(host=node.host, port=node.port) for node in self.view.nodes.values()
        ]
        connected = [
            connection
            for address in addresses
            if (connection := self.pool.connected(address)) is not None
        ]
        shuffled = (
            self.env.rng.sample(connected, len(connected)) if len(connected) > 1 else connected
        )
        return sorted(shuffled, key=lambda connection: connection.in_flight_count)

    def _addresses(self) -> list[Destination]:
        """Return the addresses to try, known brokers before bootstrap servers.

        Each of the two groups is in random order, with addresses that failed last time at its end.
        """
        known = [Destination(host=node.host, port=node.port) for node in self.view.nodes.values()]
        servers: list[Destination] = []
        if not known or self.config.metadata_recovery_strategy == REBOOTSTRAP:
            addresses = (
                Destination(host=host, port=port) for host, port in self.config.bootstrap_servers
            )
            servers = [address for address in addresses if address not in known]
        return [
            address
            for kind in (known, servers)
            for address in sorted(self.env.rng.sample(kind, len(kind)), key=self.pool.is_failing)
        ]

    async def node(self, node_id: int, purpose: str = "") -> RpcConnection:
        """Return the connection to a broker.

        Each ``purpose`` has a connection of its own, so that its requests wait for no others.

        Raises:
            KafkaError: LEADER_NOT_AVAILABLE, no broker of that id is known. NETWORK_EXCEPTION, the
                broker cannot be reached.
        """
        known = self.view.nodes.get(node_id)
        if known is None:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"broker {node_id} is not in the cluster's metadata"
            )
        return await self.pool.connect(
            Destination(host=known.host, port=known.port, purpose=purpose)
        )

    async def controller(self) -> RpcConnection:
        """Return a connection to the broker that the metadata names as controller.

        If the metadata names none, return a connection to any broker, which forwards requests.

        Raises:
            KafkaError: NETWORK_EXCEPTION, the node cannot be reached. REQUEST_TIMED_OUT.
        """
        if self.view.controller_id not in self.view.nodes:
            await self.refresh()
        if self.view.controller_id in self.view.nodes:
            return await self.node(self.view.controller_id)
        return await self.any_node()

    async def leader(self, topic_partition: TopicPartition, purpose: str = "") -> RpcConnection:
        """Return the connection to a partition's leader, according to the view; see ``node``.

        Raises:
            KafkaError: LEADER_NOT_AVAILABLE, no leader is known. NETWORK_EXCEPTION.
        """
        leader = self.view.leader_of(topic_partition)
        if leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic_partition} has no leader")
        return await self.node(leader, purpose)

    async def coordinator(
        self, key: str, purpose: str = "coordinator", *, key_type: int = GROUP_KEY_TYPE
    ) -> RpcConnection:
        """Return the connection for ``purpose`` to the coordinator of a group or transactional id.

        ``key`` is this id. The coordinator is remembered until ``forget_coordinator``.

        Raises:
            KafkaError: COORDINATOR_NOT_AVAILABLE and others. NETWORK_EXCEPTION.
        """
        node_id = self._coordinators.get((key_type, key))
        if node_id is None or node_id not in self.view.nodes:
            node_id = await self._find_coordinator(key, key_type)
            kind = KINDS_OF_KEYS[key_type]
            self._quiet.info(
                ("coordinator", key_type, key),
                "%s %s: its coordinator is broker %d",
                kind,
                key,
                node_id,
            )
            self._coordinators[key_type, key] = node_id
        return await self.node(node_id, purpose)

    def forget_coordinator(self, key: str, *, key_type: int = GROUP_KEY_TYPE) -> None:
        """Forget the coordinator of a group or transactional id. The next use looks it up again."""
        self._coordinators.pop((key_type, key), None)

    async def _find_coordinator(self, key: str, key_type: int) -> int:
        """Ask any broker for the coordinator of a key, and return the coordinator's node id.

        If the view does not have this node, its address is added.
        """
        connection = await self.any_node()
        if connection.version_of(ApiKey.FIND_COORDINATOR) >= FIRST_VERSION_WITH_COORDINATOR_KEYS:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        else:
            request = FindCoordinatorRequest(key_type=key_type, key=key)
        response = await connection.request(request, FindCoordinatorResponse)
        found = response.coordinators[0] if response.coordinators else response
        raise_for(
            found.error_code,
            found.error_message,
            f"coordinator of {KINDS_OF_KEYS[key_type]} {key!r}",
        )
        if found.node_id not in self.view.nodes:
            self.view = self.view.with_nodes(
                [Node(node_id=found.node_id, host=found.host, port=found.port)]
            )
        return found.node_id

    # Topics

    def watch(self, topics: Iterable[str]) -> None:
        """Include these topics in every refresh from now on.

        Raises:
            TypeError, KafkaError: a name is not valid for a topic.
        """
        self._topics.update(dict.fromkeys(map(topic_name, topics), self.env.clock.monotonic_ms()))

    def watch_only(self, topics: Iterable[str]) -> None:
        """Watch these topics and no others, from the next refresh on.

        Raises as ``watch``.
        """
        self._topics = dict.fromkeys(map(topic_name, topics), self.env.clock.monotonic_ms())

    def watch_all(self, *, is_on: bool) -> None:
        """Set whether every refresh from now on requests all topics of the cluster."""
        self._is_watching_all = is_on

    def forget(self, topics: Iterable[str]) -> None:
        """Drop topics from the view and stop asking for them.

        Use it for topics that were deleted or are not used any more.
        """
        gone = list(topics)
        for topic in gone:
            self._topics.pop(topic, None)
        self.view = self.view.without(gone)

    async def topic(
        self, name: str, timeout_ms: int, *, before_attempt: Callable[[], None] = lambda: None
    ) -> TopicView:
        """Return a topic, and wait up to ``timeout_ms`` until the cluster knows it.

        The cluster creates the topic if client and brokers allow this. ``before_attempt`` may raise
        an error to end the wait early.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION and others, the deadline passed.
                INVALID_TOPIC_EXCEPTION and TOPIC_AUTHORIZATION_FAILED are raised at once.
            TypeError: the name is not text.
        """
        known = self.view.topics.get(name)
        if known is not None:
            return known
        self.watch((name,))

        async def attempt() -> TopicView:
            before_attempt()
            if name not in self.view.topics:
                await self.refresh((name,), is_creating=True)
            if name in self.view.topics:
                return self.view.topics[name]
            code = self.view.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            raise KafkaError(code, f"topic {name!r}: {code.name}")

        try:
            return await self.retry(attempt, timeout_ms, is_refreshing=False)
        except KafkaError:
            self._topics.pop(name, None)
            raise

    async def refresh(
        self,
        topics: Iterable[str] | None = (),
        *,
        is_creating: bool = False,
        is_anyone_asked: bool = False,
    ) -> ClusterView:
        """Ask any broker for the watched topics and ``topics``, and return the new view.

        ``topics`` None means all topics of the cluster. With ``is_creating`` the request names only
        ``topics``, and the broker may create them if the client allows it. Any other refresh
        creates no topic, because a watched topic may have been deleted. With ``is_anyone_asked``
        the broker is chosen at random from all brokers. The connected ones may be cut off from the
        rest of the cluster, and would then return the same old state each time.

        Raises:
            KafkaError: NETWORK_EXCEPTION, REQUEST_TIMED_OUT.
        """
        if topics is not None:
            topics = tuple(topics)
            self.watch(topics)
            before = self.view.version
            while self._refreshing is not None:
                await self._refreshing.wait()
                if (
                    self.view.version > before
                    and self._topics.keys() <= {*self.view.topics, *self.view.errors}
                    and not is_creating
                ):
                    return self.view
        mine = self._refreshing = trio.Event()
        try:
            if is_creating and topics:
                await self._refresh_once(topics, is_creating=self._is_auto_create_allowed)
            else:
                self._forget_idle()
                wanted = None if topics is None or self._is_watching_all else self._topics
                await self._refresh_once(wanted, is_creating=False, is_anyone_asked=is_anyone_asked)
        finally:
            mine.set()
            if self._refreshing is mine:
                self._refreshing = None
        return self.view

    def _forget_idle(self) -> None:
        """Drop the topics that the client has not used for a while (KIP-526).

        Their next use requests them again.
        """
        idle = [topic for topic, since_ms in self._topics.items() if self._is_idle(topic, since_ms)]
        if idle:
            self.forget(idle)

    async def keep_fresh(self) -> None:
        """Refresh the view forever, each time it is too old. Errors are logged."""
        while True:
            age_ms = self.env.clock.monotonic_ms() - self._refreshed_ms
            await trio.sleep(
                max(self.config.metadata_max_age_ms - age_ms, self.config.retry_backoff_max_ms)
                / 1_000
            )
            if self.is_stale:
                try:
                    await self.refresh()
                except KafkaError as error:
                    self._quiet.info("refresh", "the view of the cluster is too old: %s", error)

    async def _refresh_once(
        self, topics: Iterable[str] | None, *, is_creating: bool, is_anyone_asked: bool = False
    ) -> None:
        request = MetadataRequest(
            topics=(
                None
                if topics is None
                else [MetadataRequestTopic(name=name) for name in sorted(topics)]
            ),
            allow_auto_topic_creation=is_creating,
        )
        try:
            response = await self._ask_for_metadata(request, is_anyone_asked=is_anyone_asked)
        except KafkaError:
            self._note_silence()
            raise
        described: Sequence[TopicView] = ()
        if sum(len(each.partitions) for each in response.topics) > MANY_PARTITIONS:
            described = await trio.to_thread.run_sync(topic_views, response)
        before = self.view
        self.view = before.updated(response, is_full=topics is None, described_topics=described)
        self._failing_since_ms = None
        self._refreshed_ms = self.env.clock.monotonic_ms()
        self._forget_gone(before)
        self._on_refreshed()

    async def _ask_for_metadata(
        self, request: MetadataRequest, *, is_anyone_asked: bool
    ) -> MetadataResponse:
        response = await self.ask_any(request, MetadataResponse, is_anyone_asked=is_anyone_asked)
        if (
            response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED
            and self.config.metadata_recovery_strategy == REBOOTSTRAP
        ):
            self.view = self.view.without_nodes()
            raise KafkaError(
                ErrorCode.NETWORK_EXCEPTION,
                "the broker asks to begin again with the bootstrap servers (KIP-1102)",
            )
        raise_for(response.error_code, "", "Metadata")
        return response

    def _forget_gone(self, before: ClusterView) -> None:
        """Close the connections to brokers that are in ``before``, but not in the present view.

        Requests that wait for these brokers fail, and are tried at other brokers.
        """
        kept = {(node.host, node.port) for node in self.view.nodes.values()}
        for node in before.nodes.values():
            if (node.host, node.port) not in kept:
                self.pool.forget_address(node.host, node.port)

    def _note_silence(self) -> None:
        """Note a failed refresh, and forget all brokers if none responded for too long (KIP-1102).

        The client then uses the bootstrap servers again.
        """
        now_ms = self.env.clock.monotonic_ms()
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms
        is_late = (
            now_ms - self._failing_since_ms >= self.config.metadata_recovery_rebootstrap_trigger_ms
        )
        if is_late and self.config.metadata_recovery_strategy == REBOOTSTRAP and self.view.nodes:
            self._quiet.warning(
                "rebootstrap",
                "no broker responded for a long time: beginning again with the bootstrap servers",
            )
            before, self.view = self.view, self.view.without_nodes()
            self._forget_gone(before)

    # Trying again

    def countdown(self, timeout_ms: int) -> Callable[[], int]:
        """Return a function that returns how many ms are left, for a call with several steps."""
        clock = self.env.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        return lambda: max(deadline_ms - clock.monotonic_ms(), 0)

    async def retry(
        self, attempt: Callable[[], Awaitable[T]], timeout_ms: int, *, is_refreshing: bool = True
    ) -> T:
        """Call ``attempt`` until it succeeds, and return its result.

        It is called again after retriable errors until ``timeout_ms`` has passed. With
        ``is_refreshing`` the view is refreshed before each retry.

        Raises:
            KafkaError: the last error, or REQUEST_TIMED_OUT if no attempt ended.
        """

        async def refreshed_attempt(failed_count: int) -> T:
            if failed_count and is_refreshing:
                await self.refresh()
            return await attempt()

        return await retry(
            refreshed_attempt,
            timeout_ms=timeout_ms,
            backoff=self._backoff,
            rng=self.env.rng,
            is_retriable=_may_succeed_later,
        )

    def backoff_ms(self, attempt: int) -> float:
        """Return the pause in ms before retry number ``attempt``."""
        return self._backoff.delay_ms(attempt, self.env.rng)

    def group_by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[int, list[TopicPartition]]:
        """Return the partitions by the node id of their leaders.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, a partition is unknown. LEADER_NOT_AVAILABLE,
                the leader of a partition is unknown.
        """
        grouped: dict[int, list[TopicPartition]] = {}
        for topic_partition in partitions:
            leader = self.view.leader_of(topic_partition)
            if leader < 0:
                is_known = self.view.partition(topic_partition) is not None
                code = (
                    ErrorCode.LEADER_NOT_AVAILABLE
                    if is_known
                    else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
                raise KafkaError(code, f"{topic_partition}: {code.name}")
            grouped.setdefault(leader, []).append(topic_partition)
        return grouped


async def _given(connection: RpcConnection) -> RpcConnection:
    return connection


def _may_succeed_later(error: KafkaError) -> bool:
    return error.is_retriable and error.code not in REFUSED_TOPICS


def _rpc_settings(config: ClientConfig) -> RpcSettings:
    return RpcSettings(
        client_id=config.client_id,
        request_timeout_ms=config.request_timeout_ms,
        connect_timeout_ms=config.socket_connection_setup_timeout_ms,
        idle_timeout_ms=config.connections_max_idle_ms,
        max_response_bytes=config.max_response_bytes,
        reconnect_backoff=Backoff(
            first_ms=config.reconnect_backoff_ms, max_ms=config.reconnect_backoff_max_ms
        ),
        is_asking=True,
        long_frame_bytes=LONG_FRAME_BYTES,
    )
