"""A streams task is never active on two processes under any sequence of events.

A group that is left in peace becomes stable. The instances here are honest clients: each says in
every heartbeat what it runs, takes on what it is told, sooner or later, and begins anew when it is
fenced. Replies are lost, members fall silent, topics grow and go, the number of standby tasks
changes, and the coordinator loads anew from its log, compacted or not. Two planted bugs show that
the invariants see what they are for.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from log_service.common.errors import KafkaError
from log_service.coordinator.group.streams.group import StreamsGroup, StreamsGroupState
from log_service.coordinator.group.streams.heartbeats import (
    StreamsHeartbeatReply,
    StreamsHeartbeats,
)
from log_service.coordinator.group.streams.reconciliation import Holders
from log_service.coordinator.group.values.streams_tasks import TaskState
from log_service.metadata.image import ResourceType
from tests.unit.coordinator.consumer_story import configure
from tests.unit.coordinator.group_story import GROUP
from tests.unit.coordinator.streams_story import StreamsStory, active, counting, standby

PROCESSES = {"a": "p", "b": "p", "c": "q", "d": "r"}
SETTLING_ROUNDS = 16
CHANGELOG = "counts-changelog"

Owned = dict[str, tuple[int, ...]]
names = st.sampled_from(sorted(PROCESSES))


@dataclass
class Instance:
    """One instance's view of its group.

    ``told`` are the tasks that it has heard and not taken on yet.
    """

    epoch: int = 0
    owned: tuple[Owned, Owned] = field(default_factory=lambda: ({}, {}))
    told: tuple[Owned, Owned] | None = None


class StreamsGroupLife(RuleBasedStateMachine):
    """One group, its instances, and its coordinator."""

    @initialize(count=st.integers(1, 4))
    def begin(self, count: int) -> None:
        self.story = StreamsStory(topics={"orders": count, CHANGELOG: count}, topology=counting())
        self.count = count
        self.clients: dict[str, Instance] = {}
        self.last_epoch = 0
        self.was_ready = True

    @rule(name=names)
    def join(self, name: str) -> None:
        self.clients[name] = Instance()
        self._beat(name, is_heard=True)

    def _beat(self, name: str, *, is_heard: bool) -> None:
        client = self.clients[name]
        if client.epoch == 0:
            client.owned, client.told = ({}, {}), None
            said: dict[str, Any] = {
                "rebalance_timeout_ms": 30_000,
                "topology": self.story.topology,
                "process_id": PROCESSES[name],
            }
            reply = self.story.reply(name, 0, client.owned, **said)
        else:
            reply = self.story.reply(
                name, client.epoch, client.owned if client.told is None else None
            )
        if isinstance(reply, KafkaError):
            # Fenced, or its tasks are gone with their topics.
            client.epoch, client.owned, client.told = (
                0,
                ({}, {}),
                None,
            )
        elif is_heard:
            self._hear(client, reply)

    def _hear(self, client: Instance, reply: StreamsHeartbeatReply) -> None:
        client.epoch = reply.response.member_epoch
        told = active(reply.response)
        if told is not None:
            client.told = (told, standby(reply.response) or {})

    @precondition(lambda self: self.clients)
    @rule(choice=st.integers(0, 3), is_heard=st.booleans())
    def beat(self, choice: int, is_heard: bool) -> None:
        """Send a heartbeat; an instance whose reply is lost begins anew."""
        name = sorted(self.clients)[choice % len(self.clients)]
        self._beat(name, is_heard=is_heard)
        if not is_heard:
            self.clients[name] = Instance()
            self._beat(name, is_heard=True)

    @precondition(lambda self: self.clients)
    @rule(choice=st.integers(0, 3))
    def take_on(self, choice: int) -> None:
        self._take_on(self.clients[sorted(self.clients)[choice % len(self.clients)]])

    def _take_on(self, client: Instance) -> None:
        if client.told is not None:
            client.owned, client.told = client.told, None

    @precondition(lambda self: self.clients)
    @rule(choice=st.integers(0, 3))
    def leave(self, choice: int) -> None:
        name = sorted(self.clients)[choice % len(self.clients)]
        del self.clients[name]
        self.story.reply(name, -1)

    @rule(ms=st.sampled_from([1_000, 20_000, 31_000, 46_000]))
    def pass_time(self, ms: int) -> None:
        self.story.advance(ms)

    @rule()
    def grow(self) -> None:
        if self.count < 6:
            for name in ("orders", CHANGELOG):
                self.story.add_partitions(name, self.count, self.count + 1)
            self.count += 1

    @rule()
    def lose_the_changelog_and_get_it_back(self) -> None:
        self.story.remove_topic(CHANGELOG)
        for name in sorted(self.clients):
            self._beat(name, is_heard=True)
        self.story.create_topic(CHANGELOG, self.count)

    @rule(count=st.sampled_from(["0", "1", "2"]))
    def want_standby_tasks(self, count: str) -> None:
        configure(self.story, ResourceType.GROUP, GROUP, "streams.num.standby.replicas", count)

    @rule(has_tombstones=st.booleans(), is_compacted=st.booleans())
    def load_anew(self, has_tombstones: bool, is_compacted: bool) -> None:
        before = self._stored()
        if is_compacted:
            self.story.compact(has_tombstones=has_tombstones)
        self.story.restart()
        assert self._stored() == before

    def _stored(self) -> tuple[object, ...] | None:
        """Return the group as the log has it."""
        group = self._group()
        return (
            None
            if group is None
            else (group.members, group.targets, group.topology, group.epoch, group.target_epoch)
        )

    def _group(self) -> StreamsGroup | None:
        return self.story.shard.streams_group(GROUP)

    def _members(self) -> dict[str, Instance]:
        """Return the instances that the coordinator still takes for members.

        Others have lost their tasks, and know it by their own clocks.
        """
        group = self._group()
        return {
            name: client
            for name, client in self.clients.items()
            if group is not None and name in group.members
        }

    @invariant()
    def no_task_runs_twice(self) -> None:
        owned = (client.owned[0] for client in self._members().values())
        running = Counter(
            (each, index) for tasks in owned for each, indexes in tasks.items() for index in indexes
        )
        assert all(count == 1 for count in running.values()), f"active on two instances: {running}"

    @invariant()
    def no_task_is_held_twice(self) -> None:
        """One active holder, what has yet to be given up included; and no process has a task in two
        roles.
        """
        group = self._group()
        active_tasks: Counter[tuple[str, int]] = Counter()
        here: Counter[tuple[str, str, int]] = Counter()
        for member in () if group is None else group.members.values():
            for held in (member.current.assigned, member.current.pending_revocation):
                for role, tasks in enumerate(held.by_role()):
                    for each, indexes in tasks.items():
                        active_tasks.update((each, index) for index in indexes if role == 0)
                        here.update((member.metadata.process_id, each, index) for index in indexes)
        assert all(count == 1 for count in active_tasks.values()), f"active twice: {active_tasks}"
        assert all(count == 1 for count in here.values()), f"twice on one process: {here}"

    @invariant()
    def an_epoch_has_one_target_and_none_goes_back(self) -> None:
        group = self._group()
        if group is None:
            return
        assert group.epoch.epoch >= self.last_epoch
        if group.epoch.epoch == self.last_epoch:
            assert (group.epoch.validated_topology_epoch >= 0) == self.was_ready, (
                "validated, or not any more, in the same epoch"
            )
        self.last_epoch, self.was_ready = (
            group.epoch.epoch,
            group.epoch.validated_topology_epoch >= 0,
        )

    @invariant()
    def member_that_has_arrived_runs_its_target(self) -> None:
        group = self._group()
        for member in () if group is None else group.members.values():
            if member.current.is_reconciled_to(group.target_epoch.epoch):  # type: ignore[union-attr]
                target = group.target_of(member.member_id)  # type: ignore[union-attr]
                assert member.current.assigned.by_role() == (
                    target.active,
                    target.standby,
                    target.warmup,
                )
                assert member.current.state is TaskState.STABLE

    def teardown(self) -> None:
        if not hasattr(self, "clients") or not self.clients:
            return
        for _ in range(SETTLING_ROUNDS):
            for name, client in sorted(self.clients.items()):
                self._beat(name, is_heard=True)
                self._take_on(client)
            self.no_task_runs_twice()
        group = self._group()
        assert group is not None
        assert set(group.members) == set(self.clients)
        running = sorted(
            index for client in self.clients.values() for index in client.owned[0].get("0", ())
        )
        assert running == list(range(self.count)), "every task runs once"
        copies = Counter(
            index for client in self.clients.values() for index in client.owned[1].get("0", ())
        )
        wanted = min(
            int(group.epoch.assignment_configs["num.standby.replicas"]),
            len({PROCESSES[name] for name in self.clients}) - 1,
        )
        assert copies == Counter(dict.fromkeys(range(self.count), wanted) if wanted else {})
        assert group.state is StreamsGroupState.STABLE


SEEDS = 100
"""Within so many lives a planted bug has to show."""
SETTINGS = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
StreamsGroupLife.TestCase.settings = SETTINGS
test_life = StreamsGroupLife.TestCase


def handed_over_before_it_was_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task counts as free while its last member still runs it."""
    free = Holders(is_active_anywhere=lambda _, __: False, is_held_here=lambda _, __: False)
    monkeypatch.setattr(StreamsGroup, "holders_for", lambda _group, _process_id: free)


def not_bumped_when_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topology that becomes ready is noted in the epoch in which it was not."""
    settled = StreamsHeartbeats.settled_epoch

    def without_bump(self: StreamsHeartbeats, beat: Any, topology: Any, decision: Any) -> Any:
        known = beat.group.epoch
        before = len(decision.records)
        configured_topology, epoch = settled(self, beat, topology, decision)
        is_validated = configured_topology.is_ready and known.validated_topology_epoch < 0
        if (
            is_validated
            and beat.updated.metadata == beat.member.metadata
            and len(decision.records) > before
        ):
            bumped = decision.records[-1]
            decision.records[-1] = replace(
                bumped, content=replace(bumped.content, epoch=known.epoch)
            )
            return configured_topology, known.epoch
        return configured_topology, epoch

    monkeypatch.setattr(StreamsHeartbeats, "settled_epoch", without_bump)


@pytest.mark.parametrize(
    "plant",
    [handed_over_before_it_was_released, not_bumped_when_validated],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_is_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    hunt = settings(
        SETTINGS,
        max_examples=SEEDS,
        database=None,
        derandomize=True,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(StreamsGroupLife, settings=hunt)
