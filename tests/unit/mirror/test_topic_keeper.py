"""The keeper of topics, over clusters of which one refuses a topic for good."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from log_service.client.admin.values import (
    ConfigEntry,
    ConfigResource,
    ItemsFailed,
    NewTopic,
    TopicListing,
)
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TOPIC_ID, TopicId
from log_service.mirror.complaints import Complaints
from log_service.mirror.topic_keeper import TopicKeeper
from log_service.mirror.topic_plan import SET_FOR_THE_TOPIC
from tests.unit.mirror.flows import flows_of


class Source:
    """A cluster with two topics; counts how often it is asked for them."""

    def __init__(self) -> None:
        self.looks_s: list[float] = []

    async def list_topics(self) -> list[TopicListing]:
        self.looks_s.append(trio.current_time())
        return [
            TopicListing(name=name, topic_id=NO_TOPIC_ID, is_internal=False, partition_count=1)
            for name in ("good", "large")
        ]

    async def describe_configs(
        self, resources: Sequence[ConfigResource]
    ) -> Mapping[ConfigResource, Mapping[str, Any]]:
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


def test_a_topic_that_cannot_be_created_is_tried_ever_more_rarely_and_the_others_are_mirrored() -> (
    None
):
    source = Source()
    (flow,) = flows_of("A->B.enabled = true")
    keeper = TopicKeeper(
        [flow], flow, cast("Any", source), cast("Any", Target()), Complaints("A->B", lambda: 0)
    )

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
        return [
            TopicListing(name="good", topic_id=NO_TOPIC_ID, is_internal=False, partition_count=3)
        ]


class FullTarget(Target):
    """A cluster that has that topic with one partition, and gives it no more."""

    async def list_topics(self, *, is_internal_included: bool) -> list[TopicListing]:
        return [
            TopicListing(name="A.good", topic_id=NO_TOPIC_ID, is_internal=False, partition_count=1)
        ]

    async def describe_configs(
        self, resources: Sequence[ConfigResource]
    ) -> Mapping[ConfigResource, Mapping[str, Any]]:
        return {each: {} for each in resources}

    async def create_partitions(self, counts: Mapping[str, int]) -> None:
        raise ItemsFailed(
            {"A.good": KafkaError(ErrorCode.POLICY_VIOLATION, "one partition is enough")}, {}
        )


def test_a_topic_that_the_target_gives_no_more_partitions_is_mirrored_as_far_as_it_goes() -> None:
    (flow,) = flows_of("A->B.enabled = true")
    complaints = Complaints("A->B", lambda: 0)
    keeper = TopicKeeper(
        [flow], flow, cast("Any", GrownSource()), cast("Any", FullTarget()), complaints
    )
    trio.run(keeper.refresh, clock=MockClock(autojump_threshold=0))
    assert keeper.topics["good"].partition_count == 1
    assert "the topic A.good of B cannot be given more partitions" in "".join(complaints.current())


class ConfiguredCluster:
    """A cluster of topics that have configs.

    It refuses a request for a topic whole where it refuses one config of it.
    """

    def __init__(
        self, topics: Mapping[str, Mapping[str, str]], *, refused: Sequence[str] = ()
    ) -> None:
        self.topics = {name: dict(configs) for name, configs in topics.items()}
        self.refused = refused

    async def list_topics(self, *, is_internal_included: bool = False) -> list[TopicListing]:
        return [
            TopicListing(name=name, topic_id=NO_TOPIC_ID, is_internal=False, partition_count=1)
            for name in self.topics
        ]

    async def describe_configs(
        self, resources: Sequence[ConfigResource]
    ) -> Mapping[ConfigResource, Mapping[str, ConfigEntry]]:
        return {
            each: {
                key: _set_for_the_topic(key, value) for key, value in self.topics[each.name].items()
            }
            for each in resources
        }

    async def create_topics(
        self, topics: Sequence[NewTopic], *, is_validated_only: bool = False
    ) -> Mapping[str, TopicId]:
        taken = [each for each in topics if not self._refusal(each.configs)]
        if not is_validated_only:
            self.topics |= {each.name: dict(each.configs) for each in taken}
        made = {each.name: NO_TOPIC_ID for each in taken}
        if len(taken) < len(topics):
            raise ItemsFailed(
                {
                    each.name: _invalid(self._refusal(each.configs))
                    for each in topics
                    if each not in taken
                },
                made,
            )
        return made

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Mapping[str, str | None]]
    ) -> None:
        refused = {
            each: refusal
            for each, configs in changes.items()
            if (refusal := self._refusal(configs))
        }
        for each, configs in changes.items():
            if each not in refused:
                kept = {**self.topics[each.name], **configs}
                self.topics[each.name] = {
                    key: value for key, value in kept.items() if value is not None
                }
        if refused:
            raise ItemsFailed({each: _invalid(key) for each, key in refused.items()}, {})

    def _refusal(self, configs: Mapping[str, str | None]) -> str:
        return next((key for key in configs if key in self.refused), "")


def _set_for_the_topic(key: str, value: str) -> ConfigEntry:
    return ConfigEntry(
        name=key,
        value=value,
        source=SET_FOR_THE_TOPIC,
        is_read_only=False,
        is_sensitive=False,
        documentation=None,
        synonyms=(),
    )


def _invalid(key: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"{key} is not for this cluster")


TIERED = {"cleanup.policy": "compact", "remote.storage.enable": "true", "retention.ms": "-1"}
WITHOUT = (
    "A->B: the topic A.orders of B is mirrored without what B refuses: "
    "remote.storage.enable=true (remote.storage.enable is not for this cluster)"
)


def test_a_topic_is_created_with_the_configs_that_the_target_takes_and_the_others_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The source has tiered storage, and the target has none.

    No record of the topic would come over for the sake of one config.
    """
    source, target = (
        ConfiguredCluster({"orders": TIERED}),
        ConfiguredCluster({}, refused=["remote.storage.enable"]),
    )
    (flow,) = flows_of("A->B.enabled = true")
    complaints = Complaints("A->B", lambda: 0)
    keeper = TopicKeeper([flow], flow, cast("Any", source), cast("Any", target), complaints)
    for _ in range(3):
        trio.run(keeper.refresh)
    assert list(keeper.topics) == ["orders"]
    assert target.topics == {"A.orders": {"cleanup.policy": "compact", "retention.ms": "-1"}}
    assert complaints.current() == caplog.messages == [WITHOUT]


