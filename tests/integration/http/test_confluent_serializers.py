"""confluent-kafka's serializers over our registry and our broker, in both of their faces.

Values go through a real topic, and come back by the id or the guid that travels with them.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

import confluent_kafka
import confluent_kafka.error
import pytest

from tests.helpers.registry_process import RegistryProcess
from tests.integration import confluent
from tests.integration.http.confluent_faces import (
    MODULES,
    REGISTRY,
    Face,
    Headers,
    Metadata,
    MetadataProperties,
    Schema,
    SchemaReference,
    SchemaRegistryError,
    key_context,
    value_context,
)
from tests.integration.http.proto_messages import Messages

ERRORS: Any = vars(confluent_kafka.error)
HEADER = "__value_schema_id"


@pytest.fixture(params=["threads", "asyncio"])
def client(request: pytest.FixtureRequest, registry: RegistryProcess) -> Iterator[Face]:
    """A client of the shared registry, with its caches empty."""
    with Face(registry.url, is_async=request.param == "asyncio") as made:
        yield made


@pytest.fixture
def through(bootstrap: str, topic: str) -> Callable[..., tuple[bytes, Headers]]:
    """Send a value to the topic, and return it with its headers as a consumer gets them."""

    def sent(value: bytes, headers: Headers | None = None) -> tuple[bytes, Headers]:
        sender = confluent.Sent(bootstrap)
        sender.send(topic, value, headers=headers or [])
        sender.flush()
        (record,) = confluent.read_records(bootstrap, topic, 1)
        return record.value(), record.headers() or []

    return sent


def record(name: str, *fields: dict[str, Any], **more: Any) -> str:
    """Return the text of a record in Avro."""
    return json.dumps({"type": "record", "name": name, "fields": list(fields), **more})


NAME = {"name": "name", "type": "string", "default": "none"}
USER = record("User", NAME, {"name": "number", "type": "int"}, namespace="shop")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (record("Basic", NAME), {"name": "abc"}),
        ('{"type": "string"}', "Jämtland"),
        ('{"type": "boolean"}', True),
        ('{"type": "float"}', 32768.25),
        ('{"type": "double"}', 68.032768),
        ('["null", "string"]', "one of a union"),
    ],
    ids=["record", "string", "boolean", "float", "double", "union"],
)
def test_avro_comes_back(
    client: Face,
    topic: str,
    through: Callable[..., tuple[bytes, Headers]],
    schema: str,
    value: object,
) -> None:
    """Records and primitive types, by the id in front of them."""
    serialize, deserialize = (
        client.serializer("Avro", client.client, schema),
        client.deserializer("Avro", client.client),
    )
    data, _ = through(serialize(value, value_context(topic)))
    assert data[0] == 0
    assert int.from_bytes(data[1:5]) == client.get_latest_version(f"{topic}-value").schema_id
    assert deserialize(data, value_context(topic)) == value


def test_a_delivered_record_is_deserialized(client: Face, bootstrap: str, topic: str) -> None:
    """The producer's report has the very value that was sent."""
    serialize, deserialize = (
        client.serializer("Avro", client.client, USER),
        client.deserializer("Avro", client.client),
    )
    sender = confluent.Sent(bootstrap)
    sender.send(
        topic,
        serialize({"name": "ann", "number": 1}, value_context(topic)),
        key=serialize_key(client, topic, "k"),
    )
    sender.flush()
    (delivered,) = sender.delivered
    assert deserialize(delivered.value(), value_context(topic, delivered.headers())) == {
        "name": "ann",
        "number": 1,
    }
    assert deserialize(delivered.key(), key_context(topic)) == "k"
    assert {f"{topic}-key", f"{topic}-value"} <= set(client.get_subjects())


