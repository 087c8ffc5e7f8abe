"""Fetches ahead of the application, within bounds, and opens batches only when their records are asked for.

Decides what to fetch next (every partition that may be fetched, one request per leader at a time), when enough is buffered, and what an
answer's errors mean. Where a position comes from is ``positions``'s, who owns what is the consumer's.

Invariants: buffered bytes stay below ``queued_max_bytes`` plus one answer per leader; records come out in the order of offsets, each once,
none from before the position; an answer to a fetch that was sent before a seek is dropped.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import trio

from log_service.client.cluster_metadata import ClusterMetadata
from log_service.client.connection_pool import raise_for
from log_service.client.range_reader import LAST_FETCH_VERSION_WITH_NAMES, AbortedFilter
from log_service.client.record_view import ConsumerRecord, Deserializer, RecordReader
from log_service.client.subscriptions import UNKNOWN, PartitionState, Start, Subscriptions
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_LEADER_EPOCH, NO_TOPIC_ID, TopicPartition
from log_service.config.client import ConsumerConfig
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

logger = logging.getLogger(__name__)

PURPOSE = "fetch"
FIRST_FETCH_VERSION_WITH_EPOCHS = 12
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
    """Batches of one partition that wait to be opened."""

    __slots__ = ("reader", "size_bytes", "state", "version")

    def __init__(self, state: PartitionState, reader: RecordReader, size_bytes: int) -> None:
        self.state = state
        self.version = state.version
        self.reader = reader
        self.size_bytes = size_bytes


class Fetcher:
    """Keeps records of all assigned partitions ready. ``on_change`` is called when a poll should look again."""

    def __init__(
        self,
        cluster: ClusterMetadata,
        config: ConsumerConfig,
        subscriptions: Subscriptions,
        deserializers: tuple[Deserializer | None, Deserializer | None],
        on_change: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._subscriptions = subscriptions
        self._deserializers = deserializers
        self._on_change = on_change
        self._fetched: deque[_Fetched] = deque()
        self._aborted: dict[TopicPartition, tuple[int, AbortedFilter]] = {}
        self._busy_nodes: set[int] = set()
        self._wakeup = trio.Event()
        self._error: KafkaError | None = None
        self._buffered_bytes = 0
        self._is_refreshing = False
        self._refresh_attempt = 0

    def __repr__(self) -> str:
        return f"<Fetcher buffered={self._buffered_bytes} busy={sorted(self._busy_nodes)}>"

    def wake(self) -> None:
        """Something may be fetched that could not be before."""
        self._wakeup.set()

    def raise_error(self) -> None:
        """Raise what a fetch failed with for good, once.

        Raises:
            KafkaError: TOPIC_AUTHORIZATION_FAILED, CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE (with auto_offset_reset none) and others.
        """
        error, self._error = self._error, None
        if error is not None:
            raise error

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """Return what is ready, at most ``max_records``, of partitions that are not paused; positions move behind it.

        Raises:
            KafkaError: CORRUPT_MESSAGE, INVALID_RECORD: the position stays before the broken batch; what came before it is returned first.
        """
        taken: list[ConsumerRecord] = []
        kept: list[_Fetched] = []
        try:
            while self._fetched and len(taken) < max_records:
                fetched = self._fetched.popleft()
                state = fetched.state
                if state.version != fetched.version or self._subscriptions.get(state.topic_partition) is not state:
                    self._drop(fetched)
                elif state.is_paused or not self._open(fetched, taken, max_records):
                    kept.append(fetched)
        finally:
            self._fetched.extendleft(reversed(kept))
        self.wake()
        return taken

    async def run(self) -> None:
        """Fetch for ever."""
        async with trio.open_nursery() as self._nursery:
            while True:
                for node_id, states in self._fetchable().items():
                    self._busy_nodes.add(node_id)
                    self._nursery.start_soon(self._fetch, node_id, states)
                await self._wakeup.wait()
                self._wakeup = trio.Event()

    # Handing out

    def _open(self, fetched: _Fetched, taken: list[ConsumerRecord], max_records: int) -> bool:
        """Take records of one answer; whether it is empty now."""
        state, reader = fetched.state, fetched.reader
        try:
            is_empty = reader.read_into(taken, max_records)
        except KafkaError as error:
            self._drop(fetched)
            state.seek(reader.position, reader.leader_epoch)
            if not taken:
                raise
            self._error = error
            return True
        state.position, state.leader_epoch = reader.position, reader.leader_epoch
        if is_empty:
            self._drop(fetched)
        return is_empty

    def _drop(self, fetched: _Fetched) -> None:
        self._buffered_bytes -= fetched.size_bytes
        if fetched.state.version == fetched.version:
            fetched.state.buffered_bytes -= fetched.size_bytes

    # Fetching

    def _fetchable(self) -> dict[int, list[PartitionState]]:
        """Return what to ask each leader that is not being asked already; asks for new metadata where a leader is missing."""
        if self._buffered_bytes >= self._config.queued_max_bytes:
            return {}
        share_bytes = self._config.queued_max_bytes // max(len(self._subscriptions), 1)
        by_node: dict[int, list[PartitionState]] = {}
        for state in self._subscriptions:
            if not state.is_fetchable or (state.buffered_bytes and state.buffered_bytes >= share_bytes):
                continue
            node_id = self._node_for(state)
            if node_id < 0:
                self._request_refresh()
            elif node_id not in self._busy_nodes:
                by_node.setdefault(node_id, []).append(state)
        return by_node

    def _node_for(self, state: PartitionState) -> int:
        """Return the replica that the leader named as nearer (KIP-392), for as long as metadata stays fresh, else the leader."""
        if state.preferred_replica >= 0:
            is_fresh = self._cluster.env.clock.monotonic_ms() < state.preferred_until_ms
            if is_fresh and state.preferred_replica in self._cluster.view.nodes:
                return state.preferred_replica
            state.preferred_replica = UNKNOWN
        return self._cluster.view.leader_of(state.topic_partition)

    async def _fetch(self, node_id: int, states: list[PartitionState]) -> None:
        versions = [(state, state.version) for state in states]
        for state in states:
            state.is_in_flight = True
        try:
            answers = await self._exchange(node_id, states)
        except KafkaError as error:
            self._note_error(None, error)
            await trio.sleep(self._cluster.backoff_ms(self._refresh_attempt) / 1_000)
        else:
            for state, version in versions:
                answer = answers.get(state.topic_partition)
                if answer is not None and state.version == version:
                    self._accept(state, answer)
        finally:
            for state in states:
                state.is_in_flight = False
            self._busy_nodes.discard(node_id)
            self.wake()

    async def _exchange(self, node_id: int, states: list[PartitionState]) -> dict[TopicPartition, PartitionData]:
        connection = await self._cluster.node(node_id, PURPOSE)
        request, max_version = self._request(states, connection.version_of(ApiKey.FETCH))
        response = await connection.request(request, FetchResponse, max_version=max_version, waits_ms=request.max_wait_ms)
        raise_for(response.error_code, None, f"fetch from broker {node_id}")
        names_by_id = self._cluster.view.names_by_id
        return {
            TopicPartition(topic.topic or names_by_id.get(topic.topic_id, ""), answer.partition_index): answer  # type: ignore[call-overload]
            for topic in response.responses
            for answer in topic.partitions
        }

    def _request(self, states: list[PartitionState], version: int) -> tuple[FetchRequest, int | None]:
        config = self._config
        topics: dict[str, FetchTopic] = {}
        max_version: int | None = None
        for state in states:
            name, number = state.topic_partition
            topic = topics.get(name)
            if topic is None:
                topic_id = self._cluster.view.topic_id_of(name)
                topic = topics[name] = FetchTopic(topic=name, topic_id=topic_id)
                if topic_id == NO_TOPIC_ID:
                    max_version = LAST_FETCH_VERSION_WITH_NAMES
            known = self._cluster.view.partition(state.topic_partition)
            topic.partitions.append(
                FetchPartition(
                    partition=number,
                    fetch_offset=state.fetch_offset,
                    current_leader_epoch=-1 if known is None else known.leader_epoch,
                    last_fetched_epoch=state.fetch_epoch if version >= FIRST_FETCH_VERSION_WITH_EPOCHS else NO_LEADER_EPOCH,
                    partition_max_bytes=config.max_partition_fetch_bytes,
                )
            )
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=config.isolation,
            topics=list(topics.values()),
            rack_id=config.client_rack,
        )
        return request, max_version

    # Answers

    def _accept(self, state: PartitionState, answer: PartitionData) -> None:
        code = ErrorCode.of(answer.error_code)
        if answer.preferred_read_replica >= 0:
            state.preferred_replica = answer.preferred_read_replica
            state.preferred_until_ms = self._cluster.env.clock.monotonic_ms() + self._config.metadata_max_age_ms
        elif code is not ErrorCode.NONE and state.preferred_replica >= 0:
            state.preferred_replica = UNKNOWN  # what a follower lacks, the leader may have
            self.wake()
            return
        if code is not ErrorCode.NONE:
            where = f"fetch of {state.topic_partition} at offset {state.fetch_offset}"
            self._note_error(state, KafkaError(code, f"{where}: {code.name}"))
            return
        self._refresh_attempt = 0
        if answer.diverging_epoch is not None and answer.diverging_epoch.end_offset >= 0:
            self._note_truncation(state, answer.diverging_epoch.end_offset)
            return
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        state.log_start_offset = answer.log_start_offset
        records: Any = answer.records
        if records is None or not len(records):
            return
        try:
            reader = RecordReader(
                state.topic_partition,
                records,
                state.fetch_offset,
                aborted=self._aborted_filter(state, answer),
                check_crcs=self._config.check_crcs,
                deserializers=self._deserializers,
            )
        except KafkaError as error:
            self._fail(error)
            return
        if reader.end_position == state.fetch_offset:
            text = f"{state.topic_partition}: the answer to a fetch at offset {state.fetch_offset} holds no whole batch that reaches it"
            self._fail(KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, text))
            return
        fetched = _Fetched(state, reader, len(records))
        state.fetch_offset, state.fetch_epoch = reader.end_position, reader.end_epoch
        state.buffered_bytes += fetched.size_bytes
        self._buffered_bytes += fetched.size_bytes
        self._fetched.append(fetched)
        self._on_change()

    def _aborted_filter(self, state: PartitionState, answer: PartitionData) -> AbortedFilter | None:
        """Return the partition's filter; a new one after each seek."""
        if not self._config.isolation:
            return None
        version, aborted = self._aborted.get(state.topic_partition, (-1, AbortedFilter()))
        if version != state.version:
            aborted = AbortedFilter()
            self._aborted[state.topic_partition] = (state.version, aborted)
        aborted.add(answer.aborted_transactions)
        return aborted

    def _note_error(self, state: PartitionState | None, error: KafkaError) -> None:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and state is not None:
            self._reset(state, error)
        elif error.code in STALE_VIEW or error.is_retriable:
            self._request_refresh()
        else:
            self._fail(error)

    def _fail(self, error: KafkaError) -> None:
        self._error = error
        self._on_change()

    def _note_truncation(self, state: PartitionState, end_offset: int) -> None:
        """The log was cut back below what was read and written anew: go back to where both agree, or tell the application (KIP-320)."""
        text = f"{state.topic_partition} was truncated to offset {end_offset} after offset {state.fetch_offset} had been read"
        if self._config.auto_offset_reset == "none":
            self._fail(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text))
            return
        logger.warning("%s; going back there", text)
        state.seek(min(state.position, end_offset))
        self._on_change()

    def _reset(self, state: PartitionState, error: KafkaError) -> None:
        """The log does not have that offset: start where ``auto_offset_reset`` says, or tell the application."""
        if self._config.auto_offset_reset == "none":
            self._error = error
        elif state.position == state.fetch_offset:
            logger.warning("%s; going to the %s offset", error, self._config.auto_offset_reset)
            state.seek_to(Start.RESET)
        self._on_change()

    def _request_refresh(self) -> None:
        if not self._is_refreshing:
            self._is_refreshing = True
            self._nursery.start_soon(self._refresh)

    async def _refresh(self) -> None:
        """Refresh the view after a growing pause; what could not be fetched is tried again then."""
        await trio.sleep(self._cluster.backoff_ms(self._refresh_attempt) / 1_000)
        self._refresh_attempt += 1
        try:
            await self._cluster.refresh()
        except KafkaError as error:
            logger.info("refreshing metadata: %s", error)
        self._is_refreshing = False
        self.wake()
