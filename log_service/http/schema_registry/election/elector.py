"""One member of the group that elects the writing instance.

This module decides when to join again, and how long a membership counts as valid. The coordinator
gives the leadership away once a member has sent no heartbeat for the session timeout. A member
therefore measures its session from the moment in which it sent the last answered heartbeat, by the
monotonic clock. It stops leading before the session can have ended. It stays the leader while the
group elects again, because a new leader fences the old one.

Invariants: one request to the coordinator at a time. The instance leads only between an assignment
that names it and the end of its session. The member never gives up. It joins again after any error.
"""

import logging
from dataclasses import dataclass, replace

import trio

from log_service.client.admin.groups import MOVED
from log_service.client.connections.cluster_metadata import SILENCE_MS, ClusterMetadata
from log_service.client.consumer.range_reader import HasCluster
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.http.schema_registry.election.protocol import (
    NO_ERROR,
    PROTOCOL_NAME,
    PROTOCOL_TYPE,
    Assignment,
    RegistryInstance,
    UnreadableMember,
    choose,
    decode_assignment,
    decode_instance,
    encode_assignment,
    encode_instance,
)
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
from log_service.rpc.retry import Backoff

logger = logging.getLogger(__name__)

DEFAULT_GROUP = "schema-registry"
NO_GENERATION = -1
BEATS_PER_SESSION = 3
"""A heartbeat counts as lost after the session timeout divided by this, without a response."""
MARGIN_PER_SESSION = 10
"""The end of a session, its timeout divided by this, is not used, so that a timer may be late."""
FIRST_LEAVE_VERSION_WITH_MEMBERS = 3
LEAVE_TIMEOUT_S = 3.0
PURPOSE = "election"
BACKOFF = Backoff(first_ms=100, max_ms=5_000)
DROPPED = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}
)
"""Errors that say that the group goes on without this member."""
SESSION_GOES_ON = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})
JOINED_AGAIN_AT_ONCE = frozenset({ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS})


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionSettings:
    """The election's settings of one instance.

    ``is_sticky`` keeps the present leader. It only matters if this member chooses the leader.
    """

    instance: RegistryInstance
    group: str = DEFAULT_GROUP
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 10_000
    is_sticky: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """The leader as this instance knows it now. Without a URL no leader is known."""

    leader_url: str | None = None
    is_self: bool = False
    generation: int = NO_GENERATION


