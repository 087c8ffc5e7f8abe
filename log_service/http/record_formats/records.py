"""A record with its decoded key and value, and whether a filter wants it."""

from collections.abc import Sequence
from dataclasses import dataclass

import trio

from log_service.client import ConsumerRecord, LogRecord
from log_service.http.record_formats.decoding import LONG_BYTES, NULL, Decoded, RecordDecoder
from log_service.http.record_formats.filters import Comparison, Filterable, matches


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecord:
    """A record with its key and its value as JSON values."""

    record: ConsumerRecord
    key: Decoded
    value: Decoded

    @property
    def size(self) -> int:
        """About the bytes of the record in memory."""
        headers = sum(len(name) + len(content or b"") for name, content in self.record.headers)
        return self.key.size + self.value.size + headers

    @property
    def is_long(self) -> bool:
        """Whether work on the record belongs into another thread."""
        return self.size > LONG_BYTES


async def decoded(decoder: RecordDecoder, record: ConsumerRecord, wanted: str) -> DecodedRecord:
    """Return a record with its key and its value decoded. A control record has none to decode."""
    if isinstance(record, LogRecord) and record.is_control:
        return DecodedRecord(record=record, key=NULL, value=NULL)
    key = await decoder.decode(record.key, topic=record.topic, is_key=True, wanted=wanted)
    value = await decoder.decode(record.value, topic=record.topic, is_key=False, wanted=wanted)
    return DecodedRecord(record=record, key=key, value=value)


async def is_wanted(comparisons: Sequence[Comparison], found: DecodedRecord) -> bool:
    """Return whether a record satisfies all comparisons of a filter."""
    if not comparisons:
        return True

    def look() -> bool:
        return matches(comparisons, filterable(found.record, found.key, found.value))

    return await trio.to_thread.run_sync(look) if found.is_long else look()


def filterable(record: ConsumerRecord, key: Decoded, value: Decoded) -> Filterable:
    """Return the parts of a record that a filter looks at."""
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
