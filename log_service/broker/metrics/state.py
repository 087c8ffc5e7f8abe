"""A node's state in numbers.

Covers partitions, controller, metadata log, groups, purgatories, sessions, connections and log
directories. Decides the names. The task that makes the page computes sums over all partitions, a
few partitions at a time, and passes them in.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from log_service.broker.metrics.partitions import is_under_replicated, min_isr_of
from log_service.broker.metrics.sources import MetricsSources
from log_service.broker.metrics.traffic import summary
from log_service.coordinator.group.listing import CLASSIC, CONSUMER, SHARE, STREAMS, GroupOverview
from log_service.metadata.image import MetadataImage, TopicImage
from log_service.metrics.exposition import Family, Sample, labels
from log_service.network.server import Server
from log_service.replication.partition import Partition
from log_service.replication.replica_manager import ReplicaManager

BROKER_RUNNING = 3
GROUP_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
CONSUMER_GROUP_STATES = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
SHARE_GROUP_STATES = ("Empty", "Stable", "Dead")
STREAMS_GROUP_STATES = ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead")

CONNECTION_COUNTS: Sequence[tuple[str, str, Callable[[Server], int]]] = (
    ("connection_creation", "Connections accepted", lambda server: server.accepted_count),
    (
        "connection_close",
        "Connections that ended",
        lambda server: server.accepted_count - server.connection_count,
    ),
    ("request", "Requests received", lambda server: server.request_count),
    ("incoming_byte", "Bytes received", lambda server: server.bytes_received),
    ("outgoing_byte", "Bytes sent", lambda server: server.bytes_sent),
)


@dataclass(slots=True, kw_only=True)
class PartitionCounts:
    """Counts of this node's partitions by condition."""

    total: int = 0
    led: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    offline: int = 0
    moving: int = 0
    producer_ids: int = 0
    late: int = 0
    """Led partitions whose first open transaction had its last batch before ``late_before_ms``."""
    late_before_ms: int

    def add(self, partition: Partition) -> None:
        """Count one partition."""
        self.total += 1
        self.offline += partition.is_offline
        if partition.log is not None:
            self.producer_ids += len(partition.log.producer_state)
        if partition.is_leader:
            self.led += 1
            self.moving += bool(
                partition.state.adding_replicas or partition.state.removing_replicas
            )
            self.under_replicated += is_under_replicated(partition)
            self.under_min_isr += len(partition.isr) < min_isr_of(partition)
            self.at_min_isr += len(partition.isr) == min_isr_of(partition)
            if partition.log is not None:
                last_ms = partition.log.producer_state.first_open_last_ms
                self.late += last_ms is not None and last_ms < self.late_before_ms


@dataclass(slots=True, kw_only=True)
class ClusterCounts:
    """Counts of the cluster's partitions by condition and by topic."""

    total: int = 0
    without_leader: int = 0
    not_preferred: int = 0
    by_topic: dict[str, int] = field(default_factory=dict)

    def add(self, topic: TopicImage, image: MetadataImage) -> None:
        """Count one topic's partitions."""
        brokers = image.cluster.brokers
        self.by_topic[topic.name] = len(topic.partitions)
        self.total += len(topic.partitions)
        for partition in topic.partitions.values():
            leader = brokers.get(partition.leader)
            self.without_leader += leader is None or leader.is_fenced
            self.not_preferred += partition.leader != partition.replicas[0]


def gauge(name: str, text: str, value: float) -> Family:
    """Return a family of one number."""
    return Family(name=name, type="gauge", help=text, samples=[("", "", value)])


def counter(name: str, text: str, value: float) -> Family:
    """Return a family of one number that only grows."""
    return Family(name=name, type="counter", help=text, samples=[("", "", value)])


