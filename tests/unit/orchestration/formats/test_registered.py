"""A topic may take its schema from a registry.

Its values are read by it, also while a registry is away.
"""

import base64
import io
import json
import logging
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from log_service.client import BlockingSchemaRegistryClient, Schema, SchemaReference
from log_service.client.schemas.wire_format import SchemaIdentity
from orchestration import (
    RegistryAwayError,
    RegistrySchemaError,
    TopicSpec,
    UnknownSchemaError,
    avro_schema,
    from_registry,
    topic_asset,
)
from orchestration.components.topic import RegistryAttributes, TopicComponent
from orchestration.formats.keys import read_keys
from orchestration.formats.registered import IncompatibleSchemaError, RegistrySchema, readers_of
from orchestration.formats.registry import (
    MOST_UNKNOWN,
    UnknownSchemas,
    unknown_schemas,
    written_schema,
)
from orchestration.log_client.protocol import HEADERS
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
    for kept in (written_schema, unknown_schemas, readers_of):
        kept.cache_clear()  # another registry may have had the same port
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
        UnknownSchemaError,
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
    """Schemas of one registry are not used for the other."""
    register(url, FIRST)
    assert written_schema(url, SUBJECT, SchemaIdentity(id=1)).content == json.dumps(FIRST)
    with served(RegistryDouble()) as other:
        register(other, SECOND)
        monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_URL", other)
        assert written_schema(other, SUBJECT, SchemaIdentity(id=1)).content == json.dumps(SECOND)


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


def in_headers(*named: str | bytes | None) -> pa.Array:
    """Return the headers of records whose value has a schema with this guid, or this content."""
    contents = [b"\x01" + UUID(one).bytes if isinstance(one, str) else one for one in named]
    return pa.array([[("__value_schema_id", one)] for one in contents], HEADERS)


def guid_of(url: str, subject: str = SUBJECT) -> str:
    with BlockingSchemaRegistryClient(url) as client:
        return client.get_latest_version(subject).guid or ""


def test_a_header_may_name_the_schema_by_its_guid(url: str) -> None:
    """A value whose header names its schema is bare.

    An unknown guid and a damaged header are faults of their values.
    """
    first = register(url, FIRST)
    old = guid_of(url)
    register(url, SECOND)
    new, unknown = guid_of(url), "00000000-0000-4000-8000-000000000000"
    schema, one = from_registry(SUBJECT), {"id": 1, "note": "x"}
    framed_one = avro(first, FIRST, one)
    bare, other = framed_one[5:], avro(2, SECOND, {"id": 2, "channel": "shop"})[5:]
    values = [bare, other, framed_one, bare, bare, None]
    headers = in_headers(old, new, None, unknown, b"\x07", new)
    table, faults = schema.read(pa.array(values, pa.binary()), headers)
    web, shop = {"id": 1, "channel": "web"}, {"id": 2, "channel": "shop"}
    assert table.to_pylist() == [web, shop, web]
    assert faults.to_pylist() == [
        None,
        None,
        None,
        f"its schema guid {unknown} is not known to the registry {url}",
        "its header __value_schema_id names no schema: 07",
        "the value is null",
    ]


def test_an_incompatible_version_in_a_header_stops_and_names_both(url: str) -> None:
    """As one in a prefix does."""
    register(url, FIRST)
    schema = from_registry(SUBJECT)
    register(url, BROKEN)
    guid = guid_of(url)
    value = avro(2, BROKEN, {"id": "x", "note": "x"})[5:]
    with pytest.raises(
        IncompatibleSchemaError, match=rf"version 2 of orders-value \(schema guid {guid}\)"
    ):
        schema.read(pa.array([value], pa.binary()), in_headers(guid))


