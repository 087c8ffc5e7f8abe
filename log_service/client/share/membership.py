"""Keeps one member in a share group (KIP-932), and receives its assignments.

Heartbeats join and subscribe, and their responses contain assignments. This module decides when to
send a heartbeat and what the coordinator's errors mean. There is no revocation: the member reads
the partitions of the newest assignment. A member without partitions sends heartbeats sooner than
after the coordinator's interval, because a new group takes a moment to initialize its partitions.

Invariants: one heartbeat at a time. The member keeps its id, and joins again with it if the
coordinator has forgotten it. A member that does not poll for ``max_poll_interval_ms`` leaves
(KIP-62).
"""

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from random import Random

import trio

from log_service.client.admin.groups import MOVED
from log_service.client.connections.cluster_metadata import SILENCE_MS, ClusterMetadata
from log_service.client.share.metrics import ShareConsumerMeter
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import TopicId
from log_service.config.client import ShareConsumerConfig
from log_service.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from log_service.rpc.connection import raise_for

logger = logging.getLogger(__name__)

JOIN_EPOCH, LEAVE_EPOCH = 0, -1
FORGOTTEN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
FIRST_INTERVAL_MS = 5_000
EARLY_MS = 200
"""Pause after which a member without partitions sends a heartbeat again.

The pause doubles each time, up to the coordinator's interval.
"""
MEMBER_ID_BYTES = 16

Assigned = frozenset[tuple[TopicId, int]]


def new_member_id(rng: Random) -> str:
    """Return a member id in the brokers' format: 16 bytes in base64, without a leading dash."""
    while True:
        text = urlsafe_b64encode(rng.randbytes(MEMBER_ID_BYTES)).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text


