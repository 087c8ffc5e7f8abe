"""Plays one life of an instance of ``streams_application``.

It is a member of its streams group (KIP-1071).

An instance runs the tasks that it is told, commits for them, and takes a moment to give them up;
now and then it hangs, or leaves, and commits for a task that it has not any more, with the epoch in
which it had it. It knows neither faults nor rules.

A response that was lost may have told tasks, which no later one repeats, as with Apache Kafka 4.3:
an instance that hears nothing goes on for a heartbeat or two, and then begins anew, with all of its
tasks given up. It does the same where it was told tasks by a coordinator that had a successor: what
that one says last may be older than what the instance was told before.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from random import Random

import trio

from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.messages.streams_group_heartbeat import (
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
)
from tests.sim.streams_application import GROUP, Application
from tests.sim.streams_history import NOT_KNOWN, NOTHING, Beat, GaveUp, Held, Task

SESSION_SECONDS = 2.0
REBALANCE_TIMEOUT_MS = 6_000
"""Longer than a session, and than an instance takes to give tasks up."""
JOIN_EPOCH, LEAVE_EPOCH = 0, -1
BEGIN_ANEW = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class Instance:
    """A member. ``running`` are its active tasks and how far each is, None where it does not know
    that yet.
    """

    def __init__(
        self,
        application: Application,
        cluster: ClusterMetadata,
        rng: Random,
        *,
        member: str,
        process: str,
        topology_epoch: int,
        closing_seconds: Sequence[float],
        late_offset: Callable[[], int],
    ) -> None:
        """``closing_seconds`` are how long it may take to give a task up. ``late_offset`` returns
        offsets that nothing else commits.
        """
        self.member = member
        self.epoch = JOIN_EPOCH
        self.running: dict[Task, int | None] = {}
        self.standby: Held = NOTHING
        self._application = application
        self._history = application.history
        self._cluster = cluster
        self._rng = rng
        self._process = process
        self._topology_epoch = topology_epoch
        self._closing_seconds = closing_seconds
        self._late_offset = late_offset
        self._closing: dict[Task, float] = {}
        self._is_report_due = self._is_unsure = False
        self._revoked: dict[Task, int] = {}
        """Tasks that it had to give up, with the epoch of that."""
        self._former: list[tuple[Task, int]] = []
        """The same, once the coordinator has heard that it did."""

    @property
    def tasks(self) -> Held:
        """The active tasks, with those that are about to be given up."""
        return frozenset(self.running)

    async def live(self, machine: str) -> None:
        """Be a member until everything is done, or leave before that."""
        clients = self._application.clients
        try:
            while not clients.is_drained:
                await self.beat()
                await self._work()
                fate = 1.0 if clients.is_over else self._rng.random()
                if fate < 0.03:
                    await self._hang(machine)
                elif fate < 0.06:
                    break
                await trio.sleep(self._rng.uniform(0.15, 0.35))
            await self.leave()
            await self._commit_late()
        finally:
            self._give_up(None)

    async def _hang(self, machine: str) -> None:
        """Hang, at times for longer than a session.

        No node hears the instance, which goes on as if nothing had been.
        """
        clients = self._application.clients
        clients.world.network.isolate(machine, [node.name for node in clients.plan.nodes])
        try:
            await trio.sleep(self._rng.uniform(0.5, 2) * SESSION_SECONDS)
        finally:
            clients.world.network.heal(machine)
        await self._commit()

    # Heartbeats

    async def beat(self) -> None:
        """Send one heartbeat, and take in what is told."""
        if self._is_unsure and self._rng.random() < 0.6:
            self._begin_anew()
        now = trio.current_time()
        self._give_up([task for task, until in self._closing.items() if until <= now])
        is_joining = self.epoch == JOIN_EPOCH
        is_reporting = is_joining or self._is_report_due or self._rng.random() < 0.2
        beat = self._beat(owned=self.tasks if is_reporting else None)
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if is_joining else -1,
            topology=self._application.topology(self._topology_epoch) if is_joining else None,
            process_id=self._process if is_joining else None,
            active_tasks=_ids(self.tasks) if is_reporting else None,
            standby_tasks=_ids(self.standby) if is_reporting else None,
            warmup_tasks=[] if is_reporting else None,
        )
        try:
            await self._application.beat(self._cluster, request, beat)
        except KafkaError as error:
            self._note_error(error.code)
        else:
            self._hear(beat)

    def _beat(self, owned: Held | None, *, is_leaving: bool = False) -> Beat:
        return Beat(
            member=self.member,
            process=self._process,
            epoch=self.epoch,
            topology_epoch=self._topology_epoch,
            owned=owned,
            is_leaving=is_leaving,
        )

    def _note_error(self, code: ErrorCode) -> None:
        self._is_report_due = True
        if code in BEGIN_ANEW:
            self._begin_anew()
        elif self.epoch != JOIN_EPOCH:
            self._is_unsure = True

    def _begin_anew(self) -> None:
        self._give_up(None)
        self.epoch, self.standby, self._is_unsure = JOIN_EPOCH, NOTHING, False

    def _hear(self, beat: Beat) -> None:
        self.epoch = beat.told_epoch
        self._is_report_due = False
        if beat.active is not None and beat.standby is not None:
            self._is_unsure = beat.term == NOT_KNOWN
            self._is_report_due = beat.active != self.tasks or beat.standby != self.standby
            self.standby = beat.standby
            self._take(beat.active, is_judged=beat.term != NOT_KNOWN)
        for task, epoch in list(self._revoked.items()):
            if (
                beat.term != NOT_KNOWN
                and beat.owned is not None
                and task not in beat.owned
                and beat.told_epoch > epoch
            ):
                self._former.append((task, self._revoked.pop(task)))

    def _take(self, active: Held, *, is_judged: bool) -> None:
        """Begin with tasks that are new, and have others given up in a moment."""
        now = trio.current_time()
        for task in sorted(self.tasks - active - self._closing.keys()):
            self._closing[task] = now + self._rng.choice(self._closing_seconds)
            if is_judged:
                self._revoked[task] = self.epoch
        for task in sorted(active):
            self.running.setdefault(task, None)
            self._closing.pop(task, None)
            self._revoked.pop(task, None)
        self._former = [each for each in self._former if each[0] not in active]

    def _give_up(self, tasks: Iterable[Task] | None) -> None:
        gone = self.tasks if tasks is None else frozenset(tasks)
        if gone or tasks is None:
            self._history.add(GaveUp(member=self.member, tasks=None if tasks is None else gone))
            self._is_report_due = True
        for task in gone:
            self.running.pop(task, None)
            self._closing.pop(task, None)

    async def leave(self) -> bool:
        """Leave the group, with all tasks given up; return whether the coordinator has taken note."""
        if self.epoch == JOIN_EPOCH:
            return True
        tasks = sorted(self.running)
        self._give_up(None)
        beat = self._beat(NOTHING, is_leaving=True)
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member, member_epoch=LEAVE_EPOCH
        )
        try:
            await self._application.beat(self._cluster, request, beat)
        except KafkaError as error:
            self._note_error(error.code)
            return False
        if beat.term != NOT_KNOWN:
            self._former += [(task, self.epoch) for task in tasks]
        return True

    # Offsets

    async def _work(self) -> None:
        with suppress(KafkaError):
            await self._find_positions()
        if self._rng.random() < 0.7:
            await self._commit()
        if self._rng.random() < 0.3:
            await self._commit_late()

    async def _find_positions(self) -> None:
        """Ask from where on tasks go on that are new here."""
        new = {
            self._application.partition_of(task): task
            for task, position in sorted(self.running.items())
            if position is None
        }
        if new and not self._is_unsure:
            found = await self._application.fetch(self._cluster, new, self.member, self.epoch)
            for partition, offset in found.items():
                self.running[new[partition]] = max(offset, 0)

    async def _commit(self) -> None:
        """Go on with all tasks, and commit how far they are.

        Whether that is heard or not, the next commit is of a later offset.
        """
        offsets: dict[Task, int] = {}
        for task, position in sorted(self.running.items()):
            if position is not None:
                offsets[task] = self.running[task] = position + self._rng.randint(1, 3)
        if offsets:
            await self._application.commit(self._cluster, self.member, self.epoch, offsets)

    async def _commit_late(self) -> None:
        """Commit for a task that was given up, as a thread does that has not been told."""
        if self._former:
            task, epoch = self._former.pop(0)
            await self._application.commit(
                self._cluster, self.member, epoch, {task: self._late_offset()}
            )


def _ids(tasks: Held) -> list[RequestTaskIds]:
    by_subtopology: dict[str, list[int]] = {}
    for subtopology, index in sorted(tasks):
        by_subtopology.setdefault(subtopology, []).append(index)
    return [
        RequestTaskIds(subtopology_id=each, partitions=indexes)
        for each, indexes in by_subtopology.items()
    ]
