"""Base classes of the serializers: find the schema id for a topic, then encode the value.

They decide under which subject a schema is registered or looked up, and cache the outcome for each
topic, so that only the first value of a topic asks the registry. A subclass for each schema
language returns the function that encodes a value. The subclasses here add the calls for tasks and
for threads.

Invariant: bytes that are returned name a schema that the registry has.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypedDict, TypeVar

from log_service.client.schemas.cache import BoundedCache
from log_service.client.schemas.errors import SerializationError
from log_service.client.schemas.exchange import Steps
from log_service.client.schemas.registry_client import (
    BlockingSchemaRegistryClient,
    RegistryClientBase,
    SchemaRegistryClient,
)
from log_service.client.schemas.registry_core import RegistryCore
from log_service.client.schemas.subject_names import SubjectNameStrategy, strategy_of
from log_service.client.schemas.values import RegisteredSchema, Schema
from log_service.client.schemas.wire_format import Indexes, header_value_of, prefix_of
from log_service.common.errors import ConfigError
from log_service.records.record import RecordHeader
from log_service.records.schema_names import header_name

R_co = TypeVar("R_co", bound=RegistryClientBase, covariant=True)
Encode = Callable[[Any], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSchema:
    """A schema with the texts of the schemas that it references, also indirectly, by their names.

    Each text comes after the texts that it references itself.
    """

    schema: Schema
    texts: Mapping[str, str]


def resolved(
    core: RegistryCore, schema: Schema, schema_type: str, fmt: str | None, about: str
) -> Steps[ResolvedSchema]:
    """Return a schema with the texts of its references.

    Raises:
        SerializationError: the schema is not of ``schema_type``. ``about`` names it in the text.
    """
    validate_type(schema, schema_type, about)
    return ResolvedSchema(schema=schema, texts=(yield from core.referenced_texts(schema, fmt=fmt)))


def validate_type(schema: Schema, schema_type: str, about: str) -> None:
    """Raise SerializationError if a schema is not of ``schema_type``."""
    if schema.schema_type != schema_type:
        raise SerializationError(
            f"{about} is {schema.schema_type}, and not {schema_type}: use the classes for"
            f" {schema.schema_type}"
        )


def validate_own_schema(
    schema: Schema | None, schema_type: str, parse: Callable[[ResolvedSchema], Any]
) -> None:
    """Check that an application's schema can be used. One with references is checked later.

    Raises:
        SerializationError: ``parse`` refuses the schema, or it is not of ``schema_type``.
    """
    if schema is None or schema.references:
        return
    validate_type(schema, schema_type, "the schema")
    try:
        parse(ResolvedSchema(schema=schema, texts={}))
    except Exception as error:
        raise SerializationError(f"the schema cannot be used: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """Return the text of an error, with its type unless it is a SerializationError."""
    return str(error) if isinstance(error, SerializationError) else repr(error)


def chained(*functions: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """Return the composition of functions, the first one first. None is left out."""
    given = [each for each in functions if each is not None]
    if len(given) == 1:
        return given[0]

    def call(value: Any) -> Any:
        for each in given:
            value = each(value)
        return value

    return call


class SerializerOptions(TypedDict, total=False):
    """The keywords of every serializer.

    With ``is_key`` it serializes keys. With ``auto_register_schemas``, which is the default, it
    registers its schema. Otherwise the schema must be registered already. With
    ``use_latest_version`` it writes with the latest version of the subject instead. With
    ``normalize_schemas`` the registry normalizes the schema before it compares.
    ``subject_name_strategy`` is ``topic``, ``record``, ``topic-record`` or a function.
    ``schema_id_in`` is ``prefix``, or ``header`` for the newer format.
    """

    is_key: bool
    auto_register_schemas: bool
    use_latest_version: bool
    normalize_schemas: bool
    subject_name_strategy: str | SubjectNameStrategy
    schema_id_in: Literal["prefix", "header"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Writes values of one topic with one schema."""

    topic: str
    header_name: str
    schema: str
    encode: Encode
    prefix: bytes
    header: bytes | None

    def write(self, value: Any, headers: list[RecordHeader] | None = None) -> bytes | None:
        """Return the bytes of a value, or None for None.

        With ``schema_id_in="header"`` the schema's header is appended to ``headers``. An earlier
        header of this name, such as that of a record which was read before, is removed.

        Raises:
            SerializationError: the value does not fit the schema.
            ConfigError: ``headers`` is missing and the format needs it.
        """
        if value is None:
            return None
        try:
            payload = self.encode(value)
        except Exception as error:
            raise SerializationError(
                f"the value for topic {self.topic} does not fit {self.schema}: {reason_of(error)}"
            ) from error
        if headers is not None:
            headers[:] = [each for each in headers if each[0] != self.header_name]
        if self.header is not None:
            if headers is None:
                raise ConfigError(
                    "schema_id_in='header' needs headers: pass a list to serialize(), and the same"
                    " list to send()"
                )
            headers.append((self.header_name, self.header))
        return self.prefix + payload


