"""The texts of schemas in requests are bounded, and are not what an encoder is kept by."""

import threading
from dataclasses import replace

import pytest
import trio
from google.protobuf.struct_pb2 import Struct

from log_service.client.schemas.json_codecs import record_name_of
from log_service.client.schemas.protobuf import file_text
from log_service.client.schemas.values import AVRO, PROTOBUF, RegisteredSchema, Schema
from log_service.http.record_formats.decoding import LONG_BYTES
from log_service.http.rest_proxy import schemas
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.schemas import (
    MAX_SCHEMA_CHARACTERS,
    PartEncoder,
    SchemaChoice,
    SchemaCodecs,
)
from tests.unit.client.schemas.registry_double import RegistryDouble


def of_text(text: str) -> SchemaChoice:
    """Return the choice of a schema by its text."""
    return SchemaChoice(topic="t", part="value", record_format="avro", text=text)


def test_an_encoder_is_kept_by_its_schema() -> None:
    """The same text is registered once, another one again."""
    double = RegistryDouble()

    async def scene() -> None:
        async with SchemaCodecs("http://r", {"transport": double.transport()}) as codecs:
            first = await codecs.encoder(of_text('"int"'))
            assert await codecs.encoder(of_text('"int"')) is first
            assert await codecs.encoder(of_text('"long"')) is not first

    trio.run(scene)
    assert double.asked("POST") == ["/subjects/t-value/versions"] * 2


def test_a_thread_encodes_no_further_value_of_a_request_that_is_over() -> None:
    """A batch whose values each take long kept a thread busy after the deadline."""
    encoded: list[int] = []

    async def scene() -> None:
        def encode(value: int) -> bytes:
            encoded.append(value)
            trio.from_thread.run_sync(scope.cancel)
            return b""

        found = RegisteredSchema(schema=Schema(text='"int"', schema_type=AVRO), id=1)
        encoder = PartEncoder(found, encode)
        with trio.CancelScope() as scope:
            await trio.to_thread.run_sync(lambda: [encoder(value) for value in range(3)])
        assert scope.cancelled_caught

    trio.run(scene)
    assert encoded == [0]


@pytest.mark.parametrize("length", [10, LONG_BYTES + 1])
def test_another_thread_looks_for_the_name_in_a_long_text(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """The parser of Protobuf held the event loop for 170 ms."""
    threads: list[threading.Thread] = []

    def noted(_schema: Schema) -> str:
        threads.append(threading.current_thread())
        return "R"

    monkeypatch.setattr(schemas, "record_name_of", noted)
    double = RegistryDouble()
    choice = replace(of_text('"int"'.ljust(length)), strategy="RECORD_NAME")

    async def scene() -> None:
        async with SchemaCodecs("http://r", {"transport": double.transport()}) as codecs:
            assert (await codecs.encoder(choice)).subject == "R"

    trio.run(scene)
    assert [each is threading.main_thread() for each in threads] == [length <= LONG_BYTES]


def test_a_long_text_is_refused_before_the_registry_is_asked() -> None:
    double = RegistryDouble()

    async def scene() -> None:
        async with SchemaCodecs("http://r", {"transport": double.transport()}) as codecs:
            text = '"int"'.ljust(MAX_SCHEMA_CHARACTERS + 1)
            with pytest.raises(RestError, match="name it by its id"):
                await codecs.encoder(of_text(text))

    trio.run(scene)
    assert double.requests == []


def test_an_encoder_of_the_latest_version_ends_with_the_version() -> None:
    """The subject is asked for again after a while. Its encoder is then that of the new version."""
    double = RegistryDouble()

    async def scene() -> None:
        async with SchemaCodecs("http://r", {"transport": double.transport()}) as codecs:
            await codecs.encoder(of_text('"int"'))
            latest = SchemaChoice(topic="t", part="value")
            first = await codecs.encoder(latest)
            assert (first.version, first.subject) == (1, "t-value")
            assert await codecs.encoder(latest) is first
            await codecs.encoder(of_text('"long"'))
            assert (await codecs.encoder(latest)).version == 2

    trio.run(scene)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('syntax = "proto3"; // message A {\n message B {message C {}}', "B"),
        ('option x = "message A {"; package p.q; message B { }', "p.q.B"),
        ("package p; enum E { A = 0; }", None),
        ("/*" * 100_000 + "{", None),
        ('"\\' * 100_000 + "{", None),
        (file_text(Struct.DESCRIPTOR.file), "google.protobuf.Struct"),
    ],
)
def test_the_first_message_names_a_protobuf_schema(text: str, name: str | None) -> None:
    """Comments and texts count for nothing, and a hostile text takes no longer than another."""
    assert record_name_of(Schema(text=text, schema_type=PROTOBUF)) == name
