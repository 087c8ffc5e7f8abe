"""The consumer reads records of assigned partitions and commits offsets.

Decides the order of steps in one ``poll``: it advances the group membership, then returns ready
records, or else waits. Background tasks fetch, find positions, join and send heartbeats. They never
change the assignment. Only ``poll`` does.

A poll that follows one with records raises pending errors first. Every other poll returns records
first. So neither records nor errors wait forever, however long the application waits between two
polls.

Invariants: the position of a partition is after the last record of it that ``poll`` returned.
Automatic commits contain only records that an earlier ``poll`` returned.
"""

from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from operator import index
from re import Pattern
from types import TracebackType
from typing import Any, Self

import trio

from log_service.client import arguments
from log_service.client.admin.groups import as_offsets
from log_service.client.admin.values import (
    ConsumerGroupMetadata,
    FoundOffset,
    OffsetAndMetadata,
    OffsetSpec,
)
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.connections.env import real_env
from log_service.client.consumer.assignors import validate_assignors
from log_service.client.consumer.commits import CommitCallback, Committer, TransactionWarning
from log_service.client.consumer.consumer_membership import ConsumerMembership
from log_service.client.consumer.fetcher import Fetcher
from log_service.client.consumer.interceptors import ConsumerInterceptor, intercepted
from log_service.client.consumer.membership import Membership
from log_service.client.consumer.memberships import GroupSteps
from log_service.client.consumer.positions import Positions
from log_service.client.consumer.rebalance import RebalanceCallback, RebalanceCallbacks, Rebalancer
from log_service.client.consumer.reconciler import Reconciler
from log_service.client.consumer.records import ConsumerRecord, Deserializer
from log_service.client.consumer.subscribed_topics import SubscribedTopics
from log_service.client.consumer.subscriptions import Start, SubscriptionPattern, Subscriptions
from log_service.client.metrics import ConsumerMeter, ConsumerMetrics
from log_service.common.env import Env
from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.common.types import NO_LEADER_EPOCH, TopicPartition
from log_service.config.client import ConsumerConfig
from log_service.security.outgoing import outgoing_security


