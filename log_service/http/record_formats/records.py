"""Decodes a record's key and value, and decides whether it satisfies a filter."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from log_service.client import ConsumerRecord, LogRecord
from log_service.http.record_formats.decoding import LONG_BYTES, NULL, Decoded, RecordDecoder
from log_service.http.record_formats.filters import Comparison, Filterable, matches
from log_service.records.record import RecordHeader

MANY_HEADERS: Final = 100
"""Work on more headers is done in another thread. A record of 1 MiB may have 500,000 empty ones."""
HEADER_SIZE: Final = 10
"""The approximate characters of a header as JSON, besides its name and its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecord:
    """A record with its key and its value as JSON values."""

    record: ConsumerRecord
    key: Decoded
    value: Decoded
    header_size: int = 0

    @property
    def size(self) -> int:
        """The approximate size of the decoded record as JSON, in bytes."""
        return self.key.size + self.value.size + self.header_size

    @property
    def is_long(self) -> bool:
        """Whether the record is so long that it must be processed in another thread."""
        return has_many_headers(self.record) or self.size > LONG_BYTES


def has_many_headers(record: ConsumerRecord) -> bool:
    """Return whether a record has so many headers that it counts as long."""
    return len(record.headers) > MANY_HEADERS


def size_of_headers(headers: Sequence[RecordHeader]) -> int:
    """Return the approximate size of headers as JSON, in bytes."""
    return sum(HEADER_SIZE + len(name) + len(content or b"") for name, content in headers)


async def decoded(decoder: RecordDecoder, record: ConsumerRecord, wanted: str) -> DecodedRecord:
    """Decode the key and the value of a record. A control record gets null for both."""
    if isinstance(record, LogRecord) and record.is_control:
        return DecodedRecord(record=record, key=NULL, value=NULL)
    key = await decoder.decode(record.key, topic=record.topic, is_key=True, wanted=wanted)
    value = await decoder.decode(record.value, topic=record.topic, is_key=False, wanted=wanted)
    measure = partial(size_of_headers, record.headers)
    is_long = has_many_headers(record)
    size = await trio.to_thread.run_sync(measure) if is_long else measure()
    return DecodedRecord(record=record, key=key, value=value, header_size=size)


async def is_wanted(comparisons: Sequence[Comparison], found: DecodedRecord) -> bool:
    """Return whether a record satisfies all comparisons of a filter."""
    if not comparisons:
        return True

    def look() -> bool:
        return matches(comparisons, filterable(found.record, found.key, found.value))

    return await trio.to_thread.run_sync(look) if found.is_long else look()


def filterable(record: ConsumerRecord, key: Decoded, value: Decoded) -> Filterable:
    """Return the parts of a record that a filter can compare."""
    return Filterable(
        partition=record.partition,
        offset=record.offset,
        key=key.value,
        value=value.value,
        headers={name: header_text(content) for name, content in record.headers},
        is_long=key.is_long or value.is_long,
    )


def header_text(content: bytes | None) -> str:
    """Return a header's value as text. Bytes that are not text are shown as hexadecimal."""
    if content is None:
        return "(null)"
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"0x{content.hex()}"
