"""The lake: rows and offsets in one commit, rivals told apart, replays that move nothing."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from orchestration.lake.range_commits import append_with_offsets, overwrite_ranges
from orchestration.lake.schemas import SchemaConflictError, joined_type
from orchestration.lake.tables import (
    CommitConflictError,
    Lake,
    TableMissingError,
    TableSnapshot,
    overwrite_where,
    replace_all,
)
from orchestration.offsets.planning import Checkpoint, ProgressError
from orchestration.offsets.ranges import OffsetRange, OffsetRanges

SCHEMA = pa.schema(
    [
        ("_topic_id", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("v", pa.string()),
    ]
)


def rows(partition: int, *offsets: int, topic_id: str = "T", value: str = "x") -> pa.Table:
    size = len(offsets)
    return pa.table(
        [[topic_id] * size, [partition] * size, list(offsets), [value] * size], schema=SCHEMA
    )


def ranges(*bounds: tuple[int, int, int], topic_id: str = "T") -> OffsetRanges:
    pieces = tuple(
        OffsetRange(partition=partition, start=start, end=end) for partition, start, end in bounds
    )
    return OffsetRanges(topic="t", topic_id=topic_id, ranges=pieces)


def append(
    snapshot: TableSnapshot,
    data: pa.Table,
    *bounds: tuple[int, int, int],
    is_evolving: bool = False,
) -> TableSnapshot:
    covered = ranges(*bounds)
    return append_with_offsets(
        snapshot,
        data,
        covered,
        {},
        expected=snapshot.checkpoints("T", covered.ends()),
        is_evolving=is_evolving,
    )


def stored(lake: Lake) -> list[tuple[int, int, str]]:
    found = (
        lake.existing("t").dataset().to_table(columns=["_partition", "_offset", "v"]).to_pylist()
    )
    return sorted((row["_partition"], row["_offset"], row["v"]) for row in found)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "lake")
    made.create("t", SCHEMA)
    return made


def test_rows_offsets_and_epochs_move_in_one_commit(lake: Lake) -> None:
    before = lake.existing("t")
    after = append_with_offsets(
        before,
        rows(0, 0, 1),
        ranges((0, 0, 2), (1, 0, 9)),
        {0: 4, 1: -1},
        expected={},
        notes={"run_id": "r"},
    )
    assert after.version == 1
    assert lake.existing("t").checkpoints("T", range(3)) == {
        0: Checkpoint(next_offset=2, leader_epoch=4),
        1: Checkpoint(next_offset=9, leader_epoch=None),
    }
    assert lake.existing("t").checkpoints("another id", range(3)) == {}
    assert stored(lake) == [(0, 0, "x"), (0, 1, "x")]
    assert lake.existing("t").delta.history(1)[0]["tidelog.ranges"] == "0:[0,2) 1:[0,9)"


def test_offsets_are_committed_without_rows_and_survive_the_checkpoint_of_the_log(
    lake: Lake,
) -> None:
    snapshot = lake.existing("t")
    for end in range(1, 106):
        snapshot = append(snapshot, SCHEMA.empty_table(), (0, end - 1, end))
    assert any(
        "checkpoint.parquet" in file.name for file in (lake.path("t") / "_delta_log").iterdir()
    )
    assert lake.existing("t").checkpoints("T", [0])[0].next_offset == 105


def test_of_two_commits_from_one_snapshot_the_second_conflicts(lake: Lake) -> None:
    mine, rival = lake.existing("t"), lake.existing("t")
    append(rival, rows(0, 0), (0, 0, 1))
    with pytest.raises(CommitConflictError):
        append(mine, rows(0, 0), (0, 0, 1))
    assert stored(lake) == [(0, 0, "x")]
    with pytest.raises(CommitConflictError, match="moved the checkpoints"):
        append_with_offsets(lake.existing("t"), rows(0, 0), ranges((0, 0, 1)), {}, expected={})


def test_a_checkpoint_that_would_go_back_is_refused(lake: Lake) -> None:
    snapshot = append(lake.existing("t"), rows(0, 4), (0, 0, 5))
    with pytest.raises(ProgressError, match="back from 5"):
        append(snapshot, rows(0, 2), (0, 2, 3))


def test_a_replay_replaces_its_ranges_and_moves_no_checkpoint(lake: Lake) -> None:
    snapshot = append(lake.existing("t"), rows(0, 0, 1, 2, 3), (0, 0, 4))
    snapshot = append(snapshot, rows(1, 0, 1), (1, 0, 2))
    overwrite_ranges(snapshot, rows(0, 1, value="new"), ranges((0, 1, 3)))
    assert stored(lake) == [(0, 0, "x"), (0, 1, "new"), (0, 3, "x"), (1, 0, "x"), (1, 1, "x")]
    overwrite_ranges(lake.existing("t"), SCHEMA.empty_table(), ranges((0, 1, 2), (1, 0, 1)))
    assert stored(lake) == [(0, 0, "x"), (0, 3, "x"), (1, 1, "x")]
    assert {
        key: one.next_offset for key, one in lake.existing("t").checkpoints("T", [0, 1]).items()
    } == {0: 4, 1: 2}


def test_a_replay_leaves_rows_of_the_same_offsets_under_another_topic_id(lake: Lake) -> None:
    snapshot = append(lake.existing("t"), rows(0, 0, 1), (0, 0, 2))
    old = append_with_offsets(
        snapshot, rows(0, 0, topic_id="O'LD"), ranges((0, 0, 1), topic_id="O'LD"), {}, expected={}
    )
    assert old.topic_ids() == ("O'LD", "T")
    overwrite_ranges(old, SCHEMA.empty_table(), ranges((0, 0, 1), topic_id="O'LD"))
    assert lake.existing("t").topic_ids() == ("T",)


def test_a_stale_overwrite_conflicts_with_rows_that_it_would_have_replaced(lake: Lake) -> None:
    stale = lake.existing("t")
    append(lake.existing("t"), rows(0, 5), (0, 0, 6))
    with pytest.raises(CommitConflictError):
        overwrite_where(stale, SCHEMA.empty_table(), "_offset >= 0", {"x": 1}, {})


def test_replacing_all_may_change_the_columns_and_records_versions(lake: Lake) -> None:
    snapshot = append(lake.existing("t"), rows(0, 0), (0, 0, 1))
    replaced = replace_all(snapshot, pa.table({"n": [1, 2]}), {"input/abc": 7}, {})
    assert replaced.arrow_schema.names == ["n"]
    assert replaced.transaction_version("input/abc") == 7
    assert replaced.row_count == 2
    assert replaced.topic_ids() == ()


def test_rows_that_do_not_fit_are_refused_in_words(lake: Lake) -> None:
    snapshot = append(lake.existing("t"), rows(0, 0), (0, 0, 1))
    wrong = (
        rows(0, 1)
        .drop_columns(["v"])
        .append_column("v", pa.array([1]))
        .append_column("w", pa.array([1]))
    )
    with pytest.raises(
        SchemaConflictError,
        match=r"v is STRING in the table and BIGINT in the result; w \(BIGINT\) is in the result",
    ):
        append(snapshot, wrong, (0, 1, 2))
    with pytest.raises(SchemaConflictError, match="v is STRING") as refused:
        append(snapshot, wrong, (0, 1, 2), is_evolving=True)
    assert "is_evolving=True" not in str(refused.value), "it is set"
    append(
        snapshot,
        rows(0, 1).append_column("w", pa.array([1])).drop_columns(["v"]),
        (0, 1, 2),
        is_evolving=True,
    )
    assert lake.existing("t").dataset().to_table().sort_by("_offset").select(
        ["v", "w"]
    ).to_pylist() == [
        {"v": "x", "w": None},
        {"v": None, "w": 1},
    ]


def test_structs_may_get_fields_and_numbers_may_be_smaller_where_a_table_may_evolve(
    tmp_path: Path,
) -> None:
    """A field that was added to a struct of the topic's schema refused every run of the table."""
    places = [("_topic_id", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())]
    inner = pa.struct([("city", pa.string()), ("floor", pa.int64())])
    snapshot = Lake(tmp_path).create(
        "t",
        pa.schema(
            [
                *places,
                ("n", pa.int64()),
                ("at", inner),
                ("lines", pa.list_(inner)),
                ("by", pa.map_(pa.string(), inner)),
            ]
        ),
    )
    one = {"city": "x", "floor": 1}
    first = {
        "_topic_id": "T",
        "_partition": 0,
        "_offset": 0,
        "n": 1,
        "at": one,
        "lines": [one],
        "by": {"k": one},
    }
    snapshot = append(
        snapshot,
        pa.Table.from_pylist([{**first, "by": [("k", one)]}], schema=snapshot.arrow_schema),
        (0, 0, 1),
    )
    wider = pa.struct([("zip", pa.string()), ("floor", pa.int32())])
    schema = pa.schema(
        [
            *places,
            ("n", pa.int32()),
            ("at", wider),
            ("lines", pa.list_(wider)),
            ("by", pa.map_(pa.string(), wider)),
        ]
    )
    two = {"zip": "z", "floor": 2}
    rows_of_two = [
        {
            "_topic_id": "T",
            "_partition": 0,
            "_offset": 1,
            "n": 2,
            "at": two,
            "lines": [two],
            "by": [("k", two)],
        }
    ]
    with pytest.raises(SchemaConflictError, match="at is STRUCT"):
        append(snapshot, pa.Table.from_pylist(rows_of_two, schema=schema), (0, 1, 2))
    append(snapshot, pa.Table.from_pylist(rows_of_two, schema=schema), (0, 1, 2), is_evolving=True)
    rows = Lake(tmp_path).existing("t").dataset().to_table().sort_by("_offset")
    found = rows.select(["n", "at", "lines", "by"]).to_pylist()
    before, after = {"city": "x", "floor": 1, "zip": None}, {"city": None, "floor": 2, "zip": "z"}
    assert found == [
        {"n": 1, "at": before, "lines": [before], "by": [("k", before)]},
        {"n": 2, "at": after, "lines": [after], "by": [("k", after)]},
    ]