class Consumer:
    """Reads records. ``async with`` opens and closes it.

    The keywords are the settings of ``ConsumerConfig``. Deserializers turn keys and values into
    objects of the application. ``interceptors`` see the records of each poll. None of these may be
    async. Leaving the block commits the polled records if commits are automatic. If an exception
    leaves the block, nothing is committed. The application may not have processed the last records,
    and they are read again.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        interceptors: Iterable[ConsumerInterceptor] = (),
        env: Env | None = None,
        **settings: Any,
    ) -> None:
        self.config = ConsumerConfig.of(bootstrap_servers, settings)
        validate_assignors(self.config.partition_assignment_strategy)
        self._env = env or real_env()
        self._security = outgoing_security(self.config.security(), self._env.rng)
        self._deserializers = (key_deserializer, value_deserializer)
        self._interceptors = tuple(interceptors)
        self._meter = ConsumerMeter(self._now_ms, self.config.enable_metrics)
        self._is_woken = self._is_polling = self._is_error_due = False
        self._subscriptions = Subscriptions()
        self._rebalancer: GroupSteps | None = None
        self._membership: Membership | ConsumerMembership | None = None
        self._is_leaving = False
        self._next: tuple[RebalanceCallbacks, str] | None = (
            None  # the subscription made while the earlier membership leaves
        )
        self._stack = AsyncExitStack()
        self._changed = trio.Event()
        self._view_version = 0
        self._transaction_warning = TransactionWarning(self.config)
        self._is_open = False

    def __repr__(self) -> str:
        return (
            f"<Consumer group={self.config.group_id} {'open' if self._is_open else 'closed'}"
            f" partitions={len(self._subscriptions)}>"
        )

    async def __aenter__(self) -> Self:
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._cluster = ClusterMetadata(
            self._env,
            self.config,
            self._nursery,
            security=self._security,
            is_auto_create_allowed=self.config.allow_auto_create_topics,
            on_refreshed=self._note_change,
        )
        self._topics = SubscribedTopics(self._cluster, self.config, self._subscriptions)
        self._fetcher = Fetcher(
            self._cluster,
            self.config,
            self._subscriptions,
            self._deserializers,
            on_change=self._note_change,
            meter=self._meter,
        )
        self._positions = Positions(
            self._cluster,
            self.config,
            self._subscriptions,
            on_found=self._fetcher.wake,
            on_error=self._note_change,
        )
        self._committer = Committer(self._cluster, self.config, self._subscriptions, self._meter)
        for task in (
            self._fetcher.run,
            self._committer.run,
            self._cluster.keep_fresh,
            self._positions.run,
        ):
            self._nursery.start_soon(task)
        self._is_open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with trio.CancelScope(
                shield=True, deadline=trio.current_time() + self.config.request_timeout_ms / 1_000
            ):
                await self._close(is_committing=error is None)
        finally:
            self._is_open = False
            self._nursery.cancel_scope.cancel()
            await self._stack.aclose()  # without the exception, which the nursery would wrap

    @property
    def cluster(self) -> ClusterMetadata:
        """The client's view of its cluster. Raises KafkaError (INVALID_REQUEST) if closed."""
        self._require_open()
        return self._cluster

    # Subscription and assignment

    async def subscribe(
        self,
        topics: Iterable[str] | Pattern[str] | SubscriptionPattern,
        *,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Read these topics together with the other members of the group.

        A new subscription replaces the earlier one. A compiled pattern stands for all topics whose
        whole name matches it, now and later. New topics are noticed within ``metadata_max_age_ms``.
        Internal topics are left out unless ``exclude_internal_topics`` is False. The broker matches
        a ``SubscriptionPattern``, which needs ``group_protocol="consumer"``. The client then learns
        only of the topics that it is assigned.

        Raises:
            ConfigError: the consumer has no ``group_id``, partitions were assigned by hand, or the
                group protocol has no patterns matched by brokers.
            KafkaError: the topics for a pattern cannot be listed.
            TypeError: the topics are one text, or one of them is not text.
        """
        self._require_open()
        if self.config.group_id is None:
            raise ConfigError("subscribe() needs a group_id; use assign() to read without a group")
        if self._rebalancer is None and len(self._subscriptions):
            raise ConfigError("partitions were assigned by hand: unsubscribe() first")
        if isinstance(topics, SubscriptionPattern) and self.config.group_protocol != "consumer":
            raise ConfigError(
                "a SubscriptionPattern needs group_protocol='consumer'; a compiled pattern works"
                " with 'classic', too"
            )
        named = (
            ()
            if isinstance(topics, Pattern | SubscriptionPattern)
            else arguments.names(topics, "topics")
        )
        await self._topics.choose(topics if isinstance(topics, Pattern) else named)
        callbacks = RebalanceCallbacks(
            on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost
        )
        regex = topics.pattern if isinstance(topics, SubscriptionPattern) else ""
        if self._is_leaving:
            self._next = callbacks, regex
        else:
            self._take_part(callbacks, regex)
        await trio.lowlevel.checkpoint()

    def _take_part(self, callbacks: RebalanceCallbacks, regex: str) -> None:
        """Report the subscription to the group, and start a membership if there is none yet."""
        self._rebalancer = self._steps(callbacks, regex)
        self._rebalancer.subscribed("the subscription changed")

    def _steps(self, callbacks: RebalanceCallbacks, regex: str) -> GroupSteps:
        """Return the steps of the configured group protocol. Start a membership if needed."""
        membership: Membership | ConsumerMembership
        if self._membership is not None:
            membership = self._membership
        else:
            assert self.config.group_id is not None, "subscribe() looked"
            kind = ConsumerMembership if self.config.group_protocol == "consumer" else Membership
            membership = self._membership = kind(
                self._cluster, self.config, self.config.group_id, self._note_change, self._meter
            )
            self._committer.commit_as(membership)
            self._nursery.start_soon(membership.run)
        if isinstance(membership, ConsumerMembership):
            return Reconciler(
                self.config,
                self._subscriptions,
                membership,
                self._committer,
                callbacks,
                regex=regex,
                meter=self._meter,
            )
        return Rebalancer(
            self.config,
            self._subscriptions,
            membership,
            self._committer,
            callbacks,
            is_creating_topics=self._topics.pattern is None,
        )

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group.

        Partitions that were read before keep their positions.

        Raises:
            ConfigError: the consumer is subscribed.
            TypeError, ValueError: a partition is not valid.
        """
        self._require_open()
        if self._rebalancer is not None:
            raise ConfigError("the consumer is subscribed: unsubscribe() first")
        wanted = arguments.partitions(partitions)
        self._cluster.watch_only({each.topic for each in wanted})
        self._subscriptions.assign(wanted, Start.COMMITTED)
        self._positions.find_missing()

    async def unsubscribe(self) -> None:
        """Give up all partitions and leave the group.

        This happens even if the call is cancelled, or if ``on_revoked`` raises.
        """
        rebalancer = self._rebalancer
        self._is_leaving, self._next = rebalancer is not None, None
        try:
            if rebalancer is not None:
                await rebalancer.leave(is_committing=True)
        finally:
            if self._rebalancer is rebalancer:  # another task that unsubscribes may have ended it
                self._note_left()

    def _note_left(self) -> None:
        """Drop the assignment after leaving the group. Join if ``subscribe`` was called since."""
        self._is_leaving = False
        self._subscriptions.revoke(self._subscriptions.assigned)
        if self._membership is None:
            return
        self._rebalancer = self._membership = None
        self._committer.commit_as(None)
        if self._next is None:
            self._topics.clear()
        elif self._is_open:
            self._take_part(*self._next)

    def enforce_rebalance(self, reason: str = "") -> None:
        """Make this consumer join again at its next poll, so that the group rebalances (KIP-568).

        Use it when something changed that only the application knows. The coordinator gets
        ``reason`` (KIP-800).

        Raises:
            ConfigError: the consumer is not subscribed, or the broker assigns
                (``group_protocol="consumer"``).
        """
        self._require_open()
        if self._membership is None:
            raise ConfigError("the consumer is in no group: subscribe() first")
        if not isinstance(self._membership, Membership):
            raise ConfigError(
                "enforce_rebalance() means nothing with group_protocol='consumer': the broker"
                " decides when it assigns"
            )
        self._membership.request_join(reason or "the application asked for a rebalance")

    @property
    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions, sorted."""
        return self._subscriptions.assigned

    @property
    def subscription(self) -> frozenset[str]:
        """The subscribed topics."""
        return self._subscriptions.topics

    # Records

    async def poll(
        self, max_records: int | None = None, timeout_ms: int = 1_000
    ) -> list[ConsumerRecord]:
        """Return up to ``max_records`` records as soon as there are any, none after ``timeout_ms``.

        The default of ``max_records`` is ``max_poll_records``. Rebalance callbacks run inside the
        poll. A poll that is cancelled or raises loses no records. An error of a partition is raised
        if no records are ready, or by the poll after one that returned records. So an error keeps
        no other partition waiting, and records keep no error waiting.

        Topics that the cluster refuses (no access, invalid names) are raised together, each time
        that the cluster refuses them. A topic that is subscribed by name and does not exist yet is
        logged.

        Raises:
            RecordDeserializationError: a deserializer failed. Polling again meets the same record.
                Seek to the offset after it to skip it.
            TypeError, ValueError: ``max_records`` is not a positive whole number.
            KafkaError: a fetch, a position or the group failed for good. INVALID_REQUEST, the
                consumer is closed, or another task polls it.
        """
        self._require_open()
        if self._is_polling:
            text = (
                "another task or thread polls this consumer, or a callback of its own does: one"
                " poll at a time"
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        self._meter.note_poll()
        deadline = trio.current_time() + timeout_ms / 1_000
        limit = (
            self.config.max_poll_records
            if max_records is None
            else arguments.record_limit(max_records)
        )
        if self._membership is not None:
            self._membership.note_poll(is_polling=True)
        self._is_polling = True
        try:
            while True:
                self._changed = trio.Event()
                await self._advance()
                records = self._fetcher.take(limit)
                self._is_error_due = bool(records)
                if not records:
                    self._raise_errors()
                if records and self._interceptors:
                    records = intercepted(records, self._interceptors, self._subscriptions)
                if records or self._is_woken:
                    self._is_woken = False
                    return records
                await self._wait_for_change(deadline)
                if trio.current_time() >= deadline and not self._changed.is_set():
                    return []
        finally:
            self._is_polling = False
            if self._membership is not None:
                self._membership.note_poll(is_polling=False)

    def wakeup(self) -> None:
        """End the waiting poll at once, or else the next poll.

        The poll returns the ready records, maybe none, and raises no error because of this.
        """
        self._is_woken = True
        self._note_change()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Wait for the next record, move past it, and return it. ``poll`` is faster."""
        while True:
            records = await self.poll(max_records=1, timeout_ms=self.config.default_api_timeout_ms)
            if records:
                return records[0]

    # Positions

    async def position(self, topic_partition: TopicPartition) -> int:
        """Return the offset of the next record that ``poll`` returns. Find it if it is not known.

        Raises:
            ValueError: the partition is not assigned.
            KafkaError: OFFSET_OUT_OF_RANGE, there is no position and ``auto_offset_reset`` is none.
        """
        self._require_open()
        return await self._positions.position(topic_partition)

    async def seek(
        self, topic_partition: TopicPartition, offset: int, leader_epoch: int = NO_LEADER_EPOCH
    ) -> None:
        """Continue reading at ``offset``. Records that were fetched already are dropped.

        ``leader_epoch`` is the epoch of the record before ``offset``, if known. A commit includes
        the epoch. With it the consumer can detect a truncation (KIP-320).

        Raises:
            ValueError: the partition is not assigned, or the offset is not valid.
            TypeError: the offset or the epoch is not a whole number.
        """
        self._subscriptions.of(topic_partition).seek(arguments.offset(offset), index(leader_epoch))
        self._fetcher.wake()
        await trio.lowlevel.checkpoint()

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Continue reading at the log start offset of these partitions (default: all assigned)."""
        self._require_open()
        await self._positions.move_to(partitions, Start.EARLIEST)

    async def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Continue reading at the end of these partitions (default: all assigned).

        The end is the high watermark, or the last stable offset with read_committed.
        """
        self._require_open()
        await self._positions.move_to(partitions, Start.LATEST)

    async def seek_to_committed(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Continue reading at the group's committed offsets (default: of all assigned partitions).

        Use it after an aborted transaction. ``auto_offset_reset`` decides for partitions without a
        commit.
        """
        self._require_open()
        await self._positions.move_to(partitions, Start.COMMITTED)

    async def seek_to_time(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Continue reading at the first record with at least this timestamp, or else at the end.

        Return the new positions.
        """
        self._require_open()
        return await self._positions.move_to_times(times_ms)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until ``resume``. They stay assigned.

        Raises ValueError if a partition is not assigned.
        """
        for each in partitions:
            self._subscriptions.of(each).is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        for each in partitions:
            self._subscriptions.of(each).is_paused = False
        self._fetcher.wake()
        self._note_change()

    @property
    def paused(self) -> list[TopicPartition]:
        """The paused partitions."""
        return self._subscriptions.paused

    # Begin and end of partitions, which need not be assigned

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Return the number of offsets between the position and the end, as of the last fetch.

        The end is the high watermark, or the last stable offset with read_committed. No request is
        sent. Returns None before the first response. Raises ValueError if the partition is not
        assigned.
        """
        return self._subscriptions.of(topic_partition).lag(
            is_stable_only=bool(self.config.isolation)
        )

    async def current_lag(self, topic_partition: TopicPartition) -> int:
        """Return the lag as ``lag`` does. If no fetch has reported it yet, ask the cluster.

        Raises as ``position``.
        """
        known = self.lag(topic_partition)
        if known is not None:
            return known
        position = await self.position(topic_partition)
        return max((await self.end_offsets([topic_partition]))[topic_partition] - position, 0)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the log start offsets.

        Raises KafkaError (``ItemsFailed``) if a partition does not exist.
        """
        self._require_open()
        return await self._positions.ends(partitions, OffsetSpec.earliest())

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end offsets that a reader sees. Raises as ``beginning_offsets``.

        They are high watermarks, or last stable offsets with read_committed.
        """
        self._require_open()
        return await self._positions.ends(partitions, OffsetSpec.latest())

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset]:
        """Return the first record of each partition with at least this timestamp, or offset -1."""
        self._require_open()
        return await self._positions.list_offsets(
            {
                each: OffsetSpec.at(time_ms)
                for each, time_ms in arguments.by_partition(times_ms, "times").items()
            }
        )

    async def partitions_for(self, topic: str) -> int:
        """Return the partition count of a topic. Raises KafkaError if the topic does not exist."""
        return (await self.cluster.topic(topic, self.config.default_api_timeout_ms)).partition_count

    # Commits

    async def commit(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        """Commit these offsets, which are those of the next records to read.

        By default they are the offsets after all polled records. An offset that equals the position
        is committed with the leader epoch of the record before it (KIP-320). With this epoch, a
        reader that continues there notices that it asks a leader which was replaced.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION or REBALANCE_IN_PROGRESS, the member
                lost its place in the group. INVALID_GROUP_ID, the consumer has no group.
            TypeError, ValueError: a partition or an offset is not valid.
        """
        self._require_open()
        await self._committer.commit(self._to_commit(positions), self.config.default_api_timeout_ms)

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the position of each partition that has one, unless it is committed already.

        ``commit`` commits these positions by default.

        Raises:
            KafkaError: INVALID_REQUEST, the consumer is closed.
        """
        self._require_open()
        return self._committer.consumed()

    def commit_soon(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        on_commit: CommitCallback | None = None,
    ) -> None:
        """Commit offsets without waiting for the result. ``on_commit`` gets it later.

        Commits keep their order, and closing waits for them.

        Raises:
            KafkaError: INVALID_REQUEST, the consumer is closed.
            TypeError, ValueError: a partition or an offset is not valid, or ``on_commit`` cannot be
                called.
        """
        self._require_open()
        self._committer.commit_soon(self._to_commit(positions), on_commit)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of the group. Partitions without a commit are left out.

        Raises:
            KafkaError: INVALID_GROUP_ID, the consumer has no group.
        """
        if self.config.group_id is None:
            raise KafkaError(
                ErrorCode.INVALID_GROUP_ID, "a consumer without group_id has committed nothing"
            )
        self._require_open()
        return dict(await self._positions.committed(arguments.partitions(partitions)))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group membership for ``Producer.send_offsets_to_transaction`` (KIP-447).

        Call it for each transaction, because it changes when ``poll`` takes over the partitions of
        a rebalance. If the group has dropped this member, its old id is returned, so that the
        transaction fails to commit the offsets. A consumer with automatic commits logs a warning,
        because the records of an aborted transaction would not be read again.

        Raises:
            KafkaError: INVALID_GROUP_ID, the consumer has no group.
        """
        if self.config.group_id is None:
            raise KafkaError(
                ErrorCode.INVALID_GROUP_ID, "a consumer without group_id is in no group"
            )
        self._transaction_warning.maybe_log()
        member = self._membership
        member_id, generation_id = ("", -1) if member is None else member.taken_as
        return ConsumerGroupMetadata(
            group_id=self.config.group_id,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=None if member is None else self.config.group_instance_id,
        )

    def metrics(self) -> ConsumerMetrics:
        """Return the metrics of the consumer so far; see the module ``client.metrics``."""
        lags = {
            state.topic_partition: self.lag(state.topic_partition) for state in self._subscriptions
        }
        known = {each: lag for each, lag in lags.items() if lag is not None}
        return self._meter.metrics(
            self._cluster.metrics(), known, self._fetcher.buffered_bytes, len(self._subscriptions)
        )

    # Internal steps

    async def _advance(self) -> None:
        """Run the steps of the group, start an automatic commit, and raise pending errors."""
        if self._rebalancer is not None and not self._is_leaving:
            if self._cluster.view.version != self._view_version:
                self._view_version = self._cluster.view.version
                if self._topics.match_again():
                    self._rebalancer.subscribed("the topics that match the pattern changed")
                self._rebalancer.look_at(self._cluster.view)
            await self._rebalancer.advance()
        if self._committer.is_automatic and self._now_ms() >= self._committer.due_ms:
            self._committer.commit_interval_soon()
        if self._is_error_due:
            self._is_error_due = False
            self._raise_errors()
        if not self._positions.has_error:
            self._positions.find_missing()
        self._fetcher.wake()

    def _raise_errors(self) -> None:
        """Raise the first permanent error of a topic or partition, if there is one."""
        self._topics.raise_refusal()
        self._positions.raise_error()
        self._fetcher.raise_error()

    async def _wait_for_change(self, deadline: float) -> None:
        if self._committer.is_automatic and self._committer.consumed():
            until_due_s = (self._committer.due_ms - self._now_ms()) / 1_000
            deadline = min(deadline, trio.current_time() + max(until_due_s, 0.001))
        with trio.move_on_at(deadline):
            await self._changed.wait()

    def _to_commit(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return (
            self._committer.consumed()
            if positions is None
            else self._committer.with_epochs(as_offsets(positions))
        )

    def _require_open(self) -> None:
        if not self._is_open:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the consumer is closed: use it inside 'async with'"
            )

    async def _close(self, *, is_committing: bool) -> None:
        await self._committer.settle_soon()
        if self._rebalancer is not None:
            await self._rebalancer.leave(is_committing=is_committing)
        elif is_committing:
            await self._committer.commit_consumed()
        self._is_open = False  # only now, because callbacks of the last revocation may commit
        await self._fetcher.end_sessions()

    def _note_change(self) -> None:
        self._changed.set()

    def _now_ms(self) -> int:
        return self._env.clock.monotonic_ms()
