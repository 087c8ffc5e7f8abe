"""Read exactly one offset range of one partition, as raw batches.

Yields whole batches that overlap [start, end), in order. Under read_committed, markers and batches
of aborted transactions are left out. The first and the last batch may reach beyond the range. The
code that opens them (``records.arrow``) leaves out the rest. Knows nothing of groups and
checkpoints.

Invariants: reading ends when the position reaches ``end``, even if the last offsets hold no record
(markers, compaction, aborted records). At most one response is in memory besides the one that the
caller holds. Nothing is skipped silently. A start below the log start offset is an error, and so is
an end that the partition does not reach within the deadline.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from uuid import UUID

import trio

from log_service.client.arguments import isolation_of
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.consumer.aborted import AbortedFilter
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TOPIC_ID, Buffer, TopicId, TopicPartition
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from log_service.records.batch import CorruptBatch, is_crc_valid, iterate_headers
from log_service.rpc.connection import raise_for

DEFAULT_MAX_BYTES = 8 << 20
FETCH_WAIT_MS = 500
GRACE_MS = 1_000
"""Time beyond the caller's limit, so that the error can report the state of the partition."""
LAST_FETCH_VERSION_WITH_NAMES = 12
PURPOSE = "range"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawBatches:
    """Whole batches, back to back, as in the log. ``position`` is the next offset to read.

    ``batches`` is a view of the broker's response if the response contains nothing else.
    """

    topic_partition: TopicPartition
    batches: Buffer
    position: int
    high_watermark: int
    last_stable_offset: int


class HasCluster(Protocol):
    """An open Admin, Producer or Consumer."""

    @property
    def cluster(self) -> ClusterMetadata:
        """The client's view of its cluster."""


