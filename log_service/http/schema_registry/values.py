"""Schemas, their metadata and rules, and the settings of subjects, as values.

Mappings and sets are sorted when a value is made, so equal values have equal JSON. ``guid_of``
hashes the content of a schema as Confluent's registry does.
"""

import hashlib
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self, TypeVar
from uuid import UUID

from log_service.http.schema_registry.languages.language import SchemaType

CONFLUENT_VERSION = "confluent:version"
"""Property of the metadata that holds the number of the version."""
CONFLUENT_RESERVED = "confluent:reserved"
"""Property of the metadata that names fields which no later version may have, with commas."""
NEW_SCHEMA_ID = -1
NEW_VERSION = 0
"""A registration that leaves the number of the version to the registry."""
NEXT_VERSION = -1
"""A registration that leaves the number to the registry, and notes it in the schema's metadata."""
LATEST_VERSION = -1
MAX_VERSION = 2**31 - 1
"""The highest version, and the highest id. Clients have 32 bits for each."""

T = TypeVar("T")


class CompatibilityLevel(StrEnum):
    """The earlier versions that a new version is compared with, and the direction of comparison."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        """Whether all versions are compared, and not only the newest one."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        """Whether the new schema must be able to read values of earlier schemas."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """Whether earlier schemas must be able to read values of the new schema."""
        return self.value.startswith(("FORWARD", "FULL"))


class Mode(StrEnum):
    """The mode of a subject or context: which changes of versions are allowed."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"
    FORWARD = "FORWARD"

    @property
    def is_read_only(self) -> bool:
        """Whether the mode forbids all changes."""
        return self in {Mode.READONLY, Mode.READONLY_OVERRIDE}

    @property
    def is_importing(self) -> bool:
        """Whether clients register schemas with ids of their own choice."""
        return self in {Mode.IMPORT, Mode.FORWARD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A reference to a version of a subject, under the name that the schema uses."""

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of the reference in requests and records."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Metadata of a schema: tags by path, properties, and the names of sensitive properties."""

    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    sensitive: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        *,
        tags: Mapping[str, Sequence[str]] | None = None,
        properties: Mapping[str, str] | None = None,
        sensitive: Sequence[str] | None = None,
    ) -> Self:
        """Make metadata, with all entries sorted."""
        return cls(
            tags=(
                {path: tuple(sorted(set(tags[path]))) for path in sorted(tags or {})}
                if tags
                else {}
            ),
            properties=dict(sorted((properties or {}).items())),
            sensitive=tuple(sorted(set(sensitive or ()))),
        )

    def merged(self, other: "Metadata | None") -> "Metadata":
        """Return this metadata with the entries of ``other``, which take precedence."""
        if other is None:
            return self
        return Metadata.of(
            tags={**self.tags, **other.tags},
            properties={**self.properties, **other.properties},
            sensitive=[*self.sensitive, *other.sensitive],
        )

    @property
    def reserved_fields(self) -> frozenset[str]:
        """The names of fields that the property ``CONFLUENT_RESERVED`` reserves."""
        names = self.properties.get(CONFLUENT_RESERVED, "").split(",")
        return frozenset(name.strip() for name in names) - {""}

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of the metadata, without empty parts."""
        whole = {
            "tags": {path: list(tags) for path, tags in self.tags.items()},
            "properties": dict(self.properties),
            "sensitive": list(self.sensitive),
        }
        return {name: part for name, part in whole.items() if part}

    def hashed(self) -> bytes:
        """Return the bytes that go into the guid."""
        tagged = (path + "".join(tags) for path, tags in self.tags.items())
        properties = (name + value for name, value in self.properties.items())
        return "".join([*tagged, *properties, *self.sensitive]).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule that clients run. The registry only stores it."""

    name: str | None = None
    doc: str | None = None
    kind: str = "TRANSFORM"
    mode: str = "WRITEREAD"
    type: str | None = None
    tags: tuple[str, ...] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    expr: str | None = None
    on_success: str | None = None
    on_failure: str | None = None
    disabled: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of the rule, without empty parts."""
        whole = {
            "name": self.name,
            "doc": self.doc,
            "kind": self.kind,
            "mode": self.mode,
            "type": self.type,
            "tags": list(self.tags),
            "params": dict(self.params),
            "expr": self.expr,
            "onSuccess": self.on_success,
            "onFailure": self.on_failure,
        }
        return {name: part for name, part in whole.items() if part} | {"disabled": self.disabled}

    def hashed(self) -> bytes:
        """Return the bytes that go into the guid."""
        params = [name + value for name, value in self.params.items()]
        parts = [self.name, self.doc, self.kind, self.mode, self.type, *self.tags, *params]
        parts += [self.expr, self.on_success, self.on_failure]
        return "".join(part for part in parts if part).encode() + (
            b"\x01" if self.disabled else b""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """The rules of a schema, in one list for each occasion on which clients run them."""

    migration_rules: tuple[Rule, ...] = ()
    domain_rules: tuple[Rule, ...] = ()
    encoding_rules: tuple[Rule, ...] = ()
    enable_at: str | None = None

    def merged(self, other: "RuleSet | None") -> "RuleSet":
        """Return these rules with those of ``other``, which replace rules with the same names."""
        if other is None:
            return self
        return RuleSet(
            migration_rules=_merged_rules(self.migration_rules, other.migration_rules),
            domain_rules=_merged_rules(self.domain_rules, other.domain_rules),
            encoding_rules=_merged_rules(self.encoding_rules, other.encoding_rules),
            enable_at=other.enable_at or self.enable_at,
        )

    def without(self, names: Sequence[str]) -> "RuleSet":
        """Return the rules whose names are not given."""
        return replace(
            self,
            migration_rules=tuple(rule for rule in self.migration_rules if rule.name not in names),
            domain_rules=tuple(rule for rule in self.domain_rules if rule.name not in names),
            encoding_rules=tuple(rule for rule in self.encoding_rules if rule.name not in names),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of the rules, without empty lists."""
        whole = {
            "migrationRules": [rule.as_json() for rule in self.migration_rules],
            "domainRules": [rule.as_json() for rule in self.domain_rules],
            "encodingRules": [rule.as_json() for rule in self.encoding_rules],
            "enableAt": self.enable_at,
        }
        return {name: part for name, part in whole.items() if part}

    def hashed(self) -> bytes:
        """Return the bytes that go into the guid."""
        rules = [*self.migration_rules, *self.domain_rules, *self.encoding_rules]
        return b"".join(rule.hashed() for rule in rules) + (self.enable_at or "").encode()


