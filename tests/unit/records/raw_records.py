"""Records written field by field, right or wrong."""

from collections.abc import Sequence

from log_service.records.varint import encode_varint


def _sized(content: bytes | None, length: int | None = None) -> bytes:
    announced = (-1 if content is None else len(content)) if length is None else length
    return encode_varint(announced) + (content or b"")


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
) -> bytes:
    """One record with its length in front; lengths and counts are those of the fields unless they are given."""
    body = bytes([attributes]) + encode_varint(timestamp_delta) + encode_varint(offset_delta)
    body += _sized(key, key_length) + _sized(value, value_length)
    body += encode_varint(len(headers) if header_count is None else header_count)
    body += b"".join(_sized(name) + _sized(content) for name, content in headers) + surplus
    return encode_varint(len(body)) + body
