"""Compares objects: required properties, properties, dependencies, and additional properties.

A schema is open if it allows additional properties with any value, closed if it allows none, and
partly open if a schema or a pattern limits them. A strict reader may drop a property only if it
accepts the property's values as additional ones. It may add a property only if its schema accepts
all values that the writer permits under that name. A required one also needs a default, unless the
writer is open.
"""

from collections.abc import Iterable, Mapping

from log_service.common.java_hashing import (
    FIRST_BUCKET_COUNT,
    bucket_count_of_copy,
    in_hash_map_order,
)
from log_service.http.schema_registry.languages.json_schema.changes import Change
from log_service.http.schema_registry.languages.json_schema.comparison import Notebook, Pair, Steps
from log_service.http.schema_registry.languages.json_schema.patterns import (
    names_that_match,
    names_that_may_match,
)
from log_service.http.schema_registry.languages.json_schema.references import Place
from log_service.http.schema_registry.languages.json_schema.shapes import Kind, Objects
from log_service.http.schema_registry.languages.json_schema.value_rules import (
    MAX_PROPERTIES,
    MIN_PROPERTIES,
    compare_limit,
)


def compare_objects(notes: Notebook, writer: Objects, reader: Objects) -> Steps:
    """Add the differences of two object schemas to ``notes``."""
    _compare_required(notes, writer, reader)
    yield from _compare_properties(notes, writer, reader)
    yield from _compare_dependencies(notes, writer, reader)
    yield from _compare_additional(notes, writer, reader)
    yield from compare_unevaluated(notes, writer.unevaluated, reader.unevaluated, "Properties")
    compare_limit(notes, MAX_PROPERTIES, writer.max_properties, reader.max_properties)
    compare_limit(notes, MIN_PROPERTIES, writer.min_properties, reader.min_properties)


def compare_unevaluated(
    notes: Notebook, writer: Place | None, reader: Place | None, of: str
) -> Steps:
    """Note how the schemas of unevaluated properties or items differ.

    ``of`` is "Properties" or "Items". None as a schema permits any value.
    """
    path, name = f"unevaluated{of}", f"UNEVALUATED_{of.upper()}"
    was_closed, is_closed = (each is not None and each.schema is False for each in (writer, reader))
    if was_closed and not is_closed:
        notes.note(Change[f"{name}_ADDED"], path)
    elif is_closed and not was_closed:
        notes.note(Change[f"{name}_REMOVED"], path)
    elif writer is None and reader is not None:
        notes.note(Change[f"{name}_NARROWED"], path)
    elif reader is None and writer is not None:
        notes.note(Change[f"{name}_EXTENDED"], path)
    elif writer is not None and reader is not None:
        notes.include((yield Pair(writer=writer, reader=reader)), path)


def _compare_required(notes: Notebook, writer: Objects, reader: Objects) -> None:
    """Note which properties of both schemas became required or optional."""
    for name in _in_order(writer.properties):
        if name not in reader.properties or (name in writer.required) == (name in reader.required):
            continue
        if name in writer.required:
            notes.note(Change.REQUIRED_ATTRIBUTE_REMOVED, f"required/{name}")
        elif _has_default(notes, reader.properties[name]):
            notes.note(Change.REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED, f"required/{name}")
        else:
            notes.note(Change.REQUIRED_ATTRIBUTE_ADDED, f"required/{name}")


def _compare_properties(notes: Notebook, writer: Objects, reader: Objects) -> Steps:
    dropped = [name for name in writer.properties if name not in reader.properties]
    added = [name for name in reader.properties if name not in writer.properties]
    dropped_rest = _rest_of(notes, reader, dropped, is_strict=True)
    added_rest = _rest_of(notes, writer, added, is_strict=False)
    for name in _union(writer.properties, reader.properties):
        notes.budget.spend()
        path = f"properties/{name}"
        old, new = writer.properties.get(name), reader.properties.get(name)
        if old is not None and new is not None:
            notes.include((yield Pair(writer=old, reader=new)), path)
        elif old is not None:
            yield from _compare_dropped(notes, old, reader, dropped_rest[name], path)
        else:
            yield from _compare_added(notes, writer, reader, name, added_rest[name])


def _compare_dropped(
    notes: Notebook, dropped: Place, reader: Objects, rest: Place | None, path: str
) -> Steps:
    """Note the change of a property that only the writer names.

    ``rest`` is the reader's schema of this property as an additional one.
    """
    if reader.is_open:
        notes.note(Change.PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL, path)
    elif rest is not None:
        outcome = yield Pair(writer=dropped, reader=rest)
        notes.include(outcome, path)
        if outcome.is_compatible:
            notes.note(Change.PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL, path)
        else:
            notes.note(Change.PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL, path)
    elif notes.shapes.written(dropped).kind is Kind.FALSE:
        notes.note(Change.PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL, path)
    else:
        notes.note(Change.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL, path)


