"""confluent-kafka's client of a registry and its serializers, in both of their faces.

The asyncio face runs on a loop of its own, so that one test judges both with the same lines. Their
annotations cover half of them: what comes from them is ``Any`` here. Tests skip where the packages
of confluent-kafka's extra ``schemaregistry`` are missing.
"""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Self

import pytest

MISSING = (
    "confluent-kafka[schemaregistry] is not installed: nothing was tested with Confluent's client"
)


def module(name: str) -> Any:
    """Return a module of confluent-kafka, or skip the tests that need it."""
    return pytest.importorskip(f"confluent_kafka.{name}", reason=MISSING, exc_type=ImportError)


REGISTRY = module("schema_registry")
SERIALIZATION = module("serialization")
MODULES = {
    "Avro": module("schema_registry.avro"),
    "JSON": module("schema_registry.json_schema"),
    "Protobuf": module("schema_registry.protobuf"),
}
SchemaRegistryError: Any = REGISTRY.SchemaRegistryError
SerializationError: Any = SERIALIZATION.SerializationError
Metadata: Any = REGISTRY.Metadata
MetadataProperties: Any = REGISTRY.MetadataProperties
MetadataTags: Any = REGISTRY.MetadataTags
Rule: Any = REGISTRY.Rule
RuleKind: Any = REGISTRY.RuleKind
RuleMode: Any = REGISTRY.RuleMode
RuleParams: Any = REGISTRY.RuleParams
RuleSet: Any = REGISTRY.RuleSet
Schema: Any = REGISTRY.Schema
SchemaReference: Any = REGISTRY.SchemaReference
ServerConfig: Any = REGISTRY.ServerConfig
ConfigCompatibilityLevel: Any = REGISTRY.ConfigCompatibilityLevel
Headers = list[tuple[str, bytes]]


class Face:
    """One client. Its methods block in both faces, and so do the serializers that it makes."""

    def __init__(self, url: str, *, is_async: bool, **settings: Any) -> None:
        self._prefix = "Async" if is_async else ""
        self._loop = asyncio.Runner() if is_async else None
        # A refusal that is no refusal of a mistake shall show at once.
        conf = {
            "url": url,
            "max.retries": 0,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self.client: Any = getattr(REGISTRY, f"{self._prefix}SchemaRegistryClient")(conf)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        if self._loop is None:
            self.client.close()
        else:
            self._done(self.client.__aexit__())
            self._loop.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._blocking(getattr(self.client, name))

    def serializer(self, language: str, *arguments: Any, **more: Any) -> Callable[..., Any]:
        """Return a serializer of a language, such as ``Avro``, over this client."""
        return self._serde(language, "Serializer", arguments, more)

    def deserializer(self, language: str, *arguments: Any, **more: Any) -> Callable[..., Any]:
        """Return a deserializer of a language over this client."""
        return self._serde(language, "Deserializer", arguments, more)

    def _serde(
        self, language: str, kind: str, arguments: tuple[Any, ...], more: dict[str, Any]
    ) -> Callable[..., Any]:
        made: Any = getattr(MODULES[language], f"{self._prefix}{language}{kind}")
        return self._blocking(self._done(made(*arguments, **more)))

    def _blocking(self, method: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **more: self._done(method(*arguments, **more))

    def _done(self, result: Any) -> Any:
        if self._loop is None or not inspect.isawaitable(result):
            return result

        async def waited() -> Any:
            return await result

        return self._loop.run(waited())


def value_context(topic: str, headers: Headers | None = None) -> Any:
    """Return what a serializer is told about the value of a record."""
    return SERIALIZATION.SerializationContext(topic, SERIALIZATION.MessageField.VALUE, headers)


def key_context(topic: str, headers: Headers | None = None) -> Any:
    """Return what a serializer is told about the key of a record."""
    return SERIALIZATION.SerializationContext(topic, SERIALIZATION.MessageField.KEY, headers)
