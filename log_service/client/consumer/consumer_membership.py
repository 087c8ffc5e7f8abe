"""Membership in a group of the consumer protocol (KIP-848), with a task that sends heartbeats.

Decides when to send a heartbeat and what the coordinator's errors mean. ``GroupMember`` builds the
heartbeats. This module does not change the consumer's partitions. ``Reconciler`` changes them
inside the application's polls, and reports the changes here. The member joins with the
application's first poll. If the group drops it, it joins again with the poll that reports this to
the application.

Invariants: one heartbeat at a time. Heartbeats continue while the application works and while its
callbacks run. A member that does not poll for ``max_poll_interval_ms`` leaves (KIP-62).
"""

import logging
from collections.abc import Callable, Iterable
from uuid import UUID

import trio

from log_service.client.admin.groups import MOVED
from log_service.client.connections.cluster_metadata import SILENCE_MS, ClusterMetadata
from log_service.client.consumer.group_member import GroupMember, Owned, Wanted
from log_service.client.metrics import ConsumerMeter
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import TopicId
from log_service.config.client import ConsumerConfig
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from log_service.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from log_service.rpc.connection import RpcConnection, raise_for

logger = logging.getLogger(__name__)

NO_EPOCH = -1
FIRST_VERSION_WITH_REGEX = 1
LOST = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
PATIENCE_MS = 15_000
"""Time after which a heartbeat without a response counts as lost on a hanging coordinator.

It leaves enough time to find another coordinator.
"""
REASONS = {
    ErrorCode.UNSUPPORTED_VERSION: (
        "the cluster does not serve group_protocol='consumer' (KIP-848): use 'classic', or have it"
        " upgraded"
    ),
    ErrorCode.GROUP_ID_NOT_FOUND: (
        "the group is of another kind, and may not become one of the consumer protocol while it has"
        " members"
    ),
    ErrorCode.UNRELEASED_INSTANCE_ID: (
        "another member uses the same group_instance_id and has not left"
    ),
    ErrorCode.FENCED_INSTANCE_ID: "another member uses the same group_instance_id",
}
NEVER_AGAIN = frozenset({ErrorCode.FENCED_INSTANCE_ID})


