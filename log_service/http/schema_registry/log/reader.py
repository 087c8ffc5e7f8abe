"""Passes every record of the registry's topic to a listener, in order, and follows the log.

This module decides when the state must be rebuilt from the beginning: the topic was deleted and
created again, or the log was truncated below the position, or records were deleted before they were
read. Nothing else moves the position back. A batch that cannot be read is skipped with a warning
that names its offsets.

Invariants: between two calls of ``begin_anew`` the listener gets each record once, in the order of
offsets, all of one topic id. ``position`` is the next offset to read, and the listener has every
record before it. The reader never gives up. It continues after any error of the cluster.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import trio

from log_service.client.consumer.consumer import Consumer
from log_service.client.consumer.subscriptions import is_other_topic
from log_service.common.env import Env
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import NO_TOPIC_ID, TopicId, TopicPartition
from log_service.http.schema_registry.log.errors import ReadTimedOut
from log_service.rpc.retry import Backoff

logger = logging.getLogger(__name__)

IDLE_POLL_MS = 1_000
AWAITED_POLL_MS = 50
"""A poll does not end when the position moves past offsets without records.

While a task waits for an offset, polls are this short.
"""
FETCH_BYTES = 8 << 20
TURN_BYTES = 64 << 10
"""Bytes of records that are taken at once. Then other tasks get a turn."""
RECORD_BYTES = 1 << 10
"""The work of a record without content, in bytes."""
BACKOFF = Backoff(first_ms=100, max_ms=5_000)
SETTINGS: Mapping[str, Any] = {
    "auto_offset_reset": "none",
    "isolation_level": "read_uncommitted",
    "enable_auto_commit": False,
    "allow_auto_create_topics": False,
    "skip_corrupt_batches": True,
    "max_partition_fetch_bytes": FETCH_BYTES,
}
"""Settings of the consumer.

It reads uncommitted records as other registries do, so all see the same state.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One record of the registry's topic."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class LogListener(Protocol):
    """Builds the state from the records. It gets every record, also records of unknown kinds."""

    def begin_anew(self) -> None:
        """Forget all records. The first record of the log comes next."""

    def apply(self, record: LogRecord) -> None:
        """Apply the next record. An exception ends the reader, because it is a defect here."""

    async def settled(self) -> None:
        """Wait until the listener can take more records."""


class SchemasReader:
    """Reads one topic. ``settings`` are client settings for connections and logins."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        listener: LogListener,
        env: Env,
        settings: Mapping[str, Any],
    ) -> None:
        self._partition = TopicPartition(topic, 0)
        self._listener = listener
        self._env = env
        self._consumer = Consumer(bootstrap_servers, env=env, **{**settings, **SETTINGS})
        self._quiet = QuietLogger(logger, env.clock.monotonic_ms)
        self._is_begun = False
        self._waiter_count = 0
        self._moved = trio.Event()
        self.position = 0
        self.topic_id: TopicId = NO_TOPIC_ID

    def __repr__(self) -> str:
        return f"<SchemasReader {self._partition} position={self.position}>"

    async def run(self) -> None:
        """Read until the caller cancels."""
        failure_count = 0
        async with self._consumer as consumer:
            while True:
                try:
                    if not self._is_begun:
                        await self._begin(consumer)
                    await self._read(consumer)
                    failure_count = 0
                except KafkaError as error:
                    self._note(error)
                    await trio.sleep(BACKOFF.delay_ms(failure_count, self._env.rng) / 1_000)
                    failure_count += 1

    async def read_to(self, offset: int, timeout_ms: int) -> None:
        """Wait until the position is after ``offset``, so that the listener has the record there.

        Raises:
            ReadTimedOut: reading took longer than ``timeout_ms``.
        """
        self._waiter_count += 1
        try:
            with trio.move_on_after(timeout_ms / 1_000):
                if self.position <= offset:
                    self._consumer.wakeup()
                while self.position <= offset:
                    await self._moved.wait()
        finally:
            self._waiter_count -= 1
        if self.position <= offset:
            raise ReadTimedOut(
                f"{self._partition} was read to offset {self.position} within {timeout_ms} ms, not"
                f" beyond {offset}"
            )

    async def _begin(self, consumer: Consumer) -> None:
        """Start reading from the beginning of the topic that exists now, with an empty state."""
        name = self._partition.topic
        topic = await consumer.cluster.topic(name, consumer.config.default_api_timeout_ms)
        self.topic_id = topic.topic_id
        consumer.assign([self._partition])
        await consumer.seek_to_beginning([self._partition])
        self._listener.begin_anew()
        self._is_begun = True
        self._move(await consumer.position(self._partition))

    async def _read(self, consumer: Consumer) -> None:
        """Poll once, and pass the records to the listener.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, the topic was deleted and created again.
        """
        timeout_ms = AWAITED_POLL_MS if self._waiter_count else IDLE_POLL_MS
        records = await consumer.poll(timeout_ms=timeout_ms)
        current = consumer.cluster.view.topic_id_of(self._partition.topic)
        if is_other_topic(self.topic_id, current):
            text = f"topic {self._partition.topic} was deleted and created anew"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        size_bytes = 0
        for record in records:
            found = LogRecord(
                offset=record.offset,
                timestamp_ms=record.timestamp_ms,
                key=record.key,
                value=record.value,
            )
            self._listener.apply(found)
            size_bytes += RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
            if size_bytes > TURN_BYTES:
                size_bytes = 0
                await self._listener.settled()
                await trio.lowlevel.checkpoint()
        await self._listener.settled()
        self._move(await consumer.position(self._partition))

    def _move(self, position: int) -> None:
        if position != self.position:
            self.position = position
            self._moved.set()
            self._moved = trio.Event()

    def _note(self, error: KafkaError) -> None:
        """Log an error. If records that were read are gone, arrange to read from the beginning."""
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            text = (
                "%s: %s. Every schema that is not in the log any more is gone. The log is read anew"
                " from its beginning"
            )
            logger.error(text, self._partition, error)
            self._is_begun = False
        else:
            self._quiet.warning(
                error.code,
                "%s: reading stands at offset %d: %s",
                self._partition,
                self.position,
                error,
            )
