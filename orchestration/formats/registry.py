"""Asks a schema registry for the schemas of topics, and keeps the last ones in the data directory.

Decides what is asked, what is remembered, and what a project does while no registry responds: it
loads with the version that it had before, and says so. A schema under an id never changes, so it is
asked for once in a process. Knows no columns.
"""

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from log_service.client import RegisteredSchema, Schema, SchemaRegistryError, SerializationError
from log_service.client.schemas.settings import RegistryClientSettings
from log_service.common.errors import ConfigError
from orchestration.settings import REGISTRY_URL, SettingsError, load_settings, registry_settings

if TYPE_CHECKING:
    from log_service.client import BlockingSchemaRegistryClient

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
SERIALIZED = "serialized"
"""The format in which a registry returns a Protobuf schema as a descriptor in base64."""
SCHEMA_NOT_FOUND = 40403
ROOT = "the_schema_of_the_subject.proto"
PATIENCE: Mapping[str, Any] = {"timeout": 5.0, "max_retries": 1}
"""A registry that is away keeps no project from loading for long. Settings of the user go first."""
FOLDER = "schemas"

logger = logging.getLogger(__name__)


class RegistrySchemaError(ValueError):
    """A subject has no schema that a topic can use. The text names address and subject."""


class RegistryAwayError(Exception):
    """A registry does not respond, or refuses the login. The text names its address."""


class UnknownSchemaError(RegistryAwayError):
    """A record's schema is not known to the registry, and its topic waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectVersion:
    """A version of a subject, with what is needed to read its values.

    ``content`` is the text of the schema, or for Protobuf the set of descriptors in base64.
    """

    subject: str
    version: int
    id: int
    language: str
    content: str


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

    While no registry responds it is the version that this data directory had before.

    :raises RegistrySchemaError: there is no such subject or version, or no registry responds and
        nothing was kept.
    """
    name = quote(subject if version is None else f"{subject}@{version}", safe="")
    file = load_settings().data_directory / FOLDER / f"{name}.json"
    try:
        found = _asked(address, subject, version)
    except SchemaRegistryError as error:
        kept = _kept(file) if error.is_retriable else None
        if kept is None:
            raise RegistrySchemaError(
                f"{error}. The topic's columns come from there: TIDELOG_SCHEMA_REGISTRY_URL names"
                " the registry, and a producer registers the subject"
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


@lru_cache(maxsize=1_000)
def written_schema(address: str, subject: str, schema_id: int) -> Schema:
    """Return the schema of an id in the registry at ``address``, in the context of ``subject``.

    A Protobuf schema is a descriptor in base64.

    :raises UnknownSchemaError: there is none.
    :raises RegistryAwayError: no registry responds.
    """
    context = subject if subject.startswith(":.") else None
    with _asked_at(address) as client:
        found = client.get_schema(schema_id, context)
        return (
            client.get_schema(schema_id, context, fmt=SERIALIZED)
            if found.schema_type == PROTOBUF
            else found
        )


def versions_of(address: str, schema_id: int) -> Mapping[str, int]:
    """Return the subjects that have a schema's id at ``address``, with the version of each.

    :raises RegistryAwayError: no registry responds.
    """
    with _asked_at(address) as client:
        return dict(client.get_schema_versions(schema_id))


@contextmanager
def _asked_at(address: str) -> Iterator["BlockingSchemaRegistryClient"]:
    """Open a client of a registry, and translate the refusals of the registry.

    :raises UnknownSchemaError: what is asked for is not there.
    :raises RegistryAwayError: no registry responds, or it refuses for another reason.
    """
    with _client(address) as client:
        try:
            yield client
        except SchemaRegistryError as error:
            kind = UnknownSchemaError if error.code == SCHEMA_NOT_FOUND else RegistryAwayError
            raise kind(str(error)) from error


def _client(address: str) -> "BlockingSchemaRegistryClient":
    """Return a client of the registry at ``address``, which logs in as the environment says."""
    from log_service.client import (  # noqa: PLC0415 - httpx comes with the first schema, not with each project
        BlockingSchemaRegistryClient,
    )

    url, settings = registry_settings()
    has_user = registry_address() == address
    return BlockingSchemaRegistryClient(url if has_user else address, **{**PATIENCE, **settings})


def _asked(address: str, subject: str, version: int | None) -> SubjectVersion:
    """Ask the registry. Raises SchemaRegistryError: it refuses, or does not respond."""
    with _client(address) as client:
        found = client.get_version(subject, "latest" if version is None else version)
        content = (
            _descriptors(client, found)
            if found.schema.schema_type == PROTOBUF
            else found.schema.text
        )
        if found.schema.references and found.schema.schema_type != PROTOBUF:
            names = ", ".join(one.name for one in found.schema.references)
            raise RegistrySchemaError(
                f"version {found.version} of {subject} at {address} refers to other schemas"
                f" ({names}), which only Protobuf's may: register the schema with its types in it,"
                " or declare the topic's columns by a file"
            )
    return SubjectVersion(
        subject=subject,
        version=found.version or 0,
        id=found.id,
        language=found.schema.schema_type.upper(),
        content=content,
    )


def _descriptors(client: "BlockingSchemaRegistryClient", found: RegisteredSchema) -> str:
    """Return a Protobuf schema and all that it imports as a set of descriptors in base64."""
    root = client.get_version(found.subject or "", found.version or "latest", fmt=SERIALIZED).schema
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
    """Add a file behind those that it imports. Well-known ones come from Python's packages.

    :raises RegistrySchemaError: an import is neither known nor a reference of the schema.
    """
    from log_service.client.schemas.protobuf import (  # noqa: PLC0415 - with a schema of Protobuf
        known_file,
    )

    for name in file.dependency:
        if name not in whole:
            try:
                _add(files[name] if name in files else known_file(name), files, whole)
            except SerializationError as error:
                raise RegistrySchemaError(str(error)) from error
    whole[file.name] = file


def file_descriptor(text: str, name: str = ROOT) -> FileDescriptorProto:
    """Return the descriptor of a file that a registry returned in base64.

    :raises RegistrySchemaError: it is none.
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
        return SubjectVersion(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _keep(file: Path, found: SubjectVersion) -> None:
    """Write the version of a subject, in one step, if it is not there yet."""
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
