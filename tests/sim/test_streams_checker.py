"""The judge of a streams group passes a group as it should be.

It names each broken promise.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from tests.sim.node_history import Entry, History, Operation
from tests.sim.streams_checker import StreamsChecker, missing_tasks
from tests.sim.streams_history import (
    NOT_KNOWN,
    Beat,
    Elected,
    GaveUp,
    Held,
    Shown,
    ShownMember,
    Task,
    TaskCommit,
    TaskFetch,
)

SESSION_SECONDS = 10.0
T0, T1 = ("0", 0), ("0", 1)
WHERE = TopicPartition("safe", 0)
ONE_OWNER = ["a task has one active owner"]
GO_BACK = ["epochs never go back"]
STALE = ["a stale commit is refused"]


class Story:
    """A history that is told, and what its judge says. Each thing that happens takes a second."""

    def __init__(self) -> None:
        self.rules: list[str] = []
        self.time = 0.0
        self._history = History(self._next)
        self._checker = StreamsChecker(
            lambda rule, _text: self.rules.append(rule),
            session_seconds=SESSION_SECONDS,
            topology_epoch=1,
        )

    def _next(self) -> float:
        self.time += 1
        return self.time

    def wait(self, seconds: float) -> None:
        self.time += seconds

    def add(self, entry: Entry) -> None:
        self._checker.note(self._history.add(entry))

    def end(self, operation: Operation, code: ErrorCode = ErrorCode.NONE) -> None:
        self._history.end(operation, code.name if code else None)
        self._checker.note_ended(operation)

    def do(self, operation: Operation, code: ErrorCode = ErrorCode.NONE) -> None:
        self.add(operation)
        self.end(operation, code)

    def beat(
        self,
        member: str,
        epoch: int,
        told_epoch: int,
        active: Iterable[Task] | None = None,
        *,
        owned: Iterable[Task] | None = None,
        term: int = 1,
        code: ErrorCode = ErrorCode.NONE,
        **more: Any,
    ) -> None:
        """A heartbeat in an epoch, and the epoch and the active tasks that it was told."""
        options: dict[str, Any] = {
            "topology_epoch": 1,
            "process": f"process of {member}",
            "standby": frozenset(),
            **more,
        }
        told: dict[str, Any] = {
            "told_epoch": told_epoch,
            "active": _held(active),
            "term": term,
            "code": code,
        }
        self.do(Beat(member=member, epoch=epoch, owned=_held(owned), **told, **options), code)

    def join(self, member: str, told_epoch: int, active: Iterable[Task], **more: Any) -> None:
        self.beat(member, 0, told_epoch, active, owned=(), **more)

    def leave(self, member: str, epoch: int, **more: Any) -> None:
        self.give_up(member)
        self.beat(member, epoch, -1, is_leaving=True, **more)

    def give_up(self, member: str, *tasks: Task) -> None:
        self.add(GaveUp(member=member, tasks=frozenset(tasks) if tasks else None))

    def commit(
        self,
        member: str,
        epoch: int,
        offset: int = 5,
        code: ErrorCode = ErrorCode.NONE,
        task: Task = T0,
    ) -> None:
        self.do(
            TaskCommit(
                member=member, epoch=epoch, task=task, partition=WHERE, offset=offset, code=code
            ),
            code,
        )

    def fetch(self, offset: int, term: int = 1) -> None:
        self.do(TaskFetch(partition=WHERE, offset=offset, term=term))

    def show(
        self,
        group_epoch: int,
        assignment_epoch: int,
        members: dict[str, ShownMember] | None = None,
        term: int = 1,
    ) -> None:
        """A description of the group, with its members by name."""
        shown = Shown(
            group_epoch=group_epoch,
            assignment_epoch=assignment_epoch,
            topology_epoch=1,
            members=members or {},
            term=term,
        )
        self.do(shown)


def _held(tasks: Iterable[Task] | None) -> Held | None:
    return None if tasks is None else frozenset(tasks)


@pytest.fixture
def story() -> Story:
    return Story()


# One active owner


def test_a_task_that_is_given_up_goes_to_another_member(story: Story) -> None:
    story.join("a", 2, [T0, T1])
    story.join("b", 3, [])
    story.beat("a", 2, 2, [T0])
    story.give_up("a", T1)
    story.beat("a", 2, 3, owned=[T0])
    story.beat("b", 3, 3, [T1])
    assert not story.rules


def test_a_task_is_told_to_another_before_it_was_given_up(story: Story) -> None:
    story.join("a", 2, [T0])
    story.join("b", 3, [T0])
    assert story.rules == ONE_OWNER


def test_a_task_that_was_revoked_but_not_given_up_yet_is_its_owners(story: Story) -> None:
    story.join("a", 2, [T0])
    story.beat("a", 2, 2, [])
    story.join("b", 3, [T0])
    assert story.rules == ONE_OWNER


@pytest.mark.parametrize("how", ["left", "dead", "fenced"])
def test_who_is_gone_owns_nothing(story: Story, how: str) -> None:
    story.join("a", 2, [T0])
    if how == "left":
        story.leave("a", 2)
    elif how == "dead":
        story.give_up("a")
    else:
        story.beat("a", 2, -1, code=ErrorCode.UNKNOWN_MEMBER_ID)
        story.give_up("a")
    story.join("b", 3, [T0])
    assert not story.rules


def test_a_member_that_is_silent_for_a_session_owns_nothing(story: Story) -> None:
    story.join("a", 2, [T0])
    story.wait(SESSION_SECONDS - 4)
    story.join("b", 3, [T0])
    assert story.rules == ONE_OWNER, "it was a second too early"


def test_the_tasks_of_a_member_that_was_silent_for_a_session_are_free(story: Story) -> None:
    story.join("a", 2, [T0])
    story.wait(SESSION_SECONDS)
    story.join("b", 3, [T0])
    assert not story.rules


def test_a_new_coordinator_gives_members_a_whole_session(story: Story) -> None:
    story.join("a", 2, [T0])
    story.wait(SESSION_SECONDS - 4)
    story.add(Elected(term=2, after=story.time))
    story.wait(4)
    story.join("b", 3, [T0], term=2)
    assert story.rules == ONE_OWNER
    story.give_up("b")
    story.wait(SESSION_SECONDS)
    story.join("c", 4, [T0], term=2)
    assert story.rules == ONE_OWNER, "nothing was heard of the first one for a whole session"


def test_the_coordinator_before_may_have_removed_a_member(story: Story) -> None:
    story.join("a", 2, [T0])
    story.wait(SESSION_SECONDS)
    story.add(Elected(term=2, after=story.time))
    story.join("b", 3, [T0], term=2)
    assert not story.rules


def test_a_coordinator_that_was_succeeded_extends_no_session_and_gives_no_task_away(
    story: Story,
) -> None:
    story.join("a", 2, [T0])
    story.add(Elected(term=2, after=story.time))
    story.join("b", 3, [T0], term=NOT_KNOWN)
    story.wait(SESSION_SECONDS)
    story.beat("a", 2, 2, term=NOT_KNOWN)
    story.join("c", 3, [T0], term=2)
    assert not story.rules


# Revoked tasks, epochs


def test_a_task_that_was_revoked_is_told_again_in_the_same_epoch(story: Story) -> None:
    story.join("a", 2, [T0, T1])
    story.beat("a", 2, 2, [T0])
    story.beat("a", 2, 2, [T0, T1])
    assert story.rules == ["a member never keeps what it had to give up"]


def test_a_task_that_was_revoked_may_come_back_in_a_later_epoch_or_with_a_new_beginning(
    story: Story,
) -> None:
    story.join("a", 2, [T0, T1])
    story.beat("a", 2, 2, [T0])
    story.give_up("a", T1)
    story.beat("a", 2, 4, [T0, T1], owned=[T0])
    story.give_up("a")
    story.join("a", 4, [T0, T1])
    assert not story.rules


def test_epochs_of_members_go_back(story: Story) -> None:
    story.join("a", 4, [])
    story.beat("a", 4, 3)
    assert story.rules == GO_BACK


def test_epochs_of_members_go_back_over_a_failover_or_a_new_beginning(story: Story) -> None:
    story.join("a", 4, [])
    story.add(Elected(term=2, after=story.time))
    story.join("a", 2, [], term=2)
    assert story.rules == GO_BACK


def test_epochs_of_the_group_go_back(story: Story) -> None:
    story.show(4, 4)
    story.show(4, 4)
    assert not story.rules
    story.show(3, 3)
    story.show(5, 3)
    assert story.rules == [*GO_BACK, *GO_BACK]


def test_the_group_is_behind_what_a_member_was_told(story: Story) -> None:
    story.join("a", 4, [])
    story.show(3, 3)
    assert story.rules == GO_BACK


def test_a_member_is_ahead_of_its_group(story: Story) -> None:
    story.show(4, 3, {"a": ShownMember(process="p", epoch=4)})
    story.show(4, 5)
    assert story.rules == ["no member is ahead of its group"] * 2


# Offsets


def _give_up_and_tell(story: Story) -> None:
    story.join("a", 2, [T0])
    story.beat("a", 2, 2, [])
    story.give_up("a", T0)
    story.beat("a", 2, 3, owned=[])


def test_commits_of_owners_count_and_stale_ones_are_refused(story: Story) -> None:
    story.join("a", 2, [T0])
    story.commit("a", 2, 5)
    story.beat("a", 2, 2, [])
    story.commit("a", 2, 6)
    story.give_up("a", T0)
    story.beat("a", 2, 3, owned=[])
    story.commit("a", 2, 1_000, ErrorCode.STALE_MEMBER_EPOCH)
    story.fetch(6)
    assert not story.rules


def test_a_commit_for_a_task_that_was_given_up_is_accepted(story: Story) -> None:
    _give_up_and_tell(story)
    story.commit("a", 2)
    assert story.rules == STALE


def test_a_commit_for_a_task_that_came_back_is_as_it_should_be(story: Story) -> None:
    _give_up_and_tell(story)
    story.beat("a", 3, 3, [T0])
    story.commit("a", 3)
    assert not story.rules


def test_a_commit_of_a_member_that_left_is_accepted(story: Story) -> None:
    story.join("a", 2, [T0])
    story.leave("a", 2)
    story.commit("a", 2)
    assert story.rules == STALE


def test_a_commit_of_a_member_that_was_removed_is_accepted(story: Story) -> None:
    story.join("a", 2, [T0])
    story.beat("a", 2, -1, code=ErrorCode.UNKNOWN_MEMBER_ID)
    story.join("b", 3, [])
    story.commit("a", 2)
    assert story.rules == STALE


def test_a_commit_of_a_member_whose_task_another_one_has_is_accepted(story: Story) -> None:
    story.join("a", 2, [T0])
    story.wait(SESSION_SECONDS)
    story.join("b", 3, [T0])
    story.commit("b", 3, 7)
    assert not story.rules
    story.commit("a", 2, 8)
    assert story.rules == STALE


def test_a_refused_commit_counts(story: Story) -> None:
    story.join("a", 2, [T0])
    story.commit("a", 2, 9, ErrorCode.STALE_MEMBER_EPOCH)
    story.fetch(9)
    assert story.rules == ["what was refused is not committed"]


def test_a_commit_of_which_nothing_was_heard_counts_or_does_not(story: Story) -> None:
    story.join("a", 2, [T0])
    story.commit("a", 2, 5)
    story.commit("a", 2, 6, ErrorCode.REQUEST_TIMED_OUT)
    story.fetch(5)
    story.fetch(6)
    assert not story.rules


def test_committed_offsets_go_back(story: Story) -> None:
    back = ["committed offsets never go back"]
    story.join("a", 2, [T0])
    story.commit("a", 2, 5)
    story.commit("a", 2, 6)
    story.fetch(5)
    assert story.rules == back, "6 was acknowledged"
    story.commit("a", 2, 7, ErrorCode.REQUEST_TIMED_OUT)
    story.fetch(7)
    story.fetch(6)
    assert story.rules == back * 2, "7 was told"
    story.fetch(5, term=NOT_KNOWN)
    assert story.rules == back * 2


# Descriptions, topologies


def test_a_group_that_is_gone(story: Story) -> None:
    story.do(Shown(term=1, code=ErrorCode.GROUP_ID_NOT_FOUND), ErrorCode.GROUP_ID_NOT_FOUND)
    story.join("a", 2, [])
    assert not story.rules
    story.do(Shown(term=1, code=ErrorCode.GROUP_ID_NOT_FOUND), ErrorCode.GROUP_ID_NOT_FOUND)
    assert story.rules == ["a group stays"]


def test_a_member_that_left_or_was_removed_is_shown(story: Story) -> None:
    shown = {name: ShownMember(process=name, epoch=2) for name in "ab"}
    story.join("a", 2, [])
    story.join("b", 2, [])
    story.show(2, 2, shown)
    assert not story.rules
    story.leave("a", 2)
    story.beat("b", 2, -1, code=ErrorCode.UNKNOWN_MEMBER_ID)
    story.show(3, 2, shown)
    assert story.rules == ["who is gone is not shown"] * 2
    story.join("a", 3, [])
    story.join("b", 3, [])
    story.show(3, 3, shown)
    assert len(story.rules) == 2


def test_a_task_is_shown_with_two_owners(story: Story) -> None:
    both = {name: ShownMember(process=name, epoch=2, active=frozenset([T0])) for name in "ab"}
    story.show(2, 2, both)
    assert story.rules == ONE_OWNER


def test_a_process_is_shown_with_a_task_in_two_roles(story: Story) -> None:
    twice = ["a process has a task in one role"]
    active = ShownMember(process="p", epoch=2, active=frozenset([T0]))
    standby = ShownMember(process="p", epoch=2, standby=frozenset([T0]))
    story.show(2, 2, {"a": active, "b": standby})
    assert story.rules == twice
    story.show(
        2,
        2,
        {"a": ShownMember(process="p", epoch=2, active=frozenset([T0]), standby=frozenset([T0]))},
    )
    assert story.rules == twice * 2


def test_a_removal_that_is_not_safe_yet_may_go_with_its_coordinator(story: Story) -> None:
    shown = {"a": ShownMember(process="a", epoch=2)}
    story.join("a", 2, [])
    story.beat("a", 2, -1, code=ErrorCode.UNKNOWN_MEMBER_ID)
    story.show(2, 2, shown, term=2)
    story.commit("a", 2)
    assert not story.rules
    story.show(3, 2, shown, term=1)
    story.show(3, 2, shown, term=2)
    assert story.rules == ["who is gone is not shown"] * 2, (
        "its coordinator had stored it, and later responded"
    )


def test_another_topology_is_accepted(story: Story) -> None:
    story.join("a", 2, [], topology_epoch=2)
    story.do(Shown(group_epoch=2, assignment_epoch=2, topology_epoch=2, term=1))
    assert story.rules == ["another topology is refused"] * 2


def test_the_groups_own_topology_is_refused(story: Story) -> None:
    story.beat("a", 0, -1, topology_epoch=2, code=ErrorCode.INVALID_REQUEST)
    assert not story.rules
    story.beat("a", 0, -1, code=ErrorCode.INVALID_REQUEST)
    assert story.rules == ["nothing is refused without a reason"]


def test_a_member_does_not_hear_that_its_topology_is_old(story: Story) -> None:
    story.join("a", 2, [], topology_epoch=0, statuses=(0,))
    assert not story.rules
    story.beat("a", 2, 2, topology_epoch=0)
    story.join("b", 2, [], statuses=(0,))
    assert story.rules == ["who has an older topology hears that"] * 2


# Once all is calm


def test_a_calm_group_has_an_owner_for_each_task_and_copies_of_state() -> None:
    wanted, stateful = frozenset([T0, T1]), frozenset([T1])
    owned = {"a": frozenset([T0]), "b": frozenset([T1])}

    def missing(
        active: dict[str, Held], standby: dict[str, Held], copy_count: int = 1
    ) -> str | None:
        return missing_tasks(
            active, standby, wanted=wanted, stateful=stateful, copy_count=copy_count
        )

    assert missing(owned, {"a": stateful}) is None
    assert missing(owned, {}, 0) is None
    assert missing({"a": frozenset([T0])}, {"a": stateful}) is not None
    assert missing({**owned, "c": frozenset([T0])}, {"a": stateful}) is not None
    assert missing(owned, {}) is not None
    assert missing(owned, {"a": wanted}) is not None
    assert missing(owned, {"a": stateful, "c": stateful}) is not None