def replica_families(replicas: ReplicaManager, counts: PartitionCounts) -> Iterator[Family]:
    """Yield the families of the broker's state and of the replica manager."""
    shrink_count, expand_count, refused_count = replicas.remote.isr_change_counts
    prefix = "kafka_server_replicamanager_"
    yield gauge(
        "kafka_server_kafkaserver_brokerstate", "State of the broker; 3 is running.", BROKER_RUNNING
    )
    yield gauge(f"{prefix}partitioncount", "Partitions on this node.", counts.total)
    yield gauge(f"{prefix}leadercount", "Partitions that this node leads.", counts.led)
    yield gauge(
        f"{prefix}underreplicatedpartitions",
        "Led partitions with a replica out of sync.",
        counts.under_replicated,
    )
    yield gauge(
        f"{prefix}underminisrpartitioncount",
        "Led partitions with fewer in sync than they need.",
        counts.under_min_isr,
    )
    yield gauge(
        f"{prefix}atminisrpartitioncount",
        "Led partitions with just as many in sync as they need.",
        counts.at_min_isr,
    )
    yield gauge(
        f"{prefix}offlinereplicacount", "Partitions whose log directory failed.", counts.offline
    )
    yield gauge(f"{prefix}reassigningpartitions", "Led partitions that move.", counts.moving)
    yield gauge(
        f"{prefix}produceridcount",
        "Producers whose sequence numbers are remembered.",
        counts.producer_ids,
    )
    yield counter(
        f"{prefix}isrshrinks_total", "Times that in-sync replicas became fewer.", shrink_count
    )
    yield counter(
        f"{prefix}isrexpands_total", "Times that in-sync replicas became more.", expand_count
    )
    yield counter(
        f"{prefix}failedisrupdates_total",
        "Changes of in-sync replicas that the controller refused.",
        refused_count,
    )
    lag = [("", labels({"clientId": "Replica"}), replicas.remote.max_lag)]
    text = "How many records the slowest replica on this node is behind its leader."
    yield Family(
        name="kafka_server_replicafetchermanager_maxlag", type="gauge", help=text, samples=lag
    )


def controller_families(
    sources: MetricsSources, image: MetadataImage, counts: ClusterCounts
) -> Iterator[Family]:
    """Yield the families of the controller, its log, and kafka_exporter's view of the cluster."""
    brokers = image.cluster.brokers.values()
    prefix = "kafka_controller_kafkacontroller_"
    yield gauge(
        f"{prefix}activecontrollercount",
        "Whether this node is the active controller.",
        int(sources.raft.is_leader),
    )
    yield gauge(
        f"{prefix}activebrokercount",
        "Brokers that are not fenced.",
        sum(not broker.is_fenced for broker in brokers),
    )
    yield gauge(
        f"{prefix}fencedbrokercount",
        "Brokers that are fenced.",
        sum(broker.is_fenced for broker in brokers),
    )
    yield gauge(f"{prefix}globaltopiccount", "Topics.", len(image.topics.by_name))
    yield gauge(f"{prefix}globalpartitioncount", "Partitions.", counts.total)
    yield gauge(
        f"{prefix}offlinepartitionscount", "Partitions without a leader.", counts.without_leader
    )
    yield gauge(
        f"{prefix}preferredreplicaimbalancecount",
        "Partitions that another than their first replica leads.",
        counts.not_preferred,
    )
    yield gauge(
        f"{prefix}lastappliedrecordoffset",
        "Offset of the last metadata record that was applied.",
        image.offset,
    )
    yield gauge(
        f"{prefix}lastcommittedrecordoffset",
        "Offset of the last metadata record that is safe.",
        sources.raft.high_watermark - 1,
    )
    unclean_count = sources.unclean_elections.count
    yield counter(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "Leaders elected out of sync.",
        unclean_count,
    )
    yield from _quorum_families(sources, image)
    yield gauge("kafka_brokers", "Brokers.", len(image.cluster.brokers))
    rows: list[Sample] = [
        ("", labels({"topic": name}), count) for name, count in counts.by_topic.items()
    ]
    yield Family(
        name="kafka_topic_partitions", type="gauge", help="Partitions of a topic.", samples=rows
    )
    addresses = _broker_addresses(image)
    yield Family(
        name="kafka_broker_info",
        type="gauge",
        help="Where a broker answers clients.",
        samples=addresses,
    )


def _quorum_families(sources: MetricsSources, image: MetadataImage) -> Iterator[Family]:
    """Yield the families of the metadata log, each under two names.

    One is by Strimzi's rules, the other by the JMX exporter's own sample for KRaft.
    """
    raft = sources.raft
    for name, label in (
        ("raftmetrics_current_state", "current_state"),
        ("raft_metrics_current_state_info", "state"),
    ):
        state = [("", labels({label: raft.role_name}), 1)]
        yield Family(
            name=f"kafka_server_{name}",
            type="gauge",
            help="Role in the metadata quorum.",
            samples=state,
        )
    for prefix in ("kafka_server_raftmetrics", "kafka_server_raft_metrics"):
        yield gauge(
            f"{prefix}_current_leader",
            "Node id of the metadata quorum's leader; -1 where this node knows none.",
            raft.leader_id,
        )
        yield gauge(
            f"{prefix}_current_vote",
            "Node id that this node votes for; -1 for none.",
            raft.voted_id,
        )
        yield gauge(f"{prefix}_current_epoch", "Epoch of the metadata quorum.", raft.epoch)
        yield gauge(
            f"{prefix}_high_watermark", "End of the safe metadata records.", raft.high_watermark
        )
        yield gauge(f"{prefix}_log_end_offset", "End of the metadata log.", raft.log_end_offset)
    applied = "Offset of the last metadata record that this broker applied."
    for prefix in ("kafka_server_brokermetadatametrics", "kafka_server_broker_metadata_metrics"):
        yield gauge(f"{prefix}_last_applied_record_offset", applied, image.offset)


