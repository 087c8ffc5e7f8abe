"""Registers a version again with other metadata, rules and tags, and with otherwise the same text.

Source: Confluent's ``/subjects/{subject}/versions/{version}/tags``.
"""

from dataclasses import dataclass, field, replace

from log_service.http.schema_registry.decisions.decision import Decision
from log_service.http.schema_registry.decisions.lookup import find_version, version_of
from log_service.http.schema_registry.decisions.registration import Registration, register
from log_service.http.schema_registry.decisions.tagging import TagChanges, tagged
from log_service.http.schema_registry.parsing import SchemaParser
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.values import (
    LATEST_VERSION,
    NEXT_VERSION,
    Metadata,
    RegisteredSchema,
    RuleSet,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relabelling:
    """A request to register ``version`` of a subject again, as ``new_version`` or the next one.

    Without ``metadata`` the version's own metadata stay. Rules are given as a whole, or as a change
    of the newest version's rules.
    """

    subject: str
    version: int
    new_version: int | None = None
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    rules_to_merge: RuleSet | None = None
    rules_to_remove: tuple[str, ...] = ()
    tags: TagChanges = field(default_factory=TagChanges)


def relabel(
    state: RegistryState, parser: SchemaParser, wanted: Relabelling
) -> Decision[RegisteredSchema]:
    """Return the records that register the version again, and the registered schema.

    Raises:
        RegistryError: there is no such version, or registering it is refused.
    """
    return register(state, parser, relabelled(state, parser, wanted))


def relabelled(state: RegistryState, parser: SchemaParser, wanted: Relabelling) -> Registration:
    """Return the registration that repeats a version with changed tags, metadata and rules.

    Raises:
        RegistryError: there is no such version, or no such part of it to tag.
    """
    found = find_version(state, wanted.subject, wanted.version)
    content = tagged(parser, found.subject, found.content, wanted.tags)
    asked = NEXT_VERSION if wanted.new_version is None else wanted.new_version
    # without any metadata, registering would take those of the newest version
    own = wanted.metadata or content.metadata or Metadata()
    labelled = replace(content, metadata=own, rule_set=_rules(state, wanted))
    return Registration(subject=wanted.subject, content=labelled, version=asked)


def _rules(state: RegistryState, wanted: Relabelling) -> RuleSet | None:
    """Return the rules of the new version. None means that it takes those of the newest version."""
    if wanted.rules_to_merge is None and not wanted.rules_to_remove:
        return wanted.rule_set
    before = LATEST_VERSION if wanted.new_version is None else wanted.new_version - 1
    previous = version_of(state, wanted.subject, before, is_deleted_included=False)
    rules = previous.content.rule_set if previous is not None else None
    merged = (rules or RuleSet()).merged(wanted.rules_to_merge)
    return merged.without(wanted.rules_to_remove)
