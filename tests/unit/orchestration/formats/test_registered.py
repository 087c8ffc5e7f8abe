"""Topics whose schemas are in a registry: what is declared, how values are read, and a registry
that is away.
"""

import base64
import io
import json
import logging
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from log_service.client import BlockingSchemaRegistryClient, Schema
from orchestration import (
    RegistryAwayError,
    RegistrySchemaError,
    TopicSpec,
    from_registry,
    topic_asset,
)
from orchestration.formats.keys import read_keys
from orchestration.formats.registered import IncompatibleSchemaError
from orchestration.formats.registry import written_schema
from orchestration.settings import SettingsError
from orchestration.topics.spec import topic_specs
from tests.helpers.ports import free_port
from tests.unit.client.schemas.registry_double import RegistryDouble, served

FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}],
}
SECOND = {
    **FIRST,
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "channel", "type": "string", "default": "web"},
    ],
}
BROKEN = {**FIRST, "fields": [{"name": "id", "type": "string"}, {"name": "note", "type": "string"}]}
SUBJECT = "orders-value"


@pytest.fixture
def double() -> RegistryDouble:
    return RegistryDouble()


@pytest.fixture
def url(double: RegistryDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A registry that the settings name, with an empty data directory."""
    monkeypatch.setenv("TIDELOG_DATA", str(tmp_path))
    with served(double) as address:
        monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_URL", address)
        yield address


def register(url: str, schema: Any, subject: str = SUBJECT, kind: str = "AVRO") -> int:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with BlockingSchemaRegistryClient(url) as client:
        return client.register_schema(subject, Schema(text=text, schema_type=kind)).id


def framed(schema_id: int, payload: bytes) -> bytes:
    return struct.pack(">BI", 0, schema_id) + payload


def avro(schema_id: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return framed(schema_id, out.getvalue())


def read(schema: Any, *values: bytes | None) -> tuple[list[dict[str, Any]], list[str | None]]:
    table, faults = schema.read(pa.array(values, pa.binary()))
    return table.to_pylist(), faults.to_pylist()


def test_each_value_is_read_by_its_own_schema_as_the_latest_version_has_it(url: str) -> None:
    """Versions may alternate. Null, bare and damaged values, and unknown ids are faults."""
    first, second = register(url, FIRST), register(url, SECOND)
    schema = from_registry(SUBJECT)
    assert [(one.name, one.dataType.simpleString(), one.nullable) for one in schema.fields] == [
        ("id", "bigint", False),
        ("channel", "string", False),
    ]
    old, new = (
        avro(first, FIRST, {"id": 1, "note": "x"}),
        avro(second, SECOND, {"id": 2, "channel": "shop"}),
    )
    rows, faults = read(schema, new, old, None, framed(77, b"\x02"), b"{}", old[:-1], new)
    assert rows == [
        {"id": 2, "channel": "shop"},
        {"id": 1, "channel": "web"},
        {"id": 2, "channel": "shop"},
    ]
    assert faults == [
        None,
        None,
        "the value is null",
        f"its schema id 77 is not known to the registry {url}",
        "the value does not begin with a zero and a schema's id, as Confluent's framing has it",
        "the value ends within field note",
        None,
    ]


def test_a_registry_is_asked_once_for_each_id(url: str, double: RegistryDouble) -> None:
    """A schema under an id never changes."""
    first = register(url, FIRST)
    schema = from_registry(SUBJECT)
    for _ in range(3):
        read(schema, avro(first, FIRST, {"id": 1, "note": "x"}))
    assert double.asked("GET").count(f"/schemas/ids/{first}") == 1


def test_a_declaration_is_read_back_from_its_asset(url: str) -> None:
    """Version and id are in the metadata of the topic's asset."""
    register(url, FIRST)
    spec = TopicSpec(name="orders", schema=from_registry(SUBJECT, unknown_schema="wait"))
    asset = topic_asset(spec)
    assert topic_specs([asset]) == (spec,)
    told = asset.metadata_by_key[spec.asset_key]["tidelog/topic"].value["schema"]["registry"]
    assert (
        told["address"],
        told["subject"],
        told["version"],
        told["id"],
        told["unknown_schema"],
    ) == (url, SUBJECT, 1, 1, "wait")
    assert str(spec.schema) == "version 1 of orders-value (schema id 1)"


def test_records_of_an_unknown_schema_may_wait_until_it_is_registered(url: str) -> None:
    """Nothing refused is remembered."""
    register(url, FIRST)
    schema = from_registry(SUBJECT, unknown_schema="wait")
    value = avro(2, SECOND, {"id": 2, "channel": "shop"})
    with pytest.raises(
        RegistryAwayError,
        match=f"a record waits, because its schema id 2 is not known to the registry {url}",
    ):
        schema.read(pa.array([value], pa.binary()))
    register(url, {**SECOND, "fields": [*SECOND["fields"], *FIRST["fields"][1:]]})
    assert read(schema, avro(2, FIRST, {"id": 2, "note": "shop"}) + b"\x02x") == (
        [{"id": 2, "note": "x"}],
        [None],
    )


def test_an_incompatible_version_stops_and_names_both(url: str) -> None:
    """The records wait, because each of them would be a dead letter."""
    register(url, FIRST)
    schema, broken = from_registry(SUBJECT), register(url, BROKEN)
    value = avro(broken, BROKEN, {"id": "x", "note": "x"})
    text = (
        r"version 2 of orders-value \(schema id 2\) cannot be read as version 1 of orders-value \(schema id 1\), which is declared: "
        "field id is string, and not long as declared"
    )
    with pytest.raises(IncompatibleSchemaError, match=text):
        schema.read(pa.array([value], pa.binary()))


def test_a_schema_of_another_subject_or_language_is_a_dead_letter(url: str) -> None:
    """A foreign producer stops no table."""
    register(url, FIRST)
    other, foreign = (
        register(url, BROKEN, "payments-value"),
        register(url, {"type": "object"}, "texts-value", "JSON"),
    )
    schema = from_registry(SUBJECT)
    rows, faults = read(
        schema, avro(other, BROKEN, {"id": "x", "note": "x"}), framed(foreign, b"{}")
    )
    assert rows == []
    assert faults == [
        "its schema id 2 is version 1 of payments-value, and cannot be read as version 1 of orders-value (schema id 1): "
        "field id is string, and not long as declared",
        "its schema id 3 is JSON, and version 1 of orders-value (schema id 1) is AVRO",
    ]


def test_a_version_may_be_named(url: str) -> None:
    """Then a newer one changes nothing until the declaration does."""
    register(url, FIRST)
    register(url, SECOND)
    assert from_registry(SUBJECT, version=1).fields.names == ["id", "note"]


def test_an_unknown_subject_is_refused_with_address_and_subject(url: str) -> None:
    """A typing error in the subject's name."""
    with pytest.raises(
        RegistrySchemaError,
        match=f"the schema registry at {url} refused .* about subject 'oders-value'",
    ):
        from_registry("oders-value")


def test_a_registry_that_is_away_is_told_or_replaced_by_what_was_kept(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A project that was loaded before is loaded again, with a warning."""
    first = register(url, FIRST)
    before = from_registry(SUBJECT)
    register(url, SECOND)
    from_registry(SUBJECT, version=2)
    away = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_URL", away)
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_MAX_RETRIES", "0")
    with pytest.raises(
        RegistrySchemaError,
        match=f"no schema registry responded to .* about subject 'payments-value' at {away}",
    ):
        from_registry("payments-value")
    with caplog.at_level(logging.WARNING):
        assert from_registry(SUBJECT).declared_version == before.declared_version
    assert f"at {away}" in caplog.text
    assert "The project is loaded with version 1 of orders-value" in caplog.text
    assert from_registry(SUBJECT, version=2).declared_version.version == 2
    after = from_registry(SUBJECT)
    with pytest.raises(RegistryAwayError, match=f"no schema registry responded to .* at {away}"):
        after.read(pa.array([avro(first, FIRST, {"id": 1, "note": "x"})], pa.binary()))


def test_another_registry_has_ids_of_its_own(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was kept of one is not used for the other."""
    register(url, FIRST)
    assert written_schema(url, SUBJECT, 1).text == json.dumps(FIRST)
    with served(RegistryDouble()) as other:
        register(other, SECOND)
        monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_URL", other)
        assert written_schema(other, SUBJECT, 1).text == json.dumps(SECOND)


def test_settings_log_in_and_no_refusal_shows_them(
    url: str, double: RegistryDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials come from the environment of the process that connects."""
    register(url, FIRST)
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_URL", url.replace("//", "//ann:secret@"))
    served_double = from_registry(SUBJECT)
    assert "secret" not in repr(served_double)
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO", "bob:other")
    with pytest.raises(
        SettingsError,
        match=r"TIDELOG_SCHEMA_REGISTRY_URL .* cannot be used: url and basic_auth_user_info both",
    ) as found:
        from_registry(SUBJECT)
    assert "secret" not in str(found.value)
    assert "other" not in str(found.value)


@pytest.mark.parametrize(
    ("schema", "kind", "text"),
    [
        ('"string"', "AVRO", "the schema is a string: only the fields of a record"),
        ('{"type": "object"}', "JSON", "object without properties"),
        ("<xml/>", "XML", "in the language XML, which is not read"),
    ],
)
def test_a_schema_that_gives_no_columns_is_refused(
    url: str, schema: str, kind: str, text: str
) -> None:
    """With version, subject and address."""
    register(url, schema, kind=kind)
    with pytest.raises(
        RegistrySchemaError,
        match=f"version 1 of the subject {SUBJECT} at {url} cannot be a topic's schema: .*{text}",
    ):
        from_registry(SUBJECT)


def test_arguments_that_mean_nothing_are_refused(url: str) -> None:
    """A way that there is not, and a message of Avro."""
    register(url, FIRST)
    with pytest.raises(
        ValueError, match="unknown_schema is 'skip': it is one of dead_letter, wait"
    ):
        from_registry(SUBJECT, unknown_schema="skip")  # type: ignore[arg-type]
    with pytest.raises(
        RegistrySchemaError, match="it has no messages, and message='Order' names one"
    ):
        from_registry(SUBJECT, message="Order")


def test_keys_may_have_a_subject_of_their_own(url: str) -> None:
    """A record without value deletes the row that its key names."""
    schema_id = register(url, FIRST, "orders-key")
    spec = TopicSpec(name="orders", schema="id BIGINT", key_schema=from_registry("orders-key"))
    keys = [avro(schema_id, FIRST, {"id": 5, "note": "x"}), framed(9, b"")]
    (named, fault), (none, reason) = read_keys(
        pa.array(keys, pa.binary()), pa.schema([("id", pa.int64())]), spec.key_format
    )
    assert named is not None
    assert ([one.as_py() for one in named], fault) == ([5], None)
    assert (none, reason) == (None, f"its schema id 9 is not known to the registry {url}")


def test_json_values_are_read_as_the_latest_version_has_them(url: str) -> None:
    """Properties that it does not have are ignored, and required ones that are missing are faults."""
    first = register(
        url, {"type": "object", "properties": {"id": {"type": "integer"}}}, kind="JSON"
    )
    newer = {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    }
    second = register(url, newer, kind="JSON")
    schema = from_registry(SUBJECT)
    values = (
        framed(first, b'{"id": 1}'),
        framed(second, b'{"id": 2, "tags": ["a"], "more": 1}'),
        framed(first, b"{}"),
        framed(9, b"{}"),
    )
    rows, faults = read(schema, *values)
    assert rows == [{"id": 1, "tags": None}, {"id": 2, "tags": ["a"]}]
    assert faults[:2] == [None, None]
    assert faults[2:] == [
        "field id is required and missing",
        f"its schema id 9 is not known to the registry {url}",
    ]


def proto(*names: str, fields: tuple[str, ...] = ("id",)) -> str:
    """Return a file whose messages have BIGINT fields, as a registry returns it."""
    file = FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    kinds = [
        FieldDescriptorProto(
            name=one,
            number=number,
            type=FieldDescriptorProto.TYPE_INT64,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
        )
        for number, one in enumerate(fields, 1)
    ]
    file.message_type.extend(DescriptorProto(name=name, field=kinds) for name in names)
    return base64.b64encode(file.SerializeToString()).decode()


def test_a_protobuf_message_is_found_at_its_place_in_each_file(url: str) -> None:
    """A newer file may put another message before it."""
    first = register(url, proto("Order"), kind="PROTOBUF")
    second = register(url, proto("Payment", "Order", fields=("id", "paid")), kind="PROTOBUF")
    assert from_registry(SUBJECT).message == "shop.Payment"
    schema = from_registry(SUBJECT, message="shop.Order")
    rows, faults = read(
        schema,
        framed(second, b"\x02\x02\x08\x05\x10\x07"),
        framed(first, b"\x00\x08\x06"),
        framed(second, b"\x00\x08\x05"),
    )
    assert rows == [{"id": 5, "paid": 7}, {"id": 6, "paid": 0}]
    assert faults == [None, None, "the value is message [0] of its file, and not [1]"]
