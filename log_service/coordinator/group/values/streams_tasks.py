"""The tasks of streams groups (KIP-1071), as values: targets and assignments in three roles.

A task is one partition number of a subtopology. An *active* task processes records and writes. A
*standby* task copies the state of an active task to another process. A *warmup* task copies it
until the task can become active. Kafka 4.3 assigns no warmup tasks, but stores and reports the
list. Each active task has an assignment epoch, so that commits of an older epoch can be validated
(KIP-1251). This file decides nothing.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from log_service.coordinator.group.values.partitions import is_subset, overlaps, without_epochs

TaskSet = Mapping[str, frozenset[int]]
"""Partition numbers by subtopology id. A subtopology without tasks is left out."""
ActiveTasks = Mapping[str, Mapping[int, int]]
"""The assignment epoch of each active task, by subtopology and partition number."""

NO_TASKS: TaskSet = {}


class TaskIdList(Protocol):
    """The type of messages and records that name tasks of one subtopology."""

    subtopology_id: str
    partitions: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """A member's target, or the tasks that it reports."""

    active: TaskSet = field(default_factory=dict)
    standby: TaskSet = field(default_factory=dict)
    warmup: TaskSet = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTasks:
    """Tasks that a member runs or has yet to revoke."""

    active: ActiveTasks = field(default_factory=dict)
    standby: TaskSet = field(default_factory=dict)
    warmup: TaskSet = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def by_role(self) -> tuple[TaskSet, TaskSet, TaskSet]:
        """Return the active, standby and warmup tasks."""
        return without_epochs(self.active), self.standby, self.warmup


NOTHING_HELD = HeldTasks()


class TaskState(IntEnum):
    """The progress of a member towards its target. The log stores the values."""

    STABLE = 1
    """The member runs its target in its epoch."""
    UNREVOKED_TASKS = 2
    """The member must revoke tasks before it may enter the next epoch."""
    UNRELEASED_TASKS = 3
    """The member is in its target's epoch, and waits for tasks that are still held elsewhere."""
    UNKNOWN = 127
    """A state that a newer version of the software wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignment:
    """The tasks that a member runs, its epoch, and the tasks that it has yet to revoke."""

    epoch: int = 0
    previous_epoch: int = 0
    state: TaskState = TaskState.STABLE
    assigned: HeldTasks = NOTHING_HELD
    pending_revocation: HeldTasks = NOTHING_HELD

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member has reached the target assignment of an epoch."""
        return self.state is TaskState.STABLE and self.epoch == target_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMetadata:
    """Metadata of a member.

    Times are in milliseconds. Members with the same ``process_id`` run in one instance of the
    application.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    """Host and port at which the application's clients query the member's state."""
    client_tags: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """One member: its id, its metadata and its current tasks."""

    member_id: str
    metadata: StreamsMetadata = field(default_factory=StreamsMetadata)
    current: TaskAssignment = field(default_factory=TaskAssignment)


def tasks_of(lists: Iterable[TaskIdList]) -> TaskSet:
    """Return the tasks that a message names in one role."""
    found: dict[str, frozenset[int]] = {}
    for each in lists:
        if each.partitions:
            found[each.subtopology_id] = found.get(each.subtopology_id, frozenset()) | frozenset(
                each.partitions
            )
    return found


def is_running(owned: Tasks, held: HeldTasks) -> bool:
    """Whether a member owns one of the tasks in ``held``, in the same role."""
    pairs: tuple[tuple[TaskSet, Mapping[str, Collection[int]]], ...] = (
        (owned.active, held.active),
        (owned.standby, held.standby),
        (owned.warmup, held.warmup),
    )
    return any(overlaps(mine, theirs) for mine, theirs in pairs)


def is_part_of(owned: Tasks, held: HeldTasks) -> bool:
    """Whether all tasks that a member owns are in ``held``, in the same role."""
    return (
        is_subset(owned.active, held.active)
        and is_subset(owned.standby, held.standby)
        and is_subset(owned.warmup, held.warmup)
    )
