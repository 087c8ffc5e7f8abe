"""Transactions run in one cluster of both products.

Coordinators, leaders and followers are of either, and clients speak both versions.

Leaders of each product ask coordinators of each about a transaction's partitions
(AddPartitionsToTxn), and take their markers (WriteTxnMarkers); so do coordinators of groups.
Followers of ours keep what their leader keeps, and lead with it: some transactions are committed,
some are aborted, in between each other, and one is open. The followers' segments and indexes of
aborted transactions are Kafka's, byte for byte, and readers of committed records see the same from
each leader.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count

import pytest
from confluent_kafka import (
    Consumer,
    ElectionType,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from log_service.client import BlockingAdmin, BlockingConsumer, BlockingProducer, NewTopic
from log_service.client import TopicPartition as Where
from log_service.common.errors import ErrorCode
from log_service.common.java_hashing import java_abs, java_hash
from log_service.records.builder import build_batch
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.record_requests import produce_request
from tests.integration.transactional_writer import TransactionalWriter
from tests.integration.wire import Wire

TOPIC, BOTH = "ledger", "both"
LAST_SECONDS = 60.0
KAFKA, OURS = 1, 2
COORDINATORS = (KAFKA, OURS, 3)
"""Of the partitions of ``__transaction_state``, and in turn of those of ``__consumer_offsets``."""
ADDS, VERIFIES = 12, 11
"""Versions of Produce: with one the leader has its partition added to the transaction, with the
other it asks whether it is in it.
"""


def create_topics(nodes: ClusterNodes) -> None:
    """Let our node lead the topic, and each product coordinate transactions and groups."""
    with BlockingAdmin(nodes.bootstrap) as admin:
        configs = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
        coordinators = [[node_id] for node_id in COORDINATORS]
        state = NewTopic(
            name="__transaction_state", assignments=dict(enumerate(coordinators)), configs=configs
        )
        offsets = NewTopic(
            name="__consumer_offsets",
            assignments=dict(enumerate(coordinators * 2)),
            configs=configs,
        )
        ledger = NewTopic(
            name=TOPIC, assignments={0: [OURS, KAFKA, 3]}, configs={"segment.bytes": "1048576"}
        )
        both = NewTopic(name=BOTH, assignments={0: [KAFKA, OURS], 1: [OURS, KAFKA]})
        admin.create_topics([state, offsets, ledger, both])


def name_of(node_id: int, prefix: str) -> str:
    """Return a transactional id or a group's that a node coordinates."""
    names = (f"{prefix}-{number}" for number in count())
    return next(
        name
        for name in names
        if COORDINATORS[java_abs(java_hash(name)) % len(COORDINATORS)] == node_id
    )


def writer(nodes: ClusterNodes, name: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": nodes.bootstrap, "transactional.id": name, "linger.ms": 0}
    )
    producer.init_transactions(60)
    return producer


def write(producer: Producer, values: Iterable[str]) -> None:
    for value in values:
        producer.produce(TOPIC, value)
    assert producer.flush(60) == 0


def write_history(first: Producer, second: Producer) -> list[str]:
    """Write transactions that lie in between each other, and return the committed records in order.

    The last transaction stays open.
    """
    committed = []
    for number in range(6):
        first.begin_transaction()
        second.begin_transaction()
        mine, theirs = (
            [f"first-{number}-{part}" for part in range(3)],
            [f"second-{number}-{part}" for part in range(3)],
        )
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


def stable_offset(nodes: ClusterNodes, topic: str = TOPIC, partition: int = 0) -> int:
    """Ask for the last stable offset, again if a leader has not heard yet that it leads.

    The client gives up at the first refusal.
    """
    client, where = (
        AdminClient({"bootstrap.servers": nodes.bootstrap}),
        TopicPartition(topic, partition),
    )
    deadline = time.monotonic() + LAST_SECONDS
    while True:
        asked = {where: OffsetSpec.latest()}  # type: ignore[no-untyped-call]
        try:
            return int(
                client.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)[where]
                .result(30)
                .offset
            )
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


def committed_values(nodes: ClusterNodes, topic: str = TOPIC, partition: int = 0) -> list[str]:
    """Return what a reader of committed records gets, up to the last stable offset."""
    end, where = stable_offset(nodes, topic, partition), Where(topic, partition)
    found: list[str] = []
    with BlockingConsumer(
        nodes.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([where])
        deadline = time.monotonic() + LAST_SECONDS
        while consumer.position(where) < end:
            found += [
                bytes(record.value or b"").decode() for record in consumer.poll(timeout_ms=1_000)
            ]
            assert time.monotonic() < deadline, (
                f"the reader stands at {consumer.position(where)} of {end}"
            )
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


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterNodes]:
    products = {KAFKA: APACHE_KAFKA, OURS: TIDELOG, 3: TIDELOG}
    directory = tmp_path_factory.mktemp("cluster")
    with ClusterNodes(
        products, directory, voter_count=1, is_mixed=True, is_dynamic=True
    ) as running:
        create_topics(running)
        running.wait_until_whole(TOPIC, BOTH)
        yield running


def own_member(nodes: ClusterNodes, group: str) -> BlockingConsumer:
    return BlockingConsumer(nodes.bootstrap, group_id=group, enable_auto_commit=False)


