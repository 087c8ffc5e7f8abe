"""Version 2 of the REST proxy over a real node: metadata, produce, and consumer instances."""

import re

import httpx
import pytest

from log_service.client import BlockingAdmin, NewTopic
from tests.helpers.rest_process import RestProcess
from tests.integration.http.rest_calls import V2, Consumer, base64_of, produce, refusal, v2

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """A topic of this test alone, with one partition."""
    name = re.sub(r"[^-\w.]", "-", request.node.name)[:200]
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=name, partition_count=1)])
    return name


# Metadata


def test_a_topic_is_described(client: httpx.Client, topic: str) -> None:
    """The list has its name, its page the configs and partitions."""
    assert topic in client.get("/topics").json()
    found = client.get(f"/topics/{topic}").json()
    assert found["name"] == topic
    assert found["configs"]["cleanup.policy"] == "delete"
    (partition,) = found["partitions"]
    (replica,) = partition["replicas"]
    assert (replica["leader"], replica["in_sync"]) == (True, True)
    assert client.get(f"/topics/{topic}/partitions").json() == [partition]
    assert client.get(f"/topics/{topic}/partitions/0").json() == partition
    assert client.get("/brokers").json() == {"brokers": [partition["leader"]]}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/topics/unknown", (404, 40401)),
        ("/topics/unknown/partitions", (404, 40401)),
        ("/topics/unknown/partitions/0", (404, 40401)),
        ("/topics/unknown/partitions/0/offsets", (404, 40401)),
        ("/topics/{topic}/partitions/10", (404, 40402)),
        ("/topics/{topic}/partitions/99999999999999999999", (404, 40402)),
        ("/topics/{topic}/partitions/10/offsets", (404, 40402)),
        ("/topics/{topic}/partitions/foo/offsets", (404, 404)),
        ("/topics/{topic}/partitions/-1", (404, 404)),
        ("/nothing", (404, 404)),
    ],
)
def test_unknown_things_are_not_found(
    client: httpx.Client, topic: str, path: str, expected: tuple[int, int]
) -> None:
    """The code says which part of the path is unknown."""
    assert refusal(client.get(path.format(topic=topic))) == expected


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/vnd.kafka.v2+json", 200),
        ("application/vnd.kafka.v1+json", 200),
        ("application/vnd.kafka+json", 200),
        ("application/json", 200),
        ("application/*", 200),
        ("*/json", 200),
        ("*/baz", 406),
        ("*/*", 200),
        ("application/octet-stream", 406),
        ("application/text", 406),
        ("foo/*", 406),
    ],
)
def test_responses_have_a_type_that_the_client_accepts(
    client: httpx.Client, accept: str, status: int
) -> None:
    """Otherwise nothing is done."""
    response = client.get("/brokers", headers={"accept": accept})
    assert response.status_code == status
    if "*" not in accept and status == 200:
        assert response.headers["content-type"] == accept


# Produce


@pytest.mark.parametrize("path", ["/topics/{topic}", "/topics/{topic}/partitions/0"])
def test_records_are_written_in_their_order(client: httpx.Client, topic: str, path: str) -> None:
    """The response says where each is."""
    records = [{"key": {"n": n}, "value": {"n": n, "text": "ü"}} for n in range(20)]
    response = client.post(
        path.format(topic=topic),
        json={"records": records},
        headers={"content-type": v2("json"), "accept": V2},
    )
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == V2
    written = response.json()
    assert (written["key_schema_id"], written["value_schema_id"]) == (None, None)
    assert written["offsets"] == [
        {"partition": 0, "offset": n, "error_code": None, "error": None} for n in range(20)
    ]
    offsets = client.get(f"/topics/{topic}/partitions/0/offsets").json()
    assert offsets == {"beginning_offset": 0, "end_offset": 20}


