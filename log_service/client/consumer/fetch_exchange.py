"""Sends one fetch to a leader and returns its response by partition.

Decides the version (topic ids if they are known, epochs if the broker supports them) and the fetch
session. A broker of an old version does not report truncation, so the client asks it for the end
offset of an epoch (KIP-320). The caller buffers records and interprets the errors of partitions.
"""

from collections.abc import Iterable

from log_service.client.admin import offsets
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.consumer.fetch_session import Asked, FetchSession
from log_service.client.consumer.range_reader import LAST_FETCH_VERSION_WITH_NAMES
from log_service.client.consumer.subscriptions import PartitionState
from log_service.client.metrics import ConsumerMeter
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_LEADER_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition
from log_service.config.client import ConsumerConfig
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.fetch import (
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from log_service.rpc.connection import RpcConnection, raise_for

PURPOSE = "fetch"
FIRST_VERSION_WITH_SESSIONS = 7
FIRST_VERSION_WITH_EPOCHS = 12
SESSION_ENDED = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)

Responses = dict[TopicPartition, PartitionData]


class FetchExchange:
    """Fetches from leaders, with one session per broker."""

    def __init__(
        self, cluster: ClusterMetadata, config: ConsumerConfig, meter: ConsumerMeter
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._meter = meter
        self._sessions: dict[int, tuple[bool, FetchSession]] = {}

    async def ask(self, node_id: int, states: Iterable[PartitionState]) -> Responses:
        """Send one fetch to a broker, and return the response by partition.

        Partitions without news may be missing in it.

        Raises:
            KafkaError: the broker cannot be reached, or refused the whole request.
        """
        connection = await self._cluster.node(node_id, PURPOSE)
        version = connection.version_of(ApiKey.FETCH)
        asked = self._still_asked_of(node_id, states)
        if version >= FIRST_VERSION_WITH_EPOCHS:
            diverging: Responses = {}
        else:
            diverging = await self._find_truncations(asked)
            asked = [
                state
                for state in self._still_asked_of(node_id, asked)
                if state.topic_partition not in diverging
            ]
        responses = await self._exchange(node_id, connection, version, asked) if asked else {}
        return {**responses, **diverging}

    def _still_asked_of(
        self, node_id: int, states: Iterable[PartitionState]
    ) -> list[PartitionState]:
        """Return the partitions that this broker still leads, or serves as preferred replica.

        The view may have changed while the client connected, and a request carries the leader epoch
        of the view. If this broker is now a follower in that epoch, it accepts the request. It may
        have lost its log, and would respond as if the log ended there.
        """
        leader_of = self._cluster.view.leader_of
        return [
            state
            for state in states
            if node_id in {state.preferred_replica, leader_of(state.topic_partition)}
        ]

    async def end_sessions(self) -> None:
        """Request the end of the sessions, without waiting for the brokers' responses."""
        for node_id, (_, session) in list(self._sessions.items()):
            # A fetch may begin one meanwhile.
            if not session.is_open:
                continue
            request = FetchRequest(max_wait_ms=0)
            session.end(request)
            try:
                connection = await self._cluster.node(node_id, PURPOSE)
                await connection.send_only(request)
            except KafkaError:
                continue  # the broker evicts a session that is not ended

    async def _exchange(
        self, node_id: int, connection: RpcConnection, version: int, states: list[PartitionState]
    ) -> Responses:
        wanted = {state.topic_partition: self._asked(state, version) for state in states}
        names = {asked.topic_id: each.topic for each, asked in wanted.items()}
        is_by_id = NO_TOPIC_ID not in names
        session = self._session(node_id, version, is_by_id=is_by_id)
        max_version = None if is_by_id else LAST_FETCH_VERSION_WITH_NAMES
        was_open = session is not None and session.is_open
        try:
            response = await self._request(connection, session, wanted, max_version)
            if was_open and response.error_code in SESSION_ENDED:
                response = await self._request(connection, session, wanted, max_version)
        except KafkaError:
            if session is not None:
                session.reset()
            raise
        raise_for(response.error_code, None, f"fetch from broker {node_id}")
        results = {
            TopicPartition(
                topic.topic or names.get(TopicId(topic.topic_id), ""), result.partition_index
            ): result
            for topic in response.responses
            for result in topic.partitions
        }
        for topic_partition, result in results.items():
            if result.error_code:
                self._cluster.learn_leader(
                    topic_partition, result.current_leader, response.node_endpoints
                )
        return results

    async def _request(
        self,
        connection: RpcConnection,
        session: FetchSession | None,
        wanted: dict[TopicPartition, Asked],
        max_version: int | None,
    ) -> FetchResponse:
        config = self._config
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=config.isolation,
            rack_id=config.client_rack,
        )
        filling = FetchSession() if session is None else session
        filling.fill(request, wanted)
        if session is None:
            request.session_epoch = -1
        started_ms = self._meter.now_ms()
        response = await connection.request(
            request, FetchResponse, max_version=max_version, waits_ms=request.max_wait_ms
        )
        self._meter.note_fetch(started_ms, response)
        if session is not None:
            session.accept(response)
        return response

    def _session(self, node_id: int, version: int, *, is_by_id: bool) -> FetchSession | None:
        """Return the session with a broker, or None if its version has no sessions.

        The session starts again if it identified topics by name and now does by id, or vice versa.
        """
        if version < FIRST_VERSION_WITH_SESSIONS:
            return None
        was_by_id, session = self._sessions.get(node_id, (is_by_id, FetchSession()))
        if was_by_id is not is_by_id:
            session.reset()
        self._sessions[node_id] = is_by_id, session
        return session

    def _asked(self, state: PartitionState, version: int) -> Asked:
        view = self._cluster.view
        return Asked(
            topic_id=(
                view.topic_id_of(state.topic_partition.topic)
                if state.topic_id == NO_TOPIC_ID
                else state.topic_id
            ),
            fetch_offset=state.fetch_offset,
            current_leader_epoch=view.leader_epoch_of(state.topic_partition),
            last_fetched_epoch=(
                state.fetch_epoch if version >= FIRST_VERSION_WITH_EPOCHS else NO_LEADER_EPOCH
            ),
            max_bytes=self._config.max_partition_fetch_bytes,
        )

    async def _find_truncations(self, states: list[PartitionState]) -> Responses:
        """Return a response with ``diverging_epoch`` for each partition whose log was truncated.

        After each change of the leader, the new leader is asked for the end offset of the
        position's epoch. If this end is below the position, the log was truncated.
        """
        leaders = {
            state.topic_partition: self._cluster.view.partition(state.topic_partition)
            for state in states
        }
        doubtful: dict[TopicPartition, PartitionState] = {}
        for state in states:
            known = leaders[state.topic_partition]
            if (
                state.fetch_epoch >= 0
                and known is not None
                and state.validated_epoch < known.leader_epoch
            ):
                doubtful[state.topic_partition] = state
        if not doubtful:
            return {}
        epochs = {each: state.fetch_epoch for each, state in doubtful.items()}
        ends = await offsets.offsets_for_leader_epoch(
            self._cluster, epochs, self._config.request_timeout_ms
        )
        found: Responses = {}
        for each, state in doubtful.items():
            leader, end = leaders[each], ends.get(each)
            if end is not None and 0 <= end.end_offset < state.fetch_offset:
                epoch_end = EpochEndOffset(epoch=end.leader_epoch, end_offset=end.end_offset)
                found[each] = PartitionData(
                    partition_index=each.partition, diverging_epoch=epoch_end
                )
            elif leader is not None:
                state.validated_epoch = leader.leader_epoch
        return found
