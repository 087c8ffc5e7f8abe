"""The assignor of streams groups makes every task active once.

Standby tasks are on other processes, and tasks stay where they are.
"""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from log_service.coordinator.group.streams.assignor import TaskCount, TaskMember, assign_sticky
from log_service.coordinator.group.values.streams_tasks import Tasks, TaskSet

Targets = dict[str, Tasks]
STATEFUL = {"0": TaskCount(count=4, is_stateful=True)}


def flat(tasks: TaskSet) -> set[tuple[str, int]]:
    return {(each, partition) for each, partitions in tasks.items() for partition in partitions}


def members(processes: dict[str, str], last: Targets | None = None) -> list[TaskMember]:
    targets = last or {}
    return [
        TaskMember(member_id=each, process_id=process, last_target=targets.get(each, Tasks()))
        for each, process in processes.items()
    ]


def sizes(targets: Targets) -> dict[str, tuple[int, int]]:
    return {
        each: (len(flat(tasks.active)), len(flat(tasks.standby))) for each, tasks in targets.items()
    }


def validate(targets: Targets, processes: dict[str, str], counts: dict[str, TaskCount]) -> None:
    active = [task for tasks in targets.values() for task in flat(tasks.active)]
    assert sorted(active) == [
        (each, partition) for each in sorted(counts) for partition in range(counts[each].count)
    ], "each active once"
    held = Counter(
        (processes[each], task)
        for each, tasks in targets.items()
        for role in (tasks.active, tasks.standby)
        for task in flat(role)
    )
    assert all(count == 1 for count in held.values()), "a process has a task in one role, and once"
    assert all(
        counts[task[0]].is_stateful for tasks in targets.values() for task in flat(tasks.standby)
    )


processes_of_members = st.dictionaries(
    st.sampled_from("abcdefgh"), st.sampled_from(["p", "q", "r", "s"]), min_size=1
)
subtopologies = st.dictionaries(
    st.sampled_from(["0", "1", "2"]),
    st.builds(TaskCount, count=st.integers(1, 7), is_stateful=st.booleans()),
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@given(
    lives=st.lists(processes_of_members, min_size=1, max_size=4),
    counts=subtopologies,
    standby_count=st.integers(0, 2),
)
def test_any_sequence_of_groups_is_assigned_fairly(
    lives: list[dict[str, str]], counts: dict[str, TaskCount], standby_count: int
) -> None:
    targets: Targets = {}
    for processes in lives:
        before = {each: tasks for each, tasks in targets.items() if each in processes}
        targets = assign_sticky(members(processes, before), counts, standby_count)
        validate(targets, processes, counts)
        process_count = len(set(processes.values()))
        copies = Counter(task for tasks in targets.values() for task in flat(tasks.standby))
        wanted = min(standby_count, process_count - 1)
        for each, count in counts.items():
            for partition in range(count.count):
                assert copies[each, partition] == (wanted if count.is_stateful else 0)
        assert (
            assign_sticky(list(reversed(members(processes, before))), counts, standby_count)
            == targets
        )


@settings(max_examples=100, deadline=None)
@given(processes=processes_of_members, counts=subtopologies, standby_count=st.integers(0, 2))
def test_no_member_with_no_more_than_its_share_loses_a_task(
    processes: dict[str, str], counts: dict[str, TaskCount], standby_count: int
) -> None:
    once = assign_sticky(members(processes), counts, standby_count)
    again = assign_sticky(members(processes, once), counts, standby_count)
    share = sum(count.count for count in counts.values()) // len(processes)
    for each in processes:
        before, after = flat(once[each].active), flat(again[each].active)
        assert len(before & after) >= min(len(before), share)


def test_members_of_one_process_share_its_load() -> None:
    targets = assign_sticky(
        members({"a": "p", "b": "p", "c": "q", "d": "q"}),
        {"0": TaskCount(count=8, is_stateful=False)},
        0,
    )
    assert sizes(targets) == dict.fromkeys("abcd", (2, 0))


def test_a_member_that_joins_takes_its_share_and_the_others_keep_theirs() -> None:
    first = assign_sticky(
        members({"a": "p", "b": "q"}), {"0": TaskCount(count=6, is_stateful=False)}, 0
    )
    then = assign_sticky(
        members({"a": "p", "b": "q", "c": "r"}, first),
        {"0": TaskCount(count=6, is_stateful=False)},
        0,
    )
    assert sizes(then) == dict.fromkeys("abc", (2, 0))
    assert all(flat(then[each].active) <= flat(first[each].active) for each in "ab")


def test_a_standby_task_becomes_active_where_its_state_is() -> None:
    first = assign_sticky(members({"a": "p", "b": "q"}), STATEFUL, 1)
    assert sizes(first) == {"a": (2, 2), "b": (2, 2)}
    assert flat(first["a"].standby) == flat(first["b"].active)
    then = assign_sticky(members({"b": "q", "c": "r"}, {"b": first["b"]}), STATEFUL, 1)
    assert flat(first["b"].active) <= flat(then["b"].active)
    validate(then, {"b": "q", "c": "r"}, STATEFUL)


def test_a_task_that_moves_away_leaves_a_standby_task_behind() -> None:
    alone = assign_sticky(members({"a": "p"}), STATEFUL, 1)
    assert sizes(alone) == {"a": (4, 0)}, "one process has no place for copies"
    both = assign_sticky(members({"a": "p", "b": "q"}, alone), STATEFUL, 1)
    assert sizes(both) == {"a": (2, 2), "b": (2, 2)}
    assert flat(both["a"].standby) == flat(both["b"].active)


def test_a_group_without_members_or_tasks_is_assigned_nothing() -> None:
    assert assign_sticky([], STATEFUL, 1) == {}
    assert assign_sticky(members({"a": "p"}), {}, 1) == {"a": Tasks()}
