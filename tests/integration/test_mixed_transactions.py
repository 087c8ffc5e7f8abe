"""Transactions of Apache Kafka in one cluster of both products: followers of ours keep what their leader keeps, and lead with it.

The coordinator and the first leader are the node of Apache Kafka. Some transactions are committed, some are aborted, in between each other,
and one is open. The followers' segments and indexes of aborted transactions are Kafka's, byte for byte, and readers of committed records
see the same from each leader.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from log_service.client import BlockingAdmin, BlockingConsumer, NewTopic
from log_service.client import TopicPartition as Where
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import UNSERVED_FEATURES, ClusterNodes

TOPIC = "ledger"
LAST_SECONDS = 60.0
KAFKA, OURS = 1, 2


def create_topics(nodes: ClusterNodes) -> None:
    """Let our node lead the topic, and Apache Kafka's all transactions."""
    with BlockingAdmin(nodes.bootstrap) as admin:
        configs = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
        state = NewTopic(name="__transaction_state", assignments={index: [KAFKA] for index in range(3)}, configs=configs)
        ledger = NewTopic(name=TOPIC, assignments={0: [OURS, KAFKA, 3]}, configs={"segment.bytes": "1048576"})
        admin.create_topics([state, ledger])


def writer(nodes: ClusterNodes, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(60)
    return producer


def write(producer: Producer, values: Iterable[str]) -> None:
    for value in values:
        producer.produce(TOPIC, value)
    assert producer.flush(60) == 0


def write_history(first: Producer, second: Producer) -> list[str]:
    """Write transactions that lie in between each other, and return what was committed, in its order; the last one stays open."""
    committed = []
    for number in range(6):
        first.begin_transaction()
        second.begin_transaction()
        mine, theirs = [f"first-{number}-{part}" for part in range(3)], [f"second-{number}-{part}" for part in range(3)]
        write(first, mine[:2])
        write(second, theirs)
        write(first, mine[2:])
        if number % 3 == 1:
            first.abort_transaction(60)
        else:
            first.commit_transaction(60)
            committed += mine
        if number % 2:
            second.abort_transaction(60)
        else:
            second.commit_transaction(60)
            committed += theirs
    first.begin_transaction()
    write(first, ["open"])
    second.begin_transaction()
    write(second, ["behind the open one"])
    second.commit_transaction(60)
    return sorted([*committed, "behind the open one"])


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LAST_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.3)


def stable_offset(nodes: ClusterNodes) -> int:
    """Ask for the last stable offset, again where a leader has not heard yet that it leads: the client gives up at the first refusal."""
    client, where = AdminClient({"bootstrap.servers": nodes.bootstrap}), TopicPartition(TOPIC, 0)
    deadline = time.monotonic() + LAST_SECONDS
    while True:
        asked = {where: OffsetSpec.latest()}  # type: ignore[no-untyped-call]
        try:
            return int(client.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)[where].result(30).offset)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


def committed_values(nodes: ClusterNodes) -> list[str]:
    """Return what a reader of committed records gets, up to the last stable offset."""
    end, where = stable_offset(nodes), Where(TOPIC, 0)
    found: list[str] = []
    with BlockingConsumer(nodes.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([where])
        deadline = time.monotonic() + LAST_SECONDS
        while consumer.position(where) < end:
            found += [bytes(record.value or b"").decode() for record in consumer.poll(timeout_ms=1_000)]
            assert time.monotonic() < deadline, f"the reader stands at {consumer.position(where)} of {end}"
    return sorted(found)


def indexes(nodes: ClusterNodes, node_id: int) -> dict[str, bytes]:
    paths = (nodes.data(node_id) / f"{TOPIC}-0").glob("*.txnindex")
    return {path.name: path.read_bytes() for path in paths if path.stat().st_size}


def lead(nodes: ClusterNodes) -> None:
    """Let our node lead, once it is in sync."""
    nodes.wait_until_whole(TOPIC)
    client = AdminClient({"bootstrap.servers": nodes.bootstrap})

    def is_led() -> bool:
        client.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, 0)]).result(30)
        return nodes.leader_of(TOPIC, 0) == OURS

    until(is_led)


@pytest.mark.timeout(400)
def test_a_follower_of_a_transactional_leader_leads_as_it_did(tmp_path: Path) -> None:
    products = {KAFKA: APACHE_KAFKA, OURS: TIDELOG, 3: TIDELOG}
    unserved = (*UNSERVED_FEATURES, "eligible.leader.replicas.version")
    with ClusterNodes(products, tmp_path, voter_count=1, is_mixed=True, is_dynamic=True, unserved=unserved) as nodes:
        create_topics(nodes)
        nodes.kill(OURS)
        until(lambda: nodes.leader_of(TOPIC, 0) == KAFKA)
        first, second = writer(nodes, "first"), writer(nodes, "second")
        committed = write_history(first, second)
        stable, seen = stable_offset(nodes), committed_values(nodes)
        assert set(seen) == set(committed) - {"behind the open one"}
        nodes.start(OURS)
        lead(nodes)
        assert stable_offset(nodes) == stable, "the open transaction still holds readers back"
        assert committed_values(nodes) == seen
        nodes.kill(OURS)
        until(lambda: nodes.leader_of(TOPIC, 0) == KAFKA)
        first.commit_transaction(60)
        until(lambda: stable_offset(nodes) > stable)
        assert committed_values(nodes) == sorted([*committed, "open"])
        nodes.start(OURS)
        lead(nodes)
        until(lambda: stable_offset(nodes) > stable)
        assert committed_values(nodes) == sorted([*committed, "open"])
        nodes.wait_until_equal(TOPIC)
        assert indexes(nodes, KAFKA)
        assert indexes(nodes, KAFKA) == indexes(nodes, OURS) == indexes(nodes, 3)
