"""Declares Avro values with a schema from a file: ``schema=avro_schema("orders.avsc")``.

Decides how a schema is read from its file and stored as plain text in a ``TopicSpec``.
``avro_types`` and ``avro_reading`` decide the meaning of types and bytes.
Invariant: a declaration can be read anywhere without the file.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
from pyspark.sql import types

from orchestration.formats.avro_reading import record_reader, spark_fields
from orchestration.formats.avro_types import ALL, AvroType, parse_avro
from orchestration.formats.columns import (
    Chosen,
    Framing,
    SchemaFileError,
    UnfitError,
    arrow_schema,
    read_file,
    read_values,
    unframed,
    validate_framing,
)
from orchestration.project.location import in_project
from orchestration.project.names import names_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroSchema:
    """A format that reads values in Avro.

    ``avro_schema`` makes it from a file. ``text`` is the schema's JSON. ``older_ends`` are the
    numbers of fields in older schemas: a value may end after so many fields.
    """

    KIND: ClassVar[str] = "avro"

    text: str
    framing: Framing = "plain"
    older_ends: tuple[int, ...] = ()
    chosen: Chosen = ALL

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        """Return the schema from the value under ``KIND`` in its ``declared()``."""
        ends = tuple(declared["older_ends"])
        return cls(
            text=declared["text"],
            framing=declared["framing"],
            older_ends=ends,
            chosen=Chosen.of(declared),
        )

    @property
    def fields(self) -> types.StructType:
        """Return the columns of a record. A column is nullable only if its type includes null."""
        return spark_fields(_parsed(self.text, self.chosen))

    def read(self, values: pa.Array) -> tuple[pa.Table, pa.Array]:
        """Read those ``values`` (binary) that fit into rows. Return the rows and a fault per value.

        The fault is null if the value fits.
        """
        read, schema = _reading(self)
        return read_values(values, read, schema)

    def declared(self) -> dict[str, Any]:
        """Return the schema as a JSON object."""
        chosen = {} if self.chosen == ALL else self.chosen.declared()
        return {
            self.KIND: {
                "text": self.text,
                "framing": self.framing,
                "older_ends": list(self.older_ends),
                **chosen,
            }
        }


def avro_schema(
    file: str | Path,
    *,
    framing: Framing = "plain",
    older: Sequence[str | Path] = (),
    leave_out: str | Sequence[str] = (),
    depth: int = 0,
) -> AvroSchema:
    """Return the schema of ``file`` (JSON, usually ``.avsc``) for a ``TopicSpec``.

    A relative path begins at the project's folder. A value is one record in Avro's binary encoding.
    With ``framing="confluent"`` five bytes come before it, as producers with a schema registry
    write them: a zero and the id of their schema. The id is ignored, because all records are read
    by the schema of the file. ``older`` are files of earlier schemas of the topic's records. An
    earlier schema must have the first fields of this one. In its records the fields that were added
    later have their defaults. A record of any other schema does not fit.

    Fields at the paths ``leave_out`` (``"tree"``, ``"lines[].tree"``) become no columns. A record
    may be nested within itself ``depth`` times. A value that is nested deeper does not fit.

    :raises SchemaFileError: a file cannot be read, is not a schema of a record, or has a type that
        a table cannot hold, or an older schema is not the beginning of this one.
    :raises ValueError: the framing is unknown.
    """
    validate_framing(framing)
    chosen = Chosen(leave_out=names_of(leave_out), depth=depth)
    text, record = _from_file(file, chosen)
    ends = []
    for one in older:
        _, before = _from_file(one, chosen, is_older=True)
        count = len(before.fields)
        if count > len(record.fields) or before.fields != record.fields[:count]:
            raise SchemaFileError(
                f"the older schema {in_project(one)} is not the beginning of {in_project(file)}:"
                " only fields that were added at the end can be told from a record's bytes. Add"
                " fields at the end and change no others, or use a new topic"
            )
        ends.append(count)
    found = AvroSchema(
        text=text,
        framing=framing,
        older_ends=tuple(sorted({*ends} - {len(record.fields)})),
        chosen=chosen,
    )
    try:
        _reading(found)
    except UnfitError as error:
        raise SchemaFileError(
            f"a default in the schema file {in_project(file)} does not fit: {error}"
        ) from error
    except ValueError as error:
        raise SchemaFileError(
            f"the schema file {in_project(file)} cannot be read together with older ones: {error}"
        ) from error
    return found


def _from_file(file: str | Path, chosen: Chosen, *, is_older: bool = False) -> tuple[str, AvroType]:
    text = read_file(file)
    try:
        record = parse_avro(text, chosen, is_older=is_older)
        return json.dumps(json.loads(text), separators=(",", ":")), record
    except ValueError as error:
        raise SchemaFileError(
            f"the schema file {in_project(file)} is not an Avro schema of a topic: {error}"
        ) from error


@lru_cache
def _parsed(text: str, chosen: Chosen) -> AvroType:
    return parse_avro(text, chosen)


@lru_cache
def _reading(schema: AvroSchema) -> tuple[Callable[[bytes], Sequence[Any]], pa.Schema]:
    record = _parsed(schema.text, schema.chosen)
    begin = unframed if schema.framing == "confluent" else _first
    return record_reader(record, begin, schema.older_ends), arrow_schema(spark_fields(record))


def _first(_: bytes) -> int:
    return 0
