"""Keys and values in the formats with schemas, through the schema registry.

A request names a schema by its id, a version, its text, or its subject alone. Requests to the
registry have the login of the request, so that the registry's own rules decide who may register.
Schemas are parsed in threads, because that takes a while.

Invariant: the cache of schemas is bounded, and belongs to one login.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from types import TracebackType
from typing import Any, Final, Self

import trio

from log_service.client import (
    ConsumerRecord,
    SchemaRegistryClient,
    SchemaRegistryError,
    SerializationError,
)
from log_service.client.schemas.cache import BoundedCache
from log_service.client.schemas.json_codecs import (
    TAGGED_DECODERS,
    Decode,
    Encode,
    named_schema,
    record_name_of,
    resolved_schema,
    schema_encoder,
)
from log_service.client.schemas.subject_names import topic_name
from log_service.client.schemas.values import RegisteredSchema, Schema
from log_service.client.schemas.wire_format import SchemaIdentity, read_identity
from log_service.http.record_formats.decoding import LONG_BYTES
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.context import Call
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.formats import (
    BAD_REQUEST,
    SCHEMA_TYPES,
    STRATEGIES,
    TOPIC_NAME,
)
from log_service.records.record import RecordHeader

KNOWN_SCHEMAS: Final = 200
NOT_FOUND: Final = 404
MAX_SCHEMA_CHARACTERS: Final = 256 << 10
"""The longest text of a schema in a request. Longer ones are named by their ids."""
REMEMBERED_S: Final = 300.0
REGISTRY_LIMITS: Final[Mapping[str, Any]] = {
    "timeout": 10.0,
    "max_retries": 1,
    "cache_latest_ttl_sec": 10.0,
}
"""A new version of a subject counts for producers after at most ten seconds."""
Place = tuple[str, bool, SchemaIdentity]
"""A topic, whether keys are meant, and a schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChoice:
    """The schema that a request names for the keys or the values of a topic.

    ``part`` is ``key`` or ``value``. At most one of ``schema_id``, ``version`` and ``text`` is
    given. Without them the latest version of the subject is used. ``record_format`` is the format
    of ``text``. Without a ``subject``, ``strategy`` (TopicNameStrategy by default) determines it.
    """

    topic: str
    part: str
    record_format: str | None = None
    subject: str | None = None
    strategy: str = TOPIC_NAME
    schema_id: int | None = None
    version: int | None = None
    text: str | None = None

    @property
    def is_latest(self) -> bool:
        """Whether the choice is the latest version of the subject."""
        return self.schema_id is None and self.version is None and self.text is None

    @property
    def place(self) -> object:
        """The cache key of the encoder. A hash replaces the schema's text in it."""
        if self.text is None:
            return self
        digest = sha256(self.text.encode("utf-8", "surrogatepass")).digest()
        return replace(self, text=None), digest

    def subject_of(self, schema: Schema | None) -> str:
        """Return the subject that the request names, or that ``strategy`` makes of ``schema``.

        With TopicNameStrategy ``schema`` may be None.

        Raises:
            RestError: 400, the strategy needs a schema with a record name. 42205, the schema is not
                valid.
        """
        if self.subject is not None:
            return self.subject
        name = None
        if self.strategy != TOPIC_NAME:
            if schema is None:
                reason = f"subject_name_strategy={self.strategy} without schema_id or schema"
                raise RestError(BAD_REQUEST, f"Cannot use {reason}: name the subject.")
            try:
                name = record_name_of(schema)
            except Exception as error:
                text = f"Invalid schema: {error!r}"[:500]
                raise RestError(errors.INVALID_SCHEMA, text) from error
            if name is None:
                reason = f"subject_name_strategy={self.strategy} needs a schema with a record name"
                raise RestError(BAD_REQUEST, f"{reason}: name the subject.")
        return STRATEGIES[self.strategy](self.topic, self.part, name)


