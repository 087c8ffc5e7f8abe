"""One cluster of both products: nodes of tidelog and of Apache Kafka, each controller and broker, behind clients that write and read.

Nodes are killed, paused and replaced by the other product, and a partition moves from one product to the other and back. Meanwhile an
idempotent producer writes with acks=all, a group of the consumer protocol reads, a member of a classic group copies all of it in
transactions, and two members of a streams group share tasks. In the end nothing that was acknowledged is missing, no sequence of a producer
epoch is there twice, the group has read everything, the copy is what was written, record by record, no task ran twice, and the segments of
all replicas, those of the metadata log too, hold the same batches, byte for byte.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, NewTopic
from tests.chaos.load import Client, ConfluentWriter, ConsumerProtocolReader, wait_for_readers
from tests.chaos.verdicts import group_got_everything, judge, read_log
from tests.chaos.waits import waits_between
from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import NODE_IDS, ClusterNodes
from tests.integration.copiers import CopyWatch, OurCopier
from tests.integration.streams_members import StreamsMembers

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

LED_BY = {f"led-by-{node_id}": node_id for node_id in NODE_IDS}
"""Topics of one partition, by the node that comes first among their replicas."""
MOVED = "moved"
"""A topic of one partition with fewer replicas than there are nodes."""
TOPICS = dict.fromkeys([*LED_BY, MOVED], 1)
COPY = "copy"
"""A topic that holds each of the others in a partition of its own."""
PLACES = {(topic, 0): partition for partition, topic in enumerate(TOPICS)}
CALM_SECONDS = 2.0
PAUSE_SECONDS = of_a_run(0.02, whole=0.002)
SETTLE_SECONDS = 90.0
LAYOUTS = {
    "two of kafka": {1: APACHE_KAFKA, 2: APACHE_KAFKA, 3: TIDELOG},
    "two of tidelog": {1: APACHE_KAFKA, 2: TIDELOG, 3: TIDELOG},
}


@contextmanager
def under_load(nodes: ClusterNodes) -> Iterator[ConfluentWriter]:
    """Run a cluster under load, and yield the writer; at its end all nodes are in sync, and what the load says is judged."""
    with nodes:
        with BlockingAdmin(nodes.bootstrap) as admin:
            admin.create_topics([NewTopic(name=name, assignments={0: _replicas(first)}) for name, first in LED_BY.items()])
            admin.create_topics([NewTopic(name=MOVED, assignments={0: [1, 2]}, configs={"min.insync.replicas": "1"})])
            admin.create_topics([NewTopic(name=COPY, assignments={index: _replicas(1 + index % 3) for index in PLACES.values()})])
        nodes.wait_until_whole(*TOPICS, COPY)
        writer = ConfluentWriter("rdkafka", nodes.bootstrap, 1, TOPICS, pause_seconds=PAUSE_SECONDS)
        reader = ConsumerProtocolReader("reader", nodes.bootstrap, TOPICS)
        watch = CopyWatch(nodes.bootstrap, {COPY: len(PLACES)})
        copier = OurCopier(COPY, nodes.bootstrap, PLACES, COPY)
        instances = StreamsMembers("instances", nodes.bootstrap, list(LED_BY))
        clients: list[Client] = [writer, reader, watch, copier, instances]
        for client in clients:
            client.start()
        time.sleep(CALM_SECONDS)
        yield writer
        nodes.wait_until_whole(*TOPICS, COPY)
        writer.stop()
        log = read_log(nodes.bootstrap, TOPICS)
        wait_for_readers(log, [reader], SETTLE_SECONDS)
        watch.wait_until(lambda: watch.count(COPY) >= len(log), [copier], SETTLE_SECONDS, "not all was copied")
        instances.wait_until_all_run(len(LED_BY), SETTLE_SECONDS)
        for client in clients[1:]:
            client.stop()
        nodes.wait_until_whole(*TOPICS, COPY)
        nodes.wait_until_equal(*TOPICS, COPY)
        segments = {(topic, 0): nodes.segments(nodes.leader_of(topic, 0), topic) for topic in TOPICS}
        assert [*judge(log, [writer], [reader], segments), *group_got_everything(log, [reader])] == []
        assert writer.acknowledged_counts() == writer.sent_count, "a request did not succeed in the end"
        assert all(sum(topic == each for each, _, _ in writer.acknowledged) > 100 for topic in TOPICS)
        assert [*watch.failures, *copier.failures, *instances.failures] == []
        assert len(instances.coordinators) > 1, "their group never had another coordinator"
        for (led, _), partition in PLACES.items():
            written = [value.encode() for (topic, _, _), value in sorted(log.items()) if topic == led]
            assert [value for _, value in watch.seen[COPY, partition]] == written
        for node_id in NODE_IDS:
            nodes.kill(node_id)
        metadata = sorted((nodes.segments(node_id, "__cluster_metadata") for node_id in NODE_IDS), key=len)
        assert metadata[0]
        assert all(longer.startswith(shorter) for shorter, longer in pairwise(metadata))


def _replicas(first: int) -> list[int]:
    return [first, *(node_id for node_id in NODE_IDS if node_id != first)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_node_is_killed_and_paused_and_nothing_is_lost(layout: str, tmp_path: Path) -> None:
    """Whoever leads the quorum, the partitions and the group is among them: every node is struck, and what one has moves to another."""
    nodes = ClusterNodes(LAYOUTS[layout], tmp_path, is_mixed=True)
    with under_load(nodes):
        for node_id in NODE_IDS:
            nodes.kill(node_id)
            time.sleep(CALM_SECONDS)
            nodes.wait_until_whole(*LED_BY)
        for places in ([3], [1], [3, 1], [1, 2]):
            nodes.reassign(MOVED, 0, places)
        for node_id in NODE_IDS:
            nodes.pause(node_id)
            time.sleep(2 * CALM_SECONDS)
            nodes.resume(node_id)
            nodes.wait_until_whole(*LED_BY)


def test_a_cluster_of_kafka_becomes_one_of_tidelog_and_goes_back(tmp_path: Path) -> None:
    """What docs/migration.md says: one node after the other is replaced over its directory, with its file, while clients go on.

    It prints how long clients had to wait (``pytest -s``).
    """
    nodes = ClusterNodes(APACHE_KAFKA, tmp_path)
    with under_load(nodes) as writer:
        for product in (TIDELOG, APACHE_KAFKA):
            begin = time.monotonic()
            for node_id in NODE_IDS:
                nodes.replace(node_id, product)
                nodes.wait_until_whole(*LED_BY)
            print(f"over to {product}: {waits_between(writer.told_at, begin, time.monotonic())}")  # noqa: T201 - for docs/migration.md
