"""Asks a schema registry for the schemas of topics, and stores them in the data directory.

Decides what is requested and cached. If no registry responds, a project is loaded with the version
that was stored last, and a warning says so. A schema with an id or a guid never changes, so it is
requested once in a process. Schemas that a registry does not know are remembered for a short while.
Does not know columns.
"""

import json
import logging
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote
from uuid import uuid4

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from log_service.client import Schema, SchemaRegistryError, SerializationError
from log_service.client.schemas.settings import RegistryClientSettings
from log_service.client.schemas.values import AVRO, PROTOBUF
from log_service.client.schemas.wire_format import SchemaIdentity
from log_service.common.errors import ConfigError
from log_service.common.registry_errors import NOT_FOUND
from orchestration.settings import REGISTRY_URL, SettingsError, load_settings, registry_settings

if TYPE_CHECKING:
    from log_service.client import BlockingSchemaRegistryClient

SERIALIZED = "serialized"
"""The format in which a registry returns a Protobuf schema as a descriptor in base64."""
ROOT = "the_schema_of_the_subject.proto"
PATIENCE: Mapping[str, Any] = {"timeout": 5.0, "max_retries": 1}
"""Short timeouts, so that an unreachable registry does not delay the load of a project for long.

Settings of the user take precedence.
"""
FOLDER = "schemas"
UNKNOWN_FOR_S = 30.0
"""Seconds for which a schema that the registry did not know is not requested again."""
MOST_UNKNOWN = 100
"""The most unknown schemas that a registry is asked for within ``UNKNOWN_FOR_S``."""

logger = logging.getLogger(__name__)


class RegistrySchemaError(ValueError):
    """A subject has no schema that a topic can use. The text names address and subject."""


class RegistryError(Exception):
    """A registry returned no schema. A later request may succeed. The text names its address."""


class RegistryAwayError(RegistryError):
    """A registry does not respond, or refuses the login."""


class UnknownSchemaError(RegistryError):
    """A registry does not know a schema. A topic may wait until the schema is registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeSchema:
    """A schema with all schemas that it refers to.

    ``content`` is the text of the schema, or for Protobuf a serialized FileDescriptorSet in base64.
    ``references`` are the texts of the JSON schemas that it refers to, by name.
    """

    language: str
    content: str
    references: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectVersion:
    """A version of a subject, with all schemas that are needed to read its values.

    Version 0 means columns that a project declares itself.
    """

    subject: str
    version: int
    id: int
    language: str
    content: str
    references: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Self:
        """Return the version that a JSON object describes.

        Raises TypeError or ValueError: the object is not a version.
        """
        whole = {"references": (), **kept}
        return cls(
            **{**whole, "references": tuple((name, text) for name, text in whole["references"])}
        )

    @property
    def schema(self) -> WholeSchema:
        """Return the schema without its subject."""
        return WholeSchema(language=self.language, content=self.content, references=self.references)

    def __str__(self) -> str:
        if not self.version:
            return f"the declared columns of {self.subject}"
        return f"version {self.version} of {self.subject} (schema id {self.id})"


class UnknownSchemas:
    """Remembers for a while which schemas a registry did not know. It is thread-safe.

    ``now`` is a clock in seconds.
    """

    def __init__(
        self, now: Callable[[], float], *, seconds: float = UNKNOWN_FOR_S, most: int = MOST_UNKNOWN
    ) -> None:
        self._now, self._seconds, self._most = now, seconds, most
        self._since: dict[SchemaIdentity, float] = {}

    def why_not_asked(self, identity: SchemaIdentity) -> str | None:
        """Return why a schema counts as unknown, or None if a request is needed to find out."""
        first = self._now() - self._seconds
        for one, since in list(self._since.items()):
            if since > first:
                break
            self._since.pop(one, None)
        if identity in self._since:
            return "is not known"
        if len(self._since) < self._most:
            return None
        return (
            f"was not asked for, because {self._most} others within {self._seconds:g} s"
            " are not known"
        )

    def add(self, identity: SchemaIdentity) -> None:
        """Remember a schema that the registry does not know."""
        self._since[identity] = self._now()


@lru_cache(maxsize=100)
def unknown_schemas(address: str) -> UnknownSchemas:
    """Return this process's memory of schemas unknown to the registry at ``address``."""
    del address
    return UnknownSchemas(time.monotonic)


