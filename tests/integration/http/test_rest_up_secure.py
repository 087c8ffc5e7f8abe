"""``tidelog up --secure --rest``, as two users of the cluster use it."""

import json
from pathlib import Path

import httpx
import pytest

from log_service.client import BlockingAdmin, NewTopic, ScramUser, settings_from_file
from tests.helpers.ports import free_port
from tests.integration.http.rest_calls import V2, produce, refusal, v2
from tests.integration.http.secured import basic, binding
from tests.integration.http.tls_clients import client
from tests.integration.secure_nodes import SCRAM
from tests.integration.secured_installations import installation

pytestmark = pytest.mark.timeout(240)

PASSWORD = "not-told-anywhere"


def test_users_act_with_their_own_rights(tmp_path: Path) -> None:
    """One may write a topic, and another one does not even see it."""
    port, rest_port = free_port(), free_port()
    url = f"https://127.0.0.1:{rest_port}"
    with installation(tmp_path, port, "--secure", "--rest-port", str(rest_port)) as data:
        authority = data / "security" / "authority.pem"
        operator = settings_from_file(data / "security" / "clients" / "operator.properties")
        with BlockingAdmin(f"127.0.0.1:{port}", **operator) as admin:
            users = [
                ScramUser(name=name, mechanism=SCRAM, password=PASSWORD)
                for name in ("ann", "bob", "boss")
            ]
            admin.set_scram_users(users)
            admin.create_topics([NewTopic(name="orders", partition_count=1)])
            rights = {
                "ann": ("write orders", "describe orders"),
                "boss": ("alter *cluster", "describe *cluster"),
            }
            admin.create_acls(
                [binding(name, right) for name, several in rights.items() for right in several]
            )
        with client(url, authority) as stranger:
            assert refusal(stranger.get("/topics")) == (401, 401)
            assert stranger.get("/readyz").text == "ok\n"
        with client(url, authority, authorization=basic("ann", "wrong")) as guess:
            assert guess.get("/topics").status_code == 401
        with client(url, authority, authorization=basic("ann", PASSWORD)) as ann:
            assert ann.get("/topics").json() == ["orders"]
            assert produce(ann, "orders", "json", {"value": 1}).json()["offsets"][0]["offset"] == 0
            reader = ann.post(
                "/consumers/g", json={"name": "one", "format": "json"}, headers={"content-type": V2}
            )
            assert reader.json()["base_uri"] == f"{url}/consumers/g/instances/one"
            version_1_knows_no_other_rights(ann)
        with client(url, authority, authorization=basic("bob", PASSWORD)) as bob:
            stream = "/v1/topics/orders/records"
            assert bob.get(stream).json()["error_code"] in {40301, 40401}
            assert refusal(bob.post(stream, json={"value": 1})) == (403, 40301)
            assert bob.get("/topics").json() == []
            assert refusal(produce(bob, "orders", "json", {"value": 1})) == (403, 40301)
            theirs = "/consumers/g/instances/one/records"
            assert refusal(bob.get(theirs, headers={"accept": v2("json")})) == (404, 40403)
            cluster = bob.get("/v3/clusters").json()["data"][0]["metadata"]["self"]
            assert refusal(bob.get(f"{cluster}/acls")) == (403, 40301)
            assert refusal(bob.get(f"{cluster}/topics/orders")) == (403, 40301)
            with client(f"{cluster}", authority, authorization=basic("boss", PASSWORD)) as boss:
                change_acls(boss, bob)


def version_1_knows_no_other_rights(ann: httpx.Client) -> None:
    """A user who may write and not read gets no record, no key and no lease."""
    path, queue = "/v1/topics/orders/records", "/v1/queues/g/topics/orders"
    assert ann.post(path, json={"value": 2}).json()["offset"] == 1
    assert refusal(ann.post(path, json={"value": 2}, headers={"idempotency-key": "k"})) == (
        403,
        40301,
    )
    assert refusal(ann.get(path)) == (403, 40301)
    assert refusal(ann.post(f"{queue}/acquire", json={"wait_ms": 0})) == (403, 40301)
    leases = {"accept": ["AAAAAAAAAAAAAAAAAAAAAA.1.0.0"]}
    assert refusal(ann.post(f"{queue}/settle", json=leases)) == (403, 40301)


def change_acls(boss: httpx.Client, bob: httpx.Client) -> None:
    """Create, find and delete ACLs. Streams of a user end who may not read any more."""
    acl = {
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "pattern_type": "LITERAL",
        "principal": "User:bob",
        "host": "*",
        "operation": "READ",
        "permission": "ALLOW",
    }
    made = boss.post("/acls", json=acl)
    assert made.status_code == 201
    assert boss.post("/acls:batch", json={"data": []}).status_code == 201
    more = [{**acl, "operation": name} for name in ("WRITE", "DESCRIBE")]
    assert boss.post("/acls:batch", json={"data": more}).status_code == 201
    wanted = {"principal": "User:bob"}
    found = boss.get("/acls", params=wanted).json()["data"]
    assert {each["operation"] for each in found} == {"READ", "WRITE", "DESCRIBE"}
    assert acl.items() <= min(found, key=lambda each: each["operation"] != "READ").items()
    link = next(each for each in found if each["operation"] == "READ")["metadata"]["self"]
    assert link == made.headers["location"]
    path, query = "/v1/topics/orders/records", {"follow": "true", "from": "earliest"}
    with bob.stream("GET", path, params=query) as one, bob.stream("GET", path, params=query) as two:
        found_lines = [each.iter_lines() for each in (one, two)]
        assert [json.loads(next(each))["value"] for each in found_lines] == [1, 1]
        gone = boss.delete(link)
        lasts = [json.loads([line for line in each if line][-1]) for each in found_lines]
    assert [each["end"]["reason"] for each in lasts] == ["forbidden"] * 2
    assert [each["operation"] for each in gone.json()["data"]] == ["READ"]
    assert len(boss.get("/acls", params=wanted).json()["data"]) == 2
    for wrong in ({**acl, "operation": "ANY"}, {**acl, "pattern_type": "MATCH"}, {**acl, "x": 1}):
        assert refusal(boss.post("/acls", json=wrong)) == (422, 422)
