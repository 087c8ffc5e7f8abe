"""Holds shapes: schemas in the form in which the rules compare them.

A shape is of one kind, such as a string or an object. A schema with keywords of several kinds is
the allOf of several shapes. The kinds, and which keywords belong to one, are those of the library
``everit-json-schema``, by which Confluent's registry compares. Schemas inside a shape are kept as a
``Place`` and read on demand, so that recursive schemas have finite shapes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, auto
from typing import TypeAlias

from log_service.http.schema_registry.languages.json_schema.references import Place

Number: TypeAlias = int | Decimal


class Kind(Enum):
    """The kind of a shape, such as string or array."""

    ANYTHING = auto()
    """An object whose keywords make no shape of another kind, such as ``{}``."""
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
    """How many of the combined schemas must accept a value. The enum's value is the keyword."""

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
    """Limits of objects.

    ``additional`` is None if it is missing or a boolean, and ``unevaluated`` if it is missing or
    accepts any value. ``required_by`` and ``schema_by`` are the dependencies of each property: the
    properties that it requires, and the schema that then applies.
    """

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
        """Whether additional properties may have any name and any value."""
        has_no_rest = self.additional is None is self.unevaluated
        return self.permits_additional and not self.patterns and has_no_rest

    @property
    def rest(self) -> Place | None:
        """The schema of additional properties, or None if all or none are permitted."""
        return _rest(self.additional, self.unevaluated, permits_additional=self.permits_additional)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """Limits of arrays.

    ``items`` are the schemas of the listed items, the first ones of an array. ``additional`` is
    None if it is missing or a boolean, and ``unevaluated`` if it is missing or accepts any value.
    """

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
        """The schema of items after the listed ones, or None if all or none are permitted."""
        return _rest(self.additional, self.unevaluated, permits_additional=self.permits_additional)


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """Several schemas, of which all, any or one must accept a value.

    ``distinct`` are the schemas without repetitions.
    """

    criterion: Criterion
    parts: tuple["Node", ...]
    distinct: tuple["Node", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The values of an enumeration or a constant, as keys from ``json_text.value_key``."""

    keys: frozenset[object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Negation:
    """A schema that must not accept a value, from the keyword ``not``."""

    schema: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A reference. ``target`` is None if an old schema refers to a schema that is not known."""

    text: str
    target: Place | None


_Typed: TypeAlias = Strings | Numbers | Objects | Arrays
Body: TypeAlias = _Typed | Combined | Values | Negation | Reference | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """Annotations of a schema, which do not limit values.

    None means that there is no such annotation. ``default`` holds one key from
    ``json_text.value_key``.
    """

    own_id: str | None = None
    title: str | None = None
    description: str | None = None
    default: tuple[object] | None = None
    connect_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shape:
    """One schema, or one part of a schema that has several parts.

    ``==`` compares shapes by identity. The rules compare their contents.
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
