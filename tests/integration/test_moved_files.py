"""A partition's files move between Apache Kafka and tidelog, both stopped.

In the other's directory they are served on.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from log_service.client import BlockingAdmin, BlockingConsumer, TopicPartition
from log_service.records.batch import iterate_headers, iterate_records
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.record import Record
from tests.helpers.broker_process import BrokerProcess
from tests.integration.confluent import read_all, settings
from tests.integration.kafka_node import KafkaNode, dump, skip_unless_kafka_is_there
from tests.integration.moved_nodes import (
    PROPERTIES,
    Node,
    await_leader,
    create,
    data_of,
    fetch,
    move,
    produce,
)
from tests.integration.wire import Wire

PLAIN, CLEANED, FOREIGN = "plain", "cleaned", "foreign"
PRODUCER = 4242
STARTED_MS = int(time.time() * 1000)
"""Kafka forgets producers whose batches are older than a day."""
CONFIGS = {
    PLAIN: {"segment.ms": "200"},
    CLEANED: {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0"},
    FOREIGN: {},
}


@pytest.fixture(params=["from Kafka to tidelog", "from tidelog to Kafka"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    """The directories that the files come from and go to.

    Both nodes are stopped.
    """
    skip_unless_kafka_is_there()
    kafka = KafkaNode(tmp_path / "kafka", properties=PROPERTIES)
    ours = BrokerProcess(tmp_path / "tidelog", properties=PROPERTIES)
    yield (kafka, ours) if request.param.startswith("from Kafka") else (ours, kafka)
    for node in (kafka, ours):
        node.__exit__(None, None, None)


@contextmanager
def running(node: Node) -> Iterator[Wire]:
    """Start a node, speak with it, and stop it in order."""
    node.start()
    with Wire(node.bootstrap) as wire:
        yield wire
    node.stop()


def rows_of(wire: Wire, topic: str) -> list[Record]:
    rows: list[Record] = []
    offset = 0
    while True:
        records = bytes(
            wire.ask(fetch(topic, offset), 11).responses[0].partitions[0].records or b""
        )
        whole = [
            (start, header)
            for start, header in iterate_headers(records, is_torn_tail_ok=True)
            if header.last_offset >= offset
        ]
        if not whole:
            return rows
        rows += [record for start, _ in whole for record in iterate_records(records, start)]
        offset = whole[-1][1].next_offset


def fill(wire: Wire, topic: str, first: int, count: int) -> None:
    """Append batches of all codecs in turn, of one idempotent producer, each with a time of its
    own.
    """
    for number in range(first, first + count):
        rows = [
            (STARTED_MS + 10 * number, b"%d" % (index % 3), b"value %d %d " % (number, index) * 5)
            for index in range(5)
        ]
        content = build_batch(
            rows,
            codec=Codec(number % 5),
            producer_id=PRODUCER,
            producer_epoch=0,
            base_sequence=5 * number,
        )
        produce(wire, topic, content)


def consume(node: Node, topic: str, count: int) -> list[bytes]:
    """Read with a client that follows leader epochs."""
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + 40
    while len(values) < count and time.monotonic() < deadline:
        for record in consumer.consume(500, timeout=1):
            assert record.error() is None, record.error()
            values.append(record.value() or b"")
    consumer.close()
    return values


def test_moved_files_are_served_on(nodes: tuple[Node, Node]) -> None:
    """The batches are compressed, idempotent and cleaned.

    A directory of another topic id is a stray to both.
    """
    source, target = nodes
    with running(source) as wire:
        for topic, configs in CONFIGS.items():
            create(wire, topic, configs)
            fill(wire, topic, 0, 30)
    before = {}
    for start in (30, 35):  # each start is a later leader epoch
        with running(source) as wire:
            for topic in CONFIGS:
                source_epoch = await_leader(wire, topic)
                fill(wire, topic, start, 5)
            await_cleaned(wire)
            before = {topic: rows_of(wire, topic) for topic in CONFIGS}
    with running(target) as wire:
        for topic, configs in CONFIGS.items():
            create(wire, topic, {**configs, "min.cleanable.dirty.ratio": "1"})
            produce(
                wire, topic, build_batch([(STARTED_MS, b"k", b"what was there before is gone")])
            )
    for topic in (PLAIN, CLEANED):
        move(source, target, topic)
    foreign = data_of(target) / f"{FOREIGN}-0"
    shutil.rmtree(foreign)
    shutil.copytree(data_of(source) / foreign.name, foreign)
    with running(target) as wire:
        target_epoch = await_leader(wire, PLAIN)
        assert target_epoch < source_epoch <= max(epochs_in(source, PLAIN))
        for topic in (PLAIN, CLEANED):
            check_that_it_is_served_on(wire, topic, before[topic])
            values = [record.value for record in rows_of(wire, topic)]
            assert consume(target, topic, len(values)) == values
        # Tidelog gives no offset of the log that is gone again.
        begins_at = 1 if isinstance(target, BrokerProcess) else 0
        await_leader(wire, FOREIGN, begins_at)
        assert produce(wire, FOREIGN, build_batch([(STARTED_MS, b"k", b"anew")])) == begins_at
    check_the_files(source, target, target_epoch)
    if isinstance(target, BrokerProcess):
        with running(target) as wire:
            assert await_leader(wire, CLEANED) > target_epoch
            fill(wire, CLEANED, 43, 1)
            assert rows_of(wire, CLEANED)[-1].offset == 5 * 44 - 1


def check_that_it_is_served_on(wire: Wire, topic: str, before: list[Record]) -> None:
    await_leader(wire, topic)
    assert rows_of(wire, topic) == before
    fill(wire, topic, 40, 3)
    repeated = build_batch(
        [(STARTED_MS, b"k", b"x")] * 5, producer_id=PRODUCER, producer_epoch=0, base_sequence=5 * 39
    )
    assert produce(wire, topic, repeated) == 5 * 39, "the producer's state came along"
    assert [record.offset for record in rows_of(wire, topic)[-15:]] == list(range(200, 215))


def check_the_files(source: Node, target: Node, target_epoch: int) -> None:
    for topic in (PLAIN, CLEANED):
        epochs = epochs_in(target, topic)
        assert epochs[target_epoch] == 200, "what is appended is of the target's own epoch"
        assert max(epochs) == target_epoch, "those above it are gone"
        assert "isvalid: false" not in dump(
            data_of(target) / f"{topic}-0", ".log", "--deep-iteration"
        )
    (stray,) = [path for path in data_of(target).iterdir() if path.name.endswith("-stray")]
    name = "00000000000000000000.log"
    assert (stray / name).read_bytes() == (data_of(source) / f"{FOREIGN}-0" / name).read_bytes()


def epochs_in(node: Node, topic: str) -> dict[int, int]:
    """Return what the leader epoch checkpoint says: the start offset of each epoch."""
    _, _, *lines = (
        (data_of(node) / f"{topic}-0" / "leader-epoch-checkpoint").read_text().splitlines()
    )
    return {int(epoch): int(offset) for epoch, offset in (line.split() for line in lines)}


def await_cleaned(wire: Wire) -> None:
    """Wait until all but the active segment is clean: three keys, each once."""
    deadline = time.monotonic() + 30
    seen: list[Record] = []
    while len(rows := rows_of(wire, CLEANED)) > 3 + 5 + 5 or rows != seen:
        # One more pass may come after the first that is enough.
        assert time.monotonic() < deadline
        seen = rows
        time.sleep(1)


def test_transactions_move_with_the_files(nodes: tuple[Node, Node]) -> None:
    """Two producers write in between each other.

    Some transactions are committed, some aborted, and one was open when the node stopped.

    What readers of committed records get stays, and so do the indexes of aborted transactions and
    what is known of the producers. Readers wait for the open one until an operator aborts it: no
    coordinator knows of it there.
    """
    source, target = nodes
    for node in nodes:
        with running(node) as wire:
            create(wire, PLAIN, CONFIGS[PLAIN])
            if node is source:
                write_transactions(source)
    move(source, target, PLAIN)
    expected = [f"committed {number}".encode() for number in (0, 2) for _ in range(5)]
    held = aborted_indexes(source)
    assert held, "two were aborted"
    for start in range(2):
        target.start()
        with Wire(target.bootstrap) as wire:
            await_leader(wire, PLAIN)
            assert aborted_indexes(target).items() >= held.items()
            produce(wire, PLAIN, build_batch([(STARTED_MS, None, b"after")]))
        if start == 0:
            assert (
                read_all(target.bootstrap, PLAIN, len(expected), isolation_level="read_committed")
                == expected
            )
            with BlockingAdmin(target.bootstrap) as admin:
                states = admin.describe_producers([TopicPartition(PLAIN, 0)])[
                    TopicPartition(PLAIN, 0)
                ]
                assert sorted(state.transaction_start_offset >= 0 for state in states) == [
                    False,
                    True,
                ]
                (hanging,) = admin.find_hanging_transactions(
                    [TopicPartition(PLAIN, 0)], open_longer_than_ms=0
                )
                admin.abort_transaction(hanging)
        expected.append(b"after")
        assert (
            read_all(target.bootstrap, PLAIN, len(expected), isolation_level="read_committed")
            == expected
        )
        assert read_with_our_client(target.bootstrap, len(expected)) == expected
        target.kill()
    assert "isvalid: false" not in dump(data_of(target) / f"{PLAIN}-0", ".log", "--deep-iteration")
    assert len(dump(data_of(target) / f"{PLAIN}-0", ".txnindex").splitlines()) >= 3


def write_transactions(node: Node) -> None:
    """Write five transactions, and leave the last one open."""
    writers = [
        Producer(settings(node.bootstrap, transactional_id=f"writer {number}"))
        for number in range(2)
    ]
    for writer in writers:
        writer.init_transactions()
    for number, outcome in enumerate(["committed", "aborted", "committed", "aborted", "open"]):
        writer = writers[number % 2]
        writer.begin_transaction()
        for _ in range(5):
            writer.produce(PLAIN, f"{outcome} {number}")
        writer.flush()
        if outcome != "open":
            writer.commit_transaction() if outcome == "committed" else writer.abort_transaction()
        time.sleep(0.3)  # the next batch begins a segment


def aborted_indexes(node: Node) -> dict[str, bytes]:
    """Return what the indexes of aborted transactions hold."""
    paths = (data_of(node) / f"{PLAIN}-0").glob("*.txnindex")
    return {path.name: path.read_bytes() for path in paths if path.stat().st_size}


def read_with_our_client(bootstrap: str, count: int) -> list[bytes]:
    with BlockingConsumer(
        bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as reader:
        reader.assign([TopicPartition(PLAIN, 0)])
        return [bytes(record.value or b"") for record in islice(reader, count)]
