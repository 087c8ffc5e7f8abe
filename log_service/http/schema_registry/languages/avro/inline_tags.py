"""Finds and changes the tags of records and fields in the text of an Avro schema.

The path of a record is its full name. The path of a field adds the field's name to it.
"""

import json
from collections.abc import Iterator
from typing import Any

from log_service.http.schema_registry.languages.avro.json_text import json_text
from log_service.http.schema_registry.languages.tags import (
    FIELD,
    RECORD,
    Entity,
    Tags,
    change,
    found_in,
)

RECORDS = frozenset({"record", "error"})


def inline_tags(text: str) -> dict[Entity, list[str]]:
    """Return the tags of a valid schema, in the order of its text."""
    return found_in(entities(json.loads(text), ""))


def with_tags(text: str, added: Tags, removed: Tags) -> str:
    """Return the text of a valid schema with some tags added and others removed.

    Raises:
        InvalidSchemaError: the schema has no such record or field.
    """
    schema = json.loads(text)
    change(entities(schema, ""), added, removed)
    return json_text(schema)


def entities(schema: Any, namespace: str) -> Iterator[tuple[Entity, dict[str, Any]]]:
    """Yield each record and field with its JSON object, a record before its own fields."""
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
