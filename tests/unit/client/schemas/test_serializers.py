"""Serializers ask the registry once, put the schema where they should, and say what does not fit."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pytest
import trio
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from log_service.client import (
    AvroDeserializer,
    AvroSerializer,
    BlockingAvroDeserializer,
    BlockingAvroSerializer,
    BlockingJsonSchemaDeserializer,
    BlockingJsonSchemaSerializer,
    BlockingProtobufDeserializer,
    BlockingProtobufSerializer,
    BlockingSchemaRegistryClient,
    ConfigError,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    SerializationError,
)
from tests.unit.client.schemas.proto_types import MESSAGE, classes, field, message
from tests.unit.client.schemas.registry_double import RegistryDouble

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long"}],
    }
)
NEWER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "double"},
            {"name": "note", "type": "string", "default": "none"},
        ],
    }
)
JSON_ORDER = json.dumps(
    {
        "title": "JsonOrder",
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
    }
)


@pytest.fixture
def double() -> RegistryDouble:
    return RegistryDouble()


@pytest.fixture
def registry(double: RegistryDouble) -> Iterator[BlockingSchemaRegistryClient]:
    with BlockingSchemaRegistryClient(
        "http://r", transport=double.transport(), max_retries=0
    ) as client:
        yield client


def test_a_schema_is_registered_once_for_a_topic(
    registry: BlockingSchemaRegistryClient, double: RegistryDouble
) -> None:
    """Keys have a subject of their own, and null stays null without any request."""
    values, keys = (
        BlockingAvroSerializer(registry, ORDER),
        BlockingAvroSerializer(registry, '"string"', is_key=True),
    )
    assert values.serialize("orders", None) is None
    assert double.requests == []
    assert [values.serialize("orders", {"id": each}) for each in (1, 2)] == [
        b"\0\0\0\0\x01\x02",
        b"\0\0\0\0\x01\x04",
    ]
    assert [keys.serialize("orders", each) for each in ("a", "b")] == [
        b"\0\0\0\0\x02\x02a",
        b"\0\0\0\0\x02\x02b",
    ]
    assert double.asked("POST") == [
        "/subjects/orders-value/versions",
        "/subjects/orders-key/versions",
    ]


@pytest.mark.parametrize("run", [trio.run, asyncio.run], ids=["trio", "asyncio"])
def test_tasks_serialize_and_deserialize(double: RegistryDouble, run: Any) -> None:
    """Values and null, on both kinds of event loop."""
    run(in_tasks, double) if run is trio.run else run(in_tasks(double))


async def in_tasks(double: RegistryDouble) -> None:
    async with SchemaRegistryClient("http://r", transport=double.transport()) as registry:
        serializer, deserializer = AvroSerializer(registry, ORDER), AvroDeserializer(registry)
        written = await serializer.serialize("orders", {"id": 1})
        assert await deserializer.deserialize("orders", written) == {"id": 1}
        assert await serializer.serialize("orders", None) is None
        assert await deserializer.deserialize("orders", None) is None
        assert (await serializer.for_topic("orders"))({"id": 1}) == written


@pytest.mark.parametrize(
    ("strategy", "subjects"),
    [
        ("topic", ["orders-value", "orders-value", "orders-value"]),
        ("record", ["shop.Order", "JsonOrder", "google.protobuf.Timestamp"]),
        (
            "topic-record",
            ["orders-shop.Order", "orders-JsonOrder", "orders-google.protobuf.Timestamp"],
        ),
        (
            lambda topic, part, record: f"{record}/{part}/{topic}",
            ["shop.Order/value/orders", "JsonOrder/value/orders"],
        ),
    ],
)
def test_the_strategy_names_the_subject(
    registry: BlockingSchemaRegistryClient,
    double: RegistryDouble,
    strategy: Any,
    subjects: list[str],
) -> None:
    """With the full name of a record, the title of JSON, or the full name of a message."""
    BlockingAvroSerializer(registry, ORDER, subject_name_strategy=strategy).serialize(
        "orders", {"id": 1}
    )
    BlockingJsonSchemaSerializer(registry, JSON_ORDER, subject_name_strategy=strategy).serialize(
        "orders", {"id": 1}
    )
    BlockingProtobufSerializer(registry, Timestamp, subject_name_strategy=strategy).serialize(
        "orders", Timestamp()
    )
    asked = [
        target.removeprefix("/subjects/").removesuffix("/versions").replace("%2F", "/")
        for target in double.asked("POST")
    ]
    assert asked[: len(subjects)] == subjects


def test_a_schema_without_a_name_needs_the_topics_subject(
    registry: BlockingSchemaRegistryClient,
) -> None:
    """A union has none."""
    with pytest.raises(ConfigError, match="no record name"):
        BlockingAvroSerializer(
            registry, '["null", "string"]', subject_name_strategy="record"
        ).serialize("orders", "a")


def test_without_registration_the_schema_has_to_be_there(
    registry: BlockingSchemaRegistryClient, double: RegistryDouble
) -> None:
    """The error names the subject; after a registration it works."""
    serializer = BlockingAvroSerializer(
        registry, ORDER, auto_register_schemas=False, normalize_schemas=True
    )
    with pytest.raises(
        SchemaRegistryError, match="subject 'orders-value': Subject 'orders-value' not found"
    ):
        serializer.serialize("orders", {"id": 1})
    registry.register_schema("orders-value", Schema(text=ORDER))
    assert serializer.serialize("orders", {"id": 1}) == b"\0\0\0\0\x01\x02"
    assert double.asked("POST")[-1] == "/subjects/orders-value?normalize=true"


def test_the_latest_version_writes_and_is_asked_for_again(double: RegistryDouble) -> None:
    """After its time to live."""
    settings: dict[str, Any] = {"transport": double.transport(), "cache_latest_ttl_sec": 0}
    with BlockingSchemaRegistryClient("http://r", **settings) as registry:
        serializer = BlockingAvroSerializer(registry, use_latest_version=True)
        registry.register_schema("orders-value", Schema(text=ORDER))
        assert serializer.serialize("orders", {"id": 1}) == b"\0\0\0\0\x01\x02"
        registry.register_schema("orders-value", Schema(text=NEWER))
        assert serializer.serialize("orders", {"id": 1})[:5] == b"\0\0\0\0\x02"  # type: ignore[index]
    with BlockingSchemaRegistryClient("http://r", transport=double.transport()) as registry:
        kept = BlockingAvroSerializer(registry, use_latest_version=True)
        before = len(double.requests)
        assert len({kept.serialize("orders", {"id": 1}) for _ in range(5)}) == 1
        assert len(double.requests) == before + 1


def test_values_are_resolved_to_the_readers_schema(registry: BlockingSchemaRegistryClient) -> None:
    """A given one, or the latest version."""
    data = BlockingAvroSerializer(registry, ORDER).serialize("orders", {"id": 1})
    assert BlockingAvroDeserializer(registry).deserialize("orders", data) == {"id": 1}
    expected = {"id": 1.0, "note": "none"}
    assert BlockingAvroDeserializer(registry, NEWER).deserialize("orders", data) == expected
    registry.register_schema("orders-value", Schema(text=NEWER))
    assert (
        BlockingAvroDeserializer(registry, use_latest_version=True).deserialize("orders", data)
        == expected
    )


@dataclass
class Order:
    """An object of an application."""

    id: int


def test_objects_become_dicts_and_back(registry: BlockingSchemaRegistryClient) -> None:
    """With functions of the application."""

    def from_dict(found: dict[str, Any]) -> Order:
        return Order(**found)

    data = BlockingAvroSerializer(registry, ORDER, to_dict=asdict).serialize("orders", Order(id=1))
    assert BlockingAvroDeserializer(registry, from_dict=from_dict).deserialize(
        "orders", data
    ) == Order(id=1)
    data = BlockingJsonSchemaSerializer(registry, JSON_ORDER, to_dict=asdict).serialize(
        "orders", Order(id=1)
    )
    assert data is not None
    assert data[5:] == b'{"id":1}'
    assert BlockingJsonSchemaDeserializer(registry, JSON_ORDER, from_dict=from_dict).deserialize(
        "orders", data
    ) == Order(id=1)
    data = BlockingProtobufSerializer(registry, Timestamp).serialize("orders", Timestamp(seconds=1))
    reader = BlockingProtobufDeserializer(
        registry, Timestamp, from_message=lambda message: Order(id=message.seconds)
    )
    assert reader.deserialize("orders", data) == Order(id=1)


def test_the_header_names_the_schema_by_its_guid(registry: BlockingSchemaRegistryClient) -> None:
    """The payload is bare. A header that came along from another record is replaced."""
    serializer = BlockingJsonSchemaSerializer(registry, JSON_ORDER, schema_id_in="header")
    headers: list[tuple[str, bytes | None]] = [
        ("__value_schema_id", b"old"),
        ("trace", b"1"),
        ("__key_schema_id", b"key"),
    ]
    assert serializer.serialize("orders", {"id": 1}, headers) == b'{"id":1}'
    assert [name for name, _ in headers] == ["trace", "__key_schema_id", "__value_schema_id"]
    assert (headers[-1][1] or b"")[:1] == b"\x01"
    assert BlockingJsonSchemaDeserializer(registry).deserialize("orders", b'{"id":1}', headers) == {
        "id": 1
    }
    with pytest.raises(ConfigError, match="needs headers"):
        serializer.serialize("orders", {"id": 1})
    with pytest.raises(ConfigError, match="see no headers"):
        serializer.for_topic("orders")


def test_the_prefix_removes_a_header_that_came_along(
    registry: BlockingSchemaRegistryClient,
) -> None:
    """Readers would believe the header, which names the schema of another value."""
    headers: list[tuple[str, bytes | None]] = [("__value_schema_id", b"\x01" * 17), ("trace", b"1")]
    data = BlockingAvroSerializer(registry, ORDER).serialize("orders", {"id": 1}, headers)
    assert headers == [("trace", b"1")]
    assert BlockingAvroDeserializer(registry).deserialize("orders", data, headers) == {"id": 1}


def test_an_older_registry_tells_no_guid() -> None:
    """The prefix works there, and the header says so."""
    double = RegistryDouble(is_guid_told=False)
    with BlockingSchemaRegistryClient("http://r", transport=double.transport()) as registry:
        assert (
            BlockingAvroSerializer(registry, ORDER).serialize("orders", {"id": 1})
            == b"\0\0\0\0\x01\x02"
        )
        with pytest.raises(SerializationError, match="schema_id_in='prefix', or a newer registry"):
            BlockingAvroSerializer(registry, ORDER, schema_id_in="header").serialize(
                "orders", {"id": 1}, []
            )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"use_latest_version": True, "auto_register_schemas": True}, "exclude each other"),
        (
            {"subject_name_strategy": "topics"},
            "subject_name_strategy is 'topics'; it may be topic, record, topic-record",
        ),
        ({"schema_id_in": "tail"}, "schema_id_in is 'tail'"),
    ],
)
def test_keywords_that_contradict_each_other_are_refused(
    registry: BlockingSchemaRegistryClient, options: Any, text: str
) -> None:
    """At the start, before any value."""
    with pytest.raises(ConfigError, match=text):
        BlockingAvroSerializer(registry, ORDER, **options)
    with pytest.raises(ConfigError, match="a schema is missing"):
        BlockingAvroSerializer(registry)


def test_values_that_do_not_fit_are_refused(registry: BlockingSchemaRegistryClient) -> None:
    """The text names the topic, the schema and the reason."""
    with pytest.raises(
        SerializationError,
        match=r"topic orders does not fit schema id 1 of subject 'orders-value': .*field id",
    ):
        BlockingAvroSerializer(registry, ORDER).serialize("orders", {"id": "a"})
    json_orders = BlockingJsonSchemaSerializer(registry, JSON_ORDER)
    with pytest.raises(SerializationError, match=r"'a' is not of type 'integer' \(at \$\.id\)"):
        json_orders.serialize("orders", {"id": "a"})
    with pytest.raises(SerializationError, match="Out of range float"):
        json_orders.serialize("orders", {"id": 1, "rest": float("nan")})
    with pytest.raises(SerializationError, match="a message of Timestamp is expected, not dict"):
        BlockingProtobufSerializer(registry, Timestamp).serialize("orders", {})
    assert (
        BlockingJsonSchemaSerializer(registry, JSON_ORDER, validate=False).serialize(
            "orders", {"id": "a"}
        )
        is not None
    )


def test_bytes_that_do_not_fit_are_refused(registry: BlockingSchemaRegistryClient) -> None:
    """So are schemas of another language, and ids that the registry does not have."""
    BlockingAvroSerializer(registry, ORDER).serialize("orders", {"id": 1})
    BlockingJsonSchemaSerializer(registry, JSON_ORDER).serialize("orders", {"id": 1})
    reader = BlockingAvroDeserializer(registry)
    with pytest.raises(
        SerializationError, match="topic orders cannot be read with schema id 1: EOFError"
    ):
        reader.deserialize("orders", b"\0\0\0\0\x01")
    with pytest.raises(
        SerializationError, match="schema id 2, which topic orders uses, is JSON, and not AVRO"
    ):
        reader.deserialize("orders", b"\0\0\0\0\x02{}")
    with pytest.raises(SchemaRegistryError, match="subject 'orders-value': Schema 9 not found"):
        reader.deserialize("orders", b"\0\0\0\0\x09")
    with pytest.raises(SerializationError, match="the bytes name no schema"):
        reader.deserialize("orders", b"{}")
    with pytest.raises(SerializationError, match="'id' is a required property"):
        BlockingJsonSchemaDeserializer(registry).deserialize("orders", b"\0\0\0\0\x02{}")


@pytest.mark.parametrize("text", ["", "{", '{"type": "record"}', "x"])
def test_a_schema_that_is_none_is_refused(
    registry: BlockingSchemaRegistryClient, text: str
) -> None:
    """At once and with the reason, whatever the library would raise."""
    with pytest.raises(SerializationError, match="the schema cannot be used: "):
        BlockingAvroSerializer(registry, text)
    with pytest.raises(SerializationError, match="the schema cannot be used: "):
        BlockingAvroDeserializer(registry, text)
    with pytest.raises(SerializationError, match="the schema cannot be used: "):
        BlockingJsonSchemaSerializer(registry, text or '{"type": 1}')
    with pytest.raises(SerializationError, match="the schema cannot be used: "):
        BlockingJsonSchemaDeserializer(registry, text or '{"type": 1}')


def test_a_schema_that_cannot_be_used_is_not_registered(
    registry: BlockingSchemaRegistryClient, double: RegistryDouble
) -> None:
    """It was registered before its expression was looked at."""
    pattern = '{"type": "string", "pattern": "(?=a)b"}'
    with pytest.raises(SerializationError, match=r"\(\?=a\)b"):
        BlockingJsonSchemaSerializer(registry, pattern)
    part = registry.register_schema("part", Schema(text=pattern, schema_type="JSON"))
    reference = SchemaReference(name="part.json", subject="part", version=part.version or 0)
    whole = Schema(text='{"$ref": "part.json"}', schema_type="JSON", references=(reference,))
    with pytest.raises(SerializationError, match=r"\(\?=a\)b"):
        BlockingJsonSchemaSerializer(registry, whole).serialize("orders", "a")
    assert double.asked("POST") == ["/subjects/part/versions"]


def test_text_instead_of_bytes_is_refused(registry: BlockingSchemaRegistryClient) -> None:
    """A consumer with a value_deserializer returns text, for one."""
    text: Any = "abc"
    for reader in (
        BlockingAvroDeserializer(registry),
        BlockingJsonSchemaDeserializer(registry),
        BlockingProtobufDeserializer(registry, Timestamp),
    ):
        with pytest.raises(SerializationError, match="bytes are needed, not str"):
            reader.deserialize("orders", text, [])


def test_avro_references_are_found_wherever_they_stand(
    registry: BlockingSchemaRegistryClient,
) -> None:
    """In fields, arrays, maps and unions, used twice, and within another reference."""
    money = {
        "type": "record",
        "name": "Money",
        "namespace": "shop.base",
        "fields": [{"name": "cents", "type": "long"}],
    }
    way = {"type": "enum", "name": "Way", "symbols": ["CARD", "CASH"]}
    payment = {
        "type": "record",
        "name": "shop.Payment",
        "fields": [{"name": "paid", "type": "shop.base.Money"}, {"name": "way", "type": way}],
    }
    order = {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "ways", "type": {"type": "array", "items": "Way"}},
            {"name": "payment", "type": ["null", {"type": "Payment"}]},
            {"name": "prices", "type": {"type": "map", "values": "shop.base.Money"}},
            {"name": "parent", "type": ["null", "Order"], "default": None},
        ],
    }
    registry.register_schema("money", Schema(text=json.dumps(money)))
    inner = SchemaReference(name="shop.base.Money", subject="money", version=1)
    registry.register_schema("payment", Schema(text=json.dumps(payment), references=(inner,)))
    schema = Schema(
        text=json.dumps(order),
        references=(SchemaReference(name="shop.Payment", subject="payment", version=1), inner),
    )
    child: Any = {"ways": [], "payment": None, "prices": {"a": {"cents": 2}}, "parent": None}
    value = {
        "ways": ["CASH"],
        "payment": {"paid": {"cents": 1}, "way": "CARD"},
        "prices": {},
        "parent": child,
    }
    data = BlockingAvroSerializer(registry, schema).serialize("orders", value)
    assert data is not None
    assert (
        data[5:].hex() == "020200" + "020200" + "00" + "02" + "00" + "00" + "02026104" + "00" + "00"
    )
    assert BlockingAvroDeserializer(registry).deserialize("orders", data) == value
    with pytest.raises(SerializationError, match=r"cannot be used: UnknownType"):
        BlockingAvroSerializer(registry, Schema(text=json.dumps(order))).serialize("orders", value)


def test_bytes_as_a_whole_value_stand_alone(registry: BlockingSchemaRegistryClient) -> None:
    """Without a length, as Confluent's serializers write them."""
    serializer = BlockingAvroSerializer(registry, '"bytes"')
    assert serializer.serialize("raw", b"abc") == b"\0\0\0\0\x01abc"
    assert BlockingAvroDeserializer(registry).deserialize("raw", b"\0\0\0\0\x01abc") == b"abc"


