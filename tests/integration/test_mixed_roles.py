"""Controllers are of one product and brokers of the other, each on nodes of their own.

They have ``process.roles=controller``, and ``broker``.

The active controller and brokers, a coordinator first, are killed and paused while an idempotent
producer of confluent-kafka writes with acks=all and a group of each protocol reads. Topics are made
meanwhile. In the end nothing that was acknowledged is missing or there twice, both groups have read
everything, and the replicas hold the same batches, byte for byte; so do the metadata logs of all
six nodes.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, NewTopic
from log_service.common.errors import ErrorCode
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from tests.chaos.load import (
    Client,
    ConfluentWriter,
    ConsumerProtocolReader,
    Reader,
    wait_for_readers,
)
from tests.chaos.verdicts import group_got_everything, judge, read_log
from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.wire import Wire

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

CONTROLLERS, BROKERS = (1, 2, 3), (4, 5, 6)
LED_BY = {f"led-by-{node_id}": node_id for node_id in BROKERS}
"""Topics of one partition, by the node that comes first among their replicas."""
TOPICS = dict.fromkeys(LED_BY, 1)
COORDINATED = "classic"
CALM_SECONDS = 1.0
HUNG_SECONDS = 4.0
"""Longer than a session."""
SETTLE_SECONDS = 60.0
STRUCK = {TIDELOG: len(BROKERS), APACHE_KAFKA: of_a_run(1, whole=len(BROKERS))}
"""How many brokers are killed, and how many are paused: a start of Apache Kafka takes long."""


@contextmanager
def under_load(nodes: ClusterNodes) -> Iterator[None]:
    """Run a cluster under load; at its end all nodes are in sync, and what the load says is judged."""
    with nodes:
        with BlockingAdmin(nodes.bootstrap) as admin:
            admin.create_topics(
                [
                    NewTopic(name=name, assignments={0: _replicas(first)})
                    for name, first in LED_BY.items()
                ]
            )
        nodes.wait_until_whole(*LED_BY)
        writer = ConfluentWriter("rdkafka", nodes.bootstrap, 1, TOPICS, pause_seconds=0.02)
        readers = [
            ConsumerProtocolReader(
                "of the consumer protocol", nodes.bootstrap, TOPICS, group="consumer"
            ),
            Reader("of the classic protocol", nodes.bootstrap, TOPICS, group=COORDINATED),
        ]
        clients: list[Client] = [writer, *readers]
        for client in clients:
            client.start()
        time.sleep(CALM_SECONDS)
        yield
        writer.stop()
        log = read_log(nodes.bootstrap, TOPICS)
        for reader in readers:
            wait_for_readers(log, [reader], SETTLE_SECONDS)
            reader.stop()
        nodes.wait_until_equal(*LED_BY)
        segments = {(topic, 0): nodes.segments(first, topic) for topic, first in LED_BY.items()}
        faults = judge(log, [writer], readers, segments)
        assert [
            *faults,
            *(fault for reader in readers for fault in group_got_everything(log, [reader])),
        ] == []
        assert writer.acknowledged_counts() == writer.sent_count
        assert all(count > 50 for count in writer.sent_count.values())
        for node_id in nodes.running:
            nodes.kill(node_id)
        metadata = sorted(
            (nodes.segments(node_id, "__cluster_metadata") for node_id in nodes.node_ids), key=len
        )
        assert metadata[0]
        assert all(longer.startswith(shorter) for shorter, longer in pairwise(metadata))


def _replicas(first: int) -> list[int]:
    return [first, *(node_id for node_id in BROKERS if node_id != first)]


def lose_the_active_controller(
    nodes: ClusterNodes, end: Callable[[int], None], back: Callable[[int], None]
) -> None:
    """Another controller leads, and makes a topic without the one that is lost, which then comes
    back.
    """
    lost = nodes.controller()
    end(lost)
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        leader = active_controller(nodes, lost)
        wanted = CreatableTopic(
            name=f"made-by-{leader}-without-{lost}", num_partitions=2, replication_factor=3
        )
        with Wire(nodes.controllers[leader]) as wire:
            (made,) = wire.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7).topics
        if made.error_code != ErrorCode.NOT_CONTROLLER:
            # Apache Kafka's says so until it has read the log that it leads.
            break
        assert time.monotonic() < deadline, made
        time.sleep(0.2)
    assert made.error_code == ErrorCode.NONE, made
    back(lost)
    nodes.wait_until_whole(*LED_BY, made.name)


def active_controller(nodes: ClusterNodes, lost: int) -> int:
    """The controller that leads without the one that is lost, as it says itself.

    Brokers are not asked: one of Apache Kafka's that has asked a controller that hangs waits for it
    for 30 s, and asks no other.
    """
    asked = [
        RequestTopicData(
            topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)]
        )
    ]
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        for node_id in sorted(set(CONTROLLERS) - {lost}):
            with Wire(nodes.controllers[node_id]) as wire:
                told = wire.ask(DescribeQuorumRequest(topics=asked), 2)
            if (
                told.error_code == ErrorCode.NONE
                and told.topics[0].partitions[0].leader_id == node_id
            ):
                return node_id
        assert time.monotonic() < deadline, f"no controller leads without node {lost}"
        time.sleep(0.2)


@pytest.mark.parametrize(
    ("controllers", "brokers"),
    [
        pytest.param(APACHE_KAFKA, TIDELOG, id="kafka controls", marks=pytest.mark.repeats),
        pytest.param(TIDELOG, APACHE_KAFKA, id="tidelog controls"),
    ],
)
def test_controllers_of_one_product_and_brokers_of_the_other_lose_nothing(
    controllers: str, brokers: str, tmp_path: Path
) -> None:
    products = dict.fromkeys(CONTROLLERS, controllers) | dict.fromkeys(BROKERS, brokers)
    nodes = ClusterNodes(
        products, tmp_path, size=6, voter_count=len(CONTROLLERS), is_split=True, is_mixed=True
    )
    with under_load(nodes):
        lose_the_active_controller(nodes, nodes.kill, nodes.start)
        lose_the_active_controller(nodes, nodes.pause, nodes.resume)
        coordinator = nodes.coordinator_of(COORDINATED)
        struck = [coordinator, *(node_id for node_id in BROKERS if node_id != coordinator)]
        for node_id in struck[: STRUCK[brokers]]:
            nodes.kill(node_id)
            time.sleep(CALM_SECONDS)
            nodes.wait_until_whole(*LED_BY)
        assert nodes.coordinator_of(COORDINATED) in BROKERS
        for node_id in struck[::-1][: STRUCK[brokers]]:
            nodes.pause(node_id)
            time.sleep(HUNG_SECONDS)
            nodes.resume(node_id)
            nodes.wait_until_whole(*LED_BY)
