"""Base classes of the deserializers: find the schema of bytes, then decode the payload.

They decide with which schema bytes were written, and with which one they are read. The outcome is
cached for each topic and schema, so that only the first record of a schema asks the registry. A
subclass for each schema language returns the function that decodes a payload. The subclasses here
add the calls for tasks and for threads.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypedDict

from log_service.client.schemas.cache import BoundedCache
from log_service.client.schemas.errors import SerializationError
from log_service.client.schemas.exchange import Steps
from log_service.client.schemas.registry_client import (
    BlockingSchemaRegistryClient,
    SchemaRegistryClient,
)
from log_service.client.schemas.registry_core import RegistryCore
from log_service.client.schemas.serializing import (
    R_co,
    ResolvedSchema,
    new_cache,
    reason_of,
    resolved,
)
from log_service.client.schemas.subject_names import STRATEGIES, SubjectNameStrategy, strategy_of
from log_service.client.schemas.values import Schema
from log_service.client.schemas.wire_format import Indexes, SchemaIdentity, read_identity
from log_service.records.record import RecordHeader

Decode = Callable[[bytes], Any]


class DeserializerOptions(TypedDict, total=False):
    """The keywords of every deserializer.

    With ``is_key`` it reads keys. With ``use_latest_version`` values are resolved to the latest
    version of the subject. ``subject_name_strategy`` is as for serializers.
    """

    is_key: bool
    use_latest_version: bool
    subject_name_strategy: str | SubjectNameStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads payloads of one topic that were written with one schema."""

    topic: str
    identity: SchemaIdentity
    decode: Decode

    def read(self, payload: bytes) -> Any:
        """Decode a payload.

        Raises:
            SerializationError: the payload does not fit the schema.
        """
        try:
            return self.decode(payload)
        except Exception as error:
            raise SerializationError(
                f"bytes of topic {self.topic} cannot be read with {self.identity}:"
                f" {reason_of(error)}"
            ) from error


class Deserializing(ABC, Generic[R_co]):
    """The part of a deserializer that does no I/O.

    ``is_writer_needed`` means that the schema with which a payload was written is needed to read
    it. ``schema`` is the schema that the application wants values to have, or None.
    """

    schema_type: ClassVar[str]
    fmt: ClassVar[str | None] = None
    has_indexes: ClassVar[bool] = False

    def __init__(
        self,
        registry: R_co,
        schema: Schema | None,
        *,
        is_key: bool = False,
        use_latest_version: bool = False,
        subject_name_strategy: str | SubjectNameStrategy = "topic",
    ) -> None:
        self.registry = registry
        self.schema = schema
        self.is_writer_needed = True
        self._is_key = is_key
        self._is_latest_used = use_latest_version
        self._subject_of = strategy_of(subject_name_strategy)
        self._readers: BoundedCache[tuple[str, SchemaIdentity], Reader] = new_cache(
            registry, is_latest_used=use_latest_version
        )

    @abstractmethod
    def record_name(self, schema: Schema) -> str | None:
        """Return the record name of a schema for its subject, or None if it has no name."""

    @abstractmethod
    def decoder(
        self, written: ResolvedSchema | None, wanted: ResolvedSchema | None, indexes: Indexes
    ) -> Decode:
        """Return the function that decodes payloads of ``written`` as values of ``wanted``.

        Raises:
            Exception: a schema is invalid.
        """

    def identify(
        self, data: bytes, headers: Sequence[RecordHeader]
    ) -> tuple[SchemaIdentity, bytes]:
        """Return the schema that bytes or headers name, and the payload.

        Raises:
            SerializationError: no schema is named.
        """
        return read_identity(data, headers, is_key=self._is_key, has_indexes=self.has_indexes)

    def find_reader(self, topic: str, identity: SchemaIdentity) -> Steps[Reader]:
        """Make the reader of a topic's payloads that name a schema, and cache it.

        Raises:
            SchemaRegistryError: a schema does not exist.
            SerializationError: a schema cannot be parsed, or has another type.
        """
        core, written = self.registry.core, None
        if self.is_writer_needed:
            schema = yield from self._written_with(core, topic, identity)
            written = yield from resolved(
                core, schema, self.schema_type, self.fmt, f"{identity}, which topic {topic} uses,"
            )
        wanted = yield from self._wanted(core, topic, written)
        try:
            decode = self.decoder(written, wanted, identity.indexes)
        except Exception as error:
            raise SerializationError(
                f"{identity}, which topic {topic} uses, cannot be used: {reason_of(error)}"
            ) from error
        reader = Reader(topic=topic, identity=identity, decode=decode)
        self._readers.put((topic, identity), reader)
        return reader

    def _written_with(
        self, core: RegistryCore, topic: str, identity: SchemaIdentity
    ) -> Steps[Schema]:
        if identity.id is None:
            return (yield from core.get_schema_by_guid(identity.guid or "", fmt=self.fmt))
        is_known = self._subject_of is STRATEGIES["topic"]
        subject = self._subject(topic, None) if is_known else None
        return (yield from core.get_schema(identity.id, subject, fmt=self.fmt))

    def _wanted(
        self, core: RegistryCore, topic: str, written: ResolvedSchema | None
    ) -> Steps[ResolvedSchema | None]:
        schema = self.schema
        if self._is_latest_used:
            name = None if written is None else self.record_name(written.schema)
            schema = (
                yield from core.get_latest_version(self._subject(topic, name), fmt=self.fmt)
            ).schema
        return (
            None
            if schema is None
            else (
                yield from resolved(core, schema, self.schema_type, self.fmt, "the reader's schema")
            )
        )

    def _subject(self, topic: str, record_name: str | None) -> str:
        return self._subject_of(topic, "key" if self._is_key else "value", record_name)


class AsyncDeserializing(Deserializing[SchemaRegistryClient]):
    """A deserializer whose calls are awaited by tasks on trio or asyncio."""

    async def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[RecordHeader] = ()
    ) -> Any:
        """Decode the bytes of a record's value or key. None is returned for None.

        ``headers`` are those of the record, because the schema may be named there.

        Raises:
            SerializationError: the bytes name no schema, or do not fit it.
            SchemaRegistryError: the registry does not have the schema.
        """
        if data is None:
            return None
        identity, payload = self.identify(data, headers)
        reader = self._readers.get((topic, identity))
        if reader is None:
            reader = await self.registry.run(self.find_reader(topic, identity))
        return reader.read(payload)


class BlockingDeserializing(Deserializing[BlockingSchemaRegistryClient]):
    """A deserializer whose calls block the calling thread."""

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[RecordHeader] = ()
    ) -> Any:
        """Decode the bytes of a record's value or key, as ``AvroDeserializer.deserialize`` does."""
        if data is None:
            return None
        identity, payload = self.identify(data, headers)
        reader = self._readers.get((topic, identity))
        if reader is None:
            reader = self.registry.run(self.find_reader(topic, identity))
        return reader.read(payload)