def test_json_references_are_names_and_never_fetched(
    registry: BlockingSchemaRegistryClient,
) -> None:
    """Relative to the schema's own id, if it has one."""
    registry.register_schema("customer", Schema(text='{"type": "string"}', schema_type="JSON"))
    reference = SchemaReference(name="customer.json", subject="customer", version=1)
    text = '{"$id": "http://shop/order.json", "properties": {"customer": {"$ref": "customer.json"}, "x": {"$ref": "http://shop/x.json"}}}'
    serializer = BlockingJsonSchemaSerializer(
        registry, Schema(text=text, schema_type="JSON", references=(reference,))
    )
    assert serializer.serialize("orders", {"customer": "ann"}) is not None
    with pytest.raises(SerializationError, match="1 is not of type 'string'"):
        serializer.serialize("orders", {"customer": 1})
    with pytest.raises(
        SerializationError,
        match=r"refers to http://shop/x\.json, which is none of its references: customer\.json",
    ):
        serializer.serialize("orders", {"x": 1})


def test_protobuf_files_are_registered_with_their_imports(
    registry: BlockingSchemaRegistryClient, double: RegistryDouble
) -> None:
    """Each under its name; well-known types are left out."""
    order = classes()["Order"]
    serializer = BlockingProtobufSerializer(registry, order)
    message = order(id=1)
    message.paid.amount = 2.5
    data = serializer.serialize("orders", message)
    assert double.asked("POST") == [
        "/subjects/shop%2Fcommon.proto/versions",
        "/subjects/orders-value/versions",
    ]
    assert data is not None
    assert data[:7] == b"\0\0\0\0\x02\x02\x02"
    read = BlockingProtobufDeserializer(registry).deserialize("orders", data)
    assert (read.id, read.paid.amount) == (1, 2.5)
    before = len(double.requests)
    assert BlockingProtobufDeserializer(registry, order).deserialize("orders", data) == message
    assert len(double.requests) == before, "a given type needs no registry"
    with pytest.raises(SerializationError, match="no message at 7"):
        BlockingProtobufDeserializer(registry).deserialize("orders", b"\0\0\0\0\x02\x02\x0e")


