"""Reads the partitions of a fetch, and waits for records.

Decides what a fetch returns of each partition, and when it has waited for long enough. ``fetch``
has the behaviour and the versions of the API, and handles requests.
"""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING

from log_service.broker.cluster_view import STALE_LEADER, leader_hint
from log_service.broker.fetch_session import FetchContext, FetchTarget
from log_service.broker.handlers.fetch.reading import NOT_THERE, Reading
from log_service.broker.handlers.fetch.response import build_response
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred, QuotaAccount
from log_service.common.access import Access, AclOperation, AclResource
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_LEADER_EPOCH, TopicId, TopicPartition
from log_service.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchRequest,
    LeaderIdAndEpoch,
    PartitionData,
)
from log_service.replication.partition import Partition, ReadPlace
from log_service.replication.partition_state import Isolation
from log_service.storage.log_reader import LogSlice

if TYPE_CHECKING:
    from log_service.broker.handlers.fetch.replica import FetchingReplica
    from log_service.broker.handlers.nearest_replica import Nearest

FIRST_VERSION_WITH_RACK = 11
READ, TOPIC = AclOperation.READ, AclResource.TOPIC

_EXPECTED = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Refusals that Kafka's meter of failed requests leaves out."""
NO_RECORDS = b""
WORK_PER_TURN = 4_000
"""Work of one turn of the event loop in microseconds. A fetch that takes more is split."""
WORK_OF_QUIET = 1
WORK_OF_READ = 8


class FetchPartitionStatus:
    """A partition that a delayed fetch waits for, in its state when the fetch began to wait.

    ``place`` is the position of the fetch offset in the log. It is None if the fetch waits for any
    record (``min_bytes`` 1 or less).
    """

    __slots__ = (
        "is_leader",
        "leader_epoch",
        "max_bytes",
        "offset",
        "partition",
        "place",
        "readable_bytes",
    )

    def __init__(self, partition: Partition, target: FetchTarget, place: ReadPlace | None) -> None:
        self.partition = partition
        self.is_leader = partition.is_leader
        self.leader_epoch = partition.leader_epoch
        self.offset = target.fetch_offset
        self.max_bytes = target.max_bytes
        self.place = place
        self.readable_bytes = 0


class DelayedFetch:
    """A fetch that waits for ``min_bytes`` in its partitions.

    A consumer's fetch counts bytes below the high watermarks, or below the last stable offsets. A
    follower's counts them below the log end offsets.
    """

    __slots__ = (
        "_awaited",
        "_call",
        "_counts_bytes",
        "_held_back",
        "_is_by_replica",
        "_isolation",
        "_missing_bytes",
        "_request",
        "_respond_in_turns",
        "context",
        "deferred",
        "node",
    )

    def __init__(
        self, reads: "PartitionReads", deferred: Deferred, respond_in_turns: "RespondInTurns"
    ) -> None:
        """``respond_in_turns`` is called after the wait if reading again takes several turns."""
        self.node = reads.node
        self._call = reads.call
        self._respond_in_turns = respond_in_turns
        reading, request = reads.reading, reads.request
        self._is_by_replica = reading.replica is not None
        self._held_back = frozenset(reading.held_back)
        self._request = request
        self._isolation = Isolation.of(request.isolation_level)
        self._counts_bytes = request.min_bytes > 1
        self._missing_bytes = min(request.min_bytes, reading.max_bytes)
        self._awaited: dict[TopicPartition, FetchPartitionStatus] = {}
        self.context = reads.context
        self.deferred = deferred

    @property
    def keys(self) -> Iterable[TopicPartition]:
        """The partitions that the fetch waits for."""
        return self._awaited

    def expect(self, present: Iterable[tuple[Partition, FetchTarget]]) -> bool:
        """Add partitions to wait for. Return whether there is anything to wait for.

        There is not if there are no partitions, or enough bytes already.
        """
        return not self.expect_some(present) and bool(self._awaited)

    def expect_some(self, present: Iterable[tuple[Partition, FetchTarget]]) -> bool:
        """Add partitions to wait for. Return whether there are enough bytes already."""
        for partition, target in present:
            place = partition.place_of(target.fetch_offset) if self._counts_bytes else None
            awaited = self._awaited[partition.topic_partition] = FetchPartitionStatus(
                partition, target, place
            )
            if self._counts_bytes and self.has_enough(awaited):
                return True
        return False

    def is_ready(self, key: TopicPartition) -> bool:
        """Return whether the fetch need not wait any longer, after a change of partition ``key``.

        This is so if enough bytes can be read, or if the partition is offline or has a new leader.
        """
        try:
            return self.try_complete(key)
        except Exception as error:  # noqa: BLE001 - a bug of ours: its own connection pays
            self.deferred.fail(error)  # the append belongs to another request, which must not fail
            return True

    def try_complete(self, key: TopicPartition) -> bool:
        """Apply the new state of a partition. Return whether the request is complete."""
        awaited = self._awaited[key]
        partition = awaited.partition
        state = partition.state
        if (
            state.is_leader != awaited.is_leader
            or state.leader_epoch != awaited.leader_epoch
            or partition.is_offline
        ):
            return True
        return self.has_enough(awaited)

    def has_enough(self, awaited: FetchPartitionStatus) -> bool:
        """Update the readable bytes of a partition. Return whether the fetch has enough in all."""
        partition = awaited.partition
        state = partition.state
        end_offset = (
            state.log_end_offset if self._is_by_replica else state.read_limit(self._isolation)
        )
        if end_offset <= awaited.offset or partition.topic_partition in self._held_back:
            return False
        if not self._counts_bytes:
            return True
        readable_bytes = (
            None if awaited.place is None else partition.readable_bytes(awaited.place, end_offset)
        )
        if readable_bytes is None:
            return True  # a response has records of one segment, so no more will come
        readable_bytes = min(readable_bytes, awaited.max_bytes)
        self._missing_bytes -= readable_bytes - awaited.readable_bytes
        awaited.readable_bytes = readable_bytes
        return self._missing_bytes <= 0

    def on_ready(self) -> None:
        """Read again and respond."""
        if self.deferred.is_done:
            return
        try:
            with self._call.counted():
                replica = (
                    replica_of_request(self.node, self._request, is_noted=True)
                    if self._is_by_replica
                    else None
                )
                reads = PartitionReads(self.node, self._call, self._request, self.context, replica)
                is_all = reads.read_some()
        except Exception as error:  # noqa: BLE001 - as above
            self.deferred.fail(error)
            return
        if is_all:
            self.deferred.complete_with(
                lambda: build_response(self.node, self._call, self.context, reads.reading)
            )
            return
        self._respond_in_turns(reads, self.deferred)

    def on_expired(self) -> None:
        """Respond with the available records."""
        self.on_ready()


