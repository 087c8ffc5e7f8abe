"""Converts times among the arguments of an expectation to the type of its column.

A TIMESTAMP is compared with a time in UTC, a TIMESTAMP_NTZ with one without zone, a DATE with a
day. A time without zone is in UTC, as everywhere. Without this a comparison fails, or Spark takes
the host's time zone.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from typing import Any

import pandas as pd
from pyspark.sql import types


def fitted(arguments: Mapping[str, Any], frame: Any) -> dict[str, Any]:
    """Return the arguments of an expectation, with times in the type of its column.

    ``frame`` is a Spark or pandas DataFrame.
    """
    fit = _fit(arguments.get("column"), frame)
    return (
        dict(arguments)
        if fit is None
        else {name: _each(value, fit) for name, value in arguments.items()}
    )


def _each(value: Any, fit: Callable[[date], date]) -> Any:
    if isinstance(value, list | tuple | set):
        return type(value)(_each(one, fit) for one in value)
    return fit(value) if isinstance(value, date) else value


def _fit(column: Any, frame: Any) -> Callable[[date], date] | None:
    if not isinstance(column, str) or column not in frame.columns:
        return None
    return (
        _pandas_fit(frame[column])
        if isinstance(frame, pd.DataFrame)
        else _FITS.get(type(frame.schema[column].dataType))
    )


def _pandas_fit(column: Any) -> Callable[[date], date] | None:
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return _in_utc
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return _without_zone
    filled = column.dropna()
    is_of_days = column.dtype == object and len(filled) and type(filled.iloc[0]) is date
    return _as_day if is_of_days else None


def _in_utc(value: date) -> date:
    moment = value if isinstance(value, datetime) else datetime.combine(value, time())
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _without_zone(value: date) -> date:
    moment = _in_utc(value)
    assert isinstance(moment, datetime)
    return moment.replace(tzinfo=None)


def _as_day(value: date) -> date:
    """Return a midnight as its day. Another time is returned as it is, because it equals no day."""
    moment = _without_zone(value)
    assert isinstance(moment, datetime)
    return moment.date() if moment.time() == time() else value


_FITS: Mapping[type[types.DataType], Callable[[date], date]] = {
    types.TimestampType: _in_utc,
    types.TimestampNTZType: _without_zone,
    types.DateType: _as_day,
}
