"""Values of Avro unions name their branch in JSON, the one that they were written with."""

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.client import SerializationError
from log_service.client.schemas.avro_branches import tagged_decoder
from log_service.client.schemas.avro_json import AvroReading

ENUM = {"type": "enum", "name": "shop.State", "symbols": ["A", "B"]}
NODE = {
    "type": "record",
    "name": "Node",
    "namespace": "shop",
    "fields": [
        {"name": "n", "type": ["int", "long"]},
        {
            "name": "x",
            "type": ["null", "float", "double", "string", "bytes", ENUM],
            "default": None,
        },
        {"name": "many", "type": {"type": "array", "items": ["null", "string"]}},
        {
            "name": "by",
            "type": {"type": "map", "values": ["int", {"type": "array", "items": "int"}]},
        },
        {"name": "next", "type": ["null", "Node"], "default": None},
        {"name": "state", "type": "State"},
    ],
}


def written(schema: Any, value: Any) -> bytes:
    """Return the bytes of a value of Avro's own JSON."""
    parsed = fastavro.parse_schema(schema)
    out = BytesIO()
    fastavro.schemaless_writer(out, parsed, AvroReading(parsed)(value))
    return out.getvalue()


def read(schema: Any, data: bytes) -> Any:
    """Return the JSON of bytes."""
    found = tagged_decoder(fastavro.parse_schema(schema))(data)
    return json.loads(json.dumps(found, allow_nan=False))


def node(**fields: Any) -> dict[str, Any]:
    """Return a value of the record."""
    plain: dict[str, Any] = {
        "n": {"int": 1},
        "x": None,
        "many": [],
        "by": {},
        "next": None,
        "state": "A",
    }
    return {**plain, **fields}


@pytest.mark.parametrize(
    "value",
    [
        node(),
        node(n={"long": 1}),
        node(x={"float": 1.5}),
        node(x={"double": 1.5}),
        node(x={"string": "A"}),
        node(x={"bytes": "\u00ff"}),
        node(x={"shop.State": "A"}),
        node(many=[None, {"string": "a"}], by={"a": {"int": 1}, "b": {"array": [1, 2]}}),
        node(next={"shop.Node": node(next={"shop.Node": node(x={"string": "deep"})})}),
    ],
)
def test_a_value_comes_back_with_the_branch_that_it_was_written_with(value: Any) -> None:
    """A number fits int and long, so the value alone would not tell."""
    assert read(NODE, written(NODE, value)) == value


@pytest.mark.parametrize(
    ("schema", "given", "shown"),
    [
        (["null", "string"], {"string": "paid"}, "paid"),
        (["null", "string"], None, None),
        ("string", "paid", "paid"),
        ({"type": "int", "logicalType": "date"}, "1970-01-03", 2),
        (["null", {"type": "long", "logicalType": "timestamp-millis"}], 5, 5),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
            "12.30",
            "12.30",
        ),
    ],
)
def test_a_whole_union_has_no_tag_and_times_are_numbers(
    schema: Any, given: Any, shown: Any
) -> None:
    """As Confluent's proxy has it. A decimal is text, because its bytes tell a person nothing."""
    assert read(schema, written(schema, given)) == shown


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.builds(lambda n: {"long": n}, st.integers(-(2**63), 2**63 - 1)),
            st.builds(lambda n: {"int": n}, st.integers(-(2**31), 2**31 - 1)),
            st.builds(lambda text: {"string": text}, st.text(max_size=5)),
            st.builds(
                lambda keys: {"map": keys}, st.dictionaries(st.text(max_size=2), st.booleans())
            ),
        ),
        max_size=5,
    )
)
def test_any_values_come_back(values: list[Any]) -> None:
    """Whatever their branches are."""
    branches = ["null", "int", "long", "string", {"type": "map", "values": "boolean"}]
    schema = {"type": "array", "items": branches}
    assert read(schema, written(schema, values)) == values


def test_the_bounds_of_reading_hold() -> None:
    """A branch as a record would hide that items take no bytes."""
    with pytest.raises(SerializationError, match="take no bytes"):
        tagged_decoder(fastavro.parse_schema({"type": "array", "items": "null"}))