def _compare_added(
    notes: Notebook, writer: Objects, reader: Objects, name: str, rest: Place | None
) -> Steps:
    """Note the change of a property that only the reader names.

    ``rest`` is the writer's schema of this property as an additional one.
    """
    added, path = reader.properties[name], f"properties/{name}"
    is_required, has_default = name in reader.required, _has_default(notes, added)
    if writer.is_open:
        if notes.shapes.is_anything(added):
            notes.note(Change.PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL, path)
        elif not is_required:
            notes.note(Change.OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL, path)
        elif has_default:
            notes.note(Change.REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL, path)
        else:
            notes.note(Change.REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL, path)
        return
    if rest is not None:
        outcome = yield Pair(writer=rest, reader=added)
        notes.include(outcome, path)
        if outcome.is_compatible:
            notes.note(Change.PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL, path)
        else:
            notes.note(Change.PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL, path)
    if not is_required:
        notes.note(Change.OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL, path)
    elif has_default:
        notes.note(Change.REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL, path)
    else:
        notes.note(Change.REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL, path)


def _compare_dependencies(notes: Notebook, writer: Objects, reader: Objects) -> Steps:
    for name in _union(writer.required_by, reader.required_by):
        path = f"dependencies/{name}"
        old, new = writer.required_by.get(name), reader.required_by.get(name)
        if new is None:
            notes.note(Change.DEPENDENCY_ARRAY_REMOVED, path)
        elif old is None:
            notes.note(Change.DEPENDENCY_ARRAY_ADDED, path)
        elif old < new:
            notes.note(Change.DEPENDENCY_ARRAY_EXTENDED, path)
        elif old > new:
            notes.note(Change.DEPENDENCY_ARRAY_NARROWED, path)
        elif old != new:
            notes.note(Change.DEPENDENCY_ARRAY_CHANGED, path)
    for name in _union(writer.schema_by, reader.schema_by):
        path = f"dependencies/{name}"
        before, after = writer.schema_by.get(name), reader.schema_by.get(name)
        if before is not None and after is not None:
            notes.include((yield Pair(writer=before, reader=after)), path)
        elif before is not None:
            notes.note(Change.DEPENDENCY_SCHEMA_REMOVED, path)
        else:
            notes.note(Change.DEPENDENCY_SCHEMA_ADDED, path)


def _compare_additional(notes: Notebook, writer: Objects, reader: Objects) -> Steps:
    path = "additionalProperties"
    if writer.permits_additional != reader.permits_additional:
        added, removed = Change.ADDITIONAL_PROPERTIES_ADDED, Change.ADDITIONAL_PROPERTIES_REMOVED
        notes.note(added if reader.permits_additional else removed, path)
    elif writer.additional is None and reader.additional is not None:
        notes.note(Change.ADDITIONAL_PROPERTIES_NARROWED, path)
    elif reader.additional is None and writer.additional is not None:
        notes.note(Change.ADDITIONAL_PROPERTIES_EXTENDED, path)
    elif writer.additional is not None and reader.additional is not None:
        notes.include((yield Pair(writer=writer.additional, reader=reader.additional)), path)


def _rest_of(
    notes: Notebook, schema: Objects, names: list[str], *, is_strict: bool
) -> dict[str, Place | None]:
    """Return for each name the schema that limits it as an additional property, or None.

    It is the schema of the first pattern that matches the name, or else ``schema.rest``. A pattern
    that RE2 cannot read matches no name with ``is_strict``, and otherwise every name. The caller
    chooses ``is_strict`` so that doubt never makes two schemas compatible.
    """
    found: dict[str, Place | None] = dict.fromkeys(names, schema.rest)
    if names:
        matching = names_that_match if is_strict else names_that_may_match
        for pattern, place in reversed(list(schema.patterns.items())):
            found |= dict.fromkeys(matching(pattern, names, notes.budget), place)
    return found


def _has_default(notes: Notebook, place: Place) -> bool:
    """Whether a schema itself has a default. A default of a referenced schema does not count."""
    return notes.shapes.written(place).notes.default is not None


def _union(writer: Mapping[str, object], reader: Mapping[str, object]) -> Iterable[str]:
    """Return the names of both, in the order of a Java hash set, as in Confluent's registry."""
    bucket_count = max(FIRST_BUCKET_COUNT, bucket_count_of_copy(len(writer)))
    return _in_order(dict.fromkeys((*writer, *reader)), bucket_count)


def _in_order(names: Mapping[str, object], bucket_count: int = FIRST_BUCKET_COUNT) -> Iterable[str]:
    return in_hash_map_order(names, bucket_count=bucket_count) if len(names) > 1 else names
