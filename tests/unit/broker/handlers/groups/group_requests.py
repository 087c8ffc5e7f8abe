"""These functions send requests of the group APIs to a node."""

from typing import Any
from uuid import UUID

import trio

from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.list_groups import ListGroupsRequest
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
)
from tests.unit.broker.context import Story

READY_SECONDS = 30


async def coordinated(node: Story) -> None:
    """Have the offsets topic created, and its shards loaded."""
    await node.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 6)
    with trio.fail_after(READY_SECONDS):
        while (await node.ask(ListGroupsRequest(), 5)).error_code:  # noqa: ASYNC110 - over the wire there is no event
            await trio.sleep(0.01)


async def commit(
    node: Story,
    *offsets: tuple[str, int, int],
    version: int = 9,
    topic_id: UUID | None = None,
    **member: Any,
) -> Any:
    topics = [
        OffsetCommitRequestTopic(
            name=topic if version < 10 else "",
            topic_id=topic_id or UUID(int=0),
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata="note"
                )
            ],
        )
        for topic, index, offset in offsets
    ]
    response: OffsetCommitResponse = await node.ask(
        OffsetCommitRequest(group_id="g", topics=topics, **member), version
    )
    return [
        (topic.name, one.partition_index, one.error_code)
        for topic in response.topics
        for one in topic.partitions
    ]


def positions(response: OffsetFetchResponse) -> list[tuple[str, int, int, int]]:
    topics: list[Any] = list(response.groups[0].topics if response.groups else response.topics)
    return [
        (topic.name, one.partition_index, one.committed_offset, one.error_code)
        for topic in topics
        for one in topic.partitions
    ]
