"""Repetitions in a batch and against a table."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from orchestration.lake.range_commits import append_with_offsets
from orchestration.lake.tables import Lake, TableSnapshot
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.rows.uniqueness import TableKeys, find_originals, find_repetitions

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("_topic_id", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("hour", pa.timestamp("us", tz="UTC")),
        ('the "key"', pa.string()),
    ]
)


def batch(*rows: tuple[int, int, int, str | None]) -> pa.Table:
    columns: list[Any] = list(zip(*rows, strict=True)) or [[], [], [], []]
    hours = [START + timedelta(hours=hour) for hour in columns[2]]
    return pa.table(
        [["T"] * len(rows), list(columns[0]), list(columns[1]), hours, list(columns[3])],
        schema=SCHEMA,
    )


def table(tmp_path: Path, *rows: tuple[int, int, int, str | None]) -> TableSnapshot:
    lake = Lake(tmp_path / "lake")
    covered = OffsetRanges(
        topic="t", topic_id="T", ranges=(OffsetRange(partition=0, start=0, end=99),)
    )
    return append_with_offsets(lake.create("t", SCHEMA), batch(*rows), covered, {}, expected={})


KEY = ["hour", 'the "key"']


def test_the_lowest_offset_is_kept_whatever_the_order_of_rows() -> None:
    rows = batch((0, 5, 1, "a"), (0, 2, 1, "a"), (0, 3, 1, "b"), (1, 2, 1, "a"), (0, 9, 2, "a"))
    assert find_repetitions(rows, KEY, None).tolist() == [0, 3]


def test_keys_of_the_table_are_repetitions_and_those_outside_its_bounds_are_not(
    tmp_path: Path,
) -> None:
    keys = TableKeys(snapshot=table(tmp_path, (0, 0, 1, "a"), (0, 1, 50, "z")))
    assert find_repetitions(
        batch((0, 100, 1, "a"), (0, 101, 1, "b"), (0, 102, 2, "a")), KEY, keys
    ).tolist() == [0]


def test_nulls_repeat_each_other_and_the_table(tmp_path: Path) -> None:
    keys = TableKeys(snapshot=table(tmp_path, (0, 0, 1, None)))
    assert find_repetitions(
        batch((0, 100, 1, None), (0, 101, 2, None), (0, 102, 2, None)), KEY, keys
    ).tolist() == [0, 2]


def test_rows_that_a_replay_replaces_do_not_count(tmp_path: Path) -> None:
    keys = TableKeys(
        snapshot=table(tmp_path, (0, 0, 1, "a"), (0, 1, 1, "b")),
        without="_partition = 0 AND _offset >= 1",
    )
    assert find_repetitions(batch((0, 0, 1, "a"), (0, 1, 1, "b")), KEY, keys).tolist() == [0]


def test_nothing_to_look_at_finds_nothing(tmp_path: Path) -> None:
    assert find_repetitions(batch(), KEY, None).tolist() == []
    assert find_repetitions(batch((0, 1, 1, "a"), (0, 2, 1, "a")), [], None).tolist() == []
    empty = TableKeys(snapshot=Lake(tmp_path / "lake").create("t", SCHEMA))
    assert find_repetitions(batch((0, 1, 1, "a")), KEY, empty).tolist() == []


def test_of_a_repetition_is_told_which_record_has_the_key_already(tmp_path: Path) -> None:
    keys = TableKeys(
        snapshot=table(tmp_path, (0, 7, 1, "a"), (0, 8, 3, None), (0, 9, 4, "x")),
        without="_offset = 9",
    )
    rows = batch(
        (0, 100, 1, "a"),
        (0, 101, 2, "b"),
        (1, 102, 2, "b"),
        (0, 103, 3, None),
        (0, 104, 4, "x"),
        (0, 105, 4, "x"),
    )
    repeated = find_repetitions(rows, KEY, keys)
    assert repeated.tolist() == [0, 2, 3, 5]
    assert find_originals(rows, repeated, KEY, keys) == [
        ("T", 0, 7),
        ("T", 0, 101),
        ("T", 0, 8),
        ("T", 0, 104),
    ]
    assert find_originals(rows, find_repetitions(rows, KEY, None), KEY, None) == [
        ("T", 0, 101),
        ("T", 0, 104),
    ]
    assert find_originals(batch(), find_repetitions(batch(), KEY, None), KEY, None) == []
