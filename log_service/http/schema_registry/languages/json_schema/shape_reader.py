"""Reads shapes from schemas, one schema at a time.

A keyword belongs to a kind: ``maxLength`` to strings. A schema with a ``type`` is of that kind. The
keywords that are left make a shape of their kind each, because they hold for values of it alone.
"""

from collections.abc import Mapping

from log_service.http.schema_registry.languages.json_schema.drafts import Draft
from log_service.http.schema_registry.languages.json_schema.json_text import Json, as_count, as_number, value_key
from log_service.http.schema_registry.languages.json_schema.references import Documents, Place, references_of
from log_service.http.schema_registry.languages.json_schema.shapes import (
    Arrays,
    Combined,
    Criterion,
    Kind,
    Negation,
    Notes,
    Numbers,
    Objects,
    Reference,
    Shape,
    Strings,
    Values,
)

_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_OLD_STRINGS = frozenset({"minLength", "maxLength", "pattern", "format"})
_OLD_OBJECTS = frozenset(
    {
        *("properties", "required", "minProperties", "maxProperties"),
        *("dependencies", "patternProperties", "additionalProperties", "propertyNames"),
    }
)
_OLD_ARRAYS = frozenset({"items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"})
_MODERN_STRINGS = _OLD_STRINGS - {"format"}
_MODERN_OBJECTS = (_OLD_OBJECTS - {"dependencies"}) | {"dependentRequired", "dependentSchemas", "unevaluatedProperties"}
_MODERN_ARRAYS = _OLD_ARRAYS | {"prefixItems", "unevaluatedItems"}
_NOT_IN = {4: frozenset({"propertyNames", "contains"}), 2019: frozenset({"prefixItems"}), 2020: frozenset({"additionalItems"})}
_CONDITIONS = frozenset({"if", "then", "else"})


