"""What a consumer reads: its partitions, and where it stands in each. State and its changes, without network and clock.

Decides which partitions can be fetched, and that records fetched before a seek are never returned after it.

Invariants: ``position`` is the next offset to return, ``fetch_offset`` the next to fetch, and everything between is buffered. Every change
of position from outside raises ``version``; the response to a fetch that was sent under another version is dropped. A position is of one
topic id: in a topic that was created anew under the name it means nothing.
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
    """A regular expression of topic names, in RE2's syntax, that the broker matches against whole names (KIP-848).

    Raises:
        ConfigError: it is empty.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not self.pattern:
            raise ConfigError("a SubscriptionPattern is empty: name topics, or unsubscribe()")


class Start(Enum):
    """Where to find the position of a partition that has none."""

    COMMITTED = auto()
    RESET = auto()
    EARLIEST = auto()
    LATEST = auto()
    TIME = auto()  # a while ago (KIP-1106); the end, where nothing is as young


class Hold(Enum):
    """Why a partition is not fetched, although it could be."""

    PAUSE = auto()  # an error that passes: tried again a little later
    READING = auto()  # an error behind records that were not handed out yet: they come first
    TELLING = auto()  # an error that the application has not been told


def is_other_topic(known: TopicId, current: TopicId) -> bool:
    """Whether two ids are known and differ: the topic of that name was deleted and created anew."""
    return known != current and NO_TOPIC_ID not in {known, current}


class PartitionState:
    """One partition that is read."""

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
        self.topic_id: TopicId = NO_TOPIC_ID  # whose the position is; zero until the first fetch, or where brokers tell none
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
        self.aborted: AbortedFilter | None = None  # of read_committed, from the first response after a seek on
        self.validated_epoch: int = NO_LEADER_EPOCH
        self.sought_epoch: int = NO_LEADER_EPOCH  # of the last seek, until the view of the cluster knows it
        self.doubted_since_ms: int | None = None  # since when it is known that the view does not

    def __repr__(self) -> str:
        where = self.start.name.lower() if self.start is not None else self.position
        return f"<PartitionState {self.topic_partition} position={where}{' paused' if self.is_paused else ''}>"

    @property
    def has_position(self) -> bool:
        """Whether it is known where to read on."""
        return self.start is None

    @property
    def is_fetchable(self) -> bool:
        """Whether a fetch may be sent now."""
        return self.start is None and not self.is_paused and not self.is_in_flight and self.hold is None

    def is_of_other_topic(self, current: TopicId) -> bool:
        """Whether the position is of a topic other than ``current``, the one that has the name now: it was deleted and created anew."""
        return is_other_topic(self.topic_id, current)

    def lag(self, *, is_stable_only: bool) -> int | None:
        """Return how many offsets lie between the position and the last end that a fetch told; None before that."""
        end = self.last_stable_offset if is_stable_only else self.high_watermark
        return None if end < 0 or self.start is not None else max(end - self.position, 0)

    def advance(self, position: int, leader_epoch: int) -> None:
        """Take note that the records before ``position`` were handed out; ``leader_epoch`` is of the last of them."""
        self.position, self.leader_epoch = position, leader_epoch

    def note_ends(self, *, high_watermark: int, last_stable_offset: int, log_start_offset: int) -> None:
        """Take note of what a fetch says of the log's ends."""
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset

    def seek(self, offset: int, leader_epoch: int = NO_LEADER_EPOCH, *, topic_id: TopicId = NO_TOPIC_ID) -> None:
        """Read on at ``offset``; ``leader_epoch`` is of the record before it and ``topic_id`` of its topic, if they are known."""
        self.start = None
        self.position = self.fetch_offset = offset
        self.leader_epoch = self.fetch_epoch = leader_epoch
        self._begin_anew()
        self.topic_id = topic_id
        self.sought_epoch = leader_epoch

    def seek_to(self, start: Start) -> None:
        """Read on where ``start`` says; ``positions`` finds that offset."""
        self.start = start
        self.topic_id = NO_TOPIC_ID
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Forget what was fetched and found out for another position."""
        self.version += 1
        self.buffered_bytes = 0
        self.hold = None
        self.aborted = None
        self.validated_epoch = self.sought_epoch = NO_LEADER_EPOCH
        self.doubted_since_ms = None


class Subscriptions:
    """All partitions of one consumer, and the topics that it asked for."""

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
        """Return the state of a partition that is read."""
        return self._partitions.get(topic_partition)

    def of(self, topic_partition: TopicPartition) -> PartitionState:
        """Return the state of a partition.

        Raises:
            ValueError: it is not assigned to this consumer.
        """
        state = self._partitions.get(topic_partition)
        if state is None:
            raise ValueError(f"{topic_partition} is not assigned to this consumer")
        return state

    @property
    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused, sorted."""
        return sorted(state.topic_partition for state in self._partitions.values() if state.is_paused)

    @property
    def assigned(self) -> list[TopicPartition]:
        """The partitions, sorted."""
        return sorted(self._partitions)

    def assign(self, partitions: Iterable[TopicPartition], start: Start) -> None:
        """Read exactly these; those that were read before stay where they are."""
        wanted = list(dict.fromkeys(partitions))
        self._partitions = {each: self._partitions.get(each) or PartitionState(each, start) for each in wanted}

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these no more."""
        for each in partitions:
            self._partitions.pop(each, None)

    def without_position(self) -> list[PartitionState]:
        """Return the partitions whose position ``positions`` has to find."""
        return [state for state in self._partitions.values() if not state.has_position]
