"""Converts JSON values to bytes of any schema language and back, without an application's classes.

Commands and HTTP services use it, because their values come from a person or another program.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from anyio import to_thread
from google.protobuf.json_format import MessageToDict, ParseDict

from log_service.client.schemas import avro, json_schema, protobuf
from log_service.client.schemas.avro import decode_avro, encode_avro, parse_avro
from log_service.client.schemas.avro_branches import tagged_decoder
from log_service.client.schemas.avro_json import AvroReading, to_json
from log_service.client.schemas.cache import BoundedCache
from log_service.client.schemas.json_schema import dump_json, validator_of
from log_service.client.schemas.protobuf import FORMAT, message_at
from log_service.client.schemas.registry_client import SchemaRegistryClient
from log_service.client.schemas.serializing import ResolvedSchema, chained, resolved
from log_service.client.schemas.values import AVRO, JSON, PROTOBUF, RegisteredSchema, Schema
from log_service.client.schemas.wire_format import SchemaIdentity, prefix_of, read_identity
from log_service.records.record import RecordHeader

FIRST_MESSAGE: Final = (0,)
KNOWN_MESSAGES: Final = 1_000

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes, Sequence[RecordHeader]], Any]
"""Returns the value of a record's bytes as a value of JSON."""


def _avro_encoder(found: ResolvedSchema) -> Encode:
    parsed = parse_avro(found)
    return chained(AvroReading(parsed), encode_avro(parsed))


def _json_encoder(found: ResolvedSchema) -> Encode:
    return chained(validator_of(found), dump_json, str.encode)


def _protobuf_encoder(found: ResolvedSchema) -> Encode:
    message_type = message_at(found, FIRST_MESSAGE)
    return lambda value: ParseDict(value, message_type()).SerializeToString()


ENCODERS: Final[Mapping[str, Callable[[ResolvedSchema], Encode]]] = {
    AVRO: _avro_encoder,
    JSON: _json_encoder,
    PROTOBUF: _protobuf_encoder,
}


RECORD_NAMES: Final[Mapping[str, Callable[[Schema], str | None]]] = {
    AVRO: avro.record_name,
    JSON: json_schema.record_name,
    PROTOBUF: protobuf.first_message_name,
}


def record_name_of(schema: Schema) -> str | None:
    """Return the record name of a schema for its subject, or None if it has no name.

    Raises:
        Exception: the schema is invalid.
    """
    return RECORD_NAMES[schema.schema_type](schema)


async def resolved_schema(
    registry: SchemaRegistryClient,
    identity: SchemaIdentity,
    subject: str,
    schema: Schema,
    about: str,
) -> ResolvedSchema:
    """Return a schema with its references. Protobuf files are requested as descriptors.

    ``about`` names the schema in errors.
    """
    fmt = FORMAT if schema.schema_type == PROTOBUF else None
    if fmt is not None:
        schema = await named_schema(registry, identity, subject, fmt)
    return await registry.run(resolved(registry.core, schema, schema.schema_type, fmt, about))


async def schema_encoder(
    registry: SchemaRegistryClient, subject: str, found: RegisteredSchema, about: str
) -> Encode:
    """Return the function that encodes JSON values as bytes, with the id of the schema before them.

    A worker thread parses the schema. Values of Protobuf are of the first message of the file.

    Raises:
        Exception: the schema cannot be used (SchemaRegistryError and others).
    """
    schema, identity = found.schema, SchemaIdentity(id=found.id)
    known = await resolved_schema(registry, identity, subject, schema, about)
    encode = await to_thread.run_sync(ENCODERS[schema.schema_type], known)
    prefix = prefix_of(found.id, FIRST_MESSAGE if schema.schema_type == PROTOBUF else ())
    return lambda value: prefix + encode(value)


async def named_schema(
    registry: SchemaRegistryClient, identity: SchemaIdentity, subject: str, fmt: str | None = None
) -> Schema:
    """Return the schema that an id or a guid names.

    Raises:
        SchemaRegistryError: there is no such schema.
    """
    if identity.id is None:
        return await registry.get_schema_by_guid(identity.guid or "", fmt=fmt)
    return await registry.get_schema(identity.id, subject, fmt=fmt)


def _avro_decoder(found: ResolvedSchema, is_key: bool) -> Decode:  # noqa: FBT001 - a row of the table below
    decode = decode_avro(parse_avro(found), None)
    return lambda data, headers: to_json(
        decode(read_identity(data, headers, is_key=is_key, has_indexes=False)[1])
    )


def _tagged_avro_decoder(found: ResolvedSchema, is_key: bool) -> Decode:  # noqa: FBT001 - as above
    decode = tagged_decoder(parse_avro(found))
    return lambda data, headers: decode(
        read_identity(data, headers, is_key=is_key, has_indexes=False)[1]
    )


def _json_decoder(_found: ResolvedSchema, is_key: bool) -> Decode:  # noqa: FBT001 - as above
    return lambda data, headers: json.loads(
        read_identity(data, headers, is_key=is_key, has_indexes=False)[1]
    )


def _protobuf_decoder(found: ResolvedSchema, is_key: bool) -> Decode:  # noqa: FBT001 - as above
    messages: BoundedCache[tuple[int, ...], Any] = BoundedCache(KNOWN_MESSAGES, time.monotonic)

    def decode(data: bytes, headers: Sequence[RecordHeader]) -> Any:
        identity, payload = read_identity(data, headers, is_key=is_key, has_indexes=True)
        message_type = messages.get(identity.indexes)
        if message_type is None:
            message_type = message_at(found, identity.indexes)
            messages.put(identity.indexes, message_type)
        return MessageToDict(
            message_type.FromString(payload),
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )

    return decode


DECODERS: Final[Mapping[str, Callable[[ResolvedSchema, bool], Decode]]] = {
    AVRO: _avro_decoder,
    JSON: _json_decoder,
    PROTOBUF: _protobuf_decoder,
}
TAGGED_DECODERS: Final[Mapping[str, Callable[[ResolvedSchema, bool], Decode]]] = {
    **DECODERS,
    AVRO: _tagged_avro_decoder,
}
"""The decoders whose values of Avro have the branches of unions, as Confluent's REST proxy has."""
