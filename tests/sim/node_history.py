"""The history of the clients of a simulated node has their actions and results in order.

The checker judges it.

Decides nothing. Every entry is stamped with its place in the history (``at``) and its time
(seconds); operations that take time have a place where they began and, once they are over, one
where they ended. An operation that failed or never ended may have happened or not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from log_service.common.errors import ErrorCode
from log_service.common.java_hashing import hashed_partition
from log_service.common.types import TopicPartition
from tests.sim.node_host import Death

E = TypeVar("E", bound="Entry")
NEVER = 1 << 62


@dataclass(slots=True, kw_only=True)
class Entry:
    """Something that happened at one place of the history."""

    at: int = -1
    time: float = -1.0


@dataclass(slots=True, kw_only=True)
class Operation(Entry):
    """Something that was asked for; acknowledged at ``ended_at`` where ``is_ok``. ``error`` says
    why it was not.
    """

    ended_at: int = NEVER
    ended_time: float = float("inf")
    is_ok: bool = False
    error: str = ""


@dataclass(slots=True, kw_only=True)
class Send(Operation):
    """One record of one producer; ``number`` rises per producer and partition. ``offset`` is -1
    where the producer was not told.

    ``value`` names the record, also where it is a tombstone, which carries it in a header.

    A producer that is not idempotent may send a record twice, and out of order. One that does not
    wait for all replicas may lose what was acknowledged to it when the leader changes.
    """

    producer: str
    partition: TopicPartition
    number: int
    value: str
    timestamp_ms: int
    offset: int = -1
    is_idempotent: bool = True
    is_acked_by_all: bool = True
    key: bytes | None = None
    is_tombstone: bool = False


@dataclass(slots=True, kw_only=True)
class Commit(Operation):
    """A commit of one position by a member of a group."""

    group: str
    partition: TopicPartition
    offset: int


@dataclass(slots=True, kw_only=True)
class Committed(Operation):
    """The committed offset of a group by a response. -1 is none."""

    group: str
    partition: TopicPartition
    offset: int = -1


@dataclass(slots=True, kw_only=True)
class Create(Operation):
    """A topic's creation with one of its configurations.

    ``topic_id`` is empty if the response said that the topic exists.
    """

    topic: str
    partition_count: int
    retention_ms: str
    topic_id: str = ""


@dataclass(slots=True, kw_only=True)
class Delete(Operation):
    """A topic's deletion."""

    topic: str


@dataclass(slots=True, kw_only=True)
class CreatePartitions(Operation):
    """More partitions for a topic."""

    topic: str
    partition_count: int


@dataclass(slots=True, kw_only=True)
class Alter(Operation):
    """Another ``retention.ms`` for a topic."""

    topic: str
    retention_ms: str


@dataclass(slots=True, kw_only=True)
class Described(Operation):
    """A topic's description by a response.

    An empty ``topic_id`` says that it does not exist.
    """

    topic: str
    topic_id: str = ""
    partition_count: int = 0
    retention_ms: str = ""


@dataclass(slots=True, kw_only=True)
class DeleteRecords(Operation):
    """A partition cut at its start."""

    partition: TopicPartition
    before: int


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A record as a consumer got it."""

    offset: int
    leader_epoch: int
    value: str


@dataclass(slots=True, kw_only=True)
class Poll(Entry):
    """Records of one partition that one consumer got at once.

    ``group`` is empty for one that reads by hand.
    """

    consumer: str
    group: str
    partition: TopicPartition
    records: list[SeenRecord]


@dataclass(slots=True, kw_only=True)
class Taken(Entry):
    """Records of one partition that a member works on, after it has committed their end: at most
    once.
    """

    consumer: str
    group: str
    partition: TopicPartition
    records: list[SeenRecord]


@dataclass(slots=True, kw_only=True)
class Positioned(Entry):
    """A consumer begins with a partition anew: it may go on anywhere from here."""

    consumer: str
    partition: TopicPartition


@dataclass(slots=True, kw_only=True)
class Died(Entry):
    """A node died."""

    death: Death
    node: str = ""


@dataclass(slots=True, kw_only=True)
class Paused(Operation):
    """A node's process stood still; what has reached its machine meanwhile, it reads afterwards."""

    node: str


@dataclass(slots=True, kw_only=True)
class Superseded(Operation):
    """A node coordinated groups in a leader epoch that was over.

    It had not heard of a later one, in which another began at ``since``.

    It knows what was acknowledged before that. Its groups are those of one partition of their
    topic.
    """

    node: str
    groups_partition: int
    groups_partition_count: int
    since: int

    def coordinates(self, group: str) -> bool:
        """Whether a group is one of the node's."""
        return hashed_partition(group, self.groups_partition_count) == self.groups_partition


@dataclass(slots=True, kw_only=True)
class DiskFault(Entry):
    """The disk began to fail, or to be full."""


@dataclass(slots=True, kw_only=True)
class Lost(Entry):
    """A partition loses its records from ``offset`` on.

    An unclean election took them, or a leader that an uncleanly elected one has replaced.
    """

    partition: TopicPartition
    offset: int


@dataclass(slots=True, kw_only=True)
class Refused(Entry):
    """A response, or a part of one, with an error code; ``text`` is its message, or the part
    itself.
    """

    api_key: int
    code: ErrorCode
    text: str


@dataclass(slots=True, kw_only=True)
class Waited(Entry):
    """A response, so many seconds after it could have been made."""

    what: str
    late_seconds: float


@dataclass(slots=True, kw_only=True)
class Final(Entry):
    """A partition as it was read to its end after everything had calmed down."""

    partition: TopicPartition
    log_start_offset: int
    high_watermark: int
    records: list[SeenRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """The promises of a topic.

    With ``is_synced`` its records survive the loss of power. With ``is_trimmed`` its start may
    move. With ``is_moved`` it may change brokers, and has several replicas meanwhile, whatever it
    has otherwise. With ``is_unclean`` it may be led by a replica that lacks committed records, if
    no other one is there.

    ``is_compacted``: a record may go once a later one has its key, and a tombstone after a while.
    With more than one replica ``is_synced`` says that the loss of power never takes a record, be it
    that each replica syncs first or that power goes on one machine at a time. -1 replicas is the
    cluster's default.
    """

    name: str
    partition_count: int
    is_synced: bool
    is_trimmed: bool = False
    is_compacted: bool = False
    is_moved: bool = False
    is_unclean: bool = False
    replication_factor: int = -1
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class History:
    """Everything that happened, and what was promised. ``now`` tells the time."""

    now: Callable[[], float]
    topics: dict[str, TopicPlan] = field(default_factory=dict)
    are_offsets_synced: bool = True
    entries: list[Entry] = field(default_factory=list)
    _length: int = 0

    def add(self, entry: E) -> E:
        """Note that something happened, or began."""
        entry.at, entry.time = self._next(), self.now()
        self.entries.append(entry)
        return entry

    def end(self, operation: Operation, error: object = None) -> None:
        """Note that an operation is over."""
        operation.ended_at, operation.ended_time = self._next(), self.now()
        operation.is_ok = error is None
        operation.error = "" if error is None else f"{type(error).__name__}: {error}"

    def of(self, kind: type[E]) -> Iterator[E]:
        """The entries of one kind, in order."""
        return (entry for entry in self.entries if isinstance(entry, kind))

    @property
    def place(self) -> int:
        """The last place of the history so far."""
        return self._length

    def _next(self) -> int:
        self._length += 1
        return self._length
