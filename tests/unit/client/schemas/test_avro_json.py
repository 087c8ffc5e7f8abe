"""Avro values as JSON: each type in both directions, and where a value does not fit."""

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest

from log_service.client import SerializationError
from log_service.client.schemas.avro_json import AvroReading, to_json

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "n", "type": "int"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "parent", "type": ["null", "Order"], "default": None},
    ],
}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """Return the schema of a logical type."""
    return {"type": kind, "logicalType": name, **more}


def back_and_forth(schema: Any, value: Any) -> Any:
    """Return the JSON of a value that was written with a schema, and read again."""
    parsed = fastavro.parse_schema(schema)
    out = BytesIO()
    fastavro.schemaless_writer(out, parsed, AvroReading(parsed)(value))
    found = to_json(fastavro.schemaless_reader(BytesIO(out.getvalue()), parsed, None))
    return json.loads(json.dumps(found, allow_nan=False))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("null", None),
        ("boolean", True),
        ("int", -(2**31)),
        ("long", 2**63 - 1),
        ("double", 1.5),
        ("double", "NaN"),
        ("double", "-Infinity"),
        ("string", "ä"),
        ("bytes", "\u0000ÿ"),
        ({"type": "fixed", "name": "f", "size": 2}, "ab"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B"),
        ({"type": "array", "items": "int"}, [1, 2]),
        ({"type": "map", "values": "bytes"}, {"a": "ÿ"}),
        (["null", "bytes"], None),
        (["null", "bytes"], "ÿ"),
        (["int", "string"], "7"),
        (ORDER, {"n": 1, "note": None, "parent": {"n": 2, "note": "x", "parent": None}}),
        (logical("bytes", "decimal", precision=6, scale=2), "12.30"),
        (logical("string", "uuid"), "12345678-1234-5678-1234-567812345678"),
        (logical("int", "date"), "2024-02-29"),
        (logical("int", "time-millis"), "12:30:00.250000"),
        (logical("long", "timestamp-micros"), "2024-02-29T12:30:00.000001+00:00"),
        (logical("long", "local-timestamp-millis"), "2024-02-29T12:30:00"),
        (["null", logical("long", "timestamp-millis")], "2024-02-29T12:30:00+00:00"),
    ],
    ids=str,
)
def test_a_value_comes_back_as_it_was_given(schema: Any, value: Any) -> None:
    """Lines that consume printed are lines that produce reads."""
    assert back_and_forth(schema, value) == value


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        (["null", "string"], {"string": "a"}, "a"),
        (["null", ORDER], {"shop.Order": {"n": 1}}, {"n": 1, "note": None, "parent": None}),
        (["string", logical("int", "date")], {"int": 0}, "1970-01-01"),
        (logical("int", "date"), 1, "1970-01-02"),
        (logical("long", "timestamp-millis"), 1, "1970-01-01T00:00:00.001000+00:00"),
        (logical("bytes", "decimal", precision=6, scale=2), 1.5, "1.50"),
        (["null", {"type": "map", "values": "string"}], {"string": "a"}, {"string": "a"}),
        ("double", 1, 1.0),
    ],
    ids=str,
)
def test_avros_own_spellings_are_read_too(schema: Any, value: Any, found: Any) -> None:
    """Tagged branches of unions, and the numbers behind dates and times."""
    assert back_and_forth(schema, value) == found


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ("int", 2**31, "$: int is expected, not 2147483648"),
        ("int", 1.5, "$: int is expected, not 1.5"),
        ("int", True, "$: int is expected, not true"),
        ("string", None, "$: string is expected, not null"),
        ("bytes", "€", "$: '€' is not a byte"),
        ({"type": "fixed", "name": "f", "size": 2}, "abc", "$: 2 bytes are expected, not 3"),
        (
            {"type": "enum", "name": "e", "symbols": ["A", "B"]},
            "C",
            "$: one of A, B is expected, not 'C'",
        ),
        ({"type": "array", "items": "int"}, [1, "2"], "$[1]: int is expected, not text"),
        (ORDER, {"n": 1, "m": 2}, "$: shop.Order has no field 'm'; it has n, note, parent"),
        (ORDER, {}, "$: the field 'n' of shop.Order is missing"),
        (ORDER, {"n": 1, "parent": {"n": "x"}}, "$.parent.n: int is expected, not text"),
        (
            ["int", "string"],
            [],
            "$: int is expected, not a list or $: string is expected, not a list",
        ),
        (["int", "string"], None, "null"),
        (logical("int", "date"), "today", "$: 'today' is not a date"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_told_with_its_place(
    schema: Any, value: Any, said: str
) -> None:
    """fastavro would leave out a misspelt field in silence."""
    with pytest.raises(SerializationError) as caught:
        AvroReading(fastavro.parse_schema(schema))(value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("branch", "value", "reason"),
    [
        ({"type": "enum", "name": "a.e", "symbols": ["ON"]}, {"a.e": "OFF"}, "OFF"),
        ({"type": "fixed", "name": "a.f", "size": 2}, {"a.f": "abc"}, "3"),
        ("int", {"int": "seven"}, "int"),
    ],
)
def test_a_wrong_value_with_a_tag_is_no_map(branch: Any, value: Any, reason: str) -> None:
    """It was written as a map whose only key is the tag, and readers got something else."""
    schema = fastavro.parse_schema(["null", branch, {"type": "map", "values": "string"}])
    with pytest.raises(SerializationError, match=reason):
        AvroReading(schema)(value)
    assert AvroReading(schema)({"other": "x"}) == ("map", {"other": "x"})
