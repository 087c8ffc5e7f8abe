"""Makes topics relations of SQL: ``topics.orders`` reads the needed parts of archive and log.

First DuckDB explains the query over empty stand-ins of the topics. The filters that it pushes down
to the scan contain the partitions, offsets and times, and the plan contains the columns.
``topic_reads`` finds these in the archive and in the log. An unknown filter narrows nothing, and
DuckDB filters all records once more, so the answer never depends on this. A topic that is scanned
once is streamed. One that is scanned several times is read once into DuckDB. Each topic is read up
to its last stable offset at the time of the query.
"""

import json
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyspark.sql import types

from orchestration.formats.columns import ValueFormat, arrow_schema, in_places
from orchestration.formats.debezium import DebeziumJson
from orchestration.formats.json_values import has_variant, json_format
from orchestration.formats.registered import RegistrySchema, read_records
from orchestration.lake.quoting import quoted_name, quoted_text
from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import UNREADABLE, LogClient
from orchestration.retained.topic_reads import (
    EVERYTHING,
    Bounds,
    TopicRead,
    TopicSource,
    find_source,
)
from orchestration.values.times import milliseconds_of

SCHEMA_NAME = "topics"
NAMED = re.compile(r'\btopics\s*\.\s*(?:"((?:[^"]|"")+)"|([A-Za-z_]\w*))', re.IGNORECASE)
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
FIELD = "field_"
"""The prefix of columns for fields that are read in a format, before they get their names."""
READ_FOR: Mapping[str, str] = {"bytes": "value"}
"""The column of a record from which a column is made, if their names differ."""


class IncompleteAnswerWarning(UserWarning):
    """An answer lacks records that were removed or cannot be read.

    The text names them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """One scan of a topic in DuckDB's plan.

    ``topic`` is the number of the topic in the query. It is None if the plan does not tell it, for
    example because the scan reads no column. Then the scan may be of any topic.
    """

    topic: int | None
    bounds: Bounds
    columns: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The number of scans of one topic, the bounds of all of them, and the columns they name."""

    scans: int
    bounds: Bounds
    columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class TopicRelations:
    """The topics of a log service, by their names in SQL.

    Topics in ``schemas`` have a column per field, too. Values of the topics in ``formats`` have
    these formats. Values of the other topics in ``schemas`` are JSON, and a field that does not fit
    is null. A VARIANT comes as JSON, null if DuckDB cannot read the document.

    With a ``lake`` the archive of a topic is part of it. Without a ``log`` only the archives are
    read.
    """

    log: LogClient | None
    schemas: Mapping[str, types.StructType] = field(default_factory=dict)
    lake: Lake | None = None
    formats: Mapping[str, ValueFormat] = field(default_factory=dict)

    def prepare(self, connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, TopicRead]:
        """Make the topics in ``sql`` relations of ``connection``, and return the planned reads.

        The relations can be used by this one query only. Warns with ``IncompleteAnswerWarning`` if
        neither archive nor log holds records that the query needs, or if a topic is deleted. The
        same warning comes while the query runs, if a batch turns out to be unreadable.

        :raises duckdb.Error: the query cannot be understood.
        :raises LogServiceError: the log service does not respond.
        """
        found = [find_source(name, self.log, self.lake) for name in sorted(topic_names(sql))]
        sources = [source for source in found if source is not None]
        if not sources:
            return {}
        connection.execute(f"CREATE SCHEMA {SCHEMA_NAME}")
        formats = [self._format(source.topic) for source in sources]
        for number, (source, value_format) in enumerate(zip(sources, formats, strict=True)):
            connection.register(
                base_name(number), pads.dataset(base_schema(number, value_format).empty_table())
            )
            connection.execute(
                view_sql(number, source.topic, self.schemas.get(source.topic), value_format)
            )
        needs = _needs(explained_scans(connection, sql), len(sources))
        reads = [
            source.read(need.bounds) if need.scans else TopicRead()
            for source, need in zip(sources, needs, strict=True)
        ]
        for number, need in enumerate(needs):
            _provide(
                connection,
                number,
                sources[number],
                reads[number],
                need,
                value_format=formats[number],
            )
        for number, need in enumerate(_needs(explained_scans(connection, sql), len(sources))):
            is_settled = is_table(connection, number) or (
                need.scans <= 1 and need.columns <= needs[number].columns
            )
            if not is_settled:  # the plan over a stream differs, and it is the plan that will run
                _provide(
                    connection,
                    number,
                    sources[number],
                    reads[number],
                    need,
                    value_format=formats[number],
                )
        for source, read in zip(sources, reads, strict=True):
            _warn(source, read, is_asked_alone=self.log is None)
        return {source.topic: read for source, read in zip(sources, reads, strict=True)}

    def _format(self, topic: str) -> ValueFormat | None:
        """Return the format in which a topic's fields are read.

        Fields of plain JSON that are or contain a VARIANT are not in it. The view reads these.
        """
        found = self.formats.get(topic)
        if found is not None:
            return found.leniently() if isinstance(found, DebeziumJson) else found
        fields = [
            field for field in self.schemas.get(topic) or () if not has_variant(field.dataType)
        ]
        return json_format(types.StructType(fields), is_lenient=True)

    def missing(self, sql: str) -> list[str]:
        """Return the topics that ``sql`` may name and that do not exist.

        :raises LogServiceError: the log service does not respond.
        """
        return sorted(
            name for name in topic_names(sql) if find_source(name, self.log, self.lake) is None
        )


