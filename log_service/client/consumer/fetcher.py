"""Fetches records before the application polls them, and opens batches when they are polled.

Decides what to fetch next, when enough is buffered, and how to treat the errors of a response.
Every partition that can be fetched is fetched, with one request per leader at a time. ``positions``
finds the start of reading. The consumer decides which partitions are read.

Invariants:

- Buffered bytes stay below ``queued_max_bytes`` plus one response per leader.
- Records are returned once, in the order of offsets. No returned record is from before the
  position, or of a partition that is paused or was given up.
- The response to a fetch that was sent before a seek is dropped.
- No position is carried over into a topic that was deleted and created again.
- A partition with an error is fetched again after a pause. If the error must be raised to the
  application, the pause begins after that. If the response names a new leader of the partition, it
  is fetched there at once (KIP-951).
"""

import logging
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any

import trio

from log_service.client.connections.cluster_metadata import SILENCE_MS, ClusterMetadata
from log_service.client.consumer.aborted import AbortedFilter
from log_service.client.consumer.fetch_exchange import FetchExchange
from log_service.client.consumer.record_reader import RecordReader
from log_service.client.consumer.records import (
    ConsumerRecord,
    Deserializer,
    LogTruncation,
    RecordDeserializationError,
)
from log_service.client.consumer.subscriptions import (
    UNKNOWN,
    Hold,
    PartitionState,
    Start,
    Subscriptions,
)
from log_service.client.metrics import ConsumerMeter
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import NO_LEADER_EPOCH, NO_TOPIC_ID
from log_service.config.client import ConsumerConfig
from log_service.protocol.messages.fetch import PartitionData

logger = logging.getLogger(__name__)

STALE_VIEW = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class _Fetched:
    """Fetched batches of one partition that no poll has read yet."""

    __slots__ = ("reader", "size_bytes", "state", "version")

    def __init__(self, state: PartitionState, reader: RecordReader, size_bytes: int) -> None:
        self.state = state
        self.version = state.version
        self.reader = reader
        self.size_bytes = size_bytes

    @property
    def is_stale(self) -> bool:
        """Whether the position was moved since the fetch."""
        return self.state.version != self.version


