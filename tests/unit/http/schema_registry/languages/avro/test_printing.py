"""The canonical text: to the character that of Java's ``Schema.toString``."""

from typing import Any

import pytest

from log_service.http.schema_registry.languages.avro import AVRO
from tests.unit.http.schema_registry.languages.avro.schemas import (
    enum,
    field,
    fixed,
    parsed,
    record,
    text,
)

SHUFFLED = (
    '{"fields":[{"aliases":["b"],"p":{"z":1,"a":2},"order":"ignore","default":null,"doc":"d","type":["null","int"],"name":"a"}],'
    '"aliases":["a.S","T"],"q":[1],"doc":"","namespace":"a","name":"R","type":"record"}'
)
ORDERED = (
    '{"type":"record","name":"R","namespace":"a","doc":"","fields":[{"name":"a","type":["null","int"],"doc":"d","default":null,'
    '"order":"ignore","aliases":["b"],"p":{"z":1,"a":2}}],"q":[1],"aliases":["S","T"]}'
)

TEXTS: dict[str, tuple[Any, str]] = {
    "attributes have one order": (SHUFFLED, ORDERED),
    "a plain type is a name": ({"type": "string"}, '"string"'),
    "a property keeps the object": ({"p": 1.0, "type": "string"}, '{"type":"string","p":1.0}'),
    "reserved attributes are dropped": (
        {"type": "int", "doc": "d", "size": 1, "default": 2},
        '{"type":"int","default":2}',
    ),
    "comments are dropped": ('{"type": /* the kind */ "int"}', '"int"'),
    "the last of two equal keys counts": (
        '{"type":"string","p":1,"q":2,"p":3}',
        '{"type":"string","p":3,"q":2}',
    ),
    "an enum": (
        {"aliases": ["F"], "p": 1, **enum("E", "A", default="A"), "doc": "d"},
        '{"type":"enum","name":"E","doc":"d","symbols":["A"],"default":"A","p":1,"aliases":["F"]}',
    ),
    "a fixed": (
        fixed("F", 2, logicalType="x", doc="d"),
        '{"type":"fixed","name":"F","doc":"d","size":2,"logicalType":"x"}',
    ),
    "an enum's default that is no text is dropped": (
        enum("E", "A", default=1),
        text(enum("E", "A")),
    ),
    "a doc that is no text is dropped": (
        record("R", field("a", "int", doc=1), doc=[]),
        text(record("R", field("a", "int"))),
    ),
    "a usual order is dropped": (
        record("R", field("a", "int", order="ASCENDING")),
        text(record("R", field("a", "int"))),
    ),
    "an error stays an error": (
        {"type": "error", "name": "R", "fields": []},
        '{"type":"error","name":"R","fields":[]}',
    ),
    "a full name is split": (
        record("a.b.R", namespace="c"),
        '{"type":"record","name":"R","namespace":"a.b","fields":[]}',
    ),
    "a dot before a name": (
        record(".R", namespace="c"),
        '{"type":"record","name":"R","fields":[]}',
    ),
    "the namespace around a name is left out": (
        record(
            "a.R",
            field("x", fixed("a.F", 1)),
            field("y", fixed("G", 1, namespace="b")),
            field("z", "b.G"),
            field("w", "F"),
        ),
        '{"type":"record","name":"R","namespace":"a","fields":[{"name":"x","type":{"type":"fixed","name":"F","size":1}},'
        '{"name":"y","type":{"type":"fixed","name":"G","namespace":"b","size":1}},{"name":"z","type":"b.G"},{"name":"w","type":"F"}]}',
    ),
    "no namespace inside one": (
        record("a.R", field("x", fixed("F", 1, namespace="")), field("y", "F")),
        '{"type":"record","name":"R","namespace":"a","fields":[{"name":"x","type":{"type":"fixed","name":"F","namespace":"","size":1}},'
        '{"name":"y","type":"F"}]}',
    ),
    "a name that is that of a kind is written in full": (
        record("a.R", field("x", fixed("int", 1)), field("y", "a.int")),
        '{"type":"record","name":"R","namespace":"a","fields":[{"name":"x","type":{"type":"fixed","name":"int","size":1}},'
        '{"name":"y","type":"a.int"}]}',
    ),
    "aliases that mean one name are one": (
        record("a.R", aliases=["S", "a.S", "b.S"]),
        '{"type":"record","name":"R","namespace":"a","fields":[],"aliases":["S","b.S"]}',
    ),
    "a definition comes where a name comes first": (
        record("R", field("a", "E"), field("b", enum("E", "A"))),
        '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"enum","name":"E","symbols":["A"]}},{"name":"b","type":"E"}]}',
    ),
    "a text for a number becomes one": (
        record("R", field("a", "float", default="1.5f")),
        text(record("R", field("a", "float", default=1.5))),
    ),
    "a text for no number stays one": (
        record("R", field("a", "double", default="-Infinity")),
        '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":"-Infinity"}]}',
    ),
    "a default stays as it was": (
        record("R", field("a", "double", default=1), field("b", ["null", "bytes"], default="ÿ\n")),
        '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":1},{"name":"b","type":["null","bytes"],"default":"ÿ\\n"}]}',
    ),
}


@pytest.mark.parametrize(("schema", "canonical"), TEXTS.values(), ids=TEXTS)
def test_a_schema_has_one_canonical_text(schema: Any, canonical: str) -> None:
    """The canonical text is that of the schema that it describes, too."""
    assert parsed(schema).canonical == canonical
    assert parsed(canonical).canonical == canonical


@pytest.mark.parametrize("form", ["", "default", "serialized", "ignore_extensions"])
def test_an_unknown_form_is_the_canonical_one(form: str) -> None:
    """Confluent's registry answers so for forms of other languages."""
    assert AVRO.parse('{"type": "int"}').formatted(form) == '"int"'