def _broker_addresses(image: MetadataImage) -> list[Sample]:
    """Return one row for each broker that has a listener, with the address of the first one."""
    brokers = [
        (broker.node_id, next(iter(broker.endpoints.values()), None))
        for broker in image.cluster.brokers.values()
    ]
    return [
        ("", labels({"id": node_id, "address": f"{where.host}:{where.port}"}), 1)
        for node_id, where in brokers
        if where is not None
    ]


def coordinator_families(groups: Sequence[GroupOverview]) -> Iterator[Family]:
    """Yield the number of groups, by protocol and by state.

    Kafka has two sets of names. The older set counts classic groups only, but offsets of all
    groups.
    """
    prefix = "kafka_coordinator_group_groupmetadatamanager_"
    states = Counter((group.protocol, group.state) for group in groups)
    protocols = Counter(group.protocol for group in groups)
    yield gauge(f"{prefix}numgroups", "Classic groups.", protocols[CLASSIC])
    yield gauge(
        f"{prefix}numoffsets", "Committed offsets.", sum(len(group.offsets) for group in groups)
    )
    for state in GROUP_STATES:
        yield gauge(
            f"{prefix}numgroups{state.lower()}",
            f"Classic groups in state {state}.",
            states[CLASSIC, state],
        )
    prefix = "kafka_server_group_coordinator_metrics_"
    counts: list[Sample] = [
        ("", labels({"protocol": name}), protocols[name])
        for name in (CLASSIC, CONSUMER, SHARE, STREAMS)
    ]
    yield Family(
        name=f"{prefix}group_count", type="gauge", help="Groups, by protocol.", samples=counts
    )
    for protocol, text, known in (
        (CONSUMER, "Groups of the consumer protocol, by state.", CONSUMER_GROUP_STATES),
        (SHARE, "Share groups, by state.", SHARE_GROUP_STATES),
        (STREAMS, "Groups of Kafka Streams instances, by state.", STREAMS_GROUP_STATES),
    ):
        rows: list[Sample] = [
            ("", labels({"state": state.lower()}), states[protocol, state]) for state in known
        ]
        yield Family(name=f"{prefix}{protocol}_group_count", type="gauge", help=text, samples=rows)


def waiting_families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the sizes of the purgatories and of the fetch session cache."""
    replicas, sessions = sources.node.replicas, sources.node.fetch_sessions
    purgatories = {
        "Fetch": replicas.delayed_fetches.waiting_count,
        "Produce": replicas.delayed_produces.waiting_count,
        "ShareFetch": sources.node.shares.delayed_fetches.waiting_count,
    }
    waiting: list[Sample] = [
        ("", labels({"delayedOperation": name}), count) for name, count in purgatories.items()
    ]
    prefix = "kafka_server_delayedoperationpurgatory_"
    yield Family(
        name=f"{prefix}purgatorysize", type="gauge", help="Requests that wait.", samples=waiting
    )
    yield Family(
        name=f"{prefix}numdelayedoperations",
        type="gauge",
        help="Requests that wait.",
        samples=waiting,
    )
    prefix = "kafka_server_fetchsessioncache_"
    yield gauge(f"{prefix}numincrementalfetchsessions", "Fetch sessions.", len(sessions))
    yield gauge(
        f"{prefix}numincrementalfetchpartitionscached",
        "Partitions in fetch sessions.",
        sessions.partition_count,
    )
    yield counter(
        f"{prefix}incrementalfetchsessionevictions_total",
        "Fetch sessions that made room.",
        sessions.eviction_count,
    )


def storage_families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the families of log directories and of the durations of syncs."""
    directories = sources.logs.directories
    rows: list[Sample] = [
        ("", labels({"logDirectory": directory.path}), int(directory.is_offline))
        for directory in directories
    ]
    offline = sum(directory.is_offline for directory in directories)
    yield gauge(
        "kafka_log_logmanager_offlinelogdirectorycount", "Log directories that failed.", offline
    )
    yield Family(
        name="kafka_log_logmanager_logdirectoryoffline",
        type="gauge",
        help="Whether a log directory failed.",
        samples=rows,
    )
    syncs = sources.node.replicas.syncs.times
    yield Family(
        name="kafka_log_logflushstats_logflushrateandtimems",
        type="summary",
        help="Time of a sync that flush.messages asked for, in milliseconds.",
        samples=summary({}, syncs.recent(sources.now_ms()), syncs.count, syncs.sum_ns),
    )


