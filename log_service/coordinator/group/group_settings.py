"""The settings of one consumer, share or streams group, within the bounds of the broker.

A dynamic setting of the group takes precedence over the broker's. The group's setting was checked
against the bounds when it was set. It is clamped again when it is read, because the bounds may have
changed since. Durations are in milliseconds.
"""

from collections.abc import Callable

from log_service.config.views import GroupConfig, HeartbeatTimes, StreamsGroupConfig
from log_service.metadata.image import MetadataImage, ResourceType


class GroupTimes:
    """The timeouts and intervals of one kind of group. ``image`` returns the newest metadata."""

    def __init__(
        self, protocol: str, config: HeartbeatTimes, image: Callable[[], MetadataImage]
    ) -> None:
        self._protocol = protocol
        self._times = config
        self._image = image

    def session_timeout_ms(self, group_id: str) -> int:
        """Return how long a member may go without a heartbeat."""
        config = self._times
        own = self._own(group_id, f"{self._protocol}.session.timeout.ms", config.session_timeout_ms)
        return min(max(own, config.min_session_timeout_ms), config.max_session_timeout_ms)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the interval at which members must send heartbeats."""
        config = self._times
        own = self._own(
            group_id, f"{self._protocol}.heartbeat.interval.ms", config.heartbeat_interval_ms
        )
        return min(max(own, config.min_heartbeat_interval_ms), config.max_heartbeat_interval_ms)

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return the shortest time between two computations of targets."""
        config = self._times
        configs, name = self._image().configs, f"group.{self._protocol}.assignment.interval.ms"
        of_broker = configs.of(ResourceType.BROKER, str(config.node_id)).get(name) or configs.of(
            ResourceType.BROKER, ""
        ).get(name)
        default = config.assignment_interval_ms if of_broker is None else int(of_broker)
        own = self._own(group_id, f"{self._protocol}.assignment.interval.ms", default)
        return min(max(own, config.min_assignment_interval_ms), config.max_assignment_interval_ms)

    def _own(self, group_id: str, name: str, default: int) -> int:
        text = self._image().configs.of(ResourceType.GROUP, group_id).get(name)
        return default if text is None else int(text)


class GroupSettings(GroupTimes):
    """The settings of a shard's consumer groups. ``image`` returns the newest metadata."""

    def __init__(self, config: GroupConfig, image: Callable[[], MetadataImage]) -> None:
        super().__init__("consumer", config.consumer, image)
        self._config = config.consumer
        self._max_record_bytes = config.max_metadata_record_bytes

    @property
    def max_record_bytes(self) -> int:
        """The largest record of one member, in bytes."""
        return self._max_record_bytes

    @property
    def assignors(self) -> tuple[str, ...]:
        """The assignors that members may name, the default first."""
        return self._config.assignors

    @property
    def max_size(self) -> int:
        """The largest number of members of one group."""
        return self._config.max_size

    @property
    def regex_refresh_interval_ms(self) -> int:
        """The age of matches from which a heartbeat makes regular expressions match again."""
        return self._config.regex_refresh_interval_ms


class StreamsSettings(GroupTimes):
    """The settings of a shard's streams groups. ``image`` returns the newest metadata."""

    def __init__(self, config: StreamsGroupConfig, image: Callable[[], MetadataImage]) -> None:
        super().__init__("streams", config, image)
        self._config = config

    @property
    def max_size(self) -> int:
        """The largest number of members of one group."""
        return self._config.max_size

    def initial_rebalance_delay_ms(self, group_id: str) -> int:
        """Return how long a group with a first member waits for more before it assigns tasks."""
        return self._own(
            group_id, "streams.initial.rebalance.delay.ms", self._config.initial_rebalance_delay_ms
        )

    def standby_count(self, group_id: str) -> int:
        """Return the number of standby tasks of each stateful task."""
        return min(
            self._own(group_id, "streams.num.standby.replicas", self._config.standby_count),
            self._config.max_standby_count,
        )
