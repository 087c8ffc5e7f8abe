"""Times of records as numbers and as moments: the log has milliseconds since 1970, tables have microseconds.

Decides what becomes of a number of milliseconds that is too large to be told in microseconds: null, as a record without timestamp. A
producer may stamp a record with any number.
"""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MILLISECOND = timedelta(milliseconds=1)
FIRST_US = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
LAST_US = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
"""The years 1 to 9999, which texts of times can tell."""
IN_MS = pa.timestamp("ms", tz="UTC")
IN_US = pa.timestamp("us", tz="UTC")
MAX_MS = (2**63 - 1) // 1_000


def moment(time_us: int) -> datetime:
    """Return microseconds since 1970 as a time. Raises OverflowError beyond ``FIRST_US`` and ``LAST_US``."""
    return EPOCH + time_us * MICROSECOND


def milliseconds_of(time: datetime) -> int:
    """Return a time, which has a zone, as whole milliseconds since 1970."""
    return (time - EPOCH) // MILLISECOND


def in_microseconds(times: pa.Array) -> pa.Array:
    """Return timestamps in microseconds, null where that cannot be."""
    try:
        return times.cast(IN_US)
    except pa.ArrowInvalid:
        numbers = times.cast(pa.int64())
        is_told = pc.and_(pc.less_equal(numbers, MAX_MS), pc.greater_equal(numbers, -MAX_MS))
        return pc.if_else(is_told, numbers, pa.scalar(None, pa.int64())).cast(IN_MS).cast(IN_US)
