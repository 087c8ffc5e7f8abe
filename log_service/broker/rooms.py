"""Makes the rooms (subsystems) of a running node, and connects them.

``NodeFoundation`` has the parts that must exist before: the node's identity, its logs and its
opened metadata log. No task runs yet when ``Rooms`` is returned. The broker starts its rooms in
order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

import trio

from log_service.broker.client_telemetry import ClientTelemetry
from log_service.broker.coordinator_leadership import Coordinated, CoordinatorLeadership
from log_service.broker.directory_reports import DirectoryReports
from log_service.broker.end_offsets import EndOffsets
from log_service.broker.fetch_session import FetchSessionCache
from log_service.broker.lifecycle import BrokerLifecycle, DirectoryStates
from log_service.broker.lost_brokers import LostBrokers
from log_service.broker.node import Node, QuorumNode
from log_service.broker.peers import Peers
from log_service.broker.produced_counts import ProducedCounts
from log_service.broker.producer_ids import ProducerIds
from log_service.broker.protection import own_name
from log_service.broker.share.dead_letter_writer import DeadLetterWriter
from log_service.broker.share.group_settings import ShareGroupSettings
from log_service.broker.share.shares import Shares
from log_service.broker.share.start_offsets import StartOffsets
from log_service.broker.share.state_protocol import SharePersister
from log_service.broker.share.state_requests import ShareStateRequests
from log_service.broker.topic_creation.automatic import TopicCreation
from log_service.broker.topic_creation.declared import declared_topics
from log_service.broker.topic_creation.streams import StreamsTopicCreation
from log_service.broker.transactions.marker_sender import MarkerSender
from log_service.broker.transactions.verifier import TransactionVerifier
from log_service.common.env import NodeEnv
from log_service.common.errors import KafkaError
from log_service.common.features import TRANSACTION_VERSION
from log_service.common.timers import TimerQueue
from log_service.common.types import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    NodeId,
    TopicId,
    TopicPartition,
)
from log_service.config.resolve import Layers, dynamic_log_defaults
from log_service.config.views import LogConfig, NodeConfig
from log_service.controller.channel import NodeToControllerChannel
from log_service.controller.driver import ControllerDriver
from log_service.controller.rules.table import ControllerConfig
from log_service.coordinator.group_service import GroupService
from log_service.coordinator.share_state_service import ShareStateService
from log_service.coordinator.transaction_service import TransactionService
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.metadata.loader import MetadataLoader
from log_service.metadata.partition import PartitionRegistration
from log_service.protocol.stored.metadata_records import MetadataRecord
from log_service.raft.driver import RaftDriver
from log_service.raft.format import NodeIdentity
from log_service.raft.messages import Peer
from log_service.raft.transport import RpcTransport
from log_service.raft.voters import Voter, VoterEndpoint, VoterSet
from log_service.records.compression import Codec
from log_service.replication.links import ClusterLinks
from log_service.replication.replica_manager import ReplicaManager
from log_service.storage.last_run import LostLog
from log_service.storage.log import Log
from log_service.storage.log_manager import LogManager
from log_service.storage.rivals import FoundLog

if TYPE_CHECKING:
    from log_service.broker.certificates import Certificates
    from log_service.broker.logins.offered import NodeLogins
    from log_service.broker.schema_validation.validation import SchemaValidation
    from log_service.broker.transactions.marker_writer import OnResponse
    from log_service.common.access import Admission
    from log_service.controller.caller import Caller
    from log_service.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
    from log_service.protocol.schema import Message
    from log_service.rpc.connection import Destination
    from log_service.rpc.pool import ConnectionPool

ALL_BROKERS = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFoundation:
    """The parts of a node that exist before its rooms.

    They are its identity, its configuration, its opened logs and its connections.
    """

    env: NodeEnv
    config: NodeConfig
    static_texts: Mapping[str, str] = field(repr=False)
    identity: NodeIdentity
    timers: TimerQueue
    loader: MetadataLoader
    raft: RaftDriver
    logs: LogManager
    peers: "Callable[[], ConnectionPool]"
    """Returns the pool of connections to brokers. A ``Destination`` has a purpose for each use."""
    controller_peers: "Callable[[], ConnectionPool]"
    """Returns the pool of connections to controllers."""
    admit: "Callable[[Message, type[Message], Caller], Admission | None] | None" = None
    """Authorizes requests of clients that this node's controller decides.

    None if there is no authorizer.
    """
    certificates: "Certificates | None" = None
    logins: "NodeLogins | None" = None

    @property
    def node_id(self) -> NodeId:
        """The node's id."""
        return NodeId(self.config.node_id)

    def image(self) -> MetadataImage:
        """Return the newest committed metadata."""
        return self.loader.image

    def is_there(self, where: TopicPartition, topic_id: UUID) -> bool:
        """Whether the partition of a committed offset exists.

        If a topic id was stored with the offset, the topic must still have this id.
        """
        topic = self.image().topics.by_name.get(where.topic)
        return (
            topic is not None
            and where.partition in topic.partitions
            and (not topic_id.int or topic.topic_id == topic_id)
        )

    def is_partition_there(self, topic_id: UUID, partition: int) -> bool:
        """Whether a partition of a topic exists, as far as this node knows."""
        topic = self.image().topics.by_id.get(TopicId(topic_id))
        return topic is not None and partition in topic.partitions

    def partition_count(self, topic_name: str) -> int:
        """Return the number of partitions of a topic, or 0 if no topic has that name."""
        topic = self.image().topics.by_name.get(topic_name)
        return 0 if topic is None else len(topic.partitions)

    def transaction_version(self) -> int:
        """Return the level of transaction.version in the cluster."""
        return self.image().features.get(TRANSACTION_VERSION, 0)

    def is_known(self, log: FoundLog | LostLog) -> bool:
        """Whether a log belongs to a partition that has a replica here.

        A failed sync, or a loss of power, may destroy the file with the topic's id. The log is then
        identified by its name in three cases. First, the log never had a record. Second, the node
        is single, because its topics do not change while it is down. Third, the log is damaged,
        because its records are not served. In a cluster the topic may have been deleted and created
        again meanwhile. The records would then appear in the wrong topic. Such a log is a stray, as
        with Apache Kafka.
        """
        if (
            isinstance(log, Log)
            and log.topic_id is None
            and log.log_end_offset
            and not self.config.is_alone
        ):
            return False
        registration = self._registration_of(log)
        return registration is not None and self.config.node_id in registration.replicas

    def assigned_directory(self, log: FoundLog) -> UUID | None:
        """Return the log directory that the metadata assigns to a log, or None if there is none."""
        registration = self._registration_of(log)
        return None if registration is None else registration.assigned_directory_of(self.node_id)

    def _registration_of(self, log: FoundLog | LostLog) -> PartitionRegistration | None:
        name, index = log.topic_partition
        topics = self.image().topics
        topic = topics.by_name.get(name) if log.topic_id is None else topics.by_id.get(log.topic_id)
        return None if topic is None else topic.partitions.get(index)

    def log_defaults(self, image: MetadataImage) -> LogConfig:
        """Return the configuration that topics have by default."""
        cluster = image.configs.of(ResourceType.BROKER, ALL_BROKERS)
        own = image.configs.of(ResourceType.BROKER, str(self.config.node_id))
        return dynamic_log_defaults(
            self.config.log, Layers(static=self.static_texts, cluster=cluster, broker=own)
        )

    def directory_states(self) -> DirectoryStates:
        """Return the current states of the log directories."""
        logs = self.logs
        offline = (
            logs.directory_ids.get(directory.path)
            for directory in logs.directories
            if directory.is_offline
        )
        cordoned = (logs.directory_ids.get(path) for path in logs.config.cordoned_log_dirs)
        return DirectoryStates(
            previous_broker_epoch=logs.previous_broker_epoch,
            offline=frozenset(directory_id for directory_id in offline if directory_id is not None),
            cordoned=frozenset(
                directory_id for directory_id in cordoned if directory_id is not None
            ),
        )

    def leader_address(self) -> "Destination | None":
        """Return the address of the quorum's leader, or None if it is unknown or this node."""
        found = self.raft.leader_endpoint
        if found is None:
            return None
        from log_service.rpc.connection import (  # noqa: PLC0415 - a node alone asks no other node
            Destination,
        )

        return Destination(host=found.host, port=found.port, purpose="to the controller")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """The rooms of a running node. ``background`` is the nursery of all tasks that use the logs."""

    background: trio.Nursery
    controller: ControllerDriver
    controller_channel: NodeToControllerChannel
    lifecycle: BrokerLifecycle
    groups: GroupService
    transactions: TransactionService
    markers: MarkerSender
    share_states: ShareStateService
    share_persister: SharePersister
    topic_creation: TopicCreation
    streams_topics: StreamsTopicCreation
    replicas: ReplicaManager
    directory_reports: DirectoryReports
    leadership: CoordinatorLeadership
    fetch_sessions: FetchSessionCache
    shares: Shares
    producer_ids: ProducerIds
    transaction_verifier: TransactionVerifier
    telemetry: ClientTelemetry
    lost_brokers: LostBrokers
    schema_validation: "SchemaValidation | None" = None
    produced: ProducedCounts = field(default_factory=ProducedCounts)

    def node(self, foundation: NodeFoundation, controller_address: tuple[str, int] | None) -> Node:
        """Return the node that handlers get, with these rooms."""
        return Node(
            config=foundation.config,
            static_texts=foundation.static_texts,
            cluster_id=foundation.identity.cluster_id,
            clock=foundation.env.clock,
            rng=foundation.env.rng,
            image=foundation.image,
            run_in_pool=foundation.env.files.run_in_pool,
            raft=foundation.raft,
            logs=foundation.logs,
            replicas=self.replicas,
            groups=self.groups,
            transactions=self.transactions,
            share_states=self.share_states,
            share_persister=self.share_persister,
            end_offsets=EndOffsets(
                node_id=foundation.node_id,
                listener_name=foundation.config.inter_broker_listener_name,
                replicas=self.replicas,
                image=foundation.image,
                pool=foundation.peers,
            ),
            controller=self.controller_channel,
            fetch_sessions=self.fetch_sessions,
            shares=self.shares,
            producer_ids=self.producer_ids,
            transaction_verifier=self.transaction_verifier,
            topic_creation=self.topic_creation,
            streams_topics=self.streams_topics,
            telemetry=self.telemetry,
            lost_brokers=self.lost_brokers,
            schema_validation=self.schema_validation,
            produced=self.produced,
            config_validators=[
                each for each in (foundation.certificates, foundation.logins) if each is not None
            ],
            controller_address=controller_address,
        )


