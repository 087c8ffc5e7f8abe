"""Parses schemas with all schemas that they refer to, and caches the results.

References are resolved in the subject's own context. Dependencies are listed once each, before
the schemas that refer to them. Depth and number of references are bounded. Several threads may
parse at once.
"""

import hashlib
from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.languages.known import LANGUAGES
from log_service.http.schema_registry.languages.language import (
    InvalidSchemaError,
    NamedSchema,
    ParsedSchema,
)
from log_service.http.schema_registry.languages.limits import USUAL_LIMITS, SchemaLimits
from log_service.http.schema_registry.remembered import Remembered
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.subjects import within
from log_service.http.schema_registry.values import (
    LATEST_VERSION,
    Reference,
    RegisteredSchema,
    SchemaContent,
)

MAX_PARSED = 1_000
"""Number of parsed schemas that are remembered."""
MAX_PARSED_CHARACTERS = 4 << 20
"""The bound of the cache, in characters of texts.

A parsed schema takes up to 40 times the memory of its text.
"""
MAX_FINDINGS = 10_000
PARSED_MINIMUM = 1 << 10
"""The least number of characters that a parsed schema counts as."""
Key: TypeAlias = tuple[str, str, tuple[NamedSchema, ...], bool]


class Form(Enum):
    """The forms in which schemas with different texts are compared."""

    NORMALIZED = "normalized"
    RESOLVED = "resolved"
    """The text with its references written into it."""


