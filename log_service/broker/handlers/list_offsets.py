"""ListOffsets (API key 2), versions 1-11.

Behaviour: finds for each partition the first offset whose record is at or after a time, or the
offset of a special timestamp. These are latest (-1; for ``read_committed`` the last stable offset),
earliest (-2), the record with the largest timestamp (-3), earliest on this node's disk (-4, the
same as -2 here), last tiered (-5) and earliest not yet tiered (-6; both -1 here, because nothing is
tiered). Offset and timestamp are -1 if no record is late enough. A special timestamp that the
version does not know gets UNSUPPORTED_VERSION. If the end offset is known only after a sync, the
response waits for that. If the leader still does not know it then, the partition gets
OFFSET_NOT_AVAILABLE, or LEADER_NOT_AVAILABLE up to version 4.

Versions: 1 one offset instead of a list (KIP-79); 2 isolation level; 4 leader epochs (KIP-320); 5
OFFSET_NOT_AVAILABLE (KIP-207); 6 flexible; 7 largest timestamp (KIP-734); 8 earliest local
(KIP-405); 9 last tiered (KIP-1005); 10 timeout (KIP-1075); 11 earliest pending upload (KIP-1023).
"""

from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import trio

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_LEADER_EPOCH
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from log_service.replication.partition import OffsetSpec, Partition
from log_service.replication.partition_state import Isolation

FIRST_VERSION_OF: Mapping[int, int] = {
    OffsetSpec.LATEST: 1,
    OffsetSpec.EARLIEST: 1,
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
FIRST_VERSION_WITH_EPOCH = 4
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
_NEVER = 2**15


def handle_list_offsets(
    node: Node, call: Call, request: ListOffsetsRequest
) -> ListOffsetsResponse | Deferred:
    """Respond at once, or after a pending sync, or after lookups of times in the pool."""
    unsettled = [
        partition for partition in _partitions_of(node, request) if not partition.is_end_known
    ]
    if unsettled or any(
        _is_lookup(wanted.timestamp) for topic in request.topics for wanted in topic.partitions
    ):
        deferred, client = call.defer(), trio.CancelScope()
        deferred.on_discard(client.cancel)
        call.route.start_task(
            _complete, deferred, client, _find_later(node, call, request, unsettled)
        )
        return deferred
    return _find_all(node, call, request)


def _partitions_of(node: Node, request: ListOffsetsRequest) -> Iterator[Partition]:
    """Yield the partitions of this node whose end offset the response may need."""
    for topic in request.topics:
        for wanted in topic.partitions:
            if wanted.timestamp != OffsetSpec.LATEST and not _is_lookup(wanted.timestamp):
                continue
            with suppress(KafkaError):
                yield node.replicas.get_partition(topic.name, wanted.partition_index)


def _is_lookup(timestamp: int) -> bool:
    return timestamp >= 0 or timestamp == OffsetSpec.MAX_TIMESTAMP


async def _complete(
    deferred: Deferred, client: trio.CancelScope, waiting: Coroutine[Any, Any, ListOffsetsResponse]
) -> None:
    """Send the response that ``waiting`` returns, unless the client leaves before.

    ``waiting`` is cancelled then, because each lookup would read a batch in vain.
    """
    with client:
        await deferred.complete_after(waiting)


async def _find_later(
    node: Node, call: Call, request: ListOffsetsRequest, unsettled: list[Partition]
) -> ListOffsetsResponse:
    for partition in unsettled:
        await node.replicas.syncs.settle_end(partition)
    response = ListOffsetsResponse()
    steps = _find_in_steps(node, call, request, response)
    is_unfinished = True
    while is_unfinished:
        with call.counted():
            is_unfinished = await node.run_in_pool(partial(next, steps, False))
        await trio.lowlevel.checkpoint()
    return response


def _find_all(node: Node, call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    response = ListOffsetsResponse()
    for _ in _find_in_steps(node, call, request, response):
        pass
    return response


def _find_in_steps(
    node: Node, call: Call, request: ListOffsetsRequest, response: ListOffsetsResponse
) -> Iterator[bool]:
    """Find the offset of each partition by itself, and pause after each lookup of a time.

    Yields true at a pause, so that the caller can tell it from the end. A partition that the
    request repeats gets INVALID_REQUEST, once.
    """
    isolation = Isolation.of(request.isolation_level) if request.replica_id < 0 else None
    counts = Counter(
        (topic.name, wanted.partition_index)
        for topic in request.topics
        for wanted in topic.partitions
    )
    by_topic: dict[str, ListOffsetsTopicResponse] = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            count = counts.pop((topic.name, wanted.partition_index), 0)
            if count == 0:
                continue
            partition_response = (
                _find(node, call, topic.name, wanted, isolation)
                if count == 1
                else _failed(wanted.partition_index, ErrorCode.INVALID_REQUEST)
            )
            if topic.name not in by_topic:
                by_topic[topic.name] = ListOffsetsTopicResponse(name=topic.name)
                response.topics.append(by_topic[topic.name])
            by_topic[topic.name].partitions.append(partition_response)
            if _is_lookup(wanted.timestamp):
                yield True


def _find(
    node: Node, call: Call, topic: str, wanted: ListOffsetsPartition, isolation: Isolation | None
) -> ListOffsetsPartitionResponse:
    if wanted.timestamp < 0 and call.version < FIRST_VERSION_OF.get(wanted.timestamp, _NEVER):
        return _failed(wanted.partition_index, ErrorCode.UNSUPPORTED_VERSION)
    try:
        partition = node.replicas.get_partition(topic, wanted.partition_index)
        found = partition.find_offset(wanted.timestamp, wanted.current_leader_epoch, isolation)
    except KafkaError as error:
        is_unknown_code = (
            error.code is ErrorCode.OFFSET_NOT_AVAILABLE
            and call.version < FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
        )
        return _failed(
            wanted.partition_index,
            ErrorCode.LEADER_NOT_AVAILABLE if is_unknown_code else error.code,
        )
    epoch = found.leader_epoch if call.version >= FIRST_VERSION_WITH_EPOCH else NO_LEADER_EPOCH
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=epoch,
    )


def _failed(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
