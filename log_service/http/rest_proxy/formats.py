"""Keys and values as JSON, in the formats without schemas: ``binary`` (base64), ``json``, text."""

import base64
import binascii
import json
from types import MappingProxyType
from typing import Any, Final

from log_service.client.schemas import subject_names
from log_service.http.rest_proxy.errors import RestError
from log_service.http.server.json_bodies import parse_json
from log_service.http.server.values import HttpError

BAD_REQUEST: Final = 400
FORMATS: Final = ("binary", "json", "avro", "protobuf", "jsonschema")
SCHEMA_TYPES: Final = MappingProxyType(
    {"avro": "AVRO", "protobuf": "PROTOBUF", "jsonschema": "JSON"}
)
"""The registry's name of each format with schemas."""
STRATEGIES: Final = MappingProxyType(
    {f"{name.replace('-', '_').upper()}_NAME": of for name, of in subject_names.STRATEGIES.items()}
)
"""The functions that make the name of a subject, by strategy, if a request does not name it."""
TOPIC_NAME: Final = "TOPIC_NAME"
FINITE: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def binary_to_bytes(value: Any) -> bytes | None:
    """Decode a base64 text, None for null.

    Raises:
        RestError: 400, the value is not base64.
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
    """Return a value as JSON in UTF-8, None for null.

    Raises:
        RestError: 400, JSON has no such number, for example NaN.
    """
    if value is None:
        return None
    try:
        text = FINITE.encode(value)
    except ValueError as error:
        raise RestError(BAD_REQUEST, f"A key or value is no JSON: {error}") from error
    return text.encode()


def string_to_bytes(value: Any) -> bytes | None:
    """Return a text in UTF-8, None for null.

    Raises:
        RestError: 400, the value is not text.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise RestError(BAD_REQUEST, "A key or value of the type STRING has to be text.")
    return value.encode()


def bytes_to_binary(data: bytes | None) -> str | None:
    """Return bytes as base64 text, None for null."""
    return None if data is None else base64.b64encode(data).decode()


def bytes_to_json(data: bytes | None) -> Any:
    """Parse bytes as JSON, None for null.

    Raises:
        ValueError: the bytes are not JSON.
    """
    if data is None:
        return None
    try:
        return parse_json(data)
    except HttpError as error:
        raise ValueError(error.text) from error
