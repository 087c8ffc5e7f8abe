"""Acquires records from leaders, and holds them until a poll returns them.

The time of a record's lock runs from the moment it is acquired. So records are acquired only while
a poll waits and none are ready. All leaders are asked at once. If ``share_acquire_mode`` limits the
number of acquired records strictly, they are asked one after the other. ``lane`` sends the requests
to one leader.

Invariants: a record is not returned if its lock has expired, if its session has ended, or if its
partition moved to another member or leader. Each acquired offset is returned, acknowledged as a
gap, or released, at the latest with the end of its session.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, inf
from typing import Protocol

import trio

from log_service.client.connections.cluster_metadata import SILENCE_MS, ClusterMetadata
from log_service.client.connections.cluster_view import NO_LEADER
from log_service.client.consumer.fetcher import STALE_VIEW
from log_service.client.consumer.records import Deserializer
from log_service.client.share.acknowledgements import Acknowledgement
from log_service.client.share.acquired import AcquiredReader
from log_service.client.share.in_hand import InHand
from log_service.client.share.lane import FetchPlan, Lane, Source
from log_service.client.share.metrics import ShareConsumerMeter
from log_service.client.share.records import (
    GAP,
    AcknowledgeType,
    ShareDeserializationError,
    ShareRecord,
)
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import NO_TOPIC_ID, TopicId, TopicPartition
from log_service.config.client import ShareConsumerConfig
from log_service.protocol.messages.share_fetch import PartitionData

logger = logging.getLogger(__name__)

DEFAULT_LOCK_TIMEOUT_MS = 30_000
"""Kafka's default of ``group.share.record.lock.duration.ms``, until a leader reports its own."""
CLOSE_S = 5.0
"""How long closing waits for silent leaders.

They release the records when the connection closes.
"""
NOT_YET = frozenset(
    {
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors that may be transient, although the protocol does not call them retriable."""


class _Reader(Protocol):
    gaps: list[int]
    unreadable: list[int]

    def read_into(self, taken: list[ShareRecord], max_records: int) -> bool: ...
    def give_up(self) -> list[int]: ...


class _Returned:
    """Reads records that were polled, but never reached the application, once more."""

    def __init__(self, records: Iterable[ShareRecord]) -> None:
        self._records = deque(records)
        self.gaps: list[int] = []
        self.unreadable: list[int] = []

    def read_into(self, taken: list[ShareRecord], max_records: int) -> bool:
        while self._records and len(taken) < max_records:
            taken.append(self._records.popleft())
        return not self._records

    def give_up(self) -> list[int]:
        left = [record.offset for record in self._records]
        self._records.clear()
        return left


class _Arrived:
    """Acquired records of one partition that wait for a poll."""

    __slots__ = ("deadline_ms", "reader", "source", "where")

    def __init__(
        self, source: Source, where: TopicPartition, reader: _Reader, deadline_ms: float
    ) -> None:
        self.source = source
        self.where = where
        self.reader = reader
        self.deadline_ms = deadline_ms


class ShareFetcher:
    """Acquires records of all assigned partitions.

    ``on_change`` is called when there are new records or errors for a poll.
    """

    def __init__(
        self,
        cluster: ClusterMetadata,
        config: ShareConsumerConfig,
        member_id: str,
        in_hand: InHand[Source],
        deserializers: tuple[Deserializer | None, Deserializer | None],
        *,
        on_change: Callable[[], None],
        meter: ShareConsumerMeter,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._member_id = member_id
        self._in_hand = in_hand
        self._deserializers = deserializers
        self._on_change = on_change
        self._meter = meter
        self._quiet = QuietLogger(logger, cluster.env.clock.monotonic_ms)
        self._assigned: frozenset[tuple[TopicId, int]] = frozenset()
        self._lanes: dict[int, Lane] = {}
        self._arrived: deque[_Arrived] = deque()
        self._pending_errors: deque[tuple[KafkaError, _Arrived | None]] = deque()
        self._limit: int | None = None
        self._deadline = -inf
        self._asked: dict[int, float] = {}  # by node, the time since which it owes a response
        self._last_asked = NO_LEADER
        self._wakeup = trio.Event()
        self._is_refreshing = False
        self._refresh_attempt = 0
        self.lock_timeout_ms = DEFAULT_LOCK_TIMEOUT_MS
        self.is_lock_timeout_known = False

    def __repr__(self) -> str:
        return (
            f"<ShareFetcher partitions={len(self._assigned)} arrived={len(self._arrived)}"
            f" lanes={sorted(self._lanes)}>"
        )

    # Assignment and polls

    def assign(self, assigned: frozenset[tuple[TopicId, int]]) -> None:
        """Read exactly these partitions. Waiting records of other partitions are released."""
        self._assigned = assigned
        self.wake()

    def partitions(self) -> list[TopicPartition]:
        """Return the assigned partitions whose topics are known by name, sorted."""
        names = self._cluster.view.names_by_id
        return sorted(
            TopicPartition(names[topic_id], number)
            for topic_id, number in self._assigned
            if topic_id in names
        )

    def want(self, max_records: int, deadline: float) -> None:
        """Start to acquire records, until there are some or ``want_nothing`` is called.

        Leaders wait for records until the trio time ``deadline`` at most.
        """
        self._limit, self._deadline = max_records, deadline
        self.wake()

    def want_nothing(self) -> None:
        """Stop acquiring records."""
        self._limit = None

    def wake(self) -> None:
        """Check the partitions again, because one may have become fetchable."""
        self._wakeup.set()
        for lane in self._lanes.values():
            lane.wake()

    def raise_error(self) -> None:
        """Raise a permanent fetch error, if there is one, and clear it. Fetching continues.

        Raises:
            ShareDeserializationError: a deserializer failed. The application now has the record in
                hand.
            KafkaError: TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION
                and others.
        """
        if not self._pending_errors:
            return
        error, arrived = self._pending_errors.popleft()
        if arrived is not None and isinstance(error, ShareDeserializationError):
            self._in_hand.hand_out(
                [error.record], arrived.source, arrived.deadline_ms, AcknowledgeType.RELEASE
            )
        raise error

    # Returning records

    def take(self, max_records: int) -> list[ShareRecord]:
        """Return up to ``max_records`` ready records, which the application then has in hand.

        Raises:
            ShareDeserializationError: a deserializer failed. The application has this record in
                hand, too. Earlier records were returned first.
            KafkaError: CORRUPT_MESSAGE or INVALID_RECORD, a batch cannot be read. Its records are
                released.
        """
        taken: list[ShareRecord] = []
        while self._arrived and len(taken) < max_records:
            arrived = self._arrived[0]
            if self._is_stale(arrived):
                self._arrived.popleft()
                self._release(arrived)
                continue
            try:
                self._take_of(arrived, taken, max_records)
            except KafkaError as error:
                self._pending_errors.append((error, arrived))
                break
        if not taken:
            self.raise_error()
        self._meter.note_consumed(len(taken))
        return taken

    def give_back(self, returned: Sequence[tuple[ShareRecord, Source, float]]) -> None:
        """Take back records that the application never received.

        They are ready again, in the same order.
        """
        for record, source, deadline_ms in reversed(returned):
            self._arrived.appendleft(
                _Arrived(source, record.topic_partition, _Returned([record]), deadline_ms)
            )

    def _take_of(self, arrived: _Arrived, taken: list[ShareRecord], max_records: int) -> None:
        before_count = len(taken)
        is_empty = False
        try:
            is_empty = arrived.reader.read_into(taken, max_records)
        finally:
            self._in_hand.hand_out(taken[before_count:], arrived.source, arrived.deadline_ms)
            self._say_gaps(arrived)
            if is_empty:
                self._arrived.popleft()

    def _is_stale(self, arrived: _Arrived) -> bool:
        view = self._cluster.view
        return (
            arrived.source.error is not None
            or arrived.deadline_ms <= self._now_ms()
            or (view.topic_id_of(arrived.where.topic), arrived.where.partition)
            not in self._assigned
            or self._cluster.has_other_leader(arrived.where, arrived.source.lane.node_id)
        )

    def _release(self, arrived: _Arrived) -> None:
        """Release waiting records that were not returned."""
        self._say_gaps(arrived)
        self._acknowledge(
            arrived, dict.fromkeys(arrived.reader.give_up(), int(AcknowledgeType.RELEASE))
        )

    def _say_gaps(self, arrived: _Arrived) -> None:
        reader = arrived.reader
        types = dict.fromkeys(reader.gaps, GAP) | dict.fromkeys(
            reader.unreadable, int(AcknowledgeType.RELEASE)
        )
        reader.gaps, reader.unreadable = [], []
        self._acknowledge(arrived, types)

    def _acknowledge(self, arrived: _Arrived, types: Mapping[int, int]) -> None:
        if types:
            acknowledgement = Acknowledgement(
                topic_partition=arrived.where,
                types=types,
                deadline_ms=arrived.deadline_ms,
                on_settled=self._note_settled,
            )
            arrived.source.lane.acknowledge(arrived.source, acknowledgement, is_hurried=False)

    def _note_settled(self, acknowledgement: Acknowledgement, error: KafkaError | None) -> None:
        """Log a refused acknowledgement that the client itself made, such as for a gap.

        It is not an error for the application, because the records become available anyway.
        """
        if error is not None:
            self._quiet.info(
                error.code,
                "group %s: %d offsets: %s",
                self._config.group_id,
                len(acknowledgement.types),
                error,
            )

    # Interface for the lanes

    def wanted_of(self, node_id: int) -> dict[TopicPartition, TopicId]:
        """Return the assigned partitions that a broker leads in the current view."""
        view = self._cluster.view
        wanted = {
            where: view.topic_id_of(where.topic)
            for where in self.partitions()
            if view.leader_of(where) == node_id
        }
        return {where: topic_id for where, topic_id in wanted.items() if topic_id != NO_TOPIC_ID}

    def plan_of(self, node_id: int) -> FetchPlan | None:
        """Return the next fetch from a leader, or None if no records are wanted."""
        if self._limit is None or self._arrived:
            return None
        wanted = self.wanted_of(node_id)
        if not wanted:
            return None
        wait_ms = min(
            self._config.fetch_max_wait_ms,
            max(ceil((self._deadline - trio.current_time()) * 1_000), 1),
        )
        if self._config.acquire_mode:
            nodes = self._nodes_in_turn()
            if self._is_one_asked() or (nodes and node_id != nodes[0]):
                return None
            wait_ms = ceil(wait_ms / max(len(nodes), 1))
        return FetchPlan(wanted=wanted, max_wait_ms=wait_ms, max_records=self._limit)

    def note_fetch_begun(self, node_id: int) -> None:
        """Note that a fetch is sent."""
        self._asked[node_id] = trio.current_time()
        self._last_asked = node_id

    def note_fetch_ended(self, node_id: int) -> None:
        """Note that a fetch got its response or failed."""
        since = self._asked.pop(node_id, None)
        if since is not None:
            self._meter.note_fetch((trio.current_time() - since) * 1_000)
        if self._config.acquire_mode:
            self.wake()  # it is another leader's turn

    def accept(self, source: Source, where: TopicPartition, result: PartitionData) -> bool:
        """Process a partition's part of a fetch response.

        Return whether the next fetch may be sent without a pause. Raises ProtocolError as
        ``AcquiredReader``.
        """
        code = ErrorCode.of(result.error_code)
        if code is not ErrorCode.NONE:
            is_moved = self._cluster.has_other_leader(where, source.lane.node_id)
            self._note_partition_error(
                KafkaError(code, f"share fetch of {where}: {result.error_message or code.name}"),
                is_moved=is_moved,
            )
            return is_moved
        self._refresh_attempt = 0
        if result.acquired_records:
            acquired = [
                (each.first_offset, each.last_offset, each.delivery_count)
                for each in result.acquired_records
            ]
            reader = AcquiredReader(
                where,
                result.records,
                acquired,
                check_crcs=self._config.check_crcs,
                deserializers=self._deserializers,
            )
            self._arrived.append(
                _Arrived(source, where, reader, self._now_ms() + self.lock_timeout_ms)
            )
            self._on_change()
        return True

    def note_lock_timeout(self, timeout_ms: int) -> None:
        """Note the acquisition lock timeout of a leader."""
        self.lock_timeout_ms, self.is_lock_timeout_known = timeout_ms, True

    def note_request_error(self, error: KafkaError) -> None:
        """Note that a request failed as a whole."""
        self._note_partition_error(error, is_moved=False)

    def _note_partition_error(self, error: KafkaError, *, is_moved: bool) -> None:
        if error.code in STALE_VIEW or error.is_retriable or error.code in NOT_YET:
            self._quiet.info(error.code, "group %s: %s", self._config.group_id, error)
            if is_moved:
                self.wake()
            else:
                self._request_refresh()
        elif all(error.code is not pending_error.code for pending_error, _ in self._pending_errors):
            self._pending_errors.append((error, None))
            self._on_change()

    def _is_one_asked(self) -> bool:
        """Return whether a fetch is in flight to which a response can still be expected.

        After a time limit it does not count, so that a silent leader does not block the others.
        """
        patience_s = (self._config.fetch_max_wait_ms + SILENCE_MS) / 1_000
        return any(trio.current_time() - since < patience_s for since in self._asked.values())

    def _nodes_in_turn(self) -> list[int]:
        """Return the leaders to which a fetch may be sent now, in round-robin order."""
        ready = [
            node_id
            for node_id, lane in self._lanes.items()
            if node_id not in self._asked and not lane.is_paused and self.wanted_of(node_id)
        ]
        return sorted(ready, key=lambda node_id: (node_id <= self._last_asked, node_id))

    # The task

    async def run(self) -> None:
        """Run a lane to each leader of an assigned partition, forever."""
        async with trio.open_nursery() as self._nursery:
            while True:
                self._wakeup = trio.Event()
                self._tend()
                with trio.move_on_after(inf if self._limit is None else SILENCE_MS / 1_000):
                    await self._wakeup.wait()

    async def close(self) -> None:
        """Send pending acknowledgements and end all sessions.

        Records that are not acknowledged become available at once.
        """
        self.want_nothing()
        lanes, self._lanes = self._lanes, {}
        self._assigned = frozenset()
        for lane in lanes.values():
            lane.close()
        with trio.move_on_after(CLOSE_S):
            for lane in lanes.values():
                await lane.ended.wait()
        self._arrived.clear()

    def _tend(self) -> None:
        """Start missing lanes, release stale records, and refresh the view if that is needed.

        It is needed if a leader or a topic is unknown, or if a leader has not responded in time.
        """
        view = self._cluster.view
        leaders = {view.leader_of(where) for where in self.partitions()}
        for node_id in sorted(leaders - self._lanes.keys() - {NO_LEADER}):
            lane = self._lanes[node_id] = Lane(
                node_id, self._cluster, self._config, self._member_id, self
            )
            self._nursery.start_soon(lane.run)
        self._release_given_up()
        patience_s = (self._config.fetch_max_wait_ms + SILENCE_MS) / 1_000
        is_silent = any(trio.current_time() - since >= patience_s for since in self._asked.values())
        if (
            NO_LEADER in leaders
            or is_silent
            or any(topic_id not in view.names_by_id for topic_id, _ in self._assigned)
        ):
            self._request_refresh()

    def _release_given_up(self) -> None:
        kept: deque[_Arrived] = deque()
        for arrived in self._arrived:
            if self._is_stale(arrived):
                self._release(arrived)
            else:
                kept.append(arrived)
        self._arrived = kept

    def _request_refresh(self) -> None:
        if not self._is_refreshing:
            self._is_refreshing = True
            self._nursery.start_soon(self._refresh)

    async def _refresh(self) -> None:
        """Refresh the view after a pause, which grows with each attempt."""
        if self._refresh_attempt:
            await trio.sleep(self._cluster.backoff_ms(self._refresh_attempt - 1) / 1_000)
        self._refresh_attempt += 1
        try:
            await self._cluster.refresh()
        except KafkaError as error:
            self._quiet.info("refresh", "refreshing metadata: %s", error)
        self._is_refreshing = False
        self.wake()

    def _now_ms(self) -> float:
        return self._cluster.env.clock.monotonic_ms()
