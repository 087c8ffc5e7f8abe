"""A text is a schema by the rules of Avro's own library. Each row is one rule."""

from typing import Any

import pytest

from log_service.http.schema_registry.languages.avro import AVRO
from log_service.http.schema_registry.languages.language import (
    InvalidSchemaError,
    Language,
    ParsedSchema,
    SchemaType,
)
from tests.unit.http.schema_registry.languages.avro.schemas import (
    enum,
    field,
    fixed,
    parsed,
    record,
    text,
)

NULLABLE = ["null", "string"]
E = enum("E", "A", "B")

TAKEN: dict[str, Any] = {
    "a name in quotes": '"string"',
    "an empty union": "[]",
    "an empty record": record("R"),
    "an empty enum": enum("E"),
    "a fixed of no bytes": fixed("F", 0),
    "the longest fixed": fixed("F", 2**31 - 9),
    "an error": {"type": "error", "name": "R", "fields": []},
    "a record of its own name": record("R", field("next", ["null", "R"], default=None)),
    "a record that is called as a kind is": record("record", field("r", ["null", "record"])),
    "a primitive's name in a namespace": fixed("a.int", 1),
    "a name that is defined later": record("R", field("a", "E"), field("b", E)),
    "the same definition twice": record("R", field("a", E), field("b", E)),
    "the same record twice": record("R", field("a", record("X")), field("b", record("X"))),
    "two names that differ in documentation": record(
        "R", field("a", E), field("b", E | {"doc": "b"})
    ),
    "a default of another branch": record("R", field("a", NULLABLE, default="x")),
    "a default that is no symbol": record("R", field("a", E, default="Z")),
    "a default of another length": record("R", field("a", fixed("F", 2), default="x")),
    "a whole number for a float": record("R", field("a", "float", default=1)),
    "a text for a double": record("R", field("a", "double", default=" 0x1p-3d ")),
    "a default from an inner default": record(
        "R", field("a", record("X", field("x", "int", default=1)), default={})
    ),
    "an empty map": record("R", field("a", {"type": "map", "values": "R"}, default={})),
    "a large number in a field": record("R", field("a", "int", large=2**64)),
    "capital letters in an order": record("R", field("a", "int", order="Descending")),
    "an alias of any namespace": record("R", aliases=["b-c.D"]),
    "any alias of a field": record("R", field("a", "int", aliases=["b c"])),
    "a name in an object": record("R", field("a", ["null", {"type": "R", "p": 1}])),
    "reserved attributes elsewhere": {"type": "int", "items": 1, "name": "-", "size": "x"},
}


@pytest.mark.parametrize("schema", TAKEN.values(), ids=TAKEN)
def test_a_schema_that_avro_takes_is_taken(schema: Any) -> None:
    """Avro's own library takes each of these."""
    assert parsed(schema).schema_type is AVRO.schema_type is SchemaType.AVRO


def test_the_language_has_the_protocol_of_the_registry() -> None:
    """The registry knows no more of a language than this."""
    language: Language = AVRO
    schema: ParsedSchema = language.parse('"int"')
    assert (schema.canonical, schema.normalized(), schema.formatted("")) == ('"int"',) * 3


