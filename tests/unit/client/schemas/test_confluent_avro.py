"""Avro bytes are those of Confluent's serializer, and each side reads what the other one wrote."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from log_service.client import (
    BlockingAvroDeserializer,
    BlockingAvroSerializer,
    BlockingSchemaRegistryClient,
    SerializationError,
)
from tests.unit.client.schemas import confluent
from tests.unit.client.schemas.avro_values import typed_values
from tests.unit.client.schemas.registry_double import RegistryDouble, served

pytestmark = confluent.needs_confluent


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[BlockingSchemaRegistryClient, Any]]:
    with (
        served(RegistryDouble()) as url,
        BlockingSchemaRegistryClient(url) as ours,
        confluent.registry(url) as theirs,
    ):
        yield ours, theirs


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(typed_values())
def test_bytes_of_both_are_equal(
    sides: tuple[BlockingSchemaRegistryClient, Any], example: tuple[Any, Any]
) -> None:
    """Every type, logical types, and unions with and without the name of the branch."""
    (ours, theirs), (schema, value) = sides, example
    # As a whole value the judge fails on it.
    assume(not isinstance(schema, dict) or schema.get("logicalType") != "decimal")
    text = json.dumps(schema)
    judge, serializer = (
        confluent.AvroSerializer(theirs, text, conf=confluent.TOPIC_NAMES),
        BlockingAvroSerializer(ours, text),
    )
    try:
        expected = judge(value, confluent.about("orders"))
    except (
        ValueError,
        TypeError,
        AttributeError,
    ):
        # Of a value in a union, which fastavro tries with each branch.
        with pytest.raises(SerializationError):
            serializer.serialize("orders", value)
        return
    written = serializer.serialize("orders", value)
    assert written == expected
    if expected is not None and len(expected) > 5:
        judged = confluent.AvroDeserializer(theirs, conf=confluent.TOPIC_NAMES)(
            written, confluent.about("orders")
        )
        assert BlockingAvroDeserializer(ours).deserialize("orders", expected) == judged
