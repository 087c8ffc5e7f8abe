"""Decodes keys and values to JSON by the schema that their prefix names, or as JSON, text or bytes.

The prefix is a magic byte and the id of a schema. Decoding never fails. Bytes that do not fit their
prefix stay bytes, and ``error`` gives the reason. Long values are decoded in another thread, so
that they do not delay other requests. Values are not validated, because a schema may have a regular
expression that never ends. The libraries of schemas take 8 MB, so each is imported for the first
value that needs it.
"""

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isfinite
from typing import Any, Final, NoReturn

import msgpack
import trio

from log_service.client.schemas.errors import SchemaRegistryError
from log_service.client.schemas.registry_client import SchemaRegistryClient
from log_service.client.schemas.values import AVRO, JSON, PROTOBUF
from log_service.client.schemas.wire_format import MAGIC_ID, PREFIX
from log_service.http.record_formats.json_text import MAX_DEPTH, is_deep

KINDS: Final = {AVRO: "avro", JSON: "json_schema", PROTOBUF: "protobuf"}
MSGPACK: Final = "msgpack"
FORMATS: Final = ("auto", "json", "string", "binary", MSGPACK)
"""The ways to read bytes. ``auto`` never tries MessagePack, because any byte may begin it."""
LONG_BYTES: Final = 4 << 10
"""A longer key or value is handled in another thread."""
LONG_READ: Final = 4 << 20
"""A payload whose bytes times the characters of its schema reach this number is read in another
thread.

One byte may stand for a record of as many fields as its schema names.
"""
MAX_PARSED_BYTES: Final = 512 << 10
"""A longer text is not parsed as JSON, because the parser lets nothing else run."""
MAX_PAYLOAD_BYTES: Final = 1 << 20
"""A longer key or value is not decoded by its schema, for the same reason."""
MAX_CONTAINERS: Final = 20_000
"""The most objects and arrays of a value.

The garbage collector visits all of them, and nothing else runs meanwhile.
"""
TOO_MANY: Final = f"the value has more than {MAX_CONTAINERS} objects and arrays"
MAX_VALUE_CHARACTERS: Final = 1 << 20
"""The most characters of names and texts in a decoded value.

Names are in the schema and not in the bytes, so a few bytes may yield many.
"""
TOO_LONG: Final = f"the value is longer than {MAX_VALUE_CHARACTERS} characters as JSON"
TOO_DEEP: Final = f"the value is nested deeper than {MAX_DEPTH} levels"
MAX_MISSING: Final = 100
NO_NUMBERS: Final = {inf: "Infinity", -inf: "-Infinity"}
"""Texts of Protobuf's JSON for infinite floats, which are not numbers in JSON.

NaN is a third one.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A decoded key or value. ``value`` is a JSON value, in which bytes are in base64.

    ``kind`` is null, json, string, binary, msgpack, avro, json_schema or protobuf. ``error`` is
    empty if the bytes could be decoded by their prefix or in the wanted format. ``size`` is about
    the length of the value as JSON, in bytes.
    """

    kind: str
    value: Any
    schema_id: int | None = None
    error: str = ""
    size: int = 0

    @property
    def is_long(self) -> bool:
        """Whether the value is so long that it must be processed in another thread."""
        return self.size > LONG_BYTES


NULL: Final = Decoded(kind="null", value=None)