@pytest.mark.parametrize(
    ("table", "result", "joined"),
    [
        (pa.int64(), pa.int16(), pa.int64()),
        (pa.float64(), pa.float32(), pa.float64()),
        (pa.float64(), pa.int64(), None),
        (pa.decimal128(10, 2), pa.decimal128(7, 1), pa.decimal128(10, 2)),
        (pa.decimal128(10, 2), pa.decimal128(10, 3), None),
        (pa.struct([("a", pa.int64())]), pa.struct([("A", pa.int64())]), None),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.string())]), None),
    ],
    ids=str,
)
def test_a_type_that_would_lose_values_does_not_fit(
    table: pa.DataType, result: pa.DataType, joined: pa.DataType | None
) -> None:
    assert joined_type(table, result) == joined


def test_columns_without_type_or_name_of_their_own_are_refused(lake: Lake) -> None:
    with pytest.raises(SchemaConflictError, match="columns without a type: nothing"):
        append(lake.existing("t"), rows(0, 0).append_column("nothing", pa.nulls(1)), (0, 0, 1))
    with pytest.raises(SchemaConflictError, match="names columns twice: v"):
        append(lake.existing("t"), rows(0, 0).append_column("v", pa.array(["y"])), (0, 0, 1))


def test_a_table_is_created_once_whoever_is_faster(lake: Lake) -> None:
    assert lake.create("t", SCHEMA).version == 0
    assert lake.names() == ("t",)
    assert lake.snapshot("other") is None
    with pytest.raises(
        TableMissingError, match=r"has no table other; it has t. Materialize lake/other first"
    ):
        lake.existing("other")
    with pytest.raises(ValueError, match="cannot be a table's name"):
        lake.path("../t")


