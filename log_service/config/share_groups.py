"""The configuration of share groups (KIP-932): times and bounds of members, and storage of states.

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
    return with_times(ShareGroupConfig, values, "share", node_id=node_id)


def share_states(values: ServerValues, *, is_only_voter: bool) -> ShareStateConfig:
    """Return the configuration of share group states.

    A node that is alone in its cluster makes one replica, unless its file sets another number.
    """
    return values.view(
        ShareStateConfig,
        lone_topic_replication_factor=lone_factor(values, STATE_TOPIC, is_only_voter=is_only_voter),
        lone_topic_min_isr=lone_min_isr(values, STATE_TOPIC, is_only_voter=is_only_voter),
    )
