"""Tags in the text of an Avro schema: which records and fields have them, and how they change.

A path is the full name of a record, or that and the name of a field. Other attributes stay.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from log_service.http.schema_registry.languages.avro.json_text import json_text
from log_service.http.schema_registry.languages.language import InvalidSchemaError

TAGS = "confluent:tags"
RECORD, FIELD = "sr_record", "sr_field"
ENTITY_TYPES = (RECORD, FIELD)
RECORDS = frozenset({"record", "error"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A record or a field of a schema."""

    path: str
    type: str


Tags = Mapping[Entity, Sequence[str]]


def inline_tags(text: str) -> dict[Entity, list[str]]:
    """Return the tags of a valid schema, in the order of its text."""
    found = entities(json.loads(text), "")
    return {entity: tags for entity, holder in found if (tags := _tags_of(holder))}


def with_tags(text: str, added: Tags, removed: Tags) -> str:
    """Return the text of a valid schema with some tags more, and others less.

    Raises:
        InvalidSchemaError: the schema has no such record or field.
    """
    schema = json.loads(text)
    holders = dict(entities(schema, ""))
    for entity in [*added, *removed]:
        if entity not in holders:
            raise InvalidSchemaError(f"there is no {entity.type} {entity.path!r} to tag")
    for entity in {**added, **removed}:
        holder = holders[entity]
        names = dict.fromkeys([*_tags_of(holder), *added.get(entity, ())])
        holder.pop(TAGS, None)
        left = [name for name in names if name not in removed.get(entity, ())]
        if left:
            holder[TAGS] = left
    return json_text(schema)


def _tags_of(holder: Mapping[str, Any]) -> list[str]:
    """Return the tags of a record or field. An attribute of another type is none."""
    tags = holder.get(TAGS)
    return [each for each in tags if isinstance(each, str)] if isinstance(tags, list) else []


def entities(schema: Any, namespace: str) -> Iterator[tuple[Entity, dict[str, Any]]]:
    """Yield each record and each field with the object of it, one after those around it."""
    if isinstance(schema, list):
        for branch in schema:
            yield from entities(branch, namespace)
        return
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if kind not in RECORDS if isinstance(kind, str) else True:
        for inner in (kind, schema.get("items"), schema.get("values")):
            yield from entities(inner, namespace)
        return
    name = schema["name"]
    before, dot, _ = name.rpartition(".")
    inside = before if dot else schema.get("namespace", namespace)
    full = name if dot or not inside else f"{inside}.{name}"
    yield Entity(path=full, type=RECORD), schema
    for field in schema["fields"]:
        yield Entity(path=f"{full}.{field['name']}", type=FIELD), field
        yield from entities(field["type"], inside)
