"""Version 3 of the REST proxy over a real node: administration, and produce as a stream."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from log_service.client import BlockingAdmin, BlockingConsumer, ConfigResource, NewTopic
from tests.helpers.rest_process import RestProcess
from tests.integration.http.rest_calls import base64_of, refusal

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def client(proxy: RestProcess) -> Iterator[httpx.Client]:
    """A client whose paths begin at the cluster."""
    with httpx.Client(base_url=proxy.url, timeout=60) as first:
        (cluster,) = first.get("/v3/clusters").json()["data"]
    with httpx.Client(base_url=cluster["metadata"]["self"], timeout=60) as client:
        yield client


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """A topic of this test alone, with two partitions."""
    plain = re.sub(r"[^-\w.]", "-", request.node.name)[:200]
    name = f"{plain}-{uuid4().hex[:8]}"
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=name, partition_count=2)])
    return name


def listed(response: httpx.Response) -> list[dict[str, Any]]:
    """Return the documents of a list."""
    assert response.status_code == 200, response.text
    body = response.json()
    assert body["kind"].endswith("List")
    data: list[dict[str, Any]] = body["data"]
    return data


def test_every_link_leads_somewhere(client: httpx.Client, topic: str) -> None:
    """A client may walk from the cluster to everything that belongs to it."""
    start = f"/topics/{topic}"
    waiting, seen = ["", start, f"{start}/partitions/0"], set[str]()
    while waiting:
        link = waiting.pop()
        if link in seen or len(seen) > 40:
            continue
        seen.add(link)
        response = client.get(link)
        if link.endswith(("/reassignment", "/acls")) and response.status_code in {400, 404}:
            continue  # nothing moves, and this cluster has no authorizer
        assert response.status_code == 200, (link, response.text)
        body = response.json()
        document = body["data"][0] if body.get("data") else body
        waiting += [
            value["related"]
            for value in document.values()
            if isinstance(value, dict) and "related" in value
        ]
        if "metadata" in document:
            waiting.append(document["metadata"]["self"])
    assert len(seen) > 15


def test_the_life_of_a_topic(client: httpx.Client) -> None:
    """It is created, found, extended and deleted."""
    body = {
        "topic_name": "life",
        "partitions_count": 2.0,
        "replication_factor": "1",
        "configs": [
            {"name": "cleanup.policy", "value": "compact"},
            {"name": "preallocate", "value": True},
        ],
    }
    tried = client.post("/topics", json={**body, "validate_only": True})
    assert (tried.status_code, tried.json()["partitions_count"]) == (200, 2)
    assert refusal(client.get("/topics/life")) == (404, 40401)
    made = client.post("/topics", json=body)
    assert made.status_code == 201, made.text
    assert made.headers["location"] == made.json()["metadata"]["self"]
    document = made.json()
    assert (document["kind"], document["topic_name"]) == ("KafkaTopic", "life")
    assert (document["partitions_count"], document["replication_factor"]) == (2, 1)
    assert refusal(client.post("/topics", json=body)) == (400, 40002)
    assert client.get("/topics/life/configs/cleanup.policy").json()["value"] == "compact"
    assert client.get("/topics/life/configs/preallocate").json()["value"] == "true"
    assert "life" in [each["topic_name"] for each in listed(client.get("/topics"))]
    assert client.patch("/topics/life", json={"partitions_count": 3}).status_code == 200
    assert len(listed(client.get("/topics/life/partitions"))) == 3
    assert refusal(client.patch("/topics/life", json={"partitions_count": 1})) == (400, 40002)
    assert client.delete("/topics/life").status_code == 204
    assert refusal(client.get("/topics/life")) == (404, 40401)


def test_a_topic_is_created_with_its_replicas(client: httpx.Client) -> None:
    """Clients name them as a list of objects, or as an object of lists."""
    broker = listed(client.get("/brokers"))[0]["broker_id"]
    as_list = [{"partition_id": number, "broker_ids": [broker]} for number in range(2)]
    as_object = {str(number): [broker] for number in range(2)}
    for number, given in enumerate((as_list, as_object)):
        body = {"topic_name": f"placed-{number}", "replicas_assignments": given}
        made = client.post("/topics", json=body)
        assert made.status_code == 201, made.text
        counts = (made.json()["partitions_count"], made.json()["replication_factor"])
        assert counts == (2, 1)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, (422, 422)),
        ({"topic_name": "a", "replicas_assignments": {"x": [1]}}, (422, 422)),
        ({"topic_name": "a", "replicas_assignments": {"0": 1}}, (422, 422)),
        ({"topic_name": "a", "replicas_assignments": {"0": [2**31]}}, (422, 422)),
        ({"topic_name": "a", "replicas_assignments": {"0": [-1]}}, (422, 422)),
        ({"topic_name": 1}, (422, 422)),
        ({"topic_name": "a", "partitions_count": 0}, (422, 422)),
        ({"topic_name": "a", "partition_count": 1}, (422, 422)),
        ({"topic_name": "a b"}, (400, 40002)),
        ({"topic_name": "a", "replication_factor": 9}, (400, 40002)),
        ({"topic_name": "a", "configs": [{"name": "no.such.key", "value": 1}]}, (400, 40002)),
        ({"topic_name": "a", "configs": [{"name": "preallocate", "value": []}]}, (422, 422)),
    ],
)
def test_a_topic_that_cannot_be_is_refused(
    client: httpx.Client, body: dict[str, object], expected: tuple[int, int]
) -> None:
    """The refusal says which field is wrong."""
    assert refusal(client.post("/topics", json=body)) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/topics/unknown", (404, 40401)),
        ("/topics/{topic}/partitions/9", (404, 40402)),
        ("/topics/{topic}/partitions/x", (404, 404)),
        ("/topics/{topic}/partitions/0/replicas/77", (404, 404)),
        ("/topics/{topic}/configs/no.such.key", (404, 404)),
        ("/brokers/77", (404, 404)),
        ("/consumer-groups/unknown", (404, 404)),
        ("/nothing", (404, 404)),
    ],
)
def test_unknown_things_are_not_found(
    client: httpx.Client, topic: str, path: str, expected: tuple[int, int]
) -> None:
    """Another cluster is not found, either."""
    assert refusal(client.get(path.format(topic=topic))) == expected
    other = httpx.URL(str(client.base_url)).copy_with(path="/v3/clusters/other/topics")
    assert refusal(client.get(other)) == (404, 404)


def test_configs_are_changed_and_reset(client: httpx.Client, topic: str) -> None:
    """All three ways to name a topic's config agree."""
    path = f"/topics/{topic}/configs"
    key = f"{path}/retention.ms"
    assert client.put(key, json={"value": "1000"}).status_code == 204
    document = client.get(key).json()
    assert (document["value"], document["is_default"]) == ("1000", False)
    assert document["source"] == "DYNAMIC_TOPIC_CONFIG"
    changes = [
        {"name": "retention.ms", "operation": "DELETE"},
        {"name": "retention.bytes", "value": 5},
    ]
    assert client.post(f"{path}:alter", json={"data": changes}).status_code == 204
    assert client.get(key).json()["is_default"]
    assert client.get(f"{path}/retention.bytes").json()["value"] == "5"
    assert client.delete(f"{path}/retention.bytes").status_code == 204
    assert client.get(f"{path}/retention.bytes").json()["is_default"]
    wrong = {"data": [{"name": "retention.ms", "value": "soon"}]}
    assert refusal(client.post(f"{path}:alter", json=wrong)) == (400, 40002)
    values: list[object] = [{}, [1]]
    for value in values:
        assert refusal(client.put(key, json={"value": value})) == (422, 422)
        listless = {"data": [{"name": "retention.ms", "value": value}]}
        assert refusal(client.post(f"{path}:alter", json=listless)) == (422, 422)
    unknown = {"data": [{"name": "retention.bytes", "value": 6}, {"name": "no.such", "value": 1}]}
    assert refusal(client.post(f"{path}:alter", json=unknown)) == (404, 404)
    assert client.get(f"{path}/retention.bytes").json()["is_default"]
    for refused in (client.put(f"{path}/no.such", json={}), client.delete(f"{path}/no.such")):
        assert refusal(refused) == (404, 404)
    broker = listed(client.get("/brokers"))[0]["broker_id"]
    configs = listed(client.get(f"/brokers/{broker}/configs"))
    assert "log.retention.ms" in {each["name"] for each in configs}
    every = client.get("/brokers/-/configs")
    assert every.json()["metadata"]["self"].endswith("/brokers/-/configs")
    assert [each for each in listed(every) if each["broker_id"] == broker] == configs


