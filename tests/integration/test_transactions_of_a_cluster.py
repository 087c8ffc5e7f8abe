"""The coordinator of transactions dies on three nodes, by kill -9 in each state.

The tests read the records afterwards.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException, Producer

from log_service.common.java_hashing import java_abs, java_hash
from tests.integration import confluent
from tests.integration.client_clusters import TIDELOG
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.transaction_clients import SECONDS, producer_of, seen, write

STATE_PARTITIONS = 3
TOPIC_PARTITIONS = 2


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterNodes]:
    properties = {"transaction.state.log.num.partitions": str(STATE_PARTITIONS)}
    with ClusterNodes(TIDELOG, tmp_path_factory.mktemp("cluster"), properties) as running:
        yield running


def coordinator_of(nodes: ClusterNodes, transactional_id: str) -> int:
    return nodes.leader_of(
        "__transaction_state", java_abs(java_hash(transactional_id)) % STATE_PARTITIONS
    )


def commit(producer: Producer) -> None:
    """Commit, and ask again while the coordinator moves, as an application does."""
    deadline = time.monotonic() + 3 * SECONDS
    while True:
        try:
            producer.commit_transaction(SECONDS)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
        else:
            return


def expect(bootstrap: str, topic: str, *values: bytes) -> None:
    """Wait until readers of committed records see exactly these: the markers may still be on their
    way.
    """
    deadline = time.monotonic() + 3 * SECONDS
    found: list[bytes] = []
    while time.monotonic() < deadline:
        with suppress(AssertionError):
            found = seen(bootstrap, topic, partitions=TOPIC_PARTITIONS)
        if found == sorted(values):
            return
        time.sleep(0.2)
    assert found == sorted(values)


@pytest.mark.parametrize("state", ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"])
def test_a_transaction_ends_as_its_producer_was_told_though_its_coordinator_dies(
    nodes: ClusterNodes, state: str
) -> None:
    topic = transactional_id = f"coordinator-dies-{state}".lower()
    client = confluent.admin(nodes.bootstrap)
    client.create_topics(
        [confluent.NewTopic(topic, num_partitions=TOPIC_PARTITIONS, replication_factor=3)]
    )[topic].result(SECONDS)
    nodes.wait_until_whole(topic)
    producer = producer_of(nodes.bootstrap, transactional_id, transaction_timeout_ms=60_000)
    victim = coordinator_of(nodes, transactional_id)
    if state != "Empty":
        write(producer, topic, "a", "b")
    if state == "Ongoing":
        nodes.kill(victim)
    elif state == "PrepareCommit":
        killer = threading.Thread(target=nodes.kill, args=(victim,))
        killer.start()
        commit(producer)
        killer.join()
    elif state == "CompleteCommit":
        commit(producer)
        expect(nodes.bootstrap, topic, b"a", b"b")
        nodes.kill(victim)
    else:
        nodes.kill(victim)
        write(producer, topic, "a", "b")
    if state in {"Empty", "Ongoing"}:
        commit(producer)
    expect(nodes.bootstrap, topic, b"a", b"b")
    write(producer, topic, "c")
    producer.abort_transaction(3 * SECONDS)
    write(producer, topic, "d")
    commit(producer)
    expect(nodes.bootstrap, topic, b"a", b"b", b"d")
    nodes.start(victim)
    nodes.wait_until_whole(topic, "__transaction_state")
