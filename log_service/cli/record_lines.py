"""Prints records as lines, and reads lines as records.

A line is a value, a key and a value, JSON, or (printed only) a filled template. This module only
converts between records and bytes. Keys and values are printed unchanged. Null is printed as
``null``. Only the JSON output distinguishes it from the text ``null``.
"""

import base64
import json
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import click

from log_service.cli.times import as_time
from log_service.client.consumer.records import ConsumerRecord, LogRecord
from log_service.client.producer.intake import MAX_TIMESTAMP_MS
from log_service.client.share.records import ShareRecord

PLACEHOLDER = re.compile(r"\{(\w+)\}|\\(.)|%([tpokshTKS%])")
ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0"}
BASE64 = "base64"
NO_TIMESTAMP_MS = -1
"""The timestamp in the log of a record without a time.

A record read back with it gets its time from the producer.
"""


class LineError(ValueError):
    """The error for a line that is not a record. Its text is printed after "line N"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record that a line describes."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None


class JsonBytes(bytes):
    """A decoded key or value as JSON text, with the id or guid of its schema.

    In a line of JSON it is a JSON value, and not a string.
    """

    def __new__(cls, text: bytes, schema: int | str | None) -> Self:
        """Make the value of the text, and keep the schema as its attribute."""
        made = super().__new__(cls, text)
        made.schema = schema
        return made

    schema: int | str | None


Render = Callable[[ConsumerRecord | ShareRecord], bytes]
Parse = Callable[[bytes], NewRecord]

# Printing


def renderer(
    *, as_json: bool, template: str | None, key_separator: str | None, is_queue: bool = False
) -> Render:
    """Return a function that formats a record as bytes.

    With ``is_queue`` a template may use the fields of queues, such as the delivery count.

    Raises BadParameter if the template is wrong.
    """
    if as_json:
        return as_json_line
    if template is not None:
        return formatted(template, FIELDS | FIELDS_OF_QUEUES if is_queue else FIELDS)
    if key_separator is not None:
        separator = key_separator.encode()
        return lambda record: shown(record.key) + separator + shown(record.value) + b"\n"
    return lambda record: shown(record.value) + b"\n"


def with_markers(render: Render) -> Render:
    """Return a function that also formats control records, with a text as their value."""

    def rendered(record: ConsumerRecord | ShareRecord) -> bytes:
        marker = record.marker if isinstance(record, LogRecord) else None
        if marker is None or render is as_json_line:
            return render(record)
        text = " ".join(f"{name}={value}" for name, value in marker._asdict().items())
        return render(ConsumerRecord(*record[:5], None, text.encode(), *record[7:]))

    return rendered


def shown(value: bytes | None) -> bytes:
    """Return a key or value as it is printed."""
    return b"null" if value is None else value


def as_json_line(record: ConsumerRecord | ShareRecord) -> bytes:
    """Return a record as one line of JSON."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": record.timestamp_type,
    }
    marker = record.marker if isinstance(record, LogRecord) else None
    if marker is not None:  # without a value, so that no line of ``produce`` is made of it
        return json.dumps({**fields, "control": marker._asdict()}).encode() + b"\n"
    fields |= {
        "key": as_json_value(record.key),
        "value": as_json_value(record.value),
        "headers": [[name, as_json_value(value)] for name, value in record.headers],
    }
    if isinstance(record, LogRecord) and record.is_transactional:
        fields |= {"producer_id": record.producer_id, "producer_epoch": record.producer_epoch}
    fields |= {
        f"{name}_schema": part.schema
        for name, part in (("key", record.key), ("value", record.value))
        if isinstance(part, JsonBytes)
    }
    if isinstance(record, ShareRecord):
        fields["delivery_count"] = record.delivery_count
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def as_json_value(value: bytes | None) -> Any:
    """Return bytes as a JSON value: a string if they are UTF-8, else an object with base64.

    ``JsonBytes`` become the JSON value that they hold.
    """
    if value is None:
        return None
    if isinstance(value, JsonBytes):
        return json.loads(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {BASE64: base64.b64encode(value).decode()}


FIELDS: dict[str, Render] = {
    "topic": lambda record: record.topic.encode(),
    "partition": lambda record: b"%d" % record.partition,
    "offset": lambda record: b"%d" % record.offset,
    "timestamp": lambda record: as_time(record.timestamp_ms).encode(),
    "timestamp_ms": lambda record: b"%d" % record.timestamp_ms,
    "key": lambda record: shown(record.key),
    "value": lambda record: shown(record.value),
    "headers": lambda record: b",".join(
        name.encode() + b"=" + shown(value) for name, value in record.headers
    ),
}
FIELDS_OF_QUEUES: dict[str, Render] = {
    "delivery_count": lambda record: b"%d" % getattr(record, "delivery_count", 0)
}


LETTERS: Mapping[str, Render] = {
    "t": FIELDS["topic"],
    "p": FIELDS["partition"],
    "o": FIELDS["offset"],
    "k": FIELDS["key"],
    "s": FIELDS["value"],
    "h": FIELDS["headers"],
    "T": FIELDS["timestamp_ms"],
    "K": lambda record: b"%d" % (-1 if record.key is None else len(record.key)),
    "S": lambda record: b"%d" % (-1 if record.value is None else len(record.value)),
    "%": lambda _record: b"%",
}
"""kcat's letters for the same fields. K and S are lengths in bytes, -1 for null."""


def formatted(template: str, fields: Mapping[str, Render] = FIELDS) -> Render:
    """Return a function that fills a template's placeholders with ``fields``.

    Raises BadParameter for an unknown placeholder.
    """
    parts: list[bytes | Render] = []
    end = 0
    for found in PLACEHOLDER.finditer(template):
        parts.append(template[end : found.start()].encode())
        end = found.end()
        name, escaped, letter = found.groups()
        if letter is not None:
            parts.append(LETTERS[letter])
        elif name is None:
            parts.append(ESCAPES.get(escaped, escaped.encode()))
        elif name in fields:
            parts.append(fields[name])
        else:
            known = ", ".join(f"{{{field}}}" for field in fields)
            raise click.BadParameter(
                f"there is no {{{name}}}; there are {known}", param_hint="--format"
            )
    parts.append(template[end:].encode())
    return lambda record: b"".join(
        part if isinstance(part, bytes) else part(record) for part in parts
    )


# Reading


def parser(
    *,
    as_json: bool,
    key_separator: str | None,
    is_empty_null: bool,
    null_text: str | None = None,
    fixed_key: str | None = None,
    json_parts: Container[str] = (),
) -> Parse:
    """Return a function that turns a line into a record, or raises LineError.

    A key or value whose text is ``null_text`` is null. So is an empty value if ``is_empty_null``.
    Every record gets ``fixed_key`` if that is given. ``json_parts`` names which of key and value
    are encoded by a schema. A line of JSON may have any JSON value there.
    """
    if as_json:
        return partial(from_json_line, json_parts=json_parts)
    separator = key_separator.encode() if key_separator else None
    null = None if null_text is None else null_text.encode()
    key_of_all = None if fixed_key is None else fixed_key.encode()

    def part_of(text: bytes) -> bytes | None:
        return None if text == null else text

    def value_of(text: bytes) -> bytes | None:
        return None if is_empty_null and not text else part_of(text)

    def split(line: bytes) -> NewRecord:
        if separator is None:
            return NewRecord(key=key_of_all, value=value_of(line))
        key, found, value = line.partition(separator)
        if not found:
            raise LineError(f"has no {key_separator!r} between key and value")
        return NewRecord(key=part_of(key), value=value_of(value))

    return split


def from_json_line(line: bytes, json_parts: Container[str] = ()) -> NewRecord:
    """Return the record of a line that ``as_json_line`` made. Its topic and offset are ignored.

    The ``json_parts`` are returned as JSON text.

    Raises:
        LineError: the line is not such a record.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineError(f"is not JSON: {error}") from error
    if not isinstance(fields, dict) or "value" not in fields:
        raise LineError('is not an object with a "value"')
    timestamp_ms = fields.get("timestamp_ms")
    if timestamp_ms is not None and (
        isinstance(timestamp_ms, bool) or not isinstance(timestamp_ms, int)
    ):
        raise LineError("has a timestamp_ms that is not a whole number")
    if timestamp_ms == NO_TIMESTAMP_MS:
        timestamp_ms = None
    if timestamp_ms is not None and not 0 <= timestamp_ms < MAX_TIMESTAMP_MS:
        raise LineError(f"has a timestamp_ms that is not from 0 to {MAX_TIMESTAMP_MS - 1}")
    return NewRecord(
        **{part: _from_json_part(fields.get(part), part, json_parts) for part in ("key", "value")},
        headers=from_json_headers(fields.get("headers") or []),
        timestamp_ms=timestamp_ms,
    )


def _from_json_part(value: Any, part: str, json_parts: Container[str]) -> bytes | None:
    if part not in json_parts or value is None:
        return from_json_value(value, part)
    return json.dumps(value).encode()


def from_json_headers(headers: Any) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers in a list of pairs of name and value.

    Raises:
        LineError: the JSON is not a list of such pairs.
    """
    is_pairs = isinstance(headers, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in headers
    )
    if not is_pairs:
        raise LineError("has headers that are not pairs of name and value")
    for name, _value in headers:
        from_json_value(name, f"header name {name!r}")
    return tuple((name, from_json_value(value, f"header {name!r}")) for name, value in headers)


def from_json_value(value: Any, where: str) -> bytes | None:
    """Return the bytes of a string or of an object with base64, or None for null.

    Raises:
        LineError: the value has another type. ``where`` names it in the text.
    """
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise LineError(
                f"has a {where} with half of a surrogate pair, {value[error.start]!r}, which UTF-8"
                " cannot hold"
            ) from error
    if isinstance(value, dict) and list(value) == [BASE64] and isinstance(value[BASE64], str):
        try:
            return base64.b64decode(value[BASE64], validate=True)
        except ValueError as error:
            raise LineError(f"has a {where} that is not base64: {error}") from error
    raise LineError(f'has a {where} that is neither text, null nor {{"base64": ...}}')
