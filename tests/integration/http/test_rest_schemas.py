"""Records with schemas through the REST proxy and a registry: Avro, JSON Schema and Protobuf."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from log_service.client import BlockingAdmin, ConfigResource, NewTopic
from tests.helpers.registry_process import RegistryProcess
from tests.helpers.rest_process import RestProcess
from tests.integration.http.rest_calls import V2, Consumer, base64_of, produce, refusal, v2

pytestmark = pytest.mark.timeout(120)

AVRO = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
JSON_SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": ["string", "null"]}},
    "required": ["id"],
}
PROTOBUF = 'syntax = "proto3"; message Payment { int32 id = 1; string note = 2; }'
SCHEMAS = {
    "avro": json.dumps(AVRO),
    "jsonschema": json.dumps(JSON_SCHEMA),
    "protobuf": PROTOBUF,
}
VALUE = {"id": 7, "note": "paid"}
TAGGED = {"id": 7, "note": {"string": "paid"}}
"""The same in Avro's own JSON encoding."""


@pytest.fixture(scope="module")
def proxy(
    bootstrap: str, registry: RegistryProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """A proxy that knows a registry."""
    directory = tmp_path_factory.mktemp("rest")
    with RestProcess(directory, bootstrap, **{"schema.registry.url": registry.url}) as running:
        yield running


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """A topic of this test alone."""
    name: str = request.node.name.replace("[", "-").replace("]", "")
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=name, partition_count=1)])
    return name


def post(client: httpx.Client, topic: str, record_format: str, **body: Any) -> httpx.Response:
    """Produce a body."""
    headers = {"content-type": v2(record_format), "accept": V2}
    return client.post(f"/topics/{topic}", json=body, headers=headers)


@pytest.mark.parametrize("record_format", SCHEMAS)
def test_values_with_a_schema_come_back(
    client: httpx.Client, topic: str, record_format: str
) -> None:
    """The schema is registered once, and its id is enough later. Null stays null."""
    records = [{"value": VALUE}, {"value": None, "key": None}]
    written = post(
        client, topic, record_format, value_schema=SCHEMAS[record_format], records=records
    )
    assert written.status_code == 200, written.text
    schema_id = written.json()["value_schema_id"]
    assert written.json()["key_schema_id"] is None
    again = post(
        client, topic, record_format, value_schema_id=str(schema_id), records=[{"value": VALUE}]
    )
    assert again.status_code == 200, again.text
    assert again.json()["value_schema_id"] == schema_id
    reader = Consumer(client, f"g-{topic}", record_format)
    reader.post("subscription", {"topics": [topic]})
    shown = TAGGED if record_format == "avro" else VALUE
    assert [each["value"] for each in reader.read_all(3)] == [shown, None, shown]
    assert post(
        client, topic, record_format, value_schema_id=schema_id, records=[{"value": shown}]
    ).is_success
    wrong = post(
        client,
        topic,
        record_format,
        value_schema_id=schema_id,
        records=[{"value": {"id": "no number"}}],
    )
    assert refusal(wrong) == (422, 42205)
    assert f"Object does not fit to stored schema with id {schema_id}:" in wrong.json()["message"]


def test_protobuf_values_have_the_fields_with_their_defaults(
    client: httpx.Client, topic: str
) -> None:
    """A field without presence is there. A message that was not set is not."""
    text = (
        'syntax = "proto3"; enum Speed { HIGH = 0; LOW = 1; }'
        "message Outer { int32 query = 1; Speed top_speed = 2; Inner inner = 3;"
        " optional int32 limit = 4; } message Inner { int32 n = 1; }"
    )
    records = [{"value": {"query": 5, "top_speed": "HIGH"}}, {"value": {"inner": {}}}]
    written = post(client, topic, "protobuf", value_schema=text, records=records)
    assert written.status_code == 200, written.text
    reader = Consumer(client, f"g-{topic}", "protobuf")
    reader.post("subscription", {"topics": [topic]})
    assert [each["value"] for each in reader.read_all(2)] == [
        {"query": 5, "top_speed": "HIGH"},
        {"query": 0, "top_speed": "HIGH", "inner": {"n": 0}},
    ]


def test_the_id_of_a_schema_names_its_language(client: httpx.Client, topic: str) -> None:
    """The format of a request counts for texts of schemas alone, as in Confluent's proxy."""
    written = post(client, topic, "protobuf", value_schema=PROTOBUF, records=[{"value": {"id": 1}}])
    schema_id = written.json()["value_schema_id"]
    again = post(client, topic, "avro", value_schema_id=schema_id, records=[{"value": VALUE}])
    assert again.status_code == 200, again.text
    reader = Consumer(client, f"g-{topic}", "avro")
    reader.post("subscription", {"topics": [topic]})
    assert reader.read_all(2)[1]["value"] == VALUE


