"""The small frozen views that rooms receive instead of keys: one per room, defaults are Kafka's.

A view knows no key names and reads nothing. ``config.server``, ``config.dynamic_broker_config`` and ``config.topic`` build views from keys.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from zlib import crc32

FOREVER_MS = 2**63 - 1


class NamedPlace(Protocol):
    """A segment, as far as its name goes."""

    directory: Path
    base_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """How one partition's log behaves: topic keys resolved over the broker's defaults."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3_600_000  # -1: no limit
    retention_bytes: int = -1  # -1: no limit
    is_compacted: bool = False
    is_deleted: bool = True
    delete_retention_ms: int = 24 * 3_600_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = FOREVER_MS  # 1: synced before each acknowledgement
    flush_ms: int = FOREVER_MS
    max_message_bytes: int = 1_048_588
    compression_type: str = "producer"
    compression_gzip_level: int = -1  # -1: the library's own
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = FOREVER_MS
    message_timestamp_after_max_ms: int = 3_600_000
    min_insync_replicas: int = 1
    roll_ms: int = field(init=False, repr=False)
    """How old a segment's first records may get before the next append begins another: no record may wait longer to be compacted."""

    def __post_init__(self) -> None:
        is_bounded = self.is_compacted and self.max_compaction_lag_ms > 0
        object.__setattr__(self, "roll_ms", min(self.segment_ms, self.max_compaction_lag_ms) if is_bounded else self.segment_ms)

    def roll_ms_of(self, segment: NamedPlace) -> int:
        """Return the age at which a segment is rolled: ``roll_ms`` less its jitter, which its name decides so that it stays the same."""
        bound = min(self.segment_jitter_ms, self.roll_ms)
        if bound <= 0:
            return self.roll_ms
        return self.roll_ms - crc32(f"{segment.directory.name} {segment.base_offset}".encode()) % bound


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig:
    """The cleaner of compacted logs: how many at once, with how much memory and disk, how often it looks."""

    is_enabled: bool = True
    thread_count: int = 1
    backoff_ms: int = 15_000
    dedupe_buffer_bytes: int = 128 << 20
    dedupe_load_factor: float = 0.9
    io_buffer_bytes: int = 512 << 10
    io_max_bytes_per_second: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class LogManagerConfig:
    """The log directories of a node and the intervals of their upkeep."""

    log_dirs: tuple[Path, ...]
    retention_check_interval_ms: int = 300_000
    flush_scheduler_interval_ms: int = FOREVER_MS
    flush_offset_checkpoint_interval_ms: int = 60_000
    flush_start_offset_checkpoint_interval_ms: int = 60_000
    initial_task_delay_ms: int = 30_000
    recovery_threads_per_data_dir: int = 2
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    cordoned_log_dirs: tuple[Path, ...] = ()  # these take no new partitions
    cleaner: CleanerConfig = field(default_factory=CleanerConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many connections may be open, and how many may come in a second; may change while the node runs."""

    max_count: int = 10_000
    max_count_per_host: int = 10_000
    max_count_of_host: tuple[tuple[str, int], ...] = ()
    max_rate: int = 2**31 - 1
    max_count_of_listener: tuple[tuple[str, int], ...] = ()
    max_rate_of_listener: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    """Bounds of one listener; every one is on by default."""

    max_frame_bytes: int = 100 << 20
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    idle_timeout_ms: int = 600_000
    frame_deadline_ms: int = 60_000
    max_requests_in_flight_per_connection: int = 64
    max_request_bytes_in_flight: int = 512 << 20
    receive_buffer_bytes: int = 64 << 10
    socket_send_buffer_bytes: int = -1  # the system's default
    socket_receive_buffer_bytes: int = -1
    backlog: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """One listener: where it binds and what clients are told."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int  # 0: the port that was bound
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicBrokerConfig:
    """What of a broker's configuration may change while it runs, beside the defaults of logs."""

    connections: ConnectionLimits
    cleaner: CleanerConfig
    disk_pool_threads: int
    producer_id_expiration_ms: int
    cordoned_log_dirs: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Bounds and delays of consumer groups, and how their offsets are kept."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_partitions: int = 50
    offsets_topic_replication_factor: int = 1
    offsets_topic_segment_bytes: int = 100 << 20
    offsets_topic_compression_codec: int = 0
    max_metadata_record_bytes: int = 1_000_000  # of one group; what the internal topic accepts


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchConfig:
    """Bounds of fetch responses and sessions."""

    max_bytes: int = 55 << 20
    max_session_cache_slots: int = 1_000
    min_session_eviction_ms: int = 120_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """What a new topic gets where its creator says nothing, and the bounds of a request."""

    partition_count: int = 1
    replication_factor: int = 1
    is_auto_created: bool = True
    is_deletion_enabled: bool = True
    max_partitions_per_request: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogConfig:
    """The metadata log: its segments, and when a snapshot is written so that a start reads few records."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    max_record_bytes_between_snapshots: int = 20 << 20
    max_snapshot_interval_ms: int = 3_600_000  # 0: never by time
    max_batch_bytes: int = 8 << 20  # one decision has to fit
    is_directory_apart: bool = False  # none of the log directories, so that it needs a lock of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """One node: its identity and the views of its rooms."""

    node_id: int
    listeners: tuple[ListenerConfig, ...]
    log_manager: LogManagerConfig
    metadata_log_dir: Path
    rack: str | None = None
    cluster_id: str | None = None
    inter_broker_listener_name: str = "PLAINTEXT"
    metrics_listener: tuple[str, int] | None = None  # host and port of the metrics page
    controller_listener: ListenerConfig | None = None  # where admin clients ask the controller (KIP-919)
    log: LogConfig = field(default_factory=LogConfig)
    metadata_log: MetadataLogConfig = field(default_factory=MetadataLogConfig)
    limits: NetworkLimits = field(default_factory=NetworkLimits)
    groups: GroupConfig = field(default_factory=GroupConfig)
    fetch: FetchConfig = field(default_factory=FetchConfig)
    topics: TopicDefaults = field(default_factory=TopicDefaults)
    disk_pool_threads: int = 4
    max_partitions_described: int = 2_000  # in one response of DescribeTopicPartitions
    broker_heartbeat_interval_ms: int = 2_000
    broker_session_timeout_ms: int = 9_000
    high_watermark_checkpoint_interval_ms: int = 5_000