def registry_address() -> str:
    """Return the URL of the registry, without a user.

    :raises SettingsError: the settings of the registry cannot be used.
    """
    url, settings = registry_settings()
    try:
        return ", ".join(RegistryClientSettings.of(url, settings).urls)
    except ConfigError as error:
        raise SettingsError(
            f"{REGISTRY_URL} and the variables that begin like it cannot be used: {error}"
        ) from error


def subject_version(address: str, subject: str, version: int | None) -> SubjectVersion:
    """Return a version of a subject at ``address``, by default the latest one.

    If no registry responds, it is the version that this data directory stored before.

    :raises RegistrySchemaError: there is no such subject or version, or no registry responds and
        no version is stored.
    """
    name = quote(subject if version is None else f"{subject}@{version}", safe="")
    file = load_settings().data_directory / FOLDER / f"{name}.json"
    try:
        found = _asked(address, subject, version)
    except SchemaRegistryError as error:
        kept = _kept(file) if error.is_retriable else None
        if kept is None:
            raise RegistrySchemaError(
                f"{error}. The topic's columns come from there: TIDELOG_SCHEMA_REGISTRY_URL names "
                "the registry, and a producer registers the subject"
            ) from error
        logger.warning(
            "%s. The project is loaded with version %s of %s, as %s has it",
            error,
            kept.version,
            subject,
            file,
        )
        return kept
    _keep(file, found)
    return found


def newest_version(address: str, subject: str) -> SubjectVersion:
    """Return the latest version of a subject, as the registry at ``address`` has it now.

    :raises UnknownSchemaError: there is no such subject.
    :raises RegistryAwayError: no registry responds.
    :raises RegistrySchemaError: a schema that it refers to is missing or invalid.
    """
    with _translated():
        return _asked(address, subject, None)


@lru_cache(maxsize=1_000)
def written_schema(address: str, subject: str, identity: SchemaIdentity) -> WholeSchema:
    """Return the schema of an id or a guid in the registry at ``address``.

    An id is looked up in the context of ``subject``.

    :raises UnknownSchemaError: there is none.
    :raises RegistryAwayError: no registry responds.
    :raises RegistrySchemaError: a schema that it refers to is missing or invalid.
    """
    with _translated(), _client(address) as client:
        return _whole(client, lambda fmt: _named(client, subject, identity, fmt))


def versions_of(address: str, subject: str, identity: SchemaIdentity) -> Mapping[str, int]:
    """Return the subjects that have a schema at ``address``, with the version of each.

    For a schema that is named by its guid, only the version in ``subject`` is found.

    :raises RegistryAwayError: no registry responds.
    """
    with _translated(), _client(address) as client:
        if identity.id is not None:
            return dict(client.get_schema_versions(identity.id))
        schema = _named(client, subject, identity)
        try:
            found = client.lookup_schema(subject, schema, deleted=True)
        except SchemaRegistryError as error:
            if error.code in NOT_FOUND:
                return {}
            raise
    return {subject: found.version or 0}


def _named(
    client: "BlockingSchemaRegistryClient",
    subject: str,
    identity: SchemaIdentity,
    fmt: str | None = None,
) -> Schema:
    if identity.id is None:
        return client.get_schema_by_guid(identity.guid or "", fmt=fmt)
    return client.get_schema(identity.id, subject if subject.startswith(":.") else None, fmt=fmt)


@contextmanager
def _translated() -> Iterator[None]:
    """Translate the errors of the registry's client.

    :raises UnknownSchemaError: the registry does not have the schema, subject or version.
    :raises RegistryAwayError: no registry responds, or it refuses for another reason.
    """
    try:
        yield
    except SchemaRegistryError as error:
        kind = UnknownSchemaError if error.code in NOT_FOUND else RegistryAwayError
        raise kind(str(error)) from error


def _client(address: str) -> "BlockingSchemaRegistryClient":
    """Return a client of the registry at ``address``, which logs in as the environment says."""
    from log_service.client import BlockingSchemaRegistryClient  # noqa: PLC0415 - httpx comes with the first schema, not with each project

    url, settings = registry_settings()
    has_user = registry_address() == address
    return BlockingSchemaRegistryClient(url if has_user else address, **{**PATIENCE, **settings})


