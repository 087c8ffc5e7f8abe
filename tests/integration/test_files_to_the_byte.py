"""Files that tidelog writes while it serves are read by Apache Kafka's own dump tool.

They are held against the files that Kafka writes for the same.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from log_service.records.builder import build_batch
from tests.helpers.broker_process import BrokerProcess
from tests.integration.kafka_node import KafkaNode, dump, skip_unless_kafka_is_there
from tests.integration.record_requests import THEN, produce_request
from tests.integration.wire import Wire

PROPERTIES = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "1",
}
INDEXES = (".index", ".timeindex")


def create(wire: Wire, name: str, **configs: str) -> None:
    named = [
        CreatableTopicConfig(name=key.replace("_", "."), value=value)
        for key, value in configs.items()
    ]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=named)
    assert (
        wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0].error_code
        == 0
    )
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    while not all(
        partition.leader_id >= 0 for partition in wire.ask(request, 9).topics[0].partitions
    ):
        time.sleep(0.05)


def produce(wire: Wire, topic: str, *batches: bytes) -> None:
    for content in batches:
        deadline = time.monotonic() + 20
        while (
            answer := wire.ask(produce_request(topic, content), 9)
            .responses[0]
            .partition_responses[0]
        ).error_code == 6:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert answer.error_code == 0, answer


def history() -> list[bytes]:
    """Batches of many sizes by an idempotent producer, with times that go forth and back."""
    batches = []
    for number in range(120):
        rows = [
            (
                THEN + 7 * number - 40 * (number % 5),
                b"key %d" % (number % 9),
                b"v" * (number % 50) * 20,
            )
            for _ in range(5)
        ]
        batches.append(
            build_batch(rows, producer_id=77, producer_epoch=0, base_sequence=5 * number)
        )
    return batches


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the data of a tidelog that served and was stopped in order.

    It had a plain topic, a compacted one and a group.
    """
    skip_unless_kafka_is_there()
    broker = BrokerProcess(tmp_path_factory.mktemp("tidelog"), properties=PROPERTIES)
    with broker, Wire(broker.bootstrap) as wire:
        create(wire, "plain")
        produce(wire, "plain", *history())
        create(
            wire,
            "compacted",
            cleanup_policy="compact",
            segment_ms="100",
            min_cleanable_dirty_ratio="0",
        )
        produce(wire, "compacted", *history())
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "the-group"})
        consumer.commit(offsets=[TopicPartition("plain", 0, 17)], asynchronous=False)
        consumer.close()
        directory = broker.directory / "data" / "compacted-0"
        deadline = time.monotonic() + 20
        while not any(path.name.endswith(".deleted") for path in directory.iterdir()):
            assert time.monotonic() < deadline, "nothing was compacted"
            time.sleep(0.1)
        broker.stop()
        yield broker.directory / "data"


def is_sound(printed: str) -> bool:
    """Return whether the tool found every index sound.

    It calls an index empty if its segment is smaller than an interval.
    """
    told = [line for line in printed.splitlines() if not line.startswith("Dumping")]
    return bool(told) and all(line.endswith(("passed sanity check.", "is empty.")) for line in told)


@pytest.mark.parametrize("directory", ["plain-0", "compacted-0", "__consumer_offsets-0"])
def test_the_dump_tool_finds_no_fault_in_a_partition(data: Path, directory: str) -> None:
    printed = dump(data / directory, ".log", "--deep-iteration", "--print-data-log")
    assert "isvalid: true" in printed
    assert "isvalid: false" not in printed
    for suffix in INDEXES:
        assert is_sound(dump(data / directory, suffix, "--index-sanity-check"))
        printed = dump(data / directory, suffix, "--verify-index-only")
        assert [
            line
            for line in printed.splitlines()
            if not line.startswith("Dumping") and not line.endswith("is empty.")
        ] == []
    if directory != "__consumer_offsets-0":
        assert "producerId: 77" in dump(data / directory, ".snapshot")


def test_the_dump_tool_decodes_committed_offsets(data: Path) -> None:
    printed = dump(data / "__consumer_offsets-0", ".log", "--offsets-decoder", "--deep-iteration")
    assert '"group":"the-group","topic":"plain","partition":0' in printed
    assert '"offset":17' in printed


def test_the_dump_tool_decodes_the_metadata(data: Path) -> None:
    printed = dump(
        data / "__cluster_metadata-0",
        ".log",
        "--cluster-metadata-decoder",
        "--deep-iteration",
        "--skip-record-metadata",
    )
    assert '"name":"compacted"' in printed
    assert "isvalid: false" not in printed
    for suffix in INDEXES:
        assert is_sound(dump(data / "__cluster_metadata-0", suffix, "--index-sanity-check"))


def test_the_files_of_a_partition_equal_those_that_kafka_writes(data: Path, tmp_path: Path) -> None:
    """After a stop in order: the same names, the same batches, indexes trimmed to the same entries."""
    kafka = KafkaNode(tmp_path / "kafka", properties=PROPERTIES)
    with kafka, Wire(kafka.bootstrap) as wire:
        create(wire, "plain")
        produce(wire, "plain", *history())
        kafka.stop()
    theirs, ours = kafka.data / "plain-0", data / "plain-0"
    assert sorted(path.name for path in ours.iterdir()) == sorted(
        path.name for path in theirs.iterdir()
    )
    for name in (
        "00000000000000000000.log",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
    ):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
