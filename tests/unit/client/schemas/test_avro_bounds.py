"""Few bytes of Avro stay few values, and deep values are errors, whoever wrote the schema."""

import json
from typing import Any

import pytest

from log_service.client import SerializationError
from log_service.client.schemas.avro import decode_avro, parse_avro
from log_service.client.schemas.deserializing import Decode
from log_service.client.schemas.serializing import ResolvedSchema
from log_service.client.schemas.values import AVRO, Schema

NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "id", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}
EMPTY = {"type": "record", "name": "Empty", "fields": []}


def decoder(schema: Any) -> Decode:
    """Return the function that reads payloads of a schema."""
    text = json.dumps(schema)
    found = ResolvedSchema(schema=Schema(text=text, schema_type=AVRO), texts={})
    return decode_avro(parse_avro(found), None)


def record(name: str, *types: Any) -> dict[str, Any]:
    """Return the schema of a record with these types as fields."""
    fields = [{"name": f"f{i}", "type": each} for i, each in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


@pytest.mark.parametrize(
    "items",
    [
        "null",
        EMPTY,
        record("Outer", "null", EMPTY),
        {"type": "fixed", "name": "None", "size": 0},
        {"type": "array", "items": "null"},
    ],
    ids=["null", "empty record", "nested", "fixed", "array"],
)
def test_an_array_whose_items_take_no_bytes_is_not_read(items: Any) -> None:
    """A count of 2^60 is nine bytes, and each item would be appended."""
    with pytest.raises(SerializationError, match="items that take no bytes"):
        decoder(record("Bomb", {"type": "array", "items": items}))


def test_records_that_double_are_not_read() -> None:
    """Forty records, each with the one before it twice, are 2^40 values without a byte."""
    schema: Any = EMPTY
    for number in range(40):
        schema = record(f"R{number}", schema, schema["name"])
    with pytest.raises(SerializationError, match="a byte may become at most 100 values"):
        decoder(schema)


def test_wide_records_of_one_byte_are_not_read() -> None:
    """An array of them would be a thousand values a byte, in a union, too."""
    wide = record("Wide", "boolean", *["null"] * 1_000)
    with pytest.raises(SerializationError, match="a byte may become at most 100 values"):
        decoder({"type": "array", "items": ["null", wide]})


@pytest.mark.parametrize(
    ("schema", "payload", "value"),
    [
        ({"type": "array", "items": ["null", EMPTY]}, b"\x04\0\x02\0", [None, {}]),
        ({"type": "map", "values": "null"}, b"\x02\x02a\0", {"a": None}),
        (record("Flat", "null", "int"), b"\x02", {"f0": None, "f1": 1}),
        (NODE, b"\x02\x02\x04\0", {"id": 1, "next": {"id": 2, "next": None}}),
    ],
    ids=["union", "map", "record", "recursive"],
)
def test_values_that_take_bytes_are_read(schema: Any, payload: bytes, value: Any) -> None:
    assert decoder(schema)(payload) == value


def test_a_value_within_itself_is_read_to_a_depth() -> None:
    """A hundred levels are read. A million are an error, and would use up the stack."""
    read = decoder(NODE)
    assert read(b"\x02\x02" * 100 + b"\x02\0")["id"] == 1
    with pytest.raises(RecursionError):
        read(b"\x02\x02" * 1_000_000)


def test_types_that_name_each_other_are_read_to_a_depth() -> None:
    """A chain of types is as deep as it is long, though its JSON is flat."""
    types: list[Any] = [record("R0", "int")]
    types += [record(f"R{i}", ["null", f"R{i - 1}"]) for i in range(1, 2_000)]
    with pytest.raises(RecursionError):
        decoder(types)(b"\x9e\x1f" + b"\x02" * 1_999 + b"\0")
