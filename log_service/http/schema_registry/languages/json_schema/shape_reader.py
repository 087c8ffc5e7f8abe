"""Translates schemas into shapes, the form in which they are compared, one schema at a time.

A keyword belongs to a kind of values, for instance ``maxLength`` to strings. A ``type`` makes a
shape of the kind that it names. Keywords of other kinds make further shapes, one for each kind,
because a keyword applies only to values of its kind.
"""

from collections.abc import Mapping

from log_service.http.schema_registry.languages.json_schema.drafts import Draft
from log_service.http.schema_registry.languages.json_schema.json_text import (
    Json,
    as_count,
    as_number,
    value_key,
)
from log_service.http.schema_registry.languages.json_schema.references import (
    Documents,
    Place,
    references_of,
)
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
_OLD_ARRAYS = frozenset(
    {*("items", "additionalItems", "contains"), *("minItems", "maxItems", "uniqueItems")}
)
_MODERN_STRINGS = _OLD_STRINGS - {"format"}
_MODERN_OBJECTS = (_OLD_OBJECTS - {"dependencies"}) | {
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
}
_MODERN_ARRAYS = _OLD_ARRAYS | {"prefixItems", "unevaluatedItems"}
_NOT_IN = {
    4: frozenset({"propertyNames", "contains"}),
    2019: frozenset({"prefixItems"}),
    2020: frozenset({"additionalItems"}),
}
_CONDITIONS = frozenset({"if", "then", "else"})


class ShapeReader:
    """Reads the shapes of schemas, and caches them."""

    __slots__ = ("_documents", "_kept", "_meant")

    def __init__(self, *schemas: Documents) -> None:
        self._documents: dict[int, Documents] = {}
        for documents in schemas:
            self._documents |= dict.fromkeys(map(id, documents.documents), documents)
        self._kept: dict[int, Shape] = {}
        self._meant: dict[Shape, Shape] = {}

    def __repr__(self) -> str:
        return f"<ShapeReader of {len(self._kept)} shapes>"

    def written(self, place: Place) -> Shape:
        """Return the shape of a schema as it is written. A reference is a shape of its own."""
        key = id(place.schema)
        if (shape := self._kept.get(key)) is None:
            shape = self._kept[key] = self._read(place)
        return shape

    def meant(self, node: Place | Shape) -> Shape:
        """Follow references, and return the shape of the schema to which they lead.

        Return the reference's own shape if it leads to no schema.
        """
        shape = self.written(node) if isinstance(node, Place) else node
        passed: set[Shape] = set()
        while shape not in passed and (target := _target(shape)) is not None:
            if (known := self._meant.get(shape)) is not None:
                shape = known
                break
            passed.add(shape)
            shape = self.written(target)
        self._meant |= dict.fromkeys(passed, shape)
        return shape

    def is_anything(self, place: Place) -> bool:
        """Whether a schema itself permits any value. References are not followed."""
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
        if (negated := _place(place, "not")) is not None:
            parts.append(Shape(kind=Kind.NOT, body=Negation(schema=negated)))
        if draft.number > 4 and "const" in schema:
            constant = frozenset({value_key(schema["const"])})
            parts.append(Shape(kind=Kind.CONST, body=Values(keys=constant)))
        return [*parts, *self._types(place, schema), *self._sniffed(place, schema)]

    def _types(self, place: Place, schema: dict[str, Json]) -> list[Shape]:
        """Return the shape of the keyword ``type``, if any. A list of types becomes an anyOf."""
        typed = [self._typed(place, schema, name) for name in _types(schema)]
        is_choice = bool(typed) and not isinstance(schema.get("type"), str)
        return [_of_parts(Criterion.ANY, typed, Notes())] if is_choice else typed

    def _sniffed(self, place: Place, schema: dict[str, Json]) -> list[Shape]:
        """Return the shapes of keywords whose kind is not among the types in ``type``."""
        taken = {_TYPES[name] for name in _types(schema)}
        kinds = (kind for kind in _sniffed(schema, place.document.draft) if kind not in taken)
        return [self._of_kind(place, schema, kind) for kind in kinds]

    def _reference(self, place: Place, text: str) -> Shape:
        documents = self._documents.get(id(place.document)) or next(iter(self._documents.values()))
        target = documents.resolve(place, text)
        return Shape(kind=Kind.REFERENCE, body=Reference(text=text, target=target))

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
        needs = _object(schema, "dependentRequired" if draft.is_modern else "dependencies")
        lists = ((name, each) for name, each in needs.items() if isinstance(each, list))
        rest = _place(place, "additionalProperties")
        return Objects(
            properties=_places(place, "properties"),
            required=_names(schema.get("required")),
            patterns=_places(place, "patternProperties"),
            permits_additional=rest is None or rest.schema is not False,
            additional=_unless_flag(rest),
            unevaluated=self._unevaluated(place, "unevaluatedProperties"),
            required_by={name: _names(each) for name, each in lists},
            schema_by=_places(place, "dependentSchemas" if draft.is_modern else "dependencies"),
            min_properties=as_count(schema.get("minProperties")),
            max_properties=as_count(schema.get("maxProperties")),
        )

    def _arrays(self, place: Place, schema: dict[str, Json]) -> Arrays:
        """Return the limits of arrays.

        If one schema applies to every item, the array has no additional items.
        """
        draft = place.document.draft
        items, every = _listed(place, "items"), _place(place, "items")
        rest = _place(place, "additionalItems")
        if draft.number == 2020:
            items = _listed(place, "prefixItems")
            is_rest = len(items) > 0 or isinstance(schema.get("items"), bool)
            every, rest = (None, every) if is_rest else (every, None)
        has_contains = draft.is_modern and "contains" in schema
        return Arrays(
            every_item=every,
            items=items,
            permits_additional=every is not None or rest is None or rest.schema is not False,
            additional=_unless_flag(rest),
            unevaluated=self._unevaluated(place, "unevaluatedItems"),
            min_items=as_count(schema.get("minItems")),
            max_items=as_count(schema.get("maxItems")),
            min_contains=as_count(schema.get("minContains", 1)) if has_contains else None,
            max_contains=as_count(schema.get("maxContains")) if has_contains else None,
            has_unique_items=schema.get("uniqueItems") is True,
        )

    def _unevaluated(self, place: Place, keyword: str) -> Place | None:
        found = _place(place, keyword) if place.document.draft.is_modern else None
        return None if found is None or self.is_anything(found) else found