def test_files_of_googles_types_are_known_where_they_are_installed(
    registry: BlockingSchemaRegistryClient,
) -> None:
    """A schema that imports one is read without it as a reference."""
    money = pytest.importorskip("google.type.money_pb2")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(money.DESCRIPTOR.serialized_pb)
    price = message("Price", field("amount", 1, MESSAGE, ".google.type.Money"))
    pool.Add(
        FileDescriptorProto(
            name="p.proto",
            syntax="proto3",
            dependency=["google/type/money.proto"],
            message_type=[price],
        )
    )
    kind = GetMessageClass(pool.FindMessageTypeByName("Price"))
    data = BlockingProtobufSerializer(registry, kind).serialize("prices", kind(amount={"units": 5}))
    assert BlockingProtobufDeserializer(registry).deserialize("prices", data).amount.units == 5


def test_a_protobuf_schema_as_text_names_what_the_registry_lacks(
    registry: BlockingSchemaRegistryClient,
) -> None:
    """Registries that do not know the format return the text of the file."""
    registry.register_schema(
        "orders-value", Schema(text='syntax = "proto3"; message A {}', schema_type="PROTOBUF")
    )
    with pytest.raises(SerializationError, match="it has to know format=serialized"):
        BlockingProtobufDeserializer(registry).deserialize("orders", b"\0\0\0\0\x01\0")
