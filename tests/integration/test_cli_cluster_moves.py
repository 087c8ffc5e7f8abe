"""``tidelog cluster`` operates a cluster of three nodes, and a fourth that joins.

The tests have its status, its plans, and its moves with their end.

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
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.command_line import Finished, run, start

pytestmark = [pytest.mark.timeout(900)]

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


@pytest.fixture(
    scope="module", params=[TIDELOG, pytest.param(APACHE_KAFKA, marks=pytest.mark.repeats)]
)
def nodes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterNodes]:
    directory, racks = tmp_path_factory.mktemp("nodes"), {1: "a", 2: "b", 3: "a", 4: "b"}
    with ClusterNodes(
        request.param, directory, PROPERTIES, size=4, voter_count=3, racks=racks, late=[4]
    ) as cluster:
        yield cluster


@pytest.fixture
def admin(nodes: ClusterNodes) -> Iterator[BlockingAdmin]:
    with BlockingAdmin(nodes.bootstrap) as opened:
        yield opened


def tidelog(nodes: ClusterNodes, *arguments: str) -> Finished:
    return run(["cluster", *arguments], bootstrap=nodes.bootstrap)


def status(
    nodes: ClusterNodes, wanted: int, *, seconds: float = PATIENCE_SECONDS
) -> dict[str, Any]:
    """Return what status tells, once its exit code is the wanted one."""
    deadline = time.monotonic() + seconds
    while (finished := tidelog(nodes, "status", "--json")).exit_code != wanted:
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
    resources = [
        ConfigResource.topic(TOPIC),
        *(ConfigResource.broker(node.node_id) for node in admin.describe_cluster().nodes),
    ]
    found = admin.describe_configs(resources)
    return {
        name
        for entries in found.values()
        for name in (*THROTTLED_RATES, *THROTTLED_REPLICAS)
        if name in entries and entries[name].source.startswith("DYNAMIC")
    }


def assert_unthrottled(admin: BlockingAdmin) -> None:
    """A broker describes its configs as they are in its own image.

    It follows the controller a moment later.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := throttles(admin):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def a_healthy_cluster_is_told_as_one(nodes: ClusterNodes, admin: BlockingAdmin) -> None:
    assignments = {number: (1 + number % 2, 2 - number % 2) for number in range(12)}
    admin.create_topics(
        [NewTopic(name=TOPIC, assignments=assignments, configs={"min.insync.replicas": "2"})]
    )
    lines = "".join(f"{number} {'x' * 1000}\n" for number in range(RECORDS))
    assert run(["produce", TOPIC], bootstrap=nodes.bootstrap, given=lines).exit_code == 0
    told = status(nodes, 0)
    assert told["findings"] == []
    assert [
        (row["broker"], row["rack"], row["leaders"], row["replicas"]) for row in told["brokers"]
    ] == [
        (1, "a", 6, 12),
        (2, "b", 6, 12),
        (3, "a", 0, 0),
    ]
    assert sorted(member["node_id"] for member in told["quorum"]["members"] if member["voter"]) == [
        1,
        2,
        3,
    ]
    printed = tidelog(nodes, "status")
    assert printed.lines[0] == "all is well"
    narrow = tidelog(nodes, "status", "--disk-full", "1")
    assert (narrow.exit_code, narrow.lines[0].startswith("degraded  the disk of ")) == (3, True), (
        narrow.output
    )
    assert all(len(line) <= 80 for line in printed.lines[4:]), printed.output


def a_plan_is_shown_and_nothing_happens(
    nodes: ClusterNodes, admin: BlockingAdmin, tmp_path: Path
) -> None:
    before = replicas(admin)
    shown = tidelog(
        nodes,
        "rebalance",
        "--write",
        str(tmp_path / "plan.json"),
        "--write-back",
        str(tmp_path / "back.json"),
    )
    assert shown.exit_code == 0, shown.errors
    assert shown.lines[-1] == "nothing was changed; --execute carries it out"
    assert any(line.split()[:2] == ["3", "a"] and "0 -> 6" in line for line in shown.lines), (
        shown.output
    )
    assert replicas(admin) == before
    assert json.loads((tmp_path / "plan.json").read_text())["partitions"]
    refused = tidelog(nodes, "rebalance", "--execute", "--dry-run")
    assert (refused.exit_code, "exclude each other" in refused.errors) == (2, True)


