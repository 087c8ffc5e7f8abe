"""One follower connection, which fetches partitions from one leader and appends them.

This file decides when to send the next fetch. It sends at once while records arrive or when the
metadata changes. It pauses after the leader refused a partition or could not be reached.
``following`` decides the content of a request and the meaning of a response. ``Partition`` applies
the response to the log. One request is in flight at a time, so each request acknowledges the
records of the previous response.

A fetch may wait at the leader for new records. If a partition is added meanwhile, the fetch is
cancelled after a short time and its connection is closed. Another connection then fetches all
partitions.

Invariants:

- A response changes a partition only while its leader epoch and log end are those of the request.
- If part of a response was not applied, the next request begins a new fetch session. Within the old
  session, the leader would not send that part again.
- Records that must be synced are synced before the next request acknowledges them.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.protocol.messages import list_offsets
from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from log_service.replication import following
from log_service.replication.followed_partition import (
    Followed,
    is_as_requested,
    restart_if_incomparable,
    truncate_to_divergence,
)
from log_service.replication.following import (
    FetchParameters,
    FollowerSession,
    PartitionKey,
    SessionRequest,
    Step,
)
from log_service.replication.links import ClusterLinks
from log_service.replication.partition import OffsetSpec, Partition
from log_service.replication.throttles import Throttle
from log_service.rpc.connection import Destination, RpcConnection

if TYPE_CHECKING:
    from log_service.common.types import Buffer

logger = logging.getLogger(__name__)

PATIENCE_MS = 10
"""How long a fetch may continue to wait at the leader after another partition was added."""
GIVEN_UP_EVERY_MS = 100
"""The shortest time between two cancelled requests.

Without it, thousands of partitions that are added one after the other would each cost a connection.
"""
THROTTLED_PAUSE_MS = 100
"""How long a throttled partition is left out of requests before the rate is checked again."""
UNLOGGED_REFUSALS = 4
"""The number of refusals in a row that are not logged.

A leader may learn of a new partition, or of its own election, a moment later than a follower.
"""
STALE_LOGGED_AFTER_MS = 10_000
"""How long a follower waits for the metadata of a later leader epoch before a warning is logged.