def new_raft(
    env: NodeEnv, config: NodeConfig, peers: Peers, own_addresses: Mapping[str, tuple[str, int]]
) -> RaftDriver:
    """Return the metadata log of this node.

    ``own_addresses`` are those of its controller, and empty for a node without one. A single node
    without a controller listener needs no connections to others and has none.
    """
    name = config.quorum.listener_name
    voters = (
        Voter(
            node_id=NodeId(voter.node_id), endpoints=(VoterEndpoint(name, voter.host, voter.port),)
        )
        for voter in config.quorum.voters
    )
    return RaftDriver(
        env,
        config.metadata_log_dir,
        node_id=NodeId(config.node_id),
        config=config.metadata_log,
        quorum=config.quorum,
        transport=(
            RpcTransport(peers.quorum_pool, lambda: own_name(config))
            if own_addresses or not config.is_alone
            else None
        ),
        static_voters=None if config.is_alone else VoterSet(tuple(voters)),
        bootstrap_servers=tuple(
            Peer(NodeId(each.node_id), each.host, each.port)
            for each in config.quorum.bootstrap_servers
        ),
        endpoints=tuple(
            VoterEndpoint(own_name, host, port) for own_name, (host, port) in own_addresses.items()
        ),
    )


def quorum_node(
    foundation: NodeFoundation,
    controller: ControllerDriver,
    controller_address: tuple[str, int] | None,
) -> QuorumNode:
    """Return the parts of this node that handlers of the controller's listeners use.

    These handlers call this node's own controller. They forward nothing to the active one.
    """
    return QuorumNode(
        config=foundation.config,
        static_texts=foundation.static_texts,
        cluster_id=foundation.identity.cluster_id,
        clock=foundation.env.clock,
        rng=foundation.env.rng,
        image=foundation.image,
        run_in_pool=foundation.env.files.run_in_pool,
        raft=foundation.raft,
        controller=controller,
        controller_address=controller_address,
    )