def a_plan_is_carried_out_under_a_throttle_that_is_gone_afterwards(
    nodes: ClusterNodes, admin: BlockingAdmin
) -> None:
    done = tidelog(nodes, "rebalance", "--execute", "--throttle", "20MB")
    assert done.exit_code == 0, done.errors
    counts = Counter(broker for each in replicas(admin) for broker in each)
    assert counts == {1: 6, 2: 12, 3: 6}, (
        "every partition keeps a replica in rack b, where only broker 2 is"
    )
    leaders = Counter(each.leader for each in described(admin).partitions)
    assert leaders == {1: 4, 2: 4, 3: 4}
    assert_unthrottled(admin)
    assert tidelog(nodes, "rebalance").output == "replicas and leaders are even already\n"
    assert status(nodes, 0)["findings"] == []


def what_cannot_be_is_refused_with_a_sentence(
    nodes: ClusterNodes, admin: BlockingAdmin, tmp_path: Path
) -> None:
    before = replicas(admin)
    file = tmp_path / "plan.json"
    file.write_text(
        '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 9]}]}'
    )
    for arguments, sentence in (
        (
            ["topics", "plan", TOPIC, "-r", "4"],
            "orders is to have 4 replicas, and only 3 brokers are there",
        ),
        (["topics", "plan", TOPIC, "--brokers", "1,9"], "there is no broker 9; there are 1, 2, 3"),
        (
            ["topics", "plan", "--file", str(file)],
            "partitions[0].replicas[1]: there is no broker 9; there are 1, 2, 3",
        ),
        (["drain", "1", "2", "3"], "the last one cannot be emptied"),
        (["drain", "1", "2"], "orders is to have 2 replicas, and only 1 broker is there"),
        (["drain", "9"], "there is no broker 9"),
        (["remove", "3"], "node 3 is a voter of a quorum that is fixed in the nodes' files"),
        (["add", "9"], "there is no broker 9"),
    ):
        refused = tidelog(nodes, *arguments, "--execute")
        assert (refused.exit_code, refused.output) == (1, ""), arguments
        assert sentence in refused.errors
    assert replicas(admin) == before


def ctrl_c_leaves_a_cluster_that_carries_on_and_cancel_puts_back(
    nodes: ClusterNodes, admin: BlockingAdmin
) -> None:
    before = replicas(admin)
    moving = start(
        ["cluster", "topics", "plan", TOPIC, "-r", "3", "--execute", "--throttle", "4KB"],
        bootstrap=nodes.bootstrap,
    )
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
    assert (
        f"stopped: 0 of 12 moves complete, {len(under_way)} under way, {12 - len(under_way)} not begun."
        in errors
    )
    assert throttles(admin) == {*THROTTLED_RATES, *THROTTLED_REPLICAS}
    assert [
        row["topic"] for row in json.loads(tidelog(nodes, "watch", "--once", "--json").output)
    ] == [TOPIC] * len(under_way)
    assert [each["check"] for each in status(nodes, 0)["findings"]] == ["reassignments"]
    refused = tidelog(nodes, "rebalance", "--execute")
    assert (
        "already on the way to other brokers; see: tidelog cluster watch, tidelog cluster cancel"
        in refused.errors
    )
    cancelled = tidelog(nodes, "cancel")
    assert cancelled.exit_code == 0, cancelled.errors
    assert len(cancelled.lines) == 1 + len(under_way)
    assert replicas(admin) == before
    assert_unthrottled(admin)
    assert tidelog(nodes, "cancel").output == "nothing moves\n"


