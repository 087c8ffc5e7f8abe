"""The texts of schemas in requests are bounded, and are not what an encoder is kept by."""

import pytest
import trio

from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v2.schemas import MAX_SCHEMA_CHARACTERS, SchemaCodecs
from tests.unit.client.schemas.registry_double import RegistryDouble


def test_an_encoder_is_kept_by_its_schema() -> None:
    """The same text is registered once, another one again."""
    double = RegistryDouble()

    async def scene() -> None:
        async with SchemaCodecs("http://r", {"transport": double.transport()}) as codecs:
            first = await codecs.encoder("t", "value", "avro", '"int"', None)
            assert await codecs.encoder("t", "value", "avro", '"int"', None) is first
            assert await codecs.encoder("t", "value", "avro", '"long"', None) is not first

    trio.run(scene)
    assert double.asked("POST") == ["/subjects/t-value/versions"] * 2


def test_a_long_text_is_refused_before_the_registry_is_asked() -> None:
    double = RegistryDouble()

    async def scene() -> None:
        async with SchemaCodecs("http://r", {"transport": double.transport()}) as codecs:
            text = '"int"'.ljust(MAX_SCHEMA_CHARACTERS + 1)
            with pytest.raises(RestError, match="name it by key_schema_id"):
                await codecs.encoder("t", "key", "avro", text, None)

    trio.run(scene)
    assert double.requests == []
