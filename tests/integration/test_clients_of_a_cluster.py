"""Other people's clients, with their default timers, beside three nodes that are killed, stopped and paused.

Each writes as an idempotent producer and reads in a group. Whoever leads their partitions, their group and the quorum is among those that
are struck: every node is. In the end nothing that was acknowledged is missing, nothing is there twice, each partition is in order, the
group has got everything, and what it committed stands.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, NewTopic
from tests.chaos.load import GROUP, wait_for_readers
from tests.chaos.verdicts import commits_stand, group_got_everything, judge, read_log
from tests.integration.client_clusters import TIDELOG
from tests.integration.clients_of_a_cluster import CASTS, wait_for_progress
from tests.integration.cluster_nodes import NODE_IDS, ClusterNodes

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("refused_sockets"),
]

PARTITIONS = 3
PATIENCE_SECONDS = 120.0
"""Some clients wait for a response for 30 or 40 s before they ask another node."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterNodes]:
    with ClusterNodes(TIDELOG, tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.mark.parametrize("name", CASTS)
def test_a_client_goes_on_while_nodes_come_and_go(nodes: ClusterNodes, name: str, tmp_path: Path) -> None:
    topics = {f"written-by-{name}": PARTITIONS}
    (topic,) = topics
    with BlockingAdmin(nodes.bootstrap) as admin:
        if GROUP in {group.group_id for group in admin.list_groups()}:
            admin.delete_groups([GROUP])
        admin.create_topics([NewTopic(name=topic, partition_count=PARTITIONS, replication_factor=3)])
    nodes.wait_until_whole(topic)
    writer, reader = CASTS[name].clients(name, nodes.bootstrap, topics, tmp_path)
    writer.start()
    reader.start()
    try:
        wait_for_progress(writer, PATIENCE_SECONDS)
        strike_each(nodes, topic, lambda: wait_for_progress(writer, PATIENCE_SECONDS))
    finally:
        writer.stop()
        log = read_log(nodes.bootstrap, topics) if not writer.failures else {}
        wait_for_readers(log, [reader], PATIENCE_SECONDS)
        reader.stop()
    assert [*judge(log, [writer], [reader]), *group_got_everything(log, [reader]), *commits_stand(nodes.bootstrap, [reader])] == []
    assert all(count > 20 for count in writer.acknowledged_counts().values())
    assert reader.committed
    nodes.wait_until_equal(topic)


def strike_each(nodes: ClusterNodes, topic: str, go_on: Callable[[], object]) -> None:
    """Kill a leader, kill the group's coordinator, stop the active controller, and pause one node."""
    strikes: tuple[tuple[Callable[[int], None], Callable[[], int]], ...] = (
        (nodes.kill, lambda: nodes.leader_of(topic, 0)),
        (nodes.kill, lambda: nodes.coordinator_of(GROUP)),
        (nodes.stop, nodes.controller),
    )
    for end, find in strikes:
        victim = find()
        end(victim)
        go_on()
        nodes.start(victim)
        nodes.wait_until_whole(topic)
    hung = nodes.leader_of(topic, 1)
    nodes.pause(hung)
    try:
        go_on()
    finally:
        nodes.resume(hung)
    nodes.wait_until_whole(topic)
    nodes.wait_until_told(*NODE_IDS)
