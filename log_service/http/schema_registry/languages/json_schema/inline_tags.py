"""Finds and changes the tags of objects and properties in the text of a JSON schema.

A path leads from the root to an object (``object.lines.array.object``) or one of its properties
(``object.lines.array.object.price``), in the words of Confluent's registry. Each step is the name
of a property or a kind of schema: ``object``, ``array``, ``not``, ``conditional.then``, or
``oneof.1`` with the index of a branch. Indexes count the branches in the order of their kinds,
titles, descriptions, defaults and property names. A schema of several kinds is an ``allof`` of
them. References are not followed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from log_service.http.schema_registry.languages.json_schema.json_text import (
    Json,
    print_json,
    read_json,
)
from log_service.http.schema_registry.languages.limits import USUAL_LIMITS
from log_service.http.schema_registry.languages.tags import (
    FIELD,
    RECORD,
    Entity,
    Tags,
    change,
    found_in,
)

ARRAY, COMBINED, CONDITIONAL, EMPTY, NOT = "array", "combined", "conditional", "empty", "not"
OBJECT, REFERENCE, FALSE, TRUE = "object", "reference", "false", "true"
COMBINATIONS = ("allOf", "anyOf", "oneOf")
CONDITIONS = ("if", "then", "else")
DEFINITIONS = ("definitions", "$defs")
TYPE = "type"
KIND_OF_TYPE = {"integer": "number"}
"""The types whose kind has another name, each with that name."""
OF_OBJECTS = frozenset(
    (
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "dependencies",
        "minProperties",
        "maxProperties",
    )
)
OF_ARRAYS = frozenset(
    ("items", "additionalItems", "contains", "minItems", "maxItems", "uniqueItems")
)


class Part(NamedTuple):
    """One of the kinds that a schema has.

    For the kind ``combined``, ``keyword`` is the keyword that combines, such as allOf. It is
    ``type`` for a list of types.
    """

    kind: str
    keyword: str = ""


def inline_tags(text: str) -> dict[Entity, list[str]]:
    """Return the tags of a valid schema, in the order of its text."""
    return found_in(entities(read_json(text, USUAL_LIMITS)))


def with_tags(text: str, added: Tags, removed: Tags) -> str:
    """Return the text of a valid schema with some tags added and others removed.

    Raises:
        InvalidSchemaError: the schema has no such object or property.
    """
    schema = read_json(text, USUAL_LIMITS)
    change(entities(schema), added, removed)
    return print_json(schema)


def entities(
    schema: Json, place: str = "", *, is_field: bool = False
) -> Iterator[tuple[Entity, dict[str, Any]]]:
    """Yield each object and property below the path ``place`` with its schema, outer ones first.

    An object that is itself a property counts as a field, not as a record.
    """
    if not isinstance(schema, dict):
        return
    parts = sorted(_parts(schema))
    if len(parts) == 1:
        yield from _of_part(schema, parts[0], place, is_field=is_field)
        return
    for index, part in enumerate(parts):
        yield from _of_part(schema, part, f"{place}allof.{index}.", is_field=False)


def _of_part(
    schema: dict[str, Json], part: Part, place: str, *, is_field: bool
) -> Iterator[tuple[Entity, dict[str, Any]]]:
    if part.kind == OBJECT:
        yield from _of_object(schema, f"{place}object", is_field=is_field)
    elif part.kind == ARRAY:
        yield from entities(schema.get("items"), f"{place}array.")
    elif part.kind == NOT:
        yield from entities(schema[NOT], f"{place}not.")
    elif part.kind == CONDITIONAL:
        for keyword in CONDITIONS:
            yield from entities(schema.get(keyword), f"{place}conditional.{keyword}.")
    elif part.keyword == TYPE:
        names = dict.fromkeys(map(str, _listed(schema[TYPE])))  # a type that stands twice is one
        kinds = sorted(map(_kind_of_type, names))
        for index, kind in enumerate(kinds):
            yield from _of_part(schema, Part(kind), f"{place}anyof.{index}.", is_field=False)
    elif part.kind == COMBINED:
        branches = sorted(_listed(schema[part.keyword]), key=_order)
        for index, branch in enumerate(branches):
            yield from entities(branch, f"{place}{part.keyword.lower()}.{index}.")


def _of_object(
    schema: dict[str, Json], path: str, *, is_field: bool
) -> Iterator[tuple[Entity, dict[str, Any]]]:
    if not is_field:
        yield Entity(path=path, type=RECORD), schema
    for name, inner in _named(schema.get("properties")):
        if isinstance(inner, dict):
            yield Entity(path=f"{path}.{name}", type=FIELD), inner
        yield from entities(inner, f"{path}.{name}.", is_field=True)
    for group in DEFINITIONS:
        for name, inner in _named(schema.get(group)):
            yield from entities(inner, f"{path}.{group}.{name}.")


def _parts(schema: dict[str, Json]) -> list[Part]:
    """Return the kinds of a schema. Keywords beside a reference are ignored."""
    if "$ref" in schema:
        return [Part(REFERENCE)]
    parts = [Part(COMBINED, keyword) for keyword in COMBINATIONS if keyword in schema]
    parts += [Part(keyword) for keyword in ("const", "enum", NOT) if keyword in schema]
    if "if" in schema:
        parts.append(Part(CONDITIONAL))
    kind = schema.get(TYPE)
    if isinstance(kind, str):
        parts.append(Part(_kind_of_type(kind)))
    elif isinstance(kind, list):
        parts.append(Part(COMBINED, TYPE))
    elif not OF_OBJECTS.isdisjoint(schema):
        parts.append(Part(OBJECT))
    elif not OF_ARRAYS.isdisjoint(schema):
        parts.append(Part(ARRAY))
    return parts or [Part(EMPTY)]


def _order(branch: Json) -> tuple[Any, ...]:
    """Return the sort key by which branches are numbered.

    Branches with equal keys keep the order of the text.
    """
    if not isinstance(branch, dict):
        return TRUE if branch else FALSE, (), (), (), ()
    parts = _parts(branch)
    kind = parts[0].kind if len(parts) == 1 else COMBINED
    texts = [
        () if (text := branch.get(name)) is None else (str(text),)
        for name in ("title", "description", "default")
    ]
    names = sorted(name for name, _ in _named(branch.get("properties"))) if kind == OBJECT else []
    return kind, *texts, (len(names), names)


def _kind_of_type(name: str) -> str:
    return KIND_OF_TYPE.get(name, name)


def _listed(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else []


def _named(value: Json) -> Sequence[tuple[str, Json]]:
    return [*value.items()] if isinstance(value, dict) else []
