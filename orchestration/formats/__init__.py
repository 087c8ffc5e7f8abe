"""Formats of record values: Avro, Protobuf, JSON and Debezium's envelope of changes.

A format tells the columns of a table that values become, and reads values into them.

- ``columns``: the parts that all formats share.
- ``avro``: declares Avro schemas. ``avro_types``: parses their types. ``avro_reading``: reads data.
- ``protobuf``: declares Protobuf messages. ``protobuf_reading``: reads their fields.
- ``descriptors``: reads the files that describe messages.
- ``json_values``: the format JSON. ``json_schema_fields``: converts JSON Schemas to columns.
- ``registry``: asks a schema registry. ``prefixes``: reads the schema ids of a batch in bulk.
  ``avro_resolving``: reads Avro values of one schema as another. ``avro_bulk``: does so in bulk for
  flat records. ``protobuf_resolving``: checks whether one message can be read as another.
  ``resolving``: reads values of one schema as another in every schema language.
  ``registered``: the format of values whose schemas are in a registry.
  ``compatibility``: checks whether the newest version of a subject can be read.
- ``debezium``: reads rows from Debezium's envelope of changes.
- ``keys``: converts keys of records to values of key columns.
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
    """Return the format whose ``declared()`` returned this mapping."""
    kind, *_ = declared
    return KINDS[kind].of(declared[kind])
