"""DescribeShareGroupOffsets (90, versions 0-1): start offsets and lag of share groups (KIP-932).

Behaviour: each group gets its own response. Null topics are all partitions with an initialized
state. A state that no share coordinator has, or that is not available now, has start offset -1.
That is not an error, as in OffsetFetch. The lag is the end offset less the start offset and the
number of completed records. It is -1 if the start is not known, or no leader has reported the
completed records.

Versions: 1 the lag (KIP-1226).
"""

from collections.abc import Mapping
from uuid import UUID

import trio

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TOPIC_ID, TopicPartition
from log_service.coordinator.gathering import Gathering
from log_service.coordinator.group.share.groups import names_of
from log_service.coordinator.group.values.partitions import Partitions, in_order
from log_service.coordinator.share.share_state import (
    UNKNOWN_COUNT,
    UNKNOWN_START_OFFSET,
    ShareKey,
    ShareState,
)
from log_service.metadata.features import has_share_groups
from log_service.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

UNKNOWN_LAG = -1
Summary = ShareState | KafkaError
Place = tuple[UUID, int]


def handle_describe_share_group_offsets(
    node: Node, call: Call, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse | Deferred:
    """Ask share coordinators, then the leaders of partitions.

    A repeated request for all topics of a group is answered once.
    """
    whole = {group.group_id: group for group in request.groups if group.topics is None}
    request.groups = [
        group
        for group in request.groups
        if group.topics is not None or whole[group.group_id] is group
    ]
    if not has_share_groups(node.image().features):
        code = ErrorCode.UNSUPPORTED_VERSION
        groups = [
            DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, error_code=code)
            for group in request.groups
        ]
        return DescribeShareGroupOffsetsResponse(groups=groups)
    return call.run(_describe_all(node, request))


async def _describe_all(
    node: Node, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[await _describe(node, group) for group in request.groups]
    )


async def _describe(
    node: Node, group: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    result = DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id)
    by_name = node.image().topics.by_name
    if group.topics is None:
        initialized = await _initialized_partitions(node, group.group_id)
        if isinstance(initialized, KafkaError):
            result.error_code, result.error_message = initialized.code, str(initialized)
            return result
        wanted = [
            (topic_id, index) for topic_id, indexes in in_order(initialized) for index in indexes
        ]
    else:
        known = [
            (topic, by_name[topic.topic_name].topic_id)
            for topic in group.topics
            if topic.topic_name in by_name
        ]
        wanted = [
            (topic_id, index)
            for topic, topic_id in known
            for index in dict.fromkeys(topic.partitions)
        ]
        result.topics = [
            _unknown(topic) for topic in group.topics if topic.topic_name not in by_name
        ]
    names = names_of({topic_id for topic_id, _ in wanted}, node.image())
    places = [place for place in dict.fromkeys(wanted) if place[0] in names]
    result.topics = [*await _describe_places(node, group.group_id, places, names), *result.topics]
    return result


def _unknown(
    topic: DescribeShareGroupOffsetsRequestTopic,
) -> DescribeShareGroupOffsetsResponseTopic:
    """Return the result of a topic that does not exist."""
    partitions = [
        DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, start_offset=UNKNOWN_START_OFFSET
        )
        for index in topic.partitions
    ]
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, topic_id=NO_TOPIC_ID, partitions=partitions
    )


async def _describe_places(
    node: Node, group_id: str, places: list[Place], names: Mapping[UUID, str]
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    summaries = await _summaries(node, group_id, places)
    ends = await node.end_offsets.of(
        TopicPartition(names[place[0]], place[1])
        for place, summary in summaries.items()
        if _lag_base(summary) is not None
    )
    topics: dict[UUID, DescribeShareGroupOffsetsResponseTopic] = {}
    for (topic_id, index), summary in summaries.items():
        name = names[topic_id]
        topic = topics.setdefault(
            topic_id, DescribeShareGroupOffsetsResponseTopic(topic_id=topic_id, topic_name=name)
        )
        topic.partitions.append(_described(index, summary, ends.get(TopicPartition(name, index))))
    return list(topics.values())


def _lag_base(summary: Summary) -> int | None:
    """Return the offset from which the lag counts, or None if it is not known."""
    is_known = isinstance(summary, ShareState) and summary.start_offset != UNKNOWN_START_OFFSET
    if (
        isinstance(summary, KafkaError)
        or not is_known
        or summary.delivery_complete_count == UNKNOWN_COUNT
    ):
        return None
    return summary.start_offset + summary.delivery_complete_count


def _described(
    index: int, summary: Summary, end: int | ErrorCode | None
) -> DescribeShareGroupOffsetsResponsePartition:
    result = DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=UNKNOWN_START_OFFSET, lag=UNKNOWN_LAG
    )
    if isinstance(summary, KafkaError):
        return result
    if isinstance(end, ErrorCode):
        result.start_offset, result.error_code, result.error_message = (
            0,
            end,
            f"the end of the partition is not known: {end.name}",
        )
        return result
    result.start_offset, result.leader_epoch = summary.start_offset, summary.leader_epoch
    base = _lag_base(summary)
    if end is not None and base is not None:
        result.lag = end - base
    return result


# Callbacks as awaitables


async def _initialized_partitions(node: Node, group_id: str) -> Partitions | KafkaError:
    found: list[Partitions | KafkaError] = []
    done = trio.Event()

    def on_result(partitions: Partitions | KafkaError) -> None:
        found.append(partitions)
        done.set()

    node.groups.share.initialized_partitions(group_id, on_result)
    await done.wait()
    return found[0]


async def _summaries(node: Node, group_id: str, places: list[Place]) -> dict[Place, Summary]:
    found: dict[Place, Summary] = {}
    done = trio.Event()

    def on_all(summaries: list[Summary]) -> None:
        found.update(zip(places, summaries, strict=True))
        done.set()

    gather = Gathering(len(places), on_all)
    for number, (topic_id, index) in enumerate(places):
        key = ShareKey(group_id=group_id, topic_id=topic_id, partition=index)
        node.share_persister.summarize(key, leader_epoch=0, on_done=gather.part(number))
    await done.wait()
    return found
