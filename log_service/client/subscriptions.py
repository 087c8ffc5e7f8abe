"""What a consumer reads: its partitions, and where it stands in each. State and its changes, without network and clock.

Decides nothing but consistency: which partitions can be fetched, and that records fetched before a seek are never handed out after it.

Invariants: ``position`` is the next offset to hand out, ``fetch_offset`` the next to fetch, and everything between is buffered; every
change of position from outside raises ``version``, and an answer to a fetch that was sent under another version is dropped.
"""

from collections.abc import Iterable, Iterator
from enum import Enum, auto

from log_service.common.types import NO_LEADER_EPOCH, TopicPartition

UNKNOWN = -1


class Start(Enum):
    """Where to find the position of a partition that has none."""

    COMMITTED = auto()
    RESET = auto()
    EARLIEST = auto()
    LATEST = auto()


class PartitionState:
    """One partition that is read."""

    __slots__ = (
        "buffered_bytes",
        "fetch_epoch",
        "fetch_offset",
        "high_watermark",
        "is_in_flight",
        "is_paused",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "position",
        "preferred_replica",
        "preferred_until_ms",
        "start",
        "topic_partition",
        "version",
    )

    def __init__(self, topic_partition: TopicPartition, start: Start) -> None:
        self.topic_partition = topic_partition
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
        return self.start is None and not self.is_paused and not self.is_in_flight

    def seek(self, offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Read on at ``offset``; ``leader_epoch`` is of the record before it, if that is known."""
        self.version += 1
        self.start = None
        self.position = self.fetch_offset = offset
        self.leader_epoch = self.fetch_epoch = leader_epoch
        self.buffered_bytes = 0

    def seek_to(self, start: Start) -> None:
        """Read on where ``start`` says; somebody has to find that offset."""
        self.version += 1
        self.start = start
        self.buffered_bytes = 0


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
        """Return the partitions whose position somebody has to find."""
        return [state for state in self._partitions.values() if not state.has_position]