def must_respond_now(request: FetchRequest, reading: Reading) -> bool:
    """Return whether a fetch gets its response without a wait."""
    missing_bytes = min(request.min_bytes, reading.max_bytes) - reading.record_bytes
    return missing_bytes <= 0 or reading.must_respond or request.max_wait_ms <= 0


def replica_of_request(
    node: Node, request: FetchRequest, *, is_noted: bool
) -> "FetchingReplica | None":
    """Return the follower that sent a request, or None for a consumer.

    ``is_noted`` is set if the leader has noted the follower's position from this request already.
    """
    if request.replica_id < 0 and request.replica_state is None:
        return None
    from log_service.broker.handlers.fetch.replica import (  # noqa: PLC0415 - a node alone has no followers
        replica_of,
    )

    return replica_of(node, request, is_noted=is_noted)


def _nearest_of(node: Node, call: Call, request: FetchRequest) -> "Nearest | None":
    """Return a finder of replicas nearer to the consumer, or None if that is not enabled."""
    if not node.config.replication.is_rack_aware or not request.rack_id:
        return None
    from log_service.broker.handlers.nearest_replica import (  # noqa: PLC0415 - few nodes look for them
        Nearest,
    )

    return Nearest(node.image(), call.connection.listener_name, request.rack_id)


RespondInTurns = Callable[["PartitionReads", Deferred], None]
"""Continues a response after its first partitions were read."""


