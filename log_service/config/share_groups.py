"""What a node's file says about share groups (KIP-932): times and bounds of their members, and how their states are kept.

Decides what combinations mean. The keys are declared in ``server_keys``.
"""

from log_service.common.errors import ConfigError
from log_service.config.server_values import ServerValues
from log_service.config.views import ShareGroupConfig, ShareStateConfig

STATE_TOPIC = "share.coordinator.state.topic"


def share_groups(values: ServerValues, node_id: int) -> ShareGroupConfig:
    """Return what holds for the members of share groups.

    Raises:
        ConfigError: a value is not between its bounds, or heartbeats are no more frequent than sessions end.
    """

    def number(name: str) -> int:
        return values.number(f"group.share.{name}")

    for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
        shortest, value, longest = number(f"min.{name}"), number(name), number(f"max.{name}")
        if not shortest <= value <= longest:
            raise ConfigError(f"group.share.{name} is {value}, which is not between {shortest} and {longest}, its min and max")
    if number("heartbeat.interval.ms") >= number("session.timeout.ms"):
        raise ConfigError("group.share.heartbeat.interval.ms has to be below group.share.session.timeout.ms: members would time out")
    return ShareGroupConfig(
        session_timeout_ms=number("session.timeout.ms"),
        min_session_timeout_ms=number("min.session.timeout.ms"),
        max_session_timeout_ms=number("max.session.timeout.ms"),
        heartbeat_interval_ms=number("heartbeat.interval.ms"),
        min_heartbeat_interval_ms=number("min.heartbeat.interval.ms"),
        max_heartbeat_interval_ms=number("max.heartbeat.interval.ms"),
        assignment_interval_ms=number("assignment.interval.ms"),
        min_assignment_interval_ms=number("min.assignment.interval.ms"),
        max_assignment_interval_ms=number("max.assignment.interval.ms"),
        initialize_retry_interval_ms=number("initialize.retry.interval.ms"),
        max_size=number("max.size"),
        node_id=node_id,
    )


def share_states(values: ServerValues, *, is_only_voter: bool) -> ShareStateConfig:
    """Return how the states of share groups are kept; a node alone makes one replica, unless its file asks for more."""
    factor, min_isr = values.number(f"{STATE_TOPIC}.replication.factor"), values.number(f"{STATE_TOPIC}.min.isr")
    lone_factor = 1 if is_only_voter and not values.is_set(f"{STATE_TOPIC}.replication.factor") else factor
    return ShareStateConfig(
        snapshot_update_records=values.number("share.coordinator.snapshot.update.records.per.snapshot"),
        write_timeout_ms=values.number("share.coordinator.write.timeout.ms"),
        cold_snapshot_interval_ms=values.number("share.coordinator.cold.partition.snapshot.interval.ms"),
        prune_interval_ms=values.number(f"{STATE_TOPIC}.prune.interval.ms"),
        topic_partitions=values.number(f"{STATE_TOPIC}.num.partitions"),
        topic_replication_factor=factor,
        lone_topic_replication_factor=lone_factor,
        topic_min_isr=min_isr,
        lone_topic_min_isr=min_isr if values.is_set(f"{STATE_TOPIC}.min.isr") else min(min_isr, lone_factor),
        topic_segment_bytes=values.number(f"{STATE_TOPIC}.segment.bytes"),
        topic_compression_codec=values.number(f"{STATE_TOPIC}.compression.codec"),
    )