def serialize_key(client: Face, topic: str, key: str) -> Any:
    return client.serializer("Avro", client.client, '{"type": "string"}')(key, key_context(topic))


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A class of a program that stands for a dictionary."""

    name: str
    number: int


def test_objects_are_turned_into_records_and_back(
    client: Face, topic: str, through: Callable[..., tuple[bytes, Headers]]
) -> None:
    """By functions of the program."""
    serialize = client.serializer("Avro", client.client, USER, lambda user, _: asdict(user))
    deserialize = client.deserializer("Avro", client.client, USER, lambda found, _: User(**found))
    user = User(name="bowie", number=47)
    data, _ = through(serialize(user, value_context(topic)))
    assert deserialize(data, value_context(topic)) == user


def referring_schema(client: Face, topic: str) -> Any:
    """Register a user and an award that has properties, and return the schema that refers to both."""
    properties = record("Properties", {"name": "year", "type": "int"}, namespace="shop")
    award = record("Award", {"name": "properties", "type": "Properties"}, namespace="shop")
    whole = record(
        "Awarded",
        {"name": "user", "type": "User"},
        {"name": "award", "type": "Award"},
        namespace="shop",
    )
    client.register_schema(f"{topic}-user", Schema(USER, "AVRO"))
    client.register_schema(f"{topic}-properties", Schema(properties, "AVRO"))
    inner = SchemaReference("shop.Properties", f"{topic}-properties", 1)
    client.register_schema(f"{topic}-award", Schema(award, "AVRO", [inner]))
    references = [
        SchemaReference("shop.User", f"{topic}-user", 1),
        SchemaReference("shop.Award", f"{topic}-award", 1),
    ]
    return Schema(whole, "AVRO", references)


@pytest.mark.parametrize("is_reader_given", [True, False])
def test_avro_refers_to_other_subjects(
    client: Face,
    topic: str,
    through: Callable[..., tuple[bytes, Headers]],
    *,
    is_reader_given: bool,
) -> None:
    """References of references are resolved, also for a reader that brings no schema."""
    schema = referring_schema(client, topic)
    value = {"user": {"name": "bowie", "number": 47}, "award": {"properties": {"year": 2023}}}
    serialize = client.serializer("Avro", client.client, schema)
    client.clear_caches()
    deserialize = client.deserializer("Avro", client.client, schema if is_reader_given else None)
    data, _ = through(serialize(value, value_context(topic)))
    assert deserialize(data, value_context(topic)) == value


PRODUCT = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "http://example.com/product.schema.json",
        "title": "Product",
        "type": "object",
        "properties": {
            "productId": {"type": "integer"},
            "price": {"type": "number", "exclusiveMinimum": 0},
        },
        "required": ["productId", "price"],
    }
)
CONTRACTOR = json.dumps(
    {"title": "Contractor", "type": "object", "properties": {"contractorId": {"type": "integer"}}}
)
ORDER = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {"product": {"$ref": "http://example.com/product.schema.json"}},
        "required": ["product"],
    }
)
ICE = {"productId": 1, "price": 12.5}


def test_json_comes_back(
    client: Face, topic: str, through: Callable[..., tuple[bytes, Headers]]
) -> None:
    """The reader's schema comes from the registry."""
    serialize = client.serializer("JSON", PRODUCT, client.client)
    data, _ = through(serialize(ICE, value_context(topic)))
    client.clear_caches()
    deserialize = client.deserializer("JSON", None, schema_registry_client=client.client)
    assert deserialize(data, value_context(topic)) == ICE
    assert client.get_latest_version(f"{topic}-value").schema.schema_type == "JSON"


def test_json_that_breaks_its_schema_is_neither_written_nor_read(client: Face, topic: str) -> None:
    """Both sides validate."""
    with pytest.raises(Exception, match="is a required property"):
        client.serializer("JSON", PRODUCT, client.client)({"contractorId": 1}, value_context(topic))
    other = client.serializer(
        "JSON",
        CONTRACTOR,
        client.client,
        conf={"subject.name.strategy": REGISTRY.record_subject_name_strategy},
    )
    data = other({"contractorId": 2}, value_context(topic))
    with pytest.raises(Exception, match="'productId' is a required property"):
        client.deserializer("JSON", PRODUCT)(data, value_context(topic))


def test_json_refers_to_other_subjects(
    client: Face, topic: str, through: Callable[..., tuple[bytes, Headers]]
) -> None:
    """A reference is named by the URI of ``$ref``."""
    client.register_schema(f"{topic}-product", Schema(PRODUCT, "JSON"))
    schema = Schema(
        ORDER,
        "JSON",
        [SchemaReference("http://example.com/product.schema.json", f"{topic}-product", 1)],
    )
    serialize = client.serializer("JSON", schema, client.client)
    data, _ = through(serialize({"product": ICE}, value_context(topic)))
    deserialize = client.deserializer("JSON", schema, schema_registry_client=client.client)
    assert deserialize(data, value_context(topic)) == {"product": ICE}
    with pytest.raises(Exception, match="'price' is a required property"):
        serialize({"product": {"productId": 1}}, value_context(topic))


