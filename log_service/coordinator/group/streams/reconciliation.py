"""The next step of one member of a streams group from its current tasks to its target (KIP-1071).

``reconcile_tasks`` decides from the member's state, its target, the tasks that the member reports,
and the holders of tasks. It keeps the guarantees of the protocol. A task is active on one process
at a time. No process has a task in two roles. A member enters a new epoch only after it has revoked
the tasks that it loses. This file does not know groups, the log or time.

| state | when | next |
|---|---|---|
| STABLE | its epoch is the target's | nothing |
| STABLE | another epoch | compute |
| UNREVOKED_TASKS | it still runs tasks to revoke, or does not report | stay |
| UNREVOKED_TASKS | it has revoked all of them | compute, one epoch further |
| UNRELEASED_TASKS | always | compute |
| UNKNOWN | it runs tasks, or does not report | FENCED_MEMBER_EPOCH |
| UNKNOWN | it runs nothing | compute, in the target's epoch |

*Stay* changes nothing. *One epoch further* raises the member's epoch by one before the computation.

*Compute* keeps the tasks that are both held and in the target. If the member still runs some of the
rest, it becomes UNREVOKED_TASKS in its epoch. Otherwise it enters the target's epoch and gets the
free tasks. It becomes UNRELEASED_TASKS if some are still missing. An active task is free if no
process holds it as active, and the member's own process does not hold it in another role. A standby
or warmup task is free if the member's own process does not hold it in any role.

Source: KIP-1071 as of Kafka 4.3, KIP-1251 (assignment epochs).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.group.values.partitions import merged, split
from log_service.coordinator.group.values.streams_tasks import (
    HeldTasks,
    TaskAssignment,
    Tasks,
    TaskSet,
    TaskState,
    is_running,
)

IsTask = Callable[[str, int], bool]
"""A test of one task. Its arguments are the subtopology id and the partition number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """Predicates that tell whether a process holds a task.

    A process holds a task until it has revoked the task.
    """

    is_active_anywhere: IsTask
    """Whether some process holds the task as active."""
    is_held_here: IsTask
    """Whether the member's own process holds the task in any role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTarget:
    """A member's target tasks in ``epoch``."""

    epoch: int
    tasks: Tasks


def reconcile_tasks(
    current: TaskAssignment, target: TaskTarget, owned: Tasks | None, holders: Holders
) -> TaskAssignment:
    """Return the member's next assignment, which may equal the current one.

    ``owned`` holds the tasks that the member reports, or None if it does not report.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH, the member must join again.
    """
    epoch = current.epoch
    match current.state:
        case TaskState.STABLE if epoch == target.epoch:
            return current
        case TaskState.UNREVOKED_TASKS:
            if owned is None or is_running(owned, current.pending_revocation):
                return current
            epoch += 1
        case TaskState.UNKNOWN:
            if owned is None or owned.active or owned.standby or owned.warmup:
                text = (
                    "The streams group member is in an unknown state. The member must abandon all"
                    " its tasks and rejoin."
                )
                raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)
            epoch = target.epoch
        case _:
            pass
    return _computed(
        replace(current, epoch=epoch, previous_epoch=current.epoch), target, owned, holders
    )


def _computed(
    current: TaskAssignment, target: TaskTarget, owned: Tasks | None, holders: Holders
) -> TaskAssignment:
    held, wanted = current.assigned, target.tasks
    kept_active, lost_active = split(held.active, wanted.active)
    kept_standby, lost_standby = _parted(held.standby, wanted.standby)
    kept_warmup, lost_warmup = _parted(held.warmup, wanted.warmup)
    kept = HeldTasks(active=kept_active, standby=kept_standby, warmup=kept_warmup)
    lost = HeldTasks(active=lost_active, standby=lost_standby, warmup=lost_warmup)
    if lost and (owned is None or is_running(owned, lost)):
        return replace(
            current, state=TaskState.UNREVOKED_TASKS, assigned=kept, pending_revocation=lost
        )
    free_active, is_active_missing = _free(
        wanted.active, held.by_role()[0], partial(_is_free_as_active, holders)
    )
    free_standby, is_standby_missing = _free(
        wanted.standby, held.standby, partial(_is_free_as_copy, holders)
    )
    free_warmup, is_warmup_missing = _free(
        wanted.warmup, held.warmup, partial(_is_free_as_copy, holders)
    )
    is_missing = is_active_missing or is_standby_missing or is_warmup_missing
    added = {
        subtopology_id: dict.fromkeys(sorted(each), target.epoch)
        for subtopology_id, each in free_active.items()
    }
    return TaskAssignment(
        epoch=target.epoch,
        previous_epoch=current.previous_epoch,
        state=TaskState.UNRELEASED_TASKS if is_missing else TaskState.STABLE,
        assigned=HeldTasks(
            active=merged(kept_active, added),
            standby=_joined(kept_standby, free_standby),
            warmup=_joined(kept_warmup, free_warmup),
        ),
    )


def _is_free_as_active(holders: Holders, subtopology_id: str, partition: int) -> bool:
    return not (
        holders.is_active_anywhere(subtopology_id, partition)
        or holders.is_held_here(subtopology_id, partition)
    )


def _is_free_as_copy(holders: Holders, subtopology_id: str, partition: int) -> bool:
    return not holders.is_held_here(subtopology_id, partition)


def _parted(held: TaskSet, wanted: TaskSet) -> tuple[TaskSet, TaskSet]:
    """Split held tasks into wanted and unwanted ones."""
    kept = {
        subtopology_id: both
        for subtopology_id, each in held.items()
        if (both := each & wanted.get(subtopology_id, frozenset()))
    }
    lost = {
        subtopology_id: rest
        for subtopology_id, each in held.items()
        if (rest := each - wanted.get(subtopology_id, frozenset()))
    }
    return kept, lost


def _free(wanted: TaskSet, held: TaskSet, is_free: IsTask) -> tuple[TaskSet, bool]:
    """Return the wanted tasks that the member can get now, and whether some cannot be given yet."""
    free: dict[str, frozenset[int]] = {}
    is_missing = False
    for subtopology_id, partitions in wanted.items():
        new = partitions - held.get(subtopology_id, frozenset())
        found = frozenset(partition for partition in new if is_free(subtopology_id, partition))
        is_missing = is_missing or len(found) < len(new)
        if found:
            free[subtopology_id] = found
    return free, is_missing


def _joined(first: TaskSet, second: TaskSet) -> TaskSet:
    return {
        each: first.get(each, frozenset()) | second.get(each, frozenset())
        for each in {**first, **second}
    }
