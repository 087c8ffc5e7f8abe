"""Looks up offsets of partitions, deletes records, and waits for records.

A request goes to the leaders of its partitions, and their responses are merged into one result. A
leader responds to the requests of one connection in order. So the long poll that waits for records
has a connection of its own, and does not delay other requests.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import trio

from log_service.client.admin.fan_out import Collected, by_topic, gather
from log_service.client.admin.values import (
    EpochEnd,
    FoundOffset,
    ItemsFailed,
    OffsetSpec,
    PartitionOffsets,
)
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TOPIC_ID, TopicPartition
from log_service.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from log_service.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

V = TypeVar("V")

CONSUMER_REPLICA_ID = -1
DEBUG_REPLICA_ID = -2
LAST_FETCH_VERSION_WITH_NAMES = 12
READY_ON = frozenset({ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE})
LONG_POLL = "long poll"


async def list_offsets(
    cluster: ClusterMetadata,
    specs: Mapping[TopicPartition, OffsetSpec],
    isolation: int,
    timeout_ms: int,
) -> dict[TopicPartition, FoundOffset]:
    """Return the offset that each spec describes; see ``Admin.list_offsets``."""
    cluster.watch({partition.topic for partition in specs})

    def asked(partition: TopicPartition) -> ListOffsetsPartition:
        return ListOffsetsPartition(
            partition_index=partition.partition,
            current_leader_epoch=cluster.view.leader_epoch_of(partition),
            timestamp=specs[partition].timestamp,
        )

    async def ask(
        leader: int, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, FoundOffset]:
        request = ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA_ID,
            isolation_level=isolation,
            timeout_ms=cluster.config.request_timeout_ms,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[asked(TopicPartition(topic, number)) for number in numbers],
                )
                for topic, numbers in by_topic(partitions).items()
            ],
        )
        response = await (await cluster.node(leader)).request(request, ListOffsetsResponse)
        found: dict[TopicPartition, FoundOffset] = {}
        collected = Collected()
        for topic in response.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                if not collected.note(partition, result.error_code, None):
                    found[partition] = FoundOffset(
                        offset=result.offset,
                        timestamp_ms=result.timestamp,
                        leader_epoch=result.leader_epoch,
                    )
        return collected.finish(found)

    return await _ask_leaders(cluster, specs, ask, timeout_ms)


async def _ask_leaders(
    cluster: ClusterMetadata,
    partitions: Collection[TopicPartition],
    ask: Callable[[int, list[TopicPartition]], Awaitable[dict[TopicPartition, V]]],
    timeout_ms: int,
) -> dict[TopicPartition, V]:
    """Call ``ask`` for all leaders at once, and return the merged results by partition.

    ``ask`` gets a node id and the partitions that this node leads.
    """

    async def attempt() -> dict[TopicPartition, V]:
        await describe(cluster, {partition.topic for partition in partitions})
        leaders = cluster.group_by_leader(partitions)
        return _merged(
            await gather(partial(ask, leader, led) for leader, led in leaders.items()), partitions
        )

    return await cluster.retry(attempt, timeout_ms)


async def describe(cluster: ClusterMetadata, topics: Iterable[str]) -> None:
    """Make sure that the client's view of the cluster contains the topics.

    Raises:
        ItemsFailed: UNKNOWN_TOPIC_OR_PARTITION and others, the cluster refuses some of the topics.
    """
    missing = [topic for topic in topics if topic not in cluster.view.topics]
    if missing:
        view = await cluster.refresh(missing)
        collected = Collected()
        for topic in missing:
            if topic not in view.topics:
                collected.note(
                    topic,
                    view.errors.get(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    None,
                    "topic ",
                )
        collected.finish({})


async def describe_offsets(
    cluster: ClusterMetadata, topics: Iterable[str], timeout_ms: int, *, is_leader_awaited: bool
) -> dict[TopicPartition, PartitionOffsets]:
    """Return the first and last offsets of partitions; see ``Admin.describe_offsets``.

    Three requests go to each leader at the same time.
    """
    names = list(topics)
    left_ms = cluster.countdown(timeout_ms)
    await cluster.retry(partial(describe, cluster, names), timeout_ms)
    partitions = [
        TopicPartition(name, each.partition)
        for name in names
        for each in cluster.view.topics[name].partitions
        if is_leader_awaited or each.leader >= 0
    ]
    earliest = dict.fromkeys(partitions, OffsetSpec.earliest())
    latest = dict.fromkeys(partitions, OffsetSpec.latest())
    failed: dict[TopicPartition, KafkaError] = {}

    async def ask(
        specs: Mapping[TopicPartition, OffsetSpec], isolation_level: int
    ) -> Mapping[TopicPartition, FoundOffset]:
        try:
            return await list_offsets(cluster, specs, isolation_level, left_ms())
        except ItemsFailed as error:
            failed.update(error.errors)
            return error.results

    starts, stable, ends = await gather(
        (partial(ask, earliest, 0), partial(ask, latest, 1), partial(ask, latest, 0))
    )
    found = {
        partition: PartitionOffsets(
            topic_id=cluster.view.topic_id_of(partition.topic),
            log_start_offset=starts[partition].offset,
            high_watermark=ends[partition].offset,
            last_stable_offset=min(stable[partition].offset, ends[partition].offset),
            leader_epoch=ends[partition].leader_epoch,
        )
        for partition in partitions
        if partition not in failed
    }
    if failed:
        raise ItemsFailed(failed, found)
    return found


async def offsets_for_leader_epoch(
    cluster: ClusterMetadata, epochs: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, EpochEnd]:
    """Return the end of each leader epoch; see ``Admin.offsets_for_leader_epoch``."""

    def asked(partition: TopicPartition) -> OffsetForLeaderPartition:
        return OffsetForLeaderPartition(
            partition=partition.partition,
            current_leader_epoch=cluster.view.leader_epoch_of(partition),
            leader_epoch=epochs[partition],
        )

    async def ask(leader: int, partitions: list[TopicPartition]) -> dict[TopicPartition, EpochEnd]:
        request = OffsetForLeaderEpochRequest(
            replica_id=DEBUG_REPLICA_ID,
            topics=[
                OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[asked(TopicPartition(topic, number)) for number in numbers],
                )
                for topic, numbers in by_topic(partitions).items()
            ],
        )
        response = await (await cluster.node(leader)).request(request, OffsetForLeaderEpochResponse)
        found: dict[TopicPartition, EpochEnd] = {}
        collected = Collected()
        for topic in response.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.topic, result.partition)
                if not collected.note(partition, result.error_code, None):
                    found[partition] = EpochEnd(
                        leader_epoch=result.leader_epoch, end_offset=result.end_offset
                    )
        return collected.finish(found)

    return await _ask_leaders(cluster, epochs, ask, timeout_ms)


async def delete_records(
    cluster: ClusterMetadata, offsets: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int]:
    """Delete records, and return the new log start offsets; see ``Admin.delete_records``."""

    async def ask(leader: int, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        request = DeleteRecordsRequest(
            timeout_ms=cluster.config.request_timeout_ms,
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(
                            partition_index=number, offset=offsets[TopicPartition(topic, number)]
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(partitions).items()
            ],
        )
        response = await (await cluster.node(leader)).request(request, DeleteRecordsResponse)
        deleted: dict[TopicPartition, int] = {}
        collected = Collected()
        for topic in response.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                if not collected.note(partition, result.error_code, None):
                    deleted[partition] = result.low_watermark
        return collected.finish(deleted)

    return await _ask_leaders(cluster, offsets, ask, timeout_ms)


async def wait_for_records(
    cluster: ClusterMetadata, offsets: Mapping[TopicPartition, int], wait_ms: int, isolation: int
) -> set[TopicPartition]:
    """Return the partitions that have records at or above their offset, as soon as one has.

    The set is empty after ``wait_ms``. Partitions that the cluster refuses for good, for example
    because the client may not read them, are left out while there are other partitions to wait for.

    Raises:
        ItemsFailed: TOPIC_AUTHORIZATION_FAILED and others, all partitions are refused.
    """
    ready: set[TopicPartition] = set()
    refused: dict[TopicPartition, KafkaError] = {}
    if not offsets:
        await trio.sleep(wait_ms / 1_000)
        return ready
    deadline = trio.current_time() + wait_ms / 1_000

    async def ask(leader: int, partitions: list[TopicPartition]) -> _Polled:
        request, max_version = _poll_request(cluster, partitions, offsets, deadline, isolation)
        connection = await cluster.node(leader, LONG_POLL)
        try:
            response = await connection.request(
                request, FetchResponse, max_version=max_version, waits_ms=request.max_wait_ms
            )
        except trio.Cancelled:
            # the broker goes on waiting, and the next poll would wait behind this one
            connection.close()
            raise
        return _polled(cluster, response)

    async def poll(leader: int, partitions: list[TopicPartition], done: trio.CancelScope) -> None:
        left = partitions
        while left:
            polled = await ask(leader, left)
            refused.update(polled.refused)
            if polled.ready:
                ready.update(polled.ready)
                done.cancel()
            if polled.ready or not polled.refused.keys() & set(left):
                return
            # A leader responds at once if it refuses: it has not waited.
            left = [each for each in left if each not in refused]

    async def attempt() -> None:
        refused.update(await _unknown(cluster, offsets))
        while not ready and trio.current_time() < deadline:
            left = [each for each in offsets if each not in refused]
            if not left:
                raise ItemsFailed(refused, {})
            leaders = cluster.group_by_leader(left)
            with trio.CancelScope() as done:
                await gather(
                    partial(poll, leader, partitions, done)
                    for leader, partitions in leaders.items()
                )

    await cluster.retry(attempt, wait_ms + cluster.config.request_timeout_ms)
    return ready


async def _unknown(
    cluster: ClusterMetadata, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, KafkaError]:
    """Make sure that the client's view of the cluster contains the topics of ``partitions``.

    Return an error for each partition whose topic the cluster refuses to describe.
    """
    try:
        await describe(cluster, by_topic(partitions))
    except ItemsFailed as failed:
        return {
            each: failed.errors[each.topic] for each in partitions if each.topic in failed.errors
        }
    return {}


def _poll_request(
    cluster: ClusterMetadata,
    partitions: list[TopicPartition],
    offsets: Mapping[TopicPartition, int],
    deadline: float,
    isolation: int,
) -> tuple[FetchRequest, int | None]:
    topics = [
        FetchTopic(
            topic=topic,
            topic_id=cluster.view.topic_id_of(topic),
            partitions=[
                FetchPartition(
                    partition=number,
                    fetch_offset=offsets[TopicPartition(topic, number)],
                    partition_max_bytes=1,
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(partitions).items()
    ]
    max_wait_ms = max(int((deadline - trio.current_time()) * 1_000), 0)
    request = FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1, isolation_level=isolation, topics=topics
    )
    is_id_missing = any(topic.topic_id == NO_TOPIC_ID for topic in topics)
    return request, LAST_FETCH_VERSION_WITH_NAMES if is_id_missing else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Polled:
    """A leader's response: the partitions that have records, and those that it refuses for good."""

    ready: set[TopicPartition]
    refused: dict[TopicPartition, KafkaError]