def new_controller(
    foundation: NodeFoundation, bootstrap: Sequence[MetadataRecord]
) -> ControllerDriver:
    """Return the controller of this node.

    It is made before the metadata log is opened, because it has to see the log's records.
    ``bootstrap`` are the first records of an empty log.
    """
    config = ControllerConfig(
        node_id=foundation.node_id,
        cluster_id=foundation.identity.cluster_id,
        topics=foundation.config.topics,
        broker_session_timeout_ms=foundation.config.broker_session_timeout_ms,
        death_grace_ms=foundation.config.death_grace_ms,
        max_idle_interval_ms=foundation.config.quorum.max_idle_interval_ms,
        leader_balance_interval_ms=foundation.config.leader_balance_interval_ms,
        unclean_election_interval_ms=foundation.config.unclean_election_interval_ms,
        static_texts=foundation.static_texts,
        mutation_windows=foundation.config.mutation_quota_windows,
        tokens=foundation.config.tokens,
    )
    return ControllerDriver(
        foundation.env,
        foundation.raft,
        foundation.timers,
        config,
        image=foundation.image,
        bootstrap=bootstrap,
    )


def _new_replicas(
    foundation: NodeFoundation,
    controller_channel: NodeToControllerChannel,
    lifecycle: BrokerLifecycle,
    background: trio.Nursery,
) -> ReplicaManager:
    """Return the replica manager of a node, with its connections to other nodes."""
    config = foundation.config
    return ReplicaManager(
        node_id=foundation.node_id,
        clock=foundation.env.clock,
        timers=foundation.timers,
        logs=foundation.logs,
        default_log_config_of=foundation.log_defaults,
        checkpoint_interval_ms=config.high_watermark_checkpoint_interval_ms,
        nursery=background,
        links=ClusterLinks(
            controller=controller_channel,
            pool=foundation.peers,
            broker_epoch=lambda: lifecycle.broker_epoch,
            listener_name=config.inter_broker_listener_name,
            config=config.replication,
        ),
    )


