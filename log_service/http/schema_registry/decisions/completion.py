"""Completes a schema with parts of the previous version and of the settings.

A schema without metadata or rules takes those of the previous version. They take precedence over
the defaults in the settings, and the overrides in the settings take precedence over both.
Registering and looking up complete a schema in the same way, so that a schema is found by the text
that was sent.
"""

from dataclasses import replace

from log_service.http.schema_registry.values import (
    CONFLUENT_VERSION,
    NEW_VERSION,
    Metadata,
    RegisteredSchema,
    RuleSet,
    SchemaContent,
    Settings,
)


def completed(
    settings: Settings,
    content: SchemaContent,
    previous: RegisteredSchema | None,
    asked_version: int,
    new_version: int,
) -> SchemaContent:
    """Return a new content, completed with parts of the previous version and of the settings.

    An empty text is replaced by the previous one. If the request or the metadata names a version,
    the new version is noted in the metadata.
    """
    if not content.text.strip() and previous is not None:
        taken = previous.content
        content = replace(
            content, schema_type=taken.schema_type, text=taken.text, references=taken.references
        )
    content = with_settings(settings, content, previous)
    metadata = content.metadata
    has_version = metadata is not None and CONFLUENT_VERSION in metadata.properties
    if asked_version == NEW_VERSION and not has_version:
        return content
    numbered = Metadata.of(properties={CONFLUENT_VERSION: str(new_version)})
    return replace(content, metadata=numbered if metadata is None else metadata.merged(numbered))


def with_settings(
    settings: Settings, content: SchemaContent, previous: RegisteredSchema | None
) -> SchemaContent:
    """Return a content with the metadata and the rules that it gets when it is registered."""
    older = None if previous is None else previous.content
    metadata = content.metadata or (older.metadata if older else None)
    rule_set = content.rule_set or (older.rule_set if older else None)
    return replace(
        content,
        metadata=_merged(settings.default_metadata, metadata, settings.override_metadata),
        rule_set=_merged_rules(settings.default_rule_set, rule_set, settings.override_rule_set),
    )


def _merged(
    default: Metadata | None, own: Metadata | None, override: Metadata | None
) -> Metadata | None:
    found = [each for each in (default, own, override) if each is not None]
    merged = found[0] if found else None
    for each in found[1:]:
        merged = each if merged is None else merged.merged(each)
    return merged


def _merged_rules(
    default: RuleSet | None, own: RuleSet | None, override: RuleSet | None
) -> RuleSet | None:
    found = [each for each in (default, own, override) if each is not None]
    merged = found[0] if found else None
    for each in found[1:]:
        merged = each if merged is None else merged.merged(each)
    return merged
