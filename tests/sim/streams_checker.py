"""Judges the responses to the instances of a Kafka Streams application as they come.

They are one streams group (KIP-1071).

* A task has one active owner, as far as members were told: the next one is told only after the one
  before has given it up, or after the whole session of that one is over. A session begins with the
  member's latest heartbeat that its coordinator has responded to; a coordinator that was just
  elected gives each member a whole one, those excepted whose sessions were over before.
* A member never keeps what it had to give up: it is not told such a task again in the same epoch.
* Epochs of members and of the group never go back.
* A commit for a task that was given up, with an epoch from before, is refused, as are those of
  members that have left or were removed, and of members whose task another one has been told. What
  was refused is never committed.
* A committed offset never goes back: who asks is told at least what was acknowledged before, and
  what others were told before.
* A description shows no member that has left or was removed, no task with two active owners, and no
  process with a task in two roles.
* A member with an older topology hears that; one with another topology is refused, and no one else
  is.

What a coordinator says that may have a successor is not judged, and neither is it believed: it
extends no session.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.coordinator.group.streams.configuration import StreamsStatus
from tests.sim.node_history import NEVER, Entry, Operation
from tests.sim.streams_history import (
    NOT_KNOWN,
    Beat,
    Elected,
    GaveUp,
    Held,
    Shown,
    Task,
    TaskCommit,
    TaskFetch,
)

Report = Callable[[str, str], None]
REFUSED = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
"""With these a commit has changed nothing; after others it may have."""


@dataclass(slots=True)
class _Known:
    """The checker's knowledge of one member.

    ``gone_at`` is the place from which on the group is known to be without it.

    ``unknown_at`` and ``unknown_term`` are where it was told that it is not a member: its removal
    may not be safe yet.
    """

    process: str = ""
    told_epoch: int = -1
    listed_epoch: int = -1
    omitted: set[Task] = field(default_factory=set)
    """What it had to give up in ``listed_epoch``."""
    heard_term: int = NOT_KNOWN
    heard_time: float = -inf
    given_up: dict[Task, int] = field(default_factory=dict)
    """The epoch in which it had to give a task up."""
    confirmed: dict[Task, int] = field(default_factory=dict)
    """The same, once the coordinator has heard that it did."""
    gone_at: int = NEVER
    unknown_at: int = NEVER
    unknown_term: int = NOT_KNOWN


class StreamsChecker:
    """Judges one run. ``session_seconds`` is how long a member may be silent, ``topology_epoch``
    the epoch of the group's topology.
    """

    def __init__(self, report: Report, *, session_seconds: float, topology_epoch: int) -> None:
        self._report = report
        self._session_seconds = session_seconds
        self._topology_epoch = topology_epoch
        self._members: dict[str, _Known] = {}
        self._holds: dict[Task, dict[str, int]] = {}
        """By task and member the place from which on it was told to run the task."""
        self._elected: list[Elected] = []
        self._commits: dict[TopicPartition, list[TaskCommit]] = {}
        self._doomed: dict[int, str] = {}
        """Why a commit has to be refused, by its place."""
        self._fetched: dict[TopicPartition, list[TaskFetch]] = {}
        self._joined_at = NEVER
        self._epochs: list[tuple[int, int, int]] = []
        """Place, group epoch and assignment epoch, from each description that was judged."""
        self._highest: list[tuple[int, int]] = []
        """Place and epoch, of each time that a member was told a higher one than any before."""

    # What happens

    def note(self, entry: Entry) -> None:
        """Take what has happened, or has begun."""
        match entry:
            case Elected():
                self._elected.append(entry)
            case GaveUp():
                self._give_up(entry.member, entry.tasks)
            case Beat(is_joining=True):
                known = self._member(entry.member)
                known.gone_at = known.unknown_at = NEVER
            case TaskCommit():
                self._commits.setdefault(entry.partition, []).append(entry)
                reason = self._reason_to_refuse(entry)
                if reason is not None:
                    self._doomed[entry.at] = reason
            case _:
                pass

    def note_ended(self, operation: Operation) -> None:
        """Take what has ended."""
        if isinstance(operation, Beat | TaskFetch | Shown) and operation.is_ok:
            self._note_safe(operation.term, operation)
        match operation:
            case Beat():
                self._note_beat(operation)
            case TaskCommit() if operation.is_ok and operation.at in self._doomed:
                self._report(
                    "a stale commit is refused",
                    f"{operation} was accepted: {self._doomed[operation.at]}",
                )
            case TaskFetch() if operation.is_ok and operation.term != NOT_KNOWN:
                self._check_fetch(operation)
            case Shown() if operation.term != NOT_KNOWN:
                self._check_shown(operation)
            case _:
                pass

    def _note_safe(self, term: int, operation: Operation) -> None:
        """Note that a coordinator's records are safe, because it has responded.

        An error alone does not wait for that.
        """
        for known in self._members.values():
            if known.unknown_term == term != NOT_KNOWN and known.unknown_at < operation.at:
                known.gone_at, known.unknown_at = min(known.gone_at, operation.ended_at), NEVER

    def _member(self, name: str) -> _Known:
        return self._members.setdefault(name, _Known())

    def _give_up(self, name: str, tasks: Held | None) -> None:
        for task in [
            task
            for task, holders in self._holds.items()
            if name in holders and (tasks is None or task in tasks)
        ]:
            del self._holds[task][name]

    # Heartbeats

    def _note_beat(self, beat: Beat) -> None:
        known = self._member(beat.member)
        known.process = beat.process
        if beat.is_ok and beat.topology_epoch > self._topology_epoch:
            self._report("another topology is refused", f"{beat}")
        if beat.code is ErrorCode.INVALID_REQUEST and beat.topology_epoch <= self._topology_epoch:
            self._report("nothing is refused without a reason", f"{beat}")
        if beat.term == NOT_KNOWN:
            return
        if beat.code is ErrorCode.UNKNOWN_MEMBER_ID:
            known.unknown_at, known.unknown_term = beat.ended_at, beat.term
        elif beat.is_ok and beat.is_leaving:
            known.gone_at = beat.ended_at
        elif beat.is_ok:
            self._check_told(beat, known)

    def _check_told(self, beat: Beat, known: _Known) -> None:
        self._joined_at = min(self._joined_at, beat.ended_at)
        if beat.told_epoch < known.told_epoch:
            self._report(
                "epochs never go back",
                f"{beat.member} is told epoch {beat.told_epoch} after {known.told_epoch}: {beat}",
            )
        is_stale = beat.topology_epoch < self._topology_epoch
        if is_stale is not (StreamsStatus.STALE_TOPOLOGY in beat.statuses):
            self._report("who has an older topology hears that", f"{beat}")
        if beat.active is not None:
            self._check_list(beat, known, beat.active)
        self._note_heard(beat, known)
        if beat.told_epoch > (self._highest[-1][1] if self._highest else -1):
            self._highest.append((beat.ended_at, beat.told_epoch))

    def _check_list(self, beat: Beat, known: _Known, active: Held) -> None:
        """Check a list of active tasks, and take it over: from here on the member may run them."""
        held = {task for task, holders in self._holds.items() if beat.member in holders}
        if beat.is_joining or beat.told_epoch != known.listed_epoch:
            known.listed_epoch, known.omitted = beat.told_epoch, set()
        for task in sorted(active & known.omitted):
            self._report(
                "a member never keeps what it had to give up",
                f"{task} is told to {beat.member} again in one epoch: {beat}",
            )
        known.omitted |= held - active
        known.given_up.update(dict.fromkeys(held - active, beat.told_epoch))
        for task in sorted(active - held):
            self._check_handed_over(beat, task)
            self._holds.setdefault(task, {})[beat.member] = beat.ended_at
        for task in active:
            known.given_up.pop(task, None)
            known.confirmed.pop(task, None)

    def _check_handed_over(self, beat: Beat, task: Task) -> None:
        for name in sorted(self._holds.get(task, ())):
            known = self._member(name)
            if name != beat.member and not self._may_be_removed(known, beat):
                text = f"{task} is told to {beat.member} at {beat.ended_time:.3f} s, and {name} runs it, heard at {known.heard_time:.3f} s"
                self._report("a task has one active owner", text)

    def _may_be_removed(self, known: _Known, beat: Beat) -> bool:
        """Return whether a session of silence was over for one coordinator.

        It counts from the one by which a member was heard last.
        """
        begin = known.heard_time
        for elected in self._elected:
            if known.heard_term < elected.term <= beat.term:
                if begin + self._session_seconds <= elected.time:
                    return True
                begin = elected.after
        return begin + self._session_seconds <= beat.ended_time

    def _note_heard(self, beat: Beat, known: _Known) -> None:
        known.told_epoch = max(known.told_epoch, beat.told_epoch)
        known.heard_term, known.heard_time = beat.term, beat.time
        for task, epoch in list(known.given_up.items()):
            if beat.owned is not None and task not in beat.owned and beat.told_epoch > epoch:
                known.confirmed[task] = known.given_up.pop(task)

    # Offsets

    def _reason_to_refuse(self, commit: TaskCommit) -> str | None:
        known = self._member(commit.member)
        if known.gone_at < commit.at:
            return "the member is in the group no more"
        if known.confirmed.get(commit.task, -1) >= commit.epoch:
            return f"the member gave the task up in epoch {known.confirmed[commit.task]}"
        holders = self._holds.get(commit.task, {})
        mine = holders.get(commit.member, NEVER)
        later = sorted(name for name, since in holders.items() if since > mine)
        return f"{later[0]} was told to run the task" if later else None

    def _check_fetch(self, fetch: TaskFetch) -> None:
        commits = self._commits.get(fetch.partition, [])
        possible = {
            commit.offset
            for commit in commits
            if commit.at < fetch.ended_at and commit.code not in REFUSED
        }
        if fetch.offset >= 0 and fetch.offset not in possible:
            self._report("what was refused is not committed", f"{fetch}")
        acknowledged = (
            commit.offset for commit in commits if commit.is_ok and commit.ended_at < fetch.at
        )
        before = self._fetched.setdefault(fetch.partition, [])
        seen = (other.offset for other in before if other.ended_at < fetch.at)
        least = max((*acknowledged, *seen), default=-1)
        if fetch.offset < least:
            self._report("committed offsets never go back", f"{least} was told before: {fetch}")
        before.append(fetch)

    # Descriptions

    def _check_shown(self, shown: Shown) -> None:
        if shown.code is ErrorCode.GROUP_ID_NOT_FOUND:
            if self._joined_at < shown.at:
                self._report("a group stays", f"{shown}")
            return
        if not shown.is_ok:
            return
        self._check_epochs(shown)
        if shown.topology_epoch != self._topology_epoch:
            self._report("another topology is refused", f"{shown}")
        for name in sorted(shown.members):
            gone_at = self._member(name).gone_at
            if gone_at < shown.at or gone_at == shown.ended_at:
                self._report("who is gone is not shown", f"{name} is in {shown}")
        self._check_roles(shown)

    def _check_epochs(self, shown: Shown) -> None:
        before = [each for each in self._epochs if each[0] < shown.at]
        told = max((epoch for place, epoch in self._highest if place < shown.at), default=-1)
        group_epoch = max((each[1] for each in before), default=-1)
        assignment_epoch = max((told, *(each[2] for each in before)))
        newest = max((member.epoch for member in shown.members.values()), default=-1)
        if shown.group_epoch < group_epoch or shown.assignment_epoch < assignment_epoch:
            text = f"group epoch {group_epoch} and assignment epoch {assignment_epoch} were told before {shown}"
            self._report("epochs never go back", text)
        if not newest <= shown.assignment_epoch <= shown.group_epoch:
            self._report("no member is ahead of its group", f"{shown}")
        self._epochs.append((shown.ended_at, shown.group_epoch, shown.assignment_epoch))

    def _check_roles(self, shown: Shown) -> None:
        owners: dict[Task, str] = {}
        here: dict[tuple[str, Task], str] = {}
        for name, member in sorted(shown.members.items()):
            for task in sorted(member.active):
                first = owners.setdefault(task, name)
                if first != name:
                    self._report(
                        "a task has one active owner",
                        f"{task} is shown with {first} and with {name}: {shown}",
                    )
            for role in (member.active, member.standby):
                for task in sorted(role):
                    if here.setdefault((member.process, task), name) != name or (
                        role is member.standby and task in member.active
                    ):
                        self._report(
                            "a process has a task in one role",
                            f"{task} is twice on {member.process}: {shown}",
                        )


def missing_tasks(
    members: Mapping[str, Held],
    standbys: Mapping[str, Held],
    *,
    wanted: Held,
    stateful: Held,
    copy_count: int,
) -> str | None:
    """Return the lacks of a calm group.

    Each wanted task needs an active owner, and those with state need copies.
    """
    owned = sorted(task for tasks in members.values() for task in tasks)
    if owned != sorted(wanted):
        return f"active are {owned}, wanted {sorted(wanted)}"
    copies = sorted(task for tasks in standbys.values() for task in tasks)
    if copies != sorted([*stateful] * copy_count):
        return f"copies are {copies}, wanted {copy_count} of each of {sorted(stateful)}"
    return None
