"""Schemas as values, and their JSON in the API of a registry.

Two schemas are equal if their texts, types, references, metadata and rules are equal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
LATEST: Final = "latest"
LATEST_REFERENCE: Final = -1
MAX_VERSION_DIGITS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReference:
    """A reference to a version of a subject, which a schema uses by ``name``.

    Version -1 is the latest one.
    """

    name: str
    subject: str
    version: int

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Return the reference in a JSON object. Raises KeyError: a part is missing."""
        return cls(name=found["name"], subject=found["subject"], version=found["version"])

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the reference of a text NAME=SUBJECT:VERSION, whose version may be ``latest``.

        Raises:
            ValueError: the text does not have this form.
        """
        name, _, target = text.partition("=")
        subject, _, version = target.rpartition(":")
        is_number = version.isascii() and version.isdigit() and len(version) < MAX_VERSION_DIGITS
        if not name or not subject or not (version == LATEST or is_number):
            raise ValueError(f"{text!r} is not NAME=SUBJECT:VERSION")
        number = LATEST_REFERENCE if version == LATEST else int(version)
        return cls(name=name, subject=subject, version=number)

    def __str__(self) -> str:
        """Return the text that ``from_text`` reads."""
        version = LATEST if self.version == LATEST_REFERENCE else str(self.version)
        return f"{self.name}={self.subject}:{version}"

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of the API."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A schema: its text, its type (AVRO, JSON or PROTOBUF), and its references to other schemas.

    ``metadata`` and ``rule_set`` are JSON objects as the registry stores them.
    """

    text: str
    schema_type: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    rule_set: Mapping[str, Any] | None = field(default=None, hash=False)

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Return the schema in a JSON object. Raises KeyError: a part is missing."""
        return cls(
            text=found["schema"],
            schema_type=found.get("schemaType") or AVRO,
            references=tuple(SchemaReference.of(each) for each in found.get("references") or ()),
            metadata=found.get("metadata"),
            rule_set=found.get("ruleSet"),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of the API, without empty parts."""
        whole = {
            "schema": self.text,
            "schemaType": None if self.schema_type == AVRO else self.schema_type,
            "references": [each.as_json() for each in self.references] or None,
            "metadata": self.metadata,
            "ruleSet": self.rule_set,
        }
        return {name: part for name, part in whole.items() if part is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A schema with the id that a registry gave it.

    ``version`` and ``guid`` are None if the registry does not return them.
    """

    schema: Schema
    id: int
    subject: str | None = None
    version: int | None = None
    guid: str | None = None

    @classmethod
    def of(
        cls, found: Mapping[str, Any], schema: Schema | None = None, subject: str | None = None
    ) -> Self:
        """Return the registered schema of a response's JSON object.

        ``schema`` is the schema of the request, if it had one, and is used instead of a schema in
        ``found``. ``subject`` is used if ``found`` has no subject. Raises KeyError: a part is
        missing.
        """
        return cls(
            schema=schema if schema is not None else Schema.of(found),
            id=int(found["id"]),
            subject=found.get("subject") or subject,
            version=found.get("version"),
            guid=found.get("guid"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompatibilityResult:
    """Whether a schema is compatible. ``messages`` tell why it is not, if they were requested."""

    is_compatible: bool
    messages: tuple[str, ...] = ()
