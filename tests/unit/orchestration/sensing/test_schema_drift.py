"""Data changes its shape."""

from pathlib import Path

import pyarrow as pa
import pytest

from orchestration.dead_letters.table import DEAD_LETTERS, SCHEMA_RULE, DeadLetters
from orchestration.lake.tables import Lake
from orchestration.sensing import decide_drift
from orchestration.sensing.schema_drift import Shape, drift_event, look_at, read_shapes, written
from tests.unit.orchestration.dead_letter_parts import commit_target, letters_for, origin, ranges

BEFORE = Shape(columns={"id": "int64", "amount": "int32"}, misfits=3)


def test_a_table_that_stays_as_it_is_has_not_drifted() -> None:
    assert decide_drift(BEFORE, BEFORE).summary == ""


def test_columns_that_come_go_and_change_are_named() -> None:
    drift = decide_drift(BEFORE, Shape(columns={"id": "string", "note": "string"}, misfits=3))
    assert (drift.added, drift.removed, drift.changed) == (("note",), ("amount",), ("id",))
    assert (
        drift.summary
        == "new columns note; columns that are gone amount; columns of another type id"
    )


def test_records_that_stop_fitting_are_counted() -> None:
    assert (
        decide_drift(BEFORE, Shape(columns=BEFORE.columns, misfits=5)).summary
        == "2 more records do not fit the schema"
    )


def test_a_table_that_is_seen_for_the_first_time_has_not_drifted() -> None:
    assert decide_drift(None, Shape(columns={"id": "int64"})).summary == ""


def test_dead_letters_that_were_replayed_are_no_drift() -> None:
    assert decide_drift(BEFORE, Shape(columns=BEFORE.columns, misfits=0)).summary == ""


def test_columns_are_told_as_a_text_and_plotted_by_nobody() -> None:
    event = drift_event("orders", decide_drift(Shape(), BEFORE), BEFORE)
    reported = {name: one.value for name, one in event.metadata.items()}
    assert reported == {
        "columns": "id int64, amount int32",
        "records_misfit": 3,
        "drift": "new columns amount, id; 3 more records do not fit the schema",
    }


def test_the_cursor_keeps_shapes() -> None:
    assert read_shapes(written({"orders": BEFORE})) == {"orders": BEFORE}


@pytest.mark.parametrize("cursor", [None, "", "nonsense", "[1]", '{"orders": {"unknown": 1}}'])
def test_a_cursor_that_cannot_be_read_is_one_that_was_lost(cursor: str | None) -> None:
    assert read_shapes(cursor) == {}


def reject_one(lake: Lake, target: str) -> None:
    """Let a table have read two records, of which one did not fit."""
    letters = DeadLetters(lake)
    rows = letters_for((0, 1), target=target)
    misfits = rows.set_column(rows.schema.get_field_index("rule"), "rule", pa.array([SCHEMA_RULE]))
    attempt = letters.replace_pending(
        letters.snapshot(), origin(target), ranges((0, 0, 2)), {}, misfits
    )
    commit_target(lake, (0, 0, 2), attempt=attempt, target=target)


def damage(lake: Lake, table: str) -> None:
    for entry in (lake.path(table) / "_delta_log").glob("*.json"):
        entry.write_bytes(b"{damaged")


def test_a_damaged_table_keeps_its_shape_and_no_other_from_being_looked_at(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for table in ("clean", "other"):
        reject_one(lake, table)
    before = look_at(lake, {})
    assert {table: shape.misfits for table, shape in before.shapes.items()} == {
        "clean": 1,
        "other": 1,
    }
    damage(lake, "clean")
    lake.create("third", pa.schema([pa.field("id", pa.int64())]))
    now = look_at(lake, before.shapes)
    assert now.unread.keys() == {"clean"}
    assert now.shapes == {**before.shapes, "third": Shape(columns={"id": "int64"})}
    assert look_at(lake, {}).shapes.keys() == {"other", "third"}


def test_dead_letters_that_cannot_be_read_leave_what_did_not_fit_so_far(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    reject_one(lake, "clean")
    before = look_at(lake, {}).shapes
    damage(lake, DEAD_LETTERS)
    now = look_at(lake, before)
    assert now.shapes == before
    assert set(now.unread) == {DEAD_LETTERS}
