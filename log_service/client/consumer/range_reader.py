"""Reads exactly one offset range of one partition, as raw batches.

Yields the whole batches that overlap [start, end), in order. Under read_committed, markers and
batches of aborted transactions are left out. The first and the last batch may reach beyond the
range. The code that opens them (``records.arrow``) drops the records outside. This module knows
nothing of groups and checkpoints.

Invariants:

- Reading ends when the position reaches ``end``, even if the last offsets hold no record (markers,
  compaction, aborted records).
- At most one response is in memory, besides the yielded one that the caller still holds.
- Nothing is skipped silently. A start below the log start offset is an error. An end that the
  partition does not reach within the deadline is an error too.
- A batch whose checksum does not match is never left out. Its offsets are taken to reach up to the
  next batch, because its header cannot be trusted.
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
from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from log_service.records.batch import (
    BatchHeader,
    CorruptBatch,
    is_crc_valid,
    iterate_headers,
    parse_header,
)
from log_service.rpc.connection import raise_for

DEFAULT_MAX_BYTES = 8 << 20
FETCH_WAIT_MS = 500
GRACE_MS = 1_000
"""Time beyond the caller's limit, so that the error can report the state of the partition."""
LAST_FETCH_VERSION_WITH_NAMES = 12
PURPOSE = "range"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawBatches:
    """Whole batches as they are in the log, one directly after the other.

    ``position`` is the next offset to read. ``batches`` is a view of the broker's response if the
    batches are contiguous in it, and a copy otherwise.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _RetriedFetch:
    """Fetches from one partition, and repeats a fetch after retriable errors; see ``_Fetch``."""

    cluster: ClusterMetadata
    wanted: "_Wanted"
    limit_ms: int
    is_committed_only: bool

    async def __call__(
        self, offset: int, size_bytes: int, *, is_waiting: bool = False
    ) -> PartitionData:
        cluster, wanted, is_committed_only = self.cluster, self.wanted, self.is_committed_only
        once = partial(
            _fetch_once, cluster, wanted, offset, size_bytes, is_committed_only=is_committed_only
        )
        waiting = partial(
            _fetch_progress,
            cluster,
            wanted,
            offset,
            size_bytes,
            self.limit_ms,
            is_committed_only=is_committed_only,
        )
        return await cluster.retry(waiting if is_waiting else once, self.limit_ms + GRACE_MS)


def _validate_range(start: int, end: int) -> None:
    if not 0 <= start <= end:
        raise ValueError(f"[{start}, {end}) is not a range of offsets")


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

    A single batch may be larger. ``timeout_ms`` (default ``default_api_timeout_ms``) limits the
    wait for each chunk. Close the generator early with ``aclosing``. With ``topic_id``, all records
    are of the topic with that id. A topic that was created again with the same name is refused.

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE, ``start`` is not in the log. INCONSISTENT_TOPIC_ID, the
            topic has another id. REQUEST_TIMED_OUT, the position did not move for ``timeout_ms``
            (with read_committed perhaps below an open transaction). CORRUPT_MESSAGE, a checksum
            does not match. Or an error of the broker.
        ValueError: the range ends before it starts.
        ConfigError: there is no such isolation level.
    """
    _validate_range(start, end)
    cluster = client.cluster
    limit_ms = cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
    is_committed_only = bool(isolation_of(isolation_level))
    aborted = AbortedFilter() if is_committed_only else None
    wanted_id = None if topic_id is None else TopicId(topic_id)
    wanted = _Wanted(topic_partition=topic_partition, topic_id=wanted_id)

    fetch = _RetriedFetch(
        cluster=cluster, wanted=wanted, limit_ms=limit_ms, is_committed_only=is_committed_only
    )

    def chunk(batches: Buffer, response: PartitionData) -> RawBatches:
        return RawBatches(
            topic_partition=topic_partition,
            batches=batches,
            position=position,
            high_watermark=response.high_watermark,
            last_stable_offset=response.last_stable_offset,
        )

    position, damaged = start, None
    response = await fetch(start, max_bytes) if start < end else None
    hidden = None if response is None else await _damaged_before(fetch, response, start, end)
    if response is not None and hidden is not None:
        damaged = parse_header(hidden)
        if check_crcs:
            raise _checksum_error(topic_partition, damaged)
        position = max(position, await _next_base(fetch, damaged, end))
        yield chunk(hidden, response)
        response = None
    while position < end:
        if response is None or not response.records:
            size_bytes = max_bytes if damaged is None else _bytes_after(damaged, max_bytes)
            response = await fetch(position, size_bytes, is_waiting=True)
        cut = _cut(
            response, topic_partition, position, end, aborted, check_crcs=check_crcs, passed=damaged
        )
        position = cut.position
        if cut.damaged is not None:
            damaged = cut.damaged
            position = max(position, await _next_base(fetch, damaged, end))
        yield chunk(cut.batches, response)
        response = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The partition to read. ``topic_id`` None accepts any topic with that name."""

    topic_partition: TopicPartition
    topic_id: TopicId | None

    def validate(self, found: TopicId) -> None:
        """Check that the topic has the wanted id, if one is wanted.

        Raises:
            KafkaError: INCONSISTENT_TOPIC_ID, ``found`` is another id.
        """
        if self.topic_id not in {None, found}:
            text = (
                f"the topic {self.topic_partition.topic} has the id {found}, not {self.topic_id}:"
                " it was deleted and created anew"
            )
            raise _FinalError(ErrorCode.INCONSISTENT_TOPIC_ID, text)


class _Fetch(Protocol):
    """The function that fetches from the range's partition."""

    async def __call__(
        self, offset: int, size_bytes: int, *, is_waiting: bool = False
    ) -> PartitionData:
        """Fetch once or, with ``is_waiting``, until there are records at ``offset``."""


