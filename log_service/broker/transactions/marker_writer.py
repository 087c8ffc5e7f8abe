"""Writes the markers of ending transactions to partitions that this node leads.

Any coordinator may send them. Decides the result of each partition that a request names, and when
the response is sent: once every marker is below the high watermark, or refused. Permissions are not
checked here. A request of another node was authorized before, and this node's own coordinators need
no permission. The log refuses a marker of an earlier coordinator or producer epoch in either case.

Partitions of ``__consumer_offsets`` go through the group coordinator, which commits or drops the
offsets of the transaction.

Invariant: ``on_response`` is called once.
"""

from collections.abc import Callable
from functools import partial

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import (
    GROUP_METADATA_TOPIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
)
from log_service.coordinator.group_service import GroupService
from log_service.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from log_service.records.control import EndOfTransaction
from log_service.replication.partition import Partition
from log_service.replication.replica_manager import ReplicaManager

REQUEST_TIMEOUT_MS = 30_000
"""How long a marker may wait for the high watermark, as Kafka's ``request.timeout.ms``."""

_COORDINATOR_IS_ELSEWHERE = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)

OnResponse = Callable[[WriteTxnMarkersResponse], None]


def write_markers(
    replicas: ReplicaManager,
    groups: GroupService,
    request: WriteTxnMarkersRequest,
    on_response: OnResponse,
    deadline_ms: int,
) -> None:
    """Append all markers of a request.

    ``on_response`` is called once, now or later, at ``deadline_ms`` (monotonic) at the latest.
    """
    writing = _Writing(replicas, groups, on_response, deadline_ms)
    for marker in request.markers:
        writing.write(marker)
    writing.finish()


def _partitions_of(marker: WritableTxnMarker) -> list[TopicPartition]:
    """Return the partitions that a marker names, each once."""
    named = (
        TopicPartition(topic.name, index)
        for topic in marker.topics
        for index in topic.partition_indexes
    )
    return list(dict.fromkeys(named))


class _WaitingMarker:
    """An appended marker that waits until all in-sync replicas have it."""

    __slots__ = ("_code", "_leader_epoch", "_partition", "_required_offset", "_settle")

    def __init__(
        self, partition: Partition, required_offset: int, settle: Callable[[ErrorCode], None]
    ) -> None:
        self._partition = partition
        self._leader_epoch = partition.leader_epoch
        self._required_offset = required_offset
        self._settle = settle
        self._code: ErrorCode | None = None

    def is_ready(self, key: TopicPartition) -> bool:  # noqa: ARG002 - it waits for one partition
        """Whether the result of the append is known."""
        self._code = self._partition.acknowledgement(
            self._leader_epoch, self._required_offset, needs_all=True
        )
        return self._code is not None

    def on_ready(self) -> None:
        """Report the result."""
        assert self._code is not None
        self._settle(self._code)

    def on_expired(self) -> None:
        """Report that the replicas did not get the marker in time."""
        self._settle(ErrorCode.REQUEST_TIMED_OUT)


class _Writing:
    """A WriteTxnMarkers request in progress.

    Its markers are appended in order, and their results are sent together.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        groups: GroupService,
        on_response: OnResponse,
        deadline_ms: int,
    ) -> None:
        self._replicas = replicas
        self._groups = groups
        self._on_response = on_response
        self._deadline_ms = deadline_ms
        self._results: dict[int, dict[TopicPartition, ErrorCode]] = {}
        self._missing_count = 1  # the request itself, until all its markers are appended

    def write(self, marker: WritableTxnMarker) -> None:
        """Append a marker to all partitions that it names."""
        end = EndOfTransaction(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            is_abort=not marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
        for where in _partitions_of(marker):
            self._results.setdefault(end.producer_id, {}).setdefault(where, ErrorCode.NONE)
            self._missing_count += 1
            self._write_one(end, where)

    def finish(self) -> None:
        """Count the end of the appends, or one result. After the last one, send the response."""
        self._missing_count -= 1
        if self._missing_count == 0:
            self._on_response(
                WriteTxnMarkersResponse(markers=[_result(*each) for each in self._results.items()])
            )

    def _write_one(self, marker: EndOfTransaction, where: TopicPartition) -> None:
        settle = partial(self._settle, marker.producer_id, where)
        if marker.producer_id == NO_PRODUCER_ID or marker.producer_epoch == NO_PRODUCER_EPOCH:
            settle(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        try:
            partition = self._replicas.get_partition(*where)
        except KafkaError:
            settle(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        if partition.is_offline:
            settle(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif where.topic == GROUP_METADATA_TOPIC:
            self._groups.end_transaction(where.partition, marker, settle)
        else:
            self._append(partition, marker, settle)

    def _append(
        self, partition: Partition, marker: EndOfTransaction, settle: Callable[[ErrorCode], None]
    ) -> None:
        where = partition.topic_partition
        try:
            appended = self._replicas.append_marker(partition, marker)
        except KafkaError as error:
            settle(error.code)
            return
        waiting = _WaitingMarker(partition, appended.last_offset + 1, settle)
        if waiting.is_ready(where):
            waiting.on_ready()
        else:
            self._replicas.delayed_produces.watch(waiting, (where,), self._deadline_ms)

    def _settle(self, producer_id: int, where: TopicPartition, code: ErrorCode) -> None:
        """Store the result of a marker for one partition.

        If this node has no group coordinator, the result says NOT_LEADER_OR_FOLLOWER, so that the
        transaction coordinator looks for another leader.
        """
        self._results[producer_id][where] = (
            ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _COORDINATOR_IS_ELSEWHERE else code
        )
        self.finish()


def _result(producer_id: int, codes: dict[TopicPartition, ErrorCode]) -> WritableTxnMarkerResult:
    topics: dict[str, WritableTxnMarkerTopicResult] = {}
    for where, code in codes.items():
        topic = topics.setdefault(where.topic, WritableTxnMarkerTopicResult(name=where.topic))
        topic.partitions.append(
            WritableTxnMarkerPartitionResult(partition_index=where.partition, error_code=code)
        )
    return WritableTxnMarkerResult(producer_id=producer_id, topics=list(topics.values()))
