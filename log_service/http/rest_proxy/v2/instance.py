"""One consumer of a group, and the records that it has polled for its HTTP client.

Decides which records a response has, and which offsets a commit names. Offsets are committed here
and not by the consumer, because the consumer counts a record as read once it was polled. A record
counts as delivered once a response contains it.

Invariants: one request at a time uses the consumer. A polled record that no response contained is
kept, and the next response begins with it. Only delivered records are committed.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from log_service.client import Consumer, ConsumerRecord, OffsetAndMetadata, TopicPartition
from log_service.common import regexes
from log_service.common.env import Clock
from log_service.http.cluster_clients.hosted import HostedClient
from log_service.http.record_formats.records import size_of_headers
from log_service.http.rest_proxy import errors

MAX_POLLED: Final = 500
QUIET_MS: Final = 100
"""Time without a new record after which a response is complete, because clients wait for it."""
AUTO_COMMIT_MS: Final = 5_000
MATCH_MS: Final = 30_000
"""How often the topics of a pattern are looked for again."""
RECORD_OVERHEAD_BYTES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSettings:
    """The settings that a client chose for its consumer."""

    record_format: str = "binary"
    is_committing: bool = True
    """Whether delivered records are committed automatically."""
    request_timeout_ms: int = 1_000
    min_bytes: int = 1


class ConsumerInstance:
    """One consumer. Only ``owner``, the principal that created it, may use it."""

    def __init__(
        self,
        *,
        group: str,
        name: str,
        owner: str,
        settings: InstanceSettings,
        hosted: HostedClient[Consumer],
        clock: Clock,
    ) -> None:
        self.group = group
        self.name = name
        self.owner = owner
        self.settings = settings
        self._hosted = hosted
        self._consumer: Consumer | None = None
        """The consumer that all requests use. A reopened consumer has lost its positions."""
        self._is_closing = False
        self._clock = clock
        self._turn = trio.Lock()
        self._user_count = 0
        self._used_ms = clock.monotonic_ms()
        self._held: deque[ConsumerRecord] = deque()
        self._delivered: dict[TopicPartition, int] = {}
        self._taken: set[TopicPartition] = set()
        """Partitions of which records were taken since the last seek."""
        self._committed_ms = clock.monotonic_ms()
        self._pattern: str | None = None
        self._matched_ms = 0

    def __repr__(self) -> str:
        return f"<ConsumerInstance {self.group}/{self.name} held={len(self._held)}>"

    def is_idle_since(self, until_ms: int) -> bool:
        """Return whether no request has used the consumer since a time."""
        return self._user_count == 0 and self._used_ms <= until_ms

    async def __aenter__(self) -> Consumer:
        """Wait until no other request uses the consumer, and return the consumer."""
        self._user_count += 1
        try:
            await self._turn.acquire()
        except BaseException:
            self._user_count -= 1
            raise
        try:
            self._consumer = await self._open()
        except BaseException:
            self._leave()
            raise
        return self._consumer

    async def _open(self) -> Consumer:
        consumer = await self._hosted.get()
        if self._is_closing or self._consumer not in {None, consumer}:
            raise errors.instance_not_found()
        return consumer

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self._turn.release()
        self._user_count -= 1
        self._used_ms = self._clock.monotonic_ms()

    # Partitions

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to topics as a member of the group.

        Raises:
            RestError: 40903, partitions are assigned.
        """
        async with self as consumer:
            self._pattern = None
            await self._subscribe(consumer, topics)

    async def subscribe_pattern(self, pattern: str, topics: Iterable[str]) -> None:
        """Subscribe to the topics whose whole name matches a pattern.

        ``topics`` are the names of all topics of the cluster.

        Raises:
            KafkaError: INVALID_REGULAR_EXPRESSION, the pattern is not valid.
            RestError: 40903, partitions are assigned.
        """
        await trio.to_thread.run_sync(regexes.validate_regex, pattern)
        async with self as consumer:
            self._pattern = pattern
            await self._match(consumer, topics)

    def is_match_due(self) -> bool:
        """Return whether it is time to match the pattern with the cluster's topics again."""
        now_ms = self._clock.monotonic_ms()
        return self._pattern is not None and now_ms - self._matched_ms >= MATCH_MS

    async def match_again(self, topics: Iterable[str]) -> None:
        """Match the pattern with ``topics`` again, and subscribe to those that match."""
        async with self as consumer:
            await self._match(consumer, topics)

    async def _match(self, consumer: Consumer, topics: Iterable[str]) -> None:
        if self._pattern is None:
            return
        self._matched_ms = self._clock.monotonic_ms()
        find = partial(regexes.matching, self._pattern, list(topics))
        matching = await trio.to_thread.run_sync(find)
        if matching != consumer.subscription:
            await self._subscribe(consumer, sorted(matching))

    async def _subscribe(self, consumer: Consumer, topics: Sequence[str]) -> None:
        if consumer.assignment and not consumer.subscription:
            raise errors.illegal_state()
        await consumer.subscribe(topics, on_revoked=self._revoked, on_lost=self._lost)

    async def unsubscribe(self) -> None:
        """End the subscription or assignment, and leave the group."""
        async with self as consumer:
            await self._commit_delivered(consumer)
            self._pattern = None
            await consumer.unsubscribe()
            self._drop(set(), is_kept=True)

    async def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Assign exactly these partitions.

        Raises:
            RestError: 40903, the consumer is subscribed.
        """
        async with self as consumer:
            if consumer.subscription or self._pattern is not None:
                raise errors.illegal_state()
            consumer.assign(partitions)
            self._drop(set(consumer.assignment), is_kept=True)

    async def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        consumer = await self._hosted.get()
        if self.settings.is_committing:
            lost = set(partitions)
            mine = {each: end for each, end in self._delivered.items() if each in lost}
            if mine:
                await consumer.commit(mine)
        self._lost(partitions)

    def _lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._drop(set(partitions), is_kept=False)

    def _drop(self, partitions: set[TopicPartition], *, is_kept: bool) -> None:
        """Forget the kept records and delivered offsets of these partitions.

        With ``is_kept`` do the opposite: forget those of all partitions but these.
        """
        kept = [each for each in self._held if (each.topic_partition in partitions) is is_kept]
        self._held = deque(kept)
        for each in list(self._delivered):
            if (each in partitions) is not is_kept:
                del self._delivered[each]
        self._taken = {each for each in self._taken if (each in partitions) is is_kept}

    # Positions and commits

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Seek to these offsets.

        Raises:
            RestError: 40903, a partition is not assigned.
        """
        async with self as consumer:
            _require_assigned(consumer, offsets)
            self._drop(set(offsets), is_kept=False)
            for partition, offset in offsets.items():
                await consumer.seek(partition, offset)

    async def seek_to(self, partitions: Sequence[TopicPartition], *, is_end: bool) -> None:
        """Seek to the end or to the beginning of partitions.

        Raises:
            RestError: 40903, a partition is not assigned.
        """
        async with self as consumer:
            _require_assigned(consumer, partitions)
            self._drop(set(partitions), is_kept=False)
            if not partitions:
                return
            if is_end:
                await consumer.seek_to_end(partitions)
            else:
                await consumer.seek_to_beginning(partitions)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> None:
        """Commit these offsets. None commits the offsets after the delivered records."""
        async with self as consumer:
            if offsets is None:
                await self._commit_delivered(consumer)
            elif offsets:
                await consumer.commit(offsets)

    async def _commit_delivered(self, consumer: Consumer) -> None:
        delivered = dict(self._delivered)
        self._committed_ms = self._clock.monotonic_ms()
        if delivered:
            await consumer.commit(delivered)
            for partition, end in delivered.items():
                if self._delivered.get(partition) == end:
                    del self._delivered[partition]

    # Records

    async def take(self, max_bytes: int, timeout_ms: int) -> list[ConsumerRecord]:
        """Return the next records, of about ``max_bytes``, at least one if any arrives in time.

        The caller passes records that it cannot deliver to ``give_back``.
        """
        async with self as consumer:
            now_ms = self._clock.monotonic_ms()
            if self.settings.is_committing and now_ms - self._committed_ms >= AUTO_COMMIT_MS:
                await self._commit_delivered(consumer)
            taken: list[ConsumerRecord] = []
            try:
                await self._gather(consumer, taken, max_bytes, timeout_ms)
            except BaseException:
                self._held.extendleft(reversed(_of_assigned(consumer, taken)))
                raise
            kept = _of_assigned(consumer, taken)  # a poll may have given partitions up
            for each in kept:
                self._delivered[each.topic_partition] = each.offset + 1
                self._taken.add(each.topic_partition)
            return kept

    async def _gather(
        self, consumer: Consumer, taken: list[ConsumerRecord], max_bytes: int, timeout_ms: int
    ) -> None:
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        size_bytes = 0
        while True:
            while self._held:
                next_bytes = size_of(self._held[0])
                if taken and size_bytes + next_bytes > max_bytes:
                    return
                taken.append(self._held.popleft())
                size_bytes += next_bytes
            left_ms = max(deadline_ms - self._clock.monotonic_ms(), 0)
            is_enough = bool(taken) and size_bytes >= self.settings.min_bytes
            wait_ms = min(left_ms, QUIET_MS) if is_enough else left_ms
            polled = await consumer.poll(MAX_POLLED, timeout_ms=wait_ms)
            if not polled:
                return
            self._held.extend(polled)

    def give_back(self, records: Sequence[ConsumerRecord]) -> None:
        """Keep records that a response could not deliver. The next response begins with them.

        Records of partitions that were revoked meanwhile are dropped, because they belong to
        another member. Records that another request has skipped by a seek are dropped, too. The
        method does not wait for other requests, so that a cancelled request loses no record.
        """
        mine = [] if self._consumer is None else _of_assigned(self._consumer, records)
        kept = [each for each in mine if each.topic_partition in self._taken]
        self._held.extendleft(reversed(kept))
        for each in reversed(kept):
            self._delivered[each.topic_partition] = each.offset

    async def close(self) -> None:
        """Leave the group and close the consumer. A waiting poll ends at once.

        If automatic commits are on, first commit the offsets after the delivered records.
        """
        if self._user_count and self._consumer is not None:
            self._consumer.wakeup()
        try:
            async with self as consumer:
                self._is_closing = True
                if self.settings.is_committing:
                    await self._commit_delivered(consumer)
        finally:
            self._is_closing = True
            await self._hosted.close()

    async def expire(self) -> None:
        """Leave the group and close a consumer that no request has used for a while.

        Nothing is committed, because the client may not have processed the last response.
        """
        self._is_closing = True
        self._delivered.clear()  # giving up the partitions would commit them
        await self._hosted.close()


def size_of(record: ConsumerRecord) -> int:
    """Return about how many bytes a record takes in memory."""
    content = len(record.key or b"") + len(record.value or b"")
    return RECORD_OVERHEAD_BYTES + content + size_of_headers(record.headers)


def _of_assigned(consumer: Consumer, records: Iterable[ConsumerRecord]) -> list[ConsumerRecord]:
    """Return those of ``records`` whose partitions are assigned to the consumer now."""
    assigned = set(consumer.assignment)
    return [each for each in records if each.topic_partition in assigned]


def _require_assigned(consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
    assigned = set(consumer.assignment)
    for each in partitions:
        if each not in assigned:
            raise errors.not_assigned(each.topic, each.partition)
