"""Keys and values in the formats with schemas, through the schema registry.

The registry is asked with the login of the request, so that its own rules decide who may register.
Parsing a schema takes a while, and other threads do it.

Invariant: what is remembered is bounded, and belongs to one login.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
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
    resolved_schema,
    schema_encoder,
)
from log_service.client.schemas.subject_names import topic_name
from log_service.client.schemas.values import RegisteredSchema, Schema
from log_service.client.schemas.wire_format import SchemaIdentity, read_identity
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.context import Call
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v2.media_types import SCHEMA_TYPES
from log_service.records.record import RecordHeader

KNOWN_SCHEMAS: Final = 200
NOT_FOUND: Final = 404
MAX_SCHEMA_CHARACTERS: Final = 256 << 10
"""The longest text of a schema in a request. Longer ones are named by their ids."""
REMEMBERED_S: Final = 300.0
PATIENCE: Final[Mapping[str, Any]] = {"timeout": 10.0, "max_retries": 1}
Place = tuple[str, bool, SchemaIdentity]
"""A topic, whether keys are meant, and a schema."""


class PartEncoder:
    """Encodes the keys or the values of a request. ``schema_id`` is that of their schema."""

    def __init__(self, schema_id: int, encode: Encode) -> None:
        self.schema_id = schema_id
        self._encode = encode

    def __call__(self, value: Any) -> bytes | None:
        """Return the bytes of a value, None for null.

        Raises:
            RestError: 42205, the value does not fit the schema.
        """
        if value is None:
            return None
        try:
            return self._encode(value)
        except Exception as error:
            text = f"Object does not fit to stored schema with id {self.schema_id}: {error}"
            raise RestError(errors.INVALID_SCHEMA, text[:2_000]) from error


class SchemaCodecs:
    """The schemas that one login uses. ``async with`` opens and closes its registry client."""

    def __init__(self, url: str, settings: Mapping[str, Any]) -> None:
        self._registry = SchemaRegistryClient(url, **PATIENCE, **settings)
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

    async def encoder(
        self, topic: str, part: str, record_format: str, text: str | None, schema_id: int | None
    ) -> PartEncoder:
        """Return the encoder for keys or values of a topic. ``part`` is ``key`` or ``value``.

        The schema of a text is registered under the topic's subject.

        Raises:
            RestError: 42205, the schema is none of the format, is too long, or cannot be used.
            SchemaRegistryError: the registry refuses it, or has no schema of this id.
        """
        if text is not None and len(text) > MAX_SCHEMA_CHARACTERS:
            reason = f"its text has more than {MAX_SCHEMA_CHARACTERS} characters"
            advice = f"register it, and name it by {part}_schema_id"
            raise RestError(errors.INVALID_SCHEMA, f"Invalid schema: {reason}; {advice}.")
        digest = None if text is None else sha256(text.encode("utf-8", "surrogatepass")).digest()
        place = (topic, part, record_format, digest, schema_id)
        known = self._encoders.get(place)
        if known is None:
            known = await self._made_encoder(topic, part, record_format, text, schema_id)
            self._encoders.put(place, known)
        return known

    async def _made_encoder(
        self, topic: str, part: str, record_format: str, text: str | None, schema_id: int | None
    ) -> PartEncoder:
        subject = topic_name(topic, part, None)
        if text is not None:
            schema = Schema(text=text, schema_type=SCHEMA_TYPES[record_format])
            schema_id = (await self._registry.register_schema(subject, schema)).id
        identity = SchemaIdentity(id=schema_id)
        schema = await named_schema(self._registry, identity, subject)
        if text is None:
            await self._require_version(subject, schema, schema_id)
        found = RegisteredSchema(schema=schema, id=identity.id or 0)
        try:
            encode = await schema_encoder(self._registry, subject, found, str(identity))
        except SerializationError as error:
            raise RestError(errors.INVALID_SCHEMA, f"Invalid schema: {error}") from error
        return PartEncoder(found.id, encode)

    async def _require_version(self, subject: str, schema: Schema, schema_id: int | None) -> None:
        """Refuse the id of a schema that is no version of the subject, as Confluent's proxy does.

        The compatibility rules of the subject would not hold for such records.
        """
        try:
            await self._registry.lookup_schema(subject, schema)
        except SchemaRegistryError as error:
            if error.status != NOT_FOUND:
                raise
            about = f"format = {schema.schema_type}, schema_id = {schema_id}"
            reason = f"subject {subject} has no version with this schema; register it there"
            text = f"Invalid schema. {about}: {reason}, or send its text."
            raise RestError(errors.INVALID_SCHEMA, text) from error

    async def find_decoders(self, records: Iterable[ConsumerRecord]) -> "RecordReader":
        """Return a reader of records, once all schemas that they name are known."""
        found: dict[Place, Decode | str] = {}
        for record in records:
            for is_key, data in ((True, record.key), (False, record.value)):
                place = place_of(record, data, is_key=is_key)
                if place is not None and place not in found:
                    found[place] = await self._decoder(place)
        return RecordReader(found)

    async def _decoder(self, place: Place) -> Decode | str:
        """Return the decoder for a schema, or why there is none."""
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
    """Reads keys and values as JSON by the schemas that they name."""

    def __init__(self, decoders: Mapping[Place, Decode | str]) -> None:
        self._decoders = decoders

    def read(self, record: ConsumerRecord, data: bytes | None, *, is_key: bool) -> Any:
        """Return the JSON value of a key or a value.

        Raises:
            ValueError: it names no schema, or does not fit the one that it names.
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
    """Return the schema that a key or a value names, None if it names none."""
    if data is None:
        return None
    try:
        identity, _ = read_identity(data, record.headers, is_key=is_key, has_indexes=False)
    except SerializationError:
        return None
    return record.topic, is_key, identity


async def codecs_of(call: Call, record_format: str) -> SchemaCodecs:
    """Return the schemas of the login of a request.

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
