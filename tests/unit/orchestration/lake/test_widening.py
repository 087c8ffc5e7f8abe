"""A table that evolves takes wider types: rows, types and offsets move in one commit."""

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orchestration.lake.range_commits import append_with_offsets, overwrite_ranges
from orchestration.lake.schemas import SchemaConflictError, joined_type
from orchestration.lake.tables import CommitConflictError, Lake, TableSnapshot
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.rows.latest import Changes
from orchestration.rows.upserts import upsert
from orchestration.warehouse.store import Warehouse

PLACES = (("_topic_id", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64()))
BIG = 2**40


def ranges(start: int, end: int, topic_id: str = "T") -> OffsetRanges:
    one = OffsetRange(partition=0, start=start, end=end)
    return OffsetRanges(topic="t", topic_id=topic_id, ranges=(one,))


def rows(kind: pa.DataType, values: dict[int, Any], topic_id: str = "T") -> pa.Table:
    """Return a row of ``v`` for each offset."""
    made = [
        {"_topic_id": topic_id, "_partition": 0, "_offset": offset, "v": value}
        for offset, value in values.items()
    ]
    return pa.Table.from_pylist(made, schema=pa.schema([*PLACES, ("v", kind)]))


def append(snapshot: TableSnapshot, data: pa.Table, *, is_evolving: bool = True) -> TableSnapshot:
    offsets = data["_offset"].to_pylist()
    (topic_id,) = set(data["_topic_id"].to_pylist())
    covered = ranges(offsets[0], offsets[-1] + 1, topic_id)
    expected = snapshot.checkpoints(topic_id, covered.ends())
    return append_with_offsets(
        snapshot, data, covered, {}, expected=expected, is_evolving=is_evolving
    )


def held(snapshot: TableSnapshot) -> dict[int, Any]:
    found = snapshot.dataset().to_table(columns=["_offset", "v"]).to_pylist()
    assert len({row["_offset"] for row in found}) == len(found)
    return {row["_offset"]: row["v"] for row in sorted(found, key=lambda row: row["_offset"])}


def struct_of(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("n", kind)])


@pytest.mark.parametrize(
    ("table", "result", "joined"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int8(), pa.int32(), pa.int32()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.int32(), pa.float64(), pa.float64()),
        (pa.int64(), pa.float64(), None),
        (pa.int32(), pa.float32(), None),
        (pa.int32(), pa.decimal128(12, 2), pa.decimal128(12, 2)),
        (pa.int32(), pa.decimal128(11, 2), None),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), pa.decimal128(12, 4)),
        (pa.decimal128(10, 2), pa.decimal128(12, 1), None),
        (pa.decimal128(10, 2), pa.decimal128(10, 4), None),
        (pa.date32(), pa.timestamp("us"), pa.timestamp("us")),
        (pa.date32(), pa.timestamp("us", tz="UTC"), None),
        (pa.timestamp("us"), pa.timestamp("us", tz="UTC"), None),
        (pa.int64(), pa.string(), None),
        (struct_of(pa.int32()), struct_of(pa.int64()), struct_of(pa.int64())),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), pa.list_(pa.int64())),
        (
            pa.map_(pa.string(), pa.int32()),
            pa.map_(pa.string(), pa.int64()),
            pa.map_(pa.string(), pa.int64()),
        ),
    ],
    ids=str,
)
def test_the_wider_of_two_types_holds_each_value_of_both(
    table: pa.DataType, result: pa.DataType, joined: pa.DataType | None
) -> None:
    assert joined_type(table, result) == joined
    if joined is not None:
        assert joined_type(result, table) == joined, "a table does not become narrower"


@pytest.mark.parametrize(
    ("kind", "value", "wider", "before", "after"),
    [
        (pa.int32(), 7, pa.int64(), 7, BIG),
        (pa.float32(), 0.5, pa.float64(), 0.5, 1e300),
        (pa.int32(), 7, pa.float64(), 7.0, 0.5),
        (
            pa.decimal128(5, 2),
            Decimal("1.25"),
            pa.decimal128(12, 4),
            Decimal("1.2500"),
            Decimal("12345678.0001"),
        ),
        (
            pa.date32(),
            date(2026, 1, 31),
            pa.timestamp("us"),
            datetime(2026, 1, 31),  # noqa: DTZ001 - a time without zone
            datetime(9999, 12, 31, 23),  # noqa: DTZ001
        ),
        (struct_of(pa.int32()), {"n": 7}, struct_of(pa.int64()), {"n": 7}, {"n": BIG}),
        (pa.list_(pa.int32()), [7, None], pa.list_(pa.int64()), [7, None], [BIG]),
    ],
    ids=str,
)
def test_old_rows_keep_their_values_in_the_wider_type(  # noqa: PLR0917 - parameters
    tmp_path: Path, kind: pa.DataType, value: Any, wider: pa.DataType, before: Any, after: Any
) -> None:
    """BIGINT into INT was refused: the table had to be built anew."""
    lake = Lake(tmp_path)
    snapshot = append(lake.create("t", rows(kind, {}).schema), rows(kind, {0: value, 1: None}))
    append(snapshot, rows(wider, {2: after, 3: None}))
    found = lake.existing("t")
    assert held(found) == {0: before, 1: None, 2: after, 3: None}
    assert found.checkpoints("T", [0])[0].next_offset == 4
    asked = Warehouse(tmp_path / "warehouse", lake).query(
        "SELECT count(*) AS n FROM t WHERE v IS NOT NULL"
    )
    assert asked.to_pylist() == [{"n": 2}]


