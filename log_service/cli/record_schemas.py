"""Keys and values with schemas: lines of JSON become bytes for ``produce``, bytes become JSON.

``consume`` decodes by the schema whose id is before the bytes, or in a header. Bytes are printed
unchanged if they name no schema, or one that the registry does not have. A note says so once.

Importing this needs the extra ``schemas``.
"""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import click

from log_service.cli.output import say
from log_service.cli.record_lines import JsonBytes, LineError, NewRecord, Parse
from log_service.cli.running import in_thread
from log_service.cli.schema_files import require_schema_text, schema_type_of
from log_service.client import SchemaRegistryClient
from log_service.client.consumer.records import ConsumerRecord
from log_service.client.schemas.cache import BoundedCache
from log_service.client.schemas.errors import NO_RESPONSE, SchemaRegistryError, SerializationError
from log_service.client.schemas.json_codecs import (
    DECODERS,
    Decode,
    Encode,
    named_schema,
    resolved_schema,
    schema_encoder,
)
from log_service.client.schemas.serializing import ResolvedSchema, reason_of
from log_service.client.schemas.subject_names import topic_name
from log_service.client.schemas.values import RegisteredSchema, Schema
from log_service.client.schemas.wire_format import SchemaIdentity, read_identity
from log_service.client.share.records import ShareRecord
from log_service.records.record import RecordHeader

KNOWN_SCHEMAS: Final = 1_000
MAX_NOTES: Final = 100
RETRY_S: Final = 30.0
"""How long a registry that did not respond is left alone."""

