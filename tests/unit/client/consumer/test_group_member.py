"""No partition has two owners in the consumer protocol, whatever is lost.

The clients are those of our consumer without its network; the coordinator is a shard without its
log's disk. Members of the classic protocol, which give everything up before they join again, are in
the group, too.
"""

from dataclasses import dataclass
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log_service.client.consumer.group_member import GroupMember, Owned, Wanted
from log_service.client.group_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.config.client import ConsumerConfig
from log_service.coordinator.group.classic.group import ClassicGroup
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.unit.coordinator.consumer_story import NAMES, ORDERS, ConsumerStory
from tests.unit.coordinator.group_story import GROUP

ROUNDS = 40
CLASSIC_STEPS = 6
"""So many a classic member takes until it has its partitions."""


def member(name: str, **more: str) -> GroupMember:
    found = GroupMember(group_id=GROUP, member_id=name, rebalance_timeout_ms=30_000, **more)  # type: ignore[arg-type]
    found.subscribe(Wanted(topics=("orders",)))
    return found


def beat(
    story: ConsumerStory, client: GroupMember, *, is_heard: bool = True
) -> ConsumerGroupHeartbeatRequest:
    """Send a heartbeat, and hear what is said to it or not."""
    request = client.heartbeat()
    response = story.replies[story.ask("consumer_group_heartbeat", request, api_version=1)]
    if not is_heard:
        client.note_silence()
    elif isinstance(response, KafkaError):
        client.lose()
        client.give_up(client.owned)
    else:
        client.take_response(request, response)
    return request


def give_up(client: GroupMember) -> None:
    if client.new_assignment is not None:
        client.give_up(client.owned - client.new_assignment)


def take_on(client: GroupMember) -> None:
    if client.new_assignment is not None:
        client.finish(client.new_assignment)


def owned(*indexes: int) -> Owned:
    return frozenset((ORDERS, index) for index in indexes)


def test_first_heartbeat_says_everything_and_a_steady_one_nothing() -> None:
    story, client = ConsumerStory(), member("a", rack_id="r", assignor="range")
    request = beat(story, client)
    assert (request.member_epoch, request.topic_partitions, request.rebalance_timeout_ms) == (
        0,
        [],
        30_000,
    )
    assert (request.rack_id, request.server_assignor, request.subscribed_topic_names) == (
        "r",
        "range",
        ["orders"],
    )
    assert client.new_assignment == owned(0, 1, 2, 3)
    take_on(client)
    urgencies = [client.is_urgent]
    assert [each.partitions for each in beat(story, client).topic_partitions or []] == [
        [0, 1, 2, 3]
    ]
    urgencies.append(client.is_urgent)
    request = beat(story, client)
    assert (
        request.topic_partitions,
        request.subscribed_topic_names,
        request.rebalance_timeout_ms,
    ) == (None, None, -1)
    client.subscribe(Wanted(regex="b.*"))
    assert [*urgencies, client.is_urgent] == [True, False, True]
    request = client.heartbeat()
    assert (
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.topic_partitions,
    ) == ([], "b.*", None)


def test_after_a_lost_response_everything_is_said_again_and_the_whole_assignment_told() -> None:
    story, client = ConsumerStory(), member("a")
    beat(story, client)
    take_on(client)
    beat(story, client)
    beat(story, member("b"))
    beat(story, client, is_heard=False)
    assert client.new_assignment is None
    request = beat(story, client)
    assert request.topic_partitions is not None
    assert client.new_assignment == owned(0, 1)


def test_partitions_are_reported_between_two_passes_only() -> None:
    story, client = ConsumerStory(), member("a")
    beat(story, client)
    take_on(client)
    beat(story, client)
    beat(story, member("b"))
    beat(story, client)
    assert client.new_assignment == owned(0, 1)
    assert client.heartbeat().topic_partitions is None, (
        "the callback may still be working on what is lost"
    )
    give_up(client)
    assert client.owned == owned(0, 1)
    take_on(client)
    assert [each.partitions for each in client.heartbeat().topic_partitions or []] == [[0, 1]]


