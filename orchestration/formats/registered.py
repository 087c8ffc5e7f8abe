"""Values with a schema registry: ``TopicSpec(..., schema=from_registry("orders-value"))``.

Decides how a subject declares columns, and what becomes of each value: the schema that its prefix
names reads it, as the declared version has it. ``registry`` asks, ``prefixes`` groups the values of
a batch, and the formats of the languages read them.
Invariants: a declaration can be read anywhere without the registry. A registry that is away makes
no dead letters: reading stops, and the records wait.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyspark.sql import types

from orchestration.formats.avro import AvroSchema
from orchestration.formats.avro_resolving import UnresolvableError, resolving_reader
from orchestration.formats.avro_types import parse_avro
from orchestration.formats.columns import NO_PREFIX, ValueFormat, arrow_schema, read_values
from orchestration.formats.descriptors import find_message
from orchestration.formats.json_schema_fields import json_schema_fields
from orchestration.formats.json_values import JsonFormat
from orchestration.formats.prefixes import (
    NO_ID,
    by_schema,
    in_order,
    refused,
    schema_ids,
    without_prefix,
)
from orchestration.formats.protobuf import ProtobufSchema
from orchestration.formats.protobuf_reading import message_reader
from orchestration.formats.registry import (
    AVRO,
    JSON,
    PROTOBUF,
    RegistrySchemaError,
    SubjectVersion,
    UnknownSchemaError,
    file_descriptor,
    registry_address,
    subject_version,
    versions_of,
    written_schema,
)
from orchestration.values.strict_json import NULL_VALUE

UnknownSchema = Literal["dead_letter", "wait"]
UNKNOWN_SCHEMA: tuple[UnknownSchema, ...] = ("dead_letter", "wait")
ReadGroup = Callable[[pa.Array], tuple[pa.Table, pa.Array]]
"""Reads values of one schema, each with its prefix."""


class IncompatibleSchemaError(ValueError):
    """A version of a subject cannot be read as the declared one. The text names both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySchema:
    """A format that reads values by the schemas that their prefixes name.

    ``from_registry`` makes it. ``address`` is the registry's URL, and holds no user, because each
    process logs in as its environment says. ``declared_version`` has the columns. ``message`` is
    that of Protobuf.
    """

    KIND: ClassVar[str] = "registry"

    address: str
    declared_version: SubjectVersion
    unknown_schema: UnknownSchema = "dead_letter"
    message: str = ""

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        """Return the schema whose ``declared()`` holds ``declared``."""
        own = {name: declared[name] for name in ("address", "unknown_schema", "message")}
        version = {name: one for name, one in declared.items() if name not in own}
        return cls(declared_version=SubjectVersion(**version), **own)

    @property
    def fields(self) -> types.StructType:
        """Return the columns of the declared version."""
        return _format(self).fields

    def read(self, values: pa.Array) -> tuple[pa.Table, pa.Array]:
        """Return the columns of the fitting ``values`` (binary), and the fault of each value.

        :raises RegistryAwayError: no registry responds.
        :raises UnknownSchemaError: the registry does not know a schema, and the topic waits for it.
        :raises IncompatibleSchemaError: another version of the subject cannot be read as declared.
        """
        columns, ids = arrow_schema(self.fields), schema_ids(values)
        parts = [
            (places, *self._read_group(schema_id, values.take(pa.array(places)), columns))
            for schema_id, places in by_schema(ids)
        ]
        return in_order(len(values), parts, columns) if parts else refused(0, "", columns)

    def declared(self) -> dict[str, Any]:
        """Return the schema as a JSON object."""
        own = {
            "address": self.address,
            "unknown_schema": self.unknown_schema,
            "message": self.message,
        }
        return {self.KIND: {**asdict(self.declared_version), **own}}

    def __str__(self) -> str:
        one = self.declared_version
        return f"version {one.version} of {one.subject} (schema id {one.id})"

    def _read_group(
        self, schema_id: int, values: pa.Array, columns: pa.Schema
    ) -> tuple[pa.Table, pa.Array]:
        if schema_id == NO_ID:
            faults = pa.array(
                [NO_PREFIX if one else NULL_VALUE for one in values.is_valid().to_pylist()],
                pa.string(),
            )
            return columns.empty_table(), faults
        try:
            reader = _group_reader(self, schema_id)
        except UnknownSchemaError as error:
            reason = f"its schema id {schema_id} is not known to the registry {self.address}"
            if self.unknown_schema == "wait":
                raise UnknownSchemaError(
                    f"a record waits, because {reason}: register it, or let such records be dead"
                    " letters"
                ) from error
            return refused(len(values), reason, columns)
        return refused(len(values), reader, columns) if isinstance(reader, str) else reader(values)


