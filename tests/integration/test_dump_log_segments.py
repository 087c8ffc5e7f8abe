"""Apache Kafka reads our files and we read its.

Its own dump tool reads ours, and each broker runs on the other's directory.

Needs Java and a folder with Apache Kafka's jars in ``TIDELOG_KAFKA_LIBS``; without them the tests
skip and say so.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
import trio
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from log_service.common.clock import SystemClock
from log_service.common.env import NodeEnv
from log_service.common.types import TopicId, TopicPartition
from log_service.config.views import LogConfig, LogManagerConfig
from log_service.network.sockets import SocketNetwork
from log_service.records.batch import is_crc_valid, iterate_headers, iterate_records
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.validator import accept_own_batches
from log_service.storage.files import RealFiles
from log_service.storage.log import Log
from log_service.storage.log_manager import LogManager
from log_service.storage.recovery import open_log
from tests.helpers.ports import free_ports
from tests.integration.kafka_node import dump, java, java_command

LIBS = os.environ.get("TIDELOG_KAFKA_LIBS", "")
JAVA = shutil.which("java") or ""
TOPIC = "flights"
PARTITION = TopicPartition(TOPIC, 0)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not LIBS or not JAVA,
        reason="set TIDELOG_KAFKA_LIBS to a folder with Apache Kafka's jars, and have java on the PATH",
    ),
]


def append(log: Log, count: int, *, first_sequence: int = 0, leader_epoch: int = 0) -> None:
    """Append ``count`` batches of five records, of all codecs in turn."""
    now_ms = 1_700_000_000_000
    for number in range(count):
        records = [
            (now_ms + 10 * number + index, b"key", b"ours %d" % (5 * number + index) + b"." * 190)
            for index in range(5)
        ]
        sequence = first_sequence + 5 * number
        content = build_batch(
            records,
            codec=Codec(number % 5),
            producer_id=4242,
            producer_epoch=0,
            base_sequence=sequence,
        )
        log.append_as_leader(
            accept_own_batches(bytearray(content)), leader_epoch=leader_epoch, now_ms=now_ms
        )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a log of several segments that was closed in order."""
    path = tmp_path_factory.mktemp("logs") / str(PARTITION)
    log = open_log(
        RealFiles(),
        SystemClock(),
        path,
        PARTITION,
        LogConfig(segment_bytes=50_000),
        topic_id=TopicId(UUID(int=77)),
    )
    append(log, 150, leader_epoch=1)
    append(log, 150, first_sequence=750, leader_epoch=3)
    assert len(log.segments) > 2
    trio.run(log.close)
    return path


def test_kafkas_tool_reads_every_record(directory: Path) -> None:
    printed = dump(directory, ".log", "--deep-iteration", "--print-data-log")
    assert printed.count("| offset: ") == 1500
    assert "offset: 1499 " in printed
    assert "isvalid: false" not in printed
    assert printed.count("partitionLeaderEpoch: 3") == 150
    assert "payload: ours 749" in printed


def test_kafkas_tool_finds_no_fault_in_the_indexes(directory: Path) -> None:
    for suffix in (".index", ".timeindex"):
        assert "passed sanity check" in dump(directory, suffix, "--index-sanity-check")
        printed = dump(directory, suffix, "--verify-index-only")
        assert [line for line in printed.splitlines() if not line.startswith("Dumping")] == []


def test_kafkas_tool_reads_the_producer_snapshots(directory: Path) -> None:
    printed = dump(directory, ".snapshot")
    assert "producerId: 4242 producerEpoch: 0" in printed
    assert "firstSequence: 1495 lastSequence: 1499 lastOffset: 1499 offsetDelta: 4" in printed


