"""Finds the language that implements a schema type."""

from collections.abc import Mapping
from types import MappingProxyType

from log_service.http.schema_registry.languages.avro import AVRO
from log_service.http.schema_registry.languages.json_schema import JSON_SCHEMA
from log_service.http.schema_registry.languages.language import Language, SchemaType
from log_service.http.schema_registry.languages.protobuf import PROTOBUF

LANGUAGES: Mapping[SchemaType, Language] = MappingProxyType(
    {SchemaType.JSON: JSON_SCHEMA, SchemaType.PROTOBUF: PROTOBUF, SchemaType.AVRO: AVRO}
)
"""The languages by schema type, in the order in which the registry lists them."""