PROTOS = {
    "meta/metadata.proto": 'syntax = "proto2"; package meta; import "google/protobuf/descriptor.proto";\n'
    "extend google.protobuf.FieldOptions { optional string owner = 50001; }\n",
    "meta/common.proto": 'syntax = "proto3"; package meta; import "meta/metadata.proto";\n'
    "message Common { string id = 1 [(meta.owner) = 'ann']; map<string, int64> counts = 2; }\n",
    "meta/public.proto": 'syntax = "proto3"; package meta; import public "meta/common.proto";\n',
    "shop.proto": 'syntax = "proto3"; package shop; import "meta/public.proto"; import "google/protobuf/timestamp.proto";\n'
    "enum Status { ACTIVE = 0; INACTIVE = 1; }\n"
    "message First { message Inner { bytes data = 1; } Inner inner = 1; }\n"
    "message Click {\n  meta.Common common = 1; google.protobuf.Timestamp at = 2; repeated string tags = 3; Status status = 4;\n"
    "  oneof user { string name = 5; sint32 number = 6; } optional double price = 7;\n}\n",
}


@pytest.fixture(scope="session")
def messages(tmp_path_factory: pytest.TempPathFactory) -> Messages:
    """Messages of several files, with maps, options, oneofs and imports."""
    return Messages(tmp_path_factory.mktemp("protos"), PROTOS)


def protobuf_values(messages: Messages) -> dict[str, Any]:
    """Return a value of each kind of message: one of many imports, a nested one, one of another
    file.
    """
    return {
        "shop.Click": messages["shop.Click"](
            common=messages["meta.Common"](id="c", counts={"a": 1, "b": 2}),
            tags=["x", "y"],
            status=1,
            number=-3,
            price=0.0,
        ),
        "shop.First.Inner": messages["shop.First.Inner"](data=b"bytes"),
        "meta.Common": messages["meta.Common"](id="alone"),
    }


@pytest.mark.parametrize("message", ["shop.Click", "shop.First.Inner", "meta.Common"])
def test_protobuf_comes_back(
    client: Face,
    topic: str,
    messages: Messages,
    through: Callable[..., tuple[bytes, Headers]],
    message: str,
) -> None:
    """The client registers base64 of descriptors, those of imports first."""
    value, prefix = protobuf_values(messages)[message], f"{topic}/"
    conf = {"reference.subject.name.strategy": lambda _, imported: prefix + imported.name}
    data, _ = through(
        client.serializer("Protobuf", type(value), client.client, conf)(value, value_context(topic))
    )
    for registry_client in (None, client.client):
        client.clear_caches()
        deserialize = client.deserializer("Protobuf", type(value), {}, registry_client)
        assert deserialize(data, value_context(topic)) == value
    registered = client.get_latest_version(f"{topic}-value").schema
    expected = {
        "shop.Click": ["meta/public.proto"],
        "shop.First.Inner": ["meta/public.proto"],
        "meta.Common": ["meta/metadata.proto"],
    }
    assert [each.name for each in registered.references] == expected[message]


def test_protobuf_is_registered_once(client: Face, topic: str, messages: Messages) -> None:
    """A second program with the same files finds its schema, with known types as references, too."""
    value = messages["meta.Common"](id="again", counts={"a": 1})
    conf = {
        "skip.known.types": False,
        "reference.subject.name.strategy": lambda _, imported: f"{topic}/{imported.name}",
    }
    first = client.serializer("Protobuf", type(value), client.client, conf)(
        value, value_context(topic)
    )
    client.clear_caches()
    looking = {**conf, "auto.register.schemas": False}
    second = client.serializer("Protobuf", type(value), client.client, looking)(
        value, value_context(topic)
    )
    assert second == first
    assert client.get_versions(f"{topic}-value") == [1]
    metadata = client.get_latest_version(f"{topic}/meta/metadata.proto").schema
    assert [each.name for each in metadata.references] == ["google/protobuf/descriptor.proto"]


def test_another_message_is_neither_written_nor_read(
    client: Face, topic: str, messages: Messages
) -> None:
    """A serializer is for one message, and so is a deserializer."""
    common, inner = messages["meta.Common"], messages["shop.First.Inner"]
    serialize = client.serializer("Protobuf", common, client.client)
    with pytest.raises(ValueError, match="message must be of type"):
        serialize(inner(data=b"x"), value_context(topic))
    data = client.serializer("Protobuf", inner, client.client)(
        inner(data=b"\xff\xff"), value_context(topic)
    )
    with pytest.raises(Exception, match=r"(?i)error parsing|utf-8|decode"):
        client.deserializer("Protobuf", common, {})(data, value_context(topic))


