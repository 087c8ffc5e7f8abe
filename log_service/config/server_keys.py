"""The keys of Kafka's server properties that have an effect here.

They set the node's identity, its listeners, bounds, groups and topics. This module declares names,
types, defaults and bounds. ``config.server`` decides what a combination means. The defaults are
Kafka's unless the reason says otherwise. Keys about logs are in ``broker_log_keys``, keys of the
quorum in ``quorum_keys``, and keys without effect in ``accepted_keys``.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Unpack

from log_service.common.listeners import DEFAULT_BROKER_PORT
from log_service.config.accepted_keys import ACCEPTED_KEYS
from log_service.config.authorizer_keys import AUTHORIZER_KEYS
from log_service.config.broker_log_keys import BROKER_LOG_KEYS
from log_service.config.definition import (
    CLUSTER_WIDE,
    MAX_INT,
    PER_BROKER,
    ConfigKey,
    ConfigType,
    Importance,
    Options,
    Trait,
    Validator,
    Value,
    at_least,
    between,
    has,
    keyed,
    list_of,
    no_empty_item,
    one_of,
    path_or_none,
    some_items,
    text_or_none,
    to,
)
from log_service.config.definition import declared as _key
from log_service.config.host_limits import host_limits, validate_host_limits
from log_service.config.quorum_keys import QUORUM_KEYS
from log_service.config.sasl_keys import SASL_KEYS
from log_service.config.schema_registry_keys import SCHEMA_REGISTRY_KEYS
from log_service.config.tls_keys import TLS_KEYS

HIGH = Importance.HIGH
FOREVER_IDLE_MS = 2**62
MAX_BYTES_IN_FLIGHT = 512 << 20
DEFAULT_LISTENERS = f"PLAINTEXT://127.0.0.1:{DEFAULT_BROKER_PORT}"
DEFAULT_LISTENER_PROTOCOLS = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"


def _directories(value: Value) -> str | None:
    """Accept lists of directories. Return an error text for any other list."""
    return (
        "it names no directory; give the node a place for its data" if some_items(value) else None
    )


def _int(
    name: str,
    default: int | None,
    documentation: str,
    reason: str,
    *,
    lowest: int | None = None,
    highest: float = math.inf,
    config_type: ConfigType = ConfigType.INT,
    **options: Unpack[Options],
) -> ConfigKey:
    text, validator = (
        None if default is None else str(default),
        (None if lowest is None else between(lowest, highest)),
    )
    return _key(name, config_type, text, documentation, reason, validator=validator, **options)


_long = partial(_int, config_type=ConfigType.LONG)


def _text(
    name: str,
    default: str | None,
    documentation: str,
    reason: str,
    *,
    validator: Validator | None = None,
    **options: Unpack[Options],
) -> ConfigKey:
    return _key(
        name, ConfigType.STRING, default, documentation, reason, validator=validator, **options
    )


def _list(
    name: str,
    default: str | None,
    documentation: str,
    reason: str,
    *,
    validator: Validator | None = None,
    **options: Unpack[Options],
) -> ConfigKey:
    return _key(
        name,
        ConfigType.LIST,
        default,
        documentation,
        reason,
        validator=validator,
        importance=HIGH,
        **options,
    )


def _bool(
    name: str, default: str, documentation: str, reason: str, **options: Unpack[Options]
) -> ConfigKey:
    return _key(
        name, ConfigType.BOOLEAN, default, documentation, reason, importance=HIGH, **options
    )


def _idle_timeout_ms(limit_ms: int) -> int:
    return limit_ms if limit_ms >= 0 else FOREVER_IDLE_MS


def _bytes_in_flight(limit_bytes: int) -> int:
    return limit_bytes if limit_bytes > 0 else MAX_BYTES_IN_FLIGHT


def _migration_policy(value: Value) -> str | None:
    policies = ("bidirectional", "upgrade", "downgrade", "disabled")
    return None if str(value).lower() in policies else f"it must be one of {', '.join(policies)}"


IDENTITY = (
    _key("node.id", ConfigType.INT, None, "This node's number in the cluster.", "none; the operator chooses it", validator=at_least(0),
         importance=HIGH),
    _key("broker.id", ConfigType.INT, "-1", "Older name of node.id. If both are set, they must agree.", "node.id is used",
         importance=HIGH),
    _list("process.roles", "broker,controller", "The roles of this node: broker, controller, or both.", "one process is a whole cluster",
          validator=list_of("broker", "controller", is_empty_allowed=False), traits=Trait.DEMANDED,
          fields=to("NodeConfig.is_broker", has("broker")) + to("NodeConfig.is_controller", has("controller"))),
    _text("broker.rack", None, "The rack of the node. Replicas are spread over racks, and consumers may read from a replica in their "
          "own rack.", "the node belongs to no rack", fields=to("NodeConfig.rack", text_or_none)),
    _text("cluster.id", None, "The id of the cluster that a new directory is formatted for, as printed by kafka-storage random-uuid.",
          "a new random id is drawn", traits=Trait.OWN, fields=to("NodeConfig.cluster_id", text_or_none)),
)  # fmt: skip

LISTENERS = (
    _list("listeners", DEFAULT_LISTENERS, "The addresses that the node listens on, as NAME://host:port. An empty host means all "
          "interfaces.", "loopback only, so that other machines cannot connect unless the operator wants it", validator=some_items,
          update_mode=PER_BROKER, traits=Trait.ACCESS | Trait.RESTART),
    _list("advertised.listeners", None, "The addresses that clients are given to connect to, by listener name.", "the same as listeners",
          validator=some_items),
    _text("listener.security.protocol.map", DEFAULT_LISTENER_PROTOCOLS, "Security protocol of each listener name.",
          "a listener that has the name of a protocol speaks that protocol, and CONTROLLER speaks PLAINTEXT", update_mode=PER_BROKER,
          traits=Trait.ACCESS | Trait.RESTART),
    _text("inter.broker.listener.name", None, "The listener over which nodes connect to each other.", "the listener whose protocol is "
          "security.inter.broker.protocol"),
    _text("security.inter.broker.protocol", "PLAINTEXT", "Security protocol of the listener between nodes, if "
          "inter.broker.listener.name is not set.", "nodes trust their network",
          validator=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    _list("controller.listener.names", "CONTROLLER", "Names of the controllers' listeners. Controllers connect to each other on the "
          "first one.", "the name in Kafka's sample files", validator=some_items, traits=Trait.DEMANDED),
)  # fmt: skip

DIRECTORIES = (
    _list("cordoned.log.dirs", "", "Directories of log.dirs that get no new partitions, or * for all of them.",
          "no directory is cordoned", validator=no_empty_item, update_mode=PER_BROKER),
    _list("log.dirs", None, "Directories for partitions.", "log.dir is used", validator=_directories),
    _list("log.dir", ".tidelog/log", "Directory for partitions, if log.dirs is not set.", "it lies beside the other files of tidelog",
          validator=_directories),
    _text("metadata.log.dir", None, "Directory for the metadata log.", "the first of log.dirs"),
    _long("metadata.log.max.record.bytes.between.snapshots", 20 << 20, "Bytes of metadata records after which a snapshot is written.",
          "a start then reads at most 20 MiB of records", lowest=1, fields=to("MetadataLogConfig.max_record_bytes_between_snapshots")),
    _long("metadata.log.max.snapshot.interval.ms", 3_600_000, "Time after which a snapshot of the metadata is written, if there are "
          "new records. 0 means never.", "a start then reads at most an hour's records", lowest=0,
          fields=to("MetadataLogConfig.max_snapshot_interval_ms")),
    _int("metadata.log.segment.bytes", 1 << 30, "Size at which a new segment of the metadata log is begun.", "there are few files",
         lowest=8 << 20, fields=to("MetadataLogConfig.segment_bytes")),
    _long("metadata.log.segment.ms", 604_800_000, "Age of a segment of the metadata log at which a new one is begun.",
          "a week bounds how long old records stay", fields=to("MetadataLogConfig.segment_ms")),
)  # fmt: skip

NETWORK = (
    _int("socket.request.max.bytes", 100 << 20, "The largest request, in bytes.", "far above any reasonable record batch", lowest=1,
         fields=to("NetworkLimits.max_frame_bytes")),
    _int("socket.send.buffer.bytes", -1, "Send buffer of a connection, in bytes. -1 leaves the size to the operating system.",
         "the operating system adapts the size; a fixed 100 KiB costs a third to two thirds of the throughput on a fast network",
         lowest=-1, fields=to("NetworkLimits.socket_send_buffer_bytes")),
    _int("socket.receive.buffer.bytes", -1, "Receive buffer of a connection, in bytes. -1 leaves the size to the operating system.",
         "the operating system adapts the size; a fixed 100 KiB costs a third to two thirds of the throughput on a fast network",
         lowest=-1, fields=to("NetworkLimits.socket_receive_buffer_bytes")),
    _int("socket.listen.backlog.size", 50, "Connections that may wait to be accepted.", "connections are accepted quickly", lowest=1,
         fields=to("NetworkLimits.backlog")),
    _int("max.connection.creation.rate", MAX_INT, "Connections that are accepted per second. Further ones wait in the backlog of the "
         "operating system.", "no limit is needed unless clients reconnect too often", lowest=0, update_mode=CLUSTER_WIDE,
         traits=Trait.LISTENER | Trait.LISTENER_LIMIT | Trait.POSITIVE, fields=to("ConnectionLimits.max_rate")),
    _int("max.connections", 10_000, "Connections of the node on all listeners together. The limit is lower if ulimit -n requires it.",
         "lower than Kafka's 2147483647, because no host can serve that many", lowest=0, update_mode=CLUSTER_WIDE,
         traits=Trait.LISTENER | Trait.LISTENER_LIMIT | Trait.POSITIVE, fields=to("ConnectionLimits.max_count")),
    _int("max.connections.per.ip", 10_000, "Connections from one IP address.", "lower than Kafka's 2147483647, because no host can "
         "serve that many", lowest=0, update_mode=CLUSTER_WIDE, fields=to("ConnectionLimits.max_count_per_host")),
    _key("max.connections.per.ip.overrides", ConfigType.STRING, "", "Exceptions from max.connections.per.ip for single addresses: "
         "host:count,host:count.", "all addresses have the same limit", validator=validate_host_limits, update_mode=CLUSTER_WIDE,
         fields=to("ConnectionLimits.max_count_of_host", host_limits)),
    _long("connections.max.idle.ms", 600_000, "Time without a request after which a connection is closed. A negative number means never.",
          "clients close their idle connections before", fields=to("NetworkLimits.idle_timeout_ms", _idle_timeout_ms)),
    _long("queued.max.request.bytes", -1, "Bytes of requests in progress above which the node stops reading further requests. -1 means "
          "512 MiB.", "clients must not exhaust the node's memory",
          fields=to("NetworkLimits.max_request_bytes_in_flight", _bytes_in_flight)),
    _int("num.io.threads", 4, "Threads for work that waits for the disk: syncs, cold reads, removals.",
         "lower than Kafka's 8: requests themselves are handled without threads", lowest=1, update_mode=CLUSTER_WIDE,
         traits=Trait.THREADS, fields=to("NodeConfig.disk_pool_threads") + to("DynamicBrokerConfig.disk_pool_threads")),
    _int("telemetry.max.bytes", 1 << 20, "The most that a client's metrics may have in one push, compressed and not.", "as in Apache Kafka",
         lowest=1, fields=to("NodeConfig.telemetry_max_bytes")),
    _int("quota.window.num", 11, "Windows over which the use of quotas for bytes, request time and connections is measured.",
         "as in Apache Kafka", lowest=1, fields=to("QuotaWindows.count")),
    _int("quota.window.size.seconds", 1, "Length of such a window (quota.window.num), in seconds.", "as in Apache Kafka", lowest=1,
         fields=to("QuotaWindows.size_ms"), factor=1_000),
    _int("controller.quota.window.num", 11, "Windows whose quota for creating and deleting partitions may be used up at once.",
         "as in Apache Kafka", lowest=1),
    _int("controller.quota.window.size.seconds", 1, "Length of such a window (controller.quota.window.num), in seconds.",
         "as in Apache Kafka", lowest=1),
    _int("fetch.max.bytes", 55 << 20, "The largest response to a fetch, in bytes.", "55 MiB, more than consumers ask for by default",
         lowest=1024, fields=to("FetchConfig.max_bytes")),
    _int("max.incremental.fetch.session.cache.slots", 1000, "Fetch sessions that a broker keeps.", "enough for a thousand readers",
         lowest=0, fields=to("FetchConfig.max_session_cache_slots")),
    _int("max.request.partition.size.limit", 2000, "Partitions in one response of DescribeTopicPartitions.",
         "it bounds the size of a response", lowest=1, fields=to("NodeConfig.max_partitions_described")),
)  # fmt: skip

METRICS = (
    _text("metrics.listener", "", "The host:port at which Prometheus reads this node's metrics, without encryption or login. The page "
          "is /metrics. Empty means that the node serves no metrics.", "a port is opened only on request; tidelog up requests "
          "127.0.0.1:9404", traits=Trait.OWN),
)  # fmt: skip

TOPICS = (
    _int("num.partitions", 1, "Partitions of a topic that is created without a number of partitions.",
         "records are in order over the whole topic", lowest=1, fields=to("TopicDefaults.partition_count")),
    _int("default.replication.factor", 1, "Replicas of a topic that is created without a replication factor.",
         "it is possible in every cluster", lowest=1, fields=to("TopicDefaults.replication_factor")),
    _bool("auto.create.topics.enable", "true", "Whether a request for the metadata of a missing topic creates the topic.",
          "as in Apache Kafka, so that a first try works", fields=to("TopicDefaults.is_auto_created")),
    _text("auto.create.topics.declarations", "", "A JSON file of declared topics. A declared topic that is created automatically gets "
          "the partitions, replicas and configs of its declaration. Empty means no file.",
          "tidelog up writes the file from the topics of its project", traits=Trait.OWN,
          fields=to("TopicDefaults.declarations_path", path_or_none)),
    _bool("delete.topic.enable", "true", "Whether topics can be deleted.", "a user who may create topics may also delete them",
          fields=to("TopicDefaults.is_deletion_enabled")),
)  # fmt: skip

GROUPS = (
    _int("group.min.session.timeout.ms", 6_000, "The shortest session timeout that a member of a classic group may ask for.",
         "shorter sessions would cost many heartbeats", fields=to("GroupConfig.min_session_timeout_ms")),
    _int("group.max.session.timeout.ms", 1_800_000, "The longest session timeout that a member of a classic group may ask for.",
         "half an hour is enough for slow members", fields=to("GroupConfig.max_session_timeout_ms")),
    _int("group.initial.rebalance.delay.ms", 3_000, "How long an empty group waits for more members before its first assignment.",
         "the instances of a service start together", lowest=0, fields=to("GroupConfig.initial_rebalance_delay_ms")),
    _int("group.max.size", MAX_INT, "Members that a classic group may have.", "no limit is needed", lowest=1,
         fields=to("GroupConfig.max_size")),
    _key("group.coordinator.rebalance.protocols", ConfigType.LIST, "classic,consumer,streams", "The group protocols that clients may "
         "use. The classic protocol and share groups are always available.", "clients themselves choose the newer protocol",
         validator=list_of("consumer", "classic", "share", "streams", is_empty_allowed=False),
         fields=to("ConsumerGroupConfig.is_enabled", has("consumer")) + to("StreamsGroupConfig.is_enabled", has("streams"))),
    _int("group.consumer.session.timeout.ms", 45_000, "How long a member of the consumer protocol may send no heartbeat before it is "
         "removed.", "a pause for garbage collection is not a failure", lowest=1, fields=to("ConsumerGroupConfig.session_timeout_ms")),
    _int("group.consumer.min.session.timeout.ms", 45_000, "The shortest session timeout that a group of the consumer protocol may set.",
         "as in Apache Kafka", lowest=1, fields=to("ConsumerGroupConfig.min_session_timeout_ms")),
    _int("group.consumer.max.session.timeout.ms", 60_000, "The longest session timeout that a group of the consumer protocol may set.",
         "as in Apache Kafka", lowest=1, fields=to("ConsumerGroupConfig.max_session_timeout_ms")),
    _int("group.consumer.heartbeat.interval.ms", 5_000, "How often members of the consumer protocol send heartbeats.",
         "nine heartbeats fit into a session", lowest=1, fields=to("ConsumerGroupConfig.heartbeat_interval_ms")),
    _int("group.consumer.min.heartbeat.interval.ms", 5_000, "The shortest heartbeat interval that a group of the consumer protocol may "
         "set.", "as in Apache Kafka", lowest=1, fields=to("ConsumerGroupConfig.min_heartbeat_interval_ms")),
    _int("group.consumer.max.heartbeat.interval.ms", 15_000, "The longest heartbeat interval that a group of the consumer protocol may "
         "set.", "as in Apache Kafka", lowest=1, fields=to("ConsumerGroupConfig.max_heartbeat_interval_ms")),
    _int("group.consumer.assignment.interval.ms", 1_000, "The shortest time between two assignments of a group of the consumer protocol.",
         "members that start together are assigned together", lowest=0, update_mode=CLUSTER_WIDE,
         fields=to("ConsumerGroupConfig.assignment_interval_ms")),
    _int("group.consumer.min.assignment.interval.ms", 0, "The shortest time between assignments that a group of the consumer protocol "
         "may set.", "as in Apache Kafka", lowest=0, fields=to("ConsumerGroupConfig.min_assignment_interval_ms")),
    _int("group.consumer.max.assignment.interval.ms", 15_000, "The longest time between assignments that a group of the consumer "
         "protocol may set.", "as in Apache Kafka", lowest=0, fields=to("ConsumerGroupConfig.max_assignment_interval_ms")),
    _int("group.consumer.max.size", MAX_INT, "Members that a group of the consumer protocol may have.", "no limit is needed", lowest=1,
         fields=to("ConsumerGroupConfig.max_size")),
    _key("group.consumer.assignors", ConfigType.LIST, "uniform,range", "The assignors that divide partitions among members. The first "
         "is the default.", "the uniform assignor moves few partitions", validator=list_of("uniform", "range", is_empty_allowed=False),
         fields=to("ConsumerGroupConfig.assignors")),
    _text("group.consumer.migration.policy", "bidirectional", "Which groups may change their protocol while they have members: upgrade "
          "(from classic to consumer), downgrade (from consumer to classic), bidirectional (both) or disabled.",
          "a service can then be changed over member by member", validator=_migration_policy,
          fields=to("ConsumerGroupConfig.migration_policy", str.lower)),
    _int("group.consumer.regex.refresh.interval.ms", 600_000, "The longest time until regular expressions of subscriptions are matched "
         "again.", "new topics are matched at once", lowest=10_000, traits=Trait.INTERNAL,
         fields=to("ConsumerGroupConfig.regex_refresh_interval_ms")),
    _int("group.streams.session.timeout.ms", 45_000, "How long a member of a streams group may send no heartbeat before it is removed.",
         "as for other groups", lowest=1, fields=to("StreamsGroupConfig.session_timeout_ms")),
    _int("group.streams.min.session.timeout.ms", 45_000, "The shortest session timeout that a streams group may set.",
         "as in Apache Kafka", lowest=1, fields=to("StreamsGroupConfig.min_session_timeout_ms")),
    _int("group.streams.max.session.timeout.ms", 60_000, "The longest session timeout that a streams group may set.",
         "as in Apache Kafka", lowest=1, fields=to("StreamsGroupConfig.max_session_timeout_ms")),
    _int("group.streams.heartbeat.interval.ms", 5_000, "How often members of streams groups send heartbeats.",
         "nine heartbeats fit into a session", lowest=1, fields=to("StreamsGroupConfig.heartbeat_interval_ms")),
    _int("group.streams.min.heartbeat.interval.ms", 5_000, "The shortest heartbeat interval that a streams group may set.",
         "as in Apache Kafka", lowest=1, fields=to("StreamsGroupConfig.min_heartbeat_interval_ms")),
    _int("group.streams.max.heartbeat.interval.ms", 15_000, "The longest heartbeat interval that a streams group may set.",
         "as in Apache Kafka", lowest=1, fields=to("StreamsGroupConfig.max_heartbeat_interval_ms")),
    _int("group.streams.assignment.interval.ms", 1_000, "The shortest time between two assignments of a streams group.",
         "members that start together are assigned together", lowest=0, update_mode=CLUSTER_WIDE,
         fields=to("StreamsGroupConfig.assignment_interval_ms")),
    _int("group.streams.min.assignment.interval.ms", 0, "The shortest time between assignments that a streams group may set.",
         "as in Apache Kafka", lowest=0, fields=to("StreamsGroupConfig.min_assignment_interval_ms")),
    _int("group.streams.max.assignment.interval.ms", 15_000, "The longest time between assignments that a streams group may set.",
         "as in Apache Kafka", lowest=0, fields=to("StreamsGroupConfig.max_assignment_interval_ms")),
    _int("group.streams.initial.rebalance.delay.ms", 3_000, "How long an empty streams group waits for more members before its first "
         "assignment.", "the instances of an application start together", lowest=0,
         fields=to("StreamsGroupConfig.initial_rebalance_delay_ms")),
    _int("group.streams.num.standby.replicas", 0, "Standby replicas of each task: further processes that keep a copy of its state.",
         "changelog topics restore the state", lowest=0, fields=to("StreamsGroupConfig.standby_count")),
    _int("group.streams.max.standby.replicas", 2, "The most standby replicas that a streams group may set.", "as in Apache Kafka",
         lowest=0, fields=to("StreamsGroupConfig.max_standby_count")),
    _int("group.streams.max.size", MAX_INT, "Members that a streams group may have.", "no limit is needed", lowest=1,
         fields=to("StreamsGroupConfig.max_size")),
    _int("group.share.delivery.count.limit", 5, "How often a record is delivered to a share group before it is given up.",
         "a temporary failure ends within a few deliveries", lowest=2, highest=10, fields=to("ShareFetchConfig.delivery_count_limit")),
    _int("group.share.min.delivery.count.limit", 2, "The lowest delivery count limit that a share group may set.", "as in Apache Kafka",
         lowest=2, highest=5, fields=to("ShareFetchConfig.min_delivery_count_limit")),
    _int("group.share.max.delivery.count.limit", 10, "The highest delivery count limit that a share group may set.", "as in Apache Kafka",
         lowest=5, highest=25, fields=to("ShareFetchConfig.max_delivery_count_limit")),
    _int("group.share.record.lock.duration.ms", 30_000, "How long a member of a share group holds a record without acknowledging it.",
         "a pause for garbage collection is not a failure", lowest=1_000, highest=3_600_000,
         fields=to("ShareFetchConfig.record_lock_duration_ms")),
    _int("group.share.min.record.lock.duration.ms", 15_000, "The shortest lock duration that a share group may set.",
         "as in Apache Kafka", lowest=1_000, highest=30_000, fields=to("ShareFetchConfig.min_record_lock_duration_ms")),
    _int("group.share.max.record.lock.duration.ms", 60_000, "The longest lock duration that a share group may set.", "as in Apache Kafka",
         lowest=30_000, highest=3_600_000, fields=to("ShareFetchConfig.max_record_lock_duration_ms")),
    _int("group.share.partition.max.record.locks", 2_000, "Records of one partition that a share group may have in flight.",
         "it bounds the leader's memory", lowest=100, highest=10_000, fields=to("ShareFetchConfig.max_record_locks")),
    _int("group.share.min.partition.max.record.locks", 100, "The lowest limit of records in flight that a share group may set.",
         "as in Apache Kafka", lowest=100, highest=2_000, fields=to("ShareFetchConfig.min_max_record_locks")),
    _int("group.share.max.partition.max.record.locks", 4_000, "The highest limit of records in flight that a share group may set.",
         "as in Apache Kafka", lowest=2_000, highest=10_000, fields=to("ShareFetchConfig.max_max_record_locks")),
    _int("group.share.max.share.sessions", 2_000, "Members of share groups that a broker serves at the same time.",
         "it bounds the leader's memory", lowest=1, fields=to("ShareFetchConfig.max_session_count")),
    _int("offset.metadata.max.bytes", 4_096, "The longest metadata text of a committed offset, in bytes.",
         "the text is a note and not a place for data", lowest=0, fields=to("GroupConfig.offset_metadata_max_bytes")),
    _int("offsets.retention.minutes", 10_080, "How long the committed offsets of an empty group are kept.",
         "consumers may be stopped for a week", lowest=1, fields=to("GroupConfig.offsets_retention_ms"), factor=60_000),
    _long("offsets.retention.check.interval.ms", 600_000, "How often a coordinator removes expired offsets.",
          "it is short compared with a retention of a week", lowest=1, fields=to("GroupConfig.offsets_retention_check_interval_ms")),
    _int("offsets.commit.timeout.ms", 5_000, "How long a write to __consumer_offsets waits for replication.",
         "the client then repeats the request", lowest=1, fields=to("GroupConfig.offsets_commit_timeout_ms")),
    _int("offsets.topic.num.partitions", 50, "Partitions of __consumer_offsets. It must not change once the topic exists.",
         "groups are spread over the brokers", lowest=1, fields=to("GroupConfig.offsets_topic_partitions")),
    _key("offsets.topic.replication.factor", ConfigType.SHORT, "3", "Replicas of __consumer_offsets. If the file does not set it, and "
         "the node is the only voter and the only broker when the topic is created, the topic has one replica.",
         "as in Apache Kafka, and a first try still works on one node", validator=at_least(1), importance=HIGH,
         fields=to("GroupConfig.offsets_topic_replication_factor")),
    _key("offsets.topic.compression.codec", ConfigType.INT, "0", "Codec of the batches in __consumer_offsets: 0 none, 1 gzip, 2 "
         "snappy, 3 lz4, 4 zstd.", "small batches gain little", validator=between(0, 4),
         fields=to("GroupConfig.offsets_topic_compression_codec")),
    _int("offsets.topic.segment.bytes", 100 << 20, "Segment size of __consumer_offsets.",
         "small segments are compacted and loaded in small steps", lowest=1, fields=to("GroupConfig.offsets_topic_segment_bytes")),
)  # fmt: skip

TRANSACTIONS = (
    _int("transaction.max.timeout.ms", 900_000, "The longest transaction timeout that a producer may ask for.",
         "readers of committed records wait for the end of a transaction", lowest=1, fields=to("TransactionConfig.max_timeout_ms")),
    _int("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, "How often the coordinator aborts transactions that "
         "have timed out.", "it is short compared with the usual timeout of a minute", lowest=1,
         fields=to("TransactionConfig.abort_interval_ms")),
    _int("transactional.id.expiration.ms", 604_800_000, "How long a transactional id that is not used is kept.",
         "producers may be stopped for a week", lowest=1, fields=to("TransactionConfig.expiration_ms")),
    _int("transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, "How often the coordinator removes expired "
         "transactional ids.", "it is short compared with an expiration of a week", lowest=1,
         fields=to("TransactionConfig.expiry_interval_ms")),
    _int("transaction.state.log.num.partitions", 50, "Partitions of __transaction_state. It must not change once the topic exists.",
         "transactional ids are spread over the brokers", lowest=1, fields=to("TransactionConfig.state_log_partitions")),
    _key("transaction.state.log.replication.factor", ConfigType.SHORT, "3", "Replicas of __transaction_state. If the file does not set "
         "it, and the node is the only voter and the only broker when the topic is created, the topic has one replica.",
         "as in Apache Kafka, and a first try still works on one node", validator=at_least(1), importance=HIGH,
         fields=to("TransactionConfig.state_log_replication_factor")),
    _int("transaction.state.log.min.isr", 2, "In-sync replicas of __transaction_state that an append needs. If the file does not set "
         "it, it is at most the number of replicas.", "the outcome of a transaction survives the loss of one node", lowest=1,
         fields=to("TransactionConfig.state_log_min_isr")),
    _int("transaction.state.log.segment.bytes", 100 << 20, "Segment size of __transaction_state.",
         "small segments are compacted and loaded in small steps", lowest=1, fields=to("TransactionConfig.state_log_segment_bytes")),
)  # fmt: skip

SHARE_STATES = (
    _int("group.share.session.timeout.ms", 45_000, "How long a member of a share group may send no heartbeat before it is removed.",
         "as for other groups", lowest=1, fields=to("ShareGroupConfig.session_timeout_ms")),
    _int("group.share.min.session.timeout.ms", 45_000, "The shortest session timeout that a share group may set.", "as in Apache Kafka",
         lowest=1, fields=to("ShareGroupConfig.min_session_timeout_ms")),
    _int("group.share.max.session.timeout.ms", 60_000, "The longest session timeout that a share group may set.", "as in Apache Kafka",
         lowest=1, fields=to("ShareGroupConfig.max_session_timeout_ms")),
    _int("group.share.heartbeat.interval.ms", 5_000, "How often members of share groups send heartbeats.",
         "nine heartbeats fit into a session", lowest=1, fields=to("ShareGroupConfig.heartbeat_interval_ms")),
    _int("group.share.min.heartbeat.interval.ms", 5_000, "The shortest heartbeat interval that a share group may set.",
         "as in Apache Kafka", lowest=1, fields=to("ShareGroupConfig.min_heartbeat_interval_ms")),
    _int("group.share.max.heartbeat.interval.ms", 15_000, "The longest heartbeat interval that a share group may set.",
         "as in Apache Kafka", lowest=1, fields=to("ShareGroupConfig.max_heartbeat_interval_ms")),
    _int("group.share.assignment.interval.ms", 1_000, "The shortest time between two assignments of a share group.",
         "members that start together are assigned together", lowest=0, update_mode=CLUSTER_WIDE,
         fields=to("ShareGroupConfig.assignment_interval_ms")),
    _int("group.share.min.assignment.interval.ms", 0, "The shortest time between assignments that a share group may set.",
         "as in Apache Kafka", lowest=0, fields=to("ShareGroupConfig.min_assignment_interval_ms")),
    _int("group.share.max.assignment.interval.ms", 15_000, "The longest time between assignments that a share group may set.",
         "as in Apache Kafka", lowest=0, fields=to("ShareGroupConfig.max_assignment_interval_ms")),
    _key("group.share.max.size", ConfigType.INT, "200", "Members that a share group may have.", "as in Apache Kafka",
         validator=between(1, 1_000), fields=to("ShareGroupConfig.max_size")),
    _int("group.share.initialize.retry.interval.ms", 30_000, "Time without a response after which the state of a share partition is "
         "initialized again.", "the coordinator had time to fail over", lowest=1, traits=Trait.INTERNAL,
         fields=to("ShareGroupConfig.initialize_retry_interval_ms")),
    _key("share.coordinator.snapshot.update.records.per.snapshot", ConfigType.INT, "500", "Update records of a share group's state "
         "that are written before the next snapshot record.", "a load then reads little", validator=between(0, 500),
         fields=to("ShareStateConfig.snapshot_update_records")),
    _int("share.coordinator.write.timeout.ms", 5_000, "How long a write to __share_group_state waits for replication.",
         "the leader then repeats the request", lowest=1, fields=to("ShareStateConfig.write_timeout_ms")),
    _int("share.coordinator.cold.partition.snapshot.interval.ms", 300_000, "How often a snapshot is written of states that do not "
         "change.", "without it their old records would keep the beginning of the log from being deleted", lowest=1,
         traits=Trait.INTERNAL, fields=to("ShareStateConfig.cold_snapshot_interval_ms")),
    _int("share.coordinator.state.topic.prune.interval.ms", 300_000, "How often records are deleted that the state of no share group "
         "needs.", "it is short compared with the time in which a segment fills", lowest=1, traits=Trait.INTERNAL,
         fields=to("ShareStateConfig.prune_interval_ms")),
    _int("share.coordinator.state.topic.num.partitions", 50, "Partitions of __share_group_state. It must not change once the topic "
         "exists.", "states are spread over the brokers", lowest=1, fields=to("ShareStateConfig.topic_partitions")),
    _key("share.coordinator.state.topic.replication.factor", ConfigType.SHORT, "3", "Replicas of __share_group_state. If the file does "
         "not set it, and the node is the only voter and the only broker when the topic is created, the topic has one replica.",
         "as in Apache Kafka, and a first try still works on one node", validator=at_least(1), importance=HIGH,
         fields=to("ShareStateConfig.topic_replication_factor")),
    _key("share.coordinator.state.topic.min.isr", ConfigType.SHORT, "2", "In-sync replicas of __share_group_state that an append "
         "needs. If the file does not set it, it is at most the number of replicas.", "a state survives the loss of one node",
         validator=at_least(1), fields=to("ShareStateConfig.topic_min_isr")),
    _int("share.coordinator.state.topic.segment.bytes", 100 << 20, "Segment size of __share_group_state.",
         "old records are deleted in whole segments", lowest=1, fields=to("ShareStateConfig.topic_segment_bytes")),
    _key("share.coordinator.state.topic.compression.codec", ConfigType.INT, "0", "Codec of the batches in __share_group_state: 0 none, "
         "1 gzip, 2 snappy, 3 lz4, 4 zstd.", "the records are short", validator=between(0, 4),
         fields=to("ShareStateConfig.topic_compression_codec")),
)  # fmt: skip

LIVENESS = (
    _int("broker.heartbeat.interval.ms", 2_000, "How often a broker sends a heartbeat to the controller.",
         "four heartbeats fit into a session", lowest=1, fields=to("NodeConfig.broker_heartbeat_interval_ms")),
    _bool("auto.leader.rebalance.enable", "true", "Whether leadership goes back to the preferred leaders.", "the load stays even"),
    _long("leader.imbalance.check.interval.seconds", 300, "How often leadership goes back to the preferred leaders.",
          "a restart is over by then", lowest=1, fields=to("NodeConfig.leader_balance_interval_ms"), factor=1_000),
    _long("unclean.leader.election.interval.ms", 300_000, "How often partitions without a leader get one by unclean election, if their "
          "topics allow it.", "a replica in sync may come back before", lowest=1, traits=Trait.INTERNAL,
          fields=to("NodeConfig.unclean_election_interval_ms")),
    _int("initial.broker.registration.timeout.ms", 60_000, "How long a broker that starts tries to register with a controller.",
         "long enough for a quorum that starts at the same time", fields=to("NodeConfig.initial_registration_timeout_ms")),
    _long("log.dir.failure.timeout.ms", 30_000, "A broker that could not report a failed log directory to the controller for this time "
          "stops.", "other brokers then lead its partitions", lowest=1, fields=to("NodeConfig.log_dir_failure_timeout_ms")),
    _int("broker.session.timeout.ms", 9_000, "A broker without heartbeats for this time is fenced.", "it allows for four lost heartbeats",
         lowest=1, fields=to("NodeConfig.broker_session_timeout_ms")),
    _int("node.death.grace.ms", 200, "How soon a dead node is noticed. A broker whose connection to the active controller ended is "
         "fenced once its host has refused connections for this time. A voter whose leader's host refuses connections stands for "
         "election within this time. With 0 or less only the timeouts count. Tidelog's own key.", "a process takes longer to restart, "
         "and its partitions wait meanwhile", traits=Trait.OWN,
         fields=to("QuorumConfig.death_grace_ms") + to("NodeConfig.death_grace_ms")),
    _long("replica.high.watermark.checkpoint.interval.ms", 5_000, "How often high watermarks are written to disk.",
          "after a start they are at most five seconds old", lowest=1, fields=to("NodeConfig.high_watermark_checkpoint_interval_ms")),
    _int("producer.id.expiration.check.interval.ms", 600_000, "How often the state of expired producers is removed.",
         "it is short compared with an expiration of a day", lowest=1, traits=Trait.INTERNAL,
         fields=to("LogManagerConfig.producer_id_expiration_check_interval_ms")),
    _int("producer.id.expiration.ms", 86_400_000, "How long the sequence numbers of an idle producer are kept.",
         "a day is longer than any retry", lowest=1, update_mode=CLUSTER_WIDE,
         fields=to("LogManagerConfig.producer_id_expiration_ms") + to("DynamicBrokerConfig.producer_id_expiration_ms")),
)  # fmt: skip

REPLICATION = (
    _int("num.replica.fetchers", 1, "Connections over which partitions are fetched from each leader.", "one connection fills a network",
         lowest=1, update_mode=CLUSTER_WIDE, traits=Trait.THREADS, fields=to("ReplicationConfig.fetcher_count")),
    _int("replica.fetch.backoff.ms", 1_000, "Pause before a partition is fetched again after its leader refused a fetch or could not "
         "be reached.", "new metadata ends the pause at once", lowest=0, fields=to("ReplicationConfig.backoff_ms")),
    _int("replica.fetch.max.bytes", 1 << 20, "Bytes of one partition in a response to a follower.", "every partition gets its turn",
         lowest=0, fields=to("ReplicationConfig.partition_max_bytes")),
    _int("replica.fetch.min.bytes", 1, "Bytes that a leader waits for before it responds to a follower.", "each record is sent at once",
         fields=to("ReplicationConfig.min_bytes")),
    _int("replica.fetch.response.max.bytes", 10 << 20, "Bytes of a response to a follower.", "it bounds the follower's memory", lowest=0,
         fields=to("ReplicationConfig.response_max_bytes")),
    _int("replica.fetch.wait.max.ms", 500, "How long a leader holds a follower's fetch that finds no records.",
         "an idle follower fetches twice a second", fields=to("ReplicationConfig.max_wait_ms")),
    _long("replica.lag.time.max.ms", 30_000, "A follower that has not caught up for this time leaves the in-sync replicas.",
          "a short pause of the follower or of the network is not a failure", fields=to("ReplicationConfig.lag_max_ms")),
    _text("replica.selector.class", None, "The class that chooses the replica that a consumer reads from. RackAwareReplicaSelector "
          "chooses a replica in the consumer's rack (KIP-392).", "consumers read from the leader"),
)  # fmt: skip

VERIFICATION = (
    _bool("transaction.partition.verification.enable", "true", "Whether a partition asks the transaction coordinator before the first "
          "batch of a transaction (KIP-890).", "a batch that arrives after its transaction ended would block readers of committed "
          "records for ever", update_mode=CLUSTER_WIDE,
          fields=to("VerificationConfig.is_enabled") + to("DynamicBrokerConfig.is_verification_enabled")),
    _int("add.partitions.to.txn.retry.backoff.ms", 20, "Pause before a partition asks again to join a transaction, while the previous "
         "transaction of the producer ends.", "it is short compared with the time that markers take", lowest=1,
         fields=to("VerificationConfig.retry_backoff_ms")),
    _int("add.partitions.to.txn.retry.backoff.max.ms", 100, "How long a partition asks again to join a transaction, and how long a "
         "producer's request waits for the previous transaction to end. After that the producer repeats the request.",
         "markers take less time", lowest=0, fields=to("TransactionConfig.end_patience_ms") + to("VerificationConfig.retry_max_ms")),
)  # fmt: skip

SERVER_KEYS: Mapping[str, ConfigKey] = keyed(
    (
        *IDENTITY,
        *LISTENERS,
        *QUORUM_KEYS,
        *DIRECTORIES,
        *NETWORK,
        *METRICS,
        *TOPICS,
        *GROUPS,
        *TRANSACTIONS,
        *SHARE_STATES,
        *LIVENESS,
        *REPLICATION,
        *VERIFICATION,
        *SASL_KEYS,
        *TLS_KEYS,
        *AUTHORIZER_KEYS,
        *SCHEMA_REGISTRY_KEYS,
        *BROKER_LOG_KEYS,
        *ACCEPTED_KEYS,
    )
)
