"""Timestamps of records as tables hold them: microseconds, where the log has milliseconds.

Decides what becomes of a number of milliseconds that is too large to be told in microseconds: null, as a record without timestamp. A
producer may stamp a record with any number.
"""

import pyarrow as pa
import pyarrow.compute as pc

IN_MS = pa.timestamp("ms", tz="UTC")
IN_US = pa.timestamp("us", tz="UTC")
MAX_MS = (2**63 - 1) // 1_000


def in_microseconds(times: pa.Array) -> pa.Array:
    """Return timestamps in microseconds, null where that cannot be."""
    try:
        return times.cast(IN_US)
    except pa.ArrowInvalid:
        numbers = times.cast(pa.int64())
        is_told = pc.and_(pc.less_equal(numbers, MAX_MS), pc.greater_equal(numbers, -MAX_MS))
        return pc.if_else(is_told, numbers, pa.scalar(None, pa.int64())).cast(IN_MS).cast(IN_US)
