"""Membership in a classic group: joins, assigns as the leader, sends heartbeats, leaves.

Decides when the member has to join again and what the coordinator's errors mean. It does not change
the consumer's partitions. The consumer calls ``start_join`` with its subscription. In its polls it
takes the outcome, and learns when its partitions are lost. Joining runs in its own task and is
never cancelled, because a second join of the same member would leave the first without a response.

Invariants: one join at a time. Heartbeats are sent from the outcome of a join until the member
leaves, also while the application works. A member that does not poll for ``max_poll_interval_ms``
leaves (KIP-62).
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import trio

from log_service.client.admin.groups import MOVED
from log_service.client.connections.cluster_metadata import SILENCE_MS, ClusterMetadata
from log_service.client.connections.cluster_view import ClusterView
from log_service.client.consumer.assignors import ASSIGNORS, NO_RACKS, Member, Racks
from log_service.client.group_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    NO_GENERATION,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    with_previous_assignment,
)
from log_service.client.metrics import ConsumerMeter
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import TopicPartition
from log_service.config.client import ConsumerConfig
from log_service.protocol.api_versions import ApiKey
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
from log_service.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from log_service.rpc.connection import raise_for

logger = logging.getLogger(__name__)

FIRST_LEAVE_VERSION_WITH_MEMBERS = 3
JOIN_PURPOSE = "join"
"""Joins use their own connection. Otherwise heartbeats and commits would wait behind them."""
REJOIN_AS_NEW = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
AT_ONCE = frozenset({ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS})
"""Errors after which the next join is sent without a pause, up to ``MAX_AT_ONCE`` times."""
MAX_AT_ONCE = 3
BEATS_PER_SESSION = 3
"""Parts of the session timeout. A heartbeat without a response for one part counts as lost.

The coordinator may hang. The rest of the session leaves time to find another.
"""
Subscribing = Callable[[str], bytes]
"""Returns the bytes of the subscription for an assignor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The partition counts and racks from which the leader of the group made an assignment.

    Racks are used only if the leader has a rack itself, as in Java's client (KIP-881).
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    racks: Racks = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOutcome:
    """Result of a completed join."""

    generation_id: int
    assignor: str
    assigned: tuple[TopicPartition, ...]