def test_pass_that_is_not_complete_has_the_assignment_told_again() -> None:
    story, client = ConsumerStory(), member("a")
    beat(story, client)
    client.finish(owned(0, 1))
    beat(story, client)
    assert client.new_assignment == owned(0, 1, 2, 3)


def test_static_member_leaves_for_a_while() -> None:
    assert member("a").leaving().member_epoch == -1
    leaving = member("a", instance_id="one").leaving()
    assert (leaving.member_epoch, leaving.instance_id) == (-2, "one")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("session_timeout_ms", 10_000),
        ("heartbeat_interval_ms", 1_000),
        ("partition_assignment_strategy", "range"),
    ],
)
def test_settings_of_classic_groups_are_refused_with_a_sentence(
    setting: str, value: object
) -> None:
    with pytest.raises(
        ConfigError, match=f"{setting} means nothing with group_protocol='consumer': the broker"
    ):
        ConsumerConfig.of(
            "localhost:1", {"group_id": "g", "group_protocol": "consumer", setting: value}
        )
    ConsumerConfig.of("localhost:1", {"group_id": "g", setting: value})


def test_broker_side_assignor_needs_the_consumer_protocol() -> None:
    with pytest.raises(ConfigError, match="group_remote_assignor needs group_protocol='consumer'"):
        ConsumerConfig.of("localhost:1", {"group_id": "g", "group_remote_assignor": "range"})


# Lives of groups of both protocols


@dataclass
class Eager:
    """A member of the classic protocol, as far as it knows. It gives everything up before it joins,
    and leads where it is told to.
    """

    story: ConsumerStory
    counts: dict[str, int]
    member_id: str = ""
    generation: int = -1
    owned: frozenset[tuple[UUID, int]] = frozenset()
    join_token: int | None = None
    sync_token: int | None = None

    def step(self) -> None:
        """Do the next thing that such a client does; nothing while it waits."""
        if self.join_token is not None:
            self._hear_join()
        elif self.sync_token is not None:
            self._hear_sync()
        elif self.generation < 0:
            self._join()
        else:
            code = self.story.heartbeat(self.member_id, self.generation)
            if code != ErrorCode.NONE:
                self._begin_anew(code)

    def _join(self) -> None:
        metadata = encode_subscription(Subscription(topics=tuple(self.counts)))
        self.join_token = self.story.join(self.member_id, metadata=metadata)

    def _begin_anew(self, code: int) -> None:
        self.generation, self.owned, self.join_token, self.sync_token = -1, frozenset(), None, None
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    def _hear_join(self) -> None:
        response = self.story.replies.get(self.join_token)
        if response is None:
            return
        self.join_token = None
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif response.error_code:
            self._begin_anew(response.error_code)
        else:
            self.member_id, self.generation = response.member_id, response.generation_id
            is_leader = response.leader == self.member_id
            parts = self._assigned(
                [each.member_id for each in response.members],
                [each.metadata for each in response.members],
            )
            self.sync_token = self.story.sync(
                self.member_id, self.generation, parts if is_leader else None
            )

    def _assigned(self, ids: list[str], metadata: list[bytes]) -> dict[str, bytes]:
        topics = {topic for each in metadata for topic in decode_subscription(each).topics}
        everything = [
            TopicPartition(topic, index)
            for topic in sorted(topics)
            for index in range(self.counts[topic])
        ]
        return {
            member_id: encode_assignment(everything[number :: len(ids)])
            for number, member_id in enumerate(sorted(ids))
        }

    def _hear_sync(self) -> None:
        response = self.story.replies.get(self.sync_token)
        if response is None:
            return
        self.sync_token = None
        if response.error_code:
            self._begin_anew(response.error_code)
        else:
            self.owned = frozenset(
                (NAMES[each.topic], each.partition)
                for each in decode_assignment(response.assignment)
            )


choices = st.integers(0, 5)