def _merged_rules(old: tuple[Rule, ...], new: tuple[Rule, ...]) -> tuple[Rule, ...]:
    names = {rule.name for rule in new}
    return (*(rule for rule in old if rule.name not in names), *new)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaContent:
    """Everything that decides a schema's identity: its text, references, metadata and rules."""

    schema_type: SchemaType = SchemaType.AVRO
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """One version of a subject. ``timestamp_ms`` is the timestamp of its record."""

    subject: str
    version: int
    schema_id: int
    content: SchemaContent
    guid: str
    is_deleted: bool = False
    timestamp_ms: int | None = None


def guid_of(content: SchemaContent) -> str:
    """Return the guid of a schema: an MD5 over its content, written as a UUID."""
    digest = hashlib.md5(content.text.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    for reference in content.references:
        digest.update((reference.name + reference.subject).encode())
        digest.update(struct.pack(">i", reference.version))
    if content.metadata is not None:
        digest.update(b"\x01" + content.metadata.hashed())
    if content.rule_set is not None:
        digest.update(b"\x01" + content.rule_set.hashed())
    return str(UUID(bytes=digest.digest()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a subject, a context or the registry. None means that a setting is not set.

    ``alias_for_deks`` and ``validate_rules`` are kept for clients and for other registries on the
    same topic. This registry does not use them. Source: Confluent's ``/config`` resource.
    """

    alias: str | None = None
    alias_for_deks: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_names: bool | None = None
    validate_new_schemas: bool | None = None
    validate_rules: bool | None = None
    compatibility_level: CompatibilityLevel | None = None
    compatibility_policy: str | None = None
    compatibility_group: str | None = None
    default_metadata: Metadata | None = None
    override_metadata: Metadata | None = None
    default_rule_set: RuleSet | None = None
    override_rule_set: RuleSet | None = None

    def over(self, wider: "Settings") -> "Settings":
        """Return these settings, with those of a wider scope for the settings that are not set."""
        return replace(wider, **dict(self.set_fields()))

    def without(self, names: Collection[str]) -> "Settings":
        """Return a copy in which the named settings are not set."""
        return replace(self, **dict.fromkeys(names))

    def set_fields(self) -> list[tuple[str, Any]]:
        """Return names and values of the settings that are set."""
        return [
            (name, value) for name in self.__slots__ if (value := getattr(self, name)) is not None
        ]

    @property
    def is_validating_new_schemas(self) -> bool:
        """Whether names and defaults of new schemas are checked. They are checked by default."""
        return self.validate_new_schemas is not False

    @property
    def has_defaults_or_overrides(self) -> bool:
        """Whether metadata or rules are added to new schemas."""
        parts = [
            self.default_metadata,
            self.override_metadata,
            self.default_rule_set,
            self.override_rule_set,
        ]
        return any(part is not None for part in parts)


POLICIES = frozenset({"STRICT", "LENIENT", "LOGICAL"})
"""The values of ``compatibility_policy``. Upper and lower case do not matter."""
DEFAULT_SETTINGS = Settings(compatibility_level=CompatibilityLevel.BACKWARD)
