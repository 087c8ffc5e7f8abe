"""Serve the group APIs of a node: find the shard of each group, and join the responses of shards.

This file decides which partition of ``__consumer_offsets`` a group belongs to. It also decides on
the error of a request whose shard another node leads, or whose shard's log refuses the append. It
does not know groups. No method waits. Each method calls ``on_reply`` once, now or later.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from random import Random
from typing import TypeVar
from uuid import UUID

from log_service.common.env import Clock, RunInPool
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.timers import TimerQueue
from log_service.common.types import GROUP_METADATA_TOPIC
from log_service.config.views import GroupConfig
from log_service.coordinator.gathering import Gathering
from log_service.coordinator.group import listing
from log_service.coordinator.group.classic.joining import refused
from log_service.coordinator.group.group_coordinator import (
    GroupCoordinatorShard,
    IsThere,
    always_there,
    no_topics,
)
from log_service.coordinator.group.records import codec
from log_service.coordinator.group.records.codec import GroupRecord
from log_service.coordinator.group.share.heartbeats import StatesToInitialize
from log_service.coordinator.group.streams.heartbeats import StreamsHeartbeatReply
from log_service.coordinator.group.timer_kinds import is_about_silence
from log_service.coordinator.refusals import api_error
from log_service.coordinator.request_context import RequestClient, RequestContext
from log_service.coordinator.sharded_service import ShardedService
from log_service.coordinator.shards import CoordinatorLog, Shards
from log_service.coordinator.share_group_service import (
    NoShareStates,
    ShareGroupService,
    ShareStates,
)
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from log_service.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from log_service.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from log_service.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from log_service.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from log_service.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from log_service.protocol.messages.join_group import JoinGroupRequest
from log_service.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from log_service.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from log_service.protocol.messages.offset_commit import OffsetCommitRequest
from log_service.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from log_service.protocol.messages.streams_group_describe import (
    DescribedGroup as DescribedStreamsGroup,
)
from log_service.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from log_service.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from log_service.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from log_service.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from log_service.records.control import EndOfTransaction
from log_service.state_machine.decision import Decision
from log_service.state_machine.runtime import OnReply, Refuse

T = TypeVar("T")
NO_SHARE_STATES = NoShareStates()
Decide = Callable[[GroupCoordinatorShard, Decision[GroupRecord], Hashable], None]

MAX_MEMBER_ID_PREFIX_BYTES = 32_767 - len("-00000000-0000-0000-0000-000000000000")
"""The longest client part of a member id. The whole id must fit a protocol string."""


class GroupService(ShardedService[GroupCoordinatorShard, GroupRecord]):
    """The groups that this node coordinates.

    ``is_there`` returns whether a partition with the given topic id exists (a zero id matches any
    topic). ``image`` returns the newest metadata. ``share_states`` sends requests to share
    coordinators.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        rng: Random,
        config: GroupConfig,
        timers: TimerQueue,
        run_in_pool: RunInPool,
        is_there: IsThere = always_there,
        partition_count: Callable[[], int] = lambda: 0,
        image: Callable[[], MetadataImage] = no_topics,
        share_states: ShareStates = NO_SHARE_STATES,
    ) -> None:
        self._rng = rng
        shards: Shards[GroupCoordinatorShard, GroupRecord] = Shards(
            clock=clock,
            timers=timers,
            run_in_pool=run_in_pool,
            topic=GROUP_METADATA_TOPIC,
            new_shard=lambda: GroupCoordinatorShard(config, self._new_member_id, is_there, image),
            encode=codec.encode,
            decode=codec.decode,
            reply_timeout_ms=config.offsets_commit_timeout_ms,
            on_announcement=self._on_announcement,
            is_about_silence=is_about_silence,
        )
        super().__init__(shards, partition_count, config.offsets_topic_partitions)
        self.share = ShareGroupService(self._ask, share_states, image)
        """The service of share groups."""

    def _on_announcement(self, _log: CoordinatorLog, announcement: StatesToInitialize) -> None:
        self.share.initialize_states(announcement)

    def _new_member_id(self, prefix: str) -> str:
        kept = prefix.encode()[:MAX_MEMBER_ID_PREFIX_BYTES].decode(errors="ignore")
        return f"{kept}-{UUID(bytes=self._rng.randbytes(16), version=4)}"

    def partition_for(self, group_id: str) -> int:
        """Return the partition of ``__consumer_offsets`` that a group belongs to."""
        return self._partition_of(group_id)

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Remove offsets of deleted partitions, and pass changed metadata to the groups."""
        if delta.deleted_topics or delta.changed_topics or delta.changed_brokers:
            self.shards.on_image(delta, image)

    # One group

    def join_group(
        self, request: JoinGroupRequest, client: RequestClient, on_reply: OnReply
    ) -> None:
        """Respond with JoinGroupResponse."""
        decide = _decides(GroupCoordinatorShard.handle_join_group, request, client)
        self._ask(request.group_id, decide, on_reply, lambda error: refused("", api_error(error)))

    def sync_group(
        self, request: SyncGroupRequest, client: RequestClient, on_reply: OnReply
    ) -> None:
        """Respond with SyncGroupResponse."""
        decide = _decides(GroupCoordinatorShard.handle_sync_group, request, client)
        self._ask(
            request.group_id,
            decide,
            on_reply,
            lambda error: SyncGroupResponse(error_code=api_error(error)),
        )

    def heartbeat(
        self, request: HeartbeatRequest, client: RequestClient, on_reply: OnReply
    ) -> None:
        """Respond with HeartbeatResponse."""
        decide = _decides(GroupCoordinatorShard.handle_heartbeat, request, client)
        self._ask(request.group_id, decide, on_reply, _refused_heartbeat)

    def leave_group(
        self, request: LeaveGroupRequest, client: RequestClient, on_reply: OnReply
    ) -> None:
        """Respond with LeaveGroupResponse."""
        decide = _decides(GroupCoordinatorShard.handle_leave_group, request, client)
        self._ask(
            request.group_id,
            decide,
            on_reply,
            lambda error: LeaveGroupResponse(error_code=api_error(error)),
        )

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: RequestClient, on_reply: OnReply
    ) -> None:
        """Respond with ConsumerGroupHeartbeatResponse."""
        decide = _decides(GroupCoordinatorShard.handle_consumer_group_heartbeat, request, client)
        self._ask(request.group_id, decide, on_reply, refused_consumer_heartbeat)

    def streams_group_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: RequestClient, on_reply: OnReply
    ) -> None:
        """Respond with StreamsHeartbeatReply."""
        decide = _decides(GroupCoordinatorShard.handle_streams_group_heartbeat, request, client)
        self._ask(request.group_id, decide, on_reply, _refused_streams_heartbeat)

    def offset_commit(
        self, request: OffsetCommitRequest, client: RequestClient, on_reply: OnReply
    ) -> None:
        """Respond with OffsetCommitResponse.

        The topics must exist, and the request must hold both their ids and names.
        """
        decide = _decides(GroupCoordinatorShard.handle_offset_commit, request, client)
        self._ask(
            request.group_id,
            decide,
            on_reply,
            lambda error: listing.refused_commit(request, api_error(error)),
        )

    def txn_offset_commit(
        self,
        request: TxnOffsetCommitRequest,
        client: RequestClient,
        on_reply: OnReply,
        *,
        shown: object,
    ) -> None:
        """Respond with TxnOffsetCommitResponse. The topics must exist.

        ``shown`` is the ``Verification`` of the producer's transaction, which the log checks.
        """
        decide = _decides(
            partial(GroupCoordinatorShard.handle_txn_offset_commit, shown=shown), request, client
        )
        self._ask(
            request.group_id,
            decide,
            on_reply,
            lambda error: listing.refused_txn_commit(request, api_error(error)),
        )

    def end_transaction(
        self, partition: int, marker: EndOfTransaction, on_reply: Callable[[ErrorCode], None]
    ) -> None:
        """Append the end of a producer's transaction to a partition of ``__consumer_offsets``.

        The shard of this partition replays the end.
        """
        self.shards.end_transaction(
            partition,
            marker,
            lambda error: on_reply(error or ErrorCode.NONE),
            lambda error: error.code,
        )

    def offset_delete(
        self, request: OffsetDeleteRequest, client: RequestClient, on_reply: OnReply
    ) -> None:
        """Respond with OffsetDeleteResponse. The topics must exist."""
        decide = _decides(GroupCoordinatorShard.handle_offset_delete, request, client)
        self._ask(
            request.group_id,
            decide,
            on_reply,
            lambda error: OffsetDeleteResponse(error_code=api_error(error)),
        )

    # Several groups

    def offset_fetch(
        self,
        groups: Sequence[OffsetFetchRequestGroup],
        client: RequestClient,
        on_reply: OnReply,
        *,
        is_stable_required: bool = False,
    ) -> None:
        """Respond with a list of OffsetFetchResponseGroup, in the order of the request."""
        gather = Gathering(len(groups), on_reply)
        handle = partial(
            GroupCoordinatorShard.handle_offset_fetch, is_stable_required=is_stable_required
        )
        for index, group in enumerate(groups):
            decide = _decides(handle, group, client)
            self._ask(group.group_id, decide, gather.part(index), partial(_refused_fetch, group))

    def describe_groups(
        self, request: DescribeGroupsRequest, client: RequestClient, on_reply: OnReply
    ) -> None:
        """Respond with DescribeGroupsResponse."""
        gather = Gathering(
            len(request.groups), lambda groups: on_reply(DescribeGroupsResponse(groups=groups))
        )
        for index, group_id in enumerate(request.groups):
            decide = _decides(GroupCoordinatorShard.handle_describe_group, group_id, client)
            self._ask(group_id, decide, gather.part(index), partial(_refused_describe, group_id))

    def describe_consumer_groups(
        self, request: ConsumerGroupDescribeRequest, client: RequestClient, on_reply: OnReply
    ) -> None:
        """Respond with ConsumerGroupDescribeResponse."""
        gather = Gathering(
            len(request.group_ids),
            lambda groups: on_reply(ConsumerGroupDescribeResponse(groups=groups)),
        )
        for index, group_id in enumerate(request.group_ids):
            decide = _decides(
                GroupCoordinatorShard.handle_describe_consumer_group, group_id, client
            )
            self._ask(
                group_id, decide, gather.part(index), partial(_refused_consumer_describe, group_id)
            )

    def describe_streams_groups(
        self, request: StreamsGroupDescribeRequest, client: RequestClient, on_reply: OnReply
    ) -> None:
        """Respond with StreamsGroupDescribeResponse."""
        gather = Gathering(
            len(request.group_ids),
            lambda groups: on_reply(StreamsGroupDescribeResponse(groups=groups)),
        )
        for index, group_id in enumerate(request.group_ids):
            decide = _decides(GroupCoordinatorShard.handle_describe_streams_group, group_id, client)
            self._ask(
                group_id, decide, gather.part(index), partial(_refused_streams_describe, group_id)
            )

    def delete_groups(
        self, request: DeleteGroupsRequest, client: RequestClient, on_reply: OnReply
    ) -> None:
        """Respond with DeleteGroupsResponse."""
        gather = Gathering(
            len(request.groups_names),
            lambda results: on_reply(DeleteGroupsResponse(results=results)),
        )
        for index, group_id in enumerate(request.groups_names):
            self.share.delete_group(group_id, client.context, gather.part(index))

    def list_groups(
        self,
        request: ListGroupsRequest,
        client: RequestClient,  # noqa: ARG002 - one shape for all
        on_reply: OnReply,
    ) -> None:
        """Respond with ListGroupsResponse."""
        shards = self.shards.serving()
        if shards is None:
            on_reply(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        on_reply(
            ListGroupsResponse(
                groups=[group for shard in shards for group in shard.list_groups(request)]
            )
        )

    def overviews(self) -> Iterator[list[listing.GroupOverview]]:
        """Yield overviews of the groups that this node coordinates, shard by shard.

        Nothing is yielded, not even for other shards, while any shard loads for the first time.
        """
        for shard in self.shards.serving() or ():
            yield shard.overviews()

    def _ask(self, group_id: str, decide: Decide, on_reply: OnReply, refuse: Refuse) -> None:
        self.shards.ask(self.partition_for(group_id), decide, on_reply, refuse)


def _decides(
    handle: Callable[[GroupCoordinatorShard, T, RequestContext, Decision[GroupRecord]], None],
    request: T,
    client: RequestClient,
) -> Decide:
    """Return a function that calls ``handle`` with a shard and a client's request."""
    return lambda shard, decision, token: handle(shard, request, client.context(token), decision)


def _refused_heartbeat(error: KafkaError) -> HeartbeatResponse:
    """Return the response to a refused heartbeat, without an error while the group is loading.

    Kafka does the same, because an error would make the member look for another coordinator.
    """
    is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else api_error(error))


def _refused_fetch(group: OffsetFetchRequestGroup, error: KafkaError) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=api_error(error))


def _refused_describe(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=api_error(error))


def refused_consumer_heartbeat(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    """Return the response to a member whose heartbeat is refused, with the reason."""
    return ConsumerGroupHeartbeatResponse(error_code=api_error(error), error_message=str(error))


def _refused_consumer_describe(group_id: str, error: KafkaError) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(
        group_id=group_id, error_code=api_error(error), error_message=str(error)
    )


def _refused_streams_heartbeat(error: KafkaError) -> StreamsHeartbeatReply:
    return StreamsHeartbeatReply(
        StreamsGroupHeartbeatResponse(error_code=api_error(error), error_message=str(error))
    )


def _refused_streams_describe(group_id: str, error: KafkaError) -> DescribedStreamsGroup:
    return DescribedStreamsGroup(
        group_id=group_id, error_code=api_error(error), error_message=str(error)
    )
