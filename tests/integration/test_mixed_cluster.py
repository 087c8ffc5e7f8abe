"""One cluster has nodes of tidelog and of Apache Kafka, each controller and broker.

Clients write and read.

Nodes are killed, paused and replaced by the other product, and a partition moves from one product
to the other and back. Either product leads and follows partitions and coordinates a group in turn,
and in a long run leads the quorum. Meanwhile an idempotent producer writes with acks=all, a group
of the consumer protocol reads, a member of a classic group copies all of it in transactions, and
two members of a streams group share tasks. In the end nothing that was acknowledged is missing, no
sequence of a producer epoch is there twice, the group has read everything, the copy is what was
written, record by record, no task ran twice, and the segments of all replicas, those of the
metadata log too, hold the same batches, byte for byte. Of five nodes two are lost at a time.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, NewTopic
from tests.chaos.load import Client, ConfluentWriter, ConsumerProtocolReader, wait_for_readers
from tests.chaos.verdicts import group_got_everything, judge, read_log
from tests.chaos.waits import waits_between
from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.copiers import CopyWatch, OurCopier
from tests.integration.products_in_turn import let_coordinate, let_lead
from tests.integration.streams_members import StreamsMembers

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

MOVED = "moved"
"""A topic of one partition with two replicas, or one."""
COPY = "copy"
"""A topic that holds each of the others in a partition of its own."""
REPLICAS = 3
CALM_SECONDS = 2.0
PAUSE_SECONDS = of_a_run(0.02, whole=0.002)
SETTLE_SECONDS = 90.0
LAYOUTS = {
    "two of kafka": {1: APACHE_KAFKA, 2: APACHE_KAFKA, 3: TIDELOG},
    "two of tidelog": {1: APACHE_KAFKA, 2: TIDELOG, 3: TIDELOG},
}
REPEATING = {"two of tidelog"}
"""Nodes of that layout are killed in ``test_mixed_quorum``, and the cluster that is migrated passes
through it twice under this load.
"""
LAYOUTS_OF_FIVE = {
    "three of kafka": {1: APACHE_KAFKA, 2: TIDELOG, 3: APACHE_KAFKA, 4: TIDELOG, 5: APACHE_KAFKA},
    "three of tidelog": {1: TIDELOG, 2: APACHE_KAFKA, 3: TIDELOG, 4: APACHE_KAFKA, 5: TIDELOG},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The topics that each have another node first among their replicas, and three clients."""

    led: list[str]
    writer: ConfluentWriter
    reader: ConsumerProtocolReader
    instances: StreamsMembers

    def wait_until_committed(self) -> None:
        """Wait until the reader has committed something more in each partition."""
        before, deadline = dict(self.reader.committed), time.monotonic() + SETTLE_SECONDS
        while any(
            self.reader.committed.get((topic, 0), 0) <= before.get((topic, 0), 0)
            for topic in self.led
        ):
            assert time.monotonic() < deadline, (
                f"the group commits no more: {before}, {self.reader.committed}"
            )
            time.sleep(0.1)


def _create_topics(nodes: ClusterNodes, led: dict[str, list[int]], copy_count: int) -> None:
    moved = NewTopic(name=MOVED, assignments={0: [1, 2]}, configs={"min.insync.replicas": "1"})
    firsts = [nodes.node_ids[index % len(nodes.node_ids)] for index in range(copy_count)]
    copies = {index: _replicas(nodes, first) for index, first in enumerate(firsts)}
    with BlockingAdmin(nodes.bootstrap) as admin:
        admin.create_topics(
            [NewTopic(name=name, assignments={0: replicas}) for name, replicas in led.items()]
        )
        admin.create_topics([moved])
        admin.create_topics([NewTopic(name=COPY, assignments=copies)])


@contextmanager
def under_load(nodes: ClusterNodes) -> Iterator[Load]:
    """Run a cluster under load, and yield the load.

    At its end all nodes are in sync, and the load's results are judged.
    """
    with nodes:
        led = {f"led-by-{node_id}": _replicas(nodes, node_id) for node_id in nodes.node_ids}
        topics = dict.fromkeys([*led, MOVED], 1)
        places = {(topic, 0): partition for partition, topic in enumerate(topics)}
        _create_topics(nodes, led, len(places))
        nodes.wait_until_whole(*topics, COPY)
        writer = ConfluentWriter("rdkafka", nodes.bootstrap, 1, topics, pause_seconds=PAUSE_SECONDS)
        reader = ConsumerProtocolReader("reader", nodes.bootstrap, topics)
        watch = CopyWatch(nodes.bootstrap, {COPY: len(places)})
        copier = OurCopier(COPY, nodes.bootstrap, places, COPY)
        instances = StreamsMembers("instances", nodes.bootstrap, list(led))
        clients: list[Client] = [writer, reader, watch, copier, instances]
        for client in clients:
            client.start()
        time.sleep(CALM_SECONDS)
        yield Load(led=list(led), writer=writer, reader=reader, instances=instances)
        nodes.wait_until_whole(*topics, COPY)
        writer.stop()
        log = read_log(nodes.bootstrap, topics)
        wait_for_readers(log, [reader], SETTLE_SECONDS)
        watch.wait_until(
            lambda: watch.count(COPY) >= len(log), [copier], SETTLE_SECONDS, "not all was copied"
        )
        instances.wait_until_all_run(len(led), SETTLE_SECONDS)
        for client in clients[1:]:
            client.stop()
        nodes.wait_until_whole(*topics, COPY)
        nodes.wait_until_equal(*topics, COPY)
        segments = {
            (topic, 0): nodes.segments(nodes.leader_of(topic, 0), topic) for topic in topics
        }
        assert [
            *judge(log, [writer], [reader], segments),
            *group_got_everything(log, [reader]),
        ] == []
        assert writer.acknowledged_counts() == writer.sent_count, (
            "a request did not succeed in the end"
        )
        assert all(
            sum(topic == each for each, _, _ in writer.acknowledged) > 100 for topic in topics
        )
        assert [*watch.failures, *copier.failures, *instances.failures] == []
        assert len(instances.coordinators) > 1, "their group never had another coordinator"
        for (topic, _), partition in places.items():
            written = [
                value.encode() for (where, _, _), value in sorted(log.items()) if where == topic
            ]
            assert [value for _, value in watch.seen[COPY, partition]] == written
        for node_id in nodes.node_ids:
            nodes.kill(node_id)
        metadata = sorted(
            (nodes.segments(node_id, "__cluster_metadata") for node_id in nodes.node_ids), key=len
        )
        assert metadata[0]
        assert all(longer.startswith(shorter) for shorter, longer in pairwise(metadata))