def test_a_config_that_the_target_refuses_keeps_no_other_from_being_changed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = ConfiguredCluster({"orders": TIERED})
    target = ConfiguredCluster(
        {"A.orders": {"retention.ms": "1", "max.message.bytes": "9"}},
        refused=["remote.storage.enable"],
    )
    (flow,) = flows_of("A->B.enabled = true")
    complaints = Complaints("A->B", lambda: 0)
    keeper = TopicKeeper([flow], flow, cast("Any", source), cast("Any", target), complaints)
    for _ in range(3):
        trio.run(keeper.refresh)
    assert target.topics == {"A.orders": {"cleanup.policy": "compact", "retention.ms": "-1"}}
    assert complaints.current() == caplog.messages == [WITHOUT]


def test_a_topic_that_is_refused_for_another_reason_is_not_told_to_be_mirrored() -> None:
    """A policy of the target may refuse the topic whatever its configs are."""

    class Refusing(ConfiguredCluster):
        async def create_topics(
            self, topics: Sequence[NewTopic], *, is_validated_only: bool = False
        ) -> Mapping[str, TopicId]:
            raise ItemsFailed(
                {
                    each.name: KafkaError(ErrorCode.POLICY_VIOLATION, "not this name")
                    for each in topics
                },
                {},
            )

    (flow,) = flows_of("A->B.enabled = true")
    complaints = Complaints("A->B", lambda: 0)
    keeper = TopicKeeper(
        [flow],
        flow,
        cast("Any", ConfiguredCluster({"orders": TIERED})),
        cast("Any", Refusing({})),
        complaints,
    )
    trio.run(keeper.refresh)
    assert keeper.topics == {}
    assert complaints.current() == [
        "A->B: the topic A.orders of B cannot be created: not this name"
    ]
