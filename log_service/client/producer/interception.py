"""Defines records before serialization, and the functions that see or change them.

Serializers turn keys and values into bytes. Without a serializer they are used unchanged. This
module knows nothing of partitions and batches.

Invariant: ``send`` raises every error of this step, before any part of the record is stored.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from log_service.records.record import RecordHeader

Serializer = Callable[[Any], bytes | str | None]
"""Turns a key or a value into bytes, or into text, which becomes UTF-8.

It is not called with None. None is stored as null.
"""


class ProducerRecord(NamedTuple):
    """A record as the application sends it."""

    topic: str
    value: Any = None
    key: Any = None
    headers: tuple[RecordHeader, ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


ProducerInterceptor = Callable[[ProducerRecord], ProducerRecord]
"""Receives each record before serialization, and returns the same or another record.

``record._replace(...)`` makes a changed record. ``send`` raises its exceptions.
"""


def to_bytes(content: Any) -> bytes | None:
    """Return bytes as they are and text as UTF-8.

    Raises:
        TypeError: the content has another type. Give the producer a serializer for it.
    """
    if content is None or type(content) is bytes:
        return content
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise TypeError(
        f"a record is made of bytes or str, not {type(content).__name__}: give the producer a"
        " serializer"
    )


def serializing(serializer: Serializer | None) -> Callable[[Any], bytes | None]:
    """Return a function that turns contents into bytes, and null into null.

    Raises:
        TypeError: the returned function raises it, as ``to_bytes``.
        Exception: the returned function raises the exceptions of the serializer.
    """
    if serializer is None:
        return to_bytes

    def serialize(content: Any) -> bytes | None:
        return None if content is None else to_bytes(serializer(content))

    return serialize


def checked_headers(headers: Iterable[RecordHeader]) -> tuple[RecordHeader, ...]:
    """Return headers as a tuple.

    Raises:
        TypeError: a name is not text, or a value is neither bytes nor None.
    """
    try:
        pairs: tuple[tuple[Any, Any], ...] = tuple((name, content) for name, content in headers)
    except (TypeError, ValueError):
        raise TypeError(
            f"headers are pairs of a name and bytes, such as [('name', b'...')], not {headers!r}"
        ) from None
    for name, content in pairs:
        if not isinstance(name, str) or not isinstance(content, bytes | None):
            text = (
                f"a header is a name (str) and bytes or None, not {type(name).__name__} and"
                f" {type(content).__name__}"
            )
            raise TypeError(text)
    return pairs
