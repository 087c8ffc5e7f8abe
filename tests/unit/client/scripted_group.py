"""A coordinator does as a test tells it, over the scripted broker.

Its one member leads when the test says so.
"""

from collections import deque
from typing import Any

import trio

from log_service.client.group_protocol import encode_assignment
from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.fetch import FetchResponse
from log_service.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from log_service.protocol.messages.heartbeat import HeartbeatResponse
from log_service.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from log_service.protocol.messages.leave_group import LeaveGroupResponse
from log_service.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from log_service.protocol.messages.sync_group import SyncGroupResponse
from tests.unit.client.scripted_broker import ScriptedBroker

MEMBER_ID = "the member"


class Group:
    """The group responds by its scripts.

    ``beats`` holds the responses to the next heartbeats (None: none), ``joins`` the requests, and
    ``is_led_by_member`` says who assigns.
    """

    def __init__(self, broker: ScriptedBroker, assigned: int = 1) -> None:
        self.broker = broker
        self.assigned = [TopicPartition("t", number) for number in range(assigned)]
        self.is_led_by_member = True
        self.generation_id = 0
        self.joins: list[Any] = []
        self.leaves: list[Any] = []
        self.commits: list[Any] = []
        self.commit_error = ErrorCode.NONE
        self.beats: deque[ErrorCode | None] = deque()
        self.find_count = 0
        self.join_errors: deque[ErrorCode] = deque()
        broker.other |= {
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.JOIN_GROUP: self._join,
            ApiKey.SYNC_GROUP: self._sync,
            ApiKey.HEARTBEAT: self._beat,
            ApiKey.LEAVE_GROUP: self._leave,
            ApiKey.OFFSET_FETCH: self._fetch_offsets,
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.FETCH: self._fetch,
        }

    async def _find(self, request: Any, version: int) -> FindCoordinatorResponse:
        await trio.lowlevel.checkpoint()
        self.find_count += 1
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=1, host="broker", port=9092)
                for key in request.coordinator_keys
            ]
        )

    async def _join(self, request: Any, version: int) -> JoinGroupResponse:
        await trio.lowlevel.checkpoint()
        self.joins.append(request)
        if self.join_errors:
            return JoinGroupResponse(error_code=self.join_errors.popleft(), member_id=MEMBER_ID)
        self.generation_id += 1
        protocol = request.protocols[0]
        members = (
            [JoinGroupResponseMember(member_id=MEMBER_ID, metadata=protocol.metadata)]
            if self.is_led_by_member
            else []
        )
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type="consumer",
            protocol_name=protocol.name,
            leader=MEMBER_ID if self.is_led_by_member else "another",
            member_id=MEMBER_ID,
            members=members,
        )

    async def _sync(self, request: Any, version: int) -> SyncGroupResponse:
        await trio.lowlevel.checkpoint()
        return SyncGroupResponse(
            protocol_type="consumer",
            protocol_name=request.protocol_name,
            assignment=encode_assignment(self.assigned),
        )

    async def _beat(self, request: Any, version: int) -> HeartbeatResponse:
        await trio.lowlevel.checkpoint()
        code = self.beats.popleft() if self.beats else ErrorCode.NONE
        if code is None:
            await trio.sleep_forever()  # nothing behind it on the connection is answered either
        return HeartbeatResponse(error_code=code)

    async def _leave(self, request: Any, version: int) -> LeaveGroupResponse:
        await trio.lowlevel.checkpoint()
        self.leaves.append(request)
        return LeaveGroupResponse()

    async def _fetch_offsets(self, request: Any, version: int) -> OffsetFetchResponse:
        await trio.lowlevel.checkpoint()
        (asked,) = request.groups
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(partition_index=number, committed_offset=0)
                    for number in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ]
        return OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)]
        )

    async def _commit(self, request: Any, version: int) -> OffsetCommitResponse:
        await trio.lowlevel.checkpoint()
        self.commits.append(request)
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=self.commit_error
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return OffsetCommitResponse(topics=topics)

    async def _fetch(self, request: Any, version: int) -> FetchResponse:
        await trio.sleep(request.max_wait_ms / 1_000)
        return FetchResponse()