@pytest.mark.parametrize(
    ("record_format", "body", "expected"),
    [
        ("json", {"records": []}, (422, 422)),
        ("json", {"foo": "bar"}, (422, 422)),
        ("json", {"records": [{"valur": {"foo": "bar"}}]}, (422, 422)),
        ("json", {"records": [{}]}, (422, 422)),
        ("json", {"records": [{"value": 1, "partition": 1}]}, (404, 40402)),
        ("json", {"records": [{"value": 1, "partition": -1}]}, (422, 422)),
        ("json", {"records": [{"value": 1, "partition": "x"}]}, (422, 422)),
        ("json", {"records": [{"value": 1, "headers": {}}]}, (422, 422)),
        ("json", {"records": [{"value": 1, "headers": [{"value": "Zm9v"}]}]}, (422, 422)),
        ("json", {"records": None}, (422, 422)),
        ("binary", {"records": "should be an array"}, (400, 400)),
        ("binary", {"records": {"value": "YQ=="}}, (400, 400)),
        ("binary", {"records": ["object with value"]}, (400, 400)),
        ("binary", {"records": [{"value": "not base64"}]}, (400, 400)),
        ("binary", {"records": [{"value": {"a": 1}}]}, (400, 400)),
        ("binary", [], (422, 422)),
    ],
)
def test_a_wrong_record_keeps_the_whole_request_out(
    client: httpx.Client,
    topic: str,
    record_format: str,
    body: object,
    expected: tuple[int, int],
) -> None:
    """Nothing is written then, so the client can send all of it again."""
    if isinstance(body, dict) and isinstance(body.get("records"), list):
        good = {"value": "Zm9v"}
        body = {"records": [good, *body["records"]]} if body["records"] else body
    headers = {"content-type": v2(record_format)}
    response = client.post(f"/topics/{topic}", json=body, headers=headers)
    assert refusal(response) == expected, response.text
    offsets = client.get(f"/topics/{topic}/partitions/0/offsets").json()
    assert offsets["end_offset"] == 0


@pytest.mark.parametrize(
    "content_type",
    [
        "application/vnd.kafka.v3+json",
        "application/vnd.kafka.binary.v2+foo",
        "application/vnd.kafka.avro.v0+json",
        "application/vnd.kafka.json+avro",
        "application/vnd.kafka+binary",
        "application/vnd.kafka",
        "application/text",
        "bar/baz",
        "text/plain",
    ],
)
def test_a_body_of_another_type_is_refused(
    client: httpx.Client, topic: str, content_type: str
) -> None:
    """A page in a browser may send ``text/plain`` anywhere, and must not produce by it."""
    response = client.post(
        f"/topics/{topic}", content=b'{"records":[]}', headers={"content-type": content_type}
    )
    assert refusal(response) == (415, 415)


@pytest.mark.parametrize("version", [".v2", ".v1", ""])
def test_a_type_names_the_version_or_not(client: httpx.Client, topic: str, version: str) -> None:
    """The format counts in all of them, because old clients send other versions."""
    media_type = f"application/vnd.kafka.json{version}+json"
    written = client.post(
        f"/topics/{topic}",
        json={"records": [{"value": {"n": 1}}]},
        headers={"content-type": media_type},
    )
    assert written.status_code == 200, written.text
    reader = Consumer(client, f"g-{topic}", "json")
    reader.post("subscription", {"topics": [topic]})
    read = client.get(f"{reader.path}/records?timeout=9000", headers={"accept": media_type})
    assert [each["value"] for each in read.json()] == [{"n": 1}]
    assert read.headers["content-type"] == media_type


