"""The consumer: reads records of partitions that the application or a group assigned, and commits how far it came.

Decides what one ``poll`` does and in which order: it heeds the group, returns what is ready, else waits. Fetching, finding positions,
joining and heartbeats go on in tasks of their own. They never change the assignment: that happens inside ``poll`` only.

A poll that has returned records is followed by one that raises first, every other one returns records first: so neither the records of
partitions nor the errors of others wait for ever, however long the application waits between two polls.

Invariants: the position of a partition is behind the last record that ``poll`` returned of it; what is committed automatically was returned
by a ``poll`` before the one that commits it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from operator import index
from re import Pattern
from types import TracebackType
from typing import Any, Self

import trio

from log_service.client import arguments
from log_service.client.admin.groups import as_offsets
from log_service.client.admin.values import ConsumerGroupMetadata, FoundOffset, OffsetAndMetadata, OffsetSpec
from log_service.client.connections.cluster_metadata import REFUSED_TOPICS, ClusterMetadata
from log_service.client.connections.env import real_env
from log_service.client.consumer.assignors import ASSIGNORS
from log_service.client.consumer.commits import CommitCallback, Committer
from log_service.client.consumer.consumer_membership import ConsumerMembership
from log_service.client.consumer.fetcher import Fetcher
from log_service.client.consumer.membership import Membership
from log_service.client.consumer.memberships import GroupSteps
from log_service.client.consumer.positions import Positions
from log_service.client.consumer.rebalance import RebalanceCallback, RebalanceCallbacks, Rebalancer
from log_service.client.consumer.reconciler import Reconciler
from log_service.client.consumer.records import ConsumerRecord, Deserializer
from log_service.client.consumer.subscriptions import Start, SubscriptionPattern, Subscriptions
from log_service.client.metrics import ConsumerMeter, ConsumerMetrics
from log_service.common.env import Env
from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.common.types import NO_LEADER_EPOCH, TopicPartition
from log_service.config.client import ConsumerConfig
from log_service.security.outgoing import outgoing_security

logger = logging.getLogger(__name__)

ConsumerInterceptor = Callable[[list[ConsumerRecord]], list[ConsumerRecord]]
"""Sees what a poll returns, and may change it or leave records out. Where it raises, the poll does, and those records are read again."""


class Consumer:
    """Reads records; ``async with`` opens and closes it. Settings are those of ``ConsumerConfig``, as keywords.

    Deserializers turn keys and values into what the application works with, ``interceptors`` see what each poll returns: plain functions.
    Leaving the block commits what was polled (where that is automatic) unless an exception leaves it: then the last records polled may
    not have been worked on, and are read again.
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
        unknown = [name for name in self.config.partition_assignment_strategy if name not in ASSIGNORS]
        if unknown:
            raise ConfigError(f"partition_assignment_strategy: there is no assignor {unknown[0]!r}; there are {', '.join(ASSIGNORS)}")
        self._env = env or real_env()
        self._security = outgoing_security(self.config.security(), self._env.rng)
        self._deserializers = (key_deserializer, value_deserializer)
        self._interceptors = tuple(interceptors)
        self._meter = ConsumerMeter(self._now_ms, self.config.enable_metrics)
        self._pattern: Pattern[str] | None = None
        self._is_woken = self._is_polling = self._is_error_due = False
        self._subscriptions = Subscriptions()
        self._rebalancer: GroupSteps | None = None
        self._membership: Membership | ConsumerMembership | None = None
        self._is_leaving = False
        self._next: tuple[RebalanceCallbacks, str] | None = None  # of what is subscribed while the membership before leaves
        self._is_auto_commit_told = False
        self._stack = AsyncExitStack()
        self._changed = trio.Event()
        self._view_version = 0
        self._refusals: Mapping[str, ErrorCode] | None = None
        self._missing: frozenset[str] = frozenset()
        self._is_open = False

    def __repr__(self) -> str:
        return f"<Consumer group={self.config.group_id} {'open' if self._is_open else 'closed'} partitions={len(self._subscriptions)}>"

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
        self._fetcher = Fetcher(
            self._cluster, self.config, self._subscriptions, self._deserializers, on_change=self._note_change, meter=self._meter
        )
        self._positions = Positions(
            self._cluster, self.config, self._subscriptions, on_found=self._fetcher.wake, on_error=self._note_change
        )
        self._committer = Committer(self._cluster, self.config, self._subscriptions, self._meter)
        for task in (self._fetcher.run, self._committer.run, self._cluster.keep_fresh, self._positions.run):
            self._nursery.start_soon(task)
        self._is_open = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + self.config.request_timeout_ms / 1_000):
                await self._close(is_committing=error is None)
        finally:
            self._is_open = False
            self._nursery.cancel_scope.cancel()
            await self._stack.aclose()  # without the exception, which the nursery would wrap

    @property
    def cluster(self) -> ClusterMetadata:
        """The client's view of its cluster. Raises KafkaError (INVALID_REQUEST) once the consumer is closed."""
        self._require_open()
        return self._cluster

    # What is read

    async def subscribe(
        self,
        topics: Iterable[str] | Pattern[str] | SubscriptionPattern,
        *,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Read these topics together with the other members of the group; replaces an earlier subscription.

        A compiled pattern stands for all topics whose whole name matches it, now and later: new ones are noticed within
        ``metadata_max_age_ms``. Internal topics are left out unless ``exclude_internal_topics`` is False. A ``SubscriptionPattern`` is
        matched by the broker, for ``group_protocol="consumer"`` alone: the client then hears of the topics that it is assigned only.

        Raises:
            ConfigError: the consumer has no ``group_id``, partitions were assigned by hand, or its protocol knows no patterns of brokers.
            KafkaError: the topics that a pattern is to match cannot be listed.
            TypeError: the topics are one text, or one of them is none.
        """
        self._require_open()
        if self.config.group_id is None:
            raise ConfigError("subscribe() needs a group_id; use assign() to read without a group")
        if self._rebalancer is None and len(self._subscriptions):
            raise ConfigError("partitions were assigned by hand: unsubscribe() first")
        if isinstance(topics, SubscriptionPattern) and self.config.group_protocol != "consumer":
            raise ConfigError("a SubscriptionPattern needs group_protocol='consumer'; a compiled pattern works with 'classic', too")
        named = () if isinstance(topics, Pattern | SubscriptionPattern) else arguments.names(topics, "topics")
        if isinstance(topics, Pattern):
            await self._list_topics()
            self._pattern, self._subscriptions.topics = topics, self._matching(topics)
        else:
            self._cluster.watch_only(named)
            self._cluster.watch_all(is_on=False)
            self._pattern, self._subscriptions.topics = None, frozenset(named)
        callbacks = RebalanceCallbacks(on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost)
        regex = topics.pattern if isinstance(topics, SubscriptionPattern) else ""
        if self._is_leaving:
            self._next = callbacks, regex
        else:
            self._take_part(callbacks, regex)
        await trio.lowlevel.checkpoint()

    def _take_part(self, callbacks: RebalanceCallbacks, regex: str) -> None:
        """Have the steps of a member of the group that wants the subscribed topics; the consumer becomes one if it is none yet."""
        self._rebalancer = self._steps(callbacks, regex)
        self._rebalancer.subscribed("the subscription changed")

    def _steps(self, callbacks: RebalanceCallbacks, regex: str) -> GroupSteps:
        """Return the steps of a member in the protocol that the consumer speaks."""
        membership: Membership | ConsumerMembership
        if self._membership is not None:
            membership = self._membership
        else:
            assert self.config.group_id is not None, "subscribe() looked"
            kind = ConsumerMembership if self.config.group_protocol == "consumer" else Membership
            membership = self._membership = kind(self._cluster, self.config, self.config.group_id, self._note_change, self._meter)
            self._committer.commit_as(membership)
            self._nursery.start_soon(membership.run)
        if isinstance(membership, ConsumerMembership):
            return Reconciler(self.config, self._subscriptions, membership, self._committer, callbacks, regex=regex, meter=self._meter)
        return Rebalancer(
            self.config, self._subscriptions, membership, self._committer, callbacks, is_creating_topics=self._pattern is None
        )

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group; those that were read before stay where they are.

        Raises:
            ConfigError: the consumer is subscribed.
            TypeError, ValueError: there can be no such partition.
        """
        self._require_open()
        if self._rebalancer is not None:
            raise ConfigError("the consumer is subscribed: unsubscribe() first")
        wanted = arguments.partitions(partitions)
        self._cluster.watch_only({each.topic for each in wanted})
        self._subscriptions.assign(wanted, Start.COMMITTED)
        self._positions.find_missing()

    async def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group; also where it is cancelled, or ``on_revoked`` raises."""
        rebalancer = self._rebalancer
        self._is_leaving, self._next = rebalancer is not None, None
        try:
            if rebalancer is not None:
                await rebalancer.leave(is_committing=True)
        finally:
            if self._rebalancer is rebalancer:  # another task that unsubscribes may have ended it
                self._note_left()

    def _note_left(self) -> None:
        """Read nothing any more, except what another task has subscribed meanwhile."""
        self._is_leaving = False
        self._subscriptions.revoke(self._subscriptions.assigned)
        if self._membership is None:
            return
        self._rebalancer = self._membership = None
        self._committer.commit_as(None)
        if self._next is None:
            self._subscriptions.topics, self._pattern = frozenset(), None
            self._cluster.watch_all(is_on=False)
        elif self._is_open:
            self._take_part(*self._next)

    def enforce_rebalance(self, reason: str = "") -> None:
        """Let the group rebalance when this consumer polls next, as something changed that only the application knows (KIP-568, KIP-800).

        Raises:
            ConfigError: the consumer is not subscribed, or the broker assigns (``group_protocol="consumer"``).
        """
        self._require_open()
        if self._membership is None:
            raise ConfigError("the consumer is in no group: subscribe() first")
        if not isinstance(self._membership, Membership):
            raise ConfigError("enforce_rebalance() means nothing with group_protocol='consumer': the broker decides when it assigns")
        self._membership.request_join(reason or "the application asked for a rebalance")

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now, sorted."""
        return self._subscriptions.assigned

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed."""
        return self._subscriptions.topics

    # Records

    async def poll(self, max_records: int | None = None, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Return records, at most ``max_records`` (default ``max_poll_records``), as soon as there are any; none after ``timeout_ms``.

        Rebalance callbacks are called in here. A cancelled poll loses nothing, nor does one that raises. What a partition failed with is
        raised where no records are ready, and by the poll behind one that returned some: an error keeps no other partition waiting, and
        records keep no error waiting.

        Topics that the cluster refuses (no right to them, no such names) are raised together, each time that it says so; one that is
        subscribed by name and not there yet is logged.

        Raises:
            RecordDeserializationError: a deserializer failed; polling again meets the same record, seeking behind it skips it.
            TypeError, ValueError: ``max_records`` is no positive whole number.
            KafkaError: what a fetch, a position or the group failed with for good; INVALID_REQUEST, it is closed, or polled already.
        """
        self._require_open()
        if self._is_polling:
            text = "another task or thread polls this consumer, or a callback of its own does: one poll at a time"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        self._meter.note_poll()
        deadline = trio.current_time() + timeout_ms / 1_000
        limit = self.config.max_poll_records if max_records is None else arguments.record_limit(max_records)
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
                    records = self._intercepted(records)
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
        """End the poll that waits, or else the next one, at once, with no records if none are ready."""
        self._is_woken = True
        self._note_change()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Return the next record, waiting for ever; the position is behind it, so leaving the loop skips nothing. ``poll`` is faster."""
        while True:
            records = await self.poll(max_records=1, timeout_ms=self.config.default_api_timeout_ms)
            if records:
                return records[0]

    # Positions

    async def position(self, topic_partition: TopicPartition) -> int:
        """Return the offset of the next record that ``poll`` would return, finding it if need be.

        Raises:
            ValueError: the partition is not assigned.
            KafkaError: OFFSET_OUT_OF_RANGE, there is none and ``auto_offset_reset`` is none.
        """
        self._require_open()
        return await self._positions.position(topic_partition)

    async def seek(self, topic_partition: TopicPartition, offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Read on at ``offset``; records fetched already are dropped.

        ``leader_epoch`` of the record before it, where it is known (a commit carries it), lets a truncation be noticed (KIP-320).

        Raises:
            ValueError: the partition is not assigned, or there can be no such offset.
            TypeError: the offset or the epoch is no whole number.
        """
        self._subscriptions.of(topic_partition).seek(arguments.offset(offset), index(leader_epoch))
        self._fetcher.wake()
        await trio.lowlevel.checkpoint()

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Read on at the log start offset of these partitions (default: all that are assigned)."""
        self._require_open()
        await self._positions.move_to(partitions, Start.EARLIEST)

    async def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Read on at the end of these partitions (default: all): the high watermark, or the last stable offset with read_committed."""
        self._require_open()
        await self._positions.move_to(partitions, Start.LATEST)

    async def seek_to_committed(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Read on at what the group has committed (default: of all that are assigned), as after a transaction that was aborted.

        ``auto_offset_reset`` decides where nothing is committed.
        """
        self._require_open()
        await self._positions.move_to(partitions, Start.COMMITTED)

    async def seek_to_time(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Read on at the first record whose timestamp is at least that; at the end where there is none. Returns the offsets."""
        self._require_open()
        return await self._positions.move_to_times(times_ms)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until ``resume``; they stay assigned. Raises ValueError if one is not."""
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
        """The partitions that are paused."""
        return self._subscriptions.paused

    # Where partitions begin and end; they need not be assigned

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Return how many offsets lie between the position and the end that a reader sees, as of the last fetch: no request is made.

        None before the first response. Raises ValueError if the partition is not assigned.
        """
        return self._subscriptions.of(topic_partition).lag(is_stable_only=bool(self.config.isolation))

    async def current_lag(self, topic_partition: TopicPartition) -> int:
        """Return the lag; asks for position and end where no fetch has told them yet. Raises as ``position``."""
        known = self.lag(topic_partition)
        if known is not None:
            return known
        position = await self.position(topic_partition)
        return max((await self.end_offsets([topic_partition]))[topic_partition] - position, 0)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log start offsets. Raises KafkaError (``ItemsFailed``) where there is no such partition."""
        self._require_open()
        return await self._positions.ends(partitions, OffsetSpec.earliest())

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends that a reader sees: high watermarks, or last stable offsets with read_committed. Raises as the beginnings."""
        self._require_open()
        return await self._positions.ends(partitions, OffsetSpec.latest())

    async def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """Return the first record, by partition, whose timestamp is at least that; its offset is -1 where there is none."""
        self._require_open()
        return await self._positions.list_offsets(
            {each: OffsetSpec.at(time_ms) for each, time_ms in arguments.by_partition(times_ms, "times").items()}
        )

    async def partitions_for(self, topic: str) -> int:
        """Return how many partitions a topic has. Raises KafkaError if there is none."""
        return (await self.cluster.topic(topic, self.config.default_api_timeout_ms)).partition_count

    # Commits

    async def commit(self, positions: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None) -> None:
        """Commit these offsets (default: behind all records that ``poll`` returned): the next ones to read.

        An offset that is the position is committed with the leader epoch of the record before it (KIP-320). Who reads on there knows by
        it of a leader that has not heard of its successor.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS: the group went on; INVALID_GROUP_ID: there is none.
            TypeError, ValueError: there can be no such partition or offset.
        """
        self._require_open()
        await self._committer.commit(self._to_commit(positions), self.config.default_api_timeout_ms)

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what ``commit`` commits by itself: the offsets behind all records that ``poll`` returned, where not committed yet.

        Raises:
            KafkaError: INVALID_REQUEST, the consumer is closed.
        """
        self._require_open()
        return self._committer.consumed()

    def commit_soon(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, on_commit: CommitCallback | None = None
    ) -> None:
        """Commit without waiting; ``on_commit`` hears how it went. Commits keep their order, and closing waits for them.

        Raises:
            KafkaError: INVALID_REQUEST, the consumer is closed.
            TypeError, ValueError: there can be no such partition or offset; ``on_commit`` cannot be called.
        """
        self._require_open()
        if on_commit is not None and not callable(on_commit):
            raise TypeError(f"on_commit is called with the offsets and the error: {on_commit!r} cannot be called")
        self._committer.commit_soon(self._to_commit(positions), on_commit)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what the group committed; partitions without a commit are left out.

        Raises:
            KafkaError: INVALID_GROUP_ID, the consumer has no group.
        """
        if self.config.group_id is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a consumer without group_id has committed nothing")
        self._require_open()
        return dict(await self._positions.committed(arguments.partitions(partitions)))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return who this consumer is in its group now, for ``Producer.send_offsets_to_transaction`` (KIP-447).

        Ask for it for each transaction: it changes with every rebalance, once ``poll`` has taken that over. A member that its group has
        forgotten meanwhile is told by its old name, so that the transaction is refused its offsets. A consumer that commits by itself is
        warned of: the records of an aborted transaction would not be read again.

        Raises:
            KafkaError: INVALID_GROUP_ID, the consumer has no group.
        """
        if self.config.group_id is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a consumer without group_id is in no group")
        if self.config.enable_auto_commit and not self._is_auto_commit_told:
            self._is_auto_commit_told = True
            logger.warning(
                "group %s: enable_auto_commit is on beside transactions: what an aborted one read is lost. Set it to False",
                self.config.group_id,
            )
        member = self._membership
        member_id, generation_id = ("", -1) if member is None else member.taken_as
        return ConsumerGroupMetadata(
            group_id=self.config.group_id,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=None if member is None else self.config.group_instance_id,
        )

    def metrics(self) -> ConsumerMetrics:
        """Return what the consumer counted so far; see ``metrics``."""
        lags = {state.topic_partition: self.lag(state.topic_partition) for state in self._subscriptions}
        known = {each: lag for each, lag in lags.items() if lag is not None}
        return self._meter.metrics(self._cluster.metrics(), known, self._fetcher.buffered_bytes, len(self._subscriptions))

    # Inside

    async def _advance(self) -> None:
        """Everything that has to happen before records may be handed out."""
        if self._rebalancer is not None and not self._is_leaving:
            if self._cluster.view.version != self._view_version:
                self._view_version = self._cluster.view.version
                self._match_again()
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
        """Raise what topics and partitions failed with for good, one error at a time."""
        self._raise_refusal()
        self._positions.raise_error()
        self._fetcher.raise_error()

    def _raise_refusal(self) -> None:
        """Raise where the cluster refuses topics that are read, each time that it says so; what is subscribed and not there may come."""
        view = self._cluster.view
        if view.errors is self._refusals or self._pattern is not None:  # a view that changes without a response keeps them
            return
        self._refusals = view.errors
        self._warn_of_missing()
        read = self._subscriptions.topics.union(each.topic for each in self._subscriptions.assigned)
        refused = {topic: view.errors[topic] for topic in sorted(read & view.errors.keys()) if view.errors[topic] in REFUSED_TOPICS}
        if refused:
            named = ", ".join(f"{topic!r} ({code.name})" for topic, code in refused.items())
            raise KafkaError(next(iter(refused.values())), f"topics cannot be read: {named}")

    def _warn_of_missing(self) -> None:
        """Log once which topics are subscribed by name and not there."""
        view, subscribed = self._cluster.view, self._subscriptions.topics
        missing = frozenset(topic for topic in subscribed if view.errors.get(topic) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for topic in sorted(missing - self._missing):
            text = "group %s: the topic %s is subscribed and not there: nothing comes of it until it is created"
            logger.warning(text, self.config.group_id, topic)
        self._missing = missing | (self._missing & subscribed).difference(view.topics)  # it may tell of others alone

    async def _wait_for_change(self, deadline: float) -> None:
        if self._committer.is_automatic and self._committer.consumed():
            until_due_s = (self._committer.due_ms - self._now_ms()) / 1_000
            deadline = min(deadline, trio.current_time() + max(until_due_s, 0.001))
        with trio.move_on_at(deadline):
            await self._changed.wait()

    async def _list_topics(self) -> None:
        """Know all topics of the cluster from now on; where they cannot be listed nothing changes."""
        self._cluster.watch_all(is_on=True)
        try:
            await self._cluster.retry(self._cluster.refresh, self.config.default_api_timeout_ms, is_refreshing=False)
        except BaseException:
            self._cluster.watch_all(is_on=self._pattern is not None)
            raise

    def _matching(self, pattern: Pattern[str]) -> frozenset[str]:
        """Return the topics that a pattern stands for now."""
        topics = self._cluster.view.topics.values()
        is_internal_wanted = not self.config.exclude_internal_topics
        return frozenset(topic.name for topic in topics if (is_internal_wanted or not topic.is_internal) and pattern.fullmatch(topic.name))

    def _match_again(self) -> None:
        """The cluster changed: so may what the pattern stands for."""
        if self._pattern is None or self._rebalancer is None:
            return
        matching = self._matching(self._pattern)
        if matching != self._subscriptions.topics:
            logger.info("group %s: %d topics match %r now", self.config.group_id, len(matching), self._pattern.pattern)
            self._subscriptions.topics = matching
            self._rebalancer.subscribed("the topics that match the pattern changed")

    def _intercepted(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Let the interceptors see the records; where one raises, they are read again."""
        seen = records
        try:
            for interceptor in self._interceptors:
                seen = _listed(interceptor(seen))
        except BaseException:
            for record in reversed(records):
                self._subscriptions.of(record.topic_partition).seek(record.offset)
            raise
        return seen

    def _to_commit(self, positions: Mapping[TopicPartition, OffsetAndMetadata | int] | None) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return self._committer.consumed() if positions is None else self._committer.with_epochs(as_offsets(positions))

    def _require_open(self) -> None:
        if not self._is_open:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the consumer is closed: use it inside 'async with'")

    async def _close(self, *, is_committing: bool) -> None:
        await self._committer.settle_soon()
        if self._rebalancer is not None:
            await self._rebalancer.leave(is_committing=is_committing)
        elif is_committing:
            await self._committer.commit_consumed()
        self._is_open = False  # the callbacks of the last revocation could still commit
        await self._fetcher.end_sessions()

    def _note_change(self) -> None:
        self._changed.set()

    def _now_ms(self) -> int:
        return self._env.clock.monotonic_ms()


def _listed(records: list[ConsumerRecord]) -> list[ConsumerRecord]:
    """Return what an interceptor returned; raises TypeError where that is no list: with None, all records were skipped."""
    if not isinstance(records, list):
        raise TypeError(f"an interceptor returns a list of records, not {type(records).__name__}")
    return records
