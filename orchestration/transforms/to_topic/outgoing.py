"""Converts rows of a result to records (key, value, headers, time), and cuts them into parts.

Decides how columns become a record. The value is a JSON object of all columns except those with
another meaning (``_key``, ``_headers``, ``_timestamp`` and the columns of provenance). If a result
has a column ``_value``, only that is sent. Spark writes the JSON, so that Spark can read it. Also
decides where a large result is cut. Each part is one transaction. A cut is between two records of
the source, so that a transaction sends exactly the rows of the offsets that it commits. Knows no
broker and no table.
Invariants: records are sent by partition and offset of their source, so that keys keep their order
within a partition. The ends of the last part are the ends of the batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sql
from pyspark.sql import types

from orchestration.dead_letters.table import Rejection
from orchestration.lake.tables import PROVENANCE
from orchestration.log_client.protocol import HEADERS, OutgoingRecord
from orchestration.offsets.ranges import OffsetRanges
from orchestration.transforms.batch.batch import call_transform, running
from orchestration.transforms.declarations import Transform
from orchestration.transforms.errors import TransformError
from orchestration.transforms.to_topic.declarations import TopicTransform
from orchestration.values.unwritten import unwritten_rows

KEY, VALUE, OUT_HEADERS, TIMESTAMP = "_out_key", "_out_value", "_out_headers", "_out_timestamp"
OUT = (KEY, VALUE, OUT_HEADERS, TIMESTAMP)
GIVEN_KEY, GIVEN_VALUE, GIVEN_HEADERS, GIVEN_TIMESTAMP = "_key", "_value", "_headers", "_timestamp"
NOT_IN_JSON = frozenset({*PROVENANCE, GIVEN_KEY, GIVEN_HEADERS, GIVEN_TIMESTAMP})
JSON_OPTIONS: Mapping[str, str] = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
OUTGOING = pa.schema(
    [
        pa.field("_partition", pa.int32()),
        pa.field("_offset", pa.int64()),
        pa.field("key", pa.large_binary()),
        pa.field("value", pa.large_binary()),
        pa.field("headers", HEADERS),
        pa.field("timestamp_ms", pa.int64()),
    ]
)
MAX_RECORD_BYTES = 1_000_000
"""Largest size of key, value and headers together.

It is a little less than 1 MiB, the default limit of brokers and producers for a record with its
overhead. A lower limit of the target or the producer holds instead.
"""
FRAME_BYTES = 128
"""Most bytes around the fields of a record that is alone in its batch."""
HEADER_FRAME_BYTES = 10
NAME_FACTOR = 4
"""Bytes that a producer reserves for a character of a header's name."""
JSON_RULE = "json_value"
SIZE_RULE = "record_size"
HEADER_RULE = "header_name"
SENT_ROWS = 5_000
"""Number of records that are Python objects at once."""
RECORD_OVERHEAD_BYTES = 32
HEADERS_TYPE = "array<struct<key:string,value:binary>>"
TEXTS_AND_BYTES = (types.StringType, types.BinaryType)
KEY_TYPES = (
    *TEXTS_AND_BYTES,
    types.IntegralType,
    types.DecimalType,
    types.BooleanType,
    types.DateType,
    types.TimestampType,
)


def sending(transform: TopicTransform) -> Transform:
    """Return a transform that adds the columns ``OUT`` to the result of the user's function."""

    def function(records: Any) -> Any:
        return with_outgoing(
            transform, call_transform(transform.name, transform.table.function, records)
        )

    return function


def with_outgoing(transform: TopicTransform, frame: Any) -> Any:
    """Return ``frame`` with the columns ``OUT``.

    A frame without the columns of provenance is returned unchanged, and is refused later.

    :raises TransformError: a column cannot become the declared part of a record.
    """
    name = transform.name
    with running(name):
        fields = {field.name: field.dataType for field in frame.schema}
    if not set(PROVENANCE) <= fields.keys():
        return frame
    value = _value(transform, fields)
    if transform.deleted_when is not None:
        value = sql.when(~sql.expr(f"coalesce({transform.deleted_when}, FALSE)"), value)
    columns = {
        KEY: _key(transform, fields),
        VALUE: value,
        OUT_HEADERS: _headers(name, fields),
        TIMESTAMP: _timestamp(name, fields),
    }
    with running(name):
        return frame.withColumns(columns)


