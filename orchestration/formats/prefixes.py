"""Finds in bulk which schema each value of a batch names, and groups the values by schema.

A prefix is a zero and a schema's id in four bytes. A header of the record may name a schema, too,
and takes precedence over a prefix. Decides nothing about a schema. A value that names no schema has
the id ``NO_ID``. Invariant: every value is in exactly one group, and rows keep the order of their
values.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orchestration.formats.columns import FRAME_BYTES, MAGIC

NO_ID = -1
FIRST_HEADER = -2
"""The code of the group with the first header content. Later contents have lower codes."""
OFFSET_BYTES = 4

Places = npt.NDArray[np.int64]
"""Places of values in a batch."""
Part = tuple[Places, pa.Table, pa.Array]
"""The places of some values, the rows of those that fit, and the faults of the others."""


def schema_ids(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return the schema id in the prefix of each of ``values`` (binary), or ``NO_ID``."""
    found = np.full(len(values), NO_ID, np.int64)
    if not len(values):
        return found
    ends, data = offsets_and_bytes(values)
    is_long = (np.diff(ends) >= FRAME_BYTES) & np.asarray(values.is_valid())
    starts = ends[:-1][is_long]
    digits = data[starts[:, None] + np.arange(1, FRAME_BYTES)].astype(np.int64)
    ids = digits @ np.array([1 << 24, 1 << 16, 1 << 8, 1], np.int64)
    found[is_long] = np.where(data[starts] == MAGIC, ids, NO_ID)
    return found


def header_contents(headers: pa.Array, name: str) -> pa.DictionaryArray | None:
    """Return the content of the last header ``name`` of each record, as an Arrow dictionary.

    Headers without content are ignored. The result is None if no record has such a header.
    """
    flat = headers.flatten()
    is_named = pc.and_(pc.equal(flat.field("key"), name), flat.field("value").is_valid())
    found = np.flatnonzero(np.asarray(is_named.fill_null(False)))
    if not found.size:
        return None
    records = np.asarray(pc.list_parent_indices(headers))[found]
    last = np.full(len(headers), NO_ID, np.int64)
    last[records] = found
    return flat.field("value").take(pa.array(last, mask=last == NO_ID)).dictionary_encode()


def by_schema(
    values: pa.Array, headers: pa.Array | None = None, name: str = ""
) -> Iterator[tuple[int | bytes | None, Places]]:
    """Yield the identity of each schema, with the indexes of its values in order.

    The identity is the id in a prefix, or the content of the header ``name``. It is None for values
    that are null or name no schema.
    """
    codes = schema_ids(values)
    contents = None if headers is None else header_contents(headers, name)
    if contents is not None:
        is_named = np.asarray(pc.and_(contents.is_valid(), values.is_valid()))
        indices = np.asarray(contents.indices.fill_null(0), np.int64)
        codes[is_named] = FIRST_HEADER - indices[is_named]
    if not len(codes):
        return
    order = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[order], return_index=True)
    for code, places in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        if code > NO_ID:
            yield code, places
        elif code == NO_ID or contents is None:
            yield None, places
        else:
            yield contents.dictionary[FIRST_HEADER - code].as_py(), places


def without_prefix(values: pa.Array) -> pa.Array:
    """Return values without their prefixes. Each value must have a prefix."""
    ends, data = offsets_and_bytes(values)
    first, starts = ends[0], ends[:-1]
    is_kept = np.ones(ends[-1] - first, np.bool_)
    is_kept[(starts - first)[:, None] + np.arange(FRAME_BYTES)] = False
    content = data[first : ends[-1]][is_kept]
    offsets = (ends - first - FRAME_BYTES * np.arange(len(ends))).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def offsets_and_bytes(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the Arrow offsets of values, one more than there are values, and their bytes."""
    _, offsets, content = values.buffers()
    ends = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * OFFSET_BYTES)
    return ends.astype(np.int64), np.frombuffer(content or b"", np.uint8)


def refused(count: int, reason: str, schema: pa.Schema) -> tuple[pa.Table, pa.Array]:
    """Return an empty table (``schema``), and the same fault for each of ``count`` values."""
    return schema.empty_table(), pa.repeat(pa.scalar(reason), count)


def in_order(count: int, parts: Sequence[Part], schema: pa.Schema) -> tuple[pa.Table, pa.Array]:
    """Join parts of ``count`` values into rows in the order of the values, and a fault per value.

    The fault of a value that became a row is null.
    """
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
