"""Finds and moves the positions of a consumer.

A position comes from the group's commits or from the log. This module decides in which order to
ask, what ``auto_offset_reset`` means, and when to try again. It knows nothing of fetching and
polling. ``on_found`` is called when a partition may be fetched, ``on_error`` when a poll has an
error to raise.

Invariants: a position that was moved during a search is not overwritten. A call that fails does not
change the positions that it could not find.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

import trio

from log_service.client import arguments
from log_service.client.admin import offsets
from log_service.client.admin.groups import fetch_offsets, with_coordinator
from log_service.client.admin.values import FoundOffset, ItemsFailed, OffsetAndMetadata, OffsetSpec
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.consumer.subscriptions import PartitionState, Start, Subscriptions
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import TopicId, TopicPartition
from log_service.config.client import ConsumerConfig

logger = logging.getLogger(__name__)

RESETS = {"earliest": Start.EARLIEST, "latest": Start.LATEST}
LOOKED_UP = frozenset({Start.EARLIEST, Start.LATEST, Start.TIME})
MAY_COME = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})
"""Errors of partitions that do not exist or have no leader yet. Reading waits for both."""


class NoResetError(KafkaError):
    """A partition has no position, and ``auto_offset_reset`` none forbids to choose one."""

    def __init__(self, state: PartitionState) -> None:
        text = (
            f"{state.topic_partition} has no offset to read on at, and auto_offset_reset is none:"
            " seek, or set another"
        )
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        self.state = state


class Positions:
    """The positions of one open consumer."""

    def __init__(
        self,
        cluster: ClusterMetadata,
        config: ConsumerConfig,
        subscriptions: Subscriptions,
        *,
        on_found: Callable[[], None],
        on_error: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._subscriptions = subscriptions
        self._on_found = on_found
        self._on_error = on_error
        self._quiet = QuietLogger(logger, cluster.env.clock.monotonic_ms)
        self._wanted = trio.Event()
        self._error: KafkaError | None = None

    # Find positions in the background

    def find_missing(self) -> None:
        """Wake ``run`` if a partition has no position."""
        if self._subscriptions.without_position():
            self._wanted.set()

    @property
    def has_error(self) -> bool:
        """Whether there is an error to raise.

        An error about a partition without a position is dropped if the application has since moved
        the position, or if the partition is no longer assigned.
        """
        error = self._error
        if isinstance(error, NoResetError) and not any(
            state is error.state and state.start is Start.RESET
            for state in self._subscriptions.without_position()
        ):
            self._error = None
            self.find_missing()
        return self._error is not None

    def raise_error(self) -> None:
        """Raise the permanent error of finding a position, if there is one, and clear it.

        The position is looked for again.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE (with auto_offset_reset none),
                GROUP_AUTHORIZATION_FAILED and others.
        """
        if self.has_error:
            error, self._error = self._error, None
            assert error is not None
            raise error

    async def run(self) -> None:
        """Find the positions of partitions that have none, forever."""
        attempt = 0
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            try:
                await self._find(
                    self._subscriptions.without_position(), is_waiting_for_leaders=False
                )
                attempt = 0
            except KafkaError as error:
                if error.code in MAY_COME:
                    self._quiet.warning(error.code, "where to read on is not known yet: %s", error)
                    self._wanted.set()
                else:
                    self._error = error
                self._on_error()
                await trio.sleep(self._cluster.backoff_ms(attempt) / 1_000)
                attempt += 1
            self._on_found()

    # Calls of the application

    async def position(self, topic_partition: TopicPartition) -> int:
        """Return the position of a partition; see ``Consumer.position``."""
        state = self._subscriptions.of(topic_partition)
        if not state.has_position:
            await self._find([state])
            self._on_found()
        return state.position

    async def move_to(self, partitions: Iterable[TopicPartition], start: Start) -> None:
        """Move the positions of these partitions (default: all) to ``start``.

        Raises ValueError if a partition is not assigned.
        """
        named = list(partitions)
        states = (
            [self._subscriptions.of(each) for each in named] if named else list(self._subscriptions)
        )
        for state in states:
            state.seek_to(start)
        await self._find(states)
        self._on_found()

    async def move_to_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Move positions to timestamps, and return them; see ``Consumer.seek_to_time``."""
        states = {
            each: self._subscriptions.of(each) for each in arguments.by_partition(times_ms, "times")
        }
        found = await self.list_offsets(
            {each: OffsetSpec.at(time_ms) for each, time_ms in times_ms.items()}
        )
        for each, state in states.items():
            if found[each].offset >= 0:
                state.seek(found[each].offset)
            else:
                state.seek_to(Start.LATEST)
        await self._find(states.values())
        self._on_found()
        return {each: state.position for each, state in states.items()}

    async def ends(
        self, partitions: Iterable[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        """Return the offset that ``spec`` describes in each partition.

        Raises as ``list_offsets``.
        """
        return {
            each: found.offset
            for each, found in (await self.list_offsets(dict.fromkeys(partitions, spec))).items()
        }

    async def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec]
    ) -> dict[TopicPartition, FoundOffset]:
        """Look offsets up in the log.

        Raises KafkaError (``ItemsFailed``) if a partition does not exist, or as ``arguments``.
        """
        arguments.partitions(specs)
        return await offsets.list_offsets(
            self._cluster, specs, self._config.isolation, self._config.default_api_timeout_ms
        )

    async def committed(
        self, partitions: list[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of the group.

        If a transaction is about to commit some, wait until it has ended (KIP-447). Raises the
        coordinator's ``KafkaError``.
        """
        cluster, group_id = self._cluster, self._config.group_id
        assert group_id is not None, "without a group nothing is committed"

        async def ask() -> dict[TopicPartition, OffsetAndMetadata]:
            connection = await cluster.coordinator(group_id)
            return await fetch_offsets(connection, group_id, partitions, is_stable_required=True)

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
            return await with_coordinator(cluster, group_id, ask)

        return await cluster.retry(attempt, self._config.default_api_timeout_ms)

    # Find positions

    async def _find(
        self, states: Iterable[PartitionState], *, is_waiting_for_leaders: bool = True
    ) -> None:
        """Give a position to every partition without one.

        Without ``is_waiting_for_leaders``, partitions without a leader are left out.

        Raises:
            KafkaError: LEADER_NOT_AVAILABLE, a partition has no leader, and the others have their
                positions. OFFSET_OUT_OF_RANGE, ``auto_offset_reset`` is none and nothing was
                committed. Or an error of the cluster.
        """
        waiting = [state for state in states if not state.has_position]
        await self._take_committed([state for state in waiting if state.start is Start.COMMITTED])
        self._apply_reset([state for state in waiting if state.start is Start.RESET])
        leaderless: list[PartitionState] = []
        if not is_waiting_for_leaders:
            leaderless = await self._leaderless(
                [state for state in waiting if state.start in LOOKED_UP]
            )
        await self._take_ends(
            [state for state in waiting if state.start in LOOKED_UP and state not in leaderless]
        )
        # These partitions have no record at or after the requested time, so they start at the end.
        late = [state for state in waiting if state.start is Start.LATEST]
        await self._take_ends([state for state in late if state not in leaderless])
        if leaderless:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{leaderless[0].topic_partition} has no leader"
            )

    def _apply_reset(self, states: list[PartitionState]) -> None:
        reset = (
            Start.TIME
            if self._config.reset_duration_ms is not None
            else RESETS.get(self._config.auto_offset_reset)
        )
        for state in states:
            if reset is None:
                raise NoResetError(state)
            state.seek_to(reset)

    async def _take_committed(self, states: list[PartitionState]) -> None:
        if not states:
            return
        versions = {state.topic_partition: state.version for state in states}
        topic_ids = self._topic_ids(states)
        found = await self.committed(list(versions)) if self._config.group_id is not None else {}
        for state in states:
            if (
                state.version != versions[state.topic_partition]
                or state.start is not Start.COMMITTED
            ):
                continue
            committed = found.get(state.topic_partition)
            if committed is None:
                state.seek_to(Start.RESET)
            else:
                state.seek(
                    committed.offset,
                    committed.leader_epoch,
                    topic_id=topic_ids[state.topic_partition.topic],
                )

    async def _leaderless(self, states: list[PartitionState]) -> list[PartitionState]:
        """Return the existing partitions that have no leader even in a new view.

        A search for their positions would delay the other partitions.
        """
        cluster = self._cluster

        def found() -> list[PartitionState]:
            partitions = [(state, state.topic_partition) for state in states]
            return [
                state
                for state, each in partitions
                if cluster.view.partition(each) is not None and cluster.view.leader_of(each) < 0
            ]

        if found() or any(
            state.topic_partition.topic not in cluster.view.topics for state in states
        ):
            await cluster.retry(
                cluster.refresh, self._config.default_api_timeout_ms, is_refreshing=False
            )
        return found()

    async def _take_ends(self, states: list[PartitionState]) -> None:
        """Look up offsets in the log, and set them as the positions of ``states``.

        If some partitions fail, the others get their positions before the error is raised.
        """
        if not states:
            return
        versions = {state.topic_partition: state.version for state in states}
        specs = {state.topic_partition: self._spec(state) for state in states}
        topic_ids = self._topic_ids(states)
        failure: ItemsFailed | None = None
        try:
            found: Mapping[TopicPartition, FoundOffset] = await self.list_offsets(specs)
        except ItemsFailed as error:
            failure = error
            others = {
                each: spec
                for each, spec in specs.items()
                if each not in error.errors and each.topic not in error.errors
            }
            found = await self.list_offsets(others) if others else {}
        for state in states:
            if state.version == versions[state.topic_partition] and state.topic_partition in found:
                offset = found[state.topic_partition].offset
                if offset >= 0:
                    state.seek(offset, topic_id=topic_ids[state.topic_partition.topic])
                else:
                    state.seek_to(Start.LATEST)
        if failure is not None:
            raise failure

    def _topic_ids(self, states: list[PartitionState]) -> dict[str, TopicId]:
        """Return the ids of the topics of ``states``, by name.

        Call this before offsets are requested. If a topic is then created again, its id differs,
        and the offset is not used for it.
        """
        return {
            state.topic_partition.topic: self._cluster.view.topic_id_of(state.topic_partition.topic)
            for state in states
        }

    def _spec(self, state: PartitionState) -> OffsetSpec:
        if state.start is Start.TIME and self._config.reset_duration_ms is not None:
            return OffsetSpec.at(
                max(self._cluster.env.clock.wall_ms() - self._config.reset_duration_ms, 0)
            )
        return OffsetSpec.earliest() if state.start is Start.EARLIEST else OffsetSpec.latest()