class ShareMembership:
    """A consumer's membership in a share group.

    ``on_assigned`` gets each assignment. ``on_change`` is called when the membership has failed, so
    that the consumer raises the error.
    """

    def __init__(
        self,
        cluster: ClusterMetadata,
        config: ShareConsumerConfig,
        *,
        on_assigned: Callable[[Assigned], None],
        on_change: Callable[[], None],
        meter: ShareConsumerMeter,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._on_assigned = on_assigned
        self._on_change = on_change
        self._meter = meter
        self._quiet = QuietLogger(logger, self._now_ms)
        self._topics: frozenset[str] = frozenset()
        self._sent_topics: frozenset[str] | None = None
        self._assigned: Assigned = frozenset()
        self._interval_ms = FIRST_INTERVAL_MS
        self._early_count = self._failed_count = 0
        self._polled_ms = self._now_ms()
        self._is_polling = False
        self._error: KafkaError | None = None
        self._wakeup = trio.Event()
        self._lock = trio.Lock()
        self.member_id = new_member_id(cluster.env.rng)
        self.member_epoch = JOIN_EPOCH

    def __repr__(self) -> str:
        return (
            f"<ShareMembership {self._config.group_id} member={self.member_id}"
            f" epoch={self.member_epoch}>"
        )

    # Calls of the application

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics. A heartbeat with the new topics is sent at once."""
        self._topics = frozenset(topics)
        self._early_count = 0
        self._wakeup.set()

    def note_poll(self, *, is_polling: bool) -> None:
        """Note that a poll begins (``is_polling``) or ends.

        A member that left because of missing polls joins again.
        """
        is_late = self._is_late()
        self._is_polling = is_polling
        self._polled_ms = self._now_ms()
        if is_late:
            self._wakeup.set()

    def raise_error(self) -> None:
        """Raise the error that keeps this member out of the group, if there is one, and clear it.

        Heartbeats continue, because the cause may pass.

        Raises:
            KafkaError: GROUP_AUTHORIZATION_FAILED, GROUP_MAX_SIZE_REACHED, UNSUPPORTED_VERSION and
                others.
        """
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def leave(self) -> None:
        """Leave the group for good, if this is a member.

        The coordinator assigns its partitions to others at once.
        """
        self._topics = frozenset()
        await self._give_up()

    async def _give_up(self) -> None:
        """Send the heartbeat that leaves the group, and forget the membership.

        The application may change the subscription meanwhile.
        """
        async with self._lock:
            if self.member_epoch == JOIN_EPOCH:
                return
            self.member_epoch = LEAVE_EPOCH
            try:
                await self._ask(
                    ShareGroupHeartbeatRequest(
                        group_id=self._config.group_id,
                        member_id=self.member_id,
                        member_epoch=LEAVE_EPOCH,
                    )
                )
            except KafkaError as error:
                logger.info("leaving group %s: %s", self._config.group_id, error)
            self._forget_membership()

    # The task

    async def run(self) -> None:
        """Send heartbeats, forever."""
        while True:
            with trio.move_on_after(self._until_next_ms() / 1_000):
                await self._wakeup.wait()
            self._wakeup = trio.Event()
            if not self._topics:
                continue
            if self._is_late():
                await self._leave_idle()
            else:
                async with self._lock:
                    await self._beat()

    def _until_next_ms(self) -> float:
        if not self._topics:
            return float("inf")
        if self._failed_count:
            return self._cluster.backoff_ms(self._failed_count - 1)
        if not self._assigned and self._early_count:
            return min(EARLY_MS << min(self._early_count - 1, 10), self._interval_ms)
        return self._interval_ms

    def _is_late(self) -> bool:
        return (
            not self._is_polling
            and self._now_ms() - self._polled_ms > self._config.max_poll_interval_ms
        )

    async def _leave_idle(self) -> None:
        if self.member_epoch == JOIN_EPOCH:
            return
        limit_ms = self._config.max_poll_interval_ms
        logger.warning(
            "group %s: no poll for %d ms (max_poll_interval_ms): leaving",
            self._config.group_id,
            limit_ms,
        )
        await self._give_up()

    async def _beat(self) -> None:
        topics = self._topics
        if not topics:
            return  # it left meanwhile
        is_joining = self.member_epoch == JOIN_EPOCH
        request = ShareGroupHeartbeatRequest(
            group_id=self._config.group_id,
            member_id=self.member_id,
            member_epoch=self.member_epoch,
            rack_id=(self._config.client_rack or None) if is_joining else None,
            subscribed_topic_names=sorted(topics)
            if is_joining or topics != self._sent_topics
            else None,
        )
        try:
            response = await self._ask(request)
        except KafkaError as error:
            self._note_error(error)
            return
        self._sent_topics, self._failed_count = topics, 0
        self.member_epoch = response.member_epoch
        self._interval_ms = max(response.heartbeat_interval_ms, 1)
        if response.assignment is not None:
            self._take(
                frozenset(
                    (TopicId(each.topic_id), n)
                    for each in response.assignment.topic_partitions
                    for n in each.partitions
                )
            )
        self._early_count = 0 if self._assigned else self._early_count + 1

    async def _ask(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        connection = await self._cluster.coordinator(self._config.group_id)
        started_ms = self._now_ms()
        patience_ms = self._interval_ms + SILENCE_MS
        response = None
        with trio.move_on_after(patience_ms / 1_000):
            response = await connection.request(request, ShareGroupHeartbeatResponse)
        if response is None:
            text = (
                f"the coordinator of group {self._config.group_id!r} did not respond within"
                f" {patience_ms} ms"
            )
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
        self._meter.note_heartbeat(started_ms)
        raise_for(
            response.error_code, response.error_message, f"share group {self._config.group_id!r}"
        )
        return response

    def _note_error(self, error: KafkaError) -> None:
        self._failed_count += 1
        if error.code in MOVED:
            self._cluster.forget_coordinator(self._config.group_id)
        if error.code in FORGOTTEN:
            self._quiet.warning(
                error.code,
                "group %s goes on without this member, which joins again: %s",
                self._config.group_id,
                error,
            )
            self._forget_membership()
        elif error.is_retriable:
            self._quiet.info(error.code, "%s", error)
        else:
            self._quiet.warning(error.code, "this member cannot take part: %s", error)
            self._error = error
            self._on_change()

    def _forget_membership(self) -> None:
        self.member_epoch, self._sent_topics = JOIN_EPOCH, None
        self._early_count = 0
        self._take(frozenset())

    def _take(self, assigned: Assigned) -> None:
        if assigned != self._assigned:
            self._assigned = assigned
            self._on_assigned(assigned)

    def _now_ms(self) -> int:
        return self._cluster.env.clock.monotonic_ms()