class GroupLife(RuleBasedStateMachine):
    """One group, members of both protocols, and their coordinator."""

    @initialize(is_classic=st.booleans())
    def begin(self, is_classic: bool) -> None:
        self.counts = {"orders": 3, "bills": 2}
        self.story = ConsumerStory(topics=self.counts)
        self.clients: dict[str, GroupMember] = {}
        self.eager: list[Eager] = []
        if is_classic:
            self.begin_as_classic()
            self.step_as_classic(0, CLASSIC_STEPS)

    @rule(name=st.sampled_from(["a", "b", "c"]))
    def join(self, name: str) -> None:
        if name not in self.clients:
            self.clients[name] = member(name)
            self.clients[name].subscribe(Wanted(topics=tuple(self.counts)))
        beat(self.story, self.clients[name])

    @precondition(lambda self: self.clients)
    @rule(choice=choices, is_heard=st.booleans())
    def report(self, choice: int, is_heard: bool) -> None:
        beat(self.story, self._client(choice), is_heard=is_heard)

    def _client(self, choice: int) -> GroupMember:
        return self.clients[sorted(self.clients)[choice % len(self.clients)]]

    @precondition(lambda self: self.clients)
    @rule(choice=choices)
    def lose_partitions(self, choice: int) -> None:
        give_up(self._client(choice))

    @precondition(lambda self: self.clients)
    @rule(choice=choices)
    def get_partitions(self, choice: int) -> None:
        give_up(self._client(choice))
        take_on(self._client(choice))

    @precondition(lambda self: self.clients)
    @rule(choice=choices)
    def leave(self, choice: int) -> None:
        client = self._client(choice)
        del self.clients[client.member_id]
        if client.is_member:
            self.story.ask("consumer_group_heartbeat", client.leaving(), api_version=1)

    @precondition(lambda self: len(self.eager) < 2)
    @rule()
    def begin_as_classic(self) -> None:
        self.eager.append(Eager(story=self.story, counts=self.counts))

    @precondition(lambda self: self.eager)
    @rule(choice=choices, steps=st.integers(1, 4))
    def step_as_classic(self, choice: int, steps: int) -> None:
        for _ in range(steps):
            self.eager[choice % len(self.eager)].step()
            self.story.advance(0)

    @rule(ms=st.sampled_from([1_000, 9_000, 31_000, 46_000]))
    def pass_time(self, ms: int) -> None:
        self.story.advance(ms)

    @rule()
    def load_anew(self) -> None:
        """The coordinator moves: requests that waited hear so, and are sent again."""
        for each in self.eager:
            each.join_token = None if each.join_token not in self.story.replies else each.join_token
            each.sync_token = None if each.sync_token not in self.story.replies else each.sync_token
            if each.sync_token is None and each.generation >= 0 and not each.owned:
                each.generation = -1
        self.story.restart()

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.story.shard.groups.get(GROUP)
        members = {} if group is None else group.members
        held = [
            each
            for name, client in self.clients.items()
            if name in members
            for each in client.owned
        ]
        held += [
            each
            for client in self.eager
            if client.generation == self._generation_of(client)
            for each in client.owned
        ]
        assert len(held) == len(set(held))

    def _generation_of(self, client: Eager) -> int | None:
        """The generation in which a classic member may commit.

        One of an older generation may read what others have already, as with Kafka: a group that
        becomes classic has the targets of its members for assignments, which they have yet to hear
        of, and goes by these if it becomes a consumer group again before that.
        """
        group = self.story.shard.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            found = group.members.get(client.member_id)
            return None if found is None else found.current.epoch
        if not isinstance(group, ClassicGroup) or client.member_id not in group.members:
            return None
        return group.generation_id

    def teardown(self) -> None:
        if not hasattr(self, "clients") or not (self.clients or self.eager):
            return
        self.story.advance(61_000)
        for _ in range(ROUNDS):
            for client in self.clients.values():
                beat(self.story, client)
                give_up(client)
                take_on(client)
            for each in self.eager:
                each.step()
            self.story.advance(1_000)
            self.no_partition_has_two_owners()
        held = [each for client in self.clients.values() for each in client.owned] + [
            each for e in self.eager for each in e.owned
        ]
        assert sorted(held) == sorted(
            (NAMES[topic], index) for topic, count in self.counts.items() for index in range(count)
        )
        assert isinstance(self.story.shard.groups[GROUP], ConsumerGroup) == bool(self.clients)


GroupLife.TestCase.settings = settings(
    max_examples=250,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
test_life = GroupLife.TestCase
