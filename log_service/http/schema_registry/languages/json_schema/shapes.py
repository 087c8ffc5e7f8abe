"""Schemas in parts that can be compared.

A shape is of one kind, such as a string or an object. A schema that says several things is the
product of several shapes. The kinds, and which keywords belong to one, are those of the library
``everit-json-schema``, by which Confluent's registry compares. Schemas inside a shape stay unread
places until they are needed, so that recursive schemas have finite shapes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, auto
from typing import TypeAlias

from log_service.http.schema_registry.languages.json_schema.references import Place

Number: TypeAlias = int | Decimal


class Kind(Enum):
    """The type of a shape. Two shapes of different kinds are different types."""

    ANYTHING = auto()
    """An object without a keyword that counts."""
    TRUE = auto()
    FALSE = auto()
    BOOLEAN = auto()
    NULL = auto()
    STRING = auto()
    NUMBER = auto()
    OBJECT = auto()
    ARRAY = auto()
    ENUM = auto()
    CONST = auto()
    NOT = auto()
    COMBINED = auto()
    CONDITIONAL = auto()
    REFERENCE = auto()


class Criterion(Enum):
    """How many of several schemas hold. The value is the keyword."""

    ALL = "allOf"
    ANY = "anyOf"
    ONE = "oneOf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strings:
    """Limits of strings."""

    min_length: int | None
    max_length: int | None
    pattern: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Limits of numbers."""

    minimum: Number | None
    maximum: Number | None
    exclusive_minimum: Number | None
    exclusive_maximum: Number | None
    multiple_of: Number | None
    is_integer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """Limits of objects. ``unevaluated`` is None, too, if any value is valid for it."""

    properties: Mapping[str, Place]
    required: frozenset[str]
    patterns: Mapping[str, Place]
    permits_additional: bool
    additional: Place | None
    unevaluated: Place | None
    required_by: Mapping[str, frozenset[str]]
    schema_by: Mapping[str, Place]
    min_properties: int | None
    max_properties: int | None

    @property
    def is_open(self) -> bool:
        """Whether any other property may have any value."""
        has_no_rest = self.additional is None is self.unevaluated
        return self.permits_additional and not self.patterns and has_no_rest

    @property
    def rest(self) -> Place | None:
        """The schema of properties that no other keyword names.

        None if all or none are permitted.
        """
        return _rest(self.additional, self.unevaluated, permits_additional=self.permits_additional)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """Limits of arrays. ``unevaluated`` is None, too, if any value is valid for it."""

    every_item: Place | None
    items: tuple[Place, ...]
    permits_additional: bool
    additional: Place | None
    unevaluated: Place | None
    min_items: int | None
    max_items: int | None
    min_contains: int | None
    max_contains: int | None
    has_unique_items: bool

    @property
    def is_open(self) -> bool:
        """Whether an item after the listed ones may have any value."""
        return self.permits_additional and self.additional is None is self.unevaluated

    @property
    def rest(self) -> Place | None:
        """The schema of items after the listed ones. None if all or none are permitted."""
        return _rest(self.additional, self.unevaluated, permits_additional=self.permits_additional)


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """Several schemas, of which all, any or one hold. ``distinct`` has equal ones once."""

    criterion: Criterion
    parts: tuple["Node", ...]
    distinct: tuple["Node", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The values of an enumeration or a constant, as keys."""

    keys: frozenset[object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Negation:
    """A schema that must not hold."""

    schema: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Another schema. ``target`` is None if an old schema refers to one that is not known."""

    text: str
    target: Place | None


_Typed: TypeAlias = Strings | Numbers | Objects | Arrays
Body: TypeAlias = _Typed | Combined | Values | Negation | Reference | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """Annotations that a schema has beside its type.

    None means that there is no such annotation.
    """

    own_id: str | None = None
    title: str | None = None
    description: str | None = None
    default: tuple[object] | None = None
    connect_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shape:
    """One schema, or one part of a schema that has several parts.

    Shapes are compared by identity.
    """

    kind: Kind
    body: Body = None
    notes: Notes = field(default=Notes())


Node: TypeAlias = Place | Shape


def _rest(
    additional: Place | None, unevaluated: Place | None, *, permits_additional: bool
) -> Place | None:
    if additional is not None or not permits_additional:
        return additional
    return unevaluated if unevaluated is not None and unevaluated.schema is not False else None
