"""Writes a schema and its dependencies as one schema, which a client can read without a registry.

Each dependency becomes a definition. References become JSON pointers. So inner schemas need no ids
and no anchors, and both are left out. Confluent's registry returns the schema unchanged instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from log_service.http.schema_registry.languages.json_schema.drafts import pointer
from log_service.http.schema_registry.languages.json_schema.json_text import Json
from log_service.http.schema_registry.languages.json_schema.references import (
    Document,
    Documents,
    Place,
    references_of,
)
from log_service.http.schema_registry.languages.limits import Budget

_NAMING = frozenset({"$anchor", "$dynamicAnchor", "$schema", "$vocabulary"})
_FRAGMENT = "#/~!$&'()*+,;=:@?"
"""Characters that are not escaped in a fragment, besides letters and digits."""


def bundled(documents: Documents, budget: Budget) -> Json:
    """Return the schema, with its dependencies as definitions."""
    root = documents.root
    if not documents.names or not isinstance(root.schema, dict):
        return root.schema
    keyword = root.document.draft.definitions
    own = root.schema.get(keyword)
    names = _free_names(documents.names, own if isinstance(own, dict) else {})
    homes: dict[Document, tuple[str, ...]] = {root.document: ()}
    homes |= {place.document: (keyword, names[name]) for name, place in documents.names.items()}
    writer = _Writer(documents=documents, homes=homes, budget=budget)
    added = {names[name]: writer.written(place) for name, place in documents.names.items()}
    made = writer.written_object(root, root.schema)
    definitions = made.get(keyword)
    return made | {keyword: (definitions if isinstance(definitions, dict) else {}) | added}


def _free_names(wanted: Mapping[str, Place], taken: Mapping[str, Json]) -> dict[str, str]:
    """Return an unused name for each dependency: its own name, with primes if that is taken."""
    free: dict[str, str] = {}
    for name in wanted:
        candidate = name
        while candidate in taken or candidate in free.values():
            candidate += "'"
        free[name] = candidate
    return free


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """Writes the schemas of several documents into one bundle.

    ``homes`` tells for each document its path within the bundle.
    """

    documents: Documents
    homes: Mapping[Document, tuple[str, ...]]
    budget: Budget

    def written(self, place: Place) -> Json:
        """Return a copy of a schema in which references are JSON pointers into the bundle."""
        if isinstance(place.schema, dict):
            return self.written_object(place, place.schema)
        return place.schema

    def written_object(self, place: Place, schema: dict[str, Json]) -> dict[str, Json]:
        """Return a copy of a JSON object in which references are JSON pointers into the bundle."""
        self.budget.spend()
        draft = place.document.draft
        is_root = place is self.documents.root
        dropped = frozenset() if is_root else _NAMING | {draft.id_keyword}
        made = {keyword: value for keyword, value in schema.items() if keyword not in dropped}
        for keyword, text in references_of(schema, draft):
            made[keyword] = self._reference(self.documents.resolve(place, text), text)
        for child in place.children():
            _put(made, schema, child.steps[len(place.steps) :], self.written(child))
        return made

    def _reference(self, target: Place | None, text: str) -> str:
        """Return the pointer to a schema in the bundle.

        A reference to a meta-schema stays ``text``, because a meta-schema is not in the bundle.
        """
        if target is None or target.document not in self.homes:
            return text
        return quote(pointer(self.homes[target.document] + target.steps), safe=_FRAGMENT)


Objects = dict[str, Json]


def _put(made: Objects, old: Objects, steps: tuple[str, ...], inner: Json) -> None:
    """Put ``inner`` at the path ``steps`` of ``made``, which is a shallow copy of ``old``.

    A list or object that ``made`` still shares with ``old`` is copied before it is changed.
    """
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