def build_rooms(
    foundation: NodeFoundation, controller: ControllerDriver, background: trio.Nursery
) -> Rooms:
    """Return all rooms of a node. Their background work runs in ``background``."""
    env, config = foundation.env, foundation.config
    controller_channel = NodeToControllerChannel(
        local=controller,
        find=foundation.leader_address,
        pool=foundation.controller_peers,
        rng=env.rng,
        admit=foundation.admit,
    )
    lifecycle = BrokerLifecycle(
        config,
        controller_channel,
        foundation.image,
        foundation.directory_states,
        is_quorum_gone=lambda: foundation.raft.is_majority_gone,
    )
    declared = declared_topics(env.files, config.topics.declarations_path)
    topic_creation = TopicCreation(
        controller_channel, config, env.clock, foundation.image, declared
    )
    share_states, share_persister = _new_share_states(foundation, topic_creation, background)
    groups = _new_groups(foundation, share_persister)
    producer_ids = ProducerIds(
        controller_channel,
        foundation.node_id,
        lambda: lifecycle.broker_epoch,
        background.start_soon,
    )
    replicas = _new_replicas(foundation, controller_channel, lifecycle, background)
    transactions, markers = _new_transactions(foundation, producer_ids, replicas, groups)
    directory_reports = _new_directory_reports(
        foundation, controller_channel, lifecycle, replicas, background
    )
    shares = _new_shares(foundation, share_persister, topic_creation, background)
    replicas.add_listener(shares)
    coordinated = {
        GROUP_METADATA_TOPIC: Coordinated(
            coordinator=groups, codec=Codec(config.groups.offsets_topic_compression_codec)
        ),
        TRANSACTION_STATE_TOPIC: Coordinated(coordinator=transactions),
        SHARE_GROUP_STATE_TOPIC: Coordinated(
            coordinator=share_states, codec=Codec(config.share_states.topic_compression_codec)
        ),
    }
    return Rooms(
        background=background,
        controller=controller,
        controller_channel=controller_channel,
        lifecycle=lifecycle,
        groups=groups,
        replicas=replicas,
        directory_reports=directory_reports,
        transactions=transactions,
        markers=markers,
        share_states=share_states,
        share_persister=share_persister,
        topic_creation=topic_creation,
        streams_topics=StreamsTopicCreation(controller_channel, env.clock, background.start_soon),
        leadership=CoordinatorLeadership(replicas, coordinated),
        fetch_sessions=FetchSessionCache(config.fetch, env.rng),
        shares=shares,
        producer_ids=producer_ids,
        transaction_verifier=_new_verifier(foundation, replicas, transactions, background),
        telemetry=_new_telemetry(env, config),
        lost_brokers=_new_lost_brokers(foundation, background),
        schema_validation=_new_schema_validation(env, config),
    )


