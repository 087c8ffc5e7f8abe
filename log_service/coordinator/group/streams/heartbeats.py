"""Heartbeats of streams groups (KIP-1071): instances join, report, get and revoke tasks, and leave.

The steps of one heartbeat:

1. Store the member's metadata. The first member's topology becomes the group's.
2. Configure the topology anew if its topics have changed.
3. Begin a new group epoch if metadata, topics or the wanted number of standby tasks have changed.
4. Compute the targets if they are of an older epoch and the assignment interval has passed. An
   empty group waits for more members first.
5. Move the member one step towards its target.

A problem that prevents tasks from being assigned is a status in the response. Groups change only
when their records are replayed. This file holds the state that is not in the log: sessions, the
groups that wait or must check their topics, configured topologies, the member that requested a
shutdown, and the endpoint epoch. This epoch increases when a member with an endpoint joins or gets
other tasks. This file does not know how records are stored. It creates no topics, and its reply
names the missing ones instead.

Source: KIP-1071 as of Kafka 4.3, with KIP-1101 (hashes of topics).
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.views import GroupConfig
from log_service.coordinator.group.group_settings import StreamsSettings
from log_service.coordinator.group.member_sessions import MemberSessions
from log_service.coordinator.group.records.codec import GroupRecord, validate_size
from log_service.coordinator.group.records.streams import (
    NOT_VALIDATED,
    StreamsAssignmentRecord,
    StreamsEpoch,
    StreamsEpochRecord,
    StreamsMemberRecord,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    TopologyRecord,
)
from log_service.coordinator.group.streams.assignor import TaskCount, TaskMember, assign_sticky
from log_service.coordinator.group.streams.configuration import (
    ConfiguredTopology,
    Problem,
    StreamsStatus,
    configured,
)
from log_service.coordinator.group.streams.group import StreamsGroup
from log_service.coordinator.group.streams.listing import partitions_by_endpoint
from log_service.coordinator.group.streams.reconciliation import TaskTarget, reconcile_tasks
from log_service.coordinator.group.streams.requests import (
    owned_tasks,
    set_assignment,
    updated_metadata,
    validate_member_epoch,
    validate_tasks,
)
from log_service.coordinator.group.timer_kinds import TimerKind
from log_service.coordinator.group.topic_hash import TopicHashes
from log_service.coordinator.group.values.epochs import JOIN_EPOCH, LEAVE_EPOCH, TargetEpoch
from log_service.coordinator.group.values.streams_tasks import (
    StreamsMember,
    TaskAssignment,
    Tasks,
    TaskState,
)
from log_service.coordinator.group.values.streams_topology import (
    InternalTopic,
    Topology,
    topology_of,
)
from log_service.coordinator.request_context import RequestContext
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from log_service.state_machine.decision import Decision

GroupDecision = Decision[GroupRecord]
STANDBY_KEY = "num.standby.replicas"
"""The key under which the log stores the wanted number of standby tasks."""
NO_TASKS = Tasks()
DELAYED_AT_FIRST = Problem(
    status=StreamsStatus.ASSIGNMENT_DELAYED,
    detail="Assignment delayed due to the configured initial rebalance delay.",
)
DELAYED_BY_INTERVAL = Problem(
    status=StreamsStatus.ASSIGNMENT_DELAYED,
    detail="Assignment delayed due to the configured assignment interval.",
)


def streams_session_timer(group_id: str, member_id: str) -> tuple[str, str, str]:
    """Return the key of the timer that removes a silent member."""
    return (TimerKind.STREAMS_SESSION, group_id, member_id)


def streams_rebalance_timer(group_id: str, member_id: str) -> tuple[str, str, str]:
    """Return the key of the timer that removes a member that does not revoke its tasks."""
    return (TimerKind.STREAMS_REBALANCE, group_id, member_id)


def streams_delay_timer(group_id: str) -> tuple[str, str]:
    """Return the key of the timer that ends a new group's wait for more members."""
    return (TimerKind.STREAMS_DELAY, group_id)


class StreamsHeartbeatReply(NamedTuple):
    """The outcome of a heartbeat: the response, and the group's missing internal topics."""

    response: StreamsGroupHeartbeatResponse
    missing_topics: tuple[InternalTopic, ...] = ()
    retry_ms: int = 0
    """The pause before a topic whose creation failed is created again."""


