"""Formats of values other than JSON.

A schema from a file gives the columns of a value, and reads it.

- ``columns``: the parts that all formats share.
- ``avro``: Avro schemas as declared. ``avro_types``: their types. ``avro_reading``: their bytes.
- ``protobuf``: messages of Protocol Buffers. ``protobuf_reading``: their fields.
- ``descriptors``: the files that describe messages.
- ``json_values``: JSON as a format like these.
- ``keys``: keys of records as values of key columns.
"""

from collections.abc import Mapping
from typing import Any

from orchestration.formats.avro import AvroSchema, avro_schema
from orchestration.formats.columns import SchemaFileError, ValueFormat
from orchestration.formats.protobuf import ProtobufSchema, protobuf_schema

__all__ = ["AvroSchema", "ProtobufSchema", "SchemaFileError", "ValueFormat", "avro_schema", "format_of", "protobuf_schema"]


def format_of(declared: Mapping[str, Any]) -> AvroSchema | ProtobufSchema:
    """Return the schema whose ``declared()`` returned this mapping."""
    kind, *_ = declared
    return AvroSchema.of(declared[kind]) if kind == AvroSchema.KIND else ProtobufSchema.of(declared[kind])
