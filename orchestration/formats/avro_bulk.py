"""Reads Avro values into columns in bulk: one step per field of a flat record, for many values.

Decides which values can certainly be read in bulk. ``avro_resolving`` reads the others, called
doubtful, one by one, and tells why a value does not fit. A record is flat if its fields are
numbers, texts, bytes, booleans, enums, dates and times, or one of these or null. Does not know
files or registries. Invariant: a value that is read here has the row that ``avro_resolving`` would
read from it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orchestration.formats.avro_reading import FIRST_DAY, INT_END, LAST_DAY, default_of
from orchestration.formats.avro_resolving import field_pairs
from orchestration.formats.avro_types import NO_NULL, AvroType
from orchestration.formats.prefixes import offsets_and_bytes
from orchestration.values.times import FIRST_US, LAST_US

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Octets = npt.NDArray[np.uint8]
BulkRead = Callable[[pa.Array], tuple[pa.Table, Flags]]
"""Returns the rows of the values that can be read in bulk, and which values these are."""

NUMBERS: Mapping[str, str] = {"float": "<f4", "double": "<f8"}
FLAT = frozenset({"boolean", "int", "long", "float", "double", "string", "bytes", "enum"})
MOST_VARINT_BYTES = 9
"""Longer numbers are read one by one, because they may have more than 64 bits."""
BULK_BYTES = 1 << 20
"""The most bytes of values that are read at once."""
PADDING = 16
"""Bytes behind the last value, so that no step reads behind the end."""


@dataclass(slots=True, kw_only=True)
class Cursor:
    """The reading position in each value, and the values that could be read in bulk so far."""

    data: Octets
    at: Numbers
    ends: Numbers
    is_certain: Flags

    def keep(self, is_good: Flags) -> None:
        """Mark the values outside of ``is_good`` as doubtful, and ignore them from now on."""
        self.is_certain &= is_good
        self.at[~self.is_certain] = 0

    def varints(self, places: Flags) -> Numbers:
        """Read a zigzag varint in each of the values ``places``. All other values get 0."""
        found = np.zeros(len(self.at), np.uint64)
        active = np.flatnonzero(places)
        for step in range(MOST_VARINT_BYTES):
            octets = self.data[self.at[active]]
            found[active] |= (octets & 0x7F).astype(np.uint64) << np.uint64(7 * step)
            self.at[active] += 1
            active = active[octets >= 0x80]
            if not active.size:
                break
        signed = (found >> np.uint64(1)).astype(np.int64) ^ -(found & np.uint64(1)).astype(np.int64)
        is_good = self.at <= self.ends
        is_good[active] = False
        self.keep(is_good)
        return signed


Column = Callable[[Cursor, Flags], Any]
"""Reads a field of the values at some places. Returns what ``Convert`` takes."""
Convert = Callable[[Any, Flags, Cursor], pa.Array]
"""Makes the column of a field. The places are those that are not null."""


def bulk_reader(
    written: AvroType, declared: AvroType, begin: int, schema: pa.Schema
) -> BulkRead | None:
    """Return a function that reads values of ``written`` as the columns of ``declared``.

    The result is None if a record is not flat. The two types must be resolvable
    (``resolving_reader``). A record begins at offset ``begin`` of a value. ``schema`` has the
    columns.
    """
    pairs, lacking = field_pairs(written, declared)
    if not all(_is_flat(one.type) for one in written.fields):
        return None
    if not all(_is_flat(one.type) for one in pairs.values()):
        return None
    constants = {one.name: default_of(one) for one in lacking if one.is_column}
    steps = [
        (one.type, target.type, target.name)
        if (target := pairs.get(one.name)) is not None and target.is_column
        else (one.type, None, "")
        for one in written.fields
    ]

    def read(values: pa.Array) -> tuple[pa.Table, Flags]:
        cursor = _cursor(values, begin)
        made: dict[str, pa.Array] = {}
        for kind, target, name in steps:
            is_there = _presence(cursor, kind)
            found = READERS[kind.name](cursor, is_there)
            if target is not None:
                if not target.is_nullable:
                    cursor.keep(is_there)
                made[name] = _column(kind, target, found, is_there, cursor, schema.field(name).type)
        cursor.keep(cursor.at == cursor.ends)
        for name, constant in constants.items():
            made[name] = pa.repeat(pa.scalar(constant, schema.field(name).type), len(values))
        table = pa.table([made[name] for name in schema.names], schema=schema)
        if not cursor.is_certain.all():
            table = table.filter(pa.array(cursor.is_certain))
        return table, cursor.is_certain

    return read


def _is_flat(kind: AvroType) -> bool:
    has_times = kind.logical == "date" or "timestamp" in kind.logical
    return kind.name in FLAT and not kind.members and (not kind.logical or has_times)


def _cursor(values: pa.Array, begin: int) -> Cursor:
    offsets, data = offsets_and_bytes(values)
    first, last = offsets[0], offsets[-1]
    padded = np.zeros(last - first + PADDING, np.uint8)
    padded[: last - first] = data[first:last]
    starts, ends = offsets[:-1] - first + begin, offsets[1:] - first
    return Cursor(
        data=padded, at=starts.copy(), ends=ends, is_certain=np.ones(len(values), np.bool_)
    )


def _presence(cursor: Cursor, kind: AvroType) -> Flags:
    """Read the index of a union in each value, and return which values are not null."""
    if not kind.is_union:
        return cursor.is_certain.copy()
    index = cursor.varints(cursor.is_certain)
    chosen = 0 if kind.null_index == NO_NULL else 1 - kind.null_index
    is_null = np.zeros(len(index), np.bool_)
    if kind.null_index != NO_NULL:
        is_null = index == kind.null_index
    cursor.keep((index == chosen) | is_null)
    return cursor.is_certain & ~is_null


def _fixed(size: int, kind: str) -> Column:
    def read(cursor: Cursor, places: Flags) -> Any:
        starts = np.where(places, cursor.at, 0)
        cursor.at[places] += size
        cursor.keep(cursor.at <= cursor.ends)
        octets = cursor.data[np.minimum(starts, len(cursor.data) - size)[:, None] + np.arange(size)]
        return np.ascontiguousarray(octets).view(kind)[:, 0]

    return read


def _octets(cursor: Cursor, places: Flags) -> tuple[Numbers, Numbers]:
    """Read the lengths of bytes in the values ``places``, and return starts and lengths."""
    sizes = cursor.varints(places)
    is_good = (sizes >= 0) & (sizes <= cursor.ends - cursor.at)
    cursor.keep(is_good | ~places)
    sizes = np.where(places & cursor.is_certain, sizes, 0)
    starts = cursor.at.copy()
    cursor.at += sizes
    return starts, sizes


READERS: Mapping[str, Column] = {
    "boolean": _fixed(1, "u1"),
    "int": lambda cursor, places: cursor.varints(places),
    "long": lambda cursor, places: cursor.varints(places),
    "enum": lambda cursor, places: cursor.varints(places),
    "float": _fixed(4, NUMBERS["float"]),
    "double": _fixed(8, NUMBERS["double"]),
    "string": _octets,
    "bytes": _octets,
}


def _column(  # noqa: PLR0917 - the two types, and what was read
    kind: AvroType,
    target: AvroType,
    found: Any,
    is_there: Flags,
    cursor: Cursor,
    arrow: pa.DataType,
) -> pa.Array:
    """Return the read values as a column. A value that the column cannot hold becomes doubtful."""
    if kind.name in {"string", "bytes"}:
        starts, sizes = found
        is_kept, is_text = is_there & cursor.is_certain, target.name == "string"
        return _texts(starts, sizes, is_kept, cursor, is_text=is_text)
    if kind.name == "enum":
        return _symbols(kind, target, found, is_there, cursor)
    if kind.name == "boolean":
        cursor.keep((found <= 1) | ~is_there)
        return pa.array(found == 1, mask=~is_there)
    if kind.name == "int":
        cursor.keep(((found >= -INT_END) & (found < INT_END)) | ~is_there)
    if pa.types.is_floating(arrow):
        with np.errstate(invalid="ignore"):  # a signalling NaN is one, as in Python
            numbers = found.astype(np.float64).astype(arrow.to_pandas_dtype())
        return pa.array(numbers, arrow, mask=~is_there)
    return _whole_numbers(kind, target, found, is_there, cursor, arrow)


def _whole_numbers(  # noqa: PLR0917 - as ``_column``
    kind: AvroType,
    target: AvroType,
    found: Numbers,
    is_there: Flags,
    cursor: Cursor,
    arrow: pa.DataType,
) -> pa.Array:
    lowest, highest, unit = -(1 << 63), (1 << 63) - 1, 1
    if target.logical == "date":
        lowest, highest = FIRST_DAY, LAST_DAY
    elif "timestamp" in target.logical:
        logical = kind.logical if "timestamp" in kind.logical else target.logical
        unit = 1_000 if logical.endswith("millis") else 1
        lowest, highest = -(-FIRST_US // unit), LAST_US // unit
    cursor.keep(((found >= lowest) & (found <= highest)) | ~is_there)
    numbers = np.where(is_there & cursor.is_certain, found, 0) * unit
    is_narrow = pa.types.is_int32(arrow) or pa.types.is_date32(arrow)
    plain = pa.array(numbers.astype(np.int32 if is_narrow else np.int64), mask=~is_there)
    return plain.view(arrow)


def _symbols(
    kind: AvroType, target: AvroType, found: Numbers, is_there: Flags, cursor: Cursor
) -> pa.Array:
    known = frozenset(target.symbols)
    names = [
        one if one in known else target.default_symbol or None for one in (*kind.symbols, None)
    ]
    outside = len(kind.symbols)
    indices = np.where((found >= 0) & (found < outside), found, outside)
    is_named = np.array([one is not None for one in names])
    is_named[outside] = False
    cursor.keep(is_named[indices] | ~is_there)
    return pa.array(names, pa.string()).take(pa.array(indices, mask=~is_there))


def _texts(
    starts: Numbers, sizes: Numbers, is_there: Flags, cursor: Cursor, *, is_text: bool
) -> pa.Array:
    """Return a column of bytes or texts.

    If a text is not UTF-8, all texts that are not ASCII become doubtful.
    """
    sizes = np.where(is_there, sizes, 0)
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    places = np.arange(total) + np.repeat(starts - (ends - sizes), sizes)
    content = cursor.data[places]
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    bits = pa.array(is_there).buffers()[1]
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
    made = pa.Array.from_buffers(pa.binary(), len(sizes), buffers)
    if not is_text:
        return made
    try:
        return made.cast(pa.string())
    except pa.ArrowInvalid:
        is_ascii = np.array([one is None or one.isascii() for one in made.to_pylist()])
        cursor.keep(is_ascii)
        texts = [one if one is None else one.decode("ascii", "replace") for one in made.to_pylist()]
        return pa.array(texts, pa.string())


def in_both(
    values: pa.Array, bulk: BulkRead, read: Callable[[pa.Array], tuple[pa.Table, pa.Array]]
) -> Sequence[tuple[Numbers, pa.Table, pa.Array]]:
    """Read values in bulk, and the doubtful ones with ``read``. Return both results as parts.

    Each part has the indexes of its values, their rows and their faults. Values are read in pieces
    of ``BULK_BYTES``, because an index of each byte takes memory. A larger value is a piece alone.
    """
    is_certain = np.zeros(len(values), np.bool_)
    tables = []
    for start, end in _pieces(values):
        rows, is_certain[start:end] = bulk(values.slice(start, end - start))
        tables.append(rows)
    certain, others = np.flatnonzero(is_certain), np.flatnonzero(~is_certain)
    parts = []
    if tables:
        parts.append((certain, pa.concat_tables(tables), pa.nulls(len(certain), pa.string())))
    if others.size:
        parts.append((others, *read(values.take(pa.array(others)))))
    return parts


def _pieces(values: pa.Array) -> Iterator[tuple[int, int]]:
    """Yield the pieces of values to read in bulk, as the indexes of their start and end."""
    offsets, _ = offsets_and_bytes(values)
    start = 0
    while start < len(values):
        end = int(np.searchsorted(offsets, offsets[start] + BULK_BYTES, "right")) - 1
        if end > start:
            yield start, end
        start = max(end, start + 1)
