"""A story of a group runs on a shard of the coordinator with a clock of its own.

Members join, sync, stay silent, and get responses.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

from log_service.common.errors import KafkaError
from log_service.common.types import NO_TOPIC_ID, LeaderEpoch, NodeId, PartitionEpoch, TopicId
from log_service.config.views import GroupConfig
from log_service.coordinator.group.group_coordinator import (
    GroupCoordinatorShard,
    IsThere,
    always_there,
)
from log_service.coordinator.group.listing import GroupOverview
from log_service.coordinator.group.records.codec import GroupRecord, decode, encode
from log_service.coordinator.request_context import RequestContext
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage
from log_service.metadata.partition import PartitionRegistration, partition_record
from log_service.protocol.messages.delete_groups import DeletableGroupResult
from log_service.protocol.messages.describe_groups import DescribedGroup
from log_service.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from log_service.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from log_service.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from log_service.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from log_service.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from log_service.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from log_service.protocol.stored.metadata_records import RemoveTopicRecord, TopicRecord
from log_service.state_machine.decision import Decision, ReplayContext, SetTimer

GROUP = "orders-readers"
REFUSED: dict[type, Callable[[int], Any]] = {
    JoinGroupRequest: lambda code: JoinGroupResponse(error_code=code),
    SyncGroupRequest: lambda code: SyncGroupResponse(error_code=code),
    HeartbeatRequest: lambda code: HeartbeatResponse(error_code=code),
}
"""What members hear where the shard refuses a request; others see the error itself."""
SESSION_MS = 10_000
REBALANCE_MS = 60_000
WALL_OFFSET_MS = 1_000_000


@dataclass
class GroupStory:
    """Drives one shard. Records are encoded, decoded and replayed, as they are on their way through
    a log.
    """

    config: GroupConfig = field(default_factory=lambda: GroupConfig(initial_rebalance_delay_ms=0))
    now_ms: int = 0
    is_there: IsThere = always_there
    image: MetadataImage = EMPTY_IMAGE
    wall_offset_ms: int = WALL_OFFSET_MS
    is_refusing: bool = False
    """Whether what requests change is taken back, as where the log refuses their records; they hear
    nothing.
    """

    def __post_init__(self) -> None:
        self._tokens = count(1)
        self._ids = count(1)
        self.replies: dict[Hashable, Any] = {}
        self.timers: dict[Hashable, int] = {}
        self.log: list[tuple[bytes, bytes | None]] = []
        self.shard = self._new_shard()
        self._serve()

    def _serve(self) -> None:
        decision = self.decision()
        self.shard.on_loaded(decision)
        assert not decision.records
        self.settle(decision)
        self.advance(0)

    def _new_shard(self) -> GroupCoordinatorShard:
        return GroupCoordinatorShard(
            self.config,
            lambda prefix: f"{prefix}-{next(self._ids)}",
            self.is_there,
            lambda: self.image,
        )

    # -- driving

    def decision(self) -> Decision[GroupRecord]:
        return Decision(self.now_ms, self.now_ms + self.wall_offset_ms)

    def settle(self, decision: Decision[GroupRecord]) -> None:
        for record in decision.records:
            pair = encode(record)
            self.log.append(pair)
            decoded = decode(*pair)
            assert decoded == record
            self.shard.replay(record, ReplayContext(len(self.log) - 1))
        for reply in decision.replies:
            assert reply.reply_to not in self.replies, "replied to twice"
            self.replies[reply.reply_to] = reply.response
        for timer in decision.timers:
            self.timers.pop(timer.key, None)
            if isinstance(timer, SetTimer):
                self.timers[timer.key] = timer.deadline_ms

    def ask(
        self, handler: str, request: object, *, api_version: int = 9, client_id: str = "client"
    ) -> int:
        token = next(self._tokens)
        context = RequestContext(
            api_version=api_version, client_id=client_id, client_host="127.0.0.1", reply_to=token
        )
        decision = self.decision()
        try:
            getattr(self.shard, f"handle_{handler}")(request, context, decision)
        except KafkaError as error:
            decision.take_back()
            self.replies[token] = (
                REFUSED[type(request)](error.code) if type(request) in REFUSED else error
            )
        else:
            if self.is_refusing:
                decision.take_back()
            else:
                self.settle(decision)
        return token

    def advance(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while due := [
            (deadline, repr(key), key)
            for key, deadline in self.timers.items()
            if deadline <= end_ms
        ]:
            self.now_ms, _, key = min(due)
            del self.timers[key]
            decision = self.decision()
            self.shard.on_timer(key, decision)
            self.settle(decision)
        self.now_ms = end_ms

    def delete_topic(self, name: str, partition_count: int) -> None:
        """Have the shard see an image without a topic that there was."""
        partition = PartitionRegistration(
            replicas=(NodeId(1),),
            isr=(NodeId(1),),
            leader=NodeId(1),
            leader_epoch=LeaderEpoch(0),
            partition_epoch=PartitionEpoch(0),
            directories=(NO_TOPIC_ID,),
        )
        topic_id = TopicId(UUID(int=7))
        before = MetadataDelta(EMPTY_IMAGE)
        before.replay(TopicRecord(name=name, topic_id=topic_id))
        for index in range(partition_count):
            before.replay(partition_record(topic_id, index, partition))
        delta = MetadataDelta(before.build(offset=0, epoch=1))
        delta.replay(RemoveTopicRecord(topic_id=topic_id))
        decision = self.decision()
        self.shard.on_image(delta, delta.build(offset=1, epoch=1), decision)
        assert not decision.records
        self.settle(decision)
        self.advance(0)

    def restart(self) -> None:
        self.shard = self._new_shard()
        self.timers.clear()
        for offset, (key, value) in enumerate(self.log):
            record = decode(key, value)
            assert record is not None
            self.shard.replay(record, ReplayContext(offset))
        self._serve()

    def compact(self, *, has_tombstones: bool) -> None:
        """Leave the last record of each key in the log, as the cleaner does.

        Tombstones stay as long as they are young.
        """
        last = {key: index for index, (key, _) in enumerate(self.log)}
        self.log = [
            (key, value)
            for index, (key, value) in enumerate(self.log)
            if last[key] == index and (has_tombstones or value is not None)
        ]

    # -- what members say

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        metadata: bytes = b"topics",
        api_version: int = 9,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
    ) -> int:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols
            ],
        )
        return self.ask("join_group", request, api_version=api_version)

    def new_member_id(self) -> str:
        """Join as a member of version 4 and later does: first hear an id, then join with it."""
        return self.joined(self.join()).member_id

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        **extra: str,
    ) -> int:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=part)
                for name, part in (assignments or {}).items()
            ],
            **extra,
        )
        return self.ask("sync_group", request, api_version=5)

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> int:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        return int(self.replies[self.ask("heartbeat", request, api_version=4)].error_code)

    def leave(self, *members: MemberIdentity) -> LeaveGroupResponse:
        response = self.replies[
            self.ask(
                "leave_group",
                LeaveGroupRequest(group_id=GROUP, members=list(members)),
                api_version=5,
            )
        ]
        assert isinstance(response, LeaveGroupResponse)
        return response

    def commit(
        self,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        *,
        metadata: str | None = "",
        retention_ms: int = -1,
        api_version: int = 8,
        topic: str = "orders",
        topic_id: UUID = NO_TOPIC_ID,
    ) -> int:
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
            ],
        )
        response = self.replies[self.ask("offset_commit", request, api_version=api_version)]
        return int(response.topics[0].partitions[0].error_code)

    def positions(self) -> dict[str, int]:
        """The committed offset of partition 0 of each topic."""
        response = self.replies[
            self.ask("offset_fetch", OffsetFetchRequestGroup(group_id=GROUP, topics=None))
        ]
        return {topic.name: topic.partitions[0].committed_offset for topic in response.topics}

    def delete_offsets(self, *topics: str) -> OffsetDeleteResponse:
        """Delete the position of partition 0 of each topic."""
        named = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
            for name in topics
        ]
        response = self.replies[
            self.ask("offset_delete", OffsetDeleteRequest(group_id=GROUP, topics=named))
        ]
        assert isinstance(response, OffsetDeleteResponse)
        return response

    def committed(self) -> int:
        response = self.replies[
            self.ask("offset_fetch", OffsetFetchRequestGroup(group_id=GROUP, topics=None))
        ]
        return int(response.topics[0].partitions[0].committed_offset) if response.topics else -1

    def describe(self, api_version: int = 6) -> DescribedGroup:
        described = self.replies[self.ask("describe_group", GROUP, api_version=api_version)]
        assert isinstance(described, DescribedGroup)
        return described

    def overviews(self) -> list[GroupOverview]:
        """Return the overviews of a page of metrics."""
        return self.shard.overviews()

    def delete(self) -> int:
        result = self.replies[self.ask("delete_group", GROUP)]
        assert isinstance(result, DeletableGroupResult)
        return result.error_code

    # -- what they hear

    def joined(self, token: int) -> JoinGroupResponse:
        response = self.replies[token]
        assert isinstance(response, JoinGroupResponse)
        return response

    def synced(self, token: int) -> SyncGroupResponse:
        response = self.replies[token]
        assert isinstance(response, SyncGroupResponse)
        return response

    # -- stories that many tests begin with

    def stable_group(self, member_count: int) -> list[str]:
        """Let members join, rebalance and sync; the first id is the leader's."""
        ids = [self.new_member_id() for _ in range(member_count)]
        tokens = [self.join(member_id) for member_id in ids]
        self.advance(0)
        responses = [self.joined(token) for token in tokens]
        generation = responses[0].generation_id
        leader = responses[0].leader
        assignments = {member_id: f"part of {member_id}".encode() for member_id in ids}
        for member_id in ids:
            self.sync(member_id, generation, assignments if member_id == leader else None)
        assert self.describe().group_state == "Stable"
        return sorted(ids, key=lambda member_id: member_id != leader)
