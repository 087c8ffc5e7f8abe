"""Finds values that JSON cannot express: NaN, infinity, and times beyond the years 1 to 9999.

Decides which rows have such a value. Written as texts these values would be read as other values,
or be refused by the rule of JSON values.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from orchestration.values.times import rows_beyond_years

NO_NUMBER = "is NaN or infinite, which JSON has no number for"
NO_TIME = "is a time beyond the years 1 to 9999"


def unwritten_rows(rows: pa.Table) -> dict[int, str]:
    """Return the numbers of the rows with a value that JSON cannot express, and the fault of each.

    The fault names the column: ``amount is NaN or infinite, ...``.
    """
    found = {number: f"{name} {NO_TIME}" for number, name in rows_beyond_years(rows).items()}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if not _all_finite(column):
            places = (
                number for number in range(len(column)) if not _all_finite(column.slice(number, 1))
            )
            found |= dict.fromkeys(places, f"{name} {NO_NUMBER}")
    return found


def _all_finite(column: pa.ChunkedArray) -> bool:
    return all(
        pc.all(pc.is_finite(leaf)).as_py() is not False
        for chunk in column.chunks
        for leaf in _floats(chunk)
    )


def _floats(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the floating-point numbers in ``array`` and within it."""
    kind = array.type
    if pa.types.is_floating(kind):
        yield array
    elif pa.types.is_map(kind):
        yield from (
            leaf
            for entries in (array.keys, array.items)
            for leaf in _floats(_entries(array, entries))
        )
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _floats(array.flatten())
    elif pa.types.is_struct(kind):
        yield from (leaf for field in array.flatten() for leaf in _floats(field))


def _entries(array: pa.Array, entries: pa.Array) -> pa.Array:
    """Return those of the ``entries`` that belong to ``array``, a slice of their map array."""
    first, after = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
    return entries.slice(first, after - first)