async def read_range(
    client: HasCluster,
    topic_partition: TopicPartition,
    start: int,
    end: int,
    *,
    isolation_level: str = "read_committed",
    max_bytes: int = DEFAULT_MAX_BYTES,
    check_crcs: bool = True,
    timeout_ms: int | None = None,
    topic_id: UUID | None = None,
) -> AsyncIterator[RawBatches]:
    """Yield the batches of [start, end), in chunks of about ``max_bytes``.

    One batch may be larger. ``timeout_ms`` (default ``default_api_timeout_ms``) bounds the wait for
    each chunk. Close the generator early with ``aclosing``. With ``topic_id``, all records are of
    the topic with that id. A topic that was created anew under the name is refused.

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE, ``start`` is not in the log. INCONSISTENT_TOPIC_ID, the
            topic has another id. REQUEST_TIMED_OUT, the position stood still for ``timeout_ms``
            (with read_committed perhaps below an open transaction). CORRUPT_MESSAGE, a checksum
            does not match. Or an error of the broker.
        ValueError: the range ends before it starts.
        ConfigError: there is no such isolation level.
    """
    if not 0 <= start <= end:
        raise ValueError(f"[{start}, {end}) is no range of offsets")
    cluster = client.cluster
    limit_ms = cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
    is_committed_only = bool(isolation_of(isolation_level))
    aborted = AbortedFilter() if is_committed_only else None
    wanted = _Wanted(topic_partition=topic_partition, topic_id=None if topic_id is None else TopicId(topic_id))
    position = start
    while position < end:
        fetch = partial(_fetch_progress, cluster, wanted, position, max_bytes, limit_ms, is_committed_only=is_committed_only)
        response = await cluster.retry(fetch, limit_ms + GRACE_MS)
        batches, position = _cut(response, topic_partition, position, end, aborted, check_crcs=check_crcs)
        yield RawBatches(
            topic_partition=topic_partition,
            batches=batches,
            position=position,
            high_watermark=response.high_watermark,
            last_stable_offset=response.last_stable_offset,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The partition to read. ``topic_id`` None: any topic with that name."""

    topic_partition: TopicPartition
    topic_id: TopicId | None

    def validate(self, found: TopicId) -> None:
        """Refuse a topic of another id.

        :raises KafkaError: INCONSISTENT_TOPIC_ID.
        """
        if self.topic_id not in {None, found}:
            text = f"the topic {self.topic_partition.topic} has the id {found}, not {self.topic_id}: it was deleted and created anew"
            raise _FinalError(ErrorCode.INCONSISTENT_TOPIC_ID, text)


async def _fetch_progress(
    cluster: ClusterMetadata, wanted: _Wanted, position: int, max_bytes: int, limit_ms: int, *, is_committed_only: bool
) -> PartitionData:
    """Fetch until there are records at ``position``."""
    deadline = trio.current_time() + limit_ms / 1_000
    while True:
        response = await _fetch_once(cluster, wanted, position, max_bytes, is_committed_only=is_committed_only)
        if response.records is not None and len(response.records):
            return response
        if trio.current_time() >= deadline:
            text = (
                f"{wanted.topic_partition} stood still at {position} for {limit_ms} ms: high watermark {response.high_watermark}, "
                f"last stable offset {response.last_stable_offset}"
            )
            raise _FinalError(ErrorCode.REQUEST_TIMED_OUT, text)


class _FinalError(KafkaError):
    """An error that must not be retried, because the attempt already waited or refreshed."""

    @property
    def is_retriable(self) -> bool:
        return False


async def _fetch_once(
    cluster: ClusterMetadata, wanted: _Wanted, position: int, max_bytes: int, *, is_committed_only: bool
) -> PartitionData:
    topic_partition = wanted.topic_partition
    topic, number = topic_partition
    if cluster.view.partition(topic_partition) is None or wanted.topic_id not in {None, cluster.view.topic_id_of(topic)}:
        await cluster.refresh([topic])
    topic_id = cluster.view.topic_id_of(topic)
    if cluster.view.partition(topic_partition) is not None:
        wanted.validate(topic_id)
    partition = FetchPartition(partition=number, fetch_offset=position, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=int(is_committed_only),
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])],
    )
    connection = await cluster.leader(topic_partition, PURPOSE)
    max_version = LAST_FETCH_VERSION_WITH_NAMES if topic_id == NO_TOPIC_ID else None
    response = await connection.request(request, FetchResponse, max_version=max_version, waits_ms=FETCH_WAIT_MS)
    raise_for(response.error_code, None, f"fetch of {topic_partition}")
    result = response.responses[0].partitions[0]
    raise_for(result.error_code, None, f"fetch of {topic_partition} at offset {position}")
    if (
        wanted.topic_id not in {None, NO_TOPIC_ID} and connection.version_of(ApiKey.FETCH) <= LAST_FETCH_VERSION_WITH_NAMES
    ):  # fetched by name
        await cluster.refresh([topic])
        wanted.validate(cluster.view.topic_id_of(topic))
    return result


def _cut(
    response: PartitionData, topic_partition: TopicPartition, position: int, end: int, aborted: AbortedFilter | None, *, check_crcs: bool
) -> tuple[Buffer, int]:
    """Return the whole batches of a response in the range, and the position behind them.

    A batch ends before the next one begins, whatever its header claims, because nothing has checked
    the header yet.
    """
    records: Any = response.records
    view = memoryview(records)
    if aborted is not None:
        aborted.add(response.aborted_transactions)
    kept: list[tuple[int, int]] = []
    started = position
    headers = list(iterate_headers(view, is_torn_tail_ok=True))
    for number, (at, header) in enumerate(headers, 1):
        if header.base_offset >= end:
            position = end
            break
        next_offset = header.next_offset
        if number < len(headers) and headers[number][1].base_offset > header.base_offset:
            next_offset = min(next_offset, headers[number][1].base_offset)
        if next_offset <= position:
            continue
        position = next_offset
        if check_crcs and not is_crc_valid(view[at : at + header.size_bytes]):
            raise CorruptBatch(f"{topic_partition}: the checksum of the batch at offset {header.base_offset} does not hold")
        if aborted is None or aborted.is_visible(
            header.last_offset,
            header.producer_id,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
        ):
            kept.append((at, at + header.size_bytes))
    if position == started:
        raise CorruptBatch(f"{topic_partition}: the response to a fetch at offset {position} holds no whole batch that reaches it")
    return _joined(view, kept), position


def _joined(view: memoryview, kept: list[tuple[int, int]]) -> Buffer:
    """Return the kept pieces of a response end to end.

    Pieces without gaps are returned as a view.
    """
    if kept and kept[-1][1] - kept[0][0] == sum(end - start for start, end in kept):
        return view[kept[0][0] : kept[-1][1]]
    return b"".join([view[start:end] for start, end in kept])
