"""Confluent's own client of a schema registry, as a judge. Where its packages are missing, tests
skip.
"""

import warnings
from typing import Any

import pytest

from log_service.client import Schema

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of a package that Confluent's client needs
    try:
        from confluent_kafka.schema_registry import Schema as ConfluentSchema
        from confluent_kafka.schema_registry import SchemaReference as ConfluentReference
        from confluent_kafka.schema_registry import SchemaRegistryClient as ConfluentRegistry
        from confluent_kafka.schema_registry import header_schema_id_serializer
        from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
        from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
        from confluent_kafka.schema_registry.protobuf import (
            ProtobufDeserializer,
            ProtobufSerializer,
        )
        from confluent_kafka.serialization import MessageField, SerializationContext
        from confluent_kafka.serialization import SerializationError as JudgeError

        IS_MISSING = False
    except ImportError:
        IS_MISSING = True

needs_confluent = pytest.mark.skipif(
    IS_MISSING, reason="authlib and cachetools, which Confluent's client needs, are not installed"
)
TOPIC_NAMES = {"subject.name.strategy.type": "TOPIC"}
IN_HEADER = {} if IS_MISSING else {"schema.id.serializer": header_schema_id_serializer}


def registry(url: str) -> Any:
    """Return Confluent's client of a registry."""
    return ConfluentRegistry({"url": url})


def about(topic: str, headers: Any = None, *, is_key: bool = False) -> Any:
    """Return the context of a call for a record."""
    return SerializationContext(topic, MessageField.KEY if is_key else MessageField.VALUE, headers)


def as_theirs(schema: Schema) -> Any:
    """Return a schema as a value of Confluent's client."""
    references = [
        ConfluentReference(each.name, each.subject, each.version) for each in schema.references
    ]
    return ConfluentSchema(schema.text, schema.schema_type, references)


__all__ = [
    "IN_HEADER",
    "TOPIC_NAMES",
    "AvroDeserializer",
    "AvroSerializer",
    "JSONDeserializer",
    "JSONSerializer",
    "JudgeError",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "about",
    "as_theirs",
    "needs_confluent",
    "registry",
]