def _polled(cluster: ClusterMetadata, response: FetchResponse) -> _Polled:
    """Return the partitions of a response that are ready, and those that are refused.

    Raises:
        KafkaError: no partition is ready, and one has a retriable error. The caller must refresh
            the client's view.
    """
    ready: set[TopicPartition] = set()
    refused: dict[TopicPartition, KafkaError] = {}
    passing: list[KafkaError] = []
    names_by_id = cluster.view.names_by_id
    for topic in response.responses:
        name = topic.topic or names_by_id.get(topic.topic_id, "")  # type: ignore[call-overload]
        for result in topic.partitions:
            code = ErrorCode.of(result.error_code)
            partition = TopicPartition(name, result.partition_index)
            if code not in READY_ON:
                error = KafkaError(code, f"{partition}: {code.name}")
                if error.is_retriable:
                    passing.append(error)
                else:
                    refused[partition] = error
            elif code is ErrorCode.OFFSET_OUT_OF_RANGE or (
                result.records is not None and len(result.records)
            ):
                ready.add(partition)
    if passing and not ready:
        raise passing[0]
    return _Polled(ready=ready, refused=refused)


def _merged(
    parts: Iterable[Mapping[TopicPartition, V]], asked: Iterable[TopicPartition]
) -> dict[TopicPartition, V]:
    """Return the results of all leaders as one mapping.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR, a response lacks a partition of the request.
    """
    merged: dict[TopicPartition, V] = {}
    for part in parts:
        merged.update(part)
    missing = [each for each in asked if each not in merged]
    if missing:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the leader of {missing[0]} left it out of its response",
        )
    return merged
