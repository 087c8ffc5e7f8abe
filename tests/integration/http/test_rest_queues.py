"""Queues of version 1 over a real cluster: any proxy settles what another one has leased."""

import base64
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import trio

from log_service.client import (
    BlockingAdmin,
    BlockingProducer,
    ConfigResource,
    KafkaError,
    NewTopic,
    ShareLeases,
    ShareRecord,
    TopicPartition,
)
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.rest_process import RestProcess

pytestmark = pytest.mark.timeout(180)
SHORT_MS, LONG_MS = 5_000, 60_000
"""How long locks last: short where a test waits for their end, or else longer than any test."""
EXTENSIONS = 5
PROPERTIES = {"group.share.min.record.lock.duration.ms": "1000"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node that allows short locks."""
    with BrokerProcess(tmp_path_factory.mktemp("broker"), properties=PROPERTIES) as running:
        yield running.bootstrap


@pytest.fixture(scope="module")
def proxies(
    broker: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RestProcess, RestProcess]]:
    """Two proxies in front of it."""
    directory = tmp_path_factory.mktemp("rest")
    with RestProcess(directory, broker) as one, RestProcess(directory, broker) as other:
        yield one, other


class Queue:
    """A topic, and a share group of it that reads from the beginning."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, name, f"g-{name}"
        with BlockingAdmin(bootstrap) as admin:
            admin.create_topics([NewTopic(name=name, partition_count=2)])
            group = ConfigResource.group(self.group)
            admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
        self.set_lock(LONG_MS)

    def set_lock(self, lock_ms: int) -> None:
        """Let locks of the group last so long."""
        with BlockingAdmin(self.bootstrap) as admin:
            group = ConfigResource.group(self.group)
            admin.alter_configs({group: {"share.record.lock.duration.ms": str(lock_ms)}})

    def write(self, *values: object) -> None:
        """Write records."""
        with BlockingProducer(self.bootstrap) as producer:
            for value in values:
                producer.send(self.topic, json.dumps(value).encode(), partition=0)
            producer.flush()

    def post(self, proxy: RestProcess, what: str, **body: Any) -> httpx.Response:
        """Acquire or settle."""
        url = f"{proxy.url}/v1/queues/{self.group}/topics/{self.topic}/{what}"
        return httpx.post(url, json=body, timeout=60)

    def acquire(self, proxy: RestProcess, count: int = 1, wait_ms: int = 20_000) -> list[Any]:
        """Return records that were acquired."""
        response = self.post(proxy, "acquire", max_records=count, wait_ms=wait_ms)
        assert response.status_code == 200, response.text
        found: list[Any] = response.json()["records"]
        return found


@pytest.fixture
def queue(broker: str, request: pytest.FixtureRequest) -> Queue:
    """A queue of this test alone."""
    plain = re.sub(r"[^-\w.]", "-", request.node.name)[:100]
    return Queue(broker, f"{plain}-{uuid4().hex[:8]}")


def test_a_lease_of_one_proxy_is_settled_at_another(
    proxies: tuple[RestProcess, RestProcess], queue: Queue
) -> None:
    queue.write(*range(10))
    found = queue.acquire(proxies[0], 10)
    assert [each["value"] for each in found] == list(range(10))
    assert {each["delivery_count"] for each in found} == {1}
    leases = [each["lease"] for each in found]
    settled = queue.post(
        proxies[1], "settle", accept=leases[:4], release=leases[4:6], reject=leases[6:8]
    )
    assert settled.json() == {"settled": 8}
    assert queue.post(proxies[0], "settle", accept=leases[8:9]).json() == {"settled": 1}
    assert queue.post(proxies[1], "settle", accept=leases[9:]).json() == {"settled": 1}
    again = queue.acquire(proxies[1], 10)
    assert [(each["value"], each["delivery_count"]) for each in again] == [(4, 2), (5, 2)]
    over = queue.post(proxies[0], "settle", accept=leases)
    assert over.status_code == 409
    assert {each["error_code"] for each in over.json()["refused"]} == {40905}


def test_two_topics_of_a_new_group_wait_for_one_assignment(
    queue: Queue, broker: str, tmp_path: Path
) -> None:
    """The second one made an event of its own, and the first one waited for the timeout."""
    other = Queue(broker, f"{queue.topic}-b")
    other.group = queue.group
    queue.write(1)
    other.write(2)
    patient = {"client.request.timeout.ms": "100000"}
    with RestProcess(tmp_path, broker, **patient) as proxy, ThreadPoolExecutor() as threads:
        found = [threads.submit(each.acquire, proxy) for each in (queue, other)]
        assert [each.result()[0]["value"] for each in found] == [1, 2]


def test_every_record_is_settled_once_by_two_proxies_in_turn(
    proxies: tuple[RestProcess, RestProcess], queue: Queue
) -> None:
    queue.write(*range(40))
    seen = list[int]()
    while len(seen) < 40:
        one, other = proxies if len(seen) % 2 else proxies[::-1]
        for each in queue.acquire(one, 3):
            seen.append(each["value"])
            accepted = queue.post(other, "settle", accept=[each["lease"]])
            assert accepted.json() == {"settled": 1}, accepted.text
    assert sorted(seen) == list(range(40))
    assert queue.acquire(proxies[0], 3, wait_ms=0) == []


def test_a_lease_can_be_extended_elsewhere_for_as_long_as_it_takes(
    proxies: tuple[RestProcess, RestProcess], queue: Queue
) -> None:
    """The proxy that acquired the record does not end its lease meanwhile."""
    queue.set_lock(SHORT_MS)
    queue.write("long work")
    (record,) = queue.acquire(proxies[0])
    for _ in range(EXTENSIONS):
        time.sleep(1.5 * SHORT_MS / 1_000 / EXTENSIONS)
        extended = queue.post(proxies[1], "settle", extend=[record["lease"]])
        assert extended.json() == {"settled": 1}, extended.text
    assert queue.acquire(proxies[0], wait_ms=0) == []
    assert queue.post(proxies[1], "settle", accept=[record["lease"]]).json() == {"settled": 1}


def test_a_record_whose_lock_is_over_goes_to_another(
    proxies: tuple[RestProcess, RestProcess], queue: Queue
) -> None:
    queue.set_lock(SHORT_MS)
    queue.write("abandoned")
    (first,) = queue.acquire(proxies[0])
    (second,) = queue.acquire(proxies[1])
    assert second["delivery_count"] == 2
    assert queue.post(proxies[1], "settle", accept=[first["lease"]]).status_code == 409
    assert queue.post(proxies[0], "settle", accept=[second["lease"]]).json() == {"settled": 1}


def test_the_records_of_a_killed_proxy_go_to_another(
    proxies: tuple[RestProcess, RestProcess], queue: Queue, tmp_path: Path, broker: str
) -> None:
    queue.write("kept")
    with RestProcess(tmp_path, broker) as doomed:
        (first,) = queue.acquire(doomed)
        doomed.kill()
    (second,) = queue.acquire(proxies[0])
    assert (second["value"], second["delivery_count"]) == ("kept", 2)
    over = queue.post(proxies[1], "settle", accept=[first["lease"]])
    assert over.json()["refused"][0]["error_code"] == 40905
    assert queue.post(proxies[1], "settle", accept=[second["lease"]]).json() == {"settled": 1}


def test_an_acquire_waits_for_a_record(
    proxies: tuple[RestProcess, RestProcess], queue: Queue
) -> None:
    assert queue.acquire(proxies[0], wait_ms=100) == []
    queue.write("late")
    assert [each["value"] for each in queue.acquire(proxies[0])] == ["late"]


def test_a_forged_lease_settles_nothing(
    proxies: tuple[RestProcess, RestProcess], queue: Queue
) -> None:
    """Its member is not the one that holds the record."""
    queue.write("mine")
    (record,) = queue.acquire(proxies[0])
    member, rest = record["lease"].split(".", 1)
    other = base64.urlsafe_b64encode(bytes(16)).decode().rstrip("=")
    forged = queue.post(proxies[1], "settle", accept=[f"{other}.{rest}"])
    assert forged.json()["refused"][0]["error_code"] == 40905
    beside = f"{member}.{rest.rpartition('.')[0]}.99"
    assert queue.post(proxies[1], "settle", accept=[beside]).status_code == 409
    assert queue.post(proxies[1], "settle", accept=[record["lease"]]).json() == {"settled": 1}


@pytest.mark.parametrize(
    ("what", "body", "status", "words"),
    [
        ("acquire", {"max_records": 0}, 422, "max_records"),
        ("acquire", {"wait_ms": 30_001}, 422, "wait_ms"),
        ("acquire", {"encoding": "xml"}, 422, "encoding"),
        ("settle", {}, 422, "accept, release"),
        ("settle", {"accept": ["nonsense"]}, 422, "no lease"),
        ("settle", {"accept": [7]}, 422, "no lease"),
        ("settle", {"accept": ["m.1.0.5", "m.1.0.5"]}, 422, "once"),
        ("settle", {"take": []}, 422, "take"),
        ("settle", {"accept": ["m.99999999999.0.5"]}, 422, "no lease"),
    ],
)
def test_a_wrong_body_is_refused(  # noqa: PLR0917 - the fixtures, and the case
    proxies: tuple[RestProcess, RestProcess],
    broker: str,
    what: str,
    body: dict[str, Any],
    status: int,
    words: str,
) -> None:
    queue = Queue(broker, f"wrong-{uuid4().hex[:8]}")
    response = queue.post(proxies[0], what, **body)
    assert response.status_code == status
    assert words in response.json()["message"]
    url = f"{proxies[0].url}/v1/queues/g/topics/none-such/{what}"
    missing = httpx.post(url, json={"accept": ["m.1.0.5"]} if what == "settle" else {}, timeout=60)
    assert missing.status_code == 404


def test_a_group_that_refuses_a_queue_keeps_no_other_from_its_place(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was asked every second for five minutes, and counted as one of the open groups."""
    monkeypatch.setattr("log_service.client.share.leases.MAX_GROUPS", 1)
    queue.write("work")
    with BlockingAdmin(queue.bootstrap) as admin:
        admin.alter_group_offsets("classic", {TopicPartition(queue.topic, 0): 0})

    async def acquire() -> list[ShareRecord]:
        async with ShareLeases(queue.bootstrap) as leases:
            ask = partial(leases.acquire, topic=queue.topic, max_records=1, wait_ms=20_000)
            for _ in range(2):
                with pytest.raises(KafkaError, match="not a share group"):
                    await ask("classic")
            lease = await ask(queue.group)
            assert lease is not None
            return [record for record, _ in lease.records]

    assert [each.value for each in trio.run(acquire)] == [b'"work"']