def _value(transform: TopicTransform, fields: Mapping[str, types.DataType]) -> Any:
    names = [name for name in fields if name not in NOT_IN_JSON]
    if GIVEN_VALUE in fields:
        if not isinstance(fields[GIVEN_VALUE], TEXTS_AND_BYTES):
            raise TransformError(
                f"_value of {transform.name} is {fields[GIVEN_VALUE].simpleString()}: it has to be"
                " STRING or BINARY"
            )
        return sql.col(GIVEN_VALUE).cast("binary")
    if not names:
        raise TransformError(
            f"the result of {transform.name} has no column to send, only columns that say where a"
            " record came from"
        )
    _validate_schema(transform, {name: fields[name] for name in names})
    return sql.to_json(
        sql.struct(*(sql.col(f"`{name}`") for name in names)), dict(JSON_OPTIONS)
    ).cast("binary")


def _validate_schema(transform: TopicTransform, sent: Mapping[str, types.DataType]) -> None:
    """Refuse a result that does not fit the target's schema, if there is one."""
    declared = transform.target.fields
    if declared is None:
        return
    wanted = {field.name: _plain(field.dataType) for field in declared}
    problems = [f"{name} is declared and not in the result" for name in wanted if name not in sent]
    problems += [f"{name} is in the result and not declared" for name in sent if name not in wanted]
    problems += [
        f"{name} is declared {kind} and is {_plain(sent[name])}"
        for name, kind in wanted.items()
        if name in sent and _plain(sent[name]) != kind
    ]
    if problems:
        raise TransformError(
            f"the result of {transform.name} does not fit the schema of the topic"
            f" {transform.target.name}: {'; '.join(problems)}. Nothing was sent. Cast or rename the"
            " columns, or change the schema"
        )


def _plain(kind: types.DataType) -> str:
    """Return a type as text, the same whether inner values may be null or not."""
    return kind.simpleString().upper()


def _key(transform: TopicTransform, fields: Mapping[str, types.DataType]) -> Any:
    column = transform.key or (GIVEN_KEY if GIVEN_KEY in fields else None)
    if column is None:
        return sql.lit(None).cast("binary")
    if column not in fields:
        raise TransformError(
            f"key names the column {column}, which the result of {transform.name} does not have"
        )
    kind = fields[column]
    if not isinstance(kind, KEY_TYPES):
        raise TransformError(
            f"the key column {column} of {transform.name} is {kind.simpleString()}: make it a text,"
            " a number or BINARY"
        )
    quoted = sql.col(f"`{column}`")
    return quoted if isinstance(kind, types.BinaryType) else quoted.cast("string").cast("binary")


def _headers(name: str, fields: Mapping[str, types.DataType]) -> Any:
    kind = fields.get(GIVEN_HEADERS)
    given = sql.col(GIVEN_HEADERS) if kind is not None else sql.lit(None)
    if isinstance(kind, types.MapType):
        given, kind = (
            sql.map_entries(given),
            types.ArrayType(
                types.StructType().add("key", kind.keyType).add("value", kind.valueType)
            ),
        )
    if kind is not None and not _is_headers(kind):
        raise TransformError(
            f"_headers of {name} is {fields[GIVEN_HEADERS].simpleString()}: it has to be"
            " ARRAY<STRUCT<key: STRING, value: BINARY>>, as the records of a topic have it, or"
            " MAP<STRING, BINARY>; STRING does for BINARY"
        )
    return given.cast(HEADERS_TYPE)


def _is_headers(kind: types.DataType) -> bool:
    if not (isinstance(kind, types.ArrayType) and isinstance(kind.elementType, types.StructType)):
        return False
    fields = {field.name: field.dataType for field in kind.elementType}
    is_named = list(fields) == ["key", "value"] and isinstance(fields["key"], types.StringType)
    return is_named and isinstance(fields["value"], TEXTS_AND_BYTES)


def _timestamp(name: str, fields: Mapping[str, types.DataType]) -> Any:
    kind = fields.get(GIVEN_TIMESTAMP)
    if kind is None:
        return sql.lit(None).cast("bigint")
    if not isinstance(kind, types.TimestampType):
        raise TransformError(
            f"_timestamp of {name} is {kind.simpleString()}: it has to be TIMESTAMP"
        )
    return sql.unix_millis(sql.col(GIVEN_TIMESTAMP))


