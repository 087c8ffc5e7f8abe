"""A broker of ours, in a cluster of Apache Kafka's controller, loses a log while it is down.

After a kill -9 it claims the epoch of its last run only if it still has everything (KIP-966). So
whatever the controller makes of the broker, no other replica is cut to what is left of its log.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingProducer,
    ElectionType,
    KafkaError,
    NewTopic,
    TopicPartition,
)
from log_service.client.connections.cluster_view import PartitionView
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import ClusterNodes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

CONTROLLER, OTHERS, OURS = 1, (2, 3), 4
TOPIC, COUNT = "orders", 500
SECONDS = 60.0
ALONE = {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}


class Cluster:
    """A cluster whose three brokers all hold one partition, led by ours."""

    def __init__(self, nodes: ClusterNodes) -> None:
        self.nodes = nodes
        with BlockingAdmin(nodes.bootstrap) as admin:
            topic = NewTopic(name=TOPIC, assignments={0: [OURS, *OTHERS]}, configs=ALONE)
            admin.create_topics([topic])
        nodes.wait_until_whole(TOPIC)
        with BlockingProducer(nodes.bootstrap, acks="all") as producer:
            sent = [producer.send(TOPIC, str(number).encode()) for number in range(COUNT)]
            for each in sent:
                each.wait()
        nodes.wait_until_equal(TOPIC)
        self.held = nodes.segments(OURS, TOPIC)

    def partition(self) -> PartitionView:
        with BlockingAdmin(self.nodes.bootstrap, default_api_timeout_ms=5_000) as admin:
            return admin.describe_topics([TOPIC])[TOPIC].partitions[0]

    def elect(self, kind: ElectionType) -> bool:
        with BlockingAdmin(self.nodes.bootstrap, default_api_timeout_ms=5_000) as admin:
            return bool(admin.elect_leaders([TopicPartition(TOPIC, 0)], kind))

    def lose_log(self) -> None:
        """Remove the log of our broker, which was killed."""
        shutil.rmtree(self.nodes.data(OURS) / f"{TOPIC}-0")

    def assert_others_hold_all(self) -> None:
        for node_id in OTHERS:
            assert self.nodes.segments(node_id, TOPIC) == self.held, f"node {node_id} was cut"

    def wait_until_ours_is_whole(self) -> None:
        self.nodes.wait_until_whole(TOPIC)
        self.nodes.wait_until_equal(TOPIC)
        assert self.nodes.segments(OURS, TOPIC) == self.held


@pytest.mark.parametrize("other", [APACHE_KAFKA, pytest.param(TIDELOG, marks=pytest.mark.repeats)])
def test_a_lost_log_cuts_no_other_replica(other: str, tmp_path: Path) -> None:
    products = {CONTROLLER: APACHE_KAFKA, **dict.fromkeys(OTHERS, other), OURS: TIDELOG}
    properties = {"offsets.topic.replication.factor": "1"}
    with ClusterNodes(
        products, tmp_path, properties, size=4, voter_count=1, is_split=True, is_mixed=True
    ) as nodes:
        cluster = Cluster(nodes)
        lose_while_others_lead(cluster)
        lose_as_last_leader(cluster)


def lose_while_others_lead(cluster: Cluster) -> None:
    """The broker comes back as a follower and copies everything."""
    cluster.nodes.kill(OURS)
    cluster.lose_log()
    cluster.nodes.start(OURS)
    cluster.wait_until_ours_is_whole()
    assert cluster.partition().leader in OTHERS
    cluster.assert_others_hold_all()
    until(lambda: cluster.elect(ElectionType.PREFERRED), "our broker leads again")


def lose_as_last_leader(cluster: Cluster) -> None:
    """The controller elects the last known leader, which refuses to lead without its log.

    An operator stops it and lets another replica lead, as docs/reliability.md says.
    """
    nodes = cluster.nodes
    for node_id in OTHERS:
        nodes.kill(node_id)
    until(lambda: tuple(cluster.partition().isr) == (OURS,), "our broker is alone in sync")
    nodes.kill(OURS)
    cluster.lose_log()
    refused = nodes.log(OURS).count("Another replica has to lead")
    nodes.start(*OTHERS, OURS)
    until(
        lambda: nodes.log(OURS).count("Another replica has to lead") > refused,
        "our broker refuses to lead",
    )
    until(lambda: cluster.partition().leader == OURS, "the controller elects our broker")
    cluster.assert_others_hold_all()
    nodes.kill(OURS)
    until(lambda: cluster.elect(ElectionType.UNCLEAN), "another replica leads")
    nodes.start(OURS)
    cluster.wait_until_ours_is_whole()
    cluster.assert_others_hold_all()


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            if is_so():
                return
        except KafkaError:
            pass
        assert time.monotonic() < deadline, f"it never came about that {what}"
        time.sleep(0.1)
