"""Divide the tasks of a streams group among its members (KIP-1071).

An active task stays with its last active member. Otherwise it goes to a member that had it as
standby. Both get it only if they have less than their share of the tasks. Otherwise it goes to the
process with the least load. A standby task goes to a member that had it as active or standby and
has less than its share, or else to the process with the least load that does not have the task. If
there are too few processes, fewer standby tasks are assigned than wanted. This file knows neither
groups nor the log.

Invariants: Every task is active exactly once. No process has a task twice. The result does not
depend on the order of the arguments. Among equally loaded members, the choice differs from Kafka's
choice, which depends on its hash maps.

Source: the sticky assignor of Kafka 4.3. It ignores racks, client tags and warmup tasks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from log_service.coordinator.group.values.streams_tasks import Tasks, TaskSet


class TaskId(NamedTuple):
    """One task of a subtopology, for one partition number."""

    subtopology_id: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMember:
    """The input of the assignor for one member. ``last_target`` is its previous target."""

    member_id: str
    process_id: str
    last_target: Tasks = field(default_factory=Tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCount:
    """The number of tasks of a subtopology.

    Only stateful tasks get standby tasks.
    """

    count: int
    is_stateful: bool


def assign_sticky(
    members: Sequence[TaskMember], subtopologies: Mapping[str, TaskCount], standby_count: int
) -> dict[str, Tasks]:
    """Return the target of each member. Each stateful task gets ``standby_count`` standby tasks."""
    if not members:
        return {}
    division = _Division(
        sorted(members, key=lambda member: member.member_id), subtopologies, standby_count
    )
    division.assign_active(_tasks_of(subtopologies))
    if standby_count > 0:
        division.assign_standby(
            _tasks_of({each: count for each, count in subtopologies.items() if count.is_stateful}),
            standby_count,
        )
    return {member.member_id: division.target_of(member.member_id) for member in members}


def _tasks_of(subtopologies: Mapping[str, TaskCount]) -> list[TaskId]:
    return [
        TaskId(each, partition)
        for each in sorted(subtopologies)
        for partition in range(subtopologies[each].count)
    ]


def _by_partition(task: TaskId) -> tuple[int, str]:
    return task.partition, task.subtopology_id


class _Process:
    """The members of one instance of the application, and the tasks assigned to it so far."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.member_ids: list[str] = []
        self.tasks: set[TaskId] = set()
        self.by_count: list[tuple[int, str]] | None = None
        """A heap of the members, fewest tasks first. None means that it must be rebuilt."""

    @property
    def load(self) -> float:
        """The number of tasks per member."""
        return len(self.tasks) / len(self.member_ids)


