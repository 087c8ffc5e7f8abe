"""Writes of version 1 over a real node: streams of lines, and bodies with an idempotency key."""

import random
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from log_service.client import BlockingAdmin, BlockingConsumer, NewTopic, TopicPartition
from tests.helpers.rest_process import RestProcess
from tests.integration.client_clusters import TIDELOG
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.http.rest_calls import NDJSON, committed, lines, post

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def proxies(
    bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RestProcess, RestProcess]]:
    """Two proxies in front of the cluster that all tests of this worker share."""
    directory = tmp_path_factory.mktemp("rest")
    with RestProcess(directory, bootstrap) as one, RestProcess(directory, bootstrap) as other:
        yield one, other


@pytest.fixture(scope="module")
def open_proxy(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestProcess]:
    """A proxy without logins on all addresses."""
    directory = tmp_path_factory.mktemp("open")
    running = RestProcess(directory, bootstrap, **{"host.names": "rest.example, other.example"})
    running.arguments = [each.replace("//127.0.0.1", "//0.0.0.0") for each in running.arguments]
    with running:
        yield running


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """A topic of this test alone, with three partitions."""
    plain = re.sub(r"[^-\w.]", "-", request.node.name)[:200]
    name = f"{plain}-{uuid4().hex[:8]}"
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=name, partition_count=3)])
    return name


def test_a_line_says_what_became_of_its_record(
    proxies: tuple[RestProcess, RestProcess], topic: str, bootstrap: str
) -> None:
    good = {"value": {"a": 1}, "key": "k", "partition": 1, "headers": {"h": "x"}}
    found = lines(post(proxies[0], topic, good, {"value": 1, "partition": 9}, {}, good))
    assert [each.get("offset") for each in found] == [0, None, None, 1]
    assert [each.get("error_code") for each in found] == [None, 40402, 422, None]
    assert committed(bootstrap, topic) == {b'{"a":1}': 2}


def test_a_single_record_has_its_status(
    proxies: tuple[RestProcess, RestProcess], topic: str
) -> None:
    assert post(proxies[0], topic, {"value": 1}).json()["offset"] == 0
    assert post(proxies[0], topic, {"value": 1, "partition": 9}).status_code == 404
    assert post(proxies[0], topic, "").status_code == 400
    assert post(proxies[0], "no-such-topic", {"value": 1}).status_code == 404


def test_what_a_stream_shows_can_be_written(
    proxies: tuple[RestProcess, RestProcess], topic: str
) -> None:
    """The fields that say where a record was are left out, and nothing else changes."""
    wanted: list[dict[str, Any]] = [
        {"value": "text", "key": "k"},
        {"value": {"n": 1}, "headers": [["a", None]]},
    ]
    post(proxies[0], topic, *wanted)
    url = f"{proxies[1].url}/v1/topics/{topic}/records"
    *shown, _ = lines(httpx.get(url, timeout=60))
    kept = [{name: each[name] for name in ("key", "value", "headers")} for each in shown]
    assert sorted(kept, key=str) == sorted(
        ({"key": None, "headers": list[Any](), **each} for each in wanted), key=str
    )


def test_a_repeat_at_another_proxy_writes_nothing(
    proxies: tuple[RestProcess, RestProcess], topic: str, bootstrap: str
) -> None:
    records = [{"value": f"v{n}", "key": f"k{n % 7}"} for n in range(100)]
    first = post(proxies[0], topic, *records, key="a")
    again = post(proxies[1], topic, *records, key="a")
    assert lines(first) == lines(again)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    found = committed(bootstrap, topic)
    assert len(found) == 100
    assert set(found.values()) == {1}
    with BlockingConsumer(bootstrap) as consumer:
        line = lines(first)[42]
        where = TopicPartition(topic, line["partition"])
        consumer.assign([where])
        consumer.seek(where, line["offset"])
        assert consumer.poll(1, timeout_ms=10_000)[0].value == b"v42"


def test_a_key_belongs_to_its_body(
    proxies: tuple[RestProcess, RestProcess], topic: str, bootstrap: str
) -> None:
    assert post(proxies[0], topic, {"value": 1}, key="b").status_code == 200
    refused = post(proxies[1], topic, {"value": 2}, key="b")
    assert (refused.status_code, refused.json()["error_code"]) == (422, 42206)
    assert post(proxies[1], topic, {"value": 1}, key="b", encoding="json").status_code == 422
    assert committed(bootstrap, topic) == {b"1": 1}


def test_a_wrong_record_keeps_its_body_from_being_written(
    proxies: tuple[RestProcess, RestProcess], topic: str, bootstrap: str
) -> None:
    """The key is not used up, so the body can be corrected."""
    refused = post(proxies[0], topic, {"value": 1}, {"valve": 2}, key="c")
    assert refused.status_code == 422
    assert refused.json()["message"].startswith("Record 2:")
    large = {"value": "x" * 1_200_000}
    assert post(proxies[0], topic, {"value": 1}, large, key="c").status_code == 413
    assert not committed(bootstrap, topic)
    assert post(proxies[0], topic, {"value": 1}, key="c").status_code == 200
    assert committed(bootstrap, topic) == {b"1": 1}