class Elector:
    """A member of the group. ``fault`` says why there is no leader, if it is known.

    ``client`` is open. Nothing else may use its connections, because a coordinator responds to the
    requests of one connection in order, and a join takes long.
    """

    def __init__(self, settings: ElectionSettings, client: HasCluster) -> None:
        self._settings = settings
        self._client = client
        self._quiet = QuietLogger(logger, self._now_ms)
        self._assigned = Leadership()
        self._believed_until_ms = 0
        self._member_id = ""
        self._generation = NO_GENERATION
        self._changed = trio.Event()
        self.fault: str | None = None

    def __repr__(self) -> str:
        return f"<Elector {self._settings.group} {self.leadership}>"

    @property
    def leadership(self) -> Leadership:
        """The leadership at this moment. A process that was paused too long no longer leads."""
        return self._assigned if self._now_ms() < self._believed_until_ms else Leadership()

    async def wait_changed(self, seen: Leadership) -> Leadership:
        """Wait until the leadership differs from ``seen``, and return it."""
        while (current := self.leadership) == seen:
            changed = self._changed
            left_s = (
                (self._believed_until_ms - self._now_ms()) / 1_000
                if current.leader_url is not None
                else float("inf")
            )
            with trio.move_on_after(max(left_s, 0.001)):
                await changed.wait()
        return current

    async def run(self) -> None:
        """Take part in the election until the caller cancels, and then leave the group."""
        failure_count = 0
        try:
            while True:
                try:
                    await self._join()
                    failure_count = 0
                    await self._beat()
                except KafkaError as error:
                    self._note(error)
                    if error.code not in JOINED_AGAIN_AT_ONCE or failure_count:
                        await trio.sleep(
                            BACKOFF.delay_ms(failure_count, self._cluster.env.rng) / 1_000
                        )
                    failure_count += 1
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + LEAVE_TIMEOUT_S):
                await self._leave()

    # Joining

    async def _join(self) -> None:
        """Join the group, and publish who leads.

        Choose the leader for all members if the coordinator asks this member to.
        """
        settings = self._settings
        connection = await self._cluster.coordinator(settings.group, PURPOSE)
        request = JoinGroupRequest(
            group_id=settings.group,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(
                    name=PROTOCOL_NAME, metadata=encode_instance(self._own_instance())
                )
            ],
        )
        waits_ms = settings.rebalance_timeout_ms + settings.session_timeout_ms
        response = await connection.request(request, JoinGroupResponse, waits_ms=waits_ms)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
        raise_for(response.error_code, None, f"joining group {settings.group!r}")
        self._member_id, self._generation = response.member_id, response.generation_id
        is_choosing = response.leader == response.member_id and not response.skip_assignment
        await self._sync(self._chosen(response) if is_choosing else [])

    def _own_instance(self) -> RegistryInstance:
        """Return this member's description of itself."""
        is_leader = self._settings.is_sticky and self.leadership.is_self
        return replace(self._settings.instance, is_leader=is_leader)

    def _chosen(self, response: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Choose the leader for the whole group.

        A member whose metadata cannot be decoded is ignored.
        """
        members: dict[str, RegistryInstance] = {}
        for each in response.members:
            try:
                members[each.member_id] = decode_instance(each.metadata)
            except UnreadableMember as error:
                logger.warning(
                    "group %s: member %s is left out: %s",
                    self._settings.group,
                    each.member_id,
                    error,
                )
        payload = encode_assignment(choose(members, is_sticky=self._settings.is_sticky))
        return [
            SyncGroupRequestAssignment(member_id=each.member_id, assignment=payload)
            for each in response.members
        ]

    async def _sync(self, assignments: list[SyncGroupRequestAssignment]) -> None:
        settings = self._settings
        connection = await self._cluster.coordinator(settings.group, PURPOSE)
        request = SyncGroupRequest(
            group_id=settings.group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL_NAME,
            assignments=assignments,
        )
        sent_ms = self._now_ms()
        response = await connection.request(
            request, SyncGroupResponse, waits_ms=settings.rebalance_timeout_ms
        )
        raise_for(response.error_code, None, f"assignment of group {settings.group!r}")
        self._take(response.assignment, sent_ms)

    def _take(self, assigned: bytes, sent_ms: int) -> None:
        """Publish the result of the election."""
        try:
            assignment = decode_assignment(assigned)
        except UnreadableMember as error:
            self._publish(
                Leadership(),
                f"the assignment of group {self._settings.group} cannot be read: {error}",
            )
            return
        self._believe_from(sent_ms)
        self._publish(self._leadership_of(assignment), self._fault_of(assignment))

    def _leadership_of(self, assignment: Assignment) -> Leadership:
        if assignment.leader is None or assignment.error != NO_ERROR:
            return Leadership()
        is_self = assignment.leader_id == self._member_id and self._settings.instance.is_eligible
        return Leadership(
            leader_url=assignment.leader.url, is_self=is_self, generation=self._generation
        )

    def _fault_of(self, assignment: Assignment) -> str | None:
        if assignment.error != NO_ERROR:
            text = "give each instance the URL by which the others reach it, no two the same"
            return (
                f"members of group {self._settings.group} advertise the same URL, so none of them"
                f" may write: {text}"
            )
        if assignment.leader is None:
            return (
                f"no member of group {self._settings.group} may lead: set master_eligibility on one"
                " of them"
            )
        return None

    def _publish(self, leadership: Leadership, fault: str | None = None) -> None:
        if fault is not None:
            self._quiet.warning(fault, "%s", fault)
        if leadership != self._assigned:
            logger.info(
                "group %s: the leader is %s",
                self._settings.group,
                leadership.leader_url or "not known",
            )
        self.fault, self._assigned = fault, leadership
        self._changed.set()
        self._changed = trio.Event()

    def _believe_from(self, sent_ms: int) -> None:
        """Trust the last assignment until shortly before one session timeout after ``sent_ms``."""
        session_ms = self._settings.session_timeout_ms
        self._believed_until_ms = sent_ms + session_ms - session_ms // MARGIN_PER_SESSION

    # Heartbeats

    async def _beat(self) -> None:
        """Send heartbeats until a response says that the member must join again.

        Raises:
            KafkaError: the reason to join again.
        """
        failure_count = 0
        while True:
            pause_ms = (
                BACKOFF.delay_ms(failure_count, self._cluster.env.rng)
                if failure_count
                else self._settings.heartbeat_interval_ms
            )
            await trio.sleep(min(pause_ms, self._settings.heartbeat_interval_ms) / 1_000)
            try:
                await self._beat_once()
                failure_count = 0
            except KafkaError as error:
                if not error.is_retriable:
                    raise
                self._note(error)
                failure_count += 1

    async def _beat_once(self) -> None:
        group = self._settings.group
        patience_ms = max(self._settings.session_timeout_ms // BEATS_PER_SESSION, SILENCE_MS)
        request = HeartbeatRequest(
            group_id=group, generation_id=self._generation, member_id=self._member_id
        )
        with trio.move_on_after(patience_ms / 1_000) as waiting:
            connection = await self._cluster.coordinator(group, PURPOSE)
            sent_ms = self._now_ms()
            response = await connection.request(request, HeartbeatResponse)
        if waiting.cancelled_caught:
            text = f"the coordinator of group {group!r} did not respond within {patience_ms} ms"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
        if response.error_code in SESSION_GOES_ON:
            self._extend(sent_ms)
        raise_for(response.error_code, None, f"heartbeat to group {group!r}")

    def _extend(self, sent_ms: int) -> None:
        """Extend the validity of the assignment, and publish it again if it had expired."""
        before = self.leadership
        self._believe_from(sent_ms)
        if before != self.leadership:
            self._publish(self._assigned, self.fault)

    def _note(self, error: KafkaError) -> None:
        """Forget the coordinator, the membership or the leadership, as the error demands."""
        if error.code in MOVED:
            self._cluster.forget_coordinator(self._settings.group)
        if error.code in DROPPED:
            self._generation = NO_GENERATION
            self._member_id = self._member_id if error.code is ErrorCode.ILLEGAL_GENERATION else ""
        is_lost = error.code in DROPPED or not (
            error.is_retriable or error.code in JOINED_AGAIN_AT_ONCE
        )
        if is_lost:
            self._publish(Leadership(), str(error))
        elif error.code not in JOINED_AGAIN_AT_ONCE:
            self._quiet.info(error.code, "group %s: %s", self._settings.group, error)

    async def _leave(self) -> None:
        """Tell the coordinator that this member leaves, so that the group need not wait for it."""
        member_id, self._member_id = self._member_id, ""
        self._publish(Leadership())
        if not member_id:
            return
        request = LeaveGroupRequest(group_id=self._settings.group)
        try:
            connection = await self._cluster.coordinator(self._settings.group, f"{PURPOSE} end")
            if connection.version_of(ApiKey.LEAVE_GROUP) >= FIRST_LEAVE_VERSION_WITH_MEMBERS:
                request.members = [MemberIdentity(member_id=member_id, reason="the registry stops")]
            else:
                request.member_id = member_id
            await connection.request(request, LeaveGroupResponse)
        except KafkaError as error:
            logger.info("leaving group %s: %s", self._settings.group, error)

    @property
    def _cluster(self) -> ClusterMetadata:
        return self._client.cluster

    def _now_ms(self) -> int:
        return self._client.cluster.env.clock.monotonic_ms()
