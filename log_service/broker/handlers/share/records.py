"""ShareRecords (API key 32001, ours), version 0: the records of a share group that are in flight.

Behaviour: each partition that this node leads responds with ranges of offsets in the same state:
available again, acquired, acknowledged out of order, or archived. A range has the number of its
deliveries, and an acquired one the member that holds it and the milliseconds until its lock
expires. A partition from which the group has not fetched since this node began to lead it has start
offset -1. The ranges of a response are bounded, and ``record_count`` counts all records in flight.
A partition's error is UNKNOWN_TOPIC_OR_PARTITION or NOT_LEADER_OR_FOLLOWER.

Kafka has no such request, because only the leader of a partition knows these states. The key is
far outside Kafka's range and ApiVersions does not list it.
"""

from collections.abc import Iterator
from itertools import islice

from log_service.broker.node import Node
from log_service.broker.requests.call import Call
from log_service.common.errors import KafkaError
from log_service.coordinator.share.record_states import RecordState
from log_service.coordinator.share.share_partition import SharePartition
from log_service.coordinator.share.share_state import ShareKey
from log_service.protocol.messages.share_records import (
    ShareRecordsPartitionResult,
    ShareRecordsRange,
    ShareRecordsRequest,
    ShareRecordsResponse,
    ShareRecordsTopicResult,
)

MAX_RANGES = 2_000
"""The most ranges of a response, so that it is made in a few milliseconds."""
MAX_LOCK_MS = 2**31 - 1


def handle_share_records(
    node: Node,
    call: Call,  # noqa: ARG001 - one shape for all
    request: ShareRecordsRequest,
) -> ShareRecordsResponse:
    """Describe each partition by itself, once even if it is repeated."""
    indexes: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        indexes.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions))
    left = min(max(request.max_ranges, 0), MAX_RANGES)
    topics = []
    for name, of_topic in indexes.items():
        results = []
        for index in of_topic:
            result = _described(node, request.group_id, name, index, left)
            left -= len(result.ranges)
            results.append(result)
        topics.append(ShareRecordsTopicResult(name=name, partitions=results))
    return ShareRecordsResponse(topics=topics)


def _described(
    node: Node, group_id: str, topic: str, index: int, left: int
) -> ShareRecordsPartitionResult:
    try:
        partition = node.replicas.get_partition(topic, index)
        partition.served_log()
    except KafkaError as error:
        return ShareRecordsPartitionResult(
            partition_index=index, error_code=error.code, error_message=str(error)
        )
    topic_id = node.image().topics.by_name[topic].topic_id
    led = node.shares.find(ShareKey(group_id=group_id, topic_id=topic_id, partition=index))
    core = None if led is None else led.core
    if core is None:
        return ShareRecordsPartitionResult(partition_index=index)
    return ShareRecordsPartitionResult(
        partition_index=index,
        start_offset=core.start_offset,
        record_count=core.record_count,
        ranges=list(islice(_ranges(core, node.clock.monotonic_ms()), left)),
    )


def _ranges(core: SharePartition, now_ms: int) -> Iterator[ShareRecordsRange]:
    for run in core.runs():
        delivery = run.delivery
        lock_ms = -1
        if delivery.state is RecordState.ACQUIRED:
            lock_ms = min(max(0, delivery.lock_deadline_ms - now_ms), MAX_LOCK_MS)
        yield ShareRecordsRange(
            first_offset=run.first,
            last_offset=run.last,
            delivery_state=delivery.state,
            delivery_count=delivery.delivery_count,
            member_id=delivery.member_id,
            lock_ms=lock_ms,
        )