def _new_schema_validation(env: NodeEnv, config: NodeConfig) -> "SchemaValidation | None":
    if config.schema_registry is None:
        return None
    from log_service.broker.schema_validation.http_registry import (  # noqa: PLC0415 - few need it
        HttpRegistry,
    )
    from log_service.broker.schema_validation.validation import (  # noqa: PLC0415 - few need it
        SchemaValidation,
    )

    return SchemaValidation(HttpRegistry(config.schema_registry), env.clock)


def _new_lost_brokers(foundation: NodeFoundation, background: trio.Nursery) -> LostBrokers:
    return LostBrokers(
        foundation.env,
        foundation.timers,
        image=foundation.image,
        listener_name=foundation.config.inter_broker_listener_name,
        grace_ms=foundation.config.death_grace_ms,
        start_task=background.start_soon,
    )


def _new_groups(foundation: NodeFoundation, share_states: ShareStateRequests) -> GroupService:
    env = foundation.env
    return GroupService(
        clock=env.clock,
        rng=env.rng,
        config=foundation.config.groups,
        timers=foundation.timers,
        run_in_pool=env.files.run_in_pool,
        is_there=foundation.is_there,
        partition_count=lambda: foundation.partition_count(GROUP_METADATA_TOPIC),
        image=foundation.image,
        share_states=share_states,
    )


def _new_telemetry(env: NodeEnv, config: NodeConfig) -> ClientTelemetry:
    return ClientTelemetry(
        clock=env.clock,
        rng=env.rng,
        run_in_pool=env.files.run_in_pool,
        max_bytes=config.telemetry_max_bytes,
        is_shown=config.metrics_listener is not None,
    )


def _new_directory_reports(
    foundation: NodeFoundation,
    controller_channel: NodeToControllerChannel,
    lifecycle: BrokerLifecycle,
    replicas: ReplicaManager,
    background: trio.Nursery,
) -> DirectoryReports:
    """Return the object that reports the log directories of replicas to the controller."""
    reports = DirectoryReports(
        node_id=foundation.node_id,
        logs=foundation.logs,
        find=replicas.partitions_by_id.get,
        image=foundation.image,
        controller=controller_channel,
        broker_epoch=lambda: lifecycle.broker_epoch,
        nursery=background,
        rng=foundation.env.rng,
    )
    replicas.add_listener(reports)
    return reports


