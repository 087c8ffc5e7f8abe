"""The sensor tells watermarks and lag when they change, and its cursor remembers them."""

import pytest

from orchestration.offsets.planning import Checkpoint, PartitionOffsets
from orchestration.retained.lag import TopicLag, lag_of
from orchestration.sensing import Progress, decide_events
from orchestration.sensing.progress import QUIET_S, REPORT_INTERVAL_S


def lag(high_watermark: int, committed: int, topic_id: str = "id") -> TopicLag:
    offsets = PartitionOffsets(
        partition=0,
        log_start_offset=0,
        last_stable_offset=high_watermark,
        high_watermark=high_watermark,
    )
    return lag_of("orders", topic_id, [offsets], {0: Checkpoint(next_offset=committed)})


def test_what_was_never_told_is_told() -> None:
    decision = decide_events({"clean": lag(10, 4)}, Progress(), 0.0)
    assert (decision.topics, decision.tables) == (("orders",), ("clean",))


def test_what_did_not_change_is_not_told_again() -> None:
    told = decide_events({"clean": lag(10, 4)}, Progress(), 0.0).progress
    decision = decide_events({"clean": lag(10, 4)}, told, 1_000.0)
    assert (decision.topics, decision.tables) == ((), ())
    assert decision.progress == told


def test_what_changed_is_told_once_per_interval() -> None:
    told = decide_events({"clean": lag(10, 4)}, Progress(), 0.0).progress
    early = decide_events({"clean": lag(20, 4)}, told, REPORT_INTERVAL_S - 1)
    assert (early.topics, early.tables) == ((), ())
    late = decide_events({"clean": lag(20, 4)}, early.progress, REPORT_INTERVAL_S)
    assert (late.topics, late.tables) == (("orders",), ("clean",))


def test_lag_that_became_zero_is_told_at_once() -> None:
    told = decide_events({"clean": lag(10, 4)}, Progress(), 0.0).progress
    assert decide_events({"clean": lag(10, 10)}, told, 1.0).tables == ("clean",)


def test_a_lag_that_stood_still_is_told_once_more_before_it_grows() -> None:
    told = decide_events({"clean": lag(10, 10), "raw": lag(10, 4)}, Progress(), 0.0).progress
    changed = {"clean": lag(20, 10), "raw": lag(20, 4)}
    assert decide_events(changed, told, QUIET_S).stood_at == {"clean": 0, "raw": 6}
    assert decide_events(changed, told, QUIET_S - 1).stood_at == {}
    assert decide_events({"clean": lag(10, 10)}, told, QUIET_S).stood_at == {}


def test_a_lag_that_a_commit_made_smaller_is_not_told_once_more() -> None:
    """The commit has told the lag behind it: the old one would be a peak after it."""
    told = decide_events({"clean": lag(10, 2)}, Progress(), 0.0).progress
    for committed in (6, 10):
        decided = decide_events({"clean": lag(10, committed)}, told, QUIET_S)
        assert (decided.tables, decided.stood_at) == (("clean",), {})


def test_a_recreated_topic_is_told_even_with_the_same_watermark() -> None:
    told = decide_events({"clean": lag(10, 10)}, Progress(), 0.0).progress
    assert decide_events(
        {"clean": lag(10, 10, topic_id="other")}, told, REPORT_INTERVAL_S
    ).topics == ("orders",)


def test_two_tables_of_one_topic_tell_its_watermark_once() -> None:
    assert decide_events({"clean": lag(10, 4), "raw": lag(10, 9)}, Progress(), 0.0).topics == (
        "orders",
    )


def test_the_cursor_keeps_what_was_told() -> None:
    told = decide_events({"clean": lag(10, 4)}, Progress(), 12.5).progress
    assert Progress.from_cursor(told.to_cursor()) == told


def test_what_a_project_has_no_more_is_forgotten() -> None:
    told = decide_events(
        {"clean": lag(10, 4), "gone": lag(10, 5)},
        Progress(),
        0.0,
        {"clean": "late", "gone": "late"},
    ).progress
    kept = told.only_of({"clean"}, {"orders"})
    assert (set(kept.lags), set(kept.verdicts), set(kept.watermarks)) == (
        {"clean"},
        {"clean"},
        {"orders"},
    )
    assert told.only_of((), ()) == Progress()


@pytest.mark.parametrize(
    "cursor", [None, "", "{", "[]", '{"watermarks": {"orders": 7}}', '{"lags": {"clean": ["1"]}}']
)
def test_a_cursor_that_cannot_be_read_is_one_that_was_lost(cursor: str | None) -> None:
    assert Progress.from_cursor(cursor) == Progress()
