"""A partition never has two owners under any sequence of events.

A group that is left in peace becomes stable. The members here are honest clients: each says in
every heartbeat what it owns, takes on what it is told, sooner or later, and begins anew when it is
fenced. Replies are lost, members fall silent, topics grow, and the coordinator loads anew from its
log, compacted or not.
"""

from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log_service.common.errors import KafkaError
from log_service.coordinator.group.values.consumer_member import MemberState
from tests.unit.coordinator.consumer_story import NAMES, ConsumerStory, assigned

MEMBERS = ("a", "b", "c", "d")
TOPICS = ("orders", "bills")
SETTLING_ROUNDS = 12

Owned = dict[UUID, tuple[int, ...]]
names = st.sampled_from(MEMBERS)


@dataclass
class Client:
    """One client's view of its group.

    ``told`` is the assignment that it has heard and not taken on yet.

    A client that ``is_unsure``, because a reply was lost, says everything about itself again, as
    the Java client does. It says what it owns only when that is not about to change: what it is
    told and has not taken on yet, it would give away by leaving it out.
    """

    topics: tuple[str, ...] = ()
    epoch: int = 0
    owned: Owned = field(default_factory=dict)
    told: Owned | None = None
    is_unsure: bool = False


class ConsumerGroupLife(RuleBasedStateMachine):
    """One group, its clients, and its coordinator."""

    @initialize(assignor=st.sampled_from(["uniform", "range"]))
    def begin(self, assignor: str) -> None:
        self.story = ConsumerStory(topics={"orders": 3, "bills": 2})
        self.counts = {"orders": 3, "bills": 2}
        self.assignor = assignor
        self.clients: dict[str, Client] = {}

    @rule(name=names, topics=st.sampled_from([TOPICS, ("orders",), ("bills",)]))
    def join(self, name: str, topics: tuple[str, ...]) -> None:
        self.clients[name] = Client(topics=topics)
        self._beat(name, is_heard=True)

    def _beat(self, name: str, *, is_heard: bool) -> None:
        client = self.clients[name]
        if client.epoch == 0:
            client.owned, client.told = {}, None
            response = self.story.beat(
                name, 0, {}, topics=client.topics, rebalance_ms=30_000, assignor=self.assignor
            )
        elif client.is_unsure:
            self._take_on(client)
            response = self.story.beat(
                name, client.epoch, client.owned, topics=client.topics, rebalance_ms=40_000
            )
        else:
            response = self.story.beat(
                name, client.epoch, client.owned if client.told is None else None
            )
        client.is_unsure = not is_heard
        if not is_heard:
            return
        if isinstance(response, KafkaError):
            client.epoch, client.owned, client.told = 0, {}, None  # fenced
            return
        client.epoch = response.member_epoch
        told = assigned(response)
        if told is not None:
            client.told = told

    @precondition(lambda self: self.clients)
    @rule(choice=st.integers(0, 3), is_heard=st.booleans())
    def beat(self, choice: int, is_heard: bool) -> None:
        self._beat(sorted(self.clients)[choice % len(self.clients)], is_heard=is_heard)

    @precondition(lambda self: self.clients)
    @rule(choice=st.integers(0, 3))
    def take_on(self, choice: int) -> None:
        self._take_on(self.clients[sorted(self.clients)[choice % len(self.clients)]])

    def _take_on(self, client: Client) -> None:
        if client.told is not None:
            client.owned, client.told = client.told, None

    @precondition(lambda self: self.clients)
    @rule(choice=st.integers(0, 3), topics=st.sampled_from([TOPICS, ("orders",), ("bills",)]))
    def subscribe_anew(self, choice: int, topics: tuple[str, ...]) -> None:
        name = sorted(self.clients)[choice % len(self.clients)]
        client = self.clients[name]
        if client.epoch > 0 and name in self.story.group.members:
            client.topics = topics
            self._take_on(client)
            self.story.beat(name, client.epoch, client.owned, topics=topics)
            client.is_unsure = True

    @precondition(lambda self: self.clients)
    @rule(choice=st.integers(0, 3))
    def leave(self, choice: int) -> None:
        name = sorted(self.clients)[choice % len(self.clients)]
        del self.clients[name]
        self.story.beat(name, -1)

    @rule(ms=st.sampled_from([1_000, 20_000, 31_000, 46_000]))
    def pass_time(self, ms: int) -> None:
        self.story.advance(ms)

    @rule(name=st.sampled_from(TOPICS))
    def grow(self, name: str) -> None:
        if self.counts[name] < 6:
            self.story.add_partitions(name, self.counts[name], self.counts[name] + 1)
            self.counts[name] += 1

    @rule()
    def load_anew(self) -> None:
        self.story.restart()

    @rule(has_tombstones=st.booleans())
    def load_what_was_compacted(self, has_tombstones: bool) -> None:
        before = self._stored()
        self.story.compact(has_tombstones=has_tombstones)
        self.story.restart()
        assert self._stored() == before

    def _stored(self) -> tuple[object, ...] | None:
        """Return the group as the log has it."""
        group = self.story.shard.consumer_group("orders-readers")
        return (
            None
            if group is None
            else (
                group.members,
                group.targets,
                group.static_members,
                group.epoch,
                group.target_epoch,
            )
        )

    def _members(self) -> dict[str, Client]:
        """Return the clients that the coordinator still takes for members.

        Others have lost their partitions, and know it by their own clocks.
        """
        group = self.story.shard.consumer_group("orders-readers")
        return {
            name: client
            for name, client in self.clients.items()
            if group is not None and name in group.members
        }

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owned = [
            (topic, index)
            for client in self._members().values()
            for topic, indexes in client.owned.items()
            for index in indexes
        ]
        assert len(owned) == len(set(owned))

    @invariant()
    def no_partition_is_held_twice(self) -> None:
        group = self.story.shard.consumer_group("orders-readers")
        members = [] if group is None else group.members.values()
        held = [
            (topic, index)
            for member in members
            for part in (member.current.assigned, member.current.pending_revocation)
            for topic, indexes in part.items()
            for index in indexes
        ]
        assert len(held) == len(set(held))

    @invariant()
    def member_that_has_arrived_holds_its_target(self) -> None:
        group = self.story.shard.consumer_group("orders-readers")
        if group is None:
            return
        for member in group.members.values():
            current = member.current
            if current.epoch == group.target_epoch.epoch and current.state is MemberState.STABLE:
                wanted = {NAMES[topic] for topic in member.subscription.topics}
                target = {
                    topic: set(indexes)
                    for topic, indexes in group.target_of(member).items()
                    if topic in wanted
                }
                assert {
                    topic: set(indexes) for topic, indexes in current.assigned.items()
                } == target

    def teardown(self) -> None:
        if not hasattr(self, "clients") or not self.clients:
            return
        for _ in range(SETTLING_ROUNDS):
            for name, client in sorted(self.clients.items()):
                self._beat(name, is_heard=True)
                self._take_on(client)
            self.no_partition_has_two_owners()
        members = set(self._members())
        for name in set(self.story.group.members) - members:
            raise AssertionError(f"{name} is no client any more")
        read = {topic for client in self.clients.values() for topic in client.topics}
        owned = sorted(
            (topic, index)
            for client in self.clients.values()
            for topic, indexes in client.owned.items()
            for index in indexes
        )
        assert owned == sorted(
            (NAMES[topic], index) for topic in read for index in range(self.counts[topic])
        )
        assert self.story.group.state.value == "Stable"


ConsumerGroupLife.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
test_life = ConsumerGroupLife.TestCase