def _needs(scans: Sequence[Scan], count: int) -> list[Need]:
    """Return, for each of ``count`` topics, the number, bounds and columns of its scans."""
    found = []
    for number in range(count):
        own = [scan for scan in scans if scan.topic in {number, None}]
        bounds = reduce(Bounds.either, (scan.bounds for scan in own)) if own else EVERYTHING
        columns = frozenset[str]().union(*(scan.columns for scan in own))
        found.append(Need(scans=len(own), bounds=bounds, columns=columns))
    return found


def _provide(
    connection: duckdb.DuckDBPyConnection,
    number: int,
    source: TopicSource,
    read: TopicRead,
    need: Need,
    *,
    value_format: ValueFormat | None,
) -> None:
    """Replace a topic's stand-in by the records of ``read``.

    They are a stream, or a table if they are scanned several times.
    """
    schema, is_staged = base_schema(number, value_format), need.scans > 1
    columns = frozenset(COLUMNS) if is_staged else need.columns
    reader = pa.RecordBatchReader.from_batches(
        schema, _batches(schema, source, read, columns, value_format)
    )
    connection.unregister(base_name(number))
    if not is_staged:
        connection.register(base_name(number), reader)
        return
    connection.register("staging", reader)
    connection.execute(f"CREATE TEMP TABLE {base_name(number)} AS SELECT * FROM staging")  # noqa: S608 - a name of ours
    connection.unregister("staging")


def _batches(
    schema: pa.Schema,
    source: TopicSource,
    read: TopicRead,
    columns: Collection[str],
    value_format: ValueFormat | None,
) -> Iterator[pa.RecordBatch]:
    wanted = {"value" if name.startswith(FIELD) else READ_FOR.get(name, name) for name in columns}
    is_read = value_format is not None and (
        any(name.startswith(FIELD) for name in columns) or {*columns} >= {*COLUMNS}
    )
    if is_read and isinstance(value_format, RegistrySchema):
        wanted.add("headers")
    for partition, batch in source.batches(read, wanted):
        yield columns_of(
            _readable(batch, f"{source.topic}-{partition}"),
            partition,
            schema,
            columns,
            value_format if is_read else None,
        )