def _replicas(nodes: ClusterNodes, first: int) -> list[int]:
    """The nodes from the first one on, in a ring."""
    ring = [*nodes.node_ids, *nodes.node_ids]
    return ring[first - 1 : first - 1 + REPLICAS]


def strike(
    nodes: ClusterNodes,
    load: Load,
    groups: Sequence[Sequence[int]],
    places: Sequence[Sequence[int]],
) -> None:
    """Kill the nodes of each group together, move a partition, and pause the nodes of each group.

    The partition goes from place to place.

    Whoever leads the quorum, the partitions and the group is among them. In the end each product
    coordinates both groups in turn. A long run also goes on until each has led the quorum: the one
    node of a product among two of the other wins an election by chance.
    """
    have_led = {nodes.products[nodes.controller()]}
    for struck in groups:
        for node_id in struck:
            nodes.kill(node_id)
        time.sleep(CALM_SECONDS)
        have_led.add(nodes.products[nodes.controller()])
        nodes.wait_until_whole(*load.led)
    for replicas in places:
        nodes.reassign(MOVED, 0, replicas)
    for struck in groups:
        for node_id in struck:
            nodes.pause(node_id)
        time.sleep(2 * CALM_SECONDS)
        for node_id in struck:
            nodes.resume(node_id)
        nodes.wait_until_whole(*load.led)
        have_led.add(nodes.products[nodes.controller()])
    for product in of_a_run([], whole=sorted({*nodes.products.values()} - have_led)):
        let_lead(nodes, product)
    for product in (APACHE_KAFKA, TIDELOG):
        let_coordinate(nodes, load.reader.group, product)
        load.wait_until_committed()
        node_id = let_coordinate(nodes, load.instances.name, product)
        load.instances.wait_until_coordinated_by(node_id, SETTLE_SECONDS)


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(layout, marks=pytest.mark.repeats if layout in REPEATING else ())
        for layout in LAYOUTS
    ],
)
def test_each_node_is_killed_and_paused_and_nothing_is_lost(layout: str, tmp_path: Path) -> None:
    """Every run strikes one node of each product, a long run all nodes."""
    nodes = ClusterNodes(LAYOUTS[layout], tmp_path, is_mixed=True)
    with under_load(nodes) as load:
        strike(nodes, load, of_a_run([[1], [3]], whole=[[1], [2], [3]]), [[3], [1], [3, 1], [1, 2]])


@pytest.mark.repeats  # the promises are those of three nodes
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("layout", LAYOUTS_OF_FIVE)
def test_of_five_nodes_two_are_killed_and_paused_at_a_time_and_nothing_is_lost(
    layout: str, tmp_path: Path
) -> None:
    """A node of either product is lost at the same time.

    A partition has a replica at least that is not.
    """
    nodes = ClusterNodes(LAYOUTS_OF_FIVE[layout], tmp_path, size=5, is_mixed=True)
    with under_load(nodes) as load:
        strike(nodes, load, [[1, 2], [3, 4], [5]], [[4], [5], [4, 5], [1, 2]])


def test_a_cluster_of_kafka_becomes_one_of_tidelog_and_goes_back(tmp_path: Path) -> None:
    """One node after the other is replaced as docs/migration.md says.

    Each new one has the directory and the file of the old, while clients go on.

    It prints how long clients had to wait (``pytest -s``).
    """
    nodes = ClusterNodes(APACHE_KAFKA, tmp_path)
    with under_load(nodes) as load:
        for product in (TIDELOG, APACHE_KAFKA):
            begin = time.monotonic()
            for node_id in nodes.node_ids:
                nodes.replace(node_id, product)
                nodes.wait_until_whole(*load.led)
            print(  # noqa: T201 - for docs/migration.md
                f"over to {product}: {waits_between(load.writer.told_at, begin, time.monotonic())}"
            )