def test_properties_checkpoints_and_added_columns_stay_where_a_column_becomes_wider(
    tmp_path: Path,
) -> None:
    lake = Lake(tmp_path)
    first = rows(pa.int32(), {0: 1})
    created = lake.create("t", first.schema, description="kept", latest_by=("v",))
    other = append(append(created, first), rows(pa.int32(), {5: 5}, topic_id="other"))
    append(other, rows(pa.int64(), {1: BIG}).append_column("w", pa.array(["new"])))
    found = lake.existing("t")
    assert (found.latest_by, found.table_id) == (("v",), created.table_id)
    assert found.delta.metadata().description == "kept"
    assert found.checkpoints("other", [0])[0].next_offset == 6
    assert found.arrow_schema.field("v").type == pa.int64()
    assert sorted(
        (row["v"], row["w"]) for row in found.dataset().to_table().to_pylist() if row["w"] is None
    ) == [(1, None), (5, None)]
    assert held(append(found, rows(pa.int32(), {2: 3}).append_column("w", pa.array([""]))))[2] == 3


def test_a_type_that_loses_values_is_refused_by_the_names_of_both(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    inner = pa.struct([("n", pa.int64()), ("m", pa.int32())])
    snapshot = append(lake.create("t", rows(inner, {}).schema), rows(inner, {0: None}))
    other = pa.struct([("n", pa.float64()), ("m", pa.int64())])
    with pytest.raises(
        SchemaConflictError, match=r"t: v\.n is BIGINT in the table and DOUBLE in the result\. "
    ):
        append(snapshot, rows(other, {1: {"n": 0.5, "m": 1}}))
    with pytest.raises(SchemaConflictError, match=r"v is STRUCT<.*in the table and STRUCT<"):
        append(snapshot, rows(other, {1: {"n": 0.5, "m": 1}}), is_evolving=False)
    assert held(lake.existing("t")) == {0: None}


def test_a_commit_that_was_not_seen_conflicts_with_a_widening(tmp_path: Path) -> None:
    """Its file would keep the old type: delta-rs lets an append pass beside an overwrite."""
    lake = Lake(tmp_path)
    stale = append(lake.create("t", rows(pa.int32(), {}).schema), rows(pa.int32(), {0: 1}))
    append(lake.existing("t"), rows(pa.int32(), {5: 2}, topic_id="other"))
    with pytest.raises(CommitConflictError):
        append(stale, rows(pa.int64(), {1: BIG}))
    assert held(lake.existing("t")) == {0: 1, 5: 2}
    assert held(append(lake.existing("t"), rows(pa.int64(), {1: BIG}))) == {0: 1, 1: BIG, 5: 2}


def test_a_replay_widens_and_replaces_the_rows_of_its_ranges_alone(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    created = lake.create("t", rows(pa.int32(), {}).schema)
    snapshot = append(
        append(created, rows(pa.int32(), {0: 0, 1: 1, 2: 2})), rows(pa.int32(), {3: 3})
    )
    overwrite_ranges(snapshot, rows(pa.int64(), {1: BIG}), ranges(1, 3), is_evolving=True)
    found = lake.existing("t")
    assert held(found) == {0: 0, 1: BIG, 3: 3}
    assert found.checkpoints("T", [0])[0].next_offset == 4


def test_newest_rows_replace_and_remove_rows_in_the_commit_that_widens(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    created = lake.create("t", rows(pa.int32(), {}).schema, latest_by=("v",))
    snapshot = append(created, rows(pa.int32(), {0: 1, 1: 2, 2: 3}))
    changes = Changes(
        rows=rows(pa.int64(), {3: BIG, 4: 1}),
        inserted=1,
        updated=1,
        replaced=pa.table({"v": pa.array([1, 2], pa.int64())}),
        deletions=rows(pa.int64(), {}).select(["v", "_topic_id", "_partition", "_offset"]),
        is_deletion_new=False,
    )
    upsert(snapshot, changes, is_evolving=True, transactions={"T/0": 5})
    found = lake.existing("t")
    assert held(found) == {2: 3, 3: BIG, 4: 1}
    assert found.transaction_version("T/0") == 5
    assert found.version == snapshot.version + 1
