"""The cluster's page through real faults and moves of a cluster of three nodes."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingProducer,
    ConfigResource,
    NewTopic,
    TopicPartition,
)
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.console_process import ConsoleProcess
from tests.integration.client_clusters import TIDELOG
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.http.console_pages import Person, check_command, command_lines, readable
from tests.integration.transactional_writer import leave_hanging

PATIENCE_S = 30
UNSAFE = {"min.insync.replicas": "1"}
UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""Without verification a transaction hangs that no coordinator was told of."""
WHOLE, FRAGILE, MOVED, HELD = "whole", "fragile", "moved", "held"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterNodes]:
    with ClusterNodes(TIDELOG, tmp_path_factory.mktemp("nodes")) as running:
        yield running


@pytest.fixture(scope="module")
def person(nodes: ClusterNodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    with (
        ConsoleProcess(tmp_path_factory.mktemp("console"), nodes.bootstrap) as console,
        Person(console.url) as found,
    ):
        yield found


def seen(person: Person, is_there: Callable[[str], object]) -> str:
    """Return the text of the cluster's page once it says something."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        page = readable(person.open("/cluster"))
        if is_there(page):
            return page
        assert time.monotonic() < deadline, page
        time.sleep(0.3)


def test_moves_are_shown_with_the_bytes_that_have_arrived(
    nodes: ClusterNodes, person: Person
) -> None:
    with BlockingAdmin(nodes.bootstrap) as admin:
        admin.create_topics([NewTopic(name=MOVED, assignments={0: (1,)}, configs=UNSAFE)])
        with BlockingProducer(nodes.bootstrap) as producer:
            for _ in range(4_000):  # several fetches of a replica
                producer.send(MOVED, b"x" * 1_000)
            producer.flush()
        throttle = {"follower.replication.throttled.replicas": "*"}
        rate = {"follower.replication.throttled.rate": "2000"}
        admin.alter_configs({ConfigResource.topic(MOVED): throttle})
        admin.alter_configs({ConfigResource.broker(2): rate})
        admin.alter_partition_reassignments({TopicPartition(MOVED, 0): [2]})
        copied = re.compile(rf"{MOVED} -0 1 .*? of \S+ MiB (\d+) %")
        page = seen(person, lambda page: (found := copied.search(page)) and int(found[1]) < 100)
        assert "Partitions on their way" in page
        admin.alter_configs({ConfigResource.broker(2): dict.fromkeys(rate, "100000000")})
        seen(person, lambda page: not copied.search(page))
        admin.alter_configs({ConfigResource.broker(2): dict.fromkeys(rate)})


def test_a_hanging_transaction_leads_to_its_producer_and_is_ended(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path / "broker", properties=UNVERIFIED) as broker,
        ConsoleProcess(tmp_path, broker.bootstrap) as console,
        Person(console.url) as person,
    ):
        with BlockingAdmin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic(name=HELD, partition_count=1)])
        with BlockingProducer(broker.bootstrap, transactional_id="careful") as producer:
            producer.init_transactions()  # from now on there is a coordinator
        producer_id = leave_hanging(broker.bootstrap, HELD, "careless")
        page = person.open("/transactions/hanging", open=0)
        assert f"{HELD}-0 0 {producer_id}" in readable(page)
        assert '<a href="/transaction?id=careless">' in page
        assert str(producer_id) in readable(person.open("/transaction", id="careless"))
        form: dict[str, Any] = {"topic": HELD, "partition": 0, "start_offset": 0}
        preview = person.send("/transactions/abort", **form)
        check_command(command_lines(preview)[0])
        assert "The transaction was aborted" in person.confirm(preview)
        assert "No transaction hangs" in person.open("/transactions/hanging", open=0)
        person.send("/transactions/abort", 404, **form)


def test_a_stopped_node_leaves_partitions_that_are_told(
    nodes: ClusterNodes, person: Person
) -> None:
    with BlockingAdmin(nodes.bootstrap) as admin:
        admin.create_topics(
            [
                NewTopic(name=WHOLE, assignments={0: (1, 2, 3)}),
                NewTopic(name=FRAGILE, assignments={0: (3,)}, configs=UNSAFE),
            ]
        )
    assert "All is well" in seen(person, lambda page: "All is well" in page)
    nodes.stop(3)
    page = seen(person, lambda page: "Offline 1" in page and f"{WHOLE} -0" in page)
    assert "Clients cannot read or write something now" in page
    assert f"{FRAGILE} -0 none 3" in page
    assert re.search(rf"{WHOLE} -0 [12] 1, 2, 3 1, 2", page)
    assert re.search(r"3 fenced", page)
    topics = readable(person.open("/topics"))
    assert "1 offline" in topics
    assert "1 under-replicated" in topics
    assert "none" in readable(person.open(f"/topics/{FRAGILE}"))
    nodes.start(3)
    seen(person, lambda page: "All is well" in page)
