"""Version 1 in front of Apache Kafka: streams, writes with a key, and leases, at two proxies."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from log_service.client import BlockingAdmin, ConfigResource, NewTopic
from tests.helpers.rest_process import RestProcess
from tests.integration.http.event_reader import events_of
from tests.integration.http.rest_calls import committed, lines, post
from tests.integration.kafka_node import KafkaNode, skip_unless_kafka_is_there

pytestmark = pytest.mark.timeout(300)

LOCK_MS, EXTENSIONS = 6_000, 4
PROPERTIES = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": str(LOCK_MS),
}
TOPICS = ("written", "queue")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node of Apache Kafka with the topics of these tests."""
    skip_unless_kafka_is_there()
    with KafkaNode(tmp_path_factory.mktemp("kafka"), properties=PROPERTIES) as node:
        with BlockingAdmin(node.bootstrap) as admin:
            admin.create_topics([NewTopic(name=name, partition_count=2) for name in TOPICS])
            group = ConfigResource.group("g")
            admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
        yield node.bootstrap


@pytest.fixture(scope="module")
def proxies(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RestProcess]]:
    """Two proxies in front of it."""
    directory: Path = tmp_path_factory.mktemp("rest")
    with RestProcess(directory, kafka) as one, RestProcess(directory, kafka) as other:
        yield [one, other]


def test_a_body_with_a_key_is_written_once_and_streamed(
    proxies: list[RestProcess], kafka: str
) -> None:
    records = [{"value": f"v{n}", "key": f"k{n % 5}"} for n in range(200)]
    first, again = (post(each, "written", *records, key="a") for each in proxies)
    assert lines(first) == lines(again)
    assert again.headers["idempotent-replayed"] == "true"
    assert post(proxies[0], "written", {"value": 1}, key="a").status_code == 422
    assert set(committed(kafka, "written").values()) == {1}
    query = {"from": "earliest", "format": "sse", "limit": "200", "follow": "true"}
    url = f"{proxies[1].url}/v1/topics/written/records"
    with httpx.stream("GET", url, params=query, timeout=60) as response:
        *events, end = events_of(response.iter_raw())
    assert {each.json()["value"] for each in events} == {each["value"] for each in records}
    assert (end.kind, end.json()["reason"]) == ("end", "limit")


def asked(proxy: RestProcess, what: str, **body: Any) -> dict[str, Any]:
    """Acquire or settle, and return the document."""
    url = f"{proxy.url}/v1/queues/g/topics/queue/{what}"
    response = httpx.post(url, json=body, timeout=60)
    assert response.status_code in {200, 409}, response.text
    found: dict[str, Any] = json.loads(response.text)
    return found


def test_a_lease_of_one_proxy_is_extended_and_settled_at_another(
    proxies: list[RestProcess],
) -> None:
    post(proxies[0], "queue", *({"value": n, "partition": 0} for n in range(6)))
    found = asked(proxies[0], "acquire", max_records=6, wait_ms=30_000)["records"]
    assert [each["value"] for each in found] == list(range(6))
    leases = [each["lease"] for each in found]
    assert asked(proxies[1], "settle", accept=leases[:3], reject=leases[3:4]) == {"settled": 4}
    for _ in range(EXTENSIONS):
        time.sleep(1.5 * LOCK_MS / 1_000 / EXTENSIONS)
        assert asked(proxies[1], "settle", extend=leases[4:5]) == {"settled": 1}
    assert asked(proxies[0], "settle", accept=leases[4:5]) == {"settled": 1}
    again = asked(proxies[1], "acquire", wait_ms=30_000)["records"]
    assert [(each["value"], each["delivery_count"]) for each in again] == [(5, 2)]
    over = asked(proxies[0], "settle", accept=leases[5:])
    assert over["refused"][0]["error_code"] == 40905
    assert asked(proxies[0], "settle", accept=[again[0]["lease"]]) == {"settled": 1}