def test_a_config_of_all_brokers_is_set_and_taken_away(client: httpx.Client) -> None:
    """It is not there before it is set, nor afterwards."""
    key = "/broker-configs/log.cleaner.backoff.ms"
    assert refusal(client.get(key)) == (404, 404)
    assert client.put(key, json={"value": "15001"}).status_code == 204
    document = client.get(key).json()
    assert (document["value"], document["config_type"]) == ("15001", "BROKER")
    assert "log.cleaner.backoff.ms" in [
        each["name"] for each in listed(client.get("/broker-configs"))
    ]
    assert client.delete(key).status_code == 204
    assert refusal(client.get(key)) == (404, 404)


def test_the_lag_of_a_group(client: httpx.Client, bootstrap: str, topic: str) -> None:
    """It is the records behind what was committed."""
    lines = "".join(
        json.dumps({"partition_id": 0, "value": {"type": "JSON", "data": n}}) for n in range(5)
    )
    written = client.post(f"/topics/{topic}/records", content=lines)
    assert written.status_code == 200
    group = f"g-{topic}"
    path = f"/consumer-groups/{group}"
    with BlockingConsumer(
        bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe([topic])
        while not (records := consumer.poll(max_records=2, timeout_ms=10_000)):
            pass
        consumer.commit()
        document = client.get(path).json()
        assert (document["state"], document["is_simple"]) == ("STABLE", False)
        assert group in [
            each["consumer_group_id"] for each in listed(client.get("/consumer-groups"))
        ]
        (member,) = listed(client.get(f"{path}/consumers"))
        assert len(listed(client.get(member["assignments"]["related"]))) == 2
        lags = listed(client.get(f"{path}/lags"))
        assert sum(each["lag"] for each in lags) == 5 - len(records)
        assert {each["consumer_id"] for each in lags} == {member["consumer_id"]}
        summary = client.get(f"{path}/lag-summary").json()
        assert summary["total_lag"] == summary["max_lag"] == 5 - len(records)
        one = client.get(f"{path}/lags/{topic}/partitions/0").json()
        assert one["log_end_offset"] == 5
        names = [each["metadata"]["resource_name"].partition(group)[2] for each in (summary, one)]
        assert names == ["/lag-summary", f"/lag={topic}/partition=0"]


def test_a_single_record_has_its_status(client: httpx.Client, topic: str) -> None:
    """A client that sends one record needs to look at nothing else."""
    path = f"/topics/{topic}/records"
    record = {
        "partition_id": 1,
        "key": {"type": "STRING", "data": "k"},
        "value": {"type": "BINARY", "data": base64_of(b"abc")},
        "headers": [{"name": "h", "value": base64_of(b"v")}],
        "timestamp": "2023-11-14T22:13:20Z",
    }
    written = client.post(path, json=record)
    assert written.status_code == 200
    assert written.json() == {
        "error_code": 200,
        "cluster_id": written.json()["cluster_id"],
        "topic_name": topic,
        "partition_id": 1,
        "offset": 0,
        "timestamp": "2023-11-14T22:13:20.000Z",
        "key": {"type": "STRING", "size": 1},
        "value": {"type": "BINARY", "size": 3},
    }
    for wrong, expected in (
        ({"partition_id": 9}, (404, 40402)),
        ({"value": {"type": "XML", "data": ""}}, (422, 422)),
        ({"value": {"type": "BINARY", "data": "?"}}, (400, 400)),
        ({"valu": {}}, (422, 422)),
        ({"timestamp": "soon"}, (422, 422)),
    ):
        assert refusal(client.post(path, json=wrong)) == expected, wrong
    assert refusal(client.post(path, content=b"[1]")) == (400, 400)
    assert refusal(client.post(path, content=b"{")) == (400, 400)
    assert refusal(client.post("/topics/unknown/records", json=record)) == (404, 40401)


def test_a_stream_has_a_line_for_each_record(client: httpx.Client, topic: str) -> None:
    """A wrong record does not end it, and something that is no JSON does."""

    def pieces() -> Iterator[bytes]:
        for n in range(200):
            data = {"type": "JSON", "data": {"n": n}} if n != 50 else {"type": "XML"}
            whole = json.dumps({"partition_id": 0, "value": data}).encode()
            yield whole[:10]
            yield whole[10:]
        yield b" oops {}"

    response = client.post(f"/topics/{topic}/records", content=pieces())
    assert response.status_code == 200
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert len(lines) == 201
    assert lines[50]["error_code"] == 422
    assert lines[200]["error_code"] == 400
    offsets = [line["offset"] for line in lines[:200] if line["error_code"] == 200]
    assert offsets == list(range(199))


@pytest.mark.parametrize("size", [7, 40, 1_000])
@pytest.mark.parametrize("is_length_known", [True, False])
def test_records_before_bad_bytes_are_written_however_they_arrive(
    client: httpx.Client, topic: str, size: int, *, is_length_known: bool
) -> None:
    """The good ones of the piece with the bad bytes were dropped, without a line."""
    good = b'{"partition_id": 0, "value": {"type": "JSON", "data": 1}}'
    wrong = b'{"partition_id": 0, "value": {"type": "XML"}}'
    body = good + wrong + good + b" oops " + good
    headers = {"content-length": str(len(body))} if is_length_known else {}

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    response = client.post(f"/topics/{topic}/records", content=pieces(), headers=headers)
    assert response.status_code == 200
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert [line["error_code"] for line in lines] == [200, 422, 200, 400]
    assert [lines[0]["offset"], lines[2]["offset"]] == [0, 1]


def test_a_single_record_has_its_status_however_it_arrives(
    client: httpx.Client, topic: str
) -> None:
    """The newline behind it may come in a piece of its own."""
    body = b'{"value": {"type": "XML"}}\n'

    def pieces() -> Iterator[bytes]:
        yield body[:10]
        yield body[10:-1]
        time.sleep(0.2)
        yield body[-1:]

    headers = {"content-length": str(len(body))}
    path = f"/topics/{topic}/records"
    assert refusal(client.post(path, content=body)) == (422, 422)
    assert refusal(client.post(path, content=pieces(), headers=headers)) == (422, 422)


def test_a_batch_names_its_records(client: httpx.Client, topic: str) -> None:
    """Some may fail, and the others are written."""
    path = f"/topics/{topic}/records:batch"
    entries = [
        {"id": "a", "value": {"type": "JSON", "data": 1}},
        {"id": "b", "value": {"type": "XML", "data": 1}},
    ]
    response = client.post(path, json={"entries": entries})
    assert response.status_code == 207
    (success,), (failure,) = response.json()["successes"], response.json()["failures"]
    assert (success["id"], success["error_code"]) == ("a", 200)
    assert (failure["id"], failure["error_code"]) == ("b", 422)
    assert refusal(client.post(path, json={"entries": []})) == (422, 422)
    twice = [entries[0], entries[0]]
    assert refusal(client.post(path, json={"entries": twice})) == (422, 422)


def test_a_cluster_without_an_authorizer_has_no_acls(client: httpx.Client) -> None:
    """A deletion without a filter would delete all, and is refused in any case."""
    assert refusal(client.get("/acls")) == (400, 40002)
    assert refusal(client.delete("/acls")) == (400, 400)
    assert refusal(client.get("/acls?resource_type=PLANET")) == (400, 400)
    assert refusal(client.post("/acls", json={"resource_type": "TOPIC"})) == (422, 422)


def test_the_configs_of_a_topic_to_be(client: httpx.Client, topic: str) -> None:
    """They are those that it has once it is created. Nothing is created by asking."""
    path = "/topics/to-be/default-configs"
    expected = {each["name"]: each["value"] for each in listed(client.get(path))}
    assert refusal(client.get("/topics/to-be")) == (404, 40401)
    configs = listed(client.get(f"/topics/{topic}/configs"))
    assert expected == {each["name"]: each["value"] for each in configs}
    assert client.get(path).json()["metadata"]["self"].endswith(path)
    assert refusal(client.get(f"/topics/{topic}/default-configs")) == (400, 40002)
    assert refusal(client.get("/topics/a b/default-configs")) == (400, 40002)


def test_a_topic_says_what_the_caller_may_do(client: httpx.Client, topic: str) -> None:
    """It says so where it is asked, as in Confluent's proxy. The cluster has no authorizer."""
    path = f"/topics/{topic}"
    assert client.get(path).json()["authorized_operations"] == []
    asked = client.get(f"{path}?include_authorized_operations=true").json()
    assert {"READ", "WRITE", "DELETE", "DESCRIBE_CONFIGS"} <= set(asked["authorized_operations"])
    assert refusal(client.get(f"{path}?include_authorized_operations=1")) == (400, 400)


def test_configs_of_several_topics_are_changed(client: httpx.Client, topic: str) -> None:
    """A topic that fails does not keep the others from being changed."""
    path = "/topics/-/configs:alter"
    good = {"topic_name": topic, "configs": [{"name": "retention.ms", "value": 1_000}]}
    assert client.post(path, json={"data": [good], "validate_only": True}).status_code == 204
    key = f"/topics/{topic}/configs/retention.ms"
    assert client.get(key).json()["is_default"]
    lost = {**good, "topic_name": "unknown"}
    response = client.post(path, json={"data": [good, lost]})
    assert response.status_code == 207, response.text
    (failure,) = response.json()["failures"]
    assert (failure["topic_name"], failure["error_code"]) == ("unknown", 40401)
    assert client.get(key).json()["value"] == "1000"
    reset = {"topic_name": topic, "configs": [{"name": "retention.ms", "operation": "DELETE"}]}
    assert client.post(path, json={"data": [reset]}).status_code == 204
    assert client.get(key).json()["is_default"]
    assert client.post(path, json={"data": []}).status_code == 204
    for wrong in ({}, {"data": [reset, reset]}, {"data": [{"topic_name": topic}]}, {"data": [1]}):
        assert refusal(client.post(path, json=wrong)) == (422, 422)


def test_a_share_group_has_its_members(
    client: httpx.Client, proxy: RestProcess, bootstrap: str, topic: str
) -> None:
    """One that has acquired a record has its partitions."""
    group = f"g-{topic}"
    with BlockingAdmin(bootstrap) as admin:
        admin.alter_configs({ConfigResource.group(group): {"share.auto.offset.reset": "earliest"}})
    record = {"value": {"type": "JSON", "data": 1}}
    assert client.post(f"/topics/{topic}/records", json=record).status_code == 200
    queue = f"{proxy.url}/v1/queues/{group}/topics/{topic}/acquire"
    acquired = httpx.post(queue, json={"wait_ms": 20_000}, timeout=60)
    assert len(acquired.json()["records"]) == 1
    assert group in [each["share_group_id"] for each in listed(client.get("/share-groups"))]
    document = client.get(f"/share-groups/{group}").json()
    assert (document["consumer_count"], document["partition_count"]) == (1, 2)
    (member,) = listed(client.get(document["consumers"]["related"]))
    assert client.get(member["metadata"]["self"]).json() == member
    parts = listed(client.get(member["assignments"]["related"]))
    assert [(each["topic_name"], each["partition_id"]) for each in parts] == [
        (topic, 0),
        (topic, 1),
    ]
    assert client.get(parts[0]["partition"]["related"]).json()["topic_name"] == topic
    for unknown in ("unknown", f"{group}/consumers/unknown"):
        assert refusal(client.get(f"/share-groups/{unknown}")) == (404, 404)
