"""Sends all requests to one leader, one at a time, in one share session over one connection.

The requests are fetches, which acquire records, and acknowledgements. A fetch carries the pending
acknowledgements. A separate request acknowledges records if a fetch cannot carry some of them, or
if some cannot wait for a fetch. Acknowledgements go only to the session that acquired the records.
``fetcher`` decides whether records are wanted and how to treat a partition's error.

Invariants: one request is in flight at a time. When a session ends, for any reason, its leader
releases the records acquired in it. If the leader may not know of the end, the connection is
closed. All pending acknowledgements of the session are then settled with the error that ended it.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, TypeVar

import trio

from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.share.acknowledgements import Acknowledgement, merged
from log_service.client.share.session import ShareSession
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.common.types import TopicId, TopicPartition
from log_service.config.client import ShareConsumerConfig
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages import share_acknowledge, share_fetch
from log_service.protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from log_service.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from log_service.rpc.connection import RpcConnection

R = TypeVar("R", share_fetch.PartitionData, share_acknowledge.PartitionData)

PURPOSE = "share"
"""Share sessions use their own connection, because the leader releases its records on close."""
FIRST_VERSION_WITH_RENEWAL = 2
RIDE_S = 0.1
"""Time in seconds for which an acknowledgement may wait for a fetch or for others to send with.

If a caller waits for it, it is sent at once.
"""
RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors with which a leader reports that it could not store acknowledgements.

The records stay locked, and the acknowledgements are sent again.
"""


class Source:
    """Identifies one session with one leader. ``error`` is the reason why it ended, None before."""

    def __init__(self, lane: "Lane") -> None:
        self.lane = lane
        self.error: KafkaError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPlan:
    """Partitions and limits of the next fetch."""

    wanted: Mapping[TopicPartition, TopicId]
    max_wait_ms: int
    max_records: int


class FetcherInterface(Protocol):
    """The interface through which lanes use the fetcher."""

    def wanted_of(self, node_id: int) -> Mapping[TopicPartition, TopicId]:
        """Return the partitions to read from a leader."""

    def plan_of(self, node_id: int) -> FetchPlan | None:
        """Return the next fetch from a leader, or None if no records are wanted."""

    def note_fetch_begun(self, node_id: int) -> None:
        """Note that a fetch is sent."""

    def note_fetch_ended(self, node_id: int) -> None:
        """Note that a fetch got its response or failed."""

    def accept(
        self, source: Source, where: TopicPartition, result: share_fetch.PartitionData
    ) -> bool:
        """Process a partition's part of a fetch response.

        Returns whether the next fetch may be sent without a pause.
        """

    def note_lock_timeout(self, timeout_ms: int) -> None:
        """Note the acquisition lock timeout of a leader."""

    def note_request_error(self, error: KafkaError) -> None:
        """Note that a request failed as a whole."""


