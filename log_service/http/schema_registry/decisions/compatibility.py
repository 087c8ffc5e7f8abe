"""Compares a schema with earlier versions of its subject, as the subject's settings demand.

A verbose response is one to a check with ``verbose=true``. It lists the reasons.
"""

from collections.abc import Sequence

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.languages.language import (
    BACKWARD_SIDES,
    FORWARD_SIDES,
    InvalidSchemaError,
    ParsedSchema,
)
from log_service.http.schema_registry.parsing import SchemaParser
from log_service.http.schema_registry.values import (
    CompatibilityLevel,
    RegisteredSchema,
    SchemaContent,
    Settings,
)

OTHER_TYPE = "Incompatible because of different schema type"


def incompatibilities(
    parser: SchemaParser,
    settings: Settings,
    subject: str,
    content: SchemaContent,
    earlier: Sequence[RegisteredSchema],
) -> list[str]:
    """Return why a schema breaks its compatibility level, as the lines of a verbose response.

    The result is empty if it keeps its level. ``earlier`` has the live versions, oldest first. They
    are compared from the newest on, and the first incompatible version ends the comparison.

    Raises:
        RegistryError: a schema cannot be parsed, or the comparison is over its bound.
    """
    broken = broken_reservations(parser, settings, subject, content, earlier)
    for old in compared_versions(settings, content, earlier):
        reasons = incompatibility(parser, settings, subject, content, old)
        if reasons:
            return [*broken, *reasons]
    return broken_alone(settings, broken)


def broken_reservations(
    parser: SchemaParser,
    settings: Settings,
    subject: str,
    content: SchemaContent,
    earlier: Sequence[RegisteredSchema],
) -> list[str]:
    """Return how a schema breaks the field reservations of its metadata or of the newest version.

    Metadata may reserve names of fields. A schema may not have a field of such a name, and may not
    drop a reservation of the newest version. This is checked if ``validateFields`` is set, whatever
    the compatibility level is.

    Raises:
        RegistryError: the schema cannot be parsed.
    """
    if not settings.validate_fields:
        return []
    reserved = _reserved(content)
    before = _reserved(earlier[-1].content) if earlier else frozenset()
    removed = [
        f"The new schema has reserved field {name} removed from its metadata"
        " which is present in the old schema's metadata."
        for name in sorted(before - reserved)
    ]
    if not reserved:
        return removed
    used = parser.parse(content, subject, is_new=False).top_level_fields & reserved
    start = "The new schema has field that conflicts with the reserved field"
    return [*removed, *(f"{start} {name}." for name in sorted(used))]


def broken_alone(settings: Settings, broken: list[str]) -> list[str]:
    """Return the lines of a verbose response about a schema whose only faults are in ``broken``.

    ``broken`` is the result of ``broken_reservations``. If it is empty, there are no lines.
    """
    return [*broken, _scope(settings)] if broken else []


def compared_versions(
    settings: Settings, content: SchemaContent, earlier: Sequence[RegisteredSchema]
) -> list[RegisteredSchema]:
    """Return the earlier versions that a schema must be compared with, the newest first."""
    level = _level(settings)
    if level is CompatibilityLevel.NONE:
        return []
    compared = list(reversed(_of_same_group(settings.compatibility_group, content, earlier)))
    return compared if level.is_transitive else compared[:1]


def incompatibility(
    parser: SchemaParser,
    settings: Settings,
    subject: str,
    content: SchemaContent,
    old: RegisteredSchema,
) -> list[str]:
    """Return why a schema is incompatible with one version, or an empty list if it is compatible.

    Successful comparisons are cached, because each new version is compared with many old ones.

    Raises:
        RegistryError: a schema cannot be parsed, or the comparison is over its bound.
    """
    level, policy = _level(settings), (settings.compatibility_policy or "").upper()
    fingerprints = (
        parser.fingerprint(content, subject),
        parser.fingerprint(old.content, old.subject),
    )
    comparison = b"".join([*fingerprints, f"{level} {policy}".encode()])
    if parser.is_known_compatible(comparison):
        return []
    new = parser.parse(content, subject, is_new=False)
    reasons = _reasons(level, new, parser.registered(old), is_lenient=policy == "LENIENT")
    if not reasons:
        parser.note_compatible(comparison)
        return []
    return [
        *reasons,
        f"{{oldSchemaVersion: {old.version}}}",
        f"{{oldSchema: '{old.content.text}'}}",
        _scope(settings),
    ]


def _reserved(content: SchemaContent) -> frozenset[str]:
    return frozenset() if content.metadata is None else content.metadata.reserved_fields


def _scope(settings: Settings) -> str:
    """Return the line of a verbose response that shows the settings of the comparison."""
    is_validating = str(bool(settings.validate_fields)).lower()
    return f"{{validateFields: '{is_validating}', compatibility: '{_level(settings)}'}}"


def _level(settings: Settings) -> CompatibilityLevel:
    return settings.compatibility_level or CompatibilityLevel.BACKWARD


def _reasons(
    level: CompatibilityLevel, new: ParsedSchema, old: ParsedSchema, *, is_lenient: bool
) -> list[str]:
    if new.schema_type is not old.schema_type:
        return [OTHER_TYPE]
    try:
        backward = (
            new.differences(old, sides=BACKWARD_SIDES, is_lenient=is_lenient)
            if level.is_backward
            else []
        )
        forward = (
            old.differences(new, sides=FORWARD_SIDES, is_lenient=is_lenient)
            if level.is_forward
            else []
        )
    except InvalidSchemaError as error:
        raise errors.invalid_schema(new.schema_type.value, str(error)) from error
    return [difference.text for difference in [*backward, *forward]]


def _of_same_group(
    group: str | None, content: SchemaContent, earlier: Sequence[RegisteredSchema]
) -> list[RegisteredSchema]:
    """Return the earlier versions with the same metadata property named ``group`` as ``content``.

    Without a ``group`` return all.
    """
    if not group:
        return list(earlier)
    own = _property(content, group)
    return [each for each in earlier if _property(each.content, group) == own]


def _property(content: SchemaContent, name: str) -> str | None:
    return None if content.metadata is None else content.metadata.properties.get(name)
