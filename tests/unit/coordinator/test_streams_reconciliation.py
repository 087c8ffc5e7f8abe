"""One member's next step, state by state: the table of KIP-1071, and the promise that it keeps."""

import pytest

from log_service.common.errors import KafkaError
from log_service.coordinator.group.streams.reconciliation import (
    Holders,
    TaskTarget,
    reconcile_tasks,
)
from log_service.coordinator.group.values.streams_tasks import (
    NOTHING_HELD,
    HeldTasks,
    TaskAssignment,
    Tasks,
    TaskState,
)

STABLE, UNREVOKED, UNRELEASED, UNKNOWN = (
    TaskState.STABLE,
    TaskState.UNREVOKED_TASKS,
    TaskState.UNRELEASED_TASKS,
    TaskState.UNKNOWN,
)
ROLES = ("active", "standby", "warmup")


def tasks(**roles: set[int]) -> Tasks:
    return Tasks(**{role: {"0": frozenset(each)} for role, each in roles.items() if each})


def held(epoch: int = 5, **roles: set[int]) -> HeldTasks:
    named = {
        role: {"0": frozenset(each)} for role, each in roles.items() if each and role != "active"
    }
    active = roles.get("active", set())
    return HeldTasks(active={"0": dict.fromkeys(sorted(active), epoch)} if active else {}, **named)


def holders(elsewhere: set[int] = frozenset(), here: set[int] = frozenset()) -> Holders:  # type: ignore[assignment]
    return Holders(
        is_active_anywhere=lambda _, index: index in elsewhere,
        is_held_here=lambda _, index: index in here,
    )


FREE = holders()


def at(
    epoch: int,
    state: TaskState = STABLE,
    assigned: HeldTasks = NOTHING_HELD,
    pending: HeldTasks = NOTHING_HELD,
) -> TaskAssignment:
    return TaskAssignment(
        epoch=epoch,
        previous_epoch=epoch - 1,
        state=state,
        assigned=assigned,
        pending_revocation=pending,
    )


def test_a_stable_member_in_the_targets_epoch_stays() -> None:
    current = at(5, assigned=held(active={1}))
    assert (
        reconcile_tasks(current, TaskTarget(epoch=5, tasks=tasks(active={2})), None, FREE)
        is current
    )


def test_free_tasks_are_taken_in_the_targets_epoch() -> None:
    after = reconcile_tasks(
        at(5, assigned=held(active={1})),
        TaskTarget(epoch=7, tasks=tasks(active={1, 2}, standby={3})),
        None,
        FREE,
    )
    assert (after.epoch, after.previous_epoch, after.state) == (7, 5, STABLE)
    assert after.assigned.active == {"0": {1: 5, 2: 7}}, (
        "a task that stays keeps the epoch in which it was assigned"
    )
    assert after.assigned.standby == {"0": frozenset({3})}


@pytest.mark.parametrize("role", ROLES)
def test_what_is_lost_is_given_up_first_in_the_old_epoch(role: str) -> None:
    current = at(5, assigned=held(5, **{role: {1, 2}}))
    target = TaskTarget(
        epoch=6, tasks=tasks(**{role: {2}, "active": {2, 3} if role == "active" else {3}})
    )
    for owned in (None, tasks(**{role: {1, 2}})):
        after = reconcile_tasks(current, target, owned, FREE)
        assert (after.epoch, after.previous_epoch, after.state) == (5, 5, UNREVOKED)
        assert (after.assigned, after.pending_revocation) == (
            held(5, **{role: {2}}),
            held(5, **{role: {1}}),
        )
    given_up = reconcile_tasks(current, target, tasks(**{role: {2}}), FREE)
    assert (given_up.epoch, given_up.state, given_up.pending_revocation) == (
        6,
        STABLE,
        NOTHING_HELD,
    )


@pytest.mark.parametrize("owned", [None, tasks(active={1}), tasks(active={1, 2})])
def test_a_member_that_still_runs_what_it_lost_stays(owned: Tasks | None) -> None:
    current = at(5, UNREVOKED, held(active={2}), held(active={1}))
    assert (
        reconcile_tasks(current, TaskTarget(epoch=9, tasks=tasks(active={7})), owned, FREE)
        is current
    )


def test_a_member_that_gave_up_goes_on_and_may_have_to_give_up_more_in_the_next_epoch() -> None:
    current = at(5, UNREVOKED, held(active={2}), held(active={1}))
    after = reconcile_tasks(
        current, TaskTarget(epoch=9, tasks=tasks(active={7})), tasks(active={2}), FREE
    )
    assert (after.epoch, after.previous_epoch, after.state, after.pending_revocation) == (
        6,
        5,
        UNREVOKED,
        held(active={2}),
    )
    done = reconcile_tasks(after, TaskTarget(epoch=9, tasks=tasks(active={7})), tasks(), FREE)
    assert (done.epoch, done.previous_epoch, done.state, done.assigned) == (
        9,
        6,
        STABLE,
        held(9, active={7}),
    )


def test_a_task_in_another_role_is_not_the_same() -> None:
    current = at(5, UNREVOKED, NOTHING_HELD, held(active={1}))
    after = reconcile_tasks(current, TaskTarget(epoch=6, tasks=tasks()), tasks(standby={1}), FREE)
    assert (after.epoch, after.state) == (6, STABLE)


@pytest.mark.parametrize(
    ("role", "who", "is_free"),
    [
        ("active", holders(elsewhere={1}), False),
        ("active", holders(here={1}), False),
        ("active", FREE, True),
        ("standby", holders(elsewhere={1}), True),  # the copy of a task that runs elsewhere
        ("standby", holders(here={1}), False),
        ("standby", FREE, True),
        ("warmup", holders(elsewhere={1}), True),
        ("warmup", holders(here={1}), False),
    ],
)
def test_a_task_is_free_by_its_role_and_its_holders(role: str, who: Holders, is_free: bool) -> None:
    after = reconcile_tasks(at(5), TaskTarget(epoch=6, tasks=tasks(**{role: {1}})), None, who)
    assert (after.epoch, after.state) == (6, STABLE if is_free else UNRELEASED)
    assert bool(after.assigned) is is_free
    later = reconcile_tasks(after, TaskTarget(epoch=6, tasks=tasks(**{role: {1}})), None, FREE)
    assert (later.epoch, later.state, later.assigned) == (6, STABLE, held(6, **{role: {1}}))


def test_a_state_of_newer_software_has_the_member_begin_anew() -> None:
    current = at(5, UNKNOWN, held(active={1}))
    target = TaskTarget(epoch=6, tasks=tasks(active={1}))
    for owned in (None, tasks(active={1})):
        with pytest.raises(KafkaError, match="unknown state"):
            reconcile_tasks(current, target, owned, FREE)
    assert reconcile_tasks(current, target, tasks(), FREE).state is STABLE