async def _subject_of(choice: SchemaChoice, schema: Schema) -> str:
    """Return the subject of a schema.

    A long schema is parsed in a thread to find the name of its record.
    """
    find = partial(choice.subject_of, schema)
    return find() if len(schema.text) <= LONG_BYTES else await trio.to_thread.run_sync(find)


class PartEncoder:
    """Encodes the keys or the values of a request with a schema of the registry."""

    def __init__(self, found: RegisteredSchema, encode: Encode) -> None:
        self.schema_id, self.subject, self.version = found.id, found.subject, found.version
        self.schema_type = found.schema.schema_type
        self._encode = encode

    def __call__(self, value: Any) -> bytes | None:
        """Encode a value, None for null.

        It runs in a thread, and stops at the next value once the request was cancelled.

        Raises:
            RestError: 42205, the value does not fit the schema.
            Cancelled: the task that waits for this thread was cancelled.
        """
        if value is None:
            return None
        with suppress(RuntimeError):  # this thread may not belong to a task
            trio.from_thread.check_cancelled()
        try:
            return self._encode(value)
        except Exception as error:
            text = f"Object does not fit to stored schema with id {self.schema_id}: {error}"
            raise RestError(errors.INVALID_SCHEMA, text[:2_000]) from error


class SchemaCodecs:
    """The encoders and decoders of one login.

    ``async with`` opens and closes its registry client.
    """

    def __init__(self, url: str, settings: Mapping[str, Any]) -> None:
        self._registry = SchemaRegistryClient(url, **REGISTRY_LIMITS, **settings)
        self._stack = AsyncExitStack()
        self._encoders: BoundedCache[object, PartEncoder] = BoundedCache(
            KNOWN_SCHEMAS, trio.current_time, REMEMBERED_S
        )
        self._decoders: BoundedCache[Place, Decode] = BoundedCache(KNOWN_SCHEMAS, trio.current_time)

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._registry)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def encoder(self, choice: SchemaChoice) -> PartEncoder:
        """Return the encoder for keys or values of a topic.

        A schema that is given as text is registered under its subject.

        Raises:
            RestError: 42205, the schema does not belong to the format, is too long, or cannot be
                used. 400, the subject cannot be determined.
            SchemaRegistryError: the registry refuses the schema, or does not have it.
        """
        if choice.text is not None and len(choice.text) > MAX_SCHEMA_CHARACTERS:
            reason = f"its text has more than {MAX_SCHEMA_CHARACTERS} characters"
            raise RestError(
                errors.INVALID_SCHEMA,
                f"Invalid schema: {reason}; register it, and name it by its id.",
            )
        found = None
        place = choice.place
        if choice.is_latest:
            found = await self._registry.get_latest_version(choice.subject_of(None))
            place = (choice, found.id)
        known = self._encoders.get(place)
        if known is None:
            known = await self._made_encoder(found or await self._found(choice))
            self._encoders.put(place, known)
        return known

    async def _found(self, choice: SchemaChoice) -> RegisteredSchema:
        """Find or register the chosen schema, and return it with its subject and version.

        Raises:
            RestError: 42205, no version of the subject has the schema with this id.
            SchemaRegistryError: the registry refuses the schema, or does not have it.
        """
        if choice.version is not None:
            return await self._registry.get_version(choice.subject_of(None), choice.version)
        if choice.text is not None:
            schema = Schema(
                text=choice.text, schema_type=SCHEMA_TYPES[choice.record_format or "avro"]
            )
            subject = await _subject_of(choice, schema)
            found = await self._registry.register_schema(subject, schema)
            if found.version is None:  # an old registry tells the id alone
                found = await self._registry.lookup_schema(subject, schema)
            return found
        hint = choice.subject or topic_name(choice.topic, choice.part, None)
        schema = await named_schema(self._registry, SchemaIdentity(id=choice.schema_id), hint)
        subject = await _subject_of(choice, schema)
        try:
            return await self._registry.lookup_schema(subject, schema)
        except SchemaRegistryError as error:
            if error.status != NOT_FOUND:
                raise
            # The compatibility rules of the subject would not hold for such records. Confluent's
            # proxy refuses them, too.
            about = f"format = {schema.schema_type}, schema_id = {choice.schema_id}"
            reason = f"subject {subject} has no version with this schema; register it there"
            text = f"Invalid schema. {about}: {reason}, or send its text."
            raise RestError(errors.INVALID_SCHEMA, text) from error

    async def _made_encoder(self, found: RegisteredSchema) -> PartEncoder:
        identity, subject = SchemaIdentity(id=found.id), found.subject or ""
        schema = await named_schema(self._registry, identity, subject)
        found = replace(found, schema=schema)
        try:
            encode = await schema_encoder(self._registry, subject, found, str(identity))
        except SerializationError as error:
            raise RestError(errors.INVALID_SCHEMA, f"Invalid schema: {error}") from error
        return PartEncoder(found, encode)

    async def find_decoders(self, records: Iterable[ConsumerRecord]) -> "RecordReader":
        """Fetch all schemas that records name, and return a reader for the records."""
        found: dict[Place, Decode | str] = {}
        for record in records:
            for is_key, data in ((True, record.key), (False, record.value)):
                place = place_of(record, data, is_key=is_key)
                if place is not None and place not in found:
                    found[place] = await self._decoder(place)
        return RecordReader(found)

    async def _decoder(self, place: Place) -> Decode | str:
        """Return the decoder for a schema, or the reason why there is none.

        Raises:
            SchemaRegistryError: the registry did not return the schema, and may have it.
        """
        known = self._decoders.get(place)
        if known is not None:
            return known
        topic, is_key, identity = place
        subject = topic_name(topic, "key" if is_key else "value", None)
        try:
            schema = await named_schema(self._registry, identity, subject)
            resolved = await resolved_schema(
                self._registry, identity, subject, schema, str(identity)
            )
            make = partial(TAGGED_DECODERS[schema.schema_type], resolved, is_key)
            decode = await trio.to_thread.run_sync(make)
        except SerializationError as error:
            return str(error)
        except SchemaRegistryError as error:
            if error.status != NOT_FOUND:
                raise
            return str(error)
        self._decoders.put(place, decode)
        return decode