def from_registry(
    subject: str,
    *,
    version: int | None = None,
    message: str | None = None,
    unknown_schema: UnknownSchema = "dead_letter",
) -> RegistrySchema:
    """Return the schema of a subject for a ``TopicSpec``, whose values have a registry's prefix.

    The registry of TIDELOG_SCHEMA_REGISTRY_URL is asked when the project is loaded. The columns are
    those of the latest version, or of ``version``. ``message`` is the message of a Protobuf file
    (with its package), by default the first one. A JSON Schema has to be an object with properties.

    Each value is read by the schema whose id is before it, and becomes a row of the declared
    version, as Avro and Protobuf resolve schemas. A value whose id the registry does not know is a
    dead letter, or with ``unknown_schema="wait"`` keeps the topic's records waiting.

    While no registry responds a project is loaded with the version that its data directory had
    before, with a warning.

    :raises RegistrySchemaError: no registry responds, there is no such subject or version, or a
        table cannot hold its values. The text names address and subject.
    :raises ValueError: there is no such way with unknown schemas.
    """
    if unknown_schema not in UNKNOWN_SCHEMA:
        raise ValueError(
            f"unknown_schema is {unknown_schema!r}: it is one of {', '.join(UNKNOWN_SCHEMA)}"
        )
    address = registry_address()
    declared = subject_version(address, subject, version)
    try:
        named = message or (_first_message(declared) if declared.language == PROTOBUF else "")
        found = RegistrySchema(
            address=address, declared_version=declared, unknown_schema=unknown_schema, message=named
        )
        _validate(found)
    except ValueError as error:
        raise RegistrySchemaError(
            f"version {declared.version} of the subject {subject} at {address} cannot be a topic's"
            f" schema: {error}"
        ) from error
    return found


def _first_message(declared: SubjectVersion) -> str:
    root = FileDescriptorSet.FromString(b64decode(declared.content)).file[-1]
    if not root.message_type:
        raise ValueError("it has no message")
    name = root.message_type[0].name
    return f"{root.package}.{name}" if root.package else name


def _validate(schema: RegistrySchema) -> None:
    """Refuse a schema by which no value could be read. Raises ValueError."""
    if schema.declared_version.language not in (AVRO, JSON, PROTOBUF):
        raise ValueError(
            f"it is in the language {schema.declared_version.language}, which is not read"
        )
    if schema.message and schema.declared_version.language != PROTOBUF:
        raise ValueError(f"it has no messages, and message={schema.message!r} names one")
    _format(schema).read(pa.array([], pa.binary()))


@lru_cache
def _format(schema: RegistrySchema) -> ValueFormat:
    """Return the format of bare values of the declared version."""
    declared = schema.declared_version
    if declared.language == AVRO:
        return AvroSchema(text=declared.content)
    if declared.language == PROTOBUF:
        return ProtobufSchema(message=schema.message, descriptors=b64decode(declared.content))
    return JsonFormat(json_schema_fields(declared.content))


@lru_cache(maxsize=1_000)
def _group_reader(schema: RegistrySchema, schema_id: int) -> ReadGroup | str:
    """Return the reader of values with a schema's id, or the reason why there is none.

    :raises IncompatibleSchemaError: it is a version of the subject that cannot be read as declared.
    """
    declared = schema.declared_version
    written = written_schema(schema.address, declared.subject, schema_id)
    language = written.schema_type.upper()
    if language != declared.language:
        return f"its schema id {schema_id} is {language}, and {schema} is {declared.language}"
    try:
        if language == AVRO:
            return _avro_reader(schema, written.text)
        return (
            _protobuf_reader(schema, written.text) if language == PROTOBUF else _json_reader(schema)
        )
    except ValueError as error:
        versions = versions_of(schema.address, schema_id)
        if declared.subject not in versions:
            others = (
                ", ".join(
                    f"version {version} of {name}" for name, version in sorted(versions.items())
                )
                or "no subject"
            )
            return f"its schema id {schema_id} is {others}, and cannot be read as {schema}: {error}"
        raise IncompatibleSchemaError(
            f"records of version {versions[declared.subject]} of {declared.subject} (schema id"
            f" {schema_id}) cannot be read as {schema}, which is declared: {error}. Register a"
            " version that reads both and load the project anew, or use a new topic"
        ) from error


def _avro_reader(schema: RegistrySchema, text: str) -> ReadGroup:
    """Return the reader of Avro. Raises ValueError: it cannot be read as declared."""
    read = resolving_reader(parse_avro(text), parse_avro(schema.declared_version.content))
    columns = arrow_schema(schema.fields)
    return lambda values: read_values(without_prefix(values), read, columns)


def _protobuf_reader(schema: RegistrySchema, text: str) -> ReadGroup:
    """Return the reader of a message at its place in the written file.

    :raises ValueError: the file does not have the message.
    """
    message = find_message(b64decode(schema.declared_version.content), schema.message)
    place = _place(file_descriptor(text), schema.message)
    read, columns = (
        message_reader(message, is_framed=True, place=place),
        arrow_schema(schema.fields),
    )
    return lambda values: read_values(values, read, columns)


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


def _json_reader(schema: RegistrySchema) -> ReadGroup:
    return lambda values: _format(schema).read(without_prefix(values))
