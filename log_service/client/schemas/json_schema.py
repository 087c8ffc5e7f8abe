"""Converts Python values to JSON text in UTF-8 and back, and validates them against a schema.

Values are validated when they are written and when they are read. References are resolved only
among those of the registered schema. They are never fetched from the network, because a schema
could then cause requests to any address. The text is compact, without escapes for characters
outside ASCII.
"""

import json
from collections.abc import Callable
from typing import Any, ClassVar, Unpack
from urllib.parse import urljoin

from log_service.client.schemas.deserializing import (
    AsyncDeserializing,
    BlockingDeserializing,
    Decode,
    DeserializerOptions,
    Deserializing,
)
from log_service.client.schemas.errors import SerializationError, schemas_extra
from log_service.client.schemas.json_patterns import PatternKeywords
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
from log_service.client.schemas.values import JSON, Schema
from log_service.client.schemas.wire_format import Indexes

with schemas_extra():
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY
    from referencing import Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT7


def json_schema(given: str | Schema | None) -> Schema | None:
    """Return the ``Schema`` of a text. A ``Schema`` is returned as it is."""
    return (
        given
        if given is None or isinstance(given, Schema)
        else Schema(text=given, schema_type=JSON)
    )


def record_name(schema: Schema) -> str | None:
    """Return the title of a schema, None without one."""
    found = json.loads(schema.text)
    return found.get("title") if isinstance(found, dict) else None


def validator_of(found: ResolvedSchema) -> Callable[[Any], Any]:
    """Return the function that validates a value against a schema.

    The function returns a valid value unchanged, and raises SerializationError for an invalid one.

    Raises:
        Exception: the schema is invalid.
    """
    schema = json.loads(found.schema.text)
    root = schema.get("$id", "") if isinstance(schema, dict) else ""
    others = {name: json.loads(text) for name, text in found.texts.items()}
    resources = [
        (place, Resource.from_contents(each, DRAFT7))
        for name, each in others.items()
        for place in (name, urljoin(root, name))
    ]
    kind = validator_for(schema)
    kind.check_schema(schema)
    keywords = PatternKeywords([schema, *others.values()])
    validator = keywords.extended(kind)(schema, registry=REGISTRY.with_resources(resources))

    def validated(value: Any) -> Any:
        keywords.budget.renew(value)
        try:
            error = best_match(validator.iter_errors(value))
        except Unresolvable as missing:
            text = (
                f"the schema refers to {missing.ref}, which is none of its references:"
                f" {', '.join(found.texts) or 'there are none'}"
            )
            raise SerializationError(text) from missing
        if error is not None:
            raise SerializationError(f"{error.message} (at {error.json_path})")
        return value

    return validated


def parsed_json(found: ResolvedSchema) -> Any:
    """Parse the text of a schema as JSON. Raises ValueError: it is not JSON."""
    return json.loads(found.schema.text)


def dump_json(value: Any) -> str:
    """Return a value as compact JSON. Raises ValueError: JSON has no NaN or infinite numbers."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _utf8(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


class JsonSchemaSerializing(Serializing[R_co]):
    """The part of a JSON serializer that does no I/O."""

    schema_type: ClassVar[str] = JSON

    def __init__(
        self,
        registry: R_co,
        schema: str | Schema | None = None,
        *,
        to_dict: Callable[[Any], Any] | None = None,
        validate: bool = True,
        json_encode: Callable[[Any], str | bytes] = dump_json,
        **options: Unpack[SerializerOptions],
    ) -> None:
        super().__init__(registry, json_schema(schema), **options)
        self._to_dict = to_dict
        self._is_validated = validate
        self._encode = json_encode
        validate_own_schema(self._schema, JSON, validator_of if validate else parsed_json)

    def record_name(self) -> str | None:
        """Return the title of the schema."""
        return None if self._schema is None else record_name(self._schema)

    def encoder(self, found: ResolvedSchema) -> Encode:
        """Return the function that encodes values, after validation unless ``validate=False``."""
        return chained(
            self._to_dict, validator_of(found) if self._is_validated else None, self._encode, _utf8
        )


class JsonSchemaDeserializing(Deserializing[R_co]):
    """The part of a JSON deserializer that does no I/O."""

    schema_type: ClassVar[str] = JSON

    def __init__(
        self,
        registry: R_co,
        schema: str | Schema | None = None,
        *,
        from_dict: Callable[[Any], Any] | None = None,
        validate: bool = True,
        json_decode: Callable[[bytes], Any] = json.loads,
        **options: Unpack[DeserializerOptions],
    ) -> None:
        super().__init__(registry, json_schema(schema), **options)
        self._from_dict = from_dict
        self._is_validated = validate
        self._decode = json_decode
        self.is_writer_needed = validate and schema is None
        validate_own_schema(self.schema, JSON, validator_of if validate else parsed_json)

    def record_name(self, schema: Schema) -> str | None:
        """Return the title of a schema."""
        return record_name(schema)

    def decoder(
        self, written: ResolvedSchema | None, wanted: ResolvedSchema | None, _indexes: Indexes
    ) -> Decode:
        """Return the function that decodes payloads and validates, unless ``validate=False``."""
        schema = wanted or written
        validate = validator_of(schema) if self._is_validated and schema is not None else None
        return chained(self._decode, validate, self._from_dict)


class JsonSchemaSerializer(JsonSchemaSerializing[SchemaRegistryClient], AsyncSerializing):
    """Turns values into JSON that is valid by a schema, in tasks on trio or on asyncio.

    ``validate=False`` writes values without validation. ``json_encode`` is the function that makes
    the text, such as ``orjson.dumps``. Other keywords are those of ``AvroSerializer``. The record
    name for subjects is the title of the schema.
    """


class BlockingJsonSchemaSerializer(
    JsonSchemaSerializing[BlockingSchemaRegistryClient], BlockingSerializing
):
    """Turns values into JSON, in any thread. Keywords are those of ``JsonSchemaSerializer``."""


class JsonSchemaDeserializer(JsonSchemaDeserializing[SchemaRegistryClient], AsyncDeserializing):
    """Turns JSON into values, in tasks on trio or on asyncio.

    Values are validated against ``schema``, or else against the schema that they were written
    with. ``validate=False`` reads them without validation. ``json_decode`` is the function that
    parses the text. Other keywords are those of ``AvroDeserializer``.
    """


class BlockingJsonSchemaDeserializer(
    JsonSchemaDeserializing[BlockingSchemaRegistryClient], BlockingDeserializing
):
    """Turns JSON into values, in any thread. Keywords are those of ``JsonSchemaDeserializer``."""
