"""Plots and the flow of a console over a real cluster that has metrics pages."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from log_service.client import BlockingConsumer, BlockingProducer
from log_service.http.console.rendering import UNKNOWN
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.console_process import ConsoleProcess
from tests.helpers.ports import free_port
from tests.integration.http.console_pages import Person, readable

PATIENCE_S = 60
GROUP = 'readers of "orders"'
TOPIC = "orders"


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A person at a console whose cluster had a producer and a group before."""
    directory = tmp_path_factory.mktemp("rates")
    address = f"127.0.0.1:{free_port()}"
    with BrokerProcess(directory / "broker", properties={"metrics.listener": address}) as broker:
        servers = broker.bootstrap
        with BlockingProducer(servers, client_id="shop") as producer:
            for number in range(100):
                producer.send(TOPIC, str(number))
            producer.flush()
        settings = {"group_id": GROUP, "auto_offset_reset": "earliest"}
        with BlockingConsumer(servers, **settings) as consumer:
            consumer.subscribe([TOPIC])
            count = 0
            while count < 40:
                count += len(consumer.poll(40 - count, timeout_ms=1_000))
            consumer.commit()
        properties = {"metrics.urls": f"http://{address}/metrics"}
        with (
            ConsoleProcess(directory, servers, None, **properties) as console,
            Person(console.url) as found,
        ):
            yield found


def opened_with(person: Person, path: str, text: str, **query: Any) -> str:
    """Return a page once it has a text, because the console takes samples in the background."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        page = readable(person.open(path, **query))
        if text in page:
            return page
        assert time.monotonic() < deadline, page
        time.sleep(0.1)


def test_the_last_hour_of_requests_and_lag_is_drawn(person: Person) -> None:
    page = opened_with(person, "/cluster", "p99: now")
    assert "Fetches, without waiting for records p50: now" in page
    drawn = person.open("/cluster")
    assert drawn.count('class="line-2" d="M') >= 2
    assert "style=" not in drawn
    page = opened_with(person, "/group", "lag: now 60, 60 to 60", id=GROUP)
    assert "Lag in records 60" in page


def test_the_flow_goes_from_clients_over_topics_to_groups(person: Person) -> None:
    page = opened_with(person, "/flow", f"producer shop topic {TOPIC}")
    assert f"topic {TOPIC} group {GROUP} {UNKNOWN} 60" in page
    assert "names of clients" not in page
    assert f'<a href="/topics/{TOPIC}">' in person.part("/flow")
    page = opened_with(person, "/flow", f"group {GROUP} 0.0 60", q="readers")
    assert "producer shop" in page
    assert "Nothing flows" in person.part("/flow", q="no such name")


def test_a_page_that_cannot_be_read_is_named(bootstrap: str, tmp_path: Path, name: str) -> None:
    urls = f"http://user:secret@127.0.0.1:{free_port()}/metrics"
    with (
        ConsoleProcess(tmp_path, bootstrap, None, **{"metrics.urls": urls}) as console,
        Person(console.url) as person,
    ):
        page = opened_with(person, "/cluster", "cannot be read")
        assert "secret" not in page
    with ConsoleProcess(tmp_path, bootstrap) as console, Person(console.url) as person:
        assert "set metrics.urls" in readable(person.open("/cluster"))
        with BlockingProducer(bootstrap) as producer:
            producer.send(name, "1")
            producer.flush()
        page = readable(person.part("/flow", q=name))
        assert re.search(f"producer producer id [0-9]+ topic {name}", page)
        assert "Kafka tells the ids" in page
