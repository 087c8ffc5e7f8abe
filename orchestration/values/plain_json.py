"""Reads JSON values into typed columns in bulk with Arrow, if they certainly follow the rule.

A value is certain if ``strict_json`` would surely accept it and read the same from it. All other
values are doubtful, and ``strict_json`` decides on them. Nothing is refused here. Arrow parses the
values as lines. Each begins with ``{``, ends with ``}`` and has no line break. So no document spans
two lines (within a document no closing brace is followed by an opening one) and each line holds at
least one. If there are as many documents as lines, each line is one document. Arrow refuses another
type, a number out of range, a field given twice, a lone surrogate, and a decimal with more digits
than its scale. This module checks everything that Arrow reads more leniently: ``NaN`` and
``Infinity``, an integer ``-0`` in a DOUBLE, numbers beyond a DOUBLE's or a DECIMAL's range, other
formats of times, invalid years, and the bounds of all parsers (nesting, digits). A type that is not
in ``ARROW_TYPES``, and is not a DECIMAL, leaves the whole schema to ``strict_json``. Invariant: the
columns hold the certain values in their order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql import types

from orchestration.values.scalars import UNITS_PER_SECOND, US_PER_SECOND, reading_of
from orchestration.values.strict_json import MAX_DEPTH
from orchestration.values.times import FIRST_US, LAST_US

BLOCK_BYTES = 1 << 20
FEW_RECORDS = 64
"""If Arrow refuses at most this many values, all count as doubtful, because a search costs more."""
MAX_REFUSALS = 64
"""Most refusals of one call, because each is a parse in vain.

Further refused values are doubtful.
"""
SAFE_BYTES, MAX_BYTES = 1_000, 50_000
"""Values up to ``SAFE_BYTES`` cannot reach a bound of a parser.

Those beyond ``MAX_BYTES`` are doubtful.
"""
MARKS = (b"\n", b"\r", b"NaN", b"Inf")
"""Bytes that make a value doubtful wherever they stand in it."""
LONG_NUMBER = r"[-+.0-9eE]{1000}"
WIDEST = 76
"""Digits of Arrow's widest decimals.

Arrow shifts a number to the scale without a check for overflow, so that 1e40 may become 0.5.
"""
WIDE_NUMBER = r'[0-9]{38}|[0-9.][eE][-+]?[0-9]+"?[ \t]*[],}]'
"""A pattern for numbers that may overflow in that shift.