class Lane:
    """Sends all requests to one leader."""

    def __init__(
        self,
        node_id: int,
        cluster: ClusterMetadata,
        config: ShareConsumerConfig,
        member_id: str,
        fetcher: FetcherInterface,
    ) -> None:
        self.node_id = node_id
        self.source = Source(self)
        self.ended = trio.Event()
        self._cluster = cluster
        self._config = config
        self._member_id = member_id
        self._fetcher = fetcher
        self._session = ShareSession()
        self._connection: RpcConnection | None = None
        self._pending: deque[Acknowledgement] = deque()
        self._wakeup = trio.Event()
        self._is_hurried = self._is_closing = False
        self._paused_until = 0.0
        self._send_by = inf
        self._failed_count = 0

    def __repr__(self) -> str:
        return f"<Lane to broker {self.node_id} {self._session} pending={len(self._pending)}>"

    @property
    def is_paused(self) -> bool:
        """Whether requests to the leader pause after an error."""
        return trio.current_time() < self._paused_until

    def wake(self) -> None:
        """Check again whether there is a request to send."""
        self._wakeup.set()

    def acknowledge(
        self, source: Source, acknowledgement: Acknowledgement, *, is_hurried: bool
    ) -> None:
        """Add an acknowledgement of records that were acquired in the session ``source``.

        It is sent with the next fetch, or at once if ``is_hurried``. If the session has ended, it
        is settled with the error that ended the session.
        """
        if source is not self.source or self._is_closing:
            error = source.error or KafkaError(
                ErrorCode.SHARE_SESSION_NOT_FOUND,
                f"the session with broker {self.node_id} has ended",
            )
            acknowledgement.on_settled(acknowledgement, error)
            return
        self._pending.append(acknowledgement)
        self._is_hurried |= is_hurried
        self._send_by = min(self._send_by, trio.current_time() + RIDE_S)
        self.wake()

    def close(self) -> None:
        """Start to close: send pending acknowledgements, end the session and the task.

        ``ended`` is set when this is done.
        """
        self._is_closing = True
        self.wake()

    async def run(self) -> None:
        """Send requests until ``close`` is called, then end the session."""
        try:
            while not self._is_closing:
                self._wakeup = trio.Event()
                if not await self._take_turn():
                    with trio.move_on_at(self._paused_until if self.is_paused else self._send_by):
                        await self._wakeup.wait()
            await self._acknowledge(is_final=True)
        finally:
            self._end_session(
                KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, "the consumer is closed")
            )
            self.ended.set()

    async def _take_turn(self) -> bool:
        """Send one request, if one is due. Return whether one was sent."""
        if self.is_paused:
            return False
        plan = self._fetcher.plan_of(self.node_id)
        if self._pending and not self._can_wait(plan):
            await self._acknowledge()
            return True
        if plan is not None:
            await self._fetch(plan)
            return True
        return False

    def _can_wait(self, plan: FetchPlan | None) -> bool:
        """Return whether the pending acknowledgements can wait for the next fetch.

        If there is a next fetch (``plan``), it must be able to carry all of them. If there is none,
        they wait for up to ``RIDE_S``.
        """
        if self._is_hurried:
            return False
        if plan is None:
            return trio.current_time() < self._send_by
        return not any(
            acknowledgement.is_renewing or acknowledgement.topic_partition not in plan.wanted
            for acknowledgement in self._pending
        )

    # Requests

    async def _fetch(self, plan: FetchPlan) -> None:
        self._fetcher.note_fetch_begun(self.node_id)
        acknowledgements: list[Acknowledgement] = []
        try:
            connection = await self._connect()
            acknowledgements = self._take_pending()
            request = ShareFetchRequest(
                group_id=self._config.group_id,
                member_id=self._member_id,
                max_wait_ms=plan.max_wait_ms,
                min_bytes=self._config.fetch_min_bytes,
                max_bytes=self._config.fetch_max_bytes,
                max_records=plan.max_records,
                batch_size=plan.max_records,
                share_acquire_mode=self._config.acquire_mode,
            )
            self._session.fill_fetch(request, plan.wanted, merged(acknowledgements))
            response = await connection.request(
                request, ShareFetchResponse, waits_ms=plan.max_wait_ms
            )
            self._check(connection, response)
        except KafkaError as error:
            self._note_failure(acknowledgements, error)
            return
        finally:
            self._fetcher.note_fetch_ended(self.node_id)
        self._take_fetched(acknowledgements, response)

    async def _acknowledge(self, *, is_final: bool = False) -> None:
        """Send the pending acknowledgements in a request of their own.

        With ``is_final`` the request also ends the session.
        """
        self._is_hurried = False
        if not self._session.is_open and not is_final:
            self._note_failure(
                self._take_pending(),
                KafkaError(
                    ErrorCode.SHARE_SESSION_NOT_FOUND, f"broker {self.node_id} knows no session"
                ),
            )
            return
        if not self._session.is_open:
            return
        acknowledgements: list[Acknowledgement] = []
        try:
            session, connection = self._session, await self._connect()
            if session is not self._session:
                return  # the session was lost with the connection
            acknowledgements = self._sendable(connection, self._take_pending())
            if not acknowledgements and not is_final:
                return
            request = ShareAcknowledgeRequest(
                group_id=self._config.group_id,
                member_id=self._member_id,
                is_renew_ack=any(
                    acknowledgement.is_renewing for acknowledgement in acknowledgements
                ),
            )
            self._session.fill_acknowledge(request, merged(acknowledgements), is_final=is_final)
            response = await connection.request(request, ShareAcknowledgeResponse)
            self._check(connection, response)
        except KafkaError as error:
            self._note_failure(acknowledgements, error)
            return
        self._take_acknowledged(acknowledgements, response)

    async def _connect(self) -> RpcConnection:
        """Return a connection to the leader. If it is a new one, the earlier session has ended."""
        connection = await self._cluster.node(self.node_id, PURPOSE)
        if connection is not self._connection:
            self._end_session(
                KafkaError(
                    ErrorCode.NETWORK_EXCEPTION, f"the connection to broker {self.node_id} was lost"
                )
            )
            self._connection = connection
        return connection

    def _take_pending(self) -> list[Acknowledgement]:
        taken = list(self._pending)
        self._pending.clear()
        self._send_by = inf
        return taken

    def _sendable(
        self, connection: RpcConnection, acknowledgements: list[Acknowledgement]
    ) -> list[Acknowledgement]:
        """Fail acknowledgements that the broker's version does not support, and return the others.

        These are renewals of locks.
        """
        if connection.version_of(ApiKey.SHARE_ACKNOWLEDGE) >= FIRST_VERSION_WITH_RENEWAL:
            return acknowledgements
        text = f"broker {self.node_id} is too old to renew locks (KIP-1222)"
        _settle(
            [each for each in acknowledgements if each.is_renewing],
            KafkaError(ErrorCode.UNSUPPORTED_VERSION, text),
        )
        return [each for each in acknowledgements if not each.is_renewing]

    def _check(
        self, connection: RpcConnection, response: ShareFetchResponse | ShareAcknowledgeResponse
    ) -> None:
        """Raise the error of a whole response, or note in the session that it was accepted.

        With an error the connection is closed if the leader may still have the session.

        Raises:
            KafkaError: the error of the leader.
        """
        if response.error_code == ErrorCode.NONE:
            self._session.accept()
            if response.acquisition_lock_timeout_ms > 0:
                self._fetcher.note_lock_timeout(response.acquisition_lock_timeout_ms)
            return
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.SHARE_SESSION_NOT_FOUND and self._session.is_open:
            connection.close()
        raise KafkaError(
            code, f"share session with broker {self.node_id}: {response.error_message or code.name}"
        )

    # Responses

    def _note_failure(self, acknowledgements: list[Acknowledgement], error: KafkaError) -> None:
        _settle(acknowledgements, error)
        self._end_session(error)
        self._fetcher.note_request_error(error)
        self._pause()

    def _take_fetched(
        self, acknowledgements: Sequence[Acknowledgement], response: ShareFetchResponse
    ) -> None:
        results = self._by_place(
            (TopicId(topic.topic_id), result)
            for topic in response.responses
            for result in topic.partitions
        )
        self._settle_by_code(
            acknowledgements,
            {where: result.acknowledge_error_code for where, result in results.items()},
        )
        is_fine = True
        try:
            for where, result in results.items():
                if result.error_code:
                    self._cluster.learn_leader(
                        where, result.current_leader, response.node_endpoints
                    )
                is_fine &= self._fetcher.accept(self.source, where, result)
        except ProtocolError as error:
            if self._connection is not None:
                self._connection.close()
            text = f"broker {self.node_id} did not send a valid ShareFetchResponse: {error}"
            self._note_failure([], KafkaError(ErrorCode.NETWORK_EXCEPTION, text))
            return
        if is_fine:
            self._failed_count = 0
        else:
            self._pause()

    def _take_acknowledged(
        self, acknowledgements: Sequence[Acknowledgement], response: ShareAcknowledgeResponse
    ) -> None:
        results = self._by_place(
            (TopicId(topic.topic_id), result)
            for topic in response.responses
            for result in topic.partitions
        )
        for where, result in results.items():
            if result.error_code:
                self._cluster.learn_leader(where, result.current_leader, response.node_endpoints)
        self._settle_by_code(
            acknowledgements, {where: result.error_code for where, result in results.items()}
        )

    def _by_place(self, results: Iterable[tuple[TopicId, R]]) -> dict[TopicPartition, R]:
        found = (
            (self._session.place_of(topic_id, result.partition_index), result)
            for topic_id, result in results
        )
        return {where: result for where, result in found if where is not None}

    def _settle_by_code(
        self, acknowledgements: Iterable[Acknowledgement], codes: Mapping[TopicPartition, int]
    ) -> None:
        """Settle acknowledgements by the error codes of a response, by partition.

        Those that the leader could not store are sent again, unless their locks have expired or the
        lane closes.
        """
        now_ms = self._cluster.env.clock.monotonic_ms()
        again = []
        for acknowledgement in acknowledgements:
            code = ErrorCode.of(
                codes.get(acknowledgement.topic_partition, ErrorCode.INVALID_RECORD_STATE)
            )
            if code is ErrorCode.NONE:
                acknowledgement.on_settled(acknowledgement, None)
            elif code in RETRIED and now_ms < acknowledgement.deadline_ms and not self._is_closing:
                again.append(acknowledgement)
            else:
                text = f"acknowledging records of {acknowledgement.topic_partition}: {code.name}"
                acknowledgement.on_settled(acknowledgement, KafkaError(code, text))
        if again:
            self._pending.extendleft(reversed(again))
            self._send_by = 0.0
            self._pause()

    def _end_session(self, error: KafkaError) -> None:
        self._session = ShareSession()
        self.source.error = error
        self.source = Source(self)
        self._connection = None
        _settle(self._take_pending(), error)

    def _pause(self) -> None:
        self._paused_until = (
            trio.current_time() + self._cluster.backoff_ms(self._failed_count) / 1_000
        )
        self._failed_count += 1


def _settle(acknowledgements: Iterable[Acknowledgement], error: KafkaError) -> None:
    for acknowledgement in acknowledgements:
        acknowledgement.on_settled(acknowledgement, error)
