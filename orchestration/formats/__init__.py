"""Formats of values other than JSON.

A schema from a file gives the columns of a value, and reads it.

- ``columns``: the parts that all formats share.
- ``avro``: Avro schemas as declared. ``avro_types``: their types. ``avro_reading``: their bytes.
- ``protobuf``: messages of Protocol Buffers. ``protobuf_reading``: their fields.
- ``descriptors``: the files that describe messages.
- ``json_values``: JSON as a format like these. ``json_schema_fields``: JSON Schemas as columns.
- ``registry``: asks a schema registry. ``prefixes``: the prefixes and headers of a batch in bulk.
  ``avro_resolving``, ``protobuf_resolving``: values of Avro and Protobuf as another schema has
  them. ``avro_bulk``: those of flat records, all at once. ``resolving``: the same for each
  language. ``registered``: values with a registry.
  ``compatibility``: the verdict on the newest version of a subject.
- ``debezium``: rows in Debezium's envelope of changes.
- ``keys``: keys of records as values of key columns.
"""

from collections.abc import Mapping
from typing import Any

from orchestration.formats.avro import AvroSchema, avro_schema
from orchestration.formats.columns import SchemaFileError, ValueFormat
from orchestration.formats.protobuf import ProtobufSchema, protobuf_schema
from orchestration.formats.registered import IncompatibleSchemaError, RegistrySchema, from_registry
from orchestration.formats.registry import (
    RegistryAwayError,
    RegistryError,
    RegistrySchemaError,
    UnknownSchemaError,
)

__all__ = [
    "AvroSchema",
    "IncompatibleSchemaError",
    "ProtobufSchema",
    "RegistryAwayError",
    "RegistryError",
    "RegistrySchema",
    "RegistrySchemaError",
    "SchemaFileError",
    "UnknownSchemaError",
    "ValueFormat",
    "avro_schema",
    "format_of",
    "from_registry",
    "protobuf_schema",
]
DeclaredFormat = AvroSchema | ProtobufSchema | RegistrySchema
KINDS: Mapping[str, type[DeclaredFormat]] = {
    one.KIND: one for one in (AvroSchema, ProtobufSchema, RegistrySchema)
}


def format_of(declared: Mapping[str, Any]) -> DeclaredFormat:
    """Return the schema whose ``declared()`` returned this mapping."""
    kind, *_ = declared
    return KINDS[kind].of(declared[kind])
