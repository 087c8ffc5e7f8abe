"""The drafts of JSON Schema: their names, and the keywords whose values are schemas.

A schema names its draft in ``$schema``. Without it, or with an unknown one, the draft is 7, as in
Confluent's registry.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from log_service.http.schema_registry.languages.json_schema.json_text import Json

_SINGLE_4 = frozenset({"not", "items", "additionalItems", "additionalProperties"})
_SINGLE_6 = _SINGLE_4 | {"contains", "propertyNames"}
_SINGLE_7 = _SINGLE_6 | {"if", "then", "else"}
_SINGLE_2020 = (_SINGLE_7 - {"additionalItems"}) | {
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
}
_LISTED_4 = frozenset({"allOf", "anyOf", "oneOf", "items"})
_MAPPED_4 = frozenset({"properties", "patternProperties", "definitions", "dependencies"})
_MAPPED_2019 = _MAPPED_4 | {"$defs", "dependentSchemas"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One draft.

    ``single`` are keywords with one schema as their value, ``listed`` those with a list of schemas,
    and ``mapped`` those with an object of schemas.
    """

    number: int
    uris: tuple[str, ...]
    single: frozenset[str]
    listed: frozenset[str] = _LISTED_4
    mapped: frozenset[str] = _MAPPED_4
    id_keyword: str = "$id"
    definitions: str = "definitions"
    reference_keywords: tuple[str, ...] = ("$ref",)

    @property
    def is_modern(self) -> bool:
        """Whether keywords beside ``$ref`` apply, as they do since draft 2019-09."""
        return self.number >= 2019


DRAFT_4 = Draft(
    number=4,
    uris=("json-schema.org/draft-04/schema", "json-schema.org/schema"),
    single=_SINGLE_4,
    id_keyword="id",
)
DRAFT_6 = Draft(number=6, uris=("json-schema.org/draft-06/schema",), single=_SINGLE_6)
DRAFT_7 = Draft(number=7, uris=("json-schema.org/draft-07/schema",), single=_SINGLE_7)
DRAFT_2019 = Draft(
    number=2019,
    uris=("json-schema.org/draft/2019-09/schema",),
    single=_SINGLE_2020 | {"additionalItems"},
    mapped=_MAPPED_2019,
    definitions="$defs",
    reference_keywords=("$ref", "$recursiveRef"),
)
DRAFT_2020 = Draft(
    number=2020,
    uris=("json-schema.org/draft/2020-12/schema",),
    single=_SINGLE_2020,
    listed=(_LISTED_4 - {"items"}) | {"prefixItems"},
    mapped=_MAPPED_2019,
    definitions="$defs",
    reference_keywords=("$ref", "$dynamicRef"),
)
DRAFTS = (DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019, DRAFT_2020)
_SCHEME = re.compile("https?://")
_BY_URI = {uri: draft for draft in DRAFTS for uri in draft.uris}


def draft_of(schema: Json, otherwise: Draft = DRAFT_7) -> Draft:
    """Return the draft that a root schema names in ``$schema``, or ``otherwise`` if it names none.

    An unknown name means draft 7.
    """
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(uri, str):
        return otherwise
    scheme = _SCHEME.match(uri)
    return _BY_URI.get(uri[scheme.end() :].removesuffix("#"), DRAFT_7) if scheme else DRAFT_7


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A schema within a schema, and the path to it."""

    steps: tuple[str, ...]
    schema: Json = field(repr=False)


def children(schema: dict[str, Json], draft: Draft) -> Iterator[Child]:
    """Yield the schemas directly within a schema, also those in definitions.

    A value that is neither an object nor a boolean is left out, because it is not a schema.
    """
    for keyword, value in schema.items():
        if keyword in draft.single and isinstance(value, dict | bool):
            yield Child(steps=(keyword,), schema=value)
        elif keyword in draft.listed and isinstance(value, list):
            yield from _schemas(keyword, enumerate(value))
        elif keyword in draft.mapped and isinstance(value, dict):
            yield from _schemas(keyword, value.items())


def _schemas(keyword: str, items: Iterable[tuple[str | int, Json]]) -> Iterator[Child]:
    for name, item in items:
        if isinstance(item, dict | bool):
            yield Child(steps=(keyword, str(name)), schema=item)


def pointer(steps: tuple[str, ...]) -> str:
    """Return a JSON pointer, such as ``#/properties/a~1b``."""
    return "/".join(("#", *(step.replace("~", "~0").replace("/", "~1") for step in steps)))
