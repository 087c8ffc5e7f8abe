"""Writes rows as JSON that topics with a schema accept, and keys as bytes.

Decimals are text, because many readers would lose digits. Times and dates are in ISO 8601, and
times without a zone are UTC. Bytes are in base64. NaN and infinity are null. Sources are not known
here. Invariant: equal rows become equal bytes.
"""

import json
import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any


def json_value(row: Mapping[str, Any]) -> bytes:
    """Return a row as a JSON object in bytes, with the fields in the order of the row."""
    return json.dumps(
        {name: plain(value) for name, value in row.items()},
        separators=(",", ":"),
        ensure_ascii=False,
    ).encode()


def json_key(values: Sequence[Any]) -> bytes:
    """Return a record's key: the text of one value (bytes as they are), or a JSON array."""
    if len(values) > 1:
        return json.dumps(
            [plain(one) for one in values], separators=(",", ":"), ensure_ascii=False
        ).encode()
    if isinstance(values[0], bytes):
        return values[0]
    found = plain(values[0])
    return (found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)).encode()


def plain(value: Any) -> Any:
    """Convert a value to a type that JSON has."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        zoned = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return zoned.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(bytes(value)).decode()
    if isinstance(value, Mapping | list | tuple):
        return (
            {str(name): plain(one) for name, one in value.items()}
            if isinstance(value, Mapping)
            else [plain(one) for one in value]
        )
    return (
        value.isoformat()
        if isinstance(value, date)
        else format(value, "f")
        if isinstance(value, Decimal)
        else str(value)
    )
