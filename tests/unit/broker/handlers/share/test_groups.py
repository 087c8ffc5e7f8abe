"""Clients send share group requests to a broker as frames (KIP-932).

The tests go from the first heartbeat to the deletion of a group.
"""

from typing import Any

import trio

from log_service.broker.cluster_view import GROUP_OPERATIONS
from log_service.common.errors import ErrorCode
from log_service.common.types import SHARE_GROUP_STATE_TOPIC
from log_service.coordinator.share.share_coordinator import ShareStateWrite
from log_service.coordinator.share.share_state import ShareKey
from log_service.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from log_service.protocol.messages.delete_groups import DeleteGroupsRequest
from log_service.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from log_service.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from log_service.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from log_service.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.broker.context import Story, batch, tell

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def enabled(node: Story) -> None:
    """Have the cluster's level of share.version be 1, and groups have a coordinator."""
    update = FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=1)
    response = await node.ask(UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[update]), 1)
    assert response.error_code == 0, response
    await node.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    await trio.sleep(1)


async def beat(node: Story, epoch: int, *topics: str) -> Any:
    names = list(topics) or None
    request = ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, subscribed_topic_names=names
    )
    return await node.ask(request, 1)


async def offsets(
    node: Story, *topics: DescribeShareGroupOffsetsRequestTopic, version: int = 1
) -> Any:
    group = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=list(topics) or None)
    (described,) = (
        await node.ask(DescribeShareGroupOffsetsRequest(groups=[group]), version)
    ).groups
    assert described.error_code == 0
    return [
        (topic.topic_name, part.partition_index, part.start_offset, part.lag, part.error_code)
        for topic in described.topics
        for part in topic.partitions
    ]


def altering(offset: int) -> AlterShareGroupOffsetsRequest:
    part = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
    return AlterShareGroupOffsetsRequest(
        group_id="g", topics=[AlterShareGroupOffsetsRequestTopic(topic_name="a", partitions=[part])]
    )


def test_the_life_of_a_share_group() -> None:
    async def story(node: Story) -> None:
        await enabled(node)
        topic_id = await node.create_topic("a", 2)
        await node.produce("a", batch(b"1", b"2", b"3"))
        assert (await beat(node, 0, "a")).member_epoch == 2
        await trio.sleep(2)
        response = await beat(node, 2)
        assert (response.member_epoch, response.assignment.topic_partitions[0].partitions) == (
            3,
            [0, 1],
        )
        assert await offsets(node) == [("a", 0, -1, -1, 0), ("a", 1, -1, -1, 0)]
        described = await node.ask(
            ShareGroupDescribeRequest(group_ids=["g", "x"], include_authorized_operations=True), 1
        )
        assert [(group.error_code, group.group_state) for group in described.groups] == [
            (0, "Stable"),
            (ErrorCode.GROUP_ID_NOT_FOUND, ""),
        ]
        assert described.groups[0].authorized_operations == GROUP_OPERATIONS
        assert (await node.ask(altering(1), 0)).error_code == ErrorCode.NON_EMPTY_GROUP
        assert (await node.ask(DeleteGroupsRequest(groups_names=["g"]), 2)).results[
            0
        ].error_code == ErrorCode.NON_EMPTY_GROUP
        assert (await beat(node, -1)).member_epoch == -1
        altered = await node.ask(altering(1), 0)
        assert [part.error_code for topic in altered.responses for part in topic.partitions] == [0]
        asked = [
            DescribeShareGroupOffsetsRequestTopic(topic_name="a", partitions=[0, 7]),
            DescribeShareGroupOffsetsRequestTopic(topic_name="x", partitions=[0]),
        ]
        assert await offsets(node, *asked) == [
            ("a", 0, 1, 2, 0),
            ("a", 7, -1, -1, 0),
            ("x", 0, -1, -1, 0),
        ]
        key, done = ShareKey(group_id="g", topic_id=topic_id, partition=0), trio.Event()
        write = ShareStateWrite(
            state_epoch=4, leader_epoch=0, start_offset=1, delivery_complete_count=1
        )
        node.broker.rooms.share_persister.write(key, write, on_done=lambda _error: done.set())
        await done.wait()
        assert (await offsets(node, asked[0]))[0] == ("a", 0, 1, 1, 0)
        forgetting = DeleteShareGroupOffsetsRequest(
            group_id="g",
            topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in "ax"],
        )
        told = await node.ask(forgetting, 0)
        assert [(topic.topic_name, topic.error_code) for topic in told.responses] == [
            ("a", 0),
            ("x", UNKNOWN),
        ]
        assert await offsets(node) == []
        await node.ask(altering(2), 0)
        assert await offsets(node) == [("a", 0, 2, 1, 0)]
        assert (await node.ask(DeleteGroupsRequest(groups_names=["g"]), 2)).results[
            0
        ].error_code == 0
        assert await offsets(node, asked[0]) == [("a", 0, -1, -1, 0), ("a", 7, -1, -1, 0)]
        assert (await node.ask(DeleteGroupsRequest(groups_names=["g"]), 2)).results[
            0
        ].error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await beat(node, 3)).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    tell(story)


def test_without_the_feature_there_are_no_share_groups() -> None:
    async def story(node: Story) -> None:
        update = FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
        await node.ask(UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[update]), 1)
        unsupported = ErrorCode.UNSUPPORTED_VERSION
        assert (await beat(node, 0, "a")).error_code == unsupported
        assert (await node.ask(altering(0), 0)).error_code == unsupported
        assert (
            await node.ask(DeleteShareGroupOffsetsRequest(group_id="g"), 0)
        ).error_code == unsupported
        assert (await node.ask(ShareGroupDescribeRequest(group_ids=["g"]), 1)).groups[
            0
        ].error_code == unsupported
        group = DescribeShareGroupOffsetsRequestGroup(group_id="g")
        assert (await node.ask(DescribeShareGroupOffsetsRequest(groups=[group]), 1)).groups[
            0
        ].error_code == unsupported
        assert SHARE_GROUP_STATE_TOPIC not in node.broker.image.topics.by_name

    tell(story)