REFUSED: dict[str, tuple[Any, str]] = {
    "no type": ("3", "/: 3 is not a type"),
    "null": ("null", "/: null is not a type"),
    "an unknown name": ('"Order"', "/: no type has the name Order"),
    "an unknown name in an object": ({"type": "Order"}, "/type: no type has the name Order"),
    "an unknown name inside": (
        record("a.R", field("x", {"type": "array", "items": "Y"})),
        "/fields/0/type/items: no type has the name a.Y",
    ),
    "an object without a type": ({"name": "R"}, "/: the attribute type"),
    "a type in a type": ({"type": {"type": "int"}}, "/: the attribute type"),
    "a union in a type": ({"type": ["int"]}, "/: the attribute type"),
    "a record without a name": (
        {"type": "record", "fields": []},
        "/: a type of kind record has a name",
    ),
    "a name that is no text": (record("R") | {"name": 3}, "/: a type of kind record has a name"),
    "a record without fields": (
        {"type": "record", "name": "R"},
        "/: a record has a list of fields",
    ),
    "fields that are no list": (record("R") | {"fields": {}}, "/: a record has a list of fields"),
    "a field that is no object": (record("R", 1), "/fields/0: a field is an object"),
    "a field without a name": (record("R", {"type": "int"}), "/fields/0: a field has a name"),
    "a field without a type": (
        record("R", {"name": "a"}),
        "/fields/0: the attribute type is missing",
    ),
    "a field with a bad name": (
        record("R", field("a-b", "int")),
        "/fields/0/name: 'a-b' is not a name",
    ),
    "two fields of a name": (
        record("R", field("a", "int"), field("a", "int")),
        "/fields/1: the record has two fields with the name a",
    ),
    "a bad order": (
        record("R", field("a", "int", order="up")),
        "/fields/0/order: an order must be one of",
    ),
    "an order that is no text": (
        record("R", field("a", "int", order=1)),
        "/fields/0/order: an order must be one of",
    ),
    "a bad name": (record("1R"), "/: '1R' is not a name"),
    "letters of another script": (record("Größe"), "/: 'Größe' is not a name"),
    "an empty name": (record(""), "/: '' is not a name"),
    "a bad namespace": (record("a-b.R"), "/: 'a-b' is not a name"),
    "an empty part of a namespace": (record("a..R"), "/: '' is not a name"),
    "a namespace with a dot behind": (record("R", namespace="a."), "/: '' is not a name"),
    "the name of a primitive": (record("int"), "/: the name int is that of a type of Avro"),
    "an array without items": ({"type": "array"}, "/: the attribute items is missing"),
    "a map without values": ({"type": "map"}, "/: the attribute values is missing"),
    "an enum without symbols": ({"type": "enum", "name": "E"}, "/: an enum has a list of symbols"),
    "a symbol that is no text": (
        enum("E") | {"symbols": ["A", 1]},
        "/symbols/1: a symbol is a text",
    ),
    "a bad symbol": (enum("E", "A", "b c"), "/symbols/1: 'b c' is not a name"),
    "a symbol twice": (enum("E", "A", "A"), "/symbols/1: 'A' is a symbol already"),
    "an enum's default that is no symbol": (
        enum("E", "A", default="B"),
        "/default: the default 'B' is not a symbol",
    ),
    "a fixed without a size": ({"type": "fixed", "name": "F"}, "/: a fixed has a size of"),
    "a negative size": (fixed("F", -1), "/: a fixed has a size of"),
    "a size that is too large": (fixed("F", 2**31 - 8), "/: a fixed has a size of"),
    "a size with a point": (fixed("F", 4.0), "/: a fixed has a size of"),
    "a size that is true": (fixed("F", True), "/: a fixed has a size of"),
    "a union in a union": ([["int"]], "/0: a union stands directly inside another"),
    "a type twice in a union": (
        ["int", {"type": "int", "p": 1}],
        "/1: the union has the type int twice",
    ),
    "two maps in a union": (
        [{"type": "map", "values": each} for each in ("int", "string")],
        "/1: the union has the type map twice",
    ),
    "a name twice in a union": (
        record("a.R", field("x", ["R", "a.R"])),
        "/fields/0/type/1: the union has the type a.R twice",
    ),
    "a name with two meanings": (
        record("R", field("a", E), field("b", enum("E", "A"))),
        "/fields/1/type: E is defined twice",
    ),
    "a name with other properties": (
        record("R", field("a", E), field("b", E | {"p": 1})),
        "/fields/1/type: E is defined twice",
    ),
    "a name of its own inside": (record("R", field("a", record("R"))), "/: R is defined twice"),
    "aliases that are no list": (
        record("R", aliases="S"),
        "/aliases: aliases must be a list of texts",
    ),
    "an alias that is no text": (record("R", aliases=[1]), "/aliases: an alias must be a text"),
    "a bad alias": (record("R", aliases=["a.b-c"]), "/aliases: 'b-c' is not a name"),
    "a large number in a record": (
        record("R", large={"of": [2**63]}),
        "/: a whole number in its properties does not fit 64 bits",
    ),
    "a default of another kind": (
        record("R", field("a", "int", default="1")),
        "/fields/0/default: the default is not a value",
    ),
    "a default of no branch": (
        record("R", field("a", NULLABLE, default=1)),
        "/fields/0/default: the default is not a value",
    ),
    "a default that is too large": (
        record("R", field("a", "int", default=2**31)),
        "/fields/0/default: the default is not a value",
    ),
    "true for a number": (
        record("R", field("a", "double", default=True)),
        "/fields/0/default: the default is not a value",
    ),
    "a text for a number": (
        record("R", field("a", "float", default="one")),
        "/fields/0/default: 'one' is not a number",
    ),
    "an item of another kind": (
        record("R", field("a", {"type": "array", "items": "int"}, default=[1, None])),
        "/fields/0/default: the default is not a value",
    ),
    "a default that lacks a field": (
        record("R", field("a", record("X", field("x", "int")), default={})),
        "/fields/0/default: the default",
    ),
    "a default for a name that comes later": (
        record("R", field("a", "E", default="A"), field("b", E)),
        "/fields/0/default: the default",
    ),
    "a default that never ends": (
        record("R", field("a", "R", default={})),
        "/fields/0/default: its fields have defaults that never end",
    ),
}


@pytest.mark.parametrize(("schema", "message"), REFUSED.values(), ids=REFUSED)
def test_a_schema_that_avro_refuses_is_refused_with_its_place(schema: Any, message: str) -> None:
    """The message begins with the path of the offending part."""
    with pytest.raises(InvalidSchemaError) as refused:
        parsed(schema)
    assert str(refused.value).startswith(message)


LAX: dict[str, Any] = {
    "a bad name": {"type": "record", "name": "größe R", "namespace": "a-b", "fields": []},
    "a bad field": record("R", field("a b", "int")),
    "a bad symbol": enum("E", "a b"),
    "a bad alias": record("R", aliases=["-"]),
    "a bad default": record("R", field("a", "int", default="x")),
    "a large number": record("R", large=2**64),
}


@pytest.mark.parametrize("schema", LAX.values(), ids=LAX)
def test_names_and_defaults_count_for_new_schemas_only(schema: Any) -> None:
    """A record of the topic may have passed a laxer registry."""
    with pytest.raises(InvalidSchemaError):
        parsed(schema)
    assert parsed(schema, is_new=False).canonical == text(schema)


@pytest.mark.parametrize(
    "schema", [{"type": "record", "name": "R"}, enum("E", "A", "A"), ["int", "int"], "[3]"]
)
def test_structure_counts_for_old_schemas_too(schema: Any) -> None:
    """Nothing can be done with a schema without a structure."""
    with pytest.raises(InvalidSchemaError):
        parsed(schema, is_new=False)