def _new_share_states(
    foundation: NodeFoundation, topic_creation: TopicCreation, background: trio.Nursery
) -> tuple[ShareStateService, ShareStateRequests]:
    """Return the coordinator of share group states, and the client of all such coordinators."""
    env, config = foundation.env, foundation.config
    states = ShareStateService(
        clock=env.clock,
        timers=foundation.timers,
        run_in_pool=env.files.run_in_pool,
        is_there=foundation.is_partition_there,
        config=config.share_states,
        partition_count=lambda: foundation.partition_count(SHARE_GROUP_STATE_TOPIC),
    )
    persister = ShareStateRequests(
        node_id=foundation.node_id,
        listener_name=config.inter_broker_listener_name,
        clock=env.clock,
        rng=env.rng,
        timers=foundation.timers,
        image=foundation.image,
        pool=foundation.peers,
        start_task=background.start_soon,
        here=states,
        create_topic=lambda: topic_creation.create([SHARE_GROUP_STATE_TOPIC]),
    )
    return states, persister


def _new_shares(
    foundation: NodeFoundation,
    persister: SharePersister,
    topic_creation: TopicCreation,
    background: trio.Nursery,
) -> Shares:
    """Return the share groups on the partitions that this node leads."""
    env, config = foundation.env, foundation.config

    async def create_topic(name: str) -> None:
        refused = await topic_creation.create([name])
        if name in refused:
            raise KafkaError(refused[name], f"topic {name} cannot be created")

    dead_letters = DeadLetterWriter(
        clock=env.clock,
        image=foundation.image,
        listener_name=config.inter_broker_listener_name,
        pool=foundation.peers,
        run_in_pool=env.files.run_in_pool,
        start_task=background.start_soon,
        create_topic=create_topic if config.topics.is_auto_created else None,
    )
    return Shares(
        clock=env.clock,
        timers=foundation.timers,
        persister=persister,
        settings=ShareGroupSettings(config.share_fetch, foundation.image).of,
        find_start=StartOffsets(env.clock, env.files.run_in_pool, background.start_soon).find,
        dead_letters=dead_letters,
        max_session_count=config.share_fetch.max_session_count,
    )


def _new_verifier(
    foundation: NodeFoundation,
    replicas: ReplicaManager,
    transactions: TransactionService,
    background: trio.Nursery,
) -> TransactionVerifier:
    """Return the client of transaction coordinators, including this node's own."""
    return TransactionVerifier(
        node_id=foundation.node_id,
        listener_name=foundation.config.inter_broker_listener_name,
        config=foundation.config.verification,
        clock=foundation.env.clock,
        replicas=replicas,
        image=foundation.image,
        pool=foundation.peers,
        start_task=background.start_soon,
        ask_locally=transactions.settle_partitions,
    )


def _new_transactions(
    foundation: NodeFoundation,
    producer_ids: ProducerIds,
    replicas: ReplicaManager,
    groups: GroupService,
) -> tuple[TransactionService, MarkerSender]:
    """Return the coordinator of transactions on this node, and the sender of their markers.

    Each of the two calls the other.
    """
    env, config = foundation.env, foundation.config

    def write_here(request: "WriteTxnMarkersRequest", on_response: "OnResponse") -> None:
        from log_service.broker.transactions.marker_writer import (  # noqa: PLC0415 - few nodes need it
            REQUEST_TIMEOUT_MS,
            write_markers,
        )

        write_markers(
            replicas, groups, request, on_response, env.clock.monotonic_ms() + REQUEST_TIMEOUT_MS
        )

    markers = MarkerSender(
        node_id=foundation.node_id,
        image=foundation.image,
        listener_name=config.inter_broker_listener_name,
        pool=foundation.peers,
        write_here=write_here,
        on_written=lambda written: transactions.markers_written(written),  # noqa: PLW0108 - ``transactions`` is made below
    )
    transactions = TransactionService(
        clock=env.clock,
        config=config.transactions,
        timers=foundation.timers,
        run_in_pool=env.files.run_in_pool,
        next_producer_id=producer_ids.next_or_ask,
        server_version=foundation.transaction_version,
        partition_count=lambda: foundation.partition_count(TRANSACTION_STATE_TOPIC),
        on_due=markers.send,
        on_dropped=markers.drop,
        on_wait=markers.hurry,
    )
    return transactions, markers
