"""Keys and values as JSON, in the formats without schemas: ``binary`` (base64) and ``json``."""

import base64
import binascii
import json
from typing import Any

from log_service.http.rest_proxy.errors import RestError
from log_service.http.server.json_bodies import parse_json
from log_service.http.server.values import HttpError

BAD_REQUEST = 400


def binary_to_bytes(value: Any) -> bytes | None:
    """Return the bytes of a base64 text, None for null.

    Raises:
        RestError: 400, the value is no base64.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise RestError(BAD_REQUEST, "A key or value in the format binary has to be base64.")
    try:
        return base64.b64decode(value.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise RestError(BAD_REQUEST, f"A key or value is no base64: {error}") from error


def json_to_bytes(value: Any) -> bytes | None:
    """Return the JSON of a value, None for null.

    Raises:
        RestError: 400, a number is beyond those of JSON.
    """
    if value is None:
        return None
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise RestError(BAD_REQUEST, f"A key or value is no JSON: {error}") from error
    return text.encode()


def bytes_to_binary(data: bytes | None) -> str | None:
    """Return the base64 of bytes, None for null."""
    return None if data is None else base64.b64encode(data).decode()


def bytes_to_json(data: bytes | None) -> Any:
    """Return the JSON value in bytes, None for null.

    Raises:
        ValueError: the bytes are no JSON.
    """
    if data is None:
        return None
    try:
        return parse_json(data)
    except HttpError as error:
        raise ValueError(error.text) from error
