"""Plain functions decide when parts of a topic are archived.

They also decide which files and offsets a question leaves.
"""

from typing import Any

import pytest

from orchestration.offsets.planning import Checkpoint, PartitionOffsets, ProgressError
from orchestration.offsets.ranges import OffsetRange
from orchestration.retained.archive_reading import ArchivedFile, chosen_files, expired_files
from orchestration.retained.lag import lag_of
from orchestration.retained.topic_reads import Bounds, beside
from orchestration.topics.spec import TopicSpec, topic_asset, topic_specs
from orchestration.transforms.archiving import Archive, archive_table
from orchestration.transforms.archiving.planning import (
    due_offsets,
    is_tidying_due,
    pinned,
    plan_archive,
)

DAY_MS = 86_400_000


def partition(
    number: int, start: int, end: int, high_watermark: int | None = None
) -> PartitionOffsets:
    return PartitionOffsets(
        partition=number,
        log_start_offset=start,
        last_stable_offset=end,
        high_watermark=end if high_watermark is None else high_watermark,
    )


def planned(
    log: list[PartitionOffsets], committed: dict[int, int], *, is_sweep: bool, **changes: Any
) -> tuple[str, int]:
    checkpoints = {number: Checkpoint(next_offset=offset) for number, offset in committed.items()}
    arguments: dict[str, Any] = {
        "topic": "t",
        "topic_id": "T",
        "epoch_ends": {},
        "chunk_records": 100,
        **changes,
    }
    plan = plan_archive(log=log, committed=checkpoints, is_sweep=is_sweep, **arguments)
    return str(plan.ranges), plan.backlog


def test_only_full_chunks_are_taken_until_a_sweep_takes_the_rest() -> None:
    log = [partition(0, 0, 250), partition(1, 0, 99), partition(2, 5, 5)]
    assert planned(log, {}, is_sweep=False) == ("0:[0,100)", 249)
    assert planned(log, {0: 200}, is_sweep=False) == ("", 149)
    assert planned(log, {0: 200}, is_sweep=True) == ("0:[200,250) 1:[0,99)", 0)


def test_nothing_above_the_last_stable_offset_is_taken() -> None:
    log = [partition(0, 0, 120, high_watermark=500)]
    assert planned(log, {0: 100}, is_sweep=True) == ("0:[100,120)", 0)
    assert planned(list(pinned(log, {0: 110})), {0: 100}, is_sweep=True) == ("0:[100,110)", 0)


def test_retention_that_overtook_the_archive_is_told_and_can_be_accepted() -> None:
    log = [partition(0, 50, 80)]
    with pytest.raises(ProgressError, match=r"the offsets \[10, 50\) were removed"):
        planned(log, {0: 10}, is_sweep=False)
    assert planned(log, {0: 10}, is_sweep=True, is_loss_accepted=True) == ("0:[50,80)", 0)
    assert planned([partition(0, 80, 80)], {0: 10}, is_sweep=False, is_loss_accepted=True) == (
        "0:[80,80)",
        0,
    )


def test_a_recreated_topic_is_archived_from_its_start_and_told() -> None:
    plan = plan_archive(
        topic="t",
        topic_id="T2",
        log=[partition(0, 0, 7)],
        committed={},
        epoch_ends={},
        other_topic_ids=["T"],
        chunk_records=100,
        is_sweep=True,
    )
    assert str(plan.ranges) == "0:[0,7)"
    assert "was recreated" in plan.notes[0]


def test_a_run_is_due_for_a_full_chunk_or_when_time_has_passed() -> None:
    archive = Archive(chunk_records=100, within_s=60)
    lag = lag_of(
        "t", "T", [partition(0, 0, 130), partition(1, 0, 20)], {0: Checkpoint(next_offset=10)}
    )
    assert due_offsets(lag, archive, swept_s=1_000, now_s=1_010) == 120
    assert due_offsets(lag, archive, swept_s=1_000, now_s=1_060) == 140
    assert due_offsets(lag, archive, swept_s=None, now_s=0) == 140
    few = lag_of("t", "T", [partition(0, 0, 99)], {})
    assert due_offsets(few, archive, swept_s=1_000, now_s=1_059) == 0
    assert not is_tidying_due(archive, 0, 1e9)
    assert is_tidying_due(Archive(kept_days=1), 0, 86_400)
    assert not is_tidying_due(Archive(kept_days=1), 1, 86_400)


