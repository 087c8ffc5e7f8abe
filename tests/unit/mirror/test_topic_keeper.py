"""The keeper of topics, over clusters of which one refuses a topic for good."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import trio
from trio.testing import MockClock

from log_service.client.admin.values import ConfigResource, ItemsFailed, NewTopic, TopicListing
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TOPIC_ID, TopicId
from log_service.mirror.complaints import Complaints
from log_service.mirror.topic_keeper import TopicKeeper
from tests.unit.mirror.flows import flows_of


class Source:
    """A cluster with two topics; counts how often it is asked for them."""

    def __init__(self) -> None:
        self.looks_s: list[float] = []

    async def list_topics(self) -> list[TopicListing]:
        self.looks_s.append(trio.current_time())
        return [TopicListing(name=name, topic_id=NO_TOPIC_ID, is_internal=False, partition_count=1) for name in ("good", "large")]

    async def describe_configs(self, resources: Sequence[ConfigResource]) -> Mapping[ConfigResource, Mapping[str, Any]]:
        return {each: {} for each in resources}


class Target:
    """A cluster that refuses one topic."""

    async def list_topics(self, *, is_internal_included: bool) -> list[TopicListing]:
        assert is_internal_included
        return []

    async def create_topics(self, topics: Sequence[NewTopic]) -> Mapping[str, TopicId]:
        refusal = KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "too few brokers")
        made = {each.name: NO_TOPIC_ID for each in topics if each.name != "A.large"}
        raise ItemsFailed({"A.large": refusal}, made)


def test_a_topic_that_cannot_be_created_is_tried_ever_more_rarely_and_the_others_are_mirrored() -> None:
    source = Source()
    (flow,) = flows_of("A->B.enabled = true")
    keeper = TopicKeeper([flow], flow, cast("Any", source), cast("Any", Target()), Complaints("A->B", lambda: 0))

    async def main() -> None:
        await keeper.refresh()
        with trio.move_on_after(100):
            await keeper.run()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    began_s = source.looks_s[0]
    assert [round(at_s - began_s) for at_s in source.looks_s] == [0, 2, 6, 14, 30, 60, 90]
    assert list(keeper.topics) == ["good"]


class GrownSource(Source):
    """A cluster whose topic has three partitions by now."""

    async def list_topics(self) -> list[TopicListing]:
        return [TopicListing(name="good", topic_id=NO_TOPIC_ID, is_internal=False, partition_count=3)]


class FullTarget(Target):
    """A cluster that has that topic with one partition, and gives it no more."""

    async def list_topics(self, *, is_internal_included: bool) -> list[TopicListing]:
        return [TopicListing(name="A.good", topic_id=NO_TOPIC_ID, is_internal=False, partition_count=1)]

    async def describe_configs(self, resources: Sequence[ConfigResource]) -> Mapping[ConfigResource, Mapping[str, Any]]:
        return {each: {} for each in resources}

    async def create_partitions(self, counts: Mapping[str, int]) -> None:
        raise ItemsFailed({"A.good": KafkaError(ErrorCode.POLICY_VIOLATION, "one partition is enough")}, {})


def test_a_topic_that_the_target_gives_no_more_partitions_is_mirrored_as_far_as_it_goes() -> None:
    (flow,) = flows_of("A->B.enabled = true")
    complaints = Complaints("A->B", lambda: 0)
    keeper = TopicKeeper([flow], flow, cast("Any", GrownSource()), cast("Any", FullTarget()), complaints)
    trio.run(keeper.refresh, clock=MockClock(autojump_threshold=0))
    assert keeper.topics["good"].partition_count == 1
    assert "the topic A.good of B cannot be given more partitions" in "".join(complaints.current())
