"""The prefix of values with a schema registry: split off in bulk, and values grouped by schema.

A prefix is a zero and a schema's id in four bytes. Decides nothing about a schema. A value without
a prefix has the id ``NO_ID``.
Invariant: every value is in exactly one group, and rows keep the order of their values.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orchestration.formats.columns import FRAME_BYTES, MAGIC

NO_ID = -1
OFFSET_BYTES = 4

Places = npt.NDArray[np.int64]
"""Places of values in a batch."""
Part = tuple[Places, pa.Table, pa.Array]
"""The places of some values, the rows of those that fit, and the faults of the others."""


def schema_ids(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return the schema's id of each of ``values`` (binary), ``NO_ID`` where there is no prefix."""
    found = np.full(len(values), NO_ID, np.int64)
    if not len(values):
        return found
    ends, data = _parts(values)
    is_long = (np.diff(ends) >= FRAME_BYTES) & np.asarray(values.is_valid())
    starts = ends[:-1][is_long]
    digits = data[starts[:, None] + np.arange(1, FRAME_BYTES)].astype(np.int64)
    ids = digits @ np.array([1 << 24, 1 << 16, 1 << 8, 1], np.int64)
    found[is_long] = np.where(data[starts] == MAGIC, ids, NO_ID)
    return found


def by_schema(ids: npt.NDArray[np.int64]) -> Iterator[tuple[int, Places]]:
    """Yield each id with the places of its values, in order."""
    order = np.argsort(ids, kind="stable")
    found, starts = np.unique(ids[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, starts[1:]), strict=True) if len(ids) else ()


def without_prefix(values: pa.Array) -> pa.Array:
    """Return values without their prefixes. Each of them has one."""
    ends, data = _parts(values)
    first, starts = ends[0], ends[:-1]
    is_kept = np.ones(ends[-1] - first, np.bool_)
    is_kept[(starts - first)[:, None] + np.arange(FRAME_BYTES)] = False
    content = data[first : ends[-1]][is_kept]
    offsets = (ends - first - FRAME_BYTES * np.arange(len(ends))).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    )


def _parts(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the offsets of values, one more than there are values, and their bytes."""
    _, offsets, content = values.buffers()
    ends = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * OFFSET_BYTES).astype(
        np.int64
    )
    return ends, np.frombuffer(content or b"", np.uint8)


def refused(count: int, reason: str, schema: pa.Schema) -> tuple[pa.Table, pa.Array]:
    """Return no rows (``schema``), and the same fault of ``count`` values."""
    return schema.empty_table(), pa.repeat(pa.scalar(reason), count)


def in_order(count: int, parts: Sequence[Part], schema: pa.Schema) -> tuple[pa.Table, pa.Array]:
    """Return the rows of all parts in the order of their values, and the faults of all values."""
    if len(parts) == 1:
        return parts[0][1], parts[0][2]
    reasons: npt.NDArray[Any] = np.full(count, None, object)
    places = [np.empty(0, np.int64)]
    for part, _, faults in parts:
        is_fit = np.asarray(faults.is_null())
        reasons[part[~is_fit]] = faults.drop_null().to_pylist()
        places.append(part[is_fit])
    order = np.argsort(np.concatenate(places), kind="stable")
    rows = pa.concat_tables([schema.empty_table(), *(table for _, table, _ in parts)])
    return rows.take(pa.array(order)), pa.array(reasons, pa.string())
