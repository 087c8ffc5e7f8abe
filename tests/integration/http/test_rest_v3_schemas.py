"""Version 3 of the REST proxy writes keys and values by the schemas of a registry."""

import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from log_service.client import BlockingAdmin, NewTopic
from log_service.http.rest_proxy.schemas import MAX_SCHEMA_CHARACTERS
from tests.helpers.registry_process import RegistryProcess
from tests.helpers.rest_process import RestProcess
from tests.integration.http.rest_calls import refusal
from tests.unit.client.schemas.registry_double import RegistryDouble, served

pytestmark = pytest.mark.timeout(120)

RECORD = {
    "type": "record",
    "name": "Payment",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}],
}
TEXTS = {
    "AVRO": json.dumps(RECORD),
    "JSONSCHEMA": json.dumps(
        {"title": "Payment", "type": "object", "properties": {"id": {"type": "integer"}}}
    ),
    "PROTOBUF": 'syntax = "proto3"; package pay; /* message No { */ message Payment {int32 id = 1;}',
}
NAMES = {"AVRO": "shop.Payment", "JSONSCHEMA": "Payment", "PROTOBUF": "pay.Payment"}
VALUE = {"id": 7}


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
    plain = re.sub(r"[^-\w.]", "-", request.node.name)[:200]
    name = f"{plain}-{uuid4().hex[:8]}"
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=name, partition_count=1)])
    return name


@pytest.fixture
def records(client: httpx.Client, topic: str) -> str:
    """The path of the records of a topic."""
    (cluster,) = client.get("/v3/clusters").json()["data"]
    return f"/v3/clusters/{cluster['cluster_id']}/topics/{topic}/records"


def register(api: httpx.Client, subject: str, kind: str) -> int:
    """Register a schema, and return its id."""
    schema_type = {"JSONSCHEMA": "JSON"}.get(kind, kind)
    body = {"schema": TEXTS[kind], "schemaType": schema_type}
    response = api.post(f"/subjects/{subject}/versions", json=body)
    response.raise_for_status()
    number: int = response.json()["id"]
    return number


def written(client: httpx.Client, records: str, **part: Any) -> dict[str, Any]:
    """Return the value's part of the line of a record that was written."""
    response = client.post(records, json={"value": {"data": VALUE, **part}})
    assert response.status_code == 200, response.text
    shown: dict[str, Any] = response.json()["value"]
    return shown


@pytest.mark.parametrize("kind", TEXTS)
def test_a_schema_is_named_in_every_way(
    client: httpx.Client, api: httpx.Client, topic: str, records: str, kind: str
) -> None:
    """By its text, id, version, or as the latest of its subject, which a strategy may name."""
    first = written(client, records, type=kind, schema=TEXTS[kind])
    assert first == {
        "type": kind,
        "subject": f"{topic}-value",
        "schema_id": first["schema_id"],
        "schema_version": 1,
        "size": first["size"],
    }
    for way in ({"schema_id": first["schema_id"]}, {"schema_version": 1}, {}):
        assert written(client, records, **way) == first
        assert written(client, records, type=kind, **way) == first
    own = f"{topic}-own"
    assert written(client, records, type=kind, schema=TEXTS[kind], subject=own)["subject"] == own
    assert written(client, records, subject=own)["subject"] == own
    by_name = {"RECORD_NAME": NAMES[kind], "TOPIC_RECORD_NAME": f"{topic}-{NAMES[kind]}"}
    for strategy, subject in by_name.items():
        options = {"subject_name_strategy": strategy}
        shown = written(client, records, type=kind, schema=TEXTS[kind], **options)
        assert shown == {**first, "subject": subject, "schema_id": shown["schema_id"]}
        assert written(client, records, schema_id=shown["schema_id"], **options) == shown
    lines = client.get(f"/v1/topics/{topic}/records").text.splitlines()
    assert [json.loads(line)["value"] for line in lines[:-1]] == [VALUE] * 13