def test_the_id_may_travel_in_a_header(
    client: Face, topic: str, messages: Messages, through: Callable[..., tuple[bytes, Headers]]
) -> None:
    """As a guid, which is the same in all contexts and registries. The payload is bare then."""
    conf = {"schema.id.serializer": REGISTRY.header_schema_id_serializer}
    inner = messages["shop.First.Inner"](data=b"bytes")
    serdes = {
        "Avro": (
            client.serializer("Avro", client.client, USER, conf=conf),
            client.deserializer("Avro", client.client),
            {"name": "bowie", "number": 1},
        ),
        "JSON": (
            client.serializer(
                "JSON",
                PRODUCT,
                client.client,
                conf={**conf, "subject.name.strategy": REGISTRY.record_subject_name_strategy},
            ),
            client.deserializer("JSON", None, schema_registry_client=client.client),
            ICE,
        ),
        "Protobuf": (
            client.serializer(
                "Protobuf",
                type(inner),
                client.client,
                {**conf, "subject.name.strategy": REGISTRY.record_subject_name_strategy},
            ),
            client.deserializer("Protobuf", type(inner), {}, client.client),
            inner,
        ),
    }
    for serialize, deserialize, value in serdes.values():
        headers: Headers = []
        data = serialize(value, value_context(topic, headers))
        (name, header) = headers[0]
        assert (name, header[0]) == (HEADER, 1)
        assert client.get_schema_by_guid(str(UUID(bytes=header[1:17]))).schema_str
        client.clear_caches()
        assert deserialize(data, value_context(topic, headers)) == value
    data, received = through(data, headers)
    client.clear_caches()
    assert deserialize(data, value_context(topic, received)) == inner


def test_a_serializer_that_registers_nothing_needs_a_registered_schema(
    client: Face, topic: str
) -> None:
    """A subject without versions is told apart from one that has others."""
    serialize = client.serializer(
        "Avro", client.client, USER, conf={"auto.register.schemas": False}
    )
    with pytest.raises(SchemaRegistryError) as refused:
        serialize({"name": "a", "number": 1}, value_context(topic))
    assert refused.value.error_code == 40401
    client.register_schema(f"{topic}-value", Schema(record("Other", NAME), "AVRO"))
    with pytest.raises(SchemaRegistryError) as refused:
        serialize({"name": "a", "number": 1}, value_context(topic))
    assert refused.value.error_code == 40403
    client.set_compatibility(f"{topic}-value", "NONE")
    schema_id = client.register_schema(f"{topic}-value", Schema(USER, "AVRO"))
    data = serialize({"name": "a", "number": 1}, value_context(topic))
    assert int.from_bytes(data[1:5]) == schema_id


def test_a_version_is_chosen_by_being_latest_by_id_or_by_metadata(client: Face, topic: str) -> None:
    """The reader chooses in the same ways."""
    old = Schema(USER, "AVRO", metadata=Metadata(None, MetadataProperties({"major": "1"}), None))
    new_text = record(
        "User",
        NAME,
        {"name": "number", "type": "int"},
        {"name": "age", "type": "int", "default": 7},
        namespace="shop",
    )
    new = Schema(
        new_text, "AVRO", metadata=Metadata(None, MetadataProperties({"major": "2"}), None)
    )
    ids = [client.register_schema(f"{topic}-value", each) for each in (old, new)]
    value = {"name": "a", "number": 1}
    chosen = {
        "use.latest.version": (True, ids[1]),
        "use.schema.id": (ids[0], ids[0]),
        "use.latest.with.metadata": ({"major": "1"}, ids[0]),
    }
    for key, (setting, schema_id) in chosen.items():
        client.clear_caches()
        conf = {"auto.register.schemas": False, key: setting}
        data = client.serializer("Avro", client.client, USER, conf=conf)(
            value, value_context(topic)
        )
        assert int.from_bytes(data[1:5]) == schema_id, key
    newest = client.deserializer("Avro", client.client, conf={"use.latest.version": True})
    assert newest(data, value_context(topic)) == {**value, "age": 7}
    first = client.deserializer(
        "Avro", client.client, conf={"use.latest.with.metadata": {"major": "1"}}
    )
    assert first(data, value_context(topic)) == value