def cleaner_families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the families of the cleaner: how dirty compacted logs are, and its last result."""
    cleaner, directories = sources.logs.cleaner, sources.logs.directories
    last = cleaner.last_outcome
    recopied = 100 * last.bytes_after / last.bytes_before if last.bytes_before else 0
    since_ms = sources.now_ms() - cleaner.checked_ms
    yield gauge(
        "kafka_log_logcleaner_cleaner_recopy_percent",
        "Share of the last cleaned log that was kept, 0 to 100.",
        recopied,
    )
    yield gauge(
        "kafka_log_logcleaner_max_clean_time_secs",
        "How long cleaning the last log took.",
        last.duration_ms / 1_000,
    )
    prefix = "kafka_log_logcleanermanager_"
    yield gauge(
        f"{prefix}max_dirty_percent",
        "Dirty share of the dirtiest log, 0 to 100.",
        round(100 * cleaner.max_dirty_ratio, 1),
    )
    yield gauge(
        f"{prefix}time_since_last_run_ms", "Time since all compacted logs were looked at.", since_ms
    )
    lost = [log for key in cleaner.uncleanable if (log := sources.logs.get_log(key)) is not None]
    by_path = {
        directory.path: [log for log in lost if log.home is directory] for directory in directories
    }
    counts: list[Sample] = [
        ("", labels({"logDirectory": path}), len(logs)) for path, logs in by_path.items()
    ]
    sizes: list[Sample] = [
        ("", labels({"logDirectory": path}), sum(log.size_bytes for log in logs))
        for path, logs in by_path.items()
    ]
    yield Family(
        name=f"{prefix}uncleanable_partitions_count",
        type="gauge",
        help="Logs that cannot be cleaned.",
        samples=counts,
    )
    yield Family(
        name=f"{prefix}uncleanable_bytes",
        type="gauge",
        help="Bytes of logs that cannot be cleaned.",
        samples=sizes,
    )


def connection_families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the connections of each listener, and the idle share of the one event loop."""
    now_ms = sources.now_ms()
    prefix = "kafka_server_socket_server_metrics_"
    open_now = {listener: server.connection_count for listener, server in sources.servers.items()}
    yield Family(
        name=f"{prefix}connection_count",
        type="gauge",
        help="Open connections.",
        samples=_rows(open_now),
    )
    for name, text, count in CONNECTION_COUNTS:
        totals = {listener: count(server) for listener, server in sources.servers.items()}
        rates = {
            listener: sources.rates.of((name, listener), value, now_ms)
            for listener, value in totals.items()
        }
        yield Family(
            name=f"{prefix}{name}_total", type="counter", help=f"{text}.", samples=_rows(totals)
        )
        yield Family(
            name=f"{prefix}{name}_rate",
            type="gauge",
            help=f"{text} per second, lately.",
            samples=_rows(rates),
        )
    idle = sources.rates.idle_share(now_ms)
    yield gauge(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "How idle the event loop is, 0 to 1.",
        idle,
    )
    processors = [("", labels({"networkProcessor": 0}), idle)]
    yield Family(
        name="kafka_network_processor_idle_percent",
        type="gauge",
        help="The same: there is one processor.",
        samples=processors,
    )
    yield gauge(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "The same: one loop does both.",
        idle,
    )
    text = (
        "Longest time that the event loop was busy at a stretch, in the last half a minute at"
        " least."
    )
    yield gauge("tidelog_loop_stall_ms", text, sources.turns.longest_ms())
    yield gauge(
        "kafka_network_requestchannel_requestqueuesize",
        "Requests between reading and handling: there is no such queue.",
        0,
    )


def _rows(values: Mapping[str, float]) -> list[Sample]:
    return [
        ("", labels({"listener": listener, "networkProcessor": 0}), value)
        for listener, value in values.items()
    ]
