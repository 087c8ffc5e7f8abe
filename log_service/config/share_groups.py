"""The configuration of share groups (KIP-932): times and bounds of members, and their states.

The keys are declared in ``server_keys``.
"""

from log_service.config.group_times import with_times
from log_service.config.internal_topics import lone_factor, lone_min_isr
from log_service.config.server_values import ServerValues
from log_service.config.views import ShareGroupConfig, ShareStateConfig

STATE_TOPIC = "share.coordinator.state.topic"


def share_groups(values: ServerValues, node_id: int) -> ShareGroupConfig:
    """Return the configuration for members of share groups.

    Raises ConfigError as ``with_times``.
    """
    retry_ms = values.number("group.share.initialize.retry.interval.ms")
    return with_times(ShareGroupConfig, values, "share", node_id=node_id, initialize_retry_interval_ms=retry_ms)


def share_states(values: ServerValues, *, is_only_voter: bool) -> ShareStateConfig:
    """Return the configuration of share group states.

    A lone node makes one replica, unless its file asks for more.
    """
    return ShareStateConfig(
        snapshot_update_records=values.number("share.coordinator.snapshot.update.records.per.snapshot"),
        write_timeout_ms=values.number("share.coordinator.write.timeout.ms"),
        cold_snapshot_interval_ms=values.number("share.coordinator.cold.partition.snapshot.interval.ms"),
        prune_interval_ms=values.number(f"{STATE_TOPIC}.prune.interval.ms"),
        topic_partitions=values.number(f"{STATE_TOPIC}.num.partitions"),
        topic_replication_factor=values.number(f"{STATE_TOPIC}.replication.factor"),
        lone_topic_replication_factor=lone_factor(values, STATE_TOPIC, is_only_voter=is_only_voter),
        topic_min_isr=values.number(f"{STATE_TOPIC}.min.isr"),
        lone_topic_min_isr=lone_min_isr(values, STATE_TOPIC, is_only_voter=is_only_voter),
        topic_segment_bytes=values.number(f"{STATE_TOPIC}.segment.bytes"),
        topic_compression_codec=values.number(f"{STATE_TOPIC}.compression.codec"),
    )
