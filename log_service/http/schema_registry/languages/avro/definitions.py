"""Validates names of types, resolves them, and decides whether a type may be defined again.

Java's library accepts a second definition of a name if it is equal to the first. It compares names,
fields, symbols, sizes, defaults and properties, but neither documentation nor aliases.
"""

import re

from log_service.http.schema_registry.languages.avro.json_text import json_text
from log_service.http.schema_registry.languages.avro.types import (
    PRIMITIVES,
    Array,
    AvroType,
    Definition,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Properties,
    Record,
    Reference,
    Union,
    Use,
    full_name,
)
from log_service.http.schema_registry.languages.language import InvalidSchemaError
from log_service.http.schema_registry.languages.limits import Budget

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
NAME_RULE = "a name has letters (A-Z, a-z), digits and underscores, and begins with no digit"
SHOWN_CHARACTERS = 300


def invalid(path: str, reason: str) -> InvalidSchemaError:
    """Return the error that names a place in the text, such as ``/fields/2/type``."""
    shown = reason if len(reason) <= SHOWN_CHARACTERS else f"{reason[:SHOWN_CHARACTERS]}..."
    return InvalidSchemaError(f"{path or '/'}: {shown}")


def validate_name(name: str, path: str) -> None:
    """Check one part of a name.

    Raises:
        InvalidSchemaError: the part is empty or has a character that is not allowed.
    """
    if not NAME.fullmatch(name):
        raise invalid(path, f"{name[:SHOWN_CHARACTERS]!r} is not a name: {NAME_RULE}")


class Definitions:
    """The named types that were read so far, and the names that are used but not defined yet."""

    __slots__ = ("_budget", "_types", "_waiting")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._types: dict[str, Definition] = {}
        self._waiting: list[Reference] = []

    def __repr__(self) -> str:
        return f"<Definitions {list(self._types)}>"

    @property
    def has_waiting(self) -> bool:
        """Whether a name was used that had no definition at that point."""
        return bool(self._waiting)

    def types(self) -> tuple[Definition, ...]:
        """Return the named types in the order of their definitions."""
        return tuple(self._types.values())

    def find(self, text: str, namespace: str, path: str) -> Use:
        """Return the type with this name in the namespace, or else with this name in no namespace.

        A name without a definition yet becomes a ``Reference``, which ``bind`` resolves later.
        """
        if text in PRIMITIVES:
            return Primitive(kind=PRIMITIVES[text])
        full = f"{namespace}.{text}" if namespace and "." not in text else text
        known = self._types.get(full) or self._types.get(text)
        if known is not None:
            return known
        reference = Reference(full, path)
        self._waiting.append(reference)
        return reference

    def add(self, defined: Definition, path: str) -> None:
        """Store a type under its full name. A second, equal definition does not replace the first.

        Raises:
            InvalidSchemaError: the name is already defined in another way.
        """
        full = defined.name.full
        known = self._types.setdefault(full, defined)
        if known is not defined and not same_type(known, defined, self._budget):
            raise invalid(path, f"{full} is defined twice, and not in the same way")

    def first(self, avro_type: AvroType) -> AvroType:
        """Return the first definition of a type with a name, and any other type as it is."""
        is_named = isinstance(avro_type, Named)
        return self._types.get(full_name(avro_type), avro_type) if is_named else avro_type

    def bind(self) -> None:
        """Resolve the names that were used before their definitions.

        Raises:
            InvalidSchemaError: a name has no definition.
        """
        for reference in self._waiting:
            reference.target = self._types.get(reference.name)
            if reference.target is None:
                raise invalid(reference.path, f"no type has the name {reference.name}")
        self._waiting.clear()


def same_type(one: Use, other: Use, budget: Budget) -> bool:
    """Return whether two types are the same, as Java's ``Schema.equals`` decides."""
    waiting = [(one, other)]
    compared: set[tuple[int, int]] = set()
    while waiting:
        left, right = map(_bound, waiting.pop())
        pair = (id(left), id(right))
        if left is right or pair in compared:
            continue
        budget.spend()
        compared.add(pair)
        parts = _parts_to_compare(left, right)
        if parts is None:
            return False
        waiting += parts
    return True


def _bound(use: Use) -> Use:
    return use.target or use if isinstance(use, Reference) else use


def _parts_to_compare(one: Use, other: Use) -> list[tuple[Use, Use]] | None:
    """Return the inner types that must be the same as well, or None if the types differ already."""
    if isinstance(one, Reference) or isinstance(other, Reference):
        return None
    is_same = one.kind is other.kind and _same_properties(one.properties, other.properties)
    parts: list[tuple[Use, Use]] = []
    match one, other:
        case Array(), Array():
            parts = [(one.items, other.items)]
        case Map(), Map():
            parts = [(one.values, other.values)]
        case Union(), Union():
            is_same = is_same and len(one.branches) == len(other.branches)
            parts = list(zip(one.branches, other.branches, strict=False))
        case Enum(), Enum():
            is_same = is_same and (one.name, one.symbols) == (other.name, other.symbols)
        case Fixed(), Fixed():
            is_same = is_same and (one.name, one.size) == (other.name, other.size)
        case Record(), Record():
            is_same = is_same and _same_but_for_types(one, other)
            fields = zip(one.fields.values(), other.fields.values(), strict=False)
            parts = [(left.type, right.type) for left, right in fields]
    return parts if is_same else None


def _same_but_for_types(one: Record, other: Record) -> bool:
    """Return whether two records have the same fields, apart from the types of the fields."""
    if one.name != other.name or list(one.fields) != list(other.fields):
        return False
    return all(map(_same_field, one.fields.values(), other.fields.values()))


def _same_field(one: Field, other: Field) -> bool:
    return (
        (one.has_default, one.order) == (other.has_default, other.order)
        and json_text(one.default, is_sorted=True) == json_text(other.default, is_sorted=True)
        and _same_properties(one.properties, other.properties)
    )


def _same_properties(one: Properties, other: Properties) -> bool:
    if not one and not other:
        return True
    return json_text(dict(one), is_sorted=True) == json_text(dict(other), is_sorted=True)
