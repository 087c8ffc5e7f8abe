"""JSON bytes are those of Confluent's serializer, and each side reads what the other one wrote."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_service.client import (
    BlockingJsonSchemaDeserializer,
    BlockingJsonSchemaSerializer,
    BlockingSchemaRegistryClient,
    Schema,
    SchemaReference,
    SerializationError,
)
from tests.unit.client.schemas import confluent
from tests.unit.client.schemas.registry_double import RegistryDouble, served

pytestmark = confluent.needs_confluent
JSON_TYPE = "JSON"
NUMBERS = st.one_of(
    st.integers(-(2**53), 2**53), st.integers(-(10**9), 10**9).map(lambda each: each / 1000)
)
"""Numbers of which every encoder has the same text."""
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=10)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)
ORDER = {
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "customer": {"$ref": "customer.json"}, "rest": {}},
    "required": ["id"],
}
CUSTOMER = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}},
    "required": ["name"],
}
ORDERS = st.fixed_dictionaries(
    {"id": st.integers(0, 2**53), "rest": VALUES}, optional={"customer": st.just({"name": "Ann"})}
)


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[BlockingSchemaRegistryClient, Any]]:
    with (
        served(RegistryDouble()) as url,
        BlockingSchemaRegistryClient(url) as ours,
        confluent.registry(url) as theirs,
    ):
        yield ours, theirs


def with_reference(ours: BlockingSchemaRegistryClient) -> Schema:
    """Return the schema of orders, after the one that it refers to."""
    ours.register_schema("customer", Schema(text=json.dumps(CUSTOMER), schema_type=JSON_TYPE))
    reference = SchemaReference(name="customer.json", subject="customer", version=1)
    return Schema(text=json.dumps(ORDER), schema_type=JSON_TYPE, references=(reference,))


@settings(max_examples=100, deadline=None)
@given(ORDERS)
def test_bytes_of_both_are_equal(
    sides: tuple[BlockingSchemaRegistryClient, Any], order: Any
) -> None:
    """Values of a schema with a reference, in the prefix's format."""
    ours, theirs = sides
    schema = with_reference(ours)
    expected = confluent.JSONSerializer(
        confluent.as_theirs(schema), theirs, conf=confluent.TOPIC_NAMES
    )(order, confluent.about("orders"))
    written = BlockingJsonSchemaSerializer(ours, schema).serialize("orders", order)
    assert written == expected
    judge = confluent.JSONDeserializer(
        None, schema_registry_client=theirs, conf=confluent.TOPIC_NAMES
    )
    assert (
        BlockingJsonSchemaDeserializer(ours).deserialize("orders", expected)
        == judge(written, confluent.about("orders"))
        == order
    )


@pytest.mark.parametrize(
    "order", [{}, {"id": "1"}, {"id": 1, "customer": {"name": ""}}, {"id": 1, "customer": {}}, []]
)
def test_both_refuse_what_the_schema_refuses(
    sides: tuple[BlockingSchemaRegistryClient, Any], order: Any
) -> None:
    """Also by the part that the reference describes."""
    ours, theirs = sides
    schema = with_reference(ours)
    with pytest.raises(confluent.JudgeError):
        confluent.JSONSerializer(confluent.as_theirs(schema), theirs, conf=confluent.TOPIC_NAMES)(
            order, confluent.about("orders")
        )
    with pytest.raises(SerializationError, match="topic orders"):
        BlockingJsonSchemaSerializer(ours, schema).serialize("orders", order)
