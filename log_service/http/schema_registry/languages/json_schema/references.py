"""Finds the schema that a reference leads to, in the same text or in a dependency.

Nothing is ever fetched. A reference is looked up as the name of a dependency, and then as the URI
of a schema, which it has by its ``$id`` or by the dependency's name. A relative URI is joined with
that of the enclosing schema or text. The fragment of a reference is a JSON pointer or the name of
an anchor. The meta-schemas of the drafts are known without a dependency.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self

from log_service.http.schema_registry.languages.json_schema.drafts import (
    Draft,
    children,
    draft_of,
    pointer,
)
from log_service.http.schema_registry.languages.json_schema.json_text import Json
from log_service.http.schema_registry.languages.json_schema.uris import (
    fragment_of,
    join,
    without_fragment,
)
from log_service.http.schema_registry.languages.language import InvalidSchemaError
from log_service.http.schema_registry.languages.limits import Budget

_INDEX = re.compile("[0-9]{1,9}")
_METASCHEMAS = ("http://json-schema.org/draft", "https://json-schema.org/draft")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Document:
    """One text, with the schemas in it that can be named.

    ``name`` is the dependency's name in references, or empty for the schema itself. A resource is
    a schema with a URI of its own. ``resources`` holds them by URI. ``anchors`` holds the schemas
    with an anchor, by the ``id()`` of the schema of the enclosing resource and the anchor's name.
    """

    schema: Json = field(repr=False)
    name: str
    uri: str
    draft: Draft
    resources: dict[str, "Place"] = field(default_factory=dict, repr=False)
    anchors: dict[tuple[int, str], "Place"] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Place:
    """A schema, with the surroundings that decide where its references lead.

    ``base`` is the base URI, with the schema's own ``$id`` applied. ``scope`` is the nearest
    enclosing schema with a URI of its own, or None if the schema itself has one.
    """

    schema: Json = field(repr=False)
    document: Document
    base: str
    steps: tuple[str, ...] = ()
    scope: "Place | None" = None

    @property
    def resource(self) -> "Place":
        """The schema itself or the nearest enclosing one, whichever has a URI of its own."""
        return self.scope or self

    def child(self, *steps: str, schema: Json) -> "Place":
        """Return the place of a schema within this one, at the path ``steps``."""
        own_id = _own_id(schema, self.document.draft)
        uri = without_fragment(own_id) if own_id is not None else ""
        return Place(
            schema=schema,
            document=self.document,
            base=join(self.base, uri) if uri else self.base,
            steps=self.steps + steps,
            scope=None if uri else self.resource,
        )

    def children(self) -> "list[Place]":
        """Return the schemas directly within this one, also those in definitions."""
        if not isinstance(self.schema, dict):
            return []
        found = children(self.schema, self.document.draft)
        return [self.child(*child.steps, schema=child.schema) for child in found]

    def __str__(self) -> str:
        return f"{self.document.name}{pointer(self.steps)}"


def document(schema: Json, *, name: str, uri: str, draft: Draft, budget: Budget) -> Document:
    """Collect the ids and anchors of a schema, and return its document."""
    made = Document(schema=schema, name=name, uri=uri, draft=draft)
    root = root_of(made)
    made.resources[uri] = root
    waiting = [root]
    while waiting:
        budget.spend()
        place = waiting.pop()
        if isinstance(place.schema, dict):
            _register(place, place.schema)
            waiting += place.children()
    return made


def root_of(document: Document) -> Place:
    """Return the root schema of a document."""
    own_id = _own_id(document.schema, document.draft) or ""
    base = join(document.uri, without_fragment(own_id))
    return Place(schema=document.schema, document=document, base=base)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Documents:
    """A schema and its dependencies.

    ``resources`` are the schemas in all of them that have a URI, by URI. ``names`` are the root
    schemas of the dependencies, by the names in references.
    """

    root: Place
    documents: tuple[Document, ...] = field(repr=False)
    resources: dict[str, Place] = field(repr=False)
    names: dict[str, Place] = field(repr=False)

    @classmethod
    def of(cls, schema: Json, dependencies: Sequence[tuple[str, Json]], budget: Budget) -> Self:
        """Collect the ids in a schema and in its dependencies.

        ``dependencies`` are pairs of a name and a schema. A dependency that does not name its
        draft has the schema's draft.
        """
        draft = draft_of(schema)
        own = document(schema, name="", uri="", draft=draft, budget=budget)
        root = root_of(own)
        others = [
            document(
                each,
                name=name,
                uri=join(root.base, name.removesuffix("#")),
                draft=draft_of(each, draft),
                budget=budget,
            )
            for name, each in dependencies
        ]
        resources: dict[str, Place] = {}
        for each in (own, *others):
            resources = each.resources | resources
        return cls(
            root=root,
            documents=(own, *others),
            resources=resources,
            names={each.name: root_of(each) for each in others},
        )

    def resolve(self, place: Place, reference: str) -> Place | None:
        """Return the schema that a reference leads to, or None if it leads nowhere."""
        if (named := self.names.get(reference)) is not None:
            return named
        if reference.startswith("#"):
            fragment = fragment_of(reference)
            return _within(place.resource, fragment) or _within(root_of(place.document), fragment)
        for uri in (join(place.base, reference), join(place.document.uri, reference), reference):
            whole = without_fragment(uri)
            resource = self.resources.get(whole) or _metaschema(whole)
            if resource is not None and (found := _within(resource, fragment_of(uri))) is not None:
                return found
        return None


def references_of(schema: Json, draft: Draft) -> Iterator[tuple[str, str]]:
    """Yield the keyword and the text of each reference directly in a schema."""
    if isinstance(schema, dict):
        for keyword in draft.reference_keywords:
            if isinstance(text := schema.get(keyword), str):
                yield keyword, text


def validate_references(documents: Documents, budget: Budget) -> None:
    """Check that each reference leads to a schema, for all schemas that are reached from the root.

    Raises:
        InvalidSchemaError: a reference leads nowhere, or in a circle. The message names its path.
    """
    waiting = [documents.root]
    seen: set[int] = set()
    settled: set[int] = set()
    while waiting:
        place = waiting.pop()
        if not isinstance(place.schema, dict) or id(place.schema) in seen:
            continue
        budget.spend()
        seen.add(id(place.schema))
        draft = place.document.draft
        for keyword, text in references_of(place.schema, draft):
            waiting.append(_target(documents, place, keyword, text))
        if "$ref" in place.schema:
            _validate_no_circle(documents, place, settled, budget)
        if draft.is_modern or "$ref" not in place.schema:
            waiting += _reached(place)


def _target(documents: Documents, place: Place, keyword: str, text: str) -> Place:
    if (found := documents.resolve(place, text)) is None:
        fault = f"{place}/{keyword}: the reference {text!r} leads to no schema"
        advice = "name it in the references of the schema, because nothing is fetched"
        raise InvalidSchemaError(f"{fault}: {advice}")
    return found


def _reached(place: Place) -> Iterator[Place]:
    """Return the schemas directly within one, except those in ``definitions``.

    A schema in ``definitions`` only applies if another schema refers to it. Those in ``$defs`` are
    included nevertheless.
    """
    depth = len(place.steps)
    return (child for child in place.children() if child.steps[depth] != "definitions")


def _validate_no_circle(
    documents: Documents, place: Place, settled: set[int], budget: Budget
) -> None:
    """Refuse references that lead only to other references in a circle.

    ``settled`` collects the ``id()`` of each schema that is known to lead to no circle.

    Raises:
        InvalidSchemaError: the references lead in a circle.
    """
    path: set[int] = set()
    current: Place | None = place
    while current is not None and id(current.schema) not in settled:
        budget.spend()
        if id(current.schema) in path:
            raise InvalidSchemaError(f"{place}: the references lead in a circle, and to no schema")
        path.add(id(current.schema))
        text = dict(references_of(current.schema, current.document.draft)).get("$ref")
        current = documents.resolve(current, text) if text is not None else None
    settled |= path


def _own_id(schema: Json, draft: Draft) -> str | None:
    if not isinstance(schema, dict) or (not draft.is_modern and "$ref" in schema):
        return None
    own_id = schema.get(draft.id_keyword)
    return own_id if isinstance(own_id, str) else None


def _register(place: Place, schema: dict[str, Json]) -> None:
    if place.scope is None:
        place.document.resources.setdefault(place.base, place)
    if place.document.draft.is_modern:
        names = [schema.get("$anchor"), schema.get("$dynamicAnchor")]
    else:
        names = [fragment_of(_own_id(schema, place.document.draft) or "")]
    for name in names:
        if isinstance(name, str) and name and not name.startswith("/"):
            place.document.anchors.setdefault((id(place.resource.schema), name), place)


def _within(resource: Place, fragment: str) -> Place | None:
    if not fragment:
        return resource
    if not fragment.startswith("/"):
        return resource.document.anchors.get((id(resource.schema), fragment))
    place = resource
    for step in fragment[1:].split("/"):
        found = _step(place.schema, step.replace("~1", "/").replace("~0", "~"))
        if found is None:
            return None
        name, schema = found
        place = place.child(name, schema=schema)
    return place if isinstance(place.schema, dict | bool) else None


def _step(value: Json, name: str) -> tuple[str, Json] | None:
    match value:
        case dict() if name in value:
            return name, value[name]
        case list() if _INDEX.fullmatch(name) and int(name) < len(value):
            return name, value[int(name)]
        case _:
            return None


def _metaschema(uri: str) -> Place | None:
    return _known(uri) if uri.startswith(_METASCHEMAS) else None


@lru_cache
def _known(uri: str) -> Place | None:
    from jsonschema_specifications import REGISTRY  # noqa: PLC0415 - few schemas refer to one

    if REGISTRY.get(uri) is None:
        return None
    contents = REGISTRY.contents(uri)
    draft = draft_of(contents)
    return root_of(document(contents, name=uri, uri=uri, draft=draft, budget=Budget()))
