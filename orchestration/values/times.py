"""Converts times of records between numbers and ``datetime``.

The log has milliseconds since 1970, tables have microseconds. A number of milliseconds that is too
large for microseconds becomes null, as for a record without a timestamp, because a producer may
stamp a record with any number.
"""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MILLISECOND = timedelta(milliseconds=1)
FIRST_US = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
LAST_US = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
"""The first and last microsecond of the years 1 to 9999, which texts of times can express."""
IN_MS = pa.timestamp("ms", tz="UTC")
IN_US = pa.timestamp("us", tz="UTC")
DAYS_PER_ERA, YEARS_PER_ERA = 146_097, 400
MAX_MS = (2**63 - 1) // 1_000


def moment(time_us: int) -> datetime:
    """Convert microseconds since 1970 to a ``datetime``.

    :raises OverflowError: the time is not between ``FIRST_US`` and ``LAST_US``.
    """
    return EPOCH + time_us * MICROSECOND


def milliseconds_of(time: datetime) -> int:
    """Convert a time with a zone to whole milliseconds since 1970."""
    return (time - EPOCH) // MILLISECOND


def in_microseconds(times: pa.Array) -> pa.Array:
    """Convert timestamps to microseconds, or to null if they are out of range."""
    try:
        return times.cast(IN_US)
    except pa.ArrowInvalid:
        numbers = times.cast(pa.int64())
        is_in_range = pc.and_(pc.less_equal(numbers, MAX_MS), pc.greater_equal(numbers, -MAX_MS))
        return pc.if_else(is_in_range, numbers, pa.scalar(None, pa.int64())).cast(IN_MS).cast(IN_US)


def values_of(column: pa.ChunkedArray) -> list[object]:
    """Return the values of ``column`` as Python objects. A time beyond Python's range is a text."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [_value_of(one) for one in column]


def is_in_years_of_python(one: pa.Scalar) -> bool:
    """Return whether all times in a value and its inner values are within Python's years."""
    try:
        one.as_py()
    except (OverflowError, ValueError):
        return False
    return True


def rows_beyond_years(rows: pa.Table) -> dict[int, str]:
    """Return the numbers of rows with a time beyond the years 1 to 9999, each with its column."""
    found: dict[int, str] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        try:
            for chunk in column.chunks if has_times(column.type) else ():
                _validate_years(chunk)
        except (OverflowError, ValueError):
            found |= {
                number: name
                for number, one in enumerate(column)
                if number not in found and not is_in_years_of_python(one)
            }
    return found


def has_times(kind: pa.DataType) -> bool:
    """Return whether values of ``kind`` are times or contain times."""
    return pa.types.is_temporal(kind) or any(
        has_times(kind.field(at).type) for at in range(kind.num_fields)
    )


def _validate_years(chunk: pa.Array) -> None:
    """Check that Python can represent all times in a chunk.

    Of plain times the least and the greatest are converted, of nested times all.

    :raises OverflowError, ValueError: Python cannot represent a time.
    """
    (
        chunk
        if pa.types.is_nested(chunk.type)
        else pa.array([*pc.min_max(chunk).values()], chunk.type)
    ).to_pylist()


def _value_of(one: pa.Scalar) -> object:
    if not one.is_valid or is_in_years_of_python(one):
        return one.as_py()
    if isinstance(one, pa.StructScalar):
        return {name: _value_of(inner) for name, inner in one.items()}
    if pa.types.is_map(one.type):
        return [(_value_of(pair["key"]), _value_of(pair["value"])) for pair in one.values]
    if pa.types.is_nested(one.type):
        return [_value_of(inner) for inner in one.values]
    return _far_text(one)


def _far_text(one: pa.Scalar) -> str:
    """Return a time of a year beyond Python's range as text.

    The same time in a year that Python has is formatted, because the calendar repeats after 400
    years.
    """
    is_date = pa.types.is_date(one.type)
    day_us = 86_400_000_000
    time_us = (
        one.cast(pa.date32()).cast(pa.int32()).as_py() * day_us
        if is_date
        else one.cast(pa.timestamp("us")).cast(pa.int64()).as_py()
    )
    eras, rest_us = divmod(time_us, DAYS_PER_ERA * day_us)
    near = moment(rest_us)
    text = f"{near.year + YEARS_PER_ERA * eras}-{near:%m-%d}"
    zone = "" if is_date or one.type.tz is None else "+00:00"
    return text if is_date else f"{text} {near:%H:%M:%S.%f}".removesuffix(".000000") + zone