def test_compaction_and_vacuum_keep_rows_and_checkpoints(lake: Lake) -> None:
    snapshot = lake.existing("t")
    for offset in range(4):
        snapshot = append(snapshot, rows(0, offset), (0, offset, offset + 1))
    lake.compact("t")
    removed = lake.vacuum("t", retention_hours=0)
    assert len(removed) == 4
    assert len(lake.existing("t").files) == 1
    assert stored(lake) == [(0, offset, "x") for offset in range(4)]
    assert lake.existing("t").checkpoints("T", [0])[0].next_offset == 4


def test_rows_that_are_older_than_a_column_are_found_where_it_is_null(lake: Lake) -> None:
    append(lake.existing("t"), rows(0, 0, 1), (0, 0, 2))
    append(
        lake.existing("t"),
        rows(0, 2).append_column("w", pa.array(["y"])),
        (0, 2, 3),
        is_evolving=True,
    )
    dataset = lake.existing("t").dataset()
    assert dataset.to_table(filter=pa.compute.field("w").is_null())["_offset"].to_pylist() == [0, 1]
    assert dataset.to_table(filter=pa.compute.field("w") == "y")["_offset"].to_pylist() == [2]
    assert dataset.to_table().num_rows == 3


@pytest.mark.parametrize("name", ["a%20b", "100%25", "a%41", "%c3"])
def test_a_lake_that_could_not_be_opened_is_refused_with_a_sentence(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(
        ValueError, match=r"the lake cannot be in .*%.* takes %.. in the name .* TIDELOG_LAKE"
    ):
        Lake(tmp_path / name / "lake")


@pytest.mark.parametrize("name", ["a b", "a#b", "a?b", "a%", "%2", "50%zz"])
def test_a_lake_may_be_in_a_folder_of_an_unusual_name(tmp_path: Path, name: str) -> None:
    lake = Lake(tmp_path / name / "lake")
    lake.create("t", SCHEMA)
    assert lake.existing("t").folder == tmp_path / name / "lake" / "t"


def test_vacuum_removes_what_killed_runs_left_and_spares_what_running_ones_write(
    lake: Lake,
) -> None:
    append(lake.existing("t"), rows(0, 0, 1), (0, 0, 2))
    folder = lake.existing("t").folder
    old, young = folder / "old.parquet", folder / "young.parquet"
    for file in (old, young):
        file.write_bytes(b"")
    os.utime(old, (0, 0))
    assert lake.vacuum("t") == ["old.parquet"]
    assert (old.exists(), young.exists()) == (False, True)
    assert stored(lake) == [(0, 0, "x"), (0, 1, "x")]
