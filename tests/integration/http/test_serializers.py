"""Serializers and the registry client against a real registry and broker, beside Confluent's own."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from log_service.client import (
    AsyncioConsumer,
    AsyncioProducer,
    AvroDeserializer,
    AvroSerializer,
    BlockingAdmin,
    BlockingAvroDeserializer,
    BlockingAvroSerializer,
    BlockingConsumer,
    BlockingJsonSchemaDeserializer,
    BlockingJsonSchemaSerializer,
    BlockingProducer,
    BlockingProtobufDeserializer,
    BlockingProtobufSerializer,
    BlockingSchemaRegistryClient,
    Consumer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    NewTopic,
    Producer,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from tests.helpers.registry_process import RegistryProcess
from tests.unit.client.schemas import confluent
from tests.unit.client.schemas.proto_types import classes

pytestmark = pytest.mark.integration
ORDER = {
    "type": "record",
    "name": "AvroOrder",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}],
}
JSON_ORDER = {
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}},
    "additionalProperties": False,
}


@pytest.fixture
def client(registry: RegistryProcess) -> Iterator[BlockingSchemaRegistryClient]:
    with BlockingSchemaRegistryClient(registry.url) as opened:
        yield opened


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """A topic of this test alone."""
    name = str(request.node.name)
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=name, partition_count=1)])
    return name


def test_records_of_three_languages_arrive(
    bootstrap: str, client: BlockingSchemaRegistryClient, topic: str
) -> None:
    """In one topic, with keys, and with the schema in the prefix or in a header."""
    order = classes()["Order"]
    message = order(id=3)
    message.paid.amount = 1.5
    keys = BlockingAvroSerializer(client, '"string"', is_key=True)
    options: dict[str, Any] = {"subject_name_strategy": "topic-record", "schema_id_in": "header"}
    serializers = (
        (
            BlockingAvroSerializer(client, json.dumps(ORDER), subject_name_strategy="topic-record"),
            {"id": 1},
        ),
        (BlockingJsonSchemaSerializer(client, json.dumps(JSON_ORDER), **options), {"id": 2}),
        (BlockingProtobufSerializer(client, order, **options), message),
    )
    with BlockingProducer(bootstrap) as producer:
        for serializer, value in serializers:
            headers: list[tuple[str, bytes | None]] = []
            written = serializer.serialize(topic, value, headers)
            producer.send(topic, written, key=keys.serialize(topic, "ann"), headers=headers)
    readers = (
        BlockingAvroDeserializer(client),
        BlockingJsonSchemaDeserializer(client),
        BlockingProtobufDeserializer(client),
    )
    with BlockingConsumer(bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        records: list[Any] = []
        while len(records) < 3:
            records += consumer.poll()
    values = [
        reader.deserialize(topic, each.value, each.headers)
        for reader, each in zip(readers, records, strict=True)
    ]
    assert values[:2] == [{"id": 1}, {"id": 2}]
    assert values[2].SerializeToString() == message.SerializeToString()
    key_reader = BlockingAvroDeserializer(client, is_key=True)
    assert {key_reader.deserialize(topic, each.key, each.headers) for each in records} == {"ann"}
    assert client.get_subjects(topic) == [
        f"{topic}-Order",
        f"{topic}-key",
        f"{topic}-shop.AvroOrder",
        f"{topic}-shop.Order",
    ]


def test_a_producer_takes_a_serializer_of_a_topic(
    bootstrap: str, client: BlockingSchemaRegistryClient, topic: str
) -> None:
    """As its value_serializer, which asks no registry."""
    serializer = BlockingAvroSerializer(client, json.dumps(ORDER))
    with BlockingProducer(bootstrap, value_serializer=serializer.for_topic(topic)) as producer:
        producer.send_many(topic, [{"id": 1}, {"id": 2}, None])
    with BlockingConsumer(bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        records: list[Any] = []
        while len(records) < 3:
            records += consumer.poll()
    reader = BlockingAvroDeserializer(client)
    assert [reader.deserialize(topic, each.value) for each in records] == [
        {"id": 1},
        {"id": 2},
        None,
    ]


def test_tasks_on_trio_write_and_read(
    bootstrap: str, registry: RegistryProcess, topic: str
) -> None:
    """Avro."""

    async def main() -> Any:
        async with SchemaRegistryClient(registry.url) as client, Producer(bootstrap) as producer:
            serializer, reader = AvroSerializer(client, json.dumps(ORDER)), AvroDeserializer(client)
            await (await producer.send(topic, await serializer.serialize(topic, {"id": 1}))).wait()
            async with Consumer(
                bootstrap, group_id=topic, auto_offset_reset="earliest"
            ) as consumer:
                await consumer.subscribe([topic])
                record = await anext(aiter(consumer))
                return await reader.deserialize(topic, record.value, record.headers)

    assert trio.run(main) == {"id": 1}


def test_tasks_on_asyncio_write_and_read(
    bootstrap: str, registry: RegistryProcess, topic: str
) -> None:
    """JSON."""

    async def main() -> Any:
        async with (
            SchemaRegistryClient(registry.url) as client,
            AsyncioProducer(bootstrap) as producer,
        ):
            serializer, reader = (
                JsonSchemaSerializer(client, json.dumps(JSON_ORDER)),
                JsonSchemaDeserializer(client),
            )
            await (await producer.send(topic, await serializer.serialize(topic, {"id": 1}))).wait()
            async with AsyncioConsumer(
                bootstrap, group_id=topic, auto_offset_reset="earliest"
            ) as consumer:
                await consumer.subscribe([topic])
                record = await anext(aiter(consumer))
                return await reader.deserialize(topic, record.value, record.headers)

    assert asyncio.run(main()) == {"id": 1}


def test_an_incompatible_schema_is_refused(
    client: BlockingSchemaRegistryClient, subject: str
) -> None:
    """With the registry's reasons; a check before tells them, too."""
    topic = subject.removesuffix("-value")
    BlockingAvroSerializer(client, json.dumps(ORDER)).serialize(topic, {"id": 1})
    wider = {
        **ORDER,
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}],
    }
    with pytest.raises(
        SchemaRegistryError, match=f"subject '{subject}'.*incompatible with an earlier schema"
    ) as raised:
        BlockingAvroSerializer(client, json.dumps(wider)).serialize(topic, {"id": 1, "note": "a"})
    assert (raised.value.status, raised.value.code) == (409, 409)
    checked = client.check_compatibility(subject, Schema(text=json.dumps(wider)))
    assert not checked.is_compatible
    assert "note" in " ".join(checked.messages)
    assert client.set_config({"compatibility": "NONE"}, subject) == {"compatibility": "NONE"}
    assert client.get_config(subject)["compatibilityLevel"] == "NONE"
    assert (
        BlockingAvroSerializer(client, json.dumps(wider)).serialize(topic, {"id": 1, "note": "a"})
        is not None
    )
    assert client.get_versions(subject) == [1, 2]


