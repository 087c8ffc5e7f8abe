"""Converts the properties of a JSON Schema to the columns of a topic.

Decides which schemas have columns: an object whose properties are scalars, arrays, objects, or one
of these or null. The column of a required property that cannot be null is not nullable. A ``$ref``
leads to a part of the schema or to a schema among its references. Nothing is fetched. Constraints
such as ``minimum`` are not checked. Does not read values.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from typing import Any
from urllib.parse import urljoin

from pyspark.sql import types
from referencing import Registry, Resource
from referencing.exceptions import CannotDetermineSpecification, Unresolvable
from referencing.jsonschema import DRAFT7

from orchestration.formats.columns import Chosen, validate_names

SCALARS: Mapping[str, types.DataType] = {
    "string": types.StringType(),
    "integer": types.LongType(),
    "number": types.DoubleType(),
    "boolean": types.BooleanType(),
}
CHOICES = ("oneOf", "anyOf")
MAX_DEPTH = 100
MAX_PLACES = 10_000
"""The most properties of a schema, counted at each place where a ``$ref`` leads to them."""
ALL = Chosen()
Column = tuple[types.DataType, bool]
"""The type of a column, and whether its values may be null."""


@dataclass(slots=True)
class Count:
    """The number of visited parts of the schema, and the paths left out as ``Chosen`` demands."""

    places: int = 0
    left_out: set[str] = attribute(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A position within a schema.

    ``above`` has the ``id()`` of the root and of each referenced schema that encloses the position.
    ``path`` leads from the root to the position.
    """

    resolver: Any
    chosen: Chosen
    count: Count
    above: tuple[int, ...] = ()
    path: str = ""
    depth: int = 0

    @property
    def name(self) -> str:
        """Return the name of the position for error texts."""
        return f"property {self.path}" if self.path else "the schema"

    def within(self, path: str) -> "Place":
        """Return a position one level deeper."""
        return replace(self, path=path, depth=self.depth + 1)


def json_schema_fields(
    text: str, references: Sequence[tuple[str, str]] = (), chosen: Chosen = ALL
) -> types.StructType:
    """Return the columns for the properties of an object.

    ``references`` are names that the schema uses for other schemas, with their texts.

    :raises ValueError: the schema has no columns. The text names the property.
    """
    try:
        declared = json.loads(text)
        others = {name: json.loads(other) for name, other in references}
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    count = Count()
    place = Place(
        resolver=_resolver(declared, others), chosen=chosen, count=count, above=(id(declared),)
    )
    found = _column(declared, place)
    if found is None or not isinstance(found[0], types.StructType) or found[1]:
        raise ValueError(
            "the schema is not an object with properties: only these can become columns"
        )
    chosen.validate_used(count.left_out)
    return found[0]


def _resolver(declared: Any, others: Mapping[str, Any]) -> Any:
    """Return a resolver of each ``$ref`` in a schema. It may be relative to the schema's id."""
    base = declared.get("$id", "") if isinstance(declared, Mapping) else ""
    base = base if isinstance(base, str) else ""
    named = {place: one for name, one in others.items() for place in (name, urljoin(base, name))}
    try:
        root = Resource.from_contents(declared, default_specification=DRAFT7)
        resources = [
            (place, Resource.from_contents(one, default_specification=DRAFT7))
            for place, one in named.items()
        ]
    except CannotDetermineSpecification as error:
        raise ValueError(f"its $schema is not a dialect of JSON Schema: {error}") from error
    return Registry().with_resources([*resources, (base, root)]).resolver(base)


def _column(declared: Any, place: Place) -> Column | None:
    """Return the column for a schema, or None if it is nested deeper than declared."""
    place.count.places += 1
    if place.count.places > MAX_PLACES:
        raise ValueError(f"the schema has more than {MAX_PLACES} properties")
    if not isinstance(declared, Mapping) or place.depth > MAX_DEPTH:
        raise ValueError(
            f"{place.name} is {json.dumps(declared)[:80]}, and nothing tells its type: "
            "declare the topic's columns in DDL"
        )
    if "allOf" in declared:
        raise ValueError(
            f"{place.name} is made of other schemas (allOf), which no column is made of: "
            "declare the topic's columns in DDL"
        )
    if "$ref" in declared:
        return _referred(declared["$ref"], place)
    for choice in CHOICES:
        if choice in declared:
            return _chosen(declared[choice], place)
    named = declared.get("type")
    kinds = [named] if isinstance(named, str) else list(named or ())
    others = [one for one in kinds if one != "null"]
    if len(others) != 1:
        raise ValueError(
            f"{place.name} is of {len(others)} types, and a column has one: "
            "declare the topic's columns in DDL"
        )
    kind = _single(others[0], declared, place)
    return None if kind is None else (kind, len(others) < len(kinds))


def _referred(reference: Any, place: Place) -> Column | None:
    """Return the column for the schema that a ``$ref`` leads to."""
    try:
        found = place.resolver.lookup(str(reference))
    except Unresolvable as error:
        raise ValueError(
            f"{place.name} refers to {reference}, which is neither in the schema nor one of its "
            "references"
        ) from error
    times = place.above.count(id(found.contents))
    if times and not place.chosen.depth:
        raise ValueError(place.chosen.within_itself(place.path, str(reference)))
    if times > place.chosen.depth:
        return None
    above = (*place.above, id(found.contents))
    inner = replace(place, resolver=found.resolver, above=above, depth=place.depth + 1)
    return _column(found.contents, inner)


def _chosen(choices: Sequence[Any], place: Place) -> Column | None:
    """Return the column for a choice (``anyOf``, ``oneOf``) between null and one other schema."""
    others = [one for one in choices if one != {"type": "null"}]
    if len(others) != 1:
        raise ValueError(
            f"{place.name} is a choice of {len(others)} schemas, and a column has one: "
            "declare the topic's columns in DDL"
        )
    found = _column(others[0], place.within(place.path))
    return None if found is None else (found[0], found[1] or len(others) < len(choices))


def _single(kind: Any, declared: Mapping[str, Any], place: Place) -> types.DataType | None:
    if kind in SCALARS:
        return SCALARS[kind]
    if kind == "array":
        items = _column(declared.get("items"), place.within(f"{place.path}[]"))
        return None if items is None else types.ArrayType(items[0])
    if kind != "object":
        raise ValueError(f"{place.name} is of the type {kind!r}, which JSON Schema does not have")
    properties = declared.get("properties")
    if isinstance(properties, Mapping) and properties:
        return _struct(properties, declared.get("required") or (), place)
    if isinstance(declared.get("additionalProperties"), Mapping) and place.path:
        inner = _column(declared["additionalProperties"], place.within(f"{place.path}[]"))
        return None if inner is None else types.MapType(types.StringType(), inner[0])
    raise ValueError(f"{place.name} is an object without properties, and nothing can be a column")


def _struct(
    properties: Mapping[str, Any], required: Sequence[str], place: Place
) -> types.StructType:
    validate_names(list(properties), place.name)
    fields = []
    for name, one in properties.items():
        path = f"{place.path}.{name}" if place.path else name
        if path in place.chosen.leave_out:
            place.count.left_out.add(path)
            continue
        found = _column(one, place.within(path))
        if found is None:
            continue
        kind, is_nullable = found
        description = one.get("description") if isinstance(one, Mapping) else None
        comment = {"comment": str(description)} if description else None
        is_null = is_nullable or name not in required
        fields.append(types.StructField(name, kind, is_null, comment))
    if not fields:
        raise ValueError(f"{place.name} has no property left that can become a column")
    return types.StructType(fields)
