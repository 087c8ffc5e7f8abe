"""Declares Protobuf values with a message type from a file.

An example is ``TopicSpec(..., schema=protobuf_schema("orders.desc", message="shop.Order"))``.
Decides how a message's descriptors are stored in the declaration. ``protobuf_reading`` decides the
meaning of fields and bytes.
Invariant: a declaration can be read anywhere without the file.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
from pyspark.sql import types

from orchestration.formats.columns import (
    Chosen,
    Framing,
    SchemaFileError,
    arrow_schema,
    read_values,
    validate_framing,
)
from orchestration.formats.descriptors import descriptor_set, find_message
from orchestration.formats.protobuf_reading import ALL, message_reader, spark_fields
from orchestration.project.location import in_project
from orchestration.project.names import names_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufSchema:
    """A format that reads values in Protobuf.

    ``protobuf_schema`` makes it from a file. ``descriptors`` is a serialized FileDescriptorSet.
    """

    KIND: ClassVar[str] = "protobuf"

    message: str
    framing: Framing = "plain"
    descriptors: bytes = field(repr=False)
    chosen: Chosen = ALL

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        """Return the schema from the value under ``KIND`` in its ``declared()``."""
        descriptors = base64.b64decode(declared["descriptors"])
        return cls(
            message=declared["message"],
            framing=declared["framing"],
            descriptors=descriptors,
            chosen=Chosen.of(declared),
        )

    @property
    def fields(self) -> types.StructType:
        """Return the columns of a message. Columns of fields without presence are not nullable."""
        return _fields(self)

    def read(self, values: pa.Array) -> tuple[pa.Table, pa.Array]:
        """Read those ``values`` (binary) that fit into rows. Return the rows and a fault per value.

        The fault is null if the value fits.
        """
        read, schema = _reading(self)
        return read_values(values, read, schema)

    def declared(self) -> dict[str, Any]:
        """Return the schema as a JSON object."""
        descriptors = base64.b64encode(self.descriptors).decode()
        return {
            self.KIND: {
                "message": self.message,
                "framing": self.framing,
                "descriptors": descriptors,
                **self.chosen.declared(),
            }
        }


def protobuf_schema(
    file: str | Path,
    *,
    message: str,
    framing: Framing = "plain",
    leave_out: str | Sequence[str] = (),
    depth: int = 0,
) -> ProtobufSchema:
    """Return the schema of ``message`` (with its package: ``shop.Order``) for a ``TopicSpec``.

    ``file`` is a set of descriptors, which ``protoc --include_imports
    --descriptor_set_out=orders.desc orders.proto`` makes, or a ``.proto`` file. A ``.proto`` file
    is compiled whenever the declaration is loaded, which needs the extra ``proto``. Its imports are
    searched in its folder. A relative path begins at the project's folder.

    A value is one message. With ``framing="confluent"`` a zero, the schema's id in four bytes and
    the indexes of the message in its file come before it, as producers with a schema registry write
    them. The id is ignored. A value with the indexes of another message does not fit.

    Fields at the paths ``leave_out`` (``"tree"``, ``"lines[].tree"``) become no columns. A message
    may be nested within itself ``depth`` times. A value that is nested deeper does not fit.

    :raises SchemaFileError: the file cannot be read or compiled, has no such message, or the
        message has a field that a table cannot hold.
    :raises ValueError: the framing is unknown.
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
        raise SchemaFileError(
            f"the schema file {path} cannot be a topic's schema: {error}"
        ) from error
    return found


@lru_cache
def _fields(schema: ProtobufSchema) -> types.StructType:
    return spark_fields(find_message(schema.descriptors, schema.message), schema.chosen)


@lru_cache
def _reading(schema: ProtobufSchema) -> tuple[Callable[[bytes], Sequence[Any]], pa.Schema]:
    schema_of_columns = arrow_schema(_fields(schema))
    message = find_message(schema.descriptors, schema.message)
    return (
        message_reader(message, is_framed=schema.framing == "confluent", chosen=schema.chosen),
        schema_of_columns,
    )
