"""One shard of the group coordinator: all groups of one partition of ``__consumer_offsets``.

Every ``handle_...`` method and ``on_timer`` is a plain function of the shard's state and a
``Decision``, to which it adds records, replies and timers. Stored state changes only in
``stored_groups``. State that is not in the log (members between two generations, sessions) changes
at once, and is reverted if the decision is refused. The shard does not know which connections wait,
nor how records reach the disk.

- Classic groups: ``joining`` and ``membership``.
- Consumer groups (KIP-848): ``consumer.heartbeats`` and ``classic_members``, because they may have
  members of both protocols.
- Share groups (KIP-932): ``share.groups``. A share group never changes its type.
- Streams groups (KIP-1071): ``streams.heartbeats``. A streams group may replace an empty classic
  group, and a classic group may replace an empty streams group.

A classic or consumer group changes its type while it is empty, or as ``group_migration`` decides.

Source: classic group protocol and offsets of Kafka 4.3; KIP-211 (expiry), KIP-1043 (errors of
DescribeGroups).
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import GROUP_METADATA_TOPIC, NO_TOPIC_ID, TopicPartition
from log_service.config.views import GroupConfig
from log_service.coordinator.group import listing
from log_service.coordinator.group.classic.group import ClassicGroup, GroupState
from log_service.coordinator.group.classic.joining import GroupDecision, Joining, refused
from log_service.coordinator.group.classic.membership import Membership
from log_service.coordinator.group.classic.stored_group import store_group
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.coordinator.group.consumer.heartbeats import ConsumerHeartbeats
from log_service.coordinator.group.consumer.listing import describe_consumer_group, validate_fetch
from log_service.coordinator.group.consumer.removals import ConsumerRemovals
from log_service.coordinator.group.consumer.sessions import ConsumerSessions
from log_service.coordinator.group.consumer.steps import ConsumerSteps
from log_service.coordinator.group.group_settings import GroupSettings
from log_service.coordinator.group.migration.classic_members import ClassicMembers
from log_service.coordinator.group.migration.group_migration import GroupMigration
from log_service.coordinator.group.offsets.commit_checks import CommitChecks
from log_service.coordinator.group.offsets.committed import OffsetStore
from log_service.coordinator.group.offsets.removals import (
    Group,
    OffsetRemovals,
    append_removal,
    is_empty,
    subscription_test,
)
from log_service.coordinator.group.records.classic import GenerationRecord
from log_service.coordinator.group.records.codec import GroupRecord
from log_service.coordinator.group.records.offset import CommittedOffset
from log_service.coordinator.group.share.group import ShareGroup
from log_service.coordinator.group.share.groups import ShareGroups
from log_service.coordinator.group.stored_groups import StoredGroups
from log_service.coordinator.group.streams.group import StreamsGroup
from log_service.coordinator.group.streams.heartbeats import StreamsHeartbeats
from log_service.coordinator.group.streams.listing import (
    describe_streams_group,
    validate_streams_fetch,
)
from log_service.coordinator.group.streams.requests import validate_streams_heartbeat
from log_service.coordinator.group.timer_kinds import TimerKind
from log_service.coordinator.group.values.epochs import JOIN_EPOCH
from log_service.coordinator.request_context import RequestContext
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage
from log_service.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from log_service.protocol.messages.delete_groups import DeletableGroupResult
from log_service.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from log_service.protocol.messages.join_group import JoinGroupRequest
from log_service.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from log_service.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from log_service.protocol.messages.offset_commit import OffsetCommitRequest
from log_service.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from log_service.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from log_service.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from log_service.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from log_service.state_machine.decision import InTransaction, ReplayContext

IsThere = Callable[[TopicPartition, UUID], bool]

FIRST_LEAVE_VERSION_WITH_MEMBERS = 3


def no_topics() -> MetadataImage:
    """Return metadata without topics, for a shard that has no access to metadata."""
    return EMPTY_IMAGE


def always_there(_where: TopicPartition, _topic_id: UUID) -> bool:
    """Treat every partition as existing, for a shard that has no access to metadata."""
    return True


class GroupCoordinatorShard:
    """The groups and offsets of one partition of ``__consumer_offsets``.

    ``new_member_id`` turns a prefix into an id that clients cannot guess. ``is_there`` returns
    whether a partition exists in the topic with the given id (a zero id matches any topic).
    ``image`` returns the newest metadata.
    """

    def __init__(
        self,
        config: GroupConfig,
        new_member_id: Callable[[str], str],
        is_there: IsThere = always_there,
        image: Callable[[], MetadataImage] = no_topics,
    ) -> None:
        self._config = config
        self._image = image
        self.groups: dict[str, Group] = {}
        self._is_there = is_there
        self._offsets = OffsetStore(config)
        self._offset_removals = OffsetRemovals(config, self._offsets, self.groups)
        self._joining = Joining(config, new_member_id)
        self._membership = Membership(config, self._joining)
        self._commit_checks = CommitChecks(self.groups, self._membership, image)
        settings = GroupSettings(config, image)
        sessions = ConsumerSessions(settings)
        self.steps = ConsumerSteps(settings, sessions, image)
        self.migration = GroupMigration(
            config=config,
            groups=self.groups,
            steps=self.steps,
            sessions=sessions,
            rebalances=self._joining,
            image=image,
        )
        self._removals = ConsumerRemovals(self.steps, sessions, self.migration.maybe_downgrade)
        self.consumers = ConsumerHeartbeats(
            settings, new_member_id, self.steps, sessions, self._removals
        )
        self._classic_members = ClassicMembers(
            settings=settings,
            new_member_id=new_member_id,
            image=image,
            steps=self.steps,
            sessions=sessions,
            removals=self._removals,
            migration=self.migration,
        )

        self.streams = StreamsHeartbeats(config, image)
        self.share_groups = ShareGroups(config, image, self.groups.__contains__)
        self._stored = StoredGroups(
            self.groups,
            offsets=self._offsets,
            steps=self.steps,
            migration=self.migration,
            streams=self.streams,
            share_groups=self.share_groups,
        )

    @property
    def offsets(self) -> OffsetStore:
        """The committed and pending offsets of the groups."""
        return self._offsets

    # Stored state

    def replay(self, record: GroupRecord, context: ReplayContext) -> None:
        """Apply one record of the log."""
        self._stored.replay(record, context)

    def replay_end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,  # noqa: ARG002 - see ``Shard``
        *,
        is_committed: bool,
    ) -> None:
        """Apply the offsets of a producer's transaction, or discard them."""
        self._stored.replay_end_transaction(producer_id, is_committed=is_committed)

    def on_loaded(self, decision: GroupDecision) -> None:
        """Begin to serve requests.

        Members get a full session. Offsets of topics that no longer exist are removed.
        Checks for expired offsets begin.
        """
        self._stored.is_serving = True
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                self.consumers.resume(group, decision)
            elif isinstance(group, StreamsGroup):
                self.streams.resume(group, decision)
            else:
                self._membership.resume(group, decision)
        self.share_groups.resume(decision)
        self._offset_removals.resume(self._is_gone, decision)

    def _is_gone(self, where: TopicPartition, committed: CommittedOffset | None) -> bool:
        """Whether an offset belongs to a deleted partition or an earlier topic of the same name."""
        return not self._is_there(where, NO_TOPIC_ID if committed is None else committed.topic_id)

    def classic_group(self, group_id: str) -> ClassicGroup | None:
        """Return a classic group, or None for any other kind of group."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Return a KIP-848 consumer group, or None for any other kind of group."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def streams_group(self, group_id: str) -> StreamsGroup | None:
        """Return a streams group, or None for any other kind of group."""
        group = self.groups.get(group_id)
        return group if isinstance(group, StreamsGroup) else None

    def _with_classic_members(self, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        """Return a group that may have members of the classic protocol, or None."""
        group = self.groups.get(group_id)
        return None if isinstance(group, StreamsGroup) else group

    # Members of the consumer protocol

    def handle_consumer_group_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        """Handle ConsumerGroupHeartbeat 0-1: a member joins, stays or leaves, and is reconciled.

        Raises:
            KafkaError: the error for the member. The caller must discard the decision.
        """
        self.consumers.validate(request, context)
        self.consumers.handle_heartbeat(
            self._consumer_group_for(request, decision), request, context, decision
        )

    def _consumer_group_for(
        self, request: ConsumerGroupHeartbeatRequest, decision: GroupDecision
    ) -> ConsumerGroup:
        """Return the group of a request.

        A joining member creates the group, or converts a classic group.
        """
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if isinstance(group, StreamsGroup) or request.group_id in self.share_groups:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group."
            )
        if request.member_epoch != JOIN_EPOCH:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found."
            )
        if group is not None and not group.is_in(GroupState.EMPTY):
            return self.migration.upgrade(group, decision)
        if group is not None:
            decision.append(GenerationRecord(group_id=request.group_id, generation=None))
        return ConsumerGroup(request.group_id)

    def handle_describe_consumer_group(
        self, group_id: str, context: RequestContext, decision: GroupDecision
    ) -> None:
        """Handle ConsumerGroupDescribe 0-1 for one group."""
        described = describe_consumer_group(
            group_id, self.consumer_group(group_id), self._image(), self._config.consumer.assignors
        )
        decision.reply(context.reply_to, described)

    # Instances of Kafka Streams

    def handle_streams_group_heartbeat(
        self,
        request: StreamsGroupHeartbeatRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        """Handle StreamsGroupHeartbeat 0: a member joins, stays or leaves, and is reconciled.

        The reply is a ``StreamsHeartbeatReply``.

        Raises:
            KafkaError: the error for the member. The caller must discard the decision.
        """
        validate_streams_heartbeat(request)
        self.streams.handle_heartbeat(
            self._streams_group_for(request, decision), request, context, decision
        )

    def _streams_group_for(
        self, request: StreamsGroupHeartbeatRequest, decision: GroupDecision
    ) -> StreamsGroup:
        """Return the group of a request.

        A joining member creates the group, or replaces an empty classic group.
        """
        group_id = request.group_id
        group = self.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        is_joining = request.member_epoch == JOIN_EPOCH
        if group is None and group_id not in self.share_groups:
            if is_joining:
                return StreamsGroup(group_id)
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        if is_joining and isinstance(group, ClassicGroup) and is_empty(group):
            decision.append(GenerationRecord(group_id=group_id, generation=None))
            return StreamsGroup(group_id)
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")

    def handle_describe_streams_group(
        self, group_id: str, context: RequestContext, decision: GroupDecision
    ) -> None:
        """Handle StreamsGroupDescribe 0 for one group."""
        group = self.streams_group(group_id)
        configured = None if group is None else self.streams.configured_topology(group)
        decision.reply(context.reply_to, describe_streams_group(group_id, group, configured))

    # Members of the classic protocol

    def handle_join_group(
        self, request: JoinGroupRequest, context: RequestContext, decision: GroupDecision
    ) -> None:
        """Handle JoinGroup 0-9: admit a member, or reply with an error.

        Raises:
            KafkaError: the error for a member of a consumer group. The caller must discard the
                decision.
        """
        error = self._validate_join(request)
        if error is not ErrorCode.NONE:
            decision.reply(context.reply_to, refused(request.member_id, error))
            return
        replaced = self.groups.get(request.group_id)
        if isinstance(replaced, ConsumerGroup) and replaced.members:
            self._classic_members.handle_join(replaced, request, context, decision)
            return
        group = self.classic_group(request.group_id)
        if group is None:
            if request.member_id != "":
                decision.reply(
                    context.reply_to, refused(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
                )
                return
            group = self.groups[request.group_id] = ClassicGroup(
                request.group_id, state_since_ms=decision.wall_ms
            )
            decision.on_refused(lambda: self._put_back(request.group_id, replaced))
            self._append_replacement(replaced, decision)
            decision.append(store_group(group, decision.wall_ms))
        self._joining.handle_join(group, request, context, decision)

    def _append_replacement(self, replaced: Group | None, decision: GroupDecision) -> None:
        """Append tombstones of the empty group that a classic group replaces.

        The timers of a replaced streams group are cancelled.
        """
        if isinstance(replaced, StreamsGroup):
            self.streams.cancel_timers(replaced.group_id, decision)
        if replaced is not None:
            append_removal(replaced, decision)

    def _put_back(self, group_id: str, replaced: Group | None) -> None:
        if replaced is None:
            del self.groups[group_id]
        else:
            self.groups[group_id] = replaced

    def _validate_join(self, request: JoinGroupRequest) -> ErrorCode:
        if request.group_id == "":
            return ErrorCode.INVALID_GROUP_ID
        if (
            not self._config.min_session_timeout_ms
            <= request.session_timeout_ms
            <= self._config.max_session_timeout_ms
        ):
            return ErrorCode.INVALID_SESSION_TIMEOUT
        group = self.streams_group(request.group_id)
        is_of_others = request.group_id in self.share_groups or (
            group is not None and bool(group.members)
        )
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_of_others else ErrorCode.NONE

    def handle_sync_group(
        self, request: SyncGroupRequest, context: RequestContext, decision: GroupDecision
    ) -> None:
        """Handle SyncGroup 0-5: reply with the member's assignment.

        In a classic group, the reply waits until the leader has sent the assignments.

        Raises:
            KafkaError: the error for a member of a consumer group. The caller must discard the
                decision.
        """
        group = self._with_classic_members(request.group_id)
        if group is None or request.group_id == "":
            decision.reply(
                context.reply_to,
                SyncGroupResponse(error_code=_member_without_group(request.group_id)),
            )
        elif isinstance(group, ConsumerGroup):
            self._classic_members.handle_sync(group, request, context, decision)
        else:
            self._membership.handle_sync(group, request, context, decision)

    def handle_heartbeat(
        self, request: HeartbeatRequest, context: RequestContext, decision: GroupDecision
    ) -> None:
        """Handle Heartbeat 0-4: restart a member's session, and reply whether it must rejoin.

        Raises:
            KafkaError: the error for a member of a consumer group. The caller must discard the
                decision.
        """
        group = self._with_classic_members(request.group_id)
        member = (request.member_id, request.group_instance_id, request.generation_id)
        if group is None or request.group_id == "":
            error = _member_without_group(request.group_id)
        elif isinstance(group, ConsumerGroup):
            error = self._classic_members.handle_heartbeat(group, *member, decision)
        else:
            error = self._membership.handle_heartbeat(group, *member, decision)
        decision.reply(context.reply_to, HeartbeatResponse(error_code=error))

    def handle_leave_group(
        self, request: LeaveGroupRequest, context: RequestContext, decision: GroupDecision
    ) -> None:
        """Handle LeaveGroup 0-5: remove members. Versions below 3 name a single member."""
        if request.group_id == "":
            decision.reply(
                context.reply_to, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
            )
            return
        is_one = context.api_version < FIRST_LEAVE_VERSION_WITH_MEMBERS
        leavers = [MemberIdentity(member_id=request.member_id)] if is_one else request.members
        response = LeaveGroupResponse()
        errors = self._leave(request.group_id, leavers, decision)
        if is_one:
            response.error_code = errors[0]
        else:
            response.members = [
                MemberResponse(
                    member_id=leaver.member_id,
                    group_instance_id=leaver.group_instance_id,
                    error_code=error,
                )
                for leaver, error in zip(leavers, errors, strict=True)
            ]
        decision.reply(context.reply_to, response)

    def _leave(
        self, group_id: str, leavers: Sequence[MemberIdentity], decision: GroupDecision
    ) -> list[ErrorCode]:
        group = self._with_classic_members(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.handle_leave(group, leavers, decision)
        return self._membership.handle_leave(group, leavers, decision)

    # Offsets

    def handle_offset_commit(
        self, request: OffsetCommitRequest, context: RequestContext, decision: GroupDecision
    ) -> None:
        """Handle OffsetCommit 2-10: store offsets of a member, or of a client that is none."""
        is_shared = request.group_id in self.share_groups
        error = (
            ErrorCode.GROUP_ID_NOT_FOUND
            if is_shared
            else self._commit_checks.validate(request, context, decision)
        )
        if error is not ErrorCode.NONE:
            decision.reply(context.reply_to, listing.refused_commit(request, error))
            return
        decision.reply(context.reply_to, self._offsets.commit(request, decision))

    def handle_txn_offset_commit(
        self,
        request: TxnOffsetCommitRequest,
        context: RequestContext,
        decision: GroupDecision,
        *,
        shown: object,
    ) -> None:
        """Handle TxnOffsetCommit 0-5: store offsets of an open transaction (KIP-98, KIP-447).

        The offsets take effect when the transaction commits. ``shown`` is the ``Verification`` of
        the transaction, which the log checks before it appends the offsets.
        """
        is_shared = request.group_id in self.share_groups
        error = (
            ErrorCode.GROUP_ID_NOT_FOUND
            if is_shared
            else self._commit_checks.validate_in_transaction(request)
        )
        if error is not ErrorCode.NONE:
            decision.reply(context.reply_to, listing.refused_txn_commit(request, error))
            return
        decision.transaction = InTransaction(request.producer_id, request.producer_epoch, shown)
        decision.reply(context.reply_to, self._offsets.commit_in_transaction(request, decision))

    def handle_offset_fetch(
        self,
        request: OffsetFetchRequestGroup,
        context: RequestContext,
        decision: GroupDecision,
        *,
        is_stable_required: bool = False,
    ) -> None:
        """Handle OffsetFetch 1-10 for one group.

        An unknown group gets a response without offsets and without an error. With
        ``is_stable_required``, an offset that an open transaction may still change gets an error.
        """
        group = self.groups.get(request.group_id)
        error = ErrorCode.NONE
        if isinstance(group, ConsumerGroup):
            error = validate_fetch(group, request)
        elif isinstance(group, StreamsGroup):
            error = validate_streams_fetch(group, request)
        if error is not ErrorCode.NONE:
            decision.reply(
                context.reply_to,
                OffsetFetchResponseGroup(group_id=request.group_id, error_code=error),
            )
            return
        decision.reply(
            context.reply_to, self._offsets.fetch(request, is_stable_required=is_stable_required)
        )

    def on_image(
        self, delta: MetadataDelta, _image: MetadataImage, decision: GroupDecision
    ) -> None:
        """Remove committed offsets of deleted topics, and mark groups whose topics have changed."""
        self.steps.on_image(
            delta, (group for group in self.groups.values() if isinstance(group, ConsumerGroup))
        )
        self.streams.on_image(
            delta, (group for group in self.groups.values() if isinstance(group, StreamsGroup))
        )
        self.share_groups.on_image(delta, decision)
        deleted = (
            topic for topic in delta.deleted_topics.values() if topic.name != GROUP_METADATA_TOPIC
        )
        gone = frozenset(
            TopicPartition(topic.name, index) for topic in deleted for index in topic.partitions
        )
        if gone:
            self._offset_removals.remove_those(lambda where, _: where in gone, decision)

    # Administration

    def handle_describe_group(
        self, group_id: str, context: RequestContext, decision: GroupDecision
    ) -> None:
        """Handle DescribeGroups 0-6 for one group."""
        decision.reply(
            context.reply_to, listing.describe(group_id, self.classic_group(group_id), context)
        )

    def list_groups(self, request: ListGroupsRequest) -> list[ListedGroup]:
        """Return this shard's groups that pass the filters of ListGroups 0-5."""
        groups: Iterable[Group | ShareGroup] = (*self.groups.values(), *self.share_groups.groups())
        listed = (listing.listed(group) for group in sorted(groups, key=attrgetter("group_id")))
        return [group for group in listed if listing.is_wanted(group, request)]

    def overviews(self) -> list[listing.GroupOverview]:
        """Return an overview of every group of this shard."""
        groups: Iterable[Group | ShareGroup] = (*self.groups.values(), *self.share_groups.groups())
        return [
            listing.overview(group, self._offsets.of(group.group_id))
            for group in sorted(groups, key=attrgetter("group_id"))
        ]

    def handle_delete_group(
        self,
        group_id: str,
        context: RequestContext,
        decision: GroupDecision,
        *,
        are_states_deleted: bool = False,
    ) -> None:
        """Handle DeleteGroups 0-2 for one group.

        Only a group without members can be deleted. For a share group, the reply may ask the caller
        to delete share states first. The caller then repeats the request with
        ``are_states_deleted``.
        """
        if group_id in self.share_groups:
            self.share_groups.handle_delete_group(
                group_id, context, decision, are_states_deleted=are_states_deleted
            )
            return
        group = self.groups.get(group_id)
        error = ErrorCode.NONE
        if group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif not is_empty(group):
            error = ErrorCode.NON_EMPTY_GROUP
        else:
            self._offsets.forget(group_id, self._offsets.partitions_of(group_id), decision)
            append_removal(group, decision)
            self.streams.cancel_timers(group_id, decision)
        decision.reply(context.reply_to, DeletableGroupResult(group_id=group_id, error_code=error))

    def handle_offset_delete(
        self, request: OffsetDeleteRequest, context: RequestContext, decision: GroupDecision
    ) -> None:
        """Handle OffsetDelete 0: delete offsets, except in subscribed topics (KIP-496)."""
        group = self.groups.get(request.group_id)
        error = ErrorCode.NONE
        if request.group_id == "":
            error = ErrorCode.INVALID_GROUP_ID
        elif group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif not is_empty(group) and isinstance(group, ClassicGroup) and not group.is_of_consumers:
            error = ErrorCode.NON_EMPTY_GROUP
        else:
            decision.reply(
                context.reply_to, self._offsets.delete(request, subscription_test(group), decision)
            )
            return
        decision.reply(context.reply_to, OffsetDeleteResponse(error_code=error))

    # Time

    def on_timer(self, key: Hashable, decision: GroupDecision) -> None:
        """Pass a due timer to the part that handles its kind, which is the key's first element."""
        group = self.groups.get(key[1]) if isinstance(key, tuple) and len(key) > 1 else None
        if isinstance(group, StreamsGroup):
            self.streams.on_timer(group, key, decision)
            return
        match key:
            case (TimerKind.SESSION, _, str(member_id)) if isinstance(group, ConsumerGroup):
                self._removals.on_session_timer(group, member_id, decision)
            case (TimerKind.SESSION, _, str(member_id)) if isinstance(group, ClassicGroup):
                self._membership.on_session_timer(group, member_id, decision)
            case (TimerKind.JOIN | TimerKind.SYNC, _, str(member_id)) if isinstance(
                group, ConsumerGroup
            ):
                self._removals.on_classic_timer(group, member_id, decision)
            case (TimerKind.JOIN, _) if isinstance(group, ClassicGroup):
                self._joining.on_join_timer(group, decision)
            case (TimerKind.SYNC, _) if isinstance(group, ClassicGroup):
                self._membership.on_sync_timer(group, decision)
            case (TimerKind.REBALANCE, _, str(member_id), int(epoch)) if isinstance(
                group, ConsumerGroup
            ):
                self._removals.on_rebalance_timer(group, member_id, epoch, decision)
            case (TimerKind.SHARE_SESSION, str(group_id), str(member_id)):
                self.share_groups.on_session_timer(group_id, member_id, decision)
            case (TimerKind.SHARE_TOPICS,):
                self.share_groups.on_deleted_topics_timer(decision)
            case (TimerKind.REGEX, str(group_id)):
                self.steps.on_regex_timer(self.consumer_group(group_id), group_id, decision)
            case (TimerKind.FORGET_ORPHANS,):
                self._offset_removals.on_orphan_timer(decision)
            case (TimerKind.EXPIRE_OFFSETS,):
                self._offset_removals.on_expiry_timer(decision)


def _member_without_group(group_id: str) -> ErrorCode:
    """Return the error for a member's request to a group that does not exist."""
    return ErrorCode.INVALID_GROUP_ID if group_id == "" else ErrorCode.UNKNOWN_MEMBER_ID