def test_subjects_are_named_in_the_way_that_is_asked_for(client: Face, topic: str) -> None:
    """Without a wish the client asks for an association, finds none, and takes the topic's name."""
    space = topic.replace("-", "_")
    text, value = record("Event", NAME, namespace=space), {"name": "a"}
    ways: list[tuple[dict[str, Any], str]] = [
        ({}, f"{topic}-value"),
        ({"subject.name.strategy.type": "ASSOCIATED"}, f"{topic}-value"),
        ({"subject.name.strategy.type": "TOPIC"}, f"{topic}-value"),
        ({"subject.name.strategy": REGISTRY.record_subject_name_strategy}, f"{space}.Event"),
        (
            {"subject.name.strategy": REGISTRY.topic_record_subject_name_strategy},
            f"{topic}-{space}.Event",
        ),
        (
            {
                "subject.name.strategy.type": "ASSOCIATED",
                "subject.name.strategy.conf": {"subject.name.strategy.fallback.type": "RECORD"},
            },
            f"{space}.Event",
        ),
    ]
    for conf, subject in ways:
        client.clear_caches()
        data = client.serializer("Avro", client.client, text, conf=conf)(
            value, value_context(topic)
        )
        assert client.get_latest_version(subject).schema_id == int.from_bytes(data[1:5])
        assert (
            client.deserializer("Avro", client.client, conf=conf)(data, value_context(topic))
            == value
        )
    found = {f"{topic}-value", f"{space}.Event", f"{topic}-{space}.Event"}
    assert {each for each in client.get_subjects() if topic in each or space in each} == found


def test_a_producer_and_a_consumer_serialize_by_themselves(
    registry: RegistryProcess, bootstrap: str, topic: str
) -> None:
    """An unreadable value is an error of the consumer, and one that cannot be written is the
    producer's.
    """
    with Face(registry.url, is_async=False) as client:
        kafka: Any = confluent_kafka
        serializer = client.serializer("JSON", PRODUCT, client.client)
        producer = kafka.SerializingProducer(
            {**confluent.settings(bootstrap), "value.serializer": serializer}
        )
        producer.produce(topic, value=ICE)
        with pytest.raises(ERRORS["ValueSerializationError"], match="is a required property"):
            producer.produce(topic, value={"price": 1})
        assert producer.flush(confluent.WAIT_SECONDS) == 0
        readers = {
            "good": client.deserializer("JSON", PRODUCT),
            "bad": client.deserializer("Avro", client.client),
        }
        for group, deserializer in readers.items():
            settings = {
                **confluent.settings(bootstrap, group_id=f"{group}-{topic}"),
                "value.deserializer": deserializer,
            }
            consumer = kafka.DeserializingConsumer(settings)
            consumer.assign([kafka.TopicPartition(topic, 0, kafka.OFFSET_BEGINNING)])
            try:
                if group == "good":
                    assert consumer.poll(confluent.WAIT_SECONDS).value() == ICE
                else:
                    with pytest.raises(ERRORS["ConsumeError"]):
                        consumer.poll(confluent.WAIT_SECONDS)
            finally:
                consumer.close()


def test_serializers_made_by_builders_ask_for_their_cluster(
    registry: RegistryProcess, bootstrap: str, topic: str
) -> None:
    """They look for associations under the id of the connected cluster, and go on without one."""
    kafka: Any = confluent_kafka
    settings = {"schema_registry_config": {"url": registry.url, "max.retries": 0}}
    writes = MODULES["Avro"].AvroSerializerBuilder(**settings, schema=USER)
    reads = MODULES["Avro"].AvroDeserializerBuilder(**settings)
    with kafka.SerializingProducer(
        {**confluent.settings(bootstrap), "value.serializer.builder": writes}
    ) as producer:
        producer.produce(topic, value={"name": "ann", "number": 1})
        assert producer.flush(confluent.WAIT_SECONDS) == 0
    consumer = kafka.DeserializingConsumer(
        {**confluent.settings(bootstrap, group_id=topic), "value.deserializer.builder": reads}
    )
    consumer.assign([kafka.TopicPartition(topic, 0, kafka.OFFSET_BEGINNING)])
    try:
        assert consumer.poll(confluent.WAIT_SECONDS).value() == {"name": "ann", "number": 1}
    finally:
        consumer.close()
    with Face(registry.url, is_async=False) as client:
        assert client.get_versions(f"{topic}-value") == [1]
