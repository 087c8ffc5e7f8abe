"""Records with schemas on the command line: lines become bytes, and bytes become JSON."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio

from log_service.cli.record_lines import LineError, as_json_line, parser
from log_service.cli.record_schemas import RecordDecoder, encoding, part_encoder
from log_service.client import (
    AvroSerializer,
    ConsumerRecord,
    JsonSchemaSerializer,
    Schema,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from tests.unit.client.schemas.registry_double import RegistryDouble

ORDER = '{"type":"record","name":"Order","fields":[{"name":"n","type":"int"}]}'
T = TypeVar("T")
Registry = SchemaRegistryClient


def over(double: RegistryDouble, act: Callable[[Registry], Awaitable[T]]) -> T:
    """Run a function with a client of a registry in memory."""

    async def main() -> T:
        async with SchemaRegistryClient(
            "http://r", transport=double.transport(), max_retries=0
        ) as registry:
            return await act(registry)

    return trio.run(main)


def record(
    value: Any, key: Any = None, headers: tuple[tuple[str, bytes | None], ...] = ()
) -> ConsumerRecord:
    """Return a record of topic t."""
    return ConsumerRecord("t", 0, 0, 0, "CreateTime", key, value, headers, 0)


def test_a_line_is_encoded_by_a_file_and_decoded_again(tmp_path: Path) -> None:
    """The schema of the file is registered under the topic's subject. Its JSON comes back."""
    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    double = RegistryDouble()

    async def act(registry: Registry) -> list[ConsumerRecord]:
        value = await part_encoder(registry, "t", "value", str(file))
        parse = encoding(
            parser(as_json=False, key_separator=None, is_empty_null=False), None, value
        )
        encoded = parse(b'{"n": 7}')
        assert encoded.value == b"\x00\x00\x00\x00\x01\x0e"
        assert parse(b"null").value is None
        return await RecordDecoder(registry)([record(encoded.value, b"plain")])

    (found,) = over(double, act)
    assert (found.key, found.value) == (b"plain", b'{"n": 7}')
    assert double.asked("POST") == ["/subjects/t-value/versions"]
    shown = json.loads(as_json_line(found))
    assert (shown["key"], shown["value"], shown["value_schema"]) == ("plain", {"n": 7}, 1)


def test_a_line_of_json_has_keys_and_values_of_any_kind() -> None:
    """Each by the latest schema of a subject. Headers and other fields are those of the line."""

    async def act(registry: Registry) -> tuple[bytes | None, bytes | None]:
        await registry.register_schema("k", Schema(text='"string"'))
        await registry.register_schema("v", Schema(text='{"type":"object"}', schema_type="JSON"))
        key, value = [
            await part_encoder(registry, "t", part, named)
            for part, named in (("key", "k"), ("value", "v"))
        ]
        parse = encoding(
            parser(
                as_json=True, key_separator=None, is_empty_null=False, json_parts={"key", "value"}
            ),
            key,
            value,
        )
        found = parse(b'{"key": "a", "value": {"x": [1]}, "headers": [["h", "1"]]}')
        assert found.headers == (("h", b"1"),)
        return found.key, found.value

    assert over(RegistryDouble(), act) == (
        b"\x00\x00\x00\x00\x01\x02a",
        b'\x00\x00\x00\x00\x02{"x":[1]}',
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "has a value that is not JSON, which schema id 1 of subject 's' needs"),
        (
            b'{"n": "x"}',
            "has a value that does not fit schema id 1 of subject 's': $.n: int is expected, not text",
        ),
    ],
)
def test_a_line_that_does_not_fit_is_told_with_its_schema(line: bytes, said: str) -> None:
    """The sentence goes on behind the number of the line."""

    async def act(registry: Registry) -> None:
        await registry.register_schema("s", Schema(text=ORDER))
        parse = parser(as_json=False, key_separator=None, is_empty_null=False)
        encoding(parse, None, await part_encoder(registry, "t", "value", "s"))(line)

    with pytest.raises(LineError) as caught:
        over(RegistryDouble(), act)
    assert said in str(caught.value)


def test_a_subject_that_is_not_there_is_told() -> None:
    """Before a line is read."""
    with pytest.raises(SchemaRegistryError, match="subject 'none'"):
        over(RegistryDouble(), lambda registry: part_encoder(registry, "t", "value", "none"))


def test_a_schema_in_a_header_is_found() -> None:
    """By its guid. The payload is bare."""

    async def act(registry: Registry) -> list[ConsumerRecord]:
        headers: list[tuple[str, bytes | None]] = []
        serializer = AvroSerializer(registry, ORDER, schema_id_in="header")
        value = await serializer.serialize("t", {"n": 7}, headers)
        return await RecordDecoder(registry)([record(value, headers=tuple(headers))])

    assert over(RegistryDouble(), act)[0].value == b'{"n": 7}'


def test_an_unknown_id_is_noted_once_and_its_record_is_shown_as_bytes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The registry is asked once, too. Bytes that name no schema need no note."""
    double = RegistryDouble()
    unknown = record(b"\x00\x00\x00\x00\x09abc", b"text")
    found = over(double, lambda registry: RecordDecoder(registry)([unknown, unknown]))
    assert found == [unknown, unknown]
    assert len(double.requests) == 1
    assert capsys.readouterr().err.count("note: the value of t: is shown as bytes: ") == 1


def test_bytes_that_do_not_fit_their_schema_are_shown_as_bytes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a note that names the schema."""

    async def act(registry: Registry) -> list[ConsumerRecord]:
        await registry.register_schema("t-value", Schema(text=ORDER))
        return await RecordDecoder(registry)([record(b"\x00\x00\x00\x00\x01")])

    assert over(RegistryDouble(), act)[0].value == b"\x00\x00\x00\x00\x01"
    assert "cannot be read with schema id 1" in capsys.readouterr().err


def test_a_registry_that_does_not_respond_is_left_alone_for_a_while(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Records of several schemas wait for it once."""

    async def act() -> list[ConsumerRecord]:
        async with SchemaRegistryClient("http://127.0.0.1:1", max_retries=0) as registry:
            return await RecordDecoder(registry)(
                [record(b"\x00\x00\x00\x00" + bytes((number,))) for number in range(9)]
            )

    assert len(trio.run(act)) == 9
    told = capsys.readouterr().err
    assert (told.count("note: "), "http://127.0.0.1:1" in told) == (1, True)


def test_each_schema_is_told_once_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """With its id, the versions that have it, and its type."""

    async def act(registry: Registry) -> None:
        serializer = JsonSchemaSerializer(registry, '{"type":"object"}')
        value = await serializer.serialize("t", {})
        decode = RecordDecoder(registry, is_verbose=True)
        await decode([record(value), record(value)])

    over(RegistryDouble(), act)
    assert (
        capsys.readouterr().err == "note: the value of t: schema id 1, version 1 of t-value, JSON\n"
    )
