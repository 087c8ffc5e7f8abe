"""A broker of a cluster describes it to clients as Apache Kafka's does on the same metadata.

Three nodes of Apache Kafka run; node 3 is killed and fenced. Then node 1 is asked, and its metadata
log is read. Our handlers, as node 1, get the same records and the same requests. The answers are
compared field by field.

The records and Kafka's responses lie in ``recorded/cluster_image.json``, so that the test needs no
Java; with ``TIDELOG_KAFKA_LIBS`` they are made anew and compared in a long run, and in every run
once this module has changed (see ``stories``), with ``TIDELOG_RECORD=1`` written down.
"""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import trio

from log_service.client import BlockingAdmin
from log_service.common.types import TopicId
from log_service.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from log_service.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from log_service.protocol.messages.describe_cluster import DescribeClusterRequest
from log_service.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from log_service.protocol.messages.describe_producers import DescribeProducersRequest
from log_service.protocol.messages.describe_producers import TopicRequest as ProducersOfTopic
from log_service.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from log_service.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.protocol.stored.metadata_records import MetadataRecord, TopicRecord
from log_service.protocol.stored.serde import decode_metadata_record
from log_service.records.batch import iterate_headers, iterate_records
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.helpers.java_archives import KAFKA_LIBS
from tests.integration import stories
from tests.integration.client_clusters import APACHE_KAFKA
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.differential import RECORD, normalise, one_response_a_line
from tests.integration.wire import Wire
from tests.unit.replication.context import sent

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

RECORDING = Path(__file__).parent / "recorded" / "cluster_image.json"
TOPICS = ("spread", "lonely", "pair", "__consumer_offsets")
GROUPS = ("g", "group", "console-consumer")
Question = tuple[str, Any, int]
NOT_COMPARED = ("controller_id",)
"""Any broker that is not fenced is told as the controller; which one is left to chance."""


def created() -> CreateTopicsRequest:
    def topic(name: str, *assignments: list[int], **configs: str) -> CreatableTopic:
        placed = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in enumerate(assignments)
        ]
        named = [
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ]
        return CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=placed, configs=named
        )

    return CreateTopicsRequest(
        topics=[
            topic("spread", [1, 2, 3], [2, 3, 1], [3, 1, 2]),
            topic("lonely", [1], [2], [3], min_insync_replicas="1"),
            topic("pair", [3, 2], [2, 3], min_insync_replicas="2"),
        ],
        timeout_ms=10_000,
    )


def questions(ids: dict[str, UUID]) -> Iterator[Question]:
    """Yield what is asked: a name, the request and its version."""
    for version in (0, 1, 4, 5, 7, 9, 10, 12, 13):
        named = [MetadataRequestTopic(name=name) for name in (*TOPICS, "missing")]
        yield (
            f"metadata {version}",
            MetadataRequest(topics=named, allow_auto_topic_creation=version < 4),
            version,
        )
    by_id = [
        MetadataRequestTopic(name=None, topic_id=ids["pair"]),
        MetadataRequestTopic(name=None, topic_id=UUID(int=99)),
    ]
    yield "metadata by id", MetadataRequest(topics=by_id, allow_auto_topic_creation=False), 13
    asked = [TopicRequest(name=name) for name in (*TOPICS, "missing")]
    yield (
        "topic partitions",
        DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=100),
        0,
    )
    yield "cluster 0", DescribeClusterRequest(), 0
    yield "cluster 1", DescribeClusterRequest(), 1
    yield "cluster 2", DescribeClusterRequest(), 2
    yield "cluster with fenced", DescribeClusterRequest(include_fenced_brokers=True), 2
    for group_id in GROUPS:
        yield f"coordinator of {group_id}", FindCoordinatorRequest(key=group_id, key_type=0), 3
    yield "coordinators", FindCoordinatorRequest(key_type=0, coordinator_keys=list(GROUPS)), 4
    yield from _about_records(ids)
    for name in ("2", "3", "9"):
        resource = DescribeConfigsResource(
            resource_type=4, resource_name=name, configuration_keys=["broker.rack"]
        )
        yield f"configs of broker {name}", DescribeConfigsRequest(resources=[resource]), 4