def test_a_key_has_a_schema_of_its_own(client: httpx.Client, topic: str, records: str) -> None:
    """A value may be plain beside it. Null has no schema."""
    key = {"type": "AVRO", "schema": '"string"', "data": "k"}
    response = client.post(records, json={"key": key, "value": {"type": "STRING", "data": "v"}})
    assert response.json()["key"]["subject"] == f"{topic}-key"
    assert response.json()["value"] == {"type": "STRING", "size": 1}
    response = client.post(records, json={"key": key, "value": {"data": None}})
    assert response.status_code == 200, response.text
    assert "value" not in response.json()
    first, second, _ = client.get(f"/v1/topics/{topic}/records").text.splitlines()
    assert [json.loads(each)["key"] for each in (first, second)] == ["k", "k"]
    assert json.loads(second)["value"] is None


def test_a_batch_has_schemas(client: httpx.Client, topic: str, records: str) -> None:
    """A wrong record fails alone, and an unknown schema is asked for once."""
    good = {"type": "AVRO", "schema": TEXTS["AVRO"], "data": VALUE}
    entries = [
        {"id": "good", "value": good},
        {"id": "wrong", "value": {**good, "data": {"id": "seven"}}},
        {"id": "plain", "value": {"type": "JSON", "data": 1}},
        *({"id": f"lost-{n}", "value": {"schema_id": 666_666, "data": 1}} for n in range(2)),
        {"id": "odd", "value": {**good, "type": "XML"}},
    ]
    response = client.post(f"{records}:batch", json={"entries": entries})
    assert response.status_code == 207, response.text
    body = response.json()
    assert [each["id"] for each in body["successes"]] == ["good", "plain"]
    assert body["successes"][0]["value"]["subject"] == f"{topic}-value"
    failures = {each["id"]: each["error_code"] for each in body["failures"]}
    assert failures == {"wrong": 400, "lost-0": 40801, "lost-1": 40801, "odd": 422}


@pytest.mark.parametrize(
    ("part", "expected", "words"),
    [
        ({"type": "JSON", "schema_id": 1}, (400, 400), "'type=JSON' cannot be used with"),
        ({"subject": "s", "subject_name_strategy": "TOPIC_NAME"}, (400, 400), "Only one of"),
        ({"schema_id": 1, "schema_version": 1}, (400, 400), "'schema_version' or 'schema'"),
        ({"schema": '"int"'}, (400, 400), "name its type"),
        ({"type": "XML"}, (422, 422), "it may be BINARY, JSON, STRING, AVRO"),
        ({"type": "AVRO", "schema": {}}, (422, 422), "schema has to be text"),
        ({"schema_id": 0}, (422, 422), "schema_id has to be a whole number from 1"),
        ({"schema_id": True}, (422, 422), "schema_id"),
        ({"schema_version": 2**31}, (422, 422), "schema_version"),
        ({"subject_name_strategy": "MINE"}, (422, 422), "TOPIC_RECORD_NAME"),
        ({"subject_name_strategy": "RECORD_NAME"}, (400, 400), "without schema_id or schema"),
        ({"type": "AVRO", "schema": '{"type": 1}'}, (422, 42205), "parsing raw schema"),
        ({"type": "PROTOBUF", "schema": "message {"}, (422, 42205), "parsing raw schema"),
        ({"type": "AVRO", "schema": "[" * 100_000}, (422, 42205), "parsing raw schema"),
        ({"type": "AVRO", "schema": " " * MAX_SCHEMA_CHARACTERS + "1"}, (422, 42205), "its id"),
        ({"schema_id": 666_666}, (408, 40801), "fetching schema by id. schemaId = 666666"),
        ({"schema_version": 9}, (408, 40801), "fetching schema by version"),
        ({}, (408, 40801), "fetching latest schema version. subject = "),
        ({"subject": "nobody has it"}, (408, 40801), "subject = nobody has it"),
        ({"schema_id": 1, "other": 1}, (422, 422), "unrecognized field: other"),
    ],
)
def test_what_is_wrong_is_told(
    client: httpx.Client, records: str, part: dict[str, Any], expected: tuple[int, int], words: str
) -> None:
    """The texts begin as those of Confluent's proxy. Nothing is written."""
    for name in ("key", "value"):
        response = client.post(records, json={name: {"data": 1, **part}})
        assert refusal(response) == expected, response.text
        assert words in response.json()["message"]
    (end,) = client.get(f"/v1/topics/{records.split('/')[-2]}/records").text.splitlines()
    assert json.loads(end)["end"]["next"] == "0:0"


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "1", '["int"]', '{"type": "record"}'])
@pytest.mark.parametrize("kind", TEXTS)
def test_a_schema_without_a_name_has_no_subject_of_its_name(
    client: httpx.Client, records: str, kind: str, text: str
) -> None:
    """The schema may be no schema at all."""
    part = {"type": kind, "schema": text, "subject_name_strategy": "RECORD_NAME", "data": 1}
    assert refusal(client.post(records, json={"value": part})) in {(400, 400), (422, 42205)}