def test_the_client_administers_a_registry(
    client: BlockingSchemaRegistryClient, subject: str
) -> None:
    """Modes, references, and deletions in two steps."""
    text = json.dumps(
        {"type": "enum", "name": f"shop.{subject.replace('-', '_')}", "symbols": ["CARD"]}
    )
    registered = client.register_schema(subject, Schema(text=text))
    assert client.lookup_schema(subject, Schema(text=text)).version == registered.version == 1
    assert (subject, 1) in client.get_schema_versions(registered.id)
    name = json.loads(text)["name"]
    whole = {"type": "record", "name": "Payment", "fields": [{"name": "way", "type": name}]}
    schema = Schema(
        text=json.dumps(whole), references=(SchemaReference(name=name, subject=subject, version=1),)
    )
    other = client.register_schema(f"{subject}-of-another", schema)
    assert client.get_referenced_by(subject, 1) == [other.id]
    with pytest.raises(SchemaRegistryError) as raised:
        client.delete_version(subject, "latest")
    assert raised.value.code == 42206
    assert client.delete_subject(f"{subject}-of-another") == [1]
    assert client.delete_subject(f"{subject}-of-another", permanent=True) == [1]
    assert (
        client.set_mode("READONLY", subject)
        == client.get_mode(subject)
        == client.delete_mode(subject)
        == "READONLY"
    )
    assert client.delete_version(subject, 1) == 1
    assert client.delete_subject(subject, permanent=True) == [1]
    assert subject not in client.get_subjects(deleted=True)
    assert "." in client.get_contexts()


