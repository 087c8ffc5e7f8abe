"""Operating a cluster of three Apache Kafka nodes, and a fourth that joins, with ``tidelog cluster``: status, plans, moves, and their end.

It is one story, and so one test: each part leaves the cluster as the next one finds it.
"""

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from log_service.client import BlockingAdmin, ConfigResource, NewTopic
from log_service.client.admin.values import TopicDescription
from log_service.cluster_plans.execution import THROTTLED_RATES, THROTTLED_REPLICAS
from tests.integration.client_clusters import APACHE_KAFKA
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.command_line import Finished, run, start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PATIENCE_SECONDS = 120.0
"""A cluster of Apache Kafka on two busy cores takes its time."""

TOPIC = "orders"
RECORDS = 3000
PROPERTIES = {
    "min.insync.replicas": "1",
    "replica.lag.time.max.ms": "6000",
    "broker.session.timeout.ms": "6000",
    "auto.leader.rebalance.enable": "false",
    "replica.fetch.max.bytes": "20000",  # a throttle acts between fetches: small ones make it felt
    "replica.fetch.response.max.bytes": "40000",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterNodes]:
    directory, racks = tmp_path_factory.mktemp("kafka"), {1: "a", 2: "b", 3: "a", 4: "b"}
    with ClusterNodes(APACHE_KAFKA, directory, PROPERTIES, size=4, voter_count=3, racks=racks, late=[4]) as cluster:
        yield cluster


@pytest.fixture
def admin(kafka: ClusterNodes) -> Iterator[BlockingAdmin]:
    with BlockingAdmin(kafka.bootstrap) as opened:
        yield opened


def tidelog(kafka: ClusterNodes, *arguments: str) -> Finished:
    return run(["cluster", *arguments], bootstrap=kafka.bootstrap)


