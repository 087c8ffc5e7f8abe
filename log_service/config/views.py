"""The small frozen views that code receives instead of keys.

A view knows no key names and reads nothing. A field that has the value of a key is marked with
``KEY``, and the declaration of the key names the field and has the default. ``config.server``,
``config.dynamic_broker_config`` and ``config.topic`` build views from keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from zlib import crc32

from log_service.common.secrets import SecretText
from log_service.config.client_security import LoginConfig
from log_service.config.schema_registry import SchemaRegistryConfig
from log_service.config.security import PLAINTEXT_SECURITY, ListenerSecurity
from log_service.config.view_fields import KEY, with_key_defaults

FOREVER_MS = 2**63 - 1


class NamedPlace(Protocol):
    """The directory and the base offset of a segment, which identify it."""

    directory: Path
    base_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class LogConfig:
    """The configuration of one partition's log: topic keys resolved over the broker's defaults."""

    segment_bytes: int = KEY
    segment_ms: int = KEY
    segment_jitter_ms: int = KEY
    segment_index_bytes: int = KEY
    index_interval_bytes: int = KEY
    retention_ms: int = KEY  # -1: no limit
    retention_bytes: int = KEY  # -1: no limit
    is_compacted: bool = KEY
    is_deleted: bool = KEY
    delete_retention_ms: int = KEY
    min_cleanable_dirty_ratio: float = KEY
    min_compaction_lag_ms: int = KEY
    max_compaction_lag_ms: int = KEY
    file_delete_delay_ms: int = KEY
    flush_messages: int = KEY  # 1: synced before each acknowledgement
    flush_ms: int = KEY
    max_message_bytes: int = KEY
    compression_type: str = KEY
    compression_gzip_level: int = KEY  # -1: the library's own
    compression_lz4_level: int = KEY
    compression_zstd_level: int = KEY
    message_timestamp_type: str = KEY
    message_timestamp_before_max_ms: int = KEY
    message_timestamp_after_max_ms: int = KEY
    min_insync_replicas: int = KEY
    is_key_schema_validated: bool = KEY
    is_value_schema_validated: bool = KEY
    key_subject_name_strategy: str = KEY
    value_subject_name_strategy: str = KEY
    is_schema_validated: bool = field(init=False, repr=False)
    """Whether keys or values must name registered schemas."""
    roll_ms: int = field(init=False, repr=False)
    """The age of a segment's first records at which the next append rolls it.

    No record may wait longer for compaction.
    """

    def __post_init__(self) -> None:
        is_schema_validated = self.is_key_schema_validated or self.is_value_schema_validated
        object.__setattr__(self, "is_schema_validated", is_schema_validated)
        is_bounded = self.is_compacted and self.max_compaction_lag_ms > 0
        object.__setattr__(
            self,
            "roll_ms",
            min(self.segment_ms, self.max_compaction_lag_ms) if is_bounded else self.segment_ms,
        )

    def with_values(self, changes: Mapping[str, Any]) -> "LogConfig":
        """Return a copy with other values of some fields.

        ``dataclasses.replace`` does the same, but slower.
        """
        return LogConfig(**{**dict(zip(LOG_FIELDS, _values_of_log(self), strict=True)), **changes})

    def roll_ms_of(self, segment: NamedPlace) -> int:
        """Return the age at which a segment is rolled: ``roll_ms`` less its jitter.

        The jitter is a hash of the segment's name, so that it is the same at each call.
        """
        bound = min(self.segment_jitter_ms, self.roll_ms)
        if bound <= 0:
            return self.roll_ms
        return (
            self.roll_ms - crc32(f"{segment.directory.name} {segment.base_offset}".encode()) % bound
        )


LOG_FIELDS = tuple(field.name for field in fields(LogConfig) if field.init)
"""The fields that topic keys set."""
_values_of_log = attrgetter(*LOG_FIELDS)


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class CleanerConfig:
    """The cleaner of compacted logs: threads, memory, disk bandwidth, and pauses."""

    is_enabled: bool = KEY
    thread_count: int = KEY
    backoff_ms: int = KEY
    dedupe_buffer_bytes: int = KEY
    dedupe_load_factor: float = KEY
    io_buffer_bytes: int = KEY
    io_max_bytes_per_second: float = KEY


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class LogManagerConfig:
    """The log directories of a node and the intervals of their upkeep."""

    log_dirs: tuple[Path, ...]
    retention_check_interval_ms: int = KEY
    flush_scheduler_interval_ms: int = KEY
    flush_offset_checkpoint_interval_ms: int = KEY
    flush_start_offset_checkpoint_interval_ms: int = KEY
    initial_task_delay_ms: int = KEY
    recovery_threads_per_data_dir: int = KEY
    producer_id_expiration_ms: int = KEY
    producer_id_expiration_check_interval_ms: int = KEY
    cordoned_log_dirs: tuple[Path, ...] = ()  # these take no new partitions
    cleaner: CleanerConfig = field(default_factory=CleanerConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class ConnectionLimits:
    """Limits on the number of open connections, and on new connections per second.

    They may change while the node runs.
    """

    max_count: int = KEY
    max_count_per_host: int = KEY
    max_count_of_host: tuple[tuple[str, int], ...] = KEY
    max_rate: int = KEY
    max_count_of_listener: tuple[tuple[str, int], ...] = ()
    max_rate_of_listener: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class NetworkLimits:
    """Bounds of one listener. All of them are enabled by default."""

    max_frame_bytes: int = KEY
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    idle_timeout_ms: int = KEY
    frame_deadline_ms: int = 60_000
    login_deadline_ms: int = (
        60_000  # from the connection to the end of its login, on a listener with SASL
    )
    max_requests_in_flight_per_connection: int = 64
    max_unanswered_bytes_per_connection: int = 64 << 10  # a single request may be larger
    max_request_bytes_in_flight: int = KEY
    receive_buffer_bytes: int = 64 << 10
    socket_send_buffer_bytes: int = KEY  # the system's default
    socket_receive_buffer_bytes: int = KEY
    backlog: int = KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """One listener: the address it binds and the advertised one."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int  # 0: the port that was bound
    security: ListenerSecurity = PLAINTEXT_SECURITY


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class DynamicBrokerConfig:
    """The values of a broker that may change while it runs, besides the defaults of logs."""

    connections: ConnectionLimits
    cleaner: CleanerConfig
    disk_pool_threads: int = KEY
    producer_id_expiration_ms: int = KEY
    cordoned_log_dirs: tuple[Path, ...]
    is_verification_enabled: bool = KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatTimes:
    """The default times and bounds of groups whose members send heartbeats.

    A group may have its own. Times are in milliseconds.
    """

    session_timeout_ms: int = KEY
    min_session_timeout_ms: int = KEY
    max_session_timeout_ms: int = KEY
    heartbeat_interval_ms: int = KEY
    min_heartbeat_interval_ms: int = KEY
    max_heartbeat_interval_ms: int = KEY
    assignment_interval_ms: int = KEY
    min_assignment_interval_ms: int = KEY
    max_assignment_interval_ms: int = KEY
    max_size: int = KEY
    node_id: int = -1  # the broker whose dynamic configuration applies


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class ConsumerGroupConfig(HeartbeatTimes):
    """The configuration of groups of the consumer protocol (KIP-848)."""

    regex_refresh_interval_ms: int = KEY
    assignors: tuple[str, ...] = KEY  # the first is the default
    migration_policy: str = KEY  # or upgrade, downgrade, disabled
    is_enabled: bool = KEY


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class ShareGroupConfig(HeartbeatTimes):
    """The configuration of share groups (KIP-932).

    If an initialization of partitions has no response after ``initialize_retry_interval_ms``, it is
    repeated.
    """

    initialize_retry_interval_ms: int = KEY
    max_size: int = KEY


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class StreamsGroupConfig(HeartbeatTimes):
    """The configuration of streams groups (KIP-1071).

    An empty group waits ``initial_rebalance_delay_ms`` for more members.
    """

    initial_rebalance_delay_ms: int = KEY
    standby_count: int = KEY  # for each task with state
    max_standby_count: int = KEY
    is_enabled: bool = KEY


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class GroupConfig:
    """Bounds and delays of consumer groups, and the storage of their offsets.

    ``lone_offsets_topic_replication_factor`` applies if no other broker is registered when the
    topic is created.
    """

    min_session_timeout_ms: int = KEY
    max_session_timeout_ms: int = KEY
    initial_rebalance_delay_ms: int = KEY
    max_size: int = KEY
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = KEY
    offsets_retention_ms: int = KEY
    offsets_retention_check_interval_ms: int = KEY
    offsets_topic_partitions: int = KEY
    offsets_topic_replication_factor: int = KEY
    lone_offsets_topic_replication_factor: int = 1
    offsets_topic_segment_bytes: int = KEY
    offsets_topic_compression_codec: int = KEY
    offsets_commit_timeout_ms: int = KEY
    max_metadata_record_bytes: int = 1_000_000  # of one group; the limit of the internal topic
    consumer: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)
    share: ShareGroupConfig = field(default_factory=ShareGroupConfig)
    streams: StreamsGroupConfig = field(default_factory=StreamsGroupConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class TransactionConfig:
    """The times of transactions and their ids, and the topic that stores them.

    ``end_patience_ms`` is how long a request waits until the previous transaction has ended.
    ``lone_state_log_replication_factor`` applies if no other broker is registered when the topic is
    created.
    """

    max_timeout_ms: int = KEY
    end_patience_ms: int = KEY
    abort_interval_ms: int = KEY
    expiration_ms: int = KEY
    expiry_interval_ms: int = KEY
    state_log_partitions: int = KEY
    state_log_replication_factor: int = KEY
    lone_state_log_replication_factor: int = 1
    state_log_min_isr: int = KEY
    lone_state_log_min_isr: int = 1
    state_log_segment_bytes: int = KEY


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class ShareStateConfig:
    """The storage of share group states (KIP-932), and its topic.

    Times are in milliseconds.

    ``snapshot_update_records`` is the number of updates between two snapshots of a state. The
    ``lone_*`` values apply if no other broker is registered when the topic is created.
    """

    snapshot_update_records: int = KEY
    write_timeout_ms: int = KEY
    cold_snapshot_interval_ms: int = KEY
    prune_interval_ms: int = KEY
    topic_partitions: int = KEY
    topic_replication_factor: int = KEY
    lone_topic_replication_factor: int = 1
    topic_min_isr: int = KEY
    lone_topic_min_isr: int = 1
    topic_segment_bytes: int = KEY
    topic_compression_codec: int = KEY


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class FetchConfig:
    """Bounds of fetch responses and sessions."""

    max_bytes: int = KEY
    max_session_cache_slots: int = KEY
    min_session_eviction_ms: int = 120_000


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class ShareFetchConfig:
    """The limits of share groups on partition leaders (KIP-932).

    A group may have its own settings within the bounds given here.
    """

    delivery_count_limit: int = KEY
    min_delivery_count_limit: int = KEY
    max_delivery_count_limit: int = KEY
    record_lock_duration_ms: int = KEY
    min_record_lock_duration_ms: int = KEY
    max_record_lock_duration_ms: int = KEY
    max_record_locks: int = KEY
    min_max_record_locks: int = KEY
    max_max_record_locks: int = KEY
    max_session_count: int = KEY


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class QuotaWindows:
    """The windows that measure the use of a quota: their number and length in milliseconds."""

    count: int = KEY
    size_ms: int = KEY

    @property
    def burst_s(self) -> float:
        """The shortest time in seconds over which the use of a quota is measured.

        A burst of as much as the quota allows in this time is never throttled.
        """
        return (self.count - 1) * self.size_ms / 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class ReplicationConfig:
    """The fetching and allowed lag of followers, and whether consumers read in their rack."""

    fetcher_count: int = KEY  # connections per leader
    backoff_ms: int = KEY
    partition_max_bytes: int = KEY
    min_bytes: int = KEY
    response_max_bytes: int = KEY
    max_wait_ms: int = KEY
    lag_max_ms: int = KEY
    is_rack_aware: bool = False  # consumers are sent to a replica in their rack (KIP-392)


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class VerificationConfig:
    """The verification of a transaction's first batch (KIP-890), and its retries."""

    is_enabled: bool = KEY
    retry_backoff_ms: int = KEY
    retry_max_ms: int = KEY


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class TopicDefaults:
    """The defaults of a new topic, and the bounds of a request that changes topics.

    If a client's request makes this node create a topic, the node asks the controller for
    ``asked_partition_count`` partitions with ``asked_replication_factor`` replicas. Both are -1
    unless this node's file sets them, and -1 asks for the controller's default.
    """

    partition_count: int = KEY
    replication_factor: int = KEY
    asked_partition_count: int = -1
    asked_replication_factor: int = -1
    is_auto_created: bool = KEY
    declarations_path: Path | None = KEY
    is_deletion_enabled: bool = KEY
    max_partitions_per_request: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class MetadataLogConfig:
    """The metadata log: its segments and the intervals of snapshots.

    Snapshots keep a node's start short.
    """

    segment_bytes: int = KEY
    segment_ms: int = KEY
    max_record_bytes_between_snapshots: int = KEY
    max_snapshot_interval_ms: int = KEY  # 0: never by time
    max_batch_bytes: int = 8 << 20  # the records of one decision have to fit
    is_directory_apart: bool = False  # outside the log directories, so it needs its own lock


class QuorumServer(NamedTuple):
    """The address of a controller. ``node_id`` is negative if only the address is known."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class QuorumConfig:
    """The metadata quorum: its members, times and sizes.

    ``voters`` are those of ``controller.quorum.voters``. They are the voters until the metadata log
    names others. ``bootstrap_servers`` are the addresses at which the leader can be found. An
    election timer runs between one and two times ``election_timeout_ms``. A voter that has fetched
    nothing for ``fetch_timeout_ms`` prepares an election. A leader resigns if no majority has
    fetched from it for one and a half times ``fetch_timeout_ms``.
    """

    voters: tuple[QuorumServer, ...] = ()
    bootstrap_servers: tuple[QuorumServer, ...] = ()
    listener_name: str = "CONTROLLER"
    election_timeout_ms: int = KEY
    fetch_timeout_ms: int = KEY
    election_backoff_max_ms: int = KEY
    request_timeout_ms: int = KEY
    retry_backoff_ms: int = KEY
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = KEY
    snapshot_max_bytes: int = KEY
    is_auto_join_enabled: bool = KEY
    max_idle_interval_ms: int = KEY  # 0: never
    # a voter stands this soon if its leader refuses connections; 0 or less: only silence counts
    death_grace_ms: int = KEY

    @property
    def fetch_wait_ms(self) -> int:
        """The longest time in ms for which the leader holds an empty fetch.

        It is at most half of each of the follower's timeouts.
        """
        return min(self.fetch_max_wait_ms, self.request_timeout_ms // 2, self.fetch_timeout_ms // 2)

    @property
    def check_quorum_ms(self) -> int:
        """The time in ms after which a leader resigns if no majority fetches from it."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_interval_ms(self) -> int:
        """The interval in ms at which a leader announces itself to a voter that does not fetch."""
        return self.fetch_timeout_ms // 2


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class AuditConfig:
    """The audit log's targets: a rolling file, a topic, or both.

    Without any target, decisions go to the node's own log.
    """

    path: Path | None = KEY
    max_file_bytes: int = KEY
    max_files: int = KEY
    """The newest file and the rolled ones, together."""
    topic: str | None = KEY
    is_allowed_written: bool = KEY
    """Whether allowed operations are written, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class AuthorizerConfig:
    """The authorizer. ``super_users`` are principals as ``Type:name``."""

    super_users: frozenset[str] = KEY
    is_open: bool = KEY
    """Whether everyone may access resources without ACLs."""
    audit: AuditConfig | None = None
    """None: decisions are written only at the level of the audit log's logger."""


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class TokenConfig:
    """Delegation tokens (KIP-48): their lifetimes, and their secret or None if there are none."""

    secret: SecretText | None = KEY
    max_lifetime_ms: int = KEY
    expiry_time_ms: int = KEY
    expiry_check_interval_ms: int = KEY


@dataclass(frozen=True, slots=True, kw_only=True)
@with_key_defaults
class NodeConfig:
    """One node: its identity and the views of its packages.

    ``listeners`` are those of the broker, empty without that role. ``controller_listeners`` are
    those of the controller, in the order of ``controller.listener.names``. The first is used by the
    quorum. ``is_alone`` says that a fresh node begins a cluster of its own.
    """

    node_id: int
    listeners: tuple[ListenerConfig, ...]
    log_manager: LogManagerConfig
    metadata_log_dir: Path
    is_broker: bool = KEY
    is_controller: bool = KEY
    is_alone: bool = True
    rack: str | None = KEY
    cluster_id: str | None = KEY
    inter_broker_listener_name: str = "PLAINTEXT"
    metrics_listener: tuple[str, int] | None = None  # host and port of the metrics page
    controller_listeners: tuple[ListenerConfig, ...] = ()
    inter_broker_login: LoginConfig | None = None  # this node's login to other brokers
    controller_login: LoginConfig | None = None  # and its login to controllers
    controller_security: ListenerSecurity = PLAINTEXT_SECURITY  # of connections to controllers
    quorum: QuorumConfig = field(default_factory=QuorumConfig)
    log: LogConfig = field(default_factory=LogConfig)
    metadata_log: MetadataLogConfig = field(default_factory=MetadataLogConfig)
    limits: NetworkLimits = field(default_factory=NetworkLimits)
    groups: GroupConfig = field(default_factory=GroupConfig)
    transactions: TransactionConfig = field(default_factory=TransactionConfig)
    share_states: ShareStateConfig = field(default_factory=ShareStateConfig)
    fetch: FetchConfig = field(default_factory=FetchConfig)
    share_fetch: ShareFetchConfig = field(default_factory=ShareFetchConfig)
    topics: TopicDefaults = field(default_factory=TopicDefaults)
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    tokens: TokenConfig = field(default_factory=TokenConfig)
    telemetry_max_bytes: int = KEY
    quota_windows: QuotaWindows = field(default_factory=QuotaWindows)
    # Windows of the quota for created and deleted partitions.
    mutation_quota_windows: QuotaWindows = field(default_factory=QuotaWindows)
    verification: VerificationConfig = field(default_factory=VerificationConfig)
    authorizer: AuthorizerConfig | None = None
    """None: every client may do everything."""
    schema_registry: SchemaRegistryConfig | None = None
    """None: no topic can have its schemas validated."""
    disk_pool_threads: int = KEY
    max_partitions_described: int = KEY  # in one response of DescribeTopicPartitions
    broker_heartbeat_interval_ms: int = KEY
    initial_registration_timeout_ms: int = (
        KEY  # how long a starting broker tries to register with a controller
    )
    log_dir_failure_timeout_ms: int = (
        KEY  # how long a broker may fail to report a failed log directory
    )
    leader_balance_interval_ms: int | None = KEY  # of preferred leader elections, None: never
    unclean_election_interval_ms: int = KEY
    broker_session_timeout_ms: int = KEY
    # a broker is dead if it refuses connections this long after its own has ended; 0 or less: never
    death_grace_ms: int = KEY
    high_watermark_checkpoint_interval_ms: int = KEY

    @property
    def inter_broker_security(self) -> ListenerSecurity:
        """The security of connections to other brokers.

        Their listener has the same name as this node's inter-broker listener.
        """
        of_name = (
            listener.security
            for listener in self.listeners
            if listener.name == self.inter_broker_listener_name
        )
        return next(of_name, PLAINTEXT_SECURITY)

    @property
    def controller_listener(self) -> ListenerConfig | None:
        """The controller's listener for other nodes and admin clients (KIP-919), or None."""
        return self.controller_listeners[0] if self.controller_listeners else None
