"""The consumer: reads records of partitions that were assigned by hand or by a group, and commits how far it came.

Decides what one ``poll`` does and in which order: heed the group, hand out what is ready, else wait. Fetching, finding positions, joining
and beating go on in tasks of their own, and never touch what the application has not polled for: assignments change inside ``poll`` only.

Invariants: the position of a partition is behind the last record that ``poll`` returned of it; what is committed automatically was returned
by a ``poll`` before the one that commits it.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import trio

from log_service.client import offsets
from log_service.client.admin_groups import as_offset
from log_service.client.admin_values import OffsetAndMetadata, OffsetSpec
from log_service.client.assignors import ASSIGNORS
from log_service.client.cluster_metadata import ClusterMetadata
from log_service.client.commits import Committer
from log_service.client.env import real_env
from log_service.client.fetcher import Fetcher
from log_service.client.membership import Membership
from log_service.client.positions import committed_offsets, find_positions
from log_service.client.rebalance import RebalanceCallback, RebalanceCallbacks, Rebalancer
from log_service.client.record_view import ConsumerRecord, Deserializer
from log_service.client.subscriptions import PartitionState, Start, Subscriptions
from log_service.common.env import Env
from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.config.client import ConsumerConfig

CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], None]
"""Called once with the offsets and the error, None where they were committed."""


class Consumer:
    """Reads records; ``async with`` opens and closes it. Settings are those of ``ConsumerConfig``, as keywords.

    Leaving the block commits what was polled (where that is automatic) unless an exception leaves it: then the last records polled may
    not have been worked on, and are read again.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        env: Env | None = None,
        **settings: Any,
    ) -> None:
        self.config = ConsumerConfig.of(bootstrap_servers, settings)
        unknown = [name for name in self.config.partition_assignment_strategy if name not in ASSIGNORS]
        if unknown:
            raise ConfigError(f"partition_assignment_strategy: there is no assignor {unknown[0]!r}; there are {', '.join(ASSIGNORS)}")
        self._env = env or real_env()
        self._deserializers = (key_deserializer, value_deserializer)
        self._subscriptions = Subscriptions()
        self._rebalancer: Rebalancer | None = None
        self._membership: Membership | None = None
        self._stack = AsyncExitStack()
        self._changed = trio.Event()
        self._is_position_wanted = trio.Event()
        self._position_error: KafkaError | None = None
        self._view_version = 0
        self._is_open = False

    def __repr__(self) -> str:
        return f"<Consumer group={self.config.group_id} {'open' if self._is_open else 'closed'} partitions={len(self._subscriptions)}>"

    async def __aenter__(self) -> Self:
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        self.cluster = ClusterMetadata(self._env, self.config, self._nursery, is_auto_create_allowed=self.config.allow_auto_create_topics)
        self._fetcher = Fetcher(self.cluster, self.config, self._subscriptions, self._deserializers, self._note_change)
        self._committer = Committer(self.cluster, self.config, self._subscriptions)
        for task in (self._fetcher.run, self.cluster.keep_fresh, self._keep_positions):
            self._nursery.start_soon(task)
        self._is_open = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + self.config.request_timeout_ms / 1_000):
                await self._close(is_committing=error is None)
        finally:
            self._nursery.cancel_scope.cancel()
            await self._stack.aclose()  # without the exception, which the nursery would wrap

    # What is read

    async def subscribe(
        self,
        topics: Iterable[str],
        *,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Read these topics together with the other members of the group; replaces an earlier subscription.

        Raises:
            ConfigError: the consumer has no ``group_id``, or partitions were assigned by hand.
        """
        if self.config.group_id is None:
            raise ConfigError("subscribe() needs a group_id; use assign() to read without a group")
        if self._rebalancer is None and len(self._subscriptions):
            raise ConfigError("partitions were assigned by hand: unsubscribe() first")
        self._subscriptions.topics = frozenset(topics)
        self.cluster.watch(self._subscriptions.topics)
        if self._membership is None:
            self._membership = Membership(self.cluster, self.config, self.config.group_id, self._note_change)
            self._committer.membership = self._membership
            self._nursery.start_soon(self._membership.run)
        callbacks = RebalanceCallbacks(on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost)
        self._rebalancer = Rebalancer(self.config, self._subscriptions, self._membership, self._committer, callbacks)
        self._membership.request_join("the subscription changed")
        await trio.lowlevel.checkpoint()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group; those that were read before stay where they are.

        Raises:
            ConfigError: the consumer is subscribed.
        """
        if self._rebalancer is not None:
            raise ConfigError("the consumer is subscribed: unsubscribe() first")
        wanted = list(partitions)
        self.cluster.watch({each.topic for each in wanted})
        self._subscriptions.assign(wanted, Start.COMMITTED)
        self._is_position_wanted.set()

    async def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        if self._rebalancer is not None and self._membership is not None:
            await self._rebalancer.leave(is_committing=True)
            self._membership.end()
            self._rebalancer = self._membership = self._committer.membership = None
            self._subscriptions.topics = frozenset()
        self._subscriptions.revoke(self._subscriptions.assigned)

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

        Rebalance callbacks are called in here. A cancelled poll loses nothing.

        Raises:
            KafkaError: what a fetch, a position or the group failed with for good.
        """
        deadline = trio.current_time() + timeout_ms / 1_000
        limit = self.config.max_poll_records if max_records is None else max_records
        if self._membership is not None:
            self._membership.note_poll(is_polling=True)
        try:
            while True:
                self._changed = trio.Event()
                await self._advance()
                records = self._fetcher.take(limit)
                if records:
                    return records
                await self._wait_for_change(deadline)
                if trio.current_time() >= deadline and not self._changed.is_set():
                    return []
        finally:
            if self._membership is not None:
                self._membership.note_poll(is_polling=False)

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
        state = self._subscriptions.of(topic_partition)
        if not state.has_position:
            await find_positions(self.cluster, self.config, [state])
            self._fetcher.wake()
        return state.position

    async def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Read on at ``offset``; records fetched already are dropped. Raises ValueError if the partition is not assigned."""
        if offset < 0:
            raise ValueError(f"an offset is not negative: {offset}")
        self._subscriptions.of(topic_partition).seek(offset)
        self._fetcher.wake()
        await trio.lowlevel.checkpoint()

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Read on at the log start offset of these partitions (default: all that are assigned)."""
        await self._seek_to(partitions, Start.EARLIEST)

    async def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Read on at the end of these partitions (default: all): the high watermark, or the last stable offset with read_committed."""
        await self._seek_to(partitions, Start.LATEST)

    async def seek_to_time(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Read on at the first record whose timestamp is at least that; at the end where there is none. Returns the offsets."""
        states = {each: self._subscriptions.of(each) for each in times_ms}
        specs = {each: OffsetSpec.at(time_ms) for each, time_ms in times_ms.items()}
        found = await offsets.list_offsets(self.cluster, specs, self.config.isolation, self.config.default_api_timeout_ms)
        for each, state in states.items():
            if found[each].offset >= 0:
                state.seek(found[each].offset)
            else:
                state.seek_to(Start.LATEST)
        await find_positions(self.cluster, self.config, states.values())
        self._fetcher.wake()
        return {each: state.position for each, state in states.items()}

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
        return sorted(state.topic_partition for state in self._subscriptions if state.is_paused)

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Return how many offsets lie between the position and the end that a reader sees; None before the first answer."""
        state = self._subscriptions.of(topic_partition)
        end = state.last_stable_offset if self.config.isolation else state.high_watermark
        return None if end < 0 or not state.has_position else max(end - state.position, 0)

    async def partitions_for(self, topic: str) -> int:
        """Return how many partitions a topic has. Raises KafkaError if there is none."""
        return (await self.cluster.topic(topic, self.config.default_api_timeout_ms)).partition_count

    # Commits

    async def commit(self, positions: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None) -> None:
        """Commit these offsets (default: behind all records that ``poll`` returned): the next ones to read.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS: the group went on; INVALID_GROUP_ID: there is none.
        """
        await self._committer.commit(self._to_commit(positions), self.config.default_api_timeout_ms)

    def commit_soon(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, on_commit: CommitCallback | None = None
    ) -> None:
        """Commit without waiting; ``on_commit`` hears how it went. Commits keep their order."""
        self._nursery.start_soon(self._commit_and_tell, self._to_commit(positions), on_commit)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what the group committed; partitions without a commit are left out.

        Raises:
            KafkaError: INVALID_GROUP_ID, the consumer has no group.
        """
        if self.config.group_id is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a consumer without group_id has committed nothing")
        return dict(await committed_offsets(self.cluster, self.config, list(partitions)))

    # Inside

    async def _advance(self) -> None:
        """Everything that has to happen before records may be handed out."""
        if self._rebalancer is not None:
            if self.cluster.view.version != self._view_version:
                self._view_version = self.cluster.view.version
                self._rebalancer.look_at(self.cluster.view)
            await self._rebalancer.advance()
        if self._committer.is_automatic and self._now_ms() >= self._committer.due_ms:
            self._nursery.start_soon(self._committer.commit_quietly, self._committer.start_interval())
        error, self._position_error = self._position_error, None
        if error is not None:
            raise error
        self._fetcher.raise_error()
        if self._subscriptions.without_position():
            self._is_position_wanted.set()
        self._fetcher.wake()

    async def _wait_for_change(self, deadline: float) -> None:
        if self._committer.is_automatic and self._committer.consumed():
            until_due_s = (self._committer.due_ms - self._now_ms()) / 1_000
            deadline = min(deadline, trio.current_time() + max(until_due_s, 0.001))
        with trio.move_on_at(deadline):
            await self._changed.wait()

    async def _keep_positions(self) -> None:
        """Find the positions of partitions that have none, for ever."""
        while True:
            await self._is_position_wanted.wait()
            self._is_position_wanted = trio.Event()
            try:
                await find_positions(self.cluster, self.config, self._subscriptions.without_position())
            except KafkaError as error:
                self._position_error = error
                self._note_change()
                await trio.sleep(self.cluster.backoff_ms(0) / 1_000)
            self._fetcher.wake()

    async def _seek_to(self, partitions: Iterable[TopicPartition], start: Start) -> None:
        states = self._states(partitions)
        for state in states:
            state.seek_to(start)
        await find_positions(self.cluster, self.config, states)
        self._fetcher.wake()

    def _states(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        named = list(partitions)
        return [self._subscriptions.of(each) for each in named] if named else list(self._subscriptions)

    def _to_commit(self, positions: Mapping[TopicPartition, OffsetAndMetadata | int] | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if positions is None:
            return self._committer.consumed()
        return {each: as_offset(offset) for each, offset in positions.items()}

    async def _commit_and_tell(self, positions: dict[TopicPartition, OffsetAndMetadata], on_commit: CommitCallback | None) -> None:
        failure: KafkaError | None = None
        try:
            await self._committer.commit(positions, self.config.default_api_timeout_ms)
        except KafkaError as error:
            failure = error
        if on_commit is not None:
            on_commit(positions, failure)

    async def _close(self, *, is_committing: bool) -> None:
        self._is_open = False
        if self._rebalancer is not None:
            await self._rebalancer.leave(is_committing=is_committing)
        elif is_committing:
            await self._committer.commit_consumed()

    def _note_change(self) -> None:
        self._changed.set()

    def _now_ms(self) -> int:
        return self._env.clock.monotonic_ms()