class Kafka:
    """A node of Apache Kafka on loopback, in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port, controller_port = free_ports(2)
        self.data = root / "data"
        self.properties = root / "node.properties"
        self.properties.write_text(
            f"process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller_port}\n"
            f"controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\nnum.partitions=1\n"
            f"log.dirs={self.data}\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n"
        )
        java(
            "kafka.tools.StorageTool",
            "format",
            "-t",
            "4L6g3nShT-eMCtK--X86sw",
            "-c",
            str(self.properties),
            cwd=root,
        )

    @contextmanager
    def running(self, end: signal.Signals) -> Iterator[str]:
        """Run it and yield its address; ``end`` is the signal that ends it."""
        command = [*java_command(), "kafka.Kafka", str(self.properties)]
        with (self.root / "output").open("ab") as output:
            process = subprocess.Popen(command, cwd=self.root, stdout=output, stderr=output)
        address = f"127.0.0.1:{self.port}"
        try:
            admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
            await_true(lambda: is_answering(admin), 60)
            yield address
        finally:
            process.send_signal(end)
            process.wait(60)


def await_true(is_so: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "the node did not answer in time"
        time.sleep(0.2)


def is_answering(admin: AdminClient) -> bool:
    try:
        return bool(admin.list_topics(timeout=1).brokers)
    except Exception:  # noqa: BLE001 - the client has one exception for everything
        return False


def produce(address: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "compression.type": "zstd",
            "batch.num.messages": 7,
        }
    )
    for number in range(count):
        producer.produce(TOPIC, b"kafka %d" % number, b"key", timestamp=1_600_000_000_000 + number)
    assert producer.flush(30) == 0


def consume(address: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    values: list[bytes] = []
    deadline = time.monotonic() + 40
    while len(values) < count and time.monotonic() < deadline:
        for record in consumer.consume(500, timeout=1):
            assert record.error() is None, record.error()
            values.append(record.value() or b"")
    consumer.close()
    return values


def manager_of(data: Path) -> LogManager:
    env = NodeEnv(clock=SystemClock(), rng=Random(1), network=SocketNetwork(), files=RealFiles())
    return LogManager(env, LogManagerConfig(log_dirs=(data,)), LogConfig(), node_id=1)


def values_of(log: Log) -> list[bytes | None]:
    values = []
    for chunk in log.read_batches(0):
        for position, header in iterate_headers(chunk):
            assert is_crc_valid(memoryview(chunk)[position : position + header.size_bytes])
            values += [record.value for record in iterate_records(chunk, position)]
    return values


def test_one_directory_serves_both_in_turn(tmp_path: Path) -> None:
    kafka = Kafka(tmp_path)
    with kafka.running(signal.SIGTERM) as address:
        produce(address, 1_000)
    by_kafka: list[bytes | None] = [b"kafka %d" % number for number in range(1_000)]

    async def ours() -> None:
        manager = manager_of(kafka.data)
        await manager.load()
        assert manager.had_clean_shutdown
        assert manager.previous_broker_epoch >= 0
        log = manager.logs[PARTITION]
        assert (log.log_end_offset, values_of(log)) == (1_000, by_kafka)
        assert log.topic_id is not None
        assert len(log.producer_state) == 1
        found = log.offset_for_timestamp(1_600_000_000_500)
        assert found is not None
        assert found.offset == 500
        append(log, 20, leader_epoch=log.latest_leader_epoch)
        await manager.close(broker_epoch=manager.previous_broker_epoch)

    trio.run(ours)
    with kafka.running(signal.SIGTERM) as address:
        values = consume(address, 1_100)
    assert values[:1_000] == by_kafka
    assert [value.rstrip(b".") for value in values[1_000:]] == [
        b"ours %d" % number for number in range(100)
    ]


def test_a_directory_that_kafka_left_in_a_crash_is_recovered(tmp_path: Path) -> None:
    kafka = Kafka(tmp_path)
    with kafka.running(signal.SIGKILL) as address:
        produce(address, 500)

    async def ours() -> None:
        manager = manager_of(kafka.data)
        await manager.load()
        assert not manager.had_clean_shutdown
        assert values_of(manager.logs[PARTITION]) == [b"kafka %d" % number for number in range(500)]
        await manager.close()

    trio.run(ours)
