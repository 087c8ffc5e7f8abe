"""Describes and releases the records that share groups have in flight, at partitions' leaders.

Kafka's protocol has no request that describes such records, so the description raises
UNSUPPORTED_VERSION with brokers other than tidelog's. The release works with all brokers. It ends
the share session of a member at a broker, as every user who may read the group can. The broker then
releases all records that the member holds there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from log_service.client.admin.fan_out import Collected, by_topic, gather
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.common.errors import ErrorCode
from log_service.common.session_epochs import FINAL_EPOCH
from log_service.common.types import TopicPartition
from log_service.protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from log_service.protocol.messages.share_records import (
    ShareRecordsPartitionResult,
    ShareRecordsRequest,
    ShareRecordsResponse,
    ShareRecordsTopic,
)
from log_service.rpc.connection import raise_for

STATES: Mapping[int, str] = MappingProxyType(
    {0: "available", 1: "acquired", 2: "acknowledged", 4: "archived"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsInFlight:
    """Records from ``first_offset`` to ``last_offset`` (inclusive) in the same state.

    ``state`` is available (again), acquired, acknowledged or archived. Acquired records are held by
    the member ``member_id``, and their lock expires in ``lock_ms``. In other states ``member_id``
    is empty and ``lock_ms`` is -1.
    """

    first_offset: int
    last_offset: int
    state: str
    delivery_count: int
    member_id: str
    lock_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInFlight:
    """The records in flight of one partition.

    ``start_offset`` is None if the group has not fetched from the present leader. ``ranges`` may
    lack the last ranges, because the request limits their number. ``record_count`` counts all.
    """

    start_offset: int | None
    record_count: int
    ranges: tuple[RecordsInFlight, ...]


async def describe_share_records(
    cluster: ClusterMetadata,
    group_id: str,
    partitions: Iterable[TopicPartition],
    max_ranges: int,
    timeout_ms: int,
) -> dict[TopicPartition, QueueInFlight]:
    """Return the records in flight; see ``Admin.describe_share_records``."""
    wanted = list(partitions)

    async def ask(leader: int, asked: list[TopicPartition]) -> dict[TopicPartition, QueueInFlight]:
        topics = [
            ShareRecordsTopic(name=topic, partitions=numbers)
            for topic, numbers in by_topic(asked).items()
        ]
        response = await (await cluster.node(leader)).request(
            ShareRecordsRequest(group_id=group_id, topics=topics, max_ranges=max_ranges),
            ShareRecordsResponse,
        )
        raise_for(response.error_code, response.error_message, f"share group {group_id!r}")
        collected, found = Collected(), {}
        for topic in response.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                if not collected.note(where, each.error_code, each.error_message):
                    found[where] = _in_flight(each)
        return collected.finish(found)

    async def attempt() -> dict[TopicPartition, QueueInFlight]:
        view = await cluster.refresh({partition.topic for partition in wanted})
        led = [
            partition
            for partition in wanted
            if (known := view.partition(partition)) is not None and known.leader >= 0
        ]
        parts = await gather(
            partial(ask, leader, asked) for leader, asked in cluster.group_by_leader(led).items()
        )
        return {where: found for part in parts for where, found in part.items()}

    return await cluster.retry(attempt, timeout_ms, is_refreshing=False)


def _in_flight(result: ShareRecordsPartitionResult) -> QueueInFlight:
    return QueueInFlight(
        start_offset=result.start_offset if result.start_offset >= 0 else None,
        record_count=result.record_count,
        ranges=tuple(
            RecordsInFlight(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                state=STATES.get(each.delivery_state, f"state {each.delivery_state}"),
                delivery_count=each.delivery_count,
                member_id=each.member_id,
                lock_ms=each.lock_ms,
            )
            for each in result.ranges
        ),
    )


async def release_share_records(
    cluster: ClusterMetadata,
    group_id: str,
    member_id: str,
    partitions: Iterable[TopicPartition],
    timeout_ms: int,
) -> tuple[int, ...]:
    """End the sessions of a member; see ``Admin.release_share_records``."""
    wanted = list(partitions)
    request = ShareAcknowledgeRequest(
        group_id=group_id, member_id=member_id, share_session_epoch=FINAL_EPOCH
    )

    async def end_session(leader: int) -> int | None:
        response = await (await cluster.node(leader)).request(request, ShareAcknowledgeResponse)
        if response.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND:
            return None
        what = f"the records of member {member_id!r} of share group {group_id!r}"
        raise_for(response.error_code, response.error_message, what)
        return leader

    async def attempt() -> tuple[int, ...]:
        view = await cluster.refresh({partition.topic for partition in wanted})
        leaders = {view.leader_of(partition) for partition in wanted}
        found = await gather(partial(end_session, each) for each in sorted(leaders) if each >= 0)
        return tuple(leader for leader in found if leader is not None)

    return await cluster.retry(attempt, timeout_ms, is_refreshing=False)