Numbers of fewer digits and without an exponent do not.
"""
LOCAL_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
SHORTEST_UTC_TIME = len("2013-01-01T05:00:00Z")
DATE_LENGTH = len("2013-01-01")
FIRST_DAY, LAST_DAY = FIRST_US // (86_400 * US_PER_SECOND), LAST_US // (86_400 * US_PER_SECOND)
MAX_INTEGER = 2**63 - 1
TIMESTAMP = pa.timestamp("us", tz="UTC")
ARROW_TYPES: Mapping[type[types.DataType], pa.DataType] = {
    types.StringType: pa.string(),
    types.ByteType: pa.int8(),
    types.ShortType: pa.int16(),
    types.IntegerType: pa.int32(),
    types.LongType: pa.int64(),
    types.DoubleType: pa.float64(),
    types.BooleanType: pa.bool_(),
    types.TimestampType: TIMESTAMP,
    types.DateType: pa.date32(),
}

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSchema:
    """The fields of a topic as Arrow schemas.

    ``columns`` are the final types, ``parsed`` the types that Arrow parses from JSON.
    """

    columns: pa.Schema
    parsed: pa.Schema
    required: tuple[str, ...]
    epochs: Mapping[str, int]
    """Units per second of the timestamps that come as numbers."""
    has_decimals: bool


def plain_schema(fields: types.StructType) -> PlainSchema | None:
    """Return the Arrow schemas with which ``fields`` are parsed, or None if Arrow cannot."""
    kinds = [None if _is_unscaled(field) else _arrow_type(field.dataType) for field in fields]
    if not kinds or None in kinds:
        return None
    columns = pa.schema(
        [pa.field(field.name, kind) for field, kind in zip(fields, kinds, strict=True)]
    )
    epochs = {
        field.name: UNITS_PER_SECOND[unit]
        for field in fields
        if _is_epoch(field) and (unit := reading_of(field).epoch_unit)
    }
    parsed = [
        pa.field(field.name, pa.int64() if field.name in epochs else _parsed_type(field.type))
        for field in columns
    ]
    required = tuple(field.name for field in fields if not field.nullable)
    return PlainSchema(
        columns=columns,
        parsed=pa.schema(parsed),
        required=required,
        epochs=epochs,
        has_decimals=any(map(pa.types.is_decimal, columns.types)),
    )


def _arrow_type(kind: types.DataType) -> pa.DataType | None:
    if isinstance(kind, types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return ARROW_TYPES.get(type(kind))


def _is_unscaled(field: types.StructField) -> bool:
    """Return whether a field is a DECIMAL in base64, which Arrow would misread as its digits."""
    return isinstance(field.dataType, types.DecimalType) and reading_of(field).decimals == "base64"


def _is_epoch(field: types.StructField) -> bool:
    """Return whether a field is a TIMESTAMP that is declared as a number of some unit since 1970.

    Values with texts are then doubtful, because Arrow expects numbers.
    """
    return (
        isinstance(field.dataType, types.TimestampType) and reading_of(field).epoch_unit is not None
    )


def _parsed_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal256(WIDEST, kind.scale)
    return pa.string() if pa.types.is_temporal(kind) else kind


def read_plain(values: pa.Array, schema: PlainSchema) -> tuple[pa.Table, Flags]:
    """Return the columns of the certain ``values`` (binary), and flags that mark these values."""
    positions = np.flatnonzero(_is_candidate(values, has_decimals=schema.has_decimals))
    candidates = values if len(positions) == len(values) else values.take(pa.array(positions))
    is_plain: Flags = np.zeros(len(values), np.bool_)
    tables = [schema.columns.empty_table()]
    spans, refusals = [(0, len(candidates))], 0
    while spans:
        first, after = spans.pop()
        found = _parsed(candidates.slice(first, after - first), schema)
        if found is not None:
            table, is_certain = found
            is_plain[positions[first:after]] = is_certain
            tables.append(table if is_certain.all() else table.filter(pa.array(is_certain)))
        elif after - first > FEW_RECORDS and refusals < MAX_REFUSALS:
            refusals += 1
            middle = (first + after) // 2
            spans += [(middle, after), (first, middle)]
    return pa.concat_tables(tables), is_plain


def _is_candidate(values: pa.Array, *, has_decimals: bool) -> Flags:
    """Return which values are a line in braces, within the bounds of parsers, and without NaN."""
    octets, offsets = _octets(values)
    sizes = np.diff(offsets)
    candidates: Flags = (sizes >= len(b"{}")) & (sizes <= MAX_BYTES)
    filled = np.flatnonzero(candidates)
    candidates[filled] = (octets[offsets[filled]] == ord("{")) & (
        octets[offsets[filled + 1] - 1] == ord("}")
    )
    for mark in MARKS:
        if _has(octets[offsets[0] : offsets[-1]], mark):  # a search in each costs ten times more
            candidates &= ~_flags(pc.match_substring(values, mark))
    long = np.flatnonzero(candidates & (sizes > SAFE_BYTES))
    if long.size:
        texts = values.take(pa.array(long))
        brackets = pc.add(
            pc.count_substring(texts, b"["), pc.count_substring(texts, b"{")
        ).to_numpy()
        candidates[long] = (brackets <= MAX_DEPTH) & ~_flags(
            pc.match_substring_regex(texts, LONG_NUMBER)
        )
    if has_decimals:
        candidates &= ~_flags(pc.match_substring_regex(values, WIDE_NUMBER))
    return candidates & _flags(values.is_valid()) if values.null_count else candidates


def _octets(values: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Return the bytes that contain ``values``, and the offset at which each begins.

    One more offset tells where the last value ends.
    """
    _, offsets, octets = values.buffers()
    starts = (
        np.zeros(1, np.int32)
        if offsets is None
        else np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    )
    return np.frombuffer(octets or b"", np.uint8), starts


def _has(octets: npt.NDArray[np.uint8], mark: bytes) -> bool:
    places = np.flatnonzero(octets[: len(octets) - len(mark) + 1] == mark[0])
    for distance in range(1, len(mark)):
        places = places[octets[places + distance] == mark[distance]]
    return bool(places.size)


def _flags(answers: pa.Array | pa.ChunkedArray) -> Flags:
    """Convert Arrow booleans to flags. Null becomes false."""
    flags: Flags = np.asarray(pc.fill_null(answers, False))
    return flags