def test_json_in_a_type_without_a_format_is_refused_with_the_types_to_use(
    client: httpx.Client, topic: str
) -> None:
    """The type means binary, which the refusal of plain JSON did not say."""
    body = {"records": [{"value": {"amount": 7}}]}
    refused = client.post(f"/topics/{topic}", json=body)
    assert refusal(refused) == (400, 400)
    assert v2("json") in refused.json()["message"]
    named = client.post(f"/topics/{topic}", json=body, headers={"content-type": v2("binary")})
    assert refusal(named) == (400, 400)
    assert v2("json") not in named.json()["message"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v3"])
def test_a_root_names_the_versions(client: httpx.Client, path: str) -> None:
    """A person who begins there found nothing."""
    shown = client.get(path).json()
    assert set(shown["versions"]) == {"v1", "v2", "v3"}
    assert client.get(shown["versions"]["v3"]).status_code == 200
    assert client.get(shown["openapi"]).status_code == 200


@pytest.mark.parametrize("body", [b"{", b'{"records":[{"value":NaN}]}', b"\xff", b'{"a":1,"a":2}'])
def test_a_body_that_is_no_json_is_refused(client: httpx.Client, topic: str, body: bytes) -> None:
    """The refusal says why."""
    response = client.post(f"/topics/{topic}", content=body, headers={"content-type": v2("json")})
    assert refusal(response) == (400, 400)


def test_a_topic_that_does_not_exist_is_not_created(client: httpx.Client) -> None:
    """A misspelt name would otherwise take records without a word."""
    assert refusal(produce(client, "not-there", "json", {"value": 1})) == (404, 40401)
    assert "not-there" not in client.get("/topics").json()


def test_a_record_that_the_cluster_refuses_has_an_error(client: httpx.Client, topic: str) -> None:
    """The others are written."""
    large = base64_of(bytes(1_100_000))
    response = produce(client, topic, "binary", {"value": "YQ=="}, {"value": large})
    assert response.status_code == 200
    first, second = response.json()["offsets"]
    assert (first["offset"], first["error_code"]) == (0, None)
    assert (second["offset"], second["error_code"]) == (None, 1)
    assert "max_request_size" in second["error"]


# Consumers


def test_records_come_back_as_they_went(client: httpx.Client, topic: str) -> None:
    """Key, value, headers and null survive in both formats."""
    headers = [{"key": "trace", "value": base64_of(b"abc")}, {"name": "none", "value": None}]
    record = {"key": "YQ==", "value": "AAE=", "headers": headers, "timestamp": 1_700_000_000_000}
    assert (
        produce(client, topic, "binary", record, {"key": "YQ==", "value": None}).status_code == 200
    )
    reader = Consumer(client, f"g-{topic}", "binary")
    assert reader.post("subscription", {"topics": [topic]}).status_code == 204
    first, second = reader.read_all(2)
    assert first == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": 1_700_000_000_000,
        "key": "YQ==",
        "value": "AAE=",
        "headers": [
            {"name": "trace", "value": base64_of(b"abc")},
            {"name": "none", "value": None},
        ],
    }
    assert (second["offset"], second["value"]) == (1, None)
    assert "headers" not in second


def test_the_life_of_a_consumer(client: httpx.Client, topic: str) -> None:
    """A name is free again after its consumer was deleted."""
    group = f"g-{topic}"
    reader = Consumer(client, group, "json", name="one")
    again = client.post(f"/consumers/{group}", json={"name": "one"}, headers={"content-type": V2})
    assert refusal(again) == (409, 40902)
    assert reader.get("subscription").json() == {"topics": []}
    assert reader.get("assignments").json() == {"partitions": []}
    assert client.delete(reader.path).status_code == 204
    assert refusal(client.delete(reader.path)) == (404, 40403)
    assert refusal(reader.get("records")) == (404, 40403)
    Consumer(client, group, "json", name="one")


@pytest.mark.parametrize(
    "body",
    [
        {"fetch.min.bytes": -10},
        {"format": "xml"},
        {"auto.offset.reset": "middle"},
        {"auto.commit.enable": "perhaps"},
        {"consumer.request.timeout.ms": "soon"},
        {"isolation.level": "none"},
        {"name": "a/b"},
    ],
)
def test_a_consumer_with_a_wrong_setting_is_refused(
    client: httpx.Client, body: dict[str, object]
) -> None:
    """The code is that of a consumer's settings."""
    response = client.post("/consumers/wrong", json=body, headers={"content-type": V2})
    assert refusal(response) == (422, 42204)


def test_ways_to_get_partitions_exclude_each_other(client: httpx.Client, topic: str) -> None:
    """One subscription replaces another."""
    reader = Consumer(client, f"g-{topic}", "json")
    both = {"topics": [topic], "topic_pattern": "x"}
    assert refusal(reader.post("subscription", both)) == (409, 40903)
    assert reader.post("subscription", {"topics": [topic]}).status_code == 204
    assert reader.get("subscription").json() == {"topics": [topic]}
    partitions = {"partitions": [{"topic": topic, "partition": 0}]}
    assert refusal(reader.post("assignments", partitions)) == (409, 40903)
    assert reader.post("subscription", {"topics": topic}).status_code == 422
    assert reader.post("subscription", {"topic_pattern": ["x"]}).status_code == 422
    assert client.delete(f"{reader.path}/subscription").status_code == 204
    assert reader.get("subscription").json() == {"topics": []}
    assert reader.post("assignments", partitions).status_code == 204
    assert reader.get("assignments").json() == partitions
    assert refusal(reader.post("subscription", {"topics": [topic]})) == (409, 40903)