def status(kafka: ClusterNodes, wanted: int, *, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
    """Return what status tells, once its exit code is the wanted one."""
    deadline = time.monotonic() + seconds
    while (finished := tidelog(kafka, "status", "--json")).exit_code != wanted:
        assert time.monotonic() < deadline, finished.output + finished.errors
        time.sleep(0.5)
    told: dict[str, Any] = json.loads(finished.output)
    return told


def described(admin: BlockingAdmin) -> TopicDescription:
    return admin.describe_topics([TOPIC])[TOPIC]


def replicas(admin: BlockingAdmin) -> list[tuple[int, ...]]:
    return [each.replicas for each in described(admin).partitions]


def throttles(admin: BlockingAdmin) -> set[str]:
    """The names of the throttles that are set anywhere."""
    resources = [ConfigResource.topic(TOPIC), *(ConfigResource.broker(node.node_id) for node in admin.describe_cluster().nodes)]
    found = admin.describe_configs(resources)
    return {
        name
        for entries in found.values()
        for name in (*THROTTLED_RATES, *THROTTLED_REPLICAS)
        if name in entries and entries[name].source.startswith("DYNAMIC")
    }


def assert_unthrottled(admin: BlockingAdmin) -> None:
    """A broker describes its configs as they are in its own image, which follows the controller a moment later."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := throttles(admin):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def a_healthy_cluster_is_told_as_one(kafka: ClusterNodes, admin: BlockingAdmin) -> None:
    assignments = {number: (1 + number % 2, 2 - number % 2) for number in range(12)}
    admin.create_topics([NewTopic(name=TOPIC, assignments=assignments, configs={"min.insync.replicas": "2"})])
    lines = "".join(f"{number} {'x' * 1000}\n" for number in range(RECORDS))
    assert run(["produce", TOPIC], bootstrap=kafka.bootstrap, given=lines).exit_code == 0
    told = status(kafka, 0)
    assert told["findings"] == []
    assert [(row["broker"], row["rack"], row["leaders"], row["replicas"]) for row in told["brokers"]] == [
        (1, "a", 6, 12),
        (2, "b", 6, 12),
        (3, "a", 0, 0),
    ]
    assert sorted(member["node_id"] for member in told["quorum"]["members"] if member["voter"]) == [1, 2, 3]
    printed = tidelog(kafka, "status")
    assert printed.lines[0] == "all is well"
    assert all(len(line) <= 80 for line in printed.lines[4:]), printed.output


def a_plan_is_shown_and_nothing_happens(kafka: ClusterNodes, admin: BlockingAdmin, tmp_path: Path) -> None:
    before = replicas(admin)
    shown = tidelog(kafka, "rebalance", "--write", str(tmp_path / "plan.json"), "--write-back", str(tmp_path / "back.json"))
    assert shown.exit_code == 0, shown.errors
    assert shown.lines[-1] == "nothing was changed; --execute carries it out"
    assert any(line.split()[:2] == ["3", "a"] and "0 -> 6" in line for line in shown.lines), shown.output
    assert replicas(admin) == before
    assert json.loads((tmp_path / "plan.json").read_text())["partitions"]
    refused = tidelog(kafka, "rebalance", "--execute", "--dry-run")
    assert (refused.exit_code, "exclude each other" in refused.errors) == (2, True)


def a_plan_is_carried_out_under_a_throttle_that_is_gone_afterwards(kafka: ClusterNodes, admin: BlockingAdmin) -> None:
    done = tidelog(kafka, "rebalance", "--execute", "--throttle", "20MB")
    assert done.exit_code == 0, done.errors
    counts = Counter(broker for each in replicas(admin) for broker in each)
    assert counts == {1: 6, 2: 12, 3: 6}, "every partition keeps a replica in rack b, where only broker 2 is"
    leaders = Counter(each.leader for each in described(admin).partitions)
    assert leaders == {1: 4, 2: 4, 3: 4}
    assert_unthrottled(admin)
    assert tidelog(kafka, "rebalance").output == "replicas and leaders are even already\n"
    assert status(kafka, 0)["findings"] == []


def what_cannot_be_is_refused_with_a_sentence(kafka: ClusterNodes, admin: BlockingAdmin, tmp_path: Path) -> None:
    before = replicas(admin)
    file = tmp_path / "plan.json"
    file.write_text('{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 9]}]}')
    for arguments, sentence in (
        (["topics", "plan", TOPIC, "-r", "4"], "orders is to have 4 replicas, and only 3 brokers are there"),
        (["topics", "plan", TOPIC, "--brokers", "1,9"], "there is no broker 9; there are 1, 2, 3"),
        (["topics", "plan", "--file", str(file)], "partitions[0].replicas[1]: there is no broker 9; there are 1, 2, 3"),
        (["drain", "1", "2", "3"], "the last one cannot be emptied"),
        (["drain", "1", "2"], "orders is to have 2 replicas, and only 1 broker is there"),
        (["drain", "9"], "there is no broker 9"),
        (["remove", "3"], "node 3 is a voter of a quorum that is fixed in the nodes' files"),
        (["add", "9"], "there is no broker 9"),
    ):
        refused = tidelog(kafka, *arguments, "--execute")
        assert (refused.exit_code, refused.output) == (1, ""), arguments
        assert sentence in refused.errors
    assert replicas(admin) == before


def ctrl_c_leaves_a_cluster_that_carries_on_and_cancel_puts_back(kafka: ClusterNodes, admin: BlockingAdmin) -> None:
    before = replicas(admin)
    moving = start(["cluster", "topics", "plan", TOPIC, "-r", "3", "--execute", "--throttle", "4KB"], bootstrap=kafka.bootstrap)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not admin.list_partition_reassignments():
        assert moving.poll() is None, moving.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    time.sleep(2)
    moving.send_signal(signal.SIGINT)
    _, errors = moving.communicate(timeout=PATIENCE_SECONDS)
    assert moving.returncode == 130
    under_way = admin.list_partition_reassignments()
    assert 0 < len(under_way) < 12, "a broker takes part in five copies at a time"
    assert f"stopped: 0 of 12 moves complete, {len(under_way)} under way, {12 - len(under_way)} not begun." in errors
    assert throttles(admin) == {*THROTTLED_RATES, *THROTTLED_REPLICAS}
    assert [row["topic"] for row in json.loads(tidelog(kafka, "watch", "--once", "--json").output)] == [TOPIC] * len(under_way)
    assert [each["check"] for each in status(kafka, 0)["findings"]] == ["reassignments"]
    refused = tidelog(kafka, "rebalance", "--execute")
    assert "already on the way to other brokers; see: tidelog cluster watch, tidelog cluster cancel" in refused.errors
    cancelled = tidelog(kafka, "cancel")
    assert cancelled.exit_code == 0, cancelled.errors
    assert len(cancelled.lines) == 1 + len(under_way)
    assert replicas(admin) == before
    assert_unthrottled(admin)
    assert tidelog(kafka, "cancel").output == "nothing moves\n"


def watching_ends_with_the_moves_and_takes_the_throttle_away(kafka: ClusterNodes, admin: BlockingAdmin) -> None:
    moving = start(["cluster", "topics", "plan", TOPIC, "-r", "3", "--execute", "--at-once", "30"], bootstrap=kafka.bootstrap)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not admin.list_partition_reassignments() and moving.poll() is None:
        assert time.monotonic() < deadline
    moving.send_signal(signal.SIGINT)
    moving.communicate(timeout=PATIENCE_SECONDS)
    watched = tidelog(kafka, "watch")
    assert watched.exit_code == 0, watched.errors
    assert_unthrottled(admin)
    assert {len(each) for each in replicas(admin)} == {3}
    assert tidelog(kafka, "watch").output == "nothing moves\n"


def a_new_broker_gets_its_share(kafka: ClusterNodes, admin: BlockingAdmin) -> None:
    kafka.start(4)
    assert any(row["broker"] == 4 and row["replicas"] == 0 for row in status(kafka, 0)["brokers"])
    done = tidelog(kafka, "add", "--execute", "--throttle", "none")
    assert done.exit_code == 0, done.errors
    assert Counter(broker for each in replicas(admin) for broker in each) == {1: 9, 2: 9, 3: 9, 4: 9}
    assert Counter(each.leader for each in described(admin).partitions) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert tidelog(kafka, "add", "4").output == "every broker has its share already\n"


def a_broker_that_died_is_told_and_emptied_and_forgotten(kafka: ClusterNodes, admin: BlockingAdmin) -> None:
    kafka.kill(4)
    deadline = time.monotonic() + PATIENCE_SECONDS
    checks: list[str] = []
    while checks != ["brokers", "under_replicated"]:
        assert time.monotonic() < deadline, checks
        told = status(kafka, 3)
        checks = [each["check"] for each in told["findings"]]
    assert next(row for row in told["brokers"] if row["broker"] == 4)["state"] == "fenced"
    assert "broker 4 is down: start it first" in tidelog(kafka, "rebalance").errors
    removed = tidelog(kafka, "remove", "4", "--execute", "--throttle", "none")
    assert removed.exit_code == 0, removed.errors
    assert removed.lines[-1] == "broker 4 is forgotten"
    assert {len(each) for each in replicas(admin)} == {3}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (rows := [row["broker"] for row in status(kafka, 0)["brokers"]]) != [1, 2, 3]:
        assert time.monotonic() < deadline, rows


def a_broker_that_is_down_comes_first_and_cannot_be_emptied_by_too_few(kafka: ClusterNodes) -> None:
    kafka.kill(3)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "degraded  broker 3 is fenced" not in (printed := tidelog(kafka, "status")).output:
        assert time.monotonic() < deadline, printed.output
    assert printed.output.startswith("degraded")  # after ten seconds its voter is behind, too, which is told before it
    drained = tidelog(kafka, "drain", "3", "--execute")
    assert "orders is to have 3 replicas, and only 2 brokers are there" in drained.errors
    kafka.start(3)
    status(kafka, 0)


def no_record_was_lost_on_the_way(kafka: ClusterNodes) -> None:
    read = run(["consume", TOPIC, "--from-beginning", "--exit-at-end"], bootstrap=kafka.bootstrap)
    assert sorted(int(line.split()[0]) for line in read.lines) == list(range(RECORDS))


def test_a_cluster_is_operated(kafka: ClusterNodes, admin: BlockingAdmin, tmp_path: Path) -> None:
    a_healthy_cluster_is_told_as_one(kafka, admin)
    a_plan_is_shown_and_nothing_happens(kafka, admin, tmp_path)
    a_plan_is_carried_out_under_a_throttle_that_is_gone_afterwards(kafka, admin)
    what_cannot_be_is_refused_with_a_sentence(kafka, admin, tmp_path)
    ctrl_c_leaves_a_cluster_that_carries_on_and_cancel_puts_back(kafka, admin)
    watching_ends_with_the_moves_and_takes_the_throttle_away(kafka, admin)
    a_new_broker_gets_its_share(kafka, admin)
    a_broker_that_died_is_told_and_emptied_and_forgotten(kafka, admin)
    a_broker_that_is_down_comes_first_and_cannot_be_emptied_by_too_few(kafka)
    no_record_was_lost_on_the_way(kafka)