def test_requests_at_once_write_each_record_once(
    proxies: tuple[RestProcess, RestProcess], topic: str, bootstrap: str
) -> None:
    """They fence each other, and those that lose say so or read the result."""
    records = [{"value": f"v{n}"} for n in range(50)]
    refused = list[str]()

    def send(proxy: RestProcess) -> None:
        response = post(proxy, topic, *records, key="d")
        if response.status_code not in {200, 409, 503}:
            refused.append(response.text)

    senders = [threading.Thread(target=send, args=(proxies[n % 2],)) for n in range(6)]
    for each in senders:
        each.start()
    for each in senders:
        each.join()
    assert not refused
    assert post(proxies[0], topic, *records, key="d").status_code == 200
    assert set(committed(bootstrap, topic).values()) == {1}
    assert len(committed(bootstrap, topic)) == 50


@pytest.mark.parametrize("seed", range(4))
def test_a_proxy_that_is_killed_in_the_middle(
    proxies: tuple[RestProcess, RestProcess],
    topic: str,
    bootstrap: str,
    tmp_path: Path,
    seed: int,
) -> None:
    """The same body at another proxy makes each record be there once."""
    rng = random.Random(seed)
    records = [{"value": f"v{n} {'x' * 300}"} for n in range(3_000)]
    with RestProcess(tmp_path, bootstrap) as doomed:
        for number in range(3):
            key = f"{seed}-{number}"

            def send(key: str = key) -> None:
                try:
                    post(doomed, topic, *records, key=key)
                except httpx.HTTPError:
                    return

            sender = threading.Thread(target=send)
            sender.start()
            time.sleep(rng.uniform(0.02, 0.6))
            doomed.kill()
            sender.join()
            doomed.start()
            assert post(proxies[number % 2], topic, *records, key=key).status_code == 200
    assert set(committed(bootstrap, topic).values()) == {3}
    assert len(committed(bootstrap, topic)) == 3_000


def test_a_broker_that_is_killed_in_the_middle(tmp_path: Path) -> None:
    """The client repeats its body until it has a result. Each node of three is killed once."""
    rng = random.Random(1)
    records = [{"value": f"v{n} {'x' * 300}", "key": f"k{n % 7}"} for n in range(3_000)]
    with (
        ClusterNodes(TIDELOG, tmp_path / "cluster") as nodes,
        BlockingAdmin(nodes.bootstrap) as admin,
        RestProcess(tmp_path, nodes.bootstrap) as one,
        RestProcess(tmp_path, nodes.bootstrap) as other,
        ThreadPoolExecutor(1) as threads,
    ):
        admin.create_topics([NewTopic(name="t", partition_count=3, replication_factor=3)])
        for node_id in nodes.node_ids:

            def send(key: str = f"once-{node_id}") -> list[dict[str, Any]]:
                for _ in range(300):
                    with suppress(httpx.HTTPError):
                        response = post(one, "t", *records, key=key)
                        if response.status_code not in {409, 500, 503}:
                            return lines(response)
                    time.sleep(0.1)
                raise AssertionError(response.text)

            sent = threads.submit(send)
            time.sleep(rng.uniform(0.02, 0.6))
            nodes.kill(node_id)
            found = sent.result()
            again = post(other, "t", *records, key=f"once-{node_id}")
            assert (again.headers["idempotent-replayed"], lines(again)) == ("true", found)
            nodes.wait_until_whole("t")
        assert set(committed(nodes.bootstrap, "t").values()) == {3}
        assert len(committed(nodes.bootstrap, "t")) == 3_000


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("192.0.2.7:8082", 200),
        ("rest:8082", 200),
        ("rest.example", 200),
        ("REST.example:8082", 200),
        ("evil.example", 421),
        ("rest.example.evil.test", 421),
        ("localhost.evil.test:8082", 421),
    ],
)
def test_a_name_of_a_strangers_dns_leads_to_no_open_proxy(
    open_proxy: RestProcess, host: str, status: int
) -> None:
    """A page of such a name would be of the same origin as the proxy, and could do anything."""
    for path in ("/topics", "/v3/clusters"):
        response = httpx.get(open_proxy.url + path, headers={"host": host}, timeout=60)
        assert response.status_code == status, response.text
        assert status == 200 or "host.names" in response.json()["message"]


def test_another_site_writes_nothing_at_an_open_proxy(open_proxy: RestProcess, topic: str) -> None:
    """A browser names the page that sends, and the type of its body is none of JSON."""
    url = f"{open_proxy.url}/v1/topics/{topic}/records"
    origin = {"origin": "http://evil.example", "content-type": NDJSON}
    assert httpx.post(url, content='{"value": 1}', headers=origin, timeout=60).status_code == 403
    simple = {"content-type": "text/plain"}
    assert httpx.post(url, content='{"value": 1}', headers=simple, timeout=60).status_code == 415
    assert post(open_proxy, topic, {"value": 1}).status_code == 200
