"""JSON values that leave no doubt, as typed Arrow columns: many records per step, without Spark.

Decides which records Arrow may parse in Spark's place: those of which it is certain that ``strict_json`` would accept them and that
``parsing.parse`` would find just these values. All others are in doubt and decided there: nothing here calls a record a misfit.

Why it is certain: the values are parsed as lines. Each begins with ``{``, ends with ``}`` and has no line break, so no document reaches
over two lines (within a document no closing brace is followed by an opening one) and each line holds at least one; as many documents as
lines are one each. Arrow refuses what Spark refuses or reads in a way of its own: another type, a number out of range, a field given
twice, a lone surrogate. What it takes more lightly is looked for apart: ``NaN`` and ``Infinity``, an integer ``-0`` in a DOUBLE, numbers
beyond a DOUBLE's range, times in forms that Spark reads otherwise, and the bounds of all parsers (nesting, digits). Types that are not in
``ARROW_TYPES`` leave the whole schema to Spark.
Invariant: the columns hold the values of the records without doubt, in their order.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql import types

from orchestration.values.strict_json import MAX_DEPTH

BLOCK_BYTES = 1 << 20
FEW_RECORDS = 64
"""What Arrow refuses among so few goes to Spark as it is: to look for the one at fault costs more."""
MAX_REFUSALS = 64
"""Of one call; each is a parse in vain. What is refused beyond goes to Spark."""
SAFE_BYTES, MAX_BYTES = 1_000, 50_000
"""Values up to ``SAFE_BYTES`` cannot reach a bound of a parser; those beyond ``MAX_BYTES`` are in doubt."""
MARKS = (b"\n", b"\r", b"NaN", b"Inf")
"""What no value without doubt has anywhere in it."""
LONG_NUMBER = r"[-+.0-9eE]{1000}"
LOCAL_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
SHORTEST_UTC_TIME = len("2013-01-01T05:00:00Z")
DATE_LENGTH = len("2013-01-01")
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
    """The fields of a topic as Arrow has them: ``columns`` in the end, ``parsed`` as they come out of JSON."""

    columns: pa.Schema
    parsed: pa.Schema
    required: tuple[str, ...]


def plain_schema(fields: types.StructType) -> PlainSchema | None:
    """Return how Arrow parses ``fields``, None where that is Spark's alone."""
    if not len(fields) or any(type(field.dataType) not in ARROW_TYPES for field in fields):
        return None
    columns = pa.schema([pa.field(field.name, ARROW_TYPES[type(field.dataType)]) for field in fields])
    parsed = [pa.field(field.name, pa.string() if pa.types.is_temporal(field.type) else field.type) for field in columns]
    required = tuple(field.name for field in fields if not field.nullable)
    return PlainSchema(columns=columns, parsed=pa.schema(parsed), required=required)


def read_plain(values: pa.Array, schema: PlainSchema) -> tuple[pa.Table, Flags]:
    """Return the columns of those of ``values`` (binary) that leave no doubt, and which these are."""
    positions = np.flatnonzero(_is_candidate(values))
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


def _is_candidate(values: pa.Array) -> Flags:
    """Return which values are one line in braces, within the bounds of the parsers, and without what looks like a NaN."""
    octets, offsets = _octets(values)
    sizes = np.diff(offsets)
    candidates: Flags = (sizes >= len(b"{}")) & (sizes <= MAX_BYTES)
    filled = np.flatnonzero(candidates)
    candidates[filled] = (octets[offsets[filled]] == ord("{")) & (octets[offsets[filled + 1] - 1] == ord("}"))
    for mark in MARKS:
        if _has(octets[offsets[0] : offsets[-1]], mark):  # to look through all at once costs a tenth of a look into each
            candidates &= ~_flags(pc.match_substring(values, mark))
    long = np.flatnonzero(candidates & (sizes > SAFE_BYTES))
    if long.size:
        texts = values.take(pa.array(long))
        brackets = pc.add(pc.count_substring(texts, b"["), pc.count_substring(texts, b"{")).to_numpy()
        candidates[long] = (brackets <= MAX_DEPTH) & ~_flags(pc.match_substring_regex(texts, LONG_NUMBER))
    return candidates & _flags(values.is_valid()) if values.null_count else candidates


