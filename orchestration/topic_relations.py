"""Topics as relations of SQL: ``topics.orders`` in a question to DuckDB reads the live log, and no more of it than the question needs.

Decides which partitions and offsets a question can concern, from the filters that DuckDB itself pushes down to the scan (it explains
the question over an empty stand-in first): comparisons of ``_partition`` and ``_offset``, and lower bounds of ``_timestamp``, which the log
service turns into offsets. What is not understood narrows nothing, and DuckDB filters what was read once more, so that the answer
never depends on it. A topic that is scanned once is streamed; one that is scanned several times is read once into DuckDB. Each topic is
read up to its last stable offset when the question is asked. Knows no table.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads
from pyspark.sql import types

from orchestration.log_client import LogClient
from orchestration.offsets import OffsetRange
from orchestration.sql_quoting import quoted_name, quoted_text

SCHEMA_NAME = "topics"
NAMED = re.compile(r'\btopics\s*\.\s*(?:"((?:[^"]|"")+)"|([A-Za-z_]\w*))', re.IGNORECASE)
NO_OFFSET = 2**63 - 1
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "bytes", "headers")
TYPES = (
    pa.int32(),
    pa.int64(),
    pa.timestamp("ms", tz="UTC"),
    pa.string(),
    pa.string(),
    pa.binary(),
    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
)
SQL_TYPES: Mapping[type[types.DataType], str] = {
    types.StringType: "VARCHAR",
    types.ByteType: "TINYINT",
    types.ShortType: "SMALLINT",
    types.IntegerType: "INTEGER",
    types.LongType: "BIGINT",
    types.FloatType: "FLOAT",
    types.DoubleType: "DOUBLE",
    types.BooleanType: "BOOLEAN",
    types.DateType: "DATE",
    types.TimestampType: "TIMESTAMPTZ",
}
LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a scan can concern: partitions (None: all), offsets [start, end), timestamps from ``from_ms`` on and below ``to_ms``."""

    partitions: frozenset[int] | None = None
    start: int = 0
    end: int = NO_OFFSET
    from_ms: int | None = None
    to_ms: int | None = None

    def both(self, other: "Bounds") -> "Bounds":
        """Return what is in both."""
        sets = [one for one in (self.partitions, other.partitions) if one is not None]
        from_times = [one for one in (self.from_ms, other.from_ms) if one is not None]
        to_times = [one for one in (self.to_ms, other.to_ms) if one is not None]
        return Bounds(
            partitions=frozenset.intersection(*sets) if sets else None,
            start=max(self.start, other.start),
            end=min(self.end, other.end),
            from_ms=max(from_times, default=None),
            to_ms=min(to_times, default=None),
        )

    def either(self, other: "Bounds") -> "Bounds":
        """Return bounds that hold all that is in one or the other."""
        has_sets = self.partitions is not None and other.partitions is not None
        return Bounds(
            partitions=(self.partitions or frozenset()) | (other.partitions or frozenset()) if has_sets else None,
            start=min(self.start, other.start),
            end=max(self.end, other.end),
            from_ms=None if self.from_ms is None or other.from_ms is None else min(self.from_ms, other.from_ms),
            to_ms=None if self.to_ms is None or other.to_ms is None else max(self.to_ms, other.to_ms),
        )


