"""Reads values whose schemas are in a registry: ``schema=from_registry("orders-value")``.

Decides how a subject declares columns. Each value is read by the schema that its prefix or header
names, into the declared columns. ``registry`` asks the registry, ``prefixes`` groups the values of
a batch, and ``resolving`` reads them. Invariants: a declaration can be read anywhere without the
registry. An unreachable registry makes no dead letters: reading stops, and the records wait.
"""

import time
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyspark.sql import types

from log_service.client import SerializationError
from log_service.client.schemas.cache import BoundedCache
from log_service.client.schemas.values import AVRO, JSON, PROTOBUF
from log_service.client.schemas.wire_format import SchemaIdentity, header_name, read_identity
from orchestration.formats.avro import AvroSchema
from orchestration.formats.avro_types import ALL
from orchestration.formats.columns import NO_PREFIX, Chosen, ValueFormat, arrow_schema
from orchestration.formats.json_values import has_variant
from orchestration.formats.prefixes import by_schema, in_order, refused
from orchestration.formats.protobuf import ProtobufSchema
from orchestration.formats.registry import (
    RegistrySchemaError,
    SubjectVersion,
    UnknownSchemaError,
    registry_address,
    subject_version,
    unknown_schemas,
    versions_of,
    written_schema,
)
from orchestration.formats.resolving import (
    DeclaredColumns,
    ReadGroup,
    columns_format,
    group_reader,
)
from orchestration.project.names import names_of
from orchestration.values.strict_json import NULL_VALUE

UnknownSchema = Literal["dead_letter", "wait"]
UNKNOWN_SCHEMA: tuple[UnknownSchema, ...] = ("dead_letter", "wait")
MOST_READERS = 1_000
"""The most schemas of a topic whose readers a process keeps."""