def _parsed(values: pa.Array, schema: PlainSchema) -> tuple[pa.Table, Flags] | None:
    """Return the columns of ``values`` and flags of certain rows, or None if Arrow refuses one."""
    if not len(values):
        return None
    lines = pc.binary_join_element_wise(
        values, pa.scalar(b"", values.type), pa.scalar(b"\n", values.type)
    )
    body = lines.buffers()[2]
    largest = pc.max(pc.binary_length(lines)).as_py()
    try:
        lines.cast(pa.string()).validate(full=True)
        table = pj.read_json(
            pa.py_buffer(body),
            read_options=pj.ReadOptions(block_size=max(BLOCK_BYTES, 2 * largest)),
            parse_options=pj.ParseOptions(
                explicit_schema=schema.parsed, unexpected_field_behavior="ignore"
            ),
        )
        if table.num_rows != len(values):
            return None
        is_certain: Flags = np.ones(len(values), np.bool_)
        columns = [
            _typed(table[field.name], field.type, schema.epochs.get(field.name), is_certain)
            for field in schema.columns
        ]
    except pa.ArrowInvalid:
        return None
    for name in schema.required:
        if table[name].null_count:
            is_certain &= pc.is_valid(table[name]).to_numpy()
    return pa.table(columns, schema=schema.columns), is_certain


def _typed(
    column: pa.ChunkedArray, wanted: pa.DataType, epoch: int | None, is_certain: Flags
) -> pa.ChunkedArray:
    """Convert ``column`` to its final type. Clear ``is_certain`` for rows that become doubtful.

    :raises pa.ArrowInvalid: a day or a time does not exist.
    """
    if wanted == TIMESTAMP:
        return (
            _timestamps(column, is_certain)
            if epoch is None
            else _moments(column, epoch, is_certain)
        )
    if wanted == pa.date32():
        days = _kept(column, pc.equal(pc.binary_length(column), DATE_LENGTH), is_certain).cast(
            wanted
        )
        return _within(days, pa.int32(), FIRST_DAY, LAST_DAY, is_certain)
    if wanted == pa.float64():
        numbers = pc.fill_null(column, 1.0).to_numpy()
        is_certain &= ~((numbers == 0) & np.signbit(numbers)) & np.isfinite(numbers)
    if pa.types.is_decimal(wanted):
        bound = pa.scalar(Decimal(10) ** (wanted.precision - wanted.scale), column.type)
        return _kept(column, pc.less(pc.abs(column), bound), is_certain).cast(wanted)
    return column


def _moments(numbers: pa.ChunkedArray, per_second: int, is_certain: Flags) -> pa.ChunkedArray:
    """Convert numbers of a unit since 1970 to timestamps.

    Rows with numbers beyond the years that texts can express become doubtful.
    """
    first, last = FIRST_US * per_second // US_PER_SECOND, LAST_US * per_second // US_PER_SECOND
    numbers = _within(
        numbers, pa.int64(), max(first + 1, -MAX_INTEGER), min(last, MAX_INTEGER), is_certain
    )
    if per_second > US_PER_SECOND:
        floored = np.floor_divide(pc.fill_null(numbers, 0).to_numpy(), per_second // US_PER_SECOND)
        numbers = pc.if_else(numbers.is_valid(), pa.array(floored), pa.scalar(None, pa.int64()))
    else:
        numbers = pc.multiply(numbers, US_PER_SECOND // per_second)
    return numbers.cast(TIMESTAMP)


def _within(
    column: pa.ChunkedArray, kind: pa.DataType, first: int, last: int, is_certain: Flags
) -> pa.ChunkedArray:
    """Replace values that are not in [``first``, ``last``] as numbers of ``kind`` by null.

    Their rows become doubtful.
    """
    numbers = column.cast(kind)
    return _kept(
        column, pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last)), is_certain
    )


def _timestamps(texts: pa.ChunkedArray, is_certain: Flags) -> pa.ChunkedArray:
    """Convert texts to timestamps: texts in UTC with a Z, or without a zone, which means UTC, too.

    Rows with other texts become doubtful.
    """
    is_utc = pc.and_(
        pc.ends_with(texts, "Z"), pc.greater_equal(pc.binary_length(texts), SHORTEST_UTC_TIME)
    )
    if pc.all(is_utc).as_py() is False:
        is_local = pc.match_substring_regex(texts, LOCAL_TIME)
        texts = pc.if_else(is_local, pc.binary_join_element_wise(texts, "Z", ""), texts)
        is_utc = pc.or_(is_utc, is_local)
    return _within(
        _kept(texts, is_utc, is_certain).cast(TIMESTAMP), pa.int64(), FIRST_US, LAST_US, is_certain
    )


def _kept(texts: pa.ChunkedArray, is_kept: pa.ChunkedArray, is_certain: Flags) -> pa.ChunkedArray:
    """Replace the values outside of ``is_kept`` by null. Their rows become doubtful."""
    kept: Flags = pc.fill_null(is_kept, True).to_numpy()
    is_certain &= kept
    return texts if kept.all() else pc.if_else(pa.array(kept), texts, pa.scalar(None, texts.type))