def _readable(batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
    """Return a batch without the records that cannot be read, and warn about these."""
    if UNREADABLE not in batch.schema.names:
        return batch
    for reason in pc.unique(batch[UNREADABLE].drop_null()).to_pylist():
        warnings.warn(
            f"{where}: {reason}. The answer lacks its records",
            IncompleteAnswerWarning,
            stacklevel=2,
        )
    return batch.filter(batch[UNREADABLE].is_null())


def _warn(source: TopicSource, read: TopicRead, *, is_asked_alone: bool) -> None:
    """Warn about the records that the answer lacks.

    With ``is_asked_alone`` the caller wants archives only, so a deleted topic is not reported.
    """
    warned = []
    if read.gaps:
        warned.append(
            f"records of the topic {source.topic} were removed from the log, or could not be read,"
            " before they were archived: offsets " + " ".join(map(str, read.gaps))
        )
    if source.log is None and not is_asked_alone:
        warned.append(
            f"there is no topic {source.topic} any more: the answer has what is archived of it"
        )
    for sentence in warned:
        warnings.warn(sentence, IncompleteAnswerWarning, stacklevel=2)


def is_table(connection: duckdb.DuckDBPyConnection, number: int) -> bool:
    """Return whether a topic was copied into a table of DuckDB, to be scanned several times."""
    found = connection.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE table_name = ?", [base_name(number)]
    ).fetchall()
    return bool(found[0][0])


def topic_names(sql: str) -> set[str]:
    """Return the topics that a query may name: each name after ``topics.``, anywhere in the text.

    >>> sorted(topic_names('SELECT * FROM topics.orders JOIN Topics . "a-b" USING (id)'))
    ['a-b', 'orders']
    """
    return {quoted.replace('""', '"') if quoted else plain for quoted, plain in NAMED.findall(sql)}


def base_name(number: int) -> str:
    """Return the name of the relation on which a topic's view is defined."""
    return f"__topic_{number}"


def base_schema(number: int, value_format: ValueFormat | None = None) -> pa.Schema:
    """Return the columns of the relation on which a topic's view is defined.

    Their names contain the topic's number, because DuckDB's plan contains the columns of a scan and
    not its table.
    """
    own = [pa.field(f"{number}:{name}", kind) for name, kind in zip(COLUMNS, TYPES, strict=True)]
    read = () if value_format is None else arrow_schema(value_format.fields)
    return pa.schema(
        [
            *own,
            *(
                pa.field(f"{number}:{FIELD}{position}", one.type)
                for position, one in enumerate(read)
            ),
        ]
    )


def view_sql(
    number: int, topic: str, schema: types.StructType | None, value_format: ValueFormat | None
) -> str:
    """Return the statement that makes the view of a topic.

    Fields that ``value_format`` reads are already columns of the relation on which it is defined.
    """
    document = (
        f"CASE WHEN json_valid({quoted_name(f'{number}:value')}) THEN"
        f" {quoted_name(f'{number}:value')} END"
    )
    places = (
        {}
        if value_format is None
        else {name: at for at, name in enumerate(value_format.fields.names)}
    )
    columns = [f"{quoted_name(f'{number}:{name}')} AS _{name}" for name in COLUMNS]
    for one in schema or ():
        if one.name in places:
            source = quoted_name(f"{number}:{FIELD}{places[one.name]}")
        else:
            source = f"json_extract({document}, {quoted_text('$.' + json.dumps(one.name))})"
        columns.append(f"{source} AS {quoted_name(one.name)}")
    return f"CREATE VIEW {SCHEMA_NAME}.{quoted_name(topic)} AS SELECT {', '.join(columns)} FROM {base_name(number)}"  # noqa: S608 - quoted


