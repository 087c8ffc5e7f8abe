"""The keys of Kafka's server properties that have an effect here.

They are the node's identity, listeners, bounds, groups and topics. This module declares names,
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
    """Accept lists of directories."""
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
    _key("node.id", ConfigType.INT, None, "This node's number in the cluster.", "none, the operator names it",
         validator=at_least(0), importance=HIGH),
    _key("broker.id", ConfigType.INT, "-1", "Older name of node.id; the two must agree.", "node.id is used", importance=HIGH),
    _list("process.roles", "broker,controller", "What this node is: broker, controller, or both.", "one process is a whole cluster",
          validator=list_of("broker", "controller", is_empty_allowed=False), traits=Trait.DEMANDED,
          fields=to("NodeConfig.is_broker", has("broker")) + to("NodeConfig.is_controller", has("controller"))),
    _text("broker.rack", None, "Where the node stands, for placing replicas and for reading from a near one.", "nowhere in particular",
          fields=to("NodeConfig.rack", text_or_none)),
    _text("cluster.id", None, "Cluster that a fresh directory is formatted for, as written by kafka-storage random-uuid.",
          "a new random id", traits=Trait.OWN, fields=to("NodeConfig.cluster_id", text_or_none)),
)  # fmt: skip

LISTENERS = (
    _list("listeners", DEFAULT_LISTENERS, "Where clients connect: NAME://host:port, an empty host is every address.",
          "loopback only, other machines must be asked for", validator=some_items, update_mode=PER_BROKER,
          traits=Trait.ACCESS | Trait.RESTART),
    _list("advertised.listeners", None, "What clients are told to connect to, by listener name.", "the same as listeners",
          validator=some_items),
    _text("listener.security.protocol.map", DEFAULT_LISTENER_PROTOCOLS, "Security protocol of each listener name.",
          "a listener that is named like a protocol speaks it; CONTROLLER is PLAINTEXT", update_mode=PER_BROKER,
          traits=Trait.ACCESS | Trait.RESTART),
    _text("inter.broker.listener.name", None, "Listener over which nodes talk to each other.",
          "the one whose protocol is security.inter.broker.protocol"),
    _text("security.inter.broker.protocol", "PLAINTEXT", "Security protocol of the listener between nodes, where none is named.",
          "nodes trust their network", validator=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    _list("controller.listener.names", "CONTROLLER", "Names of the controllers' listeners; controllers talk on the first one.",
          "the name in Kafka's own samples", validator=some_items, traits=Trait.DEMANDED),
)  # fmt: skip

DIRECTORIES = (
    _list("cordoned.log.dirs", "", "Directories of log.dirs, or *, that take no new partitions.", "all take some",
          validator=no_empty_item, update_mode=PER_BROKER),
    _list("log.dirs", None, "Directories for partitions.", "log.dir decides", validator=_directories),
    _list("log.dir", ".tidelog/log", "Directory for partitions, where log.dirs is not set.", "beside everything else that tidelog keeps",
          validator=_directories),
    _text("metadata.log.dir", None, "Directory for the metadata log.", "the first of log.dirs"),
    _long("metadata.log.max.record.bytes.between.snapshots", 20 << 20, "Bytes of metadata records after which a snapshot is written.",
          "a start then reads at most 20 MiB of records", lowest=1, fields=to("MetadataLogConfig.max_record_bytes_between_snapshots")),
    _long("metadata.log.max.snapshot.interval.ms", 3_600_000,
          "Time after which a snapshot of the metadata is written if there are new records; 0 is never.",
          "a start then reads at most an hour's records", lowest=0, fields=to("MetadataLogConfig.max_snapshot_interval_ms")),
    _int("metadata.log.segment.bytes", 1 << 30, "Size at which the metadata log's segment is rolled.", "few files", lowest=8 << 20,
         fields=to("MetadataLogConfig.segment_bytes")),
    _long("metadata.log.segment.ms", 604_800_000, "Age at which the metadata log's segment is rolled.", "a week",
          fields=to("MetadataLogConfig.segment_ms")),
)  # fmt: skip

NETWORK = (
    _int("socket.request.max.bytes", 100 << 20, "The largest request, in bytes.", "far above any sane batch", lowest=1,
         fields=to("NetworkLimits.max_frame_bytes")),
    _int("socket.send.buffer.bytes", -1, "Send buffer of a connection; -1 is the system's default.",
         "the system tunes it by itself; a fixed 100 KiB costs a third to two thirds of the throughput on a fast network", lowest=-1,
         fields=to("NetworkLimits.socket_send_buffer_bytes")),
    _int("socket.receive.buffer.bytes", -1, "Receive buffer of a connection; -1 is the system's default.",
         "the system tunes it by itself; a fixed 100 KiB costs a third to two thirds of the throughput on a fast network", lowest=-1,
         fields=to("NetworkLimits.socket_receive_buffer_bytes")),
    _int("socket.listen.backlog.size", 50, "Connections that may wait to be accepted.", "accepting is quick", lowest=1,
         fields=to("NetworkLimits.backlog")),
    _int("max.connection.creation.rate", MAX_INT, "Connections that are accepted in a second; more wait in the system's queue.",
         "no limit", lowest=0, update_mode=CLUSTER_WIDE, traits=Trait.LISTENER | Trait.LISTENER_LIMIT | Trait.POSITIVE,
         fields=to("ConnectionLimits.max_rate")),
    _int("max.connections", 10_000, "Connections of the node, all listeners together; fewer where ulimit -n asks for that.",
         "lower than Kafka's 2147483647: a bound that exists", lowest=0, update_mode=CLUSTER_WIDE,
         traits=Trait.LISTENER | Trait.LISTENER_LIMIT | Trait.POSITIVE, fields=to("ConnectionLimits.max_count")),
    _int("max.connections.per.ip", 10_000, "Connections from one address.", "lower than Kafka's 2147483647: a bound that exists", lowest=0,
         update_mode=CLUSTER_WIDE, fields=to("ConnectionLimits.max_count_per_host")),
    _key("max.connections.per.ip.overrides", ConfigType.STRING, "", "Connections from particular addresses: host:count,host:count.",
         "all alike", validator=validate_host_limits, update_mode=CLUSTER_WIDE,
         fields=to("ConnectionLimits.max_count_of_host", host_limits)),
    _long("connections.max.idle.ms", 600_000, "A connection without a request for so long is closed; negative is never.",
          "longer than clients keep theirs", fields=to("NetworkLimits.idle_timeout_ms", _idle_timeout_ms)),
    _long("queued.max.request.bytes", -1, "Bytes of requests that are being handled before reading stops; -1 is 512 MiB.",
          "a node must not be filled up from outside", fields=to("NetworkLimits.max_request_bytes_in_flight", _bytes_in_flight)),
    _int("num.io.threads", 4, "Threads for what waits for the disk: syncs, cold reads, removals.",
         "lower than Kafka's 8: requests themselves are handled without threads", lowest=1, update_mode=CLUSTER_WIDE, traits=Trait.THREADS,
         fields=to("NodeConfig.disk_pool_threads") + to("DynamicBrokerConfig.disk_pool_threads")),
    _int("telemetry.max.bytes", 1 << 20, "The most that a client's metrics may have in one push, compressed and not.", "as in Apache Kafka",
         lowest=1, fields=to("NodeConfig.telemetry_max_bytes")),
    _int("quota.window.num", 11, "Windows over which the use of a quota is measured, of bytes, time and connections.", "as in Apache Kafka",
         lowest=1, fields=to("QuotaWindows.count")),
    _int("quota.window.size.seconds", 1, "How long a window is over which the use of a quota is measured.", "as in Apache Kafka", lowest=1,
         fields=to("QuotaWindows.size_ms"), factor=1_000),
    _int("controller.quota.window.num", 11, "Windows for which a quota of partitions created and deleted may be used up at once.",
         "as in Apache Kafka", lowest=1),
    _int("controller.quota.window.size.seconds", 1, "How long a window of controller.quota.window.num is.", "as in Apache Kafka", lowest=1),
    _int("fetch.max.bytes", 55 << 20, "The largest response to a fetch, in bytes.", "fifty-five mebibytes, above what consumers ask for",
         lowest=1024, fields=to("FetchConfig.max_bytes")),
    _int("max.incremental.fetch.session.cache.slots", 1000, "Fetch sessions that are remembered.", "a thousand readers", lowest=0,
         fields=to("FetchConfig.max_session_cache_slots")),
    _int("max.request.partition.size.limit", 2000, "Partitions in one response of DescribeTopicPartitions.", "bounds one response",
         lowest=1, fields=to("NodeConfig.max_partitions_described")),
)  # fmt: skip

METRICS = (
    _text("metrics.listener", "", "Where Prometheus reads this node's metrics, host:port; the page is /metrics, without encryption or "
          "login. Empty is nowhere.", "a port is opened only where one is asked for; tidelog up asks for 127.0.0.1:9404", traits=Trait.OWN),
)  # fmt: skip

TOPICS = (
    _int("num.partitions", 1, "Partitions of a topic whose creator names none.", "order over the whole topic", lowest=1,
         fields=to("TopicDefaults.partition_count")),
    _int("default.replication.factor", 1, "Replicas of a topic whose creator names none.", "fits every cluster", lowest=1,
         fields=to("TopicDefaults.replication_factor")),
    _bool("auto.create.topics.enable", "true", "Whether asking for a topic that does not exist creates it.", "Kafka's; a first try works",
          fields=to("TopicDefaults.is_auto_created")),
    _text("auto.create.topics.declarations", "", "A JSON file of declared topics: one of them that is created because a client asks for it "
          "gets the partitions, replicas and configs of its declaration. Empty is none.", "tidelog up declares what its project declares",
          traits=Trait.OWN, fields=to("TopicDefaults.declarations_path", path_or_none)),
    _bool("delete.topic.enable", "true", "Whether topics can be deleted.", "who may create may delete",
          fields=to("TopicDefaults.is_deletion_enabled")),
)  # fmt: skip

GROUPS = (
    _int("group.min.session.timeout.ms", 6_000, "The shortest session timeout that a member may ask for.", "heartbeats stay affordable",
         fields=to("GroupConfig.min_session_timeout_ms")),
    _int("group.max.session.timeout.ms", 1_800_000, "The longest session timeout that a member may ask for.", "half an hour",
         fields=to("GroupConfig.max_session_timeout_ms")),
    _int("group.initial.rebalance.delay.ms", 3_000, "How long an empty group waits for more members before its first assignment.",
         "services start together", lowest=0, fields=to("GroupConfig.initial_rebalance_delay_ms")),
    _int("group.max.size", MAX_INT, "Members of one group.", "no limit", lowest=1, fields=to("GroupConfig.max_size")),
    _key("group.coordinator.rebalance.protocols", ConfigType.LIST, "classic,consumer,streams", "The protocols that groups may use. The "
         "classic one and share groups are always there.", "a client asks for the newer protocol",
         validator=list_of("consumer", "classic", "share", "streams", is_empty_allowed=False),
         fields=to("ConsumerGroupConfig.is_enabled", has("consumer")) + to("StreamsGroupConfig.is_enabled", has("streams"))),
    _int("group.consumer.session.timeout.ms", 45_000, "How long a member of the consumer protocol may be silent.",
         "a pause of the garbage collector is no failure", lowest=1, fields=to("ConsumerGroupConfig.session_timeout_ms")),
    _int("group.consumer.min.session.timeout.ms", 45_000, "The shortest such time that a group may have.", "Kafka's", lowest=1,
         fields=to("ConsumerGroupConfig.min_session_timeout_ms")),
    _int("group.consumer.max.session.timeout.ms", 60_000, "The longest such time that a group may have.", "Kafka's", lowest=1,
         fields=to("ConsumerGroupConfig.max_session_timeout_ms")),
    _int("group.consumer.heartbeat.interval.ms", 5_000, "How often members of that protocol report.", "nine in a session", lowest=1,
         fields=to("ConsumerGroupConfig.heartbeat_interval_ms")),
    _int("group.consumer.min.heartbeat.interval.ms", 5_000, "The shortest such interval that a group may have.", "Kafka's", lowest=1,
         fields=to("ConsumerGroupConfig.min_heartbeat_interval_ms")),
    _int("group.consumer.max.heartbeat.interval.ms", 15_000, "The longest such interval that a group may have.", "Kafka's", lowest=1,
         fields=to("ConsumerGroupConfig.max_heartbeat_interval_ms")),
    _int("group.consumer.assignment.interval.ms", 1_000, "How long after one division of partitions there is no other.",
         "many members that start together are assigned once", lowest=0, update_mode=CLUSTER_WIDE,
         fields=to("ConsumerGroupConfig.assignment_interval_ms")),
    _int("group.consumer.min.assignment.interval.ms", 0, "The shortest such time that a group may have.", "Kafka's", lowest=0,
         fields=to("ConsumerGroupConfig.min_assignment_interval_ms")),
    _int("group.consumer.max.assignment.interval.ms", 15_000, "The longest such time that a group may have.", "Kafka's", lowest=0,
         fields=to("ConsumerGroupConfig.max_assignment_interval_ms")),
    _int("group.consumer.max.size", MAX_INT, "Members of one group of the consumer protocol.", "no limit", lowest=1,
         fields=to("ConsumerGroupConfig.max_size")),
    _key("group.consumer.assignors", ConfigType.LIST, "uniform,range", "What divides the partitions of a group, the default first.",
         "few partitions move", validator=list_of("uniform", "range", is_empty_allowed=False), fields=to("ConsumerGroupConfig.assignors")),
    _text("group.consumer.migration.policy", "bidirectional", "Which groups may change their protocol while they have members: upgrade is "
          "from classic to consumer, downgrade the way back, bidirectional both, disabled none.", "a service changes over member by member",
          validator=_migration_policy, fields=to("ConsumerGroupConfig.migration_policy", str.lower)),
    _int("group.consumer.regex.refresh.interval.ms", 600_000, "After what time regular expressions are matched anew at the latest.",
         "new topics are matched at once", lowest=10_000, traits=Trait.INTERNAL,
         fields=to("ConsumerGroupConfig.regex_refresh_interval_ms")),
    _int("group.streams.session.timeout.ms", 45_000, "How long a member of a streams group may be silent.", "as of other groups", lowest=1,
         fields=to("StreamsGroupConfig.session_timeout_ms")),
    _int("group.streams.min.session.timeout.ms", 45_000, "The shortest such time that a group may have.", "Kafka's", lowest=1,
         fields=to("StreamsGroupConfig.min_session_timeout_ms")),
    _int("group.streams.max.session.timeout.ms", 60_000, "The longest such time that a group may have.", "Kafka's", lowest=1,
         fields=to("StreamsGroupConfig.max_session_timeout_ms")),
    _int("group.streams.heartbeat.interval.ms", 5_000, "How often members of streams groups report.", "nine in a session", lowest=1,
         fields=to("StreamsGroupConfig.heartbeat_interval_ms")),
    _int("group.streams.min.heartbeat.interval.ms", 5_000, "The shortest such interval that a group may have.", "Kafka's", lowest=1,
         fields=to("StreamsGroupConfig.min_heartbeat_interval_ms")),
    _int("group.streams.max.heartbeat.interval.ms", 15_000, "The longest such interval that a group may have.", "Kafka's", lowest=1,
         fields=to("StreamsGroupConfig.max_heartbeat_interval_ms")),
    _int("group.streams.assignment.interval.ms", 1_000, "How long after one division of tasks there is no other.",
         "many members that start together are assigned once", lowest=0, update_mode=CLUSTER_WIDE,
         fields=to("StreamsGroupConfig.assignment_interval_ms")),
    _int("group.streams.min.assignment.interval.ms", 0, "The shortest such time that a group may have.", "Kafka's", lowest=0,
         fields=to("StreamsGroupConfig.min_assignment_interval_ms")),
    _int("group.streams.max.assignment.interval.ms", 15_000, "The longest such time that a group may have.", "Kafka's", lowest=0,
         fields=to("StreamsGroupConfig.max_assignment_interval_ms")),
    _int("group.streams.initial.rebalance.delay.ms", 3_000, "How long an empty streams group waits for more members before its first "
         "assignment.", "instances start together", lowest=0, fields=to("StreamsGroupConfig.initial_rebalance_delay_ms")),
    _int("group.streams.num.standby.replicas", 0, "How many more processes keep a copy of the state of each task of a streams group.",
         "changelogs restore it", lowest=0, fields=to("StreamsGroupConfig.standby_count")),
    _int("group.streams.max.standby.replicas", 2, "The largest such number that a group may have.", "Kafka's", lowest=0,
         fields=to("StreamsGroupConfig.max_standby_count")),
    _int("group.streams.max.size", MAX_INT, "Members of one streams group.", "no limit", lowest=1,
         fields=to("StreamsGroupConfig.max_size")),
    _int("group.share.delivery.count.limit", 5, "How often a record is delivered to a share group before it is given up.",
         "a failure that passes does pass", lowest=2, highest=10, fields=to("ShareFetchConfig.delivery_count_limit")),
    _int("group.share.min.delivery.count.limit", 2, "The lowest such count that a group may have.", "Kafka's", lowest=2, highest=5,
         fields=to("ShareFetchConfig.min_delivery_count_limit")),
    _int("group.share.max.delivery.count.limit", 10, "The highest such count that a group may have.", "Kafka's", lowest=5, highest=25,
         fields=to("ShareFetchConfig.max_delivery_count_limit")),
    _int("group.share.record.lock.duration.ms", 30_000, "How long a member of a share group holds a record that it does not acknowledge.",
         "a pause of the garbage collector is no failure", lowest=1_000, highest=3_600_000,
         fields=to("ShareFetchConfig.record_lock_duration_ms")),
    _int("group.share.min.record.lock.duration.ms", 15_000, "The shortest such time that a group may have.", "Kafka's",
         lowest=1_000, highest=30_000, fields=to("ShareFetchConfig.min_record_lock_duration_ms")),
    _int("group.share.max.record.lock.duration.ms", 60_000, "The longest such time that a group may have.", "Kafka's",
         lowest=30_000, highest=3_600_000, fields=to("ShareFetchConfig.max_record_lock_duration_ms")),
    _int("group.share.partition.max.record.locks", 2_000, "How many records of one partition a share group may have in flight.",
         "bounds what a leader remembers", lowest=100, highest=10_000, fields=to("ShareFetchConfig.max_record_locks")),
    _int("group.share.min.partition.max.record.locks", 100, "The least such number that a group may have.", "Kafka's",
         lowest=100, highest=2_000, fields=to("ShareFetchConfig.min_max_record_locks")),
    _int("group.share.max.partition.max.record.locks", 4_000, "The largest such number that a group may have.", "Kafka's",
         lowest=2_000, highest=10_000, fields=to("ShareFetchConfig.max_max_record_locks")),
    _int("group.share.max.share.sessions", 2_000, "How many members of share groups a broker serves at a time.",
         "bounds what a leader remembers", lowest=1, fields=to("ShareFetchConfig.max_session_count")),
    _int("offset.metadata.max.bytes", 4_096, "The longest text beside a committed offset.", "a note, no storage", lowest=0,
         fields=to("GroupConfig.offset_metadata_max_bytes")),
    _int("offsets.retention.minutes", 10_080, "How long the offsets of an empty group are kept.", "a week off", lowest=1,
         fields=to("GroupConfig.offsets_retention_ms"), factor=60_000),
    _long("offsets.retention.check.interval.ms", 600_000, "How often expired offsets are looked for.", "coarse beside a week", lowest=1,
          fields=to("GroupConfig.offsets_retention_check_interval_ms")),
    _int("offsets.commit.timeout.ms", 5_000, "How long a group's change waits until it is on enough replicas.",
         "then the client asks again", lowest=1, fields=to("GroupConfig.offsets_commit_timeout_ms")),
    _int("offsets.topic.num.partitions", 50, "Partitions of the topic of groups; must not change once it exists.",
         "spreads groups over a cluster", lowest=1, fields=to("GroupConfig.offsets_topic_partitions")),
    _key("offsets.topic.replication.factor", ConfigType.SHORT, "3", "Replicas of the topic of groups. Where the file says nothing, a "
         "node that is the only voter and the only broker when the topic is made has one.", "Kafka's; a first try works on one node",
         validator=at_least(1), importance=HIGH, fields=to("GroupConfig.offsets_topic_replication_factor")),
    _key("offsets.topic.compression.codec", ConfigType.INT, "0", "Codec of the batches that groups write: 0 none, 1 gzip, 2 snappy, "
         "3 lz4, 4 zstd.", "small batches gain little", validator=between(0, 4), fields=to("GroupConfig.offsets_topic_compression_codec")),
    _int("offsets.topic.segment.bytes", 100 << 20, "Segment size of the topic of groups.", "compacted and loaded in small steps", lowest=1,
         fields=to("GroupConfig.offsets_topic_segment_bytes")),
)  # fmt: skip

TRANSACTIONS = (
    _int("transaction.max.timeout.ms", 900_000, "The longest time that a producer may ask for a transaction.", "readers wait for its end",
         lowest=1, fields=to("TransactionConfig.max_timeout_ms")),
    _int("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, "How often transactions that take too long are looked for.",
         "coarse beside a minute", lowest=1, fields=to("TransactionConfig.abort_interval_ms")),
    _int("transactional.id.expiration.ms", 604_800_000, "How long a transactional id is kept that no producer uses.", "a week off",
         lowest=1, fields=to("TransactionConfig.expiration_ms")),
    _int("transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, "How often ids that no producer uses are looked for.",
         "coarse beside a week", lowest=1, fields=to("TransactionConfig.expiry_interval_ms")),
    _int("transaction.state.log.num.partitions", 50, "Partitions of the topic of transactions; must not change once it exists.",
         "spreads ids over a cluster", lowest=1, fields=to("TransactionConfig.state_log_partitions")),
    _key("transaction.state.log.replication.factor", ConfigType.SHORT, "3", "Replicas of the topic of transactions. Where the file says "
         "nothing, a node that is the only voter and the only broker when the topic is made has one.",
         "Kafka's; a first try works on one node", validator=at_least(1), importance=HIGH,
         fields=to("TransactionConfig.state_log_replication_factor")),
    _int("transaction.state.log.min.isr", 2, "How many replicas of the topic of transactions have to be in sync for an append. Where the "
         "file says nothing, it is no more than the topic has.", "no outcome is lost with one node", lowest=1,
         fields=to("TransactionConfig.state_log_min_isr")),
    _int("transaction.state.log.segment.bytes", 100 << 20, "Segment size of the topic of transactions.",
         "compacted and loaded in small steps", lowest=1, fields=to("TransactionConfig.state_log_segment_bytes")),
)  # fmt: skip

SHARE_STATES = (
    _int("group.share.session.timeout.ms", 45_000, "How long a member of a share group may be silent.", "as of other groups", lowest=1,
         fields=to("ShareGroupConfig.session_timeout_ms")),
    _int("group.share.min.session.timeout.ms", 45_000, "The shortest such time that a group may have.", "Kafka's", lowest=1,
         fields=to("ShareGroupConfig.min_session_timeout_ms")),
    _int("group.share.max.session.timeout.ms", 60_000, "The longest such time that a group may have.", "Kafka's", lowest=1,
         fields=to("ShareGroupConfig.max_session_timeout_ms")),
    _int("group.share.heartbeat.interval.ms", 5_000, "How often members of share groups report.", "nine in a session", lowest=1,
         fields=to("ShareGroupConfig.heartbeat_interval_ms")),
    _int("group.share.min.heartbeat.interval.ms", 5_000, "The shortest such interval that a group may have.", "Kafka's", lowest=1,
         fields=to("ShareGroupConfig.min_heartbeat_interval_ms")),
    _int("group.share.max.heartbeat.interval.ms", 15_000, "The longest such interval that a group may have.", "Kafka's", lowest=1,
         fields=to("ShareGroupConfig.max_heartbeat_interval_ms")),
    _int("group.share.assignment.interval.ms", 1_000, "How long after one division of partitions there is no other.",
         "many members that start together are assigned once", lowest=0, update_mode=CLUSTER_WIDE,
         fields=to("ShareGroupConfig.assignment_interval_ms")),
    _int("group.share.min.assignment.interval.ms", 0, "The shortest such time that a group may have.", "Kafka's", lowest=0,
         fields=to("ShareGroupConfig.min_assignment_interval_ms")),
    _int("group.share.max.assignment.interval.ms", 15_000, "The longest such time that a group may have.", "Kafka's", lowest=0,
         fields=to("ShareGroupConfig.max_assignment_interval_ms")),
    _key("group.share.max.size", ConfigType.INT, "200", "Members of one share group.", "Kafka's", validator=between(1, 1_000),
         fields=to("ShareGroupConfig.max_size")),
    _int("group.share.initialize.retry.interval.ms", 30_000, "After what time a partition of which nothing was heard is initialized again.",
         "its coordinator had time to fail over", lowest=1, traits=Trait.INTERNAL,
         fields=to("ShareGroupConfig.initialize_retry_interval_ms")),
    _key("share.coordinator.snapshot.update.records.per.snapshot", ConfigType.INT, "500", "How many updates of a share group's state are "
         "stored until it is stored as a whole.", "a load reads little", validator=between(0, 500),
         fields=to("ShareStateConfig.snapshot_update_records")),
    _int("share.coordinator.write.timeout.ms", 5_000, "How long a change of a share group's state waits until it is on enough replicas.",
         "then the leader asks again", lowest=1, fields=to("ShareStateConfig.write_timeout_ms")),
    _int("share.coordinator.cold.partition.snapshot.interval.ms", 300_000, "How often states that do not change are stored anew.",
         "they would hold on to the beginning of the log", lowest=1, traits=Trait.INTERNAL,
         fields=to("ShareStateConfig.cold_snapshot_interval_ms")),
    _int("share.coordinator.state.topic.prune.interval.ms", 300_000, "How often records are deleted that no state of a share group needs.",
         "coarse beside a segment", lowest=1, traits=Trait.INTERNAL, fields=to("ShareStateConfig.prune_interval_ms")),
    _int("share.coordinator.state.topic.num.partitions", 50, "Partitions of the topic of share groups' states; must not change once it "
         "exists.", "spreads states over a cluster", lowest=1, fields=to("ShareStateConfig.topic_partitions")),
    _key("share.coordinator.state.topic.replication.factor", ConfigType.SHORT, "3", "Replicas of the topic of share groups' states. Where "
         "the file says nothing, a node that is the only voter and the only broker when the topic is made has one.",
         "Kafka's; a first try works on one node", validator=at_least(1), importance=HIGH,
         fields=to("ShareStateConfig.topic_replication_factor")),
    _key("share.coordinator.state.topic.min.isr", ConfigType.SHORT, "2", "How many replicas of it have to be in sync for an append. "
         "Where the file says nothing, it is no more than the topic has.", "nothing is lost with one node", validator=at_least(1),
         fields=to("ShareStateConfig.topic_min_isr")),
    _int("share.coordinator.state.topic.segment.bytes", 100 << 20, "Segment size of that topic.", "deleted segment by segment", lowest=1,
         fields=to("ShareStateConfig.topic_segment_bytes")),
    _key("share.coordinator.state.topic.compression.codec", ConfigType.INT, "0", "How that topic is compressed: 0 not, 1 gzip, 2 snappy, "
         "3 lz4, 4 zstd.", "its records are short", validator=between(0, 4), fields=to("ShareStateConfig.topic_compression_codec")),
)  # fmt: skip

LIVENESS = (
    _int("broker.heartbeat.interval.ms", 2_000, "How often a broker tells the controller that it is there.", "four in a session", lowest=1,
         fields=to("NodeConfig.broker_heartbeat_interval_ms")),
    _bool("auto.leader.rebalance.enable", "true", "Whether partitions go back to their preferred leaders.", "load stays even"),
    _long("leader.imbalance.check.interval.seconds", 300, "How often they do.", "a restart is over by then", lowest=1,
          fields=to("NodeConfig.leader_balance_interval_ms"), factor=1_000),
    _long("unclean.leader.election.interval.ms", 300_000,
          "How often partitions without a leader get one uncleanly, where topics allow it.", "a replica may come back", lowest=1,
          traits=Trait.INTERNAL, fields=to("NodeConfig.unclean_election_interval_ms")),
    _int("initial.broker.registration.timeout.ms", 60_000, "How long a broker that starts looks for a controller that takes it.",
         "long enough for a quorum that starts, too", fields=to("NodeConfig.initial_registration_timeout_ms")),
    _long("log.dir.failure.timeout.ms", 30_000, "A broker that cannot tell for so long that a log directory has failed ends.",
          "its partitions are led elsewhere then", lowest=1, fields=to("NodeConfig.log_dir_failure_timeout_ms")),
    _int("broker.session.timeout.ms", 9_000, "A broker that said nothing for so long is fenced.", "four heartbeats lost", lowest=1,
         fields=to("NodeConfig.broker_session_timeout_ms")),
    _int("node.death.grace.ms", 200, "A broker whose connection to the active controller has ended is fenced once it has refused new ones "
         "for so long; a voter whose leader refuses connections stands for election within this time. 0 or less: only silence tells. "
         "Tidelog's own key.", "a process that is gone comes back in no less time, and its partitions wait", traits=Trait.OWN,
         fields=to("QuorumConfig.death_grace_ms") + to("NodeConfig.death_grace_ms")),
    _long("replica.high.watermark.checkpoint.interval.ms", 5_000, "How often high watermarks are written.",
          "a start serves from at most five seconds back", lowest=1, fields=to("NodeConfig.high_watermark_checkpoint_interval_ms")),
    _int("producer.id.expiration.check.interval.ms", 600_000, "How often expired producers are looked for.", "coarse beside a day",
         lowest=1, traits=Trait.INTERNAL, fields=to("LogManagerConfig.producer_id_expiration_check_interval_ms")),
    _int("producer.id.expiration.ms", 86_400_000, "How long an idle producer's sequence numbers are remembered.", "a day", lowest=1,
         update_mode=CLUSTER_WIDE,
         fields=to("LogManagerConfig.producer_id_expiration_ms") + to("DynamicBrokerConfig.producer_id_expiration_ms")),
)  # fmt: skip

REPLICATION = (
    _int("num.replica.fetchers", 1, "Connections over which partitions are fetched from each leader.", "one fills a network", lowest=1,
         update_mode=CLUSTER_WIDE, traits=Trait.THREADS, fields=to("ReplicationConfig.fetcher_count")),
    _int("replica.fetch.backoff.ms", 1_000, "How long a partition is left alone after its leader refused a fetch, or could not be reached.",
         "new metadata ends it at once", lowest=0, fields=to("ReplicationConfig.backoff_ms")),
    _int("replica.fetch.max.bytes", 1 << 20, "Bytes of one partition in a response to a follower.", "all partitions get their turn",
         lowest=0, fields=to("ReplicationConfig.partition_max_bytes")),
    _int("replica.fetch.min.bytes", 1, "Bytes that a leader waits for before it responds to a follower.", "each record at once",
         fields=to("ReplicationConfig.min_bytes")),
    _int("replica.fetch.response.max.bytes", 10 << 20, "Bytes of a response to a follower.", "bounds what a follower holds", lowest=0,
         fields=to("ReplicationConfig.response_max_bytes")),
    _int("replica.fetch.wait.max.ms", 500, "How long a leader keeps a follower's fetch that finds nothing.",
         "a follower at rest fetches twice a second", fields=to("ReplicationConfig.max_wait_ms")),
    _long("replica.lag.time.max.ms", 30_000, "A follower that was not caught up for so long leaves the in-sync replicas.",
          "a pause of the follower or of its network is not yet a loss", fields=to("ReplicationConfig.lag_max_ms")),
    _text("replica.selector.class", None, "RackAwareReplicaSelector sends consumers to a replica in their rack (KIP-392).",
          "consumers read from the leader"),
)  # fmt: skip

VERIFICATION = (
    _bool("transaction.partition.verification.enable", "true",
          "Whether a partition asks the transaction coordinator before the first batch of a transaction (KIP-890).",
          "a batch that comes late would hold readers of committed records up for ever", update_mode=CLUSTER_WIDE,
          fields=to("VerificationConfig.is_enabled") + to("DynamicBrokerConfig.is_verification_enabled")),
    _int("add.partitions.to.txn.retry.backoff.ms", 20,
         "The pause before a partition that adds itself to a transaction asks again, while the one before ends.",
         "short beside the markers' way", lowest=1, fields=to("VerificationConfig.retry_backoff_ms")),
    _int("add.partitions.to.txn.retry.backoff.max.ms", 100,
         "For how long such a partition asks again, or a producer's request waits for that end; then the producer asks again.",
         "markers take less", lowest=0, fields=to("TransactionConfig.end_patience_ms") + to("VerificationConfig.retry_max_ms")),
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