def split(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Split a computed result: its columns without ``OUT``, and its records as ``OUTGOING``."""
    columns = [
        rows[name].cast(field.type)
        for name, field in zip(("_partition", "_offset", *OUT), OUTGOING, strict=True)
    ]
    return rows.drop_columns(list(OUT)), pa.table(columns, schema=OUTGOING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimit:
    """The largest size of a record with its overhead, and the setting that sets the limit."""

    size_bytes: int
    setting: str


def size_limit(topic: str, configs: Mapping[str, str], sender_bytes: int) -> SizeLimit:
    """Return the lowest of three size limits: the platform's, the target topic's, the sender's.

    ``configs`` are the configs of the target ``topic``, and ``sender_bytes`` the sender's limit.
    """
    topic_bytes = int(configs.get("max.message.bytes", MAX_RECORD_BYTES + FRAME_BYTES))
    limits = [
        SizeLimit(
            size_bytes=MAX_RECORD_BYTES + FRAME_BYTES, setting=f"that is sent to the topic {topic}"
        ),
        SizeLimit(
            size_bytes=topic_bytes,
            setting=f"that the topic {topic} takes (max.message.bytes {topic_bytes})",
        ),
        SizeLimit(
            size_bytes=sender_bytes,
            setting=f"that is sent to the topic {topic} (max_request_size {sender_bytes})",
        ),
    ]
    return min(limits, key=lambda one: one.size_bytes)


def not_sendable(result: pa.Table, rows: pa.Table, limit: SizeLimit) -> tuple[Rejection, ...]:
    """Return the rejections of records whose result cannot be sent, or not read as JSON.

    ``result`` and ``rows`` are the two parts of ``split``. A record that brokers refuse would stop
    all records after it.
    """
    return (*not_json(result, rows), *nameless_headers(rows), *too_large(rows, limit))


def not_json(result: pa.Table, rows: pa.Table) -> tuple[Rejection, ...]:
    """Return the rejections of records whose result has a value that JSON cannot express."""
    if GIVEN_VALUE in result.column_names:
        return ()
    written = result.drop_columns([name for name in result.column_names if name in NOT_IN_JSON])
    reasons: dict[tuple[int, int], str] = {}
    for number, why in sorted(unwritten_rows(written).items()):
        if rows["value"][number].is_valid:
            place = (rows["_partition"][number].as_py(), rows["_offset"][number].as_py())
            reasons.setdefault(place, f"of a record that is made of it the column {why}")
    return tuple(
        Rejection(partition=place[0], offset=place[1], reason=reason, rule=JSON_RULE)
        for place, reason in reasons.items()
    )


def nameless_headers(rows: pa.Table) -> tuple[Rejection, ...]:
    """Return the rejections of records whose result has a header without name."""
    headers = rows["headers"].combine_chunks()
    is_nameless = pc.is_null(pc.struct_field(headers.flatten(), "key"))
    chosen = rows.take(pc.unique(pc.list_parent_indices(headers).filter(is_nameless)))
    places = dict.fromkeys(
        zip(*(chosen[name].to_pylist() for name in ("_partition", "_offset")), strict=True)
    )
    reason = "a header of a record that is made of it has no name"
    return tuple(
        Rejection(partition=place[0], offset=place[1], reason=reason, rule=HEADER_RULE)
        for place in places
    )


def too_large(rows: pa.Table, limit: SizeLimit) -> tuple[Rejection, ...]:
    """Return the rejections of records whose result is too large to be sent."""
    sizes = _framed_sizes(rows)
    found = (
        rows.select(["_partition", "_offset"])
        .append_column("size", pa.array(sizes))
        .filter(pa.array(sizes > limit.size_bytes))
    )
    most = f"more than {limit.size_bytes - FRAME_BYTES}, the most {limit.setting}"
    reasons = {
        (
            row["_partition"],
            row["_offset"],
        ): f"a record that is made of it takes {row['size'] - FRAME_BYTES} bytes, {most}"
        for row in found.to_pylist()
    }
    return tuple(
        Rejection(partition=place[0], offset=place[1], reason=reason, rule=SIZE_RULE)
        for place, reason in reasons.items()
    )


def tombstones(records: pa.Table) -> pa.Table:
    """Return the source's ``records``, with headers, as records without value (``OUTGOING``)."""
    count = records.num_rows
    timestamps = pc.cast(records["_timestamp"], pa.timestamp("ms", tz="UTC"), safe=False).cast(
        pa.int64()
    )
    columns = [
        records["_partition"],
        records["_offset"],
        records["key"].cast(pa.large_binary()),
        pa.nulls(count, pa.large_binary()),
    ]
    return pa.table([*columns, records["headers"], timestamps], schema=OUTGOING)


def in_order(rows: pa.Table, others: pa.Table) -> pa.Table:
    """Return both tables as one, by partition and offset. Rows of one record keep their order."""
    if not others.num_rows:
        return rows
    both = pa.concat_tables([rows, others])
    return both.take(
        pc.sort_indices(both, sort_keys=[("_partition", "ascending"), ("_offset", "ascending")])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The content of one transaction: the rows [start, end).

    ``ends`` has, for each partition of the source, the offset after these rows.
    """

    start: int
    end: int
    ends: Mapping[int, int]


def cut(rows: pa.Table, ranges: OffsetRanges, max_bytes: int) -> list[Part]:
    """Cut ``rows`` (``OUTGOING``, in order) into parts of about ``max_bytes``.

    A part exceeds this by at most one record of the source. There is at least one part.
    """
    partitions, offsets = rows["_partition"].to_numpy(), rows["_offset"].to_numpy()
    total = np.cumsum(_sizes(rows) + RECORD_OVERHEAD_BYTES)
    first_rows = np.flatnonzero((np.diff(partitions) != 0) | (np.diff(offsets) != 0)) + 1
    ends, parts, start, sent = ranges.ends(), [], 0, 0
    for at in first_rows.tolist():
        if total[at - 1] - sent >= max_bytes:
            partition, offset = int(partitions[at]), int(offsets[at])
            done = {one: end for one, end in ends.items() if one < partition} | {partition: offset}
            parts.append(Part(start=start, end=at, ends=done))
            start, sent = at, int(total[at - 1])
    return [*parts, Part(start=start, end=rows.num_rows, ends=ends)]


def _sizes(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the size of each row's key, value and headers together, in bytes."""
    key, value, names, contents, _ = _field_bytes(rows)
    return key + value + names + contents


def _framed_sizes(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the size of each row as a record in bytes, as a producer estimates it."""
    key, value, names, contents, header_count = _field_bytes(rows)
    return (
        FRAME_BYTES
        + key
        + value
        + NAME_FACTOR * names
        + contents
        + HEADER_FRAME_BYTES * header_count
    )


def _field_bytes(rows: pa.Table) -> tuple[npt.NDArray[np.int64], ...]:
    """Return the sizes of keys, values, header names and header values, and the header counts.

    Each is an array with one number for each row. Sizes are in bytes.
    """
    key, value = (
        pc.fill_null(pc.binary_length(rows[name]), 0).to_numpy().astype(np.int64)
        for name in ("key", "value")
    )
    headers = rows["headers"].combine_chunks()
    parents = pc.list_parent_indices(headers).to_numpy()
    parts = [
        pc.fill_null(pc.binary_length(pc.struct_field(headers.flatten(), name)), 0).to_numpy()
        for name in ("key", "value")
    ]
    names, contents = (
        np.bincount(parents, weights=part, minlength=rows.num_rows).astype(np.int64)
        for part in parts
    )
    return (
        key,
        value,
        names,
        contents,
        np.bincount(parents, minlength=rows.num_rows).astype(np.int64),
    )


def outgoing_records(rows: pa.Table) -> Iterator[OutgoingRecord]:
    """Yield the records of ``rows`` (``OUTGOING``)."""
    for batch in rows.select(["key", "value", "headers", "timestamp_ms"]).to_batches(
        max_chunksize=SENT_ROWS
    ):
        columns: Sequence[list[Any]] = [column.to_pylist() for column in batch.columns]
        for key, value, headers, timestamp_ms in zip(*columns, strict=True):
            pairs = tuple((one["key"], one["value"]) for one in headers or ())
            yield OutgoingRecord(key, value, pairs, timestamp_ms)