class Serializing(ABC, Generic[R_co]):
    """The part of a serializer that does no I/O."""

    schema_type: ClassVar[str]
    fmt: ClassVar[str | None] = None
    are_references_read: ClassVar[bool] = True
    indexes: Indexes = ()

    def __init__(
        self,
        registry: R_co,
        schema: Schema | None,
        *,
        is_key: bool = False,
        auto_register_schemas: bool | None = None,
        use_latest_version: bool = False,
        normalize_schemas: bool = False,
        subject_name_strategy: str | SubjectNameStrategy = "topic",
        schema_id_in: Literal["prefix", "header"] = "prefix",
    ) -> None:
        if use_latest_version and auto_register_schemas:
            raise ConfigError(
                "use_latest_version and auto_register_schemas exclude each other: keep one of them"
            )
        if schema is None and not use_latest_version:
            raise ConfigError("a schema is missing: give one, or use_latest_version=True")
        if schema_id_in not in {"prefix", "header"}:
            raise ConfigError(f"schema_id_in is {schema_id_in!r}; it may be prefix or header")
        self.registry = registry
        self._schema = schema
        self._is_key = is_key
        self._is_registering = (
            not use_latest_version if auto_register_schemas is None else auto_register_schemas
        )
        self._is_latest_used = use_latest_version
        self._is_normalized = normalize_schemas
        self._subject_of = strategy_of(subject_name_strategy)
        self._is_in_header = schema_id_in == "header"
        self._writers: BoundedCache[str, Writer] = new_cache(
            registry, is_latest_used=use_latest_version
        )

    @abstractmethod
    def record_name(self) -> str | None:
        """Return the record name of the schema for its subject, or None if it has no name."""

    @abstractmethod
    def encoder(self, found: ResolvedSchema) -> Encode:
        """Return the function that encodes values with the schema ``found``.

        Raises:
            Exception: the schema is invalid.
        """

    def own_schema(self, schema: Schema) -> Steps[Schema]:
        """Return the schema to register or to look up, by default ``schema`` itself."""
        yield from ()
        return schema

    def find_writer(self, topic: str) -> Steps[Writer]:
        """Make the writer of a topic's values, and cache it.

        Raises:
            SchemaRegistryError: the schema cannot be registered, or does not exist.
            SerializationError: the schema cannot be parsed.
        """
        core = self.registry.core
        try:
            name = self.record_name()
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise SerializationError(
                f"the schema for topic {topic} cannot be parsed: {error!r}"
            ) from error
        subject = self._subject_of(topic, "key" if self._is_key else "value", name)
        found = yield from self._find_schema(core, subject)
        about = f"schema id {found.id} of subject {subject!r}"
        if self.are_references_read:
            known = yield from resolved(core, found.schema, self.schema_type, self.fmt, about)
        else:
            validate_type(found.schema, self.schema_type, about)
            known = ResolvedSchema(schema=found.schema, texts={})
        try:
            encode = self.encoder(known)
        except Exception as error:
            raise SerializationError(f"{about} cannot be used: {reason_of(error)}") from error
        writer = Writer(
            topic=topic,
            header_name=header_name(is_key=self._is_key),
            schema=about,
            encode=encode,
            prefix=b"" if self._is_in_header else prefix_of(found.id, self.indexes),
            header=(
                header_value_of(self._guid(found, subject), self.indexes)
                if self._is_in_header
                else None
            ),
        )
        self._writers.put(topic, writer)
        return writer

    def _find_schema(self, core: RegistryCore, subject: str) -> Steps[RegisteredSchema]:
        if self._is_latest_used or self._schema is None:
            return (yield from core.get_latest_version(subject, fmt=self.fmt))
        schema = yield from self.own_schema(self._schema)
        found = None
        if self._is_registering:
            if self.are_references_read and schema.references:
                yield from self._validate_with_references(core, schema)
            found = yield from core.register_schema(subject, schema, normalize=self._is_normalized)
        if found is None or (self._is_in_header and found.guid is None):
            found = yield from core.lookup_schema(subject, schema, normalize=self._is_normalized)
        return found

    def _validate_with_references(self, core: RegistryCore, schema: Schema) -> Steps[None]:
        """Refuse a schema that cannot be used, before it is registered.

        Raises:
            SerializationError: the schema cannot be used.
        """
        known = yield from resolved(core, schema, self.schema_type, self.fmt, "the schema")
        try:
            self.encoder(known)
        except Exception as error:
            raise SerializationError(f"the schema cannot be used: {reason_of(error)}") from error

    def _guid(self, found: RegisteredSchema, subject: str) -> str:
        if found.guid is None:
            text = f"{self.registry!r} tells no guid of subject {subject!r}"
            raise SerializationError(f"{text}: use schema_id_in='prefix', or a newer registry")
        return found.guid

    def plain_writer(self, writer: Writer) -> Callable[[Any], bytes | None]:
        """Return a function for a producer's ``value_serializer`` or ``key_serializer``.

        Raises:
            ConfigError: the schema id is in a header, which such a function cannot write.
        """
        if self._is_in_header:
            raise ConfigError(
                "for_topic() needs schema_id_in='prefix', because a producer's serializers see no"
                " headers"
            )
        return writer.write


