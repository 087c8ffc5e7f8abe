"""Formats of values other than JSON: a schema from a file says which columns a value has, and reads it.

``columns`` what all formats share; ``avro`` Avro's schemas as declared, ``avro_types`` their types, ``avro_reading`` their bytes;
``protobuf`` messages of Protocol Buffers, ``protobuf_reading`` their fields, ``descriptors`` the files that describe them;
``json_values`` JSON as a format like these; ``keys`` keys of records as values of key columns.
"""

from collections.abc import Mapping
from typing import Any

from orchestration.formats.avro import AvroSchema, avro_schema
from orchestration.formats.columns import SchemaFileError, ValueFormat
from orchestration.formats.protobuf import ProtobufSchema, protobuf_schema

__all__ = ["AvroSchema", "ProtobufSchema", "SchemaFileError", "ValueFormat", "avro_schema", "format_of", "protobuf_schema"]


def format_of(declared: Mapping[str, Any]) -> AvroSchema | ProtobufSchema:
    """Return the format whose ``declared()`` this is."""
    kind, *_ = declared
    return AvroSchema.of(declared[kind]) if kind == AvroSchema.KIND else ProtobufSchema.of(declared[kind])