def test_a_schema_has_to_be_of_the_type_and_the_subject(
    client: httpx.Client, api: httpx.Client, topic: str, records: str
) -> None:
    """A value that does not fit its schema is refused, too, and an incompatible schema."""
    number = register(api, f"{topic}-value", "AVRO")
    other = register(api, f"{topic}-elsewhere", "JSONSCHEMA")
    assert written(client, records, schema_id=number)["schema_id"] == number
    cases: list[tuple[dict[str, Any], tuple[int, int], str]] = [
        ({"type": "PROTOBUF"}, (400, 400), "type of value is PROTOBUF, and its schema is AVRO"),
        ({"schema_id": other}, (422, 42205), f"subject {topic}-value has no version"),
        ({"data": {"id": "x"}}, (400, 400), f"stored schema with id {number}"),
        ({"type": "AVRO", "schema": '"int"', "data": 1}, (408, 40801), "registering schema"),
    ]
    for part, expected, words in cases:
        response = client.post(records, json={"value": {"data": VALUE, **part}})
        assert refusal(response) == expected, response.text
        assert words in response.json()["message"]


def test_a_new_version_counts_in_a_stream_that_is_open(
    client: httpx.Client, api: httpx.Client, topic: str, records: str
) -> None:
    """A record that names the version gets it at once."""
    register(api, f"{topic}-value", "AVRO")
    field = {"name": "note", "type": "string", "default": ""}
    later = json.dumps({**RECORD, "fields": [*RECORD["fields"], field]})

    def pieces() -> Iterator[bytes]:
        yield json.dumps({"value": {"schema_version": 1, "data": VALUE}}).encode()
        api.post(f"/subjects/{topic}-value/versions", json={"schema": later}).raise_for_status()
        yield json.dumps({"value": {"schema_version": 2, "data": VALUE}}).encode()

    response = client.post(records, content=pieces())
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert [line["value"]["schema_version"] for line in lines] == [1, 2]


def test_a_proxy_without_a_registry_says_so(
    bootstrap: str, topic: str, records: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with RestProcess(tmp_path_factory.mktemp("plain"), bootstrap) as plain:
        for part in ({"data": 1}, {"type": "AVRO", "schema": '"int"', "data": 1}):
            response = httpx.post(f"{plain.url}{records}", json={"value": part}, timeout=60)
            assert refusal(response) == (422, 42206)
            assert "BINARY, JSON or STRING" in response.json()["message"]


def test_a_schema_that_is_not_there_is_asked_for_once_a_piece(
    bootstrap: str, records: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each of the records of a body asked the registry again."""
    double, directory = RegistryDouble(), tmp_path_factory.mktemp("double")
    with (
        served(double) as url,
        RestProcess(directory, bootstrap, **{"schema.registry.url": url}) as proxy,
    ):
        body = json.dumps({"value": {"schema_id": 666, "data": 1}}) * 200
        response = httpx.post(f"{proxy.url}{records}", content=body, timeout=60)
    codes = [json.loads(line)["error_code"] for line in response.text.splitlines()]
    assert codes == [40801] * 200
    assert 1 <= len(double.asked("GET")) < 20