async def _fetch_progress(
    cluster: ClusterMetadata,
    wanted: _Wanted,
    position: int,
    max_bytes: int,
    limit_ms: int,
    *,
    is_committed_only: bool,
) -> PartitionData:
    """Fetch repeatedly until there are records at ``position``, for at most ``limit_ms``."""
    deadline = trio.current_time() + limit_ms / 1_000
    while True:
        response = await _fetch_once(
            cluster, wanted, position, max_bytes, is_committed_only=is_committed_only
        )
        if response.records is not None and len(response.records):
            return response
        if trio.current_time() >= deadline:
            text = (
                f"{wanted.topic_partition} stood still at {position} for {limit_ms} ms: high"
                f" watermark {response.high_watermark}, last stable offset"
                f" {response.last_stable_offset}"
            )
            raise _FinalError(ErrorCode.REQUEST_TIMED_OUT, text)


class _FinalError(KafkaError):
    """An error that must not be retried, because the attempt already waited or refreshed."""

    @property
    def is_retriable(self) -> bool:
        return False


async def _fetch_once(
    cluster: ClusterMetadata,
    wanted: _Wanted,
    position: int,
    max_bytes: int,
    *,
    is_committed_only: bool,
) -> PartitionData:
    topic_partition = wanted.topic_partition
    topic, number = topic_partition
    if cluster.view.partition(topic_partition) is None or wanted.topic_id not in {
        None,
        cluster.view.topic_id_of(topic),
    }:
        await cluster.refresh([topic])
    topic_id = cluster.view.topic_id_of(topic)
    if cluster.view.partition(topic_partition) is not None:
        wanted.validate(topic_id)
    partition = FetchPartition(
        partition=number, fetch_offset=position, partition_max_bytes=max_bytes
    )
    request = FetchRequest(
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=int(is_committed_only),
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])],
    )
    connection = await cluster.leader(topic_partition, PURPOSE)
    max_version = LAST_FETCH_VERSION_WITH_NAMES if topic_id == NO_TOPIC_ID else None
    response = await connection.request(
        request, FetchResponse, max_version=max_version, waits_ms=FETCH_WAIT_MS
    )
    raise_for(response.error_code, None, f"fetch of {topic_partition}")
    result = response.responses[0].partitions[0]
    raise_for(result.error_code, None, f"fetch of {topic_partition} at offset {position}")
    if (
        wanted.topic_id not in {None, NO_TOPIC_ID}
        and connection.version_of(ApiKey.FETCH) <= LAST_FETCH_VERSION_WITH_NAMES
    ):
        # Fetched by name.
        await cluster.refresh([topic])
        wanted.validate(cluster.view.topic_id_of(topic))
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """The whole batches of a response that overlap the range, and the position after them.

    ``damaged`` is the header of the response's last batch if its checksum does not match. The
    position after this batch is then unknown.
    """

    batches: Buffer
    position: int
    damaged: BatchHeader | None


