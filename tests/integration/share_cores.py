"""Share groups of Apache Kafka for tests that compare its decisions with ours."""

import time
from uuid import UUID

from log_service.protocol.messages import read_share_group_state_summary as summarizing
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.storage.partition_metadata import format_uuid
from tests.integration.wire import Wire

SETTINGS = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
    "group.share.delivery.count.limit": "4",
    "group.share.record.lock.duration.ms": "60000",
    "group.share.max.record.lock.duration.ms": "60000",
}
READY_SECONDS = 30.0


def create_topic(wire: Wire, name: str, partition_count: int) -> UUID:
    topic = CreatableTopic(name=name, num_partitions=partition_count, replication_factor=1)
    (created,) = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics
    assert created.error_code == 0, created.error_message
    topic_id: UUID = created.topic_id
    return topic_id


def await_share_coordinator(wire: Wire, group_id: str, topic_id: UUID) -> None:
    """Have the topic of share states created, and wait until its only partition is led."""
    key = f"{group_id}:{format_uuid(topic_id)}:0"
    asked = summarizing.ReadStateSummaryData(
        topic_id=topic_id, partitions=[summarizing.PartitionData(partition=0)]
    )
    request = summarizing.ReadShareGroupStateSummaryRequest(group_id=group_id, topics=[asked])
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        wire.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
        if wire.ask(request, 0).results[0].partitions[0].error_code == 0:
            return
        time.sleep(0.2)
    raise TimeoutError