def test_a_pattern_finds_topics(client: httpx.Client, topic: str) -> None:
    """A pattern that would take a backtracking matcher for ever is no matter."""
    assert produce(client, topic, "json", {"value": 1}).status_code == 200
    reader = Consumer(client, f"g-{topic}", "json")
    assert reader.post("subscription", {"topic_pattern": f"{topic[:-1]}."}).status_code == 204
    assert reader.get("subscription").json() == {"topics": [topic]}
    assert [each["value"] for each in reader.read_all(1)] == [1]
    assert reader.post("subscription", {"topic_pattern": "(a+)+b"}).status_code == 204
    wrong = reader.post("subscription", {"topic_pattern": "(pay"})
    assert refusal(wrong) == (422, 42204)
    assert "missing )" in wrong.json()["message"]
    assert reader.post("subscription", {"topic_pattern": "a" * 1_000}).status_code == 204
    assert reader.post("subscription", {"topic_pattern": "a" * 1_001}).status_code == 422


def test_positions_and_commits(client: httpx.Client, topic: str) -> None:
    """A commit names the last record read, as Confluent's API does."""
    assert produce(client, topic, "json", *({"value": n} for n in range(5))).status_code == 200
    where = {"topic": topic, "partition": 0}
    reader = Consumer(client, f"g-{topic}", "json", **{"auto.commit.enable": "false"})
    assert reader.post("assignments", {"partitions": [where]}).status_code == 204
    assert reader.post("positions", {"offsets": [{**where, "offset": 3}]}).status_code == 204
    assert [each["value"] for each in reader.read_all(2)] == [3, 4]
    assert reader.post("positions/beginning", {"partitions": [where]}).status_code == 204
    assert [each["value"] for each in reader.read_all(5)] == [0, 1, 2, 3, 4]
    assert reader.post("positions/end", {"partitions": [where]}).status_code == 204
    assert reader.read(timeout_ms=100) == []
    assert reader.post("positions//beginning", {"partitions": [where]}).status_code == 204
    assert len(reader.read_all(5)) == 5
    assert reader.post("positions//end", {"partitions": [where]}).status_code == 204
    assert reader.read(timeout_ms=100) == []
    other = {"topic": "other", "partition": 0, "offset": 1}
    assert refusal(reader.post("positions", {"offsets": [other]})) == (409, 40903)
    assert reader.get("offsets", {"partitions": [where]}).json() == {"offsets": []}
    assert reader.post("offsets", {"offsets": [{**where, "offset": 1}]}).status_code == 200
    (found,) = reader.get("offsets", {"partitions": [where]}).json()["offsets"]
    assert found == {**where, "offset": 2, "metadata": ""}


def test_a_commit_without_offsets_means_what_was_delivered(
    client: httpx.Client, topic: str
) -> None:
    """Records that were fetched and not delivered are not committed."""
    records = [{"value": "x" * 1_000} for _ in range(10)]
    assert produce(client, topic, "json", *records).status_code == 200
    where = {"topic": topic, "partition": 0}
    reader = Consumer(client, f"g-{topic}", "json", **{"auto.commit.enable": "false"})
    assert reader.post("subscription", {"topics": [topic]}).status_code == 204
    first = reader.read(max_bytes=3_500)
    assert 0 < len(first) < 10
    assert reader.post("offsets", {}).status_code == 200
    (found,) = reader.get("offsets", {"partitions": [where]}).json()["offsets"]
    assert found["offset"] == len(first)
    rest = reader.read_all(10 - len(first))
    assert [each["offset"] for each in (*first, *rest)] == list(range(10))