class Fetcher:
    """Keeps records of all assigned partitions ready.

    ``on_change`` is called when there are new records or errors for a poll.
    """

    def __init__(
        self,
        cluster: ClusterMetadata,
        config: ConsumerConfig,
        subscriptions: Subscriptions,
        deserializers: tuple[Deserializer | None, Deserializer | None],
        *,
        on_change: Callable[[], None],
        meter: ConsumerMeter,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._subscriptions = subscriptions
        self._deserializers = deserializers
        self._on_change = on_change
        self._meter = meter
        self._quiet = QuietLogger(logger, meter.now_ms)
        self._exchange = FetchExchange(cluster, config, meter)
        self._fetched: deque[_Fetched] = deque()
        self._busy_nodes: dict[int, int] = {}  # by node, the time since which it owes a response
        self._wakeup = trio.Event()
        self._pending_errors: deque[tuple[PartitionState | None, KafkaError]] = deque()
        self._buffered_bytes = 0
        self._is_refreshing = False
        self._refresh_attempt = 0
        self._refreshed_ms = -cluster.config.retry_backoff_max_ms

    def __repr__(self) -> str:
        return f"<Fetcher buffered={self._buffered_bytes} busy={sorted(self._busy_nodes)}>"

    def wake(self) -> None:
        """Check the partitions again, because one may have become fetchable."""
        self._wakeup.set()

    @property
    def buffered_bytes(self) -> int:
        """Bytes that were fetched and not returned yet."""
        return self._buffered_bytes

    def raise_error(self) -> None:
        """Raise a permanent fetch error, if there is one, and clear it.

        The partition is fetched again after a pause, because the next poll may follow at once.

        Raises:
            KafkaError: TOPIC_AUTHORIZATION_FAILED, CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE (with
                auto_offset_reset none) and others.
        """
        while self._pending_errors:
            state, error = self._pending_errors.popleft()
            if state is None:
                raise error
            if self._is_current(state) and state.hold is Hold.TELLING:
                self._pause(state)
                raise error

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """Return up to ``max_records`` ready records of partitions that are not paused.

        Positions move past the returned records.

        Raises:
            KafkaError: CORRUPT_MESSAGE or INVALID_RECORD (RecordDeserializationError is one). The
                position stays before the broken batch, or at the record that cannot be
                deserialized. Earlier records are returned first.
        """
        taken: list[ConsumerRecord] = []
        kept: list[_Fetched] = []
        try:
            while self._fetched and len(taken) < max_records:
                fetched = self._fetched.popleft()
                if fetched.is_stale or not self._is_current(fetched.state):
                    self._drop(fetched)
                elif fetched.state.is_paused:
                    kept.append(fetched)
                elif not self._open(fetched, taken, max_records):
                    kept.append(fetched)
                    break
        finally:
            self._fetched.extendleft(reversed(kept))
            self._meter.note_consumed(len(taken), 0)
            self.wake()
        return taken

    async def end_sessions(self) -> None:
        """Request the end of the fetch sessions from the brokers."""
        await self._exchange.end_sessions()

    async def run(self) -> None:
        """Fetch forever."""
        async with trio.open_nursery() as self._nursery:
            while True:
                for node_id, states in self._fetchable().items():
                    self._busy_nodes[node_id] = self._meter.now_ms()
                    self._nursery.start_soon(self._fetch, node_id, states)
                with trio.move_on_after(self._doubt_silent_nodes() / 1_000):
                    await self._wakeup.wait()
                self._wakeup = trio.Event()

    def _doubt_silent_nodes(self) -> float:
        """Refresh metadata if a node has not responded to a fetch for too long.

        Returns the milliseconds until the next check.
        """
        if not self._busy_nodes:
            return inf
        now_ms, patience_ms = self._meter.now_ms(), self._config.fetch_max_wait_ms + SILENCE_MS
        for node_id, since_ms in self._busy_nodes.items():
            if now_ms - since_ms >= patience_ms:
                self._busy_nodes[node_id] = now_ms
                self._request_refresh()
        return min(self._busy_nodes.values()) + patience_ms - now_ms

    # Returning records

    def _open(self, fetched: _Fetched, taken: list[ConsumerRecord], max_records: int) -> bool:
        """Append records of ``fetched`` to ``taken``, up to ``max_records`` in all.

        Return whether ``fetched`` is used up, so that the next response may be opened. An error is
        raised if ``taken`` is empty. Otherwise a later poll raises it.
        """
        state, reader = fetched.state, fetched.reader
        try:
            is_empty = reader.read_into(taken, max_records)
        except RecordDeserializationError:
            state.advance(reader.position, reader.leader_epoch)
            if not taken:
                self._fetched.appendleft(fetched)
                raise
            return False
        except KafkaError as error:
            self._drop(fetched)
            state.seek(reader.position, reader.leader_epoch, topic_id=state.topic_id)
            if not taken:
                raise
            self._fail(state, error)
            return True
        state.advance(reader.position, reader.leader_epoch)
        if is_empty:
            self._drop(fetched)
            self._meter.note_consumed(0, fetched.size_bytes)
            if state.hold is Hold.READING and state.position == state.fetch_offset:
                state.hold = None
        return is_empty

    def _is_current(self, state: PartitionState) -> bool:
        return self._subscriptions.get(state.topic_partition) is state

    def _drop(self, fetched: _Fetched) -> None:
        self._buffered_bytes -= fetched.size_bytes
        if not fetched.is_stale:
            fetched.state.buffered_bytes -= fetched.size_bytes

    def _make_room(self) -> None:
        """Drop buffered data that is stale or of paused partitions.

        Data of paused partitions is fetched again when they are resumed.
        """
        for fetched in self._fetched:
            if fetched.state.is_paused and not fetched.is_stale:
                fetched.state.seek(
                    fetched.state.position,
                    fetched.state.leader_epoch,
                    topic_id=fetched.state.topic_id,
                )
        kept = [
            fetched
            for fetched in self._fetched
            if not fetched.is_stale and self._is_current(fetched.state)
        ]
        self._fetched = deque(kept)
        self._buffered_bytes = sum(fetched.size_bytes for fetched in kept)

    # Fetching

    def _fetchable(self) -> dict[int, list[PartitionState]]:
        """Return the partitions to fetch now, by the node to fetch from.

        Nodes with a fetch in flight are left out. New metadata is requested if a partition has no
        leader. The result is empty while the buffer is full.
        """
        if self._buffered_bytes >= self._config.queued_max_bytes:
            self._make_room()
        if self._buffered_bytes >= self._config.queued_max_bytes:
            return {}
        share_bytes = self._config.queued_max_bytes // max(len(self._subscriptions), 1)
        by_node: dict[int, list[PartitionState]] = {}
        for state in self._subscriptions:
            if (
                not state.is_fetchable
                or (state.buffered_bytes and state.buffered_bytes >= share_bytes)
                or not self._is_topic_there(state)
            ):
                continue
            node_id = self._node_for(state)
            if node_id < 0:
                self._request_refresh()
            elif node_id not in self._busy_nodes:
                by_node.setdefault(node_id, []).append(state)
        return by_node

    def _is_topic_there(self, state: PartitionState) -> bool:
        """Return whether the position belongs to the topic that now has this name.

        If it belongs to a deleted topic of this name, it is reset.
        """
        current = self._cluster.view.topic_id_of(state.topic_partition.topic)
        if not state.is_of_other_topic(current):
            if state.topic_id == NO_TOPIC_ID:
                state.topic_id = current
            return True
        text = (
            f"{state.topic_partition} was read up to offset {state.fetch_offset}, then its topic"
            " was deleted and created anew"
        )
        self._reset(state, KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text))
        return False

    def _node_for(self, state: PartitionState) -> int:
        """Return the node to fetch from: the preferred replica (KIP-392) or the leader.

        The preferred replica is used for ``metadata_max_age_ms``. Returns ``UNKNOWN`` if no leader
        is known, or if the client's view has an older leader epoch than the position.
        """
        if self._is_view_behind(state):
            return UNKNOWN
        if state.preferred_replica >= 0:
            is_fresh = self._cluster.env.clock.monotonic_ms() < state.preferred_until_ms
            if is_fresh and state.preferred_replica in self._cluster.view.nodes:
                return state.preferred_replica
            state.preferred_replica = UNKNOWN
        return self._cluster.view.leader_of(state.topic_partition)

    def _is_view_behind(self, state: PartitionState) -> bool:
        """Return whether the position has a newer leader epoch than the view (KIP-320).

        Committed offsets have such epochs. The leader in the view may have been replaced without
        knowing it. It lacks the records of its successor, and would respond OFFSET_OUT_OF_RANGE.
        After ``default_api_timeout_ms`` the view is trusted, because the position's epoch may be
        that of a deleted topic with the same name.
        """
        if state.sought_epoch == NO_LEADER_EPOCH:
            return False
        known_epoch = self._cluster.view.leader_epoch_of(state.topic_partition)
        if known_epoch >= state.sought_epoch:
            state.sought_epoch = NO_LEADER_EPOCH
        if not NO_LEADER_EPOCH < known_epoch < state.sought_epoch:
            return False
        now_ms = self._meter.now_ms()
        if state.doubted_since_ms is None:
            state.doubted_since_ms = now_ms
        return now_ms - state.doubted_since_ms < self._config.default_api_timeout_ms

    async def _fetch(self, node_id: int, states: list[PartitionState]) -> None:
        versions = [(state, state.version) for state in states]
        for state in states:
            state.is_in_flight = True
        try:
            responses = await self._exchange.ask(node_id, states)
        except KafkaError as error:
            self._note_request_error(error)
            for state in states:
                state.preferred_replica = UNKNOWN  # the leader may be there
            self._release(states)
            states = []
            await trio.sleep(self._cluster.backoff_ms(self._refresh_attempt) / 1_000)
        else:
            for state, version in versions:
                response = responses.get(state.topic_partition)
                if response is not None and state.version == version and self._is_current(state):
                    self._accept(state, response, node_id)
        finally:
            self._release(states)
            del self._busy_nodes[node_id]
            self.wake()

    def _release(self, states: list[PartitionState]) -> None:
        """Mark partitions as not in flight, so that they can be fetched from another broker.

        The same broker gets no fetch until the task that calls this has ended. After a failed fetch
        this task pauses first.
        """
        for state in states:
            state.is_in_flight = False
        self.wake()

    # Responses

    def _accept(self, state: PartitionState, response: PartitionData, node_id: int) -> None:
        code = ErrorCode.of(response.error_code)
        if response.preferred_read_replica >= 0:
            state.preferred_replica = response.preferred_read_replica
            state.preferred_until_ms = (
                self._cluster.env.clock.monotonic_ms() + self._config.metadata_max_age_ms
            )
            if state.preferred_replica not in self._cluster.view.nodes:
                self._request_refresh()  # the leader knows a broker that is newer than this view
                self._pause(state)
        elif state.preferred_replica >= 0 and (
            code is not ErrorCode.NONE or _is_truncated(response)
        ):
            state.preferred_replica = UNKNOWN  # the leader may have records that a follower lacks
            self.wake()
            return
        if code is not ErrorCode.NONE:
            if code in STALE_VIEW and self._cluster.has_other_leader(
                state.topic_partition, node_id
            ):
                return  # fetched there at once
            where = f"fetch of {state.topic_partition} at offset {state.fetch_offset}"
            self._note_error(state, KafkaError(code, f"{where}: {code.name}"))
            return
        self._refresh_attempt = 0
        if _is_truncated(response):
            assert response.diverging_epoch is not None
            self._note_truncation(state, response.diverging_epoch.end_offset)
            return
        state.note_ends(
            high_watermark=response.high_watermark,
            last_stable_offset=response.last_stable_offset,
            log_start_offset=response.log_start_offset,
        )
        if response.records is not None and len(response.records):
            self._accept_records(state, response)

    def _accept_records(self, state: PartitionState, response: PartitionData) -> None:
        records: Any = response.records
        try:
            reader = RecordReader(
                state.topic_partition,
                records,
                state.fetch_offset,
                aborted=self._aborted_filter(state, response),
                check_crcs=self._config.check_crcs,
                skip_corrupt=self._config.skip_corrupt_batches,
                with_control=self._config.include_control_records,
                use_numpy=self._config.use_numpy,
                deserializers=self._deserializers,
            )
        except KafkaError as error:
            text = (
                f"{state.topic_partition}: the response to a fetch at offset {state.fetch_offset}"
                f" does not hold valid batches: {error}"
            )
            self._fail(state, KafkaError(error.code, text))
            return
        if reader.end_position == state.fetch_offset:
            text = (
                f"{state.topic_partition}: the response to a fetch at offset {state.fetch_offset}"
                " holds no whole batch that reaches it"
            )
            self._fail(state, KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, text))
            return
        fetched = _Fetched(state, reader, len(records))
        state.fetch_offset, state.fetch_epoch = reader.end_position, reader.end_epoch
        state.buffered_bytes += fetched.size_bytes
        self._buffered_bytes += fetched.size_bytes
        self._fetched.append(fetched)
        self._on_change()

    def _aborted_filter(
        self, state: PartitionState, response: PartitionData
    ) -> AbortedFilter | None:
        """Add the response's aborted transactions to the partition's filter, and return the filter.

        Return None with read_uncommitted.
        """
        if not self._config.isolation:
            return None
        if state.aborted is None:
            state.aborted = AbortedFilter()
        state.aborted.add(response.aborted_transactions)
        return state.aborted

    def _note_request_error(self, error: KafkaError) -> None:
        if error.code in STALE_VIEW or error.is_retriable:
            self._request_refresh()
        else:
            self._pending_errors.clear()
            self._pending_errors.append((None, error))
            self._on_change()

    def _note_error(self, state: PartitionState, error: KafkaError) -> None:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._reset(state, error)
        elif error.code in STALE_VIEW or error.is_retriable:
            self._request_refresh()
            self._pause(state)
        else:
            self._fail(state, error)

    def _pause(self, state: PartitionState) -> None:
        state.hold = Hold.PAUSE
        self._nursery.start_soon(self._ask_again, state, state.version)

    async def _ask_again(self, state: PartitionState, version: int) -> None:
        """Wait, then end the pause of a partition, unless its position was moved meanwhile."""
        await trio.sleep(self._cluster.backoff_ms(self._refresh_attempt) / 1_000)
        if state.version == version and state.hold is Hold.PAUSE:
            state.hold = None
            self.wake()

    def _fail(self, state: PartitionState, error: KafkaError) -> None:
        state.hold = Hold.TELLING
        self._pending_errors.append((state, error))
        self._on_change()

    def _note_truncation(self, state: PartitionState, end_offset: int) -> None:
        """Handle a log that was truncated below the position (KIP-320).

        Continue at the end of the truncated log. With ``auto_offset_reset`` none, raise the error
        to the application instead.
        """
        error = LogTruncation(state.topic_partition, state.fetch_offset, end_offset)
        if self._config.auto_offset_reset == "none":
            self._fail(state, error)
            return
        self._quiet.warning(state.topic_partition, "%s; going back there", error)
        state.seek(min(state.position, end_offset), topic_id=state.topic_id)
        self._on_change()

    def _reset(self, state: PartitionState, error: KafkaError) -> None:
        """Handle a fetch offset that is not in the log.

        Continue at the offset of ``auto_offset_reset``. With none, raise the error to the
        application. If records are buffered, return these first, and then fetch again.
        """
        if state.position != state.fetch_offset:
            state.hold = Hold.READING  # asked again after the buffered records are returned
        elif self._config.auto_offset_reset == "none":
            self._fail(state, error)
        else:
            self._quiet.warning(
                state.topic_partition,
                "%s; going to the %s offset",
                error,
                self._config.auto_offset_reset,
            )
            state.seek_to(Start.RESET)
            self._on_change()

    def _request_refresh(self) -> None:
        if not self._is_refreshing:
            self._is_refreshing = True
            self._nursery.start_soon(self._refresh)

    async def _refresh(self) -> None:
        """Refresh the view, after pauses that grow with each attempt.

        Then fetching is tried again.
        """
        pause_ms = (
            self._refreshed_ms
            + self._cluster.backoff_ms(self._refresh_attempt)
            - self._meter.now_ms()
        )
        await trio.sleep(max(pause_ms, 0) / 1_000)
        self._refresh_attempt += 1
        try:
            await self._cluster.refresh(
                is_anyone_asked=any(map(self._is_view_behind, self._subscriptions))
            )
        except KafkaError as error:
            self._quiet.info("refresh", "refreshing metadata: %s", error)
        self._refreshed_ms = self._meter.now_ms()
        self._is_refreshing = False
        self.wake()


def _is_truncated(response: PartitionData) -> bool:
    """Return whether the replica reports that its log was truncated below the position."""
    return response.diverging_epoch is not None and response.diverging_epoch.end_offset >= 0
