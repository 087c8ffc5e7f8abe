"""Writes a schema and its dependencies as one schema, which a client can read without a registry.

Each dependency becomes a definition. References become JSON pointers, so ids of inner schemas and
anchors are left out. Confluent's registry has no such form, and answers the schema as it is.
"""

from collections.abc import Mapping
from urllib.parse import quote

from log_service.http.schema_registry.languages.json_schema.drafts import children, pointer
from log_service.http.schema_registry.languages.json_schema.json_text import Json
from log_service.http.schema_registry.languages.json_schema.references import Document, Documents, Place, references_of
from log_service.http.schema_registry.languages.limits import Budget

_NAMING = frozenset({"$anchor", "$dynamicAnchor", "$schema", "$vocabulary"})
_FRAGMENT = "#/~!$&'()*+,;=:@?"
"""Characters that stay as they are in a fragment, beside letters and digits."""

Homes = Mapping[Document, tuple[str, ...]]
"""The way from the bundle to each document in it."""


def bundled(documents: Documents, budget: Budget) -> Json:
    """Return the schema, with its dependencies as definitions."""
    root = documents.root
    if not documents.names or not isinstance(root.schema, dict):
        return root.schema
    keyword = root.document.draft.definitions
    own = root.schema.get(keyword)
    names = _free_names(documents.names, own if isinstance(own, dict) else {})
    homes: Homes = {root.document: ()} | {place.document: (keyword, names[name]) for name, place in documents.names.items()}
    added = {names[name]: _rewritten(place, documents, homes, budget) for name, place in documents.names.items()}
    made = _rewritten_object(root, root.schema, documents, homes, budget)
    definitions = made.get(keyword)
    return made | {keyword: (definitions if isinstance(definitions, dict) else {}) | added}


def _free_names(wanted: Mapping[str, Place], taken: Mapping[str, Json]) -> dict[str, str]:
    """Return a name for each dependency: its own, with primes where a definition has it already."""
    free: dict[str, str] = {}
    for name in wanted:
        candidate = name
        while candidate in taken or candidate in free.values():
            candidate += "'"
        free[name] = candidate
    return free


def _rewritten(place: Place, documents: Documents, homes: Homes, budget: Budget) -> Json:
    if isinstance(place.schema, dict):
        return _rewritten_object(place, place.schema, documents, homes, budget)
    return place.schema


def _rewritten_object(place: Place, schema: dict[str, Json], documents: Documents, homes: Homes, budget: Budget) -> dict[str, Json]:
    budget.spend()
    draft = place.document.draft
    dropped = frozenset() if place is documents.root else _NAMING | {draft.id_keyword}
    made = {keyword: value for keyword, value in schema.items() if keyword not in dropped}
    for keyword, text in references_of(schema, draft):
        made[keyword] = _reference(documents.resolve(place, text), text, homes)
    for child in children(schema, draft):
        inner = _rewritten(place.child(*child.steps, schema=child.schema), documents, homes, budget)
        _put(made, schema, child.steps, inner)
    return made


def _reference(target: Place | None, text: str, homes: Homes) -> str:
    """Return the pointer to a schema of the bundle. A meta-schema is none of it."""
    if target is None or target.document not in homes:
        return text
    return quote(pointer(homes[target.document] + target.steps), safe=_FRAGMENT)


def _put(made: dict[str, Json], old: Mapping[str, Json], steps: tuple[str, ...], inner: Json) -> None:
    """Put an inner schema at its place, into a copy of the list or object around it."""
    keyword, *rest = steps
    if not rest:
        made[keyword] = inner
        return
    around = made[keyword]
    if isinstance(around, list):
        around = list(around) if around is old[keyword] else around
        around[int(rest[0])] = inner
    elif isinstance(around, dict):
        around = dict(around) if around is old[keyword] else around
        around[rest[0]] = inner
    made[keyword] = around