def test_the_next_consumer_continues(client: httpx.Client, topic: str) -> None:
    """A consumer that commits by itself does so when it is deleted."""
    assert produce(client, topic, "json", *({"value": n} for n in range(3))).status_code == 200
    first = Consumer(client, f"g-{topic}", "json")
    first.post("subscription", {"topics": [topic]})
    assert len(first.read_all(3)) == 3
    assert client.delete(first.path).status_code == 204
    assert produce(client, topic, "json", {"value": 3}).status_code == 200
    second = Consumer(client, f"g-{topic}", "json")
    second.post("subscription", {"topics": [topic]})
    assert [each["value"] for each in second.read_all(1)] == [3]


def test_a_record_of_another_format_is_told_and_skipped_by_the_client(
    client: httpx.Client, topic: str
) -> None:
    """Nothing is lost: the records before it come first, and it stays where it is."""
    good, bad = {"value": base64_of(b"1")}, {"value": base64_of(b"\x00\xff")}
    assert produce(client, topic, "binary", good, bad, good).status_code == 200
    reader = Consumer(client, f"g-{topic}", "json")
    where = {"topic": topic, "partition": 0}
    reader.post("assignments", {"partitions": [where]})
    assert [each["offset"] for each in reader.read_all(1)] == [0]
    for _ in range(2):
        refused = client.get(f"{reader.path}/records?timeout=5000", headers={"accept": v2("json")})
        assert refused.status_code == 422
        message = refused.json()["message"]
        assert message.startswith("value deserialization error for format json at ")
        assert f"{topic}-0 offset 1" in message
    reader.post("positions", {"offsets": [{**where, "offset": 2}]})
    assert [each["offset"] for each in reader.read_all(1)] == [2]


def test_a_key_that_the_format_cannot_read_is_base64(client: httpx.Client, topic: str) -> None:
    """Producers that write JSON as values often write plain text as keys."""
    keys = [b"plain", b'{"a":1}', (5).to_bytes(8)]
    records = [{"key": base64_of(key), "value": base64_of(b"1")} for key in keys]
    assert produce(client, topic, "binary", *records).status_code == 200
    reader = Consumer(client, f"g-{topic}", "json")
    reader.post("subscription", {"topics": [topic]})
    found = [each["key"] for each in reader.read_all(3)]
    assert found == [base64_of(keys[0]), {"a": 1}, base64_of(keys[2])]


def test_records_are_asked_for_in_the_format_of_the_consumer(
    client: httpx.Client, topic: str
) -> None:
    """Another format is refused with a code of its own."""
    reader = Consumer(client, f"g-{topic}", "json")
    reader.post("subscription", {"topics": [topic]})
    for accept, expected in ((v2("binary"), (406, 40601)), ("text/plain", (406, 406))):
        response = client.get(f"{reader.path}/records?timeout=1", headers={"accept": accept})
        assert refusal(response) == expected


def test_a_consumer_without_requests_ends(bootstrap: str, proxy: RestProcess, topic: str) -> None:
    """The group is free for others then, and the last records are read again.

    Nothing says that the client has worked on them.
    """
    directory = proxy.log.parent / topic
    directory.mkdir()
    body = {"name": "two", "format": "json", "auto.offset.reset": "earliest"}
    with (
        RestProcess(
            directory,
            bootstrap,
            **{"consumer.instance.timeout.ms": "1000", "consumer.instances.max": "1"},
        ) as short,
        httpx.Client(base_url=short.url, timeout=60) as client,
    ):
        assert produce(client, topic, "json", {"value": 1}).status_code == 200
        first = Consumer(client, f"g-{topic}", "json", name="one")
        first.post("subscription", {"topics": [topic]})
        assert len(first.read_all(1)) == 1
        full = client.post(f"/consumers/g-{topic}", json=body, headers={"content-type": V2})
        assert refusal(full) == (429, 42901)
        assert full.headers["retry-after"]
        while full.status_code == 429:
            full = client.post(f"/consumers/g-{topic}", json=body, headers={"content-type": V2})
        assert full.status_code == 200
        second = f"/consumers/g-{topic}/instances/two"
        topics = {"topics": [topic]}
        client.post(f"{second}/subscription", json=topics, headers={"content-type": V2})
        read = client.get(f"{second}/records?timeout=10000", headers={"accept": v2("json")})
        assert [each["offset"] for each in read.json()] == [0]