class PartitionReads:
    """One pass over the partitions of a fetch, in the session's order, within request and broker
    limits.
    """

    __slots__ = (
        "_absent",
        "_absent_left",
        "_asked",
        "_guard",
        "_is_readable",
        "_isolation",
        "_left",
        "_left_bytes",
        "_readable",
        "_unknown_ids",
        "call",
        "context",
        "node",
        "reading",
        "request",
    )

    def __init__(
        self,
        node: Node,
        call: Call,
        request: FetchRequest,
        context: FetchContext,
        replica: "FetchingReplica | None",
    ) -> None:
        nearest = None if replica is not None else _nearest_of(node, call, request)
        self.reading = Reading(
            replica,
            nearest,
            is_leader_needed=replica is not None or call.version < FIRST_VERSION_WITH_RACK,
        )
        left_bytes = min(request.max_bytes, node.config.fetch.max_bytes)
        if call.account is not None:
            left_bytes = _quota_bytes(call.account, left_bytes)
        self.reading.max_bytes = self._left_bytes = left_bytes
        self.node = node
        self.call = call
        self.request = request
        self.context = context
        self._isolation = Isolation.of(request.isolation_level)
        # ``_guard`` decides on each topic. Without it ``_is_readable`` is for all topics.
        self._is_readable, self._guard = True, call.access
        if self._guard is not None and replica is not None:
            # A follower needs CLUSTER_ACTION and no right on a topic, because it is a broker.
            self._is_readable = self._guard.may_cluster(AclOperation.CLUSTER_ACTION)
            self._guard = None
        self._readable: dict[str, bool] = {}
        self._unknown_ids: list[tuple[FetchTarget, PartitionData]] = []
        self._absent: list[tuple[FetchTarget, PartitionData]] = []
        self._asked: FetchTarget | None = None
        self._left = iter(context.targets)
        self._absent_left = chain(self._unknown_ids, self._absent)  # last, as Kafka orders them

    def read_some(self) -> bool:
        """Read partitions for as long as a turn may take. Return whether all are read."""
        work = WORK_PER_TURN
        node, reading, context, isolation, guard = (
            self.node,
            self.reading,
            self.context,
            self._isolation,
            self._guard,
        )
        replica, nearest, left_bytes = reading.replica, reading.nearest, self._left_bytes
        for target in self._left:
            partition = node.replicas.find_open(target.topic, target.topic_id, target.partition)
            asked = self._asked
            if guard is not None and (
                asked is None
                or target.topic_id is not asked.topic_id
                or target.topic is not asked.topic
            ):
                # Once for consecutive partitions of a topic, because they share its name and id.
                self._asked, self._is_readable = (
                    target,
                    is_topic_readable(node, guard, target, partition, self._readable),
                )
            if not self._is_readable:
                reading.add(target, _failed(target, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None), 0)
            elif partition is None and (partition := self._find(target)) is None:
                pass
            else:
                reading.present.append((partition, target))
                if not target.name:
                    target.name = partition.topic_partition.topic
                if context.is_incremental and (
                    nearest is None and _is_quiet(partition, target, isolation)
                    if replica is None
                    else replica.is_quiet(partition, target)
                ):
                    work += WORK_OF_READ - WORK_OF_QUIET
                else:
                    found, size_bytes = _read_one(partition, target, left_bytes, reading, isolation)
                    reading.add(target, found, size_bytes)
                    left_bytes -= size_bytes
            work -= WORK_OF_READ
            if work <= 0:
                self._left_bytes = left_bytes
                return False
        for target, found in self._absent_left:
            reading.add(target, found, 0)
            work -= WORK_OF_QUIET
            if work <= 0:
                return False
        return True

    def _find(self, target: FetchTarget) -> Partition | None:
        """Return a partition of this node, even if its log is not open yet.

        If the partition is not found, add the error to the response and return None.
        """
        try:
            return self.node.replicas.find(target.topic, target.topic_id, target.partition)
        except KafkaError as error:
            found = _not_there(self.node, target, error.code, is_by_id=self.context.is_by_id)
            if found.error_code in NOT_THERE:
                is_id = found.error_code == ErrorCode.UNKNOWN_TOPIC_ID
                (self._unknown_ids if is_id else self._absent).append((target, found))
            else:
                self.reading.add(target, found, 0)
            return None


def is_topic_readable(
    node: Node,
    access: Access,
    target: FetchTarget,
    partition: Partition | None,
    known: dict[str, bool],
) -> bool:
    """Return whether the client may read the topic of a partition.

    ``known`` caches the decisions of this pass. Each pass checks all partitions again, also those
    of a session. An unknown id is readable, because every client gets UNKNOWN_TOPIC_ID for it.
    """
    name = target.name if partition is None else partition.topic_partition.topic
    if not name:
        topic = node.image().topics.by_id.get(TopicId(target.topic_id))
        if topic is None:
            return True
        name = topic.name
    found = known.get(name)
    if found is None:
        found = known[name] = access.may(READ, TOPIC, name)
    return found


def _is_quiet(partition: Partition, target: FetchTarget, isolation: Isolation) -> bool:
    """Return whether a session's consumer has read the partition to its end. Most have."""
    state = partition.state
    return (
        target.sent_high_watermark == state.high_watermark
        and target.fetch_offset == state.read_limit(isolation)
        and target.sent_log_start_offset == partition.log_start_offset
        and target.current_leader_epoch in (NO_LEADER_EPOCH, state.leader_epoch)
        and target.last_fetched_epoch == NO_LEADER_EPOCH
        and state.is_leader
        and not partition.is_offline
    )


