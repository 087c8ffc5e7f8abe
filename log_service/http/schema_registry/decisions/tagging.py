"""Changes tags inside the text of a schema, as a part of a registration or alone.

Only texts of Avro and JSON Schema are edited. Changes of tags in Protobuf are refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.entities import BadFieldError, read_names, shown
from log_service.http.schema_registry.languages.avro import inline_tags as avro
from log_service.http.schema_registry.languages.json_schema import inline_tags as json_schema
from log_service.http.schema_registry.languages.language import InvalidSchemaError, SchemaType
from log_service.http.schema_registry.languages.tags import ENTITY_TYPES, Entity, Tags
from log_service.http.schema_registry.parsing import SchemaParser
from log_service.http.schema_registry.values import RegisteredSchema, SchemaContent

ANY_TAG = "*"
EDITED = {SchemaType.AVRO: avro, SchemaType.JSON: json_schema}
"""The languages whose texts are edited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagChanges:
    """Tags to add and to remove, for each record or field."""

    added: Tags = field(default_factory=dict)
    removed: Tags = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


def read_tag_changes(fields: Mapping[str, Any], added: str, removed: str) -> TagChanges:
    """Return the tag changes in the two fields of a request that ``added`` and ``removed`` name.

    Raises:
        BadFieldError: a part is missing or has another type.
    """
    return TagChanges(added=_read_tags(fields, added), removed=_read_tags(fields, removed))


def tagged(
    parser: SchemaParser, subject: str, content: SchemaContent, changes: TagChanges
) -> SchemaContent:
    """Return a content with changed tags.

    Raises:
        RegistryError: the schema is invalid, is one of Protobuf, or has no such record or field.
    """
    if not changes:
        return content
    language = EDITED.get(content.schema_type)
    if language is None:
        text = f"Tags in the text of a schema of type {content.schema_type} cannot be edited here"
        raise errors.RegistryError(errors.UNPROCESSABLE, f"{text}: send the whole text.")
    canonical = parser.parse(content, subject, is_new=False).canonical
    try:
        return replace(content, text=language.with_tags(canonical, changes.added, changes.removed))
    except InvalidSchemaError as error:
        raise errors.invalid_schema(content.schema_type.value, str(error)) from error


def found_tags(
    parser: SchemaParser, schema: RegisteredSchema, wanted: list[str]
) -> list[dict[str, Any]]:
    """Return the records and fields that have one of the wanted tags, as responses show them.

    An invalid schema has none. Another registry may have accepted it.
    """
    language = EDITED.get(schema.content.schema_type)
    if language is None:
        return []
    try:
        text = parser.registered(schema).canonical
    except errors.RegistryError:
        return []
    return [
        {
            "schemaEntity": {"entityPath": entity.path, "entityType": entity.type},
            "tags": tags,
        }
        for entity, tags in language.inline_tags(text).items()
        if ANY_TAG in wanted or not set(wanted).isdisjoint(tags)
    ]


def _read_tags(fields: Mapping[str, Any], name: str) -> dict[Entity, list[str]]:
    given = fields.get(name) or []
    if not isinstance(given, list):
        raise BadFieldError(f"{name} has to be a list, and is {shown(given)}")
    found: dict[Entity, list[str]] = {}
    for each in given:
        entity = each.get("schemaEntity") if isinstance(each, dict) else None
        path, kind = (
            (entity.get("entityPath"), entity.get("entityType"))
            if isinstance(entity, dict)
            else (None, None)
        )
        if not isinstance(path, str) or kind not in ENTITY_TYPES:
            text = "a schemaEntity with an entityPath and an entityType, sr_record or sr_field"
            raise BadFieldError(f"{name} has to name {text}, and has {shown(each)}")
        tags = found.setdefault(Entity(path=path.removeprefix("."), type=kind), [])
        tags += read_names(each, "tags")
    return found