EVERYTHING = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """One scan of a topic in DuckDB's plan. ``topic`` None: it reads no column, so that it may be of any."""

    topic: int | None
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class TopicRelations:
    """The topics of a log service, by the names under which SQL asks for them; those in ``schemas`` have a column per field, too."""

    log: LogClient
    schemas: Mapping[str, types.StructType] = field(default_factory=dict)

    def prepare(self, connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, list[OffsetRange]]:
        """Make the topics that ``sql`` names relations of ``connection``, for this one question; returns what is going to be read.

        :raises duckdb.Error: the question cannot be understood. :raises LogServiceError: the log service does not respond.
        """
        wanted = {name for name in topic_names(sql) if self.log.describe_topic(name) is not None}
        if not wanted:
            return {}
        topics = sorted(wanted)
        connection.execute(f"CREATE SCHEMA {SCHEMA_NAME}")
        for number, name in enumerate(topics):
            connection.register(base_name(number), pads.dataset(base_schema(number).empty_table()))
            connection.execute(view_sql(number, name, self.schemas.get(name)))
        scans = explained_scans(connection, sql)
        read = {}
        for number, name in enumerate(topics):
            own = [scan for scan in scans if scan.topic in {number, None}]
            bounds = EVERYTHING if not own else own[0].bounds
            for scan in own[1:]:
                bounds = bounds.either(scan.bounds)
            read[name] = self.ranges(name, bounds) if own else []
            self._provide(connection, number, name, read[name], is_staged=len(own) > 1)
        again = explained_scans(connection, sql)
        for number, name in enumerate(topics):
            if sum(scan.topic in {number, None} for scan in again) > 1 and not is_table(connection, number):
                self._provide(connection, number, name, read[name], is_staged=True)
        return read

    def ranges(self, topic: str, bounds: Bounds) -> list[OffsetRange]:
        """Return the offsets of a topic that lie within ``bounds`` now."""
        starts = {} if bounds.from_ms is None else self.log.offsets_at(topic, bounds.from_ms)
        is_ordered = bounds.to_ms is not None and self.log.topic_configs(topic).get("message.timestamp.type") == LOG_APPEND_TIME
        ends = self.log.offsets_at(topic, bounds.to_ms) if is_ordered and bounds.to_ms is not None else {}
        found = []
        for one in self.log.partition_offsets(topic):
            if bounds.partitions is not None and one.partition not in bounds.partitions:
                continue
            start = max(one.log_start_offset, bounds.start)
            if bounds.from_ms is not None:
                first = starts.get(one.partition)
                start = one.last_stable_offset if first is None else max(start, first)
            end = min(one.last_stable_offset, bounds.end)
            after = ends.get(one.partition)
            end = end if after is None else min(end, after)
            if start < end:
                found.append(OffsetRange(partition=one.partition, start=start, end=end))
        return found

    def _provide(
        self, connection: duckdb.DuckDBPyConnection, number: int, topic: str, ranges: Sequence[OffsetRange], *, is_staged: bool
    ) -> None:
        """Put the records of ``ranges`` in the place of the stand-in."""
        schema = base_schema(number)
        reader = pa.RecordBatchReader.from_batches(schema, self._batches(schema, topic, ranges))
        connection.unregister(base_name(number))
        if not is_staged:
            connection.register(base_name(number), reader)
            return
        connection.register("staging", reader)
        connection.execute(f"CREATE TEMP TABLE {base_name(number)} AS SELECT * FROM staging")  # noqa: S608 - a name of ours
        connection.unregister("staging")

    def _batches(self, schema: pa.Schema, topic: str, ranges: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
        read = self.log.range_reader()
        for one in ranges:
            for batch in read(topic, one):
                yield columns_of(batch, one.partition, schema)


def is_table(connection: duckdb.DuckDBPyConnection, number: int) -> bool:
    """Whether a topic was read into DuckDB: a stream can be scanned only once."""
    found = connection.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = ?", [base_name(number)]).fetchone()
    return found is not None and bool(found[0])


def topic_names(sql: str) -> set[str]:
    """Return the topics that a question may name: what follows ``topics.``, wherever it stands.

    >>> sorted(topic_names('SELECT * FROM topics.orders JOIN Topics . "a-b" USING (id)'))
    ['a-b', 'orders']
    """
    return {quoted.replace('""', '"') if quoted else plain for quoted, plain in NAMED.findall(sql)}


def base_name(number: int) -> str:
    """Return the relation below the view of a topic."""
    return f"__topic_{number}"


def base_schema(number: int) -> pa.Schema:
    """Return its columns. They carry the topic's number, because DuckDB's plan tells the columns of a scan and not its table."""
    return pa.schema([pa.field(f"{number}:{name}", kind) for name, kind in zip(COLUMNS, TYPES, strict=True)])


def view_sql(number: int, topic: str, schema: types.StructType | None) -> str:
    """Return the statement that makes the relation of a topic. A field whose value has another type is null."""
    document = f"CASE WHEN json_valid({quoted_name(f'{number}:value')}) THEN {quoted_name(f'{number}:value')} END"
    columns = [f"{quoted_name(f'{number}:{name}')} AS _{name}" for name in COLUMNS]
    for one in schema or ():
        path = "$." + json.dumps(one.name)
        extracted = f"json_extract_string({document}, {quoted_text(path)})"
        kind = _sql_type(one.dataType)
        columns.append(
            f"{f'json_extract({document}, {quoted_text(path)})' if kind is None else f'TRY_CAST({extracted} AS {kind})'} "
            f"AS {quoted_name(one.name)}"
        )
    return f"CREATE VIEW {SCHEMA_NAME}.{quoted_name(topic)} AS SELECT {', '.join(columns)} FROM {base_name(number)}"  # noqa: S608 - quoted


def columns_of(batch: pa.RecordBatch, partition: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return records as the columns of a topic's relation; bytes that are no UTF-8 become replacement characters in texts."""
    size = batch.num_rows
    has_headers = "headers" in batch.schema.names
    columns = [
        pa.array([partition] * size, pa.int32()),
        batch["offset"],
        batch["timestamp"],
        _text(batch["key"]),
        _text(batch["value"]),
        batch["value"],
        batch["headers"] if has_headers else pa.nulls(size, TYPES[-1]),
    ]
    return pa.record_batch([column.cast(one.type) for column, one in zip(columns, schema, strict=True)], schema=schema)


def _text(data: pa.Array) -> pa.Array:
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if one is None else one.decode(errors="replace") for one in data.to_pylist()], pa.string())


