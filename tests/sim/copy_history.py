"""Entries tell the actions and the results of transactional clients.

They stand in a ``node_history`` beside those of other clients, and ``copy_checker`` judges them.

Decides nothing. A row is a record that is written in a transaction; its value names the
transaction, and what it was copied from, so that a reader's record says all of that by itself.
"""

from dataclasses import dataclass, field
from enum import Enum

from log_service.common.types import TopicPartition
from tests.sim.node_history import NEVER, Entry, Operation, SeenRecord


class Outcome(Enum):
    """A client's knowledge of the end of its transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True, eq=False)
class Transact(Operation):
    """One transaction of one life of a client, from its begin on.

    ``asked_at`` is the place from which on it may be committed. ``rows`` are the values that were
    sent, each with its partition; ``offsets`` those of which the producer was told. ``read`` is
    what of the input the transaction has copied: per partition [start, end), the end of which its
    group commits with it. ``is_fenced``: the client was told that another one has its place.
    """

    producer: str
    transactional_id: str
    number: int
    timeout_seconds: float
    asked_at: int = NEVER
    outcome: Outcome = Outcome.OPEN
    is_fenced: bool = False
    rows: dict[str, TopicPartition] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    read: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def name(self) -> str:
        return f"{self.producer}#{self.number}"

    def __str__(self) -> str:
        return f"transaction {self.name} of {self.transactional_id} ({self.outcome.value}, asked at {self.asked_at}, {len(self.rows)} rows)"


@dataclass(slots=True, kw_only=True)
class AskedToCommit(Entry):
    """A client is about to ask for the commit of its transaction."""

    transact: Transact


@dataclass(slots=True, kw_only=True)
class Initialized(Operation):
    """A life of a client took a transactional id; from its end on every earlier life is fenced."""

    producer: str
    transactional_id: str


@dataclass(slots=True, kw_only=True)
class CommittedPoll(Entry):
    """The records of one partition that a reader of committed records got at once.

    ``is_fresh``: it may begin anywhere.
    """

    consumer: str
    partition: TopicPartition
    records: list[SeenRecord]
    is_fresh: bool


@dataclass(slots=True, kw_only=True)
class Resumed(Entry):
    """A copier begins with a partition of the input at the committed offset of its group.

    It asked for that at ``asked_at`` or later.

    ``is_split``: a coordinator may not know that it has a successor, and say what it knew, as with
    Apache Kafka.
    """

    consumer: str
    partition: TopicPartition
    offset: int
    asked_at: int
    is_split: bool = False


@dataclass(slots=True, kw_only=True)
class StableOffset(Operation):
    """The response to a request for stable positions of the group of copiers. -1 is no position.

    ``is_split``: see ``Resumed``.
    """

    partition: TopicPartition
    offset: int = -1
    is_split: bool = False


@dataclass(slots=True, kw_only=True)
class Owned(Entry):
    """A member of a group holds these partitions of one generation from now on, and nothing else."""

    group: str
    member_id: str
    generation_id: int
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True, kw_only=True)
class FinalRows(Entry):
    """A partition of rows as a reader of committed records sees it once all is calm.

    It has all rows from start to end.
    """

    partition: TopicPartition
    records: list[SeenRecord]


@dataclass(slots=True, kw_only=True)
class FinalInput(Entry):
    """How far the input of a partition reaches once all is calm: [start, end), each offset a
    record.
    """

    partition: TopicPartition
    end: int


def copied_value(transact: Transact, partition: TopicPartition, offset: int) -> str:
    """Return the value of the row that copies a record of the input."""
    return f"{transact.name}|{partition.topic}/{partition.partition}@{offset}"


def source_of(value: str) -> tuple[TopicPartition, int] | None:
    """Return the partition and offset of the input of which a row is a copy.

    None if a writer made it up.
    """
    _, _, source = value.partition("|")
    place, at, offset = source.partition("@")
    if not at:
        return None
    topic, _, partition = place.partition("/")
    return TopicPartition(topic, int(partition)), int(offset)
