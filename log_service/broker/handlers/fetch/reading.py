"""The results of one pass over the partitions of a fetch, until they become a response.

Invariant: a ``Reading`` holds leases on records until it becomes a response or is released.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from log_service.broker.fetch_session import FetchTarget
from log_service.common.errors import ErrorCode
from log_service.common.types import NO_NODE, TopicPartition
from log_service.protocol.messages.fetch import PartitionData
from log_service.replication.partition import Partition

if TYPE_CHECKING:
    from log_service.broker.handlers.fetch.replica import FetchingReplica
    from log_service.broker.handlers.nearest_replica import Nearest

NOT_THERE = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
Release = Callable[[], None]
Result = tuple[FetchTarget, PartitionData, int]
"""A partition, its part of the response, and the size of its records in bytes."""


class Reading:
    """The results of one pass over the partitions of a fetch.

    Holds leases on the records until it becomes a response or is released. ``present`` are the
    partitions that exist on this node. ``replica`` is the follower that fetches, or None for a
    consumer. ``is_leader_needed`` is set for followers and old consumers, because they read from
    the leader only. ``nearest`` finds replicas nearer to the consumer, if enabled.
    """

    __slots__ = (
        "_found",
        "_releases",
        "held_back",
        "is_leader_needed",
        "max_bytes",
        "must_respond",
        "nearest",
        "present",
        "record_bytes",
        "replica",
        "results",
    )

    def __init__(
        self,
        replica: "FetchingReplica | None",
        nearest: "Nearest | None",
        *,
        is_leader_needed: bool,
    ) -> None:
        self.replica = replica
        self.nearest = nearest
        self.is_leader_needed = is_leader_needed
        self.held_back: tuple[TopicPartition, ...] = ()
        """Partitions that a throttle withholds from this follower.

        Appends to them do not end the follower's wait.
        """
        self.results: list[Result] = []
        self.present: list[tuple[Partition, FetchTarget]] = []
        self.max_bytes = 0
        """The most bytes of records in all partitions together."""
        self.record_bytes = 0
        self.must_respond = False
        """Whether to respond at once, with an error of a partition or with another replica."""
        self._releases: list[Release] = []
        self._found: list[tuple[Partition, int]] = []

    def add(self, target: FetchTarget, found: PartitionData, size_bytes: int) -> None:
        """Add the result of a partition."""
        self.results.append((target, found, size_bytes))
        self.record_bytes += size_bytes
        is_wrong = (
            found.error_code and found.error_code not in NOT_THERE
        ) or found.diverging_epoch is not None
        if is_wrong or found.preferred_read_replica != NO_NODE:
            self.must_respond = True

    def hold(self, release: Release, partition: Partition, size_bytes: int) -> None:
        """Remember a lease on records of a partition."""
        self._releases.append(release)
        self._found.append((partition, size_bytes))

    def count_sent(self) -> None:
        """Count the records as sent, because this reading becomes the response."""
        for partition, size_bytes in self._found:
            partition.sent_bytes += size_bytes

    def release(self) -> None:
        """Release all leases. The records are read again for the response."""
        for release in self._releases:
            release()