def test_declarations_that_make_no_sense_are_refused() -> None:
    assert TopicSpec(name="a").archived is None
    assert TopicSpec(name="a", archive=True).archived == Archive()
    with pytest.raises(ValueError, match="kept_days is 0"):
        Archive(kept_days=0)
    with pytest.raises(ValueError, match="at least 1"):
        Archive(within_s=0)
    with pytest.raises(
        ValueError,
        match=r"retention\.ms of topic a is 60000, and its archive reads what waits every 3600 s",
    ):
        TopicSpec(name="a", archive=True, configs={"retention.ms": "60000"})
    assert (
        TopicSpec(
            name="a", archive=Archive(within_s=59), configs={"retention.ms": "60000"}
        ).archived
        is not None
    )
    assert TopicSpec(name="a", archive=True, configs={"retention.ms": "-1"}).archived is not None
    with pytest.raises(ValueError, match="longer than 128 letters"):
        TopicSpec(name="a" * 200, archive=True)
    assert archive_table("2024.orders-eu") == "_2024_orders_eu_archive"


def test_a_declaration_is_read_back_from_what_dagster_keeps_of_it() -> None:
    specs = [
        TopicSpec(name="a", archive=Archive(within_s=5, kept_days=2.5)),
        TopicSpec(name="b"),
        TopicSpec(name="c", archive=True),
    ]
    assert [spec.archived for spec in topic_specs([topic_asset(spec) for spec in specs])] == [
        spec.archived for spec in specs
    ]


def file(
    number: int,
    offsets: tuple[int, int] | None,
    times_ms: tuple[int, int] | None = (0, 0),
    topic_id: str = "T",
) -> ArchivedFile:
    return ArchivedFile(
        path=f"{number}/{offsets}",
        partition=number,
        size_bytes=1,
        changed_ms=5 * DAY_MS,
        topic_ids=(topic_id, topic_id),
        offsets=offsets,
        times_ms=times_ms,
    )


def test_files_are_chosen_by_partition_offset_and_time() -> None:
    early, late, other = (
        file(0, (0, 99), (10, 20)),
        file(0, (100, 150), (15, 30)),
        file(1, (0, 99), (10, 20)),
    )
    unknown, strange = file(0, None, None), file(0, (0, 99), (10, 20), topic_id="U")
    files = [late, other, early, unknown, strange]

    def chosen(
        start: int, end: int, from_ms: int | None = None, to_ms: int | None = None
    ) -> list[ArchivedFile]:
        return chosen_files(
            files, "T", OffsetRange(partition=0, start=start, end=end), from_ms, to_ms
        )

    assert chosen(0, 1_000) == [unknown, early, late] or chosen(0, 1_000) == [early, unknown, late]
    assert late not in chosen(0, 100)
    assert early not in chosen(100, 101)
    assert early not in chosen(0, 1_000, from_ms=21)
    assert late not in chosen(0, 1_000, to_ms=15)
    assert unknown in chosen(0, 1, from_ms=99)


def test_files_go_from_the_lowest_offsets_on_and_leave_no_hole() -> None:
    old, young, late = (
        file(0, (0, 9), (0, DAY_MS)),
        file(0, (10, 19), (0, 4 * DAY_MS)),
        file(0, (20, 29), (0, DAY_MS)),
    )
    unstamped = file(1, (0, 9), None)
    assert expired_files([late, young, old, unstamped], 2 * DAY_MS) == [old]
    assert expired_files([unstamped], 5 * DAY_MS) == []
    assert expired_files([unstamped], 5 * DAY_MS + 1) == [unstamped]


@pytest.mark.parametrize(
    ("covered", "live", "gaps"),
    [
        (None, "[20,80)", ""),
        ((0, 50), "[50,80)", ""),
        ((20, 20), "[20,80)", ""),
        ((0, 10), "[20,80)", "[10,20)"),
        ((40, 50), "[20,40) [50,80)", ""),
        ((50, 50), "[20,50) [50,80)", ""),
        ((0, 90), "", ""),
    ],
)
def test_the_log_gives_what_the_archive_does_not_hold(
    covered: tuple[int, int] | None, live: str, gaps: str
) -> None:
    archived = (
        {} if covered is None else {0: OffsetRange(partition=0, start=covered[0], end=covered[1])}
    )
    found_live, found_gaps = beside([partition(0, 20, 80)], archived)
    assert " ".join(f"[{one.start},{one.end})" for one in found_live) == live
    assert " ".join(f"[{one.start},{one.end})" for one in found_gaps) == gaps


def test_bounds_cut_ranges() -> None:
    ranges = [OffsetRange(partition=0, start=0, end=50), OffsetRange(partition=1, start=0, end=50)]
    assert [
        str(one) for one in Bounds(partitions=frozenset([1]), start=10, end=20).cut(ranges)
    ] == ["1:[10,20)"]
    assert Bounds(start=50).cut(ranges) == []