class _Share:
    """The largest number of tasks that a member may have now (``most``).

    This is the number of remaining tasks divided by the number of members that may have more,
    rounded up.
    """

    def __init__(self, task_count: int, member_count: int) -> None:
        self._task_count = task_count
        self._member_count = member_count
        self.most = -(-task_count // member_count)

    def note(self, count: int) -> None:
        """Take a member's new number of tasks into account.

        A member that has its full share no longer counts. The other members share the remaining
        tasks.
        """
        if count == self.most:
            self._member_count -= 1
            self._task_count -= count
            self.most = -(-self._task_count // self._member_count) if self._member_count > 0 else 0


class _Division:
    """A computation of targets in progress, with the tasks that each member has got so far."""

    def __init__(
        self,
        members: Sequence[TaskMember],
        subtopologies: Mapping[str, TaskCount],
        standby_count: int,
    ) -> None:
        active_count = sum(each.count for each in subtopologies.values())
        stateful_count = sum(each.count for each in subtopologies.values() if each.is_stateful)
        self._active_share = _Share(active_count, len(members))
        self._share = _Share(active_count + stateful_count * standby_count, len(members))
        self._processes: dict[str, _Process] = {}
        self._process_of: dict[str, _Process] = {}
        self._counts = {member.member_id: 0 for member in members}
        self._active: dict[str, set[TaskId]] = {member.member_id: set() for member in members}
        self._standby: dict[str, set[TaskId]] = {member.member_id: set() for member in members}
        self._was_active: dict[TaskId, str] = {}
        self._was_standby: dict[TaskId, list[str]] = {}
        for member in members:
            self._add(member)

    def _add(self, member: TaskMember) -> None:
        process = self._processes.setdefault(member.process_id, _Process(member.process_id))
        process.member_ids.append(member.member_id)
        self._process_of[member.member_id] = process
        for task in _each(member.last_target.active):
            self._was_active[task] = member.member_id
        for task in _each(member.last_target.standby):
            self._was_standby.setdefault(task, []).append(member.member_id)

    def target_of(self, member_id: str) -> Tasks:
        """Return the target of a member."""
        return Tasks(
            active=_by_subtopology(self._active[member_id]),
            standby=_by_subtopology(self._standby[member_id]),
        )

    # Active tasks

    def assign_active(self, tasks: list[TaskId]) -> None:
        """Assign every task as active to one member."""
        rest = [task for task in sorted(tasks, key=_by_partition) if not self._stays_active(task)]
        rest = [task for task in rest if not self._becomes_active(task)]
        processes = self._by_load()
        for task in sorted(rest):
            _, process_id = heappop(processes)
            process = self._processes[process_id]
            self._give_to_least_loaded(process, task, self._active)
            heappush(processes, (process.load, process_id))

    def _stays_active(self, task: TaskId) -> bool:
        return self._maybe_give(self._was_active.get(task), task, self._active, self._active_share)

    def _becomes_active(self, task: TaskId) -> bool:
        return self._maybe_give(
            self._least_loaded(self._was_standby.get(task, ())),
            task,
            self._active,
            self._active_share,
        )

    # Standby tasks

    def assign_standby(self, tasks: list[TaskId], standby_count: int) -> None:
        """Assign every task as standby to ``standby_count`` members, if there are enough processes.

        Each of these members is on a process that does not have the task.
        """
        missing: dict[TaskId, int] = {}
        for task in sorted(tasks, key=_by_partition, reverse=True):
            kept_count = 0
            while kept_count < standby_count and self._stays_standby(task):
                kept_count += 1
            missing[task] = standby_count - kept_count
        processes = self._by_load()
        for task in sorted(missing, reverse=True):
            for _ in range(missing[task]):
                if not self._give_standby(task, processes):
                    break

    def _stays_standby(self, task: TaskId) -> bool:
        """Assign a standby task to a member that had the task before and may have more tasks.

        Return whether there is such a member.
        """
        was_active = self._was_active.get(task)
        if (
            was_active is not None
            and self._is_new_to(was_active, task)
            and self._maybe_give(was_active, task, self._standby, self._share)
        ):
            return True
        candidates = [
            member_id
            for member_id in self._was_standby.get(task, ())
            if self._is_new_to(member_id, task)
        ]
        return self._maybe_give(self._least_loaded(candidates), task, self._standby, self._share)

    def _is_new_to(self, member_id: str, task: TaskId) -> bool:
        """Whether a member's process does not have a task yet."""
        return task not in self._process_of[member_id].tasks

    def _give_standby(self, task: TaskId, processes: list[tuple[float, str]]) -> bool:
        """Assign a task to the least loaded process without it.

        Return whether there is such a process.
        """
        passed: list[tuple[float, str]] = []
        is_given = False
        while processes and not is_given:
            load, process_id = heappop(processes)
            process = self._processes[process_id]
            if task not in process.tasks:
                self._give_to_least_loaded(process, task, self._standby)
                is_given, load = True, process.load
            passed.append((load, process_id))
        for each in passed:
            heappush(processes, each)
        return is_given

    # Active and standby tasks

    def _by_load(self) -> list[tuple[float, str]]:
        processes = [(process.load, process.process_id) for process in self._processes.values()]
        heapify(processes)
        return processes

    def _least_loaded(self, member_ids: Iterable[str]) -> str | None:
        """Return the member on the least loaded process, or None. The fewest tasks break a tie."""
        return min(
            member_ids,
            key=lambda each: (self._process_of[each].load, self._counts[each], each),
            default=None,
        )

    def _give_to_least_loaded(
        self, process: _Process, task: TaskId, role: dict[str, set[TaskId]]
    ) -> None:
        if process.by_count is None:
            process.by_count = [(self._counts[each], each) for each in process.member_ids]
            heapify(process.by_count)
        _, member_id = heappop(process.by_count)
        self._give(member_id, task, role)
        heappush(process.by_count, (self._counts[member_id], member_id))

    def _maybe_give(
        self, member_id: str | None, task: TaskId, role: dict[str, set[TaskId]], share: _Share
    ) -> bool:
        if member_id is None or self._counts[member_id] >= share.most:
            return False
        self._give(member_id, task, role)
        self._process_of[member_id].by_count = None
        return True

    def _give(self, member_id: str, task: TaskId, role: dict[str, set[TaskId]]) -> None:
        role[member_id].add(task)
        self._process_of[member_id].tasks.add(task)
        self._counts[member_id] += 1
        if role is self._active:
            self._active_share.note(self._counts[member_id])
        self._share.note(self._counts[member_id])


def _each(tasks: TaskSet) -> Iterable[TaskId]:
    return (
        TaskId(subtopology_id, partition)
        for subtopology_id, each in tasks.items()
        for partition in each
    )


def _by_subtopology(tasks: Iterable[TaskId]) -> TaskSet:
    found: dict[str, set[int]] = {}
    for task in sorted(tasks):
        found.setdefault(task.subtopology_id, set()).add(task.partition)
    return {subtopology_id: frozenset(partitions) for subtopology_id, partitions in found.items()}
