"""Protobuf values with a schema from a file: ``TopicSpec(..., schema=protobuf_schema("orders.desc", message="shop.Order"))``.

Decides how a message's descriptors are kept with the declaration. What fields and bytes mean is decided in ``protobuf_reading``.
Invariant: a declaration that was made can be read wherever it is taken, without the file.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
from pyspark.sql import types

from orchestration.formats.columns import Chosen, Framing, SchemaFileError, arrow_schema, read_values, validate_framing
from orchestration.formats.descriptors import descriptor_set, find_message
from orchestration.formats.protobuf_reading import ALL, message_reader, spark_fields
from orchestration.names import names_of
from orchestration.projects import in_project


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufSchema:
    """How values in Protobuf are read; ``protobuf_schema`` makes it from a file. ``descriptors`` are a serialized FileDescriptorSet."""

    KIND: ClassVar[str] = "protobuf"

    message: str
    framing: Framing = "plain"
    descriptors: bytes = field(repr=False)
    chosen: Chosen = ALL

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        """Return the schema whose ``declared()`` holds this."""
        descriptors = base64.b64decode(declared["descriptors"])
        return cls(message=declared["message"], framing=declared["framing"], descriptors=descriptors, chosen=Chosen.of(declared))

    @property
    def fields(self) -> types.StructType:
        """The columns of a message; those without presence are never null."""
        return _fields(self)

    def read(self, values: pa.Array) -> tuple[pa.Table, pa.Array]:
        """Return the columns of those of ``values`` (binary) that fit, and for each value why it does not fit, null where it does."""
        read, schema = _reading(self)
        return read_values(values, read, schema)

    def declared(self) -> dict[str, Any]:
        """Return the schema as a JSON object."""
        descriptors = base64.b64encode(self.descriptors).decode()
        return {self.KIND: {"message": self.message, "framing": self.framing, "descriptors": descriptors, **self.chosen.declared()}}


def protobuf_schema(
    file: str | Path, *, message: str, framing: Framing = "plain", leave_out: str | Sequence[str] = (), depth: int = 0
) -> ProtobufSchema:
    """Return the schema of ``message`` (with its package: ``shop.Order``) for a ``TopicSpec``.

    ``file`` is a set of descriptors, which ``protoc --include_imports --descriptor_set_out=orders.desc orders.proto`` makes, or a
    ``.proto`` file, which is compiled whenever the declaration is loaded and needs the extra ``proto``. Imports are looked for in its
    folder. A relative path begins at the project's folder.

    A value is one message. With ``framing="confluent"`` there come before it a zero, the schema's id in four bytes and the place of the
    message in its file, as producers with a schema registry write them. The id is not looked at; another message does not fit.

    Fields at the paths ``leave_out`` (``"tree"``, ``"lines[].tree"``) become no columns. A message may be within itself ``depth`` times; a
    value that goes on below does not fit.

    :raises SchemaFileError: the file cannot be read or compiled, has no such message, or the message has what a table cannot hold.
    :raises ValueError: there is no such framing.
    """
    validate_framing(framing)
    path = in_project(file)
    descriptors = descriptor_set(path)
    find_message(descriptors, message, str(path))
    chosen = Chosen(leave_out=names_of(leave_out), depth=depth)
    found = ProtobufSchema(message=message, framing=framing, descriptors=descriptors, chosen=chosen)
    try:
        _reading(found)
    except ValueError as error:
        raise SchemaFileError(f"the schema file {path} cannot be a topic's schema: {error}") from error
    return found


@lru_cache
def _fields(schema: ProtobufSchema) -> types.StructType:
    return spark_fields(find_message(schema.descriptors, schema.message), schema.chosen)


@lru_cache
def _reading(schema: ProtobufSchema) -> tuple[Callable[[bytes], Sequence[Any]], pa.Schema]:
    schema_of_columns = arrow_schema(_fields(schema))
    message = find_message(schema.descriptors, schema.message)
    return message_reader(message, is_framed=schema.framing == "confluent", chosen=schema.chosen), schema_of_columns