class ShapeReader:
    """Reads the shapes of schemas, and keeps each."""

    __slots__ = ("_documents", "_kept")

    def __init__(self, *schemas: Documents) -> None:
        self._documents = {id(each): documents for documents in schemas for each in documents.documents}
        self._kept: dict[int, Shape] = {}

    def __repr__(self) -> str:
        return f"<ShapeReader of {len(self._kept)} shapes>"

    def written(self, place: Place) -> Shape:
        """Return the shape of a schema as it is written. A reference is one."""
        key = id(place.schema)
        if (shape := self._kept.get(key)) is None:
            shape = self._kept[key] = self._read(place)
        return shape

    def meant(self, node: Place | Shape) -> Shape:
        """Return the shape that counts: where references lead, if they lead to a schema."""
        shape = self.written(node) if isinstance(node, Place) else node
        seen: set[Shape] = set()
        while isinstance(shape.body, Reference) and shape.body.target is not None and shape not in seen:
            seen.add(shape)
            shape = self.written(shape.body.target)
        return shape

    def is_anything(self, place: Place) -> bool:
        """Whether a schema says nothing. A reference to such a schema says something."""
        return self.written(place).kind in {Kind.ANYTHING, Kind.TRUE}

    def _read(self, place: Place) -> Shape:
        match place.schema:
            case bool():
                return Shape(kind=Kind.TRUE if place.schema else Kind.FALSE)
            case dict():
                notes = _notes(place.schema, place.document.draft)
                parts = self._parts(place, place.schema)
                return _joined(parts, notes)
            case _:
                return Shape(kind=Kind.ANYTHING)

    def _parts(self, place: Place, schema: dict[str, Json]) -> list[Shape]:
        draft = place.document.draft
        parts = [self._reference(place, text) for _, text in references_of(schema, draft)]
        if parts and not draft.is_modern:
            return parts
        parts += _enumeration(schema)
        for criterion in Criterion:
            if isinstance(schemas := schema.get(criterion.value), list):
                parts.append(_combined(place, schemas, criterion))
        if isinstance(negated := schema.get("not"), dict | bool):
            parts.append(Shape(kind=Kind.NOT, body=Negation(schema=place.child("not", schema=negated))))
        if draft.number > 4 and "const" in schema:
            parts.append(Shape(kind=Kind.CONST, body=Values(keys=frozenset({value_key(schema["const"])}))))
        types = _types(schema)
        typed = [self._typed(place, schema, name) for name in types]
        parts += typed if isinstance(schema.get("type"), str) else [_of_parts(Criterion.ANY, typed, Notes())] if typed else []
        taken = {_TYPES[name] for name in types}
        parts += [self._of_kind(place, schema, kind) for kind in _sniffed(schema, draft) if kind not in taken]
        return parts

    def _reference(self, place: Place, text: str) -> Shape:
        documents = self._documents.get(id(place.document)) or next(iter(self._documents.values()))
        return Shape(kind=Kind.REFERENCE, body=Reference(text=text, target=documents.resolve(place, text)))

    def _typed(self, place: Place, schema: dict[str, Json], name: str) -> Shape:
        if name == "integer":
            return Shape(kind=Kind.NUMBER, body=_numbers(schema, is_integer=True))
        return self._of_kind(place, schema, _TYPES[name])

    def _of_kind(self, place: Place, schema: dict[str, Json], kind: Kind) -> Shape:
        match kind:
            case Kind.STRING:
                return Shape(kind=kind, body=_strings(schema))
            case Kind.NUMBER:
                return Shape(kind=kind, body=_numbers(schema, is_integer=False))
            case Kind.OBJECT:
                return Shape(kind=kind, body=self._objects(place, schema))
            case Kind.ARRAY:
                return Shape(kind=kind, body=self._arrays(place, schema))
            case _:
                return Shape(kind=kind)

    def _objects(self, place: Place, schema: dict[str, Json]) -> Objects:
        draft = place.document.draft
        additional, required = schema.get("additionalProperties"), schema.get("required")
        needs = _object(schema, "dependentRequired" if draft.is_modern else "dependencies")
        return Objects(
            properties=_places(place, "properties"),
            required=_names(required),
            patterns=_places(place, "patternProperties"),
            permits_additional=additional is not False,
            additional=place.child("additionalProperties", schema=additional) if isinstance(additional, dict) else None,
            unevaluated=self._unevaluated(place, schema, "unevaluatedProperties"),
            required_by={name: _names(each) for name, each in needs.items() if isinstance(each, list)},
            schema_by=_places(place, "dependentSchemas" if draft.is_modern else "dependencies"),
            min_properties=as_count(schema.get("minProperties")),
            max_properties=as_count(schema.get("maxProperties")),
        )

    def _arrays(self, place: Place, schema: dict[str, Json]) -> Arrays:
        draft = place.document.draft
        listed, every, rest = ("prefixItems", "items", "items") if draft.number == 2020 else ("items", "items", "additionalItems")
        items, additional = schema.get(listed), schema.get(rest)
        has_list = isinstance(items, list) and (len(items) > 0 or draft.number != 2020)
        one = schema.get(every) if isinstance(schema.get(every), dict | bool) else None
        if draft.number == 2020:
            additional, one = (additional, None) if has_list or isinstance(one, bool) else (None, one)
        has_contains = draft.is_modern and "contains" in schema
        return Arrays(
            every_item=place.child(every, schema=one) if one is not None else None,
            items=tuple(
                place.child(listed, str(index), schema=item) for index, item in enumerate(items if isinstance(items, list) else ())
            ),
            permits_additional=additional is not False,
            additional=place.child(rest, schema=additional) if isinstance(additional, dict) else None,
            unevaluated=self._unevaluated(place, schema, "unevaluatedItems"),
            min_items=as_count(schema.get("minItems")),
            max_items=as_count(schema.get("maxItems")),
            min_contains=as_count(schema.get("minContains", 1)) if has_contains else None,
            max_contains=as_count(schema.get("maxContains")) if has_contains else None,
            has_unique_items=schema.get("uniqueItems") is True,
        )

    def _unevaluated(self, place: Place, schema: dict[str, Json], keyword: str) -> Place | None:
        value = schema.get(keyword)
        if not place.document.draft.is_modern or not isinstance(value, dict | bool):
            return None
        found = place.child(keyword, schema=value)
        return None if self.is_anything(found) else found


_TYPES = {
    "string": Kind.STRING,
    "integer": Kind.NUMBER,
    "number": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
    "null": Kind.NULL,
    "array": Kind.ARRAY,
    "object": Kind.OBJECT,
}


def _joined(parts: list[Shape], notes: Notes) -> Shape:
    """Return one shape. Several parts must all hold, those that are combined themselves first."""
    if not parts:
        return Shape(kind=Kind.ANYTHING, notes=notes)
    if len(parts) == 1:
        return Shape(kind=parts[0].kind, body=parts[0].body, notes=notes)
    ordered = sorted(parts, key=lambda part: part.kind is not Kind.COMBINED)
    return _of_parts(Criterion.ALL, ordered, notes)