def test_a_registry_that_comes_back_is_waited_for(
    bootstrap: str, tmp_path: Any, topic: str
) -> None:
    """The retries of one call last longer than its restart."""
    names = {
        "kafkastore.topic": "_schemas_restarted",
        "schema.registry.group.id": "registries-restarted",
    }
    with RegistryProcess(tmp_path, bootstrap, **names) as registry:
        settings: dict[str, Any] = {
            "max_retries": 100,
            "retries_wait_ms": 50,
            "retries_max_wait_ms": 200,
        }
        with BlockingSchemaRegistryClient(registry.url, **settings) as client:
            first = BlockingAvroSerializer(client, json.dumps(ORDER))
            written = first.serialize(topic, {"id": 1})
            registry.kill()
            assert first.serialize(topic, {"id": 1}) == written, "what is known needs no registry"
            client.clear_caches()
            again = threading.Thread(target=registry.start)
            again.start()
            try:
                assert (
                    BlockingAvroSerializer(client, json.dumps(ORDER)).serialize(topic, {"id": 1})
                    == written
                )
            finally:
                again.join()


@confluent.needs_confluent
@pytest.mark.parametrize("is_header_used", [False, True])
def test_confluents_serializers_write_the_same_bytes(
    registry: RegistryProcess,
    client: BlockingSchemaRegistryClient,
    subject: str,
    is_header_used: bool,
) -> None:
    """Each side reads what the other one wrote."""
    topic = subject.removesuffix("-value")
    order = classes()["Order"]
    message = order(id=3, raw=[b"x"])
    message.paid.amount = 1.5
    message.placed.FromSeconds(5)
    conf = {"subject.name.strategy.type": "TOPIC_RECORD"} | (
        confluent.IN_HEADER if is_header_used else {}
    )
    options: dict[str, Any] = {
        "subject_name_strategy": "topic-record",
        "schema_id_in": "header" if is_header_used else "prefix",
    }
    avro, json_text = json.dumps(ORDER), json.dumps(JSON_ORDER)
    with confluent.registry(registry.url) as theirs, confluent.registry(registry.url) as reading:
        rows: list[Any] = [
            (
                BlockingAvroSerializer(client, avro, **options),
                confluent.AvroSerializer(theirs, avro, conf=conf),
                {"id": 2**60},
            ),
            (
                BlockingJsonSchemaSerializer(client, json_text, **options),
                confluent.JSONSerializer(json_text, theirs, conf=conf),
                {"id": 2},
            ),
            (
                BlockingProtobufSerializer(client, order, **options),
                confluent.ProtobufSerializer(order, theirs, conf),
                message,
            ),
        ]
        readers: list[Any] = [
            (BlockingAvroDeserializer(client), confluent.AvroDeserializer(reading)),
            (
                BlockingJsonSchemaDeserializer(client),
                confluent.JSONDeserializer(None, schema_registry_client=reading),
            ),
            (
                BlockingProtobufDeserializer(client, order),
                confluent.ProtobufDeserializer(order, {}, reading),
            ),
        ]
        for (ours, judge, value), (our_reader, their_reader) in zip(rows, readers, strict=True):
            headers: list[Any] = []
            their_headers: list[Any] = []
            written = ours.serialize(topic, value, headers)
            assert judge(value, confluent.about(topic, their_headers)) == written
            assert headers == their_headers
            assert their_reader(written, confluent.about(topic, headers)) == value
            assert our_reader.deserialize(topic, written, headers) == value