R = TypeVar("R", ConsumerRecord, ShareRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEncoder:
    """Encodes the JSON of keys or values. ``about`` names the schema in errors."""

    about: str
    encode: Encode

    def bytes_of(self, text: bytes | None, part: str) -> bytes | None:
        """Encode the JSON text of a key or a value, None for null.

        Raises:
            LineError: the text is not JSON, or does not fit the schema.
        """
        if text is None:
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise LineError(
                f"has a {part} that is not JSON, which {self.about} needs: {error}"
            ) from error
        if value is None:
            return None
        try:
            return self.encode(value)
        except Exception as error:
            raise LineError(
                f"has a {part} that does not fit {self.about}: {reason_of(error)}"
            ) from error


async def part_encoder(
    registry: SchemaRegistryClient, topic: str, part: str, named: str | None
) -> PartEncoder | None:
    """Return the encoder for the latest schema of a subject, or for the schema in a file.

    The schema in a file is registered under ``TOPIC-value`` or ``TOPIC-key``. None means that no
    schema is named.

    Raises:
        SchemaRegistryError: there is no such subject, or the registry refuses the schema.
        ClickException: the schema cannot be used.
    """
    if named is None:
        return None
    path = Path(named)
    if await in_thread(path.is_file):
        subject = topic_name(topic, part, None)
        text = require_schema_text(await in_thread(path.read_text), named)
        schema = Schema(text=text, schema_type=schema_type_of(named, None))
        schema_id = (await registry.register_schema(subject, schema)).id
    else:
        latest = await registry.get_latest_version(named)
        subject, schema, schema_id = named, latest.schema, latest.id
    about = f"schema id {schema_id} of subject {subject!r}"
    try:
        found = RegisteredSchema(schema=schema, id=schema_id)
        encode = await schema_encoder(registry, subject, found, about)
    except SchemaRegistryError:
        raise
    except Exception as error:
        raise click.ClickException(f"{about} cannot be used: {reason_of(error)}") from error
    return PartEncoder(about=about, encode=encode)


def encoding(parse: Parse, key: PartEncoder | None, value: PartEncoder | None) -> Parse:
    """Return a parser whose records have encoded keys and values. It raises LineError."""

    def parsed(line: bytes) -> NewRecord:
        record = parse(line)
        return NewRecord(
            key=record.key if key is None else key.bytes_of(record.key, "key"),
            value=record.value if value is None else value.bytes_of(record.value, "value"),
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
        )

    return parsed


def _decoder(found: ResolvedSchema, *, is_key: bool) -> Decode:
    """Return the decoder for a schema. Raises SerializationError: it cannot be used."""
    try:
        return DECODERS[found.schema.schema_type](found, is_key)
    except Exception as error:
        raise SerializationError(reason_of(error)) from error


def _json_of(decode: Decode, data: bytes, headers: Sequence[RecordHeader]) -> bytes:
    """Return the JSON of bytes. Raises SerializationError: they do not fit the schema."""
    try:
        return json.dumps(decode(data, headers), ensure_ascii=False).encode()
    except Exception as error:
        raise SerializationError(reason_of(error)) from error


Place = tuple[str, bool, SchemaIdentity]
"""A topic, whether keys are meant, and a schema."""


class RecordDecoder:
    """Decodes the keys and values of records by the schemas that they name.

    With ``is_verbose`` each schema is printed once, when its first record is read.
    """

    def __init__(self, registry: SchemaRegistryClient, *, is_verbose: bool = False) -> None:
        self._registry = registry
        self._is_verbose = is_verbose
        self._decoders: BoundedCache[Place, Decode] = BoundedCache(KNOWN_SCHEMAS, time.monotonic)
        self._failures: BoundedCache[Place | None, bool] = BoundedCache(
            KNOWN_SCHEMAS, time.monotonic, RETRY_S
        )
        self._noted: set[Place | None] = set()

    async def __call__(self, records: Iterable[R]) -> list[R]:
        """Return the records. Keys and values that could be decoded are ``JsonBytes`` there."""
        return [
            record
            if getattr(record, "is_control", False)  # of LogRecord
            else record._replace(
                key=await self._part(record, record.key, is_key=True),
                value=await self._part(record, record.value, is_key=False),
            )
            for record in records
        ]

    async def _part(
        self, record: ConsumerRecord | ShareRecord, data: bytes | None, *, is_key: bool
    ) -> bytes | None:
        if data is None:
            return None
        try:
            identity = read_identity(data, record.headers, is_key=is_key, has_indexes=False)[0]
        except SerializationError:
            return data
        place = (record.topic, is_key, identity)
        decode = self._decoders.get(place) or await self._find(place)
        if decode is None:
            return data
        try:
            text = _json_of(decode, data, record.headers)
        except SerializationError as error:
            self._note(
                place, f"is shown as bytes, because it cannot be read with {identity}: {error}"
            )
            return data
        return JsonBytes(text, identity.guid if identity.id is None else identity.id)

    async def _find(self, place: Place) -> Decode | None:
        """Fetch the schema that keys or values of a topic name, and keep its decoder.

        If that fails, print a note and return None.
        """
        if self._failures.get(place) or self._failures.get(None):
            return None
        topic, is_key, identity = place
        subject = topic_name(topic, "key" if is_key else "value", None)
        try:
            schema = await named_schema(self._registry, identity, subject)
            known = await resolved_schema(self._registry, identity, subject, schema, str(identity))
            decode = _decoder(known, is_key=is_key)
            if self._is_verbose:
                self._note(
                    place,
                    f"{identity}, {await self._versions(identity, subject)}{schema.schema_type}",
                )
        except SchemaRegistryError as error:
            is_silent = error.status == NO_RESPONSE
            self._failures.put(None if is_silent else place, value=True)
            self._note(None if is_silent else place, f"is shown as bytes: {error}")
            return None
        except SerializationError as error:
            self._failures.put(place, value=True)
            self._note(place, f"is shown as bytes, because {identity} cannot be used: {error}")
            return None
        self._decoders.put(place, decode)
        return decode

    async def _versions(self, identity: SchemaIdentity, subject: str) -> str:
        """Return a text with the versions that have a schema, preferably those of ``subject``."""
        if identity.id is None:
            return ""
        try:
            found = await self._registry.get_schema_versions(identity.id)
        except SchemaRegistryError:  # an old registry does not tell them
            return ""
        shown = [each for each in found if each[0] == subject] or found
        return "".join(f"version {version} of {name}, " for name, version in shown)

    def _note(self, place: Place | None, text: str) -> None:
        """Print a note on standard error, unless there was already one about the same place.

        A place is a topic, key or value, and a schema. At most ``MAX_NOTES`` notes are printed.
        ``place`` is None if the registry does not respond.
        """
        if place in self._noted or len(self._noted) >= MAX_NOTES:
            return
        self._noted.add(place)
        about = (
            "a record" if place is None else f"the {'key' if place[1] else 'value'} of {place[0]}"
        )
        say(f"note: {about}: {text}", err=True)