def _cut(
    response: PartitionData,
    topic_partition: TopicPartition,
    position: int,
    end: int,
    aborted: AbortedFilter | None,
    *,
    check_crcs: bool,
    passed: BatchHeader | None = None,
) -> _Cut:
    """Cut the range out of a response. ``passed`` is a damaged batch that was returned already.

    The end of a batch is taken from the beginning of the next one as far as possible, because the
    batch's own header is not checked yet.
    """
    records: Any = response.records
    view = memoryview(records)
    if aborted is not None:
        aborted.add(response.aborted_transactions)
    kept: list[tuple[int, int]] = []
    started = position
    damaged: BatchHeader | None = None
    headers = [
        one
        for one in iterate_headers(view, is_torn_tail_ok=True)
        if passed is None or one[1].base_offset > passed.base_offset
    ]
    for number, (at, header) in enumerate(headers, 1):
        if header.base_offset >= end:
            position = end
            break
        next_base = headers[number][1].base_offset if number < len(headers) else None
        if next_base is not None and next_base <= header.base_offset:
            next_base = None
        if next_base is not None and next_base <= position:
            continue
        raw = view[at : at + header.size_bytes]
        next_offset = (
            header.next_offset if next_base is None else min(header.next_offset, next_base)
        )
        is_damaged = (
            check_crcs or next_base is None or next_offset <= position
        ) and not is_crc_valid(raw)
        if is_damaged:
            next_offset = header.base_offset + 1 if next_base is None else next_base
        is_seen = aborted is None or aborted.is_visible(
            next_offset - 1,
            header.producer_id,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
        )
        is_damaged = is_damaged or not (is_seen or is_crc_valid(raw))
        if is_damaged and check_crcs:
            raise _checksum_error(topic_partition, header)
        if is_damaged or (is_seen and next_offset > position):
            kept.append((at, at + header.size_bytes))
        if is_damaged:
            damaged = header if next_base is None else None
        position = max(position, next_offset)
    if position == started and damaged is None:
        raise CorruptBatch(
            f"{topic_partition}: the response to a fetch at offset {position} holds no whole batch"
            " that reaches it"
        )
    return _Cut(batches=_joined(view, kept), position=position, damaged=damaged)


def _checksum_error(topic_partition: TopicPartition, header: BatchHeader) -> CorruptBatch:
    return CorruptBatch(
        f"{topic_partition}: the checksum of the batch at offset {header.base_offset} does not hold"
    )


def _bytes_after(damaged: BatchHeader, max_bytes: int) -> int:
    """Return a fetch size in bytes with room for other batches after a damaged one."""
    return max(max_bytes, DEFAULT_MAX_BYTES) + damaged.size_bytes


async def _next_base(fetch: _Fetch, damaged: BatchHeader, end: int) -> int:
    """Return the offset at which to continue after a damaged batch, at most ``end``.

    A fetch from an offset inside the batch usually returns the batches after it. If the header
    claims too many offsets and the segment ends with the batch, such a fetch returns only the batch
    again. The function then searches for the first offset that returns another batch.
    """
    low, high = damaged.base_offset + 1, end
    is_more, probe = True, low
    while low < high:
        response = await fetch(probe, _bytes_after(damaged, 0))
        headers = _headers_of(response)
        behind = [
            header.base_offset for header in headers if header.base_offset > damaged.base_offset
        ]
        if behind and (probe == damaged.base_offset + 1 or len(behind) < len(headers)):
            return min(behind[0], end)
        if headers and not behind:
            low = probe + 1
        else:
            high, is_more = probe, bool(behind) or not _is_complete(response, end)
        probe = (low + high) // 2
    return high if is_more else end


def _headers_of(response: PartitionData) -> list[BatchHeader]:
    records: Any = response.records or b""
    return [header for _, header in iterate_headers(records, is_torn_tail_ok=True)]


def _is_complete(response: PartitionData, end: int) -> bool:
    """Return whether the partition has all records before ``end``."""
    return response.high_watermark >= end and not 0 <= response.last_stable_offset < end


async def _damaged_before(
    fetch: _Fetch, response: PartitionData, start: int, end: int
) -> memoryview | None:
    """Return the damaged batch that may contain ``start``, if there is one.

    If no batch has ``start``, usually compaction removed the offset. But if the batch before it is
    damaged, its header may claim fewer offsets than the batch has. So ``start`` may be in it.
    """
    first = next(iter(_headers_of(response)), None)
    low = max(response.log_start_offset, 0)
    is_hole = _is_complete(response, end) if first is None else first.base_offset > start
    if not is_hole or low >= start:
        return None
    behind = end if first is None else first.base_offset
    high, step, found = start, 1, None
    while low < high:
        probe = max(high - step, low)
        found_there = await fetch(probe, 1)
        records: Any = found_there.records
        header = next(iter(_headers_of(found_there)), None)
        if header is None or header.base_offset >= behind:
            high, step = probe, step * 2 if found is None else 1 + (probe - low) // 2
        else:
            found, low = memoryview(records)[: header.size_bytes], probe + 1
            step = 1 + (high - low) // 2
    return None if found is None or is_crc_valid(found) else found


def _joined(view: memoryview, kept: list[tuple[int, int]]) -> Buffer:
    """Join pieces of a response, given by their byte ranges.

    Pieces without gaps are returned as a view, without a copy.
    """
    if kept and kept[-1][1] - kept[0][0] == sum(end - start for start, end in kept):
        return view[kept[0][0] : kept[-1][1]]
    return b"".join([view[start:end] for start, end in kept])
