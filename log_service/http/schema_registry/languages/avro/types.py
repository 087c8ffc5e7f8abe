"""The types of Avro as values. A schema is one type with its inner types.

Types are compared by identity, because a type may contain itself. A name that was used before its
definition is a ``Reference``. Its target is set once, when all of the text is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Properties: TypeAlias = Mapping[str, Json]
"""Attributes that Avro gives no meaning to, in the order of the text."""


class Kind(StrEnum):
    """The kind of a type. The value is its name in a text."""

    RECORD = "record"
    ENUM = "enum"
    ARRAY = "array"
    MAP = "map"
    UNION = "union"
    FIXED = "fixed"
    STRING = "string"
    BYTES = "bytes"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    NULL = "null"


KIND_NAMES = frozenset(kind.value for kind in Kind)
COMPLEX = {Kind.RECORD, Kind.ENUM, Kind.FIXED, Kind.ARRAY, Kind.MAP, Kind.UNION}
PRIMITIVES = {kind.value: kind for kind in Kind if kind not in COMPLEX}


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a record, enum or fixed. ``namespace`` is empty if there is none."""

    simple: str
    namespace: str = ""

    @property
    def full(self) -> str:
        """The name with its namespace, which identifies a type."""
        return f"{self.namespace}.{self.simple}" if self.namespace else self.simple

    @classmethod
    def of(cls, text: str, namespace: str) -> "Name":
        """Parse a name that is written inside a namespace. A text with a dot is a full name."""
        before, dot, simple = text.rpartition(".")
        return cls(simple, before if dot else namespace)

    def seen_from(self, namespace: str) -> str:
        """Return the shortest text that refers to this name inside a namespace."""
        is_near = self.namespace == namespace and self.simple not in KIND_NAMES
        return self.simple if is_near else self.full


@dataclass(slots=True, eq=False, repr=False)
class Reference:
    """A name that was used before its definition. ``path`` tells where in the text it was used."""

    name: str
    path: str
    target: "AvroType | None" = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Primitive:
    """A type without inner types."""

    kind: Kind
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Array:
    """A list of items of one type."""

    kind: ClassVar = Kind.ARRAY
    items: "Use"
    properties: Properties


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Map:
    """Values of one type, by text keys."""

    kind: ClassVar = Kind.MAP
    values: "Use"
    properties: Properties


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Union:
    """A value of one of several types."""

    kind: ClassVar = Kind.UNION
    branches: "tuple[Use, ...]"
    properties: ClassVar[Properties] = {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Named:
    """The common part of types with names. ``doc`` is None if the text has none."""

    name: Name
    doc: str | None
    aliases: tuple[Name, ...]
    properties: Properties


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Enum(Named):
    """An enum of several symbols. ``default`` replaces a written symbol that the reader lacks."""

    kind: ClassVar = Kind.ENUM
    symbols: tuple[str, ...]
    default: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Fixed(Named):
    """A byte string of fixed size."""

    kind: ClassVar = Kind.FIXED
    size: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Field:
    """One field of a record. ``default`` counts only if ``has_default`` is set."""

    name: str
    type: "Use"
    doc: str | None
    has_default: bool
    default: Json
    order: str
    aliases: tuple[str, ...]
    properties: Properties


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Record(Named):
    """A record of ordered fields. ``is_error`` marks one with ``error`` as its declared type."""

    kind: ClassVar = Kind.RECORD
    is_error: bool
    fields: Mapping[str, Field]


Definition: TypeAlias = Record | Enum | Fixed
AvroType: TypeAlias = Primitive | Array | Map | Union | Definition
Use: TypeAlias = AvroType | Reference


def target(use: Use) -> AvroType:
    """Return the type that a reference leads to, and any other type unchanged.

    A reference has a type after the whole text was read.
    """
    if isinstance(use, Reference):
        assert use.target is not None, "references are bound before a schema leaves the reader"
        return use.target
    return use


def full_name(avro_type: AvroType) -> str:
    """Return the full name of a named type, or the kind of another. It is unique within a union."""
    return avro_type.name.full if isinstance(avro_type, Named) else avro_type.kind.value


def utf16_order(text: str) -> bytes:
    """Return a key that sorts texts as Java does, by units of UTF-16."""
    return text.encode("utf-16-be", "surrogatepass")