class RecordDecoder:
    """Decodes keys and values. ``registry`` is an open client, or None without a registry."""

    def __init__(self, registry: SchemaRegistryClient | None) -> None:
        self._registry = registry
        self._missing: dict[int, str] = {}
        self._deserializers: dict[tuple[str, bool], Any] = {}

    def __repr__(self) -> str:
        return f"<RecordDecoder registry={self._registry!r}>"

    async def decode(
        self, data: bytes | None, *, topic: str, is_key: bool, wanted: str = "auto"
    ) -> Decoded:
        """Decode a key or a value to JSON. ``wanted`` is one of ``FORMATS``."""
        if data is None:
            return NULL
        schema_id = None
        if wanted == "auto" and len(data) >= PREFIX.size and data[0] == MAGIC_ID:
            schema_id = int(PREFIX.unpack_from(data)[1])
        error = ""
        if schema_id is not None and self._registry is not None:
            error = self._missing.get(schema_id, "")
            if not error:
                try:
                    return await self._by_schema(data, schema_id, topic, is_key=is_key)
                except Exception as failed:  # noqa: BLE001 - libraries raise much for hostile bytes
                    error = str(failed)[:500]
                    if isinstance(failed, SchemaRegistryError) and len(self._missing) < MAX_MISSING:
                        self._missing[schema_id] = error
        if len(data) > LONG_BYTES:
            found = await trio.to_thread.run_sync(partial(decode_plain, data, wanted))
        else:
            found = decode_plain(data, wanted)
        if not error:
            return found
        return replace(found, schema_id=schema_id, error=error)

    async def _by_schema(self, data: bytes, schema_id: int, topic: str, *, is_key: bool) -> Decoded:
        assert self._registry is not None
        if len(data) > MAX_PAYLOAD_BYTES:
            raise ValueError(f"it is longer than {MAX_PAYLOAD_BYTES} bytes")
        schema = await self._registry.get_schema(schema_id)
        deserializer = await self._deserializer(self._registry, schema.schema_type, is_key=is_key)
        identity, payload = deserializer.identify(data, ())
        reader = await self._registry.run(deserializer.find_reader(topic, identity))

        def read() -> tuple[Any, int]:
            value = reader.read(payload)
            return plain_json(_message_as_json(value) if schema.schema_type == PROTOBUF else value)

        is_long = len(data) > LONG_BYTES or len(data) * len(schema.text) > LONG_READ
        value, size = await trio.to_thread.run_sync(read) if is_long else read()
        kind = KINDS[schema.schema_type]
        return Decoded(kind=kind, value=value, schema_id=schema_id, size=max(size, len(data)))

    async def _deserializer(
        self, registry: SchemaRegistryClient, schema_type: str, *, is_key: bool
    ) -> Any:
        kept = schema_type, is_key
        if kept not in self._deserializers:
            kind = await trio.to_thread.run_sync(_deserializer_of, schema_type)
            self._deserializers[kept] = kind(registry, is_key=is_key)
        return self._deserializers[kept]


@asynccontextmanager
async def open_decoder(
    make_registry: Callable[[], SchemaRegistryClient] | None,
) -> AsyncIterator[RecordDecoder]:
    """Yield a decoder with a registry client of its own, or without one if it is given no maker.

    The decoder may outlive the clients that a login shares. The client frees the cached schemas
    when it is closed.
    """
    if make_registry is None:
        yield RecordDecoder(None)
        return
    async with await trio.to_thread.run_sync(make_registry) as registry:  # it reads trust stores
        yield RecordDecoder(registry)


def _deserializer_of(schema_type: str) -> Callable[..., Any]:
    """Return the deserializer class of a schema type. Its library is imported at the first call."""
    if schema_type == AVRO:
        from log_service.client.schemas.avro import (  # noqa: PLC0415 - see the opening
            AvroDeserializer,
        )

        return AvroDeserializer
    if schema_type == PROTOBUF:
        from log_service.client.schemas.protobuf import (  # noqa: PLC0415 - see the opening
            ProtobufDeserializer,
        )

        return ProtobufDeserializer
    from log_service.client.schemas.json_schema import (  # noqa: PLC0415 - see the opening
        JsonSchemaDeserializer,
    )

    return partial(JsonSchemaDeserializer, validate=False, json_decode=parse_json)


def _message_as_json(message: Any) -> Any:
    from google.protobuf.json_format import (  # noqa: PLC0415 - see the opening
        MessageToDict,
    )

    return MessageToDict(message)


def decode_plain(data: bytes, wanted: str) -> Decoded:
    """Decode bytes without a schema: as JSON, as text, to base64, or as MessagePack.

    ``wanted`` is the format. ``auto`` and ``json`` take the first of JSON, text and base64 that
    fits. ``string`` takes text, or else base64.
    """
    if wanted == MSGPACK:
        return _decode_msgpack(data)
    try:
        text = None if wanted == "binary" else data.decode()
    except UnicodeDecodeError:
        text = None
    if text is None:
        return _binary(data)
    as_text = Decoded(kind="string", value=text, size=len(data))
    if wanted == "string":
        return as_text
    try:
        return Decoded(kind="json", value=parse_json(data), size=len(data))
    except (ValueError, RecursionError):
        return as_text


def _binary(data: bytes, error: str = "") -> Decoded:
    encoded = base64.b64encode(data).decode()
    return Decoded(kind="binary", value=encoded, size=len(data), error=error)


