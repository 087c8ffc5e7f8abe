"""Parses schemas with everything that they refer to, and remembers the parsed ones.

References are resolved in the subject's own context. A schema comes after those that it refers
to, each once. Depth and number of references are bounded.
"""

from collections import OrderedDict
from collections.abc import Callable

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.languages.known import LANGUAGES
from log_service.http.schema_registry.languages.language import (
    InvalidSchemaError,
    NamedSchema,
    ParsedSchema,
)
from log_service.http.schema_registry.languages.limits import USUAL_LIMITS, SchemaLimits
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.subjects import within
from log_service.http.schema_registry.values import (
    LATEST_VERSION,
    Reference,
    RegisteredSchema,
    SchemaContent,
)

CACHE_SIZE = 1_000
"""Number of parsed schemas that are remembered."""
Key = tuple[str, str, tuple[NamedSchema, ...], bool]


class SchemaParser:
    """Parses contents against a registry's state."""

    def __init__(self, state: Callable[[], RegistryState], limits: SchemaLimits = USUAL_LIMITS) -> None:
        self._state = state
        self._limits = limits
        self._parsed: OrderedDict[Key, ParsedSchema] = OrderedDict()

    def __repr__(self) -> str:
        return f"<SchemaParser remembered={len(self._parsed)}>"

    def parse(self, content: SchemaContent, subject: str, *, is_new: bool) -> ParsedSchema:
        """Return the parsed schema.

        Raises:
            RegistryError: the text is empty, invalid or too large, or refers to something missing.
        """
        if not content.text.strip():
            raise errors.RegistryError(errors.INVALID_SCHEMA, "Empty schema")
        try:
            dependencies = self._dependencies(content.references, subject, is_new=is_new)
            return self._parse(content, tuple(dependencies), is_new=is_new)
        except InvalidSchemaError as error:
            raise errors.invalid_schema(content.schema_type.value, str(error)) from error

    def registered(self, schema: RegisteredSchema) -> ParsedSchema:
        """Return the parsed form of a registered schema.

        Raises:
            RegistryError: the text is invalid. Another registry may have accepted it.
        """
        return self.parse(schema.content, schema.subject, is_new=False)

    def with_versions(self, references: tuple[Reference, ...], subject: str) -> tuple[Reference, ...]:
        """Return references with numbers in place of the latest version.

        Raises:
            RegistryError: a subject has no version.
        """
        return tuple(
            reference
            if reference.version != LATEST_VERSION
            else Reference(
                name=reference.name,
                subject=reference.subject,
                version=self._latest_version(reference, subject),
            )
            for reference in references
        )

    def _latest_version(self, reference: Reference, subject: str) -> int:
        found = self._state().latest(within(reference.subject, subject))
        if found is None:
            raise errors.RegistryError(errors.INVALID_SCHEMA, str(_missing(reference)))
        return found.version

    def _parse(self, content: SchemaContent, dependencies: tuple[NamedSchema, ...], *, is_new: bool) -> ParsedSchema:
        size = len(content.text) + sum(len(each.text) for each in dependencies)
        if size > self._limits.text_bytes:
            most = self._limits.text_bytes
            raise errors.schema_too_large(f"The schema has {size} characters with its references, and may have {most}")
        key = (content.schema_type.value, content.text, dependencies, is_new)
        if key in self._parsed:
            self._parsed.move_to_end(key)
            return self._parsed[key]
        parsed = LANGUAGES[content.schema_type].parse(content.text, dependencies, is_new=is_new)
        self._parsed[key] = parsed
        while len(self._parsed) > CACHE_SIZE:
            self._parsed.popitem(last=False)
        return parsed

    def _dependencies(self, references: tuple[Reference, ...], subject: str, *, is_new: bool) -> list[NamedSchema]:
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
            raise InvalidSchemaError(f"references are nested more than {self._limits.reference_depth} deep")
        for reference in references:
            if reference.name in found:
                continue
            target = self._target(reference, subject, is_new=is_new)
            self._collect(target.content.references, target.subject, found, depth=depth + 1, is_new=False)
            found.setdefault(reference.name, target.content.text)
            if len(found) > self._limits.reference_count:
                raise InvalidSchemaError(f"there are more than {self._limits.reference_count} references")

    def _target(self, reference: Reference, subject: str, *, is_new: bool) -> RegisteredSchema:
        state = self._state()
        name = within(reference.subject, subject)
        is_latest = reference.version == LATEST_VERSION
        target = state.latest(name) if is_latest else state.version(name, reference.version)
        if target is None or (target.is_deleted and is_new):
            raise _missing(reference)
        return target


def _missing(reference: Reference) -> InvalidSchemaError:
    return InvalidSchemaError(f'No schema reference found for subject "{reference.subject}" and version {reference.version}')
