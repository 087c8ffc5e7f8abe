"""State of a consumer's partitions and positions, without network and clock.

Decides which partitions can be fetched. Records that were fetched before a seek are never returned
after the seek.

Invariants: ``position`` is the next offset to return, ``fetch_offset`` the next to fetch, and all
records between them are buffered. Every seek increments ``version``. If it changed after a fetch
was sent, the response is dropped. A position belongs to one topic id. It is not valid in a topic
that was created again with the same name.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from log_service.client.consumer.aborted import AbortedFilter
from log_service.common.errors import ConfigError
from log_service.common.types import NO_LEADER_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression in RE2's syntax, which brokers match against topic names (KIP-848).

    It must match the whole name.

    Raises:
        ConfigError: the expression is empty.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not self.pattern:
            raise ConfigError("a SubscriptionPattern is empty: name topics, or unsubscribe()")


class Start(Enum):
    """The source of the position of a partition that has none, such as the committed offset."""

    COMMITTED = auto()
    RESET = auto()
    EARLIEST = auto()
    LATEST = auto()
    TIME = auto()  # some time ago (KIP-1106), or the end if no record is as new


class Hold(Enum):
    """Reasons not to fetch a partition."""

    PAUSE = auto()  # a transient error, tried again a little later
    READING = auto()  # an error behind buffered records, which are returned first
    TELLING = auto()  # an error that was not raised yet


def is_other_topic(known: TopicId, current: TopicId) -> bool:
    """Return whether two ids are known and differ.

    If so, the topic of that name was deleted and created again.
    """
    return known != current and NO_TOPIC_ID not in {known, current}


class PartitionState:
    """The state of one assigned partition: its position, and the state of its fetches."""

    __slots__ = (
        "aborted",
        "buffered_bytes",
        "doubted_since_ms",
        "fetch_epoch",
        "fetch_offset",
        "high_watermark",
        "hold",
        "is_in_flight",
        "is_paused",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "position",
        "preferred_replica",
        "preferred_until_ms",
        "sought_epoch",
        "start",
        "topic_id",
        "topic_partition",
        "validated_epoch",
        "version",
    )

    def __init__(self, topic_partition: TopicPartition, start: Start) -> None:
        self.topic_partition = topic_partition
        self.topic_id: TopicId = (
            NO_TOPIC_ID  # of the position; zero until the first fetch, or without ids of brokers
        )
        self.start: Start | None = start
        self.position = UNKNOWN
        self.fetch_offset = UNKNOWN
        self.fetch_epoch: int = NO_LEADER_EPOCH
        self.leader_epoch: int = NO_LEADER_EPOCH
        self.version = 0
        self.is_paused = False
        self.is_in_flight = False
        self.buffered_bytes = 0
        self.high_watermark = UNKNOWN
        self.last_stable_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.preferred_replica = UNKNOWN
        self.preferred_until_ms = 0
        self.hold: Hold | None = None
        self.aborted: AbortedFilter | None = (
            None  # for read_committed, from the first response after a seek
        )
        self.validated_epoch: int = NO_LEADER_EPOCH
        self.sought_epoch: int = (
            NO_LEADER_EPOCH  # of the last seek, until the view of the cluster knows it
        )
        self.doubted_since_ms: int | None = (
            None  # the time since which the view is known to lack it
        )

    def __repr__(self) -> str:
        where = self.start.name.lower() if self.start is not None else self.position
        return (
            f"<PartitionState {self.topic_partition}"
            f" position={where}{' paused' if self.is_paused else ''}>"
        )

    @property
    def has_position(self) -> bool:
        """Whether the position is known."""
        return self.start is None

    @property
    def is_fetchable(self) -> bool:
        """Whether a fetch may be sent now."""
        return (
            self.start is None
            and not self.is_paused
            and not self.is_in_flight
            and self.hold is None
        )

    def is_of_other_topic(self, current: TopicId) -> bool:
        """Return whether the position belongs to a deleted topic of the same name.

        ``current`` is the id of the topic that has the name now.
        """
        return is_other_topic(self.topic_id, current)

    def lag(self, *, is_stable_only: bool) -> int | None:
        """Return the number of offsets from the position to the end, as of the last fetch.

        The end is the high watermark, or with ``is_stable_only`` the last stable offset. Returns
        None before the first fetch, or without a position.
        """
        end = self.last_stable_offset if is_stable_only else self.high_watermark
        return None if end < 0 or self.start is not None else max(end - self.position, 0)

    def advance(self, position: int, leader_epoch: int) -> None:
        """Move the position after records were returned.

        ``leader_epoch`` is the epoch of the last returned record.
        """
        self.position, self.leader_epoch = position, leader_epoch

    def note_ends(
        self, *, high_watermark: int, last_stable_offset: int, log_start_offset: int
    ) -> None:
        """Note the offsets that a fetch reported."""
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset

    def seek(
        self, offset: int, leader_epoch: int = NO_LEADER_EPOCH, *, topic_id: TopicId = NO_TOPIC_ID
    ) -> None:
        """Continue reading at ``offset``.

        If known, ``leader_epoch`` is that of the record before ``offset``, and ``topic_id`` that of
        the topic.
        """
        self.start = None
        self.position = self.fetch_offset = offset
        self.leader_epoch = self.fetch_epoch = leader_epoch
        self._begin_anew()
        self.topic_id = topic_id
        self.sought_epoch = leader_epoch

    def seek_to(self, start: Start) -> None:
        """Drop the position, so that ``positions`` finds the one that ``start`` describes."""
        self.start = start
        self.topic_id = NO_TOPIC_ID
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Reset the fetch state after the position was moved, and increment ``version``."""
        self.version += 1
        self.buffered_bytes = 0
        self.hold = None
        self.aborted = None
        self.validated_epoch = self.sought_epoch = NO_LEADER_EPOCH
        self.doubted_since_ms = None


class Subscriptions:
    """The assigned partitions of one consumer with their states, and the subscribed topics."""

    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        self._partitions: dict[TopicPartition, PartitionState] = {}

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._partitions

    def get(self, topic_partition: TopicPartition) -> PartitionState | None:
        """Return the state of a partition, or None if it is not assigned."""
        return self._partitions.get(topic_partition)

    def of(self, topic_partition: TopicPartition) -> PartitionState:
        """Return the state of a partition.

        Raises:
            ValueError: the partition is not assigned to this consumer.
        """
        state = self._partitions.get(topic_partition)
        if state is None:
            raise ValueError(f"{topic_partition} is not assigned to this consumer")
        return state

    @property
    def paused(self) -> list[TopicPartition]:
        """The paused partitions, sorted."""
        return sorted(
            state.topic_partition for state in self._partitions.values() if state.is_paused
        )

    @property
    def assigned(self) -> list[TopicPartition]:
        """The assigned partitions, sorted."""
        return sorted(self._partitions)

    def assign(self, partitions: Iterable[TopicPartition], start: Start) -> None:
        """Read exactly these partitions. Those that were read before keep their positions."""
        wanted = list(dict.fromkeys(partitions))
        self._partitions = {
            each: self._partitions.get(each) or PartitionState(each, start) for each in wanted
        }

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions."""
        for each in partitions:
            self._partitions.pop(each, None)

    def without_position(self) -> list[PartitionState]:
        """Return the partitions without a position, which ``positions`` has to find."""
        return [state for state in self._partitions.values() if not state.has_position]