class SchemaParser:
    """Parses schemas, whose references are resolved in a registry's state."""

    def __init__(
        self, state: Callable[[], RegistryState], limits: SchemaLimits = USUAL_LIMITS
    ) -> None:
        self._state = state
        self._limits = limits
        self._parsed: Remembered[Key, ParsedSchema] = Remembered(MAX_PARSED, MAX_PARSED_CHARACTERS)
        self._hashed: Remembered[bytes, bytes] = Remembered(MAX_FINDINGS)
        self._compatible: Remembered[bytes, bool] = Remembered(MAX_FINDINGS)

    def __repr__(self) -> str:
        return f"<SchemaParser remembered={len(self._parsed)}>"

    def parse(
        self, content: SchemaContent, subject: str, *, is_new: bool, is_validated: bool = True
    ) -> ParsedSchema:
        """Return the parsed schema.

        A new schema may only refer to live versions. If ``is_validated`` is also set, it must pass
        the language's checks for new schemas. Schemas that are already registered may fail them.

        Raises:
            RegistryError: the text is empty, invalid or too large, or refers to something missing.
        """
        if not content.text.strip():
            raise errors.RegistryError(errors.INVALID_SCHEMA, "Empty schema")
        try:
            dependencies = self._dependencies(content.references, subject, is_new=is_new)
            return self._parse(content, tuple(dependencies), is_new=is_new and is_validated)
        except InvalidSchemaError as error:
            raise errors.invalid_schema(content.schema_type.value, str(error)) from error

    def registered(self, schema: RegisteredSchema) -> ParsedSchema:
        """Return a registered schema, parsed.

        Raises:
            RegistryError: the text is invalid. Another registry may have accepted it.
        """
        return self.parse(schema.content, schema.subject, is_new=False)

    def hashed(self, content: SchemaContent, subject: str, form: Form) -> bytes:
        """Return a hash of a schema's text in a form. The hash is cached.

        Raises:
            RegistryError: the schema is invalid, or refers to something missing.
        """
        key = self.fingerprint(content, subject) + form.value.encode()
        found = self._hashed.get(key)
        if found is None:
            parsed = self.parse(content, subject, is_new=False)
            found = _digest(
                parsed.normalized() if form is Form.NORMALIZED else parsed.formatted(form.value)
            )
            self._hashed.put(key, found)
        return found

    def fingerprint(self, content: SchemaContent, subject: str) -> bytes:
        """Return a hash of a schema's text and of all schemas that it refers to.

        Raises:
            RegistryError: the schema refers to something missing.
        """
        try:
            dependencies = self._dependencies(content.references, subject, is_new=False)
        except InvalidSchemaError as error:
            raise errors.invalid_schema(content.schema_type.value, str(error)) from error
        named = (part for each in dependencies for part in (each.name, each.text))
        return _digest(content.schema_type.value, content.text, *named)

    def is_known_compatible(self, comparison: bytes) -> bool:
        """Return whether the cache has a comparison that ``note_compatible`` stored."""
        return self._compatible.get(comparison) is not None

    def note_compatible(self, comparison: bytes) -> None:
        """Cache that the comparison with this key finds the schemas compatible."""
        self._compatible.put(comparison, True)

    def with_versions(
        self, references: tuple[Reference, ...], subject: str
    ) -> tuple[Reference, ...]:
        """Return references in which "latest" is replaced by the number of the latest version.

        Raises:
            RegistryError: a subject has no version.
        """
        return tuple(
            (
                reference
                if reference.version != LATEST_VERSION
                else Reference(
                    name=reference.name,
                    subject=reference.subject,
                    version=self._latest_version(reference, subject),
                )
            )
            for reference in references
        )

    def _latest_version(self, reference: Reference, subject: str) -> int:
        found = self._state().latest(within(reference.subject, subject))
        if found is None:
            raise errors.RegistryError(errors.INVALID_SCHEMA, str(_missing(reference)))
        return found.version

    def _parse(
        self, content: SchemaContent, dependencies: tuple[NamedSchema, ...], *, is_new: bool
    ) -> ParsedSchema:
        size = len(content.text) + sum(len(each.text) for each in dependencies)
        if size > self._limits.text_bytes:
            most = self._limits.text_bytes
            raise errors.schema_too_large(
                f"The schema has {size} characters with its references, and may have {most}"
            )
        key = (content.schema_type.value, content.text, dependencies, is_new)
        parsed = self._parsed.get(key)
        if parsed is None:
            parsed = LANGUAGES[content.schema_type].parse(content.text, dependencies, is_new=is_new)
            self._parsed.put(key, parsed, PARSED_MINIMUM + size)
        return parsed

    def _dependencies(
        self, references: tuple[Reference, ...], subject: str, *, is_new: bool
    ) -> list[NamedSchema]:
        found: dict[str, str] = {}
        self._collect(references, subject, found, depth=1, is_new=is_new)
        return [NamedSchema(name=name, text=text) for name, text in found.items()]

    def _collect(
        self,
        references: tuple[Reference, ...],
        subject: str,
        found: dict[str, str],
        *,
        depth: int,
        is_new: bool,
    ) -> None:
        if references and depth > self._limits.reference_depth:
            raise InvalidSchemaError(
                f"references are nested more than {self._limits.reference_depth} deep"
            )
        for reference in references:
            if reference.name in found:
                continue
            target = self._target(reference, subject, is_new=is_new)
            self._collect(
                target.content.references, target.subject, found, depth=depth + 1, is_new=False
            )
            found.setdefault(reference.name, target.content.text)
            if len(found) > self._limits.reference_count:
                raise InvalidSchemaError(
                    f"there are more than {self._limits.reference_count} references"
                )

    def _target(self, reference: Reference, subject: str, *, is_new: bool) -> RegisteredSchema:
        state = self._state()
        name = within(reference.subject, subject)
        is_latest = reference.version == LATEST_VERSION
        target = state.latest(name) if is_latest else state.version(name, reference.version)
        if target is None or (target.is_deleted and is_new):
            raise _missing(reference)
        return target


def _digest(*texts: str) -> bytes:
    """Return a hash of texts. Each is hashed with its length, so that their boundaries count."""
    digest = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.digest()


def _missing(reference: Reference) -> InvalidSchemaError:
    return InvalidSchemaError(
        f'No schema reference found for subject "{reference.subject}" and version'
        f" {reference.version}"
    )
