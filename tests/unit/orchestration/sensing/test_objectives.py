"""Whether a table keeps up: what is older than the objective has to be committed."""

import dagster as dg
import pytest

from orchestration.offsets.planning import Checkpoint, PartitionOffsets
from orchestration.retained.lag import TopicLag, lag_of
from orchestration.retained.lag_objective import decide_keeps_up
from orchestration.sensing import Progress, decide_events, lag_objective
from orchestration.sensing.objectives import objectives


def lag(*partitions: tuple[int, int]) -> TopicLag:
    """A lag of partitions given as (high watermark, committed)."""
    offsets = [
        PartitionOffsets(
            partition=number, log_start_offset=0, last_stable_offset=end, high_watermark=end
        )
        for number, (end, _) in enumerate(partitions)
    ]
    return lag_of(
        "orders",
        "id",
        offsets,
        {
            number: Checkpoint(next_offset=next_offset)
            for number, (_, next_offset) in enumerate(partitions)
        },
    )


def test_records_that_are_young_enough_may_wait() -> None:
    verdict = decide_keeps_up(lag((10, 6)), {0: 6}, 60)
    assert verdict.is_kept
    assert verdict.metadata() == {"late_records": 0, "lag": 4, "within_seconds": 60}


def test_an_old_record_that_waits_is_late() -> None:
    verdict = decide_keeps_up(lag((10, 6), (10, 10)), {0: 8, 1: 9}, 60)
    assert (verdict.is_kept, verdict.late) == (False, 2)


def test_where_no_record_is_young_all_have_to_be_committed() -> None:
    assert decide_keeps_up(lag((10, 6)), {0: None}, 60).late == 4
    assert decide_keeps_up(lag((10, 10)), {0: None}, 60).is_kept


def test_without_lag_nothing_is_asked_and_nothing_is_late() -> None:
    assert decide_keeps_up(lag((10, 10)), {}, 60).is_kept


def test_a_verdict_is_told_when_it_changes_and_at_once() -> None:
    told = decide_events({}, Progress(), 0.0, {"clean": "kept"})
    assert told.evaluated == ("clean",)
    assert decide_events({}, told.progress, 100.0, {"clean": "kept"}).evaluated == ()
    missed = decide_events({}, told.progress, 101.0, {"clean": "missed"})
    assert missed.evaluated == ("clean",)
    assert Progress.from_cursor(missed.progress.to_cursor()) == missed.progress


def test_the_example_declares_an_objective_for_each_table_that_follows_a_topic() -> None:
    from assets.objectives import keeps_up, reference_keeps_up

    found = objectives([*keeps_up, *reference_keeps_up])
    assert {key.path[-1]: within_s for key, within_s in found.items()} == {
        "clean_flights": 60,
        "weather": 60,
        "planes": 300,
        "airports": 300,
        "airlines": 300,
    }


def test_a_table_that_follows_no_topic_has_no_lag() -> None:
    @dg.asset
    def lonely() -> None: ...

    with pytest.raises(ValueError, match="lonely follows no topic"):
        lag_objective(lonely, within_s=5)