After every election, followers are behind their leader's epoch for a moment. A longer wait means
that this node gets no metadata.
"""
APPENDED_PER_TURN_BYTES = 1 << 20
"""The number of bytes of a response to append before other tasks get a turn."""


class Fetcher:
    """The partitions that one task fetches from one leader.

    ``run`` ends when no partition is left to fetch. ``find_leader`` returns the leader's host and
    port, or None if the metadata does not contain them. ``metadata_version`` returns the level of
    metadata.version. ``on_safe`` is called with a partition whose high watermark moved.
    ``throttle`` returns the throttle of followers on this node, or None.
    """

    def __init__(
        self,
        *,
        node_id: int,
        leader_id: int,
        index: int,
        links: ClusterLinks,
        clock: Clock,
        find_leader: Callable[[], tuple[str, int] | None],
        metadata_version: Callable[[], int],
        throttle: Callable[[], Throttle | None],
        on_safe: Callable[[Partition], None],
        start_soon: Callable[..., None],
    ) -> None:
        self.leader_id = leader_id
        self.index = index
        self._node_id = node_id
        self._links = links
        self._config = links.config
        self._clock = clock
        self._find_leader = find_leader
        self._metadata_version = metadata_version
        self._throttle = throttle
        self._on_safe = on_safe
        self._start_soon = start_soon
        self.followed: dict[PartitionKey, Followed] = {}
        self._active: dict[PartitionKey, Followed] = {}
        self._changed: dict[PartitionKey, None] = {}
        self._gone: dict[PartitionKey, None] = {}
        self._paused: dict[PartitionKey, int] = {}
        self._stale: dict[PartitionKey, int] = {}
        self._session = FollowerSession()
        self._connection_count = 0
        self._destination: Destination | None = None
        self.resume_ms = 0
        self._news = trio.Event()
        self.in_flight: tuple[trio.CancelScope, RpcConnection] | None = None
        self._is_losing_patience = False
        self._patient_until_ms = 0
        self._quiet = QuietLogger(logger, clock.monotonic_ms)

    def __repr__(self) -> str:
        return (
            f"<Fetcher from {self.leader_id} partitions={len(self.followed)}"
            f" active={len(self._active)}>"
        )

    def __len__(self) -> int:
        return len(self.followed)

    # The fetched partitions

    @property
    def max_lag(self) -> int:
        """The lag, in records, of the partition that is furthest behind its leader."""
        return max((followed.lag for followed in self.followed.values()), default=0)

    def add(self, partition: Partition) -> None:
        """Start to fetch a partition.

        If the partition is already fetched, fetching starts again in the new leader epoch.
        """
        key = _key(partition)
        self.followed[key] = followed = Followed(partition)
        self._paused.pop(key, None)
        self._stale.pop(key, None)
        try:
            self.begin_at_own_end(partition)
        except KafkaError as error:
            self._stop(followed, error)
            return
        if partition.is_sync_due:
            self._start_soon(self._sync_before, key, followed)
            return
        self._activate(key, followed)
        self.wake()
        self.ask_again_soon()

    def ask_again_soon(self) -> None:
        """Cancel the request in flight soon, because the next one must include a new partition."""
        if self.in_flight is not None and not self._is_losing_patience:
            self._is_losing_patience = True
            self._start_soon(self._lose_patience, *self.in_flight)

    async def _sync_before(self, key: PartitionKey, followed: Followed) -> None:
        """Sync a log, and only then let its partition be fetched.

        The first fetch acknowledges the log's end to a leader, but records from an earlier leader
        may not be synced yet.
        """
        await self._sync_one(followed)
        if self.followed.get(key) is followed and not followed.partition.is_offline:
            self._activate(key, followed)
            self.wake()
            self.ask_again_soon()

    def remove(self, partition: Partition) -> None:
        """Stop fetching a partition."""
        key = _key(partition)
        followed = self.followed.get(key)
        if followed is not None and followed.partition is partition:
            del self.followed[key]
            self._rest(key)
            self._paused.pop(key, None)
            self._stale.pop(key, None)
            self._news.set()

    def wake(self) -> None:
        """Send the next request at once, because metadata of the leader or a partition changed."""
        self.resume_ms = 0
        self._news.set()

    async def _lose_patience(self, scope: trio.CancelScope, connection: RpcConnection) -> None:
        """Cancel the request in flight when its connection has received no bytes for a moment.

        The leader holds the request back until it has records. Meanwhile a new partition waits for
        the next request.
        """
        await trio.sleep(max(0, self._patient_until_ms - self._clock.monotonic_ms()) / 1_000)
        seen_bytes = -1
        while (
            self.in_flight is not None
            and self.in_flight[0] is scope
            and connection.bytes_received != seen_bytes
        ):
            seen_bytes = connection.bytes_received
            await trio.sleep(PATIENCE_MS / 1_000)
        self._is_losing_patience = False
        self._patient_until_ms = self._clock.monotonic_ms() + GIVEN_UP_EVERY_MS
        scope.cancel()

    @property
    def active_partitions(self) -> list[Partition]:
        """The partitions that the next requests fetch."""
        return [followed.partition for followed in self._active.values()]

    def begin_at_own_end(self, partition: Partition) -> None:
        """Truncate the log of a new follower to the offset from which it fetches.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the log directory is offline.
        """
        log = partition.log
        if log is None or partition.is_offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the log directory of {partition.topic_partition} is offline",
            )
        partition.truncate_to(
            following.first_fetch_offset(
                log.log_end_offset, log.latest_leader_epoch, partition.high_watermark
            )
        )

    def _activate(self, key: PartitionKey, followed: Followed) -> None:
        self._active[key] = followed
        self._changed[key] = None
        self._gone.pop(key, None)

    def _rest(self, key: PartitionKey) -> None:
        """Leave a partition out of the requests until it is activated again."""
        if self._active.pop(key, None) is not None:
            self._gone[key] = None
        self._changed.pop(key, None)

    def _pause(self, followed: Followed, step: Step) -> None:
        key = _key(followed.partition)
        followed.failure_count += 1
        self._rest(key)
        self._paused[key] = self._clock.monotonic_ms() + following.pause_ms(
            step, followed.failure_count, self._config.backoff_ms
        )

    def _stop(self, followed: Followed, error: KafkaError) -> None:
        """Stop fetching a partition until its metadata changes."""
        self._rest(_key(followed.partition))
        logger.error(
            "%s is not fetched until its leader changes: %s",
            followed.partition.topic_partition,
            error,
        )

    # The task

    async def run(self) -> None:
        """Fetch until no partition is left to fetch, or until cancelled."""
        try:
            while self.followed:
                self._news = trio.Event()
                self.resume_paused()
                self.hold_back_throttled()
                self._warn_of_stale()
                if self._active and self.resume_ms <= self._clock.monotonic_ms():
                    await self._fetch()
                else:
                    await self._wait_for_news()
        finally:
            self._give_up_connection()

    def resume_paused(self) -> None:
        """Fetch partitions again whose pause is over."""
        if self._paused:
            now_ms = self._clock.monotonic_ms()
            for key in [key for key, until_ms in self._paused.items() if until_ms <= now_ms]:
                del self._paused[key]
                self._activate(key, self.followed[key])

    def hold_back_throttled(self) -> None:
        """Leave lagging partitions out of requests while the throttle's rate is exceeded."""
        throttle = self._throttle()
        now_ms = self._clock.monotonic_ms()
        if throttle is None or not throttle.is_exceeded(now_ms):
            return
        for key, followed in tuple(self._active.items()):
            if followed.is_lagging and throttle.covers(followed.partition.topic_partition):
                self._rest(key)
                self._paused[key] = now_ms + THROTTLED_PAUSE_MS

    def _warn_of_stale(self) -> None:
        """Warn once about each partition that waits too long for metadata of a later epoch."""
        if self._stale:
            now_ms = self._clock.monotonic_ms()
            for key in [key for key, until_ms in self._stale.items() if until_ms <= now_ms]:
                del self._stale[key]
                where = self.followed[key].partition.topic_partition
                text = (
                    "%s has waited %d s for the metadata of a later leader epoch, which broker %s"
                    " has: it is not fetched until then"
                )
                logger.warning(text, where, STALE_LOGGED_AFTER_MS // 1_000, self.leader_id)

    async def _wait_for_news(self) -> None:
        until_ms = [
            *self._paused.values(),
            *self._stale.values(),
            *([self.resume_ms] if self._active else []),
        ]
        if not until_ms:
            await self._news.wait()
            return
        with trio.move_on_after(max(0, min(until_ms) - self._clock.monotonic_ms()) / 1_000):
            await self._news.wait()

    async def _fetch(self) -> None:
        """Send one request and process its response."""
        response: FetchResponse | None = None
        try:
            connection = await self._connect()
            request = self.next_request()
            version = following.fetch_version(self._metadata_version())
            with trio.CancelScope() as scope:
                self.in_flight = scope, connection
                response = await connection.request(
                    request, FetchResponse, max_version=version, waits_ms=self._config.max_wait_ms
                )
        except KafkaError as error:
            self._leader_failed(error)
            return
        finally:
            self.in_flight = None
        if response is None:
            self._give_up_connection()
        else:
            await self.take_response(response, connection)

    async def _connect(self) -> RpcConnection:
        where = self._find_leader()
        if where is None:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"the metadata has no listener of broker {self.leader_id} for other brokers",
            )
        destination = Destination(
            host=where[0],
            port=where[1],
            purpose=f"replica fetch {self.index}.{self._connection_count}",
        )
        if self._destination not in (None, destination):
            self._give_up_connection()
        self._destination = destination
        pool = self._links.pool()
        connection = pool.connected(destination)
        if connection is None:
            self._session.fail()
            connection = await pool.connect(destination)
        return connection

    def _give_up_connection(self) -> None:
        """Close the connection after a failure, and use a new one for the next request.

        The connection pool counts the new one as another destination, so that no reconnect pause
        applies to it.
        """
        if self._destination is not None:
            self._links.pool().forget(self._destination)
            self._destination = None
        self._connection_count += 1
        self._session.fail()

    def _leader_failed(self, error: KafkaError) -> None:
        self._session.fail()
        self.resume_ms = self._clock.monotonic_ms() + self._config.backoff_ms
        self._quiet.warning(
            self.leader_id, "Broker %s cannot be fetched from: %s", self.leader_id, error
        )

    # A request

    def next_request(self) -> FetchRequest:
        """Return the next Fetch request, which names the partitions that changed in its session."""
        session = self._session
        asked = self._active if session.is_full else self._changed
        wanted = [
            (key, self.next_parameters(followed))
            for key in asked
            if (followed := self._active.get(key)) is not None
        ]
        session_request = session.next(wanted, self._gone)
        self._changed.clear()
        self._gone.clear()
        return self._message(session_request)

    @staticmethod
    def next_parameters(followed: Followed) -> FetchParameters:
        """Return the offsets and epochs for the next request, and store them in ``followed``."""
        partition = followed.partition
        log = partition.log
        assert log is not None, "a partition without a log is not fetched"
        followed.parameters = parameters = FetchParameters(
            log.log_end_offset,
            log.latest_leader_epoch,
            partition.leader_epoch,
            log.log_start_offset,
        )
        return parameters

    def _message(self, session_request: SessionRequest) -> FetchRequest:
        config = self._config
        topics: dict[object, FetchTopic] = {}
        for (topic_id, index), parameters in session_request.named:
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=parameters.leader_epoch,
                    fetch_offset=parameters.fetch_offset,
                    last_fetched_epoch=parameters.last_fetched_epoch,
                    log_start_offset=parameters.log_start_offset,
                    partition_max_bytes=config.partition_max_bytes,
                )
            )
        forgotten = following.by_topic(session_request.forgotten)
        request = FetchRequest(
            max_wait_ms=config.max_wait_ms,
            min_bytes=config.min_bytes,
            max_bytes=config.response_max_bytes,
            session_id=session_request.session_id,
            session_epoch=session_request.session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in forgotten.items()
            ],
        )
        if (
            following.fetch_version(self._metadata_version())
            >= following.FIRST_VERSION_WITH_REPLICA_STATE
        ):
            request.replica_state = ReplicaState(
                replica_id=self._node_id, replica_epoch=self._links.broker_epoch()
            )
        else:
            request.replica_id = self._node_id
        return request

    # A response

    async def take_response(self, response: FetchResponse, connection: RpcConnection) -> None:
        """Append the records of a response, and act on the errors of its partitions."""
        if response.error_code:
            self._session.fail(response.error_code)
            if response.error_code not in following.SESSION_ERRORS:
                code = ErrorCode.of(response.error_code)
                self._leader_failed(KafkaError(code, f"it refuses the fetch with {code.name}"))
            return
        self._session.accept(response.session_id)
        unsynced: list[Followed] = []
        lost: list[Followed] = []
        taken_bytes = 0
        is_all_taken = True
        for topic in response.responses:
            for result in topic.partitions:
                followed = self._active.get((topic.topic_id, result.partition_index))
                is_current = followed is not None and is_as_requested(followed)
                is_all_taken = is_all_taken and is_current and result.diverging_epoch is None
                if followed is None or not is_current:
                    continue
                taken_bytes += len(result.records or b"")
                self._take_one(followed, result, unsynced, lost)
                if taken_bytes >= APPENDED_PER_TURN_BYTES:
                    taken_bytes = 0
                    await trio.lowlevel.checkpoint()
        if not is_all_taken:
            self._session.fail()
        for followed in lost:
            await self.find_offset(followed, connection)
        if unsynced:
            await self.sync(unsynced)

    def _take_one(
        self,
        followed: Followed,
        result: PartitionData,
        unsynced: list[Followed],
        lost: list[Followed],
    ) -> None:
        if result.error_code:
            self.take_error(followed, result.error_code, lost)
            return
        followed.failure_count = 0
        self._changed[_key(followed.partition)] = None
        try:
            if result.diverging_epoch is not None:
                truncate_to_divergence(
                    followed.partition,
                    (result.diverging_epoch.epoch, result.diverging_epoch.end_offset),
                )
            elif self.append_fetched(followed, result):
                unsynced.append(followed)
            followed.lag = max(0, result.high_watermark - followed.partition.state.log_end_offset)
            followed.is_lagging = followed.lag > 0
        except KafkaError as error:
            self._take_failure(followed, error)

    def append_fetched(self, followed: Followed, result: PartitionData) -> bool:
        """Append the records of a response, and apply the leader's high watermark and log start.

        Return whether the records must be synced before the leader may count them.
        """
        partition = followed.partition
        records: Buffer = result.records or b""  # type: ignore[assignment]  # received records are bytes
        throttle = self._throttle()
        if throttle is not None and records and throttle.covers(partition.topic_partition):
            throttle.note(len(records), self._clock.monotonic_ms())
        if restart_if_incomparable(followed, result.log_start_offset):
            self._on_safe(partition)
        must_sync = bool(records) and partition.append_as_follower(records).must_sync
        if partition.follow_leader(result.high_watermark, result.log_start_offset):
            self._on_safe(partition)
        return must_sync

    def take_error(self, followed: Followed, code: int, lost: list[Followed]) -> None:
        """Handle an error of one partition in the leader's response.

        If the leader does not have the partition's next offset, the partition is added to ``lost``.
        """
        step = following.step_after(code)
        name = ErrorCode.of(code)
        if step is Step.FIND_OFFSET:
            lost.append(followed)
        elif step is Step.STOP:
            self._rest(_key(followed.partition))
            self._stale[_key(followed.partition)] = (
                self._clock.monotonic_ms() + STALE_LOGGED_AFTER_MS
            )
        else:
            self._pause(followed, step)
            if followed.failure_count > UNLOGGED_REFUSALS:
                where = followed.partition.topic_partition
                self._quiet.info(
                    where,
                    "Broker %s refuses to be followed in %s: %s",
                    self.leader_id,
                    where,
                    name.name,
                )

    def _take_failure(self, followed: Followed, error: KafkaError) -> None:
        """Handle a local failure to apply the leader's response."""
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR and followed.partition.is_offline:
            self._stop(followed, error)
        else:
            self._pause(followed, Step.PAUSE)
            where = followed.partition.topic_partition
            self._quiet.warning(
                where,
                "The records that broker %s sent of %s cannot be appended: %s",
                self.leader_id,
                where,
                error,
            )

    async def sync(self, unsynced: list[Followed]) -> None:
        """Sync the appended records before the next request acknowledges them to the leader."""
        async with trio.open_nursery() as nursery:
            for followed in unsynced:
                nursery.start_soon(self._sync_one, followed)

    async def _sync_one(self, followed: Followed) -> None:
        try:
            await followed.partition.sync()
        except KafkaError as error:
            if self.followed.get(_key(followed.partition)) is followed:
                self._take_failure(followed, error)

    # Offsets that are out of the leader's range

    async def find_offset(self, followed: Followed, connection: RpcConnection) -> None:
        """Truncate or restart the log of a follower whose next offset the leader does not have.

        This requests the log end and the log start of the leader's log.
        """
        ask = partial(self._ask_offset, followed.partition, connection)
        try:
            leader_end = await ask(OffsetSpec.LATEST)
            if not is_as_requested(followed):
                return
            partition = followed.partition
            if following.has_more_than_leader(partition.state.log_end_offset, leader_end):
                partition.truncate_to(leader_end)
            else:
                leader_start = await ask(OffsetSpec.EARLIEST)
                if not is_as_requested(followed):
                    return
                if following.must_restart(partition.state.log_end_offset, leader_start):
                    partition.restart_at(leader_start)
                    self._on_safe(partition)
        except KafkaError as error:
            self._take_failure(followed, error)
        else:
            self._changed[_key(followed.partition)] = None

    async def _ask_offset(
        self, partition: Partition, connection: RpcConnection, timestamp: OffsetSpec
    ) -> int:
        wanted = list_offsets.ListOffsetsPartition(
            partition_index=partition.topic_partition.partition,
            current_leader_epoch=partition.leader_epoch,
            timestamp=timestamp,
        )
        topic = list_offsets.ListOffsetsTopic(
            name=partition.topic_partition.topic, partitions=[wanted]
        )
        request = list_offsets.ListOffsetsRequest(replica_id=self._node_id, topics=[topic])
        response = await connection.request(request, list_offsets.ListOffsetsResponse)
        result = (
            response.topics[0].partitions[0]
            if response.topics and response.topics[0].partitions
            else None
        )
        if result is None or result.error_code:
            code = (
                ErrorCode.UNKNOWN_SERVER_ERROR
                if result is None
                else ErrorCode.of(result.error_code)
            )
            raise KafkaError(
                code, f"broker {self.leader_id} does not return its offsets: {code.name}"
            )
        return result.offset


def _key(partition: Partition) -> PartitionKey:
    return partition.topic_id, partition.topic_partition.partition