def _about_records(ids: dict[str, UUID]) -> Iterator[Question]:
    """Yield requests that only a partition's leader serves.

    0 is led here, 1 elsewhere, 2 by no broker, and 3 is not there.
    """
    numbers = range(4)
    listed = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in numbers]
    yield (
        "list offsets",
        ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name="lonely", partitions=listed)]
        ),
        8,
    )
    for epoch in (0, 7):
        one = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)
        yield (
            f"list offsets {epoch}",
            ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name="lonely", partitions=[one])]
            ),
            8,
        )
    ended = [OffsetForLeaderPartition(partition=number, leader_epoch=0) for number in numbers]
    yield (
        "epoch ends",
        OffsetForLeaderEpochRequest(
            replica_id=-2, topics=[OffsetForLeaderTopic(topic="lonely", partitions=ended)]
        ),
        4,
    )
    cut = [DeleteRecordsPartition(partition_index=number, offset=-1) for number in numbers]
    yield (
        "delete records",
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="lonely", partitions=cut)], timeout_ms=1_000
        ),
        2,
    )
    yield (
        "producers",
        DescribeProducersRequest(
            topics=[ProducersOfTopic(name="lonely", partition_indexes=list(numbers))]
        ),
        0,
    )
    fetched = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1_000)
        for number in numbers
    ]
    wanted = FetchTopic(topic_id=TopicId(ids["lonely"]), partitions=fetched)
    yield "fetch", FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1_000, topics=[wanted]), 16
    for version in (9, 10, 12):
        sending = [PartitionProduceData(index=number, records=sent(b"x")) for number in (1, 2, 3)]
        topics = [TopicProduceData(name="lonely", partition_data=sending)]
        yield (
            f"produce {version}",
            ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics),
            version,
        )
    followed = [PartitionProduceData(index=1, records=sent(b"x"))]
    by_id = [TopicProduceData(topic_id=TopicId(ids["spread"]), partition_data=followed)]
    yield (
        "produce by id to a follower",
        ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=by_id),
        13,
    )


def ask_kafka(directory: Path) -> tuple[list[bytes], dict[str, Any]]:
    """Return the metadata of Kafka's node 1 and its responses."""
    with ClusterNodes(
        APACHE_KAFKA,
        directory,
        {"auto.create.topics.enable": "false", "auto.leader.rebalance.enable": "false"},
    ) as nodes:
        with Wire(f"127.0.0.1:{nodes.ports[1]}") as wire:
            results = wire.ask(created(), 7).topics
            assert [each.error_code for each in results] == [0, 0, 0], results
            ids = {each.name: each.topic_id for each in results}
        with BlockingAdmin(nodes.bootstrap) as admin:
            assert admin.list_group_offsets("g") == {}  # now there are coordinators
        nodes.kill(3)
        nodes.wait_until_told(1, 2)
        with Wire(f"127.0.0.1:{nodes.ports[1]}") as wire:
            responses = {
                name: shown(name, wire.ask(request, version))
                for name, request, version in questions(ids)
            }
        (segment,) = (nodes.data(1) / "__cluster_metadata-0").glob("*.log")
        return list(values_of(segment.read_bytes())), responses


def values_of(content: bytes) -> Iterator[bytes]:
    """Yield the values of the metadata records in a segment."""
    for position, header in iterate_headers(content):
        if not header.is_control:
            yield from (
                bytes(record.value)
                for record in iterate_records(content, position)
                if record.value is not None
            )


def shown(name: str, response: Any) -> Any:
    """Return a response without natural differences.

    With errors of a produce we say why, which Kafka does not.
    """
    return normalise(
        response,
        ignore=(*NOT_COMPARED, "error_message") if name.startswith("produce") else NOT_COMPARED,
    )


def ask_ours(records: Iterable[MetadataRecord], asked: list[Question]) -> dict[str, Any]:
    """Return the responses of our handlers, as node 1 with these records."""
    responses: dict[str, Any] = {}

    async def story(node: HandlerNode) -> None:
        node.publish(*records)
        for name, request, version in asked:
            with trio.fail_after(60):
                responses[name] = shown(name, await node.ask(request, version))

    tell_handlers(story, auto_create_topics_enable="false")
    return responses


def replayed(values: Iterable[bytes]) -> list[MetadataRecord]:
    return [decode_metadata_record(value) for value in values]


def ids_of(records: Iterable[MetadataRecord]) -> dict[str, UUID]:
    return {record.name: record.topic_id for record in records if isinstance(record, TopicRecord)}


def test_clients_of_a_cluster_are_told_what_kafka_tells() -> None:
    recorded = json.loads(RECORDING.read_text())
    records = replayed(b64decode(value) for value in recorded.pop("records"))
    ours = ask_ours(records, list(questions(ids_of(records))))
    assert {name: [told] for name, told in ours.items()} == recorded


@stories.looks_again
def test_kafka_still_tells_what_was_recorded(tmp_path: Path) -> None:
    if KAFKA_LIBS not in os.environ:
        pytest.skip(f"{KAFKA_LIBS} is not set: nothing was asked of Apache Kafka")
    values, theirs = ask_kafka(tmp_path)
    if os.environ.get(RECORD):
        lines = {
            "records": [b64encode(value).decode() for value in values],
            **{name: [told] for name, told in theirs.items()},
        }
        RECORDING.write_text(one_response_a_line(lines))
    records = replayed(values)
    assert ask_ours(records, list(questions(ids_of(records)))) == theirs
    if os.environ.get(RECORD):
        stories.keep_story(Path(__file__))