class Membership:
    """A consumer's membership in a classic group.

    ``on_change`` is called when the next poll has to act, for example on the outcome of a join.
    """

    def __init__(
        self,
        cluster: ClusterMetadata,
        config: ConsumerConfig,
        group_id: str,
        on_change: Callable[[], None],
        meter: ConsumerMeter,
    ) -> None:
        self._cluster = cluster
        self._meter = meter
        self._quiet = QuietLogger(logger, self._now_ms)
        self._config = config
        self._group_id = group_id
        self._on_change = on_change
        self._subscribing: Subscribing | None = None
        self._is_creating_topics = False
        self._scope = trio.CancelScope()
        self._wakeup = trio.Event()
        self._outcome: JoinOutcome | None = None
        self._error: KafkaError | None = None
        self._is_lost = False
        self._polled_ms = 0
        self._is_polling = False
        self._reason: str | None = None
        self._assigned_by = Shape()
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self.taken_as = ("", NO_GENERATION)
        """Member id and generation under which the application got its current partitions.

        They stay after the group has dropped the member.
        """
        self.is_join_needed = False

    def __repr__(self) -> str:
        return (
            f"<Membership {self._group_id} member={self.member_id!r}"
            f" generation={self.generation_id}>"
        )

    @property
    def is_joining(self) -> bool:
        """Whether a join is in progress."""
        return self._subscribing is not None

    @property
    def is_member(self) -> bool:
        """Whether this is a member of the group, so that commits may carry its generation."""
        return self.generation_id != NO_GENERATION

    def is_outdated_by(self, view: ClusterView) -> bool:
        """Return whether partition counts or racks differ from those of the last assignment.

        This is true only for the leader of the group, which made the assignment.
        """
        return self.is_member and self._assigned_by != self._shape_of(
            self._assigned_by.counts, view
        )

    # Calls of a poll

    def note_poll(self, *, is_polling: bool) -> None:
        """Note that a poll begins (``is_polling``) or ends."""
        self._is_polling = is_polling
        self._polled_ms = self._now_ms()

    def start_join(self, subscribing: Subscribing, *, is_creating_topics: bool) -> None:
        """Make the background task join the group, also if this is a member already.

        ``subscribing`` returns the encoded subscription for an assignor. With
        ``is_creating_topics`` the member may create missing topics if it is the leader.
        """
        assert not self.is_joining, "one join at a time"
        self._subscribing = subscribing
        self._is_creating_topics = is_creating_topics
        self.is_join_needed = False
        self._wakeup.set()

    def request_join(self, reason: str) -> None:
        """Make the consumer join again at its next poll."""
        if not self.is_join_needed:
            self.is_join_needed = True
            self._reason = reason
            self._on_change()

    @property
    def outcome(self) -> JoinOutcome | None:
        """Outcome of the last join, or None once the consumer has taken it."""
        return self._outcome

    def take_outcome(self) -> JoinOutcome | None:
        """Return the outcome of the last join, or None if there is none or it was taken before."""
        outcome, self._outcome = self._outcome, None
        if outcome is not None:
            self.taken_as = (self.member_id, outcome.generation_id)
        return outcome

    def take_lost(self) -> bool:
        """Return whether the group dropped this member, and reset the flag.

        The partitions may then belong to other members already.
        """
        is_lost, self._is_lost = self._is_lost, False
        return is_lost

    def raise_error(self) -> None:
        """Raise the error that keeps this member from joining, if there is one, and clear it.

        The next poll joins again, because the cause may pass. A fenced member never joins again, so
        its error is raised each time.

        Raises:
            KafkaError: FENCED_INSTANCE_ID, INCONSISTENT_GROUP_PROTOCOL, GROUP_AUTHORIZATION_FAILED
                and others.
        """
        error = self._error
        if error is None:
            return
        if error.code is not ErrorCode.FENCED_INSTANCE_ID:
            self._error, self.is_join_needed = None, True
        raise KafkaError(error.code, str(error))

    async def await_epoch(self) -> bool:
        """Return false, because a refused generation never becomes valid again."""
        await trio.lowlevel.checkpoint()
        return False

    def note_commit_error(self, code: ErrorCode) -> None:
        """Handle a refused commit: leave the old generation, join again, or fail for good."""
        if code in REJOIN_AS_NEW:
            self._lose(
                f"a commit was refused: {code.name}",
                is_member_forgotten=code is ErrorCode.UNKNOWN_MEMBER_ID,
            )
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.request_join("the group rebalances")
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self._fail(
                KafkaError(
                    code,
                    f"another member uses group_instance_id {self._config.group_instance_id!r}",
                )
            )

    # Tasks

    async def run(self) -> None:
        """Join on request, until ``end``."""
        with self._scope:
            await self._run()

    def end(self) -> None:
        """End the background tasks.

        Later responses and an outcome that was not taken are dropped.
        """
        self._scope.cancel()
        self._outcome = None

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._beat)
            while True:
                await self._wakeup.wait()
                self._wakeup = trio.Event()
                if self._subscribing is not None:
                    await self._join_until_settled(self._subscribing)
                    self._subscribing = None
                    self._on_change()

    async def leave(self, reason: str) -> None:
        """Send the coordinator a request to leave, if this is a member.

        A static member stays in the group until its session ends (KIP-345).
        """
        member_id, self.member_id, self.generation_id = self.member_id, "", NO_GENERATION
        if not member_id or self._config.group_instance_id is not None:
            return
        try:
            connection = await self._cluster.coordinator(self._group_id)
            request = LeaveGroupRequest(group_id=self._group_id)
            if connection.version_of(ApiKey.LEAVE_GROUP) >= FIRST_LEAVE_VERSION_WITH_MEMBERS:
                request.members = [MemberIdentity(member_id=member_id, reason=reason)]
            else:
                request.member_id = member_id
            await connection.request(request, LeaveGroupResponse)
        except KafkaError as error:
            logger.info("leaving group %s: %s", self._group_id, error)

    # Joining

    async def _join_until_settled(self, subscribing: Subscribing) -> None:
        attempt = at_once_count = 0
        started_ms = self._now_ms()
        while True:
            try:
                self._outcome = await self._join_once(subscribing)
            except KafkaError as error:
                if not self._is_worth_another_try(error):
                    self._meter.note_rebalance(started_ms, is_failed=True)
                    self._fail(error)
                    # The pause keeps an application that polls again at once from flooding brokers.
                    await trio.sleep(self._cluster.backoff_ms(attempt) / 1_000)
                    return
                if error.code in AT_ONCE and at_once_count < MAX_AT_ONCE:
                    at_once_count += 1
                    continue
                self._quiet.info(error.code, "group %s: joining: %s", self._group_id, error)
                if not self._cluster.view.nodes or error.code in MOVED:
                    await self._refresh_quietly()
                await trio.sleep(self._cluster.backoff_ms(attempt) / 1_000)
                attempt += 1
            else:
                self._meter.note_rebalance(started_ms, is_failed=False)
                return

    def _is_worth_another_try(self, error: KafkaError) -> bool:
        if error.code in MOVED:
            self._cluster.forget_coordinator(self._group_id)
        if error.code in REJOIN_AS_NEW:
            self.generation_id = NO_GENERATION
            if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            return True
        return error.is_retriable or error.code in AT_ONCE

    async def _join_once(self, subscribing: Subscribing) -> JoinOutcome:
        config = self._config
        connection = await self._cluster.coordinator(self._group_id, JOIN_PURPOSE)
        self._meter.note_join()
        reason, self._reason = self._reason, None
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=subscribing(name))
                for name in config.partition_assignment_strategy
            ],
            reason=reason,
        )
        response = await connection.request(
            request,
            JoinGroupResponse,
            waits_ms=config.max_poll_interval_ms + config.session_timeout_ms,
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        raise_for(response.error_code, None, f"joining group {self._group_id!r}")
        self.member_id = response.member_id
        assignor = response.protocol_name or ""
        if assignor not in config.partition_assignment_strategy:
            text = (
                f"group {self._group_id!r} chose the assignor {assignor!r}, which this member did"
                " not offer"
            )
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
        self._assigned_by = Shape()
        assignments = (
            await self._assign(response, assignor) if response.leader == response.member_id else []
        )
        assigned = await self._sync(response.generation_id, assignor, assignments)
        self.generation_id = response.generation_id
        return JoinOutcome(
            generation_id=response.generation_id, assignor=assignor, assigned=assigned
        )

    async def _sync(
        self, generation_id: int, assignor: str, assignments: list[SyncGroupRequestAssignment]
    ) -> tuple[TopicPartition, ...]:
        connection = await self._cluster.coordinator(self._group_id, JOIN_PURPOSE)
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=generation_id,
            member_id=self.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=assignor,
            assignments=assignments,
        )
        response = await connection.request(
            request, SyncGroupResponse, waits_ms=self._config.max_poll_interval_ms
        )
        raise_for(response.error_code, None, f"assignment of group {self._group_id!r}")
        try:
            return decode_assignment(response.assignment)
        except ProtocolError as error:
            text = f"group {self._group_id!r}: what the leader assigned cannot be read: {error}"
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text) from error

    async def _assign(
        self, response: JoinGroupResponse, assignor: str
    ) -> list[SyncGroupRequestAssignment]:
        """Assign partitions to all members, as the leader of the group.

        Return the assignments as the SyncGroup request has them.
        """
        members = [
            Member(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                subscription=with_previous_assignment(
                    assignor, self._subscription_of(each.member_id, each.metadata)
                ),
            )
            for each in response.members
        ]
        topics = {topic for member in members for topic in member.subscription.topics}
        view = await self._cluster.refresh(topics, is_creating=self._is_creating_topics)
        counts = {
            topic: view.topics[topic].partition_count for topic in topics if topic in view.topics
        }
        self._assigned_by = self._shape_of(topics, view)
        if response.skip_assignment:
            return []
        assignment = ASSIGNORS[assignor].assign(members, counts, view.racks_of(topics))
        return [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_assignment(partitions)
            )
            for member_id, partitions in assignment.items()
        ]

    def _shape_of(self, topics: Iterable[str], view: ClusterView) -> Shape:
        counts = {
            topic: view.topics[topic].partition_count if topic in view.topics else 0
            for topic in topics
        }
        return Shape(
            counts=counts, racks=view.racks_of(topics) if self._config.client_rack else NO_RACKS
        )

    def _subscription_of(self, member_id: str, metadata: bytes) -> Subscription:
        """Decode the subscription of a member.

        A malformed subscription counts as empty, so that the other members get their partitions.
        """
        try:
            return decode_subscription(metadata)
        except ProtocolError as error:
            self._quiet.warning(
                member_id,
                "group %s: the subscription of member %s cannot be read: %s",
                self._group_id,
                member_id,
                error,
            )
            return Subscription(topics=())

    async def _refresh_quietly(self) -> None:
        try:
            await self._cluster.refresh()
        except KafkaError as error:
            logger.info("group %s: %s", self._group_id, error)

    # Heartbeats

    async def _beat(self) -> None:
        """Send heartbeats, unless the application stopped polling."""
        while True:
            await trio.sleep(self._config.heartbeat_interval_ms / 1_000)
            if not self.is_member or self.is_joining:
                continue
            if (
                not self._is_polling
                and self._now_ms() - self._polled_ms > self._config.max_poll_interval_ms
            ):
                logger.warning(
                    "group %s: no poll for %d ms (max_poll_interval_ms): leaving",
                    self._group_id,
                    self._config.max_poll_interval_ms,
                )
                await self.leave("the application did not poll in time")
                self._lose("the application did not poll in time", is_member_forgotten=True)
                continue
            try:
                await self._beat_once()
            except KafkaError as error:
                self._note_heartbeat_error(error)

    async def _beat_once(self) -> None:
        connection = await self._cluster.coordinator(self._group_id)
        started_ms = self._now_ms()
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self._config.group_instance_id,
        )
        patience_ms = max(self._config.session_timeout_ms // BEATS_PER_SESSION, SILENCE_MS)
        with trio.move_on_after(patience_ms / 1_000) as waiting:
            response = await connection.request(request, HeartbeatResponse)
        if waiting.cancelled_caught:
            text = (
                f"the coordinator of group {self._group_id!r} did not respond within"
                f" {patience_ms} ms"
            )
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
        self._meter.note_heartbeat(started_ms)
        raise_for(response.error_code, None, f"heartbeat to group {self._group_id!r}")

    def _note_heartbeat_error(self, error: KafkaError) -> None:
        if self.is_joining:
            return  # it concerns the previous generation
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.request_join("the group rebalances")
        elif error.code in MOVED:
            self._cluster.forget_coordinator(self._group_id)
        elif error.code in REJOIN_AS_NEW:
            self._lose(str(error), is_member_forgotten=error.code is ErrorCode.UNKNOWN_MEMBER_ID)
        elif not error.is_retriable:
            self._is_lost = True
            self._fail(error)
        else:
            self._quiet.info(error.code, "group %s: %s", self._group_id, error)

    def _lose(self, reason: str, *, is_member_forgotten: bool) -> None:
        self._quiet.warning(
            "lost", "group %s goes on without this member: %s", self._group_id, reason
        )
        self.generation_id = NO_GENERATION
        if is_member_forgotten:
            self.member_id = ""
        self._outcome = None
        self._is_lost = True
        self.request_join(reason)
        self._on_change()

    def _fail(self, error: KafkaError) -> None:
        logger.warning("group %s: this member cannot take part: %s", self._group_id, error)
        self._error = error
        self.generation_id = NO_GENERATION
        self._on_change()

    def _now_ms(self) -> int:
        return self._cluster.env.clock.monotonic_ms()
