"""Keys and values as JSON: by the schema that their prefix names, or else as JSON, text or bytes.

Decoding never fails. Bytes that are not what their prefix says stay bytes, and ``error`` says why.
Long ones are decoded in another thread, so that no record holds up other people.
"""

import base64
import json
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn

import trio
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from log_service.client.schemas.avro import AvroDeserializer
from log_service.client.schemas.errors import SchemaRegistryError
from log_service.client.schemas.json_schema import JsonSchemaDeserializer
from log_service.client.schemas.protobuf import ProtobufDeserializer
from log_service.client.schemas.registry_client import SchemaRegistryClient
from log_service.client.schemas.values import AVRO, JSON, PROTOBUF
from log_service.client.schemas.wire_format import MAGIC_ID, PREFIX

KINDS: Final = {AVRO: "avro", JSON: "json_schema", PROTOBUF: "protobuf"}
FORMATS: Final = ("auto", "json", "string", "binary")
LONG_BYTES: Final = 32 << 10
MAX_PARSED_BYTES: Final = 4 << 20
"""A longer key or value is not looked into."""
MAX_MISSING: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A key or a value. ``value`` is a value of JSON, and bytes are in base64.

    ``kind`` is null, json, string, binary, avro, json_schema or protobuf. ``error`` is empty if
    the bytes are what their prefix says.
    """

    kind: str
    value: Any
    schema_id: int | None = None
    error: str = ""


NULL: Final = Decoded(kind="null", value=None)


class RecordDecoder:
    """Decodes keys and values. ``registry`` is an open client, None without a registry."""

    def __init__(self, registry: SchemaRegistryClient | None) -> None:
        self._registry = registry
        self._missing: dict[int, str] = {}
        self._deserializers: dict[tuple[str, bool], Any] = {}

    def __repr__(self) -> str:
        return f"<RecordDecoder registry={self._registry!r}>"

    async def decode(
        self, data: bytes | None, *, topic: str, is_key: bool, wanted: str = "auto"
    ) -> Decoded:
        """Return a key or a value as JSON. ``wanted`` is one of ``FORMATS``."""
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
        return Decoded(kind=found.kind, value=found.value, schema_id=schema_id, error=error)

    async def _by_schema(self, data: bytes, schema_id: int, topic: str, *, is_key: bool) -> Decoded:
        assert self._registry is not None
        schema_type = (await self._registry.get_schema(schema_id)).schema_type
        deserializer = self._deserializer(self._registry, schema_type, is_key=is_key)
        identity, payload = deserializer.identify(data, ())
        reader = await self._registry.run(deserializer.find_reader(topic, identity))

        def read() -> Any:
            value = reader.read(payload)
            return MessageToDict(value) if isinstance(value, Message) else plain_json(value)

        value = await trio.to_thread.run_sync(read) if len(data) > LONG_BYTES else read()
        return Decoded(kind=KINDS[schema_type], value=value, schema_id=schema_id)

    def _deserializer(
        self, registry: SchemaRegistryClient, schema_type: str, *, is_key: bool
    ) -> Any:
        kept = schema_type, is_key
        if kept not in self._deserializers:
            kinds: dict[str, Any] = {
                AVRO: AvroDeserializer,
                JSON: JsonSchemaDeserializer,
                PROTOBUF: ProtobufDeserializer,
            }
            self._deserializers[kept] = kinds[schema_type](registry, is_key=is_key)
        return self._deserializers[kept]


def decode_plain(data: bytes, wanted: str) -> Decoded:
    """Return bytes as JSON, as text, or in base64. ``auto`` takes the first that fits."""
    try:
        text = None if wanted == "binary" else data.decode()
    except UnicodeDecodeError:
        text = None
    if text is None:
        return Decoded(kind="binary", value=base64.b64encode(data).decode())
    if wanted == "string" or len(data) > MAX_PARSED_BYTES:
        return Decoded(kind="string", value=text)
    try:
        return Decoded(kind="json", value=json.loads(text, parse_constant=_refuse))
    except (ValueError, RecursionError):
        return Decoded(kind="string", value=text)


def plain_json(value: Any) -> Any:
    """Return a decoded value with values of JSON alone. Times and decimals become text.

    Raises:
        ValueError, RecursionError: it cannot be written as JSON.
    """
    return json.loads(json.dumps(value, default=_json_of))


def _json_of(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return str(value)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
