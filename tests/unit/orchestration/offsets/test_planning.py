"""A plan names the offsets that a run reads, or refuses to."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestration.offsets.planning import (
    BatchPlan,
    Checkpoint,
    PartitionOffsets,
    ProgressError,
    clip_replay,
    plan_batch,
    plan_replay,
    share_limit,
    validate_advance,
)
from orchestration.offsets.ranges import OffsetRange


def state(
    partition: int, start: int, end: int, high_watermark: int | None = None
) -> PartitionOffsets:
    return PartitionOffsets(
        partition=partition,
        log_start_offset=start,
        last_stable_offset=end,
        high_watermark=end if high_watermark is None else high_watermark,
    )


def at(next_offset: int, leader_epoch: int | None = None) -> Checkpoint:
    return Checkpoint(next_offset=next_offset, leader_epoch=leader_epoch)


def plan(
    *log: PartitionOffsets, committed: dict[int, Checkpoint] | None = None, **more: Any
) -> BatchPlan:
    settings: dict[str, Any] = {"epoch_ends": {}, "limit": 1_000, **more}
    return plan_batch(topic="t", topic_id="T", log=log, committed=committed or {}, **settings)


def test_starts_at_the_checkpoint_or_the_log_start_and_ends_at_the_last_stable_offset() -> None:
    planned = plan(
        state(0, 5, 10, 12), state(1, 0, 7), state(2, 0, 3), committed={1: at(4), 2: at(3)}
    )
    assert str(planned.ranges) == "0:[5,10) 1:[4,7)"
    assert planned.backlog == 0
    assert planned.notes == ()


def test_nothing_new_is_an_empty_plan() -> None:
    assert plan(state(0, 0, 3, 9), committed={0: at(3)}).is_empty


def test_what_an_archive_holds_is_read_as_if_the_log_held_it() -> None:
    planned = plan(
        state(0, 50, 60),
        state(1, 0, 3),
        committed={0: at(7), 1: at(3)},
        archived_starts={0: 0},
        limit=45,
    )
    assert str(planned.ranges) == "0:[7,52)"
    assert planned.backlog == 8
    assert planned.notes == (
        "t-0: the offsets [7, 50) are no longer in the log and are read from its archive",
    )


def test_a_log_of_which_nothing_is_left_is_read_from_the_archive() -> None:
    assert (
        str(plan(state(0, 9, 9), committed={0: at(7)}, archived_starts={0: 7}).ranges) == "0:[7,9)"
    )


def test_what_is_lost_ends_where_the_archive_begins() -> None:
    overtaken: dict[str, Any] = {"committed": {0: at(7)}, "archived_starts": {0: 20}}
    with pytest.raises(
        ProgressError,
        match=r"the offsets \[7, 20\) were removed from the log before the table read them",
    ):
        plan(state(0, 50, 60), **overtaken)
    assert str(plan(state(0, 50, 60), is_loss_accepted=True, **overtaken).ranges) == "0:[20,60)"


def test_an_archive_does_not_stand_for_a_log_that_was_truncated() -> None:
    with pytest.raises(
        ProgressError, match=r"the high watermark 5 is below the table's checkpoint 7"
    ):
        plan(state(0, 5, 5), committed={0: at(7)}, archived_starts={0: 0})


def test_a_table_that_has_read_nothing_begins_in_the_log() -> None:
    assert str(plan(state(0, 50, 60), archived_starts={0: 0}).ranges) == "0:[50,60)"


def test_limit_leaves_a_backlog() -> None:
    planned = plan(state(0, 0, 100), state(1, 0, 4), limit=10)
    assert str(planned.ranges) == "0:[0,6) 1:[0,4)"
    assert planned.backlog == 94


@given(st.dictionaries(st.integers(0, 20), st.integers(0, 500), max_size=12), st.integers(1, 600))
def test_shares_use_the_limit_and_no_more(pending: dict[int, int], limit: int) -> None:
    shares = share_limit(pending, limit)
    assert sum(shares.values()) == min(limit, sum(pending.values()))
    assert all(0 <= shares[partition] <= pending[partition] for partition in pending)


def test_unknown_topic_id_under_a_known_name_starts_at_the_log_start_and_says_so() -> None:
    planned = plan(state(0, 2, 4), other_topic_ids=["OLD"])
    assert str(planned.ranges) == "0:[2,4)"
    assert "recreated" in planned.notes[0]
    assert plan(state(0, 2, 4), committed={0: at(2)}, other_topic_ids=["OLD"]).notes == ()


def test_high_watermark_below_the_checkpoint_is_refused() -> None:
    with pytest.raises(
        ProgressError, match="t-0: the high watermark 4 is below the table's checkpoint 9"
    ):
        plan(state(0, 0, 4), committed={0: at(9)})


def test_records_removed_before_they_were_read_are_refused_unless_the_loss_is_accepted() -> None:
    with pytest.raises(ProgressError, match=r"\[3, 8\) were removed .* accept_lost_records: true"):
        plan(state(0, 8, 12), committed={0: at(3)})
    planned = plan(state(0, 8, 12), committed={0: at(3)}, is_loss_accepted=True)
    assert str(planned.ranges) == "0:[8,12)"
    assert "[3, 8)" in planned.notes[0]


def test_where_nothing_is_left_to_read_an_accepted_loss_moves_the_checkpoint_to_the_log_start() -> (
    None
):
    planned = plan(
        state(0, 12, 12), state(1, 0, 4), committed={0: at(3), 1: at(4)}, is_loss_accepted=True
    )
    assert str(planned.ranges) == "0:[12,12)"
    assert planned.ranges.ends() == {0: 12}
    assert not planned.is_empty
    assert plan(state(0, 12, 12), committed={0: at(12)}, is_loss_accepted=True).is_empty


def test_an_epoch_that_ends_below_the_checkpoint_or_is_unknown_is_refused() -> None:
    committed = {0: at(9, leader_epoch=3)}
    assert str(plan(state(0, 0, 12), committed=committed, epoch_ends={0: 9}).ranges) == "0:[9,12)"
    with pytest.raises(ProgressError, match="leader epoch 3 ends at offset 7"):
        plan(state(0, 0, 12), committed=committed, epoch_ends={0: 7})
    with pytest.raises(ProgressError, match="does not know leader epoch 3"):
        plan(state(0, 0, 12), committed=committed, epoch_ends={0: -1})
    assert plan(state(0, 9, 9), committed=committed, epoch_ends={0: -1}).is_empty
    assert str(plan(state(0, 0, 12), committed=committed).ranges) == "0:[9,12)"
    assert str(plan(state(0, 0, 12), committed={0: at(9)}, epoch_ends={0: 7}).ranges) == "0:[9,12)"


def test_a_partition_without_records_that_was_never_read_has_no_range() -> None:
    assert str(plan(state(0, 0, 4), state(1, 0, 0), committed={0: at(1)}).ranges) == "0:[1,4)"


def test_a_replay_of_several_partitions_takes_ranges_that_touch() -> None:
    wanted = [
        OffsetRange(partition=number, start=start, end=end)
        for number, start, end in [(1, 2, 4), (0, 5, 9), (0, 3, 5)]
    ]
    held = {number: [OffsetRange(partition=number, start=0, end=9)] for number in range(2)}
    planned = plan_replay(
        topic="t", topic_id="T", wanted=wanted, held=held, committed={0: at(9), 1: at(9)}
    )
    assert str(planned) == "0:[3,5) 0:[5,9) 1:[2,4)"


def test_replays_stay_within_what_was_committed_and_is_still_there() -> None:
    def replay(*wanted: OffsetRange) -> str:
        return str(
            plan_replay(
                topic="t",
                topic_id="T",
                wanted=wanted,
                held={0: [one(5, 20)]},
                committed={0: at(10)},
            )
        )

    def one(start: int, end: int, partition: int = 0) -> OffsetRange:
        return OffsetRange(partition=partition, start=start, end=end)

    assert replay(one(8, 10), one(5, 7)) == "0:[5,7) 0:[8,10)"
    for wrong, reason in [
        ((one(8, 11),), "above the checkpoint 10"),
        (
            (one(4, 6),),
            r"\[4, 6\) neither the log nor an archive of the topic holds \[4, 5\).*Replay within what is left: \[5, 20\)",
        ),
        ((one(5, 8), one(7, 9)), "overlap"),
        ((one(5, 6, partition=3),), "no partition 3"),
    ]:
        with pytest.raises(ProgressError, match=reason):
            replay(*wrong)
    with pytest.raises(ProgressError, match="Replay within what is left: nothing"):
        plan_replay(
            topic="t", topic_id="T", wanted=[one(5, 7)], held={0: []}, committed={0: at(10)}
        )


def test_a_range_of_time_is_clipped_to_what_was_committed() -> None:
    held = [OffsetRange(partition=0, start=0, end=3), OffsetRange(partition=0, start=5, end=20)]
    assert list(map(str, clip_replay(2, None, held, at(10)))) == ["0:[2,3)", "0:[5,10)"]
    assert list(map(str, clip_replay(7, 15, held, at(10)))) == ["0:[7,10)"]
    assert clip_replay(None, None, held, at(10)) == []
    assert clip_replay(12, None, held, at(10)) == []
    assert clip_replay(0, None, held, None) == []


def test_a_checkpoint_never_goes_back() -> None:
    validate_advance("t", {0: at(5)}, {0: 5, 1: 3})
    with pytest.raises(ProgressError, match="move the checkpoint back from 5"):
        validate_advance("t", {0: at(5)}, {0: 4})
