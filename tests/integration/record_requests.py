"""Builds requests that carry and ask for records, in their shortest form.

Tests that speak the protocol themselves use them.
"""

import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

import crc32c

from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.records.builder import BatchBuilder
from log_service.records.compression import Codec
from tests.integration.differential import Cluster, Duel

THEN = 1_700_000_000_000
NO_ID = UUID(int=0)
STRANGE_ID = UUID(int=12345678901234567890)
TOPIC_RESOURCE = 2

BASE_OFFSET, LENGTH, MAGIC, CRC, ATTRIBUTES, LAST_DELTA = 0, 8, 16, 17, 21, 23
BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, PRODUCER_EPOCH, SEQUENCE, COUNT = 27, 35, 43, 51, 53, 57

ForCluster = Callable[[Cluster], Any]


def batch(
    *timestamps: int,
    codec: Codec = Codec.NONE,
    key: bytes | None = b"key",
    value: bytes = b"value",
    **header: Any,
) -> bytes:
    """A producer's batch with one record per timestamp; one at ``THEN`` without any."""
    builder = BatchBuilder(codec)
    for timestamp in timestamps or (THEN,):
        builder.append(timestamp, key, value)
    return bytes(builder.build(**header))


def idempotent(
    producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0, timestamp: int = THEN
) -> bytes:
    """A batch of an idempotent producer: ``count`` records from ``sequence`` on."""
    return batch(
        *[timestamp] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


def changed(
    content: bytes, position: int, layout: str, value: int, *, is_sealed: bool = True
) -> bytes:
    """The batch with one field of its header changed, and a checksum that holds unless it shall
    not.
    """
    copy = bytearray(content)
    struct.pack_into(layout, copy, position, value)
    if is_sealed:
        struct.pack_into(">I", copy, CRC, crc32c.crc32c(bytes(copy[ATTRIBUTES:])))
    return bytes(copy)


def produce_request(
    topic: str,
    *batches: bytes | None,
    acks: int = -1,
    topic_id: UUID = NO_ID,
    timeout_ms: int = 10_000,
) -> ProduceRequest:
    """One batch for each partition from 0 on."""
    partitions = [
        PartitionProduceData(index=index, records=records) for index, records in enumerate(batches)
    ]
    topics = [TopicProduceData(name=topic, topic_id=topic_id, partition_data=partitions)]
    return ProduceRequest(
        transactional_id=None, acks=acks, timeout_ms=timeout_ms, topic_data=topics
    )


def produce_by_id(topic: str, *batches: bytes) -> ForCluster:
    """The same for version 13, where topics go by their ids."""
    return lambda cluster: produce_request("", *batches, topic_id=cluster.topic_id(topic))


def wanted(partition: int = 0, offset: int = 0, **more: Any) -> FetchPartition:
    """One partition of a fetch."""
    return FetchPartition(
        partition=partition, fetch_offset=offset, **{"partition_max_bytes": 1 << 20, **more}
    )


def fetch_request(topic: str, *partitions: FetchPartition, **more: Any) -> ForCluster:
    """A fetch of one topic, good for every version; without ``max_wait_ms`` it does not wait."""
    settings = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **more}

    def build(cluster: Cluster) -> FetchRequest:
        topic_id = cluster.topic_ids.get(topic, NO_ID)
        return FetchRequest(
            topics=[
                FetchTopic(
                    topic=topic, topic_id=topic_id, partitions=list(partitions or (wanted(),))
                )
            ],
            **settings,
        )

    return build


def forgotten(topic: str, *partitions: int) -> Callable[[Cluster], list[ForgottenTopic]]:
    """Return the partitions that a fetch session shall fetch no longer."""
    return lambda cluster: [
        ForgottenTopic(
            topic=topic, topic_id=cluster.topic_ids.get(topic, NO_ID), partitions=list(partitions)
        ),
    ]


def offsets_request(
    topic: str, *timestamps: int, isolation_level: int = 0, leader_epoch: int = -1
) -> list[ListOffsetsRequest]:
    """One ListOffsets request for each timestamp, of partition 0."""
    return [
        ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=0,
                            current_leader_epoch=leader_epoch,
                            timestamp=timestamp,
                        )
                    ],
                )
            ],
        )
        for timestamp in timestamps
    ]


def configs_request(topic: str, **configs: str) -> IncrementalAlterConfigsRequest:
    """Set configurations of a topic; underscores stand for dots."""
    rows = [
        AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
        for name, value in configs.items()
    ]
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=rows)
        ],
        validate_only=False,
    )


def ready_topic(duel: Duel, name: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic and wait until every partition can be read: Kafka tells a leader before it
    leads.
    """
    duel.create_topic(
        name, partitions, {key.replace("_", "."): value for key, value in configs.items()}
    )
    asked = fetch_request(name, *(wanted(index) for index in range(partitions)))
    duel.until(
        asked,
        11,
        lambda response: (
            not any(partition.error_code for partition in response.responses[0].partitions)
        ),
    )