def test_a_header_of_protobuf_names_the_message_too(url: str) -> None:
    """Its place in the file is behind the guid."""
    register(url, proto("Payment", "Order"), kind="PROTOBUF")
    schema = from_registry(SUBJECT, message="shop.Order")
    content = b"\x01" + UUID(guid_of(url)).bytes
    headers = in_headers(content + b"\x02\x02", content + b"\x00")
    table, faults = schema.read(pa.array([b"\x08\x05", b"\x08\x05"], pa.binary()), headers)
    assert table.to_pylist() == [{"id": 5}]
    assert faults.to_pylist() == [None, "the value is message [0] of its file, and not [1]"]


def test_keys_have_a_header_of_their_own(url: str) -> None:
    """The header of the value says nothing about the key."""
    register(url, FIRST, "orders-key")
    content = b"\x01" + UUID(guid_of(url, "orders-key")).bytes
    key = avro(1, FIRST, {"id": 5, "note": "x"})[5:]
    headers = [[("__key_schema_id", content), ("__value_schema_id", b"")]]
    columns = pa.schema([("id", pa.int64())])
    ((named, fault),) = read_keys(
        pa.array([key], pa.binary()),
        columns,
        from_registry("orders-key"),
        pa.array(headers, HEADERS),
    )
    assert named is not None
    assert ([one.as_py() for one in named], fault) == ([5], None)


def test_a_flood_of_unknown_schemas_asks_the_registry_for_few(
    url: str, double: RegistryDouble
) -> None:
    """Each is asked for once, and known ones are read beside a flood."""
    first = register(url, FIRST)
    schema, known = from_registry(SUBJECT), avro(first, FIRST, {"id": 1, "note": "x"})
    read(schema, known)
    double.requests.clear()
    flood = [framed(number, b"\x02") for number in range(1_000, 1_000 + 3 * MOST_UNKNOWN)]
    for _ in range(2):
        rows, faults = read(schema, *flood, known)
        assert rows == [{"id": 1, "note": "x"}]
        assert faults[0] == f"its schema id 1000 is not known to the registry {url}"
        assert faults[-2] == (
            f"its schema id {999 + len(flood)} was not asked for, because {MOST_UNKNOWN} others"
            f" within 30 s are not known to the registry {url}"
        )
    assert len(double.asked("GET")) == MOST_UNKNOWN


def test_an_unknown_schema_is_asked_for_again_after_a_while() -> None:
    """A producer may have registered it."""
    now = [0.0]
    unknown = UnknownSchemas(lambda: now[0], seconds=10, most=2)
    for number in (1, 2):
        assert unknown.why_not_asked(SchemaIdentity(id=number)) is None
        unknown.add(SchemaIdentity(id=number))
        now[0] += 5
    assert unknown.why_not_asked(SchemaIdentity(id=1)) is None
    assert unknown.why_not_asked(SchemaIdentity(id=2)) == "is not known"
    assert unknown.why_not_asked(SchemaIdentity(id=3)) is None


MONEY = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]}
INVOICE = {
    "type": "record",
    "name": "shop.Invoice",
    "fields": [
        {"name": "total", "type": "Money"},
        {"name": "paid", "type": ["null", "shop.Money"]},
    ],
}


def register_with(url: str, schema: Any, kind: str, **references: str) -> None:
    """Register a schema that refers to the first version of subjects, each by a name."""
    named = tuple(
        SchemaReference(name=name.replace("_", "."), subject=subject, version=1)
        for name, subject in references.items()
    )
    with BlockingSchemaRegistryClient(url) as client:
        client.register_schema(
            SUBJECT, Schema(text=json.dumps(schema), schema_type=kind, references=named)
        )


def test_avro_may_refer_to_other_subjects(url: str) -> None:
    """Their types are a part of the declared schema and of the written one."""
    register(url, MONEY, "money")
    register_with(url, INVOICE, "AVRO", shop_Money="money")
    schema = from_registry(SUBJECT)
    whole = {**INVOICE, "fields": [{"name": "total", "type": MONEY}, INVOICE["fields"][1]]}
    value = avro(2, whole, {"total": {"cents": 7}, "paid": None})
    assert read(schema, value) == ([{"total": {"cents": 7}, "paid": None}], [None])
    assert RegistrySchema.of(schema.declared()["registry"]) == schema


