"""Three tidelog processes elect another controller when theirs is killed, hangs, or has an empty
disk.

Nothing is lost.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner

from log_service.cli.cluster import cluster
from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from tests.integration.client_clusters import TIDELOG
from tests.integration.cluster_nodes import NODE_IDS, ClusterNodes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SMALL_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
TOPIC = "orders"
SETTLE_SECONDS = 30.0


@pytest.fixture
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterNodes]:
    with ClusterNodes(TIDELOG, tmp_path_factory.mktemp("quorum"), SMALL_SNAPSHOTS) as running:
        yield running


def create(nodes: ClusterNodes, *names: str) -> None:
    with BlockingAdmin(nodes.bootstrap, default_api_timeout_ms=60_000) as admin:
        admin.create_topics(
            [NewTopic(name=name, partition_count=3, replication_factor=3) for name in names]
        )


def produce(nodes: ClusterNodes, count: int) -> None:
    """Produce records whose keys spread over all partitions."""
    with BlockingProducer(nodes.bootstrap, delivery_timeout_ms=120_000) as producer:
        for number in range(count):
            producer.send(TOPIC, str(number).encode(), key=str(number).encode())
        producer.flush()


def test_the_quorum_goes_on_without_its_leader_and_takes_it_back_with_an_empty_disk(
    nodes: ClusterNodes,
) -> None:
    create(nodes, TOPIC)
    killed = nodes.controller()
    nodes.kill(killed)
    assert nodes.controller() != killed
    produce(nodes, 20)
    nodes.wait_until_whole(TOPIC)

    hung = nodes.controller()
    nodes.pause(hung)
    second = nodes.controller(besides=(hung,))
    assert second != hung
    nodes.resume(hung)
    nodes.wait_until_whole(TOPIC)
    assert nodes.controller() != hung

    # So that there are snapshots, and the log begins behind offset 0.
    create(nodes, *(f"topic-{number}" for number in range(40)))
    wiped = min(set(NODE_IDS) - {nodes.controller()})
    nodes.kill(wiped)
    nodes.wipe(wiped)
    nodes.wait_until_whole(TOPIC, "topic-39")
    assert list((nodes.data(wiped) / "__cluster_metadata-0").glob("*.checkpoint"))
    nodes.stop(nodes.controller())
    assert nodes.controller() in NODE_IDS
    produce(nodes, 20)
    nodes.wait_until_whole(TOPIC, "topic-39")


def voters(nodes: ClusterNodes) -> dict[int, UUID]:
    with BlockingAdmin(nodes.bootstrap, default_api_timeout_ms=60_000) as admin:
        return {
            voter.node_id: voter.directory_id for voter in admin.describe_metadata_quorum().voters
        }


def until_voter(nodes: ClusterNodes, node_id: int, *, besides: UUID | None = None) -> UUID:
    """Wait until a node votes, and return the directory that it votes from; not with that of
    before.
    """
    for _ in range(300):
        found = voters(nodes).get(node_id)
        if found is not None and found != besides:
            return found
        time.sleep(0.1)
    raise AssertionError(f"node {node_id} is no voter: {voters(nodes)}")


def test_a_controller_joins_by_itself_and_takes_the_place_of_its_lost_disk(tmp_path: Path) -> None:
    with ClusterNodes(TIDELOG, tmp_path / "joining", is_dynamic=True, joining=(2, 3)) as nodes:
        until_voter(nodes, 2)
        first = until_voter(nodes, 3)
        nodes.kill(3)
        nodes.wipe(3)
        nodes.start(3)
        second = until_voter(nodes, 3, besides=first)
        assert set(voters(nodes)) == {1, 2, 3}
        refused = CliRunner().invoke(
            cluster, ["voters", "remove", "3", "--execute", "-b", nodes.bootstrap]
        )
        assert refused.exit_code == 1
        assert "node 3 has controller.quorum.auto.join.enable=true in its file" in refused.output
        assert voters(nodes)[3] == second
        create(nodes, TOPIC)
        # The two that are left are a majority of three.
        nodes.kill(min({1, 2} - {nodes.controller()}, default=1))
        produce(nodes, 20)
        assert voters(nodes)[3] == second


def replicas_in(nodes: ClusterNodes, node_id: int) -> dict[str, set[int]]:
    """Return a node's partitions of the topic, by the name of the log directory."""
    return {
        name: {
            int(path.name.removeprefix(f"{TOPIC}-"))
            for path in (nodes.data(node_id) / name).glob(f"{TOPIC}-*")
        }
        for name in ("first", "second")
    }


def described(nodes: ClusterNodes) -> dict[int, tuple[int, tuple[int, ...]]]:
    """Leader and in-sync replicas of each partition."""
    with BlockingAdmin(nodes.bootstrap, default_api_timeout_ms=60_000) as admin:
        return {
            index: (each.leader, each.isr)
            for index, each in enumerate(admin.describe_topics([TOPIC])[TOPIC].partitions)
        }


def test_a_log_directory_that_fails_costs_its_replicas_alone(tmp_path: Path) -> None:
    properties = {
        "broker.heartbeat.interval.ms": "2000",
        "broker.session.timeout.ms": "9000",
        "min.insync.replicas": "1",
    }
    with ClusterNodes(
        TIDELOG, tmp_path / "directories", properties, has_two_directories=True
    ) as nodes:
        with BlockingAdmin(nodes.bootstrap, default_api_timeout_ms=60_000) as admin:
            admin.create_topics([NewTopic(name=TOPIC, partition_count=6, replication_factor=3)])
        nodes.wait_until_whole(TOPIC)
        produce(nodes, 60)
        before = described(nodes)
        victim = min({1, 2, 3} - {nodes.controller()})
        places = replicas_in(nodes, victim)
        assert all(places.values())  # both directories have replicas
        led = {index for index, (leader, _) in before.items() if leader == victim}
        failed = next(name for name, there in places.items() if there & led)
        nodes.fail_directory(victim, failed)
        produce(nodes, 60)  # what fails there is taken by another leader
        deadline = time.monotonic() + SETTLE_SECONDS
        after = described(nodes)
        while (
            any(victim in after[each][1] for each in places[failed]) and time.monotonic() < deadline
        ):
            time.sleep(0.1)  # partitions that it did not lead are told of a moment later
            after = described(nodes)
        assert all(
            victim not in isr and leader not in {victim, -1}
            for leader, isr in (after[each] for each in places[failed])
        )
        assert {index for index, (leader, _) in after.items() if leader == victim} == led - places[
            failed
        ]
        assert all(victim in after[each][1] for each in after.keys() - places[failed])
        assert "failed" in nodes.log(victim)
        dead = min({1, 2, 3} - {victim, nodes.controller()}, default=victim)
        nodes.kill(dead)  # what the victim still has serves on
        produce(nodes, 60)