def _read_one(
    partition: Partition,
    target: FetchTarget,
    left_bytes: int,
    reading: Reading,
    isolation: Isolation,
) -> tuple[PartitionData, int]:
    is_first = reading.record_bytes == 0
    replica, is_leader_needed = reading.replica, reading.is_leader_needed
    try:
        if reading.nearest is not None and partition.is_leader:
            preferred = reading.nearest.replica_for(
                partition.served_log(target.current_leader_epoch),
                partition.state,
                target.fetch_offset,
            )
            if preferred is not None:
                return _elsewhere(partition, target, preferred), 0
        if target.last_fetched_epoch >= 0:
            if replica is not None:
                partition.log_for_follower(replica.broker_id, target.current_leader_epoch)
            diverging = partition.diverging_epoch(
                target.last_fetched_epoch,
                target.fetch_offset,
                target.current_leader_epoch,
                is_leader_needed=is_leader_needed,
            )
            if diverging is not None:
                return _diverged(partition, target, diverging), 0
        max_bytes = min(target.max_bytes, left_bytes) if left_bytes > 0 else 0
        if replica is None:
            found = partition.read(
                target.fetch_offset,
                isolation=isolation,
                max_bytes=max_bytes,
                current_leader_epoch=target.current_leader_epoch,
                is_one_batch_guaranteed=is_first,
                is_leader_needed=is_leader_needed,
            )
        else:
            found = replica.read(partition, target, max_bytes=max_bytes, is_first=is_first)
            if found.file_slice is None and replica.is_held_back(partition):
                reading.held_back = (*reading.held_back, partition.topic_partition)
        is_too_large = found is not None and found.file_slice is None and max_bytes > 0
        aborted = (
            _aborted_in(partition, target, found)
            if isolation is Isolation.READ_COMMITTED and not is_too_large
            else None
        )
    except KafkaError as error:
        partition.failed_read_count += error.code not in _EXPECTED
        return _failed(target, error.code, partition), 0
    state = partition.state
    partition_data = PartitionData(
        partition_index=target.partition,
        high_watermark=state.high_watermark,
        last_stable_offset=state.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        aborted_transactions=aborted,
        records=NO_RECORDS,
    )
    if found is None or found.file_slice is None:
        return partition_data, 0
    partition_data.records = found.file_slice
    reading.hold(found.file_slice.release, partition, found.size_bytes)
    return partition_data, found.size_bytes


def _aborted_in(
    partition: Partition, target: FetchTarget, found: LogSlice | None
) -> list[AbortedTransaction]:
    if found is None or found.file_slice is None:
        return []
    try:
        pairs = partition.aborted_in(target.fetch_offset, found)
    except BaseException:
        found.file_slice.release()
        raise
    return [
        AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
        for producer_id, first_offset in pairs
    ]


def _elsewhere(partition: Partition, target: FetchTarget, broker_id: int) -> PartitionData:
    """Return the result that sends a consumer to another replica, without records."""
    return PartitionData(
        partition_index=target.partition,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.state.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=broker_id,
        records=NO_RECORDS,
    )


def _diverged(
    partition: Partition, target: FetchTarget, diverging: tuple[int, int]
) -> PartitionData:
    return PartitionData(
        partition_index=target.partition,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.state.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        diverging_epoch=EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]),
        aborted_transactions=None,
        records=NO_RECORDS,
    )


def _not_there(
    node: Node, target: FetchTarget, code: ErrorCode, *, is_by_id: bool
) -> PartitionData:
    """Return the error of a partition that is not found.

    If a session found its topic by id before, the error tells whether the topic was deleted or
    replaced.
    """
    topics = node.image().topics
    if not target.name:
        known = topics.by_id.get(TopicId(target.topic_id))
        target.name = "" if known is None else known.name
        if is_by_id and known is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
    elif code is ErrorCode.UNKNOWN_TOPIC_ID:
        is_replaced = topics.partition(target.name, target.partition) is not None
        code = (
            ErrorCode.INCONSISTENT_TOPIC_ID if is_replaced else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    found = _failed(target, code, None)
    if code in STALE_LEADER:
        leader = leader_hint(node.image(), target.name, target.topic_id, target.partition)
        found.current_leader = LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
        )
    return found


def _failed(target: FetchTarget, code: ErrorCode, partition: Partition | None) -> PartitionData:
    found = PartitionData(
        partition_index=target.partition, error_code=code, high_watermark=-1, records=NO_RECORDS
    )
    if code not in NOT_THERE:
        found.aborted_transactions = None
    if code in STALE_LEADER and partition is not None:
        found.current_leader = LeaderIdAndEpoch(
            leader_id=partition.leader, leader_epoch=partition.leader_epoch
        )
    return found


# Quotas


def _quota_bytes(account: QuotaAccount, max_bytes: int) -> int:
    """Return how many bytes of records a response may have, at most ``max_bytes``.

    The client's quota may allow less.
    """
    own_bytes = account.max_fetch_bytes
    return max_bytes if own_bytes is None else min(max_bytes, own_bytes)