_TYPES = {
    "string": Kind.STRING,
    "integer": Kind.NUMBER,
    "number": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
    "null": Kind.NULL,
    "array": Kind.ARRAY,
    "object": Kind.OBJECT,
}


def _target(shape: Shape) -> Place | None:
    return shape.body.target if isinstance(shape.body, Reference) else None


def _joined(parts: list[Shape], notes: Notes) -> Shape:
    """Return one shape for the parts of a schema, with the schema's annotations.

    No part means that any value is accepted. Several parts become an allOf, in which combined
    schemas come first.
    """
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
    """Return the kinds to which the keywords of a schema belong."""
    empty = {keyword for keyword in _EMPTY if draft.is_modern and not schema.get(keyword)}
    says = schema.keys() - empty - _NOT_IN.get(draft.number, frozenset())
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
"""Keywords that, since 2019-09, make no shape of their kind if they are empty."""


def _enumeration(schema: dict[str, Json]) -> list[Shape]:
    values = schema.get("enum")
    if not isinstance(values, list):
        return []
    return [Shape(kind=Kind.ENUM, body=Values(keys=frozenset(map(value_key, values))))]


def _combined(place: Place, schemas: list[Json], criterion: Criterion) -> Shape:
    keyword = criterion.value
    numbered = enumerate(schemas)
    parts = tuple(place.child(keyword, str(index), schema=each) for index, each in numbered)
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
    """Return the limits of numbers. A boolean ``exclusiveMinimum`` of draft 4 is ignored."""
    return Numbers(
        minimum=as_number(schema.get("minimum")),
        maximum=as_number(schema.get("maximum")),
        exclusive_minimum=as_number(schema.get("exclusiveMinimum")),
        exclusive_maximum=as_number(schema.get("exclusiveMaximum")),
        multiple_of=as_number(schema.get("multipleOf")),
        is_integer=is_integer,
    )


def _place(place: Place, keyword: str) -> Place | None:
    """Return the schema that is the value of a keyword, or None."""
    value = place.schema.get(keyword) if isinstance(place.schema, dict) else None
    return place.child(keyword, schema=value) if isinstance(value, dict | bool) else None


def _unless_flag(place: Place | None) -> Place | None:
    """Return the schema if it is an object, or None if it is a boolean."""
    return place if place is not None and isinstance(place.schema, dict) else None


def _listed(place: Place, keyword: str) -> tuple[Place, ...]:
    """Return the schemas in the list that is the value of a keyword."""
    value = place.schema.get(keyword) if isinstance(place.schema, dict) else None
    numbered = enumerate(value if isinstance(value, list) else ())
    return tuple(place.child(keyword, str(index), schema=item) for index, item in numbered)


def _places(place: Place, keyword: str) -> dict[str, Place]:
    """Return the schemas in the object that is the value of a keyword, by their names."""
    named = _object(place.schema, keyword).items()
    schemas = ((name, each) for name, each in named if isinstance(each, dict | bool))
    return {name: place.child(keyword, name, schema=each) for name, each in schemas}


def _object(schema: Json, keyword: str) -> Mapping[str, Json]:
    value = schema.get(keyword) if isinstance(schema, dict) else None
    return value if isinstance(value, dict) else {}


def _names(value: Json) -> frozenset[str]:
    names = value if isinstance(value, list) else ()
    return frozenset(name for name in names if isinstance(name, str))


def _text(schema: dict[str, Json], keyword: str) -> str | None:
    value = schema.get(keyword)
    return value if isinstance(value, str) else None