class RecordReader:
    """Decodes keys and values to JSON with the schemas that they name."""

    def __init__(self, decoders: Mapping[Place, Decode | str]) -> None:
        self._decoders = decoders

    def read(self, record: ConsumerRecord, data: bytes | None, *, is_key: bool) -> Any:
        """Decode a key or a value to JSON.

        Raises:
            ValueError: the bytes name no schema, or do not fit the schema that they name.
        """
        if data is None:
            return None
        place = place_of(record, data, is_key=is_key)
        decode = "it names no schema" if place is None else self._decoders[place]
        if isinstance(decode, str):
            raise ValueError(decode)  # noqa: TRY004 - the text says why there is no decoder
        headers: Sequence[RecordHeader] = record.headers
        try:
            return decode(data, headers)
        except Exception as error:
            raise ValueError(str(error)[:500]) from error


def place_of(record: ConsumerRecord, data: bytes | None, *, is_key: bool) -> Place | None:
    """Return topic, part and schema id of a key or a value, None if it names no schema."""
    if data is None:
        return None
    try:
        identity, _ = read_identity(data, record.headers, is_key=is_key, has_indexes=False)
    except SerializationError:
        return None
    return record.topic, is_key, identity


async def codecs_of(call: Call, record_format: str) -> SchemaCodecs:
    """Return the encoders and decoders of the request's login.

    Raises:
        RestError: 40801, the proxy has no registry.
    """
    settings = call.context.settings
    if not settings.registry_url:
        raise errors.no_registry(record_format)
    client = settings.registry_client
    login = client if call.credentials is None else call.credentials.registry_settings(client)
    make = partial(SchemaCodecs, settings.registry_url, login)
    return await call.clients.shared_client("the registry client of a login", make)
