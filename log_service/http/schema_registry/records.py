"""Records of the topic ``_schemas``: their keys and values as JSON, in Confluent's format.

The order of a key's properties matters, because compaction compares keys as bytes. A key in another
order is read, too, but ``RegistryKey.encode`` always writes Confluent's order.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeGuard

from log_service.http.schema_registry.entities import (
    BadFieldError,
    content_json,
    read_content,
    read_settings,
    settings_json,
)
from log_service.http.schema_registry.values import (
    MAX_VERSION,
    Mode,
    SchemaContent,
    Settings,
    guid_of,
)

TENANT = "default"
MAX_VALUE_BYTES = 4 << 20
"""A longer value is neither written nor read, because reading one takes the event loop for long."""
MAX_KEY_BYTES = 64 << 10
MAGIC_BYTES = (0, 1)
"""The known key formats. A key without a format has the first one."""


class KeyType(StrEnum):
    """The kinds of records."""

    SCHEMA = "SCHEMA"
    CONFIG = "CONFIG"
    MODE = "MODE"
    DELETE_SUBJECT = "DELETE_SUBJECT"
    CLEAR_SUBJECT = "CLEAR_SUBJECT"
    CONTEXT = "CONTEXT"
    NOOP = "NOOP"


class UnreadableRecordError(Exception):
    """A record of the topic cannot be understood. It is skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryKey:
    """The key of a record.

    ``subject`` may be a scope. It is empty for the default context, and if the kind of record
    concerns no subject.
    """

    key_type: KeyType
    subject: str = ""
    version: int = 0
    context: str = ""

    def encode(self) -> bytes:
        """Return the bytes that Confluent's registry writes for this key."""
        fields: dict[str, Any] = {"keytype": self.key_type.value}
        if self.key_type is KeyType.CONTEXT:
            fields |= {"tenant": TENANT, "context": self.context}
        elif self.subject:
            fields["subject"] = self.subject
        if self.key_type is KeyType.SCHEMA:
            fields["version"] = self.version
        return compact_json(fields | {"magic": int(self.key_type is KeyType.SCHEMA)})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchema:
    """The value of a SCHEMA record."""

    subject: str
    version: int
    schema_id: int
    content: SchemaContent
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryRecord:
    """One record to write. None as its value is a tombstone, which removes the key."""

    key: RegistryKey
    value: bytes | None = None


def compact_json(value: object, errors: str = "strict") -> bytes:
    """Return JSON without spaces and without escapes of non-ASCII text.

    ``errors`` tells what to do about half a surrogate pair, as in ``str.encode``.
    """
    return _COMPACT.encode(value).encode("utf-8", errors)


def schema_key(subject: str, version: int) -> RegistryKey:
    """Return the key of one version."""
    return RegistryKey(key_type=KeyType.SCHEMA, subject=subject, version=version)


def schema_record(stored: StoredSchema) -> RegistryRecord:
    """Return the record of one version."""
    head = {"subject": stored.subject, "version": stored.version, "id": stored.schema_id}
    body = content_json(stored.content)
    text = body.pop("schema")
    value = {
        **head,
        "guid": guid_of(stored.content),
        **body,
        "schema": text,
        "deleted": stored.is_deleted,
    }
    return RegistryRecord(key=schema_key(stored.subject, stored.version), value=compact_json(value))


def settings_record(subject: str, settings: Settings | None) -> RegistryRecord:
    """Return the record of the settings of a scope: a subject, a context or all contexts.

    None removes them.
    """
    key = RegistryKey(key_type=KeyType.CONFIG, subject=subject)
    if settings is None:
        return RegistryRecord(key=key)
    return RegistryRecord(key=key, value=compact_json(_scoped(subject) | settings_json(settings)))


def mode_record(subject: str, mode: Mode | None) -> RegistryRecord:
    """Return the record of a scope's mode. None removes it."""
    key = RegistryKey(key_type=KeyType.MODE, subject=subject)
    value = None if mode is None else compact_json(_scoped(subject) | {"mode": mode.value})
    return RegistryRecord(key=key, value=value)


def delete_subject_record(subject: str, version: int) -> RegistryRecord:
    """Return the record that soft-deletes versions 1 to ``version``."""
    key = RegistryKey(key_type=KeyType.DELETE_SUBJECT, subject=subject)
    return RegistryRecord(key=key, value=compact_json({"subject": subject, "version": version}))


def clear_subject_record(subject: str) -> RegistryRecord:
    """Return the record that permanently removes the soft-deleted versions of a scope."""
    key = RegistryKey(key_type=KeyType.CLEAR_SUBJECT, subject=subject)
    return RegistryRecord(key=key, value=compact_json(_scoped(subject)))


def context_record(context: str, *, is_removed: bool = False) -> RegistryRecord:
    """Return the record that adds or removes a context."""
    key = RegistryKey(key_type=KeyType.CONTEXT, context=context)
    value = None if is_removed else compact_json({"tenant": TENANT, "context": context})
    return RegistryRecord(key=key, value=value)


