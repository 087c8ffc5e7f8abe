"""Converts Python values to Avro and back.

fastavro encodes and decodes, with its Python types for logical types. A branch of a union may be
named by a tuple, ``("shop.Order", {...})``. A value of a schema that is only ``bytes`` is written
without a length, as Confluent's serializers do.
"""

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, ClassVar, Final, Unpack

from log_service.client.schemas.avro_bounds import reading_cost
from log_service.client.schemas.deserializing import (
    AsyncDeserializing,
    BlockingDeserializing,
    Decode,
    DeserializerOptions,
    Deserializing,
)
from log_service.client.schemas.errors import schemas_extra
from log_service.client.schemas.registry_client import (
    BlockingSchemaRegistryClient,
    SchemaRegistryClient,
)
from log_service.client.schemas.serializing import (
    AsyncSerializing,
    BlockingSerializing,
    Encode,
    R_co,
    ResolvedSchema,
    SerializerOptions,
    Serializing,
    chained,
    validate_own_schema,
)
from log_service.client.schemas.values import AVRO, Schema
from log_service.client.schemas.wire_format import Indexes

with schemas_extra():
    import fastavro
    from fastavro import _read_py

PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


def avro_schema(given: str | Schema | None) -> Schema | None:
    """Return the ``Schema`` of a text. The text may be only the name of a primitive type."""
    if given is None or isinstance(given, Schema):
        return given
    text = given.strip()
    return Schema(
        text=text if text.startswith(("{", "[")) else f'{{"type":{text}}}', schema_type=AVRO
    )


def record_name(schema: Schema) -> str | None:
    """Return the full name of a named schema, or the type of another one. None for a union."""
    found = json.loads(schema.text)
    if not isinstance(found, dict):
        return found if isinstance(found, str) else None
    if found.get("type") in NAMED:
        return full_name(found["name"], found.get("namespace", ""))
    return found["type"] if isinstance(found.get("type"), str) else None


def full_name(name: str, namespace: str) -> str:
    """Return a name with its namespace. A name with dots has one already, and is returned as is."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def parse_avro(found: ResolvedSchema) -> Any:
    """Parse a schema with fastavro.

    Raises:
        Exception: the schema is invalid, or names an unknown type.
    """
    return fastavro.parse_schema(whole_schema(found.schema.text, found.texts))


def whole_schema(text: str, texts: Mapping[str, str]) -> Any:
    """Parse the JSON of a schema, and insert the types that it references.

    The first use of each type that ``texts`` define is replaced with its definition.
    """
    own: Any = json.loads(text)
    if not texts:
        return own
    definitions: dict[str, Any] = {}
    for each in texts.values():
        _collect(json.loads(each), "", definitions)
    return _inlined(own, "", definitions, set())


def _collect(node: Any, namespace: str, definitions: dict[str, Any]) -> None:
    """Add the definitions of a schema's named types to ``definitions``, by full name.

    The definitions get their namespaces.
    """
    for part, inner in _parts(node, namespace):
        _collect(part, inner, definitions)
    if isinstance(node, dict) and node.get("type") in NAMED:
        name = full_name(node["name"], node.get("namespace", namespace))
        definitions[name] = {**node, "name": name, "namespace": name.rpartition(".")[0]}


def _parts(node: Any, namespace: str) -> list[tuple[Any, str]]:
    """Return the schemas directly within a schema, each with the namespace for its names."""
    if isinstance(node, list):
        return [(each, namespace) for each in node]
    if not isinstance(node, dict):
        return []
    if node.get("type") in {"record", "error"}:
        inner = full_name(node["name"], node.get("namespace", namespace)).rpartition(".")[0]
        return [(each["type"], inner) for each in node["fields"]]
    return [
        (node[key], namespace)
        for key in ("items", "values", "type")
        if isinstance(node.get(key), list | dict)
    ]


def _inlined(node: Any, namespace: str, definitions: Mapping[str, Any], known: set[str]) -> Any:
    """Return a schema with the first use of each name replaced with its definition.

    ``known`` are the names that were used or defined before. It is extended.
    """
    if isinstance(node, list):
        return [_inlined(each, namespace, definitions, known) for each in node]
    if isinstance(node, str):
        name = full_name(node, namespace)
        is_open = node not in PRIMITIVES and name not in known and name in definitions
        return _inlined(definitions[name], namespace, definitions, known) if is_open else node
    kind = node.get("type")
    if kind in NAMED:
        return _inlined_named(node, namespace, definitions, known)
    if kind not in PRIMITIVES and kind not in {"array", "map"}:
        return _inlined(kind, namespace, definitions, known)
    inner = {
        key: _inlined(node[key], namespace, definitions, known)
        for key in ("items", "values")
        if key in node
    }
    return {**node, **inner}


def _inlined_named(
    node: Mapping[str, Any], namespace: str, definitions: Mapping[str, Any], known: set[str]
) -> Any:
    """Return a named type with definitions inserted into its fields, or its name if it is known."""
    name = full_name(node["name"], node.get("namespace", namespace))
    if name in known:
        return name
    known.add(name)
    inner = name.rpartition(".")[0]
    if "fields" not in node:
        return node
    return {
        **node,
        "fields": [
            {**each, "type": _inlined(each["type"], inner, definitions, known)}
            for each in node["fields"]
        ],
    }


def _is_bare_bytes(parsed: Any) -> bool:
    return (
        isinstance(parsed, dict) and parsed.get("type") == "bytes" and "logicalType" not in parsed
    )


def encode_avro(parsed: Any) -> Encode:
    """Return the function that encodes values with a parsed schema."""
    if _is_bare_bytes(parsed):
        return lambda value: value.encode() if isinstance(value, str) else bytes(value)

    def encode(value: Any) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        return out.getvalue()

    return encode


def decode_avro(written: Any, wanted: Any, *, return_record_name: bool = False) -> Decode:
    """Return the function that decodes payloads of the schema ``written`` as values of ``wanted``.

    Raises:
        SerializationError: with this schema, few bytes could become any number of values.
    """
    if _is_bare_bytes(written):
        return lambda payload: payload
    # the reader in Python raises RecursionError, while the compiled one would end the process
    is_compiled = reading_cost(written).is_stack_bounded
    read: Any = (fastavro if is_compiled else _read_py).schemaless_reader

    def decode(payload: bytes) -> Any:
        return read(BytesIO(payload), written, wanted, return_record_name)

    return decode


class AvroSerializing(Serializing[R_co]):
    """The part of an Avro serializer that does no I/O."""

    schema_type: ClassVar[str] = AVRO

    def __init__(
        self,
        registry: R_co,
        schema: str | Schema | None = None,
        *,
        to_dict: Callable[[Any], Any] | None = None,
        **options: Unpack[SerializerOptions],
    ) -> None:
        super().__init__(registry, avro_schema(schema), **options)
        self._to_dict = to_dict
        validate_own_schema(self._schema, AVRO, parse_avro)

    def record_name(self) -> str | None:
        """Return the full name of the application's schema; see ``record_name`` of this module."""
        return None if self._schema is None else record_name(self._schema)

    def encoder(self, found: ResolvedSchema) -> Encode:
        """Return the function that encodes values with the schema ``found``."""
        return chained(self._to_dict, encode_avro(parse_avro(found)))


