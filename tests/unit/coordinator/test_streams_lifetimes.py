"""Topics of streams groups change once they were known, and members fall silent (KIP-1071)."""

from log_service.common.errors import ErrorCode
from log_service.coordinator.group.streams.configuration import StreamsStatus
from tests.unit.coordinator.streams_story import StreamsStory, active, statuses


def test_a_group_that_knew_its_topics_looks_at_those_that_change() -> None:
    story = StreamsStory()
    story.start("a")
    assert story.hear("a", 2).member_epoch == 2
    story.add_partitions("orders", 4, 6)
    response = story.hear("a", 2)
    assert (response.member_epoch, active(response)) == (3, {"0": (0, 1, 2, 3, 4, 5)})
    story.remove_topic("orders")
    response = story.hear("a", 3, {"0": (0, 1, 2, 3, 4, 5)})
    assert (active(response), statuses(response)) == ({}, [StreamsStatus.MISSING_SOURCE_TOPICS])


def test_a_member_that_reports_in_time_stays() -> None:
    story = StreamsStory()
    story.start("a")
    for _ in range(3):
        story.advance(30_000)
        assert story.hear("a", 2).member_epoch == 2
    story.advance(45_000)
    assert story.refused_with("a", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_come_back_to_the_next_coordinator_is_removed_after_a_whole_session() -> (
    None
):
    story = StreamsStory()
    story.start("a")
    story.advance(40_000)
    story.restart()
    story.advance(44_999)
    assert list(story.streams.members) == ["a"]
    story.advance(1)
    assert not story.streams.members
