"""Nodes of tidelog and of Apache Kafka over the same directories, one after the other."""

import shutil
import time
from pathlib import Path

from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from log_service.protocol.messages.fetch import FetchRequest, FetchTopic
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.helpers.broker_process import BrokerProcess
from tests.integration.kafka_node import KafkaNode
from tests.integration.record_requests import produce_request, wanted
from tests.integration.wire import Wire

PROPERTIES = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.retention.ms": "-1",
}
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
Node = KafkaNode | BrokerProcess


def data_of(node: Node) -> Path:
    return node.directory / "data"


def create(wire: Wire, topic: str, configs: dict[str, str]) -> None:
    named = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
    wanted_topic = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, configs=named)
    created = wire.ask(CreateTopicsRequest(topics=[wanted_topic], timeout_ms=10_000), 7).topics[0]
    assert created.error_code == 0, created
    await_leader(wire, topic)


def await_leader(wire: Wire, topic: str, start_offset: int = 0) -> int:
    """Wait until the partition is led, from its first offset on, and return its leader epoch."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    deadline = time.monotonic() + 20
    while True:
        partitions = wire.ask(request, 9).topics[0].partitions
        if (
            partitions
            and partitions[0].leader_id >= 0
            and wire.ask(fetch(topic, start_offset), 11).responses[0].partitions[0].error_code == 0
        ):
            epoch: int = partitions[0].leader_epoch
            return epoch
        assert time.monotonic() < deadline
        time.sleep(0.1)


def fetch(topic: str, offset: int) -> FetchRequest:
    topics = [FetchTopic(topic=topic, partitions=[wanted(0, offset)])]
    return FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics)


def produce(wire: Wire, topic: str, content: bytes) -> int:
    """Append a batch and return its base offset."""
    answer = wire.ask(produce_request(topic, content), 9).responses[0].partition_responses[0]
    assert answer.error_code == 0, answer
    base_offset: int = answer.base_offset
    return base_offset


def move(source: Node, target: Node, topic: str) -> None:
    """Replace the partition's files, but for the one with the topic's id.

    Entries of the checkpoints for it are dropped.
    """
    into = data_of(target) / f"{topic}-0"
    for path in into.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in (data_of(source) / f"{topic}-0").iterdir():
        if path.name != "partition.metadata":
            shutil.copy2(path, into / path.name)
    for name in CHECKPOINTS:
        path = data_of(target) / name
        if path.exists() and path.read_text():
            version, _, *lines = path.read_text().splitlines()
            kept = [line for line in lines if line.rpartition(" ")[0] != f"{topic} 0"]
            path.write_text("\n".join([version, str(len(kept)), *kept, ""]))
