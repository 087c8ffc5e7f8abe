"""A bug in how a response is made of a coordinator's reply costs the connection of its own request.

Replies come when the log is safe, often in the middle of another request: what that one asks for
goes on.
"""

from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from log_service.network.server import PendingResponse
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.frames import RequestHeader, encode_request
from log_service.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from log_service.protocol.messages.describe_groups import DescribeGroupsRequest
from log_service.protocol.messages.join_group import JoinGroupRequest
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from log_service.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from log_service.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from log_service.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from log_service.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from log_service.protocol.stored.metadata_records import FeatureLevelRecord
from tests.helpers.handler_node import HandlerNode, tell_handlers

THERE = OffsetCommitRequestTopic(
    name="a", partitions=[OffsetCommitRequestPartition(partition_index=0)]
)
GONE = OffsetCommitRequestTopic(
    name="b", partitions=[OffsetCommitRequestPartition(partition_index=0)]
)
DELETED = OffsetDeleteRequestTopic(
    name="b", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
)
REQUESTS = (
    (JoinGroupRequest(group_id="g"), 9),
    (OffsetCommitRequest(group_id="g", topics=[THERE, GONE]), 9),
    (OffsetDeleteRequest(group_id="g", topics=[DELETED]), 0),
    (
        OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="a", partition_indexes=[0])]
        ),
        7,
    ),
    (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 10),
    (DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 5),
    (ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True), 1),
    (ShareGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True), 1),
    (StreamsGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True), 0),
    (StreamsGroupHeartbeatRequest(group_id="g", member_id="m"), 0),
)


class SilentGroups:
    """Coordinates no group: keeps the callback of whatever it is asked."""

    def __init__(self) -> None:
        self.on_reply: Any = None
        self.share = self

    def __getattr__(self, _api: str) -> Any:
        def ask(*arguments: Any, **_options: Any) -> None:
            self.on_reply = arguments[-1]

        return ask


@pytest.mark.parametrize(("request_", "version"), REQUESTS, ids=lambda value: type(value).__name__)
def test_a_bug_in_what_is_made_of_a_reply_costs_the_requests_own_connection(
    request_: Any, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        node.publish(
            *(
                FeatureLevelRecord(name=f"{name}.version", feature_level=1)
                for name in ("group", "share", "streams")
            )
        )
        groups: Any = SilentGroups()
        node.node.groups = groups
        key = ApiKey(request_.SCHEMA.key)
        frame = b"".join(
            map(bytes, encode_request(RequestHeader(key, version, 1, "story"), request_))  # type: ignore[arg-type]  # no slice
        )[4:]
        response = node.pipeline.handle_frame(node.connection, memoryview(frame))
        assert isinstance(response, PendingResponse)
        assert not response.is_done
        await wait_all_tasks_blocked()  # some ask in a task of their own
        groups.on_reply(())  # a reply that no handler knows
        await wait_all_tasks_blocked()
        chunks: list[Any] = list(response.take())
        with pytest.raises(OSError, match="the request failed"):
            chunks[0].read()  # what closes the connection
        assert [record.exc_info is not None for record in caplog.records] == [True]

    tell_handlers(story)
