"""Commits offsets for one consumer, on request or automatically, with or without waiting.

Decides which offsets to send, and what an error means to the caller and to the membership in the
group. Commits of one consumer are sent in order, so an older offset never overwrites a newer one.

If a topic was deleted, the coordinator refuses to commit for it with a retriable error. A commit of
the application is retried until its timeout, and raises that error then. An automatic commit leaves
out the partitions of topics that the newest metadata does not contain.

A position belongs to one topic, and is committed by the id of that topic if the broker supports
ids. A position is left out once its topic was deleted and created again, because it would skip
records of the new topic.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import trio

from log_service.client.admin.groups import (
    LAST_OFFSET_VERSION_WITH_NAMES,
    commit_request,
    with_coordinator,
)
from log_service.client.admin.values import OffsetAndMetadata
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.consumer.memberships import CommittingMember
from log_service.client.consumer.subscriptions import Subscriptions, is_other_topic
from log_service.client.metrics import ConsumerMeter
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import NO_TOPIC_ID, TopicId, TopicPartition
from log_service.config.client import ConsumerConfig
from log_service.protocol.messages.offset_commit import OffsetCommitResponse
from log_service.rpc.connection import raise_for

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], None]
"""Called once with the offsets and the error, None on success. It must not block."""

GROUP_WENT_ON = {
    ErrorCode.UNKNOWN_MEMBER_ID: (
        "the group goes on without this member (it did not poll or beat in time): its partitions"
        " belong to others"
    ),
    ErrorCode.ILLEGAL_GENERATION: (
        "the group rebalanced meanwhile: the partitions may belong to others"
    ),
    ErrorCode.REBALANCE_IN_PROGRESS: (
        "the group rebalances: poll, and commit again what is still assigned"
    ),
    ErrorCode.STALE_MEMBER_EPOCH: (
        "the group has moved this member on: the partitions may belong to others"
    ),
    ErrorCode.FENCED_INSTANCE_ID: "another member uses the same group_instance_id",
}
TOPIC_IS_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


def validate_callback(on_commit: CommitCallback | None) -> None:
    """Raise TypeError if a callback of a commit cannot be called."""
    if on_commit is not None and not callable(on_commit):
        raise TypeError(
            f"on_commit is called with the offsets and the error: {on_commit!r} cannot be called"
        )


class _Batch:
    """Offsets for one request, the ids of their topics, and the callbacks that wait for them.

    ``automatic`` holds the partitions that no call of the application asked to commit.
    """

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.topic_ids: dict[str, TopicId] = {}
        self.automatic: set[TopicPartition] = set()
        self.callbacks: list[Callable[[KafkaError | None], None]] = []


class TransactionWarning:
    """Warns once if a consumer with automatic commits is used with a transactional producer."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._config = config
        self._is_due = config.enable_auto_commit

    def maybe_log(self) -> None:
        """Log the warning if commits are automatic and it was not logged before."""
        if self._is_due:
            self._is_due = False
            logger.warning(
                "group %s: enable_auto_commit is on beside transactions: what an aborted one read"
                " is lost. Set it to False",
                self._config.group_id,
            )


