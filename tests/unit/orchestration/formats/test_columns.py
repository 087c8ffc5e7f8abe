"""A value whose reading fails in an unforeseen way is a fault, and the others are rows."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from orchestration.formats.columns import read_values

SCHEMA = pa.schema(
    [
        pa.field("number", pa.int32()),
        pa.field("price", pa.decimal128(4, 2)),
        pa.field("text", pa.string()),
    ]
)
GOOD = [1, Decimal("1.50"), "a"]


def read_all(*found: Exception | Sequence[Any]) -> tuple[list[Any], list[str | None]]:
    """Return what is read of values that are the places of what their reader returns or raises."""

    def read(value: bytes) -> Sequence[Any]:
        one = found[value[0]]
        if isinstance(one, Exception):
            raise one
        return one

    table, faults = read_values(
        pa.array([bytes([place]) for place in range(len(found))], pa.binary()), read, SCHEMA
    )
    return [list(row.values()) for row in table.to_pylist()], faults.to_pylist()


@pytest.mark.parametrize(
    "kind", [TypeError, ValueError, OverflowError, RecursionError, KeyError, ZeroDivisionError]
)
def test_any_error_of_a_reader_is_a_fault_that_names_its_type(kind: type[Exception]) -> None:
    assert read_all(GOOD, kind("x"), GOOD) == (
        [GOOD, GOOD],
        [None, f"the value cannot be read: {kind.__name__}", None],
    )


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ([2**40, Decimal(1), "a"], "ArrowInvalid"),
        ([10**30, Decimal(1), "a"], "OverflowError"),
        ([1, Decimal("1.123"), "a"], "ArrowInvalid"),
        ([1, Decimal(1), 7], "ArrowTypeError"),
        ([1, Decimal(1), "\ud800"], "UnicodeEncodeError"),
    ],
)
def test_fields_that_no_column_takes_are_a_fault_of_their_value_alone(
    row: Sequence[Any], told: str
) -> None:
    fault = f"the value cannot be read: {told}"
    assert read_all(row, GOOD, ValueError("x"), GOOD, row) == (
        [GOOD, GOOD],
        [fault, None, "the value cannot be read: ValueError", None, fault],
    )
    assert read_all(row) == ([], [fault])
