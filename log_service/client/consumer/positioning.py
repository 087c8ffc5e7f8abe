"""Where a consumer reads: its half of the public face that looks at positions and moves them, pauses partitions and tells lag.

Decides how a question about a position becomes one about the log's ends, times or the group's commits. Polling, groups and commits are
``consumer``'s, which this class is a part of.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from operator import index

import trio

from log_service.client import arguments
from log_service.client.admin import offsets
from log_service.client.admin.values import FoundOffset, OffsetSpec
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.consumer.fetcher import Fetcher
from log_service.client.consumer.positions import find_positions
from log_service.client.consumer.subscriptions import PartitionState, Start, Subscriptions
from log_service.common.types import NO_LEADER_EPOCH, TopicPartition
from log_service.config.client import ConsumerConfig


class Positioning(ABC):
    """The positions of an open consumer."""

    config: ConsumerConfig
    _subscriptions: Subscriptions
    _fetcher: Fetcher
    _note_change: Callable[[], None]

    @property
    @abstractmethod
    def cluster(self) -> ClusterMetadata:
        """The client's view of its cluster; raises unless the consumer is open."""

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
        await self._seek_to(partitions, Start.EARLIEST)

    async def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Read on at the end of these partitions (default: all): the high watermark, or the last stable offset with read_committed."""
        await self._seek_to(partitions, Start.LATEST)

    async def seek_to_time(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Read on at the first record whose timestamp is at least that; at the end where there is none. Returns the offsets."""
        states = {each: self._subscriptions.of(each) for each in times_ms}
        found = await self.offsets_for_times(times_ms)
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

    # Where partitions begin and end; they need not be assigned

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Return how many offsets lie between the position and the end that a reader sees, as of the last fetch: no request is made.

        None before the first answer. Raises ValueError if the partition is not assigned.
        """
        state = self._subscriptions.of(topic_partition)
        end = state.last_stable_offset if self.config.isolation else state.high_watermark
        return None if end < 0 or not state.has_position else max(end - state.position, 0)

    async def current_lag(self, topic_partition: TopicPartition) -> int:
        """Return the lag; asks for position and end where no fetch has told them yet. Raises as ``position``."""
        known = self.lag(topic_partition)
        if known is not None:
            return known
        position = await self.position(topic_partition)
        return max((await self.end_offsets([topic_partition]))[topic_partition] - position, 0)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log start offsets. Raises KafkaError (``ItemsFailed``) where there is no such partition."""
        return await self._ends(partitions, OffsetSpec.earliest())

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends that a reader sees: high watermarks, or last stable offsets with read_committed. Raises as the beginnings."""
        return await self._ends(partitions, OffsetSpec.latest())

    async def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """Return the first record, by partition, whose timestamp is at least that; its offset is -1 where there is none."""
        specs = {each: OffsetSpec.at(time_ms) for each, time_ms in times_ms.items()}
        return await self._list_offsets(specs)

    async def partitions_for(self, topic: str) -> int:
        """Return how many partitions a topic has. Raises KafkaError if there is none."""
        return (await self.cluster.topic(topic, self.config.default_api_timeout_ms)).partition_count

    async def _ends(self, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        found = await self._list_offsets(dict.fromkeys(partitions, spec))
        return {each: answer.offset for each, answer in found.items()}

    async def _list_offsets(self, specs: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, FoundOffset]:
        return await offsets.list_offsets(self.cluster, specs, self.config.isolation, self.config.default_api_timeout_ms)

    async def _seek_to(self, partitions: Iterable[TopicPartition], start: Start) -> None:
        states = self._states(partitions)
        for state in states:
            state.seek_to(start)
        await find_positions(self.cluster, self.config, states)
        self._fetcher.wake()

    def _states(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        named = list(partitions)
        return [self._subscriptions.of(each) for each in named] if named else list(self._subscriptions)
