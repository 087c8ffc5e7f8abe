"""Entries tell the actions and the results of the instances of a Kafka Streams application.

They stand in a ``node_history``, and ``streams_checker`` judges them.

Decides nothing. An instance is a member of one streams group; each of its lives is a member of its
own. ``term`` is the leader epoch of the group's coordinator that made a response, ``NOT_KNOWN``
where another node may have been elected by then: such a coordinator says what it knew, and nothing
that it says is held against the product, as with Apache Kafka.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.coordinator.group.values.streams_tasks import TaskIdList
from tests.sim.node_history import Entry, Operation

Task = tuple[str, int]
"""A subtopology and a partition number."""
Held = frozenset[Task]
NOT_KNOWN = -1
NOTHING: Held = frozenset()


@dataclass(slots=True, kw_only=True)
class Elected(Entry):
    """A coordinator of this term was elected, not before the time ``after`` (seconds)."""

    term: int
    after: float


@dataclass(slots=True, kw_only=True, eq=False)
class Beat(Operation):
    """A heartbeat. ``owned`` are the active tasks that the member says it runs, None where it says
    nothing.

    ``told_epoch``, ``active`` and ``standby`` are what it was told; None is that nothing has
    changed. ``code`` is the response's error.
    """

    member: str
    process: str
    epoch: int
    topology_epoch: int
    owned: Held | None = None
    is_leaving: bool = False
    term: int = NOT_KNOWN
    told_epoch: int = -1
    active: Held | None = None
    standby: Held | None = None
    statuses: tuple[int, ...] = ()
    code: ErrorCode = ErrorCode.NONE

    @property
    def is_joining(self) -> bool:
        return self.epoch == 0


@dataclass(slots=True, kw_only=True)
class GaveUp(Entry):
    """A member runs these active tasks no more, None for all of them.

    It was told so, has lost its membership, or is dead.
    """

    member: str
    tasks: Held | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class TaskCommit(Operation):
    """A member commits how far it is with a task. ``code`` is the error of the response."""

    member: str
    epoch: int
    task: Task
    partition: TopicPartition
    offset: int
    code: ErrorCode = ErrorCode.NONE


@dataclass(slots=True, kw_only=True, eq=False)
class TaskFetch(Operation):
    """How far a partition is said to be committed; -1 is nothing."""

    partition: TopicPartition
    offset: int = -1
    term: int = NOT_KNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMember:
    """A member as its group is described."""

    process: str
    epoch: int
    active: Held = NOTHING
    standby: Held = NOTHING


@dataclass(slots=True, kw_only=True, eq=False)
class Shown(Operation):
    """A description of the group. ``code`` is the error of the response."""

    state: str = ""
    group_epoch: int = -1
    assignment_epoch: int = -1
    topology_epoch: int = -1
    members: dict[str, ShownMember] = field(default_factory=dict)
    term: int = NOT_KNOWN
    code: ErrorCode = ErrorCode.NONE


def tasks_of(lists: Iterable[TaskIdList]) -> Held:
    """Return the tasks that a message names in one role."""
    return frozenset((each.subtopology_id, index) for each in lists for index in each.partitions)