class IncompatibleSchemaError(ValueError):
    """A version of a subject cannot be read as the declared version. The text names both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySchema:
    """A format that reads values by the schemas that their prefixes or headers name.

    ``from_registry`` makes it, and ``registered_schema`` for a topic with ``registered``.
    ``address`` is the registry's URL without a user, because each process logs in as its
    environment says. ``declared_version`` has the columns. ``message`` names the Protobuf message.
    """

    KIND: ClassVar[str] = "registry"

    address: str
    declared_version: SubjectVersion
    unknown_schema: UnknownSchema = "dead_letter"
    message: str = ""
    chosen: Chosen = ALL

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        """Return the schema from the value under ``KIND`` in its ``declared()``."""
        own = {name: declared[name] for name in ("address", "unknown_schema", "message")}
        others = {*own, "leave_out", "depth"}
        version = {name: one for name, one in declared.items() if name not in others}
        return cls(declared_version=SubjectVersion.of(version), chosen=Chosen.of(declared), **own)

    @property
    def columns(self) -> DeclaredColumns:
        """Return the columns into which values are read."""
        return DeclaredColumns(
            version=self.declared_version, message=self.message, chosen=self.chosen
        )

    @property
    def fields(self) -> types.StructType:
        """Return the columns of the declared version."""
        return columns_format(self.columns).fields

    def read(
        self, values: pa.Array, headers: pa.Array | None = None, *, is_key: bool = False
    ) -> tuple[pa.Table, pa.Array]:
        """Read those ``values`` (binary) that fit into rows. Return the rows and a fault per value.

        ``headers`` are the headers of the records. With ``is_key`` the values are keys,
        and the header for keys names their schema.

        :raises RegistryAwayError: no registry responds.
        :raises UnknownSchemaError: the registry does not know a schema, and the topic waits for it.
        :raises IncompatibleSchemaError: another version of the subject cannot be read as declared.
        """
        name, columns = header_name(is_key=is_key), arrow_schema(self.fields)
        parts = []
        for named, places in by_schema(values, headers, name):
            is_all = len(places) == len(values)
            group = values if is_all else values.take(pa.array(places))
            parts.append((places, *self._read_group(named, name, group, columns)))
        return in_order(len(values), parts, columns) if parts else refused(0, "", columns)

    def declared(self) -> dict[str, Any]:
        """Return the schema as a JSON object."""
        own = {
            "address": self.address,
            "unknown_schema": self.unknown_schema,
            "message": self.message,
            **({} if self.chosen == ALL else self.chosen.declared()),
        }
        return {self.KIND: {**asdict(self.declared_version), **own}}

    def metadata(self) -> dict[str, Any]:
        """Return the schema as the metadata of a materialization: text, version and id."""
        one = self.declared_version
        numbers = {"schema_version": one.version, "schema_id": one.id} if one.version else {}
        return {"schema": str(self), **numbers}

    def __str__(self) -> str:
        return str(self.declared_version)

    def _read_group(
        self, named: int | bytes | None, name: str, values: pa.Array, columns: pa.Schema
    ) -> tuple[pa.Table, pa.Array]:
        """Return the rows and faults of values that all name the same schema.

        ``named`` is the id in their prefix, or the content of their header ``name``.
        """
        if named is None:
            is_valid = values.is_valid().to_pylist()
            faults = pa.array([NO_PREFIX if one else NULL_VALUE for one in is_valid], pa.string())
            return columns.empty_table(), faults
        try:
            identity = self._identity(named, name)
        except SerializationError:
            reason = f"its header {name} names no schema: {bytes(named)[:20].hex(' ')}"
            return refused(len(values), reason, columns)
        reader = self._reader(identity, is_in_header=isinstance(named, bytes))
        if isinstance(reader, str):
            return refused(len(values), reader, columns)
        return reader(values)

    def _identity(self, named: int | bytes, name: str) -> SchemaIdentity:
        if isinstance(named, int):
            return SchemaIdentity(id=named)
        has_indexes = self.declared_version.language == PROTOBUF
        is_key = name == header_name(is_key=True)
        return read_identity(b"", [(name, named)], is_key=is_key, has_indexes=has_indexes)[0]

    def _reader(self, identity: SchemaIdentity, *, is_in_header: bool) -> ReadGroup | str:
        """Return the reader of values with a schema, or the reason why there is none.

        A topic with ``unknown_schema="wait"`` asks for an unknown schema in each run, and stops at
        the first one. Other topics remember unknown schemas, so that many of them cause few
        requests to the registry.
        """
        readers, key = readers_of(self), (identity, is_in_header)
        known = readers.get(key)
        if known is not None:
            return known
        unknown, is_waiting = unknown_schemas(self.address), self.unknown_schema == "wait"
        bare = SchemaIdentity(id=identity.id, guid=identity.guid)
        why = None if is_waiting else unknown.why_not_asked(bare)
        if why is None:
            try:
                found = _group_reader(self, identity, is_in_header=is_in_header)
            except UnknownSchemaError as error:
                why = "is not known"
                if is_waiting:
                    raise UnknownSchemaError(
                        f"a record waits, because its {identity} {why} to the registry "
                        f"{self.address}: register it, or let such records be dead letters"
                    ) from error
                unknown.add(bare)
            else:
                readers.put(key, found)
                return found
        return f"its {identity} {why} to the registry {self.address}"


def from_registry(
    subject: str,
    *,
    version: int | None = None,
    message: str | None = None,
    unknown_schema: UnknownSchema = "dead_letter",
    leave_out: str | Sequence[str] = (),
    depth: int = 0,
) -> RegistrySchema:
    """Return the schema of a subject for a ``TopicSpec``, whose values name their schemas.

    The registry of TIDELOG_SCHEMA_REGISTRY_URL is asked when the project is loaded. The columns are
    those of the latest version, or of ``version``. ``message`` is the message of a Protobuf file
    (with its package), by default the first one. A JSON Schema has to be an object with properties.
    Schemas that it refers to are a part of it.

    Each value is read by the schema whose id is in its prefix, or whose guid or id is in the header
    ``__value_schema_id``. It becomes a row of the declared version by the rules of Avro and
    Protobuf for schema resolution. A value whose schema the registry does not know becomes a dead
    letter. With ``unknown_schema="wait"`` the topic's records wait instead.

    Fields at the paths ``leave_out`` (``"tree"``, ``"lines[].tree"``) become no columns. A record
    may be nested within itself ``depth`` times. A value that is nested deeper does not fit, but in
    JSON the deeper part is ignored.

    If no registry responds, a project is loaded with the version that its data directory stored
    before, with a warning.

    :raises RegistrySchemaError: no registry responds, there is no such subject or version, or a
        table cannot hold its values. The text names address and subject.
    :raises ValueError: ``unknown_schema`` has another value.
    """
    _validate_unknown_schema(unknown_schema)
    chosen = Chosen(leave_out=names_of(leave_out), depth=depth)
    address = registry_address()
    declared = subject_version(address, subject, version)
    try:
        named = message or (_first_message(declared) if declared.language == PROTOBUF else "")
        found = RegistrySchema(
            address=address,
            declared_version=declared,
            unknown_schema=unknown_schema,
            message=named,
            chosen=chosen,
        )
        _validate(found)
    except ValueError as error:
        raise RegistrySchemaError(
            f"version {declared.version} of the subject {subject} at {address} cannot be a topic's "
            f"schema: {error}"
        ) from error
    return found


def registered_schema(
    subject: str,
    schema: AvroSchema | ProtobufSchema | types.StructType,
    unknown_schema: UnknownSchema = "dead_letter",
) -> RegistrySchema:
    """Return the format of values whose schemas are in ``subject``, as the columns of ``schema``.

    A ``schema`` that is a struct type declares the fields of values in JSON. No registry is asked.
    ``unknown_schema`` is as in ``from_registry``.

    :raises ValueError: values with a registry cannot be read as ``schema``.
    """
    _validate_unknown_schema(unknown_schema)
    made = partial(RegistrySchema, address=registry_address(), unknown_schema=unknown_schema)
    if isinstance(schema, types.StructType):
        if has_variant(schema):
            raise ValueError("it has a VARIANT: only JSON without a registry is read as one")
        return made(declared_version=_own(subject, JSON, schema.json()))
    if isinstance(schema, AvroSchema):
        if schema.older_ends:
            raise ValueError(
                "it names older schemas, which are found in the registry: leave older out"
            )
        return made(declared_version=_own(subject, AVRO, schema.text), chosen=schema.chosen)
    descriptors = b64encode(schema.descriptors).decode()
    return made(
        declared_version=_own(subject, PROTOBUF, descriptors),
        message=schema.message,
        chosen=schema.chosen,
    )


def _own(subject: str, language: str, content: str) -> SubjectVersion:
    return SubjectVersion(subject=subject, version=0, id=0, language=language, content=content)


def _validate_unknown_schema(given: str) -> None:
    if given not in UNKNOWN_SCHEMA:
        raise ValueError(f"unknown_schema is {given!r}: it is one of {', '.join(UNKNOWN_SCHEMA)}")


def _first_message(declared: SubjectVersion) -> str:
    root = FileDescriptorSet.FromString(b64decode(declared.content)).file[-1]
    if not root.message_type:
        raise ValueError("it has no message")
    name = root.message_type[0].name
    return f"{root.package}.{name}" if root.package else name


def _validate(schema: RegistrySchema) -> None:
    """Refuse a schema by which no value could be read. Raises ValueError."""
    language = schema.declared_version.language
    if language not in (AVRO, JSON, PROTOBUF):
        raise ValueError(f"it is in the language {language}, which is not read")
    if schema.message and language != PROTOBUF:
        raise ValueError(f"it has no messages, and message={schema.message!r} names one")
    columns_format(schema.columns).read(pa.array([], pa.binary()))


def read_records(
    value_format: ValueFormat, values: pa.Array, headers: pa.Array | None, *, is_key: bool = False
) -> tuple[pa.Table, pa.Array]:
    """Return the rows and the faults of records' ``values``, as ``ValueFormat.read`` does.

    ``headers`` are the records' headers, because a header may name the schema of a value. With
    ``is_key`` the values are keys, and the header for keys names their schema.
    """
    if isinstance(value_format, RegistrySchema):
        return value_format.read(values, headers, is_key=is_key)
    return value_format.read(values)


@lru_cache
def readers_of(
    schema: RegistrySchema,
) -> BoundedCache[tuple[SchemaIdentity, bool], ReadGroup | str]:
    """Return this process's cache of readers for values of a topic."""
    del schema
    return BoundedCache(MOST_READERS, time.monotonic)


