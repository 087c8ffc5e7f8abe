"""The share groups of one shard of the group coordinator (KIP-932), and their administration.

Every ``handle_...`` and ``on_...`` method is a plain function of the groups and a ``Decision``.
Groups change only when records are replayed. ``ShareHeartbeats`` decides on members,
``share_states`` on share states. Share coordinators store the share states, and the shard's owner
sends them requests. A handler replies with the states to initialize or to delete, and a later call
to ``handle_initialized`` or ``handle_deleted`` stores the outcome.

A group exists as soon as a record names it. A share group never changes its type and never expires.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicId
from log_service.config.views import GroupConfig
from log_service.coordinator.group.records.share import (
    ShareEpochRecord,
    ShareGroupRecord,
    StateTopic,
)
from log_service.coordinator.group.share import states as share_states
from log_service.coordinator.group.share.group import ShareGroup, ShareMember, share_tombstones
from log_service.coordinator.group.share.heartbeats import (
    GroupDecision,
    ShareHeartbeats,
    StatesToInitialize,
    validate_share_heartbeat,
)
from log_service.coordinator.group.timer_kinds import TimerKind
from log_service.coordinator.group.values.epochs import JOIN_EPOCH
from log_service.coordinator.group.values.partitions import NO_PARTITIONS, Partitions, in_order
from log_service.coordinator.request_context import RequestContext
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from log_service.protocol.messages.delete_groups import DeletableGroupResult
from log_service.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponseTopic,
)
from log_service.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from log_service.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

ASSIGNOR = "simple"
DELETED_TOPICS_TIMER = (TimerKind.SHARE_TOPICS,)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsToAlter:
    """The decision on a request to alter offsets, which the caller has to carry out.

    It holds the share states to initialize again, and the response topics for the case that this
    succeeds.
    """

    to_initialize: StatesToInitialize
    topics: list[AlterShareGroupOffsetsResponseTopic]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesToDelete:
    """The share states to delete, and response entries of topics that were refused already."""

    group_id: str
    partitions: Partitions
    refused: list[DeleteShareGroupOffsetsResponseTopic] = field(default_factory=list)


class ShareGroups:
    """The share groups of a shard.

    ``is_taken`` returns whether a group of another kind has an id. ``image`` returns the newest
    metadata.
    """

    def __init__(
        self,
        config: GroupConfig,
        image: Callable[[], MetadataImage],
        is_taken: Callable[[str], bool],
    ) -> None:
        self._image = image
        self._is_taken = is_taken
        self._groups: dict[str, ShareGroup] = {}
        self.heartbeats = ShareHeartbeats(config.share, image, config.max_metadata_record_bytes)
        self._deleted_topics: set[UUID] = set()

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def __repr__(self) -> str:
        return f"<ShareGroups {len(self._groups)}>"

    def groups(self) -> Iterable[ShareGroup]:
        """Return all groups. The caller must not change them."""
        return self._groups.values()

    def get(self, group_id: str) -> ShareGroup | None:
        """Return a group, or None. The caller must not change it."""
        return self._groups.get(group_id)

    # Stored state

    def replay(self, record: ShareGroupRecord) -> None:
        """Apply one record of the log. The first record of a group creates it."""
        group = self._groups.get(record.group_id)
        if isinstance(record, ShareEpochRecord) and record.content is None:
            self._groups.pop(record.group_id, None)
            self.heartbeats.forget(record.group_id)
            return
        if group is None:
            if record.content is None:
                return
            group = self._groups[record.group_id] = ShareGroup(record.group_id)
        group.replay(record)

    def resume(self, decision: GroupDecision) -> None:
        """Begin to serve requests, and drop share states of topics that no longer exist.

        A topic id that is unknown here belongs to a deleted topic, because this node knows at least
        the topics that the writer of the record knew.
        """
        known = self._image().topics.by_id
        for group in self._groups.values():
            self.heartbeats.resume(group, decision)
            states = group.known_states
            topic_ids = (*states.initializing, *states.initialized, *states.deleting)
            self._deleted_topics.update(
                topic_id for topic_id in topic_ids if TopicId(topic_id) not in known
            )
        if self._deleted_topics:
            decision.set_timer(DELETED_TOPICS_TIMER, decision.now_ms)

    # Members

    def handle_heartbeat(
        self, request: ShareGroupHeartbeatRequest, context: RequestContext, decision: GroupDecision
    ) -> None:
        """Handle ShareGroupHeartbeat 1: a member joins, stays or leaves.

        Raises:
            KafkaError: the error for the member. The caller must discard the decision.
        """
        validate_share_heartbeat(request)
        group = self._found(request.group_id, is_made=request.member_epoch == JOIN_EPOCH)
        self.heartbeats.handle_heartbeat(group, request, context, decision)

    def _found(self, group_id: str, *, is_made: bool) -> ShareGroup:
        group = self._groups.get(group_id)
        if group is not None:
            return group
        if self._is_taken(group_id):
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group."
            )
        if not is_made:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
        return ShareGroup(group_id)

    def handle_describe(
        self, group_id: str, context: RequestContext, decision: GroupDecision
    ) -> None:
        """Handle ShareGroupDescribe 1 for one group."""
        group = self._groups.get(group_id)
        if group is None:
            text = (
                f"Group {group_id} is not a share group."
                if self._is_taken(group_id)
                else f"Group {group_id} not found."
            )
            described = DescribedGroup(
                group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text
            )
        else:
            described = DescribedGroup(
                group_id=group_id,
                group_state=group.state,
                group_epoch=group.epoch.epoch,
                assignment_epoch=group.target_epoch.epoch,
                assignor_name=ASSIGNOR,
                members=[
                    _described(member, self._image()) for _, member in sorted(group.members.items())
                ],
            )
        decision.reply(context.reply_to, described)

    # States of partitions

    def handle_initialized(
        self,
        group_id: str,
        initialized: Partitions,
        failed: Partitions,
        reply_to: Hashable,
        decision: GroupDecision,
    ) -> None:
        """Store which share states are now initialized. The reply is None.

        States whose initialization has failed are no longer listed, so that a later heartbeat
        initializes them again.
        """
        group = self._groups.get(group_id)
        if group is not None and (initialized or failed):
            states = share_states.without_initializing(group.known_states, failed)
            self.heartbeats.store_states(
                group_id,
                share_states.with_initialized(states, initialized, self._image()),
                decision,
            )
        decision.reply(reply_to, None)

    def handle_initialized_partitions(
        self, group_id: str, reply_to: Hashable, decision: GroupDecision
    ) -> None:
        """Reply with the partitions whose share states are initialized."""
        group = self._groups.get(group_id)
        states = (
            NO_PARTITIONS
            if group is None
            else share_states.partitions_of_states(group.known_states.initialized)
        )
        decision.reply(reply_to, states)

    def on_image(self, delta: MetadataDelta, decision: GroupDecision) -> None:
        """Mark groups whose topics have changed, and let a timer drop states of deleted topics."""
        self.heartbeats.on_image(delta, self._groups.values())
        self._deleted_topics.update(delta.deleted_topics)
        if delta.deleted_topics:
            decision.set_timer(DELETED_TOPICS_TIMER, decision.now_ms)

    def on_deleted_topics_timer(self, decision: GroupDecision) -> None:
        """Drop the share states of deleted topics. A refused append is retried."""
        gone, self._deleted_topics = self._deleted_topics, set()
        decision.on_refused(partial(self._deleted_topics.update, gone))
        for group in self._groups.values():
            states = share_states.without_topics(group.known_states, gone)
            if states != group.known_states:
                self.heartbeats.store_states(group.group_id, states, decision)

    def on_session_timer(self, group_id: str, member_id: str, decision: GroupDecision) -> None:
        """Remove a member that has sent no heartbeat for a whole session."""
        group = self._groups.get(group_id)
        if group is not None:
            self.heartbeats.on_session_timer(group, member_id, decision)

    # Administration

    def handle_alter_offsets(
        self,
        request: AlterShareGroupOffsetsRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        """Handle AlterShareGroupOffsets 0: reply with ``OffsetsToAlter``.

        An unknown group is created.

        Raises:
            KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND. The caller must discard the decision.
        """
        group = self._found(request.group_id, is_made=True)
        _validate_empty(group)
        start_offsets: dict[UUID, dict[int, int]] = {}
        topics = [self._altered(topic, start_offsets) for topic in request.topics]
        names = {topic.topic_id: topic.topic_name for topic in topics}
        initializing = {
            topic_id: StateTopic(name=names[topic_id], partitions=frozenset(each))
            for topic_id, each in start_offsets.items()
        }
        if initializing:
            self.heartbeats.store_states(
                group.group_id,
                share_states.with_initializing(group.known_states, initializing),
                decision,
            )
        to_initialize = StatesToInitialize(
            group_id=group.group_id, state_epoch=group.epoch.epoch, start_offsets=start_offsets
        )
        decision.reply(context.reply_to, OffsetsToAlter(to_initialize=to_initialize, topics=topics))

    def _altered(
        self, wanted: AlterShareGroupOffsetsRequestTopic, start_offsets: dict[UUID, dict[int, int]]
    ) -> AlterShareGroupOffsetsResponseTopic:
        """Return the response for one topic, for the case that its states are initialized.

        Add the offsets of its existing partitions to ``start_offsets``. Other partitions get an
        error.
        """
        topic = self._image().topics.by_name.get(wanted.topic_name)
        response = AlterShareGroupOffsetsResponseTopic(topic_name=wanted.topic_name)
        if topic is not None:
            response.topic_id = topic.topic_id
        for each in wanted.partitions:
            part = AlterShareGroupOffsetsResponsePartition(partition_index=each.partition_index)
            if topic is None or each.partition_index not in topic.partitions:
                part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                part.error_message = (
                    f"partition {each.partition_index} of topic {wanted.topic_name} does not exist"
                )
            else:
                start_offsets.setdefault(topic.topic_id, {})[each.partition_index] = (
                    each.start_offset
                )
            response.partitions.append(part)
        return response

    def handle_delete_offsets(
        self,
        request: DeleteShareGroupOffsetsRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        """Handle DeleteShareGroupOffsets 0: reply with ``StatesToDelete``.

        Raises:
            KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND. The caller must discard the decision.
        """
        group = self._found(request.group_id, is_made=False)
        _validate_empty(group)
        by_name = self._image().topics.by_name
        topics = {topic.topic_name: by_name.get(topic.topic_name) for topic in request.topics}
        wanted = {topic.topic_id: name for name, topic in topics.items() if topic is not None}
        states, going = share_states.with_topics_deleting(group.known_states, wanted, self._image())
        if group.states is not None and states != group.states:
            self.heartbeats.store_states(group.group_id, states, decision)
        refused = [
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message=(
                    f"topic {name} does not exist"
                    if topic is None
                    else "There is no offset information to delete."
                ),
            )
            for name, topic in topics.items()
            if group.states is not None and (topic is None or topic.topic_id not in going)
        ]
        decision.reply(
            context.reply_to,
            StatesToDelete(group_id=group.group_id, partitions=going, refused=refused),
        )

    def handle_deleted(
        self, group_id: str, topic_ids: Iterable[UUID], reply_to: Hashable, decision: GroupDecision
    ) -> None:
        """Store that the share states of topics are deleted. The reply is None."""
        group = self._groups.get(group_id)
        if group is not None and group.states is not None:
            self.heartbeats.store_states(
                group_id, share_states.without_deleting(group.states, topic_ids), decision
            )
        decision.reply(reply_to, None)

    def handle_delete_group(
        self,
        group_id: str,
        context: RequestContext,
        decision: GroupDecision,
        *,
        are_states_deleted: bool,
    ) -> None:
        """Handle DeleteGroups 0-2 for one share group.

        The reply is ``StatesToDelete`` if share states must be deleted first. The caller repeats
        the request when they are deleted. Otherwise the reply is a ``DeletableGroupResult``.
        """
        group = self._groups[group_id]
        result = DeletableGroupResult(group_id=group_id)
        if group.members:
            result.error_code = ErrorCode.NON_EMPTY_GROUP
        elif group.states is None or (
            are_states_deleted and not (group.states.initialized or group.states.initializing)
        ):
            decision.records.extend(share_tombstones(group))
        else:
            states, going = share_states.with_all_deleting(group.states, self._image())
            self.heartbeats.store_states(group_id, states, decision)
            decision.reply(context.reply_to, StatesToDelete(group_id=group_id, partitions=going))
            return
        decision.reply(context.reply_to, result)


def _validate_empty(group: ShareGroup) -> None:
    if group.members:
        raise KafkaError(
            ErrorCode.NON_EMPTY_GROUP, f"group {group.group_id} has members: stop them first"
        )


def _described(member: ShareMember, image: MetadataImage) -> Member:
    topics = [
        TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=indexes)
        for topic_id, indexes in in_order(member.current.partitions)
        if (topic := image.topics.by_id.get(TopicId(topic_id))) is not None
    ]
    return Member(
        member_id=member.member_id,
        rack_id=member.subscription.rack_id,
        member_epoch=member.current.epoch,
        client_id=member.subscription.client_id,
        client_host=member.subscription.client_host,
        subscribed_topic_names=list(member.subscription.topics),
        assignment=Assignment(topic_partitions=topics),
    )


def names_of(topic_ids: Iterable[UUID], image: MetadataImage) -> Mapping[UUID, str]:
    """Return the names of the given topics by topic id, without topics that do not exist."""
    found = ((topic_id, image.topics.by_id.get(TopicId(topic_id))) for topic_id in topic_ids)
    return {topic_id: topic.name for topic_id, topic in found if topic is not None}
