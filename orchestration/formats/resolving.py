"""Reads values of a written schema into declared columns, for each schema language.

Decides whether values of a schema can be read as the columns, and how: Avro by its rules of schema
resolution, Protobuf by the numbers of fields, JSON by the declared properties. Does not know a
registry.
Invariant: a pair that cannot be resolved is refused before any value is read.
"""

from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from json import loads
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyspark.sql import types

from log_service.client.schemas.values import AVRO, PROTOBUF
from orchestration.formats.avro import AvroSchema
from orchestration.formats.avro_bulk import bulk_reader, in_both
from orchestration.formats.avro_resolving import UnresolvableError, resolving_reader, unread_fields
from orchestration.formats.avro_types import ALL, parse_avro, parse_written
from orchestration.formats.columns import (
    FRAME_BYTES,
    Chosen,
    ValueFormat,
    arrow_schema,
    read_values,
)
from orchestration.formats.descriptors import find_message
from orchestration.formats.json_schema_fields import json_schema_fields
from orchestration.formats.json_values import JsonFormat
from orchestration.formats.prefixes import in_order, refused, without_prefix
from orchestration.formats.protobuf import ProtobufSchema
from orchestration.formats.protobuf_reading import message_reader
from orchestration.formats.protobuf_resolving import validate_resolvable
from orchestration.formats.registry import SubjectVersion, WholeSchema

ReadGroup = Callable[[pa.Array], tuple[pa.Table, pa.Array]]
"""Reads values of one schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredColumns:
    """The columns into which values are read: those of a version, or of a project's own schema.

    ``message`` is the name of the Protobuf message.
    """

    version: SubjectVersion
    message: str = ""
    chosen: Chosen = ALL


@lru_cache
def columns_format(declared: DeclaredColumns) -> ValueFormat:
    """Return the format of the declared schema's values without a prefix.

    :raises ValueError: the schema has no columns.
    """
    version, chosen = declared.version, declared.chosen
    if version.language == AVRO:
        return AvroSchema(text=version.content, chosen=chosen)
    if version.language == PROTOBUF:
        descriptors = b64decode(version.content)
        return ProtobufSchema(message=declared.message, descriptors=descriptors, chosen=chosen)
    if not version.version:
        return JsonFormat(types.StructType.fromJson(loads(version.content)))
    return JsonFormat(json_schema_fields(version.content, version.references, chosen))


def group_reader(
    declared: DeclaredColumns, written: WholeSchema, indexes: Sequence[int] | None = None
) -> ReadGroup:
    """Return the reader of values of a schema.

    Values have Confluent's prefix. With ``indexes`` they have none, because a header names their
    schema and, for Protobuf, the indexes of their message.

    :raises ValueError: the schema cannot be read as declared.
    """
    if written.language == AVRO:
        return _avro_reader(declared, written, 0 if indexes is not None else FRAME_BYTES)
    if written.language == PROTOBUF:
        return _protobuf_reader(declared, written, indexes)
    read = columns_format(declared).read
    return read if indexes is not None else lambda values: read(without_prefix(values))


def new_fields(declared: DeclaredColumns, written: WholeSchema) -> list[str]:
    """Return the top-level fields of a schema that the declared columns lack."""
    if written.language == AVRO:
        own = parse_avro(declared.version.content, declared.chosen)
        return unread_fields(parse_written(written.content), own)
    if written.language == PROTOBUF:
        known = {one.number for one in _declared_message(declared).fields}
        fields = _written_message(declared, written).fields
        return [one.name for one in fields if one.number not in known]
    names = json_schema_fields(written.content, written.references, declared.chosen).names
    return [name for name in names if name not in columns_format(declared).fields.names]


def _avro_reader(declared: DeclaredColumns, written: WholeSchema, begin: int) -> ReadGroup:
    """Return the reader of Avro values. Raises UnresolvableError: it cannot be read as declared."""
    own = parse_avro(declared.version.content, declared.chosen)
    other = parse_written(written.content)
    read = resolving_reader(other, own, begin)
    columns = arrow_schema(columns_format(declared).fields)
    bulk = bulk_reader(other, own, begin, columns)

    def read_each(values: pa.Array) -> tuple[pa.Table, pa.Array]:
        return read_values(values, read, columns)

    if bulk is None:
        return read_each
    return lambda values: in_order(len(values), in_both(values, bulk, read_each), columns)


def _protobuf_reader(
    declared: DeclaredColumns, written: WholeSchema, indexes: Sequence[int] | None
) -> ReadGroup:
    """Return the reader of the Protobuf message at ``indexes`` in the written file.

    :raises ValueError: the file does not have the message, or it cannot be read as declared.
    """
    message = _declared_message(declared)
    place = _place(_file(written), declared.message)
    validate_resolvable(_written_message(declared, written), message, declared.chosen.leave_out)
    columns = arrow_schema(columns_format(declared).fields)
    if indexes is not None and list(indexes) != place:
        reason = f"the value is message {list(indexes)} of its file, and not {place}"
        return lambda values: refused(len(values), reason, columns)
    is_framed = indexes is None
    read = message_reader(message, is_framed=is_framed, place=place, chosen=declared.chosen)
    return lambda values: read_values(values, read, columns)


def _declared_message(declared: DeclaredColumns) -> Any:
    return find_message(b64decode(declared.version.content), declared.message)


def _written_message(declared: DeclaredColumns, written: WholeSchema) -> Any:
    return find_message(b64decode(written.content), declared.message)


def _file(written: WholeSchema) -> Any:
    return FileDescriptorSet.FromString(b64decode(written.content)).file[-1]


def _place(file: Any, wanted: str) -> list[int]:
    """Return the indexes that lead to a message in a file."""

    def within(messages: Any, prefix: str) -> list[int] | None:
        for index, one in enumerate(messages):
            name = f"{prefix}.{one.name}" if prefix else one.name
            if name == wanted:
                return [index]
            inner = within(one.nested_type, name)
            if inner is not None:
                return [index, *inner]
        return None

    found = within(file.message_type, file.package)
    if found is None:
        raise UnresolvableError(f"its file has no message {wanted}")
    return found