class Committer:
    """Commits offsets for one consumer."""

    def __init__(
        self,
        cluster: ClusterMetadata,
        config: ConsumerConfig,
        subscriptions: Subscriptions,
        meter: ConsumerMeter,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._subscriptions = subscriptions
        self._meter = meter
        self._quiet = QuietLogger(logger, meter.now_ms)
        self._lock = trio.Lock()
        self._soon: deque[_Batch] = deque()
        self._wakeup = trio.Event()
        self._is_idle = trio.Event()
        self._is_idle.set()
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._committed_ms = cluster.env.clock.monotonic_ms()
        self._membership: CommittingMember | None = None

    def commit_as(self, membership: CommittingMember | None) -> None:
        """Set the group member in whose name offsets are committed from now on.

        None means that partitions were assigned by hand.
        """
        self._membership = membership

    @property
    def is_automatic(self) -> bool:
        """Whether positions are committed automatically."""
        return self._config.enable_auto_commit and self._config.group_id is not None

    @property
    def due_ms(self) -> int:
        """The time of the next automatic commit, in ms of the monotonic clock."""
        return self._committed_ms + self._config.auto_commit_interval_ms

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions that are not committed yet."""
        positions = {
            state.topic_partition: OffsetAndMetadata(
                offset=state.position, leader_epoch=state.leader_epoch
            )
            for state in self._subscriptions
            if state.has_position
            and not state.is_of_other_topic(
                self._cluster.view.topic_id_of(state.topic_partition.topic)
            )
        }
        return {
            each: offset
            for each, offset in positions.items()
            if self._committed.get(each) != offset
        }

    def with_epochs(self, offsets: Offsets) -> Offsets:
        """Return the offsets with leader epochs filled in.

        An offset without an epoch gets that of the position, if it equals the position.
        """
        return {each: self._with_epoch(each, offset) for each, offset in offsets.items()}

    def _with_epoch(
        self, topic_partition: TopicPartition, offset: OffsetAndMetadata
    ) -> OffsetAndMetadata:
        state = self._subscriptions.get(topic_partition)
        if (
            offset.leader_epoch >= 0
            or state is None
            or not state.has_position
            or state.position != offset.offset
        ):
            return offset
        return replace(offset, leader_epoch=state.leader_epoch)

    async def commit(self, offsets: Offsets, timeout_ms: int) -> None:
        """Commit offsets, and retry until ``timeout_ms`` have passed.

        Raises:
            KafkaError: INVALID_GROUP_ID, the consumer has no group. UNKNOWN_MEMBER_ID,
                ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS or FENCED_INSTANCE_ID, the member lost its
                place in the group. OFFSET_METADATA_TOO_LARGE and others.
        """
        if self._config.group_id is None:
            raise KafkaError(
                ErrorCode.INVALID_GROUP_ID, "a consumer without group_id cannot commit"
            )
        if offsets:
            await self._commit_in_turn(self._note(_Batch(), offsets), timeout_ms)

    async def _commit_in_turn(self, batch: _Batch, timeout_ms: int) -> None:
        left_ms = self._cluster.countdown(timeout_ms)
        with trio.move_on_after(timeout_ms / 1_000):
            await self._is_idle.wait()  # commits without waiting go first
        await self._commit_now(batch, left_ms)

    def commit_soon(self, offsets: Offsets, on_commit: CommitCallback | None) -> None:
        """Commit offsets after all earlier commits, without waiting for the result.

        Offsets of several calls share one request if none of them was sent yet.
        """
        validate_callback(on_commit)
        if not offsets and on_commit is None:
            return
        soon = self._collect(offsets)
        soon.automatic -= offsets.keys()
        if on_commit is not None:
            soon.callbacks.append(partial(_call, on_commit, dict(offsets)))

    def commit_interval_soon(self) -> None:
        """Start an automatic commit of the positions, without waiting for the result."""
        offsets = self.start_interval()
        if offsets:
            asked = (
                self._soon[-1].offsets.keys() - self._soon[-1].automatic if self._soon else set()
            )
            soon = self._collect(offsets)
            soon.automatic |= offsets.keys() - asked

    def _collect(self, offsets: Offsets) -> _Batch:
        if not self._soon:
            self._soon.append(_Batch())
        self._is_idle = trio.Event() if self._is_idle.is_set() else self._is_idle
        self._wakeup.set()
        return self._note(self._soon[-1], offsets)

    def _note(self, batch: _Batch, offsets: Offsets) -> _Batch:
        """Add offsets and the ids of their topics to a batch, and return the batch.

        The ids are taken now, because a topic may be deleted and created again before the batch is
        sent.
        """
        batch.offsets.update(offsets)
        for each in offsets:
            state = self._subscriptions.get(each)
            known = NO_TOPIC_ID if state is None else state.topic_id
            batch.topic_ids[each.topic] = (
                known if known != NO_TOPIC_ID else self._cluster.view.topic_id_of(each.topic)
            )
        return batch

    async def run(self) -> None:
        """Send the commits of ``commit_soon`` and ``commit_interval_soon``, forever."""
        while True:
            await self._wakeup.wait()
            self._wakeup = trio.Event()
            while self._soon:
                await self._commit_quietly(self._soon.popleft())
            self._is_idle.set()

    async def settle_soon(self) -> None:
        """Wait until all commits that ``run`` has to send are done."""
        await self._is_idle.wait()

    async def _commit_quietly(self, soon: _Batch) -> None:
        """Commit a batch, and pass the error or None to its callbacks.

        An error without callbacks is logged. It is not fatal, because the uncommitted records are
        only read again.
        """
        failure: KafkaError | None = None
        try:
            if soon.offsets:
                await self._commit_now(soon, lambda: self._config.default_api_timeout_ms)
        except KafkaError as error:
            failure = error
        if failure is not None and not soon.callbacks:
            self._warn(len(soon.offsets), failure)
        for callback in soon.callbacks:
            callback(failure)

    async def _commit_now(self, batch: _Batch, left_ms: Callable[[], int]) -> None:
        if self._config.group_id is None:
            raise KafkaError(
                ErrorCode.INVALID_GROUP_ID, "a consumer without group_id cannot commit"
            )
        async with self._lock:
            started_ms = self._meter.now_ms()
            committed = await self._commit_in_newest_epoch(batch, left_ms)
        self._meter.note_commit(started_ms)
        self._committed.update(committed)

    def _without_gone(self, batch: _Batch) -> Offsets:
        """Return the offsets of a batch without those of deleted topics.

        If the topic was created again, the offset is always left out. If it does not exist, only an
        automatic commit is left out.
        """
        view = self._cluster.view
        unknown = (each for each in batch.automatic if each.topic not in view.topics)
        gone = {
            each
            for each in unknown
            if view.errors.get(each.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) in TOPIC_IS_GONE
        }
        replaced = {
            topic
            for topic, topic_id in batch.topic_ids.items()
            if is_other_topic(topic_id, view.topic_id_of(topic))
        }
        if replaced:
            text = (
                "group %s: nothing is committed for topics that were deleted and created anew: %s"
            )
            self._quiet.warning(
                "replaced", text, self._config.group_id, ", ".join(sorted(replaced))
            )
        return {
            each: offset
            for each, offset in batch.offsets.items()
            if each not in gone and each.topic not in replaced
        }

    async def _commit_in_newest_epoch(self, batch: _Batch, left_ms: Callable[[], int]) -> Offsets:
        """Commit a batch, and return the committed offsets.

        If the coordinator has raised the member epoch meanwhile, commit again with the new epoch
        (KIP-848). Offsets of deleted topics are left out of each attempt.
        """
        while True:
            try:
                return await self._cluster.retry(
                    lambda: self._commit_once(self._without_gone(batch), batch.topic_ids), left_ms()
                )
            except KafkaError as error:
                member = self._membership
                if error.code is not ErrorCode.STALE_MEMBER_EPOCH or member is None:
                    raise
                is_member = False
                with trio.move_on_after(left_ms() / 1_000):
                    is_member = await member.await_epoch()
                if not is_member:
                    raise

    def start_interval(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit automatically now, and start the next interval.

        This runs before more records are returned.
        """
        self._committed_ms = self._cluster.env.clock.monotonic_ms()
        return self.consumed() if self.is_automatic else {}

    async def commit_consumed(self) -> None:
        """Commit the positions if automatic commits are on, and log an error.

        The error is not fatal, because the uncommitted records are only read again.
        """
        offsets = self.start_interval()
        if not offsets:
            return
        try:
            batch = self._note(_Batch(), offsets)
            batch.automatic.update(offsets)
            await self._commit_in_turn(batch, self._config.request_timeout_ms)
        except KafkaError as error:
            self._warn(len(offsets), error)

    def _warn(self, partition_count: int, error: KafkaError) -> None:
        self._quiet.warning(
            error.code,
            "group %s: commit of %d partitions: %s",
            self._config.group_id,
            partition_count,
            error,
        )

    def forget(self) -> None:
        """Forget committed offsets, because other members may have committed after a rebalance."""
        self._committed.clear()

    async def _commit_once(self, offsets: Offsets, topic_ids: Mapping[str, TopicId]) -> Offsets:
        group_id = self._config.group_id
        assert group_id is not None, "commit() looked"
        if offsets:
            await with_coordinator(
                self._cluster, group_id, lambda: self._send(group_id, offsets, topic_ids)
            )
        return offsets

    async def _send(
        self, group_id: str, offsets: Offsets, topic_ids: Mapping[str, TopicId]
    ) -> None:
        member = self._membership
        if member is not None and not member.is_member:
            code = ErrorCode.UNKNOWN_MEMBER_ID
            raise KafkaError(code, f"group {group_id!r}: {GROUP_WENT_ON[code]}")
        request = commit_request(
            group_id,
            offsets,
            generation_id=-1 if member is None else member.generation_id,
            member_id="" if member is None else member.member_id,
            group_instance_id=None if member is None else self._config.group_instance_id,
            topic_ids=topic_ids,
        )
        connection = await self._cluster.coordinator(group_id)
        is_by_id = all(topic_ids[each.topic] != NO_TOPIC_ID for each in offsets)
        max_version = None if is_by_id else LAST_OFFSET_VERSION_WITH_NAMES
        response = await connection.request(request, OffsetCommitResponse, max_version=max_version)
        names = {topic_ids[each.topic]: each.topic for each in offsets}
        for topic in response.topics:
            name = topic.name or names.get(TopicId(topic.topic_id), "")
            for result in topic.partitions:
                code = ErrorCode.of(result.error_code)
                if code in GROUP_WENT_ON:
                    if member is not None:
                        member.note_commit_error(code)
                    raise KafkaError(code, f"group {group_id!r}: {GROUP_WENT_ON[code]}")
                raise_for(
                    code,
                    None,
                    f"commit of group {group_id!r} for"
                    f" {TopicPartition(name, result.partition_index)}",
                )


def _call(on_commit: CommitCallback, offsets: Offsets, error: KafkaError | None) -> None:
    try:
        on_commit(offsets, error)
    except Exception:
        logger.exception("the callback of a commit failed")
