"""DeleteRecords (API key 21), versions 0-2.

Behaviour: moves each partition's log start offset up to the requested one (-1: the high watermark).
Responds once every live replica has done so, or with REQUEST_TIMED_OUT after ``timeout_ms``. The
low watermark is the least log start offset of the live replicas. Retention later deletes the whole
segments before it. An offset beyond the high watermark is OFFSET_OUT_OF_RANGE, a topic that is only
compacted POLICY_VIOLATION, an internal topic INVALID_TOPIC_EXCEPTION.

Versions: 2 flexible. KIP-107.
"""

from log_service.broker.cluster_view import is_internal
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from log_service.replication.partition import Partition


class DeleteRecordsPartitionStatus:
    """A partition whose followers have not all moved their log start offset yet."""

    __slots__ = ("partition", "required_offset", "result")

    def __init__(
        self, partition: Partition, required_offset: int, result: DeleteRecordsPartitionResult
    ) -> None:
        self.partition = partition
        self.required_offset = required_offset
        self.result = result

    def maybe_finish(self) -> bool:
        """Return whether the partition's result is known. If so, write it into the response."""
        partition, result = self.partition, self.result
        if not partition.is_leader:
            result.error_code, result.low_watermark = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
            return True
        result.low_watermark = partition.low_watermark
        return result.low_watermark >= self.required_offset


class DelayedDelete:
    """A DeleteRecords request that waits for followers."""

    __slots__ = ("_awaited", "_deferred", "_response")

    def __init__(
        self,
        response: DeleteRecordsResponse,
        awaited: list[DeleteRecordsPartitionStatus],
        deferred: Deferred,
    ) -> None:
        self._response = response
        self._awaited = {each.partition.topic_partition: each for each in awaited}
        self._deferred = deferred

    def is_ready(self, key: TopicPartition) -> bool:
        """Apply the new state of partition ``key``. Return whether the request is complete.

        Does not raise, because the fetch of a follower runs this. A bug closes the connection of
        this request instead.
        """
        try:
            return self.try_complete(key)
        except Exception as error:  # noqa: BLE001 - a bug of ours: its own connection pays
            self._deferred.fail(error)  # a follower's fetch runs this check, and must not fail
            return True

    def try_complete(self, key: TopicPartition) -> bool:
        """Apply the new state of a partition. Return whether the request is complete."""
        awaited = self._awaited.get(key)
        if awaited is not None and awaited.maybe_finish():
            del self._awaited[key]
        return not self._awaited

    def on_ready(self) -> None:
        """Send the response."""
        self._deferred.complete(self._response)

    def on_expired(self) -> None:
        """Respond that some replicas still have the records."""
        for awaited in self._awaited.values():
            awaited.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._deferred.complete(self._response)


def handle_delete_records(
    node: Node, call: Call, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Deferred:
    """Delete from each partition by itself. The last offset for a repeated partition counts."""
    topics: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        topics.setdefault(topic.name, {}).update(
            {wanted.partition_index: wanted for wanted in topic.partitions}
        )
    deleted: list[DeleteRecordsPartitionStatus] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=name,
                partitions=[_delete(node, name, wanted, deleted) for wanted in partitions.values()],
            )
            for name, partitions in topics.items()
            if partitions
        ]
    )
    awaited = [each for each in deleted if not each.maybe_finish()]
    if not awaited:
        return response
    deferred = call.defer()
    keys = [each.partition.topic_partition for each in awaited]
    deadline_ms = node.clock.monotonic_ms() + max(request.timeout_ms, 0)
    watch = node.replicas.delayed_deletes.watch(
        DelayedDelete(response, awaited, deferred), keys, deadline_ms
    )
    deferred.on_discard(watch.cancel)
    return deferred


def _delete(
    node: Node,
    topic: str,
    wanted: DeleteRecordsPartition,
    deleted: list[DeleteRecordsPartitionStatus],
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
    if is_internal(topic):
        result.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return result
    try:
        partition = node.replicas.get_partition(topic, wanted.partition_index)
        log_start_offset = partition.delete_records(wanted.offset)
    except KafkaError as error:
        result.error_code = error.code
        return result
    result.low_watermark = log_start_offset
    deleted.append(
        DeleteRecordsPartitionStatus(
            partition, log_start_offset if wanted.offset < 0 else wanted.offset, result
        )
    )
    return result