def _octets(values: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Return the bytes that ``values`` lie in, and where each begins; one more says where the last one ends."""
    _, offsets, octets = values.buffers()
    starts = np.zeros(1, np.int32) if offsets is None else np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return np.frombuffer(octets or b"", np.uint8), starts


def _has(octets: npt.NDArray[np.uint8], mark: bytes) -> bool:
    places = np.flatnonzero(octets[: len(octets) - len(mark) + 1] == mark[0])
    for distance in range(1, len(mark)):
        places = places[octets[places + distance] == mark[distance]]
    return bool(places.size)


def _flags(answers: pa.Array | pa.ChunkedArray) -> Flags:
    """Return answers as flags; null is no."""
    flags: Flags = np.asarray(pc.fill_null(answers, False))
    return flags


def _parsed(values: pa.Array, schema: PlainSchema) -> tuple[pa.Table, Flags] | None:
    """Return the columns of ``values`` and which rows are certain; None where Arrow refuses one of them."""
    if not len(values):
        return None
    lines = pc.binary_join_element_wise(values, pa.scalar(b"", values.type), pa.scalar(b"\n", values.type))
    body = lines.buffers()[2]
    largest = pc.max(pc.binary_length(lines)).as_py()
    try:
        lines.cast(pa.string()).validate(full=True)
        table = pj.read_json(
            pa.py_buffer(body),
            read_options=pj.ReadOptions(block_size=max(BLOCK_BYTES, 2 * largest)),
            parse_options=pj.ParseOptions(explicit_schema=schema.parsed, unexpected_field_behavior="ignore"),
        )
        if table.num_rows != len(values):
            return None
        is_certain: Flags = np.ones(len(values), np.bool_)
        columns = [_typed(table[field.name], field.type, is_certain) for field in schema.columns]
    except pa.ArrowInvalid:
        return None
    for name in schema.required:
        if table[name].null_count:
            is_certain &= pc.is_valid(table[name]).to_numpy()
    return pa.table(columns, schema=schema.columns), is_certain


def _typed(column: pa.ChunkedArray, wanted: pa.DataType, is_certain: Flags) -> pa.ChunkedArray:
    """Return ``column`` in its type in the end, and lower the flags of rows that Spark may read otherwise.

    :raises pa.ArrowInvalid: no such day or time exists.
    """
    if wanted == TIMESTAMP:
        return _timestamps(column, is_certain)
    if wanted == pa.date32():
        return _kept(column, pc.equal(pc.binary_length(column), DATE_LENGTH), is_certain).cast(wanted)
    if wanted == pa.float64():
        numbers = pc.fill_null(column, 1.0).to_numpy()
        is_certain &= ~((numbers == 0) & np.signbit(numbers)) & np.isfinite(numbers)
    return column


def _timestamps(texts: pa.ChunkedArray, is_certain: Flags) -> pa.ChunkedArray:
    """Times in UTC with a Z, or without a zone: Spark's session has UTC. Others are in doubt."""
    is_utc = pc.and_(pc.ends_with(texts, "Z"), pc.greater_equal(pc.binary_length(texts), SHORTEST_UTC_TIME))
    if pc.all(is_utc).as_py() is False:
        is_local = pc.match_substring_regex(texts, LOCAL_TIME)
        texts = pc.if_else(is_local, pc.binary_join_element_wise(texts, "Z", ""), texts)
        is_utc = pc.or_(is_utc, is_local)
    return _kept(texts, is_utc, is_certain).cast(TIMESTAMP)


def _kept(texts: pa.ChunkedArray, is_kept: pa.ChunkedArray, is_certain: Flags) -> pa.ChunkedArray:
    """Return ``texts`` with null where they are not kept; those rows are in doubt."""
    kept: Flags = pc.fill_null(is_kept, True).to_numpy()
    is_certain &= kept
    return texts if kept.all() else pc.if_else(pa.array(kept), texts, None)
