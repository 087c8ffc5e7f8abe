"""Records and the end of a stream as text: lines of JSON, or server-sent events.

An event's id is the position after its record, in all partitions. A client that sends the id back
as ``Last-Event-ID`` gets each following record once. Only the data of an event is JSON, and JSON
has no line break, so no record can forge an event.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import trio

from log_service.http.record_formats.decoding import Decoded
from log_service.http.record_formats.json_text import json_text
from log_service.http.record_formats.records import DecodedRecord
from log_service.http.rest_proxy.v1.positions import Gap, pairs_text
from log_service.records.record import RecordHeader

EVENTS_START: Final = b"retry: 1000\n\n"
"""Asks a browser to come back after a second, when the stream breaks off."""


async def record_line(found: DecodedRecord, **more: Any) -> bytes:
    """Return a record as JSON, with the fields ``more``. A long record is converted in a thread."""

    def write() -> bytes:
        text = json_text({**shown_record(found), **more}, is_long=found.is_long)
        return text.encode("utf-8", "replace")

    return await trio.to_thread.run_sync(write) if found.is_long else write()


def shown_record(found: DecodedRecord) -> dict[str, Any]:
    """Return a record as a JSON object."""
    record = found.record
    shown = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": found.key.value,
        "value": found.value.value,
        "key_type": found.key.kind,
        "value_type": found.value.kind,
        "headers": shown_headers(record.headers),
    }
    for name, part in (("key", found.key), ("value", found.value)):
        shown.update(_schema_fields(name, part))
    return shown


def _schema_fields(name: str, part: Decoded) -> dict[str, Any]:
    fields = {f"{name}_schema_id": part.schema_id, f"{name}_error": part.error}
    return {field: value for field, value in fields.items() if value not in {None, ""}}


def shown_headers(headers: Sequence[RecordHeader]) -> list[tuple[str, Any]]:
    """Return headers as pairs of name and value.

    A value that is not text is shown as ``{"base64": ...}``.
    """
    return [(name, _shown_header(value)) for name, value in headers]


def _shown_header(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


class NdjsonLines:
    """Writes a stream as lines of JSON. The last line is an object with the field ``end``."""

    start = b""

    def record(self, line: bytes, positions: Mapping[int, int]) -> bytes:
        """Return a record's JSON as a line."""
        del positions
        return line + b"\n"

    def note(self, name: str, content: Mapping[str, Any]) -> bytes:
        """Return a line that is not a record. ``name`` is the name of its only field."""
        return json_text({name: content}, is_long=False).encode() + b"\n"

    def heartbeat(self, positions: Mapping[int, int]) -> bytes:
        """Return an empty line, which readers of NDJSON skip."""
        del positions
        return b"\n"


class EventLines:
    """Writes a stream as server-sent events. Records have the default event type ``message``."""

    start = EVENTS_START

    def record(self, line: bytes, positions: Mapping[int, int]) -> bytes:
        """Return the event of a record."""
        return b"id: %b\ndata: %b\n\n" % (pairs_text(positions).encode(), line)

    def note(self, name: str, content: Mapping[str, Any]) -> bytes:
        """Return an event that is not a record. ``name`` is its type."""
        text = json_text(dict(content), is_long=False).encode()
        return b"event: %b\ndata: %b\n\n" % (name.encode(), text)

    def heartbeat(self, positions: Mapping[int, int]) -> bytes:
        """Return a comment, and an id with the position after records that the filter rejected."""
        return b": alive\nid: %b\n\n" % pairs_text(positions).encode()


Lines = NdjsonLines | EventLines


def gap_note(lines: Lines, gap: Gap) -> bytes:
    """Return the text that reports a gap: offsets that the log does not have."""
    return lines.note("gap", asdict(gap))


def end_note(lines: Lines, reason: str, message: str, positions: Mapping[int, int]) -> bytes:
    """Return the last text of a stream. Its ``next`` is the position to continue from."""
    content = {"reason": reason, "message": message, "next": pairs_text(positions)}
    return lines.note("end", content)
