"""Asks tidelog's brokers to apply retention or compaction now, and returns the results.

Each broker works on the partitions that it leads. Brokers other than tidelog's have no such
request, since they clean by themselves. The call then fails with UNSUPPORTED_VERSION. It fails in
the same way if a tidelog broker is too old.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from log_service.client.admin.fan_out import Collected, gather
from log_service.client.admin.values import CompactionResult, RetentionResult
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.protocol.messages.maintenance import (
    MaintenanceRequest,
    MaintenanceResponse,
    MaintenanceResult,
)
from log_service.rpc.connection import raise_for
from log_service.rpc.versions import MAINTENANCE_FEATURE

APPLY_RETENTION = 0
APPLY_COMPACTION = 1
RETENTION_LEVEL = 1
COMPACTION_LEVEL = 2
"""The level of ``MAINTENANCE_FEATURE`` from which on brokers know this request.

Only tidelog's brokers have this feature.
"""

_RESPONSE_MARGIN_MS = 2_000

T = TypeVar("T")


async def apply_retention(
    cluster: ClusterMetadata, topics: Sequence[str] | None, timeout_ms: int
) -> list[RetentionResult]:
    """Make every broker apply retention now; see ``Admin.apply_retention``."""
    request = MaintenanceRequest(
        operation=APPLY_RETENTION, topics=None if topics is None else list(topics)
    )

    def read(result: MaintenanceResult) -> RetentionResult:
        return RetentionResult(
            topic=result.topic,
            partition=result.partition,
            segments_deleted=result.segments_deleted,
            bytes_deleted=result.bytes_deleted,
            log_start_offset=result.log_start_offset,
        )

    return await _ask_all(
        cluster, request, timeout_ms, read, level=RETENTION_LEVEL, purpose="apply retention"
    )


async def apply_compaction(
    cluster: ClusterMetadata, topics: Sequence[str] | None, timeout_ms: int
) -> list[CompactionResult]:
    """Make every broker compact partitions that are due; see ``Admin.apply_compaction``."""
    request = MaintenanceRequest(
        operation=APPLY_COMPACTION,
        topics=None if topics is None else list(topics),
        timeout_ms=max(timeout_ms - _RESPONSE_MARGIN_MS, timeout_ms // 2),
    )
    return await _ask_all(
        cluster,
        request,
        timeout_ms,
        _compaction_result,
        level=COMPACTION_LEVEL,
        purpose="apply compaction",
    )


def _compaction_result(result: MaintenanceResult) -> CompactionResult:
    return CompactionResult(
        topic=result.topic,
        partition=result.partition,
        is_under_way=result.is_under_way,
        reason=result.error_message,
        pass_count=result.pass_count,
        segments_before=result.segments_before,
        segments_after=result.segments_after,
        records_before=result.records_before,
        records_after=result.records_after,
        bytes_before=result.bytes_before,
        bytes_after=result.bytes_after,
        tombstones_kept=result.tombstones_kept,
        tombstones_removed=result.tombstones_removed,
        dirty_ratio_before=result.dirty_ratio_before,
        dirty_ratio_after=result.dirty_ratio_after,
        duration_ms=result.duration_ms,
        cleaned_offset=result.cleaned_offset,
    )


async def _ask_all(
    cluster: ClusterMetadata,
    request: MaintenanceRequest,
    timeout_ms: int,
    read: Callable[[MaintenanceResult], T],
    *,
    level: int,
    purpose: str,
) -> list[T]:
    """Send ``request`` to every broker, and return the results of all partitions.

    ``read`` converts each result. ``level`` is the level of the maintenance feature that a broker
    must support. ``purpose`` is a verb for errors, such as "apply retention".
    """

    async def ask(node_id: int) -> list[T]:
        connection = await cluster.node(node_id)
        _require(connection.versions.features.get(MAINTENANCE_FEATURE), level, purpose)
        response = await connection.request(request, MaintenanceResponse, waits_ms=timeout_ms)
        raise_for(response.error_code, response.error_message, purpose)
        collected = Collected()
        results = {
            TopicPartition(entry.topic, entry.partition): read(entry)
            for entry in response.results
            if not collected.note(_item_of(entry), entry.error_code, entry.error_message)
        }
        return list(collected.finish(results).values())

    async def attempt() -> list[T]:
        view = await cluster.refresh()
        parts = await gather(partial(ask, node_id) for node_id in sorted(view.nodes))
        return [result for part in parts for result in part]

    return await cluster.retry(attempt, timeout_ms, is_refreshing=False)


def _require(level: int | None, wanted: int, purpose: str) -> None:
    if level is None:
        text = (
            f"this cluster is not tidelog: it has no request to {purpose} now; its brokers clean by"
            " themselves"
        )
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    if level < wanted:
        text = (
            f"this broker is of an earlier version: it has no request to {purpose} now; it cleans"
            " by itself"
        )
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)


def _item_of(result: MaintenanceResult) -> TopicPartition | str:
    """Return the partition of a result, or its topic if the result is about the whole topic."""
    return TopicPartition(result.topic, result.partition) if result.partition >= 0 else result.topic