def _group_reader(
    schema: RegistrySchema, identity: SchemaIdentity, *, is_in_header: bool
) -> ReadGroup | str:
    """Return the reader of values with a schema, or the reason why there is none.

    :raises IncompatibleSchemaError: a version of the subject cannot be read as declared.
    """
    declared = schema.declared_version
    subject, bare = declared.subject, SchemaIdentity(id=identity.id, guid=identity.guid)
    try:
        written = written_schema(schema.address, subject, bare)
        if written.language != declared.language:
            return f"its {identity} is {written.language}, and {schema} is {declared.language}"
        return group_reader(schema.columns, written, identity.indexes if is_in_header else None)
    except ValueError as error:
        versions = versions_of(schema.address, subject, bare)
        if subject not in versions:
            named = sorted(versions.items())
            others = ", ".join(f"version {version} of {name}" for name, version in named)
            return (
                f"its {identity} is {others or 'no subject'}, and cannot be read as"
                f" {schema}: {error}"
            )
        advice = "Register a version that reads both and load the project anew"
        if not declared.version:
            advice = "Correct the declared columns"
        raise IncompatibleSchemaError(
            f"records of version {versions[subject]} of {subject} ({identity}) cannot be read as "
            f"{schema}, {'which is declared' if declared.version else 'as the project has them'}: "
            f"{error}. {advice}, or use a new topic"
        ) from error