def explained_scans(connection: duckdb.DuckDBPyConnection, sql: str) -> list[Scan]:
    """Return the scans of stand-ins in DuckDB's plan of a question."""
    rows = connection.execute(f"EXPLAIN (FORMAT json) {sql}").fetchall()
    found: list[Scan] = []
    waiting: list[Any] = [node for _, plan in rows for node in json.loads(plan)]
    while waiting:
        node = waiting.pop()
        waiting += node.get("children", [])
        told = node.get("extra_info") or {}
        if "ARROW_SCAN" in node.get("name", ""):
            filters, projections = _listed(told.get("Filters")), _listed(told.get("Projections"))
            numbers = {int(one) for text in (*filters, *projections) for one in re.findall(r'(?:^|")(\d+):', text)}
            bounds = EVERYTHING
            for text in filters:
                bounds = bounds.both(bounds_of(text))
            if numbers or not projections:
                found.append(Scan(topic=min(numbers) if len(numbers) == 1 else None, bounds=bounds if len(numbers) == 1 else EVERYTHING))
    return found


def _listed(told: Any) -> list[str]:
    return [told] if isinstance(told, str) else list(told or [])


def bounds_of(text: str) -> Bounds:
    """Return the bounds that a filter of DuckDB's implies, in the text that its plan shows; what is not understood bounds nothing.

    >>> bounds_of('(("0:offset" >= 10) AND ("0:offset" < 20))')
    Bounds(partitions=None, start=10, end=20, from_ms=None, to_ms=None)
    """
    inner = _unwrapped(text.strip())
    for word, joined in ((" OR ", Bounds.either), (" AND ", Bounds.both)):
        parts = _split(inner, word)
        if len(parts) > 1:
            found = bounds_of(parts[0])
            for part in parts[1:]:
                found = joined(found, bounds_of(part))
            return found
    return _comparison(inner)


COMPARISON = re.compile(r"\"\d+:(partition|offset|timestamp)\" (=|<|<=|>|>=) (\d+|TIMESTAMPTZ '[^']+')")
LISTED = re.compile(r'"\d+:(partition|offset)" IN \((\d+(?:, \d+)*)\)')


def _comparison(text: str) -> Bounds:
    listed = LISTED.fullmatch(text)
    if listed:
        numbers = [int(one) for one in listed[2].split(", ")]
        return (
            replace(EVERYTHING, partitions=frozenset(numbers))
            if listed[1] == "partition"
            else Bounds(start=min(numbers), end=max(numbers) + 1)
        )
    found = COMPARISON.fullmatch(text)
    if not found:
        return EVERYTHING
    column, operator, literal = found.groups()
    if column == "timestamp":
        return _of_time(operator, literal)
    number = int(literal)
    if column == "partition":
        return Bounds(partitions=frozenset([number])) if operator == "=" else EVERYTHING
    return {
        "=": Bounds(start=number, end=number + 1),
        "<": Bounds(end=number),
        "<=": Bounds(end=number + 1),
        ">": Bounds(start=number + 1),
        ">=": Bounds(start=number),
    }[operator]


def _of_time(operator: str, literal: str) -> Bounds:
    if not literal.startswith("TIMESTAMPTZ"):
        return EVERYTHING
    try:
        moment = datetime.fromisoformat(literal.partition("'")[2].rstrip("'"))
    except ValueError:
        return EVERYTHING
    if moment.tzinfo is None:
        return EVERYTHING
    at_ms = int(moment.timestamp() * 1000)
    lower, upper = Bounds(from_ms=at_ms), Bounds(to_ms=at_ms + 1)
    return {"=": lower.both(upper), "<": upper, "<=": upper, ">": lower, ">=": lower}[operator]


def _unwrapped(text: str) -> str:
    """Return ``text`` without the parentheses around the whole of it."""
    while text.startswith("(") and _closing(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _closing(text: str) -> int:
    return next((position for position, depth in _depths(text) if depth == 0), -1)


def _split(text: str, word: str) -> list[str]:
    """Split at ``word`` where it stands in no parentheses and no quotes."""
    cuts = [position for position, depth in _depths(text) if depth == 0 and text.startswith(word, position)]
    bounds = [0, *(cut + len(word) for cut in cuts)]
    return [text[start:end] for start, end in zip(bounds, [*cuts, len(text)], strict=True)]


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """Yield each position outside of quotes with the depth of parentheses behind it."""
    depth, quote = 0, ""
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
            continue
        if letter in "'\"":
            quote = letter
            continue
        depth += (letter == "(") - (letter == ")")
        yield position, depth


def _sql_type(kind: types.DataType) -> str | None:
    if isinstance(kind, types.DecimalType):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return SQL_TYPES.get(type(kind))