def test_the_id_of_a_schema_of_another_subject_is_refused(
    client: httpx.Client, api: httpx.Client, topic: str
) -> None:
    """The topic's subject decides what is compatible. Once it has the schema, the id is good."""
    body = {"schema": json.dumps({**AVRO, "name": "Other"})}
    schema_id = api.post(f"/subjects/{topic}-elsewhere/versions", json=body).json()["id"]
    refused = post(client, topic, "avro", value_schema_id=schema_id, records=[{"value": VALUE}])
    assert refusal(refused) == (422, 42205)
    about = f"Invalid schema. format = AVRO, schema_id = {schema_id}: subject {topic}-value"
    assert refused.json()["message"].startswith(about)
    assert api.post(f"/subjects/{topic}-value/versions", json=body).json()["id"] == schema_id
    taken = post(client, topic, "avro", value_schema_id=schema_id, records=[{"value": VALUE}])
    assert taken.status_code == 200, taken.text


def test_what_is_missing_or_wrong_has_a_code(client: httpx.Client, topic: str) -> None:
    """Nothing is written then."""
    text = SCHEMAS["avro"]
    cases: list[tuple[dict[str, Any], tuple[int, int]]] = [
        ({"records": [{"value": VALUE}]}, (422, 42202)),
        ({"records": [{"key": VALUE}]}, (422, 42201)),
        ({"records": [{"key": 1, "value": VALUE}], "value_schema": text}, (422, 42201)),
        ({"records": [{"value": VALUE}], "value_schema_id": 666}, (422, 42205)),
        ({"records": [{"value": VALUE}], "value_schema": '{"type":"planet"}'}, (422, 42205)),
        ({"records": [{"value": VALUE}], "value_schema": {}}, (422, 422)),
    ]
    for body, expected in cases:
        assert refusal(post(client, topic, "avro", **body)) == expected, body
    assert (
        post(client, topic, "avro", value_schema=text, records=[{"value": VALUE}]).status_code
        == 200
    )
    other = json.dumps({**AVRO, "fields": [{"name": "temperature", "type": "int"}]})
    body = {"value_schema": other, "records": [{"value": {"temperature": 25}}]}
    assert refusal(post(client, topic, "avro", **body)) == (408, 40801)


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"plain", "names no schema"), ((999_999_999).to_bytes(5) + b"x", "999999999")],
    ids=["no-schema", "unknown-id"],
)
def test_a_record_without_a_schema_is_told(
    client: httpx.Client, topic: str, data: bytes, reason: str
) -> None:
    """It keeps its place until the client goes on behind it. A good record before it comes."""
    good = post(client, topic, "avro", value_schema='"int"', records=[{"value": 1}])
    assert good.status_code == 200, good.text
    assert produce(client, topic, "binary", {"value": base64_of(data)}).status_code == 200
    reader = Consumer(client, f"g-{topic}", "avro")
    reader.post("assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    assert [each["value"] for each in reader.read_all(1)] == [1]
    refused = client.get(f"{reader.path}/records?timeout=9000", headers={"accept": v2("avro")})
    assert refused.status_code == 422
    message = refused.json()["message"]
    assert message.startswith("value deserialization error for format avro at ")
    assert f"{topic}-0 offset 1" in message
    assert reason in message


def test_a_key_without_a_schema_is_base64(client: httpx.Client, topic: str) -> None:
    """A number as a key begins like the id of a schema, and there is none of this id."""
    keys = [b"plain", (999_999_999).to_bytes(8)]
    records = [{"key": base64_of(each)} for each in keys]
    assert produce(client, topic, "binary", *records).status_code == 200
    reader = Consumer(client, f"g-{topic}", "avro")
    reader.post("subscription", {"topics": [topic]})
    assert [each["key"] for each in reader.read_all(2)] == list(map(base64_of, keys))


def test_streams_and_queues_show_values_by_their_schema(
    client: httpx.Client, topic: str, bootstrap: str
) -> None:
    with BlockingAdmin(bootstrap) as admin:
        group = ConfigResource.group(topic)
        admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
    records = [{"value": VALUE}] * 2
    post(client, topic, "avro", value_schema=SCHEMAS["avro"], records=records).raise_for_status()
    first, *_ = client.get(f"/v1/topics/{topic}/records").text.splitlines()
    assert json.loads(first)["value"] == VALUE
    for _ in records:
        response = client.post(
            f"/v1/queues/{topic}/topics/{topic}/acquire", json={"wait_ms": 20_000}
        )
        (found,) = response.json()["records"]
        assert (found["value"], found["value_type"]) == (VALUE, "avro")