def watching_ends_with_the_moves_and_takes_the_throttle_away(
    nodes: ClusterNodes, admin: BlockingAdmin
) -> None:
    moving = start(
        ["cluster", "topics", "plan", TOPIC, "-r", "3", "--execute", "--at-once", "30"],
        bootstrap=nodes.bootstrap,
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not admin.list_partition_reassignments() and moving.poll() is None:
        assert time.monotonic() < deadline
    moving.send_signal(signal.SIGINT)
    moving.communicate(timeout=PATIENCE_SECONDS)
    watched = tidelog(nodes, "watch")
    assert watched.exit_code == 0, watched.errors
    assert_unthrottled(admin)
    assert {len(each) for each in replicas(admin)} == {3}
    assert tidelog(nodes, "watch").output == "nothing moves\n"


def a_new_broker_gets_its_share(nodes: ClusterNodes, admin: BlockingAdmin) -> None:
    nodes.start(4)
    assert any(row["broker"] == 4 and row["replicas"] == 0 for row in status(nodes, 0)["brokers"])
    done = tidelog(nodes, "add", "--execute", "--throttle", "none")
    assert done.exit_code == 0, done.errors
    assert Counter(broker for each in replicas(admin) for broker in each) == {
        1: 9,
        2: 9,
        3: 9,
        4: 9,
    }
    assert Counter(each.leader for each in described(admin).partitions) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert tidelog(nodes, "add", "4").output == "every broker has its share already\n"


def a_broker_that_died_is_told_and_emptied_and_forgotten(
    nodes: ClusterNodes, admin: BlockingAdmin
) -> None:
    nodes.kill(4)
    deadline = time.monotonic() + PATIENCE_SECONDS
    found: tuple[list[str], str] = [], ""
    while found != (["brokers", "under_replicated"], "fenced"):  # it is silent at first
        assert time.monotonic() < deadline, found
        told = status(nodes, 3)
        state = next(row for row in told["brokers"] if row["broker"] == 4)["state"]
        found = [each["check"] for each in told["findings"]], state
    assert "broker 4 is down: start it first" in tidelog(nodes, "rebalance").errors
    removed = tidelog(nodes, "remove", "4", "--execute", "--throttle", "none")
    assert removed.exit_code == 0, removed.errors
    assert removed.lines[-1] == "broker 4 is forgotten"
    assert {len(each) for each in replicas(admin)} == {3}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (rows := [row["broker"] for row in status(nodes, 0)["brokers"]]) != [1, 2, 3]:
        assert time.monotonic() < deadline, rows


def a_broker_that_is_down_comes_first_and_cannot_be_emptied_by_too_few(nodes: ClusterNodes) -> None:
    nodes.kill(3)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "degraded  broker 3 is fenced" not in (printed := tidelog(nodes, "status")).output:
        assert time.monotonic() < deadline, printed.output
    # After ten seconds its voter is behind, too, which is told before it.
    assert printed.output.startswith("degraded")
    drained = tidelog(nodes, "drain", "3", "--execute")
    assert "orders is to have 3 replicas, and only 2 brokers are there" in drained.errors
    nodes.start(3)
    status(nodes, 0)


def no_record_was_lost_on_the_way(nodes: ClusterNodes) -> None:
    read = run(["consume", TOPIC, "--from-beginning", "--exit-at-end"], bootstrap=nodes.bootstrap)
    assert sorted(int(line.split()[0]) for line in read.lines) == list(range(RECORDS))


def test_a_cluster_is_operated(nodes: ClusterNodes, admin: BlockingAdmin, tmp_path: Path) -> None:
    a_healthy_cluster_is_told_as_one(nodes, admin)
    a_plan_is_shown_and_nothing_happens(nodes, admin, tmp_path)
    a_plan_is_carried_out_under_a_throttle_that_is_gone_afterwards(nodes, admin)
    what_cannot_be_is_refused_with_a_sentence(nodes, admin, tmp_path)
    ctrl_c_leaves_a_cluster_that_carries_on_and_cancel_puts_back(nodes, admin)
    watching_ends_with_the_moves_and_takes_the_throttle_away(nodes, admin)
    a_new_broker_gets_its_share(nodes, admin)
    a_broker_that_died_is_told_and_emptied_and_forgotten(nodes, admin)
    a_broker_that_is_down_comes_first_and_cannot_be_emptied_by_too_few(nodes)
    no_record_was_lost_on_the_way(nodes)