def test_json_may_refer_to_other_subjects(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project that was loaded before is loaded without the registry, with the references."""
    money = {"type": "object", "properties": {"cents": {"type": "integer"}}}
    order = {"type": "object", "properties": {"total": {"$ref": "money.json"}}}
    register(url, money, "money", "JSON")
    register_with(url, order, "JSON", money_json="money")
    schema = from_registry(SUBJECT)
    value = framed(2, b'{"total": {"cents": 7}}')
    assert read(schema, value) == ([{"total": {"cents": 7}}], [None])
    assert RegistrySchema.of(json.loads(json.dumps(schema.declared()["registry"]))) == schema
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_MAX_RETRIES", "0")
    assert from_registry(SUBJECT).fields == schema.fields


TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "left", "type": ["null", "Tree"], "default": None},
        {"name": "all", "type": {"type": "array", "items": "Tree"}, "default": []},
    ],
}


def test_a_record_within_itself_is_read_to_the_declared_depth(url: str) -> None:
    """Deeper values are a fault. A newer version is passed at any depth."""
    first = register(url, TREE)
    with pytest.raises(RegistrySchemaError, match=r"no depth is declared. Declare .*\(depth=3\)"):
        from_registry(SUBJECT)
    schema = from_registry(SUBJECT, depth=1)
    leaf: dict[str, Any] = {"id": 3, "left": None, "all": []}
    inner: dict[str, Any] = {"id": 2, "left": None, "all": []}
    fits = avro(first, TREE, {"id": 1, "left": inner, "all": [leaf]})
    deep = avro(first, TREE, {"id": 1, "left": {**inner, "left": leaf}, "all": []})
    rows, faults = read(schema, fits, deep)
    assert (rows, faults[0]) == ([{"id": 1, "left": {"id": 2}, "all": [{"id": 3}]}], None)
    assert faults == [None, "field left.left is nested deeper than the declared depth"]
    flat = {**TREE, "fields": TREE["fields"][:1]}
    register(url, flat)
    assert read(from_registry(SUBJECT), deep) == ([{"id": 1}], [None])
    left_out = from_registry(SUBJECT, version=1, leave_out=("left", "all"))
    assert read(left_out, deep, avro(2, flat, {"id": 4})) == ([{"id": 1}, {"id": 4}], [None] * 2)


def test_json_within_itself_has_columns_to_the_declared_depth(url: str) -> None:
    """Deeper values are not read, like fields that are not declared."""
    tree = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "left": {"$ref": "#"}},
    }
    first = register(url, tree, kind="JSON")
    with pytest.raises(RegistrySchemaError, match="field left is of the type # that it is part of"):
        from_registry(SUBJECT)
    schema = from_registry(SUBJECT, depth=1)
    value = framed(first, b'{"id": 1, "left": {"id": 2, "left": {"id": 3}}}')
    assert read(schema, value) == ([{"id": 1, "left": {"id": 2}}], [None])


def test_own_columns_are_read_by_the_schemas_of_a_subject(url: str, tmp_path: Path) -> None:
    """Of Avro and JSON. The registry is asked for the records' schemas alone."""
    file = tmp_path / "orders.avsc"
    file.write_text(json.dumps(SECOND))
    spec = TopicSpec(name="orders", schema=avro_schema(file), registered=SUBJECT)
    assert topic_specs([topic_asset(spec)]) == (spec,)
    first = register(url, FIRST)
    value = avro(first, FIRST, {"id": 1, "note": "x"})
    assert read(spec.value_format, value) == ([{"id": 1, "channel": "web"}], [None])
    register(url, BROKEN)
    with pytest.raises(
        IncompatibleSchemaError,
        match=r"version 2 .* cannot be read as the declared columns of orders-value, as the project",
    ):
        read(spec.value_format, avro(2, BROKEN, {"id": "x", "note": "x"}))
    third = register(url, {"type": "object"}, "texts-value", "JSON")
    texts = TopicSpec(name="texts", schema="id BIGINT NOT NULL", registered="texts-value")
    rows, faults = read(texts.value_format, framed(third, b'{"id": 7}'), b'{"id": 8}')
    assert (rows, faults[0]) == ([{"id": 7}], None)
    assert "does not begin with a zero" in (faults[1] or "")


def test_records_of_own_columns_may_wait_until_their_schema_is_registered(url: str) -> None:
    """As those of ``from_registry`` may."""
    spec = TopicSpec(
        name="texts", schema="id BIGINT", registered="texts-value", unknown_schema="wait"
    )
    assert topic_specs([topic_asset(spec)]) == (spec,)
    value = framed(1, b'{"id": 7}')
    with pytest.raises(UnknownSchemaError, match="a record waits, because its schema id 1 is not"):
        read(spec.value_format, value)
    assert register(url, {"type": "object"}, "texts-value", "JSON") == 1
    assert read(spec.value_format, value) == ([{"id": 7}], [None])
    with pytest.raises(
        ValueError, match=r"topic texts has unknown_schema='wait' and no registered"
    ):
        TopicSpec(name="texts", schema="id BIGINT", unknown_schema="wait")
    with pytest.raises(ValueError, match="unknown_schema is 'later'"):
        replace(spec, unknown_schema="later")  # type: ignore[arg-type]


def test_keys_of_own_columns_are_read_by_the_schemas_of_a_subject(url: str) -> None:
    """Without ``key_registered`` the prefix would be no JSON."""
    spec = TopicSpec(name="texts", key_schema="id BIGINT", key_registered="texts-key")
    assert topic_specs([topic_asset(spec)]) == (spec,)
    known = register(url, {"type": "object"}, "texts-key", "JSON")
    keys = pa.array([framed(known, b'{"id": 7}')], pa.binary())
    ((values, fault),) = read_keys(keys, pa.schema([("id", pa.int64())]), spec.key_format)
    assert ([each.as_py() for each in values or ()], fault) == ([7], None)
    waiting = replace(spec, unknown_schema="wait")
    keys = pa.array([framed(known + 1, b'{"id": 7}')], pa.binary())
    with pytest.raises(UnknownSchemaError, match="a record waits"):
        read_keys(keys, pa.schema([("id", pa.int64())]), waiting.key_format)
    for wrong in (None, "id VARIANT"):
        with pytest.raises(ValueError, match="topic texts"):
            replace(spec, key_schema=wrong)


def test_yaml_names_subjects_for_values_and_keys(url: str) -> None:
    """As ``from_registry`` does in Python."""
    register(url, FIRST)
    register(url, FIRST, "orders-key")
    component = TopicComponent(
        name="orders",
        registry=RegistryAttributes(subject=SUBJECT, unknown_schema="wait", leave_out=["note"]),
        key_registry=RegistryAttributes(subject="orders-key", version=1),
    )
    assert component.spec() == TopicSpec(
        name="orders",
        schema=from_registry(SUBJECT, unknown_schema="wait", leave_out="note"),
        key_schema=from_registry("orders-key", version=1),
    )
    twice = TopicComponent(
        name="orders", value_schema="id INT", registry=RegistryAttributes(subject=SUBJECT)
    )
    with pytest.raises(ValueError, match="value_schema and registry cannot be given together"):
        twice.spec()


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (None, "declare its columns by schema="),
        ("id VARIANT", "it has a VARIANT"),
    ],
)
def test_a_subject_without_columns_to_read_is_refused(schema: str | None, text: str) -> None:
    """With the topic and the subject."""
    with pytest.raises(ValueError, match=f"topic orders .*registered='orders-value'.*{text}"):
        TopicSpec(name="orders", schema=schema, registered=SUBJECT)


def test_a_subject_is_named_once(url: str) -> None:
    """from_registry has one already."""
    register(url, FIRST)
    with pytest.raises(ValueError, match="from_registry names its subject already"):
        TopicSpec(name="orders", schema=from_registry(SUBJECT), registered=SUBJECT)
