"""Encodes a new record from the fields of a form.

A key or a value in the format ``json by schema`` is JSON that is encoded with the latest version of
a subject. The schema's id comes before the encoded bytes.
"""

import base64
import binascii
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import trio

from log_service.client.schemas.errors import SchemaRegistryError
from log_service.client.schemas.serializing import reason_of
from log_service.http.console.forms import choice_of
from log_service.http.console.page_requests import PageRequest
from log_service.http.record_formats.decoding import parse_json
from log_service.http.server.values import HttpError

if TYPE_CHECKING:
    from types import ModuleType

    from log_service.client.schemas.json_codecs import Encode

FORMATS = ("text", "json", "base64", "null")
BY_SCHEMA = "json by schema"
MAX_HEADERS = 1_000
MAX_REASON_CHARACTERS = 2_000


def formats_of(page_request: PageRequest) -> tuple[str, ...]:
    """Return the formats that a person may write keys and values in."""
    return FORMATS if page_request.context.registry is None else (*FORMATS, BY_SCHEMA)


async def record_part(page_request: PageRequest, name: str) -> bytes | None:
    """Return the bytes of a key or a value. ``name`` is ``key`` or ``value``.

    Raises:
        HttpError: 400, the text does not have its format, or does not fit the schema.
        SchemaRegistryError: there is no such subject.
    """
    form = page_request.form
    if form.get(f"{name}_format") != BY_SCHEMA:
        return part_bytes(form, name)
    text, subject = form.get(name, ""), form.get(f"{name}_subject", "").strip()
    if name == "key" and not text:
        return None
    if not subject:
        raise HttpError(400, f"name the subject whose latest schema the {name} has")
    registry = await page_request.registry()
    latest = await registry.get_version(subject, "latest")
    about = f"schema id {latest.id}, the latest of {subject}"
    try:
        codecs = await trio.to_thread.run_sync(_codecs)
        encode = await codecs.schema_encoder(registry, subject, latest, about)
    except SchemaRegistryError:
        raise
    except Exception as error:
        reason = reason_of(error)[:MAX_REASON_CHARACTERS]
        raise HttpError(400, f"{about}, cannot be used: {reason}") from error
    return await trio.to_thread.run_sync(partial(_encoded, text, name, encode, about))


def _codecs() -> "ModuleType":
    """Import the module of codecs. It is imported late because its libraries take 8 MB."""
    from log_service.client.schemas import json_codecs  # noqa: PLC0415 - few people need it

    return json_codecs


def _encoded(text: str, name: str, encode: "Encode", about: str) -> bytes | None:
    """Encode a JSON text with ``encode``. JSON's null gives None.

    Blocks for a while if the text is long.

    Raises:
        HttpError: 400, the text is not JSON, or does not fit the schema.
    """
    value = _json_of(text, name)
    if value is None:
        return None
    try:
        return encode(value)
    except Exception as error:
        reason = reason_of(error)[:MAX_REASON_CHARACTERS]
        raise HttpError(400, f"the {name} does not fit {about}: {reason}") from error


def _json_of(text: str, name: str) -> object:
    """Parse a JSON text, within the bounds of shown values.

    Raises:
        HttpError: 400, the text is not JSON, or exceeds the bounds.
    """
    try:
        return parse_json(text.encode())
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"the {name} cannot be read as JSON: {error}") from error


def part_bytes(form: Mapping[str, str], name: str) -> bytes | None:
    """Return the bytes of a key or a value in a form. None is null, and an empty key becomes null.

    Raises:
        HttpError: 400, the text does not have its format.
    """
    text, kind = form.get(name, ""), choice_of(form, f"{name}_format", FORMATS)
    if kind == "null" or (name == "key" and not text):
        return None
    if kind == "base64":
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise HttpError(400, f"the {name} is no base64: {error}") from error
    if kind == "json":
        _json_of(text, name)
    return text.encode()


def headers_of(text: str) -> list[tuple[str, bytes | None]]:
    """Return the headers in lines of ``name=value``.

    Raises:
        HttpError: 400, a line has another form, or there are too many.
    """
    if text.count("\n") > MAX_HEADERS:
        raise HttpError(400, f"the headers have at most {MAX_HEADERS} lines")
    found: list[tuple[str, bytes | None]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals or not name:
            raise HttpError(400, f"line {number} of the headers is {line[:80]!r}: write name=value")
        found.append((name, value.encode()))
    return found
