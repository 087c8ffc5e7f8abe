"""Serve the share state APIs of a node: find the shard of each share partition, join responses.

This file decides which partition of ``__share_group_state`` a share partition belongs to. It also
decides on the error of a request whose shard another node leads, or whose shard's log refuses the
append. It does not know the meaning of states. No method waits. Each method calls ``on_reply``
once, now or later.

Each partition of a request gets its own result, because the shards of some partitions may be on
other nodes. A request that names no group, no topic, or a topic without partitions gets an empty
response, as in Apache Kafka.
"""

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from log_service.common.env import Clock, RunInPool
from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.common.timers import TimerQueue
from log_service.common.types import SHARE_GROUP_STATE_TOPIC
from log_service.config.views import ShareStateConfig
from log_service.coordinator.gathering import Gathering
from log_service.coordinator.refusals import api_error
from log_service.coordinator.sharded_service import ShardedService
from log_service.coordinator.shards import CoordinatorLog, Shards
from log_service.coordinator.share import state_records
from log_service.coordinator.share.share_coordinator import (
    IsThere,
    NeedlessRecords,
    ShareCoordinatorShard,
    StateRefusal,
)
from log_service.coordinator.share.share_state import ShareKey
from log_service.coordinator.share.state_messages import (
    read_result,
    requested_write,
    summary_result,
)
from log_service.coordinator.share.state_records import ShareRecord
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.metrics.latency import LatencyMeter
from log_service.protocol.messages import delete_share_group_state as deleting
from log_service.protocol.messages import initialize_share_group_state as initializing
from log_service.protocol.messages import read_share_group_state as reading
from log_service.protocol.messages import read_share_group_state_summary as summarizing
from log_service.protocol.messages import write_share_group_state as writing
from log_service.state_machine.decision import Decision
from log_service.state_machine.runtime import OnReply
from log_service.storage.partition_metadata import format_uuid, parse_uuid

Decide = Callable[[ShareCoordinatorShard, Decision[ShareRecord], Hashable], None]


DEFAULTS = ShareStateConfig()

logger = logging.getLogger(__name__)


class ShareStateService(ShardedService[ShareCoordinatorShard, ShareRecord]):
    """The share states that this node coordinates.

    ``is_there`` returns whether a partition exists.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerQueue,
        run_in_pool: RunInPool,
        is_there: IsThere,
        config: ShareStateConfig = DEFAULTS,
        partition_count: Callable[[], int] = lambda: 0,
    ) -> None:
        shards: Shards[ShareCoordinatorShard, ShareRecord] = Shards(
            clock=clock,
            timers=timers,
            run_in_pool=run_in_pool,
            topic=SHARE_GROUP_STATE_TOPIC,
            new_shard=lambda: ShareCoordinatorShard(config, is_there),
            encode=state_records.encode,
            decode=state_records.decode,
            reply_timeout_ms=config.write_timeout_ms,
            on_announcement=_delete_needless,
        )
        super().__init__(shards, partition_count, config.topic_partitions)
        self._clock = clock
        self.write_times = LatencyMeter(clock.monotonic_ms())
        """The duration of each write, from the request until all in-sync replicas have it."""

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Delete the states of deleted topics."""
        if delta.deleted_topics:
            self.shards.on_image(delta, image)

    def partition_for(self, key: ShareKey) -> int:
        """Return the partition of ``__share_group_state`` that a share partition belongs to."""
        return self._partition_of(coordinator_key(key))

    # The APIs

    def initialize(
        self, request: initializing.InitializeShareGroupStateRequest, on_reply: OnReply
    ) -> None:
        """Respond with InitializeShareGroupStateResponse."""

        def decide(key: ShareKey, asked: initializing.PartitionData) -> Decide:
            return lambda shard, decision, token: shard.handle_initialize(
                key, asked.state_epoch, asked.start_offset, token, decision
            )

        self._ask_each(_INITIALIZE, request, decide, on_reply)

    def read(self, request: reading.ReadShareGroupStateRequest, on_reply: OnReply) -> None:
        """Respond with ReadShareGroupStateResponse."""

        def decide(key: ShareKey, asked: reading.PartitionData) -> Decide:
            return lambda shard, decision, token: shard.handle_read(
                key, asked.leader_epoch, token, decision
            )

        self._ask_each(_READ, request, decide, on_reply)

    def write(self, request: writing.WriteShareGroupStateRequest, on_reply: OnReply) -> None:
        """Respond with WriteShareGroupStateResponse."""

        def decide(key: ShareKey, asked: writing.PartitionData) -> Decide:
            return lambda shard, decision, token: shard.handle_write(
                key, requested_write(asked), token, decision
            )

        self._ask_each(_WRITE, request, decide, on_reply, times=self.write_times)

    def delete(self, request: deleting.DeleteShareGroupStateRequest, on_reply: OnReply) -> None:
        """Respond with DeleteShareGroupStateResponse."""

        def decide(key: ShareKey, _asked: deleting.PartitionData) -> Decide:
            return lambda shard, decision, token: shard.handle_delete(key, token, decision)

        self._ask_each(_DELETE, request, decide, on_reply)

    def read_summary(
        self, request: summarizing.ReadShareGroupStateSummaryRequest, on_reply: OnReply
    ) -> None:
        """Respond with ReadShareGroupStateSummaryResponse."""

        def decide(key: ShareKey, _asked: summarizing.PartitionData) -> Decide:
            return lambda shard, decision, token: shard.handle_read_summary(key, token, decision)

        self._ask_each(_READ_SUMMARY, request, decide, on_reply)

    def _ask_each(
        self,
        api: "_Api",
        request: Any,
        decide: Callable[[ShareKey, Any], Decide],
        on_reply: OnReply,
        times: LatencyMeter | None = None,
    ) -> None:
        """Send a request to the shard of each partition. Respond when all shards have replied.

        The results are in the order of the request. ``times`` measures each request that was not
        refused.
        """
        topics = request.topics
        if not request.group_id or not topics or not all(topic.partitions for topic in topics):
            on_reply(api.response(results=[]))
            return
        asked = [(topic.topic_id, partition) for topic in topics for partition in topic.partitions]

        def on_all(replies: list[Any]) -> None:
            results = iter(
                [
                    api.result(partition.partition, reply)
                    for (_, partition), reply in zip(asked, replies, strict=True)
                ]
            )
            of_topics = [
                api.topic_result(
                    topic_id=topic.topic_id, partitions=[next(results) for _ in topic.partitions]
                )
                for topic in topics
            ]
            on_reply(api.response(results=of_topics))

        gather = Gathering(len(asked), on_all)
        for index, (topic_id, partition) in enumerate(asked):
            key = ShareKey(
                group_id=request.group_id, topic_id=topic_id, partition=partition.partition
            )
            part = gather.part(index) if times is None else self._timed(gather.part(index), times)
            self.shards.ask(self.partition_for(key), decide(key, partition), part, _refused)

    def _timed(self, on_reply: OnReply, times: LatencyMeter) -> OnReply:
        began_ns = self._clock.monotonic_ns()

        def timed(reply: Any) -> None:
            if not isinstance(reply, StateRefusal):
                times.note(self._clock.monotonic_ns() - began_ns)
            on_reply(reply)

        return timed


def coordinator_key(key: ShareKey) -> str:
    """Return the key with which clients look up a share partition's coordinator.

    The key is ``group id:topic id:partition``.
    """
    return f"{key.group_id}:{format_uuid(key.topic_id)}:{key.partition}"


def parse_coordinator_key(text: str) -> ShareKey:
    """Parse the key of a share partition's coordinator.

    Only the last two colons separate parts, because a group id may contain colons.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    parts = text.rsplit(":", 2)
    try:
        group_id, topic_id, partition = parts[0], parse_uuid(parts[1]), int(parts[2])
    except (IndexError, ValueError) as error:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{text!r} does not name a share partition: group:topic id:partition",
        ) from error
    if not group_id.strip():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{text!r} names no group")
    return ShareKey(group_id=group_id, topic_id=topic_id, partition=partition)


def _delete_needless(coordinator_log: CoordinatorLog, announcement: NeedlessRecords) -> None:
    """Delete the records that no state needs any more.

    After a failure, the next announcement tries again.
    """
    try:
        coordinator_log.delete_records(announcement.end_offset)
    except (KafkaError, StorageError, OSError) as error:
        logger.info(
            "Partition %d of share states keeps records that are not needed: %s",
            coordinator_log.partition,
            error,
        )


def _refused(error: KafkaError) -> StateRefusal:
    return StateRefusal(error_code=api_error(error), error_message=str(error))


@dataclass(frozen=True, slots=True, eq=False)
class _Api:
    """The response classes of one API.

    ``done`` builds the result of a partition from a reply that is not a refusal.
    """

    partition_result: Callable[..., Any]
    topic_result: Callable[..., Any]
    response: Callable[..., Any]
    done: Callable[[int, Any], Any] | None = None

    def result(self, partition: int, reply: Any) -> Any:
        """Convert the shard's reply to the result of one partition."""
        if isinstance(reply, StateRefusal):
            return self.partition_result(
                partition=partition, error_code=reply.error_code, error_message=reply.error_message
            )
        return (
            self.partition_result(partition=partition)
            if self.done is None
            else self.done(partition, reply)
        )


_INITIALIZE = _Api(
    initializing.PartitionResult,
    initializing.InitializeStateResult,
    initializing.InitializeShareGroupStateResponse,
)
_READ = _Api(
    reading.PartitionResult,
    reading.ReadStateResult,
    reading.ReadShareGroupStateResponse,
    read_result,
)
_WRITE = _Api(
    writing.PartitionResult, writing.WriteStateResult, writing.WriteShareGroupStateResponse
)
_DELETE = _Api(
    deleting.PartitionResult, deleting.DeleteStateResult, deleting.DeleteShareGroupStateResponse
)
_READ_SUMMARY = _Api(
    summarizing.PartitionResult,
    summarizing.ReadStateSummaryResult,
    summarizing.ReadShareGroupStateSummaryResponse,
    summary_result,
)