class AvroDeserializing(Deserializing[R_co]):
    """The part of an Avro deserializer that does no I/O."""

    schema_type: ClassVar[str] = AVRO

    def __init__(
        self,
        registry: R_co,
        schema: str | Schema | None = None,
        *,
        from_dict: Callable[[Any], Any] | None = None,
        return_record_name: bool = False,
        **options: Unpack[DeserializerOptions],
    ) -> None:
        super().__init__(registry, avro_schema(schema), **options)
        self._from_dict = from_dict
        self._is_name_returned = return_record_name
        validate_own_schema(self.schema, AVRO, parse_avro)

    def record_name(self, schema: Schema) -> str | None:
        """Return the full name of a schema; see ``record_name`` of this module."""
        return record_name(schema)

    def decoder(
        self, written: ResolvedSchema | None, wanted: ResolvedSchema | None, _indexes: Indexes
    ) -> Decode:
        """Return the function that decodes payloads of ``written`` as values of ``wanted``."""
        assert written is not None, "a payload of Avro cannot be read without its schema"
        reader = None if wanted is None else parse_avro(wanted)
        decode = decode_avro(parse_avro(written), reader, return_record_name=self._is_name_returned)
        return chained(decode, self._from_dict)


class AvroSerializer(AvroSerializing[SchemaRegistryClient], AsyncSerializing):
    """Turns values into Avro, in tasks on trio or on asyncio.

    ``schema`` is the text of a schema, or a ``Schema`` with references. ``to_dict`` turns an object
    of the application into a dict. Other keywords: ``is_key`` is for keys.
    ``auto_register_schemas`` (default True) registers the schema. With False the schema must be
    registered already. ``use_latest_version`` writes with the latest version of the subject
    instead. ``normalize_schemas`` makes the registry normalize the schema.
    ``subject_name_strategy`` is ``topic``, ``record``, ``topic-record``, or a function.
    ``schema_id_in`` is ``prefix``, or ``header`` for the newer format.

    Raises:
        ConfigError: keywords contradict each other.
        SerializationError: the schema is invalid. If it has references, only the first value
            raises this.
    """


class BlockingAvroSerializer(AvroSerializing[BlockingSchemaRegistryClient], BlockingSerializing):
    """Turns values into Avro, in any thread. Keywords are those of ``AvroSerializer``."""


class AvroDeserializer(AvroDeserializing[SchemaRegistryClient], AsyncDeserializing):
    """Turns Avro into values, in tasks on trio or on asyncio.

    ``schema`` is the reader's schema. Values are resolved to it from the schema that they were
    written with, as Avro's specification says. Without it they are decoded as they were written.
    ``from_dict`` turns a dict into an object of the application. With ``return_record_name`` a
    record in a union is a tuple of its name and the record. Other keywords: ``is_key`` is for keys.
    ``use_latest_version`` resolves values to the latest version of the subject.
    ``subject_name_strategy`` is that of the serializer.
    """


class BlockingAvroDeserializer(
    AvroDeserializing[BlockingSchemaRegistryClient], BlockingDeserializing
):
    """Turns Avro into values, in any thread. Keywords are those of ``AvroDeserializer``."""
