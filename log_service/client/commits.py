"""Committing offsets for one consumer: at once or soon, by hand or every so often.

Decides which offsets are worth a request, and what a refusal means to the caller and to the membership. Commits of one consumer go out one
after the other, so that an older offset never overwrites a newer one.
"""

import logging
from collections.abc import Mapping

import trio

from log_service.client.admin_groups import LAST_OFFSET_VERSION_WITH_NAMES, commit_request, with_coordinator
from log_service.client.admin_values import OffsetAndMetadata
from log_service.client.cluster_metadata import ClusterMetadata
from log_service.client.connection_pool import raise_for
from log_service.client.membership import Membership
from log_service.client.subscriptions import Subscriptions
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.config.client import ConsumerConfig
from log_service.protocol.messages.offset_commit import OffsetCommitResponse

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
GROUP_WENT_ON = {
    ErrorCode.UNKNOWN_MEMBER_ID: "the group goes on without this member (it did not poll or beat in time): its partitions belong to others",
    ErrorCode.ILLEGAL_GENERATION: "the group rebalanced meanwhile: the partitions may belong to others",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group rebalances: poll, and commit again what is still assigned",
    ErrorCode.FENCED_INSTANCE_ID: "another member uses the same group_instance_id",
}


class Committer:
    """Commits for one consumer; ``membership`` is None where partitions were assigned by hand."""

    def __init__(self, cluster: ClusterMetadata, config: ConsumerConfig, subscriptions: Subscriptions) -> None:
        self._cluster = cluster
        self._config = config
        self._subscriptions = subscriptions
        self._lock = trio.Lock()
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._committed_ms = cluster.env.clock.monotonic_ms()
        self.membership: Membership | None = None

    @property
    def is_automatic(self) -> bool:
        """Whether positions are committed without being asked for."""
        return self._config.enable_auto_commit and self._config.group_id is not None

    @property
    def due_ms(self) -> int:
        """When the next automatic commit is due."""
        return self._committed_ms + self._config.auto_commit_interval_ms

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions that are not committed yet."""
        positions = {
            state.topic_partition: OffsetAndMetadata(offset=state.position, leader_epoch=state.leader_epoch)
            for state in self._subscriptions
            if state.has_position
        }
        return {each: offset for each, offset in positions.items() if self._committed.get(each) != offset}

    async def commit(self, offsets: Offsets, timeout_ms: int) -> None:
        """Commit, trying again until ``timeout_ms`` have passed.

        Raises:
            KafkaError: INVALID_GROUP_ID, the consumer has no group; UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS,
                FENCED_INSTANCE_ID, the group went on; OFFSET_METADATA_TOO_LARGE and others.
        """
        if self._config.group_id is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a consumer without group_id cannot commit")
        if not offsets:
            return
        async with self._lock:
            await self._cluster.retry(lambda: self._commit_once(offsets), timeout_ms)
        self._committed.update(offsets)

    def start_interval(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what is to be committed automatically now, before anything more is handed out; the next time is an interval later."""
        self._committed_ms = self._cluster.env.clock.monotonic_ms()
        return self.consumed() if self.is_automatic else {}

    async def commit_consumed(self) -> None:
        """Commit the positions, if that is automatic."""
        await self.commit_quietly(self.start_interval())

    async def commit_quietly(self, offsets: Offsets) -> None:
        """Commit, if there is anything; failing is not the end: others will read those records again."""
        if not offsets:
            return
        try:
            await self.commit(offsets, self._config.request_timeout_ms)
        except KafkaError as error:
            logger.warning("group %s: automatic commit of %d partitions: %s", self._config.group_id, len(offsets), error)

    def forget(self) -> None:
        """The partitions changed: what others committed meanwhile is not known."""
        self._committed.clear()

    async def _commit_once(self, offsets: Offsets) -> None:
        group_id = self._config.group_id
        assert group_id is not None, "commit() looked"
        await with_coordinator(self._cluster, group_id, lambda: self._send(group_id, offsets))

    async def _send(self, group_id: str, offsets: Offsets) -> None:
        member = self.membership
        if member is not None and not member.is_member:
            code = ErrorCode.UNKNOWN_MEMBER_ID
            raise KafkaError(code, f"group {group_id!r}: {GROUP_WENT_ON[code]}")
        request = commit_request(
            group_id,
            offsets,
            generation_id=-1 if member is None else member.generation_id,
            member_id="" if member is None else member.member_id,
            group_instance_id=None if member is None else self._config.group_instance_id,
        )
        connection = await self._cluster.coordinator(group_id)
        response = await connection.request(request, OffsetCommitResponse, max_version=LAST_OFFSET_VERSION_WITH_NAMES)
        for topic in response.topics:
            for answer in topic.partitions:
                code = ErrorCode.of(answer.error_code)
                if code in GROUP_WENT_ON:
                    if member is not None:
                        member.note_commit_error(code)
                    raise KafkaError(code, f"group {group_id!r}: {GROUP_WENT_ON[code]}")
                raise_for(code, None, f"commit of group {group_id!r} for {TopicPartition(topic.name, answer.partition_index)}")