@dataclass(slots=True)
class _Soft:
    """The part of a group's state that is not in the log."""

    topology: Topology | None = None
    configured: ConfiguredTopology | None = None
    """The configuration of ``topology`` at its last check."""
    is_stale: bool = False
    is_delayed: bool = False
    shutdown_member_id: str | None = None
    endpoint_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beat:
    """A heartbeat in progress.

    ``group`` and ``member`` are the state before the heartbeat. ``updated`` is the member with its
    new metadata. ``soft`` is the group's state that is not in the log.
    """

    group: StreamsGroup
    member: StreamsMember
    updated: StreamsMember
    owned: Tasks | None
    soft: _Soft
    problems: list[Problem] = field(default_factory=list)
    """The statuses that the member gets."""

    def members(self) -> list[StreamsMember]:
        """Return the group's members after the heartbeat."""
        return [
            *(
                each
                for each in self.group.members.values()
                if each.member_id != self.updated.member_id
            ),
            self.updated,
        ]


class StreamsHeartbeats:
    """Decides on members of one shard's streams groups. ``image`` returns the newest metadata."""

    def __init__(self, config: GroupConfig, image: Callable[[], MetadataImage]) -> None:
        self._max_record_bytes = config.max_metadata_record_bytes
        self._settings = StreamsSettings(config.streams, image)
        self._image = image
        self._hashes = TopicHashes()
        self._sessions = MemberSessions(streams_session_timer)
        self._soft: dict[str, _Soft] = {}

    # Heartbeat of a member that stays

    def handle_heartbeat(
        self,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        """Advance a member by one step, and reply with a ``StreamsHeartbeatReply``.

        The request must be valid. ``group`` may be a new one.

        Raises:
            KafkaError: the error for the member. The caller must discard the decision.
        """
        soft = self._soft_of(group, decision)
        if request.member_epoch == LEAVE_EPOCH:
            self._leave(group, soft, request, context, decision)
            return
        beat = self._begin(group, soft, request, context)
        configured_topology, epoch = self.settled_epoch(
            beat, self._settled_topology(beat, request, decision), decision
        )
        target = self._settled_target(beat, configured_topology, epoch, decision)
        current = self._reconciled(beat, target, decision)
        self._sessions.keep_alive(
            group.group_id,
            request.member_id,
            self._settings.session_timeout_ms(group.group_id),
            decision,
        )
        if request.shutdown_application and soft.shutdown_member_id is None:
            soft.shutdown_member_id = request.member_id
        response = self._response(
            beat, request, replace(beat.updated, current=current), configured_topology
        )
        retry_ms = 2 * response.heartbeat_interval_ms
        decision.reply(
            context.reply_to,
            StreamsHeartbeatReply(response, configured_topology.missing_topics, retry_ms),
        )

    def _soft_of(self, group: StreamsGroup, decision: GroupDecision) -> _Soft:
        """Return the part of a group's state that is not in the log. Create it if it is missing.

        If the decision is refused, its changes to this state are reverted.
        """
        soft = self._soft.get(group.group_id)
        if soft is None:
            soft = self._soft[group.group_id] = _Soft()
            decision.on_refused(partial(self.forget, group.group_id))
        decision.stage(soft)
        return soft

    def _begin(
        self,
        group: StreamsGroup,
        soft: _Soft,
        request: StreamsGroupHeartbeatRequest,
        context: RequestContext,
    ) -> _Beat:
        is_joining = request.member_epoch == JOIN_EPOCH
        if is_joining and len(group.members) >= self._settings.max_size:
            text = (
                f"The streams group has reached its maximum capacity of {self._settings.max_size}"
                " members."
            )
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
        known = group.members.get(request.member_id)
        if known is None and not is_joining:
            raise _unknown(group, request.member_id)
        member = known or StreamsMember(member_id=request.member_id)
        owned = owned_tasks(request)
        validate_member_epoch(member, request.member_epoch, owned)
        updated = replace(member, metadata=updated_metadata(member.metadata, request, context))
        return _Beat(group=group, member=member, updated=updated, owned=owned, soft=soft)

    # Topology and epoch of the group

    def _settled_topology(
        self, beat: _Beat, request: StreamsGroupHeartbeatRequest, decision: GroupDecision
    ) -> Topology:
        """Store the member's metadata, and return the group's topology.

        If the group has no topology yet, the member's topology becomes the group's.

        Raises:
            KafkaError: INVALID_REQUEST, the member has another topology. UNKNOWN_SERVER_ERROR,
                neither the group nor the member has a topology, or a record is too large.
        """
        group_id, known = beat.group.group_id, beat.group.topology
        if beat.updated.metadata != beat.member.metadata:
            record = StreamsMemberRecord(
                group_id=group_id, member_id=beat.updated.member_id, content=beat.updated.metadata
            )
            validate_size(record, self._max_record_bytes)
            decision.append(record)
        if known is None:
            if request.topology is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"streams group {group_id} has no topology, and the member names none",
                )
            topology_record = TopologyRecord(
                group_id=group_id, content=topology_of(request.topology)
            )
            validate_size(topology_record, self._max_record_bytes)
            decision.append(topology_record)
            return topology_of(request.topology)
        if (
            request.topology is not None
            and request.topology.epoch >= known.epoch
            and not known.is_same(topology_of(request.topology))
        ):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        own_epoch = beat.updated.metadata.topology_epoch
        if own_epoch < known.epoch:
            text = (
                f"The member's topology epoch {own_epoch} is behind the group's topology epoch"
                f" {known.epoch}."
            )
            beat.problems.append(Problem(status=StreamsStatus.STALE_TOPOLOGY, detail=text))
        return known

    def settled_epoch(
        self, beat: _Beat, topology: Topology, decision: GroupDecision
    ) -> tuple[ConfiguredTopology, int]:
        """Return the configured topology and the group's epoch.

        A new epoch begins if the member's metadata, the topics or the wanted number of standby
        tasks have changed, or if the topology has become ready or is no longer ready.

        Raises:
            KafkaError: INVALID_REQUEST, the member runs tasks that are not in the topology.
                STREAMS_INVALID_TOPOLOGY.
        """
        group, known = beat.group, beat.group.epoch
        configured_topology, metadata_hash = self._configured(beat, topology)
        validated_epoch = NOT_VALIDATED
        if configured_topology.is_ready:
            assert configured_topology.subtopologies is not None
            validate_tasks(beat.owned, configured_topology.subtopologies)
            validated_epoch = topology.epoch
        configs = {STANDBY_KEY: str(self._settings.standby_count(group.group_id))}
        epoch = StreamsEpoch(
            epoch=known.epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_epoch,
            assignment_configs=configs,
        )
        if beat.updated.metadata == beat.member.metadata and epoch == known:
            return configured_topology, known.epoch
        bumped = replace(epoch, epoch=known.epoch + 1)
        decision.append(StreamsEpochRecord(group_id=group.group_id, content=bumped))
        return configured_topology, bumped.epoch

    def _configured(self, beat: _Beat, topology: Topology) -> tuple[ConfiguredTopology, int]:
        """Return the configured topology and the hash of its topics.

        Both are cached until a topic changes.
        """
        group, soft = beat.group, beat.soft
        known = soft.configured if soft.topology is topology else None
        if known is not None and not soft.is_stale:
            return known, group.epoch.metadata_hash
        metadata_hash = self._hashes.of(topology.topics(), self._image())
        if known is None or metadata_hash != group.epoch.metadata_hash:
            known = configured(topology, self._partition_count)
        if group.topology is not None:
            soft.topology, soft.configured, soft.is_stale = topology, known, False
        return known, metadata_hash

    def _partition_count(self, name: str) -> int | None:
        topic = self._image().topics.by_name.get(name)
        return None if topic is None else len(topic.partitions)

    # Targets and assignments of members

    def _settled_target(
        self,
        beat: _Beat,
        configured_topology: ConfiguredTopology,
        epoch: int,
        decision: GroupDecision,
    ) -> TaskTarget:
        """Return the epoch and the target of the member.

        If the targets are of an older epoch and the assignment interval since their computation is
        over, all targets are computed again first. While a new group waits for more members, the
        target is empty.
        """
        group, soft, last = beat.group, beat.soft, beat.group.target_epoch
        group_id, member_id = group.group_id, beat.updated.member_id
        delay_ms = self._settings.initial_rebalance_delay_ms(group_id)
        if not group.members and delay_ms > 0 and not soft.is_delayed:
            soft.is_delayed = True
            decision.set_timer(streams_delay_timer(group_id), decision.now_ms + delay_ms)
        if soft.is_delayed:
            beat.problems.append(DELAYED_AT_FIRST)
            return TaskTarget(epoch=last.epoch, tasks=NO_TASKS)
        if epoch <= last.epoch:
            return TaskTarget(epoch=last.epoch, tasks=group.target_of(member_id))
        if not last.is_due(decision.wall_ms, self._settings.assignment_interval_ms(group_id)):
            beat.problems.append(DELAYED_BY_INTERVAL)
            return TaskTarget(epoch=last.epoch, tasks=group.target_of(member_id))
        targets = self._compute_targets(group, beat.members(), configured_topology, epoch, decision)
        return TaskTarget(epoch=epoch, tasks=targets[member_id])

    def _compute_targets(
        self,
        group: StreamsGroup,
        members: Iterable[StreamsMember],
        configured_topology: ConfiguredTopology,
        epoch: int,
        decision: GroupDecision,
    ) -> Mapping[str, Tasks]:
        """Compute all targets in ``epoch``. While the topology is not ready, targets are empty."""
        specs = [
            TaskMember(
                member_id=each.member_id,
                process_id=each.metadata.process_id,
                last_target=group.target_of(each.member_id),
            )
            for each in members
        ]
        ready = configured_topology.subtopologies if configured_topology.is_ready else None
        counts = {
            subtopology_id: TaskCount(
                count=each.task_count, is_stateful=bool(each.state_changelog_topics)
            )
            for subtopology_id, each in (ready or {}).items()
        }
        targets = assign_sticky(specs, counts, self._settings.standby_count(group.group_id))
        for member_id in sorted(targets):
            if targets[member_id] != group.targets.get(member_id):
                decision.append(
                    StreamsTargetRecord(
                        group_id=group.group_id, member_id=member_id, content=targets[member_id]
                    )
                )
        content = TargetEpoch(epoch=epoch, computed_ms=decision.wall_ms)
        decision.append(StreamsTargetEpochRecord(group_id=group.group_id, content=content))
        return targets

    def _reconciled(
        self, beat: _Beat, target: TaskTarget, decision: GroupDecision
    ) -> TaskAssignment:
        group_id, updated = beat.group.group_id, beat.updated
        before = updated.current
        if before.is_reconciled_to(target.epoch):
            return before
        after = reconcile_tasks(
            before, target, beat.owned, beat.group.holders_for(updated.metadata.process_id)
        )
        if after != before:
            decision.append(
                StreamsAssignmentRecord(
                    group_id=group_id, member_id=updated.member_id, content=after
                )
            )
            if after.state is TaskState.UNREVOKED_TASKS:
                self._await_revocation(group_id, updated, decision)
            else:
                decision.cancel_timer(streams_rebalance_timer(group_id, updated.member_id))
        return after

    def _await_revocation(
        self, group_id: str, member: StreamsMember, decision: GroupDecision
    ) -> None:
        """Start the timer within which a member must revoke tasks."""
        decision.set_timer(
            streams_rebalance_timer(group_id, member.member_id),
            decision.now_ms + member.metadata.rebalance_timeout_ms,
        )

    def _response(
        self,
        beat: _Beat,
        request: StreamsGroupHeartbeatRequest,
        member: StreamsMember,
        configured_topology: ConfiguredTopology,
    ) -> StreamsGroupHeartbeatResponse:
        group, soft, problems = beat.group, beat.soft, beat.problems
        response = StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.current.epoch,
            heartbeat_interval_ms=self._settings.heartbeat_interval_ms(group.group_id),
        )
        endpoint_epoch = soft.endpoint_epoch
        if (
            request.member_epoch == JOIN_EPOCH
            or member.current.assigned != beat.member.current.assigned
        ):
            set_assignment(member.current, response)
            endpoint_epoch += member.metadata.endpoint is not None
        if endpoint_epoch != request.endpoint_information_epoch:
            others = [each for each in group.members.values() if each.member_id != member.member_id]
            response.partitions_by_user_endpoint = partitions_by_endpoint(
                [*others, member], configured_topology, self._partition_count
            )
        if group.topology is not None:
            soft.endpoint_epoch = response.endpoint_information_epoch = endpoint_epoch
        if configured_topology.problem is not None:
            problems.append(configured_topology.problem)
        if soft.shutdown_member_id is not None:
            text = (
                f"Streams group member {soft.shutdown_member_id} encountered a fatal error "
                "and requested a shutdown for the entire application."
            )
            problems.append(Problem(status=StreamsStatus.SHUTDOWN_APPLICATION, detail=text))
        response.status = [
            Status(status_code=each.status, status_detail=each.detail) for each in problems
        ]
        return response

    # Members that leave

    def _leave(
        self,
        group: StreamsGroup,
        soft: _Soft,
        request: StreamsGroupHeartbeatRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        member = group.members.get(request.member_id)
        if member is None:
            raise _unknown(group, request.member_id)
        if request.shutdown_application and soft.shutdown_member_id is None:
            soft.shutdown_member_id = member.member_id
        self.remove(group, member, soft, decision)
        response = StreamsGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=LEAVE_EPOCH
        )
        decision.reply(context.reply_to, StreamsHeartbeatReply(response))

    def remove(
        self, group: StreamsGroup, member: StreamsMember, soft: _Soft, decision: GroupDecision
    ) -> None:
        """Remove a member. The group begins a new epoch without this member."""
        group_id, member_id = group.group_id, member.member_id
        decision.append(
            StreamsAssignmentRecord(group_id=group_id, member_id=member_id, content=None)
        )
        decision.append(StreamsTargetRecord(group_id=group_id, member_id=member_id, content=None))
        decision.append(StreamsMemberRecord(group_id=group_id, member_id=member_id, content=None))
        decision.append(
            StreamsEpochRecord(
                group_id=group_id, content=replace(group.epoch, epoch=group.epoch.epoch + 1)
            )
        )
        self._sessions.end(group_id, member_id, decision)
        decision.cancel_timer(streams_rebalance_timer(group_id, member_id))
        if len(group.members) == 1:
            soft.shutdown_member_id = None

    # Time and topics

    def on_timer(self, group: StreamsGroup, key: Hashable, decision: GroupDecision) -> None:
        """Act on a due session, rebalance or delay timer of a group."""
        match key:
            case (TimerKind.STREAMS_SESSION, _, str(member_id)):
                self.on_session_timer(group, member_id, decision)
            case (TimerKind.STREAMS_REBALANCE, _, str(member_id)):
                self.on_rebalance_timer(group, member_id, decision)
            case (TimerKind.STREAMS_DELAY, _):
                self.on_delay_timer(group, decision)

    def on_session_timer(
        self, group: StreamsGroup, member_id: str, decision: GroupDecision
    ) -> None:
        """Remove a member that has sent no heartbeat for a whole session."""
        member = group.members.get(member_id)
        if member is not None and self._sessions.is_over(group.group_id, member_id, decision):
            self.remove(group, member, self._soft_of(group, decision), decision)

    def on_rebalance_timer(
        self, group: StreamsGroup, member_id: str, decision: GroupDecision
    ) -> None:
        """Remove a member that has not revoked its tasks in time."""
        member = group.members.get(member_id)
        if member is not None and member.current.state is TaskState.UNREVOKED_TASKS:
            self.remove(group, member, self._soft_of(group, decision), decision)

    def on_delay_timer(self, group: StreamsGroup, decision: GroupDecision) -> None:
        """Compute the targets of the members that have joined so far.

        If the topology is not configured yet, the next heartbeat configures it and computes them.
        """
        soft = self._soft_of(group, decision)
        soft.is_delayed = False
        known = soft.configured if soft.topology is group.topology else None
        if group.members and known is not None and group.epoch.epoch > group.target_epoch.epoch:
            self._compute_targets(group, group.members.values(), known, group.epoch.epoch, decision)

    def resume(self, group: StreamsGroup, decision: GroupDecision) -> None:
        """Start a full session for every member of a group that was just loaded from the log.

        A member that has yet to revoke tasks also gets its full rebalance timeout.
        """
        for member_id, member in group.members.items():
            self._sessions.keep_alive(
                group.group_id,
                member_id,
                self._settings.session_timeout_ms(group.group_id),
                decision,
            )
            if member.current.state is TaskState.UNREVOKED_TASKS:
                self._await_revocation(group.group_id, member, decision)

    def cancel_timers(self, group_id: str, decision: GroupDecision) -> None:
        """Cancel the delay timer of a removed group.

        A group without members has no other timers.
        """
        decision.cancel_timer(streams_delay_timer(group_id))

    def forget(self, group_id: str) -> None:
        """Drop the cached state of a removed group."""
        self._soft.pop(group_id, None)

    def configured_topology(self, group: StreamsGroup) -> ConfiguredTopology | None:
        """Return a group's configured topology as of its last check, or None."""
        soft = self._soft.get(group.group_id)
        return soft.configured if soft is not None and soft.topology is group.topology else None

    def on_image(self, delta: MetadataDelta, groups: Iterable[StreamsGroup]) -> None:
        """Mark groups whose required topics have changed, or all groups if a broker has changed.

        The next heartbeat to a marked group checks its topics.
        """
        deleted = {topic.name for topic in delta.deleted_topics.values()}
        touched = deleted | {changed.topic.name for changed in delta.changed_topics.values()}
        has_new_racks = bool(delta.changed_brokers)
        self._hashes.forget(deleted)
        for group in groups:
            soft = self._soft.get(group.group_id)
            if soft is not None and (
                has_new_racks or not touched.isdisjoint(group.required_topics)
            ):
                soft.is_stale = True


def _unknown(group: StreamsGroup, member_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )
