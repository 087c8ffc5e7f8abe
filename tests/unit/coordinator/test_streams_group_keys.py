"""The keys of a broker's file that streams groups obey, and what a group's own settings change.
Each fails where its key is ignored.
"""

from collections.abc import Mapping

import pytest

from log_service.common.errors import ConfigError, ErrorCode
from log_service.config.server import parse_server_properties
from log_service.metadata.image import ResourceType
from tests.unit.coordinator.consumer_story import configure
from tests.unit.coordinator.group_story import GROUP
from tests.unit.coordinator.streams_story import StreamsStory, active, counting

AT_ONCE = {"initial.rebalance.delay.ms": "0"}


def story_of(properties: Mapping[str, str], **more: object) -> StreamsStory:
    named = {f"group.streams.{name}": value for name, value in {**AT_ONCE, **properties}.items()}
    config, _ = parse_server_properties({"node.id": "1", **named})
    return StreamsStory(config.groups, **more)  # type: ignore[arg-type]


def own(story: StreamsStory, name: str, value: str) -> StreamsStory:
    configure(story, ResourceType.GROUP, GROUP, f"streams.{name}", value)
    return story


def session_ms(story: StreamsStory) -> int:
    """After how long a silent member is gone."""
    story.start("a")
    start_ms = story.now_ms
    while story.streams.members:
        story.advance(1_000)
    return story.now_ms - start_ms


TIMES = {
    "min.session.timeout.ms": "10000",
    "session.timeout.ms": "20000",
    "max.session.timeout.ms": "30000",
}


def test_session_timeout_is_the_files_or_the_groups_own_within_its_bounds() -> None:
    assert session_ms(story_of(TIMES)) == 20_000
    for value, timeout_ms in (("25000", 25_000), ("5000", 10_000), ("50000", 30_000)):
        assert session_ms(own(story_of(TIMES), "session.timeout.ms", value)) == timeout_ms


INTERVALS = {
    "min.heartbeat.interval.ms": "2000",
    "heartbeat.interval.ms": "3000",
    "max.heartbeat.interval.ms": "4000",
}


def test_heartbeat_interval_is_the_files_or_the_groups_own_within_its_bounds() -> None:
    assert story_of(INTERVALS).start("a").heartbeat_interval_ms == 3_000
    for value, interval_ms in (("3500", 3_500), ("1000", 2_000), ("9000", 4_000)):
        assert (
            own(story_of(INTERVALS), "heartbeat.interval.ms", value)
            .start("a")
            .heartbeat_interval_ms
            == interval_ms
        )


def assignment_interval_ms(story: StreamsStory) -> int:
    """How long a second member waits for the targets of its epoch."""
    story.start("a")
    start_ms, epoch = story.now_ms, story.start("b").member_epoch
    while epoch < 3:
        story.advance(500)
        epoch = story.hear("b", epoch).member_epoch
    return story.now_ms - start_ms


PAUSES = {
    "min.assignment.interval.ms": "1000",
    "assignment.interval.ms": "2000",
    "max.assignment.interval.ms": "4000",
}


def test_assignment_interval_is_the_files_the_brokers_or_the_groups_own_within_its_bounds() -> None:
    assert assignment_interval_ms(story_of(PAUSES)) == 2_000
    for value, interval_ms in (("3000", 3_000), ("0", 1_000), ("9000", 4_000)):
        assert (
            assignment_interval_ms(own(story_of(PAUSES), "assignment.interval.ms", value))
            == interval_ms
        )
    story = story_of(PAUSES)
    configure(story, ResourceType.BROKER, "", "group.streams.assignment.interval.ms", "1500")
    assert assignment_interval_ms(story) == 1_500


def first_tasks_ms(story: StreamsStory) -> int:
    """After how long the first member has tasks."""
    story.start("a")
    start_ms = story.now_ms
    while not story.streams.targets:
        story.advance(500)
        story.hear("a", story.streams.members["a"].current.epoch)
    return story.now_ms - start_ms


def test_initial_delay_is_the_files_or_the_groups_own() -> None:
    assert first_tasks_ms(story_of({"initial.rebalance.delay.ms": "2000"})) == 2_000
    assert (
        first_tasks_ms(
            own(
                story_of({"initial.rebalance.delay.ms": "2000"}),
                "initial.rebalance.delay.ms",
                "1000",
            )
        )
        == 1_000
    )


def standby_count(properties: Mapping[str, str], value: str | None = None) -> int:
    story = story_of(
        {"assignment.interval.ms": "0", **properties},
        topics={"orders": 1, "counts-changelog": 1},
        topology=counting(),
    )
    if value is not None:
        own(story, "num.standby.replicas", value)
    for name in "abcde":
        story.start(name)
    return sum(bool(tasks.standby) for tasks in story.streams.targets.values())


def test_standby_tasks_are_as_many_as_the_file_or_the_group_says_up_to_the_most() -> None:
    assert standby_count({}) == 0
    assert standby_count({"num.standby.replicas": "1"}) == 1
    assert standby_count({"num.standby.replicas": "1"}, "2") == 2
    assert standby_count({"max.standby.replicas": "3"}, "4") == 3


def test_size_is_the_files() -> None:
    story = story_of({"max.size": "1"})
    assert active(story.start("a")) is not None
    assert story.refused_with("b", 0, {}, **story.joining("b")) == ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(
    "properties",
    [
        {"session.timeout.ms": "44999"},
        {"heartbeat.interval.ms": "15001"},
        {"assignment.interval.ms": "15001"},
        {"num.standby.replicas": "3"},
        {
            "min.heartbeat.interval.ms": "1",
            "max.heartbeat.interval.ms": "60000",
            "heartbeat.interval.ms": "45000",
        },
    ],
)
def test_values_that_contradict_each_other_are_refused(properties: Mapping[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"group\.streams\."):
        story_of(properties)


def test_protocol_can_be_left_out() -> None:
    for protocols, is_enabled in (("classic,consumer,streams", True), ("classic,consumer", False)):
        config, _ = parse_server_properties(
            {"node.id": "1", "group.coordinator.rebalance.protocols": protocols}
        )
        assert config.groups.streams.is_enabled is is_enabled
