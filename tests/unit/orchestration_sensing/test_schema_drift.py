"""When data changes its shape."""

import pytest

from orchestration.sensing import decide_drift
from orchestration.sensing.schema_drift import Shape, drift_event, read_shapes, written

BEFORE = Shape(columns={"id": "int64", "amount": "int32"}, misfits=3)


def test_a_table_that_stays_as_it_is_has_not_drifted() -> None:
    assert decide_drift(BEFORE, BEFORE).summary == ""


def test_columns_that_come_go_and_change_are_named() -> None:
    drift = decide_drift(BEFORE, Shape(columns={"id": "string", "note": "string"}, misfits=3))
    assert (drift.added, drift.removed, drift.changed) == (("note",), ("amount",), ("id",))
    assert drift.summary == "new columns note; columns that are gone amount; columns of another type id"


def test_records_that_stop_fitting_are_counted() -> None:
    assert decide_drift(BEFORE, Shape(columns=BEFORE.columns, misfits=5)).summary == "2 more records do not fit the schema"


def test_a_table_that_is_seen_for_the_first_time_has_not_drifted() -> None:
    assert decide_drift(None, Shape(columns={"id": "int64"})).summary == ""


def test_dead_letters_that_were_replayed_are_no_drift() -> None:
    assert decide_drift(BEFORE, Shape(columns=BEFORE.columns, misfits=0)).summary == ""


def test_columns_are_told_as_a_text_and_plotted_by_nobody() -> None:
    event = drift_event("orders", decide_drift(Shape(), BEFORE), BEFORE)
    told = {name: one.value for name, one in event.metadata.items()}
    assert told == {
        "columns": "id int64, amount int32",
        "records_misfit": 3,
        "drift": "new columns amount, id; 3 more records do not fit the schema",
    }


def test_the_cursor_keeps_shapes() -> None:
    assert read_shapes(written({"orders": BEFORE})) == {"orders": BEFORE}


@pytest.mark.parametrize("cursor", [None, "", "nonsense", "[1]", '{"orders": {"unknown": 1}}'])
def test_a_cursor_that_cannot_be_read_is_one_that_was_lost(cursor: str | None) -> None:
    assert read_shapes(cursor) == {}
