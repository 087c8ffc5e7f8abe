"""Finds, adds and removes tags inside the text of an Avro or JSON schema.

The tags of a record or field stand in its attribute ``confluent:tags``. The language finds these
entities, and yields each with its JSON object. Only this attribute is changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from log_service.http.schema_registry.languages.language import InvalidSchemaError

TAGS = "confluent:tags"
RECORD, FIELD = "sr_record", "sr_field"
ENTITY_TYPES = (RECORD, FIELD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A record or a field of a schema.

    Each language defines the form of ``path``. ``type`` is one of ``ENTITY_TYPES``.
    """

    path: str
    type: str


Tags = Mapping[Entity, Sequence[str]]
Entities = Iterable[tuple[Entity, dict[str, Any]]]


def found_in(entities: Entities) -> dict[Entity, list[str]]:
    """Return the tags of each entity, in the order of ``entities``.

    Entities without tags are left out.
    """
    return {entity: tags for entity, holder in entities if (tags := _tags_of(holder))}


def change(entities: Entities, added: Tags, removed: Tags) -> None:
    """Add and remove tags in place, in the JSON objects of ``entities``.

    A tag that is both added and removed is removed.

    Raises:
        InvalidSchemaError: the schema has no such record or field.
    """
    holders = dict(entities)
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


def _tags_of(holder: Mapping[str, Any]) -> list[str]:
    """Return the tags of a record or field.

    An attribute ``confluent:tags`` that is not a list means none. Only strings in the list count.
    """
    tags = holder.get(TAGS)
    return [each for each in tags if isinstance(each, str)] if isinstance(tags, list) else []
