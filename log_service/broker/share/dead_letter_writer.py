"""Writes dead letters: copies of records that no member of a share group could process.

Decides when to try again, and which error to report. A letter is written as a producer with
``acks=all`` would write it, to the leader of its partition, on the listener between brokers. So all
in-sync replicas have it when ``on_done`` is called. A missing topic is created if the broker
creates topics.

A letter may be written twice. The record becomes final only after its letter is written. If the
leader dies in between, its successor delivers the record or gives it up again. A letter is never
missing, because no record of a group with dead letters is given up before its letter is replicated.
Records that the log has deleted meanwhile have no letter.

Invariants: at most ``MAX_CONCURRENT_WRITES`` writes hold records in memory at a time, one chunk of
the log each. One group has at most ``MAX_WRITES_OF_A_GROUP`` of them, so a topic that accepts no
letters delays only its own groups.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from log_service.broker.leader_produce import produce_to_leader
from log_service.broker.peers import destination_of
from log_service.broker.requests.call import StartTask
from log_service.broker.share.dead_letter_content import (
    Letter,
    Origin,
    batch_of,
    grouped,
    letters_in,
)
from log_service.broker.share.led_share_partition import OnDone, OnSafe
from log_service.common.env import Clock, RunInPool
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.coordinator.share.in_flight import DeadLetterRange
from log_service.coordinator.share.share_state import ShareKey
from log_service.metadata.image import MetadataImage
from log_service.replication.partition import Partition

if TYPE_CHECKING:
    from log_service.rpc.pool import ConnectionPool

MAX_CONCURRENT_WRITES = 8
MAX_WRITES_OF_A_GROUP = 2
ATTEMPTS = 5
RETRY_MS = 100
PURPOSE = "dead letters"

CreateTopic = Callable[[str], Awaitable[None]]

logger = logging.getLogger(__name__)


class DeadLetterWriter:
    """Writes the dead letters of a node's share partitions.

    ``create_topic`` is None if the broker creates no topics.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        image: Callable[[], MetadataImage],
        listener_name: str,
        pool: "Callable[[], ConnectionPool]",
        run_in_pool: RunInPool,
        start_task: StartTask,
        create_topic: CreateTopic | None,
    ) -> None:
        self._clock = clock
        self._image = image
        self._listener_name = listener_name
        self._pool = pool
        self._run_in_pool = run_in_pool
        self._start_task = start_task
        self._create_topic = create_topic
        self._places = trio.Semaphore(MAX_CONCURRENT_WRITES)
        self._of_groups: dict[str, trio.CapacityLimiter] = {}
        self._quiet = QuietLogger(logger, clock.monotonic_ms)

    @property
    def writing_groups(self) -> Collection[str]:
        """The groups with a write in progress or waiting."""
        return self._of_groups.keys()

    def write(  # noqa: PLR0917 - as ``DeadLetters``
        self,
        key: ShareKey,
        partition: Partition,
        topic: str,
        dead: Sequence[DeadLetterRange],
        on_safe: OnSafe,
        on_done: OnDone,
    ) -> None:
        """Write dead letters for records of ``partition`` to a topic.

        ``on_safe`` is called for each range whose letters are replicated. ``on_done`` is called
        once at the end, with an error if some could not be written now.
        """
        self._start_task(self._write, key, partition, topic, dead, on_safe, on_done)

    async def _write(  # noqa: PLR0917 - as ``write``
        self,
        key: ShareKey,
        partition: Partition,
        topic: str,
        dead: Sequence[DeadLetterRange],
        on_safe: OnSafe,
        on_done: OnDone,
    ) -> None:
        where = partition.topic_partition
        origin = Origin(group_id=key.group_id, topic=where.topic, partition=where.partition)
        try:
            async with self._place_of(key.group_id), self._places:
                for each in dead:
                    await self._write_range(partition, topic, each, origin)
                    on_safe(each)
        except KafkaError as error:
            text = "dead letters of group %s, %s cannot be written to %s yet, its records wait: %s"
            self._quiet.warning(
                (key.group_id, topic, error.code), text, key.group_id, where, topic, error
            )
            on_done(error)
        else:
            on_done(None)

    @asynccontextmanager
    async def _place_of(self, group_id: str) -> AsyncIterator[None]:
        """Wait until the group may make another write, and count the write during the block."""
        own = self._of_groups.setdefault(group_id, trio.CapacityLimiter(MAX_WRITES_OF_A_GROUP))
        try:
            async with own:
                yield
        finally:
            if not own.borrowed_tokens:
                self._of_groups.pop(group_id, None)

    async def _write_range(
        self, partition: Partition, topic: str, dead: DeadLetterRange, origin: Origin
    ) -> None:
        chunks = _chunks(partition, dead)
        while (chunk := await self._run_in_pool(partial(next, chunks, None))) is not None:
            for letters in grouped(letters_in(chunk, dead, origin)):
                await self._produce_letters(topic, letters)

    async def _produce_letters(self, topic: str, letters: Sequence[Letter]) -> None:
        now_ms = self._clock.wall_ms()
        index = letters[0].origin.partition
        try:
            await self._produce(topic, index, batch_of(letters, now_ms))
        except KafkaError as error:
            if error.code not in _TOO_LARGE:
                raise
        else:
            return
        for letter in letters:
            try:
                await self._produce(topic, index, letter.batch(now_ms))
            except KafkaError as error:
                if error.code not in _TOO_LARGE:
                    raise
                await self._produce(topic, index, letter.batch_without_copy(now_ms))

    async def _produce(self, topic: str, source_index: int, batch: bytearray) -> None:
        """Write one batch, with retries. The number of the source partition chooses the partition.

        Raises:
            KafkaError: the batch could not be written, or it is unknown whether it was.
        """
        for attempt in range(ATTEMPTS):
            try:
                await self._produce_once(topic, source_index, batch)
            except KafkaError as error:
                if error.code in _TOO_LARGE or attempt == ATTEMPTS - 1:
                    raise
                await trio.sleep(RETRY_MS / 1_000)
            else:
                return

    async def _produce_once(self, topic: str, source_index: int, batch: bytearray) -> None:
        found = self._image().topics.by_name.get(topic)
        if found is None:
            if self._create_topic is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}: create it"
                )
            await self._create_topic(topic)
            found = self._image().topics.by_name.get(topic)
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} is not known here yet"
            )
        index = sorted(found.partitions)[source_index % len(found.partitions)]
        leader = found.partitions[index].leader
        destination = destination_of(
            self._image(), leader, self._listener_name, PURPOSE, with_fenced=True
        )
        if destination is None:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE,
                "the partition of the dead letters has no leader that can be reached",
            )
        await produce_to_leader(self._pool(), destination, topic, index, batch)


_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def _chunks(partition: Partition, dead: DeadLetterRange) -> Iterator[bytes]:
    """Yield whole batches that hold dead records, except those that the log has deleted."""
    log = partition.served_log()
    first = max(dead.first_offset, log.log_start_offset)
    if first <= dead.last_offset:
        yield from log.read_batches(first, dead.last_offset + 1)