def columns_of(
    batch: pa.RecordBatch,
    partition: int,
    schema: pa.Schema,
    wanted: Collection[str] = COLUMNS,
    value_format: ValueFormat | None = None,
) -> pa.RecordBatch:
    """Return records as the columns of a topic's relation.

    Columns that are not ``wanted`` are null.

    If ``value_format`` is None, all fields are null. If a value does not fit the format, its fields
    are null. Bytes that are not UTF-8 become replacement characters in texts.
    """
    size = batch.num_rows
    made = {
        "partition": lambda: pa.repeat(pa.scalar(partition, pa.int32()), size),
        "offset": lambda: batch["offset"],
        "timestamp": lambda: batch["timestamp"],
        "key": lambda: _text(batch["key"]),
        "value": lambda: _text(batch["value"]),
        "bytes": lambda: batch["value"],
        "headers": lambda: (
            batch["headers"] if "headers" in batch.schema.names else pa.nulls(size, TYPES[-1])
        ),
    }
    columns = [
        made[name]() if name in wanted else pa.nulls(size, one.type)
        for name, one in zip(COLUMNS, schema, strict=False)
    ]
    if value_format is None:
        columns += [pa.nulls(size, one.type) for one in list(schema)[len(COLUMNS) :]]
    else:
        headers = batch["headers"] if "headers" in batch.schema.names else None
        values = batch["value"].cast(pa.binary())
        columns += in_places(*read_records(value_format, values, headers)).flatten()
    return pa.record_batch(
        [column.cast(one.type) for column, one in zip(columns, schema, strict=True)], schema=schema
    )


def _text(data: pa.Array) -> pa.Array:
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if one is None else one.decode(errors="replace") for one in data.to_pylist()],
            pa.string(),
        )


def explained_scans(connection: duckdb.DuckDBPyConnection, sql: str) -> list[Scan]:
    """Return the scans of topics' stand-ins in DuckDB's plan of a query."""
    rows = connection.execute(
        f"EXPLAIN (FORMAT json)\n{sql}"
    ).fetchall()  # errors show lines of the question
    found: list[Scan] = []
    waiting: list[Any] = [node for _, plan in rows for node in json.loads(plan)]
    while waiting:
        node = waiting.pop()
        waiting += node.get("children", [])
        details = node.get("extra_info") or {}
        if "ARROW_SCAN" in node.get("name", ""):
            filters, projections = (
                _listed(details.get("Filters")),
                _listed(details.get("Projections")),
            )
            named = [
                one
                for text in (*filters, *projections)
                for one in re.findall(r'(?:^|")(\d+):(\w+)', text)
            ]
            numbers = {int(number) for number, _ in named}
            bounds = EVERYTHING
            for text in filters:
                bounds = bounds.both(bounds_of(text))
            if numbers or not projections:
                is_known = len(numbers) == 1
                columns = (
                    frozenset(name for _, name in named)
                    if is_known or not projections
                    else frozenset(COLUMNS)
                )
                found.append(
                    Scan(
                        topic=min(numbers) if is_known else None,
                        bounds=bounds if is_known else EVERYTHING,
                        columns=columns,
                    )
                )
    return found


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def bounds_of(text: str) -> Bounds:
    """Return the bounds that a filter in DuckDB's plan implies. An unknown filter bounds nothing.

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


COMPARISON = re.compile(
    r"\"\d+:(partition|offset|timestamp)\" (=|<|<=|>|>=) (\d+|TIMESTAMPTZ '[^']+')"
)
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
    at_ms = milliseconds_of(moment)
    lower, upper = Bounds(from_ms=at_ms), Bounds(to_ms=at_ms + 1)
    return {"=": lower.both(upper), "<": upper, "<=": upper, ">": lower, ">=": lower}[operator]


def _unwrapped(text: str) -> str:
    """Return ``text`` without parentheses around the whole text."""
    while text.startswith("(") and _closing(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _closing(text: str) -> int:
    return next((position for position, depth in _depths(text) if depth == 0), -1)


def _split(text: str, word: str) -> list[str]:
    """Split at ``word`` wherever it is outside of parentheses and quotes."""
    cuts = [
        position
        for position, depth in _depths(text)
        if depth == 0 and text.startswith(word, position)
    ]
    bounds = [0, *(cut + len(word) for cut in cuts)]
    return [text[start:end] for start, end in zip(bounds, [*cuts, len(text)], strict=True)]


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """Yield each position outside of quotes with the depth of parentheses after it."""
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
