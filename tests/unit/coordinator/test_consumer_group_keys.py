"""The keys of a broker's file that consumer groups obey, and what a group's own settings change.
Each fails where its key is ignored.
"""

from collections.abc import Mapping

import pytest

from log_service.common.errors import ConfigError, ErrorCode
from log_service.config.server import parse_server_properties
from log_service.metadata.image import ResourceType
from tests.unit.coordinator.consumer_story import ConsumerStory, assigned, configure
from tests.unit.coordinator.group_story import GROUP


def story_of(properties: Mapping[str, str]) -> ConsumerStory:
    config, _ = parse_server_properties(
        {"node.id": "1", **{f"group.consumer.{name}": value for name, value in properties.items()}}
    )
    return ConsumerStory(config.groups)


def session_ms(story: ConsumerStory) -> int:
    """After how many seconds a silent member is gone."""
    story.enter("a")
    start_ms = story.now_ms
    while story.group.members:
        story.advance(1_000)
    return story.now_ms - start_ms


TIMES = {
    "min.session.timeout.ms": "10000",
    "session.timeout.ms": "20000",
    "max.session.timeout.ms": "30000",
}


def test_session_timeout_is_the_files_or_the_groups_own_within_its_bounds() -> None:
    assert session_ms(story_of(TIMES)) == 20_000
    for own, timeout_ms in (("25000", 25_000), ("5000", 10_000), ("50000", 30_000)):
        story = story_of(TIMES)
        configure(story, ResourceType.GROUP, GROUP, "consumer.session.timeout.ms", own)
        assert session_ms(story) == timeout_ms


INTERVALS = {
    "min.heartbeat.interval.ms": "2000",
    "heartbeat.interval.ms": "3000",
    "max.heartbeat.interval.ms": "4000",
}


def test_heartbeat_interval_is_the_files_or_the_groups_own_within_its_bounds() -> None:
    assert story_of(INTERVALS).enter("a").heartbeat_interval_ms == 3_000
    for own, interval_ms in (("3500", 3_500), ("1000", 2_000), ("9000", 4_000)):
        story = story_of(INTERVALS)
        configure(story, ResourceType.GROUP, GROUP, "consumer.heartbeat.interval.ms", own)
        assert story.enter("a").heartbeat_interval_ms == interval_ms


def assignment_interval_ms(story: ConsumerStory) -> int:
    """How long a second member waits for the targets of its epoch."""
    story.enter("a")
    start_ms, epoch = story.now_ms, story.enter("b").member_epoch
    while epoch < 3:
        story.advance(500)
        epoch = story.told("b", epoch).member_epoch
    return story.now_ms - start_ms


PAUSES = {
    "min.assignment.interval.ms": "1000",
    "assignment.interval.ms": "2000",
    "max.assignment.interval.ms": "4000",
}


def test_assignment_interval_is_the_files_the_brokers_or_the_groups_own_within_its_bounds() -> None:
    assert assignment_interval_ms(story_of(PAUSES)) == 2_000
    for own, interval_ms in (("3000", 3_000), ("0", 1_000), ("9000", 4_000)):
        story = story_of(PAUSES)
        configure(story, ResourceType.GROUP, GROUP, "consumer.assignment.interval.ms", own)
        assert assignment_interval_ms(story) == interval_ms
    for broker in ("", "1"):
        story = story_of(PAUSES)
        configure(
            story, ResourceType.BROKER, broker, "group.consumer.assignment.interval.ms", "1500"
        )
        assert assignment_interval_ms(story) == 1_500


def test_size_and_assignors_are_the_files() -> None:
    story = story_of({"max.size": "2", "assignors": "range"})
    story.enter("a")
    story.enter("b")
    assert (
        story.refused("c", 0, {}, topics=("orders",), rebalance_ms=1)
        == ErrorCode.GROUP_MAX_SIZE_REACHED
    )
    assert (
        story.refused("a", 0, {}, topics=("orders",), rebalance_ms=1, assignor="uniform")
        == ErrorCode.UNSUPPORTED_ASSIGNOR
    )
    assert story.described().assignor_name == "range"


def test_regular_expressions_are_matched_anew_in_the_files_interval() -> None:
    pytest.importorskip("re2")
    story = story_of({"regex.refresh.interval.ms": "20000"})
    story.enter("a", topics=None, regex="ord.*")
    story.advance(0)
    first_ms = story.group.regexes["ord.*"].resolved_ms
    for waited_ms, is_refreshed in ((15_000, False), (6_000, True)):
        story.advance(waited_ms)
        assert (
            assigned(story.told("a", story.group.members["a"].current.epoch)) is None
            or not is_refreshed
        )
        story.advance(0)
        assert (story.group.regexes["ord.*"].resolved_ms > first_ms) is is_refreshed


@pytest.mark.parametrize(
    "properties",
    [
        {"session.timeout.ms": "44999"},
        {"heartbeat.interval.ms": "15001"},
        {"assignment.interval.ms": "15001"},
        {
            "min.heartbeat.interval.ms": "1",
            "max.heartbeat.interval.ms": "60000",
            "heartbeat.interval.ms": "45000",
        },
    ],
)
def test_values_that_contradict_each_other_are_refused(properties: Mapping[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"group\.consumer\."):
        story_of(properties)


def test_protocol_can_be_left_out() -> None:
    for protocols, is_enabled in (("classic,consumer", True), ("classic", False)):
        config, _ = parse_server_properties(
            {"node.id": "1", "group.coordinator.rebalance.protocols": protocols}
        )
        assert config.groups.consumer.is_enabled is is_enabled


def test_migration_policy_is_the_files_whatever_its_case() -> None:
    for policy, error in (
        ("Bidirectional", ErrorCode.MEMBER_ID_REQUIRED),
        ("DISABLED", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ):
        story = story_of({"migration.policy": policy})
        story.enter("a")
        assert story.joined(story.join()).error_code == error
