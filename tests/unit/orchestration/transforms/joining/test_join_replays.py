"""The replay of a join gets its warnings before it happens."""

from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.transforms.joining.replay import planned_metadata
from orchestration.transforms.joining.run import SideResult
from orchestration.transforms.run.context import TopicState

GONE = "retention has removed payments-0 [0, 4) from the log; the topic has no archive"


def side(topic: str, *ranges: OffsetRange, lost: str = "") -> SideResult:
    state = TopicState(topic_id=topic, log=(), snapshot=None, committed={})
    return SideResult(
        topic=topic,
        state=state,
        ranges=OffsetRanges(topic=topic, topic_id=topic, ranges=ranges),
        backlog=0,
        lost=lost,
    )


def test_a_topic_of_which_nothing_is_left_has_no_offsets_in_the_plan() -> None:
    left, right = (
        side("orders", OffsetRange(partition=0, start=2, end=5)),
        side("payments", lost=GONE),
    )
    assert planned_metadata({"left": left, "right": right}) == {
        "offsets": "orders 0:[2,5)",
        "offset_count": 3,
        "no_longer_in_the_log": GONE,
    }
    assert planned_metadata({"left": side("orders"), "right": side("payments")}) == {
        "offsets": "none",
        "offset_count": 0,
    }
