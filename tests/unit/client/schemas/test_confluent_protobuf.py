"""Protobuf bytes are those of Confluent's serializer, and each side reads what the other one wrote."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_service.client import (
    BlockingProtobufDeserializer,
    BlockingProtobufSerializer,
    BlockingSchemaRegistryClient,
)
from tests.unit.client.schemas import confluent
from tests.unit.client.schemas.proto_types import classes
from tests.unit.client.schemas.registry_double import RegistryDouble, served

pytestmark = confluent.needs_confluent
CLASSES = classes()
TEXTS = st.text(max_size=8)
JSON_VALUES = st.recursive(
    st.one_of(st.booleans(), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
LEAVES = st.builds(CLASSES["Order.Item.Leaf"], text=TEXTS)
ITEMS = st.builds(CLASSES["Order.Item"], sku=TEXTS, leaf=LEAVES)
PAYMENTS = st.builds(CLASSES["Payment"], way=st.integers(0, 1), amount=st.floats(allow_nan=False))


@st.composite
def orders(draw: Any) -> Any:
    """Draw an order with all of its fields, or without some."""
    order = CLASSES["Order"](
        id=draw(st.integers(-(2**63), 2**63 - 1)), items=draw(st.lists(ITEMS, max_size=3))
    )
    order.labels.update(draw(st.dictionaries(TEXTS, st.integers(-5, 5), max_size=1)))
    order.raw.extend(draw(st.lists(st.binary(max_size=4), max_size=2)))
    order.paid.CopyFrom(draw(PAYMENTS))
    if draw(st.booleans()):
        order.placed.FromNanoseconds(draw(st.integers(0, 10**18)))
        order.note.value = draw(TEXTS)
        order.rest.update({"value": draw(JSON_VALUES)})
        order.anything.Pack(draw(LEAVES))
    return order


MESSAGES = st.one_of(
    orders(),
    ITEMS,
    LEAVES,
    PAYMENTS,
    orders().map(lambda each: CLASSES["Zed"](order=each)),
    *(st.builds(CLASSES[name]) for name in ("Order.Item.Other", "Alpha", "Last", "Last.Deep")),
)


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[BlockingSchemaRegistryClient, Any]]:
    with (
        served(RegistryDouble()) as url,
        BlockingSchemaRegistryClient(url) as ours,
        confluent.registry(url) as theirs,
    ):
        yield ours, theirs


@settings(max_examples=150, deadline=None)
@given(MESSAGES, st.booleans())
def test_bytes_of_both_are_equal(
    sides: tuple[BlockingSchemaRegistryClient, Any], message: Any, is_header_used: bool
) -> None:
    """Messages at every place of their file, with an import and well-known types, in both formats."""
    (ours, theirs), kind = sides, type(message)
    expected_headers: list[tuple[str, bytes]] = []
    headers: list[tuple[str, bytes | None]] = []
    conf = confluent.TOPIC_NAMES | (confluent.IN_HEADER if is_header_used else {})
    expected = confluent.ProtobufSerializer(kind, theirs, conf)(
        message, confluent.about("orders", expected_headers)
    )
    serializer = BlockingProtobufSerializer(
        ours, kind, schema_id_in="header" if is_header_used else "prefix"
    )
    written = serializer.serialize("orders", message, headers)
    assert (written, headers) == (expected, expected_headers)

    judge = confluent.ProtobufDeserializer(kind, confluent.TOPIC_NAMES, theirs)
    assert judge(written, confluent.about("orders", headers)) == message
    assert (
        BlockingProtobufDeserializer(ours, kind).deserialize("orders", expected, headers) == message
    )
    dynamic = BlockingProtobufDeserializer(ours).deserialize("orders", expected, headers)
    assert dynamic.DESCRIPTOR.full_name == message.DESCRIPTOR.full_name
    # An Any is shown open where its type is known.
    assert str(dynamic) == str(message) or message.DESCRIPTOR.name in {
        "Order",
        "Zed",
    }
    assert dynamic.SerializeToString(deterministic=True) == message.SerializeToString(
        deterministic=True
    )