def _decode_msgpack(data: bytes) -> Decoded:
    """Decode MessagePack. If that fails, return the bytes with the reason.

    An extension is an array of its code and its bytes, but a timestamp is a text.
    """
    try:
        if len(data) > MAX_PAYLOAD_BYTES:
            raise ValueError(f"it is longer than {MAX_PAYLOAD_BYTES} bytes")  # noqa: TRY301
        value, size = plain_json(_unpacked(data))
    except Exception as failed:  # noqa: BLE001 - the library raises much for hostile bytes
        return _binary(data, f"the bytes are not MessagePack: {failed!r}"[:500])
    return Decoded(kind=MSGPACK, value=value, size=max(size, len(data)))


def _unpacked(data: bytes) -> Any:
    """Decode MessagePack part by part.

    A single call of the library would let no other thread run, and would allocate as many parts as
    each array declares.

    Raises:
        ValueError: the value is too long, has too many parts, or is nested too deeply.
        msgpack.OutOfData: the bytes end within a part.
    """
    unpacker = msgpack.Unpacker(strict_map_key=False, timestamp=3, max_buffer_size=len(data))
    unpacker.feed(data)
    part_count = container_count = 0

    def read(depth: int) -> Any:
        nonlocal part_count, container_count
        part_count += 1
        if part_count > MAX_VALUE_CHARACTERS // 2:
            raise ValueError(TOO_LONG)
        place = unpacker.tell()
        first = data[place] if place < len(data) else 0
        if not (0x80 <= first <= 0x9F or 0xDC <= first <= 0xDF):
            return unpacker.unpack()
        container_count += 1
        if container_count > MAX_CONTAINERS:
            raise ValueError(TOO_MANY)
        if depth > MAX_DEPTH:
            raise ValueError(TOO_DEEP)
        if first <= 0x8F or first >= 0xDE:
            count = unpacker.read_map_header()
            return {read(depth + 1): read(depth + 1) for _ in range(count)}
        return [read(depth + 1) for _ in range(unpacker.read_array_header())]

    value = read(0)
    if unpacker.tell() < len(data):
        raise ValueError("more bytes follow the value")
    return value


def parse_json(data: bytes) -> Any:
    """Parse a JSON text.

    Raises:
        ValueError, RecursionError: the bytes are not JSON, or exceed a bound of this module.
    """
    if len(data) > MAX_PARSED_BYTES:
        raise ValueError(f"the text is longer than {MAX_PARSED_BYTES} bytes")
    container_count = data.count(b"[") + data.count(b"{")
    if container_count > MAX_CONTAINERS:
        raise ValueError(TOO_MANY)
    value = json.loads(data.decode(), parse_constant=_refuse)
    if container_count > MAX_DEPTH and is_deep(value):
        raise ValueError(TOO_DEEP)
    return value


def plain_json(value: Any) -> tuple[Any, int]:
    """Convert a decoded value to JSON values, and also return its approximate length as JSON.

    Times and decimals become text, and so do floats that are not JSON numbers, such as NaN.

    Raises:
        ValueError: the value is too long, has too many parts, or is nested too deeply.
    """
    size = container_count = 0

    def plain(each: Any, depth: int) -> Any:
        nonlocal size, container_count
        size += 2 + (len(each) if isinstance(each, str | bytes | bytearray | memoryview) else 0)
        if size > MAX_VALUE_CHARACTERS:
            raise ValueError(TOO_LONG)
        container_count += isinstance(each, dict | list | tuple)
        if container_count > MAX_CONTAINERS:
            raise ValueError(TOO_MANY)
        if depth > MAX_DEPTH:
            raise ValueError(TOO_DEEP)
        if isinstance(each, dict):
            return {plain(_name_of(k), depth): plain(v, depth + 1) for k, v in each.items()}
        if isinstance(each, list | tuple):
            return [plain(item, depth + 1) for item in each]
        if isinstance(each, float) and not isfinite(each):
            return NO_NUMBERS.get(each, "NaN")
        if each is None or isinstance(each, str | int | float):
            return each
        if isinstance(each, bytes | bytearray | memoryview):
            return base64.b64encode(each).decode()
        return str(each)

    return plain(value, 0), size


def _name_of(name: Any) -> str:
    return name if isinstance(name, str) else json.dumps(name)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