def noop_record(highest_ids: Mapping[str, int]) -> RegistryRecord:
    """Return the NOOP record, which changes no subject.

    Its value has the highest id of each context, because ids of removed schemas must not be used
    again. Confluent's registry does not read the value.
    """
    return RegistryRecord(
        key=RegistryKey(key_type=KeyType.NOOP),
        value=compact_json({"highestIds": dict(sorted(highest_ids.items()))}),
    )


def read_key(key: bytes | None) -> RegistryKey:
    """Return a record's key.

    Raises:
        UnreadableRecordError: the key is not the key of a registry's record.
    """
    fields = _object(key, "key", MAX_KEY_BYTES)
    magic = fields.get("magic", 0)
    if isinstance(magic, bool) or magic not in MAGIC_BYTES:
        raise UnreadableRecordError("the key is of no known format: its magic is neither 0 nor 1")
    name = fields.get("keytype")
    if not isinstance(name, str) or name not in KEY_TYPES:
        raise UnreadableRecordError("the key is of no known kind")
    key_type = KEY_TYPES[name]
    return RegistryKey(
        key_type=key_type,
        subject=_text(fields, "subject"),
        version=_number(fields, "version") if key_type is KeyType.SCHEMA else 0,
        context=_text(fields, "context"),
    )


def read_stored_schema(value: bytes) -> StoredSchema:
    """Return the value of a SCHEMA record.

    Raises:
        UnreadableRecordError: the value is malformed.
    """
    fields = _object(value, "value")
    try:
        content = read_content(fields)
    except BadFieldError as error:
        raise UnreadableRecordError(f"the value is not a schema: {error}") from error
    if any(abs(each.version) > MAX_VERSION for each in content.references):
        raise UnreadableRecordError("a reference has a version beyond 32 bits")
    return StoredSchema(
        subject=_text(fields, "subject"),
        version=_number(fields, "version"),
        schema_id=_number(fields, "id", least=0),
        content=content,
        is_deleted=bool(fields.get("deleted", False)),
    )


def read_stored_settings(value: bytes) -> Settings:
    """Return the value of a CONFIG record.

    Raises:
        UnreadableRecordError: the value is malformed.
    """
    try:
        return read_settings(_object(value, "value"))
    except BadFieldError as error:
        raise UnreadableRecordError(f"the value is not settings: {error}") from error


def read_stored_mode(value: bytes) -> Mode:
    """Return the value of a MODE record.

    Raises:
        UnreadableRecordError: the value is malformed.
    """
    try:
        return Mode(_text(_object(value, "value"), "mode"))
    except ValueError as error:
        raise UnreadableRecordError("the value is not a mode") from error


def read_deleted_version(value: bytes) -> int:
    """Return the version up to which a DELETE_SUBJECT record deletes.

    Raises:
        UnreadableRecordError: the value is malformed.
    """
    return _number(_object(value, "value"), "version")


def read_highest_ids(value: bytes | None) -> dict[str, int]:
    """Return the highest ids by context in the value of a NOOP record.

    NOOP records of other registries have none.
    """
    try:
        found = _object(value, "value").get("highestIds")
    except UnreadableRecordError:
        return {}
    ids = found.items() if isinstance(found, dict) else ()
    return {context: highest for context, highest in ids if _is_number(highest)}


def _scoped(subject: str) -> dict[str, Any]:
    return {"subject": subject} if subject else {}


def _object(content: bytes | None, what: str, most_bytes: int = MAX_VALUE_BYTES) -> dict[str, Any]:
    """Return the JSON object in a key or a value.

    Texts with half a surrogate pair are refused, because they could not be written again.
    """
    if content is None:
        raise UnreadableRecordError(f"the {what} is missing")
    if len(content) > most_bytes:
        raise UnreadableRecordError(
            f"the {what} has {len(content)} bytes, and may have {most_bytes}"
        )
    try:
        fields = json.loads(content.decode())
        if b"\\u" in content:
            compact_json(fields)
    except (ValueError, RecursionError) as error:
        raise UnreadableRecordError(f"the {what} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise UnreadableRecordError(f"the {what} is not a JSON object")
    return fields


def _text(fields: Mapping[str, Any], name: str) -> str:
    """Return the text in the field ``name``, or an empty text if the field is missing."""
    found = fields.get(name) or ""
    if not isinstance(found, str):
        raise UnreadableRecordError(f"{name} is not text")
    return found


def _number(fields: Mapping[str, Any], name: str, *, least: int = 1) -> int:
    found = fields.get(name)
    if not _is_number(found) or found < least:
        raise UnreadableRecordError(f"{name} is not a number from {least} to {MAX_VERSION}")
    return found


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_VERSION


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
KEY_TYPES: Mapping[str, KeyType] = {each.value: each for each in KeyType}
