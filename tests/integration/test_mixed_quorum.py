"""One quorum has voters of both products.

Either leads, dies and comes back, and the replicas hold the same bytes in the end.

Records are produced by confluent-kafka's idempotent producer throughout. What was acknowledged is
there once, and the segments of all replicas are equal, those of the metadata log too.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from log_service.client import BlockingAdmin, NewTopic
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import NODE_IDS, ClusterNodes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

ONE_OF_KAFKA = {1: TIDELOG, 2: TIDELOG, 3: APACHE_KAFKA}
"""``test_mixed_cluster`` has two of Kafka."""
TOPIC, PARTITIONS = "orders", 3
MOST_ROUNDS = 10


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterNodes]:
    with ClusterNodes(
        ONE_OF_KAFKA,
        tmp_path_factory.mktemp("mixed"),
        {"metadata.log.segment.bytes": "8388608"},
        is_mixed=True,
    ) as running:
        yield running


class Records:
    """The produced records, and the acknowledged ones among them."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[str] = []
        self._count = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "delivery.timeout.ms": 120_000,
                "linger.ms": 0,
            }
        )

    def produce(self, count: int) -> None:
        """Produce, and wait until every record is acknowledged."""
        failures: list[str] = []
        for _ in range(count):
            value = f"record {self._count}"
            self._count += 1

            def told(error: object, _message: object, value: str = value) -> None:
                failures.append(str(error)) if error else self.acknowledged.append(value)

            self._producer.produce(TOPIC, value.encode(), on_delivery=told)
        self._producer.flush(150)
        assert not failures


def consumed(bootstrap: str, count: int) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
    found: list[str] = []
    patience = 60
    while patience and (patience > 3 or len(found) < count):
        message = consumer.poll(1)
        if message is not None and not message.error():
            found.append((message.value() or b"").decode())
        elif message is None:
            patience = min(patience - 1, 5) if len(found) >= count else patience - 1
    consumer.close()
    return found


def segments(data: Path, partition: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((data / partition).glob("*.log")))


def test_either_product_leads_the_quorum_and_dies_and_nothing_is_lost(nodes: ClusterNodes) -> None:
    with BlockingAdmin(nodes.bootstrap) as admin:
        admin.create_topics(
            [
                NewTopic(
                    name=TOPIC,
                    partition_count=PARTITIONS,
                    replication_factor=3,
                    configs={"min.insync.replicas": "2"},
                )
            ]
        )
    nodes.wait_until_whole(TOPIC)
    records = Records(nodes.bootstrap)
    led: set[str] = set()
    for number in range(MOST_ROUNDS):
        leader = nodes.controller()
        led.add(nodes.products[leader])
        records.produce(50)
        with BlockingAdmin(
            nodes.bootstrap
        ) as admin:  # what the controller decides comes through it, whoever is asked
            admin.create_topics(
                [NewTopic(name=f"round-{number}", partition_count=2, replication_factor=3)]
            )
        end = nodes.kill if number % 2 else nodes.stop
        end(leader)
        records.produce(50)
        nodes.wait_until_whole(TOPIC)
        if led == {TIDELOG, APACHE_KAFKA} and number >= 3:
            break
    assert led == {TIDELOG, APACHE_KAFKA}
    assert sorted(consumed(nodes.bootstrap, len(records.acknowledged))) == sorted(
        records.acknowledged
    )
    for node_id in NODE_IDS:
        nodes.kill(node_id)
    for partition in range(PARTITIONS):
        logs = {segments(nodes.data(node_id), f"{TOPIC}-{partition}") for node_id in NODE_IDS}
        assert len(logs) == 1
    metadata = sorted(
        (segments(nodes.data(node_id), "__cluster_metadata-0") for node_id in NODE_IDS), key=len
    )
    assert metadata[0]
    assert all(longer.startswith(shorter) for shorter, longer in pairwise(metadata))