def new_cache(registry: RegistryClientBase, *, is_latest_used: bool) -> BoundedCache[Any, Any]:
    """Return an empty cache. With ``is_latest_used``, entries expire as the latest version does."""
    ttl_s = registry.settings.cache_latest_ttl_sec if is_latest_used else float("inf")
    return registry.core.new_cache(ttl_s)


class AsyncSerializing(Serializing[SchemaRegistryClient]):
    """A serializer whose calls are awaited by tasks on trio or on asyncio."""

    async def serialize(
        self, topic: str, value: Any, headers: list[RecordHeader] | None = None
    ) -> bytes | None:
        """Return the bytes of a value for a topic, or None for None.

        ``headers`` are those of the record. With ``schema_id_in="header"`` the schema's guid is put
        there.

        Raises:
            SerializationError: the value does not fit the schema.
            SchemaRegistryError: the schema cannot be registered, or does not exist.
        """
        if value is None:
            return None
        writer = self._writers.get(topic)
        if writer is None:
            writer = await self.registry.run(self.find_writer(topic))
        return writer.write(value, headers)

    async def for_topic(self, topic: str) -> Callable[[Any], bytes | None]:
        """Return a plain function for a producer's ``value_serializer`` or ``key_serializer``.

        The function asks no registry, and keeps writing with the schema that is current now. Raises
        as ``serialize``.
        """
        return self.plain_writer(await self.registry.run(self.find_writer(topic)))


class BlockingSerializing(Serializing[BlockingSchemaRegistryClient]):
    """A serializer whose calls block the calling thread."""

    def serialize(
        self, topic: str, value: Any, headers: list[RecordHeader] | None = None
    ) -> bytes | None:
        """Return the bytes of a value for a topic, as ``AvroSerializer.serialize`` does."""
        if value is None:
            return None
        writer = self._writers.get(topic)
        if writer is None:
            writer = self.registry.run(self.find_writer(topic))
        return writer.write(value, headers)

    def for_topic(self, topic: str) -> Callable[[Any], bytes | None]:
        """Return a plain function for a producer, as ``AvroSerializer.for_topic`` does."""
        return self.plain_writer(self.registry.run(self.find_writer(topic)))