def write_with_ours(nodes: ClusterNodes, name: str, group: str) -> None:
    """Commit and abort with our client: leaders add their partitions to the transaction (version
    2).
    """
    with (
        BlockingProducer(nodes.bootstrap, transactional_id=name) as producer,
        own_member(nodes, group) as member,
    ):
        producer.init_transactions()
        for value, position in (("left", 5), ("kept", 7), ("left", 9)):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send(BOTH, f"{value} of {name}", partition=partition)
            producer.send_offsets_to_transaction(
                {Where(BOTH, 0): position}, member.group_metadata()
            )
            if value == "kept":
                producer.commit_transaction()
            else:
                producer.abort_transaction()


def write_with_librdkafka(nodes: ClusterNodes, name: str, group: str) -> None:
    """A client that announces its partitions has the same outcome.

    Leaders ask whether they are in the transaction.
    """
    producer, member = (
        writer(nodes, name),
        Consumer({"bootstrap.servers": nodes.bootstrap, "group.id": group}),
    )
    for value, position in (("left", 5), ("kept", 7), ("left", 9)):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(BOTH, f"{value} of {name}", partition=partition)
        producer.send_offsets_to_transaction(
            [TopicPartition(BOTH, 0, position)], member.consumer_group_metadata(), 60
        )
        if value == "kept":
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
    member.close()


WRITERS = {"version 2": write_with_ours, "version 0": write_with_librdkafka}


@pytest.mark.parametrize("version", WRITERS)
@pytest.mark.parametrize("group_node", [KAFKA, OURS], ids=["group at kafka", "group at tidelog"])
@pytest.mark.parametrize(
    "coordinator", [KAFKA, OURS], ids=["kafka coordinates", "tidelog coordinates"]
)
def test_a_transaction_spans_both_products(
    nodes: ClusterNodes, coordinator: int, group_node: int, version: str
) -> None:
    name = name_of(coordinator, f"{version} {group_node}")
    group = name_of(group_node, f"group of {name}")
    before = [len(committed_values(nodes, BOTH, partition)) for partition in (0, 1)]
    WRITERS[version](nodes, name, group)
    for partition in (0, 1):
        until(
            lambda partition=partition: (  # type: ignore[misc]
                len(committed_values(nodes, BOTH, partition)) > before[partition]
            )
        )
        assert [
            value for value in committed_values(nodes, BOTH, partition) if value.endswith(name)
        ] == [f"kept of {name}"]
    with BlockingAdmin(nodes.bootstrap) as admin:
        assert (
            admin.list_group_offsets(group, [Where(BOTH, 0)], is_stable_required=True)[
                Where(BOTH, 0)
            ].offset
            == 7
        )


@pytest.mark.parametrize("leader", [KAFKA, OURS], ids=["kafka leads", "tidelog leads"])
@pytest.mark.parametrize(
    "coordinator", [KAFKA, OURS], ids=["kafka coordinates", "tidelog coordinates"]
)
def test_a_batch_that_no_coordinator_knows_of_is_refused(
    nodes: ClusterNodes, coordinator: int, leader: int
) -> None:
    """A producer before version 2 has to announce its partitions.

    One that is late would leave a transaction open for ever (KIP-890).
    """
    name = name_of(coordinator, f"unannounced {leader}")
    partition = (KAFKA, OURS).index(leader)
    with Wire(f"127.0.0.1:{nodes.ports[coordinator]}") as wire:
        told = TransactionalWriter(wire, name, is_version_2=False)
    content = build_batch(
        [(int(time.time() * 1_000), None, b"never")],
        is_transactional=True,
        producer_id=told.producer_id,
        producer_epoch=told.epoch,
        base_sequence=0,
    )
    batches = [None] * partition + [content]
    request = replace(produce_request(BOTH, *batches), transactional_id=name)
    request.topic_data[0].partition_data = request.topic_data[0].partition_data[partition:]
    stable = stable_offset(nodes, BOTH, partition)
    with Wire(f"127.0.0.1:{nodes.ports[leader]}") as wire:
        (refused,) = wire.ask(request, VERIFIES).responses[0].partition_responses
        assert refused.error_code == ErrorCode.TRANSACTION_ABORTABLE
        assert stable_offset(nodes, BOTH, partition) == stable
        (taken,) = wire.ask(request, ADDS).responses[0].partition_responses
        assert taken.error_code == ErrorCode.NONE
        assert stable_offset(nodes, BOTH, partition) == stable, "it is open"
    with BlockingAdmin(nodes.bootstrap) as admin:
        described = admin.describe_transactions([name])[name]
        assert described.partitions == (Where(BOTH, partition),)
    writer(nodes, name)  # fences the one before, whose transaction is aborted
    until(lambda: stable_offset(nodes, BOTH, partition) > stable)
    assert not any("never" in value for value in committed_values(nodes, BOTH, partition))


@pytest.mark.timeout(400)
def test_a_follower_of_a_transactional_leader_leads_as_it_did(nodes: ClusterNodes) -> None:
    nodes.kill(OURS)
    until(lambda: nodes.leader_of(TOPIC, 0) == KAFKA)
    first, second = writer(nodes, name_of(KAFKA, "first")), writer(nodes, name_of(3, "second"))
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