def _asked(address: str, subject: str, version: int | None) -> SubjectVersion:
    """Request a version from the registry. Raises SchemaRegistryError: no version is returned."""
    with _client(address) as client:
        found = client.get_version(subject, "latest" if version is None else version)
        number = found.version or 0

        def named(fmt: str | None) -> Schema:
            return client.get_version(subject, number, fmt=fmt).schema if fmt else found.schema

        whole = _whole(client, named)
    return SubjectVersion(
        subject=subject,
        version=number,
        id=found.id,
        language=whole.language,
        content=whole.content,
        references=whole.references,
    )


def _whole(
    client: "BlockingSchemaRegistryClient", named: Callable[[str | None], Schema]
) -> WholeSchema:
    """Return a schema with all schemas that it refers to. ``named`` requests it in a format."""
    found = named(None)
    language = found.schema_type.upper()
    if language == PROTOBUF:
        return WholeSchema(language=language, content=_descriptors(client, named(SERIALIZED)))
    if not found.references:
        return WholeSchema(language=language, content=found.text)
    texts = client.run(client.core.referenced_texts(found))
    if language == AVRO:
        return WholeSchema(language=language, content=_whole_avro(found.text, texts))
    return WholeSchema(language=language, content=found.text, references=tuple(texts.items()))


def _whole_avro(text: str, texts: Mapping[str, str]) -> str:
    from log_service.client.schemas.avro import whole_schema  # noqa: PLC0415 - fastavro comes with the first such schema

    try:
        return json.dumps(whole_schema(text, texts), separators=(",", ":"))
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RegistrySchemaError(
            f"the schema, or one of those that it refers to ({', '.join(texts)}), is not an Avro"
            " schema: "
            f"{type(error).__name__}"
        ) from error


def _descriptors(client: "BlockingSchemaRegistryClient", root: Schema) -> str:
    """Return a Protobuf schema and all that it imports as a set of descriptors in base64."""
    imported = client.run(client.core.referenced_texts(root, fmt=SERIALIZED))
    files = {name: file_descriptor(text, name) for name, text in imported.items()}
    whole: dict[str, FileDescriptorProto] = {}
    _add(file_descriptor(root.text, ROOT), files, whole)
    return b64encode(FileDescriptorSet(file=whole.values()).SerializeToString()).decode()


def _add(
    file: FileDescriptorProto,
    files: Mapping[str, FileDescriptorProto],
    whole: dict[str, FileDescriptorProto],
) -> None:
    """Add a file to ``whole`` after its imports. Well-known imports come from Python's packages.

    :raises RegistrySchemaError: an import is neither known nor a reference of the schema.
    """
    from log_service.client.schemas.protobuf import known_file  # noqa: PLC0415 - with a schema of Protobuf

    for name in file.dependency:
        if name not in whole:
            try:
                _add(files[name] if name in files else known_file(name), files, whole)
            except SerializationError as error:
                raise RegistrySchemaError(str(error)) from error
    whole[file.name] = file


def file_descriptor(text: str, name: str = ROOT) -> FileDescriptorProto:
    """Return the descriptor of a file that a registry returned in base64.

    :raises RegistrySchemaError: the text is not a descriptor.
    """
    try:
        file = FileDescriptorProto.FromString(b64decode(text, validate=True))
    except (ValueError, DecodeError) as error:
        raise RegistrySchemaError(
            f"the registry returns {name} as text: it has to know format={SERIALIZED}"
        ) from error
    file.name = name
    return file


def _kept(file: Path) -> SubjectVersion | None:
    try:
        return SubjectVersion.of(json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _keep(file: Path, found: SubjectVersion) -> None:
    """Store the version of a subject in its file atomically, unless the file already has it."""
    if _kept(file) == found:
        return
    new = file.with_name(f".{uuid4().hex}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps(asdict(found)))
        new.replace(file)
    except OSError as error:
        logger.warning(
            "%s could not be written (%s): the project will not load while no registry responds",
            file,
            error.strerror,
        )
