"""Records written field by field, right or wrong."""

from collections.abc import Sequence

from log_service.records.varint import encode_varint

NULL = encode_varint(-1)
OVERLONG_NULLS = (b"\x81\x00", b"\x81\x80\x00", b"\x81\x80\x80\x80\x00")
"""-1 in more bytes than it needs, as Java's reader takes it too."""


def _sized(content: bytes | None, length: int | None = None, null: bytes = NULL) -> bytes:
    if content is None and length is None:
        return null
    return encode_varint(len(content or b"") if length is None else length) + (content or b"")


def raw_record(
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    *,
    attributes: int = 0,
    timestamp_delta: int = 0,
    key_length: int | None = None,
    value_length: int | None = None,
    headers: Sequence[tuple[bytes | None, bytes | None]] = (),
    header_count: int | None = None,
    surplus: bytes = b"",
    null: bytes = NULL,
) -> bytes:
    """Return one record with its length in front.

    Lengths and counts are those of the fields unless they are given. ``null`` is the length of a
    key or value that is null.
    """
    body = bytes([attributes]) + encode_varint(timestamp_delta) + encode_varint(offset_delta)
    body += _sized(key, key_length, null) + _sized(value, value_length, null)
    body += encode_varint(len(headers) if header_count is None else header_count)
    body += b"".join(_sized(name) + _sized(content) for name, content in headers) + surplus
    return encode_varint(len(body)) + body
