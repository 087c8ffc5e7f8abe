"""Prints a type as Avro's ``Schema.toString`` does: compact, with attributes in its own order.

A named type is printed in full at its first use, and as its name from then on. Attributes that Avro
does not define keep their order and their values.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from log_service.http.schema_registry.languages.avro.json_text import json_text, quoted
from log_service.http.schema_registry.languages.avro.types import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Name,
    Named,
    Primitive,
    Properties,
    Record,
    Union,
    Use,
    target,
)
from log_service.http.schema_registry.languages.language import InvalidSchemaError


class Part(NamedTuple):
    """A type that is still to be printed, with the namespace around it and its depth."""

    use: Use
    namespace: str
    depth: int


def print_type(
    root: AvroType,
    known: Iterable[str] = (),
    *,
    view: Callable[[AvroType], AvroType] = lambda avro_type: avro_type,
    nesting: int | None = None,
) -> str:
    """Return the text of a type.

    Types whose full names are ``known`` are printed as their names. ``view`` maps a type to the
    type to print instead.

    Raises:
        InvalidSchemaError: the text would nest types deeper than ``nesting``.
    """
    written = set(known)
    texts: list[str] = []
    waiting: list[str | Part] = [Part(root, "", 0)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            texts.append(part)
            continue
        if nesting is not None and part.depth > nesting:
            reason = f"types are nested deeper than {nesting}, each written out at its first use"
            raise InvalidSchemaError(reason)
        avro_type = target(part.use)
        if isinstance(avro_type, Named):
            if avro_type.name.full in written:
                texts.append(quoted(avro_type.name.seen_from(part.namespace)))
                continue
            written.add(avro_type.name.full)
        waiting.extend(reversed(list(_parts(view(avro_type), part))))
    return "".join(texts)


def _parts(avro_type: AvroType, place: Part) -> Iterator[str | Part]:
    """Yield the pieces of a type's text in order. An inner type is yielded as a ``Part``."""
    inner = place._replace(depth=place.depth + 1)
    match avro_type:
        case Primitive(kind=kind, properties=properties):
            yield f'{{"type":"{kind}"{_properties(properties)}}}' if properties else f'"{kind}"'
        case Union(branches=branches):
            yield "["
            for number, branch in enumerate(branches):
                yield "," if number else ""
                yield inner._replace(use=branch)
            yield "]"
        case Array():
            yield '{"type":"array","items":'
            yield inner._replace(use=avro_type.items)
            yield f"{_properties(avro_type.properties)}}}"
        case Map():
            yield '{"type":"map","values":'
            yield inner._replace(use=avro_type.values)
            yield f"{_properties(avro_type.properties)}}}"
        case _:
            yield from _definition(avro_type, place)


def _definition(named: Record | Enum | Fixed, place: Part) -> Iterator[str | Part]:
    word = "error" if isinstance(named, Record) and named.is_error else named.kind
    yield f'{{"type":"{word}"{_name(named.name, place.namespace)}{_text("doc", named.doc)}'
    match named:
        case Record():
            yield from _fields(named, place.depth + 1)
        case Enum():
            yield f',"symbols":{json_text(list(named.symbols))}{_text("default", named.default)}'
        case Fixed():
            yield f',"size":{named.size}'
    aliases = [alias.seen_from(named.name.namespace) for alias in named.aliases]
    yield f"{_properties(named.properties)}{_aliases(aliases)}}}"


def _fields(record: Record, depth: int) -> Iterator[str | Part]:
    yield ',"fields":['
    for number, field in enumerate(record.fields.values()):
        yield f'{"," if number else ""}{{"name":{quoted(field.name)},"type":'
        yield Part(field.type, record.name.namespace, depth)
        yield _behind_type(field)
    yield "]"


def _behind_type(field: Field) -> str:
    default = f',"default":{json_text(field.default)}' if field.has_default else ""
    order = "" if field.order == "ascending" else f',"order":"{field.order}"'
    aliases = _aliases(list(field.aliases))
    return f"{_text('doc', field.doc)}{default}{order}{aliases}{_properties(field.properties)}}}"


def _name(name: Name, namespace: str) -> str:
    """Return the attributes ``name`` and, if it differs from the enclosing one, ``namespace``."""
    own = "" if name.namespace == namespace else f',"namespace":{quoted(name.namespace)}'
    return f',"name":{quoted(name.simple)}{own}'


def _text(key: str, text: str | None) -> str:
    return "" if text is None else f',"{key}":{quoted(text)}'


def _aliases(aliases: list[str]) -> str:
    return f',"aliases":[{",".join(map(quoted, aliases))}]' if aliases else ""


def _properties(properties: Properties) -> str:
    return "".join([f",{quoted(key)}:{json_text(value)}" for key, value in properties.items()])