class ConsumerMembership:
    """A consumer's membership in a group of the consumer protocol.

    ``on_change`` is called when the next poll has to act, for example on a new assignment.
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
        self._config = config
        self._on_change = on_change
        self._meter = meter
        self._quiet = QuietLogger(logger, self._now_ms)
        self._member = GroupMember(
            group_id=group_id,
            member_id=str(UUID(int=cluster.env.rng.getrandbits(128), version=4)),
            rebalance_timeout_ms=config.max_poll_interval_ms,
            instance_id=config.group_instance_id,
            rack_id=config.client_rack or None,
            assignor=config.group_remote_assignor,
        )
        self._scope = trio.CancelScope()
        self._wakeup = trio.Event()
        self._responded = trio.Event()
        self._error: KafkaError | None = None
        self._is_started = self._is_lost = self._is_polling = False
        self._is_known = False  # the coordinator may have accepted a join without a response
        self._polled_ms = 0
        self._failed_count = 0
        self._has_taken = False
        self.names: dict[UUID, str] = {}
        """Names of the topics of owned partitions, by topic id.

        They are kept here, because a topic that is given up may be deleted or belong to an earlier
        subscription.
        """
        self.taken_as = ("", NO_EPOCH)
        """Member id and newest epoch under which the application got its current partitions.

        They stay after the group has dropped the member.
        """

    def __repr__(self) -> str:
        return (
            f"<ConsumerMembership {self._member.group_id} member={self.member_id!r}"
            f" epoch={self._member.epoch}>"
        )

    @property
    def member_id(self) -> str:
        """The member id, which the client generated."""
        return self._member.member_id

    @property
    def generation_id(self) -> int:
        """The member epoch, -1 without membership."""
        return self._member.epoch if self.is_member else NO_EPOCH

    @property
    def is_member(self) -> bool:
        """Whether this is a member of the group, so that commits may carry its epoch."""
        return self._member.is_member and not self._is_lost

    # Calls of a poll

    def note_poll(self, *, is_polling: bool) -> None:
        """Note that a poll begins (``is_polling``) or ends."""
        self._is_polling = is_polling
        self._polled_ms = self._now_ms()

    def subscribe(self, wanted: Wanted) -> None:
        """Change the subscription. Retry a join that failed, because the cause may be gone."""
        self._member.subscribe(wanted)
        if self._error is not None and self._error.code not in NEVER_AGAIN:
            self._error = None
        self._wakeup.set()

    def start(self) -> None:
        """Begin to join the group, unless this was called before."""
        if not self._is_started:
            self._is_started = True
            self._wakeup.set()

    @property
    def is_lost(self) -> bool:
        """Whether the group dropped this member, and the application does not know it yet.

        The owned partitions may then belong to other members.
        """
        return self._is_lost

    def begin_anew(self) -> None:
        """Join again after the application has learned that its partitions are lost."""
        self._member.give_up(self._member.owned)
        self._is_lost = False
        self._wakeup.set()

    def raise_error(self) -> None:
        """Raise the error that keeps this member from joining, if there is one, and clear it.

        The member then tries to join again, because the cause may pass. A fenced member never joins
        again, so its error is raised each time.

        Raises:
            KafkaError: FENCED_INSTANCE_ID, UNSUPPORTED_VERSION, GROUP_AUTHORIZATION_FAILED,
                INVALID_REGULAR_EXPRESSION and others.
        """
        error = self._error
        if error is None:
            return
        if error.code not in NEVER_AGAIN:
            self._error = None
            self._wakeup.set()
        raise KafkaError(error.code, str(error))

    @property
    def owned(self) -> Owned:
        """The partitions that the application may read now."""
        return self._member.owned

    @property
    def new_assignment(self) -> Owned | None:
        """The assignment of the coordinator if it differs from the owned partitions, else None."""
        return None if self._is_lost else self._member.new_assignment

    def give_up(self, partitions: Iterable[tuple[UUID, int]]) -> None:
        """Remove these partitions from the owned ones."""
        self._member.give_up(partitions)

    def finish(self, owned: Owned) -> None:
        """Set the owned partitions after an assignment was applied, and report them.

        ``owned`` lacks the assigned partitions whose topics are not known by name yet.
        """
        self._member.finish(owned)
        self._has_taken = True
        self._note_epoch()
        self._wakeup.set()

    def _note_epoch(self) -> None:
        if self._has_taken:
            self.taken_as = (self.member_id, self._member.epoch)

    # Calls of a commit

    def note_commit_error(self, code: ErrorCode) -> None:
        """Send a heartbeat at once after a refused commit.

        Its response tells whether the group has dropped this member. If another member took its
        instance id, this one has failed for good.
        """
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self._fail(KafkaError(code, f"group {self._member.group_id!r}: {REASONS[code]}"))
        else:
            self._wakeup.set()

    async def await_epoch(self) -> bool:
        """Send a full heartbeat, and wait until it got its response or failed.

        Return whether the member is still in the group.
        """
        self._member.note_silence()
        self._wakeup.set()
        await self._responded.wait()
        return self.is_member

    # The task

    async def run(self) -> None:
        """Send heartbeats until ``end``."""
        with self._scope:
            while True:
                await self._beat()
                self._responded.set()
                self._responded = trio.Event()
                with trio.move_on_after(self._pause_ms() / 1_000):
                    await self._wakeup.wait()
                self._wakeup = trio.Event()
                if self._failed_count:  # urgent heartbeats must not overload a failing cluster
                    await trio.sleep(self._cluster.backoff_ms(self._failed_count - 1) / 1_000)
        self._responded.set()  # no epoch will come any more

    def end(self) -> None:
        """End the task. Later responses are dropped."""
        self._scope.cancel()

    def _pause_ms(self) -> float:
        is_waiting = not self._is_started or self._is_lost or self._error is not None
        if not is_waiting and self._member.is_urgent:
            return 0
        return self._member.interval_ms

    async def _beat(self) -> None:
        if not self._is_started or self._is_lost or self._error is not None:
            return
        if (
            not self._is_polling
            and self._now_ms() - self._polled_ms > self._config.max_poll_interval_ms
        ):
            text = f"no poll for {self._config.max_poll_interval_ms} ms (max_poll_interval_ms)"
            logger.warning("group %s: %s: leaving", self._member.group_id, text)
            await self.leave(text)
            self._lose(text)
            return
        try:
            await self._beat_once()
        except KafkaError as error:
            self._note_error(error)
        else:
            self._failed_count = 0

    async def _beat_once(self) -> None:
        await self._create_missing_topics()
        request = self._member.heartbeat()
        before = self._member.epoch
        connection = await self._connection(request)
        started_ms = self._now_ms()
        if not self._member.is_member:
            self._meter.note_join()
        self._is_known = True
        response = await self._ask(connection, request)
        raise_for(
            response.error_code,
            response.error_message,
            f"heartbeat to group {self._member.group_id!r}",
        )
        self._meter.note_heartbeat(started_ms)
        self._member.take_response(request, response)
        self._note_epoch()
        if self._member.epoch != before:
            logger.info(
                "group %s: member %s is in epoch %d",
                self._member.group_id,
                self.member_id,
                self._member.epoch,
            )
        if self._member.new_assignment is not None:
            self._on_change()

    async def _create_missing_topics(self) -> None:
        """Make the broker create missing topics that are subscribed by name, before a join.

        Client and broker must allow this.
        """
        missing = [
            topic for topic in self._member.wanted.topics if topic not in self._cluster.view.topics
        ]
        if missing and not self._member.is_member and self._config.allow_auto_create_topics:
            await self._cluster.refresh(missing, is_creating=True)

    async def _connection(self, request: ConsumerGroupHeartbeatRequest) -> RpcConnection:
        connection = await self._cluster.coordinator(self._member.group_id)
        if (
            request.subscribed_topic_regex
            and connection.version_of(ApiKey.CONSUMER_GROUP_HEARTBEAT) < FIRST_VERSION_WITH_REGEX
        ):
            text = (
                "the broker does not match regular expressions itself: subscribe with a compiled"
                " pattern, which the client matches"
            )
            raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, text)
        return connection

    async def _ask(
        self, connection: RpcConnection, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        patience_ms = max(PATIENCE_MS, SILENCE_MS)
        with trio.move_on_after(patience_ms / 1_000) as waiting:
            return await connection.request(request, ConsumerGroupHeartbeatResponse)
        assert waiting.cancelled_caught
        text = (
            f"the coordinator of group {self._member.group_id!r} did not respond within"
            f" {patience_ms} ms"
        )
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)

    def _note_error(self, error: KafkaError) -> None:
        self._failed_count += 1
        self._member.note_silence()
        if error.code in MOVED:
            self._cluster.forget_coordinator(self._member.group_id)
        if error.code in LOST or (
            error.code is ErrorCode.GROUP_ID_NOT_FOUND and self._member.is_member
        ):
            self._lose(str(error))
        elif error.is_retriable and error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._quiet.info(error.code, "group %s: %s", self._member.group_id, error)
        else:
            reason = REASONS.get(error.code)
            self._fail(
                error
                if reason is None
                else KafkaError(error.code, f"group {self._member.group_id!r}: {reason}")
            )

    def _lose(self, reason: str) -> None:
        self._quiet.warning(
            "lost", "group %s goes on without this member: %s", self._member.group_id, reason
        )
        self._member.lose()
        self._is_lost, self._has_taken, self._is_known = True, False, False
        self._failed_count = 0
        self._on_change()

    def _fail(self, error: KafkaError) -> None:
        logger.warning("group %s: this member cannot take part: %s", self._member.group_id, error)
        self._error = error
        if self._member.is_member:
            self._lose(str(error))
        self._on_change()

    async def leave(self, reason: str) -> None:
        """Send the coordinator the heartbeat that leaves the group, if it knows this member.

        A static member keeps its partitions until its session ends (KIP-345).
        """
        if not self._is_known:
            return
        self._is_known = False
        request = self._member.leaving()
        self._member.lose()
        try:
            connection = await self._cluster.coordinator(self._member.group_id)
            await connection.request(request, ConsumerGroupHeartbeatResponse)
        except KafkaError as error:
            logger.info("leaving group %s (%s): %s", self._member.group_id, reason, error)

    # Topics

    async def names_of(self, topic_ids: Iterable[UUID]) -> dict[UUID, str]:
        """Return the names of topics. Topics that do not exist are left out.

        The cluster is asked for topics that are not in the client's view yet.
        """
        wanted = frozenset(map(TopicId, topic_ids))
        missing = sorted(wanted - self._cluster.view.names_by_id.keys())
        if missing:
            try:
                request = MetadataRequest(
                    topics=[
                        MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in missing
                    ]
                )
                response = await self._cluster.ask_any(request, MetadataResponse)
                await self._cluster.refresh(
                    [topic.name for topic in response.topics if topic.name and not topic.error_code]
                )
            except KafkaError as error:
                self._quiet.info(
                    "names", "group %s: topics that are assigned: %s", self._member.group_id, error
                )
        names = self._cluster.view.names_by_id
        return {topic_id: names[topic_id] for topic_id in wanted if topic_id in names}

    def _now_ms(self) -> int:
        return self._cluster.env.clock.monotonic_ms()