def _of_parts(criterion: Criterion, parts: list[Shape], notes: Notes) -> Shape:
    body = Combined(criterion=criterion, parts=tuple(parts), distinct=tuple(parts))
    return Shape(kind=Kind.COMBINED, body=body, notes=notes)


def _notes(schema: dict[str, Json], draft: Draft) -> Notes:
    return Notes(
        own_id=_text(schema, draft.id_keyword),
        title=_text(schema, "title"),
        description=_text(schema, "description"),
        default=(value_key(schema["default"]),) if "default" in schema else None,
        connect_type=_text(schema, "connect.type"),
    )


def _types(schema: dict[str, Json]) -> list[str]:
    names = schema.get("type")
    listed = [names] if isinstance(names, str) else names if isinstance(names, list) else []
    return [name for name in listed if isinstance(name, str) and name in _TYPES]


def _sniffed(schema: dict[str, Json], draft: Draft) -> list[Kind]:
    """Return the kinds that a keyword speaks of."""
    says = {keyword for keyword, value in schema.items() if not draft.is_modern or keyword not in _EMPTY or value}
    says -= _NOT_IN.get(draft.number, frozenset())
    strings, objects, arrays = _OLD_STRINGS, _OLD_OBJECTS, _OLD_ARRAYS
    if draft.is_modern:
        strings, objects, arrays = _MODERN_STRINGS, _MODERN_OBJECTS, _MODERN_ARRAYS
    conditions = {"if"} if draft.is_modern else _CONDITIONS if draft.number == 7 else set()
    kinds = (
        (Kind.ARRAY, arrays),
        (Kind.OBJECT, objects),
        (Kind.NUMBER, _NUMBERS),
        (Kind.STRING, strings),
        (Kind.CONDITIONAL, conditions),
    )
    return [kind for kind, keywords in kinds if says & keywords]


_EMPTY = frozenset({"properties", "patternProperties"})
"""Keywords that say nothing where they are empty, since 2019-09."""


def _enumeration(schema: dict[str, Json]) -> list[Shape]:
    values = schema.get("enum")
    if not isinstance(values, list):
        return []
    return [Shape(kind=Kind.ENUM, body=Values(keys=frozenset(map(value_key, values))))]


def _combined(place: Place, schemas: list[Json], criterion: Criterion) -> Shape:
    parts = tuple(place.child(criterion.value, str(index), schema=each) for index, each in enumerate(schemas))
    distinct = {value_key(part.schema): part for part in reversed(parts)}
    body = Combined(criterion=criterion, parts=parts, distinct=tuple(reversed(distinct.values())))
    return Shape(kind=Kind.COMBINED, body=body)


def _strings(schema: dict[str, Json]) -> Strings:
    return Strings(
        min_length=as_count(schema.get("minLength")),
        max_length=as_count(schema.get("maxLength")),
        pattern=_text(schema, "pattern"),
    )


def _numbers(schema: dict[str, Json], *, is_integer: bool) -> Numbers:
    """Return the limits of numbers. The flags of draft 4 are no limits."""
    return Numbers(
        minimum=as_number(schema.get("minimum")),
        maximum=as_number(schema.get("maximum")),
        exclusive_minimum=as_number(schema.get("exclusiveMinimum")),
        exclusive_maximum=as_number(schema.get("exclusiveMaximum")),
        multiple_of=as_number(schema.get("multipleOf")),
        is_integer=is_integer,
    )


def _places(place: Place, keyword: str) -> dict[str, Place]:
    schemas = _object(place.schema, keyword)
    return {name: place.child(keyword, name, schema=each) for name, each in schemas.items() if isinstance(each, dict | bool)}


def _object(schema: Json, keyword: str) -> Mapping[str, Json]:
    value = schema.get(keyword) if isinstance(schema, dict) else None
    return value if isinstance(value, dict) else {}


def _names(value: Json) -> frozenset[str]:
    return frozenset(name for name in value if isinstance(name, str)) if isinstance(value, list) else frozenset()


def _text(schema: dict[str, Json], keyword: str) -> str | None:
    value = schema.get(keyword)
    return value if isinstance(value, str) else None
