"""The normal form: schemas that differ only in layout have one text."""

from typing import Any

import pytest

from tests.unit.http.schema_registry.languages.avro.schemas import (
    enum,
    field,
    fixed,
    parsed,
    record,
    text,
)

DECIMAL = {"type": "bytes", "b": 1, "scale": 2, "precision": 4, "a": 2, "logicalType": "decimal"}

NORMAL: dict[str, tuple[Any, str]] = {
    "properties are sorted": (
        {"type": "int", "b": {"y": 1, "x": [{"q": 1, "p": 2}]}, "a": 1},
        '{"type":"int","a":1,"b":{"x":[{"p":2,"q":1}],"y":1}}',
    ),
    "those of fields, too": (
        record("R", field("a", "int", q=1, p=2)),
        text(record("R", field("a", "int", p=2, q=1))),
    ),
    "a logical type comes first": (
        {"type": "int", "a": 1, "logicalType": "date"},
        '{"type":"int","logicalType":"date","a":1}',
    ),
    "a decimal has its scale behind": (
        DECIMAL,
        '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2,"a":2,"b":1}',
    ),
    "a scale of nothing is a property": (
        DECIMAL | {"scale": 0},
        '{"type":"bytes","logicalType":"decimal","precision":4,"a":2,"b":1,"scale":0}',
    ),
    "a decimal without a precision": (
        {"type": "bytes", "a": 1, "logicalType": "decimal"},
        '{"type":"bytes","a":1,"logicalType":"decimal"}',
    ),
    "a decimal with a long scale": (
        DECIMAL | {"scale": 5},
        '{"type":"bytes","a":2,"b":1,"logicalType":"decimal","precision":4,"scale":5}',
    ),
    "a decimal in too few bytes": (
        fixed("F", 1, precision=3, logicalType="decimal", a=1),
        '{"type":"fixed","name":"F","size":1,"a":1,"logicalType":"decimal","precision":3}',
    ),
    "a decimal in just enough bytes": (
        fixed("F", 2, precision=4, logicalType="decimal", a=1),
        '{"type":"fixed","name":"F","size":2,"logicalType":"decimal","precision":4,"a":1}',
    ),
    "a decimal in the longest fixed": (
        fixed("F", 2**31 - 9, precision=4, logicalType="decimal", a=1),
        '{"type":"fixed","name":"F","size":2147483639,"logicalType":"decimal","precision":4,"a":1}',
    ),
    "a logical type of another kind": (
        {"type": "long", "logicalType": "date", "a": 1},
        '{"type":"long","a":1,"logicalType":"date"}',
    ),
    "an unknown logical type": (
        {"type": "long", "logicalType": "mine", "a": 1},
        '{"type":"long","a":1,"logicalType":"mine"}',
    ),
    "a duration of another length": (
        fixed("F", 11, logicalType="duration", a=1),
        '{"type":"fixed","name":"F","size":11,"a":1,"logicalType":"duration"}',
    ),
    "a logical type of a Java class": (
        {"type": "string", "logicalType": "uuid", "avro.java.string": "String"},
        '{"type":"string","avro.java.string":"String","logicalType":"uuid"}',
    ),
    "aliases are sorted": (
        record("a.R", field("f", "int", aliases=["z", "B", "y"]), aliases=["Z", "b.A", ".C"]),
        '{"type":"record","name":"R","namespace":"a","fields":[{"name":"f","type":"int","aliases":["B","y","z"]}],"aliases":["C","Z","b.A"]}',
    ),
    "an error is a record": ({"type": "error", "name": "R", "fields": []}, text(record("R"))),
    "an empty doc of a type is none": (
        record("R", field("a", "int", doc=""), doc=""),
        text(record("R", field("a", "int", doc=""))),
    ),
    "names have one form": (
        record("R", namespace="a"),
        '{"type":"record","name":"R","namespace":"a","fields":[]}',
    ),
}


@pytest.mark.parametrize(("schema", "normalized"), NORMAL.values(), ids=NORMAL)
def test_a_schema_has_a_normal_form(schema: Any, normalized: str) -> None:
    """The normal form is its own."""
    assert parsed(schema).normalized() == normalized
    assert parsed(normalized).normalized() == normalized


ITEMS = {"type": "array", "items": "double"}
INNER = record("X", field("b", "float"), field("a", "long"))
DEFAULTS: dict[str, tuple[Any, Any, str]] = {
    "a whole number for a double": ("double", 1, "1.0"),
    "a whole number beyond 64 bits": ("double", 2**64, "1.8446744073709552E19"),
    "a number beyond a double": ("double", 10**400, '"Infinity"'),
    "a number with more digits than a float": ("float", 0.1234567890123, "0.12345679"),
    "a number beyond a float": ("float", -1e39, '"-Infinity"'),
    "a number for a long": ("long", 5, "5"),
    "a text beyond one byte": ("bytes", "ÿĀ😀", '"ÿ??"'),
    "a text for a text": ("string", "Ā", '"Ā"'),
    "true": ("boolean", True, "true"),
    "items": (ITEMS, [1, 2.5], "[1.0,2.5]"),
    "values": ({"type": "map", "values": "float"}, {"b": 1, "a": 2}, '{"a":2.0,"b":1.0}'),
    "fields": (INNER, {"b": 1, "c": {"z": 1, "y": 2}, "a": 2}, '{"a":2,"b":1.0,"c":{"y":2,"z":1}}'),
    "the first branch": (["double", "null"], 1, "1.0"),
    "null for the first branch": (["null", "double"], None, "null"),
    "another branch": (["null", "double"], 1, "1"),
    "items for another branch": (["null", ITEMS], [1], "[1]"),
    "values for another branch": (
        ["null", {"type": "map", "values": "int"}],
        {"b": 1, "a": 2},
        '{"a":2,"b":1}',
    ),
}


@pytest.mark.parametrize(("described", "default", "normal"), DEFAULTS.values(), ids=DEFAULTS)
def test_a_default_has_the_form_of_its_type(described: Any, default: Any, normal: str) -> None:
    """A default of another branch stays, because a reader needs it. Confluent's registry drops it."""
    schema = parsed(record("R", field("f", described, default=default)))
    assert schema.normalized().endswith(f'"default":{normal}}}]}}')


def test_a_deep_default_is_sorted_once() -> None:
    """Sorting each level anew would take a minute here."""
    described: Any = {"type": "map", "values": "string"}
    default: Any = {f"k{number}": "x" for number in range(30_000)}
    for _ in range(90):
        described, default = {"type": "array", "items": described}, [default]
    schema = parsed(record("R", field("f", described, default=default)))
    assert schema.normalized().count('"x"') == 30_000


def test_a_name_without_a_namespace_stays_without_one() -> None:
    """Two names are two types, so that they have no common normal form."""
    inside = parsed(record("a.R", field("x", enum("E", "A", namespace=""))))
    assert '"name":"E","namespace":""' in inside.normalized()
    assert inside.normalized() != parsed(record("a.R", field("x", enum("E", "A")))).normalized()
