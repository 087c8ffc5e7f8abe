"""Measures one decision of the controller with few topics and with many.

A decision is made, applied to the controller's metadata, committed and published. A cluster of 100,
10,000 and 100,000 topics of one partition each is loaded from a snapshot. A decision is made on the
controller's metadata and applied to it. Then its records come back as a committed batch, and a
publisher gets the changes. Nothing is encoded or written, because the cost of a log does not depend
on the number of topics. The figure is CPU time.
"""

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from uuid import UUID

from benchmarks.rounds import Bench, Sides, say
from benchmarks.table import OURS, Row
from log_service.common.types import LeaderEpoch
from log_service.config.views import TopicDefaults
from log_service.controller.rules.configs import incremental_alter_configs
from log_service.controller.rules.topics import TopicRules, create_topics
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.metadata.loader import MetadataLoader
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.stored.metadata_records import (
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from log_service.raft.batches import MetadataBatch
from log_service.raft.log_view import SnapshotId
from log_service.raft.snapshots import Snapshot

TOPIC_COUNTS = (100, 10_000, 100_000)
REPETITION_COUNT, DECISION_COUNT = 10, 100
"""The number of repetitions, and of decisions in each.

Each repetition begins with the cluster as it was loaded, so that a hundred topics do not become
thousands.
"""
FIRST_NEW_ID = 1 << 64

Decide = Callable[[MetadataImage, int], Sequence[MetadataRecord]]


class Watcher:
    """A publisher that looks at the changes, and at nothing else."""

    def __init__(self) -> None:
        self.change_count = 0

    def on_image(self, delta: MetadataDelta, _image: MetadataImage) -> None:
        self.change_count += sum(
            len(changed.changed_partitions) for changed in delta.changed_topics.values()
        ) + len(delta.changed_configs)


class Metadata:
    """The metadata of the active controller, and that of its node's brokers.

    The latter follows the committed records.
    """

    def __init__(self, topic_count: int) -> None:
        self.topic_count = topic_count
        self.watcher = Watcher()
        self._loader = MetadataLoader()
        self._loader.on_snapshot(
            Snapshot(SnapshotId(1, 1), tuple(first_records(topic_count)), (), 0)
        )
        self._loader.add_publisher(self.watcher)
        self._first = self._ahead = self._loader.image
        self._number = 0

    def begin_again(self) -> None:
        """Forget every decision."""
        self._loader.image = self._ahead = self._first

    def decide(self, decide: Decide) -> None:
        """Make one decision, apply it, commit it and publish it."""
        self._number += 1
        records = tuple(decide(self._ahead, self._number))
        offset = self._ahead.offset + len(records)
        delta = MetadataDelta(self._ahead)
        for record in records:
            delta.replay(record)
        self._ahead = delta.build(offset=offset, epoch=1)
        batch = MetadataBatch(
            base_offset=offset - len(records) + 1,
            last_offset=offset,
            epoch=LeaderEpoch(1),
            timestamp_ms=0,
            size_bytes=0,
            records=records,
        )
        self._loader.on_batches([batch])


def topic_name(number: int) -> str:
    return f"topic.{number:06}"


def topic_id(number: int) -> UUID:
    return UUID(int=number * 0x9E3779B97F4A7C15 << 32)


def first_records(topic_count: int) -> Iterator[MetadataRecord]:
    """Yield a broker and topics. Every tenth topic has a configuration."""
    yield RegisterBrokerRecord(broker_id=1, broker_epoch=1, fenced=False, log_dirs=[UUID(int=500)])
    for number in range(topic_count):
        yield TopicRecord(name=topic_name(number), topic_id=topic_id(number))
        yield PartitionRecord(
            topic_id=topic_id(number),
            partition_id=0,
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
        )
        if number % 10 == 0:
            yield ConfigRecord(
                resource_type=ResourceType.TOPIC,
                resource_name=topic_name(number),
                name="retention.ms",
                value="1",
            )


def alter_partition(
    topic_count: int, _image: MetadataImage, number: int
) -> Sequence[MetadataRecord]:
    return [
        PartitionChangeRecord(
            topic_id=topic_id(number * 7919 % topic_count), partition_id=0, isr=[1]
        )
    ]


def create_topic(topic_count: int, image: MetadataImage, number: int) -> Sequence[MetadataRecord]:
    name = f"{topic_name(number * 7919 % topic_count)}.{number}"
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
    )
    new_id = UUID(int=FIRST_NEW_ID + number)
    rules = TopicRules(
        defaults=TopicDefaults(), static_texts={}, new_id=lambda: new_id, charge=lambda _count: None
    )
    return create_topics(image, request, rules)[0]


def change_config(topic_count: int, image: MetadataImage, number: int) -> Sequence[MetadataRecord]:
    change = AlterableConfig(name="retention.ms", config_operation=0, value=str(1_000_000 + number))
    name = topic_name(number * 7919 % topic_count)
    resource = AlterConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name=name, configs=[change]
    )
    return incremental_alter_configs(
        image, IncrementalAlterConfigsRequest(resources=[resource]), {}
    )[0]


DECISIONS = {
    "AlterPartition": alter_partition,
    "topic creation": create_topic,
    "config change": change_config,
}


def measure(clusters: Sequence[Metadata]) -> list[Row]:
    """Measure one round.

    The collector of cycles leaves the clusters alone, as it does in a node that has started.
    """
    gc.collect()
    gc.freeze()
    try:
        return [
            Row(
                figure=f"{kind}, {metadata.topic_count:,} topics",
                unit="us",
                rounds=(microseconds(metadata, kind),),
            )
            for kind in DECISIONS
            for metadata in clusters
        ]
    finally:
        gc.unfreeze()


def microseconds(metadata: Metadata, kind: str) -> float:
    decide = partial(DECISIONS[kind], metadata.topic_count)
    started = time.process_time()
    for _ in range(REPETITION_COUNT):
        metadata.begin_again()
        for _ in range(DECISION_COUNT):
            metadata.decide(decide)
    return (time.process_time() - started) * 1e6 / (REPETITION_COUNT * DECISION_COUNT)


@contextlib.contextmanager
def decisions(bench: Bench) -> Iterator[Sides]:
    """Load the clusters once for all rounds."""
    bench.stop_brokers()
    say("decisions: loading clusters")
    clusters = [Metadata(bench.count(topic_count, at_least=100)) for topic_count in TOPIC_COUNTS]
    yield Sides(measures={OURS: partial(measure, clusters)})
